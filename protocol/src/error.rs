//! Why a peer's bytes were refused. All of it is the peer's fault, none of it ours: the connection is closed and counted.
//! Errors of typed headers, records and bodies stand beside what they concern; those cost a request, not a connection.

use std::fmt;

/// The stream can't be understood any further: close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The frame's lengths make no sense.
    Frame(FrameError),
    /// The JSON header is malformed or breaks a bound.
    Json(JsonError),
    /// The binary header is malformed or breaks a bound.
    Binary(BinaryError),
}

/// What is wrong with a frame's two length words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The length word is negative.
    NegativeLength {
        /// What it says.
        total: i32,
    },
    /// The frame would be longer than allowed.
    TooLong {
        /// Bytes of the frame, length word included.
        frame_bytes: usize,
        /// Bytes allowed.
        frame_bytes_max: usize,
    },
    /// The length word leaves no room for the header's length.
    TooShort {
        /// What it says.
        total: i32,
    },
    /// The header's length reaches beyond the frame.
    HeaderBeyondFrame {
        /// Bytes of the header.
        header_bytes: usize,
        /// Bytes the frame has for header and body.
        available_bytes: usize,
    },
    /// A frame without header: RocketMQ has none.
    EmptyHeader,
    /// The header's serialisation is neither 0 (JSON) nor 1 (ROCKETMQ).
    UnknownSerialization {
        /// The type byte.
        kind: u8,
    },
}

/// Where and why a JSON header was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// Byte in the header at which it was noticed.
    pub at: usize,
    /// What was noticed.
    pub kind: JsonErrorKind,
}

/// What is wrong with a JSON header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonErrorKind {
    /// Not UTF-8.
    NotUtf8,
    /// It ends before its last brace.
    UnexpectedEnd,
    /// A byte that can't stand here.
    UnexpectedByte {
        /// The byte.
        byte: u8,
    },
    /// A backslash sequence that JSON doesn't have.
    BadEscape,
    /// A number that isn't one by JSON's grammar.
    BadNumber,
    /// `code`, `flag`, `opaque`, `version` or `language` isn't a 32-bit integer.
    NotAnInteger,
    /// The object has no `code`.
    CodeMissing,
    /// More levels than [`crate::limits::HEADER_DEPTH_MAX`].
    TooDeep,
    /// More ext fields than [`crate::limits::FIELD_COUNT_MAX`].
    TooManyFields,
    /// A name longer than [`crate::limits::FIELD_NAME_BYTES_MAX`].
    NameTooLong,
}

/// What is wrong with a ROCKETMQ (binary) header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryError {
    /// Shorter than its fixed part.
    UnexpectedEnd,
    /// A length is negative or reaches beyond the header.
    LengthOutOfBounds {
        /// The length read.
        length: i64,
        /// Bytes that were left.
        available_bytes: usize,
    },
    /// Bytes are left over behind the ext fields.
    TrailingBytes {
        /// How many.
        count: usize,
    },
    /// The remark, a name or a value isn't UTF-8.
    NotUtf8,
    /// More ext fields than [`crate::limits::FIELD_COUNT_MAX`].
    TooManyFields,
    /// A name longer than [`crate::limits::FIELD_NAME_BYTES_MAX`].
    NameTooLong,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Frame(error) => error.fmt(f),
            Error::Json(error) => error.fmt(f),
            Error::Binary(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::NegativeLength { total } => write!(f, "frame length {total} is negative"),
            FrameError::TooLong { frame_bytes, frame_bytes_max } => {
                write!(f, "frame of {frame_bytes} bytes, at most {frame_bytes_max} are allowed")
            }
            FrameError::TooShort { total } => write!(f, "frame length {total} leaves no room for a header"),
            FrameError::HeaderBeyondFrame { header_bytes, available_bytes } => {
                write!(f, "header of {header_bytes} bytes in a frame that has {available_bytes}")
            }
            FrameError::EmptyHeader => f.write_str("frame without a header"),
            FrameError::UnknownSerialization { kind } => write!(f, "unknown header serialisation {kind}"),
        }
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JSON header, byte {}: ", self.at)?;
        match self.kind {
            JsonErrorKind::NotUtf8 => f.write_str("not UTF-8"),
            JsonErrorKind::UnexpectedEnd => f.write_str("unexpected end"),
            JsonErrorKind::UnexpectedByte { byte } => write!(f, "unexpected byte 0x{byte:02x}"),
            JsonErrorKind::BadEscape => f.write_str("unknown escape"),
            JsonErrorKind::BadNumber => f.write_str("malformed number"),
            JsonErrorKind::NotAnInteger => f.write_str("not a 32-bit integer"),
            JsonErrorKind::CodeMissing => f.write_str("no code"),
            JsonErrorKind::TooDeep => f.write_str("nested too deep"),
            JsonErrorKind::TooManyFields => f.write_str("too many ext fields"),
            JsonErrorKind::NameTooLong => f.write_str("name too long"),
        }
    }
}

impl fmt::Display for BinaryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("binary header: ")?;
        match self {
            BinaryError::UnexpectedEnd => f.write_str("unexpected end"),
            BinaryError::LengthOutOfBounds { length, available_bytes } => {
                write!(f, "length {length} with {available_bytes} bytes left")
            }
            BinaryError::TrailingBytes { count } => write!(f, "{count} bytes behind the ext fields"),
            BinaryError::NotUtf8 => f.write_str("not UTF-8"),
            BinaryError::TooManyFields => f.write_str("too many ext fields"),
            BinaryError::NameTooLong => f.write_str("name too long"),
        }
    }
}

impl std::error::Error for Error {}
impl std::error::Error for FrameError {}
impl std::error::Error for JsonError {}
impl std::error::Error for BinaryError {}

impl From<FrameError> for Error {
    fn from(error: FrameError) -> Error {
        Error::Frame(error)
    }
}

impl From<JsonError> for Error {
    fn from(error: JsonError) -> Error {
        Error::Json(error)
    }
}

impl From<BinaryError> for Error {
    fn from(error: BinaryError) -> Error {
        Error::Binary(error)
    }
}
