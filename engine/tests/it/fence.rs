//! A failed write or sync is final: the log is fenced, whatever the disk says later.

use std::rc::Rc;

use engine::{
    commit_log::Backend,
    error::StoreError,
    io::script::{Dirty, EIO, InFlightFate, Kind, Rule, ScriptRuntime},
    shard::AppendError,
    write::{ack::Outcome, flush::FlushMode},
};

use crate::{
    oracle::{Crash, judge},
    rig::{
        ASYNC_DIRECT, ASYNC_MAPPED, FDATASYNC, MAPPED, Rig, SYNC_WAYS, TOPIC, WAYS, log_operation, on_log,
        settings,
    },
};

/// What can fail in each way to flush: the group's write, its sync, or both.
fn failures() -> Vec<((Backend, FlushMode), Kind)> {
    let fails = |way: &(Backend, FlushMode), kind| match kind {
        Kind::Write => way.0 == Backend::Direct,
        _ => way.1 != crate::rig::DSYNC.1,
    };
    let all = WAYS.iter().flat_map(|way| [(*way, Kind::Write), (*way, Kind::SyncData)]);
    all.filter(|(way, kind)| fails(way, *kind)).collect()
}

fn is_sync_flush(way: (Backend, FlushMode)) -> bool {
    SYNC_WAYS.contains(&way)
}

/// A store with two confirmed, flushed messages.
fn rig_with_two(way: (Backend, FlushMode)) -> Rig {
    let rig = Rig::new(way);
    rig.send_now(TOPIC, 0, &[100]);
    rig.send_now(TOPIC, 0, &[200]);
    rig.runtime.advance(std::time::Duration::from_secs(11));
    let positions = rig.positions();
    assert_eq!(positions.flushed, positions.appended);
    assert_eq!(rig.answers(), [(0, Outcome::Stored), (1, Outcome::Stored)]);
    rig
}

fn assert_fenced(rig: &Rig, kind: Kind) {
    let error = rig.send(TOPIC, 0, 10).unwrap_err();
    let AppendError::Fenced(fence) = error else { panic!("{error:?}") };
    assert_eq!((fence.operation, fence.errno), (if kind == Kind::Write { "write" } else { "sync" }, EIO));
}

#[test]
fn a_failed_write_or_sync_fences_its_group_and_everything_later() {
    for (way, kind) in failures() {
        for dirty in [Dirty::Dropped, Dirty::Kept] {
            let what = format!("{way:?} {kind:?} {dirty:?}");
            let rig = rig_with_two(way);
            let before = rig.positions();
            rig.runtime.plan().add(on_log(kind).nth(1).fail_sync(EIO, dirty));
            for _ in 0..3 {
                rig.send(TOPIC, 0, 300).unwrap();
            }
            rig.runtime.advance(std::time::Duration::from_secs(11));
            assert_fenced(&rig, kind);

            // Whatever succeeds from now on changes nothing.
            let syncs = rig.runtime.plan().done(Kind::SyncData);
            rig.runtime.advance(std::time::Duration::from_secs(60));
            assert_fenced(&rig, kind);
            let after = rig.positions();
            assert_eq!(after.flushed, before.flushed, "{what}");
            let log = rig.runtime.plan().log();
            let later = log.iter().filter(|done| done.operation.kind == Kind::SyncData).skip(syncs);
            assert_eq!(
                later.filter(|done| log_operation(&done.operation)).count(),
                0,
                "{what}: no second try"
            );
            if is_sync_flush(way) {
                assert_eq!(after.confirmed, before.confirmed, "{what}");
                let fenced = [2, 3, 4].map(|number| (number, Outcome::Fenced));
                assert_eq!(rig.answers()[2..], fenced, "{what}");
                assert_eq!(rig.pullable(TOPIC, 0), 2, "{what}: what was confirmed stays readable");
            } else {
                // They were promised when they were appended.
                let stored = [2, 3, 4].map(|number| (number, Outcome::Stored));
                assert_eq!(rig.answers()[2..], stored, "{what}");
                assert_eq!(rig.pullable(TOPIC, 0), 5, "{what}");
            }
        }
    }
}

#[test]
fn a_fenced_store_stops_uncleanly_and_the_next_start_may_find_the_group() {
    for (way, kind) in failures() {
        let rig = rig_with_two(way);
        rig.runtime.plan().add(on_log(kind).nth(1).fail(EIO));
        for _ in 0..3 {
            rig.send(TOPIC, 0, 300).unwrap();
        }
        rig.runtime.advance(std::time::Duration::from_secs(11));
        assert_fenced(&rig, kind);
        let (runtime, journal, shard) = (rig.runtime.clone(), rig.journal.clone(), rig.shard.clone());
        assert!(matches!(rig.stop(), Err(StoreError::NotClean { .. })), "{way:?} {kind:?}");
        let flushed = shard.borrow().flushed_end();
        assert!(runtime.disk().read("/store/abort").is_some(), "{way:?} {kind:?}");
        journal.borrow_mut().on_crash(if is_sync_flush(way) { Crash::Kill } else { Crash::PowerCut });
        let next = Rig::reopen(&runtime.disk().kill_image(InFlightFate::Absent), settings(way), &journal);
        assert!(next.store.recovered.killed && next.store.recovered.log_end >= flushed);
        let present = next.runtime.block_on(judge(&next));
        assert!(
            present.len() == 5 || (kind == Kind::Write && present.len() == 2),
            "{way:?} {kind:?} {present:?}"
        );
    }
}

