//! Typed headers: what is missing or isn't a number is named, and the lenient readings.

use protocol::FieldTable;
use protocol::code::request;
use protocol::header::admin::CreateTopicRequest;
use protocol::header::group::{HeartbeatResponse, UnregisterClientRequest};
use protocol::header::offset::{BoundaryType, QueryConsumerOffsetRequest, SearchOffsetRequest};
use protocol::header::pull::{PullRequest, sys_flag};
use protocol::header::register::{BrokerHeartbeatRequest, QueryDataVersionResponse, RegisterBrokerRequest};
use protocol::header::route::RouteRequest;
use protocol::header::send::SendRequest;
use protocol::header::{HeaderError, HeaderErrorKind};

fn table(fields: &[(&str, &str)]) -> FieldTable {
    let mut table = FieldTable::new();
    for (name, value) in fields {
        table.push(name, value);
    }
    table
}

const SEND_V1: [(&str, &str); 8] = [
    ("producerGroup", "PG"),
    ("topic", "T"),
    ("defaultTopic", "TBW102"),
    ("defaultTopicQueueNums", "4"),
    ("queueId", "-1"),
    ("sysFlag", "0"),
    ("bornTimestamp", "1700000000000"),
    ("flag", "7"),
];

const PULL: [(&str, &str); 9] = [
    ("consumerGroup", "G"),
    ("topic", "T"),
    ("queueId", "3"),
    ("queueOffset", "9223372036854775807"),
    ("maxMsgNums", "32"),
    ("sysFlag", "6"),
    ("commitOffset", "0"),
    ("suspendTimeoutMillis", "15000"),
    ("subVersion", "0"),
];

/// Each field taken away, and each number spoilt, is named.
fn check_required<T: std::fmt::Debug>(
    fields: &[(&'static str, &'static str)],
    decode: impl Fn(&FieldTable) -> Result<T, HeaderError>,
) {
    decode(&table(fields)).unwrap();
    for at in 0..fields.len() {
        let mut fields = fields.to_vec();
        let (field, value) = fields.remove(at);
        let missing = HeaderError { field, kind: HeaderErrorKind::Missing };
        assert_eq!(decode(&table(&fields)).unwrap_err(), missing);
        if value.parse::<i64>().is_ok() {
            for spoilt in ["", "x", "1.0", "99999999999999999999", " 1"] {
                let mut with = fields.clone();
                with.push((field, spoilt));
                let not_a_number = HeaderError { field, kind: HeaderErrorKind::NotAnInteger };
                assert_eq!(decode(&table(&with)).unwrap_err(), not_a_number, "{spoilt:?}");
            }
        }
    }
}

#[test]
fn missing_and_spoilt_fields_are_named() {
    check_required(&SEND_V1, |fields| SendRequest::decode(10, fields).map(|send| send.queue_id));
    check_required(&PULL, |fields| PullRequest::decode(fields).map(|pull| pull.queue_offset));
    check_required(
        &[
            ("brokerName", "b"),
            ("brokerAddr", "a"),
            ("clusterName", "c"),
            ("haServerAddr", "h"),
            ("brokerId", "0"),
        ],
        |fields| RegisterBrokerRequest::decode(fields).map(|register| register.broker_id),
    );
    check_required(
        &[
            ("topic", "T"),
            ("defaultTopic", "TBW102"),
            ("readQueueNums", "8"),
            ("writeQueueNums", "8"),
            ("perm", "6"),
        ],
        |fields| CreateTopicRequest::decode(fields).map(|create| create.perm),
    );
}

#[test]
fn send_defaults_and_batches() {
    let fields = table(&SEND_V1);
    let send = SendRequest::decode(request::SEND_MESSAGE, &fields).unwrap();
    assert_eq!((send.properties, send.reconsume_times, send.max_reconsume_times), ("", 0, None));
    assert_eq!((send.queue_id, send.flag, send.unit_mode, send.batch), (-1, 7, false, false));
    assert!(SendRequest::decode(request::SEND_BATCH_MESSAGE, &fields).unwrap().batch);
    for (value, batch) in
        [("true", true), ("TRUE", true), ("1", true), ("0", false), ("", false), ("yes", false)]
    {
        let mut fields = SEND_V1.to_vec();
        fields.push(("m", value));
        assert_eq!(SendRequest::decode(310, &table(&fields)).unwrap().batch, batch, "{value}");
    }
}

#[test]
fn pull_flags_are_bits() {
    let fields = table(&PULL);
    let pull = PullRequest::decode(&fields).unwrap();
    assert_eq!(pull.sys_flag, sys_flag::SUSPEND | sys_flag::SUBSCRIPTION);
    assert!(pull.may_suspend() && pull.has_subscription() && !pull.commits_offset());
    assert_eq!(pull.queue_offset, i64::MAX);
    assert_eq!((pull.subscription, pull.expression_type, pull.max_msg_bytes), (None, None, None));
}

#[test]
fn optional_fields_read_as_specified() {
    let search = |boundary: &str| {
        let fields = [("topic", "T"), ("queueId", "0"), ("timestamp", "5"), ("boundaryType", boundary)];
        SearchOffsetRequest::decode(&table(&fields)).unwrap().boundary_type
    };
    assert_eq!(search("upper"), BoundaryType::Upper);
    assert_eq!(search("LOWER"), BoundaryType::Lower);
    assert_eq!(search("neither"), BoundaryType::Lower);

    let query = [("consumerGroup", "G"), ("topic", "T"), ("queueId", "0")];
    let set_zero = |fields: &[(&str, &str)]| {
        QueryConsumerOffsetRequest::decode(&table(fields)).unwrap().set_zero_if_not_found
    };
    assert_eq!(set_zero(&query), None);
    assert_eq!(set_zero(&[&query[..], &[("setZeroIfNotFound", "false")]].concat()), Some(false));

    let unregister = table(&[("clientID", "c"), ("producerGroup", ""), ("consumerGroup", "G")]);
    let unregister = UnregisterClientRequest::decode(&unregister).unwrap();
    assert_eq!((unregister.producer_group, unregister.consumer_group), (None, Some("G")));

    let route = |fields: &[(&str, &str)], version| {
        RouteRequest::decode(&table(fields)).unwrap().wants_standard_json(version)
    };
    assert!(!route(&[("topic", "T")], 400));
    assert!(route(&[("topic", "T")], 401));
    assert!(route(&[("topic", "T"), ("acceptStandardJsonOnly", "true")], 0));

    let heartbeat = table(&[("brokerName", "b"), ("brokerAddr", "a"), ("clusterName", "c")]);
    let heartbeat = BrokerHeartbeatRequest::decode(&heartbeat).unwrap();
    assert_eq!((heartbeat.broker_id, heartbeat.heartbeat_timeout_ms), (None, None));
    assert!(QueryDataVersionResponse::decode(&table(&[])).changed);
    let old = HeartbeatResponse::decode(&table(&[]));
    assert!(!old.is_support_heart_beat_v2 && !old.is_sub_change);
}

#[test]
fn errors_say_what_is_wrong_in_words() {
    let missing = HeaderError { field: "topic", kind: HeaderErrorKind::Missing };
    assert_eq!(missing.to_string(), "the header field topic is missing");
}
