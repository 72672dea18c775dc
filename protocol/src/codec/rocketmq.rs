//! Binary headers (remoting protocol, 1.4). All integers are big-endian and signed.
//!
//! ```text
//! i16 code | u8 language | i16 version | i32 opaque | i32 flag
//! i32 length, remark | i32 length, ext fields: repeated { i16 length, name | i32 length, value }
//! ```
//!
//! An empty remark is no remark. Codes are cut to 16 bits, so codes above 32,767 travel in JSON only.

use super::Head;
use crate::command::{FieldTable, Language, TextRange};
use crate::error::BinaryError;
use crate::limits::{FIELD_COUNT_MAX, FIELD_NAME_BYTES_MAX};

/// Bytes before the remark's length.
pub(super) const FIXED_BYTES: usize = 13;
/// Bytes before the ext fields when there is no remark.
pub(super) const EMPTY_BYTES: usize = FIXED_BYTES + 4 + 4;

/// Reads a header into its fixed values and `fields`, which the caller has cleared.
pub(crate) fn decode(header: &[u8], fields: &mut FieldTable) -> Result<Head, BinaryError> {
    let mut rest = header;
    let code = i16::from_be_bytes(take(&mut rest)?);
    let [language] = take(&mut rest)?;
    let version = i16::from_be_bytes(take(&mut rest)?);
    let opaque = i32::from_be_bytes(take(&mut rest)?);
    let flag = i32::from_be_bytes(take(&mut rest)?);
    let remark_bytes = i32::from_be_bytes(take(&mut rest)?);
    let remark = take_text(&mut rest, remark_bytes.into())?;
    let fields_bytes = i32::from_be_bytes(take(&mut rest)?);
    let mut pairs = take_bytes(&mut rest, fields_bytes.into())?;
    if !rest.is_empty() {
        return Err(BinaryError::TrailingBytes { count: rest.len() });
    }
    let start = fields.text_end();
    fields.text_mut().push_str(remark);
    let range = TextRange { start, end: fields.text_end() };
    while !pairs.is_empty() {
        take_field(&mut pairs, fields)?;
    }
    Ok(Head {
        code: code.into(),
        language: Language::from_number(language.into()),
        version: version.into(),
        opaque,
        flag,
        remark: (!remark.is_empty()).then_some(range),
    })
}

fn take_field(pairs: &mut &[u8], fields: &mut FieldTable) -> Result<(), BinaryError> {
    if fields.len() == FIELD_COUNT_MAX {
        return Err(BinaryError::TooManyFields);
    }
    let name_bytes = i16::from_be_bytes(take(pairs)?);
    let name = take_text(pairs, name_bytes.into())?;
    if name.len() > FIELD_NAME_BYTES_MAX {
        return Err(BinaryError::NameTooLong);
    }
    let value_bytes = i32::from_be_bytes(take(pairs)?);
    let value = take_text(pairs, value_bytes.into())?;
    fields.push(name, value);
    Ok(())
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], BinaryError> {
    let (head, tail) = rest.split_first_chunk::<N>().ok_or(BinaryError::UnexpectedEnd)?;
    *rest = tail;
    Ok(*head)
}

fn take_bytes<'h>(rest: &mut &'h [u8], length: i64) -> Result<&'h [u8], BinaryError> {
    let out_of_bounds = BinaryError::LengthOutOfBounds { length, available_bytes: rest.len() };
    let length = usize::try_from(length).map_err(|_| out_of_bounds)?;
    let (head, tail) = rest.split_at_checked(length).ok_or(out_of_bounds)?;
    *rest = tail;
    Ok(head)
}

fn take_text<'h>(rest: &mut &'h [u8], length: i64) -> Result<&'h str, BinaryError> {
    std::str::from_utf8(take_bytes(rest, length)?).map_err(|_| BinaryError::NotUtf8)
}
