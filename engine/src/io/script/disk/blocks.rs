//! The bytes of one file in one layer: a length, and the blocks that hold something. Copies share their blocks
//! until one of them writes, so a crash image costs little.

use std::{collections::BTreeMap, rc::Rc};

use crate::io::BLOCK_BYTES;

type Block = [u8; BLOCK_BYTES];

const BLOCK: u64 = BLOCK_BYTES as u64;

/// How many blocks `len` bytes take.
pub(super) fn blocks_for(len: u64) -> u64 {
    len.div_ceil(BLOCK)
}

#[derive(Clone, Default)]
pub(super) struct Blocks {
    len: u64,
    /// By index; those that are missing are zero and take no space.
    blocks: BTreeMap<u64, Rc<Block>>,
}

impl Blocks {
    /// `bytes`, without the blocks that are all zero.
    pub(super) fn from_bytes(bytes: &[u8]) -> Blocks {
        let mut blocks = Blocks::default();
        for (index, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
            if block.iter().any(|byte| *byte != 0) {
                blocks.write(index as u64 * BLOCK, block);
            }
        }
        blocks.set_len(bytes.len() as u64);
        blocks
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Cuts, or extends with zeros that take no space.
    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.blocks.split_off(&blocks_for(len));
            let rest = index_in_block(len);
            if rest != 0
                && let Some(block) = self.blocks.get_mut(&(len / BLOCK))
            {
                Rc::make_mut(block)[rest..].fill(0);
            }
        }
        self.len = len;
    }

    /// Blocks that take space.
    pub(super) fn block_count(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Whether a write at `position` needs a block that takes no space yet.
    pub(super) fn is_hole(&self, position: u64) -> bool {
        !self.blocks.contains_key(&(position / BLOCK))
    }

    pub(super) fn write(&mut self, position: u64, bytes: &[u8]) {
        for (position, piece) in pieces(position, bytes, BLOCK) {
            let block = self.blocks.entry(position / BLOCK).or_insert_with(|| Rc::new([0; BLOCK_BYTES]));
            let start = index_in_block(position);
            Rc::make_mut(block)[start..start + piece.len()].copy_from_slice(piece);
        }
        self.len = self.len.max(position + bytes.len() as u64);
    }

    /// What lies at `position`, at most `len` bytes, fewer at the end.
    pub(super) fn read(&self, position: u64, len: usize) -> Vec<u8> {
        let end = self.len.min(position.saturating_add(len as u64));
        let mut bytes = vec![0; usize::try_from(end.saturating_sub(position)).expect("it fits memory")];
        let mut done = 0;
        while done < bytes.len() {
            let at = position + done as u64;
            let start = index_in_block(at);
            let part = (BLOCK_BYTES - start).min(bytes.len() - done);
            if let Some(block) = self.blocks.get(&(at / BLOCK)) {
                bytes[done..done + part].copy_from_slice(&block[start..start + part]);
            }
            done += part;
        }
        bytes
    }

    pub(super) fn all(&self) -> Vec<u8> {
        self.read(0, usize::try_from(self.len).expect("it fits memory"))
    }

    /// Whether the block-aligned bytes at `position` are `bytes`.
    pub(super) fn block_is(&self, position: u64, bytes: &[u8]) -> bool {
        match self.blocks.get(&(position / BLOCK)) {
            Some(block) => block[..bytes.len()] == *bytes,
            None => bytes.iter().all(|byte| *byte == 0),
        }
    }
}

/// The pieces of `bytes`, which lie at `position`, cut at the multiples of `unit`.
pub(super) fn pieces(position: u64, bytes: &[u8], unit: u64) -> impl Iterator<Item = (u64, &[u8])> {
    let mut at = position;
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let room = usize::try_from(unit - at % unit).expect("a unit fits memory");
        let (piece, others) = rest.split_at(room.min(rest.len()));
        let start = at;
        at += piece.len() as u64;
        rest = others;
        Some((start, piece))
    })
}

fn index_in_block(position: u64) -> usize {
    usize::try_from(position % BLOCK).expect("below BLOCK_BYTES")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_give_back_what_was_written_at_any_alignment() {
        let mut blocks = Blocks::default();
        let mut model = vec![0_u8; 20_000];
        blocks.set_len(20_000);
        for (position, len, byte) in
            [(0, 1, 1), (4095, 2, 2), (5000, 9000, 3), (19_999, 1, 4), (8192, 4096, 5)]
        {
            blocks.write(position as u64, &vec![byte; len]);
            model[position..position + len].fill(byte);
        }
        assert_eq!(blocks.all(), model);
        assert_eq!(blocks.read(4090, 5000), model[4090..9090]);
        assert_eq!(blocks.read(19_990, 100), model[19_990..]);
        assert_eq!(blocks.read(30_000, 100), Vec::<u8>::new());
    }

    #[test]
    fn a_cut_forgets_what_lay_behind_it() {
        let mut blocks = Blocks::from_bytes(&[7; 10_000]);
        blocks.set_len(5000);
        blocks.set_len(10_000);
        assert_eq!(blocks.all(), [vec![7; 5000], vec![0; 5000]].concat());
    }

    #[test]
    fn zeros_take_no_space_until_written() {
        let mut blocks = Blocks::from_bytes(&[0; 100_000]);
        assert_eq!((blocks.block_count(), blocks.len()), (0, 100_000));
        blocks.write(4000, &[0; 100]);
        assert_eq!((blocks.block_count(), blocks.len()), (2, 100_000), "two blocks were touched");
    }
}
