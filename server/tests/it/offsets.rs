//! Offsets: 14, 15, 29, 30, 31.

use protocol::code::response;
use server::config::{Settings, value::ByteSize};

use crate::{
    ask,
    world::{World, settings, sync_flush},
};

#[test]
fn a_oneway_commit_is_found_by_the_next_query_and_not_answered() {
    let world = World::new();
    let mut peer = world.connect();
    peer.call(&ask::send("T", "", "m")).expect_code(0);
    peer.send(&ask::commit_offset("G", "T", 0, 41).oneway());
    assert_eq!(peer.call(&ask::query_offset("G", "T", 0)).expect_code(0).int("offset"), 41);
    peer.call(&ask::commit_offset("G", "T", 0, 7)).expect_code(0);
    assert_eq!(peer.call(&ask::query_offset("G", "T", 0)).int("offset"), 7, "a lower one is taken too");
    assert_eq!(peer.arrived(), []);
}

#[test]
fn a_new_group_starts_a_young_queue_at_zero() {
    let world = World::new();
    let mut peer = world.connect();
    peer.call(&ask::send("T", "", "m")).expect_code(0);
    for queue_id in [0, 1] {
        assert_eq!(peer.call(&ask::query_offset("New", "T", queue_id)).expect_code(0).int("offset"), 0);
    }
    let asked_not_to = ask::query_offset("New", "T", 0).field("setZeroIfNotFound", false);
    assert_eq!(peer.call(&asked_not_to).code, response::QUERY_NOT_FOUND);
    assert_eq!(peer.call(&ask::query_offset("New", "Missing", 0)).code, response::QUERY_NOT_FOUND);
}

#[test]
fn a_new_group_decides_for_itself_once_the_first_message_is_out_of_memory() {
    let world = World::with(Settings { tail_cache_bytes: ByteSize(1 << 20), ..settings() });
    let mut peer = world.connect();
    for _ in 0..4 {
        peer.call(&ask::send("T", "", vec![b'x'; 1 << 20])).expect_code(0);
    }
    world.runtime.advance(std::time::Duration::from_secs(1));
    let answer = peer.call(&ask::query_offset("New", "T", 0));
    assert_eq!(answer.code, response::QUERY_NOT_FOUND, "{answer:?}");
    assert_eq!(answer.remark(), "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first");
    // A queue that is still empty is young.
    assert_eq!(peer.call(&ask::query_offset("New", "T", 1)).expect_code(0).int("offset"), 0);
}

#[test]
fn max_and_min_count_what_was_acknowledged_just_before() {
    for settings in [settings(), sync_flush()] {
        let world = World::with(settings);
        let (mut producer, mut other) = (world.connect(), world.connect());
        for count in 1..=20 {
            producer.call(&ask::send("T", "", "m")).expect_code(0);
            assert_eq!(other.call(&ask::max_offset("T", 0)).expect_code(0).int("offset"), count);
            assert_eq!(other.call(&ask::min_offset("T", 0)).expect_code(0).int("offset"), 0);
        }
    }
}

#[test]
fn max_counts_a_message_sent_in_the_same_segment_of_bytes() {
    let world = World::new();
    let mut peer = world.connect();
    peer.call(&ask::send("T", "", "first")).expect_code(0);
    let mut glued = ask::send("T", "", "second").frame(101);
    glued.extend(ask::max_offset("T", 0).frame(102));
    peer.transport.send(&glued).unwrap();
    assert_eq!(peer.answer(102).expect_code(0).int("offset"), 2);
    peer.answer(101).expect_code(0);
}

#[test]
fn unknown_topics_and_queues_have_offset_zero() {
    let world = World::new();
    let mut peer = world.connect();
    for request in
        [ask::max_offset("Missing", 0), ask::min_offset("TBW102", 99), ask::max_offset("TBW102", -1)]
    {
        assert_eq!(peer.call(&request).expect_code(0).int("offset"), 0);
    }
}

#[test]
fn a_search_by_time_finds_the_first_at_or_after_and_the_last_at_or_before() {
    let world = World::new();
    let mut peer = world.connect();
    // Two messages share each time.
    let time = |number: i64| 1_800_000_000_000 + number * 10_000;
    for number in 0..5 {
        world.runtime.set_wall_clock_ms(time(number));
        peer.call(&ask::batch("T", "", &[("", "a"), ("", "b")])).expect_code(0);
    }
    let mut search = |timestamp_ms: i64, boundary: &str| {
        let request = ask::search("T", 0, timestamp_ms);
        let request = if boundary.is_empty() { request } else { request.field("boundaryType", boundary) };
        peer.call(&request).expect_code(0).int("offset")
    };
    for lower in ["", "LOWER", "lower"] {
        assert_eq!(search(time(0) - 1, lower), 0);
        assert_eq!(search(time(2), lower), 4);
        assert_eq!(search(time(2) + 1, lower), 6);
        assert_eq!(search(time(4) + 1, lower), 10, "all are older: the queue's end");
        assert_eq!(search(0, lower), 0);
        assert_eq!(search(i64::MAX, lower), 10);
    }
    for upper in ["UPPER", "upper"] {
        assert_eq!(search(time(0) - 1, upper), 0);
        assert_eq!(search(time(2), upper), 5);
        assert_eq!(search(time(3) - 1, upper), 5);
        assert_eq!(search(time(4), upper), 9);
        assert_eq!(search(i64::MAX, upper), 9);
    }
    assert_eq!(peer.call(&ask::search("T", 1, time(2))).expect_code(0).int("offset"), 0, "an empty queue");
}

#[test]
fn consumer_offsets_reach_their_file() {
    let world = World::new();
    let mut peer = world.connect();
    peer.call(&ask::send("T", "", "m")).expect_code(0);
    peer.call(&ask::commit_offset("G", "T", 0, 1)).expect_code(0);
    world.runtime.advance(std::time::Duration::from_secs(6));
    let text = world.file("config/consumerOffset.json");
    assert!(text.contains("\"T@G\""), "{text}");
}
