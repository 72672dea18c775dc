//! How far groups have consumed: `config/consumerOffset.json` as live state.
//!
//! A commit stores what it is given, even if smaller, as RocketMQ does. Never writes the file itself.

use crate::table_text::{TableError, consumer_offset::ConsumerOffsetTable};

/// See the module.
#[derive(Debug, Default)]
pub struct ConsumerOffsets {
    table: ConsumerOffsetTable,
    is_changed: bool,
}

impl ConsumerOffsets {
    /// Reads the file's text.
    ///
    /// # Errors
    /// When it isn't such a table.
    pub fn parse(text: &str) -> Result<ConsumerOffsets, TableError> {
        Ok(ConsumerOffsets { table: ConsumerOffsetTable::parse(text)?, is_changed: false })
    }

    /// The file's text as of now.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.table.to_text()
    }

    /// The next message that `group` consumes of a queue; `None` when it never committed one.
    #[must_use]
    pub fn get(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        let key = (topic.to_owned(), group.to_owned());
        self.table.offsets.get(&key)?.get(&queue_id).copied()
    }

    /// `group` consumes `topic` from `offset` on.
    pub fn set(&mut self, group: &str, topic: &str, queue_id: i32, offset: i64) {
        let key = (topic.to_owned(), group.to_owned());
        let before = self.table.offsets.entry(key).or_default().insert(queue_id, offset);
        self.is_changed |= before != Some(offset);
    }

    /// Whether anything changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_commit_counts_even_if_it_is_smaller() {
        let mut offsets = ConsumerOffsets::default();
        assert_eq!(offsets.get("G", "T", 0), None);
        offsets.set("G", "T", 0, 9);
        offsets.set("G", "T", 0, 3);
        assert_eq!(offsets.get("G", "T", 0), Some(3));
        assert!(offsets.take_changed());
        offsets.set("G", "T", 0, 3);
        assert!(!offsets.take_changed(), "the same value again is no change");
        let again = ConsumerOffsets::parse(&offsets.to_text()).unwrap();
        assert_eq!(again.get("G", "T", 0), Some(3));
    }
}