#[test]
fn a_write_that_fails_while_a_sync_runs_fences_and_the_end_of_that_sync_changes_nothing() {
    for sync_fails in [false, true] {
        let rig = rig_with_two(FDATASYNC);
        let sync = on_log(Kind::SyncData).nth(1).hold();
        rig.runtime.plan().add(sync);
        if sync_fails {
            rig.runtime.plan().add(on_log(Kind::SyncData).nth(1).fail(EIO));
        }
        rig.send(TOPIC, 0, 300).unwrap();
        rig.runtime.run_until_idle();
        assert_eq!(rig.runtime.plan().held().len(), 1);
        let before = rig.positions();
        rig.runtime.plan().add(on_log(Kind::Write).nth(1).fail(EIO));
        rig.send(TOPIC, 0, 300).unwrap();
        rig.runtime.run_until_idle();
        assert_fenced(&rig, Kind::Write);
        rig.runtime.plan().release_all();
        rig.runtime.run_until_idle();
        assert_fenced(&rig, Kind::Write);
        assert_eq!(rig.positions().confirmed, before.confirmed);
        assert_eq!(rig.answers()[2..], [(2, Outcome::Fenced), (3, Outcome::Fenced)]);
        assert!(matches!(rig.stop(), Err(StoreError::NotClean { .. })));
    }
}

#[test]
fn async_flush_is_fenced_by_a_failed_sync_too() {
    for way in [ASYNC_DIRECT, ASYNC_MAPPED] {
        let rig = rig_with_two(way);
        rig.runtime.plan().add(on_log(Kind::SyncData).nth(1).fail(EIO));
        rig.send(TOPIC, 0, 300).unwrap();
        rig.runtime.run_until_idle();
        assert_eq!(rig.answers().len(), 3, "promised at once");
        rig.send(TOPIC, 0, 300).unwrap();
        rig.runtime.advance(std::time::Duration::from_secs(11));
        assert_fenced(&rig, Kind::SyncData);
        assert_eq!(rig.pullable(TOPIC, 0), 4);
    }
}

#[test]
fn a_failed_sync_of_the_preparation_fences_like_any_other() {
    // It is a sync of the file that messages are in: the kernel tells of a failed write-back only once.
    for way in [FDATASYNC, MAPPED, ASYNC_DIRECT, ASYNC_MAPPED] {
        let runtime = ScriptRuntime::new(1);
        runtime.plan().add(Rule::of(Kind::SyncData).under("commitlog").nth(1).fail(EIO));
        let rig = Rig::reopen(&runtime, settings(way), &Rc::default());
        rig.runtime.advance(std::time::Duration::from_millis(10));
        assert_fenced(&rig, Kind::SyncData);
    }
}

#[test]
fn a_failed_sync_of_a_queue_costs_no_message_but_the_clean_stop() {
    let rig = rig_with_two(FDATASYNC);
    let of_queues =
        |kind| engine::io::script::Rule::on(move |operation| operation.kind == kind).under("consumequeue");
    rig.runtime.plan().add(of_queues(Kind::SyncData).nth(1).fail(EIO));
    rig.send_now(TOPIC, 0, &[100]);
    rig.runtime.advance(std::time::Duration::from_secs(10));
    assert_eq!(rig.errors.borrow().len(), 1, "{:?}", rig.errors.borrow());
    let durable_ms = rig.shard.borrow().queues().durable_timestamp_ms();
    rig.send_now(TOPIC, 0, &[100]);
    rig.runtime.advance(std::time::Duration::from_secs(10));
    assert_eq!(
        rig.shard.borrow().queues().durable_timestamp_ms(),
        durable_ms,
        "no later sync makes up for it"
    );
    assert_eq!(rig.pullable(TOPIC, 0), 4);
    let (runtime, journal) = (rig.runtime.clone(), rig.journal.clone());
    assert!(matches!(rig.stop(), Err(StoreError::NotClean { .. })));
    journal.borrow_mut().on_crash(Crash::Kill);
    let next = Rig::reopen(&runtime.disk().kill_image(InFlightFate::Absent), settings(FDATASYNC), &journal);
    assert_eq!(next.runtime.block_on(judge(&next)).len(), 4);
}

#[test]
fn a_disk_too_full_for_queue_entries_keeps_them_in_memory_and_they_are_written_when_there_is_space() {
    for way in WAYS {
        let rig = rig_with_two(way);
        let space = rig.runtime.disk().space();
        rig.runtime.disk().set_space_total(space.total - space.available);
        // Of a queue that has no file yet.
        for _ in 0..4 {
            rig.send_now("TopicB", 3, &[50]);
        }
        rig.runtime.advance(std::time::Duration::from_secs(20));
        let errors = rig.errors.borrow().clone();
        assert!(errors.iter().any(|error| error.contains("room on this disk")), "{errors:?}");
        assert_eq!(rig.pullable("TopicB", 3), 4, "{way:?}");
        assert!(rig.shard.borrow().queues().behind().entries >= 4);
        rig.runtime.disk().set_space_total(space.total);
        rig.runtime.advance(std::time::Duration::from_secs(20));
        assert_eq!(rig.shard.borrow().queues().behind().entries, 0, "{way:?}");
        let journal = rig.journal.clone();
        let next = rig.stop().unwrap();
        journal.borrow_mut().on_clean_stop();
        let rig = Rig::reopen(&next, settings(way), &journal);
        assert!(!rig.store.recovered.killed);
        assert_eq!(next.block_on(judge(&rig)).len(), 6);
    }
}
