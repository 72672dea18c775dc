//! Turns RocketMQ's JSON into what `serde_json` reads, and offers the small readings that differ between clients.
//!
//! fastjson writes maps with integer keys as `{0:"a"}` and maps with object keys as `{{"topic":"T"}:3}`. Both become
//! text keys here: `{"0":"a"}` and `{"{\"topic\":\"T\"}":3}`. Control characters in strings are escaped, whitespace is
//! dropped. An object as a key inside an object that is a key isn't read: nobody writes it, and each level would double
//! the backslashes.
//!
//! Depth is bounded by [`BODY_DEPTH_MAX`], size by [`BODY_BYTES_MAX`]; the output is at most a few times the input.

use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _};
use serde_json::Value;

use super::BodyError;
use crate::limits::{BODY_BYTES_MAX, BODY_DEPTH_MAX};

/// Reads a body; unknown fields are skipped when `T` skips them.
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, BodyError> {
    let text = normalize(body)?;
    serde_json::from_str(&text).map_err(|error| BodyError::Shape { message: error.to_string() })
}

/// The body as JSON with text keys only. Nesting and quotes are checked, the inside of numbers and words is not.
pub fn normalize(body: &[u8]) -> Result<String, BodyError> {
    if body.len() > BODY_BYTES_MAX {
        return Err(BodyError::TooLong { bytes: body.len() });
    }
    let text = std::str::from_utf8(body).map_err(|error| BodyError::NotUtf8 { at: error.valid_up_to() })?;
    let mut normalizer = Normalizer { text, at: 0, out: String::with_capacity(text.len()), in_key: false };
    normalizer.value(0)?;
    match normalizer.peek() {
        Err(BodyError::UnexpectedEnd) => Ok(normalizer.out),
        Err(error) => Err(error),
        Ok(byte) => Err(normalizer.unexpected(byte)),
    }
}

struct Normalizer<'t> {
    text: &'t str,
    at: usize,
    out: String,
    /// Inside an object that is a key.
    in_key: bool,
}

impl Normalizer<'_> {
    fn value(&mut self, depth: usize) -> Result<(), BodyError> {
        match self.peek()? {
            b'"' => self.string(),
            b'{' => self.items(depth, b'}', |it| {
                it.key(depth)?;
                it.punctuation(b':')?;
                it.value(depth + 1)
            }),
            b'[' => self.items(depth, b']', |it| it.value(depth + 1)),
            _ => self.word(),
        }
    }

    /// An object or list from its opening to its closing bracket; `item` reads what stands between commas.
    fn items(
        &mut self,
        depth: usize,
        closing: u8,
        mut item: impl FnMut(&mut Self) -> Result<(), BodyError>,
    ) -> Result<(), BodyError> {
        if depth == BODY_DEPTH_MAX {
            return Err(BodyError::TooDeep { at: self.at });
        }
        let opening = self.peek()?;
        self.punctuation(opening)?;
        let mut first = true;
        while self.peek()? != closing {
            if !std::mem::replace(&mut first, false) {
                self.punctuation(b',')?;
            }
            item(self)?;
        }
        self.punctuation(closing)
    }

    fn key(&mut self, depth: usize) -> Result<(), BodyError> {
        match self.peek()? {
            b'"' => self.string(),
            b'{' if !self.in_key => {
                let start = self.out.len();
                self.in_key = true;
                self.value(depth + 1)?;
                self.in_key = false;
                let object = self.out.split_off(start);
                self.push_quoted(&object);
                Ok(())
            }
            b'-' | b'0'..=b'9' => {
                self.out.push('"');
                self.word()?;
                self.out.push('"');
                Ok(())
            }
            byte => Err(self.unexpected(byte)),
        }
    }

    /// A number, `true`, `false` or `null`, as far as letters, digits and signs go.
    fn word(&mut self) -> Result<(), BodyError> {
        let rest = &self.text[self.at..];
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
        let len = rest.bytes().take_while(|byte| is_part(byte)).count();
        if len == 0 {
            let byte = self.peek()?;
            return Err(self.unexpected(byte));
        }
        self.out.push_str(&rest[..len]);
        self.at += len;
        Ok(())
    }

    /// A string with its quotes; what is escaped stays escaped.
    fn string(&mut self) -> Result<(), BodyError> {
        let bytes = self.text.as_bytes();
        let content_start = self.at + 1;
        let mut at = content_start;
        loop {
            match bytes.get(at) {
                None => return Err(BodyError::UnexpectedEnd),
                Some(b'"') => break,
                Some(b'\\') => at += 2,
                Some(_) => at += 1,
            }
        }
        self.out.push('"');
        let content = &self.text[content_start..at];
        push_without_controls(&mut self.out, content);
        self.out.push('"');
        self.at = at + 1;
        Ok(())
    }

    fn push_quoted(&mut self, text: &str) {
        self.out.push('"');
        for character in text.chars() {
            if matches!(character, '"' | '\\') {
                self.out.push('\\');
            }
            self.out.push(character);
        }
        self.out.push('"');
    }

    fn punctuation(&mut self, expected: u8) -> Result<(), BodyError> {
        let byte = self.peek()?;
        if byte != expected {
            return Err(self.unexpected(byte));
        }
        self.out.push(char::from(byte));
        self.at += 1;
        Ok(())
    }

    /// The next byte that isn't whitespace, which stays.
    fn peek(&mut self) -> Result<u8, BodyError> {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.text.as_bytes().get(self.at) {
            self.at += 1;
        }
        self.text.as_bytes().get(self.at).copied().ok_or(BodyError::UnexpectedEnd)
    }

    fn unexpected(&self, byte: u8) -> BodyError {
        BodyError::UnexpectedByte { at: self.at, byte }
    }
}

