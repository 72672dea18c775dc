//! Old bytes of the log, in pieces, in a bounded cache.
//!
//! A pull never awaits. When it meets bytes that are neither in the log's tail nor here it gives up with the pieces it
//! needs; they are read by io_uring into this cache, and the pull is run again from the start. A piece is always
//! read with its successor when pulls walk forward, so a scan finds the next piece here.
//!
//! Pieces are counted from the beginning of each file, because no read goes over a file's end and a file's length
//! needn't be a multiple of the piece size: the last piece of a file may be short.

use std::collections::HashMap;

use crate::{limits::COLD_PIECE_BYTES, offset::LogOffset};

/// One piece to read: `len` bytes of the log at `start`, all in one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceRead {
    /// Where the piece begins: a multiple of the piece size behind the beginning of its file.
    pub start: LogOffset,
    /// How many bytes of it were written when the read was asked for.
    pub len: usize,
}

struct Piece {
    bytes: Vec<u8>,
    used: u64,
}

/// See the module.
pub struct ColdCache {
    pieces: HashMap<u64, Piece>,
    pieces_max: usize,
    /// The largest record asked for so far needs so many pieces at the same time: the bound is never below.
    pieces_min: usize,
    segment_bytes: u64,
    clock: u64,
}

impl ColdCache {
    /// A cache of at most `bytes_max` bytes, though never less than four pieces or the largest record asked for, of a
    /// log in files of `segment_bytes`.
    #[must_use]
    pub fn new(bytes_max: usize, segment_bytes: u64) -> ColdCache {
        let pieces_max = (bytes_max / COLD_PIECE_BYTES).max(4);
        ColdCache { pieces: HashMap::new(), pieces_max, pieces_min: 0, segment_bytes, clock: 0 }
    }

    /// The piece that `offset` lies in.
    fn piece_start(&self, offset: LogOffset) -> u64 {
        let inside = offset.get() % self.segment_bytes;
        offset.get() - inside % COLD_PIECE_BYTES as u64
    }

    /// Where the file that holds `offset` ends.
    fn file_end(&self, offset: u64) -> u64 {
        (offset / self.segment_bytes + 1) * self.segment_bytes
    }

    /// How many bytes one pull may take from cold pieces: what the cache surely holds together.
    #[must_use]
    pub fn pull_bytes_max(&self) -> usize {
        (self.pieces_max - 2) * COLD_PIECE_BYTES
    }

    /// Appends the `len` bytes at `offset` to `out`. `Err` names a piece that must be read first; then nothing was
    /// appended.
    pub fn copy(&mut self, offset: LogOffset, len: usize, out: &mut Vec<u8>) -> Result<(), LogOffset> {
        if let Some(start) = self.missing(offset, len) {
            return Err(start);
        }
        let end = offset.plus(len as u64).get();
        self.clock += 1;
        let mut from = offset.get();
        while from < end {
            let start = self.piece_start(LogOffset::new(from));
            let piece = self.pieces.get_mut(&start).expect("no piece is missing");
            piece.used = self.clock;
            let inside = usize::try_from(from - start).expect("inside a piece");
            let until =
                usize::try_from(end - start).map_or(COLD_PIECE_BYTES, |rest| rest.min(COLD_PIECE_BYTES));
            out.extend_from_slice(&piece.bytes[inside..until]);
            from = start + until as u64;
        }
        Ok(())
    }

    /// The first piece that must be read before the `len` bytes at `offset` can be copied.
    #[must_use]
    pub fn missing(&mut self, offset: LogOffset, len: usize) -> Option<LogOffset> {
        let end = offset.plus(len as u64).get();
        let mut at = self.piece_start(offset);
        // One more: a scan reads the successor, too.
        let count = (end - at).div_ceil(COLD_PIECE_BYTES as u64) + 1;
        self.pieces_min = self.pieces_min.max(usize::try_from(count).expect("a record is in memory"));
        while at < end {
            let needed =
                usize::try_from(end - at).map_or(COLD_PIECE_BYTES, |rest| rest.min(COLD_PIECE_BYTES));
            if self.pieces.get(&at).is_none_or(|piece| piece.bytes.len() < needed) {
                return Some(LogOffset::new(at));
            }
            at += COLD_PIECE_BYTES as u64;
        }
        None
    }

