//! A shard's topics: which exist, with how many queues and which permissions, and how new ones come to be.
//!
//! Plain state: methods take the time as an argument, change the table and say whether it changed. Whoever calls them
//! writes [`TopicTable::to_text`] to `config/topics.json` (before a message of a new topic is acknowledged) and registers
//! the topic with the name servers. Never touches a file, a socket or a clock.
//!
//! The text is RocketMQ 5.1.4's; 4.9.7's is read too, and fields of other versions survive.

pub mod name;
mod attributes;
mod boot;
mod error;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use protocol::body::topic::perm;
use protocol::body::{DataVersion, RegisterBrokerBody, TopicConfig, TopicFilterType};
use protocol::header::admin::CreateTopicRequest;
use serde_json::{Map, Value};

use crate::table_text::{self, TableError};

pub use boot::BootTopics;
pub use error::{SEE_FAQ, TopicError};

/// The topics of one shard.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TopicTable {
    topics: HashMap<String, Topic>,
    data_version: DataVersion,
    /// Fields of the file that aren't ours.
    other: Map<String, Value>,
}

#[derive(Clone, PartialEq, Debug)]
struct Topic {
    config: TopicConfig,
    /// Fields of the topic that aren't ours.
    other: Map<String, Value>,
}

/// What a SEND says about a topic that may not exist yet.
#[derive(Clone, Copy, Debug)]
pub struct SendCreate<'a> {
    /// The topic sent to.
    pub topic: &'a str,
    /// The topic whose settings a new one inherits, usually TBW102.
    pub default_topic: &'a str,
    /// Most queues that the client wants.
    pub default_topic_queue_nums: i32,
    /// Whether the client is in unit mode.
    pub unit_mode: bool,
}

impl TopicTable {
    /// Reads the text of `config/topics.json`.
    ///
    /// # Errors
    ///
    /// When it isn't such a table; nothing is read then.
    pub fn parse(text: &str) -> Result<TopicTable, TableError> {
        let table = table_text::read_named(text, TOPIC_CONFIG_TABLE, Topic::parse)?;
        Ok(TopicTable { topics: table.entries, data_version: table.data_version, other: table.other })
    }

    /// The text for `config/topics.json`, topics in the order of their names.
    pub fn to_text(&self) -> String {
        let topics = self.topics.iter().map(|(name, topic)| (name, topic.to_value()));
        table_text::write_named(TOPIC_CONFIG_TABLE, topics, self.data_version, self.other.clone())
    }

    /// The topic's settings, if it exists.
    pub fn get(&self, name: &str) -> Option<&TopicConfig> {
        self.topics.get(name).map(|topic| &topic.config)
    }

