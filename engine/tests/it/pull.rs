//! Pulls: from memory and from disk, within their limits, and waiting for what isn't there yet.

use std::time::Duration;

use engine::{
    io::script::Kind,
    offset::QueueOffset,
    read::{
        hold::{HeldPull, RECHECK},
        pull::{Filter, Pull, PullStatus},
        time::TimeSearch,
    },
    stages::read_cold,
    store::StoreSettings,
    write::ack::ReplyTo,
};
use protocol::{Serialization, message::stored_messages, properties};

use crate::{
    oracle::judge,
    rig::{ASYNC_DIRECT, FDATASYNC, MAPPED, Rig, TOPIC, on_log, pull_from, settings},
};

const WAYS: [(engine::commit_log::Backend, engine::write::flush::FlushMode); 2] = [FDATASYNC, MAPPED];

/// No memory for the log's newest part: everything that is written is cold.
fn forgetful(way: (engine::commit_log::Backend, engine::write::flush::FlushMode)) -> StoreSettings {
    StoreSettings { tail_cache_bytes: 0, read_cache_bytes: 0, ..settings(way) }
}

fn offsets(bytes: &[u8]) -> Vec<i64> {
    stored_messages(bytes).map(|message| message.unwrap().queue_offset).collect()
}

fn stop_and_reopen(rig: Rig, settings: StoreSettings) -> Rig {
    let journal = rig.journal.clone();
    let next = rig.stop().unwrap();
    journal.borrow_mut().on_clean_stop();
    Rig::reopen(&next, settings, &journal)
}

fn fill(rig: &Rig, count: usize, len: usize) {
    for number in 0..count {
        rig.send_now(TOPIC, 0, &[len + number % 7]);
    }
    rig.runtime.block_on(rig.all_answered());
}

#[test]
fn the_tail_is_served_from_memory() {
    for way in WAYS {
        let rig = Rig::new(way);
        fill(&rig, 40, 500);
        let reads = rig.runtime.plan().done(Kind::Read);
        assert_eq!(rig.pullable(TOPIC, 0), 40);
        assert_eq!(rig.runtime.plan().done(Kind::Read), reads, "{way:?}: nothing was read");
    }
}

#[test]
fn old_messages_are_read_over_file_borders_and_in_order() {
    for way in WAYS {
        let rig = Rig::with(forgetful(way));
        fill(&rig, 100, 1500);
        assert!(rig.positions().appended > 8 * 16_384);
        rig.runtime.block_on(judge(&rig));
        assert!(rig.shard.borrow().counters().cold_reads > 0, "{way:?}");
        let rig = stop_and_reopen(rig, forgetful(way));
        rig.runtime.block_on(judge(&rig));
    }
}

#[test]
fn files_larger_than_a_piece_and_no_multiple_of_it_are_read_too() {
    for way in WAYS {
        let settings = StoreSettings { segment_bytes: 700 * 1024, ..forgetful(way) };
        let rig = Rig::with(settings.clone());
        fill(&rig, 100, 17_000);
        assert!(rig.positions().appended > 2 * 700 * 1024);
        rig.runtime.block_on(judge(&rig));
        let rig = stop_and_reopen(rig, settings);
        rig.runtime.block_on(judge(&rig));
    }
}

#[test]
fn a_message_larger_than_the_whole_cache_is_read() {
    for way in WAYS {
        let rig = Rig::with(StoreSettings { segment_bytes: 4 * 1024 * 1024, ..forgetful(way) });
        for len in [10, 2_500_000, 10, 1_000_000, 10] {
            rig.send_now(TOPIC, 0, &[len]);
        }
        rig.runtime.block_on(rig.all_answered());
        rig.runtime.block_on(judge(&rig));
    }
}

#[test]
fn a_pull_sees_the_end_of_the_log_although_its_piece_was_read_before() {
    for way in WAYS {
        let rig = Rig::with(forgetful(way));
        for count in 1..30 {
            fill(&rig, 1, 300);
            assert_eq!(rig.pullable(TOPIC, 0), count, "{way:?}");
        }
    }
}

#[test]
fn what_is_not_written_yet_is_pulled_from_memory_though_nothing_is_kept() {
    let rig = Rig::with(StoreSettings { is_prepared: false, ..forgetful(ASYNC_DIRECT) });
    fill(&rig, 3, 300);
    rig.runtime.plan().add(on_log(Kind::Write).hold());
    fill(&rig, 5, 9000);
    assert_eq!(rig.pullable(TOPIC, 0), 8);
}

