//! The binary header: every length that can lie, and every cut.

use protocol::error::BinaryError;
use protocol::limits::{FIELD_COUNT_MAX, FIELD_NAME_BYTES_MAX};
use protocol::{Error, Language, Serialization, Session, write_request};

use crate::support::{Owned, decode_one};

/// A request with a remark `re` and one field `n` = `v`.
fn sample() -> Vec<u8> {
    let mut out = Vec::new();
    write_request(&mut out, Serialization::RocketMq, 310, 5, 0).remark("re").field("n", "v").finish();
    out.split_off(8)
}

fn decode(header: &[u8]) -> Result<Owned, Error> {
    let mut frame = (header.len() as i32 + 4).to_be_bytes().to_vec();
    frame.extend_from_slice(&(header.len() as i32 | 1 << 24).to_be_bytes());
    frame.extend_from_slice(header);
    let mut session = Session::new(protocol::frame::FRAME_BYTES_MAX);
    session.on_bytes(&frame);
    session.poll_command().map(|command| command.unwrap().into())
}

fn refused(header: &[u8]) -> BinaryError {
    match decode(header) {
        Err(Error::Binary(refusal)) => refusal,
        other => panic!("{header:02x?}: {other:?}"),
    }
}

/// The sample with other bytes at one place.
fn changed(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut header = sample();
    header[at..at + bytes.len()].copy_from_slice(bytes);
    header
}

#[test]
fn every_cut_of_a_header_is_refused() {
    let header = sample();
    decode(&header).unwrap();
    for cut in 1..header.len() {
        let refusal = refused(&header[..cut]);
        let is_length = matches!(refusal, BinaryError::LengthOutOfBounds { .. });
        assert!(is_length || refusal == BinaryError::UnexpectedEnd, "cut at {cut}: {refusal}");
    }
}

#[test]
fn lengths_that_lie_are_refused() {
    // 13 length of the remark, 17 remark, 19 length of the fields, 23 length of the name, 26 length of the value.
    let out_of_bounds =
        |length: i64, available_bytes: usize| BinaryError::LengthOutOfBounds { length, available_bytes };
    assert_eq!(refused(&changed(13, &[0xff; 4])), out_of_bounds(-1, 14));
    assert_eq!(refused(&changed(13, &[0x7f, 0xff, 0xff, 0xff])), out_of_bounds(i32::MAX.into(), 14));
    assert_eq!(refused(&changed(19, &[0xff; 4])), out_of_bounds(-1, 8));
    assert_eq!(refused(&changed(19, &[0, 0, 0, 9])), out_of_bounds(9, 8));
    assert_eq!(refused(&changed(19, &[0, 0, 0, 7])), BinaryError::TrailingBytes { count: 1 });
    assert_eq!(refused(&changed(23, &[0xff, 0xff])), out_of_bounds(-1, 6));
    assert_eq!(refused(&changed(23, &[0, 7])), out_of_bounds(7, 6));
    assert_eq!(refused(&changed(26, &[0x80, 0, 0, 0])), out_of_bounds(i32::MIN.into(), 1));
    assert_eq!(refused(&changed(26, &[0, 0, 0, 2])), out_of_bounds(2, 1));
}

#[test]
fn texts_must_be_utf8() {
    for at in [17, 25, 30] {
        assert_eq!(refused(&changed(at, &[0xff])), BinaryError::NotUtf8, "at {at}");
    }
}

#[test]
fn field_count_and_name_length_are_bounded() {
    let with = |count: usize, name_len: usize| {
        let mut header = vec![0; 17];
        let field = [&(name_len as i16).to_be_bytes()[..], &vec![b'n'; name_len], &[0; 4]].concat();
        header.extend_from_slice(&((field.len() * count) as i32).to_be_bytes());
        header.extend_from_slice(&field.repeat(count));
        header
    };
    assert_eq!(decode(&with(FIELD_COUNT_MAX, 1)).unwrap().fields.len(), FIELD_COUNT_MAX);
    assert_eq!(refused(&with(FIELD_COUNT_MAX + 1, 1)), BinaryError::TooManyFields);
    decode(&with(1, FIELD_NAME_BYTES_MAX)).unwrap();
    assert_eq!(refused(&with(1, FIELD_NAME_BYTES_MAX + 1)), BinaryError::NameTooLong);
}

#[test]
fn unknown_languages_negative_codes_and_empty_values_pass() {
    let mut header = changed(0, &[0xff, 0xff, 200]);
    header.truncate(19);
    header.extend_from_slice(&[0, 0, 0, 7, 0, 1, b'k', 0, 0, 0, 0]);
    let command = decode(&header).unwrap();
    assert_eq!((command.code, command.language), (-1, Language::OTHER));
    assert_eq!(command.fields, [("k".to_owned(), String::new())]);
}

#[test]
fn an_empty_remark_is_no_remark() {
    let mut out = Vec::new();
    write_request(&mut out, Serialization::RocketMq, 10, 1, 0).remark("").finish();
    assert_eq!(decode_one(&out).remark, None);
}
