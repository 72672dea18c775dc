//! Real brokers' registrations and real clients' questions, and what RocketMQ's name servers answered.

use std::collections::BTreeMap;

use serde_json::Value;

use super::*;

/// One captured frame.
struct Frame {
    client: String,
    direction: String,
    is_request: bool,
    code: i64,
    opaque: i64,
    bytes: Vec<u8>,
    broker: String,
}

fn frames(file: &str) -> Vec<Frame> {
    let path = format!("{}/../../shared/golden/frames/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let frame = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = |field: &str| line[field].as_str().unwrap().to_owned();
        let hex = text("hex");
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        Frame {
            client: text("client"),
            direction: text("direction"),
            is_request: text("kind").contains("request"),
            code: line["requestCode"].as_i64().unwrap_or(-1),
            opaque: line["header"]["opaque"].as_i64().unwrap_or(-1),
            broker: line["header"]["extFields"]["brokerAddr"].as_str().unwrap_or_default().to_owned(),
            bytes: (0..hex.len()).step_by(2).map(byte).collect(),
        }
    };
    text.lines().map(frame).collect()
}

/// What a captured answer says.
fn captured(frame: &Frame) -> Reply {
    let mut session = Session::new(FRAME_BYTES_MAX);
    session.on_bytes(&frame.bytes);
    Reply::of(&session.poll_command().unwrap().unwrap())
}

/// The answer that follows a request: same number, back from the name server.
fn answer_to(frames: &[Frame], at: usize) -> Option<&Frame> {
    let asked = &frames[at];
    let back: Vec<&str> = asked.direction.split("->").collect();
    let back = format!("{}->{}", back[1], back[0]);
    let is_it = |frame: &&Frame| {
        !frame.is_request
            && frame.direction == back
            && frame.opaque == asked.opaque
            && frame.code == asked.code
    };
    frames[at..].iter().find(is_it)
}

/// 4.9's name servers don't know of acting masters, and point to another page for help.
fn comparable(mut reply: Reply) -> Reply {
    reply.body = reply.body.replace(",\"enableActingMaster\":false", "");
    reply.remark = reply.remark.map(|remark| remark.lines().next().unwrap_or_default().to_owned());
    reply
}

/// Gives the captured registrations to our name server, each broker on a connection of its own.
fn replay(server: &mut NameServer, frame: &Frame) -> Option<Reply> {
    let connection = frame.broker.rsplit_once(':').map_or(0, |(_, port)| port.parse().unwrap());
    exchange(server, connection, Duration::ZERO, &frame.bytes)
}

#[test]
fn golden_registrations_of_a_4_9_7_master_and_slave_are_answered_alike() {
    let frames = frames("broker-4.9.7-register.jsonl");
    let mut server = NameServer::new(NamesrvOptions::default());
    let (mut answered, mut one_way) = (0, 0);
    for (at, frame) in frames.iter().enumerate().filter(|(_, f)| f.is_request && f.code == 103) {
        match (replay(&mut server, frame), answer_to(&frames, at)) {
            (Some(ours), Some(theirs)) => {
                assert_eq!(comparable(ours), comparable(captured(theirs)));
                answered += 1;
            }
            (None, None) => one_way += 1,
            (ours, _) => panic!("{ours:?}"),
        }
    }
    assert_eq!((answered, one_way), (2, 1));
    let slave = server.registry().broker("broker-a").unwrap();
    assert_eq!(
        slave.broker_addrs,
        BTreeMap::from([(0, "127.0.0.1:30110".to_owned()), (1, "127.0.0.1:30120".to_owned())])
    );
    assert_eq!(server.registry().topics().len(), 8 + 1, "the second registration brought one more");
}

