//! The properties string of a message: `name 0x01 value 0x02` repeated (store, 2.3; remoting protocol, 2.6). Reads it in
//! place, never builds a map. What RocketMQ drops when it parses such a string is dropped here too: pieces without a
//! separator, with an empty name, or with an empty value.

/// Between a name and its value.
pub const NAME_VALUE_SEPARATOR: char = '\u{1}';
/// Behind each value; the last one may be missing.
pub const PROPERTY_SEPARATOR: char = '\u{2}';

/// Names that clients, brokers and tools agree on.
pub mod name {
    /// Space-separated keys for the index.
    pub const KEYS: &str = "KEYS";
    /// The tag, which consumers filter by.
    pub const TAGS: &str = "TAGS";
    /// `false`: answer without waiting for disk or slave.
    pub const WAIT: &str = "WAIT";
    /// Delay level, 1 to 18.
    pub const DELAY: &str = "DELAY";
    /// Original topic of a message in a retry or dead-letter topic.
    pub const RETRY_TOPIC: &str = "RETRY_TOPIC";
    /// Original topic of a parked message.
    pub const REAL_TOPIC: &str = "REAL_TOPIC";
    /// Original queue of a parked message.
    pub const REAL_QID: &str = "REAL_QID";
    /// Producer group of a transactional message.
    pub const PGROUP: &str = "PGROUP";
    /// `true`: the first half of a transaction.
    pub const TRAN_MSG: &str = "TRAN_MSG";
    /// The client's id of the message.
    pub const UNIQ_KEY: &str = "UNIQ_KEY";
    /// Offset message id of the first delivery of a retried message.
    pub const ORIGIN_MESSAGE_ID: &str = "ORIGIN_MESSAGE_ID";
    /// How often it was redelivered, when a client sends to a retry topic itself.
    pub const RECONSUME_TIME: &str = "RECONSUME_TIME";
    /// Most redeliveries, when a client sends to a retry topic itself.
    pub const MAX_RECONSUME_TIMES: &str = "MAX_RECONSUME_TIMES";
    /// The broker's region.
    pub const MSG_REGION: &str = "MSG_REGION";
    /// Whether clients should trace the message.
    pub const TRACE_ON: &str = "TRACE_ON";
    /// The broker's cluster; set by the broker, needed for request and reply.
    pub const CLUSTER: &str = "CLUSTER";
    /// `reply` for answers to a request.
    pub const MSG_TYPE: &str = "MSG_TYPE";
    /// Ordered sending: what messages were sharded by.
    pub const SHARDING_KEY: &str = "__SHARDINGKEY";
    /// Timer message: seconds from now.
    pub const TIMER_DELAY_SEC: &str = "TIMER_DELAY_SEC";
    /// Timer message: milliseconds from now.
    pub const TIMER_DELAY_MS: &str = "TIMER_DELAY_MS";
    /// Timer message: due time in milliseconds of the epoch.
    pub const TIMER_DELIVER_MS: &str = "TIMER_DELIVER_MS";
    /// Receipt of a POP; brokers delete it from what is sent to them.
    pub const POP_CK: &str = "POP_CK";
    /// Number of messages in an inner batch.
    pub const INNER_NUM: &str = "INNER_NUM";
    /// Base offset of an inner batch.
    pub const INNER_BASE: &str = "INNER_BASE";
    /// Queues that a light message is dispatched to as well.
    pub const INNER_MULTI_DISPATCH: &str = "INNER_MULTI_DISPATCH";
    /// Queue offsets in those.
    pub const INNER_MULTI_QUEUE_OFFSET: &str = "INNER_MULTI_QUEUE_OFFSET";
    /// Checksum over the whole record.
    pub const CRC32: &str = "__CRC32#";
    /// Transaction: the queue offset of the prepared message.
    pub const TRAN_PREPARED_QUEUE_OFFSET: &str = "TRAN_PREPARED_QUEUE_OFFSET";
    /// Transaction: its id.
    pub const TRANSACTION_ID: &str = "__transactionId__";
}

/// The properties in the order they stand, duplicates included. A later one of the same name is the one that counts.
pub fn iter(properties: &str) -> impl Iterator<Item = (&str, &str)> {
    properties.split(PROPERTY_SEPARATOR).filter_map(|piece| {
        let (name, value) = piece.split_once(NAME_VALUE_SEPARATOR)?;
        (!name.is_empty() && !value.is_empty()).then_some((name, value))
    })
}

/// The value of a property; the last one of this name.
pub fn get<'a>(properties: &'a str, name: &str) -> Option<&'a str> {
    iter(properties).filter(|(found, _)| *found == name).last().map(|(_, value)| value)
}

/// Appends one property, `0x02` included. Neither text may hold a separator.
pub fn write(out: &mut String, name: &str, value: &str) {
    let separators = [NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR];
    assert!(!name.contains(separators), "separator in the property name {name:?}");
    assert!(!value.contains(separators), "separator in the value of the property {name}");
    out.push_str(name);
    out.push(NAME_VALUE_SEPARATOR);
    out.push_str(value);
    out.push(PROPERTY_SEPARATOR);
}

/// Java's `String.hashCode`: over UTF-16 units, wrapping.
pub fn java_string_hash(text: &str) -> i32 {
    let step = |hash: i32, unit: i32| hash.wrapping_mul(31).wrapping_add(unit);
    if text.is_ascii() {
        return text.bytes().fold(0, |hash, byte| step(hash, byte.into()));
    }
    text.encode_utf16().fold(0, |hash, unit| step(hash, unit.into()))
}

/// What a queue's index holds for the tag of a message: its hash, sign-extended; 0 without a tag.
pub fn tags_code(properties: &str) -> i64 {
    get(properties, name::TAGS).map_or(0, |tags| java_string_hash(tags).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(properties: &str, expected: &[(&str, &str)]) {
        assert_eq!(iter(properties).collect::<Vec<_>>(), expected, "{properties:?}");
    }

    #[test]
    fn pieces_that_rocketmq_drops_are_dropped() {
        check("", &[]);
        check("A\x011\x02B\x01\x02C\x01x", &[("A", "1"), ("C", "x")]);
        check("A\x011\x02", &[("A", "1")]);
        check("A\x01\x02\x01x\x02novalue\x02\x02A\x01b", &[("A", "b")]);
        check("A\x01b\x01c", &[("A", "b\x01c")]);
        check("订\x01单\x02", &[("订", "单")]);
    }

    #[test]
    fn later_duplicate_wins() {
        assert_eq!(get("K\x011\x02K\x012\x02K\x01", "K"), Some("2"));
        assert_eq!(get("K\x011", "k"), None);
    }

    #[test]
    fn tags_code_is_javas_hash() {
        assert_eq!(tags_code("TAGS\x01TagA\x02"), 2_598_919);
        assert_eq!(tags_code("KEYS\x01k\x02TAGS\x01TagB"), 2_598_920);
        assert_eq!(tags_code("TAGS\x01*"), 42);
        assert_eq!(tags_code("TAGS\x01订单"), 1_129_459);
        assert_eq!(tags_code("KEYS\x01k"), 0);
        // A pair of surrogates counts as two units, and the sum wraps below zero.
        assert_eq!(java_string_hash("\u{1F600}"), 0xd83d * 31 + 0xde00);
        assert!(java_string_hash("polygenelubricants") == i32::MIN);
    }
}
