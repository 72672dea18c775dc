//! Reading one record. Every way in which it can be cut short or wrong is an error of its own, so that recovery and
//! `store check` can say what they found.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{BLANK_BYTES_MIN, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, RECORD_BYTES_MIN, body_crc, sys_flag};
use crate::limits::RECORD_BYTES_MAX;

/// An address and port as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostBytes {
    /// The address, 4 or 16 bytes as `sysFlag` says.
    pub ip: IpAddr,
    /// The port; 32 bits on disk.
    pub port: i32,
}

/// One record, borrowed from where it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredMessage<'a> {
    /// Bytes of the whole record.
    pub total_size: i32,
    /// [`MAGIC_V1`] or [`MAGIC_V2`].
    pub magic: i32,
    /// [`body_crc`] of the body, if nothing is broken: see [`StoredMessage::check_body_crc`].
    pub body_crc: i32,
    /// The queue.
    pub queue_id: i32,
    /// The user's flag.
    pub flag: i32,
    /// Its ordinal in the queue.
    pub queue_offset: i64,
    /// The log offset it claims; whoever knows the position compares.
    pub physical_offset: i64,
    /// Bits of [`sys_flag`].
    pub sys_flag: i32,
    /// The producer's clock, milliseconds of the epoch.
    pub born_timestamp_ms: i64,
    /// The producer's address.
    pub born_host: HostBytes,
    /// The broker's clock, milliseconds of the epoch.
    pub store_timestamp_ms: i64,
    /// The broker's advertised address.
    pub store_host: HostBytes,
    /// How often it was redelivered.
    pub reconsume_times: i32,
    /// Log offset of the prepared half, for transactions.
    pub prepared_transaction_offset: i64,
    /// The body as sent, compressed if `sysFlag` says so.
    pub body: &'a [u8],
    /// The topic.
    pub topic: &'a str,
    /// The properties string; see [`crate::properties`].
    pub properties: &'a str,
}

/// Why bytes are not a whole, well-formed record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// Not even the size is there.
    SizeCutShort {
        /// Bytes that are.
        available_bytes: usize,
    },
    /// The magic isn't there.
    MagicCutShort {
        /// Bytes that are.
        available_bytes: usize,
    },
    /// Not a record but the blank that fills a segment's end.
    Blank {
        /// Its size: what was left of the segment.
        total_size: i32,
    },
    /// The magic is neither a record's nor a blank's.
    UnknownMagic {
        /// What it is.
        magic: i32,
    },
    /// The size is below the smallest possible; negative and zero included.
    SizeTooSmall {
        /// The size.
        total_size: i32,
    },
    /// The size is above [`RECORD_BYTES_MAX`].
    SizeTooLarge {
        /// The size.
        total_size: i32,
    },
    /// The size reaches beyond the bytes that are there.
    RecordCutShort {
        /// The size.
        total_size: i32,
        /// Bytes that are there.
        available_bytes: usize,
    },
    /// 16-byte addresses don't fit into the size.
    HostsBeyondRecord {
        /// The size.
        total_size: i32,
    },
    /// The body's length is negative or reaches beyond the record.
    BodyBeyondRecord {
        /// The length.
        body_len: i32,
        /// Bytes the record has left there.
        available_bytes: usize,
    },
    /// The topic's length is missing, negative or reaches beyond the record.
    TopicBeyondRecord {
        /// The length; -1 when it is missing.
        topic_len: i32,
        /// Bytes the record has left there.
        available_bytes: usize,
    },
    /// The topic isn't UTF-8.
    TopicNotUtf8,
    /// The properties' length is missing, negative or reaches beyond the record.
    PropertiesBeyondRecord {
        /// The length; -1 when it is missing.
        properties_len: i32,
        /// Bytes the record has left there.
        available_bytes: usize,
    },
    /// The properties aren't UTF-8.
    PropertiesNotUtf8,
    /// The parts add up to less than the size.
    SizeMismatch {
        /// The size.
        total_size: i32,
        /// What the parts add up to.
        parts_bytes: usize,
    },
    /// The body's checksum is wrong.
    BodyCrcMismatch {
        /// What the record says.
        expected: i32,
        /// What its body gives.
        found: i32,
    },
}

