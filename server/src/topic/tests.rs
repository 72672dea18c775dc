//! Rules of the topic table, and its text against what RocketMQ wrote.

use super::*;
use crate::table_text::golden;

const BOOT: BootTopics<'static> = BootTopics {
    cluster_name: "DefaultCluster",
    broker_name: "broker-a",
    auto_create_topic_enable: true,
    default_topic_queue_nums: 8,
    cluster_topic_enable: true,
    broker_topic_enable: true,
    trace_topic_enable: false,
};

fn booted() -> TopicTable {
    let mut table = TopicTable::default();
    table.boot(&BOOT);
    table
}

fn send(topic: &str) -> SendCreate<'_> {
    SendCreate { topic, default_topic: "TBW102", default_topic_queue_nums: 4, unit_mode: false }
}

fn update<'a>(topic: &'a str) -> CreateTopicRequest<'a> {
    CreateTopicRequest {
        topic,
        default_topic: "TBW102",
        read_queue_nums: 8,
        write_queue_nums: 8,
        perm: 6,
        topic_filter_type: Some("SINGLE_TAG"),
        topic_sys_flag: 0,
        order: false,
        attributes: None,
        force: false,
    }
}

#[test]
fn a_broker_starts_with_the_topics_that_others_refer_to() {
    let table = booted();
    let mut found: Vec<_> =
        table.iter().map(|t| (t.topic_name.as_str(), t.write_queue_nums, t.perm)).collect();
    found.sort_unstable();
    let expected = [
        ("BenchmarkTest", 1_024, 6),
        ("DefaultCluster", 16, 7),
        ("OFFSET_MOVED_EVENT", 1, 6),
        ("SELF_TEST_TOPIC", 1, 6),
        ("TBW102", 8, 7),
        ("broker-a", 1, 7),
    ];
    assert_eq!(found, expected);
    assert_eq!(table.data_version(), DataVersion::default(), "made at every start, so no change");
}

#[test]
fn boot_leaves_what_the_store_has_and_takes_back_inheritance_when_auto_creation_is_off() {
    let mut table = booted();
    table.topics.get_mut("BenchmarkTest").unwrap().config.write_queue_nums = 3;
    let off = BootTopics {
        auto_create_topic_enable: false,
        cluster_topic_enable: false,
        trace_topic_enable: true,
        ..BOOT
    };
    table.boot(&off);
    assert_eq!(table.get("BenchmarkTest").unwrap().write_queue_nums, 3);
    assert_eq!(table.get("TBW102").unwrap().perm, 6);
    assert_eq!(table.create_on_send(send("T"), 1).unwrap_err().code(), 17);
    let mut fresh = TopicTable::default();
    fresh.boot(&off);
    assert!(fresh.get("TBW102").is_none());
    assert_eq!(fresh.get("DefaultCluster").unwrap().perm, 1);
    assert_eq!(fresh.get("RMQ_SYS_TRACE_TOPIC").unwrap().perm, 6);
}

#[test]
fn a_first_send_creates_the_topic_with_the_smaller_queue_count() {
    let cases = [(4, 4), (8, 8), (16, 8), (0, 0), (-3, 0)];
    for (asked, queues) in cases {
        let mut table = booted();
        let request = SendCreate { default_topic_queue_nums: asked, ..send("T") };
        let (config, changed) = table.create_on_send(request, 77).unwrap();
        assert!(changed);
        assert_eq!((config.read_queue_nums, config.write_queue_nums, config.perm), (queues, queues, 6));
        assert_eq!((table.data_version().counter, table.data_version().timestamp), (1, 77));
        let (_, changed) = table.create_on_send(request, 88).unwrap();
        assert!(!changed && table.data_version().timestamp == 77);
    }
}

#[test]
fn topics_inherit_only_from_a_topic_that_lets_them() {
    let mut table = booted();
    let from = |default_topic| SendCreate { default_topic, ..send("New") };
    for (template, code) in [("SELF_TEST_TOPIC", 17), ("NoSuch", 17)] {
        assert_eq!(table.create_on_send(from(template), 1).unwrap_err().code(), code);
    }
    assert_eq!(table.create_on_send(from("DefaultCluster"), 1).unwrap().0.write_queue_nums, 4);
    let (config, changed) = table.create_on_send(from("broker-a"), 1).unwrap();
    assert!(!changed && config.write_queue_nums == 4, "it exists by now");
}

