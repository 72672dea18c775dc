//! Bringing the queues up to the log's end, by going through the log again from where they can be trusted.
//!
//! After a kill that is the file that the checkpoint allows: entries of later records are dropped and made anew,
//! so a torn one never counts. After a clean stop the entries are there and are only compared. When a queue doesn't
//! fit what the log says, all queues are made anew from the log's first file.

use std::ops::ControlFlow;

use protocol::message::StoredMessage;

use super::{
    Phase, Progress,
    checkpoint::Checkpoint,
    segments::{Segments, Visit},
};
use crate::{
    derive::{
        consume_queue::{
            ConsumeQueues, Entry, Expects, FileTable, QueueIndex, perform_persist, perform_sync,
        },
        describe::entry_of,
    },
    error::StoreError,
    io::Runtime,
    offset::{LogOffset, QueueOffset},
};

/// Entries that may wait before they are written.
const UNPERSISTED_COUNT_MAX: u64 = 32 * 1024;
/// Numbers that may be missing in a queue between two records: more is no gap that a broker leaves.
const HOLE_COUNT_MAX: u64 = 1024 * 1024;

/// How entries that are there already are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// After a clean stop: they are expected.
    Compare,
    /// After a kill: they have been dropped, each must be the next one.
    Append,
    /// Each queue is made anew, beginning with its first record.
    Rebuild,
}

/// What a pass over the log came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Every queue fits the log.
    Done,
    /// A queue doesn't.
    Mismatch,
}

/// Where a pass over the log begins, and how.
pub(crate) struct From<'a> {
    pub segments: &'a Segments,
    /// Number of the first file.
    pub first: usize,
    pub mode: Mode,
    /// Queues that have something behind their end.
    pub holed: &'a [QueueIndex],
}

/// Goes through the log.
pub(crate) async fn dispatch<R: Runtime>(
    runtime: &R,
    files: &FileTable<R>,
    queues: &mut ConsumeQueues,
    from: &From<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Outcome, StoreError> {
    let &From { segments, first, mode, holed } = from;
    let mut pass = Pass {
        runtime,
        files,
        queues,
        mode,
        ends: Vec::new(),
        mismatch: false,
        failure: None,
        log_end: segments.end(),
        progress,
    };
    segments.scan(runtime, first, false, &mut pass).await?;
    if let Some(failure) = pass.failure {
        return Err(failure);
    }
    // A hole that no record has filled lies before them, or its records are gone: the scan can't tell.
    let hole_left = mode == Mode::Append && holed.iter().any(|&queue| pass.end_of(queue).is_none());
    if pass.mismatch || hole_left || pass.has_surplus() {
        return Ok(Outcome::Mismatch);
    }
    if mode == Mode::Rebuild {
        pass.cut_queues_without_records(segments.log_min()).await?;
    }
    Ok(Outcome::Done)
}

/// Makes every queue anew from the log's first file.
pub(crate) async fn rebuild<R: Runtime>(
    runtime: &R,
    files: &FileTable<R>,
    queues: &mut ConsumeQueues,
    segments: &Segments,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), StoreError> {
    queues.discard_unpersisted();
    let from = From { segments, first: 0, mode: Mode::Rebuild, holed: &[] };
    let outcome = dispatch(runtime, files, queues, &from, progress).await?;
    assert!(outcome == Outcome::Done, "queues made from the log fit it");
    Ok(())
}

/// Says that nothing is known about the queues: an opening after this one was killed begins at the first file.
pub(crate) async fn forget_checkpoint<R: Runtime>(
    runtime: &R,
    root: &std::path::Path,
    checkpoint: &Checkpoint,
) -> Result<(), StoreError> {
    Checkpoint { logics_msg_timestamp_ms: 0, ..*checkpoint }.store(runtime, root).await
}

/// Writes entries until at most `left_max` wait.
pub(crate) async fn persist<R: Runtime>(
    runtime: &R,
    files: &FileTable<R>,
    queues: &mut ConsumeQueues,
    left_max: u64,
) -> Result<(), StoreError> {
    while queues.behind().entries > left_max
        && let Some(plan) = queues.begin_persist(usize::MAX)
    {
        let outcome = perform_persist(runtime, files, plan).await;
        queues.complete_persist(outcome)?;
    }
    Ok(())
}

/// Writes and syncs every entry.
pub(crate) async fn make_durable<R: Runtime>(
    runtime: &R,
    files: &FileTable<R>,
    queues: &mut ConsumeQueues,
) -> Result<(), StoreError> {
    persist(runtime, files, queues, 0).await?;
    while let Some(plan) = queues.begin_sync() {
        let outcome = perform_sync(runtime, files, plan).await;
        queues.complete_sync(outcome)?;
    }
    assert!(queues.is_durable(), "everything was written and synced");
    Ok(())
}

/// Compares records with queues that it doesn't change.
pub(crate) struct Comparison<'a> {
    queues: &'a ConsumeQueues,
    /// By queue: the number behind its last record seen.
    ends: Vec<Option<QueueOffset>>,
    fits: bool,
}

