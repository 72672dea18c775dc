//! What stands behind the last valid record: zeros, rubbish, or records.
//!
//! Reads every byte from there to the end of the last file, once. Records are searched at every position: not
//! all can be found by walking, because what is damaged has no size. A record counts when it says its own position
//! and its body is what was stored; one older than those before the end is a leftover (RocketMQ doesn't zero
//! what it cuts) and doesn't.

use std::ops::Range;

use protocol::message::{MAGIC_V1, MAGIC_V2, RECORD_BYTES_MIN};

use super::{
    scan::{Checked, SECTOR_BYTES, check},
    segments::{PIECE_BYTES, ScanEnd, SegmentFile, Segments},
};
use crate::{
    error::StoreError,
    io::{Access, File, Runtime},
    offset::LogOffset,
};

/// What isn't zero is noted in blocks of this size.
const BLOCK_BYTES: u64 = 4096;
/// Bytes of a record up to the end of the position it claims.
const HEAD_BYTES: usize = 36;
/// Zeros that begin a sector and are shorter than this may be the start of a size.
const ZEROS_MIN: u64 = 3;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// Log positions of what isn't zero, in whole blocks but for the first.
    pub unclean: Vec<Range<u64>>,
    /// The first valid record behind.
    pub valid: Option<ValidRecord>,
    /// How many valid records there are.
    pub valid_count: u64,
    /// The place where a valid record is missing looks like a write that didn't arrive.
    pub sectors_missing: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ValidRecord {
    pub at: LogOffset,
    pub store_timestamp_ms: i64,
}

impl Tail {
    /// Bytes that aren't zero, in whole blocks but for the first.
    pub fn unclean_bytes(&self) -> u64 {
        self.unclean.iter().map(|range| range.end - range.start).sum()
    }

    fn on_unclean(&mut self, range: Range<u64>) {
        match self.unclean.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.unclean.push(range),
        }
    }
}

/// Searches what stands behind the end of a scan.
pub(crate) async fn search<R: Runtime>(
    runtime: &R,
    segments: &Segments,
    end: &ScanEnd,
    mut progress: impl FnMut(LogOffset),
) -> Result<Tail, StoreError> {
    let mut tail = Tail::default();
    for &file in segments.files.iter().filter(|file| file.end() > end.position) {
        let open = segments.open(runtime, file, Access::ReadOnly).await?;
        let mut reader = Reader { open, segments, file };
        search_file::<R>(&mut reader, end, &mut tail, &mut progress).await?;
        if file.base <= end.position {
            let limit = tail.valid.map_or(file.end(), |valid| valid.at);
            tail.sectors_missing = sectors_missing::<R>(&reader, end.position, limit).await?;
        }
    }
    Ok(tail)
}

/// One file, read by log position.
struct Reader<'a, R: Runtime> {
    open: R::File,
    segments: &'a Segments,
    file: SegmentFile,
}

impl<R: Runtime> Reader<'_, R> {
    async fn read(&self, at: u64, len: usize) -> Result<Vec<u8>, StoreError> {
        let position = at - self.file.base.get();
        let bytes = self.open.read(position, len).await;
        let bytes = bytes.map_err(StoreError::io("reading a segment", self.segments.path(self.file)))?;
        if bytes.is_empty() {
            let path = self.segments.path(self.file);
            return Err(StoreError::FileLength { path, expected: self.file.len, found: position });
        }
        Ok(bytes)
    }
}

