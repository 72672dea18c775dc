//! The requests that clients send, with the values that most tests don't care about.

use protocol::{
    body::heartbeat::{ConsumerData, HeartbeatData, MessageModel, ProducerData, SubscriptionData},
    code::request,
    header::pull::sys_flag,
    message::{BatchItem, write_batch_item},
};

use crate::wire::Request;

/// The born time of every message that a test sends.
pub const BORN_MS: i64 = 1_700_000_000_000;

/// 310 to queue 0, with automatic creation of the topic as clients ask for it.
pub fn send(topic: &str, properties: &str, body: impl AsRef<[u8]>) -> Request {
    Request::new(request::SEND_MESSAGE_V2)
        .field("a", "PG")
        .field("b", topic)
        .field("c", "TBW102")
        .field("d", 4)
        .field("e", 0)
        .field("f", 0)
        .field("g", BORN_MS)
        .field("h", 0)
        .field("i", properties)
        .field("j", 0)
        .field("k", false)
        .field("m", false)
        .body(body)
}

/// 320 with these (properties, body).
pub fn batch(topic: &str, wrapper: &str, items: &[(&str, &str)]) -> Request {
    let mut body = Vec::new();
    for (properties, text) in items {
        write_batch_item(&mut body, &BatchItem { flag: 0, body: text.as_bytes(), properties });
    }
    let mut request = send(topic, wrapper, body).field("m", true);
    request.code = request::SEND_BATCH_MESSAGE;
    request
}

/// 11 by a client that names its own subscription and doesn't wait.
pub fn pull(topic: &str, queue_id: i32, offset: i64) -> Request {
    Request::new(request::PULL_MESSAGE)
        .field("consumerGroup", "G")
        .field("topic", topic)
        .field("queueId", queue_id)
        .field("queueOffset", offset)
        .field("maxMsgNums", 32)
        .field("sysFlag", sys_flag::SUBSCRIPTION)
        .field("commitOffset", 0)
        .field("suspendTimeoutMillis", 0)
        .field("subscription", "*")
        .field("subVersion", 0)
        .field("expressionType", "TAG")
}

/// 11 that may wait `millis`.
pub fn held_pull(topic: &str, queue_id: i32, offset: i64, millis: i64) -> Request {
    pull(topic, queue_id, offset)
        .field("sysFlag", sys_flag::SUBSCRIPTION | sys_flag::SUSPEND)
        .field("suspendTimeoutMillis", millis)
}

/// 34 of a client that consumes `topic` in `group`, and produces.
pub fn heartbeat(client_id: &str, group: &str, topic: &str) -> Request {
    Request::new(request::HEART_BEAT).body(heartbeat_data(client_id, group, &[(topic, "*")]).to_json())
}

/// What a client in `group` says of itself, with (topic, expression) subscriptions of version 1.
pub fn heartbeat_data(client_id: &str, group: &str, subscriptions: &[(&str, &str)]) -> HeartbeatData {
    HeartbeatData {
        client_id: client_id.to_owned(),
        consumer_data: vec![ConsumerData {
            group_name: group.to_owned(),
            message_model: MessageModel::Clustering,
            subscriptions: subscriptions
                .iter()
                .map(|(topic, expression)| SubscriptionData {
                    topic: (*topic).to_owned(),
                    sub_string: (*expression).to_owned(),
                    sub_version: 1,
                    ..SubscriptionData::default()
                })
                .collect(),
            ..ConsumerData::default()
        }],
        producer_data: vec![ProducerData { group_name: "PG".to_owned() }],
        ..HeartbeatData::default()
    }
}

/// 105 to a name server.
pub fn route(topic: &str) -> Request {
    Request::new(request::GET_ROUTEINFO_BY_TOPIC).field("topic", topic)
}

/// 30.
pub fn max_offset(topic: &str, queue_id: i32) -> Request {
    queue(request::GET_MAX_OFFSET, topic, queue_id)
}

/// 31.
pub fn min_offset(topic: &str, queue_id: i32) -> Request {
    queue(request::GET_MIN_OFFSET, topic, queue_id)
}

fn queue(code: i32, topic: &str, queue_id: i32) -> Request {
    Request::new(code).field("topic", topic).field("queueId", queue_id)
}

/// 14.
pub fn query_offset(group: &str, topic: &str, queue_id: i32) -> Request {
    queue(request::QUERY_CONSUMER_OFFSET, topic, queue_id).field("consumerGroup", group)
}

/// 15.
pub fn commit_offset(group: &str, topic: &str, queue_id: i32, offset: i64) -> Request {
    queue(request::UPDATE_CONSUMER_OFFSET, topic, queue_id)
        .field("consumerGroup", group)
        .field("commitOffset", offset)
}

/// 29.
pub fn search(topic: &str, queue_id: i32, timestamp_ms: i64) -> Request {
    queue(request::SEARCH_OFFSET_BY_TIMESTAMP, topic, queue_id).field("timestamp", timestamp_ms)
}

/// 38.
pub fn consumer_list(group: &str) -> Request {
    Request::new(request::GET_CONSUMER_LIST_BY_GROUP).field("consumerGroup", group)
}

/// 35 of a consumer.
pub fn unregister(client_id: &str, group: &str) -> Request {
    Request::new(request::UNREGISTER_CLIENT)
        .field("clientID", client_id)
        .field("producerGroup", "")
        .field("consumerGroup", group)
}

/// 17.
pub fn create_topic(topic: &str, queue_nums: i32) -> Request {
    Request::new(request::UPDATE_AND_CREATE_TOPIC)
        .field("topic", topic)
        .field("defaultTopic", "TBW102")
        .field("readQueueNums", queue_nums)
        .field("writeQueueNums", queue_nums)
        .field("perm", 6)
        .field("topicFilterType", "SINGLE_TAG")
        .field("topicSysFlag", 0)
        .field("order", false)
}

/// 28.
pub fn runtime_info() -> Request {
    Request::new(request::GET_BROKER_RUNTIME_INFO)
}
