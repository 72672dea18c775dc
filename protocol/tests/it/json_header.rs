//! The JSON header's scanner against `serde_json` as an oracle, and what it reads beyond the standard.

use protocol::error::{JsonError, JsonErrorKind};
use protocol::limits::{FIELD_COUNT_MAX, FIELD_NAME_BYTES_MAX, HEADER_DEPTH_MAX};
use protocol::{Error, Session};
use serde_json::Value;

use crate::support::{Owned, Random, decode_one};
use crate::vectors::framed;

fn decode(header: &str) -> Result<Owned, Error> {
    let mut session = Session::new(protocol::frame::FRAME_BYTES_MAX);
    session.on_bytes(&framed(header));
    session.poll_command().map(|command| command.unwrap().into())
}

fn refused(header: &str) -> JsonErrorKind {
    match decode(header) {
        Err(Error::Json(JsonError { at, kind })) => {
            assert!(at <= header.len(), "{header}");
            kind
        }
        other => panic!("{header}: {other:?}"),
    }
}

fn field(header: &str, name: &str) -> Option<String> {
    let command = decode(header).unwrap();
    command.fields.into_iter().rev().find(|(found, _)| found == name).map(|(_, value)| value)
}

/// What the scanner must say of a text, by `serde_json`; `None` when it must refuse it.
fn oracle(header: &str) -> Option<(i32, Vec<(String, String)>)> {
    let value: Value = serde_json::from_str(header).ok()?;
    let object = value.as_object()?;
    for key in ["code", "flag", "opaque", "version"] {
        integer(object.get(key))?;
    }
    match object.get("language") {
        None | Some(Value::Null | Value::String(_)) => {}
        other => drop(integer(other)?),
    }
    let fields = match object.get("extFields") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Object(fields)) => fields
            .iter()
            .filter_map(|(name, value)| match value {
                Value::Null => None,
                Value::String(text) => Some((name.clone(), normal(text))),
                other => Some((name.clone(), normal(&other.to_string()))),
            })
            .collect(),
        Some(_) => return None,
    };
    object.get("code")?;
    Some((integer(object.get("code"))?, fields))
}

/// A number as `serde_json` prints it, which may not be how it was written; other texts as they are.
fn normal(text: &str) -> String {
    let number = serde_json::from_str::<serde_json::Number>(text);
    number.map_or_else(|_| text.to_owned(), |number| number.to_string())
}

fn integer(value: Option<&Value>) -> Option<i32> {
    match value {
        None | Some(Value::Null) => Some(0),
        // `serde_json` reads -0 as a float.
        Some(Value::Number(number)) if number.to_string() == "-0.0" => Some(0),
        Some(Value::Number(number)) => number.as_i64().and_then(|number| i32::try_from(number).ok()),
        Some(Value::String(text)) => text.parse().ok(),
        Some(_) => None,
    }
}

/// A random JSON text: mostly well-formed, sometimes with one byte changed.
fn random_header(random: &mut Random) -> String {
    let mut header = String::from("{\"code\":");
    header.push_str(&random_scalar(random));
    for key in ["opaque", "language", "flag", "remark", "unknown", "extFields"] {
        if random.below(3) == 0 {
            continue;
        }
        let separator = if random.below(5) == 0 { " ,\n\t" } else { "," };
        let value = match key {
            "extFields" => random_object(random),
            "unknown" => random_value(random, 2),
            "remark" => serde_json::to_string(&random.text(10)).unwrap(),
            _ => random_scalar(random),
        };
        header.push_str(&format!("{separator}\"{key}\": {value}"));
    }
    header.push('}');
    if random.below(4) == 0 {
        let mut bytes = header.into_bytes();
        let at = random.below(bytes.len());
        bytes[at] = b"{}[]\",:0-.e\\ntux"[random.below(16)];
        return String::from_utf8_lossy(&bytes).into_owned();
    }
    header
}

fn random_scalar(random: &mut Random) -> String {
    const SCALARS: &[&str] = &[
        "0",
        "310",
        "-7",
        "2147483647",
        "null",
        "\"34\"",
        "1.5",
        "1e3",
        "01",
        "-",
        "true",
        "3000000000",
        "\"x\"",
    ];
    let choices = if random.below(4) == 0 { SCALARS.len() } else { 5 };
    SCALARS[random.below(choices)].to_owned()
}

fn random_object(random: &mut Random) -> String {
    let members: Vec<_> = (0..random.below(6))
        .map(|number| {
            let name = format!("{number}{}", random.text(3));
            format!("{}:{}", serde_json::to_string(&name).unwrap(), random_value(random, 1))
        })
        .collect();
    format!("{{{}}}", members.join(","))
}

fn random_value(random: &mut Random, depth: usize) -> String {
    match random.below(8) {
        0 => "true".to_owned(),
        1 => "null".to_owned(),
        2 => random.below(1000).to_string(),
        3 if depth > 1 => format!("[{}]", random_value(random, depth - 1)),
        4 if depth > 1 => random_object(random),
        _ => serde_json::to_string(&random.text(12)).unwrap(),
    }
}

