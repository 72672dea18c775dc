//! Every maximum of the engine, in one place. Memory per core follows from them.

/// RocketMQ's `maxMessageSize`: the largest body, and the largest batch body, in bytes.
pub const MESSAGE_BYTES_MAX_DEFAULT: usize = 4 * 1024 * 1024;
/// What a record may take beyond its body (topic, properties, fixed fields), as RocketMQ counts it.
pub const RECORD_OVERHEAD_BYTES_MAX: usize = 64 * 1024;
/// The longest properties string of a record, in bytes: its length field is a signed 16-bit number.
pub const PROPERTIES_BYTES_MAX: usize = i16::MAX as usize;
/// Smallest memory piece of the log's tail; also what an idle log holds.
pub const CHUNK_BYTES_MIN: usize = 16 * 1024;
/// Largest memory piece of the log's tail, unless one record needs more.
pub const CHUNK_BYTES_MAX: usize = 1024 * 1024;
/// Appended bytes that may wait to be written before the shard stops taking more.
pub const UNWRITTEN_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// ASYNC_FLUSH: with fewer appended bytes than this a write waits for more, for [`ASYNC_WRITE_LINGER`].
pub const ASYNC_WRITE_BYTES_MIN: u64 = 256 * 1024;
/// ASYNC_FLUSH: how long a write waits for more bytes. With the write itself it stays far below the 20 ms that are
/// promised after kill -9.
pub const ASYNC_WRITE_LINGER: std::time::Duration = std::time::Duration::from_millis(4);
/// ASYNC_FLUSH on a direct log: nothing more is acknowledged while the oldest unwritten byte is older than this. What
/// follows until it is written, and answers that are late on a loaded machine, keep below the 20 ms that are promised.
pub const ASYNC_UNWRITTEN_AGE_MAX: std::time::Duration = std::time::Duration::from_millis(10);
/// Bytes zeroed by one step of segment preparation.
pub const FILL_BYTES: usize = 1024 * 1024;
/// Preparation syncs a segment after this many zeroed bytes.
pub const FILL_SYNC_BYTES: u64 = 16 * 1024 * 1024;
/// Index entries that one filtered pull may scan (RocketMQ: 16,000 bytes of a consume queue).
pub const PULL_SCAN_ENTRIES_MAX: usize = 800;
/// Bytes of one piece of the cold-read cache.
pub const COLD_PIECE_BYTES: usize = 256 * 1024;

const _: () = assert!(CHUNK_BYTES_MIN.is_multiple_of(crate::io::BLOCK_BYTES));
const _: () = assert!(CHUNK_BYTES_MAX.is_power_of_two() && CHUNK_BYTES_MIN.is_power_of_two());
// A full group of pulls (32 messages of the default size limit) is bounded by the frame, not by the piece.
const _: () = assert!(COLD_PIECE_BYTES.is_multiple_of(crate::io::BLOCK_BYTES));
// Preparation syncs at piece boundaries.
const _: () = assert!(FILL_SYNC_BYTES.is_multiple_of(FILL_BYTES as u64));
