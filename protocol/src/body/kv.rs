//! A table of texts: the counters of a broker (28), a name server's namespace (219, and the answer of 103).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::BodyError;
use super::lenient::{or_default, parse};

/// `{"table":{…}}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KvTable {
    /// Values by name.
    #[serde(deserialize_with = "or_default")]
    pub table: BTreeMap<String, String>,
}

impl KvTable {
    /// Reads it.
    pub fn from_json(body: &[u8]) -> Result<KvTable, BodyError> {
        parse(body)
    }

    /// Writes it.
    pub fn to_json(&self) -> Vec<u8> {
        super::to_json(self)
    }
}
