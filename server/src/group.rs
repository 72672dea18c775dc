//! A shard's consumer groups: which exist and what each may do.
//!
//! Plain state, like `topic.rs`: methods take the time as an argument and say whether the table changed; the caller
//! writes [`GroupTable::to_text`] to `config/subscriptionGroup.json`. Who is in a group right now is not kept here.

use std::collections::HashMap;
use std::fmt;

use protocol::body::DataVersion;
use protocol::code::response;
use serde_json::{Map, Value};

use crate::table_text::{self, TableError};
use crate::topic::SEE_FAQ;
use crate::topic::name;

/// A consumer group's settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubscriptionGroupConfig {
    /// The group.
    pub group_name: String,
    /// Whether it may consume at all.
    pub consume_enable: bool,
    /// Whether it starts at the oldest message; of old clients only.
    pub consume_from_min_enable: bool,
    /// Whether it may consume as a broadcast.
    pub consume_broadcast_enable: bool,
    /// Whether its messages are consumed in order (pop).
    pub consume_message_orderly: bool,
    /// Queues of its retry topic.
    pub retry_queue_nums: i32,
    /// Tries before a message goes to the dead letters.
    pub retry_max_times: i32,
    /// The broker it is served from.
    pub broker_id: i64,
    /// The broker it is sent to when it is slow.
    pub which_broker_when_consume_slowly: i64,
    /// Whether its members are told when others come and go.
    pub notify_consumer_ids_changed_enable: bool,
    /// Bit 0 unit mode.
    pub group_sys_flag: i32,
    /// Minutes until a message in consumption is given up.
    pub consume_timeout_minute: i32,
}

impl SubscriptionGroupConfig {
    /// RocketMQ's defaults.
    pub fn new(group_name: impl Into<String>) -> SubscriptionGroupConfig {
        SubscriptionGroupConfig {
            group_name: group_name.into(),
            consume_enable: true,
            consume_from_min_enable: true,
            consume_broadcast_enable: true,
            consume_message_orderly: false,
            retry_queue_nums: 1,
            retry_max_times: 16,
            broker_id: 0,
            which_broker_when_consume_slowly: 1,
            notify_consumer_ids_changed_enable: true,
            group_sys_flag: 0,
            consume_timeout_minute: 15,
        }
    }
}

/// Why a group can't be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GroupError {
    /// It doesn't exist, and can't be made: creation is off, or the name is illegal.
    NotExist {
        /// The group.
        group: String,
    },
    /// There are as many groups as we keep.
    TableFull,
}

impl GroupError {
    /// The response code.
    pub fn code(&self) -> i32 {
        match self {
            GroupError::NotExist { .. } => response::SUBSCRIPTION_GROUP_NOT_EXIST,
            GroupError::TableFull => response::SYSTEM_ERROR,
        }
    }
}

/// The response's remark.
impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupError::NotExist { group } => {
                write!(f, "subscription group [{group}] does not exist, {SEE_FAQ}")
            }
            GroupError::TableFull => write!(f, "this broker has {GROUP_COUNT_MAX} groups and takes no more"),
        }
    }
}

impl std::error::Error for GroupError {}

/// The consumer groups of one shard.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct GroupTable {
    groups: HashMap<String, Group>,
    data_version: DataVersion,
    /// Fields of the file that aren't ours, `forbiddenTable` among them.
    other: Map<String, Value>,
}

#[derive(Clone, PartialEq, Debug)]
struct Group {
    config: SubscriptionGroupConfig,
    /// Fields of the group that aren't ours.
    other: Map<String, Value>,
}

impl GroupTable {
    /// Reads the text of `config/subscriptionGroup.json`.
    ///
    /// # Errors
    ///
    /// When it isn't such a table; nothing is read then.
    pub fn parse(text: &str) -> Result<GroupTable, TableError> {
        let table = table_text::read_named(text, GROUP_TABLE, Group::parse)?;
        Ok(GroupTable { groups: table.entries, data_version: table.data_version, other: table.other })
    }

    /// The text for `config/subscriptionGroup.json`, groups in the order of their names.
    pub fn to_text(&self) -> String {
        let groups = self.groups.iter().map(|(name, group)| (name, group.to_value()));
        let mut other = self.other.clone();
        other.entry(FORBIDDEN_TABLE).or_insert_with(|| Value::Object(Map::new()));
        table_text::write_named(GROUP_TABLE, groups, self.data_version, other)
    }

    /// The group's settings, if it exists.
    pub fn get(&self, group: &str) -> Option<&SubscriptionGroupConfig> {
        self.groups.get(group).map(|group| &group.config)
    }

