//! From one file of the log to the next: what fits where, and how files are made and prepared.

use std::time::Duration;

use engine::{
    commit_log::{Backend, NoRoom, record::BLANK_BYTES},
    io::{
        Runtime,
        script::{EIO, ENOSPC, Kind, Operation, Rule, ScriptRuntime},
    },
    shard::AppendError,
    store::StoreSettings,
    write::{ack::Outcome, flush::FlushMode},
};
use protocol::message::MAGIC_BLANK;

use crate::{
    oracle::judge,
    rig::{
        FDATASYNC, MAPPED, Rig, SYNC_WAYS, TOPIC, at, body_len_for, content, message, names, segment_path,
        settings,
    },
};

const SEGMENT_BYTES: u64 = 8192;

fn small(way: (Backend, FlushMode)) -> StoreSettings {
    StoreSettings { segment_bytes: SEGMENT_BYTES, ..settings(way) }
}

fn rig(way: (Backend, FlushMode)) -> Rig {
    Rig::with(small(way))
}

/// Sends a message whose record has `bytes`.
fn send_record(rig: &Rig, bytes: usize) {
    let number = rig.journal.borrow().sent.len();
    rig.send_now(TOPIC, 0, &[body_len_for(number, TOPIC, bytes)]);
}

/// Where message `number` is.
fn place_of(rig: &Rig, number: usize) -> u64 {
    rig.journal.borrow().sent[number].log_offset.get()
}

fn stop_and_reopen(rig: Rig, way: (Backend, FlushMode)) -> Rig {
    let journal = rig.journal.clone();
    let next = rig.stop().unwrap();
    journal.borrow_mut().on_clean_stop();
    let rig = Rig::reopen(&next, small(way), &journal);
    next.block_on(judge(&rig));
    rig
}

/// The blank at `position` of the first file: its length.
fn blank_at(runtime: &ScriptRuntime, position: usize) -> Option<i32> {
    let bytes = runtime.disk().read(segment_path(0)).unwrap();
    let int = |at: usize| i32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    (int(position + 4) == MAGIC_BLANK).then(|| int(position))
}

#[test]
fn a_record_stays_in_its_file_when_it_leaves_eight_bytes_and_else_goes_to_the_next() {
    const RECORD: usize = 300;
    for way in SYNC_WAYS {
        for reopened in [false, true] {
            for left in RECORD - 3..RECORD + 120 {
                let mut rig = rig(way);
                let first = usize::try_from(SEGMENT_BYTES).unwrap() - left;
                send_record(&rig, first);
                if reopened {
                    rig = stop_and_reopen(rig, way);
                }
                send_record(&rig, RECORD);
                // Does not fit in either case.
                send_record(&rig, RECORD);
                let fits = left >= RECORD + BLANK_BYTES;
                let second = if fits { first as u64 } else { SEGMENT_BYTES };
                let third = if fits { SEGMENT_BYTES } else { SEGMENT_BYTES + RECORD as u64 };
                assert_eq!((place_of(&rig, 1), place_of(&rig, 2)), (second, third), "{way:?} {left}");
                rig.runtime.block_on(rig.all_answered());
                let (blank, len) = if fits { (first + RECORD, left - RECORD) } else { (first, left) };
                assert_eq!(
                    blank_at(&rig.runtime, blank),
                    Some(i32::try_from(len).unwrap()),
                    "{way:?} {left}"
                );
                let rig = stop_and_reopen(rig, way);
                assert_eq!(rig.pullable(TOPIC, 0), 3);
            }
        }
    }
}

#[test]
fn a_blank_of_exactly_eight_bytes_is_written_by_the_next_append_after_a_restart() {
    for way in SYNC_WAYS {
        let rig = rig(way);
        send_record(&rig, usize::try_from(SEGMENT_BYTES).unwrap() - BLANK_BYTES);
        let rig = stop_and_reopen(rig, way);
        assert_eq!(rig.store.recovered.log_end, at(SEGMENT_BYTES - 8));
        assert_eq!(blank_at(&rig.runtime, 8184), None);
        send_record(&rig, 300);
        rig.runtime.block_on(rig.all_answered());
        assert_eq!(blank_at(&rig.runtime, 8184), Some(8));
        assert_eq!(place_of(&rig, 1), SEGMENT_BYTES);
        assert_eq!(stop_and_reopen(rig, way).pullable(TOPIC, 0), 2);
    }
}

