//! The name server from the outside: requests in, answers out.

mod golden;
mod model;
mod rules;

use std::time::Duration;

use protocol::body::{DataVersion, RegisterBrokerBody, TopicConfig};
use protocol::frame::FRAME_BYTES_MAX;
use protocol::header::register::RegisterBrokerRequest;
use protocol::{Command, FrameWriter, Serialization, Session, VERSION, write_request};

use super::{ConnectionId, NameServer, NamesrvOptions};
use protocol::code::request;

/// An answer, taken apart.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Reply {
    code: i32,
    opaque: i32,
    remark: Option<String>,
    fields: Vec<(String, String)>,
    body: String,
}

impl Reply {
    fn of(command: &Command<'_>) -> Reply {
        let mut fields: Vec<(String, String)> =
            command.fields.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        fields.sort_unstable();
        Reply {
            code: command.code,
            opaque: command.opaque,
            remark: command.remark.map(str::to_owned),
            fields,
            body: String::from_utf8(command.body.to_vec()).unwrap(),
        }
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Gives one frame to the server and takes its answer apart; `None` when it gave none.
fn exchange(server: &mut NameServer, connection: u64, now: Duration, frame: &[u8]) -> Option<Reply> {
    let mut inbound = Session::new(FRAME_BYTES_MAX);
    inbound.on_bytes(frame);
    let command = inbound.poll_command().unwrap().expect("a whole frame");
    let serialization = command.serialization;
    let mut answer = Vec::new();
    server.on_command(ConnectionId(connection), &command, now, &mut answer);
    if answer.is_empty() {
        return None;
    }
    let mut outbound = Session::new(FRAME_BYTES_MAX);
    outbound.on_bytes(&answer);
    let command = outbound.poll_command().unwrap().expect("a whole answer");
    assert!(command.is_response() && command.version == VERSION);
    assert_eq!(command.serialization, serialization, "answered as asked");
    let reply = Reply::of(&command);
    assert_eq!(outbound.buffered_len(), 0, "exactly one frame");
    Some(reply)
}

/// A server and a clock, and requests to it in few words.
struct Fixture {
    server: NameServer,
    now: Duration,
}

/// A broker's registration in few words.
#[derive(Clone)]
struct Broker {
    cluster: &'static str,
    name: &'static str,
    id: i64,
    address: &'static str,
    connection: u64,
    enable_acting_master: Option<bool>,
    timeout_ms: Option<i64>,
    version: DataVersion,
}

const MASTER: Broker = Broker {
    cluster: "DefaultCluster",
    name: "broker-a",
    id: 0,
    address: "10.0.0.1:10911",
    connection: 1,
    enable_acting_master: None,
    timeout_ms: None,
    version: DataVersion { counter: 1, state_version: 0, timestamp: 1 },
};

const SLAVE: Broker = Broker { id: 1, address: "10.0.0.2:10911", connection: 2, ..MASTER };

impl Fixture {
    fn new() -> Fixture {
        Fixture::with(NamesrvOptions::default())
    }

    fn with(options: NamesrvOptions) -> Fixture {
        Fixture { server: NameServer::new(options), now: Duration::ZERO }
    }

    /// Asks with these fields and body, as version `version`.
    fn ask_as(&mut self, version: i32, code: i32, fields: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut frame = Vec::new();
        let mut writer: FrameWriter<'_> =
            write_request(&mut frame, Serialization::Json, code, 77, 0).version(version);
        for (name, value) in fields {
            writer = writer.field(name, value);
        }
        writer.finish_with_body(body);
        let reply = exchange(&mut self.server, 99, self.now, &frame).expect("an answer");
        assert_eq!(reply.opaque, 77);
        reply
    }

    fn ask(&mut self, code: i32, fields: &[(&str, &str)]) -> Reply {
        self.ask_as(VERSION, code, fields, b"")
    }

    fn register(&mut self, broker: &Broker, topics: &[TopicConfig]) -> Reply {
        let body = RegisterBrokerBody {
            data_version: broker.version,
            topic_config_table: topics.iter().map(|t| (t.topic_name.clone(), t.clone())).collect(),
            ..RegisterBrokerBody::default()
        };
        let bytes = body.encode_plain();
        let header = RegisterBrokerRequest {
            broker_name: broker.name,
            broker_addr: broker.address,
            cluster_name: broker.cluster,
            ha_server_addr: "10.0.0.9:10912",
            broker_id: broker.id,
            heartbeat_timeout_ms: broker.timeout_ms,
            enable_acting_master: broker.enable_acting_master,
            compressed: false,
            body_crc32: protocol::message::body_crc(&bytes),
        };
        let mut frame = Vec::new();
        let writer = write_request(&mut frame, Serialization::Json, request::REGISTER_BROKER, 5, 0);
        header.encode(writer).finish_with_body(&bytes);
        exchange(&mut self.server, broker.connection, self.now, &frame).expect("an answer")
    }

    fn route(&mut self, topic: &str) -> Reply {
        self.ask(request::GET_ROUTEINFO_BY_TOPIC, &[("topic", topic)])
    }

    fn topics(&mut self) -> String {
        self.ask(request::GET_ALL_TOPIC_LIST_FROM_NAMESERVER, &[]).body
    }
}

/// Topics with four queues.
fn topics(names: &[&str]) -> Vec<TopicConfig> {
    names.iter().map(|name| TopicConfig::new(*name, 4)).collect()
}
