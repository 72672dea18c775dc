//! The text of the tables in a store's `config/` directory: RocketMQ's JSON, to and from trees of values.
//!
//! RocketMQ writes these files with fastjson's pretty printer: tabs, no blank after a colon, no newline at the end, and
//! **integer keys without quotes**, which no JSON library reads. [`read`] takes both forms and marks such keys, so that
//! [`write()`] gives them back as they were: a file read and written again differs only where its table changed.
//!
//! Owns the style. Never touches a file (the engine writes them atomically) and never knows what a table means.

pub mod consumer_offset;

use std::collections::HashMap;
use std::fmt;

use protocol::body::DataVersion;
use serde_json::{Map, Value};

/// A text that isn't one of RocketMQ's tables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TableError {
    /// Longer than any table we keep.
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Not JSON, even leniently read.
    Syntax(String),
    /// JSON, but a field isn't what it must be.
    Shape {
        /// The field.
        field: String,
        /// What it must be.
        expected: &'static str,
    },
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableError::TooLong { bytes } => write!(f, "has {bytes} bytes, more than {TABLE_BYTES_MAX}"),
            TableError::Syntax(problem) => write!(f, "isn't JSON as RocketMQ writes it: {problem}"),
            TableError::Shape { field, expected } => write!(f, "`{field}` must be {expected}"),
        }
    }
}

impl std::error::Error for TableError {}

/// Reads the text of a whole table file. Keys that had no quotes start with [`BARE`] in the result.
///
/// # Errors
///
/// When the text isn't one JSON object, give or take unquoted keys and what surrounds it.
pub fn read(text: &str) -> Result<Map<String, Value>, TableError> {
    if text.len() > TABLE_BYTES_MAX {
        return Err(TableError::TooLong { bytes: text.len() });
    }
    match serde_json::from_str(&quote_bare_keys(text)) {
        Ok(Value::Object(table)) => Ok(table),
        Ok(_) => Err(TableError::Shape { field: "the whole text".to_owned(), expected: "an object" }),
        Err(error) => Err(TableError::Syntax(error.to_string())),
    }
}

/// Writes a table as RocketMQ does.
pub fn write(table: &Map<String, Value>) -> String {
    let mut text = String::new();
    write_object(table, 0, &mut text);
    text
}

/// A key that is written without quotes: an integer.
pub fn bare_key(number: i64) -> String {
    format!("{BARE}{number}")
}

/// The integer of a key, with or without quotes in the file.
pub fn integer_key(key: &str) -> Option<i64> {
    key.strip_prefix(BARE).unwrap_or(key).parse().ok()
}

/// A table of things that have names and are kept under one field of it: topics, groups.
#[derive(Debug)]
pub struct Named<T> {
    /// The things by name.
    pub entries: HashMap<String, T>,
    /// The table's version.
    pub data_version: DataVersion,
    /// Its other fields.
    pub other: Map<String, Value>,
}

/// Reads a table whose things are under `field`.
///
/// # Errors
///
/// When it isn't such a table, or `parse` refuses one of them.
pub fn read_named<T>(
    text: &str,
    field: &str,
    parse: impl Fn(&str, &Value) -> Result<T, TableError>,
) -> Result<Named<T>, TableError> {
    let mut other = read(text)?;
    let mut entries = HashMap::new();
    for (key, value) in object(&other, field)?.into_iter().flatten() {
        let name = key.trim_start_matches(BARE);
        entries.insert(name.to_owned(), parse(name, value)?);
    }
    let data_version = data_version(&other)?;
    other.retain(|other, _| other != field && other != DATA_VERSION);
    Ok(Named { entries, data_version, other })
}

/// Writes what [`read_named`] reads, in the order of the names.
pub fn write_named<'a>(
    field: &str,
    entries: impl Iterator<Item = (&'a String, Value)>,
    data_version: DataVersion,
    mut other: Map<String, Value>,
) -> String {
    let mut named: Map<String, Value> = entries.map(|(name, value)| (name.clone(), value)).collect();
    named.sort_keys();
    other.insert(DATA_VERSION.to_owned(), data_version_value(data_version));
    other.insert(field.to_owned(), Value::Object(named));
    other.sort_keys();
    write(&other)
}

