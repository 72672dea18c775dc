//! Administration: creating topics (17), what the broker says of itself (28).

use protocol::{
    body::{kv::KvTable, route::TopicRouteData},
    code::response,
};

use crate::{ask, world::World};

#[test]
fn a_created_topic_is_registered_and_taken_by_sends() {
    let world = World::new();
    let mut peer = world.connect();
    peer.call(&ask::create_topic("Made", 3).field("writeQueueNums", 2)).expect_code(0);
    world.runtime.advance(std::time::Duration::from_millis(5));
    let route = world.name_server().call(&ask::route("Made")).expect_code(0);
    let queues = TopicRouteData::from_json(&route.body).unwrap().queue_datas[0].clone();
    assert_eq!((queues.read_queue_nums, queues.write_queue_nums, queues.perm), (3, 2, 6));
    peer.call(&ask::send("Made", "", "m").field("e", 2)).expect_code(0);
}

#[test]
fn changing_a_topic_changes_its_queues_at_once_and_keeps_its_messages() {
    let world = World::new();
    let mut peer = world.connect();
    peer.call(&ask::create_topic("Made", 1)).expect_code(0);
    peer.call(&ask::send("Made", "", "kept")).expect_code(0);
    assert_eq!(peer.call(&ask::send("Made", "", "m").field("e", 1)).code, response::SYSTEM_ERROR);
    peer.call(&ask::create_topic("Made", 2)).expect_code(0);
    peer.call(&ask::send("Made", "", "m").field("e", 1)).expect_code(0);
    assert_eq!(crate::world::messages(&peer.call(&ask::pull("Made", 0, 0)))[0].body, b"kept");
}

#[test]
fn topics_that_cannot_be_made_are_refused() {
    let world = World::new();
    let mut peer = world.connect();
    let conflict = "is conflict with system topic";
    let cases = [
        (ask::create_topic("a/b", 1), "illegal characters"),
        (ask::create_topic("TBW102", 1), conflict),
        (ask::create_topic("SCHEDULE_TOPIC_XXXX", 1), conflict),
        (ask::create_topic("T", -1), "queue nums -1"),
        (ask::create_topic("T", 1_000_000), "queue nums 1000000"),
        (ask::create_topic("T", 1).field("perm", 64), "perm 64"),
        (ask::create_topic("T", 1).field("topicFilterType", "NO_TAG"), "topic filter type [NO_TAG]"),
    ];
    for (request, words) in cases {
        let answer = peer.call(&request);
        assert_ne!(answer.code, 0, "{request:?}");
        assert!(answer.remark().contains(words), "{answer:?} should say {words}");
    }
}

#[test]
fn the_runtime_table_counts_what_happened() {
    let world = World::new();
    let mut peer = world.connect();
    for _ in 0..3 {
        peer.call(&ask::send("T", "", "hello")).expect_code(0);
    }
    crate::world::messages(&peer.call(&ask::pull("T", 0, 0)));
    let answer = peer.call(&ask::runtime_info()).expect_code(0);
    let table = KvTable::from_json(&answer.body).unwrap().table;
    let expected = [
        ("brokerVersion", "479"),
        ("brokerVersionDesc", "V5_3_3"),
        ("putMessageTimesTotal", "3"),
        ("msgGetTotalTodayNow", "3"),
        ("ringmq.append.messages", "3"),
        ("ringmq.pull.messages", "3"),
        ("ringmq.health", "ok"),
        ("commitLogMinOffset", "0"),
        ("dispatchBehindBytes", "0"),
    ];
    for (name, value) in expected {
        assert_eq!(table[name], value, "{name}");
    }
    assert!(table["commitLogMaxOffset"].parse::<u64>().unwrap() > 300);
}
