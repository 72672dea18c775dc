//! Control requests, one at a time over a blocking connection: routes, topics, counters, offsets, reading back. Every
//! refusal names the request, the server and its remark.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use protocol::body::{ClusterInfo, KvTable, TopicRouteData};
use protocol::code::{request, response};
use protocol::frame::FRAME_BYTES_MAX;
use protocol::header::admin::CreateTopicRequest;
use protocol::header::offset::{OffsetResponse, QueueOffsetRequest};
use protocol::header::pull::{PullRequest, PullResponse};
use protocol::{FieldTable, FrameWriter, Serialization, Session, write_request};

use super::{Broker, Lane, Topology};
use crate::error::{Error, Result};

/// A request may take this long.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a new topic may take to show up in the routes.
const ROUTE_TIMEOUT: Duration = Duration::from_secs(20);
const ROUTE_POLL: Duration = Duration::from_millis(50);

/// A connection for control requests.
pub struct Control {
    stream: TcpStream,
    session: Session,
    address: SocketAddr,
    opaque: i32,
    out: Vec<u8>,
}

/// An answer with code SUCCESS, or one that the caller said it handles.
struct Answer {
    code: i32,
    remark: String,
    fields: FieldTable,
    body: Vec<u8>,
}

/// What a pull brought.
pub struct Pulled {
    /// Stored messages, one after the other; empty when there are none at this offset.
    pub body: Vec<u8>,
    /// The offset to ask for next.
    pub next_offset: i64,
}

