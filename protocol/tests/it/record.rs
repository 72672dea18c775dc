//! Stored records and batches: the specification's bytes, and every way in which they can be damaged.

use protocol::message::{
    BatchError, BatchItem, HostBytes, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, RecordError, StoredMessage,
    batch_items, body_crc, offset_message_id, stored_messages, sys_flag, write_batch_item,
};
use protocol::properties;

use crate::support::hex;

/// The stored message of the remoting protocol, 7.
pub fn vector() -> Vec<u8> {
    hex(
        "0000006bdaa320a73610a68600000001000000000000000000000002000000000000012c000000000000018bcfe568007f0000\
         01000004d20000018bcfe568010a00000100002a9f0000000000000000000000000000000568656c6c6f0154000a544147530154\
         61674102",
    )
}

/// The record of the store's specification, 6.
fn store_vector() -> Vec<u8> {
    hex("00000073daa320a73610a6860000000100000000000000000000000300000000\
         00000000000000000000018bcfe568007f0000010000c3500000018bcfe5687b\
         7f00000100002a9f0000000000000000000000000000000568656c6c6f09546f\
         70696354657374000a54414753015461674102")
}

/// A V2 record with 16-byte addresses, written here by hand from the layout.
pub fn v2_record() -> Vec<u8> {
    let mut out = vec![0; 4];
    out.extend_from_slice(&MAGIC_V2.to_be_bytes());
    out.extend_from_slice(&body_crc(b"").to_be_bytes());
    out.extend_from_slice(&[0; 24]);
    out.extend_from_slice(&(sys_flag::BORNHOST_V6 | sys_flag::STOREHOST_V6).to_be_bytes());
    for _ in 0..2 {
        out.extend_from_slice(&1_i64.to_be_bytes());
        out.extend_from_slice(&std::net::Ipv6Addr::LOCALHOST.octets());
        out.extend_from_slice(&10911_i32.to_be_bytes());
    }
    out.extend_from_slice(&[0; 16]);
    let topic = "t".repeat(200);
    out.extend_from_slice(&200_i16.to_be_bytes());
    out.extend_from_slice(topic.as_bytes());
    out.extend_from_slice(&[0, 0]);
    let size = (out.len() as i32).to_be_bytes();
    out[..4].copy_from_slice(&size);
    out
}

#[test]
fn record_of_the_specification_is_read() {
    let bytes = vector();
    let (message, consumed) = StoredMessage::decode(&bytes).unwrap();
    assert_eq!(consumed, bytes.len());
    let expected = StoredMessage {
        total_size: 107,
        magic: MAGIC_V1,
        body_crc: 907_060_870,
        queue_id: 1,
        flag: 0,
        queue_offset: 2,
        physical_offset: 300,
        sys_flag: 0,
        born_timestamp_ms: 1_700_000_000_000,
        born_host: HostBytes { ip: [127, 0, 0, 1].into(), port: 1234 },
        store_timestamp_ms: 1_700_000_000_001,
        store_host: HostBytes { ip: [10, 0, 0, 1].into(), port: 10911 },
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: b"hello",
        topic: "T",
        properties: "TAGS\x01TagA\x02",
    };
    assert_eq!(message, expected);
    assert_eq!(message.check_body_crc(), Ok(()));
    assert_eq!(properties::tags_code(message.properties), 2_598_919);
}

#[test]
fn record_of_the_store_specification_is_read() {
    let bytes = store_vector();
    let (message, consumed) = StoredMessage::decode(&bytes).unwrap();
    assert_eq!((consumed, message.queue_offset, message.physical_offset), (115, 3, 0));
    assert_eq!((message.topic, message.queue_id, message.body), ("TopicTest", 1, &b"hello"[..]));
    assert_eq!(message.born_host, HostBytes { ip: [127, 0, 0, 1].into(), port: 50_000 });
    assert_eq!(message.store_timestamp_ms - message.born_timestamp_ms, 123);
    assert_eq!(message.check_body_crc(), Ok(()));
    let store_port = u16::try_from(message.store_host.port).unwrap();
    let id = offset_message_id(message.store_host.ip, store_port, message.physical_offset);
    assert_eq!(id.as_str(), "7F00000100002A9F0000000000000000");
}

#[test]
fn records_follow_each_other() {
    let mut bytes = vector();
    bytes.extend_from_slice(&store_vector());
    bytes.extend_from_slice(&v2_record());
    let topics: Vec<_> = stored_messages(&bytes).map(|message| message.unwrap().topic.len()).collect();
    assert_eq!(topics, [1, 9, 200]);
    bytes.push(0);
    assert_eq!(stored_messages(&bytes).last(), Some(Err(RecordError::SizeCutShort { available_bytes: 1 })));
}

#[test]
fn record_cut_anywhere_is_refused_and_says_so() {
    for record in [vector(), v2_record()] {
        for cut in 0..record.len() {
            let error = StoredMessage::decode(&record[..cut]).unwrap_err();
            let total_size = record.len() as i32;
            let expected = match cut {
                0..4 => RecordError::SizeCutShort { available_bytes: cut },
                4..8 => RecordError::MagicCutShort { available_bytes: cut },
                _ => RecordError::RecordCutShort { total_size, available_bytes: cut },
            };
            assert_eq!(error, expected);
        }
    }
}

