//! Where the messages of a topic go: what the send and pull paths need of a topic, found with one look-up.
//!
//! Derived from the topic table and the shard's queues, refreshed when a topic changes, never persisted.

use std::collections::HashMap;

use engine::derive::consume_queue::QueueIndex;

/// A topic as the hot path sees it.
#[derive(Clone, Debug)]
pub struct Target {
    /// Read and write permission bits.
    pub perm: i32,
    /// Queues that producers write to.
    pub write_queue_nums: u32,
    /// Queues that consumers read from.
    pub read_queue_nums: u32,
    /// Whether tags are multi-tags: a bit of the stored sysFlag.
    pub is_multi_tag: bool,
    /// Whether clients may send to it: its name is checked once, here, and not at every send.
    pub is_sendable: bool,
    /// Where the next message without a queue goes.
    pub next_queue: u32,
    /// The shard's number of each queue.
    pub queues: Vec<QueueIndex>,
}

/// All of them, by topic.
#[derive(Debug, Default)]
pub struct Targets {
    by_topic: HashMap<Box<str>, Target>,
}

impl Targets {
    /// The target of `topic`.
    pub fn get_mut(&mut self, topic: &str) -> Option<&mut Target> {
        self.by_topic.get_mut(topic)
    }

    /// The target of `topic`.
    #[must_use]
    pub fn get(&self, topic: &str) -> Option<&Target> {
        self.by_topic.get(topic)
    }

    /// Sets the target of `topic`.
    pub fn set(&mut self, topic: &str, target: Target) {
        self.by_topic.insert(topic.into(), target);
    }

    /// Forgets the target of `topic`: its configuration changed.
    pub fn forget(&mut self, topic: &str) {
        self.by_topic.remove(topic);
    }
}
