//! Frames that Apache RocketMQ and other clients sent, from the shared captures (one JSON line each). Every one is read,
//! compared with what the capture says of it, and taken apart as far as this crate has types for it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use protocol::body::{ClusterInfo, ConsumerList, HeartbeatData, RegisterBrokerBody, TopicRouteData};
use protocol::code::{request, response};
use protocol::frame::FRAME_BYTES_MAX;
use protocol::header::admin::CreateTopicRequest;
use protocol::header::group::{ConsumerGroupRequest, HeartbeatResponse, UnregisterClientRequest};
use protocol::header::offset::{
    OffsetResponse, QueryConsumerOffsetRequest, QueueOffsetRequest, SearchOffsetRequest,
    UpdateConsumerOffsetRequest,
};
use protocol::header::pull::{PullRequest, PullResponse};
use protocol::header::register::{BrokerIdentityRequest, RegisterBrokerRequest, RegisterBrokerResponse};
use protocol::header::route::RouteRequest;
use protocol::header::send::{SendRequest, SendResponse};
use protocol::message::{batch_items, body_crc, parse_offset_message_id, stored_messages};
use protocol::{Command, FieldTable, Language, Serialization, Session, write_request};
use serde_json::Value;

use crate::support::{Owned, decode_one, drain, hex};

const FILES: [&str; 7] = [
    "broker-4.9.7-register.jsonl",
    "java-4.9.7-json.jsonl",
    "java-4.9.7-rocketmq.jsonl",
    "java-5.3.3-json-broker-4.9.7.jsonl",
    "java-5.3.3-json-broker-5.1.4.jsonl",
    "java-5.3.3-rocketmq-broker-5.1.4.jsonl",
    "other-clients.jsonl",
];

/// One captured frame and what the capture says of it.
struct Captured {
    at: String,
    line: Value,
    frame: Vec<u8>,
}

impl Captured {
    fn is_response(&self) -> bool {
        self.line["kind"] == "response"
    }

    fn request_code(&self) -> i32 {
        self.line["requestCode"].as_i64().unwrap() as i32
    }
}

fn captures(file: &str) -> Vec<Captured> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/golden/frames"));
    let text = std::fs::read_to_string(folder.join(file))
        .expect("the shared golden frames are beside the repository");
    let captured = |(number, line): (usize, &str)| {
        let line: Value = serde_json::from_str(line).unwrap();
        let frame = hex(line["hex"].as_str().unwrap());
        Captured { at: format!("{file}:{}", number + 1), line, frame }
    };
    text.lines().enumerate().map(captured).collect()
}

fn all() -> Vec<Captured> {
    FILES.iter().flat_map(|file| captures(file)).collect()
}

/// Runs `check` on every frame as a session reads it.
fn for_each(mut check: impl FnMut(&Captured, Command<'_>)) {
    for captured in all() {
        let mut session = Session::new(FRAME_BYTES_MAX);
        session.on_bytes(&captured.frame);
        let command = session.poll_command().unwrap_or_else(|error| panic!("{}: {error}", captured.at));
        check(&captured, command.expect("a capture is a whole frame"));
        assert_eq!(session.buffered_len(), 0, "{}", captured.at);
    }
}

/// The text that an ext field stands for: scalars as they are written, `null` not at all.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

#[test]
fn golden_headers_are_what_the_captures_say() {
    let mut count = 0;
    for_each(|captured, command| {
        let (at, header) = (&captured.at, &captured.line["header"]);
        let number = |name: &str| header[name].as_i64().unwrap() as i32;
        assert_eq!(command.code, number("code"), "{at}");
        assert_eq!(command.flag, number("flag"), "{at}");
        assert_eq!(command.opaque, number("opaque"), "{at}");
        assert_eq!(command.version, number("version"), "{at}");
        let language = match &header["language"] {
            Value::String(name) => Language::from_name(name),
            number => Language::from_number(number.as_i64().unwrap()),
        };
        assert_eq!(command.language, language, "{at}");
        assert_eq!(command.remark, header["remark"].as_str(), "{at}");
        let is_json = captured.line["serialize"] == "JSON";
        assert_eq!(command.serialization == Serialization::Json, is_json, "{at}");
        assert_eq!(command.body.len() as u64, captured.line["bodyLength"].as_u64().unwrap(), "{at}");
        assert_eq!(command.is_response(), captured.is_response(), "{at}");
        assert_eq!(command.is_oneway(), captured.line["kind"] == "oneway request", "{at}");
        let expected: BTreeMap<String, String> = header["extFields"]
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| Some((name.clone(), text_of(value)?)))
            .collect();
        let found = command.fields.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        assert_eq!(expected, found, "{at}");
        assert_eq!(command.fields.len(), expected.len(), "{at}");
        count += 1;
    });
    assert_eq!(count, 793);
}

