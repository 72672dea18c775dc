//! GET_ROUTEINFO_BY_TOPIC 105 (name server, 2). Its answer is a body: `body::route`.

use super::{HeaderError, bool_opt, text};
use crate::codec::FrameWriter;
use crate::command::FieldTable;

/// The first version whose clients read standard JSON routes, with quoted broker ids: 4.9.4.
pub const STANDARD_JSON_VERSION_MIN: i32 = 401;

/// 105: which brokers have this topic?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteRequest<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The client can read nothing but standard JSON.
    pub accept_standard_json_only: bool,
}

impl<'a> RouteRequest<'a> {
    /// Reads it.
    pub fn decode(fields: &'a FieldTable) -> Result<RouteRequest<'a>, HeaderError> {
        Ok(RouteRequest {
            topic: text(fields, "topic")?,
            accept_standard_json_only: bool_opt(fields, "acceptStandardJsonOnly").unwrap_or(false),
        })
    }

    /// Whether the answer to a client of this version is standard JSON (name server, 2.1).
    pub fn wants_standard_json(&self, version: i32) -> bool {
        self.accept_standard_json_only || version >= STANDARD_JSON_VERSION_MIN
    }

    /// Adds its fields to a frame being written.
    pub fn encode<'w>(&self, writer: FrameWriter<'w>) -> FrameWriter<'w> {
        let writer = writer.field("topic", self.topic);
        if self.accept_standard_json_only {
            writer.field_bool("acceptStandardJsonOnly", true)
        } else {
            writer
        }
    }
}
