//! The oracle: knows every message that was sent and every answer, and judges what a store gives back.
//!
//! What it holds a store to, after any crash: every message whose promise survives that crash is there, once, at its
//! queue offset, in order, byte for byte; no queue offset names two messages; whatever else is there was sent. The log
//! parses without a gap, and nothing stands behind its end.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use engine::{
    commit_log::Backend,
    io::script::ScriptRuntime,
    offset::{LogOffset, QueueOffset},
    read::pull::PullStatus,
    recover::Checkpoint,
    stages::SharedShard,
    store::Store,
    write::{ack::Outcome, flush::FlushMode},
};
use protocol::message::{MAGIC_BLANK, StoredMessage, stored_messages};

use crate::rig::{QUEUE_FILE_BYTES, Rig, pull_from};

/// A message as it was sent and where it was put.
#[derive(Clone, Debug)]
pub struct Sent {
    pub topic: String,
    pub queue_id: u32,
    pub queue_offset: QueueOffset,
    pub log_offset: LogOffset,
    pub end: LogOffset,
    pub store_timestamp_ms: i64,
    pub body: Vec<u8>,
    pub properties: String,
    /// The number of the first message of its batch; answers name that one.
    pub batch: i32,
    /// The life of the process that took it.
    pub life: usize,
}

/// What ended a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    Kill,
    PowerCut,
}

/// All that was sent and answered, over the lives of a store.
#[derive(Default)]
pub struct Journal {
    pub sent: Vec<Sent>,
    pub answers: Vec<(i32, Outcome)>,
    outcomes: BTreeMap<i32, Outcome>,
    lives: usize,
    shard: Option<SharedShard<ScriptRuntime>>,
    /// Sent messages that every later life must have.
    kept: BTreeSet<usize>,
    way: Option<(Backend, FlushMode)>,
}

impl Journal {
    pub fn begin_life(&mut self, store: &Store<ScriptRuntime>) {
        self.lives += 1;
        self.shard = Some(Rc::clone(&store.shard));
        self.way = Some((store.settings().backend, store.settings().flush));
    }

    pub fn on_sent(&mut self, sent: Sent) {
        self.sent.push(Sent { life: self.lives, ..sent });
    }

    pub fn on_answered(&mut self, opaque: i32, outcome: Outcome) {
        let before = self.outcomes.insert(opaque, outcome);
        assert_eq!(before, None, "{opaque} is answered twice");
        self.answers.push((opaque, outcome));
    }

    /// Whether the sender of message `number` was told that it is stored.
    pub fn is_acknowledged(&self, number: usize) -> bool {
        self.outcomes.get(&self.sent[number].batch) == Some(&Outcome::Stored)
    }

    /// A crash of this kind ends the life: fixes which messages must be there from now on, by what the mode promises.
    pub fn on_crash(&mut self, crash: Crash) {
        let Some(shard) = self.shard.take() else { return };
        let shard = shard.borrow();
        let (written, flushed) = (shard.written_end(), shard.flushed_end());
        let (backend, flush) = self.way.unwrap();
        for number in 0..self.sent.len() {
            let sent = &self.sent[number];
            // Whatever a consumer may have seen counts as promised.
            let is_promised = self.is_acknowledged(number) || sent.end <= shard.dispatched_end();
            if sent.life != self.lives || !is_promised {
                continue;
            }
            let survives = match (flush, backend, crash) {
                (FlushMode::Sync(_), ..) => {
                    assert!(sent.end <= flushed, "message {number} was promised before its flush");
                    true
                }
                // A mapped log is in the page cache.
                (FlushMode::Async(_), Backend::Mapped, Crash::Kill) => true,
                (FlushMode::Async(_), Backend::Direct, Crash::Kill) => sent.end <= written,
                (FlushMode::Async(_), _, Crash::PowerCut) => sent.end <= flushed,
            };
            if survives {
                self.kept.insert(number);
            }
        }
    }