    /// All groups, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &SubscriptionGroupConfig> {
        self.groups.values().map(|group| &group.config)
    }

    /// How many groups there are.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there are none; never after [`GroupTable::boot`].
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The state of the table.
    pub fn data_version(&self) -> DataVersion {
        self.data_version
    }

    /// The group's settings, made with defaults when `auto_create` (or the system's prefix) allows. Says whether the
    /// table changed.
    ///
    /// # Errors
    ///
    /// When it doesn't exist and can't be made.
    pub fn find_or_create(
        &mut self,
        group: &str,
        auto_create: bool,
        now_ms: i64,
    ) -> Result<(&SubscriptionGroupConfig, bool), GroupError> {
        let changed = !self.groups.contains_key(group);
        if changed {
            let allowed = auto_create || group.starts_with(SYSTEM_PREFIX);
            if !allowed || !name::is_group_legal(group) {
                return Err(GroupError::NotExist { group: group.to_owned() });
            }
            if self.groups.len() >= GROUP_COUNT_MAX {
                return Err(GroupError::TableFull);
            }
            self.groups.insert(group.to_owned(), Group::new(group));
            self.data_version.counter += 1;
            self.data_version.timestamp = now_ms;
        }
        Ok((&self.groups[group].config, changed))
    }

    /// Adds the groups that every broker has and the table lacks. Doesn't count as a change.
    pub fn boot(&mut self) {
        for group in SYSTEM_GROUPS {
            self.groups.entry((*group).to_owned()).or_insert_with(|| Group::new(group));
        }
    }
}

impl Group {
    fn new(group: &str) -> Group {
        Group { config: SubscriptionGroupConfig::new(group), other: Map::new() }
    }

    fn parse(group: &str, value: &Value) -> Result<Group, TableError> {
        use table_text::{boolean, integer, integer32};
        let shape = || TableError::Shape { field: group.to_owned(), expected: "a group's settings" };
        let mut other = value.as_object().ok_or_else(shape)?.clone();
        let default = SubscriptionGroupConfig::new(group);
        let config = SubscriptionGroupConfig {
            group_name: group.to_owned(),
            consume_enable: boolean(&other, "consumeEnable", default.consume_enable)?,
            consume_from_min_enable: boolean(
                &other,
                "consumeFromMinEnable",
                default.consume_from_min_enable,
            )?,
            consume_broadcast_enable: boolean(
                &other,
                "consumeBroadcastEnable",
                default.consume_broadcast_enable,
            )?,
            consume_message_orderly: boolean(
                &other,
                "consumeMessageOrderly",
                default.consume_message_orderly,
            )?,
            retry_queue_nums: integer32(&other, "retryQueueNums", default.retry_queue_nums)?,
            retry_max_times: integer32(&other, "retryMaxTimes", default.retry_max_times)?,
            broker_id: integer(&other, "brokerId", default.broker_id)?,
            which_broker_when_consume_slowly: integer(&other, "whichBrokerWhenConsumeSlowly", 1)?,
            notify_consumer_ids_changed_enable: boolean(&other, "notifyConsumerIdsChangedEnable", true)?,
            group_sys_flag: integer32(&other, "groupSysFlag", 0)?,
            consume_timeout_minute: integer32(
                &other,
                "consumeTimeoutMinute",
                default.consume_timeout_minute,
            )?,
        };
        let own = fields(&config);
        other.retain(|field, _| !own.contains_key(field));
        Ok(Group { config, other })
    }

    /// Fields of 5.1.4; what a group from 4.9.7 lacks gets 5.1.4's default.
    fn to_value(&self) -> Value {
        let mut all = self.other.clone();
        all.entry("attributes").or_insert_with(|| Value::Object(Map::new()));
        all.entry("groupRetryPolicy").or_insert_with(|| serde_json::json!({ "type": "CUSTOMIZED" }));
        all.extend(fields(&self.config));
        all.sort_keys();
        Value::Object(all)
    }
}