#[test]
fn count_and_bytes_bound_a_pull_but_not_its_first_message() {
    for (way, cold) in [(FDATASYNC, false), (FDATASYNC, true), (MAPPED, false), (MAPPED, true)] {
        let rig = Rig::with(if cold { forgetful(way) } else { settings(way) });
        fill(&rig, 20, 1000);
        let queue = rig.queue(TOPIC, 0);
        let record = rig.journal.borrow().sent[0].end.get() as usize;
        let pulled = |count: usize, bytes: usize, from: u64| {
            let pull = Pull { message_count_max: count, bytes_max: bytes, ..pull_from(queue, from) };
            let (pulled, bytes) = rig.pull(&pull);
            assert_eq!(pulled.status, PullStatus::Found);
            let found = offsets(&bytes);
            assert_eq!(pulled.next_begin_offset.get(), from + found.len() as u64);
            assert_eq!((pulled.min_offset.get(), pulled.max_offset.get()), (0, 20));
            found
        };
        assert_eq!(pulled(3, 1 << 20, 0), [0, 1, 2]);
        assert_eq!(pulled(1, 1 << 20, 7), [7]);
        assert_eq!(pulled(0, 1 << 20, 7), [7], "at least one");
        assert_eq!(pulled(32, 1, 5), [5], "the first whatever its size");
        assert_eq!(pulled(32, record, 0), [0]);
        assert_eq!(pulled(32, 2 * record + 20, 0), [0, 1]);
        assert_eq!(pulled(32, 1 << 20, 18), [18, 19]);
    }
}

#[test]
fn a_tag_filter_selects_and_says_how_far_it_has_looked() {
    for cold in [false, true] {
        let rig = Rig::with(if cold { forgetful(FDATASYNC) } else { settings(FDATASYNC) });
        fill(&rig, 30, 200);
        let queue = rig.queue(TOPIC, 0);
        let tag = |name: &str| i32::try_from(properties::tags_code(&format!("TAGS\u{1}{name}"))).unwrap();
        let filtered = |codes: Vec<i32>, count, from| {
            let filter = Filter::TagCodes(codes);
            rig.pull(&Pull { filter, message_count_max: count, ..pull_from(queue, from) })
        };
        let (pulled, bytes) = filtered(vec![tag("tag1")], 32, 0);
        assert_eq!(offsets(&bytes), (0..30).filter(|number| number % 3 == 1).collect::<Vec<i64>>());
        assert_eq!(pulled.next_begin_offset.get(), 30);
        let (pulled, bytes) = filtered(vec![tag("tag1"), tag("tag2")], 3, 0);
        assert_eq!(offsets(&bytes), [1, 2, 4]);
        assert_eq!(
            pulled.next_begin_offset.get(),
            5,
            "what comes behind the last one is looked at next time"
        );
        let (pulled, bytes) = filtered(vec![tag("none")], 32, 3);
        assert_eq!((pulled.status, bytes.len()), (PullStatus::NoMatchedMessage, 0));
        assert_eq!(pulled.next_begin_offset.get(), 30);
    }
}

#[test]
fn a_filtered_pull_looks_at_eight_hundred_entries_at_most() {
    let rig = Rig::with(StoreSettings { segment_bytes: 1 << 20, ..settings(FDATASYNC) });
    for _ in 0..50 {
        rig.send_now(TOPIC, 0, &[1; 50]);
    }
    rig.runtime.block_on(rig.all_answered());
    let queue = rig.queue(TOPIC, 0);
    let pull = Pull { filter: Filter::TagCodes(vec![1]), ..pull_from(queue, 0) };
    let (pulled, _) = rig.pull(&pull);
    assert_eq!((pulled.status, pulled.next_begin_offset.get()), (PullStatus::NoMatchedMessage, 800));
}

#[test]
fn cold_queue_entries_are_read_from_their_files() {
    for way in WAYS {
        let rig = Rig::new(way);
        for _ in 0..30 {
            rig.send_now(TOPIC, 0, &[1; 50]);
        }
        rig.runtime.block_on(rig.all_answered());
        rig.runtime.advance(Duration::from_secs(5));
        let rig = stop_and_reopen(rig, settings(way));
        let reads = rig.runtime.plan().done(Kind::Read);
        assert_eq!(rig.pullable(TOPIC, 0), 1500);
        let log = rig.runtime.plan().log();
        let of_queues = |done: &&engine::io::script::Done| {
            done.operation.kind == Kind::Read && done.operation.path.starts_with("/store/consumequeue")
        };
        assert!(log[..].iter().filter(of_queues).count() >= 150, "ten entries to a file");
        assert!(rig.runtime.plan().done(Kind::Read) > reads);
        rig.runtime.block_on(judge(&rig));
    }
}