    /// As a clean stop leaves it: everything sent is kept.
    pub fn on_clean_stop(&mut self) {
        self.shard = None;
        let life = self.lives;
        let of_this_life = self.sent.iter().enumerate().filter(|(_, sent)| sent.life == life);
        self.kept.extend(of_this_life.map(|(number, _)| number));
    }

    /// How many messages must be there.
    pub fn kept_count(&self) -> usize {
        self.kept.len()
    }

    /// A copy, to try another end of the same life.
    pub fn fork(&self) -> Journal {
        Journal {
            sent: self.sent.clone(),
            answers: self.answers.clone(),
            outcomes: self.outcomes.clone(),
            lives: self.lives,
            shard: self.shard.clone(),
            kept: self.kept.clone(),
            way: self.way,
        }
    }
}

/// Every message of a queue, as a consumer gets them, with its number; checks that their offsets follow one another.
pub async fn read_queue(rig: &Rig, topic: &str, queue_id: u32) -> Vec<Vec<u8>> {
    let queue = rig.queue(topic, queue_id);
    let mut from = rig.shard.borrow().queues().min_offset(queue).get();
    let mut records = Vec::new();
    loop {
        let (pulled, bytes) = rig.run_pull(&pull_from(queue, from)).await;
        if pulled.status != PullStatus::Found {
            assert!(
                matches!(pulled.status, PullStatus::OffsetOverflowOne | PullStatus::NoMessageInQueue),
                "{topic}/{queue_id} at {from}: {pulled:?}"
            );
            return records;
        }
        let mut rest = &bytes[..];
        for message in stored_messages(&bytes) {
            let message = message.unwrap();
            assert_eq!(message.queue_offset, i64::try_from(from).unwrap(), "{topic}/{queue_id}: order");
            let (record, left) = rest.split_at(usize::try_from(message.total_size).unwrap());
            records.push(record.to_vec());
            rest = left;
            from += 1;
        }
        assert_eq!(pulled.next_begin_offset.get(), from, "the consumer goes on behind the last message");
    }
}

/// Holds the open store `rig` to the module's rules. Gives the numbers of the messages that are there.
pub async fn judge(rig: &Rig) -> BTreeSet<usize> {
    judge_log(rig);
    let queues: Vec<(String, u32)> = {
        let shard = rig.shard.borrow();
        let queues = shard.queues();
        queues.iter().map(|queue| (queues.topic_of(queue).to_owned(), queues.queue_id_of(queue))).collect()
    };
    let mut present = BTreeSet::new();
    for (topic, queue_id) in queues {
        {
            let mut shard = rig.shard.borrow_mut();
            let queue = shard.queues_mut().open(&topic, queue_id);
            let queues = shard.queues();
            assert_eq!(queues.min_offset(queue), QueueOffset::ZERO, "{topic}/{queue_id} begins at 0");
            assert!(queues.next_offset(queue) >= queues.max_offset(queue));
        }
        for (offset, record) in read_queue(rig, &topic, queue_id).await.iter().enumerate() {
            let (message, _) = StoredMessage::decode(record).unwrap();
            message.check_body_crc().unwrap();
            let number = rig.journal.borrow().number_of(&message, offset);
            assert!(present.insert(number), "message {number} is there twice");
        }
    }
    let journal = rig.journal.borrow();
    let missing: Vec<&usize> = journal.kept.difference(&present).collect();
    assert!(missing.is_empty(), "lost: {missing:?} of {:?}; {}", journal.kept, rig.store.recovered.how);
    present
}

