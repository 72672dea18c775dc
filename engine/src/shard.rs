//! The shard: everything that one core owns of its store, and which stage follows which.
//!
//! Per log there are five positions, always in this order, each with one owner:
//!
//! ```text
//! dispatched_end <= confirmed_end <= flushed_end (SYNC_FLUSH) <= written_end <= appended_end
//!   `dispatch`        `confirm`        the flush                   its writes      `append`
//! ```
//!
//! Every method is one step that runs to its end: it checks, then changes, and never awaits. The loops that await the
//! disk between two steps are in [`crate::stages`]. What the shard promises at each step:
//!
//! - `append`: offsets are assigned, the record is in the log's memory; nothing is durable, nothing is visible.
//! - `confirm`: the mode's promise is kept up to `confirmed_end`; senders up to there may be answered.
//! - `dispatch`: confirmed messages are in their queues; pulls find them and the holds for them have ended.

use std::{
    collections::VecDeque,
    path::PathBuf,
    time::{Duration, Instant},
};

use crate::{
    commit_log::{
        CommitLog, NoRoom,
        record::{Assigned, Message},
    },
    derive::consume_queue::{ConsumeQueues, Entry, Expects, Lookup, QueueIndex},
    io::{
        Runtime,
        event::{Broadcast, Event},
    },
    limits::{
        ASYNC_WRITE_BYTES_MIN, ASYNC_WRITE_LINGER, PULL_SCAN_ENTRIES_MAX, RECORD_OVERHEAD_BYTES_MAX,
        UNWRITTEN_BYTES_MAX,
    },
    offset::{LogOffset, QueueOffset},
    read::{
        cold::ColdCache,
        hold::Holds,
        pull::{Pull, PullStatus, Pulled, Selected, decide_by_offset, takes_more},
    },
    write::{
        ack::{AckQueue, Outcome, Receipt},
        age::UnwrittenAge,
        flush::{Fence, Flush, FlushCounters},
    },
};

/// What a shard is told about itself.
#[derive(Clone, Debug)]
pub struct ShardSettings {
    /// The store's root directory.
    pub root: PathBuf,
    /// `syncFlushTimeout`: how long a sender waits for a flush.
    pub sync_flush_timeout: Duration,
    /// `maxMessageSize`: the largest body, and batch body, in bytes.
    pub message_bytes_max: usize,
}

/// Where an append went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The ordinal of the message in its queue.
    pub queue_offset: QueueOffset,
    /// The place of its record.
    pub log_offset: LogOffset,
    /// The log's end behind it.
    pub end: LogOffset,
    /// When it was stored, milliseconds since 1970.
    pub store_timestamp_ms: i64,
}

/// Why nothing was appended.
#[derive(Clone, Debug)]
pub enum AppendError {
    /// The log is fenced after a failed write or sync.
    Fenced(Fence),
    /// No room at this moment: wait for [`Shard::room`] and try again.
    NoRoom(NoRoom),
    /// A record, or a batch's records together, that fit no file.
    TooLarge {
        /// Their length, in bytes.
        record_bytes: u64,
        /// What a file holds, in bytes.
        record_bytes_max: u64,
    },
}

/// An appended message that isn't dispatched yet.
#[derive(Clone, Copy, Debug)]
struct Pending {
    queue: QueueIndex,
    queue_offset: QueueOffset,
    entry: Entry,
    store_timestamp_ms: i64,
    end: LogOffset,
}

/// What a pull needs before it can be run again.
#[derive(Clone, Debug)]
pub enum Cold {
    /// Old queue entries.
    Queue(crate::derive::consume_queue::ColdRead),
    /// A piece of the log.
    Log(LogOffset),
}

/// Counters of one shard; they only grow.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShardCounters {
    /// Messages appended.
    pub appended_messages: u64,
    /// Bytes of their records.
    pub appended_bytes: u64,
    /// Messages sent to consumers.
    pub pulled_messages: u64,
    /// Bytes of those.
    pub pulled_bytes: u64,
    /// Pieces of the log read from disk for pulls.
    pub cold_reads: u64,
}

