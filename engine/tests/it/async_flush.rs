//! ASYNC_FLUSH: promised at append, written when nothing else is being written, synced by RocketMQ's rule.

use std::time::Duration;

use engine::{
    io::script::{InFlightFate, Kind, PowerCut},
    store::StoreSettings,
    write::ack::Outcome,
};

use crate::{
    oracle::{Crash, judge},
    rig::{ASYNC, ASYNC_DIRECT, ASYNC_MAPPED, Rig, TOPIC, log_operation, on_log, settings},
};

const WAYS: [(engine::commit_log::Backend, engine::write::flush::FlushMode); 2] =
    [ASYNC_DIRECT, ASYNC_MAPPED];

/// Without preparation every sync of the log is a flush.
fn rig(way: (engine::commit_log::Backend, engine::write::flush::FlushMode)) -> Rig {
    Rig::with(StoreSettings { is_prepared: false, segment_bytes: 1024 * 1024, ..settings(way) })
}

fn syncs(rig: &Rig) -> usize {
    let log = rig.runtime.plan().log();
    log.iter().filter(|done| done.operation.kind == Kind::SyncData && log_operation(&done.operation)).count()
}

#[test]
fn a_message_is_promised_and_visible_when_it_is_appended() {
    for way in WAYS {
        let rig = rig(way);
        rig.runtime.plan().add(on_log(Kind::Write).hold());
        rig.runtime.plan().add(on_log(Kind::SyncData).hold());
        for sent in 0..5 {
            rig.send(TOPIC, 0, 300).unwrap();
            rig.runtime.run_until_idle();
            assert_eq!(rig.answers().last(), Some(&(sent, Outcome::Stored)), "{way:?}");
        }
        assert_eq!(rig.pullable(TOPIC, 0), 5);
        assert_eq!(rig.positions().flushed, 0);
    }
}

#[test]
fn a_kill_loses_on_direct_what_was_not_written_and_on_mapped_nothing() {
    for way in WAYS {
        let rig = rig(way);
        for _ in 0..3 {
            rig.send(TOPIC, 0, 300).unwrap();
            rig.runtime.run_until_idle();
        }
        rig.runtime.plan().add(on_log(Kind::Write).hold());
        for _ in 0..3 {
            rig.send(TOPIC, 0, 300).unwrap();
            rig.runtime.run_until_idle();
        }
        let killed = rig.runtime.disk().kill_image(InFlightFate::Absent);
        rig.journal.borrow_mut().on_crash(Crash::Kill);
        let next = Rig::reopen(&killed, settings(way), &rig.journal);
        let present = killed.block_on(judge(&next));
        assert_eq!(present.len(), if way == ASYNC_MAPPED { 6 } else { 3 }, "{way:?}");
    }
}

#[test]
fn a_write_starts_whenever_none_is_in_flight_and_bytes_wait() {
    let rig = rig(ASYNC_DIRECT);
    rig.send(TOPIC, 0, 300).unwrap();
    rig.runtime.run_until_idle();
    let positions = rig.positions();
    assert_eq!(positions.written, positions.appended, "no timer delays it");
}

#[test]
fn the_log_is_synced_after_the_interval_when_enough_pages_are_dirty() {
    for way in WAYS {
        let rig = rig(way);
        rig.send(TOPIC, 0, 5 * 4096).unwrap();
        rig.runtime.advance(ASYNC.interval - Duration::from_millis(50));
        assert_eq!(syncs(&rig), 0, "{way:?}");
        rig.runtime.advance(Duration::from_millis(100));
        assert_eq!(syncs(&rig), 1, "{way:?}");
        assert_eq!(rig.positions().flushed, rig.positions().appended);
        rig.runtime.advance(Duration::from_secs(60));
        assert_eq!(syncs(&rig), 1, "nothing new, no sync");
    }
}

#[test]
fn a_few_dirty_pages_are_synced_after_the_thorough_interval() {
    for way in WAYS {
        let rig = rig(way);
        rig.send(TOPIC, 0, 2 * 4096).unwrap();
        rig.runtime.advance(ASYNC.thorough_interval - Duration::from_secs(1));
        assert_eq!(syncs(&rig), 0, "{way:?}");
        rig.runtime.advance(Duration::from_secs(1) + ASYNC.interval);
        assert_eq!(syncs(&rig), 1, "{way:?}");
        assert_eq!(rig.positions().flushed, rig.positions().appended);
    }
}

#[test]
fn a_power_cut_loses_at_most_the_interval_and_one_sync() {
    for way in WAYS {
        let rig = rig(way);
        rig.runtime.plan().add(on_log(Kind::SyncData).delay(Duration::from_millis(100)));
        let mut durable_before = 0;
        for sent in 0..200 {
            rig.send_now(TOPIC, 0, &[3000]);
            rig.runtime.advance(Duration::from_millis(20));
            let positions = rig.positions();
            // A message is 20 ms of this load. The interval is 500 ms, a sync 100.
            let journal = rig.journal.borrow();
            let late = journal.sent.iter().filter(|sent| sent.end.get() > positions.flushed).count();
            assert!(late <= 2 + (500 + 100) / 20, "{way:?}: {late} of {sent} are not durable");
            durable_before = durable_before.max(positions.flushed);
        }
        assert!(durable_before > 0);
        let cut = rig.runtime.disk().power_cut_image(PowerCut::nothing());
        rig.journal.borrow_mut().on_crash(Crash::PowerCut);
        let next = Rig::reopen(&cut, settings(way), &rig.journal);
        assert!(cut.block_on(judge(&next)).len() > 150);
    }
}

#[test]
fn a_clean_stop_syncs_what_no_rule_has_yet() {
    for way in WAYS {
        let rig = rig(way);
        rig.send_now(TOPIC, 0, &[300]);
        let (runtime, journal) = (rig.runtime.clone(), rig.journal.clone());
        rig.stop().unwrap();
        journal.borrow_mut().on_clean_stop();
        let cut = runtime.disk().power_cut_image(PowerCut::nothing());
        let next = Rig::reopen(&cut, settings(way), &journal);
        assert!(!next.store.recovered.killed);
        assert_eq!(cut.block_on(judge(&next)).len(), 1);
    }
}
