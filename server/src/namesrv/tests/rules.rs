//! The rules of registering and asking, one test each; bodies byte for byte.

use super::*;
use protocol::body::topic::perm;

const ROUTE_STANDARD: &str = r#"{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"},"brokerName":"broker-a","cluster":"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}"#;
const ROUTE_LEGACY: &str = r#"{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"broker-a","cluster":"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}"#;

fn pair() -> Fixture {
    let mut it = Fixture::new();
    assert_eq!(it.register(&MASTER, &topics(&["T", "U"])).code, 0);
    assert_eq!(it.register(&SLAVE, &topics(&["T", "U"])).code, 0);
    it
}

#[test]
fn routes_are_written_for_the_requesters_version() {
    let mut it = pair();
    let cases = [
        (479, None, ROUTE_STANDARD),
        (401, None, ROUTE_STANDARD),
        (399, None, ROUTE_LEGACY),
        (317, None, ROUTE_LEGACY),
        (317, Some("true"), ROUTE_STANDARD),
        (317, Some("false"), ROUTE_LEGACY),
    ];
    for (version, only, expected) in cases {
        let mut fields = vec![("topic", "T")];
        fields.extend(only.map(|only| ("acceptStandardJsonOnly", only)));
        let reply = it.ask_as(version, request::GET_ROUTEINFO_BY_TOPIC, &fields, b"");
        assert_eq!((reply.code, reply.body.as_str()), (0, expected), "{version} {only:?}");
    }
}

#[test]
fn a_topic_without_a_broker_has_no_route() {
    let mut it = pair();
    let reply = it.route("None");
    assert_eq!(reply.code, 17);
    assert!(
        reply.remark.unwrap().starts_with("No topic route info in name server for the topic: None\nSee ")
    );
}

#[test]
fn clusters_are_listed_with_bare_ids_whatever_the_version() {
    let mut it = pair();
    let expected = r#"{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"broker-a","cluster":"DefaultCluster","enableActingMaster":false}},"clusterAddrTable":{"DefaultCluster":["broker-a"]}}"#;
    for version in [317, 479] {
        assert_eq!(it.ask_as(version, request::GET_BROKER_CLUSTER_INFO, &[], b"").body, expected);
    }
}

#[test]
fn members_of_a_group_are_listed() {
    let mut it = Fixture::new();
    it.register(&Broker { address: "1.1.1.1:10911", ..MASTER }, &topics(&["T", "U"]));
    let fields = [("clusterName", "DefaultCluster"), ("brokerName", "broker-a")];
    let expected = r#"{"brokerMemberGroup":{"brokerAddrs":{0:"1.1.1.1:10911"},"brokerName":"broker-a","cluster":"DefaultCluster"}}"#;
    assert_eq!(it.ask(request::GET_BROKER_MEMBER_GROUP, &fields).body, expected);
    let none = [("clusterName", "C"), ("brokerName", "b")];
    let expected = r#"{"brokerMemberGroup":{"brokerAddrs":{},"brokerName":"b","cluster":"C"}}"#;
    assert_eq!(it.ask(request::GET_BROKER_MEMBER_GROUP, &none).body, expected);
}