#[test]
fn golden_frames_written_again_read_the_same() {
    for_each(|captured, command| {
        for serialization in [Serialization::Json, Serialization::RocketMq] {
            let mut out = Vec::new();
            let mut writer =
                write_request(&mut out, serialization, command.code, command.opaque, command.flag)
                    .language(command.language)
                    .version(command.version);
            for (name, value) in command.fields.iter() {
                writer = writer.field(name, value);
            }
            if let Some(remark) = command.remark {
                writer = writer.remark(remark);
            }
            writer.finish_with_body(command.body);
            let mut expected = Owned::from(command);
            expected.serialization = serialization;
            if serialization == Serialization::RocketMq {
                // An empty remark can't be told from none there.
                expected.remark = expected.remark.filter(|remark| !remark.is_empty());
            }
            assert_eq!(decode_one(&out), expected, "{}", captured.at);
        }
    });
}

#[test]
fn golden_frames_cut_at_every_byte_give_the_same_command() {
    let mut session = Session::new(FRAME_BYTES_MAX);
    for captured in all() {
        let whole = decode_one(&captured.frame);
        for cut in 1..captured.frame.len() {
            let (head, tail) = captured.frame.split_at(cut);
            session.on_bytes(head);
            assert_eq!(session.poll_command(), Ok(None), "{} cut at {cut}", captured.at);
            session.on_bytes(tail);
            assert_eq!(
                drain(&mut session).as_deref(),
                Ok(std::slice::from_ref(&whole)),
                "{} cut at {cut}",
                captured.at
            );
        }
    }
}

#[test]
fn golden_streams_in_pieces_of_every_size_give_the_same_commands() {
    for file in FILES {
        let stream: Vec<u8> = captures(file).into_iter().flat_map(|captured| captured.frame).collect();
        let whole = crate::support::decode_all(&stream);
        for size in [1, 2, 3, 5, 7, 8, 9, 64, 1000, 1460, 65_536] {
            let mut session = Session::new(FRAME_BYTES_MAX);
            let mut commands = Vec::new();
            for piece in stream.chunks(size) {
                session.on_bytes(piece);
                commands.extend(drain(&mut session).unwrap());
            }
            assert_eq!(commands, whole, "{file} in pieces of {size}");
        }
    }
}

#[test]
fn golden_typed_request_headers_are_read_and_written_again() {
    let mut codes = BTreeMap::new();
    for_each(|captured, command| {
        if !command.is_response() && request_round_trip(&captured.at, command) {
            *codes.entry(command.code).or_insert(0) += 1;
        }
    });
    let expected = [10, 11, 14, 15, 17, 29, 30, 31, 35, 38, 40, 103, 104, 105, 310, 320, 324, 325, 361];
    assert_eq!(codes.keys().copied().collect::<Vec<_>>(), expected);
}

