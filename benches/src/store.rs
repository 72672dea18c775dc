//! A store in a directory of its own, on the ring, for the benchmarks that need a shard.
//!
//! ASYNC_FLUSH on the direct backend. Its loops run between the samples, never inside: [`BenchStore::settle`] lets them
//! write everything, so that each sample begins with the same state and what the disk does is in no figure.

use std::{future::Future, path::PathBuf, rc::Rc, time::Duration};

use engine::{
    commit_log::Backend,
    derive::consume_queue::QueueIndex,
    error::StoreError,
    io::{
        Runtime,
        ring::{self, RingOptions, RingRuntime},
    },
    shard::Shard,
    stages::QueueRhythm,
    store::{Store, StoreSettings},
    write::flush::{AsyncFlush, FlushMode},
};

use crate::{
    Problem, Run,
    requests::{QUEUES, Requests, TOPIC},
};

/// A store and the queues that messages go to.
pub struct BenchStore {
    runtime: RingRuntime,
    store: Store<RingRuntime>,
    queues: Vec<QueueIndex>,
}

impl BenchStore {
    /// A new store at `root`.
    ///
    /// # Errors
    /// Why it can't be made there.
    pub async fn open(runtime: &RingRuntime, root: PathBuf) -> Result<BenchStore, Problem> {
        let report = Rc::new(|error: &StoreError| panic!("the store's background work failed: {error}"));
        let opened = Store::open(runtime.clone(), settings(root), &mut |_| (), report).await;
        let store = opened.map_err(|error| error.to_string())?;
        let queues = {
            let mut shard = store.shard.borrow_mut();
            (0..QUEUES).map(|queue_id| shard.queues_mut().open(TOPIC, queue_id)).collect()
        };
        Ok(BenchStore { runtime: runtime.clone(), store, queues })
    }

    /// The shard, for one step.
    pub fn shard(&self) -> std::cell::RefMut<'_, Shard<RingRuntime>> {
        self.store.shard.borrow_mut()
    }

    /// The store.
    pub fn store(&self) -> &Store<RingRuntime> {
        &self.store
    }

    /// The queue of message `number`.
    pub fn queue(&self, number: usize) -> QueueIndex {
        self.queues[Requests::queue_id(number) as usize]
    }

    /// Waits until the log and the queues are written.
    pub async fn settle(&self) {
        loop {
            {
                let mut shard = self.shard();
                shard.confirm();
                shard.dispatch();
                if shard.is_all_written() && shard.queues().behind().entries == 0 {
                    return;
                }
                shard.queue_work.set();
            }
            self.runtime.sleep(SETTLE).await;
        }
    }

    /// Stops it.
    ///
    /// # Errors
    /// When it isn't clean afterwards.
    pub async fn close(self) -> Result<(), Problem> {
        self.store.stop().await.map_err(|error| error.to_string())
    }
}

/// Runs `task` on an executor of its own, with a new directory that is removed afterwards.
///
/// # Errors
/// When there can be no executor or directory, and what `task` says.
pub fn on_ring<Task, Running, Output>(run: &Run, task: Task) -> Result<Output, Problem>
where
    Task: FnOnce(RingRuntime, PathBuf) -> Running + Send + 'static,
    Running: Future<Output = Result<Output, Problem>> + 'static,
    Output: Send + 'static,
{
    let directory = tempfile::Builder::new().prefix("ringmq-bench-").tempdir_in(&run.directory);
    let directory =
        directory.map_err(|error| format!("cannot write to {}: {error}", run.directory.display()))?;
    let root = directory.path().to_path_buf();
    let options = RingOptions {
        name: "bench".to_owned(),
        core: run.core,
        helper_cores: Vec::new(),
        buffer_bytes: TAIL_CACHE_BYTES + BUFFER_BYTES_EXTRA,
        spin_before_park: Duration::ZERO,
    };
    let thread = ring::start(options, move |runtime| task(runtime, root))
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    match thread.join() {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => Err(format!("io_uring cannot be used here: {error}; `ringmq doctor` tells why")),
        Err(_) => Err("the benchmark's thread ended by a panic".to_owned()),
    }
}

fn settings(root: PathBuf) -> StoreSettings {
    StoreSettings {
        root,
        backend: Backend::Direct,
        flush: FlushMode::Async(AsyncFlush {
            interval: Duration::from_millis(500),
            least_pages: 4,
            thorough_interval: Duration::from_secs(10),
        }),
        segment_bytes: SEGMENT_BYTES,
        queue_file_bytes: 6_000_000,
        is_prepared: false,
        message_bytes_max: 4 << 20,
        sync_flush_timeout: Duration::from_millis(2_500),
        tail_cache_bytes: TAIL_CACHE_BYTES,
        read_cache_bytes: 4 << 20,
        queue_rhythm: QueueRhythm {
            interval: Duration::from_secs(1),
            thorough_interval: Duration::from_secs(60),
        },
    }
}

/// How often a settling store is looked at.
const SETTLE: Duration = Duration::from_micros(100);
/// Larger than twice what a benchmark appends, so that none meets the end of a file.
const SEGMENT_BYTES: u64 = 256 << 20;
/// Small, so that it is full, and the oldest goes when something comes, before the warm-up ends.
const TAIL_CACHE_BYTES: usize = 2 << 20;
const BUFFER_BYTES_EXTRA: usize = 16 << 20;