#[test]
fn topics_are_listed_by_what_was_asked() {
    let mut it = Fixture::new();
    let flagged = |name: &str, flag| TopicConfig { topic_sys_flag: flag, ..TopicConfig::new(name, 1) };
    it.register(&MASTER, &[flagged("plain", 0), flagged("unit", 1), flagged("sub", 2), flagged("both", 3)]);
    let other =
        Broker { cluster: "Other", name: "broker-b", address: "10.0.0.3:10911", connection: 3, ..MASTER };
    it.register(&other, &topics(&["plain", "far"]));
    let list = |names: &[&str]| format!(r#"{{"topicList":["{}"]}}"#, names.join(r#"",""#));
    assert_eq!(it.topics(), list(&["both", "far", "plain", "sub", "unit"]));
    let of = |it: &mut Fixture, cluster| it.ask(request::GET_TOPICS_BY_CLUSTER, &[("cluster", cluster)]).body;
    assert_eq!(of(&mut it, "Other"), list(&["far", "plain"]));
    assert_eq!(of(&mut it, "None"), r#"{"topicList":[]}"#);
    assert_eq!(it.ask(311, &[]).body, list(&["both", "unit"]));
    assert_eq!(it.ask(312, &[]).body, list(&["both", "sub"]));
    assert_eq!(it.ask(313, &[]).body, list(&["sub"]));
    let system =
        r#"{"brokerAddr":"10.0.0.1:10911","topicList":["DefaultCluster","broker-a","Other","broker-b"]}"#;
    assert_eq!(it.ask(request::GET_SYSTEM_TOPIC_LIST_FROM_NS, &[]).body, system);
}

#[test]
fn a_first_registration_of_one_topic_is_refused_and_changes_nothing() {
    let mut it = Fixture::new();
    let reply = it.register(&MASTER, &topics(&["T"]));
    assert_eq!((reply.code, reply.remark.as_deref()), (1, Some("register broker failed")));
    assert_eq!(
        it.ask(request::GET_BROKER_CLUSTER_INFO, &[]).body,
        r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#
    );
    it.register(&MASTER, &topics(&["T", "U"]));
    assert_eq!(it.register(&MASTER, &topics(&["V"])).code, 0, "later, one is enough");
    assert_eq!(it.topics(), r#"{"topicList":["T","U","V"]}"#);
}

#[test]
fn a_registration_with_no_topics_is_taken() {
    let mut it = Fixture::new();
    assert_eq!(it.register(&MASTER, &[]).code, 0);
    let mut frame = Vec::new();
    let fields = [
        ("brokerName", "b"),
        ("brokerAddr", "x:1"),
        ("clusterName", "C"),
        ("haServerAddr", "x:2"),
        ("brokerId", "0"),
    ];
    let mut writer = write_request(&mut frame, Serialization::RocketMq, request::REGISTER_BROKER, 5, 0);
    for (name, value) in fields {
        writer = writer.field(name, value);
    }
    writer.finish();
    assert_eq!(exchange(&mut it.server, 4, it.now, &frame).unwrap().code, 0, "no body, no checksum");
}

#[test]
fn a_damaged_body_is_refused() {
    let mut it = Fixture::new();
    let fields = [
        ("brokerName", "b"),
        ("brokerAddr", "x:1"),
        ("clusterName", "C"),
        ("haServerAddr", "x:2"),
        ("brokerId", "0"),
        ("bodyCrc32", "5"),
    ];
    let reply = it.ask_as(VERSION, request::REGISTER_BROKER, &fields, b"{}");
    assert_eq!((reply.code, reply.remark.as_deref()), (1, Some("crc32 not match")));
    let reply = it.ask_as(VERSION, request::REGISTER_BROKER, &fields[..5], b"{nonsense");
    assert_eq!(reply.code, 1);
    let compressed = [&fields[..5], &[("compressed", "true")]].concat();
    assert_eq!(it.ask_as(VERSION, request::REGISTER_BROKER, &compressed, b"not zlib").code, 1);
    assert_eq!(it.topics(), r#"{"topicList":[]}"#);
}

#[test]
fn compressed_registrations_of_both_generations_are_read() {
    let body = RegisterBrokerBody {
        topic_config_table: topics(&["T", "U"]).into_iter().map(|t| (t.topic_name.clone(), t)).collect(),
        ..RegisterBrokerBody::default()
    };
    for version in [407, 479] {
        let mut it = Fixture::new();
        let bytes = body.encode_compressed(version);
        let crc = protocol::message::body_crc(&bytes).to_string();
        let fields = [
            ("brokerName", "b"),
            ("brokerAddr", "x:1"),
            ("clusterName", "C"),
            ("haServerAddr", "x:2"),
            ("brokerId", "0"),
            ("compressed", "true"),
            ("bodyCrc32", crc.as_str()),
        ];
        assert_eq!(it.ask_as(version, request::REGISTER_BROKER, &fields, &bytes).code, 0);
        assert_eq!(it.topics(), r#"{"topicList":["T","U"]}"#);
    }
}

#[test]
fn topics_change_only_when_the_version_does() {
    let mut it = Fixture::new();
    it.register(&MASTER, &topics(&["T", "U"]));
    let wider = [TopicConfig::new("T", 9), TopicConfig::new("New", 2)];
    it.register(&MASTER, &wider);
    assert!(it.route("T").body.contains(r#""writeQueueNums":4"#), "the same version says nothing changed");
    assert!(it.route("New").body.contains(r#""writeQueueNums":2"#), "but what was missing is taken");
    it.register(&Broker { version: DataVersion { counter: 2, ..MASTER.version }, ..MASTER }, &wider);
    assert!(it.route("T").body.contains(r#""writeQueueNums":9"#));
    assert_eq!(it.route("U").code, 0, "what isn't named stays");
}

#[test]
fn unnamed_topics_go_when_the_server_is_told_so() {
    let mut it = Fixture::with(NamesrvOptions {
        delete_topic_with_broker_registration: true,
        ..NamesrvOptions::default()
    });
    it.register(&MASTER, &topics(&["T", "U"]));
    it.register(&MASTER, &topics(&["U", "V"]));
    assert_eq!(it.topics(), r#"{"topicList":["U","V"]}"#);
}

#[test]
fn slaves_learn_of_their_master_and_bring_no_topics() {
    let mut it = Fixture::new();
    let alone = it.register(&SLAVE, &topics(&["T", "U"]));
    assert_eq!((alone.code, alone.fields.len()), (0, 0));
    assert_eq!(it.topics(), r#"{"topicList":[]}"#);
    assert_eq!(it.register(&MASTER, &topics(&["T", "U"])).fields.len(), 0);
    let reply = it.register(&SLAVE, &topics(&["T", "U"]));
    assert_eq!(
        (reply.field("masterAddr"), reply.field("haServerAddr")),
        (Some("10.0.0.1:10911"), Some("10.0.0.9:10912"))
    );
}

#[test]
fn without_a_master_the_lowest_slave_of_a_5x_group_is_read_only() {
    let acting = |broker: Broker| Broker { enable_acting_master: Some(true), ..broker };
    let mut it = Fixture::with(NamesrvOptions { support_acting_master: true, ..NamesrvOptions::default() });
    it.register(&acting(MASTER), &topics(&["T", "U"]));
    it.register(&acting(SLAVE), &topics(&["T", "U"]));
    assert!(it.route("T").body.contains(r#""perm":6"#));
    it.server.on_disconnect(ConnectionId(MASTER.connection));
    let body = it.route("T").body;
    assert!(body.contains(r#""perm":4"#) && body.contains(r#"{"0":"10.0.0.2:10911"}"#), "{body}");
    it.register(
        &Broker { version: DataVersion { counter: 9, ..MASTER.version }, ..acting(SLAVE) },
        &topics(&["T", "New"]),
    );
    assert!(it.route("New").body.contains(r#""perm":4"#));
    it.register(&acting(MASTER), &topics(&["T", "U"]));
    assert!(it.route("T").body.contains(r#""perm":6"#), "the master brings the write bit back");
}

#[test]
fn a_slave_that_becomes_master_keeps_one_entry() {
    let mut it = pair();
    it.server.on_disconnect(ConnectionId(MASTER.connection));
    assert_eq!(it.register(&Broker { id: 0, ..SLAVE }, &topics(&["T", "U"])).code, 0);
    assert!(it.route("T").body.contains(r#""brokerAddrs":{"0":"10.0.0.2:10911"}"#));
}

#[test]
fn an_older_state_of_the_group_loses_in_silence() {
    let mut it = Fixture::new();
    let newer = DataVersion { state_version: 5, ..MASTER.version };
    it.register(&Broker { version: newer, ..MASTER }, &topics(&["T", "U"]));
    let usurper = Broker { address: "10.0.0.7:10911", connection: 7, ..MASTER };
    assert_eq!(it.register(&usurper, &topics(&["T", "U"])).code, 0);
    assert!(it.route("T").body.contains("10.0.0.1:10911"));
    let newest = Broker { version: DataVersion { state_version: 6, ..newer }, ..usurper };
    it.register(&newest, &topics(&["T", "U"]));
    assert!(it.route("T").body.contains("10.0.0.7:10911"));
    it.server.on_disconnect(ConnectionId(MASTER.connection));
    assert!(it.route("T").body.contains("10.0.0.7:10911"), "the loser's end changes nothing");
}

#[test]
fn a_broker_that_leaves_takes_its_topics_with_it() {
    let mut it = pair();
    let leave = |broker: &Broker| {
        [
            ("brokerName", broker.name.to_owned()),
            ("brokerAddr", broker.address.to_owned()),
            ("clusterName", broker.cluster.to_owned()),
            ("brokerId", broker.id.to_string()),
        ]
    };
    for (broker, routes) in [(SLAVE, 0), (MASTER, 17)] {
        let fields = leave(&broker);
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(it.ask(request::UNREGISTER_BROKER, &fields).code, 0);
        assert_eq!(it.route("T").code, routes);
        assert_eq!(it.ask(request::UNREGISTER_BROKER, &fields).code, 0, "twice is as good");
    }
    assert_eq!(it.topics(), r#"{"topicList":[]}"#);
}

#[test]
fn a_lost_connection_unregisters_what_registered_on_it_and_nothing_else() {
    let mut it = pair();
    assert_eq!(it.server.on_disconnect(ConnectionId(55)), []);
    it.register(&Broker { connection: 11, ..MASTER }, &topics(&["T", "U"]));
    assert_eq!(it.server.on_disconnect(ConnectionId(MASTER.connection)), [], "it has a newer connection");
    let gone = it.server.on_disconnect(ConnectionId(11));
    assert_eq!(gone.len(), 1);
    assert_eq!((gone[0].broker_name.as_str(), gone[0].address.as_str()), ("broker-a", MASTER.address));
    assert!(it.route("T").body.contains(r#"{"1":"10.0.0.2:10911"}"#));
}

#[test]
fn silence_unregisters_after_what_was_promised() {
    let mut it = Fixture::new();
    it.register(&MASTER, &topics(&["T", "U"]));
    it.register(&Broker { timeout_ms: Some(10_000), ..SLAVE }, &topics(&["T", "U"]));
    assert_eq!(it.server.on_tick(Duration::from_secs(10)), [], "not a moment too early");
    let gone = it.server.on_tick(Duration::from_millis(10_001));
    assert_eq!(gone.iter().map(|(connection, _)| connection.0).collect::<Vec<_>>(), [SLAVE.connection]);
    it.now = Duration::from_secs(100);
    let alive =
        [("clusterName", MASTER.cluster), ("brokerName", MASTER.name), ("brokerAddr", MASTER.address)];
    assert_eq!(it.ask(request::BROKER_HEARTBEAT, &alive).code, 0);
    assert_eq!(it.server.on_tick(Duration::from_secs(220)), []);
    assert_eq!(it.server.on_tick(Duration::from_millis(220_001)).len(), 1);
    assert_eq!(it.route("T").code, 17);
}

#[test]
fn a_broker_asks_whether_its_topics_are_known() {
    let mut it = Fixture::new();
    let who = [
        ("clusterName", MASTER.cluster),
        ("brokerName", MASTER.name),
        ("brokerAddr", MASTER.address),
        ("brokerId", "0"),
    ];
    let query = |it: &mut Fixture, version: DataVersion| {
        let reply = it.ask_as(VERSION, request::QUERY_DATA_VERSION, &who, &version.to_json());
        (reply.field("changed").unwrap().to_owned(), reply.body)
    };
    assert_eq!(query(&mut it, MASTER.version), ("true".to_owned(), String::new()));
    it.register(&MASTER, &topics(&["T", "U"]));
    let known = r#"{"counter":1,"stateVersion":0,"timestamp":1}"#.to_owned();
    assert_eq!(query(&mut it, MASTER.version), ("false".to_owned(), known.clone()));
    it.now = Duration::from_secs(119);
    assert_eq!(query(&mut it, DataVersion { counter: 2, ..MASTER.version }), ("true".to_owned(), known));
    assert_eq!(it.server.on_tick(Duration::from_secs(200)), [], "the question was a sign of life");
}

#[test]
fn the_write_bit_is_taken_and_given_back() {
    let mut it = Fixture::new();
    it.register(&MASTER, &topics(&["T", "U"]));
    let broker = [("brokerName", "broker-a")];
    assert_eq!(it.ask(request::WIPE_WRITE_PERM_OF_BROKER, &broker).field("wipeTopicCount"), Some("2"));
    assert!(it.route("T").body.contains(&format!(r#""perm":{}"#, perm::READ)));
    it.register(&MASTER, &topics(&["T", "U"]));
    assert!(it.route("T").body.contains(r#""perm":4"#), "an unchanged registration leaves it so");
    assert_eq!(it.ask(request::ADD_WRITE_PERM_OF_BROKER, &broker).field("addTopicCount"), Some("2"));
    assert!(it.route("T").body.contains(r#""perm":6"#));
    assert_eq!(
        it.ask(request::WIPE_WRITE_PERM_OF_BROKER, &[("brokerName", "x")]).field("wipeTopicCount"),
        Some("0")
    );
}

#[test]
fn topics_are_deleted_of_one_cluster_or_of_all() {
    let mut it = Fixture::new();
    it.register(&MASTER, &topics(&["T", "U"]));
    let other =
        Broker { cluster: "Other", name: "broker-b", address: "10.0.0.3:10911", connection: 3, ..MASTER };
    it.register(&other, &topics(&["T", "U"]));
    let delete =
        |it: &mut Fixture, fields: &[(&str, &str)]| it.ask(request::DELETE_TOPIC_IN_NAMESRV, fields).code;
    assert_eq!(delete(&mut it, &[("topic", "T"), ("clusterName", "Nowhere")]), 0);
    assert_eq!(delete(&mut it, &[("topic", "T"), ("clusterName", "Other")]), 0);
    assert!(!it.route("T").body.contains("broker-b") && it.route("U").body.contains("broker-b"));
    assert_eq!(delete(&mut it, &[("topic", "U")]), 0);
    assert_eq!(it.topics(), r#"{"topicList":["T"]}"#);
    assert_eq!(delete(&mut it, &[("topic", "never")]), 0);
}

#[test]
fn topics_can_be_registered_for_known_brokers_only() {
    let mut it = Fixture::new();
    it.register(&MASTER, &topics(&["T", "U"]));
    let body = |broker: &str| {
        format!(
            r#"{{"queueDatas":[{{"brokerName":"{broker}","perm":6,"readQueueNums":3,"writeQueueNums":3}}]}}"#
        )
    };
    let put = |it: &mut Fixture, body: &str| {
        it.ask_as(VERSION, request::REGISTER_TOPIC_IN_NAMESRV, &[("topic", "X")], body.as_bytes()).code
    };
    assert_eq!(put(&mut it, &body("nobody")), 0);
    assert_eq!(put(&mut it, ""), 0);
    assert_eq!(it.route("X").code, 17);
    assert_eq!(put(&mut it, &body("broker-a")), 0);
    assert!(it.route("X").body.contains(r#""readQueueNums":3"#));
    assert_eq!(put(&mut it, "nonsense"), 1);
}

#[test]
fn orders_of_topics_reach_brokers_and_when_asked_for_clients() {
    let mut it = Fixture::with(NamesrvOptions { order_message_enable: true, ..NamesrvOptions::default() });
    assert_eq!(it.register(&MASTER, &topics(&["T", "U"])).body, "");
    let entry = [("namespace", "ORDER_TOPIC_CONFIG"), ("key", "T"), ("value", "broker-a:4")];
    assert_eq!(it.ask(request::PUT_KV_CONFIG, &entry).code, 0);
    assert_eq!(it.register(&MASTER, &topics(&["T", "U"])).body, r#"{"table":{"T":"broker-a:4"}}"#);
    assert!(
        it.route("T").body.contains(r#""filterServerTable":{},"orderTopicConf":"broker-a:4","queueDatas""#)
    );
    assert!(!it.route("U").body.contains("orderTopicConf"));
    assert_eq!(it.ask(request::GET_KV_CONFIG, &entry[..2]).field("value"), Some("broker-a:4"));
    assert_eq!(it.ask(request::GET_KVLIST_BY_NAMESPACE, &entry[..1]).body, r#"{"table":{"T":"broker-a:4"}}"#);
    assert_eq!(it.ask(request::DELETE_KV_CONFIG, &entry[..2]).code, 0);
    let missing = it.ask(request::GET_KV_CONFIG, &entry[..2]);
    assert_eq!(
        (missing.code, missing.remark.as_deref()),
        (22, Some("No config item, Namespace: ORDER_TOPIC_CONFIG Key: T"))
    );
    let missing = it.ask(request::GET_KVLIST_BY_NAMESPACE, &[("namespace", "n")]);
    assert_eq!((missing.code, missing.remark.as_deref()), (22, Some("No config item, Namespace: n")));
}

#[test]
fn what_is_not_understood_is_answered_and_what_is_one_way_is_not() {
    let mut it = Fixture::new();
    let reply = it.ask(318, &[]);
    assert_eq!((reply.code, reply.remark.as_deref()), (3, Some(" request type 318 not supported")));
    let reply = it.ask(request::GET_ROUTEINFO_BY_TOPIC, &[]);
    assert_eq!((reply.code, reply.remark.as_deref()), (1, Some("the header field topic is missing")));
    for (code, missing) in
        [(100, "namespace"), (205, "brokerName"), (216, "topic"), (224, "cluster"), (901, "clusterName")]
    {
        let reply = it.ask(code, &[]);
        assert_eq!(reply.code, 1, "{code}");
        assert!(reply.remark.unwrap().contains(missing), "{code}");
    }
    let mut frame = Vec::new();
    write_request(
        &mut frame,
        Serialization::Json,
        request::GET_BROKER_CLUSTER_INFO,
        1,
        protocol::command::FLAG_ONEWAY,
    )
    .finish();
    assert_eq!(exchange(&mut it.server, 1, it.now, &frame), None);
    let mut frame = Vec::new();
    protocol::write_response(&mut frame, Serialization::Json, 105, 1).finish();
    assert_eq!(exchange(&mut it.server, 1, it.now, &frame), None, "a response asks for nothing");
}

#[test]
fn binary_headers_are_answered_in_kind() {
    let mut it = pair();
    let mut frame = Vec::new();
    let writer = write_request(&mut frame, Serialization::RocketMq, request::GET_ROUTEINFO_BY_TOPIC, 9, 0);
    writer.field("topic", "T").finish();
    let reply = exchange(&mut it.server, 1, it.now, &frame).unwrap();
    assert_eq!((reply.code, reply.opaque, reply.body.as_str()), (0, 9, ROUTE_STANDARD));
}

#[test]
fn an_address_is_one_broker() {
    let mut it = pair();
    let renamed = Broker { name: "broker-z", connection: 8, ..MASTER };
    it.register(&renamed, &topics(&["T", "U"]));
    assert!(!it.route("T").body.contains(r#""0":"10.0.0.1:10911"},"brokerName":"broker-a""#));
    let moved = Broker { cluster: "Other", ..renamed };
    it.register(&moved, &topics(&["T", "U"]));
    let info = it.ask(request::GET_BROKER_CLUSTER_INFO, &[]).body;
    assert!(
        info.ends_with(r#""clusterAddrTable":{"DefaultCluster":["broker-a"],"Other":["broker-z"]}}"#),
        "{info}"
    );
}

#[test]
fn names_are_bounded_and_a_full_table_takes_no_more() {
    use crate::namesrv::registry::{BROKER_COUNT_MAX, NAME_BYTES_MAX, QUEUE_DATA_COUNT_MAX};
    let mut it = Fixture::new();
    let long = "n".repeat(NAME_BYTES_MAX + 1);
    let reply = it.register(&MASTER, &topics(&["T", &long]));
    assert_eq!(reply.code, 1);
    assert!(reply.remark.unwrap().contains("bytes"));
    const { assert!(BROKER_COUNT_MAX * 100 < QUEUE_DATA_COUNT_MAX) };
    for index in 0..=BROKER_COUNT_MAX {
        let name: &'static str = format!("b{index}").leak();
        let reply = it.register(&Broker { name, address: name, ..MASTER }, &[]);
        assert_eq!(reply.code, i32::from(index == BROKER_COUNT_MAX), "{index}");
    }
    assert_eq!(it.register(&Broker { name: "b7", address: "b7", ..MASTER }, &topics(&["T"])).code, 0);
}

#[test]
fn every_request_is_answered_once_whatever_it_holds() {
    let names = [
        "brokerName",
        "brokerAddr",
        "clusterName",
        "haServerAddr",
        "brokerId",
        "compressed",
        "bodyCrc32",
        "topic",
        "namespace",
        "key",
        "value",
        "cluster",
        "heartbeatTimeoutMillis",
        "enableActingMaster",
        "__ZONE_NAME",
    ];
    let values = ["", "x", "0", "-1", "9223372036854775807", "99999999999999999999", "true", "\u{1f980}"];
    let bodies: [&[u8]; 6] =
        [b"", b"{}", b"[]", b"{\"topicConfigSerializeWrapper\":{}}", b"\xff\xfe", b"x\x9c\x00"];
    let mut it = Fixture::new();
    let mut refused = 0;
    for code in (0..1_100).chain([-1, i32::MAX, 200_050]) {
        for (at, value) in values.iter().enumerate() {
            let fields: Vec<(&str, &str)> = names.iter().map(|name| (*name, *value)).collect();
            let reply = it.ask_as(VERSION, code, &fields, bodies[at % bodies.len()]);
            refused += i32::from(reply.code != 0);
        }
        it.server.on_tick(it.now);
    }
    assert!(refused > 8_000, "nearly all of it is nonsense: {refused}");
    it.now = Duration::from_secs(3_601);
    it.server.on_tick(it.now);
    assert_eq!(it.topics(), r#"{"topicList":[]}"#, "what was taken as a broker is gone within the hour");
}
