//! One shard from opening its store to its clean stop, on its own core.
//!
//! The order of starting, each for a reason:
//! 1. the store is opened (lock first, then recovery), because nothing may be served from a store in doubt;
//! 2. topics, groups and consumer offsets are loaded, because a pull answered before would reset groups;
//! 3. ports are bound, so that a taken port is a refusal and not a broker without clients;
//! 4. the name servers are told, so that whoever reads `ready` can send.
//!
//! Stopping goes the other way round.

use std::{cell::RefCell, io, net::SocketAddr, rc::Rc, time::Duration};

use engine::{
    commit_log::Backend,
    error::StoreError,
    io::{Listener, Runtime, event::Event},
    metadata::{self, MetadataFile, MetadataWriter},
    stages::{QueueRhythm, wait_or_timeout},
    store::{Store, StoreSettings},
    write::flush::{AsyncFlush, FlushMode, SyncMethod},
};

use crate::{
    broker::{Broker, BrokerParts, Identity, Metadata, RecoverySummary},
    client_registry::{ClientRegistry, ClientRegistryLimits},
    config::{self, FlushDiskType, FlushMethod, PrepareMode, Settings},
    connection::{
        self, Shared, accept_loop, send_dirty,
        table::{ConnectionLimits, Connections},
    },
    consumer_offset::ConsumerOffsets,
    flush_method,
    group::GroupTable,
    placement::ShardPlace,
    processor, registrar,
    stop_signal::StopSignal,
    topic::{BootTopics, TopicTable},
};

/// What one shard is started with.
#[derive(Clone)]
pub struct ShardStart {
    /// Its place: core, name, ports, directory.
    pub place: ShardPlace,
    /// The process' settings.
    pub settings: Settings,
    /// How many shards there are: some defaults divide by it.
    pub shard_count: u32,
    /// The embedded name server, if there is one.
    pub embedded_namesrv: Option<SocketAddr>,
    /// Tells it to stop.
    pub stop: StopSignal,
}

/// What a shard says when it serves.
#[derive(Clone, Debug)]
pub struct ShardReady {
    /// Its broker name.
    pub broker_name: String,
    /// Its advertised address.
    pub address: SocketAddr,
}

/// Why a shard didn't start or didn't stop cleanly; the text says what to do.
#[derive(Debug)]
pub struct ShardError(pub String);

impl From<StoreError> for ShardError {
    fn from(error: StoreError) -> ShardError {
        ShardError(error.to_string())
    }
}

/// How often an opening that takes long says how far it is.
const RECOVERY_NEWS: Duration = Duration::from_secs(1);
/// How long answers under way may take at a stop.
const LAST_ANSWERS: Duration = Duration::from_millis(300);

/// Runs the shard until it is told to stop. `ready` is called once, when it serves.
///
/// # Errors
/// Why it can't start, or why the store isn't clean afterwards.
pub async fn run<R: Runtime>(
    runtime: R,
    start: ShardStart,
    ready: impl FnOnce(ShardReady),
) -> Result<(), ShardError> {
    let settings = Rc::new(start.settings.clone());
    let store = open_store(&runtime, &start).await?;
    let (broker, listeners) = match open_to_clients(&runtime, &start, &settings, &store).await {
        Ok(open) => open,
        Err(refusal) => {
            // Nothing was written: the next start shall find nothing to recover. The refusal says what matters.
            if let Err(error) = store.stop().await {
                crate::log::warn(&format!("{}: {error}", start.place.broker_name));
            }
            return Err(refusal);
        }
    };
    let metadata_stopped = spawn_metadata(&runtime, &broker);
    let stopped = Event::new();
    for listener in listeners {
        runtime.spawn(accept_loop(runtime.clone(), listener, Rc::clone(&broker), stopped.clone()));
    }
    runtime.spawn(deliver_loop(runtime.clone(), Rc::clone(&broker), Rc::clone(&store.cold_files)));
    runtime.spawn(time_loop(runtime.clone(), Rc::clone(&broker)));
    runtime.spawn(offsets_loop(runtime.clone(), Rc::clone(&broker)));
    let registrar = registrar::start(&runtime, &broker, &start).await;
    let identity = Rc::clone(&broker.borrow().identity);
    ready(ShardReady { broker_name: identity.name.clone(), address: identity.address });

    start.stop.wait().await;

    crate::log::info(&format!("{}: stopping", identity.name));
    stopped.set();
    registrar.stop(&runtime).await;
    broker.borrow_mut().stop();
    finish_answers(&runtime, &broker).await;
    // Everyone who shares the store lets go of it before it is closed.
    let writer = Rc::clone(&broker.borrow().metadata.writer);
    {
        let broker = broker.borrow();
        let mut writer = writer.borrow_mut();
        writer.request(broker.metadata.offsets);
        writer.stop();
    }
    metadata_stopped.wait().await;
    store.stop().await?;
    crate::log::info(&format!("{}: stopped, the store is clean", identity.name));
    Ok(())
}

