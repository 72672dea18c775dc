//! What a record's queue entry is: used by whoever reads the log again.

use protocol::{
    message::{StoredMessage, sys_flag},
    properties,
};

use super::consume_queue::Entry;
use crate::offset::LogOffset;

/// Where RocketMQ keeps delayed messages until they are due.
const SCHEDULE_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";
/// RocketMQ's `messageDelayLevel`, in seconds; level 1 is the first.
const DELAY_SECONDS: [i64; 18] =
    [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200];

/// The entry of a stored message in its queue; `None` for the prepared and rolled back messages of
/// transactions, which no queue names.
#[must_use]
pub fn entry_of(message: &StoredMessage<'_>) -> Option<Entry> {
    match message.sys_flag & sys_flag::TRANSACTION_MASK {
        sys_flag::PREPARED | sys_flag::ROLLBACK => return None,
        _ => {}
    }
    Some(Entry {
        log_offset: LogOffset::from_i64(message.physical_offset)?,
        size: u32::try_from(message.total_size).ok()?,
        tags_code: tags_code(message),
    })
}

fn tags_code(message: &StoredMessage<'_>) -> i64 {
    let level = properties::get(message.properties, properties::name::DELAY)
        .filter(|_| message.topic == SCHEDULE_TOPIC)
        .and_then(|level| level.parse::<usize>().ok())
        .filter(|&level| level > 0);
    match level {
        // Levels beyond the last one are the last one.
        Some(level) => message.store_timestamp_ms + DELAY_SECONDS[level.min(DELAY_SECONDS.len()) - 1] * 1000,
        None => properties::tags_code(message.properties),
    }
}
