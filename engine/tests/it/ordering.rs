//! Order, whatever the disk does: answers, positions, store times, queue offsets; and what leaves without them.

use std::time::Duration;

use engine::{
    io::script::{Kind, Rule, ScriptRuntime},
    store::StoreSettings,
    write::ack::Outcome,
};

use crate::{
    oracle::judge,
    rig::{Rig, TOPIC, WAYS, log_operation, settings},
};

/// Delays every log operation by a number drawn from its own number.
fn unsteady_disk(runtime: &ScriptRuntime) {
    for (nth, delay_us) in [(1, 3000), (2, 100), (3, 1700), (4, 0), (5, 900)] {
        let slow = move |operation: &engine::io::script::Operation| {
            log_operation(operation)
                && matches!(operation.kind, Kind::Write | Kind::SyncData)
                && operation.sequence % 5 + 1 == nth
        };
        runtime.plan().add(Rule::on(slow).delay(Duration::from_micros(delay_us)));
    }
}

#[test]
fn answers_come_in_append_order_and_positions_only_grow_on_an_unsteady_disk() {
    for way in WAYS {
        for seed in 0..4 {
            let runtime = ScriptRuntime::new(seed);
            runtime.set_shuffled(true);
            unsteady_disk(&runtime);
            let settings = StoreSettings { tail_cache_bytes: 0, ..settings(way) };
            let rig = Rig::reopen(&runtime, settings.clone(), &std::rc::Rc::default());
            let mut last = rig.positions();
            for number in 0..150_u32 {
                rig.send_now(TOPIC, number % 3, &[usize::try_from(number * 37 % 1900).unwrap()]);
                rig.runtime.advance(Duration::from_micros(u64::from(number * 61 % 700)));
                let now = rig.positions();
                assert!(
                    now.dispatched >= last.dispatched && now.confirmed >= last.confirmed,
                    "{way:?} {seed}"
                );
                assert!(now.flushed >= last.flushed && now.written >= last.written, "{way:?} {seed}");
                last = now;
            }
            rig.runtime.block_on(rig.all_answered());
            let expected: Vec<(i32, Outcome)> = (0..150).map(|number| (number, Outcome::Stored)).collect();
            assert_eq!(rig.answers(), expected, "{way:?} {seed}");
            rig.runtime.advance(Duration::from_secs(1));
            assert_eq!(rig.runtime.block_on(judge(&rig)).len(), 150);
            let journal = rig.journal.clone();
            let next = rig.stop().unwrap();
            journal.borrow_mut().on_clean_stop();
            next.block_on(judge(&Rig::reopen(&next, settings, &journal)));
        }
    }
}

#[test]
fn store_times_never_go_back_when_the_clock_does_not_even_over_a_restart() {
    for way in WAYS {
        let rig = Rig::new(way);
        rig.send_now(TOPIC, 0, &[100]);
        rig.runtime.set_wall_clock_ms(1_600_000_000_000);
        rig.send_now(TOPIC, 0, &[100]);
        let journal = rig.journal.clone();
        let next = rig.stop().unwrap();
        journal.borrow_mut().on_clean_stop();
        next.set_wall_clock_ms(1_500_000_000_000);
        let rig = Rig::reopen(&next, settings(way), &journal);
        rig.send_now(TOPIC, 0, &[100]);
        rig.runtime.set_wall_clock_ms(1_800_000_000_000);
        rig.send_now(TOPIC, 0, &[100]);
        rig.runtime.block_on(rig.all_answered());
        rig.runtime.advance(Duration::from_secs(1));
        rig.runtime.block_on(judge(&rig));
        let times: Vec<i64> = journal.borrow().sent.iter().map(|sent| sent.store_timestamp_ms).collect();
        assert!(times.is_sorted() && times[1] == times[0], "{times:?}");
        assert!(times[2] > times[1], "a run stores nothing at a time that the checkpoint covers");
        assert_eq!(times[3], 1_800_000_000_000);
    }
}

#[test]
fn a_stop_during_traffic_keeps_everything_that_was_appended() {
    for way in WAYS {
        let runtime = ScriptRuntime::new(3);
        unsteady_disk(&runtime);
        let rig = Rig::reopen(&runtime, settings(way), &std::rc::Rc::default());
        for number in 0..20 {
            rig.send_now(TOPIC, number % 2, &[900]);
        }
        let journal = rig.journal.clone();
        let next = rig.stop().unwrap();
        journal.borrow_mut().on_clean_stop();
        let rig = Rig::reopen(&next, settings(way), &journal);
        assert_eq!(rig.store.recovered.how, "clean_end", "{way:?}");
        assert_eq!(next.block_on(judge(&rig)).len(), 20);
    }
}
