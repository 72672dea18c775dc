//! Consumers that come and go: heartbeats, the list of a group, who is told.

use std::time::Duration;

use protocol::{
    body::{heartbeat::MessageModel, list::ConsumerList, route::TopicRouteData},
    code::{request, response},
};

use crate::{
    ask,
    wire::Request,
    world::{ScriptPeer, World},
};

fn members(peer: &mut ScriptPeer, group: &str) -> Vec<String> {
    let answer = peer.call(&ask::consumer_list(group)).expect_code(0);
    let mut ids = ConsumerList::from_json(&answer.body).unwrap().consumer_id_list;
    ids.sort();
    ids
}

/// A connection whose client has joined G, with everything it was told so far taken out.
fn joined(world: &World, client_id: &str) -> ScriptPeer {
    let mut peer = world.connect();
    peer.call(&ask::heartbeat(client_id, "G", "T")).expect_code(0);
    world.runtime.run_until_idle();
    peer.arrived();
    peer
}

/// That it was told, exactly once, that its group changed.
fn assert_told(peer: &mut ScriptPeer) {
    let told = peer.arrived();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].code, request::NOTIFY_CONSUMER_IDS_CHANGED);
    assert_eq!(told[0].field("consumerGroup"), "G");
    assert_eq!(told[0].flag, protocol::command::FLAG_ONEWAY);
}

#[test]
fn a_heartbeat_is_answered_with_what_java_reads() {
    let world = World::new();
    let answer = world.connect().call(&ask::heartbeat("c1", "G", "T")).expect_code(0);
    assert_eq!(answer.field("IS_SUPPORT_HEART_BEAT_V2"), "true");
    assert_eq!(answer.field("IS_SUB_CHANGE"), "true");
}

#[test]
fn the_list_has_the_asker_right_after_its_heartbeat() {
    let world = World::new();
    let mut first = world.connect();
    first.call(&ask::heartbeat("c1", "G", "T")).expect_code(0);
    assert_eq!(members(&mut first, "G"), ["c1"]);
    let mut second = world.connect();
    second.call(&ask::heartbeat("c2", "G", "T")).expect_code(0);
    assert_eq!(members(&mut second, "G"), ["c1", "c2"]);
}

#[test]
fn a_group_without_members_has_no_list() {
    let world = World::new();
    let answer = world.connect().call(&ask::consumer_list("Nobody"));
    assert_eq!(answer.code, response::SYSTEM_ERROR);
    assert_eq!(answer.remark(), "no consumer for this group, Nobody");
}

#[test]
fn all_members_are_told_when_one_joins() {
    let world = World::new();
    let mut first = world.connect();
    first.call(&ask::heartbeat("c1", "G", "T")).expect_code(0);
    world.runtime.run_until_idle();
    assert_told(&mut first);
    let mut second = world.connect();
    second.call(&ask::heartbeat("c2", "G", "T")).expect_code(0);
    world.runtime.run_until_idle();
    assert_told(&mut first);
    assert_told(&mut second);
}

#[test]
fn a_heartbeat_that_changes_nothing_tells_nobody() {
    let world = World::new();
    let mut first = joined(&world, "c1");
    let mut second = joined(&world, "c2");
    first.arrived();
    for _ in 0..3 {
        second.call(&ask::heartbeat("c2", "G", "T")).expect_code(0);
    }
    assert_eq!((first.arrived(), second.arrived()), (vec![], vec![]));
}

#[test]
fn a_changed_subscription_is_told() {
    let world = World::new();
    let mut first = joined(&world, "c1");
    let changed = ask::heartbeat_data("c1", "G", &[("T", "*"), ("U", "*")]);
    first.call(&Request::new(request::HEART_BEAT).body(changed.to_json())).expect_code(0);
    assert_told(&mut first);
}

#[test]
fn the_rest_is_told_when_a_member_leaves() {
    let world = World::new();
    let mut first = joined(&world, "c1");
    let mut second = joined(&world, "c2");
    first.arrived();
    second.call(&ask::unregister("c2", "G")).expect_code(0);
    assert_told(&mut first);
    assert_eq!(second.arrived(), []);
    assert_eq!(members(&mut first, "G"), ["c1"]);
}

