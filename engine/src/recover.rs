//! Opening a store: one that was stopped, killed, or cut off from power; RocketMQ's or ours; or a new one.
//!
//! ```text
//! look at the directory -> lock -> abort there? -> list segments, load queues      nothing is changed
//!   -> scan the log from where it can be trusted -> search behind its end          until the decision
//!   -> decide (cases.rs)
//!   -> create abort -> zero the tail, drop later segments -> cut and fill queues   all of it can be
//!   -> sync everything -> checkpoint                                               repeated after a kill
//! ```
//!
//! A damaged store is refused, unchanged, with what to do. Nothing here serves anyone; the waits are the disk's.

use std::{fmt, path::Path};

use protocol::message::StoredMessage;

use self::{
    cases::{Action, Behind, Case, Exit, Facts},
    queues::{Comparison, Mode, Outcome},
    scan::Invalid,
    segments::{ScanEnd, Segments, Visit},
    tail::Tail,
};
pub use self::{checkpoint::Checkpoint, segments::SegmentFile};
use crate::{
    derive::consume_queue::{ConsumeQueues, ENTRY_BYTES, FileTable, load},
    error::StoreError,
    io::{Access, File, Runtime},
    offset::LogOffset,
};

mod layout;
pub mod checkpoint;
pub mod abort;
pub mod scan;
mod segments;
mod tail;
pub mod cases;
mod queues;

/// Zeros are written in pieces of this size.
const ZERO_PIECE_BYTES: u64 = 1024 * 1024;
/// Queue files held open while a store is opened.
const OPEN_FILES_MAX: usize = 64;
/// Segments that are checked after a clean stop.
const CLEAN_FILES_SCANNED: usize = 3;

/// What an opening is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Checking the log's records.
    Log,
    /// Looking at what stands behind the log's end.
    Tail,
    /// Bringing the queues up to the log's end.
    Queues,
}

/// How far an opening is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// With what.
    pub phase: Phase,
    /// How far, in the log.
    pub position: LogOffset,
    /// Where the log's files end.
    pub end: LogOffset,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.phase {
            Phase::Log => "checking the log",
            Phase::Tail => "looking behind the log's end",
            Phase::Queues => "bringing the queues up to date",
        };
        write!(f, "{what}: {} of {}", self.position, self.end)
    }
}

/// A store as found and put right.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// Where the log ends: the next append goes there. Everything before is durable.
    pub log_end: LogOffset,
    /// Where the log begins.
    pub log_min: LogOffset,
    /// Its files, in order, without a gap. The last one may be empty, beginning at the log's end.
    pub segments: Vec<SegmentFile>,
    /// What the last run left unclean: after a kill the bytes of records that its checkpoint didn't cover, and always
    /// [`cut_bytes`](Self::cut_bytes).
    pub unclean_bytes: u64,
    /// Bytes behind the end that were not zero and now are, or are gone with their file.
    pub cut_bytes: u64,
    /// Store time of the last record, 0 when there is none.
    pub last_store_timestamp_ms: i64,
    /// Size of this store's segments.
    pub store_segment_bytes: u64,
    /// The label of the case that decided, see [`cases`].
    pub how: &'static str,
    /// Why that was right.
    pub reason: &'static str,
    /// Whether the process before was killed.
    pub killed: bool,
    /// Whether all queues were made anew from the log.
    pub queues_rebuilt: bool,
    /// Records checked.
    pub records_scanned: u64,
}

/// A store that is open.
pub struct OpenedStore<R: Runtime> {
    /// Held as long as the store is in use.
    pub lock: R::Lock,
    /// What was found.
    pub recovered: Recovered,
    /// The queues, up to the log's end, all durable.
    pub queues: ConsumeQueues,
    /// The checkpoint, as it is now on disk.
    pub checkpoint: Checkpoint,
}

