//! The broker's side of registering: what one broker tells one name server, and when.
//!
//! A plain state machine per pair of broker and name server; whoever holds the socket feeds it. In this order: connect
//! and say [`Registration::on_connected`]; whenever [`Registration::poll_deadline`] has passed, something changed or an
//! answer came, call [`Registration::poll_request`] and send what it wrote; give answers to
//! [`Registration::on_command`]; say [`Registration::on_disconnected`] when the connection is gone, or close it when
//! [`Registration::is_overdue`] says so, and connect again at [`Registration::connect_at`].
//!
//! ```text
//!             on_connected            poll_request: all topics         success
//!   Away ────────────────────▶ Connected ───────────────▶ asking ──────────────▶ Registered
//!    ▲                            ▲                          │ refused             │  every period: all topics
//!    │ on_disconnected            └── after a pause ─────────┘                     │  on_topic_changed: that topic,
//!    └──────────────────────────── from every state ◀─────────────────────────────┘  at once
//! ```
//!
//! The first registration on a connection names all topics, and there are always several of them: name servers refuse a
//! single topic from a broker they don't know. At most one request is under way; what changes meanwhile follows it.

use std::collections::BTreeSet;
use std::time::Duration;

use protocol::body::{DataVersion, RegisterBrokerBody};
use protocol::code::{request, response};
use protocol::header::register::{BrokerIdentityRequest, RegisterBrokerRequest};
use protocol::{Command, Serialization, VERSION, write_request};

use crate::topic::TopicTable;

/// Which broker registers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// `brokerClusterName`.
    pub cluster_name: String,
    /// The shard's broker name.
    pub broker_name: String,
    /// `ip:port` that clients are told.
    pub broker_addr: String,
    /// `ip:port` that slaves are told.
    pub ha_server_addr: String,
    /// 0, a master.
    pub broker_id: i64,
}

/// How often, and how long to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// `registerNameServerPeriod`.
    pub period: Duration,
    /// `registerBrokerTimeoutMills`.
    pub timeout: Duration,
}

/// What an answer meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The name server has what was sent. `first` on this connection: from now on clients find the broker there.
    Registered {
        /// Whether it is the first success since the connection was made.
        first: bool,
    },
    /// It doesn't want the broker; the next try is after a pause.
    Refused {
        /// The response code.
        code: i32,
        /// Why.
        remark: String,
    },
    /// It has forgotten the broker, as asked.
    Unregistered,
    /// Not an answer to anything under way.
    NotOurs,
}

/// One broker's registration with one name server.
#[derive(Debug)]
pub struct Registration {
    identity: Identity,
    schedule: Schedule,
    state: State,
    asked: Option<Asked>,
    next_opaque: i32,
    /// When all topics are due (connected), or when to connect (away).
    due: Duration,
    /// Failures in a row.
    failures: u32,
    /// Topics to tell at once.
    changed: BTreeSet<String>,
    /// What the name server has.
    confirmed: Option<DataVersion>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Away,
    Connected,
    Registered,
}

/// The request under way.
#[derive(Clone, Copy, Debug)]
struct Asked {
    opaque: i32,
    code: i32,
    at: Duration,
    data_version: DataVersion,
}

impl Registration {
    /// One that isn't connected; it wants to be, at once.
    pub fn new(identity: Identity, schedule: Schedule) -> Registration {
        Registration {
            identity,
            schedule,
            state: State::Away,
            asked: None,
            next_opaque: 0,
            due: Duration::ZERO,
            failures: 0,
            changed: BTreeSet::new(),
            confirmed: None,
        }
    }

    /// Whether the name server has all topics, as of some moment on this connection.
    pub fn is_registered(&self) -> bool {
        self.state == State::Registered
    }

    /// The state of the topics that the name server has; clients can find what was there then.
    pub fn confirmed(&self) -> Option<DataVersion> {
        self.confirmed
    }

    /// When to connect, while there is no connection.
    pub fn connect_at(&self) -> Option<Duration> {
        (self.state == State::Away).then_some(self.due)
    }

