//! A failed sync is final: the shard fences, says so to everyone, and what was confirmed stays readable.

use std::time::Duration;

use engine::io::script::{EIO, Kind, Rule};
use protocol::{body::route::TopicRouteData, code::response};

use crate::{
    ask,
    world::{World, messages, settings, sync_flush},
};

#[test]
fn a_failed_sync_refuses_its_sender_and_every_later_one_with_place_and_errno() {
    let world = World::with(sync_flush());
    let mut peer = world.connect();
    peer.call(&ask::send("T", "", "kept")).expect_code(0);
    let failing = world.runtime.plan().add(Rule::of(Kind::SyncData).under("commitlog").nth(1).fail(EIO));
    let first = peer.call(&ask::send("T", "", "lost"));
    // A later sync that would succeed changes nothing.
    world.runtime.plan().remove(failing);
    let later = peer.call(&ask::send("T", "", "late"));
    for answer in [first, later] {
        assert_eq!(answer.code, response::SERVICE_NOT_AVAILABLE);
        for words in ["/store", "errno 5", "restarted"] {
            assert!(answer.remark().contains(words), "{answer:?} should say {words}");
        }
    }
    assert_eq!(world.counter("ringmq.health"), "fenced");
    assert_eq!(peer.call(&ask::max_offset("T", 0)).int("offset"), 1);
    assert_eq!(messages(&peer.call(&ask::pull("T", 0, 0)))[0].body, b"kept");
    assert_eq!(peer.call(&ask::pull("T", 0, 1)).code, response::PULL_NOT_FOUND);
}

#[test]
fn a_fenced_shard_registers_its_topics_without_the_write_bit() {
    let world = World::with(sync_flush());
    let mut peer = world.connect();
    peer.call(&ask::send("T", "", "kept")).expect_code(0);
    world.runtime.advance(Duration::from_millis(5));
    let perm = |world: &World| {
        let route = world.name_server().call(&ask::route("T")).expect_code(0);
        TopicRouteData::from_json(&route.body).unwrap().queue_datas[0].perm
    };
    assert_eq!(perm(&world), 6);
    world.runtime.plan().add(Rule::of(Kind::SyncData).under("commitlog").nth(1).fail(EIO));
    assert_eq!(peer.call(&ask::send("T", "", "lost")).code, response::SERVICE_NOT_AVAILABLE);
    world.runtime.advance(Duration::from_millis(5));
    assert_eq!(perm(&world), 4);
}

#[test]
fn every_sender_of_the_failed_group_is_told_once() {
    let world = World::with(sync_flush());
    let mut peer = world.connect();
    peer.call(&ask::send("T", "", "kept")).expect_code(0);
    let held = world.runtime.plan().add(Rule::of(Kind::SyncData).under("commitlog").nth(1).hold());
    world.runtime.plan().add(Rule::of(Kind::SyncData).under("commitlog").nth(2).fail(EIO));
    // The first is in the group that syncs well, the others gather behind it.
    let good = peer.send(&ask::send("T", "", "good"));
    world.runtime.run_until_idle();
    let bad: Vec<i32> = (0..10).map(|_| peer.send(&ask::send("T", "", "bad"))).collect();
    world.runtime.run_until_idle();
    world.runtime.plan().lift(held);
    peer.answer(good).expect_code(0);
    for opaque in bad {
        assert_eq!(peer.answer(opaque).code, response::SERVICE_NOT_AVAILABLE);
    }
    world.runtime.advance(Duration::from_secs(5));
    assert_eq!(peer.arrived(), []);
}

#[test]
fn asynchronous_flush_fences_too() {
    let world = World::with(settings());
    let mut peer = world.connect();
    // The next files are prepared, and synced, by then.
    world.runtime.advance(Duration::from_secs(5));
    world.runtime.plan().add(Rule::of(Kind::SyncData).under("commitlog").nth(1).fail(EIO));
    peer.call(&ask::send("T", "", vec![b'x'; 64 << 10])).expect_code(0);
    world.runtime.advance(Duration::from_secs(20));
    let answer = peer.call(&ask::send("T", "", "late"));
    assert_eq!(answer.code, response::SERVICE_NOT_AVAILABLE, "{answer:?}");
    assert_eq!(messages(&peer.call(&ask::pull("T", 0, 0))).len(), 1);
}

#[test]
fn a_fenced_shard_does_not_call_its_stop_clean() {
    let world = World::with(sync_flush());
    let mut peer = world.connect();
    peer.call(&ask::send("T", "", "kept")).expect_code(0);
    world.runtime.plan().add(Rule::of(Kind::SyncData).under("commitlog").nth(1).fail(EIO));
    assert_eq!(peer.call(&ask::send("T", "", "lost")).code, response::SERVICE_NOT_AVAILABLE);
    let (outcome, runtime) = world.stop();
    let text = outcome.expect_err("not clean").0;
    assert!(text.contains("wasn't stopped cleanly"), "{text}");
    assert!(runtime.disk().read("/store/abort").is_some(), "the next start recovers");
}
