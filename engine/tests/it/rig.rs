//! A running store on a scripted world, driven as the server drives it.
//!
//! A [`Rig`] is one life of a process: it opens the store, answers senders whenever there is progress, and notes what
//! was sent and answered in a [`Journal`], which outlives it.

use std::{cell::RefCell, path::Path, rc::Rc, time::Duration};

use engine::{
    commit_log::{Backend, record::Message},
    derive::consume_queue::QueueIndex,
    error::StoreError,
    io::{
        Runtime,
        event::Broadcast,
        script::{InFlightFate, Operation, Rule, ScriptRuntime},
    },
    offset::{LogOffset, QueueOffset},
    read::pull::{Filter, Pull, PullStatus, Pulled},
    shard::{AppendError, Appended},
    stages::{ColdFiles, QueueRhythm, SharedShard, read_cold, wait_or_timeout},
    store::{Store, StoreSettings},
    write::{
        ack::{Outcome, Receipt, ReplyTo},
        flush::{AsyncFlush, FlushMode, SyncMethod},
    },
};
use protocol::Serialization;

use crate::oracle::{Journal, Sent};

pub const ROOT: &str = "/store";
pub const SEGMENT_BYTES: u64 = 16 * 1024;
/// Ten entries.
pub const QUEUE_FILE_BYTES: u64 = 200;
pub const TOPIC: &str = "TopicA";

pub const FDATASYNC: (Backend, FlushMode) = (Backend::Direct, FlushMode::Sync(SyncMethod::Fdatasync));
pub const DSYNC: (Backend, FlushMode) = (Backend::Direct, FlushMode::Sync(SyncMethod::Dsync));
pub const MAPPED: (Backend, FlushMode) = (Backend::Mapped, FlushMode::Sync(SyncMethod::Fdatasync));
pub const ASYNC_DIRECT: (Backend, FlushMode) = (Backend::Direct, FlushMode::Async(ASYNC));
pub const ASYNC_MAPPED: (Backend, FlushMode) = (Backend::Mapped, FlushMode::Async(ASYNC));

/// Every way to flush that promises durability.
pub const SYNC_WAYS: [(Backend, FlushMode); 3] = [FDATASYNC, DSYNC, MAPPED];
pub const WAYS: [(Backend, FlushMode); 5] = [FDATASYNC, DSYNC, MAPPED, ASYNC_DIRECT, ASYNC_MAPPED];

/// RocketMQ's defaults.
pub const ASYNC: AsyncFlush = AsyncFlush {
    interval: Duration::from_millis(500),
    least_pages: 4,
    thorough_interval: Duration::from_secs(10),
};
pub const SYNC_FLUSH_TIMEOUT: Duration = Duration::from_millis(2500);

pub fn settings((backend, flush): (Backend, FlushMode)) -> StoreSettings {
    StoreSettings {
        root: ROOT.into(),
        backend,
        flush,
        segment_bytes: SEGMENT_BYTES,
        queue_file_bytes: QUEUE_FILE_BYTES,
        is_prepared: true,
        message_bytes_max: 4096,
        sync_flush_timeout: SYNC_FLUSH_TIMEOUT,
        tail_cache_bytes: 1024 * 1024,
        read_cache_bytes: 1024 * 1024,
        queue_rhythm: QueueRhythm {
            interval: Duration::from_secs(1),
            thorough_interval: Duration::from_secs(3),
        },
    }
}

/// Writes and syncs of the log's files, not those of their preparation.
pub fn log_operation(operation: &Operation) -> bool {
    operation.path.starts_with("/store/commitlog")
}

/// A rule for log operations of one kind.
pub fn on_log(kind: engine::io::script::Kind) -> Rule {
    Rule::on(move |operation| operation.kind == kind && log_operation(operation))
}

/// One life of a broker's store.
pub struct Rig {
    pub runtime: ScriptRuntime,
    pub shard: SharedShard<ScriptRuntime>,
    pub journal: Rc<RefCell<Journal>>,
    pub errors: Rc<RefCell<Vec<String>>>,
    pub cold_files: Rc<ColdFiles<ScriptRuntime>>,
    pub store: Store<ScriptRuntime>,
    answered: Broadcast,
}

impl Rig {
    /// A new store, opened. Its first segment is wholly prepared.
    pub fn new(way: (Backend, FlushMode)) -> Rig {
        Rig::with(settings(way))
    }

    pub fn with(settings: StoreSettings) -> Rig {
        let rig = Rig::reopen(&ScriptRuntime::new(1), settings, &Rc::default());
        rig.runtime.advance(Duration::from_millis(10));
        rig
    }

    /// The store that `runtime` has, opened.
    pub fn reopen(runtime: &ScriptRuntime, settings: StoreSettings, journal: &Rc<RefCell<Journal>>) -> Rig {
        runtime
            .block_on(Rig::open(runtime.clone(), settings, Rc::clone(journal)))
            .unwrap_or_else(|error| panic!("the store opens: {error}"))
    }

