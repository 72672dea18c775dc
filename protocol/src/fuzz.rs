//! What fuzzers and ordinary tests ask of every reader in this crate: it never panics, takes no more than it is given,
//! gives the same whatever pieces the bytes come in, and what it has read can be written and read again unchanged.
//! The targets under `fuzz/` call these functions; tests replay their corpus. Not part of the crate's interface.

use crate::body::register::RegisterBrokerBody;
use crate::body::{
    BodyError, ClusterInfo, ConsumerList, HeartbeatData, KvTable, TopicList, TopicRouteData, lenient,
};
use crate::header::admin::CreateTopicRequest;
use crate::header::group::UnregisterClientRequest;
use crate::header::offset::{QueryConsumerOffsetRequest, SearchOffsetRequest, UpdateConsumerOffsetRequest};
use crate::header::pull::{PullRequest, PullResponse};
use crate::header::register::{BrokerHeartbeatRequest, RegisterBrokerRequest};
use crate::header::send::{SendRequest, SendResponse};
use crate::message::{
    BatchItem, MAGIC_V2, StoredMessage, batch_items, offset_message_id, parse_offset_message_id,
    write_batch_item,
};
use crate::{Command, Error, FieldTable, Language, Serialization, Session, properties, write_request};

/// One target: panics when a property doesn't hold.
pub type Target = fn(&[u8]);

/// Every target by its name.
pub const TARGETS: [(&str, Target); 7] = [
    ("session", fuzz_session),
    ("stored_message", fuzz_stored_message),
    ("lenient_json", fuzz_lenient_json),
    ("register_body", fuzz_register_body),
    ("properties", fuzz_properties),
    ("batch", fuzz_batch),
    ("message_id", fuzz_message_id),
];

/// Longer streams are not tried.
const STREAM_BYTES_MAX: usize = 64 * 1024;
/// What is written again may be longer than what was read: escapes, names of languages.
const FRAME_BYTES_MAX: usize = 16 * STREAM_BYTES_MAX;

/// A stream: the first byte says in which pieces the rest arrives.
pub fn fuzz_session(data: &[u8]) {
    let Some((&piece, stream)) = data.split_first() else { return };
    if stream.len() > STREAM_BYTES_MAX {
        return;
    }
    let whole = commands(stream, stream.len().max(1));
    assert_eq!(commands(stream, usize::from(piece).max(1)), whole, "pieces of {piece}");
    for command in &whole.0 {
        read_typed_headers(&command.fields);
        let mut out = Vec::new();
        command.write(&mut out);
        let (again, refusal) = commands(&out, out.len());
        assert_eq!((&again[..], refusal), (std::slice::from_ref(command), None));
    }
}

/// Every typed header, whatever the code says: none may panic.
fn read_typed_headers(fields: &FieldTable) {
    let failures = [
        SendRequest::decode(0, fields).err(),
        SendResponse::decode(fields).err(),
        PullRequest::decode(fields).err(),
        PullResponse::decode(fields).err(),
        QueryConsumerOffsetRequest::decode(fields).err(),
        UpdateConsumerOffsetRequest::decode(fields).err(),
        SearchOffsetRequest::decode(fields).err(),
        UnregisterClientRequest::decode(fields).err(),
        CreateTopicRequest::decode(fields).err(),
        RegisterBrokerRequest::decode(fields).err(),
        BrokerHeartbeatRequest::decode(fields).err(),
    ];
    for failure in failures.into_iter().flatten() {
        assert!(!failure.field.is_empty());
    }
}

/// A command that outlives its session.
#[derive(Debug, PartialEq)]
struct Owned {
    code: i32,
    language: Language,
    version: i32,
    opaque: i32,
    flag: i32,
    remark: Option<String>,
    fields: FieldTable,
    body: Vec<u8>,
    serialization: Serialization,
}

