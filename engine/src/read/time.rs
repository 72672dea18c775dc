//! Search by store time: the first message of a queue that was stored at or after a time.
//!
//! A binary search that keeps its bounds, so that it goes on where it was when it had to wait for cold bytes. Store
//! times never go back along the log, hence along a queue.

use crate::{
    derive::consume_queue::{Lookup, QueueIndex},
    io::Runtime,
    offset::QueueOffset,
    shard::{Cold, Shard},
};

/// A search under way.
#[derive(Clone, Copy, Debug)]
pub struct TimeSearch {
    queue: QueueIndex,
    timestamp_ms: i64,
    /// Everything before is older.
    low: QueueOffset,
    /// This and everything behind is not older, or doesn't exist.
    high: QueueOffset,
}

impl TimeSearch {
    /// A search for `timestamp_ms`, milliseconds since 1970, over all that `queue` has now.
    pub fn new<R: Runtime>(shard: &Shard<R>, queue: QueueIndex, timestamp_ms: i64) -> TimeSearch {
        let queues = shard.queues();
        TimeSearch { queue, timestamp_ms, low: queues.min_offset(queue), high: queues.max_offset(queue) }
    }

    /// Goes on as far as memory reaches. The answer is the queue's end when everything is older.
    ///
    /// # Errors
    /// What must be read before it can go on.
    pub fn run<R: Runtime>(&mut self, shard: &mut Shard<R>) -> Result<QueueOffset, Cold> {
        while self.low < self.high {
            let middle = QueueOffset::new(self.low.get() + (self.high.get() - self.low.get()) / 2);
            let entry = match shard.queues_mut().lookup(self.queue, middle, 1) {
                Lookup::Memory(mut found) => found.next(),
                Lookup::Cold(read) => return Err(Cold::Queue(read)),
            };
            let is_older = match entry {
                Some(entry) if !entry.is_hole() && entry.log_offset >= shard.log_min() => {
                    shard.store_timestamp_ms(entry)? < self.timestamp_ms
                }
                // Gone from the log: older than anything that is there.
                _ => true,
            };
            if is_older {
                self.low = middle.plus(1);
            } else {
                self.high = middle;
            }
        }
        Ok(self.low)
    }
}
