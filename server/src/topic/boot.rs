//! The topics that a broker has from its first start.
//!
//! Of those that every Java broker registers we make the ones that clients or `mqadmin` refer to, or that auto-creation
//! needs: SELF_TEST_TOPIC (health checks), TBW102 and the topics called like cluster and broker (templates; `mqadmin
//! clusterRT` and `sendMsgStatus` send to the last two), BenchmarkTest (RocketMQ's own benchmark programs),
//! OFFSET_MOVED_EVENT (listed as a system topic; nothing is written to it), RMQ_SYS_TRACE_TOPIC when asked for.
//!
//! Left out until what they serve is built: SCHEDULE_TOPIC_XXXX (delay), the half and op topics (transactions),
//! `<cluster>_REPLY_TOPIC` (request-reply), rmq_sys_REVIVE_LOG_… (pop), rmq_sys_wheel_timer (timers),
//! rmq_sys_SYNC_BROKER_MEMBER_… (acting masters). Clients ask for none of them. A store of RocketMQ that has them keeps
//! them.

use protocol::body::TopicConfig;
use protocol::body::topic::perm;

use super::name::AUTO_CREATE_TOPIC;

/// What decides which topics a broker starts with.
#[derive(Clone, Copy, Debug)]
pub struct BootTopics<'a> {
    /// `brokerClusterName`.
    pub cluster_name: &'a str,
    /// This shard's broker name.
    pub broker_name: &'a str,
    /// `autoCreateTopicEnable`.
    pub auto_create_topic_enable: bool,
    /// `defaultTopicQueueNums` of this shard.
    pub default_topic_queue_nums: i32,
    /// `clusterTopicEnable`.
    pub cluster_topic_enable: bool,
    /// `brokerTopicEnable`.
    pub broker_topic_enable: bool,
    /// `traceTopicEnable`.
    pub trace_topic_enable: bool,
}

impl BootTopics<'_> {
    pub(super) fn configs(&self) -> Vec<TopicConfig> {
        let template = |name: &str, queue_nums, enabled| TopicConfig {
            perm: if enabled { ALL } else { perm::INHERIT },
            ..TopicConfig::new(name, queue_nums)
        };
        let mut configs = vec![
            TopicConfig::new("SELF_TEST_TOPIC", 1),
            TopicConfig::new("BenchmarkTest", 1_024),
            template(self.cluster_name, 16, self.cluster_topic_enable),
            template(self.broker_name, 1, self.broker_topic_enable),
            TopicConfig::new("OFFSET_MOVED_EVENT", 1),
        ];
        if self.auto_create_topic_enable {
            configs.push(template(AUTO_CREATE_TOPIC, self.default_topic_queue_nums, true));
        }
        if self.trace_topic_enable {
            configs.push(TopicConfig::new("RMQ_SYS_TRACE_TOPIC", 1));
        }
        configs
    }
}

const ALL: i32 = perm::READ | perm::WRITE | perm::INHERIT;