/// The broker of an open store, and its ports, bound but not yet served.
async fn open_to_clients<R: Runtime>(
    runtime: &R,
    start: &ShardStart,
    settings: &Rc<Settings>,
    store: &Store<R>,
) -> Result<(Shared<Broker<R>>, Vec<R::Listener>), ShardError> {
    let broker = open_broker(runtime, start, settings, store).await?;
    let listeners = listeners(runtime, start, &broker).await?;
    Ok((broker, listeners))
}

/// Lets the last group be flushed and answered, then ends the connections.
async fn finish_answers<R: Runtime>(runtime: &R, broker: &Shared<Broker<R>>) {
    let until = runtime.now() + LAST_ANSWERS;
    loop {
        {
            let mut broker = broker.borrow_mut();
            broker.deliver();
            send_dirty(runtime, &mut broker.connections);
            if broker.shard.borrow().waiting_senders() == 0 || runtime.now() >= until {
                break;
            }
        }
        runtime.sleep(Duration::from_millis(2)).await;
    }
    broker.borrow_mut().connections.shut_down_all();
    runtime.sleep(Duration::from_millis(1)).await;
}

async fn open_store<R: Runtime>(runtime: &R, start: &ShardStart) -> Result<Store<R>, ShardError> {
    let settings = &start.settings;
    let root = start.place.directory.clone();
    has_space(runtime, settings, &root).await?;
    let backend = match settings.backend {
        config::Backend::Direct => Backend::Direct,
        config::Backend::Mapped => Backend::Mapped,
    };
    let flush = match settings.flush_disk_type {
        FlushDiskType::AsyncFlush => FlushMode::Async(AsyncFlush {
            interval: settings.flush_interval_commit_log,
            least_pages: settings.flush_commit_log_least_pages.into(),
            thorough_interval: settings.flush_commit_log_thorough_interval,
        }),
        FlushDiskType::SyncFlush => FlushMode::Sync(sync_method(runtime, settings, backend, &root).await?),
    };
    let name = start.place.broker_name.clone();
    let reporter = name.clone();
    let mut speak_at = runtime.now() + RECOVERY_NEWS;
    let store = Store::open(
        runtime.clone(),
        StoreSettings {
            root,
            backend,
            flush,
            segment_bytes: settings.mapped_file_size_commit_log.0,
            queue_file_bytes: settings.mapped_file_size_consume_queue.0,
            is_prepared: settings.prepare_mode == PrepareMode::Zero,
            message_bytes_max: usize::try_from(settings.max_message_size.0).unwrap_or(usize::MAX),
            sync_flush_timeout: settings.sync_flush_timeout,
            tail_cache_bytes: usize::try_from(settings.tail_cache_bytes.0).unwrap_or(usize::MAX),
            read_cache_bytes: usize::try_from(settings.read_cache_bytes.0).unwrap_or(usize::MAX),
            queue_rhythm: QueueRhythm {
                interval: settings.flush_interval_consume_queue,
                thorough_interval: settings.flush_consume_queue_thorough_interval,
            },
        },
        &mut |progress| {
            let now = runtime.now();
            if now >= speak_at {
                speak_at = now + RECOVERY_NEWS;
                crate::log::info(&format!("{name}: recovery: {progress}"));
            }
        },
        Rc::new(move |error: &StoreError| crate::log::warn(&format!("{reporter}: {error}"))),
    )
    .await?;
    let found = &store.recovered;
    crate::log::info(&format!(
        "{}: store opened at log offset {} ({}); backend {:?}, flush {:?}",
        start.place.broker_name,
        found.log_end,
        found.how,
        store.settings().backend,
        store.settings().flush,
    ));
    Ok(store)
}

