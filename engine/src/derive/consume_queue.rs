//! The consume queues: for each topic and queue, where message number n is in the log.
//!
//! Plain state without I/O. Entries arrive in log order by [`push`](ConsumeQueues::push); what isn't in files
//! yet and a short recent tail are held in memory, the rest is read from the files. The files are RocketMQ's:
//! sparse, of full length from the moment they have their name, never mapped, never opened for direct access.
//!
//! - [`entry`]: the 20 bytes; [`queue`]: one queue's positions; [`cold`]: entries read back from files;
//! - [`persist`]: writing and syncing behind dispatch; [`file_table`]: the bounded table of open files;
//! - [`load`]: finding each queue's end at start; [`truncate`]: cutting queues where the log was cut.
//!
//! Two numbers per queue are easily confused: [`next_offset`](ConsumeQueues::next_offset) is what the next
//! *append* gets, [`max_offset`](ConsumeQueues::max_offset) is the end of what was *dispatched*, hence visible.

use std::{
    collections::{HashMap, VecDeque},
    path::{Path, PathBuf},
    rc::Rc,
};

use self::{cold::ColdCache, queue::Queue};
pub use self::{
    cold::{ColdRead, perform as perform_cold},
    entry::{ENTRY_BYTES, Entry},
    file_table::FileTable,
    persist::{PersistOutcome, PersistPlan, SyncOutcome, SyncPlan, perform_persist, perform_sync},
    queue::Entries,
};
use crate::{error::StoreError, offset::QueueOffset};

pub mod entry;
pub mod queue;
pub mod cold;
pub mod file_table;
pub mod persist;
pub mod load;
pub mod truncate;

/// RocketMQ's `mappedFileSizeConsumeQueue`: 300,000 entries.
pub const FILE_BYTES_DEFAULT: u64 = 6_000_000;
/// The name of the directory of all queues in a store.
pub const DIRECTORY: &str = "consumequeue";

/// Entries that wait to be written, over all queues, before dispatch must stop: 48 MiB of them.
pub const UNPERSISTED_COUNT_MAX: u64 = 2 * 1024 * 1024;
/// Recent entries that a busy queue keeps in memory after they were written.
const TAIL_COUNT_MAX: usize = 1024;
/// Recent entries that an idle queue keeps: with all else it stays below 2 KiB.
const IDLE_TAIL_COUNT_MAX: usize = 32;

/// A queue of this shard, dense from 0 in the order of first use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueIndex(pub(crate) u32);

impl QueueIndex {
    /// Its number, to index tables of one's own.
    #[must_use]
    pub fn get(self) -> usize {
        self.0 as usize
    }
}

/// What a queue expects of an entry, see [`ConsumeQueues::expects`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expects {
    /// It has that entry: nothing to do.
    Already,
    /// That entry is the next one.
    Next,
    /// Entries are missing before it.
    Gap,
}

/// Where the entries asked for are, see [`ConsumeQueues::lookup`].
#[derive(Debug)]
pub enum Lookup<'a> {
    /// Here: as many as are at hand of those asked for, at least one unless the queue has none there.
    Memory(Entries<'a>),
    /// In a file: to be read by [`perform_cold`] and given back to [`ConsumeQueues::on_cold_loaded`].
    Cold(ColdRead),
}

/// How far the files are behind what was dispatched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Behind {
    /// Entries not written yet.
    pub entries: u64,
    /// How many there may be: then dispatch stops.
    pub entries_max: u64,
}

impl Behind {
    /// Whether dispatch must stop until some have been written.
    #[must_use]
    pub fn is_full(self) -> bool {
        self.entries >= self.entries_max
    }
}

