//! A broker and name server in one, on a port of its own: keeps messages in memory, answers when its script says.
//! Single-threaded; ends when dropped.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use protocol::code::{request, response};
use protocol::header::admin::CreateTopicRequest;
use protocol::header::offset::QueueOffsetRequest;
use protocol::header::pull::{PullRequest, PullResponse};
use protocol::header::send::SendRequest;
use protocol::{Command, Session, write_response};

/// How sends are answered.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Every answer is held this long after its request has arrived.
    pub delay: Duration,
    /// From this time after the first send on, for as long as the second says, nothing is answered.
    pub stall: Option<(Duration, Duration)>,
    /// Every n-th send is refused with this code.
    pub refuse: Option<(u64, i32)>,
    /// Messages with this position in their queue are acknowledged and not stored.
    pub forget: Option<i64>,
    /// How long the load waits for answers, when it is not the usual time.
    pub drain: Option<Duration>,
}

pub struct Scripted {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Scripted {
    pub fn start(script: Script) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let mut broker = Broker {
            address,
            script,
            topics: HashMap::new(),
            queues: HashMap::new(),
            first_send: None,
            sends: 0,
        };
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || broker.serve(&listener, &stopped));
        Scripted { address, stop, thread: Some(thread) }
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

struct Connection {
    stream: TcpStream,
    session: Session,
    /// Answers and when they may leave.
    held: Vec<(Instant, Vec<u8>)>,
    out: Vec<u8>,
    open: bool,
}

struct Broker {
    address: SocketAddr,
    script: Script,
    topics: HashMap<String, i32>,
    queues: HashMap<(String, i32), Vec<Vec<u8>>>,
    first_send: Option<Instant>,
    sends: u64,
}

impl Broker {
    fn serve(&mut self, listener: &TcpListener, stop: &AtomicBool) {
        let mut connections: Vec<Connection> = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let mut idle = true;
            while let Ok((stream, _)) = listener.accept() {
                stream.set_nonblocking(true).unwrap();
                stream.set_nodelay(true).unwrap();
                let session = Session::new(1 << 24);
                connections.push(Connection {
                    stream,
                    session,
                    held: Vec::new(),
                    out: Vec::new(),
                    open: true,
                });
            }
            for connection in &mut connections {
                idle &= !self.turn(connection);
            }
            connections.retain(|connection| connection.open);
            if idle {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }

    fn turn(&mut self, connection: &mut Connection) -> bool {
        let mut busy = false;
        let room = connection.session.receive_room(1 << 16);
        match connection.stream.read(room) {
            Ok(0) => connection.open = false,
            Ok(len) => {
                connection.session.on_received(len);
                busy = true;
            }
            Err(e) => connection.open = e.kind() == ErrorKind::WouldBlock,
        }
        while let Some(command) = connection.session.poll_command().unwrap() {
            let answer = self.answer(&command);
            let is_send = command.code == request::SEND_MESSAGE_V2;
            let at = Instant::now() + if is_send { self.script.delay } else { Duration::ZERO };
            connection.held.push((at, answer));
        }
        let now = Instant::now();
        if !self.is_stalled(now) {
            let ready = connection.held.iter().take_while(|(at, _)| *at <= now).count();
            for (_, answer) in connection.held.drain(..ready) {
                connection.out.extend_from_slice(&answer);
            }
        }
        if !connection.out.is_empty() {
            match connection.stream.write(&connection.out) {
                Ok(written) => drop(connection.out.drain(..written)),
                Err(e) => connection.open &= e.kind() == ErrorKind::WouldBlock,
            }
            busy = true;
        }
        busy
    }

    fn is_stalled(&self, now: Instant) -> bool {
        let (Some((after, length)), Some(first)) = (self.script.stall, self.first_send) else { return false };
        (after..after + length).contains(&now.duration_since(first))
    }

    fn answer(&mut self, command: &Command<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        let (kind, opaque) = (command.serialization, command.opaque);
        match command.code {
            request::SEND_MESSAGE_V2 => self.send(command, &mut out),
            request::PULL_MESSAGE => self.pull(command, &mut out),
            request::GET_MAX_OFFSET | request::GET_MIN_OFFSET => {
                let asked = QueueOffsetRequest::decode(command.fields).unwrap();
                let len = self.queues.get(&(asked.topic.to_owned(), asked.queue_id)).map_or(0, Vec::len);
                let offset = if command.code == request::GET_MAX_OFFSET { len } else { 0 };
                write_response(&mut out, kind, 0, opaque).field_int("offset", offset as i64).finish();
            }
            request::UPDATE_AND_CREATE_TOPIC => {
                let create = CreateTopicRequest::decode(command.fields).unwrap();
                self.topics.insert(create.topic.to_owned(), create.write_queue_nums);
                write_response(&mut out, kind, 0, opaque).finish();
            }
            request::GET_BROKER_CLUSTER_INFO => {
                let body = format!(
                    r#"{{"brokerAddrTable":{{"broker-a":{{"brokerAddrs":{{0:"{}"}},"brokerName":"broker-a","cluster":"C"}}}},"clusterAddrTable":{{"C":["broker-a"]}}}}"#,
                    self.address
                );
                write_response(&mut out, kind, 0, opaque).finish_with_body(body.as_bytes());
            }
            request::GET_ROUTEINFO_BY_TOPIC => {
                let topic = command.fields.get("topic").unwrap();
                match self.topics.get(topic) {
                    Some(queues) => {
                        let body = format!(
                            r#"{{"brokerDatas":[{{"brokerAddrs":{{"0":"{}"}},"brokerName":"broker-a","cluster":"C"}}],"filterServerTable":{{}},"queueDatas":[{{"brokerName":"broker-a","perm":6,"readQueueNums":{queues},"topicSysFlag":0,"writeQueueNums":{queues}}}]}}"#,
                            self.address
                        );
                        write_response(&mut out, kind, 0, opaque).finish_with_body(body.as_bytes());
                    }
                    None => write_response(&mut out, kind, response::TOPIC_NOT_EXIST, opaque).finish(),
                }
            }
            request::GET_BROKER_RUNTIME_INFO => {
                write_response(&mut out, kind, 0, opaque)
                    .finish_with_body(br#"{"table":{"bootTimestamp":"1"}}"#);
            }
            code => {
                write_response(&mut out, kind, response::REQUEST_CODE_NOT_SUPPORTED, opaque)
                    .remark(&format!(" request type {code} not supported"))
                    .finish();
            }
        }
        out
    }

    fn send(&mut self, command: &Command<'_>, out: &mut Vec<u8>) {
        let request = SendRequest::decode(command.code, command.fields).unwrap();
        self.first_send.get_or_insert_with(Instant::now);
        self.sends += 1;
        if let Some((every, code)) = self.script.refuse
            && self.sends.is_multiple_of(every)
        {
            write_response(out, command.serialization, code, command.opaque)
                .remark("as the script says")
                .finish();
            return;
        }
        let queue = self.queues.entry((request.topic.to_owned(), request.queue_id)).or_default();
        let offset = queue.len() as i64;
        if self.script.forget != Some(offset) {
            queue.push(stored(&request, offset, command.body));
        } else {
            self.script.forget = None;
        }
        write_response(out, command.serialization, 0, command.opaque)
            .field("msgId", "7F00000100002A9F0000000000000000")
            .field_int("queueId", request.queue_id.into())
            .field_int("queueOffset", offset)
            .finish();
    }

    fn pull(&self, command: &Command<'_>, out: &mut Vec<u8>) {
        let pull = PullRequest::decode(command.fields).unwrap();
        let empty = Vec::new();
        let queue = self.queues.get(&(pull.topic.to_owned(), pull.queue_id)).unwrap_or(&empty);
        let start = (pull.queue_offset as usize).min(queue.len());
        let end = (start + pull.max_msg_nums as usize).min(queue.len());
        let code = if start == end { response::PULL_NOT_FOUND } else { response::SUCCESS };
        let answer = PullResponse {
            suggest_which_broker_id: 0,
            next_begin_offset: end as i64,
            min_offset: 0,
            max_offset: queue.len() as i64,
        };
        let body: Vec<u8> = queue[start..end].concat();
        answer
            .encode(write_response(out, command.serialization, code, command.opaque))
            .finish_with_body(&body);
    }
}

/// A record in the form that pulls send (version 1, 4-byte addresses).
fn stored(request: &SendRequest<'_>, offset: i64, body: &[u8]) -> Vec<u8> {
    let (topic, properties) = (request.topic.as_bytes(), request.properties.as_bytes());
    let total = 91 + body.len() + topic.len() + properties.len();
    let mut out = Vec::with_capacity(total);
    let host = [127, 0, 0, 1, 0, 0, 0x2A, 0x9F];
    out.extend_from_slice(&(total as i32).to_be_bytes());
    out.extend_from_slice(&protocol::message::MAGIC_V1.to_be_bytes());
    out.extend_from_slice(&protocol::message::body_crc(body).to_be_bytes());
    out.extend_from_slice(&request.queue_id.to_be_bytes());
    out.extend_from_slice(&request.flag.to_be_bytes());
    out.extend_from_slice(&offset.to_be_bytes());
    out.extend_from_slice(&0i64.to_be_bytes());
    out.extend_from_slice(&request.sys_flag.to_be_bytes());
    out.extend_from_slice(&request.born_timestamp_ms.to_be_bytes());
    out.extend_from_slice(&host);
    out.extend_from_slice(&request.born_timestamp_ms.to_be_bytes());
    out.extend_from_slice(&host);
    out.extend_from_slice(&0i32.to_be_bytes());
    out.extend_from_slice(&0i64.to_be_bytes());
    out.extend_from_slice(&(body.len() as i32).to_be_bytes());
    out.extend_from_slice(body);
    out.push(topic.len() as u8);
    out.extend_from_slice(topic);
    out.extend_from_slice(&(properties.len() as i16).to_be_bytes());
    out.extend_from_slice(properties);
    assert_eq!(out.len(), total);
    out
}