/// Opens the store in the directory `root` (`storePathRootDir`), or makes a new one there, whose segments have
/// `segment_bytes` (`mappedFileSizeCommitLog`) and whose queue files have `queue_file_bytes`
/// (`mappedFileSizeConsumeQueue`, rounded up to a multiple of 20); an existing store keeps its own sizes. `abort`
/// exists when it returns, and all files are closed.
///
/// # Errors
/// Why it can't be opened, and what to do. Damage is refused before anything is changed.
pub async fn open_store<R: Runtime>(
    runtime: &R,
    root: &Path,
    segment_bytes: u64,
    queue_file_bytes: u64,
    progress: &mut dyn FnMut(Progress),
) -> Result<OpenedStore<R>, StoreError> {
    layout::check(runtime, root).await?;
    layout::create(runtime, root).await?;
    let lock = layout::lock(runtime, root).await?;
    let exit = if layout::has_abort(runtime, root).await? { Exit::Killed } else { Exit::Clean };
    let segments = Segments::list(runtime, root, segment_bytes).await?;
    let checkpoint = Checkpoint::load(runtime, root).await?;
    let queue_file_bytes = queue_file_bytes.next_multiple_of(ENTRY_BYTES);
    let loaded = load::load(runtime, root, queue_file_bytes, exit == Exit::Clean).await?;

    let mut opening = Opening {
        runtime,
        root,
        exit,
        segments,
        checkpoint,
        files: FileTable::new(OPEN_FILES_MAX),
        progress,
    };
    let found = opening.examine(&loaded).await?;
    abort::create(runtime, root).await?;
    opening.put_log_right(&found).await?;
    let (queues, queues_rebuilt) = opening.put_queues_right(loaded, &found).await?;
    opening.store_checkpoint(&found).await?;
    let Opening { segments, checkpoint, .. } = opening;
    let recovered = Recovered {
        log_end: found.end,
        log_min: segments.log_min(),
        segments: segments.files,
        unclean_bytes: found.uncovered_bytes + found.tail.unclean_bytes(),
        cut_bytes: found.tail.unclean_bytes(),
        last_store_timestamp_ms: found.scan.last_store_timestamp_ms,
        store_segment_bytes: segments.segment_bytes,
        how: found.case.label,
        reason: found.case.reason,
        killed: exit == Exit::Killed,
        queues_rebuilt,
        records_scanned: found.scan.records,
    };
    Ok(OpenedStore { lock, recovered, queues, checkpoint })
}

struct Opening<'a, R: Runtime> {
    runtime: &'a R,
    root: &'a Path,
    exit: Exit,
    segments: Segments,
    checkpoint: Checkpoint,
    files: FileTable<R>,
    progress: &'a mut dyn FnMut(Progress),
}

/// What was found, and decided.
struct Found {
    /// The file that the scan began with.
    first: usize,
    scan: ScanEnd,
    /// Where the log ends.
    end: LogOffset,
    tail: Tail,
    case: &'static Case,
    /// Every record scanned has its entry, and no queue has more.
    queues_fit: bool,
    /// Bytes of records that the checkpoint doesn't cover.
    uncovered_bytes: u64,
}