    /// When [`Registration::poll_request`] or [`Registration::is_overdue`] next has something to say without anything
    /// having happened.
    pub fn poll_deadline(&self) -> Option<Duration> {
        match (self.state, self.asked) {
            (State::Away, _) => None,
            (_, Some(asked)) => Some(asked.at + self.schedule.timeout),
            (_, None) => Some(self.due),
        }
    }

    /// A connection was made.
    pub fn on_connected(&mut self, now: Duration) {
        assert!(self.state == State::Away, "one connection at a time");
        self.state = State::Connected;
        self.due = now;
    }

    /// The connection is gone, or could not be made.
    pub fn on_disconnected(&mut self, now: Duration) {
        self.state = State::Away;
        self.asked = None;
        self.confirmed = None;
        // All topics are told anyway on the next connection.
        self.changed.clear();
        self.back_off(now);
    }

    /// A topic was created, changed or restricted: it is told with the next request, which is due at once. (Before the
    /// first request on a connection there is nothing to do: that one tells all topics.)
    pub fn on_topic_changed(&mut self, topic: &str) {
        if self.has_told() && !self.changed.contains(topic) {
            self.changed.insert(topic.to_owned());
        }
    }

    /// All topics must be told at once: one was deleted, or the broker's permission changed.
    pub fn on_all_changed(&mut self, now: Duration) {
        if self.has_told() {
            self.due = now;
        }
    }

    /// Writes the request that is due, if one is. `permission` as for [`TopicTable::registration`].
    pub fn poll_request(
        &mut self,
        now: Duration,
        topics: &TopicTable,
        permission: i32,
        out: &mut Vec<u8>,
    ) -> bool {
        if self.state == State::Away || self.asked.is_some() {
            return false;
        }
        let one = (self.changed.len() == 1 && self.state == State::Registered && now < self.due)
            .then(|| self.changed.first().and_then(|topic| topics.registration_of_topic(topic, permission)))
            .flatten();
        let body = match one {
            Some(body) => body,
            // Several changes, or a topic that is gone by now: all of them are one request, too.
            None if now >= self.due || !self.changed.is_empty() => {
                self.due = now + self.schedule.period;
                topics.registration(permission)
            }
            None => return false,
        };
        self.changed.clear();
        self.ask(request::REGISTER_BROKER, body.data_version, now);
        self.write_register(&body, out);
        true
    }

    /// Writes the request to be forgotten (104), to be sent at a clean stop. Nothing else is asked afterwards.
    pub fn unregister_request(&mut self, now: Duration, out: &mut Vec<u8>) {
        assert!(self.state != State::Away, "there is nobody to tell");
        let identity = &self.identity;
        let header = BrokerIdentityRequest {
            broker_name: &identity.broker_name,
            broker_addr: &identity.broker_addr,
            cluster_name: &identity.cluster_name,
            broker_id: identity.broker_id,
        };
        let writer = write_request(out, Serialization::Json, request::UNREGISTER_BROKER, self.next_opaque, 0);
        header.encode(writer).finish();
        self.ask(request::UNREGISTER_BROKER, DataVersion::default(), now);
    }

    /// What arrived on the connection.
    pub fn on_command(&mut self, command: &Command<'_>, now: Duration) -> Outcome {
        let matches = |asked: &Asked| command.is_response() && asked.opaque == command.opaque;
        let Some(asked) = self.asked.take_if(|asked| matches(asked)) else { return Outcome::NotOurs };
        match (command.code, asked.code) {
            (response::SUCCESS, request::UNREGISTER_BROKER) => {
                self.confirmed = None;
                Outcome::Unregistered
            }
            (response::SUCCESS, _) => {
                let first = self.state == State::Connected;
                self.state = State::Registered;
                self.failures = 0;
                self.confirmed = Some(asked.data_version);
                Outcome::Registered { first }
            }
            (code, _) => {
                // Whatever it made of the request: begin with all topics again.
                self.state = State::Connected;
                self.changed.clear();
                self.back_off(now);
                Outcome::Refused { code, remark: command.remark.unwrap_or_default().to_owned() }
            }
        }
    }

    /// Whether the request under way has taken too long: the connection should be closed.
    pub fn is_overdue(&self, now: Duration) -> bool {
        self.asked.is_some_and(|asked| now >= asked.at + self.schedule.timeout)
    }

