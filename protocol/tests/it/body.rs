//! JSON bodies: the specification's bytes, the lenient readings, and the bounds.

use std::collections::{BTreeMap, BTreeSet};

use protocol::body::heartbeat::{ConsumeFromWhere, ConsumeType, MessageModel};
use protocol::body::{
    BodyError, BrokerData, ClusterInfo, ConsumerData, ConsumerList, DataVersion, HeartbeatData, KvTable,
    ProducerData, QueueData, RegisterBrokerBody, SubscriptionData, TopicConfig, TopicFilterType, TopicList,
    TopicRouteData,
};
use protocol::limits::REGISTER_INFLATED_BYTES_MAX;

use crate::support::hex;

pub const HEARTBEAT: &str = r#"{"clientID":"1.2.3.4@1","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":"G","messageModel":"CLUSTERING","subscriptionDataSet":[{"classFilterMode":false,"codeSet":[2598919,2598920],"expressionType":"TAG","subString":"TagA || TagB","subVersion":1700000000000,"tagsSet":["TagA","TagB"],"topic":"T"}],"unitMode":false}],"heartbeatFingerprint":0,"producerDataSet":[{"groupName":"PG"}],"withoutSub":false}"#;
pub const ROUTE_STANDARD: &str = r#"{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"},"brokerName":"broker-a","cluster":"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}"#;
pub const CLUSTER: &str = r#"{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"broker-a","cluster":"DefaultCluster","enableActingMaster":false}},"clusterAddrTable":{"DefaultCluster":["broker-a"]}}"#;
const REGISTER: &str = r#"{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":1796108929992},"mappingDataVersion":{"counter":0,"stateVersion":0,"timestamp":1796108929992},"topicConfigTable":{"T":{"attributes":{},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"T","topicSysFlag":0,"writeQueueNums":4}},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}}"#;

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

fn broker_a() -> BrokerData {
    let addresses = [(0, "10.0.0.1:10911".to_owned()), (1, "10.0.0.2:10911".to_owned())];
    BrokerData {
        broker_addrs: addresses.into(),
        broker_name: "broker-a".to_owned(),
        cluster: "DefaultCluster".to_owned(),
        ..BrokerData::default()
    }
}

fn route() -> TopicRouteData {
    let queues = QueueData {
        broker_name: "broker-a".to_owned(),
        perm: 6,
        read_queue_nums: 4,
        topic_sys_flag: 0,
        write_queue_nums: 4,
    };
    TopicRouteData { broker_datas: vec![broker_a()], queue_datas: vec![queues], order_topic_conf: None }
}

fn registration() -> RegisterBrokerBody {
    let version = DataVersion { counter: 0, state_version: 0, timestamp: 1_796_108_929_992 };
    RegisterBrokerBody {
        data_version: version,
        mapping_data_version: version,
        topic_config_table: [("T".to_owned(), TopicConfig::new("T", 4))].into(),
        filter_server_list: Vec::new(),
    }
}

#[test]
fn heartbeat_of_java_is_read_and_written_byte_for_byte() {
    let expected = HeartbeatData {
        client_id: "1.2.3.4@1".to_owned(),
        producer_data: vec![ProducerData { group_name: "PG".to_owned() }],
        consumer_data: vec![ConsumerData {
            group_name: "G".to_owned(),
            consume_type: ConsumeType::Passively,
            message_model: MessageModel::Clustering,
            consume_from_where: ConsumeFromWhere::LastOffset,
            subscriptions: vec![SubscriptionData {
                topic: "T".to_owned(),
                sub_string: "TagA || TagB".to_owned(),
                tags_set: vec!["TagA".to_owned(), "TagB".to_owned()],
                code_set: vec![2_598_919, 2_598_920],
                sub_version: 1_700_000_000_000,
                ..SubscriptionData::default()
            }],
            unit_mode: false,
        }],
        heartbeat_fingerprint: 0,
        without_sub: false,
    };
    assert_eq!(HeartbeatData::from_json(HEARTBEAT.as_bytes()).as_ref(), Ok(&expected));
    assert_eq!(text(expected.to_json()), HEARTBEAT);
}

#[test]
fn heartbeat_of_cpp_with_ordinals_and_quoted_numbers() {
    let body = r#"{"clientID":"c","consumerDataSet":[{"consumeFromWhere":4,"consumeType":0,"groupName":"G","messageModel":"0","subscriptionDataSet":[{"codeSet":["42",-1],"subString":"*","subVersion":"17","topic":"T"}]}],"producerDataSet":null}
"#;
    let heartbeat = HeartbeatData::from_json(body.as_bytes()).unwrap();
    assert!(heartbeat.producer_data.is_empty());
    let consumer = &heartbeat.consumer_data[0];
    assert_eq!(consumer.consume_from_where, ConsumeFromWhere::FirstOffset);
    assert_eq!(consumer.consume_type, ConsumeType::Actively);
    assert_eq!(consumer.message_model, MessageModel::Broadcasting);
    let subscription = &consumer.subscriptions[0];
    assert_eq!((subscription.sub_version, &subscription.code_set[..]), (17, &[42, -1][..]));
    assert_eq!((subscription.expression_type.as_str(), subscription.tags_set.len()), ("TAG", 0));
}

