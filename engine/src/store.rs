//! A store, opened and running: the shard, its loops, and the order in which they start and stop.
//!
//! Start: lock, recovery, `abort`, the segment that the log goes on in, the loops. Stop: everything appended is written
//! and synced, every message is in its queue and the queues are durable, the checkpoint says so, the unused next
//! segment goes, `abort` goes last, then the lock. RocketMQ's order, except that the lock comes first.

use std::{cell::RefCell, path::PathBuf, rc::Rc, time::Duration};

use crate::{
    commit_log::{Backend, CommitLog, file_name, segment::Fill},
    derive::consume_queue::FileTable,
    error::StoreError,
    io::{Access, BLOCK_BYTES, File, Runtime},
    offset::LogOffset,
    read::cold::ColdCache,
    recover::{self, Recovered, abort, checkpoint::Checkpoint},
    shard::{Shard, ShardParts, ShardSettings},
    stages::{
        ColdFiles, FileMaking, QueueRhythm, SharedShard, create_segment, file_loop, open_segment, queue_loop,
        sync_loop, write_loop,
    },
    tasks::Tasks,
    write::flush::{Flush, FlushMode, SyncMethod},
};

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// `storePathRootDir` of this shard.
    pub root: PathBuf,
    /// How the log is written.
    pub backend: Backend,
    /// What a sender is promised, and how it is kept.
    pub flush: FlushMode,
    /// `mappedFileSizeCommitLog`; an existing store's size wins.
    pub segment_bytes: u64,
    /// `mappedFileSizeConsumeQueue`.
    pub queue_file_bytes: u64,
    /// Whether segments are zeroed ahead of the writer.
    pub is_prepared: bool,
    /// `maxMessageSize`.
    pub message_bytes_max: usize,
    /// `syncFlushTimeout`.
    pub sync_flush_timeout: Duration,
    /// Memory for the newest part of the log.
    pub tail_cache_bytes: usize,
    /// Memory for older parts of the log.
    pub read_cache_bytes: usize,
    /// How often consume queues are written.
    pub queue_rhythm: QueueRhythm,
}

/// Commit-log files kept open for reading; consume-queue files kept open.
const LOG_FILES_MAX: usize = 16;
const QUEUE_FILES_MAX: usize = 256;
/// How often the checkpoint is written while something happens (RocketMQ: 1 s).
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(1);

/// See the module.
pub struct Store<R: Runtime> {
    runtime: R,
    settings: StoreSettings,
    making: FileMaking,
    /// The shard.
    pub shard: SharedShard<R>,
    /// Where old messages are read from.
    pub cold_files: Rc<ColdFiles<R>>,
    /// The checkpoint as recovery left it.
    opened_with: Checkpoint,
    /// What recovery found and did.
    pub recovered: Recovered,
    lock: R::Lock,
    loops: Tasks<R>,
    log_errors: Rc<dyn Fn(&StoreError)>,
}

impl<R: Runtime> Store<R> {
    /// Opens the store and starts its loops. `progress` hears how far recovery is, `log_errors` what fails later.
    ///
    /// # Errors
    /// Why the store can't be opened; nothing was changed unless the message says so.
    pub async fn open(
        runtime: R,
        mut settings: StoreSettings,
        progress: &mut dyn FnMut(recover::Progress),
        log_errors: Rc<dyn Fn(&StoreError)>,
    ) -> Result<Store<R>, StoreError> {
        let opened = recover::open_store(
            &runtime,
            &settings.root,
            settings.segment_bytes,
            settings.queue_file_bytes,
            progress,
        )
        .await?;
        settings.segment_bytes = opened.recovered.store_segment_bytes;
        if settings.backend == Backend::Mapped && settings.flush == FlushMode::Sync(SyncMethod::Dsync) {
            // A mapped file has no writes of its own that could be synchronous.
            settings.flush = FlushMode::Sync(SyncMethod::Fdatasync);
        }
        let making = FileMaking {
            commit_log_directory: settings.root.join("commitlog"),
            staging_directory: settings.root.join("ringmq"),
            backend: settings.backend,
            access: match settings.flush {
                FlushMode::Sync(SyncMethod::Dsync) => Access::DirectSync,
                _ => Access::Direct,
            },
            is_prepared: settings.is_prepared,
        };
        let log = open_log(&runtime, &settings, &making, &opened.recovered).await?;
        let end = log.end();
        let shard = Shard::new(
            ShardSettings {
                root: settings.root.clone(),
                sync_flush_timeout: settings.sync_flush_timeout,
                message_bytes_max: settings.message_bytes_max,
            },
            ShardParts {
                log,
                flush: Flush::new(settings.flush, end, runtime.now()),
                queues: opened.queues,
                log_min: opened.recovered.log_min,
                last_store_timestamp_ms: opened.recovered.last_store_timestamp_ms,
                cold: ColdCache::new(settings.read_cache_bytes, settings.segment_bytes),
            },
        );
        let read_access = match settings.backend {
            Backend::Direct => Access::Direct,
            Backend::Mapped => Access::Buffered,
        };
        let cold_files = Rc::new(ColdFiles {
            queues: Rc::new(FileTable::new(QUEUE_FILES_MAX)),
            log: FileTable::with_access(LOG_FILES_MAX, read_access),
        });
        let store = Store {
            loops: Tasks::new(runtime.clone()),
            runtime,
            settings,
            making,
            shard: Rc::new(RefCell::new(shard)),
            cold_files,
            opened_with: opened.checkpoint,
            recovered: opened.recovered,
            lock: opened.lock,
            log_errors,
        };
        store.start();
        Ok(store)
    }