    /// Whether something was, or is just being, told on this connection.
    fn has_told(&self) -> bool {
        self.state == State::Registered || self.asked.is_some()
    }

    fn ask(&mut self, code: i32, data_version: DataVersion, at: Duration) {
        self.asked = Some(Asked { opaque: self.next_opaque, code, at, data_version });
        self.next_opaque = self.next_opaque.wrapping_add(1);
    }

    /// The body of the request that [`Registration::ask`] has just numbered.
    fn write_register(&self, body: &RegisterBrokerBody, out: &mut Vec<u8>) {
        let opaque = self.asked.expect("numbered before it is written").opaque;
        let plain = body.encode_plain();
        let compressed = plain.len() > COMPRESS_BYTES_MIN;
        let bytes = if compressed { body.encode_compressed(VERSION) } else { plain };
        let identity = &self.identity;
        let header = RegisterBrokerRequest {
            broker_name: &identity.broker_name,
            broker_addr: &identity.broker_addr,
            cluster_name: &identity.cluster_name,
            ha_server_addr: &identity.ha_server_addr,
            broker_id: identity.broker_id,
            heartbeat_timeout_ms: None,
            enable_acting_master: Some(false),
            compressed,
            body_crc32: protocol::message::body_crc(&bytes),
        };
        let writer = write_request(out, Serialization::Json, request::REGISTER_BROKER, opaque, 0);
        header.encode(writer).finish_with_body(&bytes);
    }

    /// 1 s, 2 s, 4 s … up to the period.
    fn back_off(&mut self, now: Duration) {
        let pause = BACK_OFF_MIN.saturating_mul(1 << self.failures.min(BACK_OFF_DOUBLINGS_MAX));
        self.failures = self.failures.saturating_add(1);
        self.due = now + pause.min(self.schedule.period);
    }
}

/// A request must stay below the frame's 16 MiB, whatever the number of topics.
const COMPRESS_BYTES_MIN: usize = 1 << 20;
const BACK_OFF_MIN: Duration = Duration::from_secs(1);
const BACK_OFF_DOUBLINGS_MAX: u32 = 6;

#[cfg(test)]
mod tests {
    use protocol::Session;
    use protocol::frame::FRAME_BYTES_MAX;

    use super::*;
    use crate::namesrv::{ConnectionId, NameServer, NamesrvOptions};
    use crate::topic::{BootTopics, SendCreate};

    const SECOND: Duration = Duration::from_secs(1);

    fn identity() -> Identity {
        Identity {
            cluster_name: "C".to_owned(),
            broker_name: "b".to_owned(),
            broker_addr: "127.0.0.1:1".to_owned(),
            ha_server_addr: "127.0.0.1:2".to_owned(),
            broker_id: 0,
        }
    }

    fn topics() -> TopicTable {
        let mut topics = TopicTable::default();
        topics.boot(&BootTopics {
            cluster_name: "C",
            broker_name: "b",
            auto_create_topic_enable: true,
            default_topic_queue_nums: 8,
            cluster_topic_enable: true,
            broker_topic_enable: true,
            trace_topic_enable: false,
        });
        topics
    }

    fn create(topics: &mut TopicTable, topic: &str) {
        let send =
            SendCreate { topic, default_topic: "TBW102", default_topic_queue_nums: 4, unit_mode: false };
        topics.create_on_send(send, 1).unwrap();
    }

    fn registration() -> Registration {
        let schedule = Schedule { period: 30 * SECOND, timeout: 24 * SECOND };
        Registration::new(identity(), schedule)
    }

    /// A name server and a connection to it.
    struct Peer {
        server: NameServer,
        out: Vec<u8>,
    }

    impl Peer {
        fn new() -> Peer {
            Peer { server: NameServer::new(NamesrvOptions::default()), out: Vec::new() }
        }