/// An object of `table`, or an empty one where it is missing or null.
///
/// # Errors
///
/// When it is something else.
pub fn object<'a>(
    table: &'a Map<String, Value>,
    field: &str,
) -> Result<Option<&'a Map<String, Value>>, TableError> {
    match table.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(_) => Err(TableError::Shape { field: field.to_owned(), expected: "an object" }),
    }
}

/// An integer of `table`, or `default` where it is missing or null; fastjson also takes digits in quotes.
///
/// # Errors
///
/// When it is something else.
pub fn integer(table: &Map<String, Value>, field: &str, default: i64) -> Result<i64, TableError> {
    let shape = || TableError::Shape { field: field.to_owned(), expected: "an integer" };
    match table.get(field) {
        None | Some(Value::Null) => Ok(default),
        Some(Value::Number(number)) => number.as_i64().ok_or_else(shape),
        Some(Value::String(digits)) => digits.parse().map_err(|_| shape()),
        Some(_) => Err(shape()),
    }
}

/// An `i32` of `table`; see [`integer`].
///
/// # Errors
///
/// When it is something else or doesn't fit.
pub fn integer32(table: &Map<String, Value>, field: &str, default: i32) -> Result<i32, TableError> {
    let wide = integer(table, field, default.into())?;
    i32::try_from(wide)
        .map_err(|_| TableError::Shape { field: field.to_owned(), expected: "a 32-bit integer" })
}

/// A boolean of `table`, or `default` where it is missing or null.
///
/// # Errors
///
/// When it is something else.
pub fn boolean(table: &Map<String, Value>, field: &str, default: bool) -> Result<bool, TableError> {
    match table.get(field) {
        None | Some(Value::Null) => Ok(default),
        Some(Value::Bool(value)) => Ok(*value),
        Some(_) => Err(TableError::Shape { field: field.to_owned(), expected: "true or false" }),
    }
}

/// The table's `dataVersion`; zero where it is missing.
///
/// # Errors
///
/// When it isn't one.
pub fn data_version(table: &Map<String, Value>) -> Result<DataVersion, TableError> {
    let shape = |_| TableError::Shape { field: DATA_VERSION.to_owned(), expected: "a data version" };
    match table.get(DATA_VERSION) {
        None | Some(Value::Null) => Ok(DataVersion::default()),
        Some(value) => serde_json::from_value(value.clone()).map_err(shape),
    }
}

/// A `dataVersion` as a field.
pub fn data_version_value(data_version: DataVersion) -> Value {
    serde_json::to_value(data_version).expect("three integers always serialise")
}

/// Puts quotes (and [`BARE`]) around keys that are integers without quotes, and leaves all else as it is.
fn quote_bare_keys(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + text.len() / 8);
    let mut rest = text;
    // Whether a key may come next: behind `{`, and behind `,` in an object.
    let mut nesting: Vec<bool> = Vec::new();
    let mut key_next = false;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '"' => string_length(rest),
            '0'..='9' | '-' if key_next => {
                let length = rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(rest.len());
                quoted.push('"');
                quoted.push_str(BARE_ESCAPED);
                quoted.push_str(&rest[..length]);
                quoted.push('"');
                key_next = false;
                rest = &rest[length..];
                continue;
            }
            _ => c.len_utf8(),
        };
        match c {
            '{' | '[' => nesting.push(c == '{'),
            '}' | ']' => {
                nesting.pop();
            }
            _ => {}
        }
        key_next = match c {
            '{' => true,
            ',' => nesting.last() == Some(&true),
            c if c.is_whitespace() => key_next,
            _ => false,
        };
        quoted.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    quoted
}

/// The length of the string literal that `text` starts with, quotes included; all of it when it doesn't end.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (index, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    text.len()
}

fn write_value(value: &Value, depth: usize, text: &mut String) {
    match value {
        Value::Object(object) => write_object(object, depth, text),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_value(item, depth, text);
            }
            text.push(']');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

/// Objects have a line per field, except those with integer keys, which have all fields on their first line.
fn write_object(object: &Map<String, Value>, depth: usize, text: &mut String) {
    text.push('{');
    let inline = object.keys().next().is_some_and(|key| key.starts_with(BARE));
    for (index, (key, value)) in object.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        if !inline {
            new_line(depth + 1, text);
        }
        match key.strip_prefix(BARE) {
            Some(integer) => text.push_str(integer),
            None => text.push_str(&Value::String(key.clone()).to_string()),
        }
        text.push(':');
        write_value(value, depth + 1, text);
    }
    if !object.is_empty() {
        new_line(depth, text);
    }
    text.push('}');
}

