//! Entries read back from files, for consumers that are far behind.
//!
//! A few hundred entries are read at once and kept for a while; the pull that needed them then finds them
//! without waiting. Bounded: the chunk that was used longest ago makes room.

use std::path::PathBuf;

use super::{ConsumeQueues, ENTRY_BYTES, Entries, Entry, FileTable, QueueIndex};
use crate::{
    error::StoreError,
    io::{File, Runtime},
    offset::QueueOffset,
};

/// Entries read at once, 10 KiB of a file.
const CHUNK_ENTRIES: u64 = 512;
/// Chunks kept, 1.5 MiB of entries.
const CHUNK_COUNT_MAX: usize = 128;

/// A read that [`ConsumeQueues::lookup`] needs before it can answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColdRead {
    /// Whose entries.
    pub queue: QueueIndex,
    /// Number of the first entry to be read.
    pub from: QueueOffset,
    /// The file.
    pub path: PathBuf,
    /// Where in the file, in bytes.
    pub position: u64,
    /// How many bytes.
    pub len: usize,
}

/// Performs `read`.
///
/// # Errors
/// What the system refused.
pub async fn perform<R: Runtime>(
    runtime: &R,
    files: &FileTable<R>,
    read: &ColdRead,
) -> Result<Vec<u8>, StoreError> {
    let file = files.open(runtime, &read.path).await?;
    file.read(read.position, read.len).await.map_err(StoreError::io("reading a consume queue", &read.path))
}

#[derive(Default)]
pub(super) struct ColdCache {
    chunks: Vec<Chunk>,
    /// Counts uses, to tell which chunk was used longest ago.
    clock: u64,
}

struct Chunk {
    queue: QueueIndex,
    base: u64,
    entries: Vec<Entry>,
    used: u64,
}

impl Chunk {
    fn holds(&self, queue: QueueIndex, number: u64) -> bool {
        self.queue == queue && number >= self.base && number - self.base < self.entries.len() as u64
    }
}

impl ColdCache {
    pub fn holds(&self, queue: QueueIndex, from: QueueOffset) -> bool {
        self.chunks.iter().any(|chunk| chunk.holds(queue, from.get()))
    }

    pub fn entries(&mut self, queue: QueueIndex, from: QueueOffset, count: usize) -> Entries<'_> {
        self.clock += 1;
        let Some(chunk) = self.chunks.iter_mut().find(|chunk| chunk.holds(queue, from.get())) else {
            return Entries::default();
        };
        chunk.used = self.clock;
        let start = usize::try_from(from.get() - chunk.base).expect("a chunk fits in memory");
        let end = chunk.entries.len().min(start.saturating_add(count));
        Entries { front: &chunk.entries[start..end], back: &[] }
    }

    /// The entries of a chunk that begins at `base`, empty, to be filled.
    fn room(&mut self, queue: QueueIndex, base: u64) -> &mut Vec<Entry> {
        self.clock += 1;
        let same = self.chunks.iter().position(|chunk| chunk.queue == queue && chunk.base == base);
        let place = same.unwrap_or_else(|| {
            if self.chunks.len() < CHUNK_COUNT_MAX {
                self.chunks.push(Chunk { queue, base, entries: Vec::new(), used: 0 });
                return self.chunks.len() - 1;
            }
            let oldest = self.chunks.iter().enumerate().min_by_key(|(_, chunk)| chunk.used);
            oldest.map_or(0, |(place, _)| place)
        });
        let chunk = &mut self.chunks[place];
        (chunk.queue, chunk.base, chunk.used) = (queue, base, self.clock);
        chunk.entries.clear();
        &mut chunk.entries
    }
}

impl ConsumeQueues {
    /// What to read so that entry `from` of `queue` is at hand: the chunk of its file that it lies in.
    pub(super) fn cold_read(&self, queue: QueueIndex, from: QueueOffset) -> ColdRead {
        let state = self.queue(queue);
        let number = from.get();
        assert!(number < state.persisted_end, "what isn't in memory is in a file");
        let file_base = self.file_base(number);
        let base = number - (number - file_base) % CHUNK_ENTRIES;
        let end = state.persisted_end.min(base + CHUNK_ENTRIES).min(file_base + self.file_entries);
        ColdRead {
            queue,
            from: QueueOffset::new(base),
            path: self.path_of(queue, number),
            position: (base - file_base) * ENTRY_BYTES,
            len: usize::try_from((end - base) * ENTRY_BYTES).expect("a chunk fits in memory"),
        }
    }

    /// Takes what [`perform`] read; the lookup that asked for it now succeeds.
    ///
    /// # Errors
    /// When the file doesn't hold entries there.
    pub fn on_cold_loaded(&mut self, read: &ColdRead, bytes: &[u8]) -> Result<(), StoreError> {
        let entries = self.cold.room(read.queue, read.from.get());
        entries.extend(Entry::decode_all(&bytes[..bytes.len().min(read.len)]));
        let found = entries.len() as u64 * ENTRY_BYTES;
        if found < read.len as u64 {
            entries.clear();
            return Err(StoreError::QueueEntry { path: read.path.clone(), position: read.position + found });
        }
        Ok(())
    }
}
