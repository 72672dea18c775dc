//! The test vectors of the specification (remoting protocol, 7), byte for byte.

use protocol::header::offset::OffsetResponse;
use protocol::header::route::RouteRequest;
use protocol::header::send::{SendRequest, SendResponse};
use protocol::{FieldTable, Language, Serialization, write_request, write_response};

use crate::support::{Owned, decode_one, hex};

fn json_frame(prefix: &str, header: &str, body: &str) -> Vec<u8> {
    let mut frame = hex(prefix);
    frame.extend_from_slice(header.as_bytes());
    frame.extend_from_slice(body.as_bytes());
    frame
}

fn table(command: &Owned) -> FieldTable {
    let mut table = FieldTable::new();
    for (name, value) in &command.fields {
        table.push(name, value);
    }
    table
}

#[test]
fn route_request_in_json() {
    let expected = json_frame(
        "0000008700000083",
        r#"{"code":105,"extFields":{"topic":"TopicTest"},"flag":0,"language":"JAVA","opaque":1,"serializeTypeCurrentRPC":"JSON","version":479}"#,
        "",
    );
    let mut out = Vec::new();
    let header = RouteRequest { topic: "TopicTest", accept_standard_json_only: false };
    header.encode(write_request(&mut out, Serialization::Json, 105, 1, 0)).finish();
    assert_eq!(out, expected);
    let command = decode_one(&expected);
    assert_eq!((command.code, command.opaque, command.flag, command.version), (105, 1, 0, 479));
    assert_eq!(RouteRequest::decode(&table(&command)), Ok(header));
}

#[test]
fn offset_response_in_json() {
    let expected = json_frame(
        "0000007e0000007a",
        r#"{"code":0,"extFields":{"offset":"5"},"flag":1,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":479}"#,
        "",
    );
    let mut out = Vec::new();
    OffsetResponse { offset: 5 }.encode(write_response(&mut out, Serialization::Json, 0, 7)).finish();
    assert_eq!(out, expected);
    assert_eq!(OffsetResponse::decode(&table(&decode_one(&expected))), Ok(OffsetResponse { offset: 5 }));
}

#[test]
fn response_and_request_in_binary() {
    let response = hex("000000290100002400000001df00000007000000010000000268690000000d\
                        00066f6666736574000000013542");
    for remark_first in [true, false] {
        let mut out = Vec::new();
        let writer = write_response(&mut out, Serialization::RocketMq, 0, 7);
        let writer = if remark_first {
            writer.remark("hi").field_int("offset", 5)
        } else {
            writer.field("offset", "5").remark("hi")
        };
        writer.finish_with_body(b"B");
        assert_eq!(out, response);
    }
    let command = decode_one(&response);
    assert_eq!(command.remark.as_deref(), Some("hi"));
    assert_eq!(command.fields, [("offset".to_owned(), "5".to_owned())]);
    assert_eq!(command.body, b"B");
    assert_eq!(command.serialization, Serialization::RocketMq);

    let request = hex("0000002501000021000e0001df0000000300000000000000000000000c0005746f7069630000000154");
    let mut out = Vec::new();
    write_request(&mut out, Serialization::RocketMq, 14, 3, 0).field("topic", "T").finish();
    assert_eq!(out, request);
    let command = decode_one(&request);
    assert_eq!((command.code, command.opaque, command.remark), (14, 3, None));
}

#[test]
fn send_request_v2_in_json() {
    let expected = json_frame(
        "000001380000012f",
        r#"{"code":310,"extFields":{"a":"PG","b":"TopicTest","c":"TBW102","d":"4","e":"1","f":"0","g":"1700000000000","h":"0","i":"UNIQ_KEY\u0001ABC\u0002WAIT\u0001true\u0002TAGS\u0001TagA\u0002","j":"0","k":"false","m":"false"},"flag":0,"language":"JAVA","opaque":2,"serializeTypeCurrentRPC":"JSON","version":479}"#,
        "hello",
    );
    let header = SendRequest {
        producer_group: "PG",
        topic: "TopicTest",
        default_topic: "TBW102",
        default_topic_queue_nums: 4,
        queue_id: 1,
        sys_flag: 0,
        born_timestamp_ms: 1_700_000_000_000,
        flag: 0,
        properties: "UNIQ_KEY\x01ABC\x02WAIT\x01true\x02TAGS\x01TagA\x02",
        reconsume_times: 0,
        unit_mode: false,
        max_reconsume_times: None,
        batch: false,
    };
    let mut out = Vec::new();
    header.encode(write_request(&mut out, Serialization::Json, 310, 2, 0)).finish_with_body(b"hello");
    assert_eq!(out, expected);
    let command = decode_one(&expected);
    assert_eq!(command.body, b"hello");
    assert_eq!(SendRequest::decode(310, &table(&command)), Ok(header));
}

#[test]
fn send_response_fields_of_a_java_broker() {
    let header = r#"{"code":0,"extFields":{"queueId":"1","transactionId":"ABC","msgId":"0A00000100002A9F000000000000012C","TRACE_ON":"true","MSG_REGION":"DefaultRegion","queueOffset":"2"}}"#;
    let command = decode_one(&framed(header));
    let expected = SendResponse {
        msg_id: "0A00000100002A9F000000000000012C",
        queue_id: 1,
        queue_offset: 2,
        transaction_id: Some("ABC"),
    };
    assert_eq!(SendResponse::decode(&table(&command)), Ok(expected));
}

#[test]
fn send_request_of_cpp_with_bare_numbers_and_a_newline() {
    let header = concat!(
        r#"{"code":310,"extFields":{"AccessKey":"","OnsChannel":"","Signature":"","a":"PG","b":"T","c":"TBW102","d":4,"e":0,"f":0,"g":"1700000000000","h":0,"i":"","j":"0","k":"false","l":16,"m":"false"},"flag":0,"language":"CPP","opaque":1,"remark":"","version":333}"#,
        "\n"
    );
    let command = decode_one(&framed(header));
    assert_eq!(command.language, Language::CPP);
    assert_eq!(command.version, 333);
    assert_eq!(command.remark.as_deref(), Some(""));
    let fields = table(&command);
    let send = SendRequest::decode(310, &fields).unwrap();
    assert_eq!((send.topic, send.default_topic_queue_nums, send.max_reconsume_times), ("T", 4, Some(16)));
    assert!(!send.batch && !send.unit_mode);
    assert!(SendRequest::decode(320, &fields).unwrap().batch);
}

/// A JSON header without body as a frame.
pub fn framed(header: &str) -> Vec<u8> {
    let mut frame = (header.len() as i32 + 4).to_be_bytes().to_vec();
    frame.extend_from_slice(&(header.len() as i32).to_be_bytes());
    frame.extend_from_slice(header.as_bytes());
    frame
}