    /// What to read for the piece at `start`, and its successor when the predecessor is here (a scan), up to
    /// `written_end` and never over a file's end.
    #[must_use]
    pub fn plan(&self, start: LogOffset, written_end: LogOffset) -> Vec<PieceRead> {
        let before = start.get().checked_sub(1).map(|last| self.piece_start(LogOffset::new(last)));
        let is_scan = before.is_some_and(|before| self.pieces.contains_key(&before));
        let count = if is_scan { 2 } else { 1 };
        let mut reads = Vec::new();
        let mut at = start.get();
        for _ in 0..count {
            if at >= written_end.get() {
                break;
            }
            let next = self.file_end(at).min(at + COLD_PIECE_BYTES as u64);
            let len = usize::try_from(next.min(written_end.get()) - at).expect("a piece");
            reads.push(PieceRead { start: LogOffset::new(at), len });
            at = next;
        }
        reads
    }

    /// A piece was read.
    pub fn on_read(&mut self, start: LogOffset, bytes: Vec<u8>) {
        assert_eq!(
            start.get(),
            self.piece_start(start),
            "pieces are counted from the beginning of their file"
        );
        self.clock += 1;
        self.pieces.insert(start.get(), Piece { bytes, used: self.clock });
        while self.pieces.len() > self.pieces_max.max(self.pieces_min) {
            let oldest = self.pieces.iter().min_by_key(|(_, piece)| piece.used).map(|(start, _)| *start);
            self.pieces.remove(&oldest.expect("the cache is over its bound"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four pieces and a short one.
    const SEGMENT_BYTES: u64 = 4 * COLD_PIECE_BYTES as u64 + 4096;

    #[test]
    fn a_copy_over_two_pieces_needs_both_and_is_in_order() {
        let mut cache = ColdCache::new(8 * COLD_PIECE_BYTES, SEGMENT_BYTES);
        let edge = COLD_PIECE_BYTES as u64;
        let mut out = Vec::new();
        assert_eq!(cache.copy(LogOffset::new(edge - 2), 4, &mut out), Err(LogOffset::ZERO));
        cache.on_read(LogOffset::ZERO, vec![1; COLD_PIECE_BYTES]);
        assert_eq!(cache.copy(LogOffset::new(edge - 2), 4, &mut out), Err(LogOffset::new(edge)));
        cache.on_read(LogOffset::new(edge), vec![2; 2]);
        assert_eq!(cache.copy(LogOffset::new(edge - 2), 4, &mut out), Ok(()));
        assert_eq!(out, [1, 1, 2, 2]);
        assert_eq!(
            cache.copy(LogOffset::new(edge), 3, &mut out),
            Err(LogOffset::new(edge)),
            "a piece read while it was short is read again"
        );
    }

    #[test]
    fn the_cache_is_bounded_and_forgets_what_was_used_longest_ago() {
        let mut cache = ColdCache::new(4 * COLD_PIECE_BYTES, SEGMENT_BYTES);
        for index in 0..10u64 {
            cache.on_read(LogOffset::new(index * SEGMENT_BYTES), vec![0; COLD_PIECE_BYTES]);
        }
        assert_eq!(cache.pieces.len(), 4);
        assert_eq!(cache.missing(LogOffset::new(9 * SEGMENT_BYTES), 10), None);
        assert_eq!(cache.missing(LogOffset::ZERO, 10), Some(LogOffset::ZERO));
    }

    #[test]
    fn a_scan_reads_ahead_and_never_over_a_file() {
        let mut cache = ColdCache::new(4 * COLD_PIECE_BYTES, SEGMENT_BYTES);
        let piece = COLD_PIECE_BYTES as u64;
        let end = LogOffset::new(10 * piece);
        assert_eq!(cache.plan(LogOffset::ZERO, end).len(), 1);
        cache.on_read(LogOffset::ZERO, vec![0; COLD_PIECE_BYTES]);
        let reads = cache.plan(LogOffset::new(piece), LogOffset::new(2 * piece + 5));
        let lens: Vec<usize> = reads.iter().map(|read| read.len).collect();
        assert_eq!(lens, [COLD_PIECE_BYTES, 5]);
        cache.on_read(LogOffset::new(3 * piece), vec![0; COLD_PIECE_BYTES]);
        let reads = cache.plan(LogOffset::new(4 * piece), end);
        let reads: Vec<(u64, usize)> = reads.iter().map(|read| (read.start.get(), read.len)).collect();
        assert_eq!(reads, [(4 * piece, 4096), (SEGMENT_BYTES, COLD_PIECE_BYTES)], "the last piece is short");
    }
}