/// All consume queues of a shard.
pub struct ConsumeQueues {
    /// `consumequeue/` of the store.
    directory: PathBuf,
    /// Where files are made before they get their names.
    temporary_directory: PathBuf,
    /// Entries in each file.
    file_entries: u64,
    queues: Vec<Queue>,
    /// By topic; the queues of a topic by queue id.
    by_topic: HashMap<Rc<str>, Vec<(u32, QueueIndex)>>,
    cold: ColdCache,
    /// Queues with entries to be written, in the order in which they came to have some.
    dirty: VecDeque<QueueIndex>,
    /// Queues with written entries that no sync covers.
    unsynced: Vec<QueueIndex>,
    /// Entries that wait to be written.
    unpersisted: u64,
    persist_in_flight: bool,
    sync_in_flight: bool,
    sync_failed: bool,
    /// Store time of the last message dispatched, of the last one written, of the last one synced.
    dispatched_timestamp_ms: i64,
    persisted_timestamp_ms: i64,
    durable_timestamp_ms: i64,
}

impl ConsumeQueues {
    /// No queues yet, of a store at `root`, with files of `file_bytes`.
    ///
    /// # Errors
    /// When `file_bytes` isn't a positive multiple of an entry's 20 bytes.
    pub fn new(root: &Path, file_bytes: u64) -> Result<ConsumeQueues, StoreError> {
        if file_bytes == 0 || !file_bytes.is_multiple_of(ENTRY_BYTES) || i64::try_from(file_bytes).is_err() {
            return Err(StoreError::BadSize {
                setting: "mappedFileSizeConsumeQueue",
                value: file_bytes,
                rule: "a positive multiple of 20",
            });
        }
        Ok(ConsumeQueues {
            directory: root.join(DIRECTORY),
            temporary_directory: root.join("ringmq"),
            file_entries: file_bytes / ENTRY_BYTES,
            queues: Vec::new(),
            by_topic: HashMap::new(),
            cold: ColdCache::default(),
            dirty: VecDeque::new(),
            unsynced: Vec::new(),
            unpersisted: 0,
            persist_in_flight: false,
            sync_in_flight: false,
            sync_failed: false,
            dispatched_timestamp_ms: 0,
            persisted_timestamp_ms: 0,
            durable_timestamp_ms: 0,
        })
    }