#[test]
fn scanner_agrees_with_serde_json_on_random_headers() {
    let (mut accepted, mut refused) = (0, 0);
    for seed in 0..40_000 {
        let header = random_header(&mut Random(seed));
        let expected = oracle(&header);
        let found = decode(&header).ok().map(|command| {
            // Later fields of a name win, in the place of the first, as serde_json keeps them.
            let mut fields: Vec<(String, String)> = Vec::new();
            for (name, value) in command.fields {
                let value = normal(&value);
                match fields.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, known)) => *known = value,
                    None => fields.push((name, value)),
                }
            }
            (command.code, fields)
        });
        match &expected {
            Some(_) => accepted += 1,
            None => refused += 1,
        }
        assert_eq!(found, expected, "seed {seed}: {header}");
    }
    assert!(accepted > 10_000 && refused > 5_000, "{accepted} accepted, {refused} refused");
}

#[test]
fn ext_fields_are_taken_as_text() {
    let header = r#"{"code":1,"extFields":{"n":-12,"f":1.50,"t":true,"z":null,"s":"\u00e9\ud83d\ude00\/","o":{"a": [1]}}}"#;
    assert_eq!(field(header, "n").as_deref(), Some("-12"));
    assert_eq!(field(header, "f").as_deref(), Some("1.50"));
    assert_eq!(field(header, "t").as_deref(), Some("true"));
    assert_eq!(field(header, "z"), None);
    assert_eq!(field(header, "s").as_deref(), Some("é😀/"));
    assert_eq!(field(header, "o").as_deref(), Some(r#"{"a": [1]}"#));
}

#[test]
fn raw_separators_and_halves_of_surrogates_are_accepted() {
    assert_eq!(
        field("{\"code\":1,\"extFields\":{\"i\":\"A\x01b\x02\"}}", "i").as_deref(),
        Some("A\x01b\x02")
    );
    for (escaped, expected) in [
        (r"\ud800", "\u{fffd}"),
        (r"\ud800\n", "\u{fffd}\n"),
        (r"\udc00x", "\u{fffd}x"),
        (r"\ud800A", "\u{fffd}A"),
    ] {
        let header = format!(r#"{{"code":1,"extFields":{{"i":"{escaped}"}}}}"#);
        assert_eq!(field(&header, "i").as_deref(), Some(expected), "{escaped}");
    }
}

#[test]
fn top_level_values_are_read_leniently() {
    let command = decode(
        "{ \"\\u0063ode\":\"310\",\"language\":\"XYZ\",\"version\":null,\"extFields\":null,\"remark\":null,\"new\":[{}]}\r\n",
    )
    .unwrap();
    assert_eq!((command.code, command.version, command.remark), (310, 0, None));
    assert_eq!(command.language.name(), "OTHER");
    assert_eq!(decode(r#"{"code":1}"#).unwrap().language.name(), "JAVA");
    assert_eq!(decode(r#"{"code":1,"language":9}"#).unwrap().language.name(), "GO");
}

#[test]
fn malformed_headers_are_refused_by_kind() {
    assert_eq!(refused("{}"), JsonErrorKind::CodeMissing);
    assert_eq!(refused(r#"{"code":1"#), JsonErrorKind::UnexpectedEnd);
    assert_eq!(refused(r#"{"code":1}x"#), JsonErrorKind::UnexpectedByte { byte: b'x' });
    assert_eq!(refused(r#"{"code":1,}"#), JsonErrorKind::UnexpectedByte { byte: b'}' });
    assert_eq!(refused(r#"{"code":2147483648}"#), JsonErrorKind::NotAnInteger);
    assert_eq!(refused(r#"{"code":1.0}"#), JsonErrorKind::NotAnInteger);
    assert_eq!(refused(r#"{"code":1,"remark":"\q"}"#), JsonErrorKind::BadEscape);
    assert_eq!(refused(r#"{"code":1,"remark":"\u12"}"#), JsonErrorKind::BadEscape);
    assert_eq!(refused(r#"{"code":01}"#), JsonErrorKind::BadNumber);
    assert_eq!(refused(r#"{"code":1,"extFields":[]}"#), JsonErrorKind::UnexpectedByte { byte: b'[' });
}

#[test]
fn every_cut_of_a_header_is_refused() {
    let header =
        r#"{"code":310,"extFields":{"i":"A\u0001b\u0002","n":-1.5e3,"b":true},"x":[null,{"y":"z"}]}"#;
    decode_one(&framed(header));
    for cut in 1..header.len() {
        refused(&header[..cut]);
    }
}

#[test]
fn depth_field_count_and_name_length_are_bounded() {
    let nested =
        |depth: usize| format!(r#"{{"code":1,"x":{}{}}}"#, "[".repeat(depth - 1), "]".repeat(depth - 1));
    decode(&nested(HEADER_DEPTH_MAX)).unwrap();
    assert_eq!(refused(&nested(HEADER_DEPTH_MAX + 1)), JsonErrorKind::TooDeep);
    assert_eq!(refused(&nested(1_000_000)), JsonErrorKind::TooDeep);

    let with_fields = |count: usize| {
        let fields: Vec<_> = (0..count).map(|number| format!("\"f{number}\":1")).collect();
        format!(r#"{{"code":1,"extFields":{{{}}}}}"#, fields.join(","))
    };
    assert_eq!(decode(&with_fields(FIELD_COUNT_MAX)).unwrap().fields.len(), FIELD_COUNT_MAX);
    assert_eq!(refused(&with_fields(FIELD_COUNT_MAX + 1)), JsonErrorKind::TooManyFields);

    let with_name = |len: usize| format!(r#"{{"code":1,"extFields":{{"{}":1}}}}"#, "n".repeat(len));
    decode(&with_name(FIELD_NAME_BYTES_MAX)).unwrap();
    assert_eq!(refused(&with_name(FIELD_NAME_BYTES_MAX + 1)), JsonErrorKind::NameTooLong);
}
