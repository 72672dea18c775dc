//! One file of the commit log, and its preparation.
//!
//! A file is created at full length with its blocks allocated. That alone leaves its first writes slow: the file
//! system must mark the blocks as written, which makes each sync a journal commit. So a file is also zeroed ahead of
//! the writer, in steps.
//!
//! Who may write where: the preparation asks for a range and *owns* it until the step is done; the writer never
//! enters an owned range. When the writer has caught up, preparation of that file ends and writing goes on into
//! allocated blocks.
//!
//! ```text
//!   0 .......... writer .......... prepared_end ==== owned_end .......... file end
//!     written      zeroed               being zeroed       allocated
//! ```

use std::rc::Rc;

use super::Backend;
use crate::{
    io::Runtime,
    limits::{FILL_BYTES, FILL_SYNC_BYTES},
    offset::LogOffset,
};

/// One file that is being written, or will be next.
pub struct Segment<R: Runtime> {
    /// The log offset of its first byte; also its name.
    pub base: LogOffset,
    /// Open for writing.
    pub file: Rc<R::File>,
    /// Of mapped logs.
    pub mapping: Option<R::Mapping>,
    /// How far it is prepared.
    pub fill: Fill,
}

/// One step of preparing a file.
pub enum FillStep<R: Runtime> {
    /// Write `len` zeros at `position`.
    Zero {
        /// The file.
        file: Rc<R::File>,
        /// Where.
        position: u64,
        /// How many.
        len: usize,
    },
    /// Sync what was zeroed.
    Sync {
        /// The file.
        file: Rc<R::File>,
    },
}

impl<R: Runtime> Segment<R> {
    /// Whether it is mapped or written directly.
    pub fn backend(&self) -> Backend {
        if self.mapping.is_some() { Backend::Mapped } else { Backend::Direct }
    }

    /// The next step of its preparation, when the writer is at `reached` in it.
    pub(super) fn next_fill(&mut self, reached: u64, segment_bytes: u64) -> Option<FillStep<R>> {
        match self.fill.begin(reached, segment_bytes)? {
            Step::Zero { position, len } => {
                Some(FillStep::Zero { file: Rc::clone(&self.file), position, len })
            }
            Step::Sync => Some(FillStep::Sync { file: Rc::clone(&self.file) }),
        }
    }
}

/// How far a file is prepared; positions are bytes in the file.
#[derive(Debug, Default)]
pub struct Fill {
    prepared_end: u64,
    owned_end: u64,
    unsynced_bytes: u64,
    syncing: bool,
    ended: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Zero { position: u64, len: usize },
    Sync,
}

impl Fill {
    /// A file of which everything below `prepared_end` was written before.
    #[must_use]
    pub fn from(prepared_end: u64) -> Fill {
        let prepared_end = prepared_end.next_multiple_of(FILL_BYTES as u64);
        Fill { prepared_end, owned_end: prepared_end, ..Fill::default() }
    }

    /// A file that is not prepared at all, by choice or because all of it was written before.
    #[must_use]
    pub fn none() -> Fill {
        Fill { ended: true, ..Fill::default() }
    }

    /// Whether the preparation owns any byte of `start..end`.
    pub(super) fn owns(&self, start: u64, end: u64) -> bool {
        start < self.owned_end && self.prepared_end < end && self.prepared_end < self.owned_end
    }

    /// Up to where the file is prepared.
    pub(super) fn prepared_end(&self) -> u64 {
        self.prepared_end
    }

    /// How many bytes of `start..end` were not zeroed before.
    pub(super) fn unprepared(&self, start: u64, end: u64) -> u64 {
        end.saturating_sub(start.max(self.prepared_end))
    }

    /// The writer has written up to `end`.
    pub(super) fn on_written(&mut self, end: u64) {
        assert!(!self.owns(end - 1, end), "the writer at {end} never enters what preparation owns");
        if end > self.prepared_end {
            self.ended = true;
        }
    }

    /// The step that was begun ended; when it failed, preparation ends: it is an optimisation.
    pub(super) fn on_step_done(&mut self, done: bool) {
        if self.syncing {
            self.syncing = false;
            self.unsynced_bytes = 0;
        } else if done {
            self.unsynced_bytes += self.owned_end - self.prepared_end;
            self.prepared_end = self.owned_end;
        }
        self.owned_end = self.prepared_end;
        self.ended |= !done;
    }

    fn begin(&mut self, reached: u64, segment_bytes: u64) -> Option<Step> {
        if self.syncing || self.owned_end > self.prepared_end {
            return None;
        }
        let complete = self.prepared_end >= segment_bytes;
        if self.unsynced_bytes >= FILL_SYNC_BYTES || (self.unsynced_bytes > 0 && (complete || self.ended)) {
            self.syncing = true;
            return Some(Step::Sync);
        }
        if complete || self.ended {
            return None;
        }
        // Room for the block the writer is in: it may be written while the step runs.
        if reached.next_multiple_of(crate::io::BLOCK_BYTES as u64) > self.prepared_end {
            self.ended = true;
            return None;
        }
        let len = usize::try_from(segment_bytes - self.prepared_end)
            .map_or(FILL_BYTES, |left| left.min(FILL_BYTES));
        self.owned_end = self.prepared_end + len as u64;
        Some(Step::Zero { position: self.prepared_end, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    #[test]
    fn preparation_owns_one_range_at_a_time_and_syncs_in_between() {
        let mut fill = Fill::default();
        for step in 0..16 {
            assert_eq!(fill.begin(0, 64 * MIB), Some(Step::Zero { position: step * MIB, len: FILL_BYTES }));
            assert!(fill.owns(step * MIB, step * MIB + 1));
            assert_eq!(fill.begin(0, 64 * MIB), None, "one at a time");
            fill.on_step_done(true);
            assert!(!fill.owns(0, 64 * MIB));
        }
        assert_eq!(fill.begin(0, 64 * MIB), Some(Step::Sync));
        assert_eq!(fill.begin(0, 64 * MIB), None);
        fill.on_step_done(true);
        assert_eq!(fill.begin(0, 64 * MIB), Some(Step::Zero { position: 16 * MIB, len: FILL_BYTES }));
    }

    #[test]
    fn a_writer_that_catches_up_ends_the_preparation() {
        let mut fill = Fill::default();
        fill.begin(0, 64 * MIB);
        fill.on_step_done(true);
        assert_eq!(fill.unprepared(0, MIB), 0);
        assert_eq!(fill.unprepared(MIB - 1, MIB + 5), 5);
        fill.on_written(MIB + 5);
        assert_eq!(fill.begin(MIB + 5, 64 * MIB), Some(Step::Sync), "what was zeroed is still synced");
        fill.on_step_done(true);
        assert_eq!(fill.begin(MIB + 5, 64 * MIB), None);
    }

    #[test]
    #[should_panic(expected = "never enters")]
    fn a_writer_inside_an_owned_range_is_a_broken_rule() {
        let mut fill = Fill::default();
        fill.begin(0, 64 * MIB);
        fill.on_written(10);
    }
}
