//! SYNC_FLUSH: nothing is promised, nor visible, before it is durable.

use std::time::Duration;

use engine::{
    commit_log::Backend,
    io::script::{Kind, PowerCut, Rule},
    store::StoreSettings,
    write::{ack::Outcome, flush::FlushMode},
};

use crate::{
    oracle::{Crash, judge},
    rig::{
        DSYNC, FDATASYNC, Rig, SEGMENT_BYTES, SYNC_FLUSH_TIMEOUT, SYNC_WAYS, TOPIC, log_operation, on_log,
        segment_path, settings,
    },
};

/// What makes a message durable: the operation to hold.
fn durable_by(way: (Backend, FlushMode)) -> Kind {
    if way == DSYNC { Kind::Write } else { Kind::SyncData }
}

fn stored(numbers: impl IntoIterator<Item = i32>) -> Vec<(i32, Outcome)> {
    numbers.into_iter().map(|number| (number, Outcome::Stored)).collect()
}

#[test]
fn a_held_sync_shows_nothing_and_acknowledges_nothing_until_it_is_done() {
    for way in SYNC_WAYS {
        let rig = Rig::new(way);
        let rule = rig.runtime.plan().add(on_log(durable_by(way)).hold());
        for _ in 0..5 {
            rig.send(TOPIC, 0, 300).unwrap();
            rig.runtime.run_until_idle();
        }
        assert_eq!(rig.answers(), [], "{way:?}");
        assert_eq!(rig.pullable(TOPIC, 0), 0, "{way:?}");
        let held = rig.positions();
        assert_eq!((held.dispatched, held.confirmed, held.flushed), (0, 0, 0), "{way:?}");
        assert!(held.appended > 1500, "{way:?}");
        assert_eq!(rig.runtime.plan().held().len(), 1, "one group is in flight, the rest waits for it");

        rig.runtime.plan().release_all();
        rig.runtime.run_until_idle();
        assert_eq!(rig.answers(), stored([0]), "the first group was the first message");
        assert_eq!(rig.pullable(TOPIC, 0), 1);
        let first = rig.positions();
        assert!(first.confirmed > 0 && first.confirmed == first.flushed && first.flushed < first.appended);

        rig.runtime.plan().lift(rule);
        rig.runtime.run_until_idle();
        assert_eq!(rig.answers(), stored(0..5), "all, in order");
        assert_eq!(rig.pullable(TOPIC, 0), 5);
        let done = rig.positions();
        assert_eq!(done.dispatched, done.appended);
    }
}

#[test]
fn a_write_begins_only_when_the_one_before_is_done() {
    for way in [FDATASYNC, DSYNC] {
        let rig = Rig::new(way);
        rig.runtime.plan().add(on_log(Kind::Write).hold());
        for sent in 0..4 {
            rig.send(TOPIC, 0, 300).unwrap();
            rig.runtime.run_until_idle();
            assert_eq!(rig.runtime.plan().in_flight().len(), 1, "{way:?} {sent}");
            assert_eq!(rig.positions().written, 0);
        }
        rig.runtime.plan().release_all();
        rig.runtime.run_until_idle();
        // The three that waited are one group.
        let second = rig.runtime.plan().held();
        assert_eq!((second.len(), second[0].position), (1, 0), "{way:?}: the block is written again");
        assert_eq!(rig.answers(), stored([0]));
        rig.runtime.plan().release_all();
        rig.runtime.run_until_idle();
        assert_eq!(rig.answers(), stored(0..4));
        assert_eq!(rig.shard.borrow().flush_counters().syncs, 2);
    }
}

#[test]
fn a_write_runs_while_the_sync_before_it_does_and_that_sync_confirms_only_its_own_group() {
    for write_ends_first in [true, false] {
        let rig = Rig::new(FDATASYNC);
        rig.runtime.plan().add(on_log(Kind::SyncData).hold());
        rig.send(TOPIC, 0, 300).unwrap();
        rig.runtime.run_until_idle();
        let first_end = rig.positions().written;
        rig.runtime.plan().add(on_log(Kind::Write).nth(1).hold());
        rig.send(TOPIC, 0, 300).unwrap();
        rig.runtime.run_until_idle();
        let held = rig.runtime.plan().held();
        assert_eq!(held.iter().map(|held| held.kind).collect::<Vec<_>>(), [Kind::SyncData, Kind::Write]);
        let order = if write_ends_first { [1, 0] } else { [0, 1] };
        for place in order {
            rig.runtime.plan().release(held[place].sequence);
            rig.runtime.run_until_idle();
        }
        let positions = rig.positions();
        assert_eq!((positions.confirmed, positions.flushed), (first_end, first_end));
        assert_eq!(positions.written, positions.appended);
        assert_eq!(rig.answers(), stored([0]));
        assert_eq!(rig.pullable(TOPIC, 0), 1);
        rig.runtime.plan().release_all();
        rig.runtime.run_until_idle();
        assert_eq!(rig.answers(), stored(0..2));
    }
}

