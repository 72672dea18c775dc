//! Pull: which messages answer a request, by RocketMQ's rules of offsets and filters.
//!
//! Contract. Only dispatched messages are found, and only confirmed ones are dispatched. A pull is run in one step
//! on what is in memory; when it needs older bytes it selects nothing and says what to read. It decides and selects;
//! the caller copies the selected records into its answer, as they are stored.

use crate::{
    derive::consume_queue::QueueIndex,
    offset::{LogOffset, QueueOffset},
};

/// Which messages a consumer wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// All of them.
    All,
    /// Those whose tag's hash is one of these. Collisions are for the consumer to sort out.
    TagCodes(Vec<i32>),
}

impl Filter {
    /// Whether a message with this tags code passes.
    #[must_use]
    pub fn matches(&self, tags_code: i64) -> bool {
        match self {
            Filter::All => true,
            Filter::TagCodes(codes) => codes.iter().any(|code| i64::from(*code) == tags_code),
        }
    }
}

/// What a consumer asks for.
#[derive(Clone, Debug)]
pub struct Pull {
    /// The queue.
    pub queue: QueueIndex,
    /// The first message it wants.
    pub queue_offset: QueueOffset,
    /// At most so many messages; at least one is sent when there is one.
    pub message_count_max: usize,
    /// At most so many bytes, unless the first message alone is larger.
    pub bytes_max: usize,
    /// The same for messages that aren't in the log's memory: none of them is taken beyond this, so that a consumer
    /// that lags takes the disk in small pieces.
    pub cold_message_count_max: usize,
    /// Likewise.
    pub cold_bytes_max: usize,
    /// Which ones.
    pub filter: Filter,
}

/// How a pull ends, in RocketMQ's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullStatus {
    /// Messages were selected.
    Found,
    /// There are messages, but none among those looked at passes the filter.
    NoMatchedMessage,
    /// The queue has never had a message.
    NoMessageInQueue,
    /// The offset lies before the queue's first message.
    OffsetTooSmall,
    /// The offset is that of the next message to come.
    OffsetOverflowOne,
    /// The offset lies further on.
    OffsetOverflowBadly,
    /// The messages asked for are no longer in the log.
    MessageWasRemoving,
}

/// The answer to a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// How it ended.
    pub status: PullStatus,
    /// Where the consumer goes on.
    pub next_begin_offset: QueueOffset,
    /// The queue's first message.
    pub min_offset: QueueOffset,
    /// The next message to come.
    pub max_offset: QueueOffset,
}

/// What the offset alone decides; `None` when there is something to scan.
#[must_use]
pub fn decide_by_offset(offset: QueueOffset, min: QueueOffset, max: QueueOffset) -> Option<Pulled> {
    let end = |status, next_begin_offset| {
        Some(Pulled { status, next_begin_offset, min_offset: min, max_offset: max })
    };
    if max == QueueOffset::ZERO {
        end(PullStatus::NoMessageInQueue, QueueOffset::ZERO)
    } else if offset < min {
        end(PullStatus::OffsetTooSmall, min)
    } else if offset == max {
        end(PullStatus::OffsetOverflowOne, offset)
    } else if offset > max {
        end(PullStatus::OffsetOverflowBadly, max)
    } else {
        None
    }
}

/// One selected record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selected {
    /// Where it is in the log.
    pub log_offset: LogOffset,
    /// Its length.
    pub len: usize,
}

/// Whether a pull that has `count` messages of `bytes` together takes one more of `len`, which is in memory or not.
/// RocketMQ's "batch full": never before the first message; what was taken counts wherever it came from, and the next
/// message says by which limits.
#[must_use]
pub fn takes_more(pull: &Pull, count: usize, bytes: usize, len: usize, is_cold: bool) -> bool {
    let (count_max, bytes_max) = if is_cold {
        (pull.cold_message_count_max, pull.cold_bytes_max)
    } else {
        (pull.message_count_max, pull.bytes_max)
    };
    count == 0 || (count < count_max && bytes + len <= bytes_max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::derive::consume_queue::ConsumeQueues;

    /// The table of the semantics specification, section 6.2.
    #[test]
    fn offsets_decide_as_rocketmq_does() {
        let decide = |at: u64, min: u64, max: u64| {
            decide_by_offset(QueueOffset::new(at), QueueOffset::new(min), QueueOffset::new(max))
                .map(|pulled| (pulled.status, pulled.next_begin_offset.get()))
        };
        assert_eq!(decide(0, 0, 0), Some((PullStatus::NoMessageInQueue, 0)));
        assert_eq!(decide(7, 0, 0), Some((PullStatus::NoMessageInQueue, 0)));
        assert_eq!(decide(3, 5, 9), Some((PullStatus::OffsetTooSmall, 5)));
        assert_eq!(decide(9, 5, 9), Some((PullStatus::OffsetOverflowOne, 9)));
        assert_eq!(decide(10, 5, 9), Some((PullStatus::OffsetOverflowBadly, 9)));
        assert_eq!(decide(5, 5, 9), None);
        assert_eq!(decide(8, 5, 9), None);
    }

    #[test]
    fn the_first_message_is_always_taken() {
        let mut queues = ConsumeQueues::new(std::path::Path::new("unused"), 6_000_000).unwrap();
        let pull = Pull {
            queue: queues.open("T", 0),
            queue_offset: QueueOffset::ZERO,
            message_count_max: 3,
            bytes_max: 100,
            cold_message_count_max: 2,
            cold_bytes_max: 80,
            filter: Filter::All,
        };
        let takes_more = |count, bytes, len, is_cold| takes_more(&pull, count, bytes, len, is_cold);
        for is_cold in [false, true] {
            assert!(takes_more(0, 0, 1_000_000, is_cold));
        }
        assert!(takes_more(2, 60, 40, false));
        assert!(!takes_more(2, 60, 41, false), "bytes");
        assert!(!takes_more(3, 0, 1, false), "count");
        assert!(takes_more(1, 60, 20, true));
        assert!(!takes_more(1, 60, 21, true), "bytes of cold messages");
        assert!(!takes_more(2, 0, 1, true), "count of cold messages");
    }

    #[test]
    fn a_tag_filter_compares_sign_extended_hashes() {
        let filter = Filter::TagCodes(vec![-5]);
        assert!(filter.matches(-5));
        assert!(!filter.matches(0xFFFF_FFFB), "not the unsigned form");
    }
}