#[test]
fn offsets_outside_of_the_queue_are_answered_without_a_message() {
    let rig = Rig::new(FDATASYNC);
    let queue = rig.queue(TOPIC, 0);
    let status = |from| {
        let (pulled, _) = rig.pull(&pull_from(queue, from));
        (pulled.status, pulled.next_begin_offset.get())
    };
    assert_eq!(status(0), (PullStatus::NoMessageInQueue, 0));
    fill(&rig, 5, 100);
    assert_eq!(status(5), (PullStatus::OffsetOverflowOne, 5));
    assert_eq!(status(9), (PullStatus::OffsetOverflowBadly, 5));
}

// ---- holds -----------------------------------------------------------------------------------------------------

fn hold(rig: &Rig, opaque: i32, from: u64, filter: Filter, patience: Duration) {
    let queue = rig.queue(TOPIC, 0);
    let now = engine::io::Runtime::now(&rig.runtime);
    let reply_to = ReplyTo { connection: 7, opaque, serialization: Serialization::Json };
    let pull = Pull { filter, ..pull_from(queue, from) };
    rig.shard.borrow_mut().holds_mut().hold(HeldPull { reply_to, pull, deadline: now + patience }, now);
}

/// Time passes; which holds have ended.
fn ended(rig: &Rig) -> Vec<i32> {
    rig.shard.borrow_mut().on_hold_time(engine::io::Runtime::now(&rig.runtime));
    let mut shard = rig.shard.borrow_mut();
    let mut ended: Vec<i32> =
        std::iter::from_fn(|| shard.holds_mut().take_ended()).map(|held| held.reply_to.opaque).collect();
    ended.sort_unstable();
    ended
}

const LONG: Duration = Duration::from_secs(15);

#[test]
fn a_hold_ends_when_its_message_is_dispatched_not_before() {
    let rig = Rig::new(FDATASYNC);
    hold(&rig, 1, 0, Filter::All, LONG);
    let rule = rig.runtime.plan().add(on_log(Kind::SyncData).hold());
    rig.send(TOPIC, 0, 100).unwrap();
    rig.send(TOPIC, 1, 100).unwrap();
    rig.runtime.run_until_idle();
    assert!(ended(&rig).is_empty(), "appended is not enough");
    rig.runtime.plan().lift(rule);
    rig.runtime.run_until_idle();
    assert_eq!(ended(&rig), [1]);
    assert!(rig.shard.borrow().holds().is_empty());
    let queue = rig.queue(TOPIC, 0);
    assert_eq!(rig.pull(&pull_from(queue, 0)).0.status, PullStatus::Found);
}

#[test]
fn a_hold_is_woken_only_by_what_it_asks_for() {
    let rig = Rig::new(FDATASYNC);
    // Message 0 has tag0, message 1 tag1.
    let code = i32::try_from(properties::tags_code("TAGS\u{1}tag1")).unwrap();
    hold(&rig, 1, 0, Filter::TagCodes(vec![code]), LONG);
    hold(&rig, 2, 1, Filter::All, LONG);
    hold(&rig, 3, 0, Filter::All, LONG);
    rig.send_now(TOPIC, 0, &[100]);
    rig.runtime.run_until_idle();
    assert_eq!(ended(&rig), [3]);
    rig.send_now(TOPIC, 0, &[100]);
    rig.runtime.run_until_idle();
    assert_eq!(ended(&rig), [1, 2]);
}

#[test]
fn a_hold_whose_queue_grew_by_other_messages_is_looked_at_again() {
    let rig = Rig::new(FDATASYNC);
    hold(&rig, 1, 0, Filter::TagCodes(vec![12345]), LONG);
    rig.send_now(TOPIC, 0, &[100]);
    rig.runtime.advance(RECHECK - Duration::from_millis(20));
    assert!(ended(&rig).is_empty());
    rig.runtime.advance(Duration::from_millis(20));
    assert_eq!(ended(&rig), [1], "its consumer goes on behind them");
}

