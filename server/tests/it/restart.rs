//! Stopping and starting real processes: cleanly, by kill -9, on one port, on one directory.

use std::{collections::BTreeMap, net::SocketAddr, path::Path};

use crate::{
    ask,
    process::{Server, refusal, scratch, serve},
    wire::TcpPeer,
    world::messages,
};

/// Fills T with `count` messages over its queues; what was acknowledged, by (queue, offset).
fn fill(peer: &mut TcpPeer, count: usize) -> BTreeMap<(i64, i64), String> {
    let bodies: Vec<String> = (0..count).map(|number| format!("message {number} of this round")).collect();
    let opaques: Vec<i32> = bodies
        .iter()
        .enumerate()
        .map(|(number, body)| peer.send(&ask::send("T", "TAGS\u{1}A\u{2}", body).field("e", number % 4)))
        .collect();
    let place = |(opaque, body): (i32, String)| {
        let answer = peer.answer(opaque).expect_code(0);
        ((answer.int("queueId"), answer.int("queueOffset")), body)
    };
    opaques.into_iter().zip(bodies).map(place).collect()
}

/// Everything that is in T, by (queue, offset).
fn contents(peer: &mut TcpPeer) -> BTreeMap<(i64, i64), String> {
    let mut found = BTreeMap::new();
    for queue_id in 0..4 {
        let mut next = 0;
        loop {
            let answer = peer.call(&ask::pull("T", queue_id, next));
            if answer.code == 19 {
                break;
            }
            for message in messages(&answer) {
                let body = String::from_utf8(message.body).unwrap();
                let before = found.insert((i64::from(message.queue_id), message.queue_offset), body);
                assert_eq!(before, None, "twice at one offset");
            }
            next = answer.int("nextBeginOffset");
        }
    }
    found
}

fn start_and_fill(data: &Path, more: &[&str]) -> (Server, BTreeMap<(i64, i64), String>) {
    let server = Server::start_with(data, more);
    let mut peer = server.connect();
    peer.call(&ask::heartbeat("c1", "G", "T")).expect_code(0);
    let sent = fill(&mut peer, 500);
    peer.call(&ask::commit_offset("G", "T", 1, 77)).expect_code(0);
    (server, sent)
}

#[test]
fn messages_offsets_topics_and_groups_survive_a_clean_stop() {
    let (_scratch, data) = scratch();
    let (mut server, sent) = start_and_fill(&data, &[]);
    server.process.stop();
    assert!(!data.join("abort").exists());
    let server = Server::start(&data);
    let mut peer = server.connect();
    assert_eq!(contents(&mut peer), sent);
    assert_eq!(peer.call(&ask::query_offset("G", "T", 1)).expect_code(0).int("offset"), 77);
    for topic in ["T", "%RETRY%G"] {
        server.connect_to_names().call(&ask::route(topic)).expect_code(0);
    }
    let groups = std::fs::read_to_string(data.join("config/subscriptionGroup.json")).unwrap();
    assert!(groups.contains("\"G\""));
}

#[test]
fn what_was_acknowledged_survives_kill_9_with_sync_flush_and_open_connections() {
    let (_scratch, data) = scratch();
    for backend in ["direct", "mapped"] {
        let data = data.join(backend);
        let more = ["--flush", "sync", "--backend", backend, "--set", "flushConsumerOffsetInterval=100"];
        let (mut server, sent) = start_and_fill(&data, &more);
        let address = server.brokers[0].1;
        let open: Vec<TcpPeer> = (0..20).map(|_| server.connect()).collect();
        let offsets = data.join("config/consumerOffset.json");
        wait_until("the offsets are in their file", || {
            std::fs::read_to_string(&offsets).is_ok_and(|text| text.contains("77"))
        });
        server.process.kill();
        assert!(data.join("abort").exists());
        // The same port, at once, though the old connections linger.
        let port = address.port().to_string();
        let server = Server::start_with(&data, &[&more[..], &["--port", &port]].concat());
        assert_eq!(server.brokers[0].1.port(), address.port());
        let mut peer = server.connect();
        assert_eq!(contents(&mut peer), sent);
        assert_eq!(peer.call(&ask::query_offset("G", "T", 1)).expect_code(0).int("offset"), 77);
        let more = fill(&mut peer, 100);
        assert!(more.keys().all(|place| !sent.contains_key(place)), "no offset is given twice");
        drop(open);
    }
}