#[test]
fn a_batch_never_spans_files() {
    for way in SYNC_WAYS {
        for spare in [-1_i64, 0, 1] {
            let rig = rig(way);
            let batch = [300, 10, 700];
            let record = |(at, len): (usize, &usize)| {
                let (body, properties) = content(1 + at, *len);
                message(TOPIC, 0, &body, &properties).record_bytes()
            };
            let bytes: usize = batch.iter().enumerate().map(record).sum();
            let first =
                i64::try_from(SEGMENT_BYTES).unwrap() - i64::try_from(bytes + BLANK_BYTES).unwrap() - spare;
            send_record(&rig, usize::try_from(first).unwrap());
            rig.send_now(TOPIC, 1, &batch);
            let base = if spare >= 0 { u64::try_from(first).unwrap() } else { SEGMENT_BYTES };
            assert_eq!(place_of(&rig, 1), base, "{way:?} {spare}");
            let ends: Vec<u64> = rig.journal.borrow().sent[1..].iter().map(|sent| sent.end.get()).collect();
            assert_eq!(ends[2], base + bytes as u64, "adjacent");
            assert_eq!(place_of(&rig, 2), ends[0]);
            rig.runtime.block_on(rig.all_answered());
            assert_eq!(rig.answers(), [(0, Outcome::Stored), (1, Outcome::Stored)], "a batch has one answer");
            assert_eq!(stop_and_reopen(rig, way).pullable(TOPIC, 1), 3);
        }
    }
}

#[test]
fn what_fits_no_file_is_refused_and_changes_nothing() {
    for way in SYNC_WAYS {
        let rig = rig(way);
        send_record(&rig, 300);
        let before = rig.positions();
        let error = rig.send_batch(TOPIC, 0, &[4000, 4000], |_| {}).unwrap_err();
        let AppendError::TooLarge { record_bytes, record_bytes_max } = error else { panic!("{error:?}") };
        assert!(record_bytes > 8184 && record_bytes_max == 8184);
        let number = rig.journal.borrow().sent.len();
        let error = rig.send(TOPIC, 0, body_len_for(number, TOPIC, 8185)).unwrap_err();
        assert!(matches!(error, AppendError::TooLarge { record_bytes: 8185, .. }), "{error:?}");
        assert_eq!(rig.positions(), before);
        send_record(&rig, 8184);
        rig.runtime.block_on(rig.all_answered());
        assert_eq!(stop_and_reopen(rig, way).pullable(TOPIC, 0), 2);
    }
}

#[test]
fn a_file_that_is_not_half_full_gets_its_successor_when_an_append_needs_it() {
    for way in SYNC_WAYS {
        let rig = rig(way);
        send_record(&rig, 3000);
        rig.runtime.advance(Duration::from_secs(5));
        assert_eq!(names(&rig.runtime, "commitlog").len(), 1, "not half full");
        send_record(&rig, 6000);
        assert_eq!(place_of(&rig, 1), SEGMENT_BYTES, "{way:?}");
    }
}

#[test]
fn asking_for_room_for_the_largest_message_has_the_next_file_made() {
    for way in SYNC_WAYS {
        let rig = rig(way);
        send_record(&rig, 300);
        assert_eq!(
            rig.shard.borrow_mut().has_room(rig.runtime.now()),
            Err(NoRoom::NextFile),
            "the largest fills a file"
        );
        let room = rig.shard.borrow().room.clone();
        rig.runtime.block_on(async {
            while rig.shard.borrow_mut().has_room(rig.runtime.now()).is_err() {
                room.wait().await;
            }
        });
        assert_eq!(names(&rig.runtime, "commitlog").len(), 2);
    }
}

#[test]
fn the_next_file_has_its_name_durably_before_anything_is_in_it() {
    for way in SYNC_WAYS {
        let rig = rig(way);
        let rule = rig.runtime.plan().add(Rule::of(Kind::SyncDirectory).under("commitlog").hold());
        send_record(&rig, 5000);
        rig.runtime.advance(Duration::from_secs(5));
        let error = rig.send(TOPIC, 0, 4000).unwrap_err();
        assert!(matches!(error, AppendError::NoRoom(NoRoom::NextFile)), "{error:?}");
        rig.runtime.plan().lift(rule);
        send_record(&rig, 4000);
        assert_eq!(place_of(&rig, 1), SEGMENT_BYTES);
        assert!(
            rig.runtime
                .disk()
                .durable_files()
                .contains_key(std::path::Path::new(&segment_path(SEGMENT_BYTES)))
        );
    }
}

#[test]
fn a_full_disk_refuses_what_needs_the_next_file_and_goes_on_when_there_is_space() {
    for way in SYNC_WAYS {
        let rig = rig(way);
        let space = rig.runtime.disk().space();
        rig.runtime.disk().set_space_total(space.total - space.available);
        send_record(&rig, 5000);
        rig.runtime.advance(Duration::from_secs(30));
        let error = rig.send(TOPIC, 0, 4000).unwrap_err();
        assert!(matches!(error, AppendError::NoRoom(NoRoom::NextFile)), "{error:?}");
        let errno = rig.shard.borrow().file_error().unwrap().raw_os_error();
        assert_eq!(errno, Some(ENOSPC), "said to whoever asks");
        assert!(rig.shard.borrow().fence().is_none(), "a full disk is no broken one");
        assert_eq!(rig.pullable(TOPIC, 0), 1);
        send_record(&rig, 300);
        assert_eq!(place_of(&rig, 1), 5000, "what fits the current file is taken");

        rig.runtime.disk().set_space_total(space.total);
        send_record(&rig, 4000);
        assert!(rig.shard.borrow().file_error().is_none());
        rig.runtime.block_on(rig.all_answered());
        let rig = stop_and_reopen(rig, way);
        assert_eq!(rig.pullable(TOPIC, 0), 3);
    }
}