/// See the module.
pub struct Shard<R: Runtime> {
    settings: ShardSettings,
    log: CommitLog<R>,
    flush: Flush,
    unwritten_age: UnwrittenAge,
    acks: AckQueue,
    pending: VecDeque<Pending>,
    confirmed_end: LogOffset,
    dispatched_end: LogOffset,
    queues: ConsumeQueues,
    holds: Holds,
    cold: ColdCache,
    selected: Vec<Selected>,
    entries: Vec<Entry>,
    log_min: LogOffset,
    last_store_timestamp_ms: i64,
    /// Messages of this run are stored at this time or later: never at one that the checkpoint already covers.
    store_timestamp_min_ms: i64,
    durable_timestamp_ms: i64,
    /// The log's end at some moment since, and the newest store time then.
    time_mark: Option<(LogOffset, i64)>,
    stopping: bool,
    file_error: Option<std::io::Error>,
    counters: ShardCounters,
    /// Set when something waits to be written.
    pub work: Event,
    /// Set when something waits to be synced.
    pub sync_work: Event,
    /// Set when the log's files want attention: a next one, or preparation.
    pub files: Event,
    /// Set when the queues' files should be written at once: a clean stop.
    pub queue_work: Event,
    /// Set when the checkpoint loop should look: a clean stop.
    pub checkpoint_work: Event,
    /// Set when promises were kept or broken: senders can be answered, messages dispatched.
    pub progress: Event,
    /// Set when there is room again.
    pub room: Broadcast,
}

/// The parts that a store's opening provides.
pub struct ShardParts<R: Runtime> {
    /// The log, positioned at its end.
    pub log: CommitLog<R>,
    /// Its flush; everything before the end is durable.
    pub flush: Flush,
    /// The queues, brought up to the log's end.
    pub queues: ConsumeQueues,
    /// Where the log begins.
    pub log_min: LogOffset,
    /// Store time of the last record.
    pub last_store_timestamp_ms: i64,
    /// Memory for old bytes of the log.
    pub cold: ColdCache,
}

impl<R: Runtime> Shard<R> {
    /// A shard that goes on where `parts` end.
    pub fn new(settings: ShardSettings, parts: ShardParts<R>) -> Shard<R> {
        let end = parts.log.end();
        assert_eq!(parts.flush.flushed_end(), end, "a store is opened with everything durable");
        Shard {
            settings,
            log: parts.log,
            flush: parts.flush,
            unwritten_age: UnwrittenAge::default(),
            acks: AckQueue::default(),
            pending: VecDeque::new(),
            confirmed_end: end,
            dispatched_end: end,
            queues: parts.queues,
            holds: Holds::default(),
            cold: parts.cold,
            selected: Vec::new(),
            entries: Vec::new(),
            log_min: parts.log_min,
            last_store_timestamp_ms: parts.last_store_timestamp_ms,
            store_timestamp_min_ms: parts.last_store_timestamp_ms + 1,
            // Never 0, which says that nothing is known.
            durable_timestamp_ms: parts.last_store_timestamp_ms.max(1),
            time_mark: None,
            stopping: false,
            counters: ShardCounters::default(),
            file_error: None,
            work: Event::new(),
            sync_work: Event::new(),
            files: Event::new(),
            queue_work: Event::new(),
            checkpoint_work: Event::new(),
            progress: Event::new(),
            room: Broadcast::new(),
        }
    }

    // ---- append ----------------------------------------------------------------------------------------------

    /// Whether any message within the size limits can be appended at `now`, which begins to count as its age if it is.
    pub fn has_room(&mut self, now: Instant) -> Result<(), NoRoom> {
        let is_lossy =
            matches!(self.flush.mode(), crate::write::flush::FlushMode::Async(_)) && !self.log.is_mapped();
        if is_lossy && self.unwritten_age.is_too_old(self.flush.written_end(), self.log.end(), now) {
            return Err(NoRoom::Unwritten);
        }
        if self.log.end().since(self.flush.written_end()) > UNWRITTEN_BYTES_MAX {
            return Err(NoRoom::Unwritten);
        }
        let largest = (self.settings.message_bytes_max + RECORD_OVERHEAD_BYTES_MAX) as u64;
        self.log_has_room(largest.min(self.log.record_bytes_max()))
    }

    fn log_has_room(&self, len: u64) -> Result<(), NoRoom> {
        let room = self.log.has_room(len);
        if room == Err(NoRoom::NextFile) {
            self.files.set();
        }
        room
    }

