//! Stopping: who waits is answered, name servers are told, the store is clean.

use std::time::Duration;

use protocol::code::response;

use crate::{
    ask,
    world::{World, sync_flush},
};

#[test]
fn held_pulls_and_waiting_senders_are_answered_at_a_stop() {
    let world = World::with(sync_flush());
    let mut consumer = world.connect();
    let mut producer = world.connect();
    producer.call(&ask::send("T", "", "m")).expect_code(0);
    let pull = consumer.send(&ask::held_pull("T", 1, 0, 15_000));
    world.runtime.run_until_idle();
    let syncs = world.runtime.plan().add(
        engine::io::script::Rule::of(engine::io::script::Kind::SyncData)
            .under("commitlog")
            .delay(Duration::from_millis(100)),
    );
    let send = producer.send(&ask::send("T", "", "in flight"));
    world.runtime.run_until_idle();
    world.ask_to_stop();
    assert_eq!(consumer.answer(pull).code, response::PULL_NOT_FOUND);
    producer.answer(send).expect_code(0);
    world.runtime.plan().remove(syncs);
    let (outcome, runtime) = world.stop();
    outcome.unwrap_or_else(|error| panic!("{}", error.0));
    assert!(runtime.disk().read("/store/abort").is_none());
    assert!(consumer.transport.is_ended() && producer.transport.is_ended());
}

#[test]
fn the_name_server_forgets_a_broker_that_stops_at_once() {
    let world = World::new();
    world.connect().call(&ask::send("T", "", "m")).expect_code(0);
    world.runtime.advance(Duration::from_millis(5));
    let mut names = world.name_server();
    names.call(&ask::route("T")).expect_code(0);
    let began = world.runtime.elapsed();
    world.ask_to_stop();
    world.runtime.advance(Duration::from_millis(5));
    names.call(&ask::route("T")).expect_code(response::TOPIC_NOT_EXIST);
    assert!((world.runtime.elapsed() - began).as_millis() < 50);
}

#[test]
fn a_send_during_the_stop_is_refused_with_the_reason() {
    let world = World::with(sync_flush());
    let mut peer = world.connect();
    peer.call(&ask::send("T", "", "m")).expect_code(0);
    // The stop takes as long as the group under way.
    let held = world.hold_syncs();
    peer.send(&ask::send("T", "", "in flight"));
    world.runtime.run_until_idle();
    world.ask_to_stop();
    world.runtime.advance(Duration::from_millis(50));
    let answer = peer.call(&ask::send("T", "", "too late"));
    assert_eq!(answer.code, response::SYSTEM_ERROR);
    assert!(answer.remark().contains("being stopped"), "{answer:?}");
    world.runtime.plan().lift(held);
    let (outcome, _) = world.stop();
    outcome.unwrap_or_else(|error| panic!("{}", error.0));
}

#[test]
fn a_broker_stops_cleanly_whatever_its_name_server_does() {
    let world = World::new();
    world.connect().call(&ask::send("T", "", "m")).expect_code(0);
    world.runtime.net().silence(crate::world::NAMESRV);
    let began = world.runtime.elapsed();
    let runtime = world.runtime.clone();
    let (outcome, _) = world.stop();
    outcome.unwrap_or_else(|error| panic!("{}", error.0));
    assert!((runtime.elapsed() - began).as_secs() < 5);
}
