//! Why a topic can't be used or made, with RocketMQ 5.1.4's code and text.

use std::fmt;

use protocol::code::response;

/// A refusal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TopicError {
    /// No name.
    Blank,
    /// A character that names can't have.
    IllegalCharacters,
    /// Longer than 127 (stored: 255).
    TooLong,
    /// Clients can't change the system's topics.
    System {
        /// The topic.
        topic: String,
    },
    /// Clients can't send to it.
    ForbiddenToSend {
        /// The topic.
        topic: String,
    },
    /// It doesn't exist and can't be made.
    NotExist {
        /// The topic.
        topic: String,
    },
    /// Negative, or too many.
    QueueNums {
        /// As asked.
        queue_nums: i32,
    },
    /// Bits that no permission has.
    Perm {
        /// As asked.
        perm: i32,
    },
    /// Neither SINGLE_TAG nor MULTI_TAG.
    FilterType {
        /// As asked.
        name: String,
    },
    /// A change of attributes that can't be.
    Attributes(String),
    /// There are as many topics as we keep.
    TableFull,
}

impl TopicError {
    /// The response code, as 5.1.4 has it.
    pub fn code(&self) -> i32 {
        match self {
            TopicError::NotExist { .. } => response::TOPIC_NOT_EXIST,
            TopicError::ForbiddenToSend { .. } => response::NO_PERMISSION,
            _ => response::SYSTEM_ERROR,
        }
    }
}

/// The response's remark.
impl fmt::Display for TopicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TopicError::Blank => f.write_str("The specified topic is blank."),
            TopicError::IllegalCharacters => f.write_str(
                "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
            ),
            TopicError::TooLong => f.write_str("The specified topic is longer than topic max length."),
            TopicError::System { topic } => write!(f, "The topic[{topic}] is conflict with system topic."),
            TopicError::ForbiddenToSend { topic } => {
                write!(f, "Sending message to topic[{topic}] is forbidden.")
            }
            TopicError::NotExist { topic } => {
                write!(f, "topic[{topic}] not exist, apply first please!{}", SEE_FAQ)
            }
            TopicError::QueueNums { queue_nums } => {
                write!(f, "queue nums {queue_nums} must be from 0 to {}", super::QUEUE_NUMS_MAX)
            }
            TopicError::Perm { perm } => write!(f, "perm {perm} has bits that don't exist"),
            TopicError::FilterType { name } => {
                write!(f, "topic filter type [{name}] must be SINGLE_TAG or MULTI_TAG")
            }
            TopicError::Attributes(problem) => f.write_str(problem),
            TopicError::TableFull => {
                write!(f, "this broker has {} topics and takes no more", super::TOPIC_COUNT_MAX)
            }
        }
    }
}

impl std::error::Error for TopicError {}

/// What RocketMQ appends to refusals that users run into.
pub const SEE_FAQ: &str = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.";