fn new_line(depth: usize, text: &mut String) {
    text.push('\n');
    text.extend(std::iter::repeat_n('\t', depth));
}

/// The field that most tables have.
pub const DATA_VERSION: &str = "dataVersion";
/// First character of a key that has no quotes in the file. No name in any table may contain it.
pub const BARE: char = '\u{1}';
const BARE_ESCAPED: &str = "\\u0001";
/// A hundred thousand topics take 20 MiB.
pub const TABLE_BYTES_MAX: usize = 256 << 20;

/// One file of a golden store, whose archive is unpacked by the system's `tar`.
#[cfg(test)]
pub(crate) fn golden(archive: &str, file: &str) -> String {
    let archive =
        std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/golden")).join(archive);
    let tar = std::process::Command::new("tar").arg("-xJOf").arg(archive).arg(file).output().unwrap();
    assert!(tar.status.success(), "{}", String::from_utf8_lossy(&tar.stderr));
    String::from_utf8(tar.stdout).unwrap()
}

/// The lines of a table without what the order of its entries decides (commas at their ends), sorted.
#[cfg(test)]
pub(crate) fn sorted_lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().map(|line| line.trim_end_matches(',')).collect();
    lines.sort_unstable();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rocketmq_writes_comes_back_byte_for_byte() {
        let texts = [
            "{\n\t\"offsetTable\":{\n\t\t\"T@G\":{3:4\n\t\t},\n\t\t\"A@G\":{0:106,1:105\n\t\t}\n\t}\n}",
            "{\n\t\"dataVersion\":{\n\t\t\"counter\":5,\n\t\t\"timestamp\":1796130418668\n\t},\n\t\"offsetTable\":{1:10,18:0\n\t}\n}",
            "{\n\t\"forbiddenTable\":{},\n\t\"groupTopicMap\":{\n\t\t\"G\":[\"A\",\"%RETRY%G\"]\n\t}\n}",
            "{}",
        ];
        for text in texts {
            assert_eq!(write(&read(text).unwrap()), text);
        }
    }

    #[test]
    fn integer_keys_are_read_with_and_without_quotes() {
        let table = read("{ \"a\" : { 1:2 , -3 : 4, \"5\":6, \"x\":[1,2,{7:8}] } }\n").unwrap();
        let inner = object(&table, "a").unwrap().unwrap();
        let keys: Vec<_> = inner.keys().map(|key| integer_key(key)).collect();
        assert_eq!(keys, [Some(1), Some(-3), Some(5), None]);
        assert!(inner["x"][2][&bare_key(7)].is_i64());
    }

    #[test]
    fn texts_that_look_like_keys_are_left_alone() {
        let table = read(r#"{"k,1":"{2:3,\"4:5","n":{"q":[-1,2],"r":-6}}"#).unwrap();
        assert_eq!(table["k,1"], "{2:3,\"4:5");
        assert_eq!(table["n"]["q"][0], -1);
        assert_eq!(table["n"]["r"], -6);
    }

    #[test]
    fn what_is_no_table_is_refused() {
        for text in ["", "[]", "{", "{\"a\":}", "{\"a", "\"", "{1:2,}", "{}x", "{\"a\":\"\\"] {
            assert!(read(text).is_err(), "{text}");
        }
        let deep = "{\"a\":".repeat(100_000);
        assert!(read(&deep).is_err());
    }

    #[test]
    fn fields_of_the_wrong_kind_are_named() {
        let table = read(r#"{"s":"x","n":5000000000,"d":"7"}"#).unwrap();
        assert!(integer(&table, "s", 0).unwrap_err().to_string().contains("`s`"));
        assert!(integer32(&table, "n", 0).is_err());
        assert_eq!((integer(&table, "n", 0), integer32(&table, "d", 0)), (Ok(5_000_000_000), Ok(7)));
        assert_eq!(integer(&table, "none", 3), Ok(3));
        assert!(boolean(&table, "s", true).is_err());
        assert!(object(&table, "s").is_err());
    }
}