    pub async fn open(
        runtime: ScriptRuntime,
        settings: StoreSettings,
        journal: Rc<RefCell<Journal>>,
    ) -> Result<Rig, StoreError> {
        let errors: Rc<RefCell<Vec<String>>> = Rc::default();
        let reported = Rc::clone(&errors);
        let report = Rc::new(move |error: &StoreError| reported.borrow_mut().push(error.to_string()));
        let store = Store::open(runtime.clone(), settings, &mut |_| {}, report).await?;
        let shard = Rc::clone(&store.shard);
        journal.borrow_mut().begin_life(&store);
        let answered = Broadcast::new();
        runtime.spawn(deliver_loop(
            runtime.clone(),
            Rc::clone(&shard),
            Rc::clone(&journal),
            answered.clone(),
        ));
        let cold_files = Rc::clone(&store.cold_files);
        Ok(Rig { runtime, shard, journal, errors, cold_files, store, answered })
    }

    /// Sends a message of `len` body bytes; what it holds follows from its number.
    pub fn send(&self, topic: &str, queue_id: u32, len: usize) -> Result<Appended, AppendError> {
        let mut first = None;
        self.send_batch(topic, queue_id, &[len], |appended| first = Some(appended))?;
        Ok(first.unwrap())
    }

    /// Sends several as one batch.
    pub fn send_batch(
        &self,
        topic: &str,
        queue_id: u32,
        lens: &[usize],
        mut each: impl FnMut(Appended),
    ) -> Result<(), AppendError> {
        let first = self.journal.borrow().sent.len();
        let contents: Vec<(Vec<u8>, String)> =
            lens.iter().enumerate().map(|(at, &len)| content(first + at, len)).collect();
        let queue = self.shard.borrow_mut().queues_mut().open(topic, queue_id);
        let messages = contents.iter().map(|(body, properties)| message(topic, queue_id, body, properties));
        let mut appended = Vec::new();
        let wall_ms = self.runtime.wall_clock_ms();
        self.shard.borrow_mut().append_batch(queue, messages, wall_ms, |one| appended.push(one))?;
        let batch = i32::try_from(first).unwrap();
        for (one, (body, properties)) in appended.iter().zip(&contents) {
            each(*one);
            self.journal.borrow_mut().on_sent(Sent {
                topic: topic.to_owned(),
                queue_id,
                queue_offset: one.queue_offset,
                log_offset: one.log_offset,
                end: one.end,
                store_timestamp_ms: one.store_timestamp_ms,
                body: body.clone(),
                properties: properties.clone(),
                batch,
                life: 0,
            });
        }
        let mut shard = self.shard.borrow_mut();
        let deadline = shard.ack_deadline(self.runtime.now());
        shard.wait_for_promise(Receipt {
            reply_to: ReplyTo { connection: 1, opaque: batch, serialization: Serialization::Json },
            queue_id,
            queue_offset: appended[0].queue_offset,
            log_offset: appended[0].log_offset,
            rest: Vec::new(),
            end: appended[appended.len() - 1].end,
            deadline,
        });
        // The server delivers after each receive; ASYNC_FLUSH has promised already.
        shard.progress.set();
        Ok(())
    }

    /// Sends when there is room.
    pub async fn send_patiently(
        &self,
        topic: &str,
        queue_id: u32,
        lens: &[usize],
    ) -> Result<(), AppendError> {
        loop {
            match self.send_batch(topic, queue_id, lens, |_| {}) {
                Err(AppendError::NoRoom(_)) => {
                    let room = self.shard.borrow().room.clone();
                    room.wait().await;
                }
                other => return other,
            }
        }
    }

    /// As [`Rig::send_patiently`], from outside the world.
    pub fn send_now(&self, topic: &str, queue_id: u32, lens: &[usize]) {
        self.runtime.block_on(self.send_patiently(topic, queue_id, lens)).unwrap();
    }

    /// Waits until every sender has an answer.
    pub async fn all_answered(&self) {
        while self.shard.borrow().waiting_senders() > 0 {
            self.answered.wait().await;
        }
    }

    /// The outcomes so far, in the order of the answers, with the number of the (first) message.
    pub fn answers(&self) -> Vec<(i32, Outcome)> {
        self.journal.borrow().answers.clone()
    }

    /// The five positions.
    pub fn positions(&self) -> Positions {
        let shard = self.shard.borrow();
        let positions = Positions {
            dispatched: shard.dispatched_end().get(),
            confirmed: shard.confirmed_end().get(),
            flushed: shard.flushed_end().get(),
            written: shard.written_end().get(),
            appended: shard.log().end().get(),
        };
        assert!(positions.dispatched <= positions.confirmed && positions.flushed <= positions.written);
        assert!(positions.confirmed.max(positions.written) <= positions.appended);
        positions
    }

    pub fn queue(&self, topic: &str, queue_id: u32) -> QueueIndex {
        self.shard.borrow_mut().queues_mut().open(topic, queue_id)
    }

