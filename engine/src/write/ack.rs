//! Ack: who waits for which promise, answered in append order.
//!
//! Contract. A sender waits from the append of its message until the log is confirmed up to the message's end; it
//! is answered once: as stored, or, when its deadline passes first, as stored but not known to be durable
//! (RocketMQ's FLUSH_DISK_TIMEOUT), or, when the log is fenced, as failed. All waiting senders have the same
//! patience, so deadlines pass in append order as well and only the front is looked at.

use std::{collections::VecDeque, time::Instant};

use protocol::Serialization;

use crate::offset::{LogOffset, QueueOffset};

/// Where an answer goes; the engine only carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyTo {
    /// The server's key of the connection.
    pub connection: u64,
    /// The request's opaque, echoed.
    pub opaque: i32,
    /// The request's header serialisation, which the answer uses too.
    pub serialization: Serialization,
}

/// What a sender is told about its stored message.
#[derive(Clone, Debug)]
pub struct Receipt {
    /// Who waits.
    pub reply_to: ReplyTo,
    /// The queue it went to.
    pub queue_id: u32,
    /// Its ordinal there; of a batch, the first one's.
    pub queue_offset: QueueOffset,
    /// Its record's place; of a batch, the first one's.
    pub log_offset: LogOffset,
    /// Of a batch: the places of the other items, in order.
    pub rest: Vec<LogOffset>,
    /// It is kept when the log is confirmed up to here.
    pub end: LogOffset,
    /// After this the sender is told that the flush takes too long.
    pub deadline: Instant,
}

/// What became of a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Kept.
    Stored,
    /// The message is in the log; whether it is durable isn't known in time.
    FlushTimeout,
    /// The log is fenced.
    Fenced,
}

/// The senders that wait, in append order.
#[derive(Debug, Default)]
pub struct AckQueue {
    waiting: VecDeque<Receipt>,
}

impl AckQueue {
    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// One more waits.
    ///
    /// # Panics
    /// When its message ends before that of somebody who already waits.
    pub fn wait(&mut self, receipt: Receipt) {
        if let Some(last) = self.waiting.back() {
            assert!(last.end < receipt.end, "senders wait in append order");
        }
        self.waiting.push_back(receipt);
    }

    /// The next sender that can be told something: the log is confirmed up to `confirmed_end`.
    pub fn poll(
        &mut self,
        confirmed_end: LogOffset,
        fenced: bool,
        now: Instant,
    ) -> Option<(Receipt, Outcome)> {
        let front = self.waiting.front()?;
        let outcome = if front.end <= confirmed_end {
            Outcome::Stored
        } else if fenced {
            Outcome::Fenced
        } else if front.deadline <= now {
            Outcome::FlushTimeout
        } else {
            return None;
        };
        let receipt = self.waiting.pop_front()?;
        Some((receipt, outcome))
    }

    /// When the front's patience ends.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.waiting.front().map(|receipt| receipt.deadline)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn receipt(opaque: i32, end: u64, deadline: Instant) -> Receipt {
        Receipt {
            reply_to: ReplyTo { connection: 1, opaque, serialization: Serialization::Json },
            queue_id: 0,
            queue_offset: QueueOffset::ZERO,
            log_offset: LogOffset::ZERO,
            rest: Vec::new(),
            end: LogOffset::new(end),
            deadline,
        }
    }

    fn drain(acks: &mut AckQueue, end: u64, fenced: bool, now: Instant) -> Vec<(i32, Outcome)> {
        std::iter::from_fn(|| acks.poll(LogOffset::new(end), fenced, now))
            .map(|(receipt, outcome)| (receipt.reply_to.opaque, outcome))
            .collect()
    }

    #[test]
    fn only_kept_promises_are_answered_and_in_order() {
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        let mut acks = AckQueue::default();
        for (opaque, end) in [(1, 10), (2, 20), (3, 30)] {
            acks.wait(receipt(opaque, end, later));
        }
        assert_eq!(drain(&mut acks, 19, false, now), [(1, Outcome::Stored)]);
        assert_eq!(drain(&mut acks, 20, false, later), [(2, Outcome::Stored), (3, Outcome::FlushTimeout)]);
        assert!(acks.is_empty());
    }

    #[test]
    fn a_fence_answers_everyone_who_is_not_confirmed() {
        let now = Instant::now();
        let mut acks = AckQueue::default();
        acks.wait(receipt(1, 10, now + Duration::from_secs(1)));
        acks.wait(receipt(2, 20, now + Duration::from_secs(1)));
        assert_eq!(drain(&mut acks, 10, true, now), [(1, Outcome::Stored), (2, Outcome::Fenced)]);
    }
}
