//! The short loops that await the disk between two steps of the shard.
//!
//! Each loop owns the fate of its operations: nobody cancels it, and an outcome is told to the shard exactly once.
//! A loop ends when the shard stops and nothing is left for it to do.

use std::{cell::RefCell, io, path::PathBuf, rc::Rc, time::Duration};

use crate::{
    commit_log::{
        Backend, WritePlan, file_name,
        segment::{Fill, FillStep, Segment},
    },
    derive::consume_queue::{FileTable, perform_cold, perform_persist, perform_sync},
    error::StoreError,
    io::{Access, Buffer, File, Runtime, Space},
    limits::FILL_BYTES,
    offset::LogOffset,
    shard::{Cold, Shard},
};

/// A shard as its loops and its server share it. Borrowed for one step at a time, never over an await.
pub type SharedShard<R> = Rc<RefCell<Shard<R>>>;

/// Writes a direct log: one write at a time, whatever waits next as soon as the previous is done.
pub async fn write_loop<R: Runtime>(runtime: R, shard: SharedShard<R>) {
    loop {
        let linger = shard.borrow().write_linger();
        if let Some(linger) = linger {
            runtime.sleep(linger).await;
        }
        let plan = {
            let mut shard = shard.borrow_mut();
            shard.note_durable_time();
            shard.log_mut().next_write()
        };
        let Some(plan) = plan else {
            // What waits for the preparation of its place is still written; nothing is any more in a fenced log.
            let is_over = shard.borrow().is_all_written() || shard.borrow().fence().is_some();
            if shard.borrow().is_stopping() && is_over {
                return;
            }
            let work = shard.borrow().work.clone();
            work.wait().await;
            continue;
        };
        let begun = runtime.now();
        let outcome = write_all(&runtime, &plan).await;
        let took = runtime.now().saturating_duration_since(begun);
        let mut shard = shard.borrow_mut();
        match outcome {
            Ok(()) => {
                let (log, flush) = shard.log_and_flush();
                let end = log.on_written(plan.end);
                flush.on_written(end, took);
                let flushed_end = flush.flushed_end();
                log.on_flushed(flushed_end);
            }
            Err(error) => shard.flush_mut().on_write_failed(&error),
        }
        shard.note_durable_time();
        shard.sync_work.set();
        shard.progress.set();
        shard.room.wake_all();
        if shard.fence().is_some() {
            return;
        }
    }
}

/// Writes all of a plan; a short write is gone on from.
async fn write_all<R: Runtime>(runtime: &R, plan: &WritePlan<R>) -> io::Result<()> {
    let len = plan.buffer.bytes().len();
    let mut written = plan.file.write_buffer(Rc::clone(&plan.buffer), plan.position).await?;
    while written < len {
        // From the last whole block on: a direct write begins on one.
        let from = written / crate::io::BLOCK_BYTES * crate::io::BLOCK_BYTES;
        let mut rest = runtime.allocate(len - from);
        rest.bytes_mut().copy_from_slice(&plan.buffer.bytes()[from..]);
        let more = plan.file.write_buffer(Rc::new(rest), plan.position + from as u64).await?;
        if from + more <= written {
            return Err(io::Error::new(io::ErrorKind::WriteZero, "the disk takes no more bytes"));
        }
        written = from + more;
    }
    Ok(())
}

