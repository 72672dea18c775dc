//! The engine's side: a store with SYNC_FLUSH on its own executor, measured when asked.
//!
//! Between measurements its thread is blocked, so that nothing of it disturbs the others. Its segment is larger than twice
//! what all measurements write and is wholly prepared before the first, as a store is that has run for a while.

use std::{
    path::{Path, PathBuf},
    rc::Rc,
    sync::mpsc::{self, Receiver, Sender},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use engine::{
    commit_log::{Backend, record::Message},
    derive::consume_queue::QueueIndex,
    error::StoreError,
    io::{
        BLOCK_BYTES, Runtime,
        ring::{self, RingOptions, RingRuntime},
    },
    offset::LogOffset,
    shard::Shard,
    stages::{QueueRhythm, SharedShard},
    store::{Store, StoreSettings},
    write::flush::FlushMode,
};

use super::{BODY_BYTES, Load, Measured, Plan, Problem};

/// A store on a thread of its own.
pub struct Engine {
    orders: Sender<Load>,
    results: Receiver<Result<Measured, Problem>>,
    thread: JoinHandle<std::io::Result<Result<(), Problem>>>,
}

impl Engine {
    /// Opens a store at `root` and waits until it is prepared.
    pub fn start(root: &Path, plan: Plan) -> Result<Engine, Problem> {
        let (orders, ordered) = mpsc::channel();
        let (results_in, results) = mpsc::channel();
        let options = RingOptions {
            name: "engine".to_owned(),
            core: plan.core,
            helper_cores: Vec::new(),
            buffer_bytes: RING_BYTES,
            spin_before_park: Duration::ZERO,
        };
        let settings = settings(root.to_path_buf(), plan);
        let task =
            move |runtime: RingRuntime| async move { serve(runtime, settings, ordered, results_in).await };
        let thread = ring::start(options, task).map_err(|error| format!("cannot start a thread: {error}"))?;
        let engine = Engine { orders, results, thread };
        // The first result says that it is prepared.
        match engine.results.recv() {
            Ok(Ok(_)) => Ok(engine),
            Ok(Err(problem)) => Err(problem),
            Err(_) => Err(engine.stop().err().unwrap_or_else(|| "the store's thread ended".to_owned())),
        }
    }

    /// One measurement.
    pub fn measure(&self, load: Load) -> Result<Measured, Problem> {
        let gone = |_| "the store's thread ended".to_owned();
        self.orders.send(load).map_err(|_| "the store's thread ended".to_owned())?;
        self.results.recv().map_err(gone)?
    }

    /// Stops the store.
    pub fn stop(self) -> Result<(), Problem> {
        drop(self.orders);
        match self.thread.join() {
            Ok(Ok(stopped)) => stopped,
            Ok(Err(error)) => {
                Err(format!("io_uring cannot be used here: {error}; `ringmq doctor` tells why"))
            }
            Err(_) => Err("the store's thread ended by a panic".to_owned()),
        }
    }
}

async fn serve(
    runtime: RingRuntime,
    settings: StoreSettings,
    orders: Receiver<Load>,
    results: Sender<Result<Measured, Problem>>,
) -> Result<(), Problem> {
    let report = Rc::new(|error: &StoreError| panic!("the store's background work failed: {error}"));
    let store = Store::open(runtime.clone(), settings, &mut |_| (), report)
        .await
        .map_err(|error| error.to_string())?;
    let queue = store.shard.borrow_mut().queues_mut().open(TOPIC, 0);
    wait_until_quiet(&runtime).await?;
    let mut outcome = Ok(Measured { per_second: 0.0, median: Duration::ZERO });
    // Whoever doesn't listen any more orders nothing either.
    while results.send(outcome).is_ok() {
        let Ok(load) = orders.recv() else { break };
        outcome = measure(&runtime, &store.shard, queue, load).await;
    }
    store.stop().await.map_err(|error| error.to_string())
}

/// Waits until the segment's preparation has ended: until the process writes nothing for a while.
async fn wait_until_quiet(runtime: &RingRuntime) -> Result<(), Problem> {
    let mut last = None;
    loop {
        runtime.sleep(QUIET).await;
        let io = std::fs::read_to_string("/proc/self/io")
            .map_err(|error| format!("cannot read /proc: {error}"))?;
        let written = io.lines().find(|line| line.starts_with("write_bytes")).map(str::to_owned);
        if written == last {
            return Ok(());
        }
        last = written;
    }
}

async fn measure(
    runtime: &RingRuntime,
    shard: &SharedShard<RingRuntime>,
    queue: QueueIndex,
    load: Load,
) -> Result<Measured, Problem> {
    let body = vec![0x5A; BODY_BYTES];
    let message = message(&body);
    let bytes_end = shard.borrow().log().end().plus(load.bytes_max);
    let progress = shard.borrow().progress.clone();
    let until = Instant::now() + load.at_most;
    let mut took = Vec::new();
    while Instant::now() < until && shard.borrow().log().end() < bytes_end {
        let begun = Instant::now();
        let end = append(&mut shard.borrow_mut(), queue, &message, load.group, runtime.wall_clock_ms())?;
        while !is_confirmed(&mut shard.borrow_mut(), end)? {
            progress.wait().await;
        }
        took.push(begun.elapsed());
    }
    Ok(Measured::of(took))
}

fn append(
    shard: &mut Shard<RingRuntime>,
    queue: QueueIndex,
    message: &Message<'_>,
    group: usize,
    now_ms: i64,
) -> Result<LogOffset, Problem> {
    for _ in 0..group {
        shard
            .append(queue, message, now_ms)
            .map_err(|error| format!("nothing can be appended: {error:?}"))?;
    }
    Ok(shard.log().end())
}

/// As the broker does after each group: confirms, and dispatches what is confirmed.
fn is_confirmed(shard: &mut Shard<RingRuntime>, end: LogOffset) -> Result<bool, Problem> {
    if let Some(fence) = shard.fence() {
        return Err(format!("the disk failed: {}", fence.text));
    }
    shard.confirm();
    shard.dispatch();
    Ok(shard.confirmed_end() >= end)
}

/// What is appended.
fn message(body: &[u8]) -> Message<'_> {
    Message {
        topic: TOPIC,
        queue_id: 0,
        flag: 0,
        sys_flag: 0,
        born_timestamp_ms: 0,
        born_host: ([127, 0, 0, 1], 50_000).into(),
        store_host: ([127, 0, 0, 1], 10_911).into(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties: "",
    }
}

/// Length of each record.
pub fn record_bytes() -> usize {
    message(&[0; BODY_BYTES]).record_bytes()
}

fn settings(root: PathBuf, plan: Plan) -> StoreSettings {
    StoreSettings {
        root,
        backend: Backend::Direct,
        flush: FlushMode::Sync(plan.method),
        segment_bytes: (2 * plan.bytes_max + SPARE_BYTES).next_multiple_of(BLOCK_BYTES as u64),
        queue_file_bytes: 6_000_000,
        is_prepared: true,
        message_bytes_max: 1 << 20,
        sync_flush_timeout: Duration::from_secs(60),
        tail_cache_bytes: TAIL_CACHE_BYTES,
        read_cache_bytes: 1 << 20,
        queue_rhythm: QueueRhythm {
            interval: Duration::from_secs(1),
            thorough_interval: Duration::from_secs(60),
        },
    }
}

/// So that the segment isn't half full at the end, which is when the next one is made.
const SPARE_BYTES: u64 = 1 << 20;
const TOPIC: &str = "SyncFloor";
const TAIL_CACHE_BYTES: usize = 8 << 20;
const RING_BYTES: usize = TAIL_CACHE_BYTES + (16 << 20);
const QUIET: Duration = Duration::from_millis(400);
