//! Reading the log record by record: what is valid, and where it stops being so.
//!
//! [`Scanner`] is fed a segment's bytes in pieces of any size and calls back for each valid record. It does no
//! I/O. Beyond RocketMQ's checks a record must say its own position (so recycled or misplaced bytes don't
//! count), leave room for the blank behind it, and have a store time.

use std::{fmt, ops::ControlFlow};

use protocol::message::{BLANK_BYTES_MIN, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, RecordError, StoredMessage};

use crate::offset::LogOffset;

/// Disks write this much as one; torn writes miss multiples of it.
pub(crate) const SECTOR_BYTES: u64 = 512;
/// Up to where a record must be read to know the position it claims.
const POSITION_END: usize = 36;

/// Why there is no valid record at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// Size and magic are zero: nothing was ever written, or it was lost.
    Unwritten,
    /// The record, or its blank, doesn't fit what is left of the segment.
    BeyondSegment {
        /// Its size.
        total_size: i32,
        /// Bytes left.
        left: u64,
    },
    /// The blank doesn't reach to the segment's end.
    BlankSize {
        /// Its size.
        total_size: i32,
        /// Bytes left.
        left: u64,
    },
    /// The record says that it belongs elsewhere.
    Misplaced {
        /// Where.
        physical_offset: i64,
    },
    /// A number is negative that can't be, or the store time isn't positive.
    Number,
    /// The properties end in zeros, as when the last write didn't arrive whole.
    TornProperties,
    /// It is malformed, or its body isn't what was stored.
    Record(RecordError),
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Invalid::Unwritten => f.write_str("nothing is written there"),
            Invalid::BeyondSegment { total_size, left } => {
                write!(f, "a record of {total_size} bytes where the segment has {left} left")
            }
            Invalid::BlankSize { total_size, left } => {
                write!(f, "a blank of {total_size} bytes where the segment has {left} left")
            }
            Invalid::Misplaced { physical_offset } => {
                write!(f, "a record that belongs to {physical_offset}")
            }
            Invalid::Number => f.write_str("a record with an impossible time, queue or queue offset"),
            Invalid::TornProperties => f.write_str("properties that end in zeros"),
            Invalid::Record(error) => error.fmt(f),
        }
    }
}

/// What the scanner came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scanned {
    /// The bytes so far are valid; more are needed.
    NeedsMore,
    /// The blank: the segment is complete.
    SegmentEnd,
    /// What stands at [`Scanner::position`] is no valid record.
    Invalid(Invalid),
}

/// Scans one segment. See the module.
pub struct Scanner {
    position: u64,
    segment_end: u64,
    check_body: bool,
    /// Bytes from `position` on, when a piece ended inside a record.
    carried: Vec<u8>,
}

impl Scanner {
    /// A scanner of the segment of `segment_bytes` at `base`; `check_body` has body checksums compared.
    #[must_use]
    pub fn new(base: LogOffset, segment_bytes: u64, check_body: bool) -> Scanner {
        Scanner {
            position: base.get(),
            segment_end: base.get() + segment_bytes,
            check_body,
            carried: Vec::new(),
        }
    }

    /// Where the next record begins: everything before it is valid.
    #[must_use]
    pub fn position(&self) -> LogOffset {
        LogOffset::new(self.position)
    }

