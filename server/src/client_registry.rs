//! The clients of this broker by group: who produces, who consumes, over which connection, subscribed to what.
//!
//! Plain state, changed by heartbeats (34), leavings (35), lost connections and the passing of time, which comes in as
//! the duration since start. Does no I/O, reads no clock, creates no topic and no group: it says which groups are to
//! be told (40), which are new, and which connections are to be closed, and the caller acts.
//!
//! ```text
//! role, group ──> members by client id ──> connection, time of the last heartbeat
//!         └─────> subscriptions by topic (consumers)
//! connection ───> its memberships: what is lost with it
//! ```
//!
//! Invariants: a client id is in a group once, and what counts is the connection it spoke over last; a group is here as
//! long as it has members; each membership is indexed under exactly one connection. Everything is bounded by
//! [`ClientRegistryLimits`], and what would exceed a bound is refused before anything changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use protocol::{
    Language,
    body::{
        ConsumerData, HeartbeatData, SubscriptionData,
        heartbeat::{ConsumeFromWhere, ConsumeType, MessageModel},
    },
};

use crate::{
    connection::table::ConnectionKey,
    subscription::{SubscriptionError, TagFilter},
};

mod limits;
mod members;
mod pulled;
mod subscriptions;

pub use limits::{ClientRegistryLimits, RefusalReason, Refused};
pub use members::{Member, Members, Role};
pub use pulled::PullSubscription;

use members::{ConnectionIndex, Heard, Membership};
use pulled::PulledSubscriptions;
use subscriptions::Subscriptions;

/// See the module.
pub struct ClientRegistry {
    consumers: BTreeMap<String, ConsumerGroup>,
    producers: BTreeMap<String, Members>,
    pulled: PulledSubscriptions,
    /// Where every membership is found by its connection.
    index: ConnectionIndex,
    /// What all subscriptions of consumers take.
    subscription_bytes: usize,
    limits: ClientRegistryLimits,
}

/// A consumer group with at least one member.
struct ConsumerGroup {
    members: Members,
    subscriptions: Subscriptions,
    consume_type: ConsumeType,
    message_model: MessageModel,
    consume_from_where: ConsumeFromWhere,
}

/// What a consumer group said of itself in its last heartbeat, whoever sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupInfo {
    /// How it consumes.
    pub consume_type: ConsumeType,
    /// Whether its members share the messages.
    pub message_model: MessageModel,
    /// Where it begins when nothing is stored.
    pub consume_from_where: ConsumeFromWhere,
    /// How many client ids; never 0.
    pub member_count: usize,
}

/// A consumer group that had no member before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewConsumerGroup {
    /// Its name.
    pub group: String,
    /// Whether it is in unit mode.
    pub unit_mode: bool,
}

impl NewConsumerGroup {
    fn of(data: &ConsumerData) -> NewConsumerGroup {
        NewConsumerGroup { group: data.group_name.clone(), unit_mode: data.unit_mode }
    }
}

/// What a heartbeat leaves to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeartbeatEffects {
    /// Groups with a new member, a new connection of a member, or with topics added or removed: all their
    /// [`ClientRegistry::channels`] get a 40, the new one too. Never one that is broadcasting.
    pub groups_changed: Vec<String>,
    /// Consumer groups that come to life: their configuration and `%RETRY%` topic must exist from now on.
    pub new_consumer_groups: Vec<NewConsumerGroup>,
    /// What wasn't taken. Everything else of the heartbeat was.
    pub refused: Vec<Refused>,
}

/// One heartbeat's sender.
#[derive(Clone, Copy)]
struct Sender<'a> {
    client_id: &'a str,
    member: Member,
    without_sub: bool,
}

impl ClientRegistry {
    /// Nobody yet.
    #[must_use]
    pub fn new(limits: ClientRegistryLimits) -> ClientRegistry {
        ClientRegistry {
            consumers: BTreeMap::new(),
            producers: BTreeMap::new(),
            pulled: PulledSubscriptions::default(),
            index: ConnectionIndex::default(),
            subscription_bytes: 0,
            limits,
        }
    }