impl Control {
    /// Connects.
    pub fn connect(address: SocketAddr) -> Result<Control> {
        let wrong = |e: std::io::Error| Error::os(format!("cannot connect to {address}"), e);
        let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).map_err(wrong)?;
        stream.set_nodelay(true).map_err(wrong)?;
        stream.set_read_timeout(Some(CALL_TIMEOUT)).map_err(wrong)?;
        stream.set_write_timeout(Some(CALL_TIMEOUT)).map_err(wrong)?;
        Ok(Control { stream, session: Session::new(FRAME_BYTES_MAX), address, opaque: 0, out: Vec::new() })
    }

    /// Brokers that a name server knows, masters only, by name (code 106).
    pub fn brokers(&mut self) -> Result<Vec<Broker>> {
        let answer = self.call("list the brokers", request::GET_BROKER_CLUSTER_INFO, |w| w, &[])?;
        let cluster = ClusterInfo::from_json(&answer.body)
            .map_err(|e| Error::protocol(self.address, format!("the cluster's description: {e}")))?;
        let mut brokers = Vec::new();
        for (name, data) in &cluster.broker_addr_table {
            if let Some(address) = data.broker_addrs.get(&0) {
                brokers.push(Broker { name: name.clone(), address: self.parse_address(address)? });
            }
        }
        brokers.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(brokers)
    }

    /// Queues of a topic on brokers that can be written (code 105); `None` when the topic is unknown.
    fn route(&mut self, topic: &str) -> Result<Option<TopicRouteData>> {
        let header = |w: FrameWriter<'_>| w.field("topic", topic).finish();
        let answer = self.exchange(request::GET_ROUTEINFO_BY_TOPIC, header)?;
        match answer.code {
            response::SUCCESS => TopicRouteData::from_json(&answer.body)
                .map(Some)
                .map_err(|e| Error::protocol(self.address, format!("the route of {topic}: {e}"))),
            response::TOPIC_NOT_EXIST => Ok(None),
            _ => Err(self.refused(&format!("give the route of {topic}"), &answer)),
        }
    }

    fn parse_address(&self, text: &str) -> Result<SocketAddr> {
        resolve(text).map_err(|e| Error::protocol(self.address, format!("the broker address `{text}`: {e}")))
    }

    /// Creates a topic, or sets its queues (code 17).
    pub fn create_topic(&mut self, topic: &str, queues: u32) -> Result<()> {
        let queue_nums = i32::try_from(queues).expect("the plan bounds queues");
        let create = CreateTopicRequest {
            topic,
            default_topic: "TBW102",
            read_queue_nums: queue_nums,
            write_queue_nums: queue_nums,
            perm: 6,
            topic_filter_type: Some("SINGLE_TAG"),
            topic_sys_flag: 0,
            order: false,
            attributes: None,
            force: false,
        };
        let doing = format!("create the topic {topic}");
        let code = request::UPDATE_AND_CREATE_TOPIC;
        self.call_with(&doing, code, |w| create.encode(w).finish()).map(|_| ())
    }

    /// The server's counters (code 28).
    pub fn runtime_info(&mut self) -> Result<BTreeMap<String, String>> {
        let answer = self.call("give its counters", request::GET_BROKER_RUNTIME_INFO, |w| w, &[])?;
        let table = KvTable::from_json(&answer.body)
            .map_err(|e| Error::protocol(self.address, format!("its counters: {e}")))?;
        Ok(table.table)
    }

    /// The next offset to be written (code 30).
    pub fn max_offset(&mut self, lane: &Lane) -> Result<i64> {
        self.offset("the largest offset", request::GET_MAX_OFFSET, lane)
    }

    /// The first offset still there (code 31).
    pub fn min_offset(&mut self, lane: &Lane) -> Result<i64> {
        self.offset("the smallest offset", request::GET_MIN_OFFSET, lane)
    }

    fn offset(&mut self, what: &str, code: i32, lane: &Lane) -> Result<i64> {
        let header = QueueOffsetRequest { topic: &lane.topic, queue_id: lane.queue_id };
        let doing = format!("tell {what} of {} queue {}", lane.topic, lane.queue_id);
        let answer = self.call_with(&doing, code, |w| header.encode(w).finish())?;
        let offset = OffsetResponse::decode(&answer.fields)
            .map_err(|e| Error::protocol(self.address, e.to_string()))?;
        Ok(offset.offset)
    }

    /// Messages from an offset on, without waiting for any (code 11).
    pub fn pull(&mut self, lane: &Lane, queue_offset: i64) -> Result<Pulled> {
        let header = PullRequest {
            consumer_group: AUDIT_GROUP,
            topic: &lane.topic,
            queue_id: lane.queue_id,
            queue_offset,
            max_msg_nums: 32,
            sys_flag: protocol::header::pull::sys_flag::SUBSCRIPTION,
            commit_offset: 0,
            suspend_timeout_ms: 0,
            subscription: Some("*"),
            sub_version: 0,
            expression_type: Some("TAG"),
            max_msg_bytes: None,
        };
        let answer = self.exchange(request::PULL_MESSAGE, |w| header.encode(w).finish())?;
        let known = [
            response::SUCCESS,
            response::PULL_NOT_FOUND,
            response::PULL_RETRY_IMMEDIATELY,
            response::PULL_OFFSET_MOVED,
        ];
        if !known.contains(&answer.code) {
            return Err(self.refused(
                &format!("read {} queue {} at {queue_offset}", lane.topic, lane.queue_id),
                &answer,
            ));
        }
        let pulled =
            PullResponse::decode(&answer.fields).map_err(|e| Error::protocol(self.address, e.to_string()))?;
        let body = if answer.code == response::SUCCESS { answer.body } else { Vec::new() };
        Ok(Pulled { body, next_offset: pulled.next_begin_offset })
    }

    fn call(
        &mut self,
        doing: &str,
        code: i32,
        header: impl FnOnce(FrameWriter<'_>) -> FrameWriter<'_>,
        body: &[u8],
    ) -> Result<Answer> {
        self.call_with(doing, code, |w| header(w).finish_with_body(body))
    }

    fn call_with(&mut self, doing: &str, code: i32, write: impl FnOnce(FrameWriter<'_>)) -> Result<Answer> {
        let answer = self.exchange(code, write)?;
        if answer.code != response::SUCCESS {
            return Err(self.refused(doing, &answer));
        }
        Ok(answer)
    }

    fn refused(&self, request: &str, answer: &Answer) -> Error {
        Error::Refused {
            request: request.to_owned(),
            server: self.address.to_string(),
            code: answer.code,
            remark: answer.remark.clone(),
        }
    }

    fn exchange(&mut self, code: i32, write: impl FnOnce(FrameWriter<'_>)) -> Result<Answer> {
        self.opaque += 1;
        self.out.clear();
        write(write_request(&mut self.out, Serialization::Json, code, self.opaque, 0));
        let wrong = |address: SocketAddr| move |e| Error::os(format!("request {code} to {address}"), e);
        self.stream.write_all(&self.out).map_err(wrong(self.address))?;
        loop {
            while let Some(command) = self
                .session
                .poll_command()
                .map_err(|e| Error::protocol(self.address, format!("in answer to request {code}: {e}")))?
            {
                if command.is_response() && command.opaque == self.opaque {
                    return Ok(Answer {
                        code: command.code,
                        remark: command.remark.unwrap_or_default().to_owned(),
                        fields: command.fields.clone(),
                        body: command.body.to_vec(),
                    });
                }
            }
            let room = self.session.receive_room(64 * 1024);
            let len = self.stream.read(room).map_err(wrong(self.address))?;
            if len == 0 {
                return Err(wrong(self.address)(std::io::ErrorKind::UnexpectedEof.into()));
            }
            self.session.on_received(len);
        }
    }
}

/// The group that reads back; it commits nothing.
const AUDIT_GROUP: &str = "loadgen-audit";

/// `host:port` to an address; the first that the host has.
pub fn resolve(text: &str) -> std::result::Result<SocketAddr, String> {
    use std::net::ToSocketAddrs;
    let mut addresses = text.to_socket_addrs().map_err(|e| format!("{e}; write HOST:PORT"))?;
    addresses.next().ok_or_else(|| "the host has no address".to_owned())
}

/// Creates the topics on every broker that the name server knows, and waits until the routes show all of them.
pub fn prepare(namesrv: SocketAddr, topics: &[String], queues: u32) -> Result<Topology> {
    let mut control = Control::connect(namesrv)?;
    let brokers = control.brokers()?;
    if brokers.is_empty() {
        return Err(Error::Usage(format!(
            "the name server at {namesrv} knows no broker with a master; is one registered?"
        )));
    }
    for broker in &brokers {
        let mut admin = Control::connect(broker.address)?;
        for topic in topics {
            admin.create_topic(topic, queues)?;
        }
    }
    let mut topology = Topology { brokers, lanes: Vec::new() };
    for topic in topics {
        let lanes = wait_for_route(&mut control, &topology.brokers, topic, queues)?;
        topology.lanes.extend(lanes);
    }
    Ok(topology)
}

fn wait_for_route(control: &mut Control, brokers: &[Broker], topic: &str, queues: u32) -> Result<Vec<Lane>> {
    let started = Instant::now();
    loop {
        if let Some(route) = control.route(topic)? {
            let mut lanes = Vec::new();
            for data in &route.queue_datas {
                if let Some(broker) = brokers.iter().position(|broker| broker.name == data.broker_name) {
                    let queue_ids = 0..data.write_queue_nums.min(data.read_queue_nums);
                    lanes.extend(queue_ids.map(|queue_id| Lane {
                        topic: topic.to_owned(),
                        broker,
                        queue_id,
                    }));
                }
            }
            if lanes.len() == brokers.len() * queues as usize {
                return Ok(lanes);
            }
        }
        if started.elapsed() > ROUTE_TIMEOUT {
            return Err(Error::Server(format!(
                "the topic {topic} was created, but after {} s the name server at {} does not show its {queues} queues on all {} brokers",
                ROUTE_TIMEOUT.as_secs(),
                control.address,
                brokers.len()
            )));
        }
        std::thread::sleep(ROUTE_POLL);
    }
}