/// The settings as fields of the file.
fn fields(config: &SubscriptionGroupConfig) -> Map<String, Value> {
    let fields = [
        ("brokerId", Value::from(config.broker_id)),
        ("consumeBroadcastEnable", Value::from(config.consume_broadcast_enable)),
        ("consumeEnable", Value::from(config.consume_enable)),
        ("consumeFromMinEnable", Value::from(config.consume_from_min_enable)),
        ("consumeMessageOrderly", Value::from(config.consume_message_orderly)),
        ("consumeTimeoutMinute", Value::from(config.consume_timeout_minute)),
        ("groupName", Value::from(config.group_name.as_str())),
        ("groupSysFlag", Value::from(config.group_sys_flag)),
        ("notifyConsumerIdsChangedEnable", Value::from(config.notify_consumer_ids_changed_enable)),
        ("retryMaxTimes", Value::from(config.retry_max_times)),
        ("retryQueueNums", Value::from(config.retry_queue_nums)),
        ("whichBrokerWhenConsumeSlowly", Value::from(config.which_broker_when_consume_slowly)),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

const GROUP_TABLE: &str = "subscriptionGroupTable";
const FORBIDDEN_TABLE: &str = "forbiddenTable";
/// Groups with this prefix are made even when creation is off.
const SYSTEM_PREFIX: &str = "CID_RMQ_SYS_";
/// Every broker has these; tools and old clients use them without asking.
const SYSTEM_GROUPS: &[&str] = &[
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
];
/// Bounds the table and its file.
pub const GROUP_COUNT_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table_text::{golden, sorted_lines};

    fn booted() -> GroupTable {
        let mut table = GroupTable::default();
        table.boot();
        table
    }

    #[test]
    fn a_broker_starts_with_the_systems_groups() {
        let table = booted();
        assert_eq!(table.len(), 8);
        assert_eq!(table.get("TOOLS_CONSUMER"), Some(&SubscriptionGroupConfig::new("TOOLS_CONSUMER")));
        assert_eq!(table.data_version(), DataVersion::default());
    }

    #[test]
    fn a_group_is_made_once_with_rocketmqs_defaults() {
        let mut table = booted();
        let (config, changed) = table.find_or_create("G", true, 5).unwrap();
        assert!(changed);
        assert_eq!(config, &SubscriptionGroupConfig::new("G"));
        assert!(!table.find_or_create("G", false, 6).unwrap().1);
        assert_eq!((table.data_version().counter, table.data_version().timestamp), (1, 5));
    }

    #[test]
    fn groups_that_may_not_be_made_do_not_exist() {
        let mut table = booted();
        let long = "g".repeat(256);
        for (group, auto_create) in [("G", false), ("a b", true), ("", true), (long.as_str(), true)] {
            let error = table.find_or_create(group, auto_create, 1).unwrap_err();
            assert_eq!(error.code(), 26);
            assert!(error.to_string().starts_with(&format!("subscription group [{group}] does not exist, ")));
        }
        assert!(table.find_or_create(&long[1..], true, 1).is_ok());
        assert!(table.find_or_create("CID_RMQ_SYS_X", false, 1).is_ok());
    }

    #[test]
    fn a_full_table_takes_no_more() {
        let mut table = booted();
        for index in table.len()..GROUP_COUNT_MAX {
            table.find_or_create(&format!("g{index}"), true, 1).unwrap();
        }
        assert_eq!(table.find_or_create("one-more", true, 1), Err(GroupError::TableFull));
        assert!(table.find_or_create("g99", true, 1).is_ok());
    }

    #[test]
    fn unknown_fields_survive_and_missing_ones_get_defaults() {
        let text = "{\"forbiddenTable\":{\"G\":{\"T\":1}},\"subscriptionGroupTable\":{\"G\":{\"consumeEnable\":false,\
                    \"groupRetryPolicy\":{\"type\":\"EXPONENTIAL\"},\"zeal\":7}}}";
        let mut table = GroupTable::parse(text).unwrap();
        assert!(!table.get("G").unwrap().consume_enable);
        assert_eq!(table.get("G").unwrap().retry_max_times, 16);
        table.find_or_create("H", true, 3).unwrap();
        let written = table.to_text();
        for kept in ["\"type\":\"EXPONENTIAL\"", "\"zeal\":7", "\"T\":1", "\"type\":\"CUSTOMIZED\""] {
            assert!(written.contains(kept), "{kept} in {written}");
        }
        assert_eq!(GroupTable::parse(&written).unwrap().get("G"), table.get("G"));
    }

    #[test]
    fn what_is_no_group_table_is_refused() {
        for text in [
            "",
            "{\"subscriptionGroupTable\":[]}",
            "{\"subscriptionGroupTable\":{\"G\":1}}",
            "{\"subscriptionGroupTable\":{\"G\":{\"consumeEnable\":3}}}",
            "{\"subscriptionGroupTable\":{\"G\":{\"brokerId\":\"x\"}}}",
        ] {
            assert!(GroupTable::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn golden_groups_of_5_1_4_come_back_line_for_line() {
        let text = golden("store-5.1.4-clean/store.tar.xz", "store/config/subscriptionGroup.json");
        let table = GroupTable::parse(&text).unwrap();
        assert_eq!(sorted_lines(&table.to_text()), sorted_lines(&text));
    }

    #[test]
    fn golden_groups_of_4_9_7_are_read() {
        let text = golden("store-4.9.7-clean/store.tar.xz", "store/config/subscriptionGroup.json");
        let mut table = GroupTable::parse(&text).unwrap();
        assert_eq!(table.get("GoldRetryGroup"), Some(&SubscriptionGroupConfig::new("GoldRetryGroup")));
        assert_eq!(table.len(), text.matches("\"groupName\"").count());
        let added =
            |table: &GroupTable| table.groups.keys().filter(|group| !text.contains(group.as_str())).count();
        table.boot();
        assert_eq!(
            (added(&table), table.get("CID_RMQ_SYS_TRANS").is_some()),
            (1, true),
            "only the one of 5.x"
        );
        let written = table.to_text();
        for line in text.lines().filter(|line| line.contains("groupName") || line.contains("retry")) {
            assert!(written.contains(line.trim_end_matches(',')), "{line}");
        }
    }
}
