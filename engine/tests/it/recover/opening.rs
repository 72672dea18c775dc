//! What is a store, and what an opening leaves.

use std::path::Path;

use engine::{
    error::StoreError,
    io::script::ScriptRuntime,
    offset::LogOffset,
    recover::{Checkpoint, Progress, abort, open_store},
};

use crate::stored::{
    Log, QUEUE_FILE_BYTES, ROOT, SEGMENT_BYTES, assert_log_is, assert_queues_are, clean_store, killed_store,
    open_now, put_checkpoint, segment_path,
};

#[test]
fn an_empty_directory_becomes_a_store() {
    for exists in [false, true] {
        let runtime = ScriptRuntime::new(1);
        if exists {
            runtime.disk().create_directory(ROOT);
        }
        let opened = open_now(&runtime).unwrap();
        let recovered = &opened.recovered;
        assert_eq!((recovered.log_end, recovered.log_min), (LogOffset::ZERO, LogOffset::ZERO));
        assert_eq!(recovered.segments, []);
        assert_eq!((recovered.store_segment_bytes, recovered.killed), (SEGMENT_BYTES, false));
        assert_eq!(opened.queues.file_bytes(), QUEUE_FILE_BYTES);
        // Everything that makes it a store survives a power cut from now on.
        let durable = runtime.disk().durable_files();
        for name in ["abort", "checkpoint", "lock"] {
            assert!(durable.contains_key(&Path::new(ROOT).join(name)), "{name} is durable");
        }
    }
}

#[test]
fn a_clean_store_opens_as_it_was() {
    let log = Log::of(90);
    let runtime = clean_store(&log);
    let mut opened = open_now(&runtime).unwrap();
    let recovered = &opened.recovered;
    assert_eq!(recovered.log_end.get(), log.end);
    assert_eq!((recovered.how, recovered.unclean_bytes), ("clean_end", 0));
    assert!(!recovered.queues_rebuilt && !recovered.killed);
    assert_eq!(recovered.last_store_timestamp_ms, log.last().store_timestamp_ms);
    assert_eq!(recovered.segments.len() as u64, log.end.div_ceil(SEGMENT_BYTES));
    assert_queues_are(&runtime, &mut opened.queues, &log);
    assert_log_is(&runtime, &log);
    assert_eq!(opened.checkpoint.physic_msg_timestamp_ms, log.last().store_timestamp_ms);
}

#[test]
fn what_the_checkpoint_does_not_cover_is_unclean_after_a_kill() {
    let log = Log::of(30);
    let check = |covered: usize, expected: u64| {
        let runtime = killed_store(&log);
        put_checkpoint(&runtime, log.messages[covered].store_timestamp_ms);
        assert_eq!(open_now(&runtime).unwrap().recovered.unclean_bytes, expected);
        // Then everything is durable, and the checkpoint says so.
        assert_eq!(open_now(&runtime).unwrap().recovered.unclean_bytes, 0);
    };
    check(29, 0);
    check(28, u64::from(log.last().entry.size));
    check(0, log.end - log.messages[0].end());
}

#[test]
fn abort_is_there_while_the_store_is_open_and_gone_after_a_clean_stop() {
    let runtime = clean_store(&Log::of(3));
    let opened = open_now(&runtime).unwrap();
    let path = abort::path(Path::new(ROOT));
    assert!(runtime.disk().durable_files().contains_key(&path));
    runtime.block_on(abort::remove(&runtime, Path::new(ROOT))).unwrap();
    assert!(!runtime.disk().durable_files().contains_key(&path));
    drop(opened);
    assert!(!open_now(&runtime).unwrap().recovered.killed);
}

#[test]
fn a_store_in_use_is_refused_before_it_is_read() {
    let runtime = clean_store(&Log::of(3));
    runtime.disk().lock(Path::new(ROOT).join("lock"));
    assert!(matches!(open_now(&runtime), Err(StoreError::InUse { .. })));
    runtime.disk().unlock(Path::new(ROOT).join("lock"));
    let first = open_now(&runtime).unwrap();
    assert!(matches!(open_now(&runtime), Err(StoreError::InUse { .. })));
    drop(first);
    assert!(open_now(&runtime).is_ok());
}

