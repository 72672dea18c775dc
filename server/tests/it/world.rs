//! One shard, and a name server that it registers with, on the scripted runtime: virtual time, an obedient disk.

use std::{
    cell::RefCell,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    rc::Rc,
    time::Duration,
};

use engine::io::{
    Runtime,
    event::Event,
    script::{Client, Kind, Rule, ScriptRuntime},
};
use protocol::{body::kv::KvTable, message::StoredMessage};
use server::{
    config::{FlushDiskType, FlushMethod, Settings, value::ByteSize},
    connection::table::ConnectionLimits,
    namesrv_service,
    placement::ShardPlace,
    shard_server::{self, ShardError, ShardStart},
    stop_signal::StopSignal,
};

use crate::{
    ask,
    wire::{Frame, Peer},
};

pub const BROKER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 10_911);
pub const NAMESRV: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9_876);

/// A connection into the world.
pub type ScriptPeer = Peer<Client>;

/// The running shard.
pub struct World {
    pub runtime: ScriptRuntime,
    stop: StopSignal,
    outcome: Rc<RefCell<Option<Result<(), ShardError>>>>,
    has_ended: Event,
}

/// Small files and no measurement at start; the rest is the default.
pub fn settings() -> Settings {
    Settings {
        mapped_file_size_commit_log: ByteSize(8 << 20),
        mapped_file_size_consume_queue: ByteSize(20_000),
        flush_method: FlushMethod::Fdatasync,
        ..Settings::default()
    }
}

/// [`settings`] with SYNC_FLUSH.
pub fn sync_flush() -> Settings {
    Settings { flush_disk_type: FlushDiskType::SyncFlush, ..settings() }
}

impl World {
    /// A shard on an empty disk with the default settings.
    pub fn new() -> World {
        World::with(settings())
    }

    pub fn with(settings: Settings) -> World {
        World::start(ScriptRuntime::new(1), settings).unwrap_or_else(|ShardError(text)| panic!("{text}"))
    }

    /// Starts the shard on a world that may have a disk with something on it.
    pub fn start(runtime: ScriptRuntime, settings: Settings) -> Result<World, ShardError> {
        // Whoever waits longer than any client would waits for nothing.
        runtime.set_patience(Duration::from_secs(120));
        let listener = runtime.listen(NAMESRV).expect("a fresh world has free ports");
        let limits = ConnectionLimits { count_max: 100, unsent_bytes_max: 1 << 20, idle_seconds_max: 120 };
        runtime.spawn(namesrv_service::serve(runtime.clone(), listener, limits, Event::new()));
        let stop = StopSignal::new();
        let start = ShardStart {
            place: ShardPlace {
                index: 0,
                core: 0,
                broker_name: "broker-a".to_owned(),
                listen_port: BROKER.port(),
                ha_port: BROKER.port() + 1,
                fast_port: 0,
                directory: PathBuf::from("/store"),
            },
            settings,
            shard_count: 1,
            embedded_namesrv: Some(NAMESRV),
            stop: stop.clone(),
        };
        let (is_ready, has_ended) = (Event::new(), Event::new());
        let outcome = Rc::new(RefCell::new(None));
        let running = {
            let (runtime, outcome) = (runtime.clone(), Rc::clone(&outcome));
            let (is_ready, has_ended) = (is_ready.clone(), has_ended.clone());
            async move {
                let ended = shard_server::run(runtime, start, |_| is_ready.set()).await;
                *outcome.borrow_mut() = Some(ended);
                has_ended.set();
            }
        };
        runtime.spawn(running);
        runtime.block_on(engine::io::event::first(is_ready.wait(), has_ended.wait()));
        // The event of the end is waited for again by `stop`.
        if outcome.borrow().is_some() {
            let ended = outcome.borrow_mut().take().expect("it was just there");
            runtime.end();
            return Err(ended.expect_err("a shard that nobody stopped ends for a reason"));
        }
        Ok(World { runtime, stop, outcome, has_ended })
    }

    pub fn connect(&self) -> ScriptPeer {
        Peer::new(self.runtime.net().connect(BROKER).expect("the broker listens"))
    }

    pub fn name_server(&self) -> ScriptPeer {
        Peer::new(self.runtime.net().connect(NAMESRV).expect("the name server listens"))
    }

    /// Asks the shard to stop, as the signal handler does.
    pub fn ask_to_stop(&self) {
        self.stop.set();
    }

    /// Stops the shard cleanly; what it says, and the world that its disk lives on in.
    pub fn stop(self) -> (Result<(), ShardError>, ScriptRuntime) {
        self.stop.set();
        if self.outcome.borrow().is_none() {
            self.runtime.block_on(self.has_ended.wait());
        }
        let outcome = self.outcome.borrow_mut().take().expect("the shard has ended");
        let runtime = self.runtime.clone();
        (outcome, runtime)
    }

    /// One of the counters of code 28.
    pub fn counter(&self, name: &str) -> String {
        let answer = self.connect().call(&ask::runtime_info()).expect_code(0);
        KvTable::from_json(&answer.body).expect("a table").table[name].clone()
    }

    /// Holds every sync of the commit log until the rule is lifted.
    pub fn hold_syncs(&self) -> engine::io::script::RuleId {
        self.runtime.plan().add(Rule::of(Kind::SyncData).under("commitlog").hold())
    }

    /// What the disk holds of a file under the store now, as text.
    pub fn file(&self, name: &str) -> String {
        let bytes = self.runtime.disk().read(format!("/store/{name}")).unwrap_or_default();
        String::from_utf8(bytes).expect("text")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.runtime.end();
    }
}

/// A message as a pull brought it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    pub topic: String,
    pub queue_id: i32,
    pub queue_offset: i64,
    pub physical_offset: i64,
    pub flag: i32,
    pub sys_flag: i32,
    pub born_timestamp_ms: i64,
    pub store_timestamp_ms: i64,
    pub body: Vec<u8>,
    pub properties: String,
}

impl Pulled {
    pub fn property(&self, name: &str) -> Option<&str> {
        protocol::properties::get(&self.properties, name)
    }
}

/// The messages in the answer to a pull.
pub fn messages(answer: &Frame) -> Vec<Pulled> {
    assert_eq!(answer.code, 0, "{answer:?}");
    let mut rest = &answer.body[..];
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (stored, len) = StoredMessage::decode(rest).expect("pulls carry whole records");
        stored.check_body_crc().expect("the body is what was sent");
        found.push(Pulled {
            topic: stored.topic.to_owned(),
            queue_id: stored.queue_id,
            queue_offset: stored.queue_offset,
            physical_offset: stored.physical_offset,
            flag: stored.flag,
            sys_flag: stored.sys_flag,
            born_timestamp_ms: stored.born_timestamp_ms,
            store_timestamp_ms: stored.store_timestamp_ms,
            body: stored.body.to_vec(),
            properties: stored.properties.to_owned(),
        });
        rest = &rest[len..];
    }
    found
}

/// The four numbers that every answer to a pull carries: suggested broker, next, min, max.
pub fn pull_offsets(answer: &Frame) -> [i64; 4] {
    ["suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset"].map(|name| answer.int(name))
}
