//! Sends that are refused: RocketMQ's codes and remarks in RocketMQ's order, and nothing stored.

use protocol::{code::response, message::sys_flag};
use server::config::{Settings, value::ByteSize};

use crate::{
    ask,
    wire::Request,
    world::{ScriptPeer, World, settings},
};

/// Sends it; it is refused with `code`, the remark has `words`, and the fields that Java reads are there.
fn refused(peer: &mut ScriptPeer, request: &Request, code: i32, words: &str) {
    let answer = peer.call(request);
    assert_eq!(answer.code, code, "{answer:?}");
    assert!(answer.remark().contains(words), "{answer:?} should say {words}");
    assert_eq!((answer.field("MSG_REGION"), answer.field("TRACE_ON")), ("DefaultRegion", "true"));
}

#[test]
fn illegal_topic_names() {
    let world = World::new();
    let mut peer = world.connect();
    let characters = "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$";
    for topic in ["a b", "a/b", "ü", "a.b", "a:b", "../x", "a\u{1}b"] {
        refused(&mut peer, &ask::send(topic, "", "m"), response::SYSTEM_ERROR, characters);
    }
    let long = "The specified topic is longer than topic max length.";
    refused(&mut peer, &ask::send(&"x".repeat(128), "", "m"), response::SYSTEM_ERROR, long);
    refused(
        &mut peer,
        &ask::send(&format!("%RETRY%{}", "x".repeat(121)), "", "m"),
        response::SYSTEM_ERROR,
        long,
    );
    for blank in ["", "   "] {
        refused(
            &mut peer,
            &ask::send(blank, "", "m"),
            response::SYSTEM_ERROR,
            "The specified topic is blank.",
        );
    }
    peer.call(&ask::send(&"x".repeat(127), "", "m")).expect_code(0);
    peer.call(&ask::send("%a|b-C_9", "", "m")).expect_code(0);
}

#[test]
fn topics_that_only_the_broker_writes() {
    let world = World::new();
    let mut peer = world.connect();
    for topic in [
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    ] {
        let words = format!("Sending message to topic[{topic}] is forbidden.");
        // Asking for its queues first must not open a way around.
        peer.call(&ask::max_offset(topic, 0));
        peer.call(&ask::pull(topic, 0, 0));
        refused(&mut peer, &ask::send(topic, "", "m"), response::NO_PERMISSION, &words);
    }
}

#[test]
fn topics_that_nobody_creates() {
    let world = World::with(Settings { auto_create_topic_enable: false, ..settings() });
    let mut peer = world.connect();
    let words = "topic[Missing] not exist, apply first please!";
    refused(&mut peer, &ask::send("Missing", "", "m"), response::TOPIC_NOT_EXIST, words);
    refused(
        &mut peer,
        &ask::send("Missing", "", "m").field("c", "NoTemplate"),
        response::TOPIC_NOT_EXIST,
        words,
    );
    peer.call(&ask::create_topic("Missing", 1)).expect_code(0);
    peer.call(&ask::send("Missing", "", "m")).expect_code(0);
}

#[test]
fn a_template_that_hands_nothing_down_creates_nothing() {
    let world = World::new();
    let mut peer = world.connect();
    peer.call(&ask::create_topic("Plain", 4)).expect_code(0);
    let request = ask::send("Child", "", "m").field("c", "Plain");
    refused(&mut peer, &request, response::TOPIC_NOT_EXIST, "topic[Child] not exist");
}

#[test]
fn queues_that_the_topic_does_not_have() {
    let world = World::new();
    let mut peer = world.connect();
    peer.call(&ask::send("T", "", "m").field("e", 3)).expect_code(0);
    for queue_id in [4, 1000, i32::MAX] {
        let words = format!("request queueId[{queue_id}] is illegal");
        refused(&mut peer, &ask::send("T", "", "m").field("e", queue_id), response::SYSTEM_ERROR, &words);
    }
}

#[test]
fn sizes_beyond_the_limits() {
    let small = Settings { max_message_size: ByteSize(1_000), ..settings() };
    let world = World::with(small);
    let mut peer = world.connect();
    peer.call(&ask::send("T", "", vec![b'x'; 1_000])).expect_code(0);
    refused(&mut peer, &ask::send("T", "", vec![b'x'; 1_001]), response::MESSAGE_ILLEGAL, "maxMessageSize");
    // What the broker adds counts: 32767 in all.
    let long = format!("a\u{1}{}\u{2}", "x".repeat(32_767));
    refused(&mut peer, &ask::send("T", &long, "m"), response::MESSAGE_ILLEGAL, "32767");
    let nearly = format!("UNIQ_KEY\u{1}I\u{2}a\u{1}{}\u{2}", "x".repeat(32_767 - 80));
    peer.call(&ask::send("T", &nearly, "m")).expect_code(0);
    assert_eq!(peer.call(&ask::max_offset("T", 0)).int("offset"), 2);
}