    /// A client says which groups it is in. Groups that it no longer names it stays in until it leaves them, its
    /// connection goes, or they [`expire`](ClientRegistry::expire): so does RocketMQ.
    ///
    /// Groups that may not exist (no configuration, none created by itself) are for the caller to take out before.
    /// Fingerprints of heartbeats of the second kind aren't kept: the answer's `IS_SUB_CHANGE` is always true, and such
    /// a client goes on sending its subscriptions. A heartbeat without them leaves those of the group as they are.
    pub fn on_heartbeat(
        &mut self,
        connection: ConnectionKey,
        heartbeat: &HeartbeatData,
        version: i32,
        language: Language,
        now: Duration,
    ) -> HeartbeatEffects {
        let sender = Sender {
            client_id: &heartbeat.client_id,
            member: Member { connection, version, language, last_heartbeat: now },
            without_sub: heartbeat.without_sub,
        };
        let mut effects = HeartbeatEffects::default();
        let mut changed = BTreeSet::new();
        for data in &heartbeat.consumer_data {
            match self.hear_consumer(sender, data, &mut changed) {
                Ok(true) => effects.new_consumer_groups.push(NewConsumerGroup::of(data)),
                Ok(false) => {}
                Err(reason) => effects.refused.push(Refused::new(Role::Consumer, &data.group_name, reason)),
            }
        }
        for data in &heartbeat.producer_data {
            if let Err(reason) = self.hear_producer(sender, &data.group_name) {
                effects.refused.push(Refused::new(Role::Producer, &data.group_name, reason));
            }
        }
        effects.groups_changed = changed.into_iter().collect();
        effects
    }

    /// A client leaves groups, as far as it is there over this very connection: one that meanwhile speaks over another
    /// is not thrown out by what it said before. Returns the groups to tell. An empty name is none.
    pub fn on_unregister(
        &mut self,
        connection: ConnectionKey,
        client_id: &str,
        producer_group: Option<&str>,
        consumer_group: Option<&str>,
    ) -> Vec<String> {
        let mut changed = BTreeSet::new();
        for (role, group) in [(Role::Producer, producer_group), (Role::Consumer, consumer_group)] {
            let Some(group) = group else { continue };
            let is_member = self.members(role, group).and_then(|members| members.get(client_id));
            if is_member.is_some_and(|member| member.connection == connection) {
                let membership = Membership::new(role, group, client_id);
                self.index.remove(connection, &membership);
                self.leave(&membership, &mut changed);
            }
        }
        self.groups_to_tell(changed)
    }

    /// A connection is gone, and with it whoever spoke over it last. Returns the groups to tell.
    pub fn on_disconnected(&mut self, connection: ConnectionKey) -> Vec<String> {
        let mut changed = BTreeSet::new();
        for membership in self.index.remove_connection(connection) {
            self.leave(&membership, &mut changed);
        }
        self.groups_to_tell(changed)
    }

    /// Drops who hasn't been heard of for longer than `age_max`. Returns the groups to tell, and the connections to
    /// close: those that lost somebody and have nobody left. (RocketMQ closes them all; a client that merely stopped
    /// naming one of its groups would lose the others for a moment.)
    pub fn expire(&mut self, now: Duration, age_max: Duration) -> (Vec<String>, Vec<ConnectionKey>) {
        self.pulled.expire(now, self.limits.pull_subscription_age_max);
        let is_old = |member: &Member| now.saturating_sub(member.last_heartbeat) > age_max;
        let mut old = Vec::new();
        for (group, consumers) in &self.consumers {
            old.extend(consumers.members.memberships_where(Role::Consumer, group, is_old));
        }
        for (group, members) in &self.producers {
            old.extend(members.memberships_where(Role::Producer, group, is_old));
        }
        let mut changed = BTreeSet::new();
        let mut connections = BTreeSet::new();
        for (connection, membership) in &old {
            self.index.remove(*connection, membership);
            self.leave(membership, &mut changed);
            connections.insert(*connection);
        }
        connections.retain(|connection| self.index.count_of(*connection) == 0);
        (self.groups_to_tell(changed), connections.into_iter().collect())
    }

