//! Flush: when to sync, and what a completed write or sync made true.
//!
//! Contract. `begin_sync` says up to where a sync is wanted now; the caller performs it on files that hold
//! everything between the two ends, and tells the outcome once. At most one sync is in flight; a write may run
//! while it does. `flushed_end` moves only to what had been written, contiguously, before the sync that covers it
//! was begun. There is no timer in SYNC_FLUSH: a sync starts as soon as one is wanted and the previous has ended;
//! what arrives meanwhile is the next group.
//!
//! A failed write or sync is final. The kernel may have dropped the pages, so a later "successful" sync proves
//! nothing: the log is *fenced* and stays so while the process runs.

use std::{
    io,
    time::{Duration, Instant},
};

use crate::offset::LogOffset;

/// RocketMQ's `flushDiskType`, and how SYNC_FLUSH does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushMode {
    /// SYNC_FLUSH: a message is confirmed when it is durable.
    Sync(SyncMethod),
    /// ASYNC_FLUSH: a message is confirmed when it is appended; a sync follows by RocketMQ's rule.
    Async(AsyncFlush),
}

/// How a group is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMethod {
    /// A write, then fdatasync.
    Fdatasync,
    /// A write to a file opened with O_DSYNC.
    Dsync,
}

/// RocketMQ's rule for ASYNC_FLUSH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncFlush {
    /// `flushIntervalCommitLog`: how often to look.
    pub interval: Duration,
    /// `flushCommitLogLeastPages`: sync when at least so many pages of 4,096 bytes are dirty.
    pub least_pages: u64,
    /// `flushCommitLogThoroughInterval`: sync anything after this long.
    pub thorough_interval: Duration,
}

/// Why the shard takes no more messages.
#[derive(Clone, Debug)]
pub struct Fence {
    /// What failed: `write` or `sync`.
    pub operation: &'static str,
    /// The error number, 0 when the system gave none.
    pub errno: i32,
    /// The error's text.
    pub text: String,
}

/// Counters for the operator and the load generator; they only grow.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlushCounters {
    /// Completed syncs (an O_DSYNC write counts as one).
    pub syncs: u64,
    /// Completed writes.
    pub writes: u64,
    /// Bytes of the log that completed syncs made durable.
    pub synced_bytes: u64,
    /// Time spent in completed syncs.
    pub sync_time: Duration,
}

const PAGE_BYTES: u64 = 4096;

/// See the module.
#[derive(Debug)]
pub struct Flush {
    mode: FlushMode,
    appended_end: LogOffset,
    written_end: LogOffset,
    flushed_end: LogOffset,
    sync_in_flight: Option<(LogOffset, Instant)>,
    /// When the last sync that has ended was begun.
    last_sync: Instant,
    fence: Option<Fence>,
    counters: FlushCounters,
}

impl Flush {
    /// A log of which everything below `end` is durable.
    #[must_use]
    pub fn new(mode: FlushMode, end: LogOffset, now: Instant) -> Flush {
        Flush {
            mode,
            appended_end: end,
            written_end: end,
            flushed_end: end,
            sync_in_flight: None,
            last_sync: now,
            fence: None,
            counters: FlushCounters::default(),
        }
    }

    /// The mode.
    #[must_use]
    pub fn mode(&self) -> FlushMode {
        self.mode
    }

    /// Everything below is in the process' or the kernel's memory.
    #[must_use]
    pub fn appended_end(&self) -> LogOffset {
        self.appended_end
    }

    /// Everything below survives kill -9.
    #[must_use]
    pub fn written_end(&self) -> LogOffset {
        self.written_end
    }

    /// Everything below survives a loss of power.
    #[must_use]
    pub fn flushed_end(&self) -> LogOffset {
        self.flushed_end
    }

    /// Everything below is what the flush mode promises to a sender.
    #[must_use]
    pub fn promised_end(&self) -> LogOffset {
        match self.mode {
            FlushMode::Sync(_) => self.flushed_end,
            FlushMode::Async(_) => self.appended_end,
        }
    }

    /// Why no more is taken, if so.
    #[must_use]
    pub fn fence(&self) -> Option<&Fence> {
        self.fence.as_ref()
    }