#[test]
fn heartbeat_constants_that_nobody_knows_are_the_usual_ones() {
    let body = r#"{"clientID":"c","consumerDataSet":[{"groupName":"G","consumeType":"PULL","messageModel":"X","consumeFromWhere":99,"subscriptionDataSet":[{"topic":"T","expressionType":null,"subString":null,"codeSet":null,"tagsSet":null,"subVersion":null}]},{"groupName":"H","consumeType":"PUSH"}]}"#;
    let heartbeat = HeartbeatData::from_json(body.as_bytes()).unwrap();
    let consumer = &heartbeat.consumer_data[0];
    assert_eq!(consumer.consume_type, ConsumeType::Actively);
    assert_eq!(consumer.message_model, MessageModel::Clustering);
    assert_eq!(consumer.consume_from_where, ConsumeFromWhere::LastOffset);
    assert_eq!(
        consumer.subscriptions[0],
        SubscriptionData { topic: "T".to_owned(), ..SubscriptionData::default() }
    );
    assert_eq!(heartbeat.consumer_data[1].consume_type, ConsumeType::Passively);
    assert_eq!(HeartbeatData::from_json(b"{}"), Ok(HeartbeatData::default()));
}

#[test]
fn heartbeats_of_other_shapes_are_refused() {
    for body in
        ["7", "null", r#"{"clientID":{}}"#, r#"{"consumerDataSet":{}}"#, r#"{"heartbeatFingerprint":"x"}"#]
    {
        let refusal = HeartbeatData::from_json(body.as_bytes()).unwrap_err();
        assert!(matches!(refusal, BodyError::Shape { .. }), "{body}: {refusal}");
    }
    assert_eq!(HeartbeatData::from_json(b""), Err(BodyError::UnexpectedEnd));
}

#[test]
fn route_is_written_byte_for_byte_in_both_encodings() {
    let legacy = ROUTE_STANDARD.replace("\"0\":", "0:").replace("\"1\":", "1:");
    assert_eq!(text(route().to_json(true)), ROUTE_STANDARD);
    assert_eq!(text(route().to_json(false)), legacy);
    for body in [ROUTE_STANDARD, &legacy] {
        assert_eq!(TopicRouteData::from_json(body.as_bytes()), Ok(route()));
    }
    assert_eq!(route().broker_datas[0].master_addr(), Some("10.0.0.1:10911"));
}

#[test]
fn route_in_standard_json_is_ascii() {
    let mut route = route();
    route.broker_datas[0].broker_name = "订\u{1}😀".to_owned();
    route.order_topic_conf = Some("broker-a:4".to_owned());
    route.broker_datas[0].zone_name = Some("z".to_owned());
    let standard = text(route.to_json(true));
    assert!(standard.is_ascii());
    assert!(standard.contains(r#""brokerName":"\u8BA2\u0001\uD83D\uDE00""#), "{standard}");
    assert!(standard.contains(r#","orderTopicConf":"broker-a:4","queueDatas""#), "{standard}");
    for standard in [true, false] {
        assert_eq!(TopicRouteData::from_json(&route.to_json(standard)).as_ref(), Ok(&route));
    }
}

#[test]
fn misspelt_flag_of_old_name_servers_is_read() {
    let body = r#"{"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":4,"topicSynFlag":1,"writeQueueNums":4}]}"#;
    assert_eq!(TopicRouteData::from_json(body.as_bytes()).unwrap().queue_datas[0].topic_sys_flag, 1);
}

#[test]
fn cluster_is_written_byte_for_byte() {
    let names = BTreeSet::from(["broker-a".to_owned()]);
    let info = ClusterInfo {
        broker_addr_table: [("broker-a".to_owned(), broker_a())].into(),
        cluster_addr_table: [("DefaultCluster".to_owned(), names)].into(),
    };
    assert_eq!(text(info.to_json()), CLUSTER);
    assert_eq!(ClusterInfo::from_json(CLUSTER.as_bytes()), Ok(info));
}

#[test]
fn lists_and_tables_are_written_byte_for_byte() {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let topics = TopicList { broker_addr: None, topic_list: names(&["T", "TBW102"]) };
    assert_eq!(text(topics.to_json()), r#"{"topicList":["T","TBW102"]}"#);
    let with_broker = TopicList { broker_addr: Some("1.1.1.1:1".to_owned()), topic_list: names(&["c"]) };
    assert_eq!(text(with_broker.to_json()), r#"{"brokerAddr":"1.1.1.1:1","topicList":["c"]}"#);
    assert_eq!(TopicList::from_json(&with_broker.to_json()), Ok(with_broker));
    let consumers = ConsumerList { consumer_id_list: names(&["a", "b"]) };
    assert_eq!(text(consumers.to_json()), r#"{"consumerIdList":["a","b"]}"#);
    assert_eq!(ConsumerList::from_json(&consumers.to_json()), Ok(consumers));
    let table = KvTable { table: [("k".to_owned(), "v".to_owned())].into() };
    assert_eq!(text(table.to_json()), r#"{"table":{"k":"v"}}"#);
    assert_eq!(KvTable::from_json(&table.to_json()), Ok(table));
}

#[test]
fn registration_is_written_byte_for_byte() {
    assert_eq!(text(registration().encode_plain()), REGISTER);
    assert_eq!(RegisterBrokerBody::decode(REGISTER.as_bytes(), false, 479), Ok(registration()));
    let inner = registration().encode_plain_before_37();
    assert_eq!(RegisterBrokerBody::decode(&inner, false, 36), Ok(registration()));
}

#[test]
fn compressed_registration_has_the_inflated_bytes_of_java() {
    let mut body = registration();
    body.data_version.timestamp = 1_700_000_000_000;
    body.mapping_data_version = DataVersion::default();
    let expected = hex(
        "000000387b22636f756e746572223a302c22737461746556657273696f6e223a302c2274696d657374616d70223a31373030303030303030303030\
         7d0000000100000015542034203420362053494e474c455f544147207b7d000000025b5d00000000",
    );
    assert_eq!(body.encode_inflated(479), expected);
    assert_eq!(RegisterBrokerBody::decode(&body.encode_compressed(479), true, 479).as_ref(), Ok(&body));
    // 4.9: no mappings, and topics without attributes.
    assert_eq!(body.encode_inflated(407), expected[..expected.len() - 4]);
    let old = deflate(&[&expected[..64], b"\0\0\0\x12T 4 4 6 SINGLE_TAG", b"\0\0\0\x02[]"].concat());
    assert_eq!(RegisterBrokerBody::decode(&old, true, 407), Ok(body));
}

#[test]
fn attributes_and_mappings_of_a_compressed_registration_are_read() {
    let mut body = registration();
    body.mapping_data_version = DataVersion::default();
    let topic = body.topic_config_table.get_mut("T").unwrap();
    topic.topic_filter_type = TopicFilterType::MultiTag;
    topic.attributes = BTreeMap::from([("message.type".to_owned(), "a b".to_owned())]);
    let mut raw = body.encode_inflated(407);
    raw.extend_from_slice(b"\0\0\0\x01\0\0\0\x02{}");
    assert_eq!(RegisterBrokerBody::decode(&deflate(&raw), true, 413), Ok(body));
}

#[test]
fn broken_compressed_registrations_are_refused() {
    let raw = registration().encode_inflated(479);
    let whole = deflate(&raw);
    for cut in 0..whole.len() {
        let refusal = RegisterBrokerBody::decode(&whole[..cut], true, 479).unwrap_err();
        assert_eq!(refusal, BodyError::NotZlib, "cut at {cut}");
    }
    // The last four bytes count mappings, and nothing there counts as none.
    for cut in (0..raw.len() - 4).chain(raw.len() - 3..raw.len()) {
        RegisterBrokerBody::decode(&deflate(&raw[..cut]), true, 479).unwrap_err();
    }
    let refused = |at: usize, word: [u8; 4]| {
        let mut raw = raw.clone();
        raw[at..at + 4].copy_from_slice(&word);
        RegisterBrokerBody::decode(&deflate(&raw), true, 479).unwrap_err()
    };
    assert_eq!(refused(0, [0xff; 4]), BodyError::LengthOutOfBounds { at: 0, length: -1 });
    assert_eq!(refused(60, [0x7f, 0xff, 0xff, 0xff]), BodyError::TooManyTopics { count: i32::MAX });
    assert_eq!(refused(60, [0xff; 4]), BodyError::TooManyTopics { count: -1 });
    let text = "T 4 4 x SINGLE_TAG {}".to_owned();
    assert_eq!(refused(72, *b"4 x "), BodyError::MalformedTopic { text });
}

#[test]
fn zlib_bomb_is_refused() {
    let bomb = deflate(&vec![0; REGISTER_INFLATED_BYTES_MAX + 1]);
    assert!(bomb.len() < 128 * 1024);
    assert_eq!(RegisterBrokerBody::decode(&bomb, true, 479), Err(BodyError::InflatesTooLong));
}

fn deflate(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = flate2::read::ZlibEncoder::new(raw, flate2::Compression::best());
    std::io::Read::read_to_end(&mut encoder, &mut out).unwrap();
    out
}