        /// Polls once at `now`; when a request comes, lets the name server answer. (Topics named, outcome).
        fn step(
            &mut self,
            it: &mut Registration,
            now: Duration,
            topics: &TopicTable,
        ) -> Option<(usize, Outcome)> {
            self.out.clear();
            if !it.poll_request(now, topics, 6, &mut self.out) {
                return None;
            }
            let (mut there, mut back) = (Session::new(FRAME_BYTES_MAX), Session::new(FRAME_BYTES_MAX));
            there.on_bytes(&self.out);
            let request = there.poll_command().unwrap().unwrap();
            let compressed = request.fields.get("compressed") == Some("true");
            let body = RegisterBrokerBody::decode(request.body, compressed, request.version).unwrap();
            let mut answer = Vec::new();
            self.server.on_command(ConnectionId(7), &request, now, &mut answer);
            back.on_bytes(&answer);
            let outcome = it.on_command(&back.poll_command().unwrap().unwrap(), now);
            Some((body.topic_config_table.len(), outcome))
        }
    }

    #[test]
    fn all_topics_are_told_first_and_then_every_period() {
        let (mut peer, mut it, topics) = (Peer::new(), registration(), topics());
        assert_eq!((it.connect_at(), it.poll_deadline()), (Some(Duration::ZERO), None));
        assert_eq!(peer.step(&mut it, SECOND, &topics), None, "nobody to tell");
        it.on_connected(SECOND);
        assert_eq!(it.poll_deadline(), Some(SECOND));
        let told = peer.step(&mut it, SECOND, &topics);
        assert_eq!(told, Some((6, Outcome::Registered { first: true })));
        assert!(it.is_registered());
        assert_eq!((it.connect_at(), it.poll_deadline()), (None, Some(31 * SECOND)));
        assert_eq!(peer.step(&mut it, 30 * SECOND, &topics), None);
        let told = peer.step(&mut it, 31 * SECOND, &topics);
        assert_eq!(told, Some((6, Outcome::Registered { first: false })));
    }

    #[test]
    fn a_new_topic_is_told_at_once_and_alone() {
        let (mut peer, mut it, mut topics) = (Peer::new(), registration(), topics());
        it.on_connected(Duration::ZERO);
        peer.step(&mut it, Duration::ZERO, &topics).unwrap();
        create(&mut topics, "T");
        it.on_topic_changed("T");
        let told = peer.step(&mut it, SECOND, &topics);
        assert_eq!(told, Some((1, Outcome::Registered { first: false })));
        assert_eq!(it.confirmed(), Some(topics.data_version()));
        let route = peer.server.registry().route("T", &NamesrvOptions::default()).unwrap();
        assert_eq!(route.queue_datas[0].write_queue_nums, 4);
        assert_eq!(peer.step(&mut it, SECOND, &topics), None);
    }

    #[test]
    fn several_changes_are_one_request() {
        let (mut peer, mut it, mut topics) = (Peer::new(), registration(), topics());
        it.on_connected(Duration::ZERO);
        peer.step(&mut it, Duration::ZERO, &topics).unwrap();
        for topic in ["T", "U"] {
            create(&mut topics, topic);
            it.on_topic_changed(topic);
        }
        assert_eq!(peer.step(&mut it, SECOND, &topics).unwrap().0, 8);
        assert_eq!(peer.step(&mut it, SECOND, &topics), None);
        it.on_topic_changed("gone-by-now");
        assert_eq!(peer.step(&mut it, SECOND, &topics).unwrap().0, 8);
        it.on_all_changed(2 * SECOND);
        assert_eq!(peer.step(&mut it, 2 * SECOND, &topics).unwrap().0, 8);
    }

    #[test]
    fn what_changes_while_an_answer_is_awaited_follows_it() {
        let (mut it, mut topics) = (registration(), topics());
        let mut out = Vec::new();
        it.on_connected(Duration::ZERO);
        assert!(it.poll_request(Duration::ZERO, &topics, 6, &mut out));
        create(&mut topics, "T");
        it.on_topic_changed("T");
        assert!(!it.poll_request(SECOND, &topics, 6, &mut out), "one request at a time");
        let mut answer = Vec::new();
        protocol::write_response(&mut answer, Serialization::Json, response::SUCCESS, 0).finish();
        let mut session = Session::new(FRAME_BYTES_MAX);
        session.on_bytes(&answer);
        let command = session.poll_command().unwrap().unwrap();
        assert_eq!(it.on_command(&command, SECOND), Outcome::Registered { first: true });
        assert_eq!(it.on_command(&command, SECOND), Outcome::NotOurs, "answered once");
        assert_ne!(it.confirmed(), Some(topics.data_version()), "T isn't there yet");
        assert!(it.poll_request(SECOND, &topics, 6, &mut out));
    }