/// Syncs the log whenever the flush wants it.
pub async fn sync_loop<R: Runtime>(runtime: R, shard: SharedShard<R>) {
    loop {
        let plan = {
            let mut shard = shard.borrow_mut();
            shard.note_durable_time();
            let now = runtime.now();
            let is_stopping = shard.is_stopping();
            let (log, flush) = shard.log_and_flush();
            let end = if is_stopping { flush.begin_last_sync(now) } else { flush.begin_sync(now) };
            end.map(|end| (log.files_between(flush.flushed_end(), end), end))
        };
        let Some((files, end)) = plan else {
            let (event, wait) = {
                let shard = shard.borrow();
                let everything = shard.flushed_end() == shard.log().end();
                if shard.fence().is_some() || (shard.is_stopping() && everything) {
                    return;
                }
                (shard.sync_work.clone(), shard.next_flush_deadline(runtime.now()))
            };
            wait_or_timeout(&runtime, &event, wait).await;
            continue;
        };
        let outcome = sync_all(&files).await;
        let mut shard = shard.borrow_mut();
        match outcome {
            Ok(()) => {
                let (log, flush) = shard.log_and_flush();
                flush.on_synced(end, runtime.now());
                log.on_flushed(flush.flushed_end());
            }
            Err(error) => shard.flush_mut().on_sync_failed(&error),
        }
        shard.note_durable_time();
        shard.work.set();
        shard.progress.set();
    }
}

async fn sync_all<F: File>(files: &[Rc<F>]) -> io::Result<()> {
    for file in files {
        file.sync_data().await?;
    }
    Ok(())
}

/// How the log's next files are made.
#[derive(Clone, Debug)]
pub struct FileMaking {
    /// Where the log's files are.
    pub commit_log_directory: PathBuf,
    /// A directory on the same file system for files that aren't ready.
    pub staging_directory: PathBuf,
    /// How the log is written.
    pub backend: Backend,
    /// How a direct log's files are opened.
    pub access: Access,
    /// Whether files are zeroed ahead of the writer.
    pub is_prepared: bool,
}

