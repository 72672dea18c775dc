//! A connection belongs to one thread: serving it on another is a broken rule, and fails loudly.

use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    rc::Rc,
};

use engine::{
    commit_log::Backend,
    io::script::ScriptRuntime,
    metadata::MetadataWriter,
    stages::QueueRhythm,
    store::{Store, StoreSettings},
    write::flush::{AsyncFlush, FlushMode},
};
use protocol::{Command, FieldTable, Language, Serialization, code::request};
use server::{
    broker::{Broker, BrokerParts, Identity, Metadata, RecoverySummary},
    client_registry::{ClientRegistry, ClientRegistryLimits},
    connection::{
        Service, Step,
        table::{ConnectionKey, ConnectionLimits, Connections, ThreadMark},
    },
    consumer_offset::ConsumerOffsets,
    group::GroupTable,
    topic::TopicTable,
};

use crate::world::{BROKER, settings};

const LIMITS: ConnectionLimits =
    ConnectionLimits { count_max: 10, unsent_bytes_max: 1 << 20, idle_seconds_max: 120 };

/// A thread that isn't this one.
fn another_thread() -> ThreadMark {
    std::thread::spawn(ThreadMark::here).join().unwrap()
}

/// The text of the panic that `run` ends in.
fn panic_text(run: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("it must not go on");
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn connections_are_served_by_the_thread_that_owns_them() {
    Connections::<ScriptRuntime>::new(LIMITS).assert_owned_here();
    let elsewhere = Connections::<ScriptRuntime>::owned_by(another_thread(), LIMITS);
    let text = panic_text(|| elsewhere.assert_owned_here());
    assert!(text.contains("mis-routed"), "{text}");
}

#[test]
fn a_command_that_reaches_the_broker_on_the_wrong_thread_ends_it() {
    let mut here = broker_on(ThreadMark::here());
    assert!(matches!(hand_over_a_command(&mut here), Step::Done));
    let mut elsewhere = broker_on(another_thread());
    let text = panic_text(|| {
        hand_over_a_command(&mut elsewhere);
    });
    assert!(text.contains("mis-routed"), "{text}");
}

fn hand_over_a_command(broker: &mut Broker<ScriptRuntime>) -> Step {
    let fields = FieldTable::new();
    let command = Command {
        code: request::GET_BROKER_RUNTIME_INFO,
        language: Language(0),
        version: protocol::VERSION,
        opaque: 1,
        flag: 0,
        remark: None,
        fields: &fields,
        body: &[],
        serialization: Serialization::Json,
    };
    broker.on_command(ConnectionKey(0), &command)
}

/// A broker whose connections belong to `owner`.
fn broker_on(owner: ThreadMark) -> Broker<ScriptRuntime> {
    let runtime = ScriptRuntime::new(1);
    let store_settings = StoreSettings {
        root: PathBuf::from("/store"),
        backend: Backend::Mapped,
        flush: FlushMode::Async(AsyncFlush {
            interval: std::time::Duration::from_millis(500),
            least_pages: 4,
            thorough_interval: std::time::Duration::from_secs(10),
        }),
        segment_bytes: 1 << 20,
        queue_file_bytes: 20_000,
        is_prepared: false,
        message_bytes_max: 1 << 16,
        sync_flush_timeout: std::time::Duration::from_secs(1),
        tail_cache_bytes: 1 << 20,
        read_cache_bytes: 1 << 20,
        queue_rhythm: QueueRhythm {
            interval: std::time::Duration::from_secs(1),
            thorough_interval: std::time::Duration::from_secs(60),
        },
    };
    let mut no_progress = |_| {};
    let opening = Store::open(runtime.clone(), store_settings, &mut no_progress, Rc::new(|_| {}));
    let store = runtime.block_on(opening).expect("a fresh disk takes a store");
    let mut writer = MetadataWriter::new();
    let metadata = Metadata {
        topics: writer.add(PathBuf::from("/store/config/topics.json")),
        groups: writer.add(PathBuf::from("/store/config/subscriptionGroup.json")),
        offsets: writer.add(PathBuf::from("/store/config/consumerOffset.json")),
        writer: Rc::new(RefCell::new(writer)),
    };
    Broker::new(BrokerParts {
        identity: Identity {
            cluster: "DefaultCluster".to_owned(),
            name: "broker-a".to_owned(),
            address: BROKER,
            ha_address: BROKER,
        },
        settings: Rc::new(settings()),
        runtime,
        shard: Rc::clone(&store.shard),
        topics: TopicTable::default(),
        groups: GroupTable::default(),
        offsets: ConsumerOffsets::default(),
        clients: ClientRegistry::new(ClientRegistryLimits::default()),
        metadata,
        connections: Connections::owned_by(owner, LIMITS),
        recovery: RecoverySummary::default(),
    })
}