/// Reads the typed header of a request, writes it, and reads that. False when this crate has no type for the code.
fn request_round_trip(at: &str, command: Command<'_>) -> bool {
    let fields = command.fields;
    let mut out = Vec::new();
    macro_rules! round_trip {
        ($decode:expr) => {{
            let header = $decode(fields).unwrap_or_else(|error| panic!("{at}: {error}"));
            header.encode(write_request(&mut out, command.serialization, command.code, 1, 0)).finish();
            let mut session = Session::new(FRAME_BYTES_MAX);
            session.on_bytes(&out);
            let again = session.poll_command().unwrap().unwrap();
            assert_eq!($decode(again.fields), Ok(header), "{at}");
        }};
    }
    match command.code {
        request::SEND_MESSAGE
        | request::SEND_MESSAGE_V2
        | request::SEND_BATCH_MESSAGE
        | request::SEND_REPLY_MESSAGE
        | request::SEND_REPLY_MESSAGE_V2 => {
            round_trip!(|fields| SendRequest::decode(command.code, fields));
        }
        request::PULL_MESSAGE | request::LITE_PULL_MESSAGE => round_trip!(PullRequest::decode),
        request::QUERY_CONSUMER_OFFSET => round_trip!(QueryConsumerOffsetRequest::decode),
        request::UPDATE_CONSUMER_OFFSET => round_trip!(UpdateConsumerOffsetRequest::decode),
        request::UPDATE_AND_CREATE_TOPIC => round_trip!(CreateTopicRequest::decode),
        request::SEARCH_OFFSET_BY_TIMESTAMP => round_trip!(SearchOffsetRequest::decode),
        request::GET_MAX_OFFSET | request::GET_MIN_OFFSET => round_trip!(QueueOffsetRequest::decode),
        request::UNREGISTER_CLIENT => round_trip!(UnregisterClientRequest::decode),
        request::GET_CONSUMER_LIST_BY_GROUP | request::NOTIFY_CONSUMER_IDS_CHANGED => {
            round_trip!(ConsumerGroupRequest::decode);
        }
        request::REGISTER_BROKER => round_trip!(RegisterBrokerRequest::decode),
        request::UNREGISTER_BROKER => round_trip!(BrokerIdentityRequest::decode),
        request::GET_ROUTEINFO_BY_TOPIC => round_trip!(RouteRequest::decode),
        _ => return false,
    }
    true
}

#[test]
fn golden_typed_response_headers_are_read() {
    let mut codes = BTreeMap::new();
    for_each(|captured, command| {
        let code = captured.request_code();
        if command.is_response() && response_header(&captured.at, code, command) {
            *codes.entry(code).or_insert(0) += 1;
        }
    });
    let expected = [10, 11, 14, 29, 30, 31, 34, 103, 310, 320, 325, 361];
    assert_eq!(codes.keys().copied().collect::<Vec<_>>(), expected);
}

fn response_header(at: &str, request_code: i32, command: Command<'_>) -> bool {
    let fields: &FieldTable = command.fields;
    match request_code {
        10 | 310 | 320 | 324 | 325 if command.code == response::SUCCESS => {
            let sent = SendResponse::decode(fields).unwrap_or_else(|error| panic!("{at}: {error}"));
            for id in sent.msg_id.split(',') {
                parse_offset_message_id(id).unwrap_or_else(|error| panic!("{at}: {error}"));
            }
        }
        11 | 361 if (command.code == 0 || (19..=21).contains(&command.code)) && !fields.is_empty() => {
            let pull = PullResponse::decode(fields).unwrap_or_else(|error| panic!("{at}: {error}"));
            assert!(pull.min_offset <= pull.max_offset, "{at}");
        }
        14 | 29 | 30 | 31 if command.code == response::SUCCESS => {
            OffsetResponse::decode(fields).unwrap_or_else(|error| panic!("{at}: {error}"));
        }
        34 => drop(HeartbeatResponse::decode(fields)),
        103 if command.code == response::SUCCESS => drop(RegisterBrokerResponse::decode(fields)),
        _ => return false,
    }
    true
}

#[test]
fn golden_bodies_are_read_and_routes_written_byte_for_byte() {
    let mut codes = BTreeMap::new();
    for_each(|captured, command| {
        if !command.body.is_empty() && body_round_trip(captured, command) {
            *codes.entry((captured.request_code(), command.is_response())).or_insert(0) += 1;
        }
    });
    let expected = [(34, false), (38, true), (103, false), (105, true), (106, true), (320, false)];
    assert_eq!(codes.keys().copied().collect::<Vec<_>>(), expected);
}

fn body_round_trip(captured: &Captured, command: Command<'_>) -> bool {
    let (at, body) = (&captured.at, command.body);
    match (captured.request_code(), command.is_response()) {
        (34, false) => {
            let heartbeat = HeartbeatData::from_json(body).unwrap_or_else(|error| panic!("{at}: {error}"));
            assert!(!heartbeat.client_id.is_empty(), "{at}");
            let groups = heartbeat.consumer_data.len() + heartbeat.producer_data.len();
            assert!(groups > 0, "{at}");
            assert_eq!(HeartbeatData::from_json(&heartbeat.to_json()), Ok(heartbeat), "{at}");
        }
        (38, true) => {
            let list = ConsumerList::from_json(body).unwrap();
            assert_eq!(list.to_json(), body, "{at}");
        }
        (103, false) => registration(at, command),
        (105, true) => route(at, body),
        (106, true) => {
            let info = ClusterInfo::from_json(body).unwrap();
            assert!(!info.broker_addr_table.is_empty() && !info.cluster_addr_table.is_empty(), "{at}");
            assert_eq!(ClusterInfo::from_json(&info.to_json()), Ok(info), "{at}");
        }
        (320, false) => {
            let items: Vec<_> = batch_items(body).map(|item| item.unwrap()).collect();
            assert!(!items.is_empty(), "{at}");
        }
        _ => return false,
    }
    true
}