#[test]
fn a_short_write_is_gone_on_from_before_anything_is_confirmed() {
    for way in [FDATASYNC, DSYNC] {
        // Whole blocks, part of the first, part of a later one.
        for len in [4096, 8192, 512, 5000, 1] {
            let rig = Rig::new(way);
            rig.runtime.plan().add(on_log(Kind::Write).nth(1).shorten(len));
            rig.runtime.plan().add(on_log(Kind::Write).nth(2).hold());
            rig.send(TOPIC, 0, 11_000).unwrap();
            rig.runtime.run_until_idle();
            let rest = rig.runtime.plan().held();
            let from = len as u64 / 4096 * 4096;
            assert_eq!(
                (rest.len(), rest[0].position, rest[0].len),
                (1, from, 12_288 - from),
                "{way:?} {len}"
            );
            assert_eq!(rig.answers(), []);
            assert_eq!((rig.positions().written, rig.positions().flushed), (0, 0));
            rig.runtime.plan().release_all();
            rig.runtime.run_until_idle();
            assert_eq!(rig.answers(), stored([0]), "{way:?} {len}");
            let cut = rig.runtime.disk().power_cut_image(PowerCut::nothing());
            rig.journal.borrow_mut().on_crash(Crash::PowerCut);
            let next = Rig::reopen(&cut, settings(way), &rig.journal);
            assert_eq!(cut.block_on(judge(&next)).len(), 1);
        }
    }
}

#[test]
fn a_disk_that_takes_no_more_bytes_is_a_failed_write() {
    for way in [FDATASYNC, DSYNC] {
        let rig = Rig::new(way);
        rig.runtime.plan().add(on_log(Kind::Write).shorten(512));
        rig.send(TOPIC, 0, 11_000).unwrap();
        rig.runtime.run_until_idle();
        assert_eq!(rig.answers(), [(0, Outcome::Fenced)]);
        assert_eq!(rig.shard.borrow().fence().unwrap().operation, "write");
    }
}

#[test]
fn a_sender_is_told_once_that_the_flush_takes_too_long() {
    for way in SYNC_WAYS {
        let rig = Rig::new(way);
        let rule = rig.runtime.plan().add(on_log(durable_by(way)).hold());
        rig.send(TOPIC, 0, 300).unwrap();
        rig.runtime.advance(Duration::from_secs(1));
        rig.send(TOPIC, 0, 300).unwrap();
        rig.runtime.advance(SYNC_FLUSH_TIMEOUT - Duration::from_secs(1) - Duration::from_millis(1));
        assert_eq!(rig.answers(), []);
        rig.runtime.advance(Duration::from_millis(1));
        assert_eq!(rig.answers(), [(0, Outcome::FlushTimeout)], "{way:?}");
        rig.runtime.advance(Duration::from_secs(1));
        assert_eq!(rig.answers().len(), 2, "each at its own time");
        rig.send(TOPIC, 0, 300).unwrap();
        assert_eq!(rig.pullable(TOPIC, 0), 0, "stored, not known to be durable: not visible");
        rig.runtime.plan().lift(rule);
        rig.runtime.advance(Duration::from_secs(10));
        assert_eq!(rig.answers()[2..], stored([2]), "the first two have their answers");
        assert_eq!(rig.pullable(TOPIC, 0), 3);
    }
}

#[test]
fn what_arrives_during_a_sync_is_one_group() {
    for way in SYNC_WAYS {
        let rig = Rig::with(StoreSettings { is_prepared: false, ..settings(way) });
        rig.runtime.plan().add(on_log(durable_by(way)).delay(Duration::from_millis(5)));
        for _ in 0..20 {
            for _ in 0..10 {
                rig.send(TOPIC, 0, 1).unwrap();
            }
            rig.runtime.advance(Duration::from_millis(5));
        }
        rig.runtime.block_on(rig.all_answered());
        let syncs = rig.shard.borrow().flush_counters().syncs;
        assert!((15..=22).contains(&syncs), "{way:?}: {syncs} syncs for 200 messages");
        assert_eq!(rig.answers(), stored(0..200));
    }
}

#[test]
fn dsync_never_calls_fdatasync_on_the_log() {
    let rig = Rig::with(StoreSettings { is_prepared: false, ..settings(DSYNC) });
    for _ in 0..30 {
        rig.send_now(TOPIC, 0, &[1500]);
    }
    rig.runtime.block_on(rig.all_answered());
    let log = rig.runtime.plan().log();
    let syncs =
        log.iter().filter(|done| done.operation.kind == Kind::SyncData && log_operation(&done.operation));
    assert_eq!(syncs.count(), 0);
}

#[test]
fn an_unfinished_preparation_delays_no_sync_of_what_is_written() {
    let rig = Rig::new(FDATASYNC);
    let second = segment_path(SEGMENT_BYTES);
    rig.runtime
        .plan()
        .add(Rule::on(move |operation| operation.path.to_str() == Some(second.as_str())).hold());
    rig.send(TOPIC, 0, 9000).unwrap();
    rig.runtime.run_until_idle();
    assert_eq!(rig.answers(), stored([0]));
}
