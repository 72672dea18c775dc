//! Frames as real clients write them: lenient headers, two serialisations, any cut.

use protocol::{Serialization, code::request, code::response};

use crate::{
    ask,
    wire::{Request, raw_json},
    world::World,
};

#[test]
fn numbers_booleans_nulls_and_a_trailing_newline_are_read() {
    let world = World::new();
    let mut peer = world.connect();
    peer.call(&ask::send("T", "", "one")).expect_code(0);
    let header = r#"{"code":30,"extFields":{"topic":"T","queueId":0,"committed":true,"nothing":null},"flag":0,"language":"CPP","opaque":77,"remark":"","unknown":{"a":[1]},"version":333}"#;
    peer.transport.send(&raw_json(&format!("{header}\n"), b"")).unwrap();
    assert_eq!(peer.answer(77).expect_code(0).int("offset"), 1);
}

#[test]
fn the_header_of_a_cpp_producer_is_taken() {
    let world = World::new();
    let mut peer = world.connect();
    let header = r#"{"code":310,"extFields":{"AccessKey":"","OnsChannel":"","Signature":"","a":"PG","b":"T","c":"TBW102","d":4,"e":0,"f":0,"g":"1700000000000","h":0,"i":"","j":"0","k":"false","l":16,"m":"false"},"flag":0,"language":"CPP","opaque":1,"remark":"","version":333}"#;
    peer.transport.send(&raw_json(&format!("{header}\n"), b"hello")).unwrap();
    let answer = peer.answer(1).expect_code(0);
    assert_eq!((answer.int("queueId"), answer.int("queueOffset")), (0, 0));
    assert_eq!(answer.serialization, Serialization::Json, "C++ reads the type byte as part of the length");
}

#[test]
fn an_unknown_language_is_accepted() {
    let world = World::new();
    let mut peer = world.connect();
    let header = r#"{"code":28,"extFields":{},"flag":0,"language":"COBOL","opaque":5,"version":400}"#;
    peer.transport.send(&raw_json(header, b"")).unwrap();
    peer.answer(5).expect_code(0);
    // In the binary form the language is a number.
    let mut frame = ask::runtime_info().binary().frame(6);
    frame[10] = 250;
    peer.transport.send(&frame).unwrap();
    peer.answer(6).expect_code(0);
}

#[test]
fn each_serialisation_is_answered_in_kind() {
    let world = World::new();
    let mut peer = world.connect();
    for _ in 0..2 {
        let json = peer.call(&ask::send("T", "TAGS\u{1}A", "j")).expect_code(0);
        assert_eq!(json.serialization, Serialization::Json);
        let binary = peer.call(&ask::send("T", "TAGS\u{1}A", "b").binary()).expect_code(0);
        assert_eq!(binary.serialization, Serialization::RocketMq);
        assert_eq!(binary.int("queueOffset"), json.int("queueOffset") + 1);
    }
    let pulled = peer.call(&ask::pull("T", 0, 0).binary()).expect_code(0);
    assert_eq!(pulled.serialization, Serialization::RocketMq);
    assert_eq!(crate::world::messages(&pulled).len(), 4);
}

#[test]
fn frames_in_one_segment_are_all_answered() {
    let world = World::new();
    let mut peer = world.connect();
    let mut glued = Vec::new();
    for opaque in 1..=50 {
        glued.extend(ask::send("T", "", format!("m{opaque}")).frame(opaque));
    }
    peer.transport.send(&glued).unwrap();
    for opaque in 1..=50 {
        assert_eq!(peer.answer(opaque).expect_code(0).int("queueOffset"), i64::from(opaque) - 1);
    }
}

#[test]
fn a_frame_in_pieces_of_one_byte_is_answered() {
    let world = World::new();
    let mut peer = world.connect();
    for request in [ask::send("T", "KEYS\u{1}k", "piece by piece"), ask::runtime_info().binary()] {
        let opaque = 900 + request.code;
        for byte in request.frame(opaque) {
            peer.transport.send(&[byte]).unwrap();
            world.runtime.run_until_idle();
        }
        peer.answer(opaque).expect_code(0);
    }
}

#[test]
fn an_unknown_code_is_answered_3_and_oneway_not_at_all() {
    let world = World::new();
    let mut peer = world.connect();
    for code in [-5, 0, 37, 9_999, 200_050] {
        let answer = peer.call(&Request::new(code));
        assert_eq!(answer.code, response::REQUEST_CODE_NOT_SUPPORTED);
        assert_eq!(answer.remark(), format!(" request type {code} not supported"));
    }
    peer.send(&Request::new(9_999).oneway());
    peer.call(&ask::runtime_info()).expect_code(0);
    assert_eq!(peer.arrived(), []);
}

#[test]
fn opaque_is_echoed_whatever_it_is() {
    let world = World::new();
    let mut peer = world.connect();
    for opaque in [i32::MIN, -1, 0, i32::MAX] {
        peer.transport.send(&ask::runtime_info().frame(opaque)).unwrap();
        peer.answer(opaque).expect_code(0);
    }
}

#[test]
fn what_is_no_frame_closes_its_connection_and_no_other() {
    let world = World::new();
    let mut bystander = world.connect();
    bystander.call(&ask::send("T", "", "before")).expect_code(0);
    let seventeen_mib = (17_u32 << 20).to_be_bytes();
    let cases: [&[u8]; 6] = [
        &seventeen_mib,
        &[0xFF; 4],
        b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
        // A frame of 4 bytes has no header, which is an error.
        &[0, 0, 0, 4, 0, 0, 0, 0],
        // The header is longer than the frame.
        &[0, 0, 0, 8, 0, 0, 0, 200, 1, 2, 3, 4],
        // No JSON.
        &[0, 0, 0, 8, 0, 0, 0, 4, b'{', b'{', b'{', b'{'],
    ];
    for bytes in cases {
        let peer = world.connect();
        peer.transport.send(bytes).unwrap();
        world.runtime.run_until_idle();
        assert!(peer.transport.is_ended(), "{bytes:?} kept its connection");
        bystander.call(&ask::send("T", "", "meanwhile")).expect_code(0);
    }
    assert_eq!(world.counter("ringmq.connections.malformed"), cases.len().to_string());
}

#[test]
fn an_answer_that_nobody_asked_for_is_ignored() {
    let world = World::new();
    let mut peer = world.connect();
    let header = r#"{"code":0,"flag":1,"language":"JAVA","opaque":3,"version":400}"#;
    peer.transport.send(&raw_json(header, b"")).unwrap();
    peer.call(&ask::runtime_info()).expect_code(0);
    assert_eq!(peer.arrived(), []);
}

#[test]
fn version_1_send_requests_are_taken() {
    let world = World::new();
    let mut peer = world.connect();
    let answer = peer.call(
        &Request::new(request::SEND_MESSAGE)
            .field("producerGroup", "PG")
            .field("topic", "T")
            .field("defaultTopic", "TBW102")
            .field("defaultTopicQueueNums", 4)
            .field("queueId", 2)
            .field("sysFlag", 0)
            .field("bornTimestamp", ask::BORN_MS)
            .field("flag", 9)
            .field("properties", "TAGS\u{1}A\u{2}")
            .field("reconsumeTimes", 0)
            .field("unitMode", false)
            .body("v1"),
    );
    assert_eq!(answer.expect_code(0).int("queueId"), 2);
    let pulled = crate::world::messages(&peer.call(&ask::pull("T", 2, 0)));
    assert_eq!((pulled[0].flag, pulled[0].body.as_slice()), (9, b"v1".as_slice()));
}
