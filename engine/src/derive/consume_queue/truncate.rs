//! Cutting queues where the log was cut, making a queue anew, and finding its first message.
//!
//! Only while a store is opened: these wait for the disk with the queues in hand. A cut is made in memory and
//! in the file before any new entry is written: what stood behind it is zeroed and synced, so that a later crash
//! can't make old entries follow new ones.

use std::{
    ops::Range,
    path::{Path, PathBuf},
};

use super::{ConsumeQueues, ENTRY_BYTES, Entry, FileTable, QueueIndex, persist::remove_files};
use crate::{
    error::StoreError,
    io::{File, Runtime},
    offset::{LogOffset, QueueOffset},
};

/// Entries read to find one: a few at first, many when it looks like a long run of holes.
const PROBE_ENTRIES_MIN: u64 = 16;
const PROBE_ENTRIES_MAX: u64 = 12_800;
/// Files are zeroed in pieces of this size.
const PIECE_BYTES: u64 = 256 * 1024;

impl ConsumeQueues {
    /// Drops the entries of `queue` from the first one on whose record isn't wholly below `log_end`, and
    /// everything that is in its files behind the entries that stay. Returns how many entries went.
    ///
    /// # Errors
    /// What the system refused.
    pub async fn truncate_to<R: Runtime>(
        &mut self,
        runtime: &R,
        files: &FileTable<R>,
        queue: QueueIndex,
        log_end: LogOffset,
    ) -> Result<u64, StoreError> {
        let state = self.queue(queue);
        assert!(!state.dirty, "queues are cut before entries are added");
        let (base, end) = (state.files_base, state.end.get());
        // Slots without an entry are among those that no sync covered: the ones to be dropped.
        let goes = |slot: Slot| Ok(slot.entry.and_then(Entry::log_end).is_none_or(|ends| ends > log_end));
        let keep = self.first_slot(runtime, files, queue, base..end, goes).await?;
        self.queue_mut(queue).set_persisted(QueueOffset::new(keep));
        self.zero_behind_end(runtime, files, queue).await?;
        Ok(end - keep)
    }

    /// Sets the min offset of `queue`: its first entry whose record isn't below `log_min`, where the log begins.
    ///
    /// # Errors
    /// What the system refused; a slot that should hold an entry and doesn't.
    pub async fn correct_min<R: Runtime>(
        &mut self,
        runtime: &R,
        files: &FileTable<R>,
        queue: QueueIndex,
        log_min: LogOffset,
    ) -> Result<(), StoreError> {
        let state = self.queue(queue);
        assert!(!state.dirty, "the first message is looked for when every entry is in files");
        let range = state.files_base..state.end.get();
        let is_there = |slot: Slot| match slot.entry {
            Some(entry) => Ok(entry.log_offset >= log_min),
            None => Err(self.no_entry(queue, slot.number)),
        };
        let first = self.first_slot(runtime, files, queue, range, is_there).await?;
        self.queue_mut(queue).min = QueueOffset::new(first);
        Ok(())
    }

    /// Empties `queue` so that its next entry is number `first`: its files go before new ones are written.
    pub fn restart_at(&mut self, queue: QueueIndex, first: QueueOffset) {
        let state = self.queue(queue);
        let mut stale_files = self.paths_of(queue, state.files_base..state.files_end);
        let file_base = self.file_base(first.get());
        let state = self.queue_mut(queue);
        stale_files.append(&mut state.stale_files);
        state.files_base = file_base;
        state.files_end = file_base;
        state.stale_files = stale_files;
        state.set_persisted(first);
        state.min = first;
        state.durable_end = file_base;
    }

    /// Forgets every entry that isn't in files, for a scan that starts anew.
    pub fn discard_unpersisted(&mut self) {
        assert!(!self.persist_in_flight, "nothing is being written");
        self.dirty.clear();
        self.unpersisted = 0;
        for state in &mut self.queues {
            state.dirty = false;
            let end = QueueOffset::new(state.persisted_end);
            state.set_persisted(end);
        }
    }

    /// The files that hold the entries in `range`, which begins with a file.
    fn paths_of(&self, queue: QueueIndex, range: Range<u64>) -> Vec<PathBuf> {
        let step = usize::try_from(self.file_entries).unwrap_or(usize::MAX);
        range.step_by(step).map(|number| self.path_of(queue, number)).collect()
    }

