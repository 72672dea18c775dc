//! The end of a direct log in memory: what is being filled, what is being written, what was written lately.
//!
//! ```text
//!   log      ...====================|=======|=====|....
//!   written lately (kept for pulls) ^       |     |
//!   sealed, waiting or in flight            ^     |
//!   open: the only memory that changes            ^
//! ```
//!
//! A *chunk* is a buffer that begins on a block of the log. Appends fill the open chunk. When a write begins the
//! open chunk is sealed: from then on it is an `Rc` that nobody can change, so what the kernel reads is frozen by
//! its type. The next chunk begins on the same block when the sealed one ended inside it, with a copy of that
//! block's beginning: the copy of less than a block per group is the price of never changing memory in flight.
//! Records are never split over chunks, so a pull answers with one slice per message.
//!
//! Rules: chunks are written in order, one at a time (two of them may share a block); the bytes behind the end of
//! a sealed chunk's last block are zero.

use std::{collections::VecDeque, rc::Rc};

use crate::{
    io::{BLOCK_BYTES, Buffer},
    limits::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN},
    offset::LogOffset,
};

/// Memory that begins on a block of the log at `start` and holds the log up to `end`.
struct Chunk<Memory> {
    start: LogOffset,
    end: LogOffset,
    memory: Memory,
}

impl<Memory> Chunk<Memory> {
    fn len(&self) -> usize {
        usize::try_from(self.end.since(self.start)).expect("a chunk is in memory")
    }
}

/// What to write next: frozen bytes of the log from `start` to `end`, padded with zeros to whole blocks.
pub struct ChunkWrite<B> {
    /// The log offset of the buffer's first byte, the beginning of a block.
    pub start: LogOffset,
    /// Where the log's bytes in it end.
    pub end: LogOffset,
    /// The bytes.
    pub buffer: Rc<B>,
}

impl<B: Buffer> ChunkWrite<B> {
    /// Length in bytes, whole blocks.
    pub fn buffer_len(&self) -> u64 {
        self.buffer.bytes().len() as u64
    }
}

/// See the module.
pub struct Tail<B> {
    open: Option<Chunk<B>>,
    sealed: VecDeque<Chunk<Rc<B>>>,
    /// How many of `sealed`, from the front, are written.
    written_count: usize,
    /// Bytes of memory in `sealed`.
    sealed_bytes: usize,
    /// Written chunks are kept up to this many bytes.
    cache_bytes_max: usize,
    /// Where the next byte goes.
    end: LogOffset,
    /// Size of the next chunk; follows the size of recent groups.
    chunk_bytes: usize,
}

impl<B: Buffer> Tail<B> {
    /// A tail that goes on at `end`, with nothing in memory but the beginning of the block that `end` lies in.
    pub fn new(
        end: LogOffset,
        block_start: &[u8],
        cache_bytes_max: usize,
        allocate: impl FnOnce(usize) -> B,
    ) -> Tail<B> {
        let inside = block_position(end);
        assert_eq!(block_start.len(), inside, "the beginning of the block that the log ends in is given");
        let mut tail = Tail {
            open: None,
            sealed: VecDeque::new(),
            written_count: 0,
            sealed_bytes: 0,
            cache_bytes_max,
            end,
            chunk_bytes: CHUNK_BYTES_MIN,
        };
        if inside > 0 {
            let mut memory = allocate(BLOCK_BYTES);
            memory.bytes_mut()[..inside].copy_from_slice(block_start);
            memory.bytes_mut()[inside..].fill(0);
            tail.sealed_bytes = BLOCK_BYTES;
            tail.written_count = 1;
            let start = LogOffset::new(end.get() - inside as u64);
            tail.sealed.push_back(Chunk { start, end, memory: Rc::new(memory) });
        }
        tail
    }

    /// Where the next byte goes.
    pub fn end(&self) -> LogOffset {
        self.end
    }

    /// Room for the next `len` bytes, to be filled by the caller now; the log ends behind them.
    pub fn reserve(&mut self, len: usize, allocate: impl FnOnce(usize) -> B) -> &mut [u8] {
        let fits = self.open.as_ref().is_some_and(|open| open.memory.bytes().len() - open.len() >= len);
        if !fits {
            if self.open.is_some() {
                // A group outgrew its chunk: the next ones are larger.
                self.chunk_bytes = (self.chunk_bytes * 2).min(CHUNK_BYTES_MAX);
                self.seal();
            }
            self.open_chunk(len, allocate);
        }
        let open = self.open.as_mut().expect("a chunk with room is open");
        let from = open.len();
        open.end = open.end.plus(len as u64);
        self.end = open.end;
        &mut open.memory.bytes_mut()[from..from + len]
    }

