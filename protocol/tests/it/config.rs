//! The tables under `config/`, in the text that brokers 4.9.7 and 5.1.4 wrote.

use protocol::body::{
    ConsumerOffsetTable, DataVersion, SubscriptionGroupConfig, SubscriptionGroupTable, TopicConfig,
    TopicTable,
};

const OFFSETS_5: &str = "{
\t\"dataVersion\":{
\t\t\"counter\":0,
\t\t\"stateVersion\":0,
\t\t\"timestamp\":1796130357179
\t},
\t\"offsetTable\":{
\t\t\"%RETRY%G@G\":{0:5
\t\t},
\t\t\"T@G\":{0:106,1:105
\t\t}
\t}
}";

const TOPICS_5: &str = "{
\t\"dataVersion\":{
\t\t\"counter\":20,
\t\t\"stateVersion\":0,
\t\t\"timestamp\":1796130381893
\t},
\t\"topicConfigTable\":{
\t\t\"T\":{
\t\t\t\"attributes\":{},
\t\t\t\"order\":false,
\t\t\t\"perm\":6,
\t\t\t\"readQueueNums\":1,
\t\t\t\"topicFilterType\":\"SINGLE_TAG\",
\t\t\t\"topicName\":\"T\",
\t\t\t\"topicSysFlag\":0,
\t\t\t\"writeQueueNums\":1
\t\t}
\t}
}";

const GROUPS_5: &str = "{
\t\"dataVersion\":{
\t\t\"counter\":4,
\t\t\"stateVersion\":0,
\t\t\"timestamp\":1796130381831
\t},
\t\"forbiddenTable\":{},
\t\"subscriptionGroupTable\":{
\t\t\"G\":{
\t\t\t\"attributes\":{},
\t\t\t\"brokerId\":0,
\t\t\t\"consumeBroadcastEnable\":true,
\t\t\t\"consumeEnable\":true,
\t\t\t\"consumeFromMinEnable\":true,
\t\t\t\"consumeMessageOrderly\":false,
\t\t\t\"consumeTimeoutMinute\":15,
\t\t\t\"groupName\":\"G\",
\t\t\t\"groupRetryPolicy\":{
\t\t\t\t\"type\":\"CUSTOMIZED\"
\t\t\t},
\t\t\t\"groupSysFlag\":0,
\t\t\t\"notifyConsumerIdsChangedEnable\":true,
\t\t\t\"retryMaxTimes\":16,
\t\t\t\"retryQueueNums\":1,
\t\t\t\"whichBrokerWhenConsumeSlowly\":1
\t\t}
\t}
}";

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn consumer_offsets_are_written_as_a_broker_writes_them() {
    let table = ConsumerOffsetTable {
        data_version: DataVersion { counter: 0, state_version: 0, timestamp: 1_796_130_357_179 },
        offset_table: [
            ("T@G".to_owned(), [(0, 106), (1, 105)].into()),
            ("%RETRY%G@G".to_owned(), [(0, 5)].into()),
        ]
        .into(),
    };
    assert_eq!(text(table.to_json_pretty()), OFFSETS_5);
    assert_eq!(ConsumerOffsetTable::from_json(OFFSETS_5.as_bytes()), Ok(table));
}

#[test]
fn consumer_offsets_of_4_9_have_no_version_and_quoted_keys_are_read_too() {
    let text = "{\n\t\"groupTopicMap\":{\"G\":[\"T\"]},\"offsetTable\":{\n\t\t\"T@G\":{3:4\n\t\t},\"U@G\":{\"0\":9}\n\t}\n}";
    let table = ConsumerOffsetTable::from_json(text.as_bytes()).unwrap();
    assert_eq!(table.data_version, DataVersion::default());
    assert_eq!(table.offset_table["T@G"], [(3, 4)].into());
    assert_eq!(table.offset_table["U@G"], [(0, 9)].into());
}

#[test]
fn topics_are_written_as_a_broker_writes_them() {
    let table = TopicTable {
        data_version: DataVersion { counter: 20, state_version: 0, timestamp: 1_796_130_381_893 },
        topic_config_table: [("T".to_owned(), TopicConfig::new("T", 1))].into(),
    };
    assert_eq!(text(table.to_json_pretty()), TOPICS_5);
    assert_eq!(TopicTable::from_json(TOPICS_5.as_bytes()), Ok(table));
}

#[test]
fn group_settings_of_later_versions_are_kept() {
    let table = SubscriptionGroupTable::from_json(GROUPS_5.as_bytes()).unwrap();
    assert_eq!(table.subscription_group_table["G"].others.len(), 5);
    assert_eq!(text(table.to_json_pretty()), GROUPS_5);
    let of_4_9 = r#"{"subscriptionGroupTable":{"G":{"groupName":"G"}}}"#;
    let table = SubscriptionGroupTable::from_json(of_4_9.as_bytes()).unwrap();
    assert_eq!(table.subscription_group_table["G"], SubscriptionGroupConfig::new("G"));
}

#[test]
fn topics_named_like_numbers_keep_their_quotes() {
    let mut table = TopicTable::default();
    table.topic_config_table.insert("7".to_owned(), TopicConfig::new("7", 1));
    assert!(text(table.to_json_pretty()).contains("\"7\":{\n"));
    assert_eq!(TopicTable::from_json(&table.to_json_pretty()), Ok(table));
}