    /// The settings in force: an existing store's may have won.
    pub fn settings(&self) -> &StoreSettings {
        &self.settings
    }

    fn start(&self) {
        let (runtime, shard) = (&self.runtime, &self.shard);
        if self.settings.backend == Backend::Direct {
            self.loops.spawn(write_loop(runtime.clone(), Rc::clone(shard)));
        }
        self.loops.spawn(sync_loop(runtime.clone(), Rc::clone(shard)));
        self.loops.spawn(file_loop(runtime.clone(), Rc::clone(shard), self.making.clone()));
        let report = Rc::clone(&self.log_errors);
        self.loops.spawn(queue_loop(
            runtime.clone(),
            Rc::clone(shard),
            Rc::clone(&self.cold_files.queues),
            self.settings.queue_rhythm,
            move |error| report(error),
        ));
        let (root, report) = (self.settings.root.clone(), Rc::clone(&self.log_errors));
        self.loops.spawn(checkpoint_loop(runtime.clone(), Rc::clone(shard), root, self.opened_with, report));
    }

    /// Stops: when this returns well the store is clean, and the next start finds nothing to recover.
    ///
    /// # Errors
    /// Why it isn't clean; then `abort` stays, and the next start recovers.
    pub async fn stop(self) -> Result<(), StoreError> {
        self.shard.borrow_mut().stop();
        // What the last group confirmed is dispatched by whoever delivers; here nobody does any more.
        loop {
            {
                let mut shard = self.shard.borrow_mut();
                shard.confirm();
                shard.dispatch();
                shard.queue_work.set();
            }
            if self.loops.running() == 0 {
                break;
            }
            self.loops.one_ended_or(Duration::from_millis(1)).await;
        }
        let (is_clean, unused, checkpoint) = {
            let shard = self.shard.borrow();
            let is_flushed = shard.flushed_end() == shard.log().end();
            let is_clean = is_flushed && shard.is_dispatched_and_durable() && shard.fence().is_none();
            (is_clean, shard.log().unused_file(), checkpoint_of(&shard, &self.opened_with))
        };
        checkpoint.store(&self.runtime, &self.settings.root).await?;
        if !is_clean {
            return Err(StoreError::NotClean { root: self.settings.root.clone() });
        }
        if let Some(base) = unused {
            let path = self.making.commit_log_directory.join(file_name(base));
            self.runtime.remove(&path).await.map_err(StoreError::io("removing an unused segment", &path))?;
            let directory = &self.making.commit_log_directory;
            self.runtime.sync_directory(directory).await.map_err(StoreError::io("syncing", directory))?;
        }
        abort::remove(&self.runtime, &self.settings.root).await?;
        drop(self.lock);
        Ok(())
    }
}

/// The log, positioned at its end, in a segment that exists.
async fn open_log<R: Runtime>(
    runtime: &R,
    settings: &StoreSettings,
    making: &FileMaking,
    recovered: &Recovered,
) -> Result<CommitLog<R>, StoreError> {
    let segment_bytes = settings.segment_bytes;
    let end = recovered.log_end;
    let base = LogOffset::new(end.get() / segment_bytes * segment_bytes);
    let path = making.commit_log_directory.join(file_name(base));
    let exists = recovered.segments.iter().any(|segment| segment.base == base);
    let segment = if exists {
        // What an earlier run prepared isn't known: blocks behind the end are zero, perhaps not yet written.
        let fill = if settings.is_prepared { Fill::from(end.since(base)) } else { Fill::none() };
        open_segment(runtime, making, base, fill).await
    } else {
        create_segment(runtime, making, base, segment_bytes).await
    };
    let segment = segment.map_err(StoreError::io("opening the current segment", &path))?;
    let inside = end.since(base) % BLOCK_BYTES as u64;
    let block_start = if inside > 0 && settings.backend == Backend::Direct {
        let len = usize::try_from(inside).expect("less than a block");
        let from = end.since(base) - inside;
        let bytes = segment.file.read(from, len).await;
        bytes.map_err(StoreError::io("reading the end of the log", &path))?
    } else {
        Vec::new()
    };
    Ok(CommitLog::new(runtime.clone(), segment_bytes, segment, end, &block_start, settings.tail_cache_bytes))
}

/// What may be promised about durability at this moment.
fn checkpoint_of<R: Runtime>(shard: &Shard<R>, opened_with: &Checkpoint) -> Checkpoint {
    Checkpoint {
        physic_msg_timestamp_ms: shard.durable_timestamp_ms(),
        logics_msg_timestamp_ms: shard.queues().durable_timestamp_ms(),
        // RocketMQ's other fields stay as they were found.
        ..*opened_with
    }
}

/// Writes the checkpoint when it has moved. It may lag, never run ahead: recovery only begins earlier then.
async fn checkpoint_loop<R: Runtime>(
    runtime: R,
    shard: SharedShard<R>,
    root: PathBuf,
    opened_with: Checkpoint,
    report: Rc<dyn Fn(&StoreError)>,
) {
    let mut last = None;
    loop {
        if shard.borrow().is_stopping() {
            return;
        }
        let stopping = shard.borrow().checkpoint_work.clone();
        crate::stages::wait_or_timeout(&runtime, &stopping, Some(CHECKPOINT_INTERVAL)).await;
        let checkpoint = checkpoint_of(&shard.borrow(), &opened_with);
        if last.as_ref() == Some(&checkpoint) {
            continue;
        }
        match checkpoint.store(&runtime, &root).await {
            Ok(()) => last = Some(checkpoint),
            Err(error) => report(&error),
        }
    }
}