    /// Seals what is open and goes on at `end`, further on: a file ended with a blank that fills the rest of it.
    pub fn skip_to(&mut self, end: LogOffset) {
        assert!(end >= self.end, "the log goes on at {end}, which is before {}", self.end);
        assert_eq!(block_position(end), 0, "a file begins on a block");
        if self.open.is_some() {
            self.seal();
        }
        self.end = end;
    }

    /// Where the next write begins, when something waits to be written.
    pub fn next_write_start(&self) -> Option<LogOffset> {
        match self.sealed.get(self.written_count) {
            Some(chunk) => Some(chunk.start),
            None => self.open.as_ref().map(|open| open.start),
        }
    }

    /// How many bytes the next write takes.
    pub fn next_write_len(&self) -> u64 {
        let len = match (self.sealed.get(self.written_count), &self.open) {
            (Some(chunk), _) => chunk.len(),
            (None, Some(open)) => open.len(),
            (None, None) => 0,
        };
        len.next_multiple_of(BLOCK_BYTES) as u64
    }

    /// Up to where the log is written, now that it is up to `end`: a blank counts to the end of its file.
    pub fn written_end(&self, end: LogOffset) -> LogOffset {
        match self.next_write_start() {
            // The next chunk begins in the same block, or in the next file.
            Some(next) => next.max(end),
            None => self.end,
        }
    }

    /// The next chunk to write, when there is one. Call [`Tail::written`] when it is written, before the next.
    pub fn next_write(&mut self) -> Option<ChunkWrite<B>> {
        if self.written_count == self.sealed.len() {
            self.open.as_ref()?;
            self.seal();
        }
        let chunk = self.sealed.get(self.written_count).expect("an unwritten chunk is there");
        Some(ChunkWrite { start: chunk.start, end: chunk.end, buffer: Rc::clone(&chunk.memory) })
    }

    /// The oldest unwritten chunk is written up to `end`; old ones are forgotten beyond the cache's bound.
    pub fn written(&mut self, end: LogOffset) {
        let chunk = self.sealed.get(self.written_count).expect("a chunk was in flight");
        assert_eq!(chunk.end, end, "chunks are written in order");
        self.written_count += 1;
        // The newest is kept whatever its size: the next chunk may begin inside its last block.
        while self.sealed_bytes > self.cache_bytes_max && self.written_count > 1 {
            let oldest = self.sealed.pop_front().expect("a written chunk is there");
            self.sealed_bytes -= oldest.memory.bytes().len();
            self.written_count -= 1;
        }
    }

    /// The `len` bytes of the log at `offset`, when they are in memory, in one piece.
    pub fn bytes(&self, offset: LogOffset, len: usize) -> Option<&[u8]> {
        let end = offset.plus(len as u64);
        if let Some(open) = &self.open
            && offset >= open.start
            && end <= open.end
        {
            return slice(&open.memory, open.start, offset, len);
        }
        // Neighbours may overlap by the beginning of a block; a record is whole in the chunk that it ends in.
        let index = self.sealed.partition_point(|chunk| chunk.end < end);
        let chunk = self.sealed.get(index)?;
        if offset < chunk.start {
            return None;
        }
        slice(chunk.memory.as_ref(), chunk.start, offset, len)
    }

    /// The first log offset in memory.
    pub fn start(&self) -> LogOffset {
        match (self.sealed.front(), &self.open) {
            (Some(chunk), _) => chunk.start,
            (None, Some(open)) => open.start,
            (None, None) => self.end,
        }
    }

    fn open_chunk(&mut self, len: usize, allocate: impl FnOnce(usize) -> B) {
        let inside = block_position(self.end);
        let needed = (inside + len).next_multiple_of(BLOCK_BYTES);
        let mut memory = allocate(self.chunk_bytes.max(needed));
        if inside > 0 {
            let last = self.sealed.back().expect("the chunk that ends inside the block is kept");
            assert_eq!(last.end, self.end, "the last chunk ends where the log does");
            let from = last.len() - inside;
            memory.bytes_mut()[..inside].copy_from_slice(&last.memory.bytes()[from..from + inside]);
        }
        let start = LogOffset::new(self.end.get() - inside as u64);
        self.open = Some(Chunk { start, end: self.end, memory });
    }