/// Refuses a disk on which a new store couldn't make its first files. A store that exists is opened on a full disk too,
/// because its messages must stay readable; it says what will happen.
async fn has_space<R: Runtime>(
    runtime: &R,
    settings: &Settings,
    root: &std::path::Path,
) -> Result<(), ShardError> {
    let doing = |what, path: &std::path::Path| StoreError::io(what, path.to_path_buf());
    let log = root.join("commitlog");
    let files = runtime.list(&log).await.map_err(doing("listing", &log))?.unwrap_or_default();
    let available =
        available_space(runtime, root).await.map_err(doing("asking for the space on disk", root))?;
    let place = root.display();
    if let Some(file) = files.last() {
        if available < file.len {
            crate::log::warn(&format!(
                "the disk of {place} is nearly full: the next commit-log file needs {} bytes, {available} are \
                 available; make room, or sends will be refused when the current file is full",
                file.len
            ));
        }
        return Ok(());
    }
    let segment = settings.mapped_file_size_commit_log.0;
    let needed = segment.saturating_mul(FIRST_SEGMENTS);
    if available < needed {
        return Err(ShardError(format!(
            "the disk of {place} is nearly full: the first {FIRST_SEGMENTS} commit-log files of {segment} bytes need \
             {needed}, {available} are available; make room, choose another directory with --data, or set a smaller \
             mappedFileSizeCommitLog"
        )));
    }
    Ok(())
}

/// Bytes available on the file system that `directory` is on, or will be: it may be yet to be made.
async fn available_space<R: Runtime>(runtime: &R, directory: &std::path::Path) -> io::Result<u64> {
    for existing in directory.ancestors().filter(|path| !path.as_os_str().is_empty()) {
        match runtime.disk_space(existing).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return Ok(found?.available),
        }
    }
    Ok(runtime.disk_space(std::path::Path::new(".")).await?.available)
}

/// The file that is written and the one that is prepared behind it.
const FIRST_SEGMENTS: u64 = 2;

/// How SYNC_FLUSH is done: as set, or measured in the store's own directory.
async fn sync_method<R: Runtime>(
    runtime: &R,
    settings: &Settings,
    backend: Backend,
    root: &std::path::Path,
) -> Result<SyncMethod, ShardError> {
    match (settings.flush_method, backend) {
        (_, Backend::Mapped) | (FlushMethod::Fdatasync, _) => Ok(SyncMethod::Fdatasync),
        (FlushMethod::Dsync, _) => Ok(SyncMethod::Dsync),
        (FlushMethod::Auto, _) => {
            let measured = flush_method::measure(runtime, &root.join("ringmq")).await.map_err(|error| {
                ShardError(format!("cannot write to the data directory {}: {error}", root.display()))
            })?;
            crate::log::info(&format!("flushMethod {measured}"));
            Ok(measured.better())
        }
    }
}

