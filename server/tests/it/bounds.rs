//! Peers that don't read, and how much memory they can take.

use std::time::Duration;

use protocol::code::response;
use server::config::{Settings, value::ByteSize};

use crate::{
    ask,
    world::{World, messages, settings},
};

/// Connections that may hold 1 MiB of answers; one message of 200 KiB in T, queue 0.
fn world_of_small_connections() -> World {
    let world = World::with(Settings {
        max_connection_memory: ByteSize(1 << 20),
        max_message_size: ByteSize(256 << 10),
        ..settings()
    });
    world.connect().call(&ask::send("T", "", vec![b'x'; 200 << 10])).expect_code(0);
    world
}

#[test]
fn a_reader_that_never_reads_its_pulls_is_not_read_from_and_costs_nobody_else() {
    let world = world_of_small_connections();
    let mut greedy = world.connect();
    let mut pulls = Vec::new();
    for opaque in 0..2_000 {
        pulls.extend(ask::pull("T", 0, 0).frame(opaque));
    }
    let mut sent = 0;
    loop {
        let more = greedy.transport.send_some(&pulls[sent..]).unwrap();
        world.runtime.run_until_idle();
        sent += more;
        if more == 0 {
            break;
        }
    }
    assert!(sent < pulls.len() && greedy.transport.unread_by_peer() > 0, "the broker took everything");
    // 1 MiB, one answer that passes the limit, and what the socket holds.
    let pulled: u64 = world.counter("ringmq.pull.bytes").parse().unwrap();
    assert!(pulled <= (1 << 20) + 2 * (201 << 10), "{pulled} bytes were made for a peer that reads nothing");
    let mut other = world.connect();
    let began = world.runtime.elapsed();
    other.call(&ask::send("T", "", "m")).expect_code(0);
    assert_eq!(messages(&other.call(&ask::pull("T", 0, 1)))[0].body, b"m");
    assert!((world.runtime.elapsed() - began).as_millis() < 25);
    // When it reads at last everything comes.
    greedy.transport.send_some(&[]).unwrap();
    for opaque in 0..20 {
        assert_eq!(greedy.answer(opaque).code, 0);
    }
}

#[test]
fn held_pulls_of_a_peer_that_never_reads_do_not_fill_memory_when_a_message_comes() {
    let world = world_of_small_connections();
    let mut greedy = world.connect();
    for _ in 0..200 {
        greedy.send(&ask::held_pull("T", 0, 1, 15_000));
    }
    world.runtime.run_until_idle();
    assert_eq!(world.counter("ringmq.pull.held"), "200");
    world.connect().call(&ask::send("T", "", vec![b'y'; 200 << 10])).expect_code(0);
    world.runtime.run_until_idle();
    let pulled: u64 = world.counter("ringmq.pull.bytes").parse().unwrap();
    assert!(pulled <= (1 << 20) + 2 * (201 << 10), "{pulled} bytes were made for a peer that reads nothing");
    // The others are told to come again, from the same offset.
    let mut codes = [0; 2];
    for opaque in 1..=200 {
        let answer = greedy.answer(opaque);
        match answer.code {
            0 => codes[0] += 1,
            response::PULL_RETRY_IMMEDIATELY => {
                assert_eq!(answer.int("nextBeginOffset"), 1);
                codes[1] += 1;
            }
            _ => panic!("{answer:?}"),
        }
    }
    assert!(codes[0] >= 4 && codes[1] > 100, "{codes:?}");
}

#[test]
fn a_producer_that_never_reads_its_answers_is_not_read_from() {
    let world = World::with(Settings {
        max_connection_memory: ByteSize(512 << 10),
        max_message_size: ByteSize(64 << 10),
        ..settings()
    });
    let mut peer = world.connect();
    peer.call(&ask::send("T", "", "m")).expect_code(0);
    let deaf = world.connect();
    let frame = ask::send("T", "", "m").frame(7);
    let mut frames_sent = 0_u64;
    let mut at = 0;
    loop {
        let more = deaf.transport.send_some(&frame[at..]).unwrap();
        at += more;
        if at == frame.len() {
            at = 0;
            frames_sent += 1;
        }
        if more == 0 {
            world.runtime.run_until_idle();
            if deaf.transport.send_some(&frame[at..at + 1]).unwrap() == 0 {
                break;
            }
            at += 1;
            if at == frame.len() {
                at = 0;
                frames_sent += 1;
            }
        }
        assert!(frames_sent < 100_000, "it is read from for ever");
    }
    assert!(deaf.transport.unread_by_peer() > 0);
    let began = world.runtime.elapsed();
    peer.call(&ask::send("T", "", "m")).expect_code(0);
    assert!((world.runtime.elapsed() - began).as_millis() < 25);
}

#[test]
fn a_connection_that_does_nothing_for_two_minutes_is_closed() {
    let world = World::new();
    let idle = world.connect();
    let mut busy = world.connect();
    for _ in 0..13 {
        world.runtime.advance(Duration::from_secs(10));
        busy.call(&ask::runtime_info()).expect_code(0);
    }
    assert!(idle.transport.is_ended());
    assert_eq!(world.counter("ringmq.connections.idle_closed"), "1");
}

#[test]
fn one_connection_too_many_is_closed_and_counted() {
    let world = World::with(Settings { max_connections: 3, ..settings() });
    let mut kept: Vec<_> = (0..2).map(|_| world.connect()).collect();
    for peer in &mut kept {
        peer.call(&ask::runtime_info()).expect_code(0);
    }
    let mut third = world.connect();
    third.call(&ask::runtime_info()).expect_code(0);
    let fourth = world.connect();
    assert!(fourth.transport.is_ended());
    let answer = third.call(&ask::runtime_info());
    assert!(answer.text().contains("\"ringmq.connections.refused\":\"1\""), "{}", answer.text());
    drop(kept.pop());
    world.runtime.run_until_idle();
    world.connect().call(&ask::runtime_info()).expect_code(0);
}

#[test]
fn a_slow_reader_that_is_always_a_little_behind_does_not_grow_its_buffer() {
    // Answers that were sent must be forgotten although some are always waiting.
    let world = world_of_small_connections();
    world.runtime.net().set_socket_buffer_bytes(16 << 10);
    let mut slow = world.connect();
    slow.send(&ask::pull("T", 0, 0));
    for _ in 0..100 {
        slow.send(&ask::pull("T", 0, 0));
        // One answer's worth, while the next is under way.
        assert_eq!(slow.receive().unwrap().code, 0);
    }
    let largest: u64 = world.counter("ringmq.connections.answer_bytes").parse().unwrap();
    assert!(largest < 1 << 20, "{largest}");
}
