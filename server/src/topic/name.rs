//! Names of topics and groups: which are legal, which belong to the system.

use super::TopicError;

/// Template of automatically created topics.
pub const AUTO_CREATE_TOPIC: &str = "TBW102";
/// Retry topics: this and the group's name.
pub const RETRY_PREFIX: &str = "%RETRY%";
/// Dead-letter topics: this and the group's name.
pub const DLQ_PREFIX: &str = "%DLQ%";
/// Prefix of RocketMQ's newer system topics.
pub const SYSTEM_PREFIX: &str = "rmq_sys_";

/// Topics of the system: not to be created or changed by clients.
const SYSTEM_TOPICS: &[&str] = &[
    AUTO_CREATE_TOPIC,
    "SCHEDULE_TOPIC_XXXX",
    "BenchmarkTest",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRACE_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "SELF_TEST_TOPIC",
    "OFFSET_MOVED_EVENT",
];

/// Topics that only the broker itself writes.
const FORBIDDEN_TO_SEND: &[&str] = &[
    "SCHEDULE_TOPIC_XXXX",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "SELF_TEST_TOPIC",
    "OFFSET_MOVED_EVENT",
];

/// Checks a name that a client creates or sends to.
///
/// # Errors
///
/// What is wrong with it.
pub fn validate(topic: &str) -> Result<(), TopicError> {
    validate_up_to(topic, TOPIC_LENGTH_MAX)
}

/// Checks a name that the broker makes itself (retry, dead letters), which may be longer.
///
/// # Errors
///
/// What is wrong with it.
pub fn validate_stored(topic: &str) -> Result<(), TopicError> {
    validate_up_to(topic, STORED_LENGTH_MAX)
}

/// Whether a consumer group may have this name.
pub fn is_group_legal(group: &str) -> bool {
    (1..=GROUP_LENGTH_MAX).contains(&group.len()) && is_legal(group)
}

/// Whether the topic belongs to the system.
pub fn is_system(topic: &str) -> bool {
    SYSTEM_TOPICS.contains(&topic) || topic.starts_with(SYSTEM_PREFIX)
}

/// Whether clients may not send to the topic.
pub fn is_forbidden_to_send(topic: &str) -> bool {
    FORBIDDEN_TO_SEND.contains(&topic)
}

/// Whether a SEND may name the topic: legal, and not one that only the broker writes.
pub fn is_sendable(topic: &str) -> bool {
    validate(topic).is_ok() && !is_forbidden_to_send(topic)
}

fn validate_up_to(topic: &str, length_max: usize) -> Result<(), TopicError> {
    if topic.trim().is_empty() {
        return Err(TopicError::Blank);
    }
    if !is_legal(topic) {
        return Err(TopicError::IllegalCharacters);
    }
    if topic.len() > length_max {
        return Err(TopicError::TooLong);
    }
    Ok(())
}

fn is_legal(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'%' | b'|' | b'_' | b'-'))
}

/// RocketMQ's limit for names that clients use.
pub const TOPIC_LENGTH_MAX: usize = 127;
/// The limit of the record's newer form.
pub const STORED_LENGTH_MAX: usize = 255;
/// 4.9's and 5.1.4's limit.
pub const GROUP_LENGTH_MAX: usize = 255;
