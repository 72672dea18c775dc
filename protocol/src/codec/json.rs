//! JSON headers (remoting protocol, 1.3), read in one pass by a scanner of our own: it is the hot path, and RocketMQ's
//! clients bend JSON. Accepted beyond the standard, because real clients or fastjson do it:
//!
//! - ext fields that are numbers or booleans are taken as their text, `null` ones are absent;
//! - integers at the top level may be quoted, and `null` stands for their default;
//! - control characters stand in strings unescaped;
//! - an escaped half of a surrogate pair becomes U+FFFD, as Java replaces it when it encodes the text again.
//!
//! Unknown keys are skipped, later keys of one name win, whitespace may follow the object and nothing else may.
//! Bounds: `limits::{HEADER_DEPTH_MAX, FIELD_COUNT_MAX, FIELD_NAME_BYTES_MAX}`.

mod scan;

use scan::Scanner;

use super::Head;
use crate::command::{FieldTable, Language, TextRange};
use crate::error::{JsonError, JsonErrorKind};
use crate::limits::{FIELD_COUNT_MAX, FIELD_NAME_BYTES_MAX};

/// Reads a header into its fixed values and `fields`, which the caller has cleared.
pub(crate) fn decode(header: &[u8], fields: &mut FieldTable) -> Result<Head, JsonError> {
    let text = std::str::from_utf8(header)
        .map_err(|error| JsonError { at: error.valid_up_to(), kind: JsonErrorKind::NotUtf8 })?;
    let mut scanner = Scanner::new(text);
    let mut code = None;
    let mut head = Head { code: 0, language: Language::JAVA, version: 0, opaque: 0, flag: 0, remark: None };
    scanner.object(|scanner, key| {
        match key {
            "code" => code = Some(scanner.integer()?),
            "flag" => head.flag = scanner.integer()?,
            "opaque" => head.opaque = scanner.integer()?,
            "version" => head.version = scanner.integer()?,
            "language" => head.language = language(scanner)?,
            "remark" => head.remark = remark(scanner, fields)?,
            "extFields" => ext_fields(scanner, fields)?,
            _ => scanner.skip_value(1)?,
        }
        Ok(())
    })?;
    scanner.end()?;
    head.code = code.ok_or(scanner.error(JsonErrorKind::CodeMissing))?;
    Ok(head)
}

fn language(scanner: &mut Scanner<'_>) -> Result<Language, JsonError> {
    match scanner.peek()? {
        b'"' => Ok(Language::from_name(&scanner.string()?)),
        b'n' => scanner.literal("null").map(|()| Language::JAVA),
        _ => scanner.integer().map(|number| Language::from_number(number.into())),
    }
}

fn remark(scanner: &mut Scanner<'_>, fields: &mut FieldTable) -> Result<Option<TextRange>, JsonError> {
    let start = fields.text_end();
    let present = scanner.scalar_into(fields.text_mut())?;
    Ok(present.then_some(TextRange { start, end: fields.text_end() }))
}

fn ext_fields(scanner: &mut Scanner<'_>, fields: &mut FieldTable) -> Result<(), JsonError> {
    fields.clear_entries();
    if scanner.peek()? == b'n' {
        return scanner.literal("null");
    }
    scanner.open(b'{')?;
    let mut first = true;
    while scanner.next_item(b'}', &mut first)? {
        let name_start = fields.text_end();
        scanner.string_into(fields.text_mut())?;
        let name_end = fields.text_end();
        if (name_end - name_start) as usize > FIELD_NAME_BYTES_MAX {
            return Err(scanner.error(JsonErrorKind::NameTooLong));
        }
        scanner.colon()?;
        if scanner.scalar_into(fields.text_mut())? {
            if fields.len() == FIELD_COUNT_MAX {
                return Err(scanner.error(JsonErrorKind::TooManyFields));
            }
            fields.push_entry(name_start, name_end);
        }
    }
    Ok(())
}

/// Appends `text` as a JSON string. Non-ASCII text stays as it is; control characters are escaped as fastjson does it.
pub(crate) fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut plain_start = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[plain_start..at]);
        plain_start = at + 1;
        write_escape(out, byte);
    }
    out.extend_from_slice(&bytes[plain_start..]);
    out.push(b'"');
}

fn write_escape(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    match byte {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        0x08 => out.extend_from_slice(b"\\b"),
        0x0c => out.extend_from_slice(b"\\f"),
        _ => {
            let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
        }
    }
}
