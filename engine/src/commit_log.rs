//! The commit log: one sequence of bytes over files of equal length, with a single writer.
//!
//! In reading order: [`record`] is what is stored, [`tail`] the end of a direct log in memory, [`segment`] one
//! file and its preparation. This module owns the files that are still written and assigns log offsets. It never
//! awaits: what is to be written or created is handed out as plans, whose completion is told back.
//!
//! ```text
//!   00000000000000000000   00000000001073741824   00000000002147483648
//!   |rec|rec|...|blank0..| |rec|rec|rec|          | prepared, empty  |
//!    complete                current ^ end          next
//! ```
//!
//! A record that doesn't fit the current file and leave [`record::BLANK_BYTES`] behind it goes to the next one; the
//! rest of the file is a blank. The next file is there before it is needed: created under its name, durable, and
//! being zeroed, while the current one is half full.

use std::{cell::Cell, collections::VecDeque, rc::Rc};

use crate::{
    io::{BLOCK_BYTES, Mapping, Runtime},
    offset::LogOffset,
};

pub mod record;
pub mod segment;
pub mod tail;

use record::{BLANK_BYTES, encode_blank};
use segment::{FillStep, Segment};
use tail::Tail;

/// How the log's files are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// O_DIRECT writes of whole blocks from frozen memory.
    Direct,
    /// Copying into a mapped file; RocketMQ's classic way.
    Mapped,
}

/// Why there is no room for an append at this moment; it is there after a short wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// The current file is full and the next one is still being made.
    NextFile,
    /// The place is being zeroed by the preparation.
    Preparing,
    /// Too many appended bytes wait to be written.
    Unwritten,
}

/// The next step of writing the log.
pub struct WritePlan<R: Runtime> {
    /// The file.
    pub file: Rc<R::File>,
    /// What to write, whole blocks.
    pub buffer: Rc<R::Buffer>,
    /// Where in the file.
    pub position: u64,
    /// Everything below is written when this is.
    pub end: LogOffset,
}

/// See the module.
pub struct CommitLog<R: Runtime> {
    runtime: R,
    segment_bytes: u64,
    /// From the first file that isn't wholly flushed to the newest, with consecutive bases.
    live: VecDeque<Segment<R>>,
    end: LogOffset,
    /// Direct logs only.
    tail: Option<Tail<R::Buffer>>,
    /// Mapped logs keep the maps of so many bytes behind the end readable in memory.
    cache_bytes_max: u64,
    /// Bytes written that preparation had not zeroed before.
    unprepared_bytes: u64,
    /// Somebody waits for the next file although the current one isn't half full. A cell because asking whether there
    /// is room changes nothing else.
    is_next_asked_for: Cell<bool>,
}

impl<R: Runtime> CommitLog<R> {
    /// A log that goes on at `end`, in `current`, the file that holds `end` (or begins there). A direct log is told
    /// what stands in the block that `end` lies in, before `end`.
    pub fn new(
        runtime: R,
        segment_bytes: u64,
        current: Segment<R>,
        end: LogOffset,
        block_start: &[u8],
        cache_bytes_max: usize,
    ) -> CommitLog<R> {
        assert!(current.base <= end, "the current file begins at {}, behind the end {end}", current.base);
        assert!(end.since(current.base) < segment_bytes, "the end {end} lies in the current file");
        let tail = match current.backend() {
            Backend::Direct => {
                Some(Tail::new(end, block_start, cache_bytes_max, |len| runtime.allocate(len)))
            }
            Backend::Mapped => None,
        };
        CommitLog {
            runtime,
            segment_bytes,
            live: VecDeque::from([current]),
            end,
            tail,
            cache_bytes_max: cache_bytes_max as u64,
            unprepared_bytes: 0,
            is_next_asked_for: Cell::new(false),
        }
    }

    /// Where the next record goes.
    pub fn end(&self) -> LogOffset {
        self.end
    }

    /// Whether appends go straight to a mapped file.
    pub fn is_mapped(&self) -> bool {
        self.tail.is_none()
    }

    /// Length of each file.
    pub fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// The most that one record, or the records of one batch, may take.
    pub fn record_bytes_max(&self) -> u64 {
        self.segment_bytes - BLANK_BYTES as u64
    }

    /// Bytes written so far to places that preparation had not zeroed.
    pub fn unprepared_bytes(&self) -> u64 {
        self.unprepared_bytes
    }

