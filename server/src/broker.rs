//! The broker of one shard: its topics, groups, clients and connections around the shard's log.
//!
//! Owns what RocketMQ's broker owns besides the store. Every command is one step on the core that owns the connection:
//! it is decoded, checked, applied and answered, or it leaves behind what answers it later (a sender that waits for its
//! flush, a pull that is held). Processors are in [`crate::processor`], one file per family of codes.

use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
    net::SocketAddr,
    rc::Rc,
    time::Instant,
};

use engine::{
    io::{
        Runtime,
        event::{Broadcast, Event},
    },
    metadata::{Generation, MetadataFile, MetadataWriter},
    shard::Cold,
    stages::SharedShard,
    write::ack::{Outcome, Receipt, ReplyTo},
};
use protocol::{
    Command,
    code::{request, response},
    write_response,
};

use crate::{
    client_registry::ClientRegistry,
    config::Settings,
    connection::{
        Service, Step,
        table::{ConnectionKey, Connections},
    },
    consumer_offset::ConsumerOffsets,
    group::GroupTable,
    processor::{offset::PendingSearch, pull::ColdPull, send::SendScratch},
    registrar::TopicChanges,
    target::Targets,
    topic::TopicTable,
};

/// Who a broker is to its clients.
#[derive(Clone, Debug)]
pub struct Identity {
    /// `brokerClusterName`.
    pub cluster: String,
    /// Its own name, with the shard's number when there are several.
    pub name: String,
    /// The advertised address: clients connect to it, message ids contain it.
    pub address: SocketAddr,
    /// Where replication would be; registered, though nobody listens there yet.
    pub ha_address: SocketAddr,
}

/// The metadata files of a broker and which change of each is durable.
pub struct Metadata {
    /// The writer.
    pub writer: Rc<RefCell<MetadataWriter>>,
    /// `config/topics.json`.
    pub topics: MetadataFile,
    /// `config/subscriptionGroup.json`.
    pub groups: MetadataFile,
    /// `config/consumerOffset.json`.
    pub offsets: MetadataFile,
}

/// See the module.
pub struct Broker<R: Runtime> {
    /// Who it is.
    pub identity: Rc<Identity>,
    /// The process' settings.
    pub settings: Rc<Settings>,
    /// Clock, tasks and files.
    pub runtime: R,
    /// The store.
    pub shard: SharedShard<R>,
    /// Topic configurations.
    pub topics: TopicTable,
    /// Where messages of a topic go, ready for the send path.
    pub targets: Targets,
    /// Subscription group configurations.
    pub groups: GroupTable,
    /// How far groups have consumed.
    pub offsets: ConsumerOffsets,
    /// Live producers and consumers.
    pub clients: ClientRegistry,
    /// The metadata files.
    pub metadata: Metadata,
    /// Woken when topics changed or may no longer be written: the name servers are told at once.
    pub topics_changed: Broadcast,
    pub(crate) topic_changes: TopicChanges,
    pub(crate) connections: Connections<R>,
    pub(crate) scratch: SendScratch,
    /// Topics whose creation isn't durable yet, and what makes it so.
    pub(crate) undurable_topics: HashMap<String, Generation>,
    /// Groups likewise.
    pub(crate) undurable_groups: HashMap<String, Generation>,
    /// Wakes the requests that wait for metadata to be durable.
    pub metadata_durable: Broadcast,
    /// Set when pulls or searches wait for bytes from disk.
    pub cold_work: Event,
    /// Set when a pull was held: its time may be the next.
    pub holds_changed: Event,
    /// Pulls and searches that wait for bytes from disk.
    pub(crate) cold_waiting: VecDeque<ColdPull>,
    pub(crate) searches_waiting: VecDeque<(PendingSearch, Cold)>,
    pub(crate) push_opaque: i32,
    pub(crate) started: Instant,
    pub(crate) start_timestamp_ms: i64,
    pub(crate) cold_pulls: usize,
    /// Tasks that search.
    pub(crate) searches: usize,
    /// Woken when a pull or search that needed the disk is done: another one can be taken.
    pub(crate) cold_room: Broadcast,
    pub(crate) recovery: RecoverySummary,
    pub(crate) counters: BrokerCounters,
    clocks: Option<Clocks>,
    stopping: bool,
}

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks {
    /// The one that never goes back.
    pub(crate) now: Instant,
    /// The host's, milliseconds since 1970.
    pub(crate) wall_ms: i64,
}

/// What opening the store found; shown by code 28.
#[derive(Clone, Debug, Default)]
pub struct RecoverySummary {
    /// The decision's label.
    pub how: String,
    /// Bytes of the log behind what was known to be durable, that were scanned and kept.
    pub unclean_bytes: u64,
}