impl Owned {
    fn of(command: Command<'_>) -> Owned {
        Owned {
            code: command.code,
            language: command.language,
            version: command.version,
            opaque: command.opaque,
            flag: command.flag,
            remark: command.remark.map(str::to_owned),
            fields: command.fields.clone(),
            body: command.body.to_vec(),
            serialization: command.serialization,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let writer = write_request(out, self.serialization, self.code, self.opaque, self.flag);
        let mut writer = writer.language(self.language).version(self.version);
        for (name, value) in self.fields.iter() {
            writer = writer.field(name, value);
        }
        if let Some(remark) = &self.remark {
            writer = writer.remark(remark);
        }
        writer.finish_with_body(&self.body);
    }
}

/// All commands of a stream that arrives in pieces, and how it ended.
fn commands(stream: &[u8], piece: usize) -> (Vec<Owned>, Option<Error>) {
    let mut commands = Vec::new();
    let mut session = Session::new(FRAME_BYTES_MAX);
    for bytes in stream.chunks(piece) {
        session.on_bytes(bytes);
        loop {
            match session.poll_command() {
                Ok(Some(command)) => commands.push(Owned::of(command)),
                Ok(None) => break,
                Err(refusal) => return (commands, Some(refusal)),
            }
        }
        assert!(session.buffered_len() <= stream.len());
    }
    (commands, None)
}

/// A record: what is read is every byte of it.
pub fn fuzz_stored_message(data: &[u8]) {
    let Ok((message, consumed)) = StoredMessage::decode(data) else { return };
    assert!(consumed <= data.len());
    let record = &data[..consumed];
    assert_eq!(StoredMessage::decode(record), Ok((message, consumed)));
    assert_eq!(written(&message), record);
    StoredMessage::decode(&record[..consumed - 1]).expect_err("a record cut short is refused");
    let _ = message.check_body_crc();
}

/// The record again, from its parts.
fn written(message: &StoredMessage<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [message.total_size, message.magic, message.body_crc, message.queue_id, message.flag] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    out.extend_from_slice(&message.queue_offset.to_be_bytes());
    out.extend_from_slice(&message.physical_offset.to_be_bytes());
    out.extend_from_slice(&message.sys_flag.to_be_bytes());
    for (timestamp, host) in
        [(message.born_timestamp_ms, message.born_host), (message.store_timestamp_ms, message.store_host)]
    {
        out.extend_from_slice(&timestamp.to_be_bytes());
        match host.ip {
            std::net::IpAddr::V4(ip) => out.extend_from_slice(&ip.octets()),
            std::net::IpAddr::V6(ip) => out.extend_from_slice(&ip.octets()),
        }
        out.extend_from_slice(&host.port.to_be_bytes());
    }
    out.extend_from_slice(&message.reconsume_times.to_be_bytes());
    out.extend_from_slice(&message.prepared_transaction_offset.to_be_bytes());
    out.extend_from_slice(&(message.body.len() as u32).to_be_bytes());
    out.extend_from_slice(message.body);
    if message.magic == MAGIC_V2 {
        out.push((message.topic.len() >> 8) as u8);
    }
    out.push((message.topic.len() & 0xff) as u8);
    out.extend_from_slice(message.topic.as_bytes());
    out.extend_from_slice(&(message.properties.len() as u16).to_be_bytes());
    out.extend_from_slice(message.properties.as_bytes());
    out
}

/// A JSON body: bent JSON becomes straight once and for all, straight JSON keeps its meaning, and typed bodies survive
/// being written.
pub fn fuzz_lenient_json(data: &[u8]) {
    let standard: Result<serde_json::Value, _> = serde_json::from_slice(data);
    match lenient::normalize(data) {
        Ok(text) => {
            assert_eq!(lenient::normalize(text.as_bytes()).as_ref(), Ok(&text));
            if let Ok(expected) = standard {
                assert_eq!(serde_json::from_str::<serde_json::Value>(&text).ok(), Some(expected));
            }
        }
        Err(BodyError::TooDeep { .. }) => {}
        Err(refusal) => assert!(standard.is_err(), "JSON that is standard was refused: {refusal}"),
    }
    stable(data, HeartbeatData::from_json, HeartbeatData::to_json);
    stable(data, TopicRouteData::from_json, |route| route.to_json(true));
    stable(data, TopicRouteData::from_json, |route| route.to_json(false));
    stable(data, ClusterInfo::from_json, ClusterInfo::to_json);
    stable(data, TopicList::from_json, TopicList::to_json);
    stable(data, ConsumerList::from_json, ConsumerList::to_json);
    stable(data, KvTable::from_json, KvTable::to_json);
}

/// What has been read reads the same after it was written.
fn stable<T: PartialEq + std::fmt::Debug>(
    data: &[u8],
    read: impl Fn(&[u8]) -> Result<T, BodyError>,
    write: impl Fn(&T) -> Vec<u8>,
) {
    if let Ok(value) = read(data) {
        assert_eq!(read(&write(&value)).as_ref(), Ok(&value));
    }
}

/// A registration: the first byte says its form and the sender's version.
pub fn fuzz_register_body(data: &[u8]) {
    let Some((&form, body)) = data.split_first() else { return };
    let version = match form >> 4 {
        0 => 36,
        1 => 407,
        _ => 479,
    };
    let decoded = match form & 3 {
        0 => RegisterBrokerBody::decode(body, false, version),
        1 => RegisterBrokerBody::decode(body, true, version),
        _ => RegisterBrokerBody::decode_inflated(body, version),
    };
    let Ok(mut decoded) = decoded else { return };
    let again = RegisterBrokerBody::decode(&decoded.encode_plain(), false, 479);
    assert_eq!(again.as_ref(), Ok(&decoded));
    let is_plain_name = |name: &String| !name.is_empty() && !name.contains(' ');
    if decoded.topic_config_table.keys().all(is_plain_name) {
        // The compressed form carries neither of these.
        decoded.mapping_data_version = Default::default();
        for topic in decoded.topic_config_table.values_mut() {
            (topic.order, topic.topic_sys_flag) = (false, 0);
        }
        let again = RegisterBrokerBody::decode(&decoded.encode_compressed(version), true, version);
        assert_eq!(again.as_ref(), Ok(&decoded));
    }
}

/// A properties string.
pub fn fuzz_properties(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let found: Vec<_> = properties::iter(text).collect();
    let mut out = String::new();
    for &(name, value) in &found {
        let last = found.iter().rev().find(|(other, _)| *other == name);
        assert_eq!(properties::get(text, name), last.map(|(_, value)| *value));
        assert!(!name.is_empty() && !value.is_empty());
        if value.contains(properties::NAME_VALUE_SEPARATOR) {
            return;
        }
        properties::write(&mut out, name, value);
    }
    assert_eq!(properties::iter(&out).collect::<Vec<_>>(), found);
    assert_eq!(properties::tags_code(&out), properties::tags_code(text));
}

/// The body of a batch.
pub fn fuzz_batch(data: &[u8]) {
    let mut written_bytes = Vec::new();
    let mut good: Vec<BatchItem<'_>> = Vec::new();
    let mut is_whole = true;
    for item in batch_items(data) {
        assert!(is_whole, "an item behind an error");
        match item {
            Ok(item) => {
                write_batch_item(&mut written_bytes, &item);
                good.push(item);
            }
            Err(_) => is_whole = false,
        }
    }
    assert!(written_bytes.len() <= data.len());
    assert_eq!(is_whole, written_bytes.len() == data.len());
    let again: Result<Vec<_>, _> = batch_items(&written_bytes).collect();
    assert_eq!(again.as_ref(), Ok(&good));
}

/// A message id as text.
pub fn fuzz_message_id(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(id) = parse_offset_message_id(text) else { return };
    if let Ok(port) = u16::try_from(id.port) {
        let written = offset_message_id(id.ip, port, id.physical_offset);
        assert_eq!(written.as_str(), text.to_ascii_uppercase());
    }
}