impl Journal {
    /// Which of the messages sent `found` is, byte for byte.
    fn number_of(&self, found: &StoredMessage<'_>, offset: usize) -> usize {
        let is_it = |sent: &Sent| {
            sent.topic == found.topic
                && i64::from(sent.queue_id) == i64::from(found.queue_id)
                && sent.queue_offset.as_i64() == found.queue_offset
                && sent.log_offset.as_i64() == found.physical_offset
                && sent.store_timestamp_ms == found.store_timestamp_ms
                && sent.body == found.body
                && sent.properties == found.properties
        };
        assert_eq!(found.flag, 7, "the producer's flag");
        self.sent.iter().position(is_it).unwrap_or_else(|| {
            panic!(
                "{}/{} offset {offset} at {} was never sent: {:?}",
                found.topic, found.queue_id, found.physical_offset, found.properties
            )
        })
    }
}

/// What the checkpoint of a store that isn't open yet claims: the numbers of the messages that it says are durable in
/// the log. Those that it says are durable in their queues are looked up there.
pub fn judge_checkpoint(image: &ScriptRuntime, journal: &Journal) -> BTreeSet<usize> {
    let bytes = image.disk().read("/store/checkpoint");
    let checkpoint = bytes.map_or_else(Checkpoint::default, |bytes| Checkpoint::decode(&bytes));
    let mut claimed = BTreeSet::new();
    for (number, sent) in journal.sent.iter().enumerate() {
        if sent.store_timestamp_ms <= checkpoint.physic_msg_timestamp_ms {
            claimed.insert(number);
        }
        if sent.store_timestamp_ms <= checkpoint.logics_msg_timestamp_ms {
            let position = sent.queue_offset.get() * 20;
            let base = position / QUEUE_FILE_BYTES * QUEUE_FILE_BYTES;
            let path = format!("/store/consumequeue/{}/{}/{base:020}", sent.topic, sent.queue_id);
            let entry = image.disk().read(&path).map(|bytes| {
                let at = usize::try_from(position - base).unwrap();
                u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap())
            });
            assert_eq!(entry, Some(sent.log_offset.get()), "the checkpoint claims an entry in {path}");
        }
    }
    claimed
}

/// The log's bytes: records and blanks without a gap up to the end, each number of a queue once and in order, store
/// times in order, and nothing but zeros behind. Only for a log of which everything is written.
pub fn judge_log(rig: &Rig) {
    let shard = rig.shard.borrow();
    assert_eq!(shard.written_end(), shard.log().end(), "everything is written");
    let (end, segment_bytes) = (shard.log().end().get(), shard.log().segment_bytes());
    let mut next: BTreeMap<(String, i32), i64> = BTreeMap::new();
    let mut timestamp_ms = 0;
    for (path, bytes) in rig.runtime.disk().files() {
        if !path.starts_with("/store/commitlog") {
            continue;
        }
        let base: u64 = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
        assert_eq!(bytes.len() as u64, segment_bytes, "{} has its full length", path.display());
        let mut at = 0;
        while base + (at as u64) < end && at < bytes.len() {
            let magic = i32::from_be_bytes(bytes[at + 4..at + 8].try_into().unwrap());
            if magic == MAGIC_BLANK {
                let size = i32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
                assert_eq!(usize::try_from(size).unwrap(), bytes.len() - at, "a blank fills its file");
                at = bytes.len();
                break;
            }
            let (message, size) = StoredMessage::decode(&bytes[at..])
                .unwrap_or_else(|error| panic!("{} at {at}: {error}", path.display()));
            message.check_body_crc().unwrap();
            assert_eq!(message.physical_offset, i64::try_from(base + at as u64).unwrap());
            let next = next.entry((message.topic.to_owned(), message.queue_id)).or_default();
            assert_eq!(message.queue_offset, *next, "{}/{}", message.topic, message.queue_id);
            *next += 1;
            assert!(message.store_timestamp_ms >= timestamp_ms, "store times never go back");
            timestamp_ms = message.store_timestamp_ms;
            at += size;
            assert!(at + 8 <= bytes.len(), "a record leaves room for a blank");
        }
        let rest_is_zero = bytes[at.min(bytes.len())..].iter().all(|byte| *byte == 0);
        assert!(rest_is_zero, "nothing stands behind {at} in {}", path.display());
    }
}