#[test]
fn a_hold_ends_at_its_deadline_and_with_its_connection_without_an_answer() {
    let rig = Rig::new(FDATASYNC);
    hold(&rig, 1, 0, Filter::All, Duration::from_secs(3));
    hold(&rig, 2, 0, Filter::All, LONG);
    rig.runtime.advance(Duration::from_secs(3) - Duration::from_millis(1));
    assert!(ended(&rig).is_empty());
    rig.runtime.advance(Duration::from_millis(1));
    assert_eq!(ended(&rig), [1]);
    rig.shard.borrow_mut().holds_mut().on_disconnected(7);
    assert!(rig.shard.borrow().holds().is_empty());
    rig.send_now(TOPIC, 0, &[100]);
    assert!(ended(&rig).is_empty(), "nobody is there to be answered");
    assert_eq!(rig.shard.borrow().holds().next_time(), None);
}

#[test]
fn a_stop_ends_every_hold() {
    let rig = Rig::new(FDATASYNC);
    for opaque in 0..10 {
        hold(&rig, opaque, 0, Filter::All, LONG);
    }
    rig.shard.borrow_mut().stop();
    assert_eq!(ended(&rig), (0..10).collect::<Vec<_>>());
}

// ---- search by time --------------------------------------------------------------------------------------------

fn search(rig: &Rig, timestamp_ms: i64) -> u64 {
    let queue = rig.queue(TOPIC, 0);
    let mut search = TimeSearch::new(&rig.shard.borrow(), queue, timestamp_ms);
    rig.runtime.block_on(async {
        for _ in 0..100 {
            let cold = match search.run(&mut rig.shard.borrow_mut()) {
                Ok(offset) => return offset.get(),
                Err(cold) => cold,
            };
            read_cold(&rig.runtime, &rig.shard, &rig.cold_files, &cold).await.unwrap();
        }
        panic!("the search doesn't end");
    })
}

#[test]
fn a_search_by_time_finds_the_first_message_that_is_not_older_also_on_disk() {
    for way in WAYS {
        for cold in [false, true] {
            let settings = if cold { forgetful(way) } else { settings(way) };
            let mut rig = Rig::with(settings.clone());
            for number in 0..60 {
                rig.send_now(TOPIC, 0, &[800]);
                // Some are stored in the same millisecond.
                if number % 3 == 2 {
                    rig.runtime.advance(Duration::from_millis(10));
                }
            }
            rig.runtime.block_on(rig.all_answered());
            if cold {
                rig = stop_and_reopen(rig, settings);
            }
            let times: Vec<i64> =
                rig.journal.borrow().sent.iter().map(|sent| sent.store_timestamp_ms).collect();
            for time in times[0] - 3..times[59] + 3 {
                let expected = times.iter().position(|stored| *stored >= time).unwrap_or(60);
                assert_eq!(search(&rig, time), expected as u64, "{way:?} {cold} {}", time - times[0]);
            }
        }
    }
}

#[test]
fn a_search_in_an_empty_queue_is_its_end() {
    let rig = Rig::new(FDATASYNC);
    assert_eq!(search(&rig, 0), 0);
}

// ---- many queues -----------------------------------------------------------------------------------------------

#[test]
fn ten_thousand_queues_each_have_their_message() {
    const QUEUES: u32 = 10_000;
    // In memory: the scripted disk takes long for so many files.
    let mut settings = StoreSettings { segment_bytes: 4 << 20, ..settings(ASYNC_DIRECT) };
    settings.queue_rhythm.interval = Duration::from_secs(3600);
    let rig = Rig::with(settings);
    for queue_id in 0..QUEUES {
        rig.send_now(TOPIC, queue_id, &[10]);
    }
    rig.runtime.block_on(rig.all_answered());
    for queue_id in 0..QUEUES {
        let queue = rig.queue(TOPIC, queue_id);
        let (pulled, bytes) = rig.pull(&pull_from(queue, 0));
        assert_eq!((pulled.status, offsets(&bytes)), (PullStatus::Found, vec![0]), "{queue_id}");
        assert_eq!(rig.shard.borrow().queues().next_offset(queue), QueueOffset::new(1));
    }
}

#[test]
fn many_queues_are_written_synced_and_found_again() {
    const QUEUES: u32 = 500;
    let settings = StoreSettings { segment_bytes: 1 << 20, ..settings(ASYNC_DIRECT) };
    let rig = Rig::with(settings.clone());
    for queue_id in 0..QUEUES {
        rig.send_now(TOPIC, queue_id, &[10]);
    }
    rig.runtime.advance(Duration::from_secs(4));
    assert!(rig.shard.borrow().is_dispatched_and_durable());
    let rig = stop_and_reopen(rig, settings);
    assert!(!rig.store.recovered.queues_rebuilt);
    assert_eq!(rig.runtime.block_on(judge(&rig)).len(), 500);
}