/// Counters; they only grow.
#[derive(Clone, Copy, Debug, Default)]
pub struct BrokerCounters {
    /// Messages put, as RocketMQ counts them.
    pub put_messages: u64,
    /// Messages handed to consumers.
    pub get_messages: u64,
    /// Sends refused.
    pub refused_sends: u64,
}

/// The parts that start-up provides.
pub struct BrokerParts<R: Runtime> {
    /// See [`Broker`].
    pub identity: Identity,
    /// See [`Broker`].
    pub settings: Rc<Settings>,
    /// See [`Broker`].
    pub runtime: R,
    /// See [`Broker`].
    pub shard: SharedShard<R>,
    /// See [`Broker`].
    pub topics: TopicTable,
    /// See [`Broker`].
    pub groups: GroupTable,
    /// See [`Broker`].
    pub offsets: ConsumerOffsets,
    /// See [`Broker`].
    pub clients: ClientRegistry,
    /// See [`Broker`].
    pub metadata: Metadata,
    /// See [`Broker`].
    pub connections: Connections<R>,
    /// See [`Broker`].
    pub recovery: RecoverySummary,
}

impl<R: Runtime> Broker<R> {
    /// A broker that has served nobody yet.
    pub fn new(parts: BrokerParts<R>) -> Broker<R> {
        let scratch = SendScratch::new(&parts.identity.cluster, parts.identity.address);
        Broker {
            identity: Rc::new(parts.identity),
            settings: parts.settings,
            started: parts.runtime.now(),
            start_timestamp_ms: parts.runtime.wall_clock_ms(),
            runtime: parts.runtime,
            shard: parts.shard,
            topics: parts.topics,
            targets: Targets::default(),
            groups: parts.groups,
            offsets: parts.offsets,
            clients: parts.clients,
            metadata: parts.metadata,
            topics_changed: Broadcast::new(),
            topic_changes: TopicChanges::default(),
            connections: parts.connections,
            scratch,
            undurable_topics: HashMap::new(),
            undurable_groups: HashMap::new(),
            metadata_durable: Broadcast::new(),
            cold_work: Event::new(),
            holds_changed: Event::new(),
            cold_waiting: VecDeque::new(),
            searches_waiting: VecDeque::new(),
            push_opaque: 0,
            cold_pulls: 0,
            searches: 0,
            cold_room: Broadcast::new(),
            recovery: parts.recovery,
            counters: BrokerCounters::default(),
            clocks: None,
            stopping: false,
        }
    }

    /// Answers everyone whose promise was kept or broken, makes confirmed messages visible and answers the pulls that
    /// waited for them. Call it after appends and after each group that was written or synced.
    pub fn deliver(&mut self) {
        let now = self.runtime.now();
        self.shard.borrow_mut().confirm();
        loop {
            let polled = self.shard.borrow_mut().poll_ack(now);
            let Some((receipt, outcome)) = polled else { break };
            self.answer_send(&receipt, outcome);
        }
        self.shard.borrow_mut().dispatch();
        self.answer_ended_holds();
    }

    /// A second passed: time-outs of holds, idle connections, silent clients.
    pub fn on_second(&mut self) {
        self.connections.on_second();
        let since_start = self.runtime.now().saturating_duration_since(self.started);
        let (changed, to_close) = self.clients.expire(since_start, crate::processor::group::CLIENT_EXPIRY);
        for group in changed {
            self.notify_consumers(&group);
        }
        for connection in to_close {
            self.connections.close(connection);
        }
        self.shard.borrow_mut().queues_mut().trim_idle();
    }

    /// The port that is really listened on: the kernel may have given it. Message ids contain it.
    pub fn set_port(&mut self, port: u16) {
        let mut identity = (*self.identity).clone();
        identity.address.set_port(port);
        if identity.ha_address.port() == 0 {
            identity.ha_address.set_port(port.wrapping_add(1));
        }
        self.identity = Rc::new(identity);
    }

    /// From now on commands are refused and held pulls answered; connections end when their answers are sent.
    pub fn stop(&mut self) {
        self.stopping = true;
        self.shard.borrow_mut().holds_mut().end_all();
        self.answer_ended_holds();
    }

    /// Whether the broker is being stopped.
    pub fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Whether producers may write: the registered permission follows it.
    pub fn is_writable(&self) -> bool {
        self.shard.borrow().fence().is_none()
    }

    /// The log takes nothing more: the name servers are told, in a version of the topics that they haven't seen, because
    /// they pass over what they know.
    pub(crate) fn on_fenced(&mut self) {
        let now_ms = self.runtime.wall_clock_ms();
        self.topics.touch(now_ms);
        self.topics_changed.wake_all();
    }