    /// All topics, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &TopicConfig> {
        self.topics.values().map(|topic| &topic.config)
    }

    /// How many topics there are.
    pub fn len(&self) -> usize {
        self.topics.len()
    }

    /// Whether there are none; never after [`TopicTable::boot`].
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// The state of the table, as name servers are told.
    pub fn data_version(&self) -> DataVersion {
        self.data_version
    }

    /// The topic that a SEND goes to, created when that is allowed. Says whether the table changed.
    ///
    /// # Errors
    ///
    /// When the name is illegal or forbidden, or the topic doesn't exist and can't be created.
    pub fn create_on_send(
        &mut self,
        send: SendCreate<'_>,
        now_ms: i64,
    ) -> Result<(&TopicConfig, bool), TopicError> {
        name::validate(send.topic)?;
        if name::is_forbidden_to_send(send.topic) {
            return Err(TopicError::ForbiddenToSend { topic: send.topic.to_owned() });
        }
        let created = if self.topics.contains_key(send.topic) { None } else { Some(self.new_config(send)?) };
        let changed = created.is_some();
        if let Some(config) = created {
            self.insert(config, now_ms)?;
        }
        Ok((&self.topics[send.topic].config, changed))
    }

    /// The retry topic of a consumer group, created with its first heartbeat. `order` as the topics it subscribes to.
    /// Says whether the table changed.
    ///
    /// # Errors
    ///
    /// When the group's name is too long for it, or the table is full.
    pub fn create_retry(
        &mut self,
        group: &str,
        queue_nums: i32,
        unit_mode: bool,
        order: bool,
        now_ms: i64,
    ) -> Result<(&TopicConfig, bool), TopicError> {
        let topic = format!("{}{group}", name::RETRY_PREFIX);
        name::validate_stored(&topic)?;
        let changed = match self.topics.get_mut(&topic) {
            Some(known) if known.config.order == order => false,
            Some(known) => {
                known.config.order = order;
                self.bump(now_ms);
                true
            }
            None => {
                let topic_sys_flag = sys_flag(&topic, unit_mode);
                let config =
                    TopicConfig { order, topic_sys_flag, ..TopicConfig::new(topic.as_str(), queue_nums) };
                self.insert(config, now_ms)?;
                true
            }
        };
        Ok((&self.topics[&topic].config, changed))
    }

    /// Creates a topic, or replaces its settings (code 17); attributes are merged. Says whether the table changed.
    ///
    /// # Errors
    ///
    /// When the name is illegal or a system topic's, a number is out of bounds, or an attribute can't be set so.
    pub fn update(&mut self, request: &CreateTopicRequest<'_>, now_ms: i64) -> Result<bool, TopicError> {
        name::validate(request.topic)?;
        if name::is_system(request.topic) {
            return Err(TopicError::System { topic: request.topic.to_owned() });
        }
        for queue_nums in [request.read_queue_nums, request.write_queue_nums] {
            if !(0..=QUEUE_NUMS_MAX).contains(&queue_nums) {
                return Err(TopicError::QueueNums { queue_nums });
            }
        }
        if request.perm & !PERM_BITS != 0 {
            return Err(TopicError::Perm { perm: request.perm });
        }
        let known = self.topics.get(request.topic);
        let current = known.map(|topic| &topic.config.attributes);
        let changes = request.attributes.unwrap_or_default();
        let attributes = attributes::apply(current, changes).map_err(TopicError::Attributes)?;
        let filter_type = request.topic_filter_type.unwrap_or(TopicFilterType::SingleTag.name());
        let config = TopicConfig {
            attributes,
            order: request.order,
            perm: request.perm,
            read_queue_nums: request.read_queue_nums,
            topic_filter_type: TopicFilterType::from_name(filter_type)
                .ok_or_else(|| TopicError::FilterType { name: filter_type.to_owned() })?,
            topic_name: request.topic.to_owned(),
            topic_sys_flag: request.topic_sys_flag,
            write_queue_nums: request.write_queue_nums,
        };
        if known.is_some_and(|known| known.config == config) {
            return Ok(false);
        }
        self.insert(config, now_ms)?;
        Ok(true)
    }

    /// Adds the topics that every broker has and the table lacks. Doesn't count as a change: they are made again at
    /// every start.
    pub fn boot(&mut self, boot: &BootTopics<'_>) {
        for config in boot.configs() {
            let other = Map::new();
            self.topics.entry(config.topic_name.clone()).or_insert(Topic { config, other });
        }
        if !boot.auto_create_topic_enable
            && let Some(template) = self.topics.get_mut(name::AUTO_CREATE_TOPIC)
        {
            // RocketMQ keeps the topic of a store that had it, but nothing can be made from it any more.
            template.config.perm = perm::READ | perm::WRITE;
        }
    }

    /// Makes a new version of the table as it is: what is registered about it has changed.
    pub fn touch(&mut self, now_ms: i64) {
        self.bump(now_ms);
    }

    /// What a full registration says (103). `permission` is `brokerPermission`, or without the write bit when the shard
    /// can't write any more.
    pub fn registration(&self, permission: i32) -> RegisterBrokerBody {
        self.registration_of(self.iter(), permission)
    }

    /// What the registration of one changed topic says; `None` when it doesn't exist.
    pub fn registration_of_topic(&self, topic: &str, permission: i32) -> Option<RegisterBrokerBody> {
        let config = self.get(topic)?;
        Some(self.registration_of([config].into_iter(), permission))
    }

    fn registration_of<'a>(
        &self,
        configs: impl Iterator<Item = &'a TopicConfig>,
        permission: i32,
    ) -> RegisterBrokerBody {
        // RocketMQ leaves topics alone (inherit bit included) unless the broker as a whole is restricted.
        let restricted = permission != perm::READ | perm::WRITE;
        let registered = |config: &TopicConfig| {
            let mut config = config.clone();
            if restricted {
                config.perm &= permission;
            }
            (config.topic_name.clone(), config)
        };
        RegisterBrokerBody {
            data_version: self.data_version,
            topic_config_table: configs.map(registered).collect(),
            ..RegisterBrokerBody::default()
        }
    }

    /// The settings of a topic that a SEND may create.
    fn new_config(&self, send: SendCreate<'_>) -> Result<TopicConfig, TopicError> {
        let topic_sys_flag = sys_flag(send.topic, send.unit_mode);
        let template = self.get(send.default_topic);
        if let Some(template) = template.filter(|template| template.perm & perm::INHERIT != 0) {
            let queue_nums = send.default_topic_queue_nums.min(template.write_queue_nums).max(0);
            return Ok(TopicConfig {
                perm: template.perm & !perm::INHERIT,
                topic_filter_type: template.topic_filter_type,
                topic_sys_flag,
                ..TopicConfig::new(send.topic, queue_nums)
            });
        }
        if send.topic.starts_with(name::RETRY_PREFIX) {
            return Ok(TopicConfig { topic_sys_flag, ..TopicConfig::new(send.topic, 1) });
        }
        Err(TopicError::NotExist { topic: send.topic.to_owned() })
    }

    fn insert(&mut self, config: TopicConfig, now_ms: i64) -> Result<(), TopicError> {
        let full = self.topics.len() >= TOPIC_COUNT_MAX;
        match self.topics.entry(config.topic_name.clone()) {
            Entry::Occupied(mut known) => known.get_mut().config = config,
            Entry::Vacant(_) if full => return Err(TopicError::TableFull),
            Entry::Vacant(free) => {
                free.insert(Topic { config, other: Map::new() });
            }
        }
        self.bump(now_ms);
        Ok(())
    }

    fn bump(&mut self, now_ms: i64) {
        self.data_version.counter += 1;
        self.data_version.timestamp = now_ms;
    }
}