    /// Whether records of `len` bytes together, all in one file, can be appended now. When they need the next file it
    /// is wanted from now on.
    pub fn has_room(&self, len: u64) -> Result<(), NoRoom> {
        assert!(len <= self.record_bytes_max(), "a record of {len} bytes fits no file");
        let current = self.current_index();
        let left = self.left(current);
        let position = self.segment_bytes - left;
        let fits = len + BLANK_BYTES as u64 <= left;
        if !fits && self.live.get(current + 1).is_none() {
            self.is_next_asked_for.set(true);
            return Err(NoRoom::NextFile);
        }
        // Only a mapped log changes the file at once; a direct one looks when it writes.
        if self.tail.is_none() {
            let here = if fits { len + BLANK_BYTES as u64 } else { BLANK_BYTES as u64 };
            let in_next = !fits && self.live[current + 1].fill.owns(0, len + BLANK_BYTES as u64);
            if in_next || self.live[current].fill.owns(position, position + here) {
                return Err(NoRoom::Preparing);
            }
        }
        Ok(())
    }

    /// Goes on in the next file, behind a blank, unless `len` bytes and a blank fit the current one.
    /// [`CommitLog::has_room`] of the same `len` has just said yes.
    pub fn make_room(&mut self, len: u64) {
        let left = self.left(self.current_index());
        if len + BLANK_BYTES as u64 <= left {
            return;
        }
        encode_blank(left, self.reserve(BLANK_BYTES));
        let next = self.end.plus(left - BLANK_BYTES as u64);
        assert_eq!(next.get() % self.segment_bytes, 0, "a blank fills its file");
        self.end = next;
        if let Some(tail) = &mut self.tail {
            tail.skip_to(next);
        }
        assert!(self.live.iter().any(|segment| segment.base == next), "the next file is there");
    }

    /// The place of the next `len` bytes, to be filled now; room was made.
    pub fn reserve(&mut self, len: usize) -> &mut [u8] {
        let index = self.current_index();
        let base = self.live[index].base;
        let position = self.end.since(base);
        assert!(position + len as u64 <= self.segment_bytes, "a record never spans files");
        self.end = self.end.plus(len as u64);
        if let Some(tail) = &mut self.tail {
            let runtime = &self.runtime;
            return tail.reserve(len, |bytes| runtime.allocate(bytes));
        }
        let segment = &mut self.live[index];
        self.unprepared_bytes += segment.fill.unprepared(position, position + len as u64);
        segment.fill.on_written(position + len as u64);
        let from = usize::try_from(position).expect("a file is mapped whole");
        let mapping = segment.mapping.as_mut().expect("a mapped log maps its files");
        &mut mapping.bytes_mut()[from..from + len]
    }

    /// What to write next; `None` when nothing waits or when its place is being zeroed. A mapped log never has.
    pub fn next_write(&mut self) -> Option<WritePlan<R>> {
        let tail = self.tail.as_mut()?;
        let first = tail.next_write_start()?;
        let segment_bytes = self.segment_bytes;
        let segment =
            self.live.iter_mut().find(|s| s.base <= first && first.since(s.base) < segment_bytes)?;
        let position = first.since(segment.base);
        let end = segment_bytes.min(position + tail.next_write_len());
        if segment.fill.owns(position, end) {
            return None;
        }
        let write = tail.next_write().expect("something waits");
        let len = write.buffer_len();
        self.unprepared_bytes += segment.fill.unprepared(position, position + len);
        segment.fill.on_written(position + len);
        Some(WritePlan { file: Rc::clone(&segment.file), buffer: write.buffer, position, end: write.end })
    }

    /// The write up to `end` is done. Returns up to where the log is written: behind the blank when `end` is
    /// behind the last record of a file.
    pub fn on_written(&mut self, end: LogOffset) -> LogOffset {
        let tail = self.tail.as_mut().expect("only a direct log is written");
        tail.written(end);
        tail.written_end(end)
    }

    /// The files that a sync must cover so that everything from `flushed_end` to `end` is durable, oldest first.
    pub fn files_between(&self, flushed_end: LogOffset, end: LogOffset) -> Vec<Rc<R::File>> {
        let touched =
            |segment: &&Segment<R>| segment.base < end && segment.base.plus(self.segment_bytes) > flushed_end;
        self.live.iter().filter(touched).map(|segment| Rc::clone(&segment.file)).collect()
    }