    /// Runs a pull to its end, reading what is cold; gives the records as they are stored.
    pub async fn run_pull(&self, pull: &Pull) -> (Pulled, Vec<u8>) {
        for _ in 0..1000 {
            let cold = {
                let mut shard = self.shard.borrow_mut();
                match shard.pull(pull) {
                    Ok(pulled) => {
                        let mut bytes = Vec::new();
                        let (count, len) = (shard.selected_count(), shard.selected_bytes());
                        assert_eq!(count > 0, pulled.status == PullStatus::Found);
                        if count > 0 {
                            shard.copy_selected(&mut bytes);
                        }
                        assert_eq!(bytes.len(), if count > 0 { len } else { 0 });
                        return (pulled, bytes);
                    }
                    Err(cold) => cold,
                }
            };
            read_cold(&self.runtime, &self.shard, &self.cold_files, &cold)
                .await
                .unwrap_or_else(|error| panic!("old messages are read: {error}"));
        }
        panic!("a pull of {pull:?} never finds what it reads");
    }

    pub fn pull(&self, pull: &Pull) -> (Pulled, Vec<u8>) {
        self.runtime.block_on(self.run_pull(pull))
    }

    /// How many messages a consumer can see in a queue, all pulled.
    pub fn pullable(&self, topic: &str, queue_id: u32) -> usize {
        self.runtime.block_on(crate::oracle::read_queue(self, topic, queue_id)).len()
    }

    /// Stops the store and ends the process. Gives the world of the next one.
    pub fn stop(self) -> Result<ScriptRuntime, StoreError> {
        let runtime = self.runtime.clone();
        runtime.block_on(self.store.stop())?;
        let next = runtime.disk().kill_image(InFlightFate::Absent);
        runtime.end();
        Ok(next)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Positions {
    pub dispatched: u64,
    pub confirmed: u64,
    pub flushed: u64,
    pub written: u64,
    pub appended: u64,
}

/// A pull of everything from `from` on.
pub fn pull_from(queue: QueueIndex, from: u64) -> Pull {
    Pull {
        queue,
        queue_offset: QueueOffset::new(from),
        message_count_max: 32,
        bytes_max: 256 * 1024,
        cold_message_count_max: 32,
        cold_bytes_max: 256 * 1024,
        filter: Filter::All,
    }
}

/// Body and properties of message `number`: no two are equal, and no sector of them is zero.
pub fn content(number: usize, len: usize) -> (Vec<u8>, String) {
    let mut state = number as u64 + 1;
    let body = (0..len).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u8::try_from((state >> 33) % 255 + 1).unwrap()
    });
    // Some properties lie in two sectors. None fills one: a sector of properties alone that a crash left out isn't
    // noticed when later records of the group arrived, because no checksum covers it.
    let padding = "p".repeat(if number % 4 == 3 { 380 } else { 0 });
    (body.collect(), format!("UNIQ_KEY\u{1}{number}\u{2}TAGS\u{1}tag{}\u{2}pad\u{1}{padding}", number % 3))
}

pub fn message<'a>(topic: &'a str, queue_id: u32, body: &'a [u8], properties: &'a str) -> Message<'a> {
    Message {
        topic,
        queue_id,
        flag: 7,
        sys_flag: 0,
        born_timestamp_ms: 1_600_000_000_000,
        born_host: "10.0.0.1:50000".parse().unwrap(),
        store_host: "10.0.0.2:10911".parse().unwrap(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties,
    }
}

/// The body length that makes message `number` a record of `bytes`.
pub fn body_len_for(number: usize, topic: &str, bytes: usize) -> usize {
    let (body, properties) = content(number, 0);
    let least = message(topic, 0, &body, &properties).record_bytes();
    bytes.checked_sub(least).unwrap_or_else(|| panic!("a record has at least {least} bytes"))
}

/// The path of the log's file that begins at `base`.
pub fn segment_path(base: u64) -> String {
    format!("{ROOT}/commitlog/{base:020}")
}

/// The names in a directory of the store.
pub fn names(runtime: &ScriptRuntime, directory: &str) -> Vec<String> {
    let path = Path::new(ROOT).join(directory);
    let found = runtime.block_on(runtime.list(&path)).unwrap().unwrap_or_default();
    found.into_iter().map(|entry| entry.name).collect()
}

pub fn at(offset: u64) -> LogOffset {
    LogOffset::new(offset)
}

/// As the server: answers, then makes visible, whenever there is progress or a sender's patience ends.
async fn deliver_loop(
    runtime: ScriptRuntime,
    shard: SharedShard<ScriptRuntime>,
    journal: Rc<RefCell<Journal>>,
    answered: Broadcast,
) {
    let progress = shard.borrow().progress.clone();
    loop {
        let wait = {
            let mut shard = shard.borrow_mut();
            shard.confirm();
            while let Some((receipt, outcome)) = shard.poll_ack(runtime.now()) {
                journal.borrow_mut().on_answered(receipt.reply_to.opaque, outcome);
            }
            shard.dispatch();
            answered.wake_all();
            let deadline = shard.next_ack_deadline();
            deadline.map(|deadline| deadline.saturating_duration_since(runtime.now()))
        };
        wait_or_timeout(&runtime, &progress, wait).await;
    }
}
