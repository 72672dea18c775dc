//! The name server's tables of texts (100, 101, 102, 219): namespaces of keys and values, in memory and bounded.
//!
//! RocketMQ keeps them in a file; here they are gone after a restart. The only ones that brokers and clients use are the
//! orders of ordered topics, which `mqadmin updateOrderConf` sets.

use std::collections::BTreeMap;
use std::fmt;

use protocol::body::KvTable;

/// All namespaces.
#[derive(Default)]
pub struct KvConfig {
    namespaces: BTreeMap<String, BTreeMap<String, String>>,
    /// Bytes of all names, keys and values.
    bytes: usize,
}

/// No room for another value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KvFull;

impl fmt::Display for KvFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the name server's KV tables hold {KV_BYTES_MAX} bytes and take no more")
    }
}

impl KvConfig {
    /// Sets a value.
    ///
    /// # Errors
    ///
    /// When it doesn't fit; then nothing has changed.
    pub fn put(&mut self, namespace: &str, key: &str, value: &str) -> Result<(), KvFull> {
        let before = self.get(namespace, key).map_or(0, |value| entry_bytes(namespace, key, value));
        let bytes = self.bytes - before + entry_bytes(namespace, key, value);
        if bytes > KV_BYTES_MAX {
            return Err(KvFull);
        }
        self.bytes = bytes;
        self.namespaces.entry(namespace.to_owned()).or_default().insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    /// The value, if it is set.
    pub fn get(&self, namespace: &str, key: &str) -> Option<&str> {
        self.namespaces.get(namespace)?.get(key).map(String::as_str)
    }

    /// Takes a value away, if it is set. The namespace stays, as in RocketMQ.
    pub fn delete(&mut self, namespace: &str, key: &str) {
        let removed = self.namespaces.get_mut(namespace).and_then(|table| table.remove(key));
        if let Some(value) = removed {
            self.bytes -= entry_bytes(namespace, key, &value);
        }
    }

    /// A whole namespace, if it has ever been used.
    pub fn namespace(&self, namespace: &str) -> Option<KvTable> {
        self.namespaces.get(namespace).map(|table| KvTable { table: table.clone() })
    }
}

/// The namespace is counted with every entry: simpler, and never too little.
fn entry_bytes(namespace: &str, key: &str, value: &str) -> usize {
    namespace.len() + key.len() + value.len() + ENTRY_OVERHEAD_BYTES
}

/// The namespace of ordered topics' queues: topic to `broker-a:4;broker-b:4`.
pub const ORDER_TOPIC_CONFIG: &str = "ORDER_TOPIC_CONFIG";
/// Memory of all namespaces together.
pub const KV_BYTES_MAX: usize = 16 << 20;
/// Two strings and a place in a tree.
const ENTRY_OVERHEAD_BYTES: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_set_changed_listed_and_removed() {
        let mut kv = KvConfig::default();
        assert_eq!(kv.namespace("n"), None);
        kv.put("n", "k", "1").unwrap();
        kv.put("n", "k", "22").unwrap();
        kv.put("n", "l", "3").unwrap();
        assert_eq!((kv.get("n", "k"), kv.get("n", "x"), kv.get("m", "k")), (Some("22"), None, None));
        assert_eq!(kv.namespace("n").unwrap().to_json(), br#"{"table":{"k":"22","l":"3"}}"#);
        for key in ["k", "l", "absent"] {
            kv.delete("n", key);
        }
        assert_eq!(kv.namespace("n").unwrap().to_json(), br#"{"table":{}}"#);
        assert_eq!(kv.bytes, 0, "what was counted is given back");
    }

    #[test]
    fn memory_is_bounded_and_given_back() {
        let mut kv = KvConfig::default();
        let value = "v".repeat(1 << 20);
        let fitting = (0..).take_while(|index| kv.put("n", &index.to_string(), &value).is_ok()).count();
        assert_eq!(fitting, 15);
        assert_eq!(kv.put("n", "more", &value), Err(KvFull));
        kv.put("n", "0", &value).unwrap();
        kv.delete("n", "0");
        kv.put("n", "more", &value).unwrap();
    }
}
