//! `consumerOffset.json`: how far each group has consumed each queue of each topic.
//!
//! `{"offsetTable":{"topic@group":{0:10,1:20}}}`, the value being the **next** offset to consume. 5.x adds `dataVersion`
//! and `groupTopicMap`; the latter follows from the table and is written anew.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{TableError, bare_key, integer_key, object, read, write};

/// The file's content. Fields of other versions are kept and written back.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ConsumerOffsetTable {
    /// (topic, group) to queue id to next offset.
    pub offsets: BTreeMap<(String, String), BTreeMap<i32, i64>>,
    /// Top-level fields that aren't ours, `dataVersion` among them.
    other: Map<String, Value>,
}

impl ConsumerOffsetTable {
    /// Reads the file's text.
    ///
    /// # Errors
    ///
    /// When it isn't such a table; nothing is read then, for a group that starts over reads everything again.
    pub fn parse(text: &str) -> Result<ConsumerOffsetTable, TableError> {
        let mut table = read(text)?;
        let mut offsets = BTreeMap::new();
        for (key, queues) in object(&table, OFFSET_TABLE)?.into_iter().flatten() {
            // Topics can't contain the separator, so the first one is it; RocketMQ skips keys without one.
            let Some((topic, group)) = key.split_once(SEPARATOR) else { continue };
            let queues = queues.as_object().ok_or_else(|| TableError::Shape {
                field: key.clone(),
                expected: "an object of queue ids",
            })?;
            let pairs: Option<BTreeMap<i32, i64>> = queues
                .iter()
                .map(|(queue, next)| Some((i32::try_from(integer_key(queue)?).ok()?, next.as_i64()?)))
                .collect();
            let pairs = pairs
                .ok_or_else(|| TableError::Shape { field: key.clone(), expected: "queue ids and offsets" })?;
            offsets.insert((topic.to_owned(), group.to_owned()), pairs);
        }
        table.retain(|field, _| field != OFFSET_TABLE && field != GROUP_TOPIC_MAP);
        Ok(ConsumerOffsetTable { offsets, other: table })
    }

    /// The file's text, as 5.1.4 writes it; 4.9.7 reads it too.
    pub fn to_text(&self) -> String {
        let mut table = self.other.clone();
        let mut by_group: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        let mut offsets = Map::new();
        for ((topic, group), queues) in &self.offsets {
            by_group.entry(group).or_default().push(Value::from(topic.as_str()));
            let queues: Map<String, Value> =
                queues.iter().map(|(queue, next)| (bare_key((*queue).into()), Value::from(*next))).collect();
            offsets.insert(format!("{topic}{SEPARATOR}{group}"), Value::Object(queues));
        }
        let by_group: Map<String, Value> =
            by_group.into_iter().map(|(group, topics)| (group.to_owned(), Value::Array(topics))).collect();
        table.insert(GROUP_TOPIC_MAP.to_owned(), Value::Object(by_group));
        table.insert(OFFSET_TABLE.to_owned(), Value::Object(offsets));
        table.sort_keys();
        write(&table)
    }
}

const OFFSET_TABLE: &str = "offsetTable";
const GROUP_TOPIC_MAP: &str = "groupTopicMap";
const SEPARATOR: char = '@';

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table_text::{golden, sorted_lines};

    fn key(topic: &str, group: &str) -> (String, String) {
        (topic.to_owned(), group.to_owned())
    }

    #[test]
    fn both_versions_texts_are_read() {
        let old = "{\n\t\"offsetTable\":{\n\t\t\"T@G\":{0:10,1:20\n\t\t}\n\t}\n}";
        let new = "{\"dataVersion\":{\"counter\":0},\"groupTopicMap\":{\"X\":[\"Y\"]},\"offsetTable\":{\"T@G\":{\"0\":10,\"1\":20}}}";
        let expected = BTreeMap::from([(key("T", "G"), BTreeMap::from([(0, 10), (1, 20)]))]);
        assert_eq!(ConsumerOffsetTable::parse(old).unwrap().offsets, expected);
        assert_eq!(ConsumerOffsetTable::parse(new).unwrap().offsets, expected);
    }

    #[test]
    fn text_has_rocketmqs_form_and_keeps_unknown_fields() {
        let mut table = ConsumerOffsetTable::parse("{\"zoo\":[1],\"dataVersion\":{\"counter\":3}}").unwrap();
        table.offsets.insert(key("T", "G"), BTreeMap::from([(0, 10), (11, 20)]));
        table.offsets.insert(key("%RETRY%G", "G"), BTreeMap::new());
        let expected = "{\n\t\"dataVersion\":{\n\t\t\"counter\":3\n\t},\n\t\"groupTopicMap\":{\n\t\t\"G\":[\"%RETRY%G\",\"T\"]\n\t},\n\
                        \t\"offsetTable\":{\n\t\t\"%RETRY%G@G\":{},\n\t\t\"T@G\":{0:10,11:20\n\t\t}\n\t},\n\t\"zoo\":[1]\n}";
        assert_eq!(table.to_text(), expected);
        assert_eq!(ConsumerOffsetTable::parse(expected).unwrap(), table);
    }

    #[test]
    fn golden_offsets_are_read_and_written_as_5_1_4_does() {
        let text = golden("store-5.1.4-clean/store.tar.xz", "store/config/consumerOffset.json");
        let table = ConsumerOffsetTable::parse(&text).unwrap();
        assert_eq!(
            table.offsets[&key("FivePlain", "FiveLagGroup")],
            BTreeMap::from([(0, 10), (1, 20), (2, 0)])
        );
        // The topics of a group stand on one line, in the order of a hash set.
        let without_topics =
            |text: &str| text.lines().filter(|line| !line.contains(":[")).collect::<Vec<_>>().join("\n");
        let (written, expected) = (without_topics(&table.to_text()), without_topics(&text));
        assert_eq!(sorted_lines(&written), sorted_lines(&expected));
        let text = golden("store-4.9.7-clean/store.tar.xz", "store/config/consumerOffset.json");
        let table = ConsumerOffsetTable::parse(&text).unwrap();
        assert_eq!(
            table.offsets[&key("GoldPlain", "GoldFullGroup")],
            BTreeMap::from([(0, 106), (1, 105), (2, 104), (3, 105)])
        );
        assert_eq!(table.offsets.len(), 6);
    }

    #[test]
    fn damage_is_refused_whole() {
        for text in [
            "",
            "{\"offsetTable\":1}",
            "{\"offsetTable\":{\"T@G\":3}}",
            "{\"offsetTable\":{\"T@G\":{x:1}}}",
            "{\"offsetTable\":{\"T@G\":{\"x\":1}}}",
            "{\"offsetTable\":{\"T@G\":{0:\"1\"}}}",
            "{\"offsetTable\":{\"T@G\":{0:1",
        ] {
            assert!(ConsumerOffsetTable::parse(text).is_err(), "{text}");
        }
    }
}