impl<'a> StoredMessage<'a> {
    /// The record at the start of `bytes` and its size. What follows it is ignored.
    ///
    /// Checks all lengths against each other and the bytes that are there (store, 3.5, rows 1 to 4, 6 and 9). The
    /// checksum is a call of its own, the log offset is compared by whoever knows the position.
    pub fn decode(bytes: &'a [u8]) -> Result<(StoredMessage<'a>, usize), RecordError> {
        let (magic, total_size, record) = record_bytes(bytes)?;
        let mut reader = Reader { record, at: 8 };
        let body_crc = reader.int();
        let queue_id = reader.int();
        let flag = reader.int();
        let queue_offset = reader.long();
        let physical_offset = reader.long();
        let sys_flag = reader.int();
        let (born_v6, store_v6) =
            (sys_flag & sys_flag::BORNHOST_V6 != 0, sys_flag & sys_flag::STOREHOST_V6 != 0);
        let extra = 12 * (usize::from(born_v6) + usize::from(store_v6));
        if record.len() < RECORD_BYTES_MIN + extra {
            return Err(RecordError::HostsBeyondRecord { total_size });
        }
        let born_timestamp_ms = reader.long();
        let born_host = reader.host(born_v6);
        let store_timestamp_ms = reader.long();
        let store_host = reader.host(store_v6);
        let reconsume_times = reader.int();
        let prepared_transaction_offset = reader.long();
        let body_len = reader.int();
        let body = reader
            .take(body_len)
            .map_err(|available_bytes| RecordError::BodyBeyondRecord { body_len, available_bytes })?;
        let topic_len = reader.topic_len(magic);
        let topic = reader
            .take(topic_len)
            .map_err(|available_bytes| RecordError::TopicBeyondRecord { topic_len, available_bytes })?;
        let properties_len = reader.short();
        let properties = reader.take(properties_len).map_err(|available_bytes| {
            RecordError::PropertiesBeyondRecord { properties_len, available_bytes }
        })?;
        if reader.at != record.len() {
            return Err(RecordError::SizeMismatch { total_size, parts_bytes: reader.at });
        }
        let message = StoredMessage {
            total_size,
            magic,
            body_crc,
            queue_id,
            flag,
            queue_offset,
            physical_offset,
            sys_flag,
            born_timestamp_ms,
            born_host,
            store_timestamp_ms,
            store_host,
            reconsume_times,
            prepared_transaction_offset,
            body,
            topic: std::str::from_utf8(topic).map_err(|_| RecordError::TopicNotUtf8)?,
            properties: std::str::from_utf8(properties).map_err(|_| RecordError::PropertiesNotUtf8)?,
        };
        Ok((message, record.len()))
    }

    /// Whether the body is what was stored (store, 3.5, row 5: an empty body is not checked).
    pub fn check_body_crc(&self) -> Result<(), RecordError> {
        let found = body_crc(self.body);
        if self.body.is_empty() || found == self.body_crc {
            return Ok(());
        }
        Err(RecordError::BodyCrcMismatch { expected: self.body_crc, found })
    }
}

/// The records of a pull's answer, one after the other; ends at the end of `bytes` or after the first error.
pub fn stored_messages(bytes: &[u8]) -> impl Iterator<Item = Result<StoredMessage<'_>, RecordError>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let decoded = StoredMessage::decode(rest);
        rest = decoded.map_or(&[], |(_, consumed)| &rest[consumed..]);
        Some(decoded.map(|(message, _)| message))
    })
}

/// Magic, size and the bytes of the record at the start of `bytes`.
fn record_bytes(bytes: &[u8]) -> Result<(i32, i32, &[u8]), RecordError> {
    let available_bytes = bytes.len();
    let (size_word, rest) =
        bytes.split_first_chunk::<4>().ok_or(RecordError::SizeCutShort { available_bytes })?;
    let (magic_word, _) =
        rest.split_first_chunk::<4>().ok_or(RecordError::MagicCutShort { available_bytes })?;
    let total_size = i32::from_be_bytes(*size_word);
    let magic = i32::from_be_bytes(*magic_word);
    let size_min = match magic {
        MAGIC_V1 => RECORD_BYTES_MIN,
        MAGIC_V2 => RECORD_BYTES_MIN + 1,
        MAGIC_BLANK => BLANK_BYTES_MIN,
        _ => return Err(RecordError::UnknownMagic { magic }),
    };
    let size = usize::try_from(total_size).unwrap_or(0);
    if size < size_min {
        return Err(RecordError::SizeTooSmall { total_size });
    }
    if magic == MAGIC_BLANK {
        return Err(RecordError::Blank { total_size });
    }
    if size > RECORD_BYTES_MAX {
        return Err(RecordError::SizeTooLarge { total_size });
    }
    let record = bytes.get(..size).ok_or(RecordError::RecordCutShort { total_size, available_bytes })?;
    Ok((magic, total_size, record))
}

