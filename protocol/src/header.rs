//! Ext fields with a meaning: one typed header per request or response, in one file per family. `decode` borrows from a
//! [`FieldTable`] and says which field is wrong; `encode` adds the fields to a [`crate::codec::FrameWriter`]. Never answers, never
//! judges whether a topic or queue exists.
//!
//! Readings common to all (remoting protocol, 1.3 and 2.2): unknown fields are skipped; of a repeated field the later
//! one counts; integers are decimal text; a boolean is true for `true` in any case and for `1` (C++), false otherwise.

pub mod admin;
pub mod group;
pub mod offset;
pub mod pull;
pub mod register;
pub mod route;
pub mod send;

use std::fmt;

use crate::command::FieldTable;

/// A required field is missing, or a field isn't what it must be. Costs the request, not the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderError {
    /// The field's (long) name.
    pub field: &'static str,
    /// What is wrong with it.
    pub kind: HeaderErrorKind,
}

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderErrorKind {
    /// It must be there and isn't.
    Missing,
    /// It must be an integer of its width and isn't.
    NotAnInteger,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            HeaderErrorKind::Missing => write!(f, "the header field {} is missing", self.field),
            HeaderErrorKind::NotAnInteger => write!(f, "the header field {} is not an integer", self.field),
        }
    }
}

impl std::error::Error for HeaderError {}

/// A required text.
pub(crate) fn text<'a>(fields: &'a FieldTable, field: &'static str) -> Result<&'a str, HeaderError> {
    required(fields.get(field), field)
}

/// A required 32-bit integer.
pub(crate) fn int(fields: &FieldTable, field: &'static str) -> Result<i32, HeaderError> {
    parse_int(text(fields, field)?, field)
}

/// A required 64-bit integer.
pub(crate) fn long(fields: &FieldTable, field: &'static str) -> Result<i64, HeaderError> {
    parse_long(text(fields, field)?, field)
}

/// A 64-bit integer that may be missing.
pub(crate) fn long_opt(fields: &FieldTable, field: &'static str) -> Result<Option<i64>, HeaderError> {
    fields.get(field).map(|value| parse_long(value, field)).transpose()
}

/// A 32-bit integer that may be missing.
pub(crate) fn int_opt(fields: &FieldTable, field: &'static str) -> Result<Option<i32>, HeaderError> {
    fields.get(field).map(|value| parse_int(value, field)).transpose()
}

/// A boolean that may be missing.
pub(crate) fn bool_opt(fields: &FieldTable, field: &str) -> Option<bool> {
    fields.get(field).map(parse_bool)
}

pub(crate) fn required<T>(value: Option<T>, field: &'static str) -> Result<T, HeaderError> {
    value.ok_or(HeaderError { field, kind: HeaderErrorKind::Missing })
}

pub(crate) fn parse_int(value: &str, field: &'static str) -> Result<i32, HeaderError> {
    value.parse().map_err(|_| HeaderError { field, kind: HeaderErrorKind::NotAnInteger })
}

pub(crate) fn parse_long(value: &str, field: &'static str) -> Result<i64, HeaderError> {
    value.parse().map_err(|_| HeaderError { field, kind: HeaderErrorKind::NotAnInteger })
}

pub(crate) fn parse_bool(value: &str) -> bool {
    value == "1" || value.eq_ignore_ascii_case("true")
}
