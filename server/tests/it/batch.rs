//! Batches: adjacent messages, consecutive queue offsets, all or nothing.

use protocol::code::response;
use server::config::{Settings, value::ByteSize};

use crate::{
    ask,
    world::{World, messages, settings},
};

#[test]
fn a_batch_of_three_has_consecutive_offsets_and_three_ids() {
    let world = World::new();
    let mut peer = world.connect();
    peer.call(&ask::send("T", "", "before")).expect_code(0);
    let items = [("TAGS\u{1}A\u{2}", "one"), ("TAGS\u{1}B\u{2}", "two"), ("", "three")];
    let answer = peer.call(&ask::batch("T", "WAIT\u{1}true\u{2}", &items)).expect_code(0);
    assert_eq!((answer.int("queueId"), answer.int("queueOffset")), (0, 1));
    let stored = messages(&peer.call(&ask::pull("T", 0, 1)));
    let bodies: Vec<&[u8]> = stored.iter().map(|message| message.body.as_slice()).collect();
    assert_eq!(bodies, [&b"one"[..], b"two", b"three"]);
    assert_eq!(stored.iter().map(|message| message.queue_offset).collect::<Vec<_>>(), [1, 2, 3]);
    let ids: Vec<String> =
        stored.iter().map(|message| format!("7F00000100002A9F{:016X}", message.physical_offset)).collect();
    assert_eq!(answer.field("msgId"), ids.join(","));
    assert_eq!(messages(&peer.call(&ask::pull("T", 0, 0).field("subscription", "B"))).len(), 1);
}

#[test]
fn items_keep_their_own_ids_and_get_the_rest_of_the_wrapper() {
    let world = World::new();
    let mut peer = world.connect();
    let items =
        [("UNIQ_KEY\u{1}ITEM1\u{2}KEYS\u{1}k", "one"), ("UNIQ_KEY\u{1}ITEM2\u{2}", "two"), ("", "three")];
    let wrapper = "UNIQ_KEY\u{1}WRAPPER\u{2}WAIT\u{1}true\u{2}CLUSTER\u{1}forged\u{2}";
    peer.call(&ask::batch("T", wrapper, &items)).expect_code(0);
    let stored = messages(&peer.call(&ask::pull("T", 0, 0)));
    assert_eq!(stored[0].property("UNIQ_KEY"), Some("ITEM1"));
    assert_eq!(stored[1].property("UNIQ_KEY"), Some("ITEM2"));
    assert_eq!(stored[2].property("UNIQ_KEY").unwrap().len(), 32);
    for message in &stored {
        assert_eq!(message.property("CLUSTER"), Some("DefaultCluster"));
        assert_eq!(message.property("WAIT"), Some("true"));
        assert_eq!(message.property("MSG_REGION"), Some("DefaultRegion"));
        assert!(!message.properties.ends_with('\u{2}'));
    }
    assert_eq!(stored[0].property("KEYS"), Some("k"));
}

#[test]
fn a_batch_under_the_ordinary_code_is_told_by_its_flag() {
    let world = World::new();
    let mut peer = world.connect();
    let mut request = ask::batch("T", "", &[("", "one"), ("", "two")]);
    request.code = protocol::code::request::SEND_MESSAGE_V2;
    peer.call(&request).expect_code(0);
    assert_eq!(peer.call(&ask::max_offset("T", 0)).int("offset"), 2);
}

#[test]
fn batches_that_cannot_be_read_are_refused_whole() {
    let world = World::new();
    let mut peer = world.connect();
    let whole = ask::batch("T", "", &[("", "one"), ("", "two")]);
    for len in [1, 4, 20, whole.body.len() - 1] {
        let cut = whole.clone().body(&whole.body[..len]);
        assert_eq!(peer.call(&cut).code, response::MESSAGE_ILLEGAL, "cut at {len}");
    }
    assert_eq!(peer.call(&ask::batch("T", "", &[])).code, response::MESSAGE_ILLEGAL);
    assert_eq!(peer.call(&ask::batch("%RETRY%G", "", &[("", "m")])).code, response::MESSAGE_ILLEGAL);
    assert_eq!(peer.call(&ask::max_offset("T", 0)).int("offset"), 0);
}

#[test]
fn a_batch_that_no_file_can_hold_is_refused_and_the_broker_lives() {
    // Small messages grow by what the broker stores beside them: more than the body's limit covers.
    let small = Settings {
        mapped_file_size_commit_log: ByteSize(1 << 20),
        max_message_size: ByteSize(512 << 10),
        ..settings()
    };
    let world = World::with(small);
    let mut peer = world.connect();
    let items = vec![("", "x"); 10_000];
    let answer = peer.call(&ask::batch("T", "", &items));
    assert_eq!(answer.code, response::MESSAGE_ILLEGAL, "{answer:?}");
    assert!(answer.remark().contains("1048568"), "{answer:?}");
    peer.call(&ask::batch("T", "", &items[..1_000])).expect_code(0);
    assert_eq!(peer.call(&ask::max_offset("T", 0)).int("offset"), 1_000);
}
