//! The body of HEART_BEAT 34: which groups a client belongs to, and what its consumers subscribe to (remoting protocol,
//! 3.2). Read leniently: any set missing or `null`, constants as names or ordinals, numbers quoted, old Go's names.
//! Constants that nobody knows read as the usual ones, as fastjson reads them as `null`.

use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::BodyError;
use super::lenient::{boolean, constant, integer, integers, or_default, parse};

/// What a client says of itself every 30 seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeartbeatData {
    /// Who it is: the identity inside a group.
    #[serde(rename = "clientID", deserialize_with = "or_default")]
    pub client_id: String,
    /// Its consumer groups.
    #[serde(rename = "consumerDataSet", deserialize_with = "or_default")]
    pub consumer_data: Vec<ConsumerData>,
    /// Hash of the subscriptions, in heartbeats of the second kind; else 0.
    #[serde(deserialize_with = "integer")]
    pub heartbeat_fingerprint: i32,
    /// Its producer groups.
    #[serde(rename = "producerDataSet", deserialize_with = "or_default")]
    pub producer_data: Vec<ProducerData>,
    /// The subscriptions were left out because they haven't changed.
    #[serde(deserialize_with = "boolean")]
    pub without_sub: bool,
}

/// One producer group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerData {
    /// Its name.
    #[serde(deserialize_with = "or_default")]
    pub group_name: String,
}

/// One consumer group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerData {
    /// Where a new group begins.
    pub consume_from_where: ConsumeFromWhere,
    /// How it consumes.
    pub consume_type: ConsumeType,
    /// Its name.
    #[serde(deserialize_with = "or_default")]
    pub group_name: String,
    /// Whether its members share the messages or each gets all.
    pub message_model: MessageModel,
    /// What it subscribes to.
    #[serde(rename = "subscriptionDataSet", deserialize_with = "or_default")]
    pub subscriptions: Vec<SubscriptionData>,
    /// Unit mode.
    #[serde(deserialize_with = "boolean")]
    pub unit_mode: bool,
}

/// One subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionData {
    /// Filtering by classes; not supported, such a subscription gets everything.
    #[serde(deserialize_with = "boolean")]
    pub class_filter_mode: bool,
    /// Hashes of the tags; may be left out.
    #[serde(deserialize_with = "integers")]
    pub code_set: Vec<i32>,
    /// `TAG` or `SQL92`.
    #[serde(deserialize_with = "expression_type")]
    pub expression_type: String,
    /// The filter as the user wrote it.
    #[serde(deserialize_with = "or_default")]
    pub sub_string: String,
    /// Its version, milliseconds of the epoch: the newer one counts.
    #[serde(deserialize_with = "integer")]
    pub sub_version: i64,
    /// The tags; may be left out.
    #[serde(deserialize_with = "or_default")]
    pub tags_set: Vec<String>,
    /// The topic.
    #[serde(deserialize_with = "or_default")]
    pub topic: String,
}

/// The expression type of a subscription that doesn't say.
pub const EXPRESSION_TYPE_TAG: &str = "TAG";

impl Default for SubscriptionData {
    fn default() -> SubscriptionData {
        SubscriptionData {
            class_filter_mode: false,
            code_set: Vec::new(),
            expression_type: EXPRESSION_TYPE_TAG.to_owned(),
            sub_string: String::new(),
            sub_version: 0,
            tags_set: Vec::new(),
            topic: String::new(),
        }
    }
}

/// How a group consumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum ConsumeType {
    /// The application pulls.
    #[serde(rename = "CONSUME_ACTIVELY")]
    Actively,
    /// The client pulls and calls the application.
    #[default]
    #[serde(rename = "CONSUME_PASSIVELY")]
    Passively,
    /// The broker hands messages out.
    #[serde(rename = "CONSUME_POP")]
    Pop,
}

/// Whether the members of a group share the messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum MessageModel {
    /// Each gets all.
    #[serde(rename = "BROADCASTING")]
    Broadcasting,
    /// They share.
    #[default]
    #[serde(rename = "CLUSTERING")]
    Clustering,
}

/// Where a group without stored offsets begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum ConsumeFromWhere {
    /// At the end.
    #[default]
    #[serde(rename = "CONSUME_FROM_LAST_OFFSET")]
    LastOffset,
    /// Deprecated; as [`ConsumeFromWhere::LastOffset`].
    #[serde(rename = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST")]
    LastOffsetAndFromMinWhenBootFirst,
    /// Deprecated; as [`ConsumeFromWhere::FirstOffset`].
    #[serde(rename = "CONSUME_FROM_MIN_OFFSET")]
    MinOffset,
    /// Deprecated; as [`ConsumeFromWhere::LastOffset`].
    #[serde(rename = "CONSUME_FROM_MAX_OFFSET")]
    MaxOffset,
    /// At the beginning.
    #[serde(rename = "CONSUME_FROM_FIRST_OFFSET")]
    FirstOffset,
    /// At a time.
    #[serde(rename = "CONSUME_FROM_TIMESTAMP")]
    Timestamp,
}

impl HeartbeatData {
    /// Reads the body of 34.
    pub fn from_json(body: &[u8]) -> Result<HeartbeatData, BodyError> {
        parse(body)
    }

    /// Writes it as Java does.
    pub fn to_json(&self) -> Vec<u8> {
        super::to_json(self)
    }
}

impl<'de> Deserialize<'de> for ConsumeType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = [
            ("CONSUME_ACTIVELY", ConsumeType::Actively),
            ("CONSUME_PASSIVELY", ConsumeType::Passively),
            ("CONSUME_POP", ConsumeType::Pop),
            // Older Go clients.
            ("PULL", ConsumeType::Actively),
            ("PUSH", ConsumeType::Passively),
        ];
        let ordinals = [ConsumeType::Actively, ConsumeType::Passively, ConsumeType::Pop];
        Ok(constant(&Value::deserialize(deserializer)?, &names, &ordinals).unwrap_or_default())
    }
}

impl<'de> Deserialize<'de> for MessageModel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = [("BROADCASTING", MessageModel::Broadcasting), ("CLUSTERING", MessageModel::Clustering)];
        let ordinals = [MessageModel::Broadcasting, MessageModel::Clustering];
        let value = Value::deserialize(deserializer)?;
        // Some clients write it capitalised only at the front.
        let value = value.as_str().map(|text| Value::from(text.to_ascii_uppercase())).unwrap_or(value);
        Ok(constant(&value, &names, &ordinals).unwrap_or_default())
    }
}

impl<'de> Deserialize<'de> for ConsumeFromWhere {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use ConsumeFromWhere::{
            FirstOffset, LastOffset, LastOffsetAndFromMinWhenBootFirst, MaxOffset, MinOffset, Timestamp,
        };
        let names = [
            ("CONSUME_FROM_LAST_OFFSET", LastOffset),
            ("CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST", LastOffsetAndFromMinWhenBootFirst),
            ("CONSUME_FROM_MIN_OFFSET", MinOffset),
            ("CONSUME_FROM_MAX_OFFSET", MaxOffset),
            ("CONSUME_FROM_FIRST_OFFSET", FirstOffset),
            ("CONSUME_FROM_TIMESTAMP", Timestamp),
        ];
        let ordinals = names.map(|(_, constant)| constant);
        Ok(constant(&Value::deserialize(deserializer)?, &names, &ordinals).unwrap_or_default())
    }
}

fn expression_type<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let kind = Option::<String>::deserialize(deserializer)?.filter(|kind| !kind.is_empty());
    Ok(kind.unwrap_or_else(|| EXPRESSION_TYPE_TAG.to_owned()))
}
