//! Topics that a send creates, and how clients find them: 105 from the name server.

use protocol::body::route::TopicRouteData;
use std::time::Duration;

use crate::{ask, world::World};

#[test]
fn a_send_creates_its_topic_with_four_queues_and_the_route_is_there_within_milliseconds() {
    let world = World::new();
    let mut names = world.name_server();
    names.call(&ask::route("Fresh")).expect_code(17);
    let mut peer = world.connect();
    peer.call(&ask::send("Fresh", "", "first")).expect_code(0);
    world.runtime.advance(Duration::from_millis(5));
    let route = TopicRouteData::from_json(&names.call(&ask::route("Fresh")).expect_code(0).body).unwrap();
    let queues = &route.queue_datas[0];
    assert_eq!((queues.read_queue_nums, queues.write_queue_nums, queues.perm), (4, 4, 6));
    assert_eq!(route.broker_datas[0].broker_name, queues.broker_name);
    assert_eq!(route.broker_datas[0].master_addr(), Some("127.0.0.1:10911"));
}

#[test]
fn a_created_topic_has_no_more_queues_than_its_template() {
    let world = World::new();
    let mut peer = world.connect();
    peer.call(&ask::send("Wide", "", "m").field("d", 100)).expect_code(0);
    world.runtime.advance(Duration::from_millis(5));
    let route = world.name_server().call(&ask::route("Wide")).expect_code(0);
    assert_eq!(TopicRouteData::from_json(&route.body).unwrap().queue_datas[0].write_queue_nums, 8);
}

#[test]
fn a_client_that_accepts_only_standard_json_gets_it_whatever_its_version() {
    let world = World::new();
    world.connect().call(&ask::send("T", "", "m")).expect_code(0);
    world.runtime.advance(Duration::from_millis(5));
    let mut names = world.name_server();
    let old = names.call(&ask::route("T").version(400)).expect_code(0);
    assert!(old.text().contains(r#""brokerAddrs":{0:"127.0.0.1:10911"}"#), "{}", old.text());
    let asking = ask::route("T").field("acceptStandardJsonOnly", true).version(400);
    let standard = names.call(&asking).expect_code(0);
    assert!(standard.text().contains(r#""brokerAddrs":{"0":"127.0.0.1:10911"}"#), "{}", standard.text());
}

#[test]
fn version_401_is_the_first_with_quoted_keys() {
    let world = World::new();
    let mut names = world.name_server();
    for (version, expected) in [(399, "{0:"), (400, "{0:"), (401, "{\"0\":"), (479, "{\"0\":")] {
        let answer = names.call(&ask::route("TBW102").version(version)).expect_code(0);
        assert!(answer.text().contains(expected), "version {version}: {}", answer.text());
    }
}

#[test]
fn no_whitespace_in_routes() {
    // Go cuts the text at commas and colons.
    let world = World::new();
    let answer = world.name_server().call(&ask::route("TBW102")).expect_code(0);
    assert!(!answer.text().contains(char::is_whitespace), "{}", answer.text());
}
