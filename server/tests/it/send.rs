//! What becomes of a message that is accepted: its answer, its stored bytes, who waits for the disk.

use std::{net::SocketAddr, time::Duration};

use engine::{
    commit_log::record::{Assigned, Message},
    offset::{LogOffset, QueueOffset},
};
use protocol::properties;

use crate::{
    ask,
    world::{BROKER, World, messages, sync_flush},
};

#[test]
fn the_answer_has_every_field_that_clients_read() {
    let world = World::new();
    let mut peer = world.connect();
    peer.call(&ask::send("T", "UNIQ_KEY\u{1}A\u{2}", "one").field("e", 1)).expect_code(0);
    let answer = peer.call(&ask::send("T", "UNIQ_KEY\u{1}B\u{2}", "two").field("e", 1)).expect_code(0);
    assert_eq!((answer.int("queueId"), answer.int("queueOffset")), (1, 1));
    assert_eq!((answer.field("MSG_REGION"), answer.field("TRACE_ON")), ("DefaultRegion", "true"));
    let stored = messages(&peer.call(&ask::pull("T", 1, 1)))[0].clone();
    // 127.0.0.1, port 10911, where the record is.
    assert_eq!(answer.field("msgId"), format!("7F00000100002A9F{:016X}", stored.physical_offset));
}

#[test]
fn a_stored_message_is_rocketmqs_byte_for_byte() {
    // The record of remoting.md 7.
    let expected = "0000006bdaa320a73610a68600000001000000000000000000000002000000000000012c000000000000018bcfe5\
                    68007f000001000004d20000018bcfe568010a00000100002a9f0000000000000000000000000000000568656c6c\
                    6f0154000a54414753015461674102";
    let address = |text: &str| text.parse::<SocketAddr>().unwrap();
    let message = Message {
        topic: "T",
        queue_id: 1,
        flag: 0,
        sys_flag: 0,
        born_timestamp_ms: ask::BORN_MS,
        born_host: address("127.0.0.1:1234"),
        store_host: address("10.0.0.1:10911"),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: b"hello",
        properties: "TAGS\u{1}TagA\u{2}",
    };
    let assigned = Assigned {
        queue_offset: QueueOffset::new(2),
        log_offset: LogOffset::new(300),
        store_timestamp_ms: ask::BORN_MS + 1,
    };
    let mut record = vec![0; message.record_bytes()];
    message.encode(assigned, &mut record);
    assert_eq!(hex(&record), expected);
}

#[test]
fn a_pull_brings_the_bytes_that_the_fields_of_the_send_say() {
    let world = World::new();
    let mut peer = world.connect();
    let request =
        ask::send("T", "UNIQ_KEY\u{1}ABC\u{2}TAGS\u{1}TagA\u{2}", "hello").field("e", 1).field("h", 7);
    peer.call(&request).expect_code(0);
    let properties = "UNIQ_KEY\u{1}ABC\u{2}TAGS\u{1}TagA\u{2}MSG_REGION\u{1}DefaultRegion\u{2}CLUSTER\u{1}DefaultCluster\u{2}TRACE_ON\u{1}true";
    let stored_ms = messages(&peer.call(&ask::pull("T", 1, 0)))[0].store_timestamp_ms;
    let mut expected = Vec::new();
    let (born, length) = (peer.transport.address(), 84 + 4 + 5 + 1 + 1 + 2 + properties.len());
    expected.extend_from_slice(&u32::try_from(length).unwrap().to_be_bytes());
    expected.extend_from_slice(&0xDAA3_20A7_u32.to_be_bytes());
    expected.extend_from_slice(&0x3610_A686_u32.to_be_bytes()); // CRC-32 of "hello" without its sign
    expected.extend_from_slice(&1_u32.to_be_bytes()); // queue
    expected.extend_from_slice(&7_u32.to_be_bytes()); // flag
    expected.extend_from_slice(&0_u64.to_be_bytes()); // queue offset
    expected.extend_from_slice(&0_u64.to_be_bytes()); // physical offset
    expected.extend_from_slice(&0_u32.to_be_bytes()); // sysFlag
    expected.extend_from_slice(&ask::BORN_MS.to_be_bytes());
    expected.extend_from_slice(&[127, 0, 0, 1]);
    expected.extend_from_slice(&u32::from(born.port()).to_be_bytes());
    expected.extend_from_slice(&stored_ms.to_be_bytes());
    expected.extend_from_slice(&[127, 0, 0, 1]);
    expected.extend_from_slice(&u32::from(BROKER.port()).to_be_bytes());
    expected.extend_from_slice(&0_u32.to_be_bytes()); // reconsumeTimes
    expected.extend_from_slice(&0_u64.to_be_bytes()); // prepared transaction offset
    expected.extend_from_slice(&5_u32.to_be_bytes());
    expected.extend_from_slice(b"hello");
    expected.extend_from_slice(&[1, b'T']);
    expected.extend_from_slice(&u16::try_from(properties.len()).unwrap().to_be_bytes());
    expected.extend_from_slice(properties.as_bytes());
    assert_eq!(hex(&peer.call(&ask::pull("T", 1, 0)).body), hex(&expected));
}

