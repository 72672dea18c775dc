//! UPDATE_AND_CREATE_TOPIC 17 (admin, topics). GET_BROKER_RUNTIME_INFO 28, GET_BROKER_CLUSTER_INFO 106 and
//! GET_ALL_TOPIC_LIST_FROM_NAMESERVER 206 have no header fields.

use super::{HeaderError, bool_opt, int, int_opt, text};
use crate::codec::FrameWriter;
use crate::command::FieldTable;

/// 17: create this topic, or change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateTopicRequest<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The topic whose settings it would be made from; the explicit settings below count.
    pub default_topic: &'a str,
    /// Queues that can be read.
    pub read_queue_nums: i32,
    /// Queues that can be written.
    pub write_queue_nums: i32,
    /// Permission bits: read 4, write 2, inherit 1.
    pub perm: i32,
    /// `SINGLE_TAG` or `MULTI_TAG`; absent means the first.
    pub topic_filter_type: Option<&'a str>,
    /// Bit 0 unit, bit 1 unit subscription.
    pub topic_sys_flag: i32,
    /// Whether it is an ordered topic.
    pub order: bool,
    /// Changes of attributes, `+name=value` or `-name`, joined by commas.
    pub attributes: Option<&'a str>,
    /// Whether checks may be skipped.
    pub force: bool,
}

impl<'a> CreateTopicRequest<'a> {
    /// Reads it.
    pub fn decode(fields: &'a FieldTable) -> Result<CreateTopicRequest<'a>, HeaderError> {
        Ok(CreateTopicRequest {
            topic: text(fields, "topic")?,
            default_topic: text(fields, "defaultTopic")?,
            read_queue_nums: int(fields, "readQueueNums")?,
            write_queue_nums: int(fields, "writeQueueNums")?,
            perm: int(fields, "perm")?,
            topic_filter_type: fields.get("topicFilterType"),
            topic_sys_flag: int_opt(fields, "topicSysFlag")?.unwrap_or(0),
            order: bool_opt(fields, "order").unwrap_or(false),
            attributes: fields.get("attributes"),
            force: bool_opt(fields, "force").unwrap_or(false),
        })
    }

    /// Adds its fields to a frame being written.
    pub fn encode<'w>(&self, writer: FrameWriter<'w>) -> FrameWriter<'w> {
        writer
            .field("topic", self.topic)
            .field("defaultTopic", self.default_topic)
            .field_int("readQueueNums", self.read_queue_nums.into())
            .field_int("writeQueueNums", self.write_queue_nums.into())
            .field_int("perm", self.perm.into())
            .field("topicFilterType", self.topic_filter_type.unwrap_or("SINGLE_TAG"))
            .field_int("topicSysFlag", self.topic_sys_flag.into())
            .field_bool("order", self.order)
            .field_opt("attributes", self.attributes)
            .field_bool("force", self.force)
    }
}