    /// Size of each file in bytes.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.file_entries * ENTRY_BYTES
    }

    /// The queue of `topic` with `queue_id`.
    #[must_use]
    pub fn find(&self, topic: &str, queue_id: u32) -> Option<QueueIndex> {
        let queues = self.by_topic.get(topic)?;
        let place = queues.binary_search_by_key(&queue_id, |&(id, _)| id).ok()?;
        Some(queues[place].1)
    }

    /// The queue of `topic` with `queue_id`, made when there is none: in memory only, its first file appears
    /// when its first entry is written.
    pub fn open(&mut self, topic: &str, queue_id: u32) -> QueueIndex {
        if let Some(queue) = self.find(topic, queue_id) {
            return queue;
        }
        let index =
            QueueIndex(u32::try_from(self.queues.len()).expect("fewer than 2^32 queues fit in memory"));
        let topic = match self.by_topic.get_key_value(topic) {
            Some((topic, _)) => topic.clone(),
            None => Rc::from(topic),
        };
        let queues = self.by_topic.entry(topic.clone()).or_default();
        let place = queues.partition_point(|&(id, _)| id < queue_id);
        queues.insert(place, (queue_id, index));
        self.queues.push(Queue::new(topic, queue_id));
        index
    }

    /// The topic of `queue`.
    #[must_use]
    pub fn topic_of(&self, queue: QueueIndex) -> &str {
        &self.queue(queue).topic
    }

    /// The queue id of `queue`.
    #[must_use]
    pub fn queue_id_of(&self, queue: QueueIndex) -> u32 {
        self.queue(queue).queue_id
    }

    /// All queues.
    pub fn iter(&self) -> impl Iterator<Item = QueueIndex> + use<> {
        let count = u32::try_from(self.queues.len()).expect("queues are numbered by u32");
        (0..count).map(QueueIndex)
    }

    /// The number that the next message appended to `queue` gets.
    #[must_use]
    pub fn next_offset(&self, queue: QueueIndex) -> QueueOffset {
        self.queue(queue).next
    }

    /// Counts `count` messages appended to `queue`.
    pub fn advance(&mut self, queue: QueueIndex, count: u64) {
        let queue = self.queue_mut(queue);
        queue.next = queue.next.plus(count);
    }

    /// The first number of `queue` whose message is still there; equal to [`max_offset`](Self::max_offset) when
    /// there is none.
    #[must_use]
    pub fn min_offset(&self, queue: QueueIndex) -> QueueOffset {
        self.queue(queue).min
    }

    /// The end of what was dispatched to `queue`.
    #[must_use]
    pub fn max_offset(&self, queue: QueueIndex) -> QueueOffset {
        self.queue(queue).end
    }

    /// What `queue` would make of an entry with number `offset`.
    #[must_use]
    pub fn expects(&self, queue: QueueIndex, offset: QueueOffset) -> Expects {
        let end = self.queue(queue).end;
        if offset < end {
            Expects::Already
        } else if offset == end {
            Expects::Next
        } else {
            Expects::Gap
        }
    }

    /// Adds the next entry of `queue`.
    ///
    /// # Panics
    /// When `offset` isn't the next one: numbers are given once and dispatched in order.
    pub fn push(&mut self, queue: QueueIndex, offset: QueueOffset, entry: Entry) {
        let state = &mut self.queues[queue.get()];
        assert!(offset == state.end, "entries are dispatched in order: {offset} after {}", state.end);
        assert!(entry.size > 0, "an entry describes a record");
        state.push(entry, TAIL_COUNT_MAX);
        self.unpersisted += 1;
        if !state.dirty {
            state.dirty = true;
            self.dirty.push_back(queue);
        }
    }

    /// Notes that every message stored up to `store_timestamp_ms` was dispatched. Call it after each batch of
    /// pushes, also when the messages have no entries.
    pub fn on_dispatched(&mut self, store_timestamp_ms: i64) {
        self.dispatched_timestamp_ms = self.dispatched_timestamp_ms.max(store_timestamp_ms);
    }

    /// Ends an opening: appends go on where each queue ends, and everything stored up to `store_timestamp_ms`
    /// has its entry.
    pub(crate) fn begin_appending(&mut self, store_timestamp_ms: i64) {
        assert!(self.is_durable(), "an opening leaves nothing to write");
        for state in &mut self.queues {
            state.next = state.end;
        }
        self.dispatched_timestamp_ms = store_timestamp_ms;
        self.persisted_timestamp_ms = store_timestamp_ms;
        self.durable_timestamp_ms = store_timestamp_ms;
    }

    /// Up to `count` entries of `queue` from number `from` on. Entries for which [`Entry::is_hole`] holds have no
    /// message.
    pub fn lookup(&mut self, queue: QueueIndex, from: QueueOffset, count: usize) -> Lookup<'_> {
        let state = &self.queues[queue.get()];
        if from >= state.end || from < state.min || count == 0 {
            return Lookup::Memory(Entries::default());
        }
        if from >= state.window_base {
            return Lookup::Memory(state.window_entries(from, count));
        }
        // Checked first and looked up again: a borrow that is returned on one path only isn't accepted yet.
        if self.cold.holds(queue, from) {
            return Lookup::Memory(self.cold.entries(queue, from, count));
        }
        Lookup::Cold(self.cold_read(queue, from))
    }

    /// How far the files are behind.
    #[must_use]
    pub fn behind(&self) -> Behind {
        Behind { entries: self.unpersisted, entries_max: UNPERSISTED_COUNT_MAX }
    }

    /// Gives back the memory of queues in which nothing happened since the last call, once their entries are in
    /// files. Call it every second or so.
    pub fn trim_idle(&mut self) {
        for queue in &mut self.queues {
            queue.trim_if_idle(IDLE_TAIL_COUNT_MAX);
        }
    }

    fn queue(&self, queue: QueueIndex) -> &Queue {
        &self.queues[queue.get()]
    }

    fn queue_mut(&mut self, queue: QueueIndex) -> &mut Queue {
        &mut self.queues[queue.get()]
    }

    /// The directory of `queue`'s files.
    fn directory_of(&self, queue: QueueIndex) -> PathBuf {
        let queue = self.queue(queue);
        self.directory.join(&*queue.topic).join(queue.queue_id.to_string())
    }

    /// The file of `queue` that holds entry `number`.
    fn path_of(&self, queue: QueueIndex, number: u64) -> PathBuf {
        let base = self.file_base(number) * ENTRY_BYTES;
        self.directory_of(queue).join(format!("{base:020}"))
    }

    /// The number of the first entry in the file that holds entry `number`.
    fn file_base(&self, number: u64) -> u64 {
        number - number % self.file_entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offset::LogOffset;

    fn queues() -> ConsumeQueues {
        ConsumeQueues::new(Path::new("store"), 2000).unwrap()
    }

    fn entry(number: u64) -> Entry {
        Entry { log_offset: LogOffset::new(number * 100), size: 100, tags_code: 7 }
    }

    #[test]
    fn a_file_is_a_whole_number_of_entries() {
        for bytes in [0, 10, 2001] {
            assert!(matches!(ConsumeQueues::new(Path::new("store"), bytes), Err(StoreError::BadSize { .. })));
        }
    }

    #[test]
    fn queues_are_found_by_topic_and_id() {
        let mut queues = queues();
        let one = queues.open("A", 3);
        let two = queues.open("A", 1);
        let three = queues.open("B", 3);
        assert_eq!(queues.open("A", 3), one);
        assert_eq!(queues.find("A", 1), Some(two));
        assert_eq!(queues.find("B", 3), Some(three));
        assert_eq!(queues.find("B", 1), None);
        assert_eq!(queues.find("C", 3), None);
        assert_eq!((queues.topic_of(two), queues.queue_id_of(two)), ("A", 1));
        assert_eq!(queues.iter().collect::<Vec<_>>(), [one, two, three]);
    }

    #[test]
    fn appends_run_ahead_of_what_is_visible() {
        let mut queues = queues();
        let queue = queues.open("A", 0);
        queues.advance(queue, 3);
        assert_eq!(queues.next_offset(queue), QueueOffset::new(3));
        assert_eq!(queues.max_offset(queue), QueueOffset::ZERO);
        queues.push(queue, QueueOffset::ZERO, entry(0));
        assert_eq!(queues.max_offset(queue), QueueOffset::new(1));
        assert_eq!(queues.expects(queue, QueueOffset::ZERO), Expects::Already);
        assert_eq!(queues.expects(queue, QueueOffset::new(1)), Expects::Next);
        assert_eq!(queues.expects(queue, QueueOffset::new(2)), Expects::Gap);
    }

    #[test]
    #[should_panic(expected = "dispatched in order")]
    fn an_entry_out_of_order_is_a_broken_invariant() {
        let mut queues = queues();
        let queue = queues.open("A", 0);
        queues.push(queue, QueueOffset::new(1), entry(1));
    }

    #[test]
    fn what_is_not_written_stays_in_memory() {
        let mut queues = queues();
        let queue = queues.open("A", 0);
        for number in 0..5000 {
            queues.push(queue, QueueOffset::new(number), entry(number));
        }
        queues.trim_idle();
        queues.trim_idle();
        assert_eq!(queues.behind().entries, 5000);
        let Lookup::Memory(entries) = queues.lookup(queue, QueueOffset::ZERO, 10_000) else {
            panic!("unwritten entries are in memory")
        };
        assert_eq!(entries.len(), 5000);
        assert!(entries.enumerate().all(|(number, found)| found == entry(number as u64)));
        let Lookup::Memory(mut entries) = queues.lookup(queue, QueueOffset::new(5000), 10) else {
            panic!("nothing beyond the end")
        };
        assert_eq!(entries.next(), None);
    }
}