    fn seal(&mut self) {
        let Chunk { start, end, mut memory } = self.open.take().expect("a chunk is open");
        let len = usize::try_from(end.since(start)).expect("a chunk is in memory");
        let padded = len.next_multiple_of(BLOCK_BYTES);
        memory.bytes_mut()[len..padded].fill(0);
        memory.truncate(padded);
        self.sealed_bytes += padded;
        self.sealed.push_back(Chunk { start, end, memory: Rc::new(memory) });
        // Twice the group leaves room for its neighbour; small groups shrink it again, slowly.
        let fitting = (2 * len).next_power_of_two().clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
        self.chunk_bytes = fitting.max(self.chunk_bytes / 2);
    }
}

fn slice<B: Buffer>(memory: &B, start: LogOffset, offset: LogOffset, len: usize) -> Option<&[u8]> {
    let from = usize::try_from(offset.since(start)).expect("a chunk is in memory");
    memory.bytes().get(from..from + len)
}

/// How far inside its block `offset` lies.
fn block_position(offset: LogOffset) -> usize {
    usize::try_from(offset.get() % BLOCK_BYTES as u64).expect("less than a block")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Plain(Vec<u8>);

    impl Buffer for Plain {
        fn bytes(&self) -> &[u8] {
            &self.0
        }
        fn bytes_mut(&mut self) -> &mut [u8] {
            &mut self.0
        }
        fn truncate(&mut self, len: usize) {
            self.0.truncate(len);
        }
    }

    fn garbage(len: usize) -> Plain {
        Plain(vec![0xA5; len])
    }

    fn append(tail: &mut Tail<Plain>, byte: u8, len: usize) {
        tail.reserve(len, garbage).fill(byte);
    }

    #[test]
    fn a_frozen_chunk_keeps_its_bytes_while_the_log_goes_on_in_the_same_block() {
        let mut tail = Tail::new(LogOffset::ZERO, &[], 1 << 20, garbage);
        append(&mut tail, 1, 100);
        let first = tail.next_write().unwrap();
        append(&mut tail, 2, 50);
        assert_eq!(&first.buffer.bytes()[..100], [1; 100]);
        assert!(first.buffer.bytes()[100..].iter().all(|byte| *byte == 0), "behind the end are zeros");
        assert_eq!(first.buffer.bytes().len(), BLOCK_BYTES);
        tail.written(first.end);
        let second = tail.next_write().unwrap();
        assert_eq!(second.start, LogOffset::ZERO, "the block is written again");
        assert_eq!(&second.buffer.bytes()[..100], [1; 100], "with the identical beginning");
        assert_eq!(&second.buffer.bytes()[100..150], [2; 50]);
        tail.written(second.end);
        assert!(tail.next_write().is_none());
    }

    #[test]
    fn every_record_is_readable_in_one_piece_until_it_is_evicted() {
        let mut tail = Tail::new(LogOffset::ZERO, &[], 64 * 1024, garbage);
        let mut records = Vec::new();
        for round in 0..200usize {
            let len = 1 + (round * 7919) % 9000;
            let offset = tail.end();
            append(&mut tail, (round % 251) as u8, len);
            records.push((offset, len, (round % 251) as u8));
            if round % 3 == 0
                && let Some(write) = tail.next_write()
            {
                tail.written(write.end);
            }
            for (offset, len, byte) in &records {
                match tail.bytes(*offset, *len) {
                    Some(bytes) => assert!(bytes.iter().all(|found| found == byte), "record at {offset}"),
                    None => {
                        assert!(*offset < tail.start().plus(BLOCK_BYTES as u64), "only old ones are gone")
                    }
                }
            }
        }
    }

    #[test]
    fn a_tail_opened_inside_a_block_writes_that_block_whole() {
        let mut tail = Tail::new(LogOffset::new(BLOCK_BYTES as u64 + 3), &[7, 8, 9], 1 << 20, garbage);
        append(&mut tail, 1, 10);
        let write = tail.next_write().unwrap();
        assert_eq!(write.start, LogOffset::new(BLOCK_BYTES as u64));
        assert_eq!(&write.buffer.bytes()[..4], [7, 8, 9, 1]);
    }
}