impl Topic {
    fn parse(name: &str, value: &Value) -> Result<Topic, TableError> {
        let shape = || TableError::Shape { field: name.to_owned(), expected: "a topic's settings" };
        let fields = value.as_object().ok_or_else(shape)?;
        let mut config: TopicConfig = serde_json::from_value(value.clone()).map_err(|_| shape())?;
        name.clone_into(&mut config.topic_name);
        let is_other = |field: &String| !TOPIC_FIELDS.contains(&field.as_str());
        let other = fields.iter().filter(|(field, _)| is_other(field));
        Ok(Topic { config, other: other.map(|(field, value)| (field.clone(), value.clone())).collect() })
    }

    fn to_value(&self) -> Value {
        let mut value = serde_json::to_value(&self.config).expect("plain fields always serialise");
        let fields = value.as_object_mut().expect("a struct serialises to an object");
        fields.extend(self.other.iter().map(|(field, value)| (field.clone(), value.clone())));
        fields.sort_keys();
        value
    }
}

/// Bit 0 for topics of producers in unit mode, bit 1 for retry topics of consumers in unit mode.
fn sys_flag(topic: &str, unit_mode: bool) -> i32 {
    match (unit_mode, topic.starts_with(name::RETRY_PREFIX)) {
        (false, _) => 0,
        (true, false) => 1,
        (true, true) => 2,
    }
}

const TOPIC_CONFIG_TABLE: &str = "topicConfigTable";
const TOPIC_FIELDS: &[&str] = &[
    "attributes",
    "order",
    "perm",
    "readQueueNums",
    "topicFilterType",
    "topicName",
    "topicSysFlag",
    "writeQueueNums",
];
const PERM_BITS: i32 = perm::PRIORITY | perm::READ | perm::WRITE | perm::INHERIT;
/// More topics than one registration (16 MiB) and one file should hold.
pub const TOPIC_COUNT_MAX: usize = 100_000;
/// More queues than any topic needs on one broker.
pub const QUEUE_NUMS_MAX: i32 = 65_536;
