//! Pulls that wait for messages (RocketMQ's long polling).
//!
//! A hold ends when a matching message is dispatched to its queue, when its time is up, when its queue has grown
//! by messages that don't match (looked at every [`RECHECK`], as RocketMQ does), or when its connection is gone.
//! It ends by being handed out once, to be run again without permission to wait. Nothing here sends anything.

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use super::pull::Pull;
use crate::{derive::consume_queue::QueueIndex, offset::QueueOffset, write::ack::ReplyTo};

/// How often a hold's queue is looked at although nothing that matches was dispatched to it.
pub const RECHECK: Duration = Duration::from_secs(5);

/// A pull that waits.
#[derive(Clone, Debug)]
pub struct HeldPull {
    /// Where the answer goes.
    pub reply_to: ReplyTo,
    /// What was asked for.
    pub pull: Pull,
    /// When it is answered at the latest.
    pub deadline: Instant,
}

/// See the module.
#[derive(Default)]
pub struct Holds {
    next_id: u64,
    held: HashMap<u64, HeldPull>,
    // Sets, not lists: thousands may wait in one queue or for one connection, and end one after the other.
    by_queue: HashMap<QueueIndex, BTreeSet<u64>>,
    by_connection: HashMap<u64, BTreeSet<u64>>,
    /// When to look at which hold: its end, or the next recheck.
    times: BTreeSet<(Instant, u64)>,
    time_of: HashMap<u64, Instant>,
    ended: Vec<HeldPull>,
}

impl Holds {
    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// How many of them wait for one connection.
    #[must_use]
    pub fn len_of(&self, connection: u64) -> usize {
        self.by_connection.get(&connection).map_or(0, BTreeSet::len)
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// One more waits. The caller has looked at the queue in the same step, so that no message falls in between.
    pub fn hold(&mut self, pull: HeldPull, now: Instant) {
        let id = self.next_id;
        self.next_id += 1;
        self.by_queue.entry(pull.pull.queue).or_default().insert(id);
        self.by_connection.entry(pull.reply_to.connection).or_default().insert(id);
        self.schedule(id, pull.deadline.min(now + RECHECK));
        self.held.insert(id, pull);
    }

    /// A message was dispatched to `queue` at `offset`.
    pub fn on_dispatched(&mut self, queue: QueueIndex, offset: QueueOffset, tags_code: i64) {
        if self.held.is_empty() {
            return;
        }
        let Some(ids) = self.by_queue.get(&queue) else { return };
        let matching = |id: &&u64| {
            let pull = &self.held[*id].pull;
            pull.queue_offset <= offset && pull.filter.matches(tags_code)
        };
        let woken: Vec<u64> = ids.iter().filter(matching).copied().collect();
        for id in woken {
            self.end(id);
        }
    }

    /// Time passes. `grown` tells whether a queue has anything at or behind an offset.
    pub fn on_time(&mut self, now: Instant, grown: impl Fn(QueueIndex, QueueOffset) -> bool) {
        while let Some((time, id)) = self.times.first().copied()
            && time <= now
        {
            let held = &self.held[&id];
            if held.deadline <= now || grown(held.pull.queue, held.pull.queue_offset) {
                self.end(id);
            } else {
                let next = held.deadline.min(now + RECHECK);
                self.schedule(id, next);
            }
        }
    }

    /// When [`Holds::on_time`] is wanted next.
    #[must_use]
    pub fn next_time(&self) -> Option<Instant> {
        self.times.first().map(|(time, _)| *time)
    }

    /// A connection is gone, and with it what it waited for.
    pub fn on_disconnected(&mut self, connection: u64) {
        for id in self.by_connection.remove(&connection).unwrap_or_default() {
            self.forget(id);
        }
    }

    /// Ends every hold: the shard stops.
    pub fn end_all(&mut self) {
        let ids: Vec<u64> = self.held.keys().copied().collect();
        for id in ids {
            self.end(id);
        }
    }

    /// A hold that ended, to be run again.
    pub fn take_ended(&mut self) -> Option<HeldPull> {
        self.ended.pop()
    }

    fn schedule(&mut self, id: u64, time: Instant) {
        if let Some(old) = self.time_of.insert(id, time) {
            self.times.remove(&(old, id));
        }
        self.times.insert((time, id));
    }

    fn end(&mut self, id: u64) {
        if let Some(pull) = self.forget(id) {
            self.ended.push(pull);
        }
    }

    fn forget(&mut self, id: u64) -> Option<HeldPull> {
        let pull = self.held.remove(&id)?;
        if let Some(time) = self.time_of.remove(&id) {
            self.times.remove(&(time, id));
        }
        remove_from(&mut self.by_queue, pull.pull.queue, id);
        remove_from(&mut self.by_connection, pull.reply_to.connection, id);
        Some(pull)
    }
}

fn remove_from<Key: std::hash::Hash + Eq>(index: &mut HashMap<Key, BTreeSet<u64>>, key: Key, id: u64) {
    if let Some(ids) = index.get_mut(&key) {
        ids.remove(&id);
        if ids.is_empty() {
            index.remove(&key);
        }
    }
}