impl<'a> Comparison<'a> {
    pub fn new(queues: &'a ConsumeQueues) -> Comparison<'a> {
        Comparison { queues, ends: vec![None; queues.iter().count()], fits: true }
    }

    pub fn on_record(&mut self, message: &StoredMessage<'_>) {
        if !self.fits || entry_of(message).is_none() {
            return;
        }
        let queue_id = u32::try_from(message.queue_id).ok();
        let queue = queue_id.and_then(|queue_id| self.queues.find(message.topic, queue_id));
        match (queue, QueueOffset::from_i64(message.queue_offset)) {
            (Some(queue), Some(offset)) if self.queues.expects(queue, offset) == Expects::Already => {
                self.ends[queue.get()] = Some(offset.plus(1));
            }
            _ => self.fits = false,
        }
    }

    /// Whether every record seen has an entry, and no queue has entries behind that of its last record.
    pub fn fits(&self) -> bool {
        let surplus = |queue: QueueIndex| {
            self.ends[queue.get()].is_some_and(|end| self.queues.max_offset(queue) != end)
        };
        self.fits && !self.queues.iter().any(surplus)
    }
}

struct Pass<'a, R: Runtime> {
    runtime: &'a R,
    files: &'a FileTable<R>,
    queues: &'a mut ConsumeQueues,
    mode: Mode,
    /// By queue: the number behind its last record seen.
    ends: Vec<Option<QueueOffset>>,
    mismatch: bool,
    failure: Option<StoreError>,
    log_end: LogOffset,
    progress: &'a mut dyn FnMut(Progress),
}

impl<R: Runtime> Visit for Pass<'_, R> {
    fn on_record(&mut self, at: LogOffset, message: &StoredMessage<'_>) -> ControlFlow<()> {
        let Some(entry) = entry_of(message) else { return ControlFlow::Continue(()) };
        let (Ok(queue_id), Some(offset)) =
            (u32::try_from(message.queue_id), QueueOffset::from_i64(message.queue_offset))
        else {
            unreachable!("the scan refuses negative numbers")
        };
        let queue = self.queues.open(message.topic, queue_id);
        if self.ends.len() <= queue.get() {
            self.ends.resize(queue.get() + 1, None);
        }
        let is_first = self.ends[queue.get()].replace(offset.plus(1)).is_none();
        if is_first && self.mode == Mode::Rebuild {
            self.queues.restart_at(queue, offset);
        }
        match (self.queues.expects(queue, offset), self.mode) {
            (Expects::Next, _) => {}
            (Expects::Already, Mode::Compare) => return ControlFlow::Continue(()),
            // A number that RocketMQ gave twice: the first one stays, as there.
            (Expects::Already, Mode::Rebuild) => {
                self.ends[queue.get()] = Some(self.queues.max_offset(queue));
                return ControlFlow::Continue(());
            }
            (Expects::Gap, Mode::Rebuild) => self.fill_holes(queue, offset, at, message)?,
            (Expects::Already, Mode::Append) | (Expects::Gap, Mode::Compare | Mode::Append) => {
                self.mismatch = true;
                return ControlFlow::Break(());
            }
        }
        self.queues.push(queue, offset, entry);
        self.queues.on_dispatched(message.store_timestamp_ms);
        ControlFlow::Continue(())
    }

    async fn on_piece(&mut self, position: LogOffset) -> Result<(), StoreError> {
        (self.progress)(Progress { phase: Phase::Queues, position, end: self.log_end });
        persist(self.runtime, self.files, self.queues, UNPERSISTED_COUNT_MAX).await
    }
}

impl<R: Runtime> Pass<'_, R> {
    /// Numbers that no record has are holes; pulls pass over them.
    fn fill_holes(
        &mut self,
        queue: QueueIndex,
        offset: QueueOffset,
        at: LogOffset,
        message: &StoredMessage<'_>,
    ) -> ControlFlow<()> {
        let end = self.queues.max_offset(queue);
        if offset.since(end) > HOLE_COUNT_MAX {
            self.failure = Some(StoreError::QueueGap {
                topic: message.topic.to_owned(),
                queue_id: self.queues.queue_id_of(queue),
                position: at,
                expected: end,
                found: offset,
            });
            return ControlFlow::Break(());
        }
        for number in end.get()..offset.get() {
            self.queues.push(queue, QueueOffset::new(number), Entry::HOLE);
        }
        ControlFlow::Continue(())
    }

    /// The number behind the last record seen of `queue`.
    fn end_of(&self, queue: QueueIndex) -> Option<QueueOffset> {
        self.ends.get(queue.get()).copied().flatten()
    }

    /// Whether a queue has entries behind the one of its last record.
    fn has_surplus(&self) -> bool {
        self.queues
            .iter()
            .any(|queue| self.end_of(queue).is_some_and(|end| self.queues.max_offset(queue) != end))
    }

    /// A queue of which the log has no record keeps its numbers, so that they aren't given again, but names no
    /// record that the log has.
    async fn cut_queues_without_records(&mut self, log_min: LogOffset) -> Result<(), StoreError> {
        for queue in self.queues.iter() {
            if self.end_of(queue).is_none() {
                self.queues.truncate_to(self.runtime, self.files, queue, log_min).await?;
            }
        }
        Ok(())
    }
}