    #[test]
    fn silence_is_overdue_and_a_lost_connection_begins_again_with_all_topics() {
        let (mut peer, mut it, topics) = (Peer::new(), registration(), topics());
        it.on_connected(Duration::ZERO);
        let mut out = Vec::new();
        assert!(it.poll_request(Duration::ZERO, &topics, 6, &mut out));
        assert_eq!(it.poll_deadline(), Some(24 * SECOND));
        assert!(!it.is_overdue(23 * SECOND) && it.is_overdue(24 * SECOND));
        it.on_disconnected(24 * SECOND);
        assert_eq!(it.connect_at(), Some(25 * SECOND));
        it.on_connected(25 * SECOND);
        let told = peer.step(&mut it, 25 * SECOND, &topics);
        assert_eq!(told, Some((6, Outcome::Registered { first: true })));
    }

    #[test]
    fn pauses_double_up_to_the_period_and_end_with_a_success() {
        let (mut peer, mut it, topics) = (Peer::new(), registration(), topics());
        let mut pauses = Vec::new();
        for _ in 0..8 {
            it.on_disconnected(Duration::ZERO);
            pauses.push(it.connect_at().unwrap().as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 30]);
        it.on_connected(40 * SECOND);
        peer.step(&mut it, 40 * SECOND, &topics).unwrap();
        it.on_disconnected(50 * SECOND);
        assert_eq!(it.connect_at(), Some(51 * SECOND));
    }

    #[test]
    fn a_refusal_is_told_and_tried_again_with_all_topics_after_a_pause() {
        let (mut peer, mut it, topics) = (Peer::new(), registration(), topics());
        it.identity.broker_name = String::new();
        it.on_connected(Duration::ZERO);
        let (_, outcome) = peer.step(&mut it, Duration::ZERO, &topics).unwrap();
        assert!(
            matches!(&outcome, Outcome::Refused { code: 1, remark } if remark.contains("register broker failed"))
        );
        assert_eq!(peer.step(&mut it, SECOND / 2, &topics), None);
        assert_eq!(it.poll_deadline(), Some(SECOND));
        it.identity.broker_name = "b".to_owned();
        assert_eq!(peer.step(&mut it, SECOND, &topics).unwrap().0, 6);
    }

    #[test]
    fn a_stopping_broker_is_forgotten_at_once() {
        let (mut peer, mut it, topics) = (Peer::new(), registration(), topics());
        it.on_connected(Duration::ZERO);
        peer.step(&mut it, Duration::ZERO, &topics).unwrap();
        let mut out = Vec::new();
        it.unregister_request(SECOND, &mut out);
        let (mut there, mut back) = (Session::new(FRAME_BYTES_MAX), Session::new(FRAME_BYTES_MAX));
        there.on_bytes(&out);
        let mut answer = Vec::new();
        peer.server.on_command(ConnectionId(7), &there.poll_command().unwrap().unwrap(), SECOND, &mut answer);
        back.on_bytes(&answer);
        assert_eq!(it.on_command(&back.poll_command().unwrap().unwrap(), SECOND), Outcome::Unregistered);
        assert!(peer.server.registry().topics().is_empty());
    }

    #[test]
    fn a_great_many_topics_are_compressed() {
        let (mut peer, mut it, mut topics) = (Peer::new(), registration(), topics());
        for index in 0..20_000 {
            create(&mut topics, &format!("topic-number-{index}"));
        }
        it.on_connected(Duration::ZERO);
        let (count, outcome) = peer.step(&mut it, Duration::ZERO, &topics).unwrap();
        assert_eq!((count, outcome), (20_006, Outcome::Registered { first: true }));
        assert!(peer.out.len() < 1 << 20, "{} bytes", peer.out.len());
        assert_eq!(peer.server.registry().topics().len(), 20_006);
    }
}
