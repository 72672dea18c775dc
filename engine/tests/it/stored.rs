//! Stores made by hand for the tests of opening them: a log of real records, and what its queues must then hold.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use engine::{
    commit_log::record::{Assigned, BLANK_BYTES, Message, encode_blank},
    derive::consume_queue::{ConsumeQueues, ENTRY_BYTES, Entry, FileTable, Lookup, QueueIndex, perform_cold},
    error::StoreError,
    io::script::{ScriptDisk, ScriptRuntime},
    offset::{LogOffset, QueueOffset},
    recover::{Checkpoint, OpenedStore, open_store},
};

pub const ROOT: &str = "/store";
pub const SEGMENT_BYTES: u64 = 16 * 1024;
/// Ten entries: queues of the tests span several files.
pub const QUEUE_FILE_BYTES: u64 = 200;
/// When the first message is stored; each later one 10 ms after.
pub const BEGAN_MS: i64 = 1_700_000_000_000;

/// A message of a [`Log`].
#[derive(Clone, Debug)]
pub struct Written {
    pub topic: String,
    pub queue_id: u32,
    pub queue_offset: u64,
    pub entry: Entry,
    pub store_timestamp_ms: i64,
}

impl Written {
    pub fn start(&self) -> u64 {
        self.entry.log_offset.get()
    }

    pub fn end(&self) -> u64 {
        self.start() + u64::from(self.entry.size)
    }
}

/// A commit log from 0 on, whole segments.
#[derive(Clone, Default)]
pub struct Log {
    pub bytes: Vec<u8>,
    pub end: u64,
    pub messages: Vec<Written>,
    counters: BTreeMap<(String, u32), u64>,
}

impl Log {
    /// A log of `count` messages over a few queues, with bodies of different lengths.
    pub fn of(count: u64) -> Log {
        let mut log = Log::default();
        for number in 0..count {
            let topic = if number % 5 == 4 { "Other" } else { "Topic" };
            log.append(
                topic,
                u32::try_from(number % 3).unwrap(),
                50 + usize::try_from(number * 37 % 400).unwrap(),
            );
        }
        log
    }

    pub fn append(&mut self, topic: &str, queue_id: u32, body_len: usize) {
        let body: Vec<u8> = (0..body_len).map(|at| u8::try_from(at % 250 + 1).unwrap()).collect();
        self.append_with(topic, queue_id, &body, "TAGS\u{1}TagA");
    }

    pub fn append_with(&mut self, topic: &str, queue_id: u32, body: &[u8], properties: &str) {
        let message = Message {
            topic,
            queue_id,
            flag: 0,
            sys_flag: 0,
            born_timestamp_ms: BEGAN_MS,
            born_host: "127.0.0.1:50000".parse().unwrap(),
            store_host: "127.0.0.1:10911".parse().unwrap(),
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body,
            properties,
        };
        let size = message.record_bytes();
        let left = SEGMENT_BYTES - self.end % SEGMENT_BYTES;
        let fits = (size + BLANK_BYTES) as u64 <= left;
        let segment_end = self.end.next_multiple_of(SEGMENT_BYTES).max(self.end + left);
        self.bytes.resize(usize::try_from(segment_end).unwrap(), 0);
        if !fits {
            let at = usize::try_from(self.end).unwrap();
            encode_blank(left, &mut self.bytes[at..at + BLANK_BYTES]);
            self.end = segment_end;
            self.bytes.resize(usize::try_from(self.end + SEGMENT_BYTES).unwrap(), 0);
        }
        let counter = self.counters.entry((topic.to_owned(), queue_id)).or_default();
        let store_timestamp_ms = BEGAN_MS + 10 * i64::try_from(self.messages.len()).unwrap();
        let assigned = Assigned {
            queue_offset: QueueOffset::new(*counter),
            log_offset: LogOffset::new(self.end),
            store_timestamp_ms,
        };
        let at = usize::try_from(self.end).unwrap();
        message.encode(assigned, &mut self.bytes[at..at + size]);
        self.messages.push(Written {
            topic: topic.to_owned(),
            queue_id,
            queue_offset: *counter,
            entry: Entry {
                log_offset: assigned.log_offset,
                size: u32::try_from(size).unwrap(),
                tags_code: if properties.is_empty() { 0 } else { 2_598_919 },
            },
            store_timestamp_ms,
        });
        *counter += 1;
        self.end += size as u64;
    }