/// Reads forward. The fixed part has been found to fit before it is read; only `take` and the lengths behind the body
/// can run out.
struct Reader<'a> {
    record: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn chunk<const N: usize>(&mut self) -> [u8; N] {
        let chunk = self.record[self.at..].first_chunk::<N>().expect("the fixed part fits the record");
        self.at += N;
        *chunk
    }

    fn int(&mut self) -> i32 {
        i32::from_be_bytes(self.chunk())
    }

    fn long(&mut self) -> i64 {
        i64::from_be_bytes(self.chunk())
    }

    fn host(&mut self, is_v6: bool) -> HostBytes {
        let ip = if is_v6 {
            IpAddr::V6(Ipv6Addr::from(self.chunk::<16>()))
        } else {
            IpAddr::V4(Ipv4Addr::from(self.chunk::<4>()))
        };
        HostBytes { ip, port: self.int() }
    }

    /// -1 when there are no bytes left for it. A V1 length is a signed byte.
    fn topic_len(&mut self, magic: i32) -> i32 {
        if magic == MAGIC_V2 {
            return self.short();
        }
        let length = self.record.get(self.at).map_or(-1, |byte| i32::from(byte.cast_signed()));
        self.at += usize::from(self.at < self.record.len());
        length
    }

    /// -1 when there are no bytes left for it.
    fn short(&mut self) -> i32 {
        let Some(chunk) = self.record[self.at..].first_chunk::<2>() else { return -1 };
        self.at += 2;
        i16::from_be_bytes(*chunk).into()
    }

    /// The next `length` bytes, or how many there are.
    fn take(&mut self, length: i32) -> Result<&'a [u8], usize> {
        let rest = &self.record[self.at..];
        let length = usize::try_from(length).map_err(|_| rest.len())?;
        let taken = rest.get(..length).ok_or(rest.len())?;
        self.at += length;
        Ok(taken)
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SizeCutShort { available_bytes } => write!(f, "size cut short: {available_bytes} bytes"),
            Self::MagicCutShort { available_bytes } => write!(f, "magic cut short: {available_bytes} bytes"),
            Self::Blank { total_size } => write!(f, "blank of {total_size} bytes at the end of the segment"),
            Self::UnknownMagic { magic } => write!(f, "unknown magic 0x{magic:08x}"),
            Self::SizeTooSmall { total_size } => write!(f, "size {total_size} is too small"),
            Self::SizeTooLarge { total_size } => write!(f, "size {total_size} is above {RECORD_BYTES_MAX}"),
            Self::RecordCutShort { total_size, available_bytes } => {
                write!(f, "record of {total_size} bytes cut short: {available_bytes} are there")
            }
            Self::HostsBeyondRecord { total_size } => {
                write!(f, "16-byte addresses don't fit into a record of {total_size} bytes")
            }
            Self::BodyBeyondRecord { body_len, available_bytes } => {
                write!(f, "body of {body_len} bytes where the record has {available_bytes}")
            }
            Self::TopicBeyondRecord { topic_len, available_bytes } => {
                write!(f, "topic of {topic_len} bytes where the record has {available_bytes}")
            }
            Self::TopicNotUtf8 => f.write_str("the topic is not UTF-8"),
            Self::PropertiesBeyondRecord { properties_len, available_bytes } => {
                write!(f, "properties of {properties_len} bytes where the record has {available_bytes}")
            }
            Self::PropertiesNotUtf8 => f.write_str("the properties are not UTF-8"),
            Self::SizeMismatch { total_size, parts_bytes } => {
                write!(f, "size {total_size}, but its parts add up to {parts_bytes}")
            }
            Self::BodyCrcMismatch { expected, found } => {
                write!(f, "body checksum is 0x{found:08x}, the record says 0x{expected:08x}")
            }
        }
    }
}

impl std::error::Error for RecordError {}