#[test]
fn the_rest_is_told_at_once_when_a_connection_is_lost() {
    let world = World::new();
    let mut first = joined(&world, "c1");
    for torn in [false, true] {
        let second = joined(&world, "c2");
        first.arrived();
        let began = world.runtime.elapsed();
        if torn {
            second.transport.reset()
        } else {
            drop(second)
        }
        assert_told(&mut first);
        assert_eq!(world.runtime.elapsed(), began);
        assert_eq!(members(&mut first, "G"), ["c1"]);
    }
}

#[test]
fn a_client_that_falls_silent_is_gone_after_two_minutes() {
    let world = World::new();
    let mut first = joined(&world, "c1");
    let second = joined(&world, "c2");
    first.arrived();
    for _ in 0..20 {
        world.runtime.advance(Duration::from_secs(10));
        first.call(&ask::heartbeat("c1", "G", "T")).expect_code(0);
        // The other one still asks for things, but says nothing of itself.
        let question = ask::runtime_info().frame(1);
        if second.transport.send_some(&question).is_err() {
            break;
        }
    }
    assert!((120..=130).contains(&world.runtime.elapsed().as_secs()), "{:?}", world.runtime.elapsed());
    assert_eq!(members(&mut first, "G"), ["c1"]);
}

#[test]
fn broadcasting_groups_are_told_nothing() {
    let world = World::new();
    let mut peer = world.connect();
    let mut heartbeat = ask::heartbeat_data("c1", "B", &[("T", "*")]);
    heartbeat.consumer_data[0].message_model = MessageModel::Broadcasting;
    peer.call(&Request::new(request::HEART_BEAT).body(heartbeat.to_json())).expect_code(0);
    world.runtime.run_until_idle();
    assert_eq!(peer.arrived(), []);
}

#[test]
fn the_retry_topic_is_there_and_registered_at_the_first_heartbeat() {
    let world = World::new();
    let mut names = world.name_server();
    names.call(&ask::route("%RETRY%G")).expect_code(17);
    world.connect().call(&ask::heartbeat("c1", "G", "T")).expect_code(0);
    world.runtime.advance(Duration::from_millis(5));
    let route = names.call(&ask::route("%RETRY%G")).expect_code(0);
    let queues = TopicRouteData::from_json(&route.body).unwrap().queue_datas[0].clone();
    assert_eq!((queues.read_queue_nums, queues.write_queue_nums, queues.perm), (1, 1, 6));
}

#[test]
fn the_heartbeat_of_a_cpp_client_is_read() {
    let world = World::new();
    let mut peer = world.connect();
    let body = r#"{"clientID":"10.0.0.1@cpp","consumerDataSet":[{"consumeFromWhere":4,"consumeType":1,"groupName":"G","messageModel":1,"subscriptionDataSet":[{"subString":"A || B","subVersion":"1700000000000","topic":"T"}]}],"producerDataSet":null}"#;
    peer.call(&Request::new(request::HEART_BEAT).body(format!("{body}\n"))).expect_code(0);
    assert_eq!(members(&mut peer, "G"), ["10.0.0.1@cpp"]);
}

#[test]
fn a_heartbeat_that_cannot_be_read_is_refused_and_the_connection_lives() {
    let world = World::new();
    let mut peer = world.connect();
    for body in ["", "{", "nonsense"] {
        let answer = peer.call(&Request::new(request::HEART_BEAT).body(body));
        assert_ne!(answer.code, 0, "{body}: {answer:?}");
    }
    peer.call(&ask::heartbeat("c1", "G", "T")).expect_code(0);
}

#[test]
fn a_group_that_may_not_be_created_is_skipped() {
    let settings =
        server::config::Settings { auto_create_subscription_group: false, ..crate::world::settings() };
    let world = World::with(settings);
    let mut peer = world.connect();
    peer.call(&ask::heartbeat("c1", "G", "T")).expect_code(0);
    let answer = peer.call(&ask::pull("TBW102", 0, 0));
    assert_eq!(answer.code, response::SUBSCRIPTION_GROUP_NOT_EXIST);
    assert!(!world.file("config/topics.json").contains("%RETRY%G"));
}