async fn open_broker<R: Runtime>(
    runtime: &R,
    start: &ShardStart,
    settings: &Rc<Settings>,
    store: &Store<R>,
) -> Result<Shared<Broker<R>>, ShardError> {
    let place = &start.place;
    let config = place.directory.join("config");
    let topics_path = config.join("topics.json");
    let groups_path = config.join("subscriptionGroup.json");
    let offsets_path = config.join("consumerOffset.json");
    let mut topics =
        metadata::load(runtime, &topics_path, parse_with(TopicTable::parse)).await?.unwrap_or_default();
    topics.boot(&BootTopics {
        cluster_name: &settings.broker_cluster_name,
        broker_name: &place.broker_name,
        auto_create_topic_enable: settings.auto_create_topic_enable,
        default_topic_queue_nums: i32::try_from(
            settings.default_topic_queue_nums_of_shard(start.shard_count),
        )
        .expect("bounded by its setting"),
        cluster_topic_enable: settings.cluster_topic_enable,
        broker_topic_enable: settings.broker_topic_enable,
        trace_topic_enable: settings.trace_topic_enable,
    });
    let mut groups =
        metadata::load(runtime, &groups_path, parse_with(GroupTable::parse)).await?.unwrap_or_default();
    groups.boot();
    let offsets =
        metadata::load(runtime, &offsets_path, parse_with(ConsumerOffsets::parse)).await?.unwrap_or_default();
    let mut writer = MetadataWriter::new();
    let metadata = Metadata {
        topics: writer.add(topics_path),
        groups: writer.add(groups_path),
        offsets: writer.add(offsets_path),
        writer: Rc::new(RefCell::new(writer)),
    };
    for file in [metadata.topics, metadata.groups, metadata.offsets] {
        metadata.writer.borrow_mut().request(file);
    }
    let ip = settings.broker_ip1;
    let identity = Identity {
        cluster: settings.broker_cluster_name.clone(),
        name: place.broker_name.clone(),
        address: SocketAddr::new(ip, place.listen_port),
        ha_address: SocketAddr::new(ip, place.ha_port),
    };
    let limits = ConnectionLimits {
        count_max: settings.max_connections as usize,
        unsent_bytes_max: usize::try_from(settings.max_connection_memory.0).unwrap_or(usize::MAX),
        idle_seconds_max: settings.server_channel_max_idle_time.as_secs(),
    };
    let broker = Broker::new(BrokerParts {
        identity,
        settings: Rc::clone(settings),
        runtime: runtime.clone(),
        shard: Rc::clone(&store.shard),
        topics,
        groups,
        offsets,
        clients: ClientRegistry::new(ClientRegistryLimits::default()),
        metadata,
        connections: Connections::new(limits),
        recovery: RecoverySummary {
            how: store.recovered.how.to_owned(),
            unclean_bytes: store.recovered.unclean_bytes,
        },
    });
    Ok(Rc::new(RefCell::new(broker)))
}

fn parse_with<T, E>(parse: impl Fn(&str) -> Result<T, E>) -> impl Fn(&[u8]) -> Result<T, String>
where
    E: std::fmt::Display,
{
    move |bytes| {
        let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
        parse(text).map_err(|error| error.to_string())
    }
}

/// Binds the client ports; with a port that the kernel gave the identity learns it.
async fn listeners<R: Runtime>(
    runtime: &R,
    start: &ShardStart,
    broker: &Shared<Broker<R>>,
) -> Result<Vec<R::Listener>, ShardError> {
    let mut listeners = Vec::new();
    for port in [start.place.listen_port, start.place.fast_port] {
        // Without a fast port there is no second listener; 0 as the first lets the kernel choose.
        if port == 0 && !listeners.is_empty() {
            continue;
        }
        let address = SocketAddr::new(start.settings.listen_address(), port);
        let bound = connection::listen(runtime, address).await;
        listeners.push(bound.map_err(|error| ShardError(explain_bind(address, &error)))?);
    }
    broker.borrow_mut().set_port(listeners[0].local_address().port());
    Ok(listeners)
}

/// Says why an address can't be listened on, and what to do.
pub fn explain_bind(address: SocketAddr, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "port {} of {} is taken, perhaps by another broker; stop that one, or choose another with --port",
            address.port(),
            address.ip()
        ),
        io::ErrorKind::AddrNotAvailable => {
            format!("{} is no address of this host; give one that is with --ip or --bind", address.ip())
        }
        io::ErrorKind::PermissionDenied => {
            format!("listening on {address} is not permitted; choose a port above 1023 with --port")
        }
        _ => format!("cannot listen on {address}: {error}"),
    }
}