/// The preparation of the second file: all of it at once.
fn is_fill(operation: &Operation) -> bool {
    operation.kind == Kind::Write
        && operation.path.to_str() == Some(segment_path(SEGMENT_BYTES).as_str())
        && operation.len == SEGMENT_BYTES
}

#[test]
fn the_writer_waits_for_a_place_that_is_being_zeroed() {
    for way in SYNC_WAYS {
        let rig = rig(way);
        let rule = rig.runtime.plan().add(Rule::on(is_fill).hold());
        send_record(&rig, 5000);
        rig.runtime.advance(Duration::from_secs(1));
        let held = rig.runtime.plan().held();
        assert_eq!(held.len(), 1, "the next file is being zeroed");
        let outcome = rig.send(TOPIC, 0, 4000);
        rig.runtime.run_until_idle();
        if way == MAPPED {
            // There is no place to copy it to.
            assert!(matches!(outcome, Err(AppendError::NoRoom(NoRoom::Preparing))), "{outcome:?}");
        } else {
            assert_eq!(outcome.unwrap().log_offset, at(SEGMENT_BYTES), "in memory there is");
        }
        let writes = rig.runtime.plan().in_flight();
        assert!(writes.iter().all(is_fill), "nobody else writes there: {writes:?}");
        assert_eq!(rig.answers().len(), 1);
        rig.runtime.plan().lift(rule);
        if way == MAPPED {
            send_record(&rig, 4000);
        }
        rig.runtime.block_on(rig.all_answered());
        assert_eq!(rig.answers().len(), 2);
        assert_eq!(rig.shard.borrow().log().unprepared_bytes(), 0);
        assert_eq!(stop_and_reopen(rig, way).pullable(TOPIC, 0), 2);
    }
}

#[test]
fn a_store_stops_while_its_next_file_is_being_zeroed() {
    for way in SYNC_WAYS {
        let rig = rig(way);
        rig.runtime.plan().add(Rule::on(is_fill).delay(Duration::from_millis(700)));
        send_record(&rig, 5000);
        if way != MAPPED {
            // Waits in memory for the place.
            rig.runtime.advance(Duration::from_millis(10));
            rig.send(TOPIC, 0, 4000).unwrap();
        }
        let rig = stop_and_reopen(rig, way);
        assert_eq!(rig.pullable(TOPIC, 0), if way == MAPPED { 1 } else { 2 });
    }
}

#[test]
fn preparation_that_fails_is_only_slower() {
    for way in SYNC_WAYS {
        let rig = rig(way);
        rig.runtime.plan().add(Rule::on(is_fill).fail(EIO));
        send_record(&rig, 5000);
        rig.runtime.advance(Duration::from_secs(1));
        send_record(&rig, 4000);
        rig.runtime.block_on(rig.all_answered());
        assert!(rig.shard.borrow().log().unprepared_bytes() >= 4000);
        assert_eq!(stop_and_reopen(rig, way).pullable(TOPIC, 0), 2);
    }
}

#[test]
fn a_clean_stop_removes_the_unused_next_file_and_abort_last() {
    for way in SYNC_WAYS {
        let rig = rig(way);
        send_record(&rig, 5000);
        rig.runtime.advance(Duration::from_secs(1));
        assert_eq!(names(&rig.runtime, "commitlog").len(), 2);
        let (runtime, journal) = (rig.runtime.clone(), rig.journal.clone());
        let next = rig.stop().unwrap();
        journal.borrow_mut().on_clean_stop();
        assert_eq!(names(&next, "commitlog"), [format!("{:020}", 0)]);
        let log = runtime.plan().log();
        let changes: Vec<&Operation> = log
            .iter()
            .map(|done| &done.operation)
            .filter(|operation| {
                !matches!(operation.kind, Kind::Open | Kind::Read | Kind::List | Kind::ReadFile)
            })
            .collect();
        let [.., removed, synced] = changes[..] else { panic!("{changes:?}") };
        assert_eq!((removed.kind, removed.path.to_str()), (Kind::Remove, Some("/store/abort")));
        assert_eq!((synced.kind, synced.path.to_str()), (Kind::SyncDirectory, Some("/store")));
        let rig = Rig::reopen(&next, small(way), &journal);
        assert_eq!((rig.store.recovered.how, rig.store.recovered.unclean_bytes), ("clean_end", 0));
        let writes = next.plan().done(Kind::Write);
        assert!(writes <= 1, "nothing is repaired after a clean stop, {writes} writes");
    }
}

#[test]
fn a_store_keeps_its_segment_size_whatever_the_settings_say() {
    let rig = rig(FDATASYNC);
    send_record(&rig, 5000);
    let journal = rig.journal.clone();
    let next = rig.stop().unwrap();
    journal.borrow_mut().on_clean_stop();
    let rig = Rig::reopen(&next, settings(FDATASYNC), &journal);
    assert_eq!(rig.shard.borrow().log().segment_bytes(), SEGMENT_BYTES);
    send_record(&rig, 4000);
    assert_eq!(place_of(&rig, 1), SEGMENT_BYTES);
}