    /// Appends one message to `queue`. `wall_ms` is the host's clock; stored times never go back.
    ///
    /// # Errors
    /// When the log is fenced, has no room at this moment or no file for so much; then nothing has changed.
    pub fn append(
        &mut self,
        queue: QueueIndex,
        message: &Message<'_>,
        wall_ms: i64,
    ) -> Result<Appended, AppendError> {
        self.reserve(message.record_bytes())?;
        let appended = self.append_reserved(queue, message, wall_ms);
        self.on_appended();
        Ok(appended)
    }

    /// Appends several messages to `queue`, adjacent, in one file, all or nothing. `each` is told where each went.
    ///
    /// # Errors
    /// As [`Shard::append`].
    pub fn append_batch<'m>(
        &mut self,
        queue: QueueIndex,
        messages: impl Iterator<Item = Message<'m>> + Clone,
        wall_ms: i64,
        mut each: impl FnMut(Appended),
    ) -> Result<(), AppendError> {
        self.reserve(messages.clone().map(|message| message.record_bytes()).sum())?;
        for message in messages {
            each(self.append_reserved(queue, &message, wall_ms));
        }
        self.on_appended();
        Ok(())
    }

    /// Everything that can fail, before the first change.
    fn reserve(&mut self, len: usize) -> Result<(), AppendError> {
        if let Some(fence) = self.flush.fence() {
            return Err(AppendError::Fenced(fence.clone()));
        }
        let (record_bytes, record_bytes_max) = (len as u64, self.log.record_bytes_max());
        if record_bytes > record_bytes_max {
            return Err(AppendError::TooLarge { record_bytes, record_bytes_max });
        }
        if self.log.end().since(self.flush.written_end()) > UNWRITTEN_BYTES_MAX {
            return Err(AppendError::NoRoom(NoRoom::Unwritten));
        }
        self.log_has_room(len as u64).map_err(AppendError::NoRoom)?;
        self.log.make_room(len as u64);
        Ok(())
    }

    fn on_appended(&mut self) {
        let end = self.log.end();
        self.flush.on_appended(end);
        if self.log.is_mapped() {
            self.flush.on_copied(end);
            self.sync_work.set();
        } else {
            self.work.set();
        }
        if self.log.wanted_file().is_some() {
            self.files.set();
        }
    }

    fn append_reserved(&mut self, queue: QueueIndex, message: &Message<'_>, wall_ms: i64) -> Appended {
        let len = message.record_bytes();
        let assigned = Assigned {
            queue_offset: self.queues.next_offset(queue),
            log_offset: self.log.end(),
            store_timestamp_ms: wall_ms.max(self.last_store_timestamp_ms).max(self.store_timestamp_min_ms),
        };
        message.encode(assigned, self.log.reserve(len));
        self.queues.advance(queue, 1);
        self.last_store_timestamp_ms = assigned.store_timestamp_ms;
        let end = self.log.end();
        let entry = Entry {
            log_offset: assigned.log_offset,
            size: u32::try_from(len).expect("a record is bounded by the message size limit"),
            tags_code: protocol::properties::tags_code(message.properties),
        };
        self.pending.push_back(Pending {
            queue,
            queue_offset: assigned.queue_offset,
            entry,
            store_timestamp_ms: assigned.store_timestamp_ms,
            end,
        });
        self.counters.appended_messages += 1;
        self.counters.appended_bytes += len as u64;
        Appended {
            queue_offset: assigned.queue_offset,
            log_offset: assigned.log_offset,
            end,
            store_timestamp_ms: assigned.store_timestamp_ms,
        }
    }

    // ---- ack -------------------------------------------------------------------------------------------------

    /// The sender of `receipt` waits until its message is confirmed.
    pub fn wait_for_promise(&mut self, receipt: Receipt) {
        assert!(receipt.end <= self.log.end(), "a sender waits for what was appended");
        self.acks.wait(receipt);
    }

    /// The deadline of a sender that begins to wait now.
    pub fn ack_deadline(&self, now: Instant) -> Instant {
        now + self.settings.sync_flush_timeout
    }

    /// Confirms what the mode's promise covers by now. Never goes back.
    pub fn confirm(&mut self) {
        let promised = self.flush.promised_end();
        assert!(
            promised >= self.confirmed_end,
            "confirmed {} is taken back to {promised}",
            self.confirmed_end
        );
        if self.flush.fence().is_none() {
            self.confirmed_end = promised;
        }
    }

    /// The next sender that can be told something.
    pub fn poll_ack(&mut self, now: Instant) -> Option<(Receipt, Outcome)> {
        self.acks.poll(self.confirmed_end, self.flush.fence().is_some(), now)
    }

    /// When a sender's patience ends next.
    pub fn next_ack_deadline(&self) -> Option<Instant> {
        self.acks.next_deadline()
    }

    /// How many senders wait.
    pub fn waiting_senders(&self) -> usize {
        self.acks.len()
    }

    // ---- dispatch --------------------------------------------------------------------------------------------

    /// Puts confirmed messages into their queues and ends the holds that wait for them.
    pub fn dispatch(&mut self) {
        while let Some(pending) = self.pending.front().copied()
            && pending.end <= self.confirmed_end
            && !self.queues.behind().is_full()
        {
            self.pending.pop_front();
            match self.queues.expects(pending.queue, pending.queue_offset) {
                Expects::Next => {}
                other => panic!("queue offset {} is {other:?}, not next", pending.queue_offset),
            }
            self.queues.push(pending.queue, pending.queue_offset, pending.entry);
            self.queues.on_dispatched(pending.store_timestamp_ms);
            self.holds.on_dispatched(pending.queue, pending.queue_offset, pending.entry.tags_code);
            self.dispatched_end = pending.end;
        }
        assert!(self.dispatched_end <= self.confirmed_end, "only confirmed messages are dispatched");
    }

    // ---- pull ------------------------------------------------------------------------------------------------

    /// Runs a pull on what is in memory. On [`PullStatus::Found`] the records are selected: [`Shard::selected_bytes`]
    /// tells their length, [`Shard::copy_selected`] copies them, in the same step.
    ///
    /// # Errors
    /// What must be read first; then nothing is selected.
    pub fn pull(&mut self, pull: &Pull) -> Result<Pulled, Cold> {
        self.selected.clear();
        let (min, max) = (self.queues.min_offset(pull.queue), self.queues.max_offset(pull.queue));
        if let Some(pulled) = decide_by_offset(pull.queue_offset, min, max) {
            return Ok(pulled);
        }
        let count_max = pull.message_count_max.max(pull.cold_message_count_max);
        let wanted = match pull.filter {
            crate::read::pull::Filter::All => count_max.max(1),
            crate::read::pull::Filter::TagCodes(_) => PULL_SCAN_ENTRIES_MAX.max(count_max),
        };
        self.entries.clear();
        let mut entries = std::mem::take(&mut self.entries);
        let selection = match self.queues.lookup(pull.queue, pull.queue_offset, wanted) {
            Lookup::Memory(found) => {
                entries.extend(found);
                self.select(pull, &entries)
            }
            Lookup::Cold(read) => Err(Cold::Queue(read)),
        };
        self.entries = entries;
        let (scanned, status) = selection?;
        let next_begin_offset = pull.queue_offset.plus(scanned as u64);
        Ok(Pulled { status, next_begin_offset, min_offset: min, max_offset: max })
    }

    /// Selects among `entries`; tells how many were used up.
    fn select(&mut self, pull: &Pull, entries: &[Entry]) -> Result<(usize, PullStatus), Cold> {
        let mut bytes = 0;
        let mut cold_bytes = 0;
        let mut removed = 0;
        let mut scanned = 0;
        for entry in entries {
            let len = entry.size as usize;
            if entry.is_hole() || entry.log_offset < self.log_min {
                removed += 1;
                scanned += 1;
                continue;
            }
            if !pull.filter.matches(entry.tags_code) {
                scanned += 1;
                continue;
            }
            let is_cold = self.log.resident(entry.log_offset, len).is_none();
            if !takes_more(pull, self.selected.len(), bytes, len, is_cold) {
                break;
            }
            if is_cold {
                if let Some(piece) = self.cold.missing(entry.log_offset, len) {
                    if self.selected.is_empty() {
                        return Err(Cold::Log(piece));
                    }
                    break;
                }
                cold_bytes += len;
                if cold_bytes > self.cold.pull_bytes_max() && !self.selected.is_empty() {
                    break;
                }
            }
            self.selected.push(Selected { log_offset: entry.log_offset, len });
            bytes += len;
            scanned += 1;
        }
        let status = if !self.selected.is_empty() {
            PullStatus::Found
        } else if removed > 0 {
            PullStatus::MessageWasRemoving
        } else {
            PullStatus::NoMatchedMessage
        };
        Ok((scanned, status))
    }

    /// Length of the selected records together.
    pub fn selected_bytes(&self) -> usize {
        self.selected.iter().map(|selected| selected.len).sum()
    }

    /// How many records are selected.
    pub fn selected_count(&self) -> usize {
        self.selected.len()
    }

    /// Appends the selected records to `out`, as they are stored.
    pub fn copy_selected(&mut self, out: &mut Vec<u8>) {
        for selected in &self.selected {
            match self.log.resident(selected.log_offset, selected.len) {
                Some(bytes) => out.extend_from_slice(bytes),
                None => self
                    .cold
                    .copy(selected.log_offset, selected.len, out)
                    .expect("what was selected in this step is still there"),
            }
            self.counters.pulled_messages += 1;
            self.counters.pulled_bytes += selected.len as u64;
        }
        self.selected.clear();
    }

    /// Whether the message at `offset` of `queue` can be read without the disk.
    pub fn is_resident(&mut self, queue: QueueIndex, offset: QueueOffset) -> bool {
        let entry = match self.queues.lookup(queue, offset, 1) {
            Lookup::Memory(mut found) => found.next(),
            Lookup::Cold(_) => None,
        };
        entry.is_some_and(|entry| {
            !entry.is_hole() && self.log.resident(entry.log_offset, entry.size as usize).is_some()
        })
    }

    /// When the message of `entry` was stored.
    ///
    /// # Errors
    /// What must be read first.
    pub fn store_timestamp_ms(&mut self, entry: Entry) -> Result<i64, Cold> {
        // The fields up to the store timestamp, with the longer of the two address lengths.
        const HEAD_BYTES: usize = 76;
        let len = HEAD_BYTES.min(entry.size as usize);
        let mut head = Vec::with_capacity(HEAD_BYTES);
        match self.log.resident(entry.log_offset, len) {
            Some(bytes) => head.extend_from_slice(bytes),
            None => self.cold.copy(entry.log_offset, len, &mut head).map_err(Cold::Log)?,
        }
        let sys_flag = i32::from_be_bytes(head[36..40].try_into().expect("four bytes"));
        let host_bytes = if sys_flag & protocol::message::sys_flag::BORNHOST_V6 == 0 { 8 } else { 20 };
        let at = 48 + host_bytes;
        Ok(i64::from_be_bytes(head[at..at + 8].try_into().expect("eight bytes")))
    }

    // ---- parts that the stages and the server use --------------------------------------------------------------

    /// The settings.
    pub fn settings(&self) -> &ShardSettings {
        &self.settings
    }

    /// The log, for the stages.
    pub(crate) fn log_mut(&mut self) -> &mut CommitLog<R> {
        &mut self.log
    }

    /// The flush, for the stages.
    pub(crate) fn flush_mut(&mut self) -> &mut Flush {
        &mut self.flush
    }

    /// The log and its flush together.
    pub(crate) fn log_and_flush(&mut self) -> (&mut CommitLog<R>, &mut Flush) {
        (&mut self.log, &mut self.flush)
    }

    /// The cache of old bytes.
    pub(crate) fn cold_mut(&mut self) -> &mut ColdCache {
        self.counters.cold_reads += 1;
        &mut self.cold
    }

    /// The cache of old bytes.
    pub(crate) fn cold(&self) -> &ColdCache {
        &self.cold
    }

    /// The log.
    pub fn log(&self) -> &CommitLog<R> {
        &self.log
    }

    /// The queues.
    pub fn queues(&self) -> &ConsumeQueues {
        &self.queues
    }

    /// The queues, to be opened and persisted.
    pub fn queues_mut(&mut self) -> &mut ConsumeQueues {
        &mut self.queues
    }

    /// The pulls that wait.
    pub fn holds_mut(&mut self) -> &mut Holds {
        &mut self.holds
    }

    /// The pulls that wait.
    pub fn holds(&self) -> &Holds {
        &self.holds
    }

    /// Time passes for the pulls that wait.
    pub fn on_hold_time(&mut self, now: Instant) {
        let queues = &self.queues;
        self.holds.on_time(now, |queue, offset| queues.max_offset(queue) > offset);
    }

    /// Why no message is taken, if so.
    pub fn fence(&self) -> Option<&Fence> {
        self.flush.fence()
    }

    /// Every message stored up to this time is durable in the log, milliseconds since 1970.
    pub fn durable_timestamp_ms(&self) -> i64 {
        self.durable_timestamp_ms
    }

    /// Looks at how far the flush is, before and after each of its steps. When everything is durable that had been
    /// appended at some moment, then so is every message stored before that moment's store time; messages appended
    /// later may have that very time.
    pub(crate) fn note_durable_time(&mut self) {
        if let Some((end, timestamp_ms)) = self.time_mark
            && self.flush.flushed_end() >= end
        {
            assert!(timestamp_ms >= self.durable_timestamp_ms, "store times never go back");
            self.durable_timestamp_ms = self.durable_timestamp_ms.max(timestamp_ms - 1);
            self.time_mark = None;
        }
        if self.time_mark.is_none() && self.log.end() > self.flush.flushed_end() {
            self.time_mark = Some((self.log.end(), self.last_store_timestamp_ms));
        }
    }

    /// How long the next write waits for company: in ASYNC_FLUSH nobody waits for a write, and a block that is written
    /// for each message is written many times. Far below the 20 ms that a kill may cost.
    pub(crate) fn write_linger(&self) -> Option<Duration> {
        let unwritten = self.log.end().since(self.flush.written_end());
        let is_worth_it = matches!(self.flush.mode(), crate::write::flush::FlushMode::Async(_))
            && unwritten > 0
            && unwritten < ASYNC_WRITE_BYTES_MIN
            && !self.stopping;
        is_worth_it.then_some(ASYNC_WRITE_LINGER)
    }

    /// Everything below survives kill -9.
    pub fn written_end(&self) -> LogOffset {
        self.flush.written_end()
    }

    /// Whether every message is in its queue, and the queues' files have it durably.
    pub fn is_dispatched_and_durable(&self) -> bool {
        self.pending.is_empty() && self.queues.is_durable()
    }

    /// Whether nothing waits to be written.
    pub fn is_all_written(&self) -> bool {
        self.flush.written_end() == self.log.end()
    }

    /// Everything below is what the mode promises.
    pub fn confirmed_end(&self) -> LogOffset {
        self.confirmed_end
    }

    /// Everything below can be pulled.
    pub fn dispatched_end(&self) -> LogOffset {
        self.dispatched_end
    }

    /// Everything below survives a loss of power.
    pub fn flushed_end(&self) -> LogOffset {
        self.flush.flushed_end()
    }

    /// Where the log begins.
    pub fn log_min(&self) -> LogOffset {
        self.log_min
    }

    /// Store time of the newest message.
    pub fn last_store_timestamp_ms(&self) -> i64 {
        self.last_store_timestamp_ms
    }

    /// Counters of the flush.
    pub fn flush_counters(&self) -> FlushCounters {
        self.flush.counters()
    }

    /// Counters of the shard.
    pub fn counters(&self) -> ShardCounters {
        self.counters
    }

    /// When the flush wants to be looked at although nothing happens.
    pub fn next_flush_deadline(&self, now: Instant) -> Option<Duration> {
        self.flush.next_deadline(now)
    }

    /// Why the next file of the log could not be made, if so.
    pub fn file_error(&self) -> Option<&std::io::Error> {
        self.file_error.as_ref()
    }

    pub(crate) fn set_file_error(&mut self, error: Option<std::io::Error>) {
        self.file_error = error;
    }

    /// From now on the stages finish what there is and end.
    pub fn stop(&mut self) {
        self.stopping = true;
        self.holds.end_all();
        self.work.set();
        self.sync_work.set();
        self.files.set();
        self.progress.set();
        self.queue_work.set();
        self.checkpoint_work.set();
        self.room.wake_all();
    }

    /// Whether the shard is being stopped.
    pub fn is_stopping(&self) -> bool {
        self.stopping
    }
}

#[cfg(test)]
mod tests;