    /// A pull brought its own filter: it is remembered for whoever asks what the group consumes. Such a group needs no
    /// heartbeat, gets no 40 and isn't a live one. Costs no allocation when the pull repeats what is known. When there
    /// is no room it isn't remembered, and counted: the pull itself doesn't depend on it.
    pub fn on_pull_subscription(&mut self, pull: &PullSubscription<'_>, now: Duration) {
        self.pulled.on_pull(pull, now, &self.limits);
    }

    /// The client ids of a live consumer group, ascending (38): the same on every broker that knows the same ones.
    #[must_use]
    pub fn consumer_ids(&self, group: &str) -> Option<impl Iterator<Item = &str>> {
        Some(self.consumers.get(group)?.members.iter().map(|(client_id, _)| client_id))
    }

    /// The connections of a consumer group's members, each once: who gets a 40.
    pub fn channels(&self, group: &str) -> impl Iterator<Item = ConnectionKey> + use<> {
        let members = self.consumers.get(group).map(|consumers| &consumers.members);
        let connections = members.into_iter().flat_map(Members::iter).map(|(_, member)| member.connection);
        connections.collect::<BTreeSet<ConnectionKey>>().into_iter()
    }

    /// What a live consumer group said of itself.
    #[must_use]
    pub fn group_info(&self, group: &str) -> Option<GroupInfo> {
        self.consumers.get(group).map(|consumers| GroupInfo {
            consume_type: consumers.consume_type,
            message_model: consumers.message_model,
            consume_from_where: consumers.consume_from_where,
            member_count: consumers.members.len(),
        })
    }

    /// What a live consumer group subscribes to in a topic.
    #[must_use]
    pub fn subscription(&self, group: &str, topic: &str) -> Option<&SubscriptionData> {
        self.consumers.get(group)?.subscriptions.get(topic).map(|subscription| &subscription.data)
    }

    /// All subscriptions of a live consumer group, by topic.
    pub fn subscriptions(&self, group: &str) -> impl Iterator<Item = &SubscriptionData> {
        self.consumers.get(group).into_iter().flat_map(|consumers| consumers.subscriptions.iter())
    }

    /// What pulls without heartbeats last asked for, see [`ClientRegistry::on_pull_subscription`].
    #[must_use]
    pub fn pull_subscription(&self, group: &str, topic: &str) -> Option<&SubscriptionData> {
        self.pulled.get(group, topic)
    }

    /// The filter of a pull that brings none of its own, by RocketMQ's checks in RocketMQ's order. (Whether
    /// broadcasting is allowed stands between the first and the second: see [`ClientRegistry::group_info`].)
    ///
    /// # Errors
    /// [`SubscriptionError::GroupNotOnline`], [`SubscriptionError::NotSubscribed`], [`SubscriptionError::NotLatest`], or
    /// what was wrong with the subscription itself.
    pub fn filter(
        &self,
        group: &str,
        topic: &str,
        sub_version: i64,
    ) -> Result<&TagFilter, SubscriptionError> {
        let consumers = self.consumers.get(group).ok_or(SubscriptionError::GroupNotOnline)?;
        let subscription = consumers.subscriptions.get(topic).ok_or(SubscriptionError::NotSubscribed)?;
        if subscription.data.sub_version < sub_version {
            return Err(SubscriptionError::NotLatest);
        }
        subscription.filter.as_ref().map_err(SubscriptionError::clone)
    }

    /// A connection of a producer group, another one each time as long as there are others: where to ask how a
    /// transaction ended.
    pub fn producer_channel(&mut self, group: &str) -> Option<ConnectionKey> {
        self.producers.get_mut(group).map(Members::next_connection)
    }

    /// The members of a group, if it has any.
    #[must_use]
    pub fn members(&self, role: Role, group: &str) -> Option<&Members> {
        match role {
            Role::Consumer => self.consumers.get(group).map(|consumers| &consumers.members),
            Role::Producer => self.producers.get(group),
        }
    }

    /// How many groups of this role have members.
    #[must_use]
    pub fn group_count(&self, role: Role) -> usize {
        match role {
            Role::Consumer => self.consumers.len(),
            Role::Producer => self.producers.len(),
        }
    }

    /// How many memberships there are: client ids, counted once per group and role.
    #[must_use]
    pub fn membership_count(&self) -> usize {
        self.index.len()
    }

