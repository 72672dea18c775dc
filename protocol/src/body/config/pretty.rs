//! fastjson's pretty print, as far as the tables under `config/` need it.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::codec::{json::write_string, write_integer};

/// What is printed.
pub(super) enum Node {
    /// One member a line.
    Object(BTreeMap<String, Node>),
    /// A map of integers to integers: bare keys, all on one line but the closing brace.
    Numbers(BTreeMap<i64, i64>),
    /// A list of objects, one a line.
    List(Vec<Node>),
    /// Anything that stays on its line.
    Inline(String),
}

impl From<Value> for Node {
    fn from(value: Value) -> Node {
        match value {
            Value::Object(members) => {
                Node::Object(members.into_iter().map(|(name, member)| (name, member.into())).collect())
            }
            Value::Array(items) if items.iter().any(Value::is_object) => {
                Node::List(items.into_iter().map(Node::from).collect())
            }
            other => Node::Inline(other.to_string()),
        }
    }
}

impl Node {
    /// The whole text, without a newline at its end.
    pub(super) fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_at(&mut out, 0);
        out
    }

    fn write_at(&self, out: &mut Vec<u8>, depth: usize) {
        match self {
            Node::Object(members) if members.is_empty() => out.extend_from_slice(b"{}"),
            Node::Object(members) => {
                out.push(b'{');
                for (at, (name, member)) in members.iter().enumerate() {
                    new_item(out, at, depth + 1);
                    write_string(out, name);
                    out.push(b':');
                    member.write_at(out, depth + 1);
                }
                new_line(out, depth);
                out.push(b'}');
            }
            Node::Numbers(pairs) if pairs.is_empty() => out.extend_from_slice(b"{}"),
            Node::Numbers(pairs) => {
                out.push(b'{');
                for (at, (key, value)) in pairs.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    write_integer(out, *key);
                    out.push(b':');
                    write_integer(out, *value);
                }
                new_line(out, depth);
                out.push(b'}');
            }
            Node::List(items) => {
                out.push(b'[');
                for (at, item) in items.iter().enumerate() {
                    new_item(out, at, depth + 1);
                    item.write_at(out, depth + 1);
                }
                new_line(out, depth);
                out.push(b']');
            }
            Node::Inline(text) => out.extend_from_slice(text.as_bytes()),
        }
    }
}

fn new_item(out: &mut Vec<u8>, at: usize, depth: usize) {
    if at > 0 {
        out.push(b',');
    }
    new_line(out, depth);
}

fn new_line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.extend(std::iter::repeat_n(b'\t', depth));
}