async fn search_file<R: Runtime>(
    reader: &mut Reader<'_, R>,
    end: &ScanEnd,
    tail: &mut Tail,
    progress: &mut impl FnMut(LogOffset),
) -> Result<(), StoreError> {
    let file_end = reader.file.end().get();
    let mut at = reader.file.base.max(end.position).get();
    // Records are looked for from here: not inside one that was found.
    let mut search_from = at;
    let mut before: Vec<u8> = Vec::new();
    while at < file_end {
        let bytes = reader.read(at, PIECE_BYTES).await?;
        note_unclean(&bytes, at, reader.file.base.get(), tail);
        let next = at + bytes.len() as u64;
        // Heads that begin in the last piece and end in this one.
        let window_start = at - before.len() as u64;
        before.extend_from_slice(&bytes);
        for found in candidates(&before, window_start) {
            if found < search_from {
                continue;
            }
            if let Some((record, size)) = verify(reader, found).await?
                && record.store_timestamp_ms >= end.last_store_timestamp_ms
                && found > end.position.get()
            {
                tail.valid.get_or_insert(record);
                tail.valid_count += 1;
                search_from = found + size;
            }
        }
        let keep = before.len().min(HEAD_BYTES - 1);
        before.drain(..before.len() - keep);
        at = next;
        progress(LogOffset::new(at));
    }
    Ok(())
}

/// Notes the blocks of `bytes` that aren't zero.
fn note_unclean(bytes: &[u8], at: u64, base: u64, tail: &mut Tail) {
    let mut from = 0;
    while from < bytes.len() {
        let position = at + from as u64;
        let to_boundary = BLOCK_BYTES - (position - base) % BLOCK_BYTES;
        let len = usize::try_from(to_boundary).unwrap_or(usize::MAX).min(bytes.len() - from);
        if !is_zero(&bytes[from..from + len]) {
            tail.on_unclean(position..position + len as u64);
        }
        from += len;
    }
}

/// Positions at which a record that says that very position may begin.
fn candidates(bytes: &[u8], at: u64) -> Vec<u64> {
    let mut found = Vec::new();
    let mut from = 0;
    while from + HEAD_BYTES <= bytes.len() {
        // Most of a tail is zero: pass over it quickly.
        let ahead = &bytes[from..bytes.len().min(from + 256)];
        if ahead.len() == 256 && is_zero(ahead) {
            from += 256 - HEAD_BYTES;
            continue;
        }
        let head = &bytes[from..from + HEAD_BYTES];
        let magic = i32::from_be_bytes([head[4], head[5], head[6], head[7]]);
        let position = at + from as u64;
        if (magic == MAGIC_V1 || magic == MAGIC_V2)
            && head.last_chunk::<8>().is_some_and(|claimed| u64::from_be_bytes(*claimed) == position)
        {
            found.push(position);
        }
        from += 1;
    }
    found
}

