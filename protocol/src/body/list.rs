//! Answers that are a list of names: topics (206, 224, 304) and the members of a consumer group (38).

use serde::{Deserialize, Serialize};

use super::BodyError;
use super::lenient::{or_default, parse};

/// Topics, and for 304 the address of a broker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicList {
    /// A master's address; only in the answer of 304.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker_addr: Option<String>,
    /// Their names.
    #[serde(deserialize_with = "or_default")]
    pub topic_list: Vec<String>,
}

impl TopicList {
    /// Reads it.
    pub fn from_json(body: &[u8]) -> Result<TopicList, BodyError> {
        parse(body)
    }

    /// Writes it.
    pub fn to_json(&self) -> Vec<u8> {
        super::to_json(self)
    }
}

/// The client ids of a consumer group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerList {
    /// Their ids.
    #[serde(deserialize_with = "or_default")]
    pub consumer_id_list: Vec<String>,
}

impl ConsumerList {
    /// Reads it.
    pub fn from_json(body: &[u8]) -> Result<ConsumerList, BodyError> {
        parse(body)
    }

    /// Writes it.
    pub fn to_json(&self) -> Vec<u8> {
        super::to_json(self)
    }
}