#[test]
fn retry_topics_are_made_even_without_a_template() {
    let mut table = booted();
    let request = SendCreate { default_topic: "NoSuch", unit_mode: true, ..send("%RETRY%G") };
    let (config, _) = table.create_on_send(request, 1).unwrap();
    assert_eq!((config.write_queue_nums, config.perm, config.topic_sys_flag), (1, 6, 2));
    let request = SendCreate { default_topic: "NoSuch", ..send("%DLQ%G") };
    assert_eq!(table.create_on_send(request, 1).unwrap_err().code(), 17);
}

#[test]
fn a_groups_retry_topic_is_made_once_and_follows_its_order() {
    let mut table = booted();
    let (config, changed) = table.create_retry("G", 1, false, false, 1).unwrap();
    assert!(changed && config.topic_name == "%RETRY%G" && config.write_queue_nums == 1 && !config.order);
    assert!(!table.create_retry("G", 1, false, false, 2).unwrap().1);
    assert!(table.create_retry("G", 1, false, true, 3).unwrap().1);
    assert!(table.get("%RETRY%G").unwrap().order);
    let long = "g".repeat(249);
    assert_eq!(table.create_retry(&long, 1, false, false, 4), Err(TopicError::TooLong));
    assert!(table.create_retry(&long[1..], 1, false, false, 4).is_ok());
}

