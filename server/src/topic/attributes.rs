//! A topic's attributes and how they are changed: `+key=value,-key`.
//!
//! Knows RocketMQ's keys and which values of them are built here. Kinds of queues and clean-up that aren't built are
//! refused, since a topic that asks for them would be treated as something else.

use std::collections::BTreeMap;

type Attributes = BTreeMap<String, String>;

/// What a key takes.
struct Kind {
    key: &'static str,
    /// Whether it can change once the topic exists.
    changeable: bool,
    accepts: fn(&str) -> Result<(), &'static str>,
}

const KINDS: &[Kind] = &[
    Kind { key: "queue.type", changeable: false, accepts: |value| only(value, "SimpleCQ", &["BatchCQ"]) },
    Kind {
        key: "cleanup.policy",
        changeable: false,
        accepts: |value| only(value, "DELETE", &["COMPACTION"]),
    },
    Kind { key: "message.type", changeable: true, accepts: message_type },
    Kind { key: "reserve.time", changeable: true, accepts: reserve_time },
];

/// The attributes after `changes`; `current` is `None` for a topic that is being created.
pub(super) fn apply(current: Option<&Attributes>, changes: &str) -> Result<Attributes, String> {
    let mut attributes = current.cloned().unwrap_or_default();
    let mut seen: Vec<&str> = Vec::new();
    for change in changes.split(',').map(str::trim).filter(|change| !change.is_empty()) {
        let (key, value) = parse(change)?;
        if seen.contains(&key) {
            return Err(format!("alter duplication key. key: {key}"));
        }
        seen.push(key);
        let kind =
            KINDS.iter().find(|kind| kind.key == key).ok_or_else(|| format!("unsupported key: {key}"))?;
        if current.is_some() && !kind.changeable {
            return Err(format!("attempt to update an unchangeable attribute. key: {key}"));
        }
        match value {
            Some(value) => {
                (kind.accepts)(value).map_err(|problem| format!("{problem}, key: {key}, value: {value}"))?;
                attributes.insert(key.to_owned(), value.to_owned());
            }
            None if current.is_none() => {
                return Err(format!("only add attribute is supported while creating topic. key: {key}"));
            }
            None if attributes.remove(key).is_none() => {
                return Err(format!("attempt to delete a nonexistent key: {key}"));
            }
            None => {}
        }
    }
    Ok(attributes)
}

/// (key, value to set), or (key, none) to remove.
fn parse(change: &str) -> Result<(&str, Option<&str>), String> {
    match (change.strip_prefix('+').and_then(|set| set.split_once('=')), change.strip_prefix('-')) {
        (Some((key, value)), _) => Ok((key.trim(), Some(value.trim()))),
        (None, Some(key)) if !key.contains('=') => Ok((key.trim(), None)),
        _ => Err(format!("attribute change `{change}` is neither +key=value nor -key")),
    }
}

fn only(value: &str, built: &str, unbuilt: &[&str]) -> Result<(), &'static str> {
    match value {
        value if value == built => Ok(()),
        value if unbuilt.contains(&value) => Err("this kind isn't built yet"),
        _ => Err("value is not in set"),
    }
}

fn message_type(value: &str) -> Result<(), &'static str> {
    let known = ["UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"];
    if known.contains(&value) { Ok(()) } else { Err("value is not in set") }
}

/// Hours; −1 is the broker's own.
fn reserve_time(value: &str) -> Result<(), &'static str> {
    match value.parse::<i64>() {
        Ok(hours) if hours >= -1 => Ok(()),
        _ => Err("value is not a number of hours"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(current: Option<&[(&str, &str)]>, changes: &str, expected: Result<&[(&str, &str)], &str>) {
        let own = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<Attributes>()
        };
        let current = current.map(own);
        match (apply(current.as_ref(), changes), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, own(expected), "{changes}"),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{changes}: {found}"),
            (found, _) => panic!("{changes}: {found:?}"),
        }
    }

    #[test]
    fn attributes_are_set_changed_and_removed_by_their_rules() {
        check(None, "", Ok(&[]));
        check(
            None,
            "+message.type=FIFO,+queue.type=SimpleCQ",
            Ok(&[("message.type", "FIFO"), ("queue.type", "SimpleCQ")]),
        );
        check(Some(&[("message.type", "FIFO")]), "+message.type=DELAY", Ok(&[("message.type", "DELAY")]));
        check(
            Some(&[("message.type", "FIFO")]),
            "-message.type,+reserve.time=-1",
            Ok(&[("reserve.time", "-1")]),
        );
        check(None, "-message.type", Err("only add"));
        check(Some(&[]), "-message.type", Err("nonexistent"));
        check(Some(&[]), "+queue.type=SimpleCQ", Err("unchangeable"));
        check(None, "+queue.type=BatchCQ", Err("isn't built"));
        check(None, "+message.type=ODD", Err("not in set"));
        check(None, "+colour=red", Err("unsupported key"));
        check(None, "+message.type=FIFO,+message.type=DELAY", Err("duplication"));
        check(None, "message.type=FIFO", Err("neither"));
        check(None, "+reserve.time=soon", Err("hours"));
    }
}