#[test]
fn damaged_lengths_have_errors_of_their_own() {
    let check = |at: usize, word: &[u8], expected: RecordError| {
        let mut record = vector();
        record[at..at + word.len()].copy_from_slice(word);
        assert_eq!(StoredMessage::decode(&record), Err(expected));
    };
    check(4, &[0; 4], RecordError::UnknownMagic { magic: 0 });
    check(4, &MAGIC_BLANK.to_be_bytes(), RecordError::Blank { total_size: 107 });
    check(0, &[0; 4], RecordError::SizeTooSmall { total_size: 0 });
    check(0, &90_i32.to_be_bytes(), RecordError::SizeTooSmall { total_size: 90 });
    check(0, &[0xff; 4], RecordError::SizeTooSmall { total_size: -1 });
    check(0, &i32::MAX.to_be_bytes(), RecordError::SizeTooLarge { total_size: i32::MAX });
    let cut = RecordError::RecordCutShort { total_size: 108, available_bytes: 107 };
    check(0, &108_i32.to_be_bytes(), cut);
    check(39, &[0x30], RecordError::HostsBeyondRecord { total_size: 107 });
    check(84, &20_i32.to_be_bytes(), RecordError::BodyBeyondRecord { body_len: 20, available_bytes: 19 });
    check(84, &19_i32.to_be_bytes(), RecordError::TopicBeyondRecord { topic_len: -1, available_bytes: 0 });
    check(84, &[0xff; 4], RecordError::BodyBeyondRecord { body_len: -1, available_bytes: 19 });
    check(93, &[0x80], RecordError::TopicBeyondRecord { topic_len: -128, available_bytes: 13 });
    check(93, &[14], RecordError::TopicBeyondRecord { topic_len: 14, available_bytes: 13 });
    check(93, &[13], RecordError::PropertiesBeyondRecord { properties_len: -1, available_bytes: 0 });
    check(95, &[0, 11], RecordError::PropertiesBeyondRecord { properties_len: 11, available_bytes: 10 });
    check(95, &[0, 9], RecordError::SizeMismatch { total_size: 107, parts_bytes: 106 });
    check(94, &[0xff], RecordError::TopicNotUtf8);
    check(97, &[0xff], RecordError::PropertiesNotUtf8);
}

#[test]
fn changed_body_fails_its_checksum() {
    let mut record = vector();
    record[88] ^= 1;
    let (message, _) = StoredMessage::decode(&record).unwrap();
    let found = body_crc(b"iello");
    assert_eq!(message.check_body_crc(), Err(RecordError::BodyCrcMismatch { expected: 907_060_870, found }));
    assert_eq!(body_crc(b""), 0);
}

#[test]
fn batch_item_of_the_specification_is_written_and_read() {
    let expected = hex(
        "00000035000000000000000000000000000000036f6e65001c4b455953016b31025741495401747275650254414753015461674102",
    );
    let item =
        BatchItem { flag: 0, body: b"one", properties: "KEYS\x01k1\x02WAIT\x01true\x02TAGS\x01TagA\x02" };
    let mut out = Vec::new();
    write_batch_item(&mut out, &item);
    assert_eq!(out, expected);
    let second = BatchItem { flag: -1, body: b"", properties: "" };
    write_batch_item(&mut out, &second);
    assert_eq!(batch_items(&out).collect::<Vec<_>>(), [Ok(item), Ok(second)]);
    assert_eq!(batch_items(&[]).count(), 0);
}

#[test]
fn damaged_batches_end_with_one_error() {
    let mut batch = Vec::new();
    for body in ["a", "bcd"] {
        write_batch_item(&mut batch, &BatchItem { flag: 1, body: body.as_bytes(), properties: "A\x01b" });
    }
    let first = 22 + 1 + 3;
    for cut in 1..batch.len() {
        let items: Vec<_> = batch_items(&batch[..cut]).collect();
        let good = usize::from(cut >= first);
        assert_eq!(items.iter().filter(|item| item.is_ok()).count(), good, "cut at {cut}");
        assert_eq!(items.len(), good + usize::from(cut != first), "cut at {cut}");
    }
    let check = |at: usize, word: &[u8], expected: BatchError| {
        let mut damaged = batch.clone();
        damaged[at..at + word.len()].copy_from_slice(word);
        assert_eq!(batch_items(&damaged).last(), Some(Err(expected)));
    };
    check(0, &[0xff; 4], BatchError::SizeMismatch { at: 0, size: -1, parts_bytes: 26 });
    check(16, &[0xff; 4], BatchError::LengthOutOfBounds { at: 0, length: -1 });
    check(16, &i32::MAX.to_be_bytes(), BatchError::LengthOutOfBounds { at: 0, length: i32::MAX });
    check(first + 20 + 3, &[0x7f, 0xff], BatchError::LengthOutOfBounds { at: first, length: 32_767 });
    check(23, &[0xff], BatchError::PropertiesNotUtf8 { at: 0 });
}
