//! The message as it is stored and pulled, and as it is sent in batches. Reads in place; every length is checked against
//! the bytes that are there before it is used. Writing records is the engine's job.
//!
//! ```text
//! offset  (addresses of 4 bytes; each of 16 shifts what follows by 12)
//!   0 i32 total size     4 i32 magic          8 i32 body CRC      12 i32 queue id      16 i32 flag
//!  20 i64 queue offset  28 i64 log offset    36 i32 sysFlag       40 i64 born time
//!  48 born host         56 i64 store time    64 store host        72 i32 reconsume times
//!  76 i64 prepared transaction offset        84 i32 length, body
//!     u8 (V1) or i16 (V2) length, topic         i16 length, properties
//! ```
//!
//! A host is an address and a port of 32 bits. Source: store, 2.1; remoting protocol, 2.7.

mod batch;
mod id;
mod stored;

pub use batch::{BatchError, BatchItem, BatchItems, batch_items, write_batch_item};
pub use id::{MessageIdError, MessageIdText, OffsetMessageId, offset_message_id, parse_offset_message_id};
pub use stored::{HostBytes, RecordError, StoredMessage, stored_messages};

/// A record whose topic length has one byte.
pub const MAGIC_V1: i32 = 0xDAA3_20A7_u32.cast_signed();
/// A record whose topic length has two bytes, for topics longer than 127 characters.
pub const MAGIC_V2: i32 = 0xDAA3_20AB_u32.cast_signed();
/// Fills the end of a segment.
pub const MAGIC_BLANK: i32 = 0xCBD4_3194_u32.cast_signed();
/// Bytes of the smallest record: 4-byte addresses, no body, topic or properties.
pub const RECORD_BYTES_MIN: usize = 91;
/// Bytes of the smallest blank: its size and magic.
pub const BLANK_BYTES_MIN: usize = 8;

/// Bits of a message's `sysFlag` (remoting protocol, 1.12).
pub mod sys_flag {
    /// The body is compressed; brokers store and return it as it is.
    pub const COMPRESSED: i32 = 0x1;
    /// The message has several tags.
    pub const MULTI_TAGS: i32 = 0x2;
    /// First half of a transaction.
    pub const PREPARED: i32 = 0x4;
    /// A committed transaction's message.
    pub const COMMIT: i32 = 0x8;
    /// A rolled back transaction's message; also the mask of the transaction bits.
    pub const ROLLBACK: i32 = 0xC;
    /// Mask of the transaction bits.
    pub const TRANSACTION_MASK: i32 = 0xC;
    /// The born host has 16 bytes of address.
    pub const BORNHOST_V6: i32 = 0x10;
    /// The store host has 16 bytes of address.
    pub const STOREHOST_V6: i32 = 0x20;
    /// An inner batch that readers must unwrap.
    pub const NEED_UNWRAP: i32 = 0x40;
    /// An inner batch.
    pub const INNER_BATCH: i32 = 0x80;
    /// Mask of the compression kind: 0 zlib, 1 LZ4, 2 Zstandard, 3 zlib, each shifted by 8.
    pub const COMPRESSION_MASK: i32 = 0x700;
}

/// The checksum of a body: CRC-32 (IEEE) without its top bit; 0 for an empty body.
pub fn body_crc(body: &[u8]) -> i32 {
    // The mask clears the sign, so the value is the same in either type.
    (crc32fast::hash(body) & 0x7fff_ffff).cast_signed()
}
