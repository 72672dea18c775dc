//! The body of REGISTER_BROKER 103: the topics of a broker (name server, 4). Three forms, told apart by the header and the
//! sender's version:
//!
//! ```text
//! plain, version ≥ 37   {"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":…,"topicConfigTable":…}}
//! plain, older          {"dataVersion":…,"topicConfigTable":…}
//! compressed            zlib of: i32 length, version JSON | i32 count, { i32 length, topic text } |
//!                       i32 length, filter servers JSON | from version 413 on: i32 count, { i32 length, mapping JSON }
//! ```
//!
//! A topic's text is `name read write perm filterType attributes`, the attributes a JSON object that 4.9 leaves out.
//! Queue mappings (static topics) are read over. Inflation is bounded by [`REGISTER_INFLATED_BYTES_MAX`].

use std::collections::BTreeMap;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::{Deserialize, Serialize};

use super::lenient::{or_default, parse};
use super::topic::{DataVersion, TopicConfig, TopicFilterType};
use super::{BodyError, to_json};
use crate::limits::{REGISTER_INFLATED_BYTES_MAX, REGISTER_TOPIC_COUNT_MAX};

/// From this version on the plain body has filter servers around the topics: 3.0.11.
pub const WRAPPED_VERSION_MIN: i32 = 37;
/// From this version on the compressed body has queue mappings: 5.0.0.
pub const MAPPING_VERSION_MIN: i32 = 413;

/// What a broker registers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegisterBrokerBody {
    /// The version of its topics.
    pub data_version: DataVersion,
    /// The version of its queue mappings; only in the plain form.
    pub mapping_data_version: DataVersion,
    /// Its topics by name.
    pub topic_config_table: BTreeMap<String, TopicConfig>,
    /// Its filter servers; long out of use.
    pub filter_server_list: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Wrapped {
    #[serde(deserialize_with = "or_default")]
    filter_server_list: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    topic_config_serialize_wrapper: Table,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Table {
    #[serde(deserialize_with = "or_default")]
    data_version: DataVersion,
    #[serde(deserialize_with = "or_default")]
    mapping_data_version: DataVersion,
    #[serde(deserialize_with = "or_default")]
    topic_config_table: BTreeMap<String, TopicConfig>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrappedOut<'a> {
    filter_server_list: &'a [String],
    topic_config_serialize_wrapper: TableOut<'a>,
}

/// Queue mappings are always written, and empty: the name server of 5.x asks for them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TableOut<'a> {
    data_version: DataVersion,
    mapping_data_version: DataVersion,
    topic_config_table: &'a BTreeMap<String, TopicConfig>,
    topic_queue_mapping_detail_map: BTreeMap<String, ()>,
    topic_queue_mapping_info_map: BTreeMap<String, ()>,
}

impl RegisterBrokerBody {
    /// Reads the form that `compressed` (of the header) and the sender's `version` say. An empty plain body registers
    /// no topics, as Java has it.
    pub fn decode(body: &[u8], compressed: bool, version: i32) -> Result<RegisterBrokerBody, BodyError> {
        let mut decoded = if compressed {
            Self::decode_inflated(&inflate(body)?, version)?
        } else if body.is_empty() {
            Self::default()
        } else if version >= WRAPPED_VERSION_MIN {
            let wrapped: Wrapped = parse(body)?;
            let table = wrapped.topic_config_serialize_wrapper;
            Self::from_table(table, wrapped.filter_server_list)
        } else {
            Self::from_table(parse(body)?, Vec::new())
        };
        if decoded.topic_config_table.len() > REGISTER_TOPIC_COUNT_MAX {
            let count = i32::try_from(decoded.topic_config_table.len()).unwrap_or(i32::MAX);
            return Err(BodyError::TooManyTopics { count });
        }
        for (name, topic) in &mut decoded.topic_config_table {
            topic.topic_name.clone_from(name);
        }
        Ok(decoded)
    }

    /// The plain form for versions from [`WRAPPED_VERSION_MIN`] on.
    pub fn encode_plain(&self) -> Vec<u8> {
        let topic_config_serialize_wrapper = self.table_out();
        to_json(&WrappedOut { filter_server_list: &self.filter_server_list, topic_config_serialize_wrapper })
    }

    /// The plain form for older versions.
    pub fn encode_plain_before_37(&self) -> Vec<u8> {
        to_json(&self.table_out())
    }