    /// How many pulls' filters weren't remembered for want of room; only grows.
    #[must_use]
    pub fn pull_subscriptions_unrecorded(&self) -> u64 {
        self.pulled.unrecorded_count()
    }

    /// Whether the group is new, when there is room for all of it.
    fn hear_consumer(
        &mut self,
        sender: Sender<'_>,
        data: &ConsumerData,
        changed: &mut BTreeSet<String>,
    ) -> Result<bool, RefusalReason> {
        self.check_room(Role::Consumer, &data.group_name, sender)?;
        let bytes_max = self.check_subscriptions(sender, data)?;

        let is_new = !self.consumers.contains_key(&data.group_name);
        if is_new {
            self.consumers.insert(data.group_name.clone(), ConsumerGroup::new());
        }
        let group = self.consumers.get_mut(&data.group_name).expect("it was inserted if it was missing");
        group.consume_type = data.consume_type;
        group.message_model = data.message_model;
        group.consume_from_where = data.consume_from_where;
        let heard = group.members.hear(sender.client_id, sender.member);
        let mut is_changed = heard != Heard::Again;
        let bytes_before = group.subscriptions.bytes();
        if !sender.without_sub {
            is_changed |= group.subscriptions.merge(&data.subscriptions);
        }
        let bytes = group.subscriptions.bytes();
        assert!(bytes <= bytes_max, "subscriptions of {bytes} bytes where {bytes_max} were foreseen");
        self.subscription_bytes = self.subscription_bytes - bytes_before + bytes;
        if is_changed && group.message_model != MessageModel::Broadcasting {
            changed.insert(data.group_name.clone());
        }
        self.index_heard(heard, Role::Consumer, &data.group_name, sender);
        Ok(is_new)
    }

    fn hear_producer(&mut self, sender: Sender<'_>, group: &str) -> Result<(), RefusalReason> {
        self.check_room(Role::Producer, group, sender)?;
        if !self.producers.contains_key(group) {
            self.producers.insert(group.to_owned(), Members::default());
        }
        let members = self.producers.get_mut(group).expect("it was inserted if it was missing");
        let heard = members.hear(sender.client_id, sender.member);
        self.index_heard(heard, Role::Producer, group, sender);
        Ok(())
    }

    fn index_heard(&mut self, heard: Heard, role: Role, group: &str, sender: Sender<'_>) {
        if heard == Heard::Again {
            return;
        }
        let membership = Membership::new(role, group, sender.client_id);
        if let Heard::Moved { from } = heard {
            self.index.remove(from, &membership);
        }
        self.index.insert(sender.member.connection, membership);
    }

    /// Takes a membership that the index no longer has out of its group, and the group away with its last one.
    fn leave(&mut self, membership: &Membership, changed: &mut BTreeSet<String>) {
        let Membership { role, group, client_id } = membership;
        match role {
            Role::Consumer => {
                let consumers = self.consumers.get_mut(group).expect("the index names groups that are there");
                consumers.members.remove(client_id);
                if consumers.members.is_empty() {
                    self.subscription_bytes -= consumers.subscriptions.bytes();
                    self.consumers.remove(group);
                } else {
                    changed.insert(group.clone());
                }
            }
            Role::Producer => {
                let members = self.producers.get_mut(group).expect("the index names groups that are there");
                members.remove(client_id);
                if members.is_empty() {
                    self.producers.remove(group);
                }
            }
        }
    }

    /// Of the groups that lost somebody those that are still there and share their messages.
    fn groups_to_tell(&self, changed: BTreeSet<String>) -> Vec<String> {
        let is_told = |group: &String| {
            self.group_info(group).is_some_and(|info| info.message_model != MessageModel::Broadcasting)
        };
        changed.into_iter().filter(is_told).collect()
    }
}

impl ConsumerGroup {
    fn new() -> ConsumerGroup {
        ConsumerGroup {
            members: Members::default(),
            subscriptions: Subscriptions::default(),
            consume_type: ConsumeType::default(),
            message_model: MessageModel::default(),
            consume_from_where: ConsumeFromWhere::default(),
        }
    }
}

#[cfg(test)]
mod tests;