/// The record at `at`, if it is valid, and its size.
async fn verify<R: Runtime>(
    reader: &Reader<'_, R>,
    at: u64,
) -> Result<Option<(ValidRecord, u64)>, StoreError> {
    let left = reader.file.end().get() - at;
    let mut len = RECORD_BYTES_MIN;
    let mut bytes = Vec::new();
    // First the size, then all of it.
    for _ in 0..2 {
        bytes.clear();
        while bytes.len() < len {
            let read = reader.read(at + bytes.len() as u64, len - bytes.len()).await;
            match read {
                Ok(more) => bytes.extend_from_slice(&more),
                Err(StoreError::FileLength { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        match check(&bytes, at, left, true) {
            Checked::Valid(message, size) => {
                let record =
                    ValidRecord { at: LogOffset::new(at), store_timestamp_ms: message.store_timestamp_ms };
                return Ok(Some((record, size as u64)));
            }
            Checked::NeedsMore => {
                let size = bytes.first_chunk::<4>().map_or(0, |field| u32::from_be_bytes(*field));
                len = size as usize;
            }
            Checked::Blank | Checked::Invalid(_) => return Ok(None),
        }
    }
    Ok(None)
}

/// Whether the missing record at `end` looks like a write of which sectors didn't arrive: what the first sector
/// has of it is zero, or a later sector is, of those that hold its head or (when the head is there) that it says it
/// covers, up to `limit`.
async fn sectors_missing<R: Runtime>(
    reader: &Reader<'_, R>,
    end: LogOffset,
    limit: LogOffset,
) -> Result<bool, StoreError> {
    let base = reader.file.base.get();
    let at = end.get();
    let left = limit.since(end);
    let head_len = left.min(HEAD_BYTES as u64);
    let head = reader.read(at, usize::try_from(head_len).expect("a head is small")).await?;
    let first_len = SECTOR_BYTES - (at - base) % SECTOR_BYTES;
    let Some(span) = covered(&head, at, first_len) else {
        let first = reader.read(at, usize::try_from(first_len.min(left)).expect("a sector is small")).await?;
        return Ok(first_len >= ZEROS_MIN && is_zero(&first));
    };
    let span_end = at + span.min(left);
    let mut from = at;
    while from < span_end {
        let sector_end = base + (from - base) / SECTOR_BYTES * SECTOR_BYTES + SECTOR_BYTES;
        let to = sector_end.min(span_end);
        let bytes = reader.read(from, usize::try_from(to - from).expect("a sector is small")).await?;
        if to - from >= ZEROS_MIN && is_zero(&bytes) {
            return Ok(true);
        }
        from = to;
    }
    Ok(false)
}

/// How many bytes from `at` on the record there would cover, as far as its head tells, of which the first
/// `first_len` are in one sector; `None` when what is in that sector is no record's head.
fn covered(head: &[u8], at: u64, first_len: u64) -> Option<u64> {
    let size = u32::from_be_bytes(*head.first_chunk()?);
    let magic = head.get(4..8)?;
    let known = [MAGIC_V1, MAGIC_V2].map(i32::to_be_bytes);
    let first_len = usize::try_from(first_len).unwrap_or(usize::MAX);
    let magic_there = &magic[..first_len.saturating_sub(4).min(4)];
    if !known.iter().any(|known| known.starts_with(magic_there)) {
        return None;
    }
    let claims = head.last_chunk::<8>().filter(|_| head.len() == HEAD_BYTES);
    let whole = known.iter().any(|known| known == magic) && claims == Some(&at.to_be_bytes());
    Some(if whole { u64::from(size) } else { head.len() as u64 })
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().fold(0, |all, &byte| all | byte) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_say_their_own_position() {
        let mut bytes = vec![0; 2000];
        let mut put = |at: usize, claimed: u64| {
            bytes[at + 4..at + 8].copy_from_slice(&MAGIC_V1.to_be_bytes());
            bytes[at + 28..at + 36].copy_from_slice(&claimed.to_be_bytes());
        };
        put(0, 5000);
        put(300, 5300);
        put(700, 5701);
        put(1964, 6964);
        assert_eq!(candidates(&bytes, 5000), [5000, 5300, 6964]);
        assert_eq!(candidates(&bytes[..1999], 5000), [5000, 5300]);
    }

    #[test]
    fn a_head_tells_what_its_record_covers() {
        let mut head = vec![0; HEAD_BYTES];
        head[2..4].copy_from_slice(&[1, 0x73]);
        head[4..8].copy_from_slice(&MAGIC_V1.to_be_bytes());
        head[28..].copy_from_slice(&700_u64.to_be_bytes());
        assert_eq!(covered(&head, 700, 500), Some(0x173));
        // The position is in the sector that is missing.
        head[28..].fill(0);
        assert_eq!(covered(&head, 700, 20), Some(36));
        // So is part of the magic, and all of it.
        head[6..].fill(0);
        assert_eq!(covered(&head, 700, 6), Some(36));
        assert_eq!(covered(&head, 700, 7), None);
        head[4..].fill(0);
        assert_eq!(covered(&head, 700, 4), Some(36));
        // A blank's size without its magic.
        assert_eq!(covered(&head, 700, 500), None);
    }

    #[test]
    fn what_is_not_zero_is_noted_by_block() {
        let mut bytes = vec![0; 20_000];
        for at in [10, 4500, 8300, 19_999] {
            bytes[at] = 1;
        }
        let mut tail = Tail::default();
        // Positions 1000.. of a segment at 0: blocks end at 4096, 8192, 12288, ...
        note_unclean(&bytes, 1000, 0, &mut tail);
        assert_eq!(tail.unclean, [1000..12_288, 20_480..21_000]);
    }
}
