//! Clients and their groups: UNREGISTER_CLIENT 35, GET_CONSUMER_LIST_BY_GROUP 38, NOTIFY_CONSUMER_IDS_CHANGED 40, and the
//! response of HEART_BEAT 34, whose request has only a body (remoting protocol, 3.2, 3.3 and 3.7).

use super::{HeaderError, bool_opt, text};
use crate::codec::FrameWriter;
use crate::command::FieldTable;

/// 35: this client leaves its groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnregisterClientRequest<'a> {
    /// Who leaves.
    pub client_id: &'a str,
    /// The producer group it leaves; an empty name is none.
    pub producer_group: Option<&'a str>,
    /// The consumer group it leaves; an empty name is none.
    pub consumer_group: Option<&'a str>,
}

impl<'a> UnregisterClientRequest<'a> {
    /// Reads it.
    pub fn decode(fields: &'a FieldTable) -> Result<UnregisterClientRequest<'a>, HeaderError> {
        let group = |name| fields.get(name).filter(|group| !group.is_empty());
        Ok(UnregisterClientRequest {
            client_id: text(fields, "clientID")?,
            producer_group: group("producerGroup"),
            consumer_group: group("consumerGroup"),
        })
    }

    /// Adds its fields to a frame being written.
    pub fn encode<'w>(&self, writer: FrameWriter<'w>) -> FrameWriter<'w> {
        writer
            .field("clientID", self.client_id)
            .field_opt("producerGroup", self.producer_group)
            .field_opt("consumerGroup", self.consumer_group)
    }
}

/// 38 (who is in this group?) and 40 (the broker tells clients that this group changed): only the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerGroupRequest<'a> {
    /// The group.
    pub consumer_group: &'a str,
}

impl<'a> ConsumerGroupRequest<'a> {
    /// Reads it.
    pub fn decode(fields: &'a FieldTable) -> Result<ConsumerGroupRequest<'a>, HeaderError> {
        Ok(ConsumerGroupRequest { consumer_group: text(fields, "consumerGroup")? })
    }

    /// Adds its field to a frame being written.
    pub fn encode<'w>(&self, writer: FrameWriter<'w>) -> FrameWriter<'w> {
        writer.field("consumerGroup", self.consumer_group)
    }
}

/// The response of 34. 4.9.7 sends neither field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatResponse {
    /// Whether heartbeats without subscriptions are understood.
    pub is_support_heart_beat_v2: bool,
    /// Whether the client must send its subscriptions again; true is always safe.
    pub is_sub_change: bool,
}

impl HeartbeatResponse {
    /// Reads it back, for clients; a missing field is false.
    pub fn decode(fields: &FieldTable) -> HeartbeatResponse {
        HeartbeatResponse {
            is_support_heart_beat_v2: bool_opt(fields, "IS_SUPPORT_HEART_BEAT_V2").unwrap_or(false),
            is_sub_change: bool_opt(fields, "IS_SUB_CHANGE").unwrap_or(false),
        }
    }

    /// Adds its fields to a frame being written.
    pub fn encode<'w>(&self, writer: FrameWriter<'w>) -> FrameWriter<'w> {
        writer
            .field_bool("IS_SUPPORT_HEART_BEAT_V2", self.is_support_heart_beat_v2)
            .field_bool("IS_SUB_CHANGE", self.is_sub_change)
    }
}
