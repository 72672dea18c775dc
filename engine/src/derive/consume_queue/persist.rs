//! Writing entries behind dispatch, and syncing them now and then.
//!
//! ```text
//! begin_persist -> perform_persist -> complete_persist    often: bytes reach the files
//! begin_sync    -> perform_sync    -> complete_sync       each minute and at a clean stop: files reach the disk
//! ```
//!
//! Nothing waits for either. What can't be written (disk full) stays in memory and comes again in the next
//! plan. A store time counts as durable only when every entry of messages up to it was written *and then*
//! synced; a failed sync ends that for this run, because the kernel may have dropped the pages.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{ConsumeQueues, ENTRY_BYTES, Entry, FileTable, QueueIndex};
use crate::{
    error::StoreError,
    io::{Access, File, Runtime, Space},
    metadata::sync_parent,
};

/// Pre-filled holes are written in pieces of this many entries.
const HOLE_ENTRIES_MAX: u64 = 50_000;

/// What to write, in order. See [`ConsumeQueues::begin_persist`].
#[derive(Debug)]
pub struct PersistPlan {
    writes: Vec<QueueWrite>,
    /// Set when nothing is left unwritten after this plan: the store time that it then covers.
    covers_timestamp_ms: Option<i64>,
}

/// Entries of one queue that go into one file.
#[derive(Debug)]
struct QueueWrite {
    queue: QueueIndex,
    /// Number behind the last entry written.
    end: u64,
    path: PathBuf,
    position: u64,
    bytes: Vec<u8>,
    remove: Vec<PathBuf>,
    create: Option<NewFile>,
}

/// How the file of a [`QueueWrite`] is made.
#[derive(Debug)]
struct NewFile {
    temporary: PathBuf,
    len: u64,
    /// Slots before the queue's first entry, in a file that doesn't begin with it.
    hole_count: u64,
    /// Number behind its last slot.
    end: u64,
}

impl PersistPlan {
    /// Bytes of entries in it.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.writes.iter().map(|write| write.bytes.len() as u64).sum()
    }
}

/// What became of a [`PersistPlan`].
#[derive(Debug)]
pub struct PersistOutcome {
    plan: PersistPlan,
    /// How many of its writes have their file.
    created_count: usize,
    /// How many of its writes were done.
    written_count: usize,
    error: Option<StoreError>,
}

/// Which files to sync. See [`ConsumeQueues::begin_sync`].
#[derive(Debug)]
pub struct SyncPlan {
    paths: Vec<PathBuf>,
    /// Up to where each queue is covered.
    ends: Vec<(QueueIndex, u64)>,
    timestamp_ms: i64,
}

/// What became of a [`SyncPlan`].
#[derive(Debug)]
pub struct SyncOutcome {
    plan: SyncPlan,
    result: Result<(), StoreError>,
}

impl ConsumeQueues {
    /// What to write next, about `bytes_max` at most; `None` when every entry is written. A plan that takes all
    /// (`usize::MAX`) lets the time of what is covered move, see [`durable_timestamp_ms`].
    ///
    /// [`durable_timestamp_ms`]: Self::durable_timestamp_ms
    ///
    /// # Panics
    /// When the plan before has not been completed.
    pub fn begin_persist(&mut self, bytes_max: usize) -> Option<PersistPlan> {
        assert!(!self.persist_in_flight, "one plan is carried out at a time");
        if self.dirty.is_empty() {
            assert!(self.unpersisted == 0, "queues with unwritten entries are listed");
            self.persisted_timestamp_ms = self.dispatched_timestamp_ms;
            return None;
        }
        let mut room = (bytes_max as u64 / ENTRY_BYTES).max(1);
        let mut writes = Vec::new();
        while room > 0 {
            let Some(queue) = self.dirty.pop_front() else { break };
            room -= self.plan_writes(queue, room, &mut writes);
        }
        // A queue that was taken in part is listed again.
        let all = self.dirty.is_empty();
        self.persist_in_flight = true;
        Some(PersistPlan { writes, covers_timestamp_ms: all.then_some(self.dispatched_timestamp_ms) })
    }

    /// Plans up to `room` entries of `queue`; returns how many.
    fn plan_writes(&mut self, queue: QueueIndex, room: u64, writes: &mut Vec<QueueWrite>) -> u64 {
        let state = self.queue(queue);
        let start = state.persisted_end;
        let end = state.end.get().min(start + room);
        let mut remove = state.stale_files.clone();
        let mut files_end = state.files_end;
        let mut from = start;
        while from < end {
            let file_base = self.file_base(from);
            let file_end = file_base + self.file_entries;
            let piece_end = end.min(file_end);
            let state = self.queue(queue);
            let mut bytes = Vec::new();
            let count = usize::try_from(piece_end - from).expect("entries in memory are counted by usize");
            state.encode_window(from, count, &mut bytes);
            assert!(
                bytes.len() as u64 == (piece_end - from) * ENTRY_BYTES,
                "unwritten entries are in memory"
            );
            let create = (file_end > files_end).then(|| NewFile {
                temporary: self.temporary_directory.join("consumequeue.tmp"),
                len: self.file_bytes(),
                hole_count: from - file_base,
                end: file_end,
            });
            writes.push(QueueWrite {
                queue,
                end: piece_end,
                path: self.path_of(queue, from),
                position: (from - file_base) * ENTRY_BYTES,
                bytes,
                remove: std::mem::take(&mut remove),
                create,
            });
            files_end = files_end.max(file_end);
            from = piece_end;
        }
        let state = self.queue_mut(queue);
        state.dirty = end < state.end.get();
        if state.dirty {
            self.dirty.push_back(queue);
        }
        end - start
    }