    /// Takes the segment's next bytes. `each` is called for every valid record with its position and bytes, until
    /// it breaks.
    pub fn on_bytes<B>(
        &mut self,
        bytes: &[u8],
        each: &mut impl FnMut(LogOffset, &StoredMessage<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B, Scanned> {
        let mut carried = std::mem::take(&mut self.carried);
        let bytes = if carried.is_empty() {
            bytes
        } else {
            carried.extend_from_slice(bytes);
            &carried
        };
        let mut used = 0;
        let scanned = loop {
            match check(&bytes[used..], self.position, self.segment_end - self.position, self.check_body) {
                Checked::Valid(message, size) => {
                    each(LogOffset::new(self.position), &message)?;
                    used += size;
                    self.position += size as u64;
                }
                Checked::Blank => break Scanned::SegmentEnd,
                Checked::NeedsMore => break Scanned::NeedsMore,
                Checked::Invalid(invalid) => break Scanned::Invalid(invalid),
            }
        };
        self.carried = bytes[used..].to_vec();
        ControlFlow::Continue(scanned)
    }
}

/// What stands at a position.
pub(crate) enum Checked<'a> {
    Valid(StoredMessage<'a>, usize),
    Blank,
    NeedsMore,
    Invalid(Invalid),
}

/// Checks what stands at `position`, where `left` bytes of the segment are left and `bytes` begin.
pub(crate) fn check(bytes: &[u8], position: u64, left: u64, check_body: bool) -> Checked<'_> {
    if left < BLANK_BYTES_MIN as u64 {
        return Checked::Invalid(Invalid::BeyondSegment { total_size: 0, left });
    }
    let Some((size, rest)) = bytes.split_first_chunk::<4>() else { return Checked::NeedsMore };
    let Some(magic) = rest.first_chunk::<4>() else { return Checked::NeedsMore };
    let total_size = i32::from_be_bytes(*size);
    let magic = i32::from_be_bytes(*magic);
    if total_size == 0 && magic == 0 {
        return Checked::Invalid(Invalid::Unwritten);
    }
    // A negative size is refused by the decoder below, and here counts as nothing.
    let size = u64::try_from(total_size).unwrap_or(0);
    if magic == MAGIC_BLANK {
        let blank = size == left;
        return if blank {
            Checked::Blank
        } else {
            Checked::Invalid(Invalid::BlankSize { total_size, left })
        };
    }
    if (magic == MAGIC_V1 || magic == MAGIC_V2) && size > left - BLANK_BYTES_MIN as u64 {
        return Checked::Invalid(Invalid::BeyondSegment { total_size, left });
    }
    // Before a whole record is waited for it must at least belong here.
    if let Some(head) = bytes.get(..POSITION_END) {
        let claimed = head.last_chunk::<8>().map_or(0, |field| i64::from_be_bytes(*field));
        let known = magic == MAGIC_V1 || magic == MAGIC_V2;
        if known && u64::try_from(claimed) != Ok(position) {
            return Checked::Invalid(Invalid::Misplaced { physical_offset: claimed });
        }
    }
    match StoredMessage::decode(bytes) {
        Ok((message, size)) => match check_content(&message, check_body) {
            Ok(()) => Checked::Valid(message, size),
            Err(invalid) => Checked::Invalid(invalid),
        },
        Err(RecordError::RecordCutShort { .. }) => Checked::NeedsMore,
        Err(error) => Checked::Invalid(Invalid::Record(error)),
    }
}

fn check_content(message: &StoredMessage<'_>, check_body: bool) -> Result<(), Invalid> {
    if message.store_timestamp_ms <= 0 || message.queue_offset < 0 || message.queue_id < 0 {
        return Err(Invalid::Number);
    }
    if check_body {
        message.check_body_crc().map_err(Invalid::Record)?;
    }
    Ok(())
}

/// Whether the properties of the record that ends at `end` (in its segment) look as if their last write had not
/// arrived whole: they end in a zero, or hold a whole sector of zeros. No checksum covers them. Brokers append
/// properties of their own to every message, so a whole string doesn't end in a zero.
pub(crate) fn properties_torn(message: &StoredMessage<'_>, end: u64) -> bool {
    let properties = message.properties.as_bytes();
    if properties.last() == Some(&0) {
        return true;
    }
    let mut start = end - properties.len() as u64;
    start = start.next_multiple_of(SECTOR_BYTES);
    while start + SECTOR_BYTES <= end {
        let from = properties.len() - usize::try_from(end - start).unwrap_or(0);
        let sector = &properties[from..from + SECTOR_BYTES as usize];
        if sector.iter().all(|&byte| byte == 0) {
            return true;
        }
        start += SECTOR_BYTES;
    }
    false
}