fn push_without_controls(out: &mut String, text: &str) {
    for piece in text.split_inclusive(|character| character < ' ') {
        match piece.chars().next_back() {
            Some(control) if control < ' ' => {
                out.push_str(&piece[..piece.len() - 1]);
                out.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            _ => out.push_str(piece),
        }
    }
}

/// `null` reads as the default, as a missing field does.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// An integer that may be quoted or `null` (0).
pub(crate) fn integer<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i64>,
{
    let number = integer_of(&Value::deserialize(deserializer)?).map_err(D::Error::custom)?;
    T::try_from(number).map_err(|_| D::Error::custom(format!("{number} is out of range")))
}

/// A list of integers, each maybe quoted; `null` is empty.
pub(crate) fn integers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<i32>, D::Error> {
    let values = Option::<Vec<Value>>::deserialize(deserializer)?.unwrap_or_default();
    let read = |value: &Value| {
        let number = integer_of(value)?;
        i32::try_from(number).map_err(|_| format!("{number} is out of range"))
    };
    values.iter().map(read).collect::<Result<_, String>>().map_err(D::Error::custom)
}

/// A boolean that may be quoted, 0 or 1, or `null` (false).
pub(crate) fn boolean<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Bool(value) => Ok(value),
        Value::Null => Ok(false),
        Value::Number(number) => Ok(number.as_i64() != Some(0)),
        Value::String(text) => Ok(crate::header::parse_bool(&text)),
        other => Err(D::Error::custom(format!("{other} is not a boolean"))),
    }
}

/// A constant of a Java enum, by name or by ordinal. What isn't known is `None`, as it is `null` to fastjson.
pub(crate) fn constant<T: Copy>(value: &Value, names: &[(&str, T)], ordinals: &[T]) -> Option<T> {
    match value {
        Value::String(text) => match text.parse::<usize>() {
            Ok(ordinal) => ordinals.get(ordinal).copied(),
            Err(_) => names.iter().find(|(name, _)| name == text).map(|(_, constant)| *constant),
        },
        Value::Number(number) => {
            let ordinal = usize::try_from(number.as_u64()?).ok()?;
            ordinals.get(ordinal).copied()
        }
        _ => None,
    }
}

fn integer_of(value: &Value) -> Result<i64, String> {
    let number = match value {
        Value::Null => Some(0),
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| format!("{value} is not an integer"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expected: &str) {
        assert_eq!(normalize(body.as_bytes()).as_deref(), Ok(expected), "{body}");
    }

    fn refused(body: &str) -> BodyError {
        normalize(body.as_bytes()).expect_err(body)
    }

    #[test]
    fn bare_and_object_keys_become_text() {
        check("{0:\"a\",-1 : [ true ,null]}\n", "{\"0\":\"a\",\"-1\":[true,null]}");
        check("{{\"q\":0,\"t\":\"T\\\\\"}:3}", r#"{"{\"q\":0,\"t\":\"T\\\\\"}":3}"#);
        check("{\"a\\\"b\":\"\u{1}x\t\"}", "{\"a\\\"b\":\"\\u0001x\\u0009\"}");
        check("[]", "[]");
        check(" 5 ", "5");
    }

    #[test]
    fn broken_text_is_refused() {
        assert_eq!(refused(""), BodyError::UnexpectedEnd);
        assert_eq!(refused("{\"a"), BodyError::UnexpectedEnd);
        assert_eq!(refused("\"\\"), BodyError::UnexpectedEnd);
        assert_eq!(refused("{a:1}"), BodyError::UnexpectedByte { at: 1, byte: b'a' });
        assert_eq!(refused("{{{1:2}:3}:4}"), BodyError::UnexpectedByte { at: 2, byte: b'{' });
        assert_eq!(refused("{} {}"), BodyError::UnexpectedByte { at: 3, byte: b'{' });
        assert_eq!(refused("[1,]"), BodyError::UnexpectedByte { at: 3, byte: b']' });
        assert_eq!(normalize(b"\"\xff\""), Err(BodyError::NotUtf8 { at: 1 }));
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        check(&nested(BODY_DEPTH_MAX), &nested(BODY_DEPTH_MAX));
        assert_eq!(refused(&nested(BODY_DEPTH_MAX + 1)), BodyError::TooDeep { at: BODY_DEPTH_MAX });
        assert_eq!(refused(&"{1:".repeat(1_000_000)), BodyError::TooDeep { at: 3 * BODY_DEPTH_MAX });
    }
}
