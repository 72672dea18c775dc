//! A process killed, or a machine cut off, at every operation of an opening: the next opening is right.

use engine::io::script::{InFlightFate, PowerCut, ScriptRuntime};

use crate::stored::{
    Log, SEGMENT_BYTES, assert_log_is, assert_queues_are, killed_store, open, open_now, put_checkpoint,
    queue_path, segment_path,
};

/// Stops the opening of `store()` at each of its operations, and opens what is then found.
fn check(store: impl Fn() -> ScriptRuntime, log: &Log, what: &str) {
    let mut stops = 0;
    for number in 1.. {
        let runtime = store();
        runtime.plan().stop_at(number);
        let finished = runtime.try_block_on(open(&runtime)).is_some();
        let images = [
            ("kill, nothing of what was in flight", runtime.disk().kill_image(InFlightFate::Absent)),
            ("kill, all of what was in flight", runtime.disk().kill_image(InFlightFate::Whole)),
            ("kill, parts", runtime.disk().kill_image(InFlightFate::Seed(number))),
            ("power cut, durable only", runtime.disk().power_cut_image(PowerCut::nothing())),
            ("power cut, parts", runtime.disk().power_cut_image(PowerCut::seed(number))),
            ("power cut, other parts", runtime.disk().power_cut_image(PowerCut::seed(!number))),
        ];
        for (how, image) in images {
            let what = format!("{what}, operation {number}, {how}");
            let mut opened = open_now(&image).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(opened.recovered.log_end.get(), log.end, "{what}");
            assert_log_is(&image, log);
            assert_queues_are(&image, &mut opened.queues, log);
        }
        runtime.end();
        if finished {
            assert!(number > 15, "{what}: the opening has more than {number} operations");
            return;
        }
        stops += 1;
        assert!(stops < 2000, "{what}: the opening ends");
    }
}

#[test]
fn an_opening_that_cuts_a_torn_tail_can_be_cut_off_anywhere() {
    let log = Log::of(40);
    let long = Log::of(60);
    check(
        || {
            let runtime = killed_store(&log);
            // Queues that are ahead, a torn record, rubbish further on, a prepared segment with a trace of a record.
            long.put_queues(&runtime.disk(), 60);
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
            &format!("a hole, killed {killed}"),
        );
    }
}

#[test]
fn a_first_opening_can_be_cut_off_anywhere() {
    check(|| ScriptRuntime::new(1), &Log::default(), "new store");
}