    /// Answers with a code and a remark.
    pub(crate) fn refuse(&mut self, to: ReplyTo, code: i32, remark: &str) {
        self.connections.answer(ConnectionKey(to.connection), |out| {
            write_response(out, to.serialization, code, to.opaque).remark(remark).finish();
        });
    }

    /// Answers with success, without fields.
    pub(crate) fn succeed(&mut self, to: ReplyTo) {
        self.connections.answer(ConnectionKey(to.connection), |out| {
            write_response(out, to.serialization, response::SUCCESS, to.opaque).finish();
        });
    }

    /// Answers with success and a body.
    pub(crate) fn succeed_with_body(&mut self, to: ReplyTo, body: &[u8]) {
        self.connections.answer(ConnectionKey(to.connection), |out| {
            write_response(out, to.serialization, response::SUCCESS, to.opaque).finish_with_body(body);
        });
    }

    /// The clocks when the first of the commands that came together asked: a reading costs as much as encoding a record.
    pub(crate) fn clocks(&mut self) -> Clocks {
        let runtime = &self.runtime;
        *self.clocks.get_or_insert_with(|| Clocks { now: runtime.now(), wall_ms: runtime.wall_clock_ms() })
    }

    /// Time since the start.
    pub(crate) fn since_start(&self) -> std::time::Duration {
        self.runtime.now().saturating_duration_since(self.started)
    }

    fn answer_send(&mut self, receipt: &Receipt, outcome: Outcome) {
        match outcome {
            Outcome::Stored => self.write_send_answer(receipt, response::SUCCESS, None),
            Outcome::FlushTimeout => self.write_send_answer(
                receipt,
                response::FLUSH_DISK_TIMEOUT,
                Some("stored, but the disk did not confirm the flush within syncFlushTimeout; the slow stage is flush"),
            ),
            Outcome::Fenced => {
                let remark = self.fence_remark();
                self.refuse(receipt.reply_to, response::SERVICE_NOT_AVAILABLE, &remark);
            }
        }
    }
}

impl<R: Runtime> Service<R> for Broker<R> {
    fn connections(&mut self) -> &mut Connections<R> {
        &mut self.connections
    }

    fn on_command(&mut self, connection: ConnectionKey, command: &Command<'_>) -> Step {
        self.connections.assert_owned_here();
        self.connections.on_activity(connection);
        if command.is_response() {
            // Clients answer our pushes with nothing we wait for.
            return Step::Done;
        }
        let to = ReplyTo {
            connection: connection.0,
            opaque: command.opaque,
            serialization: command.serialization,
        };
        if self.stopping {
            self.refuse_unless_oneway(
                to,
                command,
                response::SYSTEM_ERROR,
                "the broker is being stopped; reconnect to another one",
            );
            return Step::Done;
        }
        match command.code {
            request::SEND_MESSAGE | request::SEND_MESSAGE_V2 | request::SEND_BATCH_MESSAGE => {
                return self.on_send(to, command);
            }
            request::PULL_MESSAGE | request::LITE_PULL_MESSAGE => return self.on_pull(to, command),
            request::QUERY_CONSUMER_OFFSET => self.on_query_consumer_offset(to, command),
            request::UPDATE_CONSUMER_OFFSET => self.on_update_consumer_offset(to, command),
            request::SEARCH_OFFSET_BY_TIMESTAMP => return self.on_search_offset(to, command),
            request::GET_MAX_OFFSET => self.on_max_offset(to, command),
            request::GET_MIN_OFFSET => self.on_min_offset(to, command),
            request::HEART_BEAT => return self.on_heartbeat(to, command),
            request::UNREGISTER_CLIENT => self.on_unregister_client(to, command),
            request::GET_CONSUMER_LIST_BY_GROUP => self.on_consumer_list(to, command),
            request::UPDATE_AND_CREATE_TOPIC => return self.on_create_topic(to, command),
            request::GET_BROKER_RUNTIME_INFO => self.on_runtime_info(to),
            code => self.refuse_unless_oneway(
                to,
                command,
                response::REQUEST_CODE_NOT_SUPPORTED,
                &format!(" request type {code} not supported"),
            ),
        }
        Step::Done
    }

    fn after_commands(&mut self) {
        self.clocks = None;
        self.deliver();
    }

    fn on_disconnected(&mut self, connection: ConnectionKey) {
        self.shard.borrow_mut().holds_mut().on_disconnected(connection.0);
        for group in self.clients.on_disconnected(connection) {
            self.notify_consumers(&group);
        }
    }
}

impl<R: Runtime> Broker<R> {
    /// Refuses a request; one that wants no answer gets none.
    pub(crate) fn refuse_unless_oneway(
        &mut self,
        to: ReplyTo,
        command: &Command<'_>,
        code: i32,
        remark: &str,
    ) {
        if !command.is_oneway() {
            self.refuse(to, code, remark);
        }
    }
}
