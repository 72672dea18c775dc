//! Filters that pulls brought along, kept for whoever asks what a group without heartbeats consumes. Nothing depends on
//! them: what doesn't fit isn't kept.

use std::{collections::BTreeMap, time::Duration};

use protocol::{
    body::{SubscriptionData, heartbeat::EXPRESSION_TYPE_TAG},
    properties::java_string_hash,
};

use super::{ClientRegistryLimits, subscriptions::bytes_of};
use crate::subscription::{EXPRESSION_ALL, is_tag_type, tags};

/// What a pull with a filter of its own says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PullSubscription<'a> {
    /// The group.
    pub group: &'a str,
    /// The topic.
    pub topic: &'a str,
    /// The expression; none or an empty one is `*`.
    pub expression: Option<&'a str>,
    /// Its type; none is `TAG`.
    pub expression_type: Option<&'a str>,
    /// Its version, milliseconds of the epoch.
    pub sub_version: i64,
}

impl PullSubscription<'_> {
    fn expression(&self) -> &str {
        self.expression.filter(|expression| !expression.is_empty()).unwrap_or(EXPRESSION_ALL)
    }

    fn expression_type(&self) -> &str {
        self.expression_type.filter(|kind| !kind.is_empty()).unwrap_or(EXPRESSION_TYPE_TAG)
    }

    fn is_of(&self, data: &SubscriptionData) -> bool {
        self.sub_version == data.sub_version
            && self.expression() == data.sub_string
            && self.expression_type() == data.expression_type
    }

    fn to_data(self) -> SubscriptionData {
        let is_tags = is_tag_type(self.expression_type()) && self.expression() != EXPRESSION_ALL;
        let tags_set: Vec<String> =
            if is_tags { tags(self.expression()).map(str::to_owned).collect() } else { Vec::new() };
        SubscriptionData {
            class_filter_mode: false,
            code_set: tags_set.iter().map(|tag| java_string_hash(tag)).collect(),
            expression_type: self.expression_type().to_owned(),
            sub_string: self.expression().to_owned(),
            sub_version: self.sub_version,
            tags_set,
            topic: self.topic.to_owned(),
        }
    }
}

/// See the module. By group, then by topic.
#[derive(Debug, Default)]
pub(super) struct PulledSubscriptions {
    by_group: BTreeMap<String, BTreeMap<String, Pulled>>,
    bytes: usize,
    unrecorded_count: u64,
}

#[derive(Debug)]
struct Pulled {
    data: SubscriptionData,
    last_pull: Duration,
}

impl PulledSubscriptions {
    pub(super) fn get(&self, group: &str, topic: &str) -> Option<&SubscriptionData> {
        Some(&self.by_group.get(group)?.get(topic)?.data)
    }

    pub(super) fn unrecorded_count(&self) -> u64 {
        self.unrecorded_count
    }

    pub(super) fn on_pull(
        &mut self,
        pull: &PullSubscription<'_>,
        now: Duration,
        limits: &ClientRegistryLimits,
    ) {
        let known = self.by_group.get_mut(pull.group).and_then(|topics| topics.get_mut(pull.topic));
        let mut bytes_before = 0;
        if let Some(known) = known {
            if pull.is_of(&known.data) {
                known.last_pull = now;
                return;
            }
            bytes_before = cost(pull.group, &known.data);
        }
        // Looked at before anything is made of it: what a filter takes grows with its text.
        let text_bytes = pull.group.len() + pull.topic.len() + pull.expression().len();
        if self.bytes - bytes_before + text_bytes > limits.pull_subscription_bytes_max {
            self.unrecorded_count += 1;
            return;
        }
        let data = pull.to_data();
        let bytes_after = self.bytes - bytes_before + cost(pull.group, &data);
        if bytes_after > limits.pull_subscription_bytes_max {
            self.unrecorded_count += 1;
            return;
        }
        self.bytes = bytes_after;
        let topics = self.by_group.entry(pull.group.to_owned()).or_default();
        topics.insert(pull.topic.to_owned(), Pulled { data, last_pull: now });
    }

    /// Forgets what nobody pulled with for longer than `age_max`.
    pub(super) fn expire(&mut self, now: Duration, age_max: Duration) {
        self.by_group.retain(|group, topics| {
            topics.retain(|_, pulled| {
                let stays = now.saturating_sub(pulled.last_pull) <= age_max;
                self.bytes -= if stays { 0 } else { cost(group, &pulled.data) };
                stays
            });
            !topics.is_empty()
        });
    }
}

/// What a filter takes, its share of the table included: each topic counts its group's name.
fn cost(group: &str, data: &SubscriptionData) -> usize {
    group.len() + size_of::<BTreeMap<String, Pulled>>() + bytes_of(data)
}
