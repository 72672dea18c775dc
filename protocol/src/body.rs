//! JSON bodies of control requests and of their answers: heartbeats, routes, registrations, lists and tables. Reads what
//! fastjson and the other clients write, bent JSON included ([`lenient`]), and writes what all of them read. Cold path:
//! bodies are owned and allocate; their size and nesting are bounded.

pub mod lenient;
pub mod topic;
pub mod heartbeat;
pub mod route;
pub mod cluster;
pub mod register;
pub mod list;
pub mod kv;

use std::fmt;

use serde::Serialize;

pub use cluster::ClusterInfo;
pub use heartbeat::{ConsumerData, HeartbeatData, ProducerData, SubscriptionData};
pub use kv::KvTable;
pub use list::{ConsumerList, TopicList};
pub use register::RegisterBrokerBody;
pub use route::{BrokerData, QueueData, TopicRouteData};
pub use topic::{DataVersion, TopicConfig, TopicFilterType};

/// A body isn't what its request must carry. Costs the request, not the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// Longer than [`crate::limits::BODY_BYTES_MAX`].
    TooLong {
        /// Its bytes.
        bytes: usize,
    },
    /// Not UTF-8.
    NotUtf8 {
        /// The first byte that isn't.
        at: usize,
    },
    /// Deeper than [`crate::limits::BODY_DEPTH_MAX`].
    TooDeep {
        /// Where.
        at: usize,
    },
    /// It ends in the middle.
    UnexpectedEnd,
    /// A byte that can't stand there.
    UnexpectedByte {
        /// Where.
        at: usize,
        /// The byte.
        byte: u8,
    },
    /// Well-formed as far as it goes, but not the expected content.
    Shape {
        /// For people: what was found and expected.
        message: String,
    },
    /// A compressed registration isn't a whole zlib stream.
    NotZlib,
    /// A compressed registration inflates to more than [`crate::limits::REGISTER_INFLATED_BYTES_MAX`].
    InflatesTooLong,
    /// A length in a compressed registration is negative or reaches beyond it.
    LengthOutOfBounds {
        /// Where, after inflation.
        at: usize,
        /// The length.
        length: i32,
    },
    /// More topics than [`crate::limits::REGISTER_TOPIC_COUNT_MAX`].
    TooManyTopics {
        /// How many it says.
        count: i32,
    },
    /// A topic's text in a compressed registration can't be read.
    MalformedTopic {
        /// For people: the text.
        text: String,
    },
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes } => write!(f, "body of {bytes} bytes is too long"),
            Self::NotUtf8 { at } => write!(f, "body is not UTF-8 at byte {at}"),
            Self::TooDeep { at } => write!(f, "body is nested too deep at byte {at}"),
            Self::UnexpectedEnd => f.write_str("body ends in the middle"),
            Self::UnexpectedByte { at, byte } => {
                write!(f, "unexpected byte 0x{byte:02x} at {at} of the body")
            }
            Self::Shape { message } => write!(f, "unexpected body: {message}"),
            Self::NotZlib => f.write_str("compressed body is not a whole zlib stream"),
            Self::InflatesTooLong => f.write_str("compressed body inflates to too many bytes"),
            Self::LengthOutOfBounds { at, length } => {
                write!(f, "length {length} at byte {at} of the inflated body is out of bounds")
            }
            Self::TooManyTopics { count } => write!(f, "registration of {count} topics"),
            Self::MalformedTopic { text } => write!(f, "malformed topic {text:?} in a registration"),
        }
    }
}

impl std::error::Error for BodyError {}

/// The JSON text of a value whose maps have text keys, in the order of its fields (alphabetical, as fastjson's).
pub(crate) fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("maps with text keys and plain values always serialise")
}
