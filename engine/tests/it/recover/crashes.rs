//! A process killed, or a machine cut off, at every operation of an opening: the next opening is right.

use std::path::Path;

use engine::{
    io::script::{Done, InFlightFate, Kind, PowerCut, ScriptRuntime},
    recover::abort,
};

use crate::stored::{
    Log, QUEUE_FILE_BYTES, ROOT, SEGMENT_BYTES, assert_log_is, assert_queues_are, killed_store, open,
    open_now, put_checkpoint, queue_path, segment_path,
};

/// Stops the opening of `store()` at each of its operations, and opens what is then found; after a power cut, with
/// `cuts` more choices of what it left.
fn check(store: impl Fn() -> ScriptRuntime, log: &Log, cuts: u64, what: &str) {
    let mut stops = 0;
    for number in 1.. {
        let runtime = store();
        runtime.plan().stop_at(number);
        let finished = runtime.try_block_on(open(&runtime)).is_some();
        let mut images = vec![
            ("kill, nothing of what was in flight", runtime.disk().kill_image(InFlightFate::Absent)),
            ("kill, all of what was in flight", runtime.disk().kill_image(InFlightFate::Whole)),
            ("kill, parts", runtime.disk().kill_image(InFlightFate::Seed(number))),
            ("power cut, durable only", runtime.disk().power_cut_image(PowerCut::nothing())),
            ("power cut, parts", runtime.disk().power_cut_image(PowerCut::seed(number))),
            ("power cut, other parts", runtime.disk().power_cut_image(PowerCut::seed(!number))),
        ];
        for seed in 0..cuts {
            let seed = number * 1000 + seed;
            images.push(("power cut, more parts", runtime.disk().power_cut_image(PowerCut::seed(seed))));
        }
        for (how, image) in images {
            let what = format!("{what}, operation {number}, {how}");
            let mut opened = open_now(&image).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(opened.recovered.log_end.get(), log.end, "{what}");
            assert_log_is(&image, log);
            assert_queues_are(&image, &mut opened.queues, log);
        }
        runtime.end();
        if finished {
            assert_all_durable(&store(), log, what);
            assert!(number > 15, "{what}: the opening has more than {number} operations");
            return;
        }
        stops += 1;
        assert!(stops < 2000, "{what}: the opening ends");
    }
}

/// After an opening of this store and a clean stop nothing that the opening did depends on the page cache.
fn assert_all_durable(runtime: &ScriptRuntime, log: &Log, what: &str) {
    drop(open_now(runtime).unwrap());
    runtime.block_on(abort::remove(runtime, Path::new(ROOT))).unwrap();
    let image = runtime.disk().power_cut_image(PowerCut::nothing());
    let mut opened = open_now(&image).unwrap();
    let recovered = &opened.recovered;
    assert!(
        !recovered.killed && !recovered.queues_rebuilt && recovered.cut_bytes == 0,
        "{what}: {recovered:?}"
    );
    assert_log_is(&image, log);
    assert_queues_are(&image, &mut opened.queues, log);
}

#[test]
fn an_opening_that_cuts_a_torn_tail_can_be_cut_off_anywhere() {
    let log = Log::of(40);
    let mut long = Log::of(60);
    long.append("Ahead", 7, 50);
    check(
        || {
            let runtime = killed_store(&log);
            // Queues that are ahead, a torn record, rubbish further on, a prepared segment with a trace of a record.
            long.put_queues(&runtime.disk(), 61);
            let at = log.end % SEGMENT_BYTES;
            let from = usize::try_from(log.end).unwrap();
            let base = log.end - at;
            runtime.disk().damage(segment_path(base), at, &long.bytes[from..from + 60]);
            runtime.disk().damage(segment_path(base), SEGMENT_BYTES - 700, &[0xA5; 600]);
            runtime.disk().put(segment_path(base + SEGMENT_BYTES), &vec![0; 16_384]);
            runtime.disk().damage(segment_path(base + SEGMENT_BYTES), 100, &[1; 50]);
            runtime
        },
        &log,
        0,
        "torn tail",
    );
}

#[test]
fn an_opening_that_fills_queues_can_be_cut_off_anywhere() {
    let log = Log::of(60);
    check(
        || {
            let runtime = ScriptRuntime::new(1);
            log.put(&runtime.disk());
            log.put_queues(&runtime.disk(), 25);
            put_checkpoint(&runtime, 1);
            runtime.disk().put("/store/abort", b"");
            runtime
        },
        &log,
        0,
        "queues behind",
    );
}

#[test]
fn an_opening_that_makes_queues_anew_can_be_cut_off_anywhere() {
    let log = Log::of(60);
    for killed in [true, false] {
        check(
            || {
                let runtime = killed_store(&log);
                put_checkpoint(&runtime, log.last().store_timestamp_ms + 10_000);
                if !killed {
                    runtime.disk().remove("/store/abort");
                }
                runtime.disk().damage(queue_path("Topic", 1, 0), 60, &[0; 20]);
                runtime
            },
            &log,
            0,
            &format!("a hole, killed {killed}"),
        );
    }
}

#[test]
fn an_opening_that_makes_queues_anew_never_loses_one_that_only_old_segments_name() {
    // The checkpoint lets a scan begin with the last of three segments, which doesn't name the first queue.
    let mut log = Log::default();
    for _ in 0..12 {
        log.append("Early", 0, 200);
    }
    while log.end < 2 * SEGMENT_BYTES + 3000 {
        log.append("Topic", 1, 700);
    }
    let last_file = log.last().queue_offset * 20 / QUEUE_FILE_BYTES * QUEUE_FILE_BYTES;
    check(
        || {
            let runtime = killed_store(&log);
            put_checkpoint(&runtime, log.last().store_timestamp_ms + 10_000);
            runtime.disk().damage(queue_path("Topic", 1, last_file - QUEUE_FILE_BYTES), 60, &[0; 20]);
            runtime
        },
        &log,
        12,
        "an early queue",
    );
}

#[test]
fn before_a_queue_is_made_anew_the_checkpoint_says_durably_that_none_can_be_trusted() {
    let log = Log::of(60);
    let runtime = killed_store(&log);
    put_checkpoint(&runtime, log.last().store_timestamp_ms + 10_000);
    runtime.disk().damage(queue_path("Topic", 1, 0), 60, &[0; 20]);
    drop(open_now(&runtime).unwrap());
    let done = runtime.plan().log();
    // Files behind a cut go before; the first file of a queue goes only when the queue is made anew.
    let is_first = |done: &Done| done.operation.path == queue_path("Topic", 1, 0);
    let removed = done.iter().position(|done| done.operation.kind == Kind::Remove && is_first(done)).unwrap();
    let checkpoint = Path::new(ROOT).join("checkpoint");
    let replaced = done[..removed]
        .iter()
        .position(|done| done.operation.target.as_deref() == Some(&checkpoint))
        .expect("the checkpoint is replaced first");
    let synced = done[replaced..removed]
        .iter()
        .any(|done| done.operation.kind == Kind::SyncDirectory && done.operation.path == Path::new(ROOT));
    assert!(synced, "and its name is durable");
}

#[test]
fn a_first_opening_can_be_cut_off_anywhere() {
    check(|| ScriptRuntime::new(1), &Log::default(), 0, "new store");
}
