//! PULL_MESSAGE 11 and its response (remoting protocol, 3.4).

use super::{HeaderError, int, long, parse_int, parse_long, required};
use crate::codec::FrameWriter;
use crate::command::FieldTable;

/// Bits of a pull's `sysFlag`.
pub mod sys_flag {
    /// `commitOffset` is to be stored.
    pub const COMMIT_OFFSET: i32 = 0x1;
    /// The broker may hold the pull until messages arrive.
    pub const SUSPEND: i32 = 0x2;
    /// The request carries its own filter expression.
    pub const SUBSCRIPTION: i32 = 0x4;
    /// Class filter; never supported here.
    pub const CLASS_FILTER: i32 = 0x8;
    /// A light pull (361).
    pub const LITE_PULL: i32 = 0x10;
}

/// What to read, and how long to wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PullRequest<'a> {
    /// The reader's group.
    pub consumer_group: &'a str,
    /// The topic.
    pub topic: &'a str,
    /// The queue.
    pub queue_id: i32,
    /// The first queue offset wanted.
    pub queue_offset: i64,
    /// Most messages wanted.
    pub max_msg_nums: i32,
    /// Bits of [`sys_flag`].
    pub sys_flag: i32,
    /// How far the group has consumed this queue; valid with [`sys_flag::COMMIT_OFFSET`].
    pub commit_offset: i64,
    /// How long the broker may hold the pull, in milliseconds.
    pub suspend_timeout_ms: i64,
    /// Filter expression; valid with [`sys_flag::SUBSCRIPTION`].
    pub subscription: Option<&'a str>,
    /// Version of the subscription, milliseconds of the epoch.
    pub sub_version: i64,
    /// `TAG` or `SQL92`; absent means `TAG`.
    pub expression_type: Option<&'a str>,
    /// Most bytes wanted.
    pub max_msg_bytes: Option<i32>,
}

impl<'a> PullRequest<'a> {
    /// Reads it in one pass.
    pub fn decode(fields: &'a FieldTable) -> Result<PullRequest<'a>, HeaderError> {
        let mut raw = RawPull::default();
        for (name, value) in fields.iter() {
            raw.take(name, value);
        }
        raw.check()
    }

    /// Whether the broker may hold it.
    pub fn may_suspend(&self) -> bool {
        self.sys_flag & sys_flag::SUSPEND != 0
    }

    /// Whether it commits an offset.
    pub fn commits_offset(&self) -> bool {
        self.sys_flag & sys_flag::COMMIT_OFFSET != 0
    }

    /// Whether it carries its own filter.
    pub fn has_subscription(&self) -> bool {
        self.sys_flag & sys_flag::SUBSCRIPTION != 0
    }
}

/// The values as they came.
#[derive(Default)]
struct RawPull<'a> {
    consumer_group: Option<&'a str>,
    topic: Option<&'a str>,
    queue_id: Option<&'a str>,
    queue_offset: Option<&'a str>,
    max_msg_nums: Option<&'a str>,
    sys_flag: Option<&'a str>,
    commit_offset: Option<&'a str>,
    suspend_timeout: Option<&'a str>,
    subscription: Option<&'a str>,
    sub_version: Option<&'a str>,
    expression_type: Option<&'a str>,
    max_msg_bytes: Option<&'a str>,
}

impl<'a> RawPull<'a> {
    fn take(&mut self, name: &str, value: &'a str) {
        let slot = match name {
            "consumerGroup" => &mut self.consumer_group,
            "topic" => &mut self.topic,
            "queueId" => &mut self.queue_id,
            "queueOffset" => &mut self.queue_offset,
            "maxMsgNums" => &mut self.max_msg_nums,
            "sysFlag" => &mut self.sys_flag,
            "commitOffset" => &mut self.commit_offset,
            "suspendTimeoutMillis" => &mut self.suspend_timeout,
            "subscription" => &mut self.subscription,
            "subVersion" => &mut self.sub_version,
            "expressionType" => &mut self.expression_type,
            "maxMsgBytes" => &mut self.max_msg_bytes,
            _ => return,
        };
        *slot = Some(value);
    }

    fn check(&self) -> Result<PullRequest<'a>, HeaderError> {
        let int = |value, field| parse_int(required(value, field)?, field);
        let long = |value, field| parse_long(required(value, field)?, field);
        Ok(PullRequest {
            consumer_group: required(self.consumer_group, "consumerGroup")?,
            topic: required(self.topic, "topic")?,
            queue_id: int(self.queue_id, "queueId")?,
            queue_offset: long(self.queue_offset, "queueOffset")?,
            max_msg_nums: int(self.max_msg_nums, "maxMsgNums")?,
            sys_flag: int(self.sys_flag, "sysFlag")?,
            commit_offset: long(self.commit_offset, "commitOffset")?,
            suspend_timeout_ms: long(self.suspend_timeout, "suspendTimeoutMillis")?,
            subscription: self.subscription,
            sub_version: long(self.sub_version, "subVersion")?,
            expression_type: self.expression_type,
            max_msg_bytes: self.max_msg_bytes.map(|value| parse_int(value, "maxMsgBytes")).transpose()?,
        })
    }
}

impl PullRequest<'_> {
    /// Adds its fields to a frame being written.
    pub fn encode<'w>(&self, writer: FrameWriter<'w>) -> FrameWriter<'w> {
        let writer = writer
            .field("consumerGroup", self.consumer_group)
            .field("topic", self.topic)
            .field_int("queueId", self.queue_id.into())
            .field_int("queueOffset", self.queue_offset)
            .field_int("maxMsgNums", self.max_msg_nums.into())
            .field_int("sysFlag", self.sys_flag.into())
            .field_int("commitOffset", self.commit_offset)
            .field_int("suspendTimeoutMillis", self.suspend_timeout_ms)
            .field_opt("subscription", self.subscription)
            .field_int("subVersion", self.sub_version)
            .field_opt("expressionType", self.expression_type);
        match self.max_msg_bytes {
            Some(bytes) => writer.field_int("maxMsgBytes", bytes.into()),
            None => writer,
        }
    }
}

/// Where reading goes on. All four fields are there on every answer, found or not: clients read them unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PullResponse {
    /// The broker id to pull from next; 0 is the master.
    pub suggest_which_broker_id: i64,
    /// The queue offset to ask for next.
    pub next_begin_offset: i64,
    /// The first queue offset still there.
    pub min_offset: i64,
    /// The next queue offset to be written.
    pub max_offset: i64,
}

impl PullResponse {
    /// Reads it back, for clients.
    pub fn decode(fields: &FieldTable) -> Result<PullResponse, HeaderError> {
        Ok(PullResponse {
            suggest_which_broker_id: long(fields, "suggestWhichBrokerId")?,
            next_begin_offset: long(fields, "nextBeginOffset")?,
            min_offset: long(fields, "minOffset")?,
            max_offset: long(fields, "maxOffset")?,
        })
    }
}

impl PullResponse {
    /// Adds its fields to a frame being written.
    pub fn encode<'w>(&self, writer: FrameWriter<'w>) -> FrameWriter<'w> {
        writer
            .field_int("suggestWhichBrokerId", self.suggest_which_broker_id)
            .field_int("nextBeginOffset", self.next_begin_offset)
            .field_int("minOffset", self.min_offset)
            .field_int("maxOffset", self.max_offset)
    }
}

/// The queue a request is about: shared by the small offset requests.
pub(super) fn queue_of(fields: &FieldTable) -> Result<(&str, i32), HeaderError> {
    Ok((super::text(fields, "topic")?, int(fields, "queueId")?))
}
