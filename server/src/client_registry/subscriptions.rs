//! What one consumer group subscribes to: one subscription per topic, by the rules of merging heartbeats.

use std::collections::{BTreeMap, BTreeSet};

use protocol::body::SubscriptionData;

use crate::subscription::{SubscriptionError, TagFilter};

/// The subscriptions of one group by topic.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    by_topic: BTreeMap<String, Subscription>,
    bytes: usize,
}

/// A subscription and what it means to a pull.
#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) data: SubscriptionData,
    /// A subscription that can't be used is kept: its pulls are told what is wrong.
    pub(super) filter: Result<TagFilter, SubscriptionError>,
}

impl Subscriptions {
    pub(super) fn get(&self, topic: &str) -> Option<&Subscription> {
        self.by_topic.get(topic)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &SubscriptionData> {
        self.by_topic.values().map(|subscription| &subscription.data)
    }

    /// What they take, see [`bytes_of`].
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The most they take after [`Subscriptions::merge`] of these.
    pub(super) fn bytes_after(&self, heartbeat: &[SubscriptionData]) -> usize {
        let bytes = |new: &SubscriptionData| match self.by_topic.get(&new.topic) {
            Some(old) if !is_newer(new, &old.data) => bytes_of(&old.data),
            _ => bytes_of(new),
        };
        heartbeat.iter().map(bytes).sum()
    }

    /// Makes the subscriptions those of a heartbeat: of a topic that is known the newer one counts, topics that it
    /// doesn't name are dropped. `true` when topics came or went, which is what members are told about; a mere change
    /// of the filter isn't.
    pub(super) fn merge(&mut self, heartbeat: &[SubscriptionData]) -> bool {
        let mut is_changed = false;
        for new in heartbeat {
            let old = self.by_topic.get(&new.topic);
            if old.is_some_and(|old| !is_newer(new, &old.data)) {
                continue;
            }
            is_changed |= old.is_none();
            self.bytes -= old.map_or(0, |old| bytes_of(&old.data));
            self.bytes += bytes_of(new);
            let filter = TagFilter::of_subscription(new);
            self.by_topic.insert(new.topic.clone(), Subscription { data: new.clone(), filter });
        }
        self.drop_absent(heartbeat) || is_changed
    }

    /// Whether there were any.
    fn drop_absent(&mut self, heartbeat: &[SubscriptionData]) -> bool {
        let named: BTreeSet<&str> = heartbeat.iter().map(|named| named.topic.as_str()).collect();
        let count_before = self.by_topic.len();
        self.by_topic.retain(|topic, subscription| {
            let stays = named.contains(topic.as_str());
            self.bytes -= if stays { 0 } else { bytes_of(&subscription.data) };
            stays
        });
        self.by_topic.len() != count_before
    }
}

fn is_newer(new: &SubscriptionData, old: &SubscriptionData) -> bool {
    new.sub_version > old.sub_version
}

/// About what a kept subscription takes in memory, its filter and its place in the table included.
pub(super) fn bytes_of(data: &SubscriptionData) -> usize {
    let tags: usize = data.tags_set.iter().map(|tag| tag.len() + size_of::<String>()).sum();
    // Without hashes the filter's are made of the expression: no more than one for three bytes, `A||`.
    let codes = data.code_set.len().max(data.sub_string.len() / 3 + 1) * size_of::<i32>();
    let texts = 2 * data.topic.len() + data.sub_string.len() + data.expression_type.len();
    size_of::<Subscription>() + texts + tags + 2 * codes
}

/// The sum of [`bytes_of`].
pub(super) fn bytes_of_all(subscriptions: &[SubscriptionData]) -> usize {
    subscriptions.iter().map(bytes_of).sum()
}