#[test]
fn a_second_server_on_the_port_is_refused_and_the_first_goes_on() {
    let (_scratch, data) = scratch();
    let server = Server::start(&data);
    let port = server.brokers[0].1.port().to_string();
    let text = refusal(&mut serve(&data.with_file_name("other"), &["--port", &port]));
    assert!(text.contains(&format!("port {port} of 127.0.0.1 is taken")), "{text}");
    assert!(text.contains("--port"), "{text}");
    assert!(
        !data.with_file_name("other").join("abort").exists(),
        "a refused start leaves nothing to recover"
    );
    let names: SocketAddr = server.name_server.unwrap();
    let more = ["--embedded-namesrv", &names.port().to_string()];
    let text = refusal(&mut serve(&data.with_file_name("third"), &more));
    assert!(text.contains("name server") && text.contains("is taken"), "{text}");
    server.connect().call(&ask::send("T", "", "m")).expect_code(0);
}

#[test]
fn a_data_directory_in_use_is_refused_and_the_first_goes_on() {
    let (_scratch, data) = scratch();
    let server = Server::start(&data);
    server.connect().call(&ask::send("T", "", "m")).expect_code(0);
    let text = refusal(&mut serve(&data, &[]));
    assert!(text.contains("the store is in use") && text.contains("another directory"), "{text}");
    server.connect().call(&ask::send("T", "", "m")).expect_code(0);
}

#[test]
fn signals_stop_it_cleanly_with_held_pulls_and_senders_answered() {
    let (_scratch, data) = scratch();
    for signal in ["TERM", "INT"] {
        let mut server = Server::start_with(&data, &["--flush", "sync"]);
        let mut consumer = server.connect();
        let mut producer = server.connect();
        producer.call(&ask::send("T", "", "m")).expect_code(0);
        let held = consumer.send(&ask::held_pull("T", 3, 0, 15_000));
        // Its answer says that the pull before it has been taken.
        consumer.call(&ask::runtime_info()).expect_code(0);
        let sent: Vec<i32> = (0..50).map(|_| producer.send(&ask::send("T", "", "in flight"))).collect();
        server.process.signal(signal);
        assert_eq!(consumer.answer(held).code, 19);
        let stored = sent.into_iter().filter(|opaque| producer.answer(*opaque).code == 0).count();
        let status = server.process.wait();
        assert!(status.success(), "{status} after {signal}\n{}", server.process.log());
        assert!(server.process.log().contains("the store is clean"), "{}", server.process.log());
        assert!(!data.join("abort").exists());
        let again = Server::start(&data);
        let offset = again.connect().call(&ask::max_offset("T", 0)).int("offset");
        assert!(offset >= i64::try_from(stored).unwrap(), "{stored} acknowledged, {offset} found");
        let mut again = again;
        again.process.stop();
    }
}

#[test]
fn a_lost_connection_is_told_to_its_group_within_50_ms() {
    let (_scratch, data) = scratch();
    let server = Server::start(&data);
    let mut first = server.connect();
    first.call(&ask::heartbeat("c1", "G", "T")).expect_code(0);
    assert_eq!(first.push().code, 40);
    let mut times = Vec::new();
    for _ in 0..10 {
        let mut second = server.connect();
        second.call(&ask::heartbeat("c2", "G", "T")).expect_code(0);
        assert_eq!(first.push().code, 40);
        let began = std::time::Instant::now();
        drop(second);
        let told = first.push();
        let took = began.elapsed();
        assert_eq!((told.code, told.field("consumerGroup")), (40, "G"));
        times.push(took);
    }
    times.sort();
    // On a busy test machine one in ten may wait for its turn on the core.
    assert!(times[8].as_millis() < 50, "{times:?}");
}

/// Looks again and again, within reason.
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let until = std::time::Instant::now() + crate::wire::PATIENCE;
    while !holds() {
        assert!(std::time::Instant::now() < until, "{what}: not in time");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