    /// Takes the outcome of a plan. On an error nothing is lost: what wasn't written comes again with the next
    /// plan, which the caller makes after a while.
    ///
    /// # Errors
    /// What stopped the plan.
    pub fn complete_persist(&mut self, outcome: PersistOutcome) -> Result<(), StoreError> {
        assert!(self.persist_in_flight, "a plan that ends has begun");
        self.persist_in_flight = false;
        let PersistOutcome { plan, created_count, written_count, error } = outcome;
        assert!(written_count <= created_count, "entries are written into files that exist");
        for (place, write) in plan.writes.into_iter().enumerate() {
            if place < created_count {
                self.on_file_created(&write);
            }
            if place < written_count {
                self.on_written(&write);
            } else {
                self.mark_dirty(write.queue);
            }
        }
        match error {
            Some(error) => Err(error),
            None => {
                if let Some(timestamp_ms) = plan.covers_timestamp_ms {
                    self.persisted_timestamp_ms = self.persisted_timestamp_ms.max(timestamp_ms);
                }
                Ok(())
            }
        }
    }

    fn on_file_created(&mut self, write: &QueueWrite) {
        let state = self.queue_mut(write.queue);
        if !write.remove.is_empty() {
            state.stale_files.clear();
        }
        if let Some(file) = &write.create {
            state.files_end = file.end;
        }
    }

    fn on_written(&mut self, write: &QueueWrite) {
        let state = &mut self.queues[write.queue.get()];
        assert!(
            write.end > state.persisted_end && write.end <= state.end.get(),
            "writes go on where they ended"
        );
        self.unpersisted -= write.end - state.persisted_end;
        state.persisted_end = write.end;
        state.trim(super::TAIL_COUNT_MAX);
        if !state.unsynced {
            state.unsynced = true;
            self.unsynced.push(write.queue);
        }
    }

    fn mark_dirty(&mut self, queue: QueueIndex) {
        let state = &mut self.queues[queue.get()];
        if !state.dirty {
            state.dirty = true;
            self.dirty.push_front(queue);
        }
    }

    /// Which files to sync so that everything written survives a power cut; `None` when everything does, or
    /// when a sync has failed. For a thorough pass write everything before.
    ///
    /// # Panics
    /// When the sync before has not been completed.
    pub fn begin_sync(&mut self) -> Option<SyncPlan> {
        assert!(!self.sync_in_flight, "one sync is carried out at a time");
        if self.sync_failed {
            return None;
        }
        if self.unsynced.is_empty() {
            self.durable_timestamp_ms = self.durable_timestamp_ms.max(self.persisted_timestamp_ms);
            return None;
        }
        let mut paths = Vec::new();
        let mut ends = Vec::with_capacity(self.unsynced.len());
        for queue in std::mem::take(&mut self.unsynced) {
            self.queue_mut(queue).unsynced = false;
            let state = self.queue(queue);
            ends.push((queue, state.persisted_end));
            let mut from = state.durable_end.max(state.files_base);
            while from < state.persisted_end {
                paths.push(self.path_of(queue, from));
                from = self.file_base(from) + self.file_entries;
            }
        }
        self.sync_in_flight = true;
        Some(SyncPlan { paths, ends, timestamp_ms: self.persisted_timestamp_ms })
    }

    /// Takes the outcome of a sync.
    ///
    /// # Errors
    /// The sync's. It is final: nothing more becomes durable in this run, and the stop must leave `abort`.
    pub fn complete_sync(&mut self, outcome: SyncOutcome) -> Result<(), StoreError> {
        assert!(self.sync_in_flight, "a sync that ends has begun");
        self.sync_in_flight = false;
        if let Err(error) = outcome.result {
            self.sync_failed = true;
            return Err(error);
        }
        for (queue, end) in outcome.plan.ends {
            let state = self.queue_mut(queue);
            assert!(end <= state.persisted_end, "only what was written was synced");
            state.durable_end = state.durable_end.max(end);
        }
        self.durable_timestamp_ms = self.durable_timestamp_ms.max(outcome.plan.timestamp_ms);
        Ok(())
    }

    /// The checkpoint's `logicsMsgTimestamp`: the entries of every message stored up to this time survive a
    /// power cut.
    #[must_use]
    pub fn durable_timestamp_ms(&self) -> i64 {
        self.durable_timestamp_ms
    }

