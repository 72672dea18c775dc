//! Topics as brokers keep and register them, and the version that says whether two tables of them are the same
//! (name server, 4; store, 1.4).

use std::collections::BTreeMap;

use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::lenient::{boolean, constant, integer, or_default};

/// Says which state of a table somebody has. Two are equal when all three numbers are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataVersion {
    /// Counts changes.
    #[serde(deserialize_with = "integer")]
    pub counter: i64,
    /// The controller's epoch; absent before 5.0.
    #[serde(deserialize_with = "integer")]
    pub state_version: i64,
    /// When it was last changed, milliseconds of the epoch.
    #[serde(deserialize_with = "integer")]
    pub timestamp: i64,
}

impl DataVersion {
    /// Its JSON, as 322 carries it.
    pub fn to_json(&self) -> Vec<u8> {
        super::to_json(self)
    }

    /// Reads it.
    pub fn from_json(body: &[u8]) -> Result<DataVersion, super::BodyError> {
        super::lenient::parse(body)
    }
}

/// Whether a message of a topic may have several tags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum TopicFilterType {
    /// One.
    #[default]
    #[serde(rename = "SINGLE_TAG")]
    SingleTag,
    /// Several.
    #[serde(rename = "MULTI_TAG")]
    MultiTag,
}

const FILTER_TYPES: [(&str, TopicFilterType); 2] =
    [("SINGLE_TAG", TopicFilterType::SingleTag), ("MULTI_TAG", TopicFilterType::MultiTag)];

impl TopicFilterType {
    /// RocketMQ's name of it.
    pub fn name(self) -> &'static str {
        match self {
            TopicFilterType::SingleTag => "SINGLE_TAG",
            TopicFilterType::MultiTag => "MULTI_TAG",
        }
    }

    /// The type of a name.
    pub fn from_name(name: &str) -> Option<TopicFilterType> {
        FILTER_TYPES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }
}

impl<'de> Deserialize<'de> for TopicFilterType {
    /// By name or ordinal; anything else is the default.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ordinals = [TopicFilterType::SingleTag, TopicFilterType::MultiTag];
        let value = Value::deserialize(deserializer)?;
        Ok(constant(&value, &FILTER_TYPES, &ordinals).unwrap_or_default())
    }
}

/// Permission bits of a topic or broker (name server, 6).
pub mod perm {
    /// A topic made from this one inherits its settings.
    pub const INHERIT: i32 = 1;
    /// May be written.
    pub const WRITE: i32 = 2;
    /// May be read.
    pub const READ: i32 = 4;
    /// Priority; unused.
    pub const PRIORITY: i32 = 8;
}

/// A topic's settings. Fields in alphabetical order of their JSON names, which is how they are written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicConfig {
    /// Free attributes; absent before 5.0.
    #[serde(deserialize_with = "or_default")]
    pub attributes: BTreeMap<String, String>,
    /// Whether it is an ordered topic.
    #[serde(deserialize_with = "boolean")]
    pub order: bool,
    /// Bits of [`perm`].
    #[serde(deserialize_with = "integer")]
    pub perm: i32,
    /// Queues that can be read.
    #[serde(deserialize_with = "integer")]
    pub read_queue_nums: i32,
    /// Whether messages may have several tags.
    pub topic_filter_type: TopicFilterType,
    /// The topic.
    #[serde(deserialize_with = "or_default")]
    pub topic_name: String,
    /// Bit 0 unit, bit 1 unit subscription.
    #[serde(deserialize_with = "integer")]
    pub topic_sys_flag: i32,
    /// Queues that can be written.
    #[serde(deserialize_with = "integer")]
    pub write_queue_nums: i32,
}

impl Default for TopicConfig {
    /// RocketMQ's: 16 queues, readable and writable.
    fn default() -> TopicConfig {
        TopicConfig {
            attributes: BTreeMap::new(),
            order: false,
            perm: perm::READ | perm::WRITE,
            read_queue_nums: 16,
            topic_filter_type: TopicFilterType::SingleTag,
            topic_name: String::new(),
            topic_sys_flag: 0,
            write_queue_nums: 16,
        }
    }
}

impl TopicConfig {
    /// A topic of this name with that many queues, readable and writable.
    pub fn new(topic_name: impl Into<String>, queue_nums: i32) -> TopicConfig {
        TopicConfig {
            topic_name: topic_name.into(),
            read_queue_nums: queue_nums,
            write_queue_nums: queue_nums,
            ..TopicConfig::default()
        }
    }
}
