//! The answer of GET_BROKER_CLUSTER_INFO 106: all brokers by name, and all names by cluster (name server, 3). Always with
//! bare broker ids, whatever the client's version.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::BodyError;
use super::lenient::{or_default, parse};
use super::route::{BrokerData, comma, text};

/// All brokers that a name server knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterInfo {
    /// Brokers by name.
    #[serde(deserialize_with = "or_default")]
    pub broker_addr_table: BTreeMap<String, BrokerData>,
    /// Broker names by cluster.
    #[serde(deserialize_with = "or_default")]
    pub cluster_addr_table: BTreeMap<String, BTreeSet<String>>,
}

impl ClusterInfo {
    /// Reads it, with broker ids bare or quoted.
    pub fn from_json(body: &[u8]) -> Result<ClusterInfo, BodyError> {
        parse(body)
    }

    /// Writes it.
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(b"{\"brokerAddrTable\":{");
        for (at, (name, broker)) in self.broker_addr_table.iter().enumerate() {
            comma(&mut out, at);
            text(&mut out, name, false);
            out.push(b':');
            broker.write(&mut out, false);
        }
        out.extend_from_slice(b"},\"clusterAddrTable\":{");
        for (at, (cluster, names)) in self.cluster_addr_table.iter().enumerate() {
            comma(&mut out, at);
            text(&mut out, cluster, false);
            out.extend_from_slice(b":[");
            for (at, name) in names.iter().enumerate() {
                comma(&mut out, at);
                text(&mut out, name, false);
            }
            out.push(b']');
        }
        out.extend_from_slice(b"}}");
        out
    }
}
