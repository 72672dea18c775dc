//! SEND_MESSAGE 10, SEND_MESSAGE_V2 310, SEND_BATCH_MESSAGE 320 and their response (remoting protocol, 2.2 and 2.3).

use super::{HeaderError, parse_bool, parse_int, parse_long, required};
use crate::code::request;
use crate::codec::FrameWriter;
use crate::command::FieldTable;

/// What is sent besides the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendRequest<'a> {
    /// The sender's group.
    pub producer_group: &'a str,
    /// Where the message belongs.
    pub topic: &'a str,
    /// The topic whose settings a new topic is made from, usually `TBW102`.
    pub default_topic: &'a str,
    /// Queues of a topic that this message creates.
    pub default_topic_queue_nums: i32,
    /// Negative: the broker chooses.
    pub queue_id: i32,
    /// `message::sys_flag`.
    pub sys_flag: i32,
    /// The sender's clock, milliseconds of the epoch.
    pub born_timestamp_ms: i64,
    /// The user's flag; stored as it is.
    pub flag: i32,
    /// The properties string; empty when absent.
    pub properties: &'a str,
    /// How often it was redelivered.
    pub reconsume_times: i32,
    /// Whether the sender works in unit mode.
    pub unit_mode: bool,
    /// Most redeliveries; only means something for retry topics.
    pub max_reconsume_times: Option<i32>,
    /// Whether the body is a batch of messages: said by the field, or by the request's code.
    pub batch: bool,
}

impl<'a> SendRequest<'a> {
    /// Reads the one-letter names (V2) and the long ones (V1) in one pass, under every code: clients mix them.
    pub fn decode(code: i32, fields: &'a FieldTable) -> Result<SendRequest<'a>, HeaderError> {
        let mut raw = RawSend::default();
        for (name, value) in fields.iter() {
            raw.take(name, value);
        }
        raw.check(code)
    }
}

/// The values as they came.
#[derive(Default)]
struct RawSend<'a> {
    producer_group: Option<&'a str>,
    topic: Option<&'a str>,
    default_topic: Option<&'a str>,
    default_topic_queue_nums: Option<&'a str>,
    queue_id: Option<&'a str>,
    sys_flag: Option<&'a str>,
    born_timestamp: Option<&'a str>,
    flag: Option<&'a str>,
    properties: Option<&'a str>,
    reconsume_times: Option<&'a str>,
    unit_mode: Option<&'a str>,
    max_reconsume_times: Option<&'a str>,
    batch: Option<&'a str>,
}

impl<'a> RawSend<'a> {
    /// Clients send the one-letter names almost always: those are told apart by a byte, not by comparing text.
    fn take(&mut self, name: &str, value: &'a str) {
        let letter = match name.as_bytes() {
            [letter] => *letter,
            _ => letter_of(name),
        };
        let slot = match letter {
            b'a' => &mut self.producer_group,
            b'b' => &mut self.topic,
            b'c' => &mut self.default_topic,
            b'd' => &mut self.default_topic_queue_nums,
            b'e' => &mut self.queue_id,
            b'f' => &mut self.sys_flag,
            b'g' => &mut self.born_timestamp,
            b'h' => &mut self.flag,
            b'i' => &mut self.properties,
            b'j' => &mut self.reconsume_times,
            b'k' => &mut self.unit_mode,
            b'l' => &mut self.max_reconsume_times,
            b'm' => &mut self.batch,
            _ => return,
        };
        *slot = Some(value);
    }

    fn check(&self, code: i32) -> Result<SendRequest<'a>, HeaderError> {
        let int = |value, field| parse_int(required(value, field)?, field);
        let field = "bornTimestamp";
        Ok(SendRequest {
            producer_group: required(self.producer_group, "producerGroup")?,
            topic: required(self.topic, "topic")?,
            default_topic: required(self.default_topic, "defaultTopic")?,
            default_topic_queue_nums: int(self.default_topic_queue_nums, "defaultTopicQueueNums")?,
            queue_id: int(self.queue_id, "queueId")?,
            sys_flag: int(self.sys_flag, "sysFlag")?,
            born_timestamp_ms: parse_long(required(self.born_timestamp, field)?, field)?,
            flag: int(self.flag, "flag")?,
            properties: self.properties.unwrap_or(""),
            reconsume_times: int(self.reconsume_times.or(Some("0")), "reconsumeTimes")?,
            unit_mode: self.unit_mode.is_some_and(parse_bool),
            max_reconsume_times: self
                .max_reconsume_times
                .map(|value| parse_int(value, "maxReconsumeTimes"))
                .transpose()?,
            batch: code == request::SEND_BATCH_MESSAGE || self.batch.is_some_and(parse_bool),
        })
    }
}

/// The V2 letter of a V1 name; 0 for a name that isn't one.
fn letter_of(name: &str) -> u8 {
    match name {
        "producerGroup" => b'a',
        "topic" => b'b',
        "defaultTopic" => b'c',
        "defaultTopicQueueNums" => b'd',
        "queueId" => b'e',
        "sysFlag" => b'f',
        "bornTimestamp" => b'g',
        "flag" => b'h',
        "properties" => b'i',
        "reconsumeTimes" => b'j',
        "unitMode" => b'k',
        "maxReconsumeTimes" => b'l',
        "batch" => b'm',
        _ => 0,
    }
}

impl SendRequest<'_> {
    /// With the one-letter names, as 310 and 320 have them.
    pub fn encode<'w>(&self, writer: FrameWriter<'w>) -> FrameWriter<'w> {
        let writer = writer
            .field("a", self.producer_group)
            .field("b", self.topic)
            .field("c", self.default_topic)
            .field_int("d", self.default_topic_queue_nums.into())
            .field_int("e", self.queue_id.into())
            .field_int("f", self.sys_flag.into())
            .field_int("g", self.born_timestamp_ms)
            .field_int("h", self.flag.into())
            .field("i", self.properties)
            .field_int("j", self.reconsume_times.into())
            .field_bool("k", self.unit_mode);
        let writer = match self.max_reconsume_times {
            Some(times) => writer.field_int("l", times.into()),
            None => writer,
        };
        writer.field_bool("m", self.batch)
    }
}

/// What became of a sent message. `MSG_REGION` and `TRACE_ON` are always there too; the server adds them to failures as
/// well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendResponse<'a> {
    /// Offset message id; for a batch the ids of all, joined by commas.
    pub msg_id: &'a str,
    /// The queue it went to.
    pub queue_id: i32,
    /// Its queue offset; the first one of a batch.
    pub queue_offset: i64,
    /// The message's UNIQ_KEY, which brokers since 5.x repeat.
    pub transaction_id: Option<&'a str>,
}

impl<'a> SendResponse<'a> {
    /// Reads it back, for clients.
    pub fn decode(fields: &'a FieldTable) -> Result<SendResponse<'a>, HeaderError> {
        Ok(SendResponse {
            msg_id: super::text(fields, "msgId")?,
            queue_id: super::int(fields, "queueId")?,
            queue_offset: super::long(fields, "queueOffset")?,
            transaction_id: fields.get("transactionId"),
        })
    }
}

impl SendResponse<'_> {
    /// Adds its fields to a frame being written.
    pub fn encode<'w>(&self, writer: FrameWriter<'w>) -> FrameWriter<'w> {
        writer
            .field("msgId", self.msg_id)
            .field_int("queueId", self.queue_id.into())
            .field_int("queueOffset", self.queue_offset)
            .field_opt("transactionId", self.transaction_id)
    }
}
