//! Pulls of messages that are no longer in memory, on a whole store.

use std::{path::PathBuf, rc::Rc, time::Duration};

use super::*;
use crate::{
    commit_log::Backend,
    io::script::{InFlightFate, ScriptRuntime},
    read::pull::Filter,
    stages::{QueueRhythm, read_cold},
    store::{Store, StoreSettings},
    write::flush::{FlushMode, SyncMethod},
};

fn open(runtime: &ScriptRuntime) -> Store<ScriptRuntime> {
    let second = Duration::from_secs(1);
    let settings = StoreSettings {
        root: PathBuf::from("/store"),
        backend: Backend::Direct,
        flush: FlushMode::Sync(SyncMethod::Fdatasync),
        segment_bytes: 1 << 20,
        queue_file_bytes: 20_000,
        is_prepared: false,
        message_bytes_max: 4096,
        sync_flush_timeout: second,
        tail_cache_bytes: 1 << 20,
        read_cache_bytes: 1 << 20,
        queue_rhythm: QueueRhythm { interval: second, thorough_interval: second },
    };
    let report = Rc::new(|error: &crate::error::StoreError| panic!("{error}"));
    runtime.block_on(Store::open(runtime.clone(), settings, &mut |_| {}, report)).unwrap()
}

fn append(store: &Store<ScriptRuntime>, runtime: &ScriptRuntime, count: usize) -> u64 {
    let mut shard = store.shard.borrow_mut();
    let queue = shard.queues_mut().open("T", 0);
    let message = Message {
        topic: "T",
        queue_id: 0,
        flag: 0,
        sys_flag: 0,
        born_timestamp_ms: 0,
        born_host: "10.0.0.1:50000".parse().unwrap(),
        store_host: "10.0.0.2:10911".parse().unwrap(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: &[b'x'; 1000],
        properties: "",
    };
    let begin = shard.log().end();
    for _ in 0..count {
        shard.append(queue, &message, runtime.wall_clock_ms()).unwrap();
    }
    shard.log().end().since(begin) / count as u64
}

/// How many messages a pull from `from` on gets, whatever must be read first.
fn pulled(store: &Store<ScriptRuntime>, runtime: &ScriptRuntime, from: u64, cold: (usize, usize)) -> usize {
    let pull = Pull {
        queue: store.shard.borrow_mut().queues_mut().open("T", 0),
        queue_offset: QueueOffset::new(from),
        message_count_max: 32,
        bytes_max: 1 << 20,
        cold_message_count_max: cold.0,
        cold_bytes_max: cold.1,
        filter: Filter::All,
    };
    loop {
        let outcome = store.shard.borrow_mut().pull(&pull);
        match outcome {
            Ok(pulled) => {
                let count = store.shard.borrow().selected_count();
                assert_eq!(pulled.next_begin_offset, QueueOffset::new(from + count as u64));
                return count;
            }
            Err(cold) => {
                runtime.block_on(read_cold(runtime, &store.shard, &store.cold_files, &cold)).unwrap();
            }
        }
    }
}

#[test]
fn cold_messages_are_pulled_in_smaller_pieces_than_those_in_memory() {
    let first = ScriptRuntime::new(1);
    let store = open(&first);
    let record_bytes = append(&store, &first, 20);
    first.block_on(store.stop()).unwrap();
    let second = first.disk().kill_image(InFlightFate::Absent);
    first.end();

    // Opened again: what was there is on the disk alone (but for the last block), what is new in memory.
    let store = open(&second);
    append(&store, &second, 20);
    second.advance(Duration::from_secs(1));
    store.shard.borrow_mut().confirm();
    store.shard.borrow_mut().dispatch();
    let record_bytes = usize::try_from(record_bytes).unwrap();
    assert_eq!(pulled(&store, &second, 20, (8, 65_536)), 20, "in memory");
    assert_eq!(pulled(&store, &second, 0, (8, 65_536)), 8, "count");
    assert_eq!(pulled(&store, &second, 0, (8, 3 * record_bytes)), 3, "bytes");
    assert_eq!(pulled(&store, &second, 0, (8, 1)), 1, "the first one is always taken");
}
