//! The small requests about offsets: QUERY_CONSUMER_OFFSET 14, UPDATE_CONSUMER_OFFSET 15, SEARCH_OFFSET_BY_TIMESTAMP 29,
//! GET_MAX_OFFSET 30, GET_MIN_OFFSET 31, and the one response they share (remoting protocol, 3.3).

use super::pull::queue_of;
use super::{HeaderError, bool_opt, long, text};
use crate::codec::FrameWriter;
use crate::command::FieldTable;

/// 14: how far has this group consumed this queue?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryConsumerOffsetRequest<'a> {
    /// The group.
    pub consumer_group: &'a str,
    /// The topic.
    pub topic: &'a str,
    /// The queue.
    pub queue_id: i32,
    /// Whether 0 may be answered for a young queue without a stored offset; absent means it may.
    pub set_zero_if_not_found: Option<bool>,
}

impl<'a> QueryConsumerOffsetRequest<'a> {
    /// Reads it.
    pub fn decode(fields: &'a FieldTable) -> Result<QueryConsumerOffsetRequest<'a>, HeaderError> {
        let (topic, queue_id) = queue_of(fields)?;
        Ok(QueryConsumerOffsetRequest {
            consumer_group: text(fields, "consumerGroup")?,
            topic,
            queue_id,
            set_zero_if_not_found: bool_opt(fields, "setZeroIfNotFound"),
        })
    }
}

impl QueryConsumerOffsetRequest<'_> {
    /// Adds its fields to a frame being written.
    pub fn encode<'w>(&self, writer: FrameWriter<'w>) -> FrameWriter<'w> {
        let writer = writer
            .field("consumerGroup", self.consumer_group)
            .field("topic", self.topic)
            .field_int("queueId", self.queue_id.into());
        match self.set_zero_if_not_found {
            Some(set) => writer.field_bool("setZeroIfNotFound", set),
            None => writer,
        }
    }
}

/// 15: this group has consumed this queue up to here. Mostly one-way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateConsumerOffsetRequest<'a> {
    /// The group.
    pub consumer_group: &'a str,
    /// The topic.
    pub topic: &'a str,
    /// The queue.
    pub queue_id: i32,
    /// The next offset to consume.
    pub commit_offset: i64,
}

impl<'a> UpdateConsumerOffsetRequest<'a> {
    /// Reads it.
    pub fn decode(fields: &'a FieldTable) -> Result<UpdateConsumerOffsetRequest<'a>, HeaderError> {
        let (topic, queue_id) = queue_of(fields)?;
        let consumer_group = text(fields, "consumerGroup")?;
        let commit_offset = long(fields, "commitOffset")?;
        Ok(UpdateConsumerOffsetRequest { consumer_group, topic, queue_id, commit_offset })
    }
}

impl UpdateConsumerOffsetRequest<'_> {
    /// Adds its fields to a frame being written.
    pub fn encode<'w>(&self, writer: FrameWriter<'w>) -> FrameWriter<'w> {
        writer
            .field("consumerGroup", self.consumer_group)
            .field("topic", self.topic)
            .field_int("queueId", self.queue_id.into())
            .field_int("commitOffset", self.commit_offset)
    }
}

/// 30 and 31: where does this queue end, where does it begin?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOffsetRequest<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The queue.
    pub queue_id: i32,
}

impl<'a> QueueOffsetRequest<'a> {
    /// Reads it. `committed`, which 30 may carry, is skipped: what isn't confirmed is never shown here.
    pub fn decode(fields: &'a FieldTable) -> Result<QueueOffsetRequest<'a>, HeaderError> {
        let (topic, queue_id) = queue_of(fields)?;
        Ok(QueueOffsetRequest { topic, queue_id })
    }
}

impl QueueOffsetRequest<'_> {
    /// Adds its fields to a frame being written.
    pub fn encode<'w>(&self, writer: FrameWriter<'w>) -> FrameWriter<'w> {
        writer.field("topic", self.topic).field_int("queueId", self.queue_id.into())
    }
}

/// Which of several messages of one time is meant, and what a time between two messages means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BoundaryType {
    /// The smallest offset stored at or after the time.
    #[default]
    Lower,
    /// The largest offset stored at or before the time.
    Upper,
}

/// 29: which offset belongs to this time?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchOffsetRequest<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The queue.
    pub queue_id: i32,
    /// Milliseconds of the epoch.
    pub timestamp_ms: i64,
    /// Absent or unknown means [`BoundaryType::Lower`].
    pub boundary_type: BoundaryType,
}

impl<'a> SearchOffsetRequest<'a> {
    /// Reads it.
    pub fn decode(fields: &'a FieldTable) -> Result<SearchOffsetRequest<'a>, HeaderError> {
        let (topic, queue_id) = queue_of(fields)?;
        let is_upper = fields.get("boundaryType").is_some_and(|name| name.eq_ignore_ascii_case("upper"));
        let boundary_type = if is_upper { BoundaryType::Upper } else { BoundaryType::Lower };
        Ok(SearchOffsetRequest { topic, queue_id, timestamp_ms: long(fields, "timestamp")?, boundary_type })
    }
}

impl SearchOffsetRequest<'_> {
    /// Adds its fields to a frame being written.
    pub fn encode<'w>(&self, writer: FrameWriter<'w>) -> FrameWriter<'w> {
        let boundary = match self.boundary_type {
            BoundaryType::Lower => "LOWER",
            BoundaryType::Upper => "UPPER",
        };
        writer
            .field("topic", self.topic)
            .field_int("queueId", self.queue_id.into())
            .field_int("timestamp", self.timestamp_ms)
            .field("boundaryType", boundary)
    }
}

/// The response of 14, 29, 30 and 31.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetResponse {
    /// The queue offset asked for.
    pub offset: i64,
}

impl OffsetResponse {
    /// Reads it back, for clients.
    pub fn decode(fields: &FieldTable) -> Result<OffsetResponse, HeaderError> {
        Ok(OffsetResponse { offset: long(fields, "offset")? })
    }
}

impl OffsetResponse {
    /// Adds its fields to a frame being written.
    pub fn encode<'w>(&self, writer: FrameWriter<'w>) -> FrameWriter<'w> {
        writer.field_int("offset", self.offset)
    }
}
