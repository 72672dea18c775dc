//! Every bound this crate keeps, in one place. What a peer sends can make us hold at most one frame, plus tables that
//! are limited here. Owns no code.

/// Largest frame in bytes, its own length word included: what Java's servers and clients accept
/// (`com.rocketmq.remoting.frameMaxLength`; remoting protocol, 1.1).
pub const FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Largest value of the 24 bits that carry the header's length.
pub const HEADER_BYTES_MAX: usize = (1 << 24) - 1;

/// Most ext fields in one header. Real requests carry at most some twenty, access-control fields included.
pub const FIELD_COUNT_MAX: usize = 256;

/// Longest name of an ext field in bytes. RocketMQ's longest is below forty.
pub const FIELD_NAME_BYTES_MAX: usize = 1024;

/// Deepest nesting of objects and lists in a JSON header. Real ones have two levels.
pub const HEADER_DEPTH_MAX: usize = 16;

/// Deepest nesting in a JSON body. The deepest we know (registration with queue mappings) has seven levels.
pub const BODY_DEPTH_MAX: usize = 32;

/// Largest JSON body we read, in bytes.
pub const BODY_BYTES_MAX: usize = FRAME_BYTES_MAX;

/// Largest registration body after inflation, in bytes: a million topics fit, a zlib bomb doesn't.
pub const REGISTER_INFLATED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Most topics in one registration.
pub const REGISTER_TOPIC_COUNT_MAX: usize = 1_000_000;

/// What an idle session keeps of its receive buffer, in bytes.
pub const SESSION_RETAINED_BYTES: usize = 256 * 1024;

/// What an idle session keeps of its table of fields, in bytes of text.
pub const FIELDS_RETAINED_BYTES: usize = 64 * 1024;

/// Longest properties string: its length on disk and in a batch is a signed 16-bit number.
pub const PROPERTIES_BYTES_MAX: usize = i16::MAX as usize;

/// Largest record of a commit log that is read, in bytes: the largest body RocketMQ can be set to (the frame), and its
/// allowance for everything around it.
pub const RECORD_BYTES_MAX: usize = FRAME_BYTES_MAX + 64 * 1024;

const _: () = assert!(HEADER_BYTES_MAX < FRAME_BYTES_MAX);
const _: () = assert!(RECORD_BYTES_MAX < i32::MAX as usize);
const _: () = assert!(FIELD_NAME_BYTES_MAX <= i16::MAX as usize);
