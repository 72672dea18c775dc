//! The tables that brokers keep under `config/` and exchange as bodies: topics (`topics.json`, 21), consumer offsets
//! (`consumerOffset.json`, 43), consumer groups (`subscriptionGroup.json`, 201). Source: store, 1.4.
//!
//! Written as fastjson's pretty print has them, so that RocketMQ reads our files and people can compare: tabs, no blank
//! behind a colon, names in alphabetical order, offsets with bare keys on one line. Read leniently. Settings of groups
//! that aren't known here are kept and written again. Where the file is, and how it is replaced without being torn, is
//! the store's business.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::BodyError;
use super::lenient::{boolean, integer, or_default, parse};
use super::topic::{DataVersion, TopicConfig};

mod pretty;

use pretty::Node;

/// All topics of a broker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicTable {
    /// Its version.
    #[serde(deserialize_with = "or_default")]
    pub data_version: DataVersion,
    /// Topics by name.
    #[serde(deserialize_with = "or_default")]
    pub topic_config_table: BTreeMap<String, TopicConfig>,
}

impl TopicTable {
    /// Reads a file or body.
    pub fn from_json(text: &[u8]) -> Result<TopicTable, BodyError> {
        parse(text)
    }

    /// The file's content.
    pub fn to_json_pretty(&self) -> Vec<u8> {
        pretty_of(self)
    }
}

/// How far groups have consumed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerOffsetTable {
    /// Its version; absent before 5.0.
    #[serde(deserialize_with = "or_default")]
    pub data_version: DataVersion,
    /// `topic@group` to queue id to the next offset to consume.
    #[serde(deserialize_with = "or_default")]
    pub offset_table: BTreeMap<String, BTreeMap<i32, i64>>,
}

/// Stands between topic and group in the keys of [`ConsumerOffsetTable::offset_table`].
pub const TOPIC_GROUP_SEPARATOR: char = '@';

impl ConsumerOffsetTable {
    /// Reads a file or body. `groupTopicMap`, which can be derived, is skipped.
    pub fn from_json(text: &[u8]) -> Result<ConsumerOffsetTable, BodyError> {
        parse(text)
    }

    /// The file's content.
    pub fn to_json_pretty(&self) -> Vec<u8> {
        let offsets = self.offset_table.iter().map(|(name, queues)| {
            let queues = queues.iter().map(|(&queue, &offset)| (i64::from(queue), offset));
            (name.clone(), Node::Numbers(queues.collect()))
        });
        let root = [
            ("dataVersion".to_owned(), node_of(&self.data_version)),
            ("offsetTable".to_owned(), Node::Object(offsets.collect())),
        ];
        Node::Object(root.into()).write()
    }
}

/// All consumer groups of a broker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionGroupTable {
    /// Its version.
    #[serde(deserialize_with = "or_default")]
    pub data_version: DataVersion,
    /// What groups may not do with topics.
    #[serde(deserialize_with = "or_default")]
    pub forbidden_table: BTreeMap<String, BTreeMap<String, i32>>,
    /// Groups by name.
    #[serde(deserialize_with = "or_default")]
    pub subscription_group_table: BTreeMap<String, SubscriptionGroupConfig>,
}

impl SubscriptionGroupTable {
    /// Reads a file or body.
    pub fn from_json(text: &[u8]) -> Result<SubscriptionGroupTable, BodyError> {
        parse(text)
    }

    /// The file's content.
    pub fn to_json_pretty(&self) -> Vec<u8> {
        pretty_of(self)
    }
}

/// A consumer group's settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionGroupConfig {
    /// The broker that consumers should read from.
    #[serde(deserialize_with = "integer")]
    pub broker_id: i64,
    /// Whether it may consume as broadcast.
    #[serde(deserialize_with = "boolean")]
    pub consume_broadcast_enable: bool,
    /// Whether it may consume.
    #[serde(deserialize_with = "boolean")]
    pub consume_enable: bool,
    /// Whether it may begin at the beginning.
    #[serde(deserialize_with = "boolean")]
    pub consume_from_min_enable: bool,
    /// Its name.
    #[serde(deserialize_with = "or_default")]
    pub group_name: String,
    /// Whether members are told of changes (40).
    #[serde(deserialize_with = "boolean")]
    pub notify_consumer_ids_changed_enable: bool,
    /// Most redeliveries.
    #[serde(deserialize_with = "integer")]
    pub retry_max_times: i32,
    /// Queues of its retry topic.
    #[serde(deserialize_with = "integer")]
    pub retry_queue_nums: i32,
    /// The broker to read from when consumption is slow.
    #[serde(deserialize_with = "integer")]
    pub which_broker_when_consume_slowly: i64,
    /// Settings of later versions, kept as they came.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

impl Default for SubscriptionGroupConfig {
    /// What RocketMQ creates for an unknown group.
    fn default() -> SubscriptionGroupConfig {
        SubscriptionGroupConfig {
            broker_id: 0,
            consume_broadcast_enable: true,
            consume_enable: true,
            consume_from_min_enable: true,
            group_name: String::new(),
            notify_consumer_ids_changed_enable: true,
            retry_max_times: 16,
            retry_queue_nums: 1,
            which_broker_when_consume_slowly: 1,
            others: Map::new(),
        }
    }
}

impl SubscriptionGroupConfig {
    /// A group of this name with RocketMQ's settings.
    pub fn new(group_name: impl Into<String>) -> SubscriptionGroupConfig {
        SubscriptionGroupConfig { group_name: group_name.into(), ..SubscriptionGroupConfig::default() }
    }
}

fn pretty_of(value: &impl Serialize) -> Vec<u8> {
    node_of(value).write()
}

fn node_of(value: &impl Serialize) -> Node {
    let value = serde_json::to_value(value).expect("maps with text keys and plain values always serialise");
    Node::from(value)
}