/// Replays a file's registrations and compares the answer to every question whose topic was in one of them, or which
/// has no answer there. Returns (questions compared, answered with a route) per client.
fn compare_routes(file: &str, knows_acting_masters: bool) -> BTreeMap<String, (usize, usize)> {
    let mut server = NameServer::new(NamesrvOptions::default());
    // The capture of each client begins after its brokers' first, full registrations.
    for frame in frames("broker-4.9.7-register.jsonl").iter().filter(|f| f.is_request && f.code == 103) {
        replay(&mut server, frame);
    }
    let frames = frames(file);
    let mut compared: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (at, frame) in frames.iter().enumerate().filter(|(_, frame)| frame.is_request) {
        match frame.code {
            103 => {
                replay(&mut server, frame);
            }
            105 => {
                let Some(theirs) = answer_to(&frames, at).map(captured) else { continue };
                let ours = replay(&mut server, frame).unwrap();
                if ours.code == 17 && theirs.code == 0 {
                    continue;
                }
                let theirs = if knows_acting_masters { theirs } else { comparable(theirs) };
                let ours = if knows_acting_masters { ours } else { comparable(ours) };
                let count = compared.entry(frame.client.clone()).or_default();
                count.0 += 1;
                count.1 += usize::from(ours.code == 0);
                assert_eq!(
                    (ours.code, &ours.remark, &ours.fields),
                    (theirs.code, &theirs.remark, &theirs.fields)
                );
                assert_eq!(same_brokers(&ours.body), same_brokers(&theirs.body), "{file} {at}");
            }
            _ => {}
        }
    }
    compared
}

/// The captures come from different runs, in which the slave was there or not and ports differ: compare all but the
/// addresses. What is left has to be the same byte for byte.
fn same_brokers(body: &str) -> String {
    let Some((head, rest)) = body.split_once("\"brokerAddrs\":{") else { return body.to_owned() };
    let (addresses, tail) = rest.split_once('}').unwrap();
    let style = if addresses.starts_with('"') { "quoted" } else { "bare" };
    format!("{head}\"brokerAddrs\":{{{style}}}{tail}")
}

#[test]
fn golden_questions_of_java_clients_are_answered_alike() {
    for file in ["java-4.9.7-json.jsonl", "java-4.9.7-rocketmq.jsonl", "java-5.3.3-json-broker-4.9.7.jsonl"] {
        let compared = compare_routes(file, false);
        let (all, routes) = compared.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        assert!(all >= 2 && routes >= 1, "{file}: {compared:?}");
    }
}

#[test]
fn golden_questions_of_java_5_3_3_to_5_1_4_are_answered_alike() {
    for file in ["java-5.3.3-json-broker-5.1.4.jsonl", "java-5.3.3-rocketmq-broker-5.1.4.jsonl"] {
        let compared = compare_routes(file, true);
        let (all, routes) = compared.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        assert!(all >= 2 && routes >= 1, "{file}: {compared:?}");
    }
}

#[test]
fn golden_questions_of_other_clients_are_answered_alike() {
    let compared = compare_routes("other-clients.jsonl", false);
    for client in ["Go client", "CPP 333", "CPP 63", "RUST 474", "Node"] {
        let of = compared.iter().find(|(name, _)| name.contains(client));
        assert!(of.is_some_and(|(_, (_, routes))| *routes >= 1), "{client}: {compared:?}");
    }
}

#[test]
fn golden_cluster_info_and_farewell_are_answered_alike() {
    let mut server = NameServer::new(NamesrvOptions::default());
    for frame in frames("broker-4.9.7-register.jsonl").iter().filter(|f| f.is_request && f.code == 103) {
        replay(&mut server, frame);
    }
    let frames = frames("java-4.9.7-json.jsonl");
    let mut compared = 0;
    for code in [106, 104] {
        for (at, frame) in frames.iter().enumerate().filter(|(_, f)| f.is_request && f.code == code) {
            let Some(theirs) = answer_to(&frames, at).map(captured) else { continue };
            assert_eq!(comparable(replay(&mut server, frame).unwrap()), comparable(theirs));
            compared += 1;
        }
    }
    assert!(compared >= 2, "{compared}");
    let left = server.registry().broker("broker-a").unwrap();
    assert_eq!(left.broker_addrs.keys().collect::<Vec<_>>(), [&0], "the slave said good-bye");
}
