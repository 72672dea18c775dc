//! The answer of GET_ROUTEINFO_BY_TOPIC 105 (name server, 2). Two encodings of one content, byte for byte what RocketMQ's
//! name server writes, because Go's client takes the text apart by hand: no whitespace, and broker ids bare for older
//! clients, quoted (and the rest in ASCII) for those that read standard JSON.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::BodyError;
use super::lenient::{boolean, integer, or_default, parse};
use crate::codec::{json::write_string, write_integer};

/// Where a topic is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicRouteData {
    /// The brokers that have it.
    #[serde(deserialize_with = "or_default")]
    pub broker_datas: Vec<BrokerData>,
    /// How many queues each of them has.
    #[serde(deserialize_with = "or_default")]
    pub queue_datas: Vec<QueueData>,
    /// For ordered topics: `broker-a:4;broker-b:4`.
    pub order_topic_conf: Option<String>,
}

/// A broker name and the addresses of its replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerData {
    /// `ip:port` by broker id; 0 is the master.
    #[serde(deserialize_with = "or_default")]
    pub broker_addrs: BTreeMap<i64, String>,
    /// The name that its replicas share.
    #[serde(deserialize_with = "or_default")]
    pub broker_name: String,
    /// Its cluster.
    #[serde(deserialize_with = "or_default")]
    pub cluster: String,
    /// Whether a slave may stand in for the master.
    #[serde(deserialize_with = "boolean")]
    pub enable_acting_master: bool,
    /// Its zone, if it has one.
    pub zone_name: Option<String>,
}

/// How many queues of a topic one broker has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueData {
    /// The broker.
    #[serde(deserialize_with = "or_default")]
    pub broker_name: String,
    /// Bits of [`super::topic::perm`].
    #[serde(deserialize_with = "integer")]
    pub perm: i32,
    /// Queues that can be read.
    #[serde(deserialize_with = "integer")]
    pub read_queue_nums: i32,
    /// Bit 0 unit, bit 1 unit subscription. Old name servers misspell its name.
    #[serde(deserialize_with = "integer", alias = "topicSynFlag")]
    pub topic_sys_flag: i32,
    /// Queues that can be written.
    #[serde(deserialize_with = "integer")]
    pub write_queue_nums: i32,
}

impl TopicRouteData {
    /// Reads either encoding.
    pub fn from_json(body: &[u8]) -> Result<TopicRouteData, BodyError> {
        parse(body)
    }

    /// `standard` as [`crate::header::route::RouteRequest::wants_standard_json`] says.
    pub fn to_json(&self, standard: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(b"{\"brokerDatas\":[");
        for (at, broker) in self.broker_datas.iter().enumerate() {
            comma(&mut out, at);
            broker.write(&mut out, standard);
        }
        out.extend_from_slice(b"],\"filterServerTable\":{}");
        if let Some(order_topic_conf) = &self.order_topic_conf {
            out.extend_from_slice(b",\"orderTopicConf\":");
            text(&mut out, order_topic_conf, standard);
        }
        out.extend_from_slice(b",\"queueDatas\":[");
        for (at, queue) in self.queue_datas.iter().enumerate() {
            comma(&mut out, at);
            queue.write(&mut out, standard);
        }
        out.extend_from_slice(b"]}");
        out
    }
}

impl BrokerData {
    /// The master's address.
    pub fn master_addr(&self) -> Option<&str> {
        self.broker_addrs.get(&0).map(String::as_str)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>, standard: bool) {
        out.extend_from_slice(b"{\"brokerAddrs\":{");
        for (at, (id, address)) in self.broker_addrs.iter().enumerate() {
            comma(out, at);
            let quote: &[u8] = if standard { b"\"" } else { b"" };
            out.extend_from_slice(quote);
            write_integer(out, *id);
            out.extend_from_slice(quote);
            out.push(b':');
            text(out, address, standard);
        }
        out.extend_from_slice(b"},\"brokerName\":");
        text(out, &self.broker_name, standard);
        out.extend_from_slice(b",\"cluster\":");
        text(out, &self.cluster, standard);
        out.extend_from_slice(b",\"enableActingMaster\":");
        out.extend_from_slice(if self.enable_acting_master { b"true" } else { b"false" });
        if let Some(zone_name) = &self.zone_name {
            out.extend_from_slice(b",\"zoneName\":");
            text(out, zone_name, standard);
        }
        out.push(b'}');
    }
}

impl QueueData {
    fn write(&self, out: &mut Vec<u8>, standard: bool) {
        out.extend_from_slice(b"{\"brokerName\":");
        text(out, &self.broker_name, standard);
        let numbers = [
            (&b",\"perm\":"[..], self.perm),
            (b",\"readQueueNums\":", self.read_queue_nums),
            (b",\"topicSysFlag\":", self.topic_sys_flag),
            (b",\"writeQueueNums\":", self.write_queue_nums),
        ];
        for (name, number) in numbers {
            out.extend_from_slice(name);
            write_integer(out, number.into());
        }
        out.push(b'}');
    }
}

/// The comma before every item but the first.
pub(super) fn comma(out: &mut Vec<u8>, at: usize) {
    if at > 0 {
        out.push(b',');
    }
}

/// A JSON string; `ascii` escapes everything else by UTF-16 unit, as fastjson does for browsers.
pub(super) fn text(out: &mut Vec<u8>, text: &str, ascii: bool) {
    if !ascii || text.is_ascii() {
        return write_string(out, text);
    }
    let start = out.len();
    write_string(out, text);
    let written = String::from_utf8_lossy(&out.split_off(start)).into_owned();
    for character in written.chars() {
        if character.is_ascii() {
            out.push(character as u8);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            out.extend_from_slice(format!("\\u{unit:04X}").as_bytes());
        }
    }
}