    /// Zeroes what the file that holds the end has behind it, and removes the files behind that one.
    async fn zero_behind_end<R: Runtime>(
        &mut self,
        runtime: &R,
        files: &FileTable<R>,
        queue: QueueIndex,
    ) -> Result<(), StoreError> {
        let state = self.queue(queue);
        let (base, end, files_end) = (state.files_base, state.persisted_end, state.files_end);
        let stale_files = std::mem::take(&mut self.queue_mut(queue).stale_files);
        remove_files(runtime, files, &stale_files).await?;
        if files_end == base {
            return Ok(());
        }
        // The file of the last entry when the end is a file's end.
        let last = if end > base { end - 1 } else { base };
        let kept_end = self.file_base(last) + self.file_entries;
        if kept_end < files_end {
            let behind =
                (kept_end..files_end).step_by(usize::try_from(self.file_entries).unwrap_or(usize::MAX));
            let paths: Vec<PathBuf> = behind.map(|number| self.path_of(queue, number)).collect();
            remove_files(runtime, files, &paths).await?;
            self.queue_mut(queue).files_end = kept_end;
        }
        let path = self.path_of(queue, last);
        let start = (end - self.file_base(last)) * ENTRY_BYTES;
        zero_range(runtime, files, &path, start..self.file_bytes()).await
    }

    /// The number of the first slot in `range` for which `test` holds, holes left out; the range's end when there is
    /// none. The test must hold for all slots behind one for which it holds.
    async fn first_slot<R: Runtime>(
        &self,
        runtime: &R,
        files: &FileTable<R>,
        queue: QueueIndex,
        range: Range<u64>,
        test: impl Fn(Slot) -> Result<bool, StoreError>,
    ) -> Result<u64, StoreError> {
        let end = range.end;
        let Some(first) = self.next_slot(runtime, files, queue, range).await? else { return Ok(end) };
        if test(first)? {
            return Ok(first.number);
        }
        let (mut low, mut high) = (first.number + 1, end);
        // Most often no slot is it: look at the last one first.
        let mut probe = end - 1;
        while low < high {
            probe = probe.max(low);
            match self.next_slot(runtime, files, queue, probe..high).await? {
                Some(slot) if !test(slot)? => low = slot.number + 1,
                _ => high = probe,
            }
            probe = low + (high - low) / 2;
        }
        Ok(self.next_slot(runtime, files, queue, low..end).await?.map_or(end, |slot| slot.number))
    }

    /// The first slot in `range` that isn't a hole.
    async fn next_slot<R: Runtime>(
        &self,
        runtime: &R,
        files: &FileTable<R>,
        queue: QueueIndex,
        range: Range<u64>,
    ) -> Result<Option<Slot>, StoreError> {
        let mut from = range.start;
        let mut count_max = PROBE_ENTRIES_MIN;
        while from < range.end {
            let file_base = self.file_base(from);
            let count = count_max.min(range.end - from).min(file_base + self.file_entries - from);
            let path = self.path_of(queue, from);
            let file = files.open(runtime, &path).await?;
            let len = usize::try_from(count * ENTRY_BYTES).expect("a probe is small");
            let read = file.read((from - file_base) * ENTRY_BYTES, len).await;
            let bytes = read.map_err(StoreError::io("reading a consume queue", &path))?;
            let slots = (from..from + count).zip(bytes.as_chunks().0);
            let mut slots = slots.map(|(number, bytes)| Slot { number, entry: Entry::decode(bytes) });
            if let Some(slot) = slots.find(|slot| !slot.entry.is_some_and(Entry::is_hole)) {
                return Ok(Some(slot));
            }
            from += count;
            count_max = PROBE_ENTRIES_MAX;
        }
        Ok(None)
    }

    fn no_entry(&self, queue: QueueIndex, number: u64) -> StoreError {
        let position = (number - self.file_base(number)) * ENTRY_BYTES;
        StoreError::QueueEntry { path: self.path_of(queue, number), position }
    }
}

/// A place for an entry, and what it holds.
#[derive(Clone, Copy)]
struct Slot {
    number: u64,
    entry: Option<Entry>,
}

/// Makes a range of a file zero, durably, writing only where it isn't.
async fn zero_range<R: Runtime>(
    runtime: &R,
    files: &FileTable<R>,
    path: &Path,
    range: Range<u64>,
) -> Result<(), StoreError> {
    let file = files.open(runtime, path).await?;
    let mut position = range.start;
    while position < range.end {
        let len = usize::try_from(PIECE_BYTES.min(range.end - position)).expect("a piece is small");
        let read = file.read(position, len).await;
        let bytes = read.map_err(StoreError::io("reading a consume queue", path))?;
        if bytes.iter().any(|&byte| byte != 0) {
            let zeros = vec![0; bytes.len()];
            let wrote = file.write_bytes(zeros, position).await;
            wrote.map_err(StoreError::io("cutting a consume queue", path))?;
        }
        position += len as u64;
    }
    // Also when it was zero: an opening that was killed may have written zeros and not synced them.
    file.sync_data().await.map_err(StoreError::io("syncing a consume queue", path))
}