#[test]
fn a_default_message_of_4_mib_is_taken_and_one_byte_more_is_not() {
    let world = World::new();
    let mut peer = world.connect();
    let body = vec![b'x'; 4 << 20];
    peer.call(&ask::send("T", "", &body)).expect_code(0);
    let mut more = body.clone();
    more.push(b'x');
    refused(&mut peer, &ask::send("T", "", more), response::MESSAGE_ILLEGAL, "4194304");
    assert_eq!(crate::world::messages(&peer.call(&ask::pull("T", 0, 0)))[0].body, body);
}

#[test]
fn what_is_not_built_is_refused_and_not_stored_as_something_else() {
    let world = World::new();
    let mut peer = world.connect();
    peer.call(&ask::send("T", "", "m")).expect_code(0);
    for properties in [
        "DELAY\u{1}1\u{2}",
        "DELAY\u{1}99\u{2}",
        "DELAY\u{1}soon\u{2}",
        "TIMER_DELAY_SEC\u{1}5\u{2}",
        "TIMER_DELAY_MS\u{1}5000\u{2}",
        "TIMER_DELIVER_MS\u{1}1700000000000\u{2}",
        "TRAN_MSG\u{1}true\u{2}",
        "INNER_NUM\u{1}2\u{2}",
    ] {
        refused(&mut peer, &ask::send("T", properties, "m"), response::MESSAGE_ILLEGAL, "not supported");
        let in_a_batch = ask::batch("T", "", &[("", "fine"), (properties, "not")]);
        refused(&mut peer, &in_a_batch, response::MESSAGE_ILLEGAL, "not supported");
        refused(
            &mut peer,
            &ask::batch("T", properties, &[("", "m")]),
            response::MESSAGE_ILLEGAL,
            "not supported",
        );
    }
    for bits in [sys_flag::PREPARED, sys_flag::COMMIT, sys_flag::ROLLBACK, sys_flag::INNER_BATCH] {
        refused(
            &mut peer,
            &ask::send("T", "", "m").field("f", bits),
            response::MESSAGE_ILLEGAL,
            "not support",
        );
    }
    assert_eq!(peer.call(&ask::max_offset("T", 0)).int("offset"), 1);
}

#[test]
fn words_that_ask_for_nothing_special_are_accepted() {
    let world = World::new();
    let mut peer = world.connect();
    for properties in ["DELAY\u{1}0\u{2}", "DELAY\u{1}-1\u{2}", "TRAN_MSG\u{1}false\u{2}"] {
        peer.call(&ask::send("T", properties, "m")).expect_code(0);
    }
}

#[test]
fn a_header_that_lacks_a_field_is_told_which() {
    let world = World::new();
    let mut peer = world.connect();
    let mut request = ask::send("T", "", "m");
    request.fields.retain(|(name, _)| name != "b");
    refused(&mut peer, &request, response::SYSTEM_ERROR, "topic");
    refused(&mut peer, &ask::send("T", "", "m").field("e", "first"), response::SYSTEM_ERROR, "queueId");
}

#[test]
fn refused_oneway_sends_are_not_answered() {
    let world = World::new();
    let mut peer = world.connect();
    for request in [
        ask::send("a/b", "", "m"),
        ask::send("SELF_TEST_TOPIC", "", "m"),
        ask::send("T", "DELAY\u{1}3\u{2}", "m"),
        ask::batch("T", "", &[("TRAN_MSG\u{1}true\u{2}", "m")]),
    ] {
        peer.send(&request.oneway());
    }
    peer.call(&ask::runtime_info()).expect_code(0);
    assert_eq!(peer.arrived(), []);
    assert_eq!(world.counter("ringmq.send.refused"), "4");
}

#[test]
fn a_retry_topic_whose_group_may_not_be_created() {
    let world = World::with(Settings { auto_create_subscription_group: false, ..settings() });
    let mut peer = world.connect();
    let answer = peer.call(&ask::send("%RETRY%Nobody", "", "m"));
    assert_eq!(answer.code, response::SUBSCRIPTION_GROUP_NOT_EXIST, "{answer:?}");
}

#[test]
fn a_retry_topic_brings_its_group_into_being() {
    let world = World::new();
    let mut peer = world.connect();
    peer.call(&ask::send("%RETRY%Somebody", "", "m")).expect_code(0);
    assert!(world.file("config/subscriptionGroup.json").contains("\"Somebody\""));
}
