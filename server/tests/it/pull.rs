//! Pulls: what they find, how long they wait, what wakes them.

use std::time::Duration;

use protocol::{
    code::{request, response},
    header::pull::sys_flag,
};

use crate::{
    ask,
    wire::Request,
    world::{World, messages, pull_offsets},
};

/// A world whose topic T has `count` messages in queue 0.
fn world_with(count: usize) -> World {
    let world = World::new();
    let mut peer = world.connect();
    for number in 0..count {
        peer.call(&ask::send("T", "TAGS\u{1}A\u{2}", format!("m{number}"))).expect_code(0);
    }
    world
}

#[test]
fn a_pull_at_the_end_waits_as_long_as_it_asked_and_gets_19_with_all_offsets() {
    let world = world_with(3);
    let mut peer = world.connect();
    let began = world.runtime.elapsed();
    let answer = peer.call(&ask::held_pull("T", 0, 3, 500));
    assert_eq!((answer.code, answer.remark()), (response::PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE"));
    assert_eq!(pull_offsets(&answer), [0, 3, 0, 3]);
    assert_eq!((world.runtime.elapsed() - began).as_millis(), 500);
}

#[test]
fn a_pull_that_may_not_wait_is_answered_at_once() {
    let world = world_with(1);
    let mut peer = world.connect();
    let began = world.runtime.elapsed();
    assert_eq!(peer.call(&ask::pull("T", 0, 1)).code, response::PULL_NOT_FOUND);
    assert_eq!(world.runtime.elapsed(), began);
}

#[test]
fn a_held_pull_is_answered_when_a_message_arrives() {
    let world = world_with(1);
    let mut consumer = world.connect();
    let opaque = consumer.send(&ask::held_pull("T", 0, 1, 15_000));
    world.runtime.advance(Duration::from_millis(100));
    assert_eq!(consumer.arrived(), []);
    let began = world.runtime.elapsed();
    world.connect().call(&ask::send("T", "", "wake up")).expect_code(0);
    let answer = consumer.answer(opaque).expect_code(0);
    assert!((world.runtime.elapsed() - began).as_millis() < 25);
    assert_eq!(pull_offsets(&answer), [0, 2, 0, 2]);
    assert_eq!(messages(&answer)[0].body, b"wake up");
}

#[test]
fn a_held_pull_of_an_empty_queue_is_answered_when_its_first_message_arrives() {
    let world = world_with(1);
    let mut consumer = world.connect();
    let opaque = consumer.send(&ask::held_pull("T", 2, 0, 15_000));
    world.runtime.run_until_idle();
    world.connect().call(&ask::send("T", "", "first").field("e", 2)).expect_code(0);
    assert_eq!(messages(&consumer.answer(opaque))[0].body, b"first");
}

#[test]
fn a_message_in_another_queue_wakes_nobody() {
    let world = world_with(1);
    let mut consumer = world.connect();
    consumer.send(&ask::held_pull("T", 1, 0, 15_000));
    world.runtime.run_until_idle();
    world.connect().call(&ask::send("T", "", "m").field("e", 2)).expect_code(0);
    world.runtime.advance(Duration::from_secs(6));
    assert_eq!(consumer.arrived(), []);
}

#[test]
fn messages_with_other_tags_skip_a_held_pull_ahead_at_the_recheck() {
    let world = world_with(1);
    let mut consumer = world.connect();
    let began = world.runtime.elapsed();
    let opaque = consumer.send(&ask::held_pull("T", 0, 1, 15_000).field("subscription", "B"));
    world.runtime.advance(Duration::from_millis(100));
    world.connect().call(&ask::send("T", "TAGS\u{1}A\u{2}", "not for B")).expect_code(0);
    world.runtime.advance(Duration::from_millis(100));
    assert_eq!(consumer.arrived(), []);
    let answer = consumer.answer(opaque);
    assert_eq!((answer.code, answer.remark()), (response::PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE"));
    assert_eq!(pull_offsets(&answer), [0, 2, 0, 2]);
    assert_eq!((world.runtime.elapsed() - began).as_millis(), 5_000);
}

#[test]
fn messages_with_other_tags_skip_a_held_pull_ahead_when_its_time_is_up_before_the_recheck() {
    let world = world_with(1);
    let mut consumer = world.connect();
    let began = world.runtime.elapsed();
    let opaque = consumer.send(&ask::held_pull("T", 0, 1, 2_000).field("subscription", "B"));
    world.runtime.run_until_idle();
    world.connect().call(&ask::send("T", "TAGS\u{1}A\u{2}", "not for B")).expect_code(0);
    let answer = consumer.answer(opaque);
    assert_eq!(answer.code, response::PULL_RETRY_IMMEDIATELY);
    assert_eq!(answer.int("nextBeginOffset"), 2);
    assert_eq!((world.runtime.elapsed() - began).as_millis(), 2_000);
}

#[test]
fn no_pull_is_held_longer_than_clients_wait() {
    let world = world_with(1);
    let mut consumer = world.connect();
    let began = world.runtime.elapsed();
    assert_eq!(consumer.call(&ask::held_pull("T", 0, 1, 600_000)).code, response::PULL_NOT_FOUND);
    assert_eq!((world.runtime.elapsed() - began).as_secs(), 25);
}

#[test]
fn offsets_outside_the_queue_are_moved() {
    let world = world_with(3);
    let mut peer = world.connect();
    let beyond = peer.call(&ask::held_pull("T", 0, 4, 15_000));
    assert_eq!((beyond.code, beyond.remark()), (response::PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY"));
    assert_eq!(pull_offsets(&beyond), [0, 3, 0, 3]);
    // An empty queue: 0 is its end, anything else is moved there.
    let empty = peer.call(&ask::pull("T", 1, 0));
    assert_eq!((empty.code, pull_offsets(&empty)), (response::PULL_NOT_FOUND, [0, 0, 0, 0]));
    let moved = peer.call(&ask::pull("T", 1, 7));
    assert_eq!((moved.code, pull_offsets(&moved)), (response::PULL_OFFSET_MOVED, [0, 0, 0, 0]));
}

#[test]
fn no_more_messages_come_than_were_asked_for() {
    let world = world_with(40);
    let mut peer = world.connect();
    let answer = peer.call(&ask::pull("T", 0, 5).field("maxMsgNums", 3));
    assert_eq!(pull_offsets(&answer), [0, 8, 0, 40]);
    let offsets: Vec<i64> = messages(&answer).iter().map(|message| message.queue_offset).collect();
    assert_eq!(offsets, [5, 6, 7]);
    assert_eq!(messages(&peer.call(&ask::pull("T", 0, 0).field("maxMsgNums", 1_000))).len(), 32);
    for few in [0, -1] {
        assert_eq!(messages(&peer.call(&ask::pull("T", 0, 0).field("maxMsgNums", few))).len(), 1);
    }
}

#[test]
fn tags_are_filtered_by_their_hash() {
    let world = world_with(2);
    let mut peer = world.connect();
    peer.call(&ask::send("T", "TAGS\u{1}订单\u{2}", "order")).expect_code(0);
    peer.call(&ask::send("T", "", "untagged")).expect_code(0);
    let bodies = |peer: &mut crate::world::ScriptPeer, expression: &str| -> Vec<String> {
        let answer = peer.call(&ask::pull("T", 0, 0).field("subscription", expression));
        assert_eq!(answer.int("nextBeginOffset"), 4);
        if answer.code == response::PULL_RETRY_IMMEDIATELY {
            return Vec::new();
        }
        messages(&answer).into_iter().map(|message| String::from_utf8(message.body).unwrap()).collect()
    };
    assert_eq!(bodies(&mut peer, "A"), ["m0", "m1"]);
    assert_eq!(bodies(&mut peer, "订单"), ["order"]);
    assert_eq!(bodies(&mut peer, " 订单 || B ||A"), ["m0", "m1", "order"]);
    assert_eq!(bodies(&mut peer, "B"), Vec::<String>::new());
    assert_eq!(bodies(&mut peer, ""), ["m0", "m1", "order", "untagged"]);
}

#[test]
fn lite_pulls_are_pulls() {
    let world = world_with(2);
    let mut peer = world.connect();
    let lite = |offset, bits| Request {
        code: request::LITE_PULL_MESSAGE,
        ..ask::held_pull("T", 0, offset, 500)
            .field("sysFlag", bits | sys_flag::SUBSCRIPTION | sys_flag::LITE_PULL)
    };
    assert_eq!(messages(&peer.call(&lite(0, 0))).len(), 2);
    assert_eq!(peer.call(&lite(2, sys_flag::SUSPEND)).code, response::PULL_NOT_FOUND);
}

#[test]
fn pulls_that_cannot_be_are_refused_with_rocketmqs_codes_and_all_offsets() {
    let world = world_with(1);
    let mut peer = world.connect();
    peer.call(&ask::create_topic("WriteOnly", 1).field("perm", 2)).expect_code(0);
    let registered =
        |topic: &str| ask::pull(topic, 0, 0).field("sysFlag", 0).field("consumerGroup", "Absent");
    let cases = [
        (ask::pull("Missing", 0, 0), response::TOPIC_NOT_EXIST, "topic[Missing] not exist"),
        (
            ask::pull("WriteOnly", 0, 0),
            response::NO_PERMISSION,
            "the topic[WriteOnly] pulling message is forbidden",
        ),
        (
            ask::pull("T", 4, 0),
            response::SYSTEM_ERROR,
            "queueId[4] is illegal, topic:[T] topicConfig.readQueueNums:[4]",
        ),
        (ask::pull("T", -1, 0), response::SYSTEM_ERROR, "queueId[-1] is illegal"),
        (ask::pull("T", 0, 0).field("subscription", "||"), response::SUBSCRIPTION_PARSE_FAILED, ""),
        (ask::pull("T", 0, 0).field("expressionType", "SQL92"), response::SYSTEM_ERROR, "SQL92"),
        (registered("T"), response::SUBSCRIPTION_NOT_EXIST, ""),
    ];
    for (request, code, words) in cases {
        let answer = peer.call(&request);
        assert_eq!(answer.code, code, "{request:?}: {answer:?}");
        assert!(answer.remark().contains(words), "{answer:?} should say {words}");
        pull_offsets(&answer);
    }
}

#[test]
fn a_registered_subscription_filters_and_an_older_one_is_told_so() {
    let world = world_with(2);
    let mut peer = world.connect();
    peer.call(&ask::send("T", "TAGS\u{1}B\u{2}", "for B")).expect_code(0);
    let heartbeat = ask::heartbeat_data("c1", "G", &[("T", "B")]);
    peer.call(&Request::new(request::HEART_BEAT).body(heartbeat.to_json())).expect_code(0);
    let by_heartbeat = ask::pull("T", 0, 0).field("sysFlag", 0).field("subVersion", 1);
    assert_eq!(messages(&peer.call(&by_heartbeat))[0].body, b"for B");
    let newer = by_heartbeat.clone().field("subVersion", 2);
    assert_eq!(peer.call(&newer).code, response::SUBSCRIPTION_NOT_LATEST);
    let other_topic = ask::pull("TBW102", 0, 0).field("sysFlag", 0);
    assert_eq!(peer.call(&other_topic).code, response::SUBSCRIPTION_NOT_EXIST);
}

#[test]
fn a_pull_may_commit_what_was_consumed_before() {
    let world = world_with(3);
    let mut peer = world.connect();
    let bits = sys_flag::SUBSCRIPTION | sys_flag::COMMIT_OFFSET;
    peer.call(&ask::pull("T", 0, 2).field("sysFlag", bits).field("commitOffset", 2)).expect_code(0);
    assert_eq!(peer.call(&ask::query_offset("G", "T", 0)).expect_code(0).int("offset"), 2);
    // Without the bit the field means nothing.
    peer.call(&ask::pull("T", 0, 2).field("commitOffset", 1)).expect_code(0);
    assert_eq!(peer.call(&ask::query_offset("G", "T", 0)).expect_code(0).int("offset"), 2);
}

#[test]
fn a_held_pull_vanishes_with_its_connection() {
    let world = world_with(1);
    let mut consumer = world.connect();
    consumer.send(&ask::held_pull("T", 0, 1, 15_000));
    world.runtime.run_until_idle();
    assert_eq!(world.counter("ringmq.pull.held"), "1");
    drop(consumer);
    world.runtime.run_until_idle();
    assert_eq!(world.counter("ringmq.pull.held"), "0");
}

#[test]
fn further_pulls_than_may_be_held_are_answered_at_once() {
    let settings = server::config::Settings { max_held_pulls: 2, ..crate::world::settings() };
    let world = World::with(settings);
    let mut peer = world.connect();
    peer.call(&ask::send("T", "", "m")).expect_code(0);
    for _ in 0..2 {
        peer.send(&ask::held_pull("T", 0, 1, 15_000));
    }
    let began = world.runtime.elapsed();
    assert_eq!(peer.call(&ask::held_pull("T", 0, 1, 15_000)).code, response::PULL_NOT_FOUND);
    assert_eq!(world.runtime.elapsed(), began);
}

#[test]
fn without_long_polling_a_pull_waits_the_short_time() {
    let settings = server::config::Settings { long_polling_enable: false, ..crate::world::settings() };
    let world = World::with(settings);
    let mut peer = world.connect();
    peer.call(&ask::send("T", "", "m")).expect_code(0);
    let began = world.runtime.elapsed();
    assert_eq!(peer.call(&ask::held_pull("T", 0, 1, 15_000)).code, response::PULL_NOT_FOUND);
    assert_eq!((world.runtime.elapsed() - began).as_secs(), 1);
}