    /// Whether every entry is written and synced, as a clean stop needs.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        !self.sync_failed
            && self.unpersisted == 0
            && self.unsynced.is_empty()
            && !self.persist_in_flight
            && !self.sync_in_flight
    }
}

/// Carries out `plan` up to the first failure.
pub async fn perform_persist<R: Runtime>(
    runtime: &R,
    files: &FileTable<R>,
    mut plan: PersistPlan,
) -> PersistOutcome {
    let mut outcome_created = 0;
    let mut written_count = 0;
    let mut error = None;
    for write in &mut plan.writes {
        let created = prepare_file(runtime, files, write).await;
        if let Err(cause) = created {
            error = Some(cause);
            break;
        }
        outcome_created += 1;
        if let Err(cause) = write_entries(runtime, files, write).await {
            error = Some(cause);
            break;
        }
        written_count += 1;
    }
    PersistOutcome { plan, created_count: outcome_created, written_count, error }
}

async fn write_entries<R: Runtime>(
    runtime: &R,
    files: &FileTable<R>,
    write: &mut QueueWrite,
) -> Result<(), StoreError> {
    let file = files.open(runtime, &write.path).await?;
    let bytes = std::mem::take(&mut write.bytes);
    file.write_bytes(bytes, write.position)
        .await
        .map_err(StoreError::io("writing a consume queue", &write.path))
}

async fn prepare_file<R: Runtime>(
    runtime: &R,
    files: &FileTable<R>,
    write: &QueueWrite,
) -> Result<(), StoreError> {
    remove_files(runtime, files, &write.remove).await?;
    match &write.create {
        Some(file) => create_file(runtime, files, write, file).await,
        None => Ok(()),
    }
}

/// Removes files from the last to the first, so that a crash in between leaves no gap.
pub(super) async fn remove_files<R: Runtime>(
    runtime: &R,
    files: &FileTable<R>,
    paths: &[PathBuf],
) -> Result<(), StoreError> {
    for path in paths.iter().rev() {
        files.forget(path);
        remove_if_there(runtime, path).await?;
    }
    match paths.first() {
        Some(path) => sync_parent(runtime, path).await,
        None => Ok(()),
    }
}

/// Makes a file of full length elsewhere, then gives it its name: no short file is ever seen under it.
async fn create_file<R: Runtime>(
    runtime: &R,
    files: &FileTable<R>,
    write: &QueueWrite,
    file: &NewFile,
) -> Result<(), StoreError> {
    // Left by a crash or a full disk.
    remove_if_there(runtime, &file.temporary).await?;
    let created = runtime.create(&file.temporary, file.len, Space::Sparse).await;
    created.map_err(StoreError::io("creating a consume queue", &write.path))?;
    if file.hole_count > 0 {
        fill_holes(runtime, file).await.map_err(StoreError::io("filling a consume queue", &write.path))?;
    }
    let directory = write.path.parent().expect("a queue's file lies in the queue's directory");
    let created = runtime.create_directory(directory).await;
    created.map_err(StoreError::io("creating the directory", directory))?;
    // An earlier attempt may have left it without entries.
    files.forget(&write.path);
    let renamed = runtime.rename(&file.temporary, &write.path).await;
    renamed.map_err(StoreError::io("naming a consume queue", &write.path))?;
    sync_parent(runtime, &write.path).await?;
    // The queue's and the topic's directories may be new.
    sync_parent(runtime, directory).await?;
    let topic_directory = directory.parent().expect("a queue's directory lies in its topic's");
    sync_parent(runtime, topic_directory).await
}

async fn fill_holes<R: Runtime>(runtime: &R, file: &NewFile) -> io::Result<()> {
    let open = runtime.open(&file.temporary, Access::Buffered).await?;
    let mut from = 0;
    while from < file.hole_count {
        let count = (file.hole_count - from).min(HOLE_ENTRIES_MAX);
        let mut bytes = Vec::new();
        for _ in 0..count {
            Entry::HOLE.encode(&mut bytes);
        }
        open.write_bytes(bytes, from * ENTRY_BYTES).await?;
        from += count;
    }
    open.sync_data().await
}

async fn remove_if_there<R: Runtime>(runtime: &R, path: &Path) -> Result<(), StoreError> {
    match runtime.remove(path).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::Io { doing: "removing", path: path.to_path_buf(), source: error })
        }
        _ => Ok(()),
    }
}

/// Carries out `plan`.
pub async fn perform_sync<R: Runtime>(runtime: &R, files: &FileTable<R>, plan: SyncPlan) -> SyncOutcome {
    let mut result = Ok(());
    for path in &plan.paths {
        result = match files.open(runtime, path).await {
            Ok(file) => file.sync_data().await.map_err(StoreError::io("syncing a consume queue", path)),
            Err(error) => Err(error),
        };
        if result.is_err() {
            break;
        }
    }
    SyncOutcome { plan, result }
}