/// Writes metadata files, and wakes the requests that wait for them. The event is set when the writer has stopped.
fn spawn_metadata<R: Runtime>(runtime: &R, broker: &Shared<Broker<R>>) -> Event {
    let stopped = Event::new();
    let writer = Rc::clone(&broker.borrow().metadata.writer);
    let text_of = {
        let broker = Rc::clone(broker);
        move |file: MetadataFile| metadata_text(&broker.borrow(), file)
    };
    let (task_runtime, task_stopped) = (runtime.clone(), stopped.clone());
    let task_writer = Rc::clone(&writer);
    runtime.spawn(async move {
        metadata::run(task_runtime, task_writer, text_of).await;
        task_stopped.set();
    });
    let (durable, broker) = (writer.borrow().durable(), Rc::clone(broker));
    runtime.spawn(async move {
        loop {
            durable.wait().await;
            let broker = broker.borrow();
            for file in [broker.metadata.topics, broker.metadata.groups, broker.metadata.offsets] {
                if let Some(error) = broker.metadata.writer.borrow().failure(file) {
                    crate::log::warn(&format!("{}: {error}; it is tried again", broker.identity.name));
                }
            }
            broker.metadata_durable.wake_all();
        }
    });
    stopped
}

fn metadata_text<R: Runtime>(broker: &Broker<R>, file: MetadataFile) -> Vec<u8> {
    let text = if file == broker.metadata.topics {
        broker.topics.to_text()
    } else if file == broker.metadata.groups {
        broker.groups.to_text()
    } else {
        broker.offsets.to_text()
    };
    text.into_bytes()
}

/// Answers senders and consumers whenever the flush got further.
async fn deliver_loop<R: Runtime>(
    runtime: R,
    broker: Shared<Broker<R>>,
    cold_files: Rc<engine::stages::ColdFiles<R>>,
) {
    let (progress, cold) = {
        let broker = broker.borrow();
        let progress = broker.shard.borrow().progress.clone();
        (progress, broker.cold_work.clone())
    };
    runtime.spawn(cold_loop(Rc::clone(&broker), cold_files, cold));
    let mut was_writable = true;
    loop {
        progress.wait().await;
        let mut broker = broker.borrow_mut();
        broker.deliver();
        send_dirty(&runtime, &mut broker.connections);
        if was_writable && !broker.is_writable() {
            was_writable = false;
            crate::log::warn(&format!("{}: {}", broker.identity.name, broker.fence_remark()));
            broker.on_fenced();
        }
    }
}

/// Starts the tasks of pulls and searches that need bytes from disk.
async fn cold_loop<R: Runtime>(
    broker: Shared<Broker<R>>,
    cold_files: Rc<engine::stages::ColdFiles<R>>,
    wanted: Event,
) {
    loop {
        wanted.wait().await;
        processor::pull::start_cold_pulls(&broker, &cold_files);
        processor::offset::start_searches(&broker, &cold_files);
    }
}

/// Ends what has waited too long: senders, held pulls, and (each second) idle connections and silent clients.
async fn time_loop<R: Runtime>(runtime: R, broker: Shared<Broker<R>>) {
    let mut next_second = runtime.now() + Duration::from_secs(1);
    let changed = broker.borrow().holds_changed.clone();
    loop {
        let now = runtime.now();
        let next = {
            let broker = broker.borrow();
            let shard = broker.shard.borrow();
            let times = [Some(next_second), shard.next_ack_deadline(), shard.holds().next_time()];
            times.into_iter().flatten().min().unwrap_or(next_second)
        };
        // A deadline that is due while nothing can be done about it must not spin.
        let wait = next.saturating_duration_since(now).max(Duration::from_millis(1));
        wait_or_timeout(&runtime, &changed, Some(wait)).await;
        let now = runtime.now();
        let mut broker = broker.borrow_mut();
        broker.shard.borrow_mut().on_hold_time(now);
        if now >= next_second {
            next_second = now + Duration::from_secs(1);
            broker.on_second();
        }
        broker.deliver();
        send_dirty(&runtime, &mut broker.connections);
    }
}

/// Writes the consumer offsets every `flushConsumerOffsetInterval`, when they changed.
async fn offsets_loop<R: Runtime>(runtime: R, broker: Shared<Broker<R>>) {
    let interval = broker.borrow().settings.flush_consumer_offset_interval;
    loop {
        runtime.sleep(interval).await;
        let mut broker = broker.borrow_mut();
        if broker.offsets.take_changed() {
            let file = broker.metadata.offsets;
            broker.metadata.writer.borrow_mut().request(file);
        }
    }
}