    /// The counters.
    #[must_use]
    pub fn counters(&self) -> FlushCounters {
        self.counters
    }

    /// The log now ends at `end`.
    pub fn on_appended(&mut self, end: LogOffset) {
        assert!(self.fence.is_none(), "a fenced log takes nothing");
        assert!(end >= self.appended_end, "the log grows: {end} after {}", self.appended_end);
        self.appended_end = end;
        self.check();
    }

    /// Everything below `end` is written. `took` is how long the write took.
    pub fn on_written(&mut self, end: LogOffset, took: Duration) {
        assert!(end >= self.written_end, "writes complete in order: {end} after {}", self.written_end);
        self.counters.writes += 1;
        self.written_end = end;
        if self.mode == FlushMode::Sync(SyncMethod::Dsync) && self.fence.is_none() {
            self.counters.syncs += 1;
            self.counters.sync_time += took;
            self.counters.synced_bytes += end.since(self.flushed_end);
            self.flushed_end = end;
        }
        self.check();
    }

    /// Everything appended is in a mapped file: kill -9 doesn't lose it.
    pub fn on_copied(&mut self, end: LogOffset) {
        assert!(end >= self.written_end, "the log grows: {end} after {}", self.written_end);
        self.written_end = end;
        self.check();
    }

    /// Up to where a sync is wanted now; `None` when none is, or one is in flight.
    pub fn begin_sync(&mut self, now: Instant) -> Option<LogOffset> {
        if self.fence.is_some() || self.sync_in_flight.is_some() || !self.is_sync_due(now) {
            return None;
        }
        self.sync_in_flight = Some((self.written_end, now));
        Some(self.written_end)
    }

    /// A sync of everything that waits, whatever the mode; at a clean stop.
    pub fn begin_last_sync(&mut self, now: Instant) -> Option<LogOffset> {
        if self.fence.is_some() || self.sync_in_flight.is_some() || self.written_end == self.flushed_end {
            return None;
        }
        self.sync_in_flight = Some((self.written_end, now));
        Some(self.written_end)
    }

    /// The sync that was begun ended well.
    pub fn on_synced(&mut self, end: LogOffset, now: Instant) {
        let (begun_end, begun) = self.sync_in_flight.take().expect("a sync was in flight");
        assert_eq!(begun_end, end, "the outcome belongs to the sync that was begun");
        // From its beginning: what arrived behind it waits for the interval and the next sync, not for this one, too.
        self.last_sync = begun;
        if self.fence.is_some() {
            // A write failed meanwhile: nothing is confirmed any more.
            return;
        }
        self.counters.syncs += 1;
        self.counters.sync_time += now.saturating_duration_since(begun);
        self.counters.synced_bytes += end.since(self.flushed_end);
        self.flushed_end = end;
        self.check();
    }

    /// A write failed: final. A sync may still be in flight; its end is told all the same and changes nothing.
    pub fn on_write_failed(&mut self, error: &io::Error) {
        self.set_fence("write", error);
    }

    /// The sync that was begun failed: final.
    pub fn on_sync_failed(&mut self, error: &io::Error) {
        self.sync_in_flight.take().expect("a sync was in flight");
        self.set_fence("sync", error);
    }

    /// A sync of the same files that the flush didn't begin (that of their preparation) failed: final, for the kernel
    /// tells of a failed write-back once, and the flush's own next sync would not hear of it.
    pub fn on_other_sync_failed(&mut self, error: &io::Error) {
        self.set_fence("sync", error);
    }

    /// What failed first is what is told.
    fn set_fence(&mut self, operation: &'static str, error: &io::Error) {
        let errno = error.raw_os_error().unwrap_or(0);
        self.fence.get_or_insert_with(|| Fence { operation, errno, text: error.to_string() });
    }

    /// When to look again although nothing happens; ASYNC_FLUSH only.
    #[must_use]
    pub fn next_deadline(&self, now: Instant) -> Option<Duration> {
        match self.mode {
            FlushMode::Async(rule) => {
                let since = now.saturating_duration_since(self.last_sync);
                let wait = rule.interval.saturating_sub(since);
                // Not due although the interval has passed (too few pages): look once per interval.
                Some(if wait.is_zero() { rule.interval } else { wait })
            }
            FlushMode::Sync(_) => None,
        }
    }

