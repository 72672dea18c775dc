//! The two header serialisations. Reading puts the ext fields into a reused table; writing appends whole frames to a
//! byte buffer. Knows nothing of what a code or a field means.

pub(crate) mod json;
pub(crate) mod rocketmq;
pub(crate) mod writer;

pub use writer::{FrameWriter, write_request, write_response};

pub(crate) use writer::write_integer;

use crate::command::{Command, FieldTable, Language, Serialization, TextRange};
use crate::error::Error;
use crate::frame::Frame;

/// What a header holds besides its ext fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) code: i32,
    pub(crate) language: Language,
    pub(crate) version: i32,
    pub(crate) opaque: i32,
    pub(crate) flag: i32,
    /// In the text of the table that the fields were read into.
    pub(crate) remark: Option<TextRange>,
}

/// Reads the header of one frame; what `fields` held before is forgotten.
pub fn decode<'a>(frame: Frame<'a>, fields: &'a mut FieldTable) -> Result<Command<'a>, Error> {
    fields.clear();
    let head = match frame.serialization {
        Serialization::Json => json::decode(frame.header, fields)?,
        Serialization::RocketMq => rocketmq::decode(frame.header, fields)?,
    };
    let fields: &FieldTable = fields;
    Ok(Command {
        code: head.code,
        language: head.language,
        version: head.version,
        opaque: head.opaque,
        flag: head.flag,
        remark: head.remark.map(|range| fields.text(range)),
        fields,
        body: frame.body,
        serialization: frame.serialization,
    })
}