/// Creates the file that begins at `base`, durable under its name before anything is appended to it, and opens it.
///
/// # Errors
/// When the disk is full or refuses.
pub async fn create_segment<R: Runtime>(
    runtime: &R,
    making: &FileMaking,
    base: LogOffset,
    segment_bytes: u64,
) -> io::Result<Segment<R>> {
    let staged = making.staging_directory.join(format!("segment-{}", file_name(base)));
    let target = making.commit_log_directory.join(file_name(base));
    match runtime.remove(&staged).await {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    runtime.create(&staged, segment_bytes, Space::Allocated).await?;
    runtime.rename(&staged, &target).await?;
    runtime.sync_directory(&making.commit_log_directory).await?;
    open_segment(runtime, making, base, if making.is_prepared { Fill::default() } else { Fill::none() }).await
}

/// Opens the existing file that begins at `base` for writing.
///
/// # Errors
/// When it cannot be opened or mapped.
pub async fn open_segment<R: Runtime>(
    runtime: &R,
    making: &FileMaking,
    base: LogOffset,
    fill: Fill,
) -> io::Result<Segment<R>> {
    let path = making.commit_log_directory.join(file_name(base));
    let (access, mapping) = match making.backend {
        Backend::Direct => (making.access, None),
        Backend::Mapped => (Access::Buffered, Some(runtime.map(&path).await?)),
    };
    let file = Rc::new(runtime.open(&path, access).await?);
    Ok(Segment { base, file, mapping, fill })
}

/// Makes the next file in time and prepares files ahead of the writer, at a share of the device.
pub async fn file_loop<R: Runtime>(runtime: R, shard: SharedShard<R>, making: FileMaking) {
    loop {
        if shard.borrow().is_stopping() || shard.borrow().fence().is_some() {
            return;
        }
        let wanted = shard.borrow().log().wanted_file();
        if let Some(base) = wanted {
            let segment_bytes = shard.borrow().log().segment_bytes();
            match create_segment(&runtime, &making, base, segment_bytes).await {
                Ok(segment) => {
                    let mut shard = shard.borrow_mut();
                    shard.log_mut().add_file(segment);
                    shard.set_file_error(None);
                    shard.room.wake_all();
                }
                Err(error) => {
                    // The disk may have room again: the next attempt tells.
                    shard.borrow_mut().set_file_error(Some(error));
                    runtime.sleep(CREATE_RETRY).await;
                }
            }
            continue;
        }
        let step = shard.borrow_mut().log_mut().next_fill();
        let Some((base, step)) = step else {
            let files = shard.borrow().files.clone();
            files.wait().await;
            continue;
        };
        let begun = runtime.now();
        let appended_before = shard.borrow().counters().appended_messages;
        let is_sync = matches!(step, FillStep::Sync { .. });
        let outcome = perform_fill(&runtime, making.backend, step).await;
        {
            let mut shard = shard.borrow_mut();
            shard.log_mut().on_filled(base, outcome.is_ok());
            if let (true, Err(error)) = (is_sync, &outcome) {
                shard.flush_mut().on_other_sync_failed(error);
                shard.sync_work.set();
                shard.progress.set();
            }
            // A write or an append may have waited for the range.
            shard.work.set();
            shard.room.wake_all();
        }
        let took = runtime.now().saturating_duration_since(begun);
        let rest = {
            let shard = shard.borrow();
            if shard.counters().appended_messages == appended_before {
                FILL_REST_IDLE
            } else if shard.log().prepared_lead() < FILL_LEAD_BYTES {
                took * FILL_YIELD_NEAR
            } else {
                took * FILL_YIELD_FAR
            }
        };
        runtime.sleep(rest).await;
    }
}

/// How long preparation rests after a step while nothing is appended.
const FILL_REST_IDLE: Duration = Duration::from_micros(100);
/// While messages are appended preparation rests so many times as long as its last step took: it takes a quarter of the
/// device when the writer is near, and next to nothing when there is a lead that lasts.
const FILL_YIELD_NEAR: u32 = 3;
const FILL_YIELD_FAR: u32 = 40;
/// A lead of the preparation that lasts.
const FILL_LEAD_BYTES: u64 = 32 * 1024 * 1024;
/// How long after a failure the next file is tried again.
const CREATE_RETRY: Duration = Duration::from_secs(1);

async fn perform_fill<R: Runtime>(runtime: &R, backend: Backend, step: FillStep<R>) -> io::Result<()> {
    match step {
        FillStep::Sync { file } => file.sync_data().await,
        FillStep::Zero { file, position, len } => match backend {
            Backend::Mapped => file.write_bytes(vec![0; len], position).await,
            Backend::Direct => {
                assert!(len <= FILL_BYTES, "a step is bounded");
                let mut zeros = runtime.allocate(len);
                zeros.bytes_mut().fill(0);
                let written = file.write_buffer(Rc::new(zeros), position).await?;
                if written == len { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
            }
        },
    }
}

/// Waits for `event`, but not longer than `timeout`.
pub async fn wait_or_timeout<R: Runtime>(
    runtime: &R,
    event: &crate::io::event::Event,
    timeout: Option<Duration>,
) {
    match timeout {
        None => event.wait().await,
        Some(timeout) => crate::io::event::first(event.wait(), runtime.sleep(timeout)).await,
    }
}

/// The open files that old messages are read from. The log's are opened as the log is written: never two ways at once.
pub struct ColdFiles<R: Runtime> {
    /// Consume-queue files, shared with the loop that writes them.
    pub queues: Rc<FileTable<R>>,
    /// Commit-log files.
    pub log: FileTable<R>,
}

/// Reads what a pull or search needs into the shard's caches.
///
/// # Errors
/// When the disk refuses, or what it gives isn't what was written.
pub async fn read_cold<R: Runtime>(
    runtime: &R,
    shard: &SharedShard<R>,
    files: &ColdFiles<R>,
    cold: &Cold,
) -> Result<(), StoreError> {
    match cold {
        Cold::Queue(read) => {
            let bytes = perform_cold(runtime, &files.queues, read).await?;
            shard.borrow_mut().queues_mut().on_cold_loaded(read, &bytes)
        }
        Cold::Log(start) => {
            let (reads, directory, segment_bytes) = {
                let shard = shard.borrow();
                let (written_end, segment_bytes) = (shard.written_end(), shard.log().segment_bytes());
                let reads = shard.cold().plan(*start, written_end);
                (reads, shard.settings().root.join("commitlog"), segment_bytes)
            };
            for read in reads {
                let base = LogOffset::new(read.start.get() / segment_bytes * segment_bytes);
                let path = directory.join(file_name(base));
                let file = files.log.open(runtime, &path).await?;
                let bytes = file
                    .read(read.start.since(base), read.len)
                    .await
                    .map_err(StoreError::io("reading old messages", &path))?;
                shard.borrow_mut().cold_mut().on_read(read.start, bytes);
            }
            Ok(())
        }
    }
}

/// How often consume queues are written and synced.
#[derive(Clone, Copy, Debug)]
pub struct QueueRhythm {
    /// `flushIntervalConsumeQueue`: how often entries are written.
    pub interval: Duration,
    /// `flushConsumeQueueThoroughInterval`: how often they are synced.
    pub thorough_interval: Duration,
}

/// Bytes of one step of writing consume queues.
const PERSIST_BYTES_MAX: usize = 1024 * 1024;

/// Writes and syncs the consume queues, off every path that somebody waits for.
/// `report` hears of what failed; it is tried again.
pub async fn queue_loop<R: Runtime>(
    runtime: R,
    shard: SharedShard<R>,
    files: Rc<FileTable<R>>,
    rhythm: QueueRhythm,
    report: impl Fn(&StoreError),
) {
    let mut last_sync = runtime.now();
    // A sync that failed is final for this run: nothing becomes durable any more.
    let mut is_sync_failed = false;
    loop {
        let is_stopping = shard.borrow().is_stopping();
        let persisted = persist_queues(&runtime, &shard, &files).await;
        let is_due = runtime.now().saturating_duration_since(last_sync) >= rhythm.thorough_interval;
        let synced = match persisted {
            Ok(()) if is_due || is_stopping => {
                last_sync = runtime.now();
                let synced = sync_queues(&runtime, &shard, &files).await;
                is_sync_failed |= synced.is_err();
                synced
            }
            other => other,
        };
        if let Err(error) = &synced {
            report(error);
        }
        if is_stopping && (synced.is_err() || is_sync_failed || is_queue_work_done(&shard.borrow())) {
            return;
        }
        // Dispatch may have waited for room in the queues' memory.
        shard.borrow().progress.set();
        let wake = shard.borrow().queue_work.clone();
        let patience = if is_stopping { STOP_INTERVAL } else { rhythm.interval };
        wait_or_timeout(&runtime, &wake, Some(patience)).await;
    }
}

/// How often a stop looks whether the last messages have been confirmed and dispatched.
const STOP_INTERVAL: Duration = Duration::from_millis(1);

/// Whether a stop needs no more of the queues: they have every message, or all that a fenced log will confirm.
fn is_queue_work_done<R: Runtime>(shard: &Shard<R>) -> bool {
    shard.is_dispatched_and_durable() || (shard.fence().is_some() && shard.queues().is_durable())
}

async fn persist_queues<R: Runtime>(
    runtime: &R,
    shard: &SharedShard<R>,
    files: &FileTable<R>,
) -> Result<(), StoreError> {
    loop {
        let plan = shard.borrow_mut().queues_mut().begin_persist(PERSIST_BYTES_MAX);
        let Some(plan) = plan else { return Ok(()) };
        let outcome = perform_persist(runtime, files, plan).await;
        shard.borrow_mut().queues_mut().complete_persist(outcome)?;
    }
}

async fn sync_queues<R: Runtime>(
    runtime: &R,
    shard: &SharedShard<R>,
    files: &FileTable<R>,
) -> Result<(), StoreError> {
    let plan = shard.borrow_mut().queues_mut().begin_sync();
    let Some(plan) = plan else { return Ok(()) };
    let outcome = perform_sync(runtime, files, plan).await;
    shard.borrow_mut().queues_mut().complete_sync(outcome)
}