    fn is_sync_due(&self, now: Instant) -> bool {
        if self.written_end == self.flushed_end {
            return false;
        }
        match self.mode {
            // An O_DSYNC write leaves nothing to sync.
            FlushMode::Sync(SyncMethod::Dsync) => false,
            FlushMode::Sync(SyncMethod::Fdatasync) => true,
            FlushMode::Async(rule) => {
                let since = now.saturating_duration_since(self.last_sync);
                let pages = self.written_end.get() / PAGE_BYTES - self.flushed_end.get() / PAGE_BYTES;
                since >= rule.thorough_interval || (since >= rule.interval && pages >= rule.least_pages)
            }
        }
    }

    fn check(&self) {
        assert!(
            self.flushed_end <= self.written_end,
            "durable {} is written {}",
            self.flushed_end,
            self.written_end
        );
        assert!(
            self.written_end <= self.appended_end,
            "written {} is appended {}",
            self.written_end,
            self.appended_end
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u64) -> LogOffset {
        LogOffset::new(offset)
    }

    fn flush(mode: FlushMode) -> (Flush, Instant) {
        let now = Instant::now();
        (Flush::new(mode, LogOffset::ZERO, now), now)
    }

    #[test]
    fn what_is_written_while_a_sync_runs_waits_for_the_next_one() {
        let (mut flush, now) = flush(FlushMode::Sync(SyncMethod::Fdatasync));
        flush.on_appended(at(100));
        assert_eq!(flush.begin_sync(now), None, "nothing is written yet");
        flush.on_written(at(100), Duration::ZERO);
        assert_eq!(flush.begin_sync(now), Some(at(100)));
        flush.on_appended(at(200));
        flush.on_written(at(200), Duration::ZERO);
        assert_eq!(flush.begin_sync(now), None, "one at a time");
        flush.on_synced(at(100), now);
        assert_eq!((flush.flushed_end(), flush.promised_end()), (at(100), at(100)));
        assert_eq!(flush.begin_sync(now), Some(at(200)));
    }

    #[test]
    fn a_failed_sync_is_final() {
        let (mut flush, now) = flush(FlushMode::Sync(SyncMethod::Fdatasync));
        flush.on_appended(at(100));
        flush.on_written(at(100), Duration::ZERO);
        flush.begin_sync(now);
        flush.on_sync_failed(&io::Error::from_raw_os_error(5));
        assert_eq!(flush.fence().map(|fence| fence.errno), Some(5));
        assert_eq!(flush.begin_sync(now), None, "no retry may claim success");
        assert_eq!(flush.promised_end(), LogOffset::ZERO);
    }

    #[test]
    fn a_dsync_write_is_durable_when_it_completes() {
        let (mut flush, now) = flush(FlushMode::Sync(SyncMethod::Dsync));
        flush.on_appended(at(10));
        flush.on_written(at(10), Duration::ZERO);
        assert_eq!((flush.flushed_end(), flush.begin_sync(now)), (at(10), None));
    }

    #[test]
    fn async_flush_syncs_by_interval_and_pages_or_thoroughly() {
        let rule = AsyncFlush {
            interval: Duration::from_millis(500),
            least_pages: 4,
            thorough_interval: Duration::from_secs(10),
        };
        let (mut flush, now) = flush(FlushMode::Async(rule));
        flush.on_appended(at(3 * PAGE_BYTES));
        flush.on_written(at(3 * PAGE_BYTES), Duration::ZERO);
        assert_eq!(flush.promised_end(), at(3 * PAGE_BYTES), "confirmed at append");
        assert_eq!(flush.begin_sync(now + rule.interval), None, "too few pages");
        assert_eq!(flush.begin_sync(now + rule.thorough_interval), Some(at(3 * PAGE_BYTES)));
        flush.on_synced(at(3 * PAGE_BYTES), now + rule.thorough_interval);
        flush.on_appended(at(8 * PAGE_BYTES));
        flush.on_written(at(8 * PAGE_BYTES), Duration::ZERO);
        let later = now + rule.thorough_interval;
        assert_eq!(flush.begin_sync(later), None, "too early");
        assert_eq!(flush.begin_sync(later + rule.interval), Some(at(8 * PAGE_BYTES)));
    }
}