fn registration(at: &str, command: Command<'_>) {
    let header = RegisterBrokerRequest::decode(command.fields).unwrap();
    if header.body_crc32 != 0 {
        assert_eq!(body_crc(command.body), header.body_crc32, "{at}");
    }
    let body = RegisterBrokerBody::decode(command.body, header.compressed, command.version).unwrap();
    assert!(!body.topic_config_table.is_empty(), "{at}");
    let version = command.version;
    let mut again = vec![(body.encode_plain(), false, version), (body.encode_plain_before_37(), false, 36)];
    if header.compressed {
        again.push((body.encode_compressed(version), true, version));
    }
    for (bytes, compressed, version) in again {
        assert_eq!(RegisterBrokerBody::decode(&bytes, compressed, version).as_ref(), Ok(&body), "{at}");
    }
}

/// Brokers before 5.0 don't have `enableActingMaster`; all else is byte for byte.
fn route(at: &str, body: &[u8]) {
    let route = TopicRouteData::from_json(body).unwrap_or_else(|error| panic!("{at}: {error}"));
    let text = std::str::from_utf8(body).unwrap();
    let standard = text.contains("{\"0\":");
    let written = String::from_utf8(route.to_json(standard)).unwrap();
    let without = written.replace(",\"enableActingMaster\":false", "");
    assert!(text == written || text == without, "{at}:\n{text}\n{written}");
    assert_eq!(TopicRouteData::from_json(&route.to_json(!standard)), Ok(route), "{at}");
}

#[test]
fn golden_pulled_messages_are_whole_records() {
    let (mut frames, mut records) = (0, 0);
    for_each(|captured, command| {
        let carries_records = command.is_response() && command.code == response::SUCCESS;
        if !carries_records
            || ![11, 12, 33, 361].contains(&captured.request_code())
            || command.body.is_empty()
        {
            return;
        }
        frames += 1;
        for message in stored_messages(command.body) {
            let message = message.unwrap_or_else(|error| panic!("{}: {error}", captured.at));
            assert_eq!(message.check_body_crc(), Ok(()), "{}", captured.at);
            assert!(!message.topic.is_empty(), "{}", captured.at);
            records += 1;
        }
    });
    assert!(frames > 30 && records > frames, "{frames} frames with {records} records");
}

#[test]
fn golden_name_servers_choose_the_route_encoding_as_we_do() {
    let (mut standard, mut legacy) = (0, 0);
    for file in FILES {
        let captured = captures(file);
        for (number, answer) in captured.iter().enumerate() {
            let is_route = answer.is_response() && answer.request_code() == request::GET_ROUTEINFO_BY_TOPIC;
            if !is_route || answer.line["responseCode"] != 0 {
                continue;
            }
            let opaque = &answer.line["header"]["opaque"];
            let asks = |frame: &&Captured| {
                frame.request_code() == request::GET_ROUTEINFO_BY_TOPIC
                    && !frame.is_response()
                    && frame.line["client"] == answer.line["client"]
                    && frame.line["header"]["opaque"] == *opaque
            };
            let Some(question) = captured[..number].iter().rev().find(asks) else { continue };
            let command = decode_one(&question.frame);
            let mut fields = FieldTable::new();
            for (name, value) in &command.fields {
                fields.push(name, value);
            }
            let wanted = RouteRequest::decode(&fields).unwrap().wants_standard_json(command.version);
            let body = decode_one(&answer.frame).body;
            assert_eq!(String::from_utf8(body).unwrap().contains("{\"0\":"), wanted, "{}", answer.at);
            if wanted { standard += 1 } else { legacy += 1 }
        }
    }
    assert!(standard >= 5 && legacy >= 2, "{standard} standard, {legacy} legacy");
}
