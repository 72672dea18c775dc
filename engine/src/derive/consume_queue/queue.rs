//! One queue's positions and the entries it holds in memory.
//!
//! ```text
//! files_base            window_base            persisted_end        end         next
//!     |    min                |      durable_end     |               |           |
//!     |- - -|=================|===========|==========|===============|...........|
//!     holes   only in files   |      in files and    |  only in      | appended, not
//!     or gone                 |      in memory       |  memory       | dispatched yet
//! ```

use std::{collections::VecDeque, path::PathBuf, rc::Rc};

use super::Entry;
use crate::offset::QueueOffset;

/// See the module. Positions below are entry numbers unless they are [`QueueOffset`]s, which are the same thing.
#[derive(Debug)]
pub(super) struct Queue {
    pub topic: Rc<str>,
    pub queue_id: u32,
    /// What the next append gets.
    pub next: QueueOffset,
    /// The first entry whose message is still there.
    pub min: QueueOffset,
    /// End of what was dispatched.
    pub end: QueueOffset,
    /// First slot of the first file.
    pub files_base: u64,
    /// End of the last file that exists; `files_base` when there is none.
    pub files_end: u64,
    /// Everything below is written (to the page cache at least).
    pub persisted_end: u64,
    /// Everything below survives a power cut.
    pub durable_end: u64,
    /// Number of the first entry of `window`.
    pub window_base: QueueOffset,
    /// Entries up to `end`; always contains all from `persisted_end` on.
    pub window: VecDeque<Entry>,
    /// Files that must go before new ones come: left by a rebuild.
    pub stale_files: Vec<PathBuf>,
    /// Listed among the queues with something to write.
    pub dirty: bool,
    /// Listed among the queues with something to sync.
    pub unsynced: bool,
    /// Something was pushed since the last look for idle queues.
    pub touched: bool,
}

impl Queue {
    pub fn new(topic: Rc<str>, queue_id: u32) -> Queue {
        Queue {
            topic,
            queue_id,
            next: QueueOffset::ZERO,
            min: QueueOffset::ZERO,
            end: QueueOffset::ZERO,
            files_base: 0,
            files_end: 0,
            persisted_end: 0,
            durable_end: 0,
            window_base: QueueOffset::ZERO,
            window: VecDeque::new(),
            stale_files: Vec::new(),
            dirty: false,
            unsynced: false,
            touched: false,
        }
    }

    /// Makes it a queue whose entries below `end` are in files and which has none in memory.
    pub fn set_persisted(&mut self, end: QueueOffset) {
        assert!(!self.dirty, "only a queue without entries to write is set");
        self.window.clear();
        self.window_base = end;
        self.end = end;
        self.next = end;
        self.min = self.min.min(end);
        self.persisted_end = end.get();
        self.durable_end = self.durable_end.min(end.get());
    }

    pub fn push(&mut self, entry: Entry, tail_count_max: usize) {
        self.touched = true;
        self.window.push_back(entry);
        self.end = self.end.plus(1);
        self.trim(tail_count_max);
    }

    /// Forgets written entries until `tail_count_max` are left.
    pub fn trim(&mut self, tail_count_max: usize) {
        let excess = self.window.len().saturating_sub(tail_count_max);
        let written = self.persisted_end.saturating_sub(self.window_base.get());
        let count = excess.min(usize::try_from(written).unwrap_or(usize::MAX));
        self.window.drain(..count);
        self.window_base = self.window_base.plus(count as u64);
    }

    /// Gives memory back when nothing was pushed since the last call.
    pub fn trim_if_idle(&mut self, tail_count_max: usize) {
        if std::mem::take(&mut self.touched) || self.window.capacity() <= tail_count_max {
            return;
        }
        self.trim(tail_count_max);
        self.window.shrink_to(tail_count_max);
    }

    /// Entries in memory from number `from`, which is in the window.
    pub fn window_entries(&self, from: QueueOffset, count: usize) -> Entries<'_> {
        let start = usize::try_from(from.since(self.window_base)).expect("the window fits in memory");
        let end = self.window.len().min(start.saturating_add(count));
        let (front, back) = self.window.as_slices();
        let split = front.len();
        Entries {
            front: &front[start.min(split)..end.min(split)],
            back: &back[start.saturating_sub(split)..end.saturating_sub(split)],
        }
    }

    /// The unwritten entries from number `from`, at most `count`.
    pub fn encode_window(&self, from: u64, count: usize, out: &mut Vec<u8>) {
        for entry in self.window_entries(QueueOffset::new(from), count) {
            entry.encode(out);
        }
    }
}

/// Entries of one queue, in order.
#[derive(Clone, Debug, Default)]
pub struct Entries<'a> {
    pub(super) front: &'a [Entry],
    pub(super) back: &'a [Entry],
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        if self.front.is_empty() {
            self.front = std::mem::take(&mut self.back);
        }
        let (first, rest) = self.front.split_first()?;
        self.front = rest;
        Some(*first)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let count = self.front.len() + self.back.len();
        (count, Some(count))
    }
}

impl ExactSizeIterator for Entries<'_> {}