    pub fn last(&self) -> &Written {
        self.messages.last().unwrap()
    }

    /// The log cut before message number `count`.
    pub fn cut(&self, count: usize) -> Log {
        let mut log = self.clone();
        log.end = log.messages[count].start();
        log.messages.truncate(count);
        log.counters.clear();
        for message in &log.messages {
            log.counters.insert((message.topic.clone(), message.queue_id), message.queue_offset + 1);
        }
        let end = usize::try_from(log.end).unwrap();
        log.bytes[end..].fill(0);
        log
    }

    /// Writes its segments.
    pub fn put(&self, disk: &ScriptDisk) {
        for directory in ["commitlog", "consumequeue", "config", "ringmq"] {
            disk.create_directory(Path::new(ROOT).join(directory));
        }
        for (number, segment) in (0..).zip(self.bytes.chunks(usize::try_from(SEGMENT_BYTES).unwrap())) {
            disk.put(segment_path(number * SEGMENT_BYTES), segment);
        }
    }

    /// Writes its queues, as dispatched up to message number `count`.
    pub fn put_queues(&self, disk: &ScriptDisk, count: usize) {
        let mut files: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
        for message in &self.messages[..count] {
            let position = message.queue_offset * ENTRY_BYTES;
            let base = position / QUEUE_FILE_BYTES * QUEUE_FILE_BYTES;
            let path = queue_path(&message.topic, message.queue_id, base);
            let file =
                files.entry(path).or_insert_with(|| vec![0; usize::try_from(QUEUE_FILE_BYTES).unwrap()]);
            let mut bytes = Vec::new();
            message.entry.encode(&mut bytes);
            let at = usize::try_from(position - base).unwrap();
            file[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        for (path, bytes) in files {
            disk.put(path, &bytes);
        }
    }
}

pub fn segment_path(base: u64) -> PathBuf {
    Path::new(ROOT).join(format!("commitlog/{base:020}"))
}

pub fn queue_path(topic: &str, queue_id: u32, base: u64) -> PathBuf {
    Path::new(ROOT).join(format!("consumequeue/{topic}/{queue_id}/{base:020}"))
}

/// A world with this log, all its queues, a checkpoint that says so, and no `abort`.
pub fn clean_store(log: &Log) -> ScriptRuntime {
    let runtime = ScriptRuntime::new(1);
    log.put(&runtime.disk());
    log.put_queues(&runtime.disk(), log.messages.len());
    put_checkpoint(&runtime, log.messages.last().map_or(1, |last| last.store_timestamp_ms));
    runtime
}

/// As [`clean_store`], with `abort` and a checkpoint that covers nothing but is known.
pub fn killed_store(log: &Log) -> ScriptRuntime {
    let runtime = clean_store(log);
    put_checkpoint(&runtime, 1);
    runtime.disk().put(Path::new(ROOT).join("abort"), b"");
    runtime
}

pub fn put_checkpoint(runtime: &ScriptRuntime, timestamp_ms: i64) {
    let checkpoint = Checkpoint {
        physic_msg_timestamp_ms: timestamp_ms,
        logics_msg_timestamp_ms: timestamp_ms,
        ..Checkpoint::default()
    };
    runtime.disk().put(Path::new(ROOT).join("checkpoint"), &checkpoint.encode());
}

pub async fn open(runtime: &ScriptRuntime) -> Result<OpenedStore<ScriptRuntime>, StoreError> {
    open_store(runtime, Path::new(ROOT), SEGMENT_BYTES, QUEUE_FILE_BYTES, &mut |_| {}).await
}

pub fn open_now(runtime: &ScriptRuntime) -> Result<OpenedStore<ScriptRuntime>, StoreError> {
    runtime.block_on(open(runtime))
}

/// Every entry of `queue` from its min offset on, read as a pull reads them.
pub fn entries_of(runtime: &ScriptRuntime, queues: &mut ConsumeQueues, queue: QueueIndex) -> Vec<Entry> {
    let files = FileTable::new(4);
    let mut found = Vec::new();
    let mut at = queues.min_offset(queue);
    while at < queues.max_offset(queue) {
        let cold = match queues.lookup(queue, at, 7) {
            Lookup::Memory(entries) => {
                let before = found.len();
                found.extend(entries);
                assert!(found.len() > before, "a lookup below the end gives something");
                at = at.plus((found.len() - before) as u64);
                continue;
            }
            Lookup::Cold(cold) => cold,
        };
        let bytes = runtime.block_on(perform_cold(runtime, &files, &cold)).unwrap();
        queues.on_cold_loaded(&cold, &bytes).unwrap();
    }
    found
}

/// The queues hold exactly the messages of `log`, in memory and in files.
pub fn assert_queues_are(runtime: &ScriptRuntime, queues: &mut ConsumeQueues, log: &Log) {
    let mut expected: BTreeMap<(String, u32), Vec<Entry>> = BTreeMap::new();
    for message in &log.messages {
        let key = (message.topic.clone(), message.queue_id);
        expected.entry(key).or_default().push(message.entry);
    }
    for queue in queues.iter() {
        let key = (queues.topic_of(queue).to_owned(), queues.queue_id_of(queue));
        let entries = expected.remove(&key).unwrap_or_default();
        assert_eq!(entries_of(runtime, queues, queue), entries, "{key:?}");
        assert_eq!(queues.min_offset(queue), QueueOffset::ZERO, "{key:?}");
        assert_eq!(queues.next_offset(queue).get(), entries.len() as u64, "{key:?}");
        assert_queue_files_are(runtime, &key.0, key.1, &entries);
    }
    assert!(expected.is_empty(), "queues are missing: {:?}", expected.keys());
}

/// The files of a queue hold `entries` and zeros.
fn assert_queue_files_are(runtime: &ScriptRuntime, topic: &str, queue_id: u32, entries: &[Entry]) {
    let mut bytes = Vec::new();
    let mut base = 0;
    while let Some(file) = runtime.disk().read(queue_path(topic, queue_id, base)) {
        assert_eq!(file.len() as u64, QUEUE_FILE_BYTES, "{topic} {queue_id} {base}");
        bytes.extend(file);
        base += QUEUE_FILE_BYTES;
    }
    let mut expected = Vec::new();
    for entry in entries {
        entry.encode(&mut expected);
    }
    assert!(bytes.len() >= expected.len(), "{topic} {queue_id}: entries are missing in files");
    expected.resize(bytes.len(), 0);
    assert_eq!(bytes, expected, "{topic} {queue_id}");
}

/// The log's files hold the bytes of `log` and zeros.
pub fn assert_log_is(runtime: &ScriptRuntime, log: &Log) {
    let end = usize::try_from(log.end).unwrap();
    let mut found = Vec::new();
    while let Some(bytes) = runtime.disk().read(segment_path(found.len() as u64)) {
        assert_eq!(bytes.len() as u64, SEGMENT_BYTES, "segments keep their length");
        found.extend(bytes);
    }
    assert!(found.len() >= end, "the log is there up to its end");
    assert!(found[..end] == log.bytes[..end], "the log is as it was written");
    assert!(found[end..].iter().all(|&byte| byte == 0), "nothing stands behind the log's end");
}