#[test]
fn what_is_no_store_is_refused_and_left_alone() {
    let check = |files: &[&str], expected: &str| {
        let runtime = ScriptRuntime::new(1);
        for file in files {
            runtime.disk().put(Path::new(ROOT).join(file), b"x");
        }
        let before = runtime.disk().files();
        let error = open_now(&runtime).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(expected), "{files:?}: {error}");
        assert!(error.contains(ROOT), "{error}");
        assert_eq!(runtime.disk().files(), before, "{files:?}");
    };
    check(&["letters/to_bob.txt"], "neither empty nor a store");
    check(&["config/app.toml", "src.rs"], "neither empty nor a store");
    check(&["shard-0/commitlog/00000000000000000000"], "one store per shard");
    check(&["dledger-n0/data/00000000000000000000", "commitlog/x"], "DLedger");
    check(&["batchconsumequeue/T/0/00000000000000000000", "commitlog/x"], "inner batches");
}

#[test]
fn files_that_do_not_belong_to_the_log_are_refused() {
    let check = |edit: &dyn Fn(&ScriptRuntime), expected: &str| {
        let log = Log::of(90);
        let runtime = clean_store(&log);
        edit(&runtime);
        let error = open_now(&runtime).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(expected), "{error}");
        assert!(!runtime.disk().files().contains_key(&abort::path(Path::new(ROOT))), "nothing was changed");
    };
    check(&|runtime| runtime.disk().put("/store/commitlog/tmp.swp", b"x"), "tmp.swp");
    check(&|runtime| runtime.disk().put("/store/commitlog/00000000000000100000", &[0; 16384]), "20 digits");
    check(&|runtime| runtime.disk().put(segment_path(SEGMENT_BYTES), &[0; 5]), "is 5 bytes long");
    check(&|runtime| runtime.disk().remove(segment_path(SEGMENT_BYTES)), "00000000000000016384 is missing");
    check(&|runtime| runtime.disk().put("/store/consumequeue/Topic/0/x", &[0; 200]), "20 digits");
    check(
        &|runtime| runtime.disk().put("/store/consumequeue/Topic/0/00000000000000000200", &[0; 100]),
        "is 100 bytes long",
    );
}

#[test]
fn a_last_segment_without_bytes_is_removed() {
    let log = Log::of(20);
    let runtime = clean_store(&log);
    let base = log.bytes.len() as u64;
    runtime.disk().put(segment_path(base), b"");
    let mut opened = open_now(&runtime).unwrap();
    assert!(runtime.disk().read(segment_path(base)).is_none());
    assert_queues_are(&runtime, &mut opened.queues, &log);
}

#[test]
fn the_sizes_of_an_existing_store_win() {
    let log = Log::of(30);
    let runtime = clean_store(&log);
    let root = Path::new(ROOT);
    let opened = runtime.block_on(open_store(&runtime, root, 1 << 30, 6_000_000, &mut |_| {})).unwrap();
    assert_eq!(opened.recovered.store_segment_bytes, SEGMENT_BYTES);
    assert_eq!(opened.queues.file_bytes(), QUEUE_FILE_BYTES);
}

#[test]
fn queue_files_are_rounded_up_to_whole_entries() {
    let runtime = ScriptRuntime::new(1);
    let opened = runtime.block_on(open_store(&runtime, Path::new(ROOT), 16_384, 199, &mut |_| {}));
    assert_eq!(opened.unwrap().queues.file_bytes(), 200);
}

#[test]
fn the_checkpoint_keeps_the_numbers_that_are_others() {
    let log = Log::of(30);
    let runtime = clean_store(&log);
    let before = Checkpoint {
        index_msg_timestamp_ms: 7,
        master_flushed_offset: 8,
        confirm_phy_offset: 9,
        ..Checkpoint::default()
    };
    runtime.disk().put("/store/checkpoint", &before.encode());
    let opened = open_now(&runtime).unwrap();
    let stored = runtime.block_on(Checkpoint::load(&runtime, Path::new(ROOT))).unwrap();
    assert_eq!(stored, opened.checkpoint);
    let last_ms = log.last().store_timestamp_ms;
    let expected =
        Checkpoint { physic_msg_timestamp_ms: last_ms, logics_msg_timestamp_ms: last_ms, ..before };
    assert_eq!(stored, expected);
}

#[test]
fn progress_goes_forward_to_the_end() {
    let log = Log::of(90);
    let runtime = clean_store(&log);
    let mut seen = Vec::new();
    let mut report = |progress: Progress| seen.push(progress);
    let root = Path::new(ROOT);
    runtime.block_on(open_store(&runtime, root, SEGMENT_BYTES, QUEUE_FILE_BYTES, &mut report)).unwrap();
    assert!(!seen.is_empty());
    for pair in seen.windows(2).filter(|pair| pair[0].phase == pair[1].phase) {
        assert!(pair[0].position <= pair[1].position && pair[1].position <= pair[1].end);
    }
}