    /// Everything below `flushed_end` is durable: older files are no longer needed for writing.
    pub fn on_flushed(&mut self, flushed_end: LogOffset) {
        let keep_from = if self.tail.is_some() {
            flushed_end.get()
        } else {
            flushed_end.get().min(self.end.get().saturating_sub(self.cache_bytes_max))
        };
        while self.live.len() > 1
            && self.live[0].base.get() + self.segment_bytes <= keep_from
            && self.live[0].base.get() + self.segment_bytes <= self.end.get()
        {
            self.live.pop_front();
        }
    }

    /// The `len` bytes at `offset` when they are in memory; colder ones are read from the file.
    pub fn resident(&self, offset: LogOffset, len: usize) -> Option<&[u8]> {
        assert!(offset.plus(len as u64) <= self.end, "nothing is read behind the end");
        if let Some(tail) = &self.tail {
            return tail.bytes(offset, len);
        }
        if offset.get() < self.end.get().saturating_sub(self.cache_bytes_max) {
            return None;
        }
        let segment =
            self.live.iter().find(|s| s.base <= offset && offset.since(s.base) < self.segment_bytes)?;
        let from = usize::try_from(offset.since(segment.base)).expect("a file is mapped whole");
        segment.mapping.as_ref()?.bytes().get(from..from + len)
    }

    /// The base of the file to create next, when it is time: the current one is the last, and is half full or has no
    /// room for an append.
    pub fn wanted_file(&self) -> Option<LogOffset> {
        let last = self.live.back().expect("a log has a current file");
        let in_last = self.end.get().saturating_sub(last.base.get());
        (in_last >= self.segment_bytes / 2 || self.is_next_asked_for.get())
            .then(|| last.base.plus(self.segment_bytes))
    }

    /// The file after the last is there.
    pub fn add_file(&mut self, segment: Segment<R>) {
        let last = self.live.back().expect("a log has a current file");
        assert_eq!(segment.base, last.base.plus(self.segment_bytes), "files are consecutive");
        self.is_next_asked_for.set(false);
        self.live.push_back(segment);
    }

    /// The base of the last file, when nothing was appended to it: at a clean stop it is removed again.
    pub fn unused_file(&self) -> Option<LogOffset> {
        let last = self.live.back().expect("a log has a current file");
        (last.base > self.end || (last.base == self.end && self.live.len() > 1)).then_some(last.base)
    }

    /// The next step of preparation, from the current file on.
    pub fn next_fill(&mut self) -> Option<(LogOffset, FillStep<R>)> {
        let current = self.current_index();
        let (end, segment_bytes) = (self.end, self.segment_bytes);
        self.live.iter_mut().skip(current).find_map(|segment| {
            let reached = end.get().saturating_sub(segment.base.get());
            Some((segment.base, segment.next_fill(reached, segment_bytes)?))
        })
    }

    /// How many bytes the writer has before it until it meets unprepared ones.
    pub fn prepared_lead(&self) -> u64 {
        let current = self.current_index();
        let mut lead = 0;
        for segment in self.live.iter().skip(current) {
            let reached = self.end.get().saturating_sub(segment.base.get());
            let prepared = segment.fill.prepared_end().min(self.segment_bytes);
            lead += prepared.saturating_sub(reached);
            if prepared < self.segment_bytes {
                break;
            }
        }
        lead
    }

    /// The preparation step of the file at `base` ended, well or not.
    pub fn on_filled(&mut self, base: LogOffset, done: bool) {
        if let Some(segment) = self.live.iter_mut().find(|segment| segment.base == base) {
            segment.fill.on_step_done(done);
        }
    }

    fn current_index(&self) -> usize {
        let end = self.end;
        let bytes = self.segment_bytes;
        self.live
            .iter()
            .position(|segment| segment.base <= end && end.since(segment.base) < bytes)
            .expect("the file that holds the end is live")
    }

    /// Bytes left in the file at `index`, which holds the end.
    fn left(&self, index: usize) -> u64 {
        self.segment_bytes - self.end.since(self.live[index].base)
    }
}

/// The name of the file that begins at `base`: 20 decimal digits.
#[must_use]
pub fn file_name(base: LogOffset) -> String {
    format!("{:020}", base.get())
}

const _: () = assert!(BLANK_BYTES <= BLOCK_BYTES);
