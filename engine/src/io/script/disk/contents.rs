//! The bytes of one file in three layers: visible, durable, and the changes between them in the order they happened.
//! Knows nothing of names, space or the rules of access.

use std::rc::Rc;

use memmap2::MmapMut;

use super::{blocks::Blocks, mapped::SharedMemory};
use crate::io::BLOCK_BYTES;

/// How much of a map is looked at at a time; whole blocks.
const CHUNK_BYTES: usize = 64 * BLOCK_BYTES;

/// A change that is visible and not durable.
#[derive(Clone)]
pub(super) struct Change {
    pub(super) id: u64,
    pub(super) what: What,
}

#[derive(Clone)]
pub(super) enum What {
    Bytes { position: u64, bytes: Vec<u8> },
    Length(u64),
}

#[derive(Clone, Default)]
pub(super) struct Contents {
    /// What the process sees, but for what a mapping wrote since it was last looked at.
    visible: Blocks,
    durable: Blocks,
    changes: Vec<Change>,
    /// Shared by copies; a copy that is to live on is unmapped first.
    mapped: Option<Rc<SharedMemory>>,
}

impl Contents {
    pub(super) fn durable(blocks: Blocks) -> Contents {
        Contents { visible: blocks.clone(), durable: blocks, ..Contents::default() }
    }

    pub(super) fn len(&self) -> u64 {
        self.visible.len()
    }

    pub(super) fn block_count(&self) -> u64 {
        self.visible.block_count()
    }

    pub(super) fn is_hole(&self, position: u64) -> bool {
        self.visible.is_hole(position)
    }

    pub(super) fn read(&self, position: u64, len: usize) -> Vec<u8> {
        let mut bytes = self.visible.read(position, len);
        if let Some(memory) = &self.mapped {
            memory.read(position, &mut bytes);
        }
        bytes
    }

    pub(super) fn all(&self) -> Vec<u8> {
        self.read(0, usize::try_from(self.len()).expect("it fits memory"))
    }

    pub(super) fn durable_bytes(&self) -> Vec<u8> {
        self.durable.all()
    }

    pub(super) fn changes(&self) -> &[Change] {
        &self.changes
    }

    pub(super) fn durable_layer(&self) -> &Blocks {
        &self.durable
    }

    /// Writes; numbers the change with `change_next`.
    pub(super) fn write(&mut self, position: u64, bytes: &[u8], change_next: &mut u64) {
        if let Some(memory) = &self.mapped {
            assert!(position + bytes.len() as u64 <= self.visible.len(), "a mapped file doesn't grow");
            memory.write(position, bytes);
        }
        self.visible.write(position, bytes);
        self.changed(What::Bytes { position, bytes: bytes.to_vec() }, change_next);
    }

    pub(super) fn set_len(&mut self, len: u64, change_next: &mut u64) {
        assert!(self.mapped.is_none(), "a mapped file keeps its length");
        self.visible.set_len(len);
        self.changed(What::Length(len), change_next);
    }

    /// Turns what a mapping wrote since the last call into changes, one per block.
    pub(super) fn notice_mapped(&mut self, change_next: &mut u64) {
        let Some(memory) = self.mapped.clone() else { return };
        let len = usize::try_from(self.visible.len()).expect("it is mapped");
        let mut chunk = vec![0; len.min(CHUNK_BYTES)];
        for start in (0..len).step_by(CHUNK_BYTES) {
            let chunk = &mut chunk[..(len - start).min(CHUNK_BYTES)];
            memory.read(start as u64, chunk);
            for (index, block) in chunk.chunks(BLOCK_BYTES).enumerate() {
                let position = (start + index * BLOCK_BYTES) as u64;
                if !self.visible.block_is(position, block) {
                    self.visible.write(position, block);
                    self.changed(What::Bytes { position, bytes: block.to_vec() }, change_next);
                }
            }
        }
    }

    pub(super) fn map(&mut self) -> MmapMut {
        let memory = SharedMemory::new(&self.visible.all());
        let map = memory.map();
        self.mapped = Some(Rc::new(memory));
        map
    }

    /// The mapping is gone; what it wrote was noticed.
    pub(super) fn unmap(&mut self) {
        self.mapped = None;
    }

    /// Makes the changes below `end` durable.
    pub(super) fn make_durable(&mut self, end: u64) {
        for change in self.take_changes(end) {
            change.what.apply(&mut self.durable);
        }
    }

    /// Forgets that the changes below `end` are not durable: nothing will make them so.
    pub(super) fn drop_changes(&mut self, end: u64) {
        self.take_changes(end);
    }

    /// Makes `bytes` at `position` durable, whatever else isn't; older changes there are overtaken.
    pub(super) fn make_range_durable(&mut self, position: u64, bytes: &[u8]) {
        self.durable.write(position, bytes);
        let (start, end) = (position, position + bytes.len() as u64);
        let mut kept = Vec::with_capacity(self.changes.len());
        for change in self.changes.drain(..) {
            let What::Bytes { position, bytes } = change.what else {
                kept.push(change);
                continue;
            };
            for (position, bytes) in outside(position, bytes, start, end) {
                kept.push(Change { id: change.id, what: What::Bytes { position, bytes } });
            }
        }
        self.changes = kept;
    }

    fn changed(&mut self, what: What, change_next: &mut u64) {
        self.changes.push(Change { id: *change_next, what });
        *change_next += 1;
    }

    fn take_changes(&mut self, end: u64) -> Vec<Change> {
        let count = self.changes.partition_point(|change| change.id < end);
        self.changes.drain(..count).collect()
    }
}

impl What {
    pub(super) fn apply(&self, blocks: &mut Blocks) {
        match self {
            What::Bytes { position, bytes } => blocks.write(*position, bytes),
            What::Length(len) => blocks.set_len(*len),
        }
    }
}

/// What of `bytes`, which lie at `position`, lies outside `start..end`.
fn outside(position: u64, bytes: Vec<u8>, start: u64, end: u64) -> Vec<(u64, Vec<u8>)> {
    let bytes_end = position + bytes.len() as u64;
    if end <= position || bytes_end <= start {
        return vec![(position, bytes)];
    }
    let index = |at: u64| usize::try_from(at - position).expect("within the bytes");
    let mut pieces = Vec::new();
    if position < start {
        pieces.push((position, bytes[..index(start)].to_vec()));
    }
    if end < bytes_end {
        pieces.push((end, bytes[index(end)..].to_vec()));
    }
    pieces
}