#[test]
fn properties_are_stored_as_5_1_4_stores_them() {
    let world = World::new();
    let mut peer = world.connect();
    let sent = "KEYS\u{1}k1 k2\u{2}WAIT\u{1}true\u{2}CLUSTER\u{1}forged\u{2}MSG_REGION\u{1}forged\u{2}POP_CK\u{1}1 2 3\u{2}user\u{1}ü\u{2}empty\u{1}\u{2}UNIQ_KEY\u{1}ID\u{2}";
    peer.call(&ask::send("T", sent, "m")).expect_code(0);
    let stored = messages(&peer.call(&ask::pull("T", 0, 0)))[0].clone();
    let mut found: Vec<(&str, &str)> = properties::iter(&stored.properties).collect();
    found.sort_unstable();
    let expected = [
        ("CLUSTER", "DefaultCluster"),
        ("KEYS", "k1 k2"),
        ("MSG_REGION", "DefaultRegion"),
        ("TRACE_ON", "true"),
        ("UNIQ_KEY", "ID"),
        ("WAIT", "true"),
        ("user", "ü"),
    ];
    assert_eq!(found, expected);
    assert!(!stored.properties.ends_with('\u{2}'), "no separator behind the last one");
}

#[test]
fn a_message_without_an_id_gets_one_of_its_own() {
    let world = World::new();
    let mut peer = world.connect();
    for _ in 0..3 {
        peer.call(&ask::send("T", "", "m")).expect_code(0);
    }
    let pulled = messages(&peer.call(&ask::pull("T", 0, 0)));
    let mut ids: Vec<&str> = pulled.iter().map(|message| message.property("UNIQ_KEY").unwrap()).collect();
    assert!(
        ids.iter().all(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())),
        "{ids:?}"
    );
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[test]
fn an_empty_id_counts_as_none() {
    let world = World::new();
    let mut peer = world.connect();
    peer.call(&ask::send("T", "UNIQ_KEY\u{1}\u{2}TAGS\u{1}A\u{2}", "m")).expect_code(0);
    let pulled = messages(&peer.call(&ask::pull("T", 0, 0)));
    assert_eq!(pulled[0].property("UNIQ_KEY").unwrap().len(), 32);
}

#[test]
fn an_empty_body_is_stored() {
    let world = World::new();
    let mut peer = world.connect();
    peer.call(&ask::send("T", "", "")).expect_code(0);
    assert_eq!(messages(&peer.call(&ask::pull("T", 0, 0)))[0].body, b"");
}

#[test]
fn a_negative_queue_lets_the_broker_choose_among_all() {
    let world = World::new();
    let mut peer = world.connect();
    let mut seen: Vec<i64> = (0..16)
        .map(|_| peer.call(&ask::send("T", "", "m").field("e", -1)).expect_code(0).int("queueId"))
        .collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, [0, 1, 2, 3]);
}

#[test]
fn oneway_messages_are_stored_and_not_answered() {
    let world = World::new();
    let mut peer = world.connect();
    for count in 1..=3 {
        peer.send(&ask::send("T", "", "quiet").oneway());
        assert_eq!(peer.call(&ask::max_offset("T", 0)).int("offset"), count);
    }
    assert_eq!(peer.arrived(), []);
}

#[test]
fn sync_flush_answers_when_the_sync_is_done_and_shows_nothing_before() {
    let world = World::with(sync_flush());
    let mut peer = world.connect();
    peer.call(&ask::send("T", "", "first")).expect_code(0);
    let held = world.hold_syncs();
    let opaque = peer.send(&ask::send("T", "", "second"));
    world.runtime.advance(Duration::from_millis(100));
    assert_eq!(peer.arrived(), []);
    assert_eq!(world.connect().call(&ask::max_offset("T", 0)).int("offset"), 1);
    assert_eq!(world.connect().call(&ask::pull("T", 0, 1)).code, 19);
    world.runtime.plan().lift(held);
    assert_eq!(peer.answer(opaque).expect_code(0).int("queueOffset"), 1);
    assert_eq!(messages(&peer.call(&ask::pull("T", 0, 1)))[0].body, b"second");
}

#[test]
fn a_message_that_waits_for_nothing_is_answered_at_append() {
    let world = World::with(sync_flush());
    let mut peer = world.connect();
    peer.call(&ask::send("T", "", "first")).expect_code(0);
    let held = world.hold_syncs();
    let waiting = peer.send(&ask::send("T", "WAIT\u{1}true\u{2}", "waits"));
    let answer = peer.call(&ask::send("T", "WAIT\u{1}false\u{2}", "doesn't")).expect_code(0);
    assert_eq!(answer.int("queueOffset"), 2);
    assert_eq!(peer.arrived(), []);
    world.runtime.plan().lift(held);
    peer.answer(waiting).expect_code(0);
    let pulled = messages(&peer.call(&ask::pull("T", 0, 2)));
    assert_eq!(pulled[0].property("WAIT"), Some("false"));
}

#[test]
fn a_flush_that_takes_too_long_is_answered_10_with_the_place_of_the_message_and_only_once() {
    let world = World::with(sync_flush());
    let mut peer = world.connect();
    peer.call(&ask::send("T", "", "first")).expect_code(0);
    let held = world.hold_syncs();
    let asked_at = world.runtime.elapsed();
    let opaque = peer.send(&ask::send("T", "", "slow"));
    let answer = peer.answer(opaque);
    assert_eq!(answer.code, 10);
    assert_eq!(answer.int("queueOffset"), 1);
    assert!(answer.remark().contains("the slow stage is flush"), "{answer:?}");
    let waited = world.runtime.elapsed() - asked_at;
    assert!((2_500..2_600).contains(&waited.as_millis()), "{waited:?}");
    world.runtime.plan().lift(held);
    assert_eq!(messages(&peer.call(&ask::pull("T", 0, 1)))[0].body, b"slow");
    assert_eq!(peer.arrived(), []);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
