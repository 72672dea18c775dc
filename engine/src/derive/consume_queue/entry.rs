//! One entry of a consume queue: where the message with this queue offset is.

use crate::offset::LogOffset;

/// Size of an entry in a file.
pub const ENTRY_BYTES: u64 = 20;

/// What RocketMQ writes into slots before a queue's first entry, as their size. See [`Entry::HOLE`].
const HOLE_SIZE: u32 = 0x7FFF_FFFF;

/// Where a message is and how big it is; entry number n is the message with queue offset n.
///
/// ```text
///  0        8      12         20   big-endian
///  | i64    | i32  | i64       |
///  log off.  size   tags code
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where its record begins.
    pub log_offset: LogOffset,
    /// Size of its record in bytes.
    pub size: u32,
    /// Hash of its tags, or when to deliver a delayed message (ms since 1970).
    pub tags_code: i64,
}

impl Entry {
    /// A slot that has no message: before a queue's first one, or for a number that the log never used.
    pub const HOLE: Entry = Entry { log_offset: LogOffset::ZERO, size: HOLE_SIZE, tags_code: 0 };

    /// Whether this is [`Entry::HOLE`].
    #[must_use]
    pub fn is_hole(self) -> bool {
        self == Entry::HOLE
    }

    /// Where its record ends; `None` for a hole.
    #[must_use]
    pub fn log_end(self) -> Option<LogOffset> {
        (!self.is_hole()).then(|| self.log_offset.plus(u64::from(self.size)))
    }

    /// Appends its 20 bytes to `out`.
    pub fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.log_offset.as_i64().to_be_bytes());
        out.extend_from_slice(&self.size.to_be_bytes());
        out.extend_from_slice(&self.tags_code.to_be_bytes());
    }

    /// The entry in 20 bytes; `None` when they hold none (offset negative, or size not positive).
    #[must_use]
    pub fn decode(bytes: &[u8; ENTRY_BYTES as usize]) -> Option<Entry> {
        let (log_offset, rest) = bytes.split_first_chunk::<8>()?;
        let (size, rest) = rest.split_first_chunk::<4>()?;
        let tags_code = rest.first_chunk::<8>()?;
        let log_offset = LogOffset::from_i64(i64::from_be_bytes(*log_offset))?;
        let size = u32::try_from(i32::from_be_bytes(*size)).ok().filter(|&size| size > 0)?;
        // A sum that doesn't fit is no place in a log.
        log_offset.get().checked_add(u64::from(size)).filter(|&end| i64::try_from(end).is_ok())?;
        Some(Entry { log_offset, size, tags_code: i64::from_be_bytes(*tags_code) })
    }

    /// The entries in `bytes`, up to the first slot that holds none; a rest shorter than an entry is left out.
    pub(crate) fn decode_all(bytes: &[u8]) -> impl Iterator<Item = Entry> {
        bytes.as_chunks().0.iter().map_while(Entry::decode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_rocketmqs_bytes() {
        // store.md 6: topic TopicTest, tag TagA, at 0, 115 bytes.
        let entry = Entry { log_offset: LogOffset::ZERO, size: 0x73, tags_code: 2_598_919 };
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        let expected = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x73, 0, 0, 0, 0, 0, 0x27, 0xA8, 0x07];
        assert_eq!(bytes, expected);
        assert_eq!(Entry::decode(&expected), Some(entry));
    }

    #[test]
    fn zero_negative_and_overflowing_slots_are_no_entries() {
        let check = |log_offset: i64, size: i32| {
            let mut bytes = [0; 20];
            bytes[..8].copy_from_slice(&log_offset.to_be_bytes());
            bytes[8..12].copy_from_slice(&size.to_be_bytes());
            Entry::decode(&bytes)
        };
        assert_eq!(check(0, 0), None);
        assert_eq!(check(5, 0), None);
        assert_eq!(check(5, -1), None);
        assert_eq!(check(-1, 100), None);
        assert_eq!(check(i64::MAX, 100), None);
        assert!(check(0, 0x7FFF_FFFF).unwrap().is_hole());
        assert!(!check(1, 0x7FFF_FFFF).unwrap().is_hole());
    }
}