    /// The compressed form, with (no) queue mappings when `version`, which the header must carry too, is of 5.x.
    pub fn encode_compressed(&self, version: i32) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&self.encode_inflated(version)).expect("writing into memory doesn't fail");
        encoder.finish().expect("writing into memory doesn't fail")
    }

    /// What [`RegisterBrokerBody::encode_compressed`] compresses.
    pub fn encode_inflated(&self, version: i32) -> Vec<u8> {
        let mut out = Vec::new();
        push(&mut out, &self.data_version.to_json());
        push_length(&mut out, self.topic_config_table.len());
        for topic in self.topic_config_table.values() {
            push(&mut out, topic_text(topic).as_bytes());
        }
        push(&mut out, &to_json(&self.filter_server_list));
        if version >= MAPPING_VERSION_MIN {
            push_length(&mut out, 0);
        }
        out
    }

    /// The compressed form after inflation.
    pub(crate) fn decode_inflated(inflated: &[u8], version: i32) -> Result<RegisterBrokerBody, BodyError> {
        let mut reader = Reader { bytes: inflated, at: 0 };
        let data_version = DataVersion::from_json(reader.block()?)?;
        let mut topic_config_table = BTreeMap::new();
        for _ in 0..reader.count()? {
            let topic = topic_of(reader.text()?)?;
            topic_config_table.insert(topic.topic_name.clone(), topic);
        }
        let filter_server_list = parse(reader.block()?)?;
        if version >= MAPPING_VERSION_MIN && reader.at < inflated.len() {
            for _ in 0..reader.count()? {
                reader.block()?;
            }
        }
        let mapping_data_version = DataVersion::default();
        Ok(RegisterBrokerBody { data_version, mapping_data_version, topic_config_table, filter_server_list })
    }

    fn from_table(table: Table, filter_server_list: Vec<String>) -> RegisterBrokerBody {
        RegisterBrokerBody {
            data_version: table.data_version,
            mapping_data_version: table.mapping_data_version,
            topic_config_table: table.topic_config_table,
            filter_server_list,
        }
    }

    fn table_out(&self) -> TableOut<'_> {
        TableOut {
            data_version: self.data_version,
            mapping_data_version: self.mapping_data_version,
            topic_config_table: &self.topic_config_table,
            topic_queue_mapping_detail_map: BTreeMap::new(),
            topic_queue_mapping_info_map: BTreeMap::new(),
        }
    }
}

fn inflate(body: &[u8]) -> Result<Vec<u8>, BodyError> {
    let mut inflated = Vec::new();
    let mut limited = ZlibDecoder::new(body).take(REGISTER_INFLATED_BYTES_MAX as u64 + 1);
    limited.read_to_end(&mut inflated).map_err(|_| BodyError::NotZlib)?;
    if inflated.len() > REGISTER_INFLATED_BYTES_MAX {
        return Err(BodyError::InflatesTooLong);
    }
    Ok(inflated)
}

fn topic_text(topic: &TopicConfig) -> String {
    let attributes = to_json(&topic.attributes);
    format!(
        "{} {} {} {} {} {}",
        topic.topic_name,
        topic.read_queue_nums,
        topic.write_queue_nums,
        topic.perm,
        topic.topic_filter_type.name(),
        String::from_utf8_lossy(&attributes),
    )
}

fn topic_of(text: &str) -> Result<TopicConfig, BodyError> {
    let malformed = || BodyError::MalformedTopic { text: text.to_owned() };
    let mut parts = text.splitn(6, ' ');
    let topic_name = parts.next().filter(|name| !name.is_empty()).ok_or_else(malformed)?.to_owned();
    let mut int = || parts.next().and_then(|part| part.parse::<i32>().ok()).ok_or_else(malformed);
    let (read_queue_nums, write_queue_nums, perm) = (int()?, int()?, int()?);
    let topic_filter_type = parts.next().and_then(TopicFilterType::from_name).ok_or_else(malformed)?;
    let attributes = match parts.next() {
        None | Some("") => BTreeMap::new(),
        Some(json) => parse::<Option<_>>(json.as_bytes())?.unwrap_or_default(),
    };
    let rest = TopicConfig::default();
    Ok(TopicConfig {
        topic_name,
        read_queue_nums,
        write_queue_nums,
        perm,
        topic_filter_type,
        attributes,
        ..rest
    })
}

fn push(out: &mut Vec<u8>, block: &[u8]) {
    push_length(out, block.len());
    out.extend_from_slice(block);
}

fn push_length(out: &mut Vec<u8>, length: usize) {
    let length = i32::try_from(length).expect("a registration is far below 2 GiB");
    out.extend_from_slice(&length.to_be_bytes());
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn int(&mut self) -> Result<i32, BodyError> {
        let word = self.bytes[self.at..].first_chunk::<4>().ok_or(BodyError::UnexpectedEnd)?;
        self.at += 4;
        Ok(i32::from_be_bytes(*word))
    }

    fn count(&mut self) -> Result<i32, BodyError> {
        let count = self.int()?;
        match usize::try_from(count) {
            Ok(within) if within <= REGISTER_TOPIC_COUNT_MAX => Ok(count),
            _ => Err(BodyError::TooManyTopics { count }),
        }
    }

    fn block(&mut self) -> Result<&'a [u8], BodyError> {
        let at = self.at;
        let length = self.int()?;
        let out_of_bounds = || BodyError::LengthOutOfBounds { at, length };
        let bytes = usize::try_from(length).map_err(|_| out_of_bounds())?;
        let block = self.bytes[self.at..].get(..bytes).ok_or_else(out_of_bounds)?;
        self.at += bytes;
        Ok(block)
    }

    fn text(&mut self) -> Result<&'a str, BodyError> {
        let start = self.at + 4;
        std::str::from_utf8(self.block()?)
            .map_err(|error| BodyError::NotUtf8 { at: start + error.valid_up_to() })
    }
}
