//! What a client may rely on is on disk before it is told: topics before the first acknowledgement, groups before the
//! heartbeat's answer.

use engine::io::{
    Runtime,
    script::{Kind, PowerCut, Rule},
};

use crate::{
    ask,
    world::{World, settings},
};

/// Names that only a directory sync makes durable: nothing under `config` gets one until the rule is lifted.
fn hold_config_syncs(world: &World) -> engine::io::script::RuleId {
    world.runtime.plan().add(Rule::of(Kind::SyncDirectory).under("config").hold())
}

/// What a power cut at this moment, losing all that may be lost, would leave of a file.
fn after_power_cut(world: &World, name: &str) -> String {
    let image = world.runtime.disk().power_cut_image(PowerCut::nothing());
    String::from_utf8(image.disk().read(format!("/store/{name}")).unwrap_or_default()).unwrap()
}

#[test]
fn a_created_topic_is_durable_before_its_first_message_is_acknowledged() {
    let world = World::new();
    world.runtime.run_until_idle();
    let mut peer = world.connect();
    let held = hold_config_syncs(&world);
    let opaque = peer.send(&ask::send("Fresh", "", "first"));
    world.runtime.advance(std::time::Duration::from_secs(1));
    assert_eq!(peer.arrived(), []);
    assert!(!after_power_cut(&world, "config/topics.json").contains("\"Fresh\""));
    world.runtime.plan().lift(held);
    peer.answer(opaque).expect_code(0);
    let text = after_power_cut(&world, "config/topics.json");
    assert!(text.contains("\"Fresh\""), "{text}");
}

#[test]
fn other_topics_go_on_while_one_is_being_made() {
    let world = World::new();
    let mut peer = world.connect();
    peer.call(&ask::send("Known", "", "m")).expect_code(0);
    let held = hold_config_syncs(&world);
    let mut waiting = world.connect();
    let opaque = waiting.send(&ask::send("Fresh", "", "first"));
    world.runtime.run_until_idle();
    peer.call(&ask::send("Known", "", "m")).expect_code(0);
    world.runtime.plan().lift(held);
    waiting.answer(opaque).expect_code(0);
}

#[test]
fn a_topic_that_cannot_be_made_durable_acknowledges_nothing_until_it_is() {
    let world = World::new();
    world.runtime.run_until_idle();
    let failing =
        world.runtime.plan().add(Rule::of(Kind::WriteFile).under("config").fail(engine::io::script::ENOSPC));
    let mut peer = world.connect();
    let opaque = peer.send(&ask::send("Fresh", "", "first"));
    world.runtime.advance(std::time::Duration::from_secs(2));
    assert_eq!(peer.arrived(), []);
    world.runtime.plan().remove(failing);
    peer.answer(opaque).expect_code(0);
    assert!(after_power_cut(&world, "config/topics.json").contains("\"Fresh\""));
}

#[test]
fn a_group_and_its_retry_topic_are_durable_before_the_first_heartbeat_is_answered() {
    let world = World::new();
    world.runtime.run_until_idle();
    let mut peer = world.connect();
    let held = hold_config_syncs(&world);
    let opaque = peer.send(&ask::heartbeat("c1", "NewGroup", "T"));
    world.runtime.advance(std::time::Duration::from_secs(1));
    assert_eq!(peer.arrived(), []);
    world.runtime.plan().lift(held);
    peer.answer(opaque).expect_code(0);
    assert!(after_power_cut(&world, "config/subscriptionGroup.json").contains("\"NewGroup\""));
    assert!(after_power_cut(&world, "config/topics.json").contains("\"%RETRY%NewGroup\""));
}

#[test]
fn a_topic_made_by_an_administrator_is_durable_before_the_answer() {
    let world = World::new();
    world.runtime.run_until_idle();
    let mut peer = world.connect();
    let held = hold_config_syncs(&world);
    let opaque = peer.send(&ask::create_topic("Made", 3));
    world.runtime.advance(std::time::Duration::from_secs(1));
    assert_eq!(peer.arrived(), []);
    world.runtime.plan().lift(held);
    peer.answer(opaque).expect_code(0);
    assert!(after_power_cut(&world, "config/topics.json").contains("\"Made\""));
}

#[test]
fn everything_is_there_after_a_power_cut() {
    let world = World::with(crate::world::sync_flush());
    let mut peer = world.connect();
    peer.call(&ask::heartbeat("c1", "G", "T")).expect_code(0);
    for number in 0..50 {
        peer.call(&ask::send("T", "", format!("m{number}"))).expect_code(0);
    }
    peer.call(&ask::commit_offset("G", "T", 0, 30)).expect_code(0);
    // Offsets are written every five seconds.
    world.runtime.advance(std::time::Duration::from_secs(6));
    let image = world.runtime.disk().power_cut_image(PowerCut::nothing());
    drop(world);
    let world = World::start(image, crate::world::sync_flush()).unwrap_or_else(|error| panic!("{}", error.0));
    let mut peer = world.connect();
    assert_eq!(peer.call(&ask::max_offset("T", 0)).int("offset"), 50);
    assert_eq!(peer.call(&ask::query_offset("G", "T", 0)).expect_code(0).int("offset"), 30);
    let pulled = crate::world::messages(&peer.call(&ask::pull("T", 0, 20)));
    assert_eq!(pulled[0].body, b"m20");
    world.name_server().call(&ask::route("%RETRY%G")).expect_code(0);
    assert_eq!(world.counter("ringmq.health"), "ok");
}

#[test]
fn a_clean_stop_keeps_the_latest_consumer_offset() {
    let world = World::new();
    let mut peer = world.connect();
    peer.call(&ask::send("T", "", "m")).expect_code(0);
    peer.call(&ask::commit_offset("G", "T", 0, 1)).expect_code(0);
    let (outcome, runtime) = world.stop();
    outcome.unwrap_or_else(|error| panic!("{}", error.0));
    assert!(runtime.disk().read("/store/abort").is_none(), "abort goes at a clean stop");
    let image = runtime.disk().power_cut_image(PowerCut::nothing());
    let world = World::start(image, settings()).unwrap_or_else(|error| panic!("{}", error.0));
    assert_eq!(world.connect().call(&ask::query_offset("G", "T", 0)).expect_code(0).int("offset"), 1);
    assert!(world.runtime.wall_clock_ms() > 0);
}

#[test]
fn a_disk_that_cannot_take_the_first_files_is_refused_with_what_is_needed() {
    let runtime = engine::io::script::ScriptRuntime::new(1);
    runtime.disk().set_space_total(15 << 20);
    let Err(error) = World::start(runtime, settings()) else { panic!("it started") };
    for words in ["nearly full", "16777216", "available", "--data", "mappedFileSizeCommitLog"] {
        assert!(error.0.contains(words), "{} should say {words}", error.0);
    }
}

#[test]
fn a_store_is_opened_on_a_full_disk_because_its_messages_must_stay_readable() {
    let world = World::new();
    world.connect().call(&ask::send("T", "", "kept")).expect_code(0);
    let (outcome, runtime) = world.stop();
    outcome.unwrap_or_else(|error| panic!("{}", error.0));
    let image = runtime.disk().power_cut_image(PowerCut::nothing());
    let space = image.disk().space();
    image.disk().set_space_total(space.total - space.available + (1 << 20));
    let world = World::start(image, settings()).unwrap_or_else(|error| panic!("{}", error.0));
    let mut peer = world.connect();
    assert_eq!(crate::world::messages(&peer.call(&ask::pull("T", 0, 0)))[0].body, b"kept");
    peer.call(&ask::send("T", "", "more")).expect_code(0);
}