impl<R: Runtime> Opening<'_, R> {
    /// Reads what is there and decides; changes nothing.
    async fn examine(&mut self, loaded: &load::Loaded) -> Result<Found, StoreError> {
        let named_end = loaded.named_ends.iter().copied().max().unwrap_or_default();
        let first = self.first_file().await?;
        let mut visit = Checking {
            end: self.segments.end(),
            progress: &mut *self.progress,
            comparison: Comparison::new(&loaded.queues),
            covered_ms: match self.exit {
                Exit::Clean => i64::MAX,
                Exit::Killed => self.checkpoint.physic_msg_timestamp_ms,
            },
            uncovered_bytes: 0,
        };
        let mut scan = self.segments.scan(self.runtime, first, true, &mut visit).await?;
        let (queues_fit, uncovered_bytes) = (visit.comparison.fits(), visit.uncovered_bytes);
        if self.exit == Exit::Killed
            && let Some(torn_at) = scan.torn_at
        {
            scan.position = torn_at;
            scan.invalid = Some(Invalid::TornProperties);
        }
        let end_of_files = self.segments.end();
        let progress = &mut *self.progress;
        let mut report = |position| progress(Progress { phase: Phase::Tail, position, end: end_of_files });
        let tail = tail::search(self.runtime, &self.segments, &scan, &mut report).await?;
        let facts = self.facts(&scan, &tail, named_end);
        let case = Case::of(&facts);
        let found = Found { first, end: scan.position, scan, tail, case, queues_fit, uncovered_bytes };
        match case.action {
            Action::Open | Action::Cut => Ok(found),
            Action::RefuseDamage => Err(self.damage(&found)),
            Action::RefuseMissing => Err(StoreError::MissingSegments {
                path: self.segments.directory.join(format!("{:020}", found.end)),
                log_end: found.end,
                named_end,
            }),
        }
    }

    fn facts(&self, scan: &ScanEnd, tail: &Tail, named_end: LogOffset) -> Facts {
        let physic_ms = self.checkpoint.physic_msg_timestamp_ms;
        Facts {
            exit: self.exit,
            behind: match (tail.valid, tail.unclean.is_empty()) {
                _ if scan.position == self.segments.end() => Behind::Nothing,
                (Some(_), _) => Behind::Records,
                (None, true) => Behind::Zeros,
                (None, false) => Behind::Rubbish,
            },
            queues_ahead: named_end > scan.position,
            durable_behind: physic_ms == 0
                || tail.valid.is_some_and(|valid| valid.store_timestamp_ms <= physic_ms),
            sectors_missing: tail.sectors_missing,
        }
    }

    fn damage(&self, found: &Found) -> StoreError {
        let file = self.segments.files.iter().find(|file| file.end() > found.end);
        StoreError::DamagedLog {
            path: file.map_or_else(|| self.segments.directory.clone(), |&file| self.segments.path(file)),
            position: found.end,
            what: found.scan.invalid.unwrap_or(Invalid::Unwritten),
            case: found.case.label,
            valid_at: found.tail.valid.map_or(found.end, |valid| valid.at),
            valid_count: found.tail.valid_count,
        }
    }

    /// The file to begin the scan with. After a kill: the last one whose first record is older than what the
    /// checkpoint covers, or the first. Else the third-last one, as 4.9 and 5.1 do: little was lost if anything, but
    /// a queue that was removed, or damage, should be noticed.
    async fn first_file(&self) -> Result<usize, StoreError> {
        if self.exit == Exit::Clean {
            return Ok(self.segments.files.len().saturating_sub(CLEAN_FILES_SCANNED));
        }
        let min_timestamp_ms = self.checkpoint.min_timestamp_ms();
        for (number, &file) in self.segments.files.iter().enumerate().skip(1).rev() {
            let timestamp_ms = self.segments.first_timestamp_ms(self.runtime, file).await?;
            if timestamp_ms.is_some_and(|timestamp_ms| timestamp_ms <= min_timestamp_ms) {
                return Ok(number);
            }
        }
        Ok(0)
    }

    /// Makes the log end where it was decided: nothing but zeros behind, everything before durable.
    async fn put_log_right(&mut self, found: &Found) -> Result<(), StoreError> {
        self.remove_files_behind(found.end).await?;
        for &file in self.segments.files.iter().skip(found.first) {
            let open = self.segments.open(self.runtime, file, Access::Buffered).await?;
            for range in &found.tail.unclean {
                let (start, end) = (range.start.max(file.base.get()), range.end.min(file.end().get()));
                self.zero(&open, file, start, end).await?;
            }
            // What was scanned may have been in the page cache only.
            open.sync_data().await.map_err(StoreError::io("syncing a segment", self.segments.path(file)))?;
        }
        Ok(())
    }

    /// Removes the files behind the one that the log ends in, from the last to the first: no gap is ever left.
    async fn remove_files_behind(&mut self, end: LogOffset) -> Result<(), StoreError> {
        let mut removed = std::mem::take(&mut self.segments.empty);
        while let Some(file) = self.segments.files.pop_if(|file| file.base > end) {
            removed.push(self.segments.path(file));
        }
        for path in &removed {
            self.runtime.remove(path).await.map_err(StoreError::io("removing a segment", path))?;
        }
        if removed.is_empty() {
            return Ok(());
        }
        let directory = &self.segments.directory;
        let synced = self.runtime.sync_directory(directory).await;
        synced.map_err(StoreError::io("syncing the directory", directory))
    }

    async fn zero(&self, open: &R::File, file: SegmentFile, start: u64, end: u64) -> Result<(), StoreError> {
        let mut at = start;
        while at < end {
            let len = ZERO_PIECE_BYTES.min(end - at);
            let zeros = vec![0; usize::try_from(len).expect("a piece is small")];
            let wrote = open.write_bytes(zeros, at - file.base.get()).await;
            wrote.map_err(StoreError::io("zeroing a segment", self.segments.path(file)))?;
            at += len;
        }
        Ok(())
    }

    /// Makes every queue end where the log does, durably.
    async fn put_queues_right(
        &mut self,
        loaded: load::Loaded,
        found: &Found,
    ) -> Result<(ConsumeQueues, bool), StoreError> {
        let load::Loaded { mut queues, named_ends, holed } = loaded;
        let first_base = self.segments.files.get(found.first).map_or(found.end, |file| file.base);
        for (queue, named_end) in queues.iter().zip(named_ends) {
            match self.exit {
                // What a kill left from there on is made anew.
                Exit::Killed => {
                    queues.truncate_to(self.runtime, &self.files, queue, first_base).await?;
                }
                Exit::Clean if named_end > found.end => {
                    queues.truncate_to(self.runtime, &self.files, queue, found.end).await?;
                }
                Exit::Clean => {}
            }
        }
        let mode = if self.exit == Exit::Killed { Mode::Append } else { Mode::Compare };
        let is_clean = self.exit == Exit::Clean;
        let outcome = if is_clean && !holed.is_empty() {
            Outcome::Mismatch
        } else if is_clean && found.queues_fit {
            Outcome::Done
        } else {
            let progress = &mut *self.progress;
            let from = queues::From { segments: &self.segments, first: found.first, mode, holed: &holed };
            queues::dispatch(self.runtime, &self.files, &mut queues, &from, progress).await?
        };
        let mut rebuilt = outcome == Outcome::Mismatch;
        if rebuilt {
            self.rebuild(&mut queues).await?;
        }
        match self.finish_queues(&mut queues).await {
            // An old file is damaged: those aren't read through.
            Err(StoreError::QueueEntry { .. }) if !rebuilt => {
                rebuilt = true;
                self.rebuild(&mut queues).await?;
                self.finish_queues(&mut queues).await?;
            }
            finished => finished?,
        }
        queues.begin_appending(found.scan.last_store_timestamp_ms);
        Ok((queues, rebuilt))
    }

    async fn rebuild(&mut self, queues: &mut ConsumeQueues) -> Result<(), StoreError> {
        queues::forget_checkpoint(self.runtime, self.root, &self.checkpoint).await?;
        let progress = &mut *self.progress;
        queues::rebuild(self.runtime, &self.files, queues, &self.segments, progress).await
    }

    async fn finish_queues(&self, queues: &mut ConsumeQueues) -> Result<(), StoreError> {
        queues::make_durable(self.runtime, &self.files, queues).await?;
        for queue in queues.iter() {
            let log_min = self.segments.log_min();
            queues.correct_min(self.runtime, &self.files, queue, log_min).await?;
        }
        Ok(())
    }

    /// Everything is durable now: says so, that the next opening needn't go back further.
    async fn store_checkpoint(&mut self, found: &Found) -> Result<(), StoreError> {
        // Never 0, which says that nothing is known.
        let durable_ms = match found.scan.records {
            0 => self.checkpoint.physic_msg_timestamp_ms.max(1),
            _ => found.scan.last_store_timestamp_ms,
        };
        self.checkpoint.physic_msg_timestamp_ms = durable_ms;
        self.checkpoint.logics_msg_timestamp_ms = durable_ms;
        self.checkpoint.store(self.runtime, self.root).await
    }
}

/// The pass that only checks.
struct Checking<'a> {
    end: LogOffset,
    progress: &'a mut dyn FnMut(Progress),
    comparison: Comparison<'a>,
    /// Records stored up to this time were durable when the store was left.
    covered_ms: i64,
    uncovered_bytes: u64,
}

impl Visit for Checking<'_> {
    fn on_record(&mut self, _at: LogOffset, message: &StoredMessage<'_>) -> std::ops::ControlFlow<()> {
        self.comparison.on_record(message);
        if message.store_timestamp_ms > self.covered_ms {
            self.uncovered_bytes += u64::from(message.total_size.unsigned_abs());
        }
        std::ops::ControlFlow::Continue(())
    }

    async fn on_piece(&mut self, position: LogOffset) -> Result<(), StoreError> {
        (self.progress)(Progress { phase: Phase::Log, position, end: self.end });
        Ok(())
    }
}