#[test]
fn illegal_names_get_rocketmqs_code_and_text() {
    let long = "t".repeat(128);
    let cases = [
        ("", 1, "The specified topic is blank."),
        (" ", 1, "The specified topic is blank."),
        ("a b", 1, "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
        ("täglich", 1, "illegal characters"),
        (long.as_str(), 1, "The specified topic is longer than topic max length."),
        ("SCHEDULE_TOPIC_XXXX", 16, "Sending message to topic[SCHEDULE_TOPIC_XXXX] is forbidden."),
        ("OFFSET_MOVED_EVENT", 16, "is forbidden."),
    ];
    for (topic, code, remark) in cases {
        let error = booted().create_on_send(send(topic), 1).unwrap_err();
        assert_eq!(error.code(), code, "{topic}");
        assert!(error.to_string().contains(remark), "{topic}: {error}");
    }
    let error = booted().create_on_send(SendCreate { default_topic: "X", ..send("T") }, 1).unwrap_err();
    assert!(error.to_string().starts_with("topic[T] not exist, apply first please!\nSee "), "{error}");
    assert!(booted().create_on_send(send(&long[1..]), 1).is_ok());
}

#[test]
fn creating_replaces_settings_merges_attributes_and_ignores_what_is_the_same() {
    let mut table = booted();
    let attributes = Some("+message.type=FIFO");
    assert_eq!(table.update(&CreateTopicRequest { attributes, ..update("T") }, 5), Ok(true));
    assert_eq!(table.update(&CreateTopicRequest { attributes: None, ..update("T") }, 6), Ok(false));
    let wider =
        CreateTopicRequest { read_queue_nums: 9, write_queue_nums: 2, perm: 4, order: true, ..update("T") };
    assert_eq!(table.update(&wider, 7), Ok(true));
    let config = table.get("T").unwrap();
    assert_eq!((config.read_queue_nums, config.write_queue_nums, config.perm, config.order), (9, 2, 4, true));
    assert_eq!(config.attributes["message.type"], "FIFO");
    assert_eq!((table.data_version().counter, table.data_version().timestamp), (2, 7));
}

#[test]
fn creating_refuses_what_cannot_be_without_changing_anything() {
    let mut table = booted();
    let bad = [
        update("TBW102"),
        update("rmq_sys_x"),
        update("a b"),
        CreateTopicRequest { read_queue_nums: -1, ..update("T") },
        CreateTopicRequest { write_queue_nums: QUEUE_NUMS_MAX + 1, ..update("T") },
        CreateTopicRequest { perm: 16, ..update("T") },
        CreateTopicRequest { topic_filter_type: Some("ODD"), ..update("T") },
        CreateTopicRequest { attributes: Some("+x=y"), ..update("T") },
    ];
    let before = table.clone();
    for request in &bad {
        let error = table.update(request, 9).unwrap_err();
        assert_eq!(error.code(), 1, "{request:?}");
        assert!(!error.to_string().is_empty());
    }
    assert_eq!(table, before);
}

#[test]
fn a_full_table_takes_no_more() {
    let mut table = booted();
    for index in table.len()..TOPIC_COUNT_MAX {
        table.create_on_send(send(&format!("t{index}")), 1).unwrap();
    }
    assert_eq!(table.create_on_send(send("one-more"), 2), Err(TopicError::TableFull));
    assert_eq!(table.update(&update("one-more"), 2), Err(TopicError::TableFull));
    assert_eq!(table.update(&update("t99"), 2), Ok(true), "known topics still change");
    assert_eq!(table.len(), TOPIC_COUNT_MAX);
}

#[test]
fn a_restricted_broker_registers_restricted_topics() {
    let table = booted();
    let perms = |permission| {
        let body = table.registration(permission);
        ["TBW102", "SELF_TEST_TOPIC"].map(|topic| body.topic_config_table[topic].perm)
    };
    assert_eq!(perms(6), [7, 6]);
    assert_eq!(perms(4), [4, 4]);
    assert_eq!(perms(2), [2, 2]);
    let one = table.registration_of_topic("TBW102", 4).unwrap();
    assert_eq!((one.topic_config_table.len(), one.topic_config_table["TBW102"].perm), (1, 4));
    assert!(table.registration_of_topic("none", 6).is_none());
}

#[test]
fn unknown_fields_survive_reading_changing_and_writing() {
    let text = "{\"colour\":{1:2},\"dataVersion\":{\"counter\":3,\"timestamp\":9},\"topicConfigTable\":{\"T\":{\"perm\":6,\
                \"readQueueNums\":2,\"writeQueueNums\":2,\"zeal\":[{\"a\":1}],\"topicName\":\"T\"}}}";
    let mut table = TopicTable::parse(text).unwrap();
    table.update(&update("T"), 10).unwrap();
    let written = table.to_text();
    assert!(written.contains("\"colour\":{1:2\n\t}"), "{written}");
    assert!(written.contains("\"zeal\":[{"), "{written}");
    assert!(written.contains("\"counter\":4") && written.contains("\"stateVersion\":0"), "{written}");
    assert_eq!(TopicTable::parse(&written).unwrap(), table);
}

#[test]
fn what_is_no_topic_table_is_refused() {
    for text in
        ["", "[]", "{\"topicConfigTable\":3}", "{\"topicConfigTable\":{\"T\":3}}", "{\"dataVersion\":3}"]
    {
        assert!(TopicTable::parse(text).is_err(), "{text}");
    }
    assert_eq!(TopicTable::parse("{}").unwrap(), TopicTable::default());
}

#[test]
fn golden_topics_of_5_1_4_come_back_line_for_line() {
    let text = golden("store-5.1.4-clean/store.tar.xz", "store/config/topics.json");
    let table = TopicTable::parse(&text).unwrap();
    assert_eq!(table.data_version().counter, 20);
    assert_eq!(table_text::sorted_lines(&table.to_text()), table_text::sorted_lines(&text));
}

#[test]
fn golden_topics_of_4_9_7_are_read() {
    let text = golden("store-4.9.7-clean/store.tar.xz", "store/config/topics.json");
    let mut table = TopicTable::parse(&text).unwrap();
    assert_eq!(table.len(), 28);
    assert_eq!(table.get("GoldReadOnly").unwrap().perm, 4);
    assert_eq!(table.get("SCHEDULE_TOPIC_XXXX").unwrap().write_queue_nums, 18);
    let before = table.clone();
    table.boot(&BOOT);
    assert_eq!(table, before, "it has all that we would add");
    let written = table.to_text();
    for line in text.lines().filter(|line| line.contains("Nums") || line.contains("topicName")) {
        assert!(written.contains(line.trim_end_matches(',')), "{line}");
    }
}
