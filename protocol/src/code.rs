//! Request and response codes under RocketMQ's names (remoting protocol, 6; name server, 1). Names of codes that this
//! server doesn't handle are here too, for messages and tools that meet them.

/// Request codes.
pub mod request {
    /// Store one message; header with long names.
    pub const SEND_MESSAGE: i32 = 10;
    /// Read from a queue, waiting for messages when asked to.
    pub const PULL_MESSAGE: i32 = 11;
    /// Query message.
    pub const QUERY_MESSAGE: i32 = 12;
    /// How far a group has consumed a queue.
    pub const QUERY_CONSUMER_OFFSET: i32 = 14;
    /// Commit how far a group has consumed a queue.
    pub const UPDATE_CONSUMER_OFFSET: i32 = 15;
    /// Create a topic or change it.
    pub const UPDATE_AND_CREATE_TOPIC: i32 = 17;
    /// Get all topic config.
    pub const GET_ALL_TOPIC_CONFIG: i32 = 21;
    /// Update broker config.
    pub const UPDATE_BROKER_CONFIG: i32 = 25;
    /// Get broker config.
    pub const GET_BROKER_CONFIG: i32 = 26;
    /// Counters of a broker.
    pub const GET_BROKER_RUNTIME_INFO: i32 = 28;
    /// The first queue offset stored at or after a time.
    pub const SEARCH_OFFSET_BY_TIMESTAMP: i32 = 29;
    /// The next queue offset to be written.
    pub const GET_MAX_OFFSET: i32 = 30;
    /// The first queue offset still there.
    pub const GET_MIN_OFFSET: i32 = 31;
    /// Get earliest msg storetime.
    pub const GET_EARLIEST_MSG_STORETIME: i32 = 32;
    /// View message by id.
    pub const VIEW_MESSAGE_BY_ID: i32 = 33;
    /// A client says which groups it belongs to.
    pub const HEART_BEAT: i32 = 34;
    /// A client leaves its groups.
    pub const UNREGISTER_CLIENT: i32 = 35;
    /// Consumer send msg back.
    pub const CONSUMER_SEND_MSG_BACK: i32 = 36;
    /// End transaction.
    pub const END_TRANSACTION: i32 = 37;
    /// The client ids of a consumer group.
    pub const GET_CONSUMER_LIST_BY_GROUP: i32 = 38;
    /// Check transaction state.
    pub const CHECK_TRANSACTION_STATE: i32 = 39;
    /// Broker to client: the members of your group changed.
    pub const NOTIFY_CONSUMER_IDS_CHANGED: i32 = 40;
    /// Lock batch mq.
    pub const LOCK_BATCH_MQ: i32 = 41;
    /// Unlock batch mq.
    pub const UNLOCK_BATCH_MQ: i32 = 42;
    /// Get all consumer offset.
    pub const GET_ALL_CONSUMER_OFFSET: i32 = 43;
    /// Get all delay offset.
    pub const GET_ALL_DELAY_OFFSET: i32 = 45;
    /// Check client config.
    pub const CHECK_CLIENT_CONFIG: i32 = 46;
    /// Put kv config.
    pub const PUT_KV_CONFIG: i32 = 100;
    /// Get kv config.
    pub const GET_KV_CONFIG: i32 = 101;
    /// Delete kv config.
    pub const DELETE_KV_CONFIG: i32 = 102;
    /// Broker to name server: I am here and have these topics.
    pub const REGISTER_BROKER: i32 = 103;
    /// Broker to name server: I leave.
    pub const UNREGISTER_BROKER: i32 = 104;
    /// Which brokers have a topic.
    pub const GET_ROUTEINFO_BY_TOPIC: i32 = 105;
    /// All clusters and their brokers.
    pub const GET_BROKER_CLUSTER_INFO: i32 = 106;
    /// Get all subscriptiongroup config.
    pub const GET_ALL_SUBSCRIPTIONGROUP_CONFIG: i32 = 201;
    /// Get topic stats info.
    pub const GET_TOPIC_STATS_INFO: i32 = 202;
    /// Get consumer connection list.
    pub const GET_CONSUMER_CONNECTION_LIST: i32 = 203;
    /// Get producer connection list.
    pub const GET_PRODUCER_CONNECTION_LIST: i32 = 204;
    /// Wipe write perm of broker.
    pub const WIPE_WRITE_PERM_OF_BROKER: i32 = 205;
    /// All topics.
    pub const GET_ALL_TOPIC_LIST_FROM_NAMESERVER: i32 = 206;
    /// Get consume stats.
    pub const GET_CONSUME_STATS: i32 = 208;
    /// Delete topic in namesrv.
    pub const DELETE_TOPIC_IN_NAMESRV: i32 = 216;
    /// Register topic in namesrv.
    pub const REGISTER_TOPIC_IN_NAMESRV: i32 = 217;
    /// Get kvlist by namespace.
    pub const GET_KVLIST_BY_NAMESPACE: i32 = 219;
    /// Reset consumer client offset.
    pub const RESET_CONSUMER_CLIENT_OFFSET: i32 = 220;
    /// Get topics by cluster.
    pub const GET_TOPICS_BY_CLUSTER: i32 = 224;
    /// Get system topic list from ns.
    pub const GET_SYSTEM_TOPIC_LIST_FROM_NS: i32 = 304;
    /// Store one message; header with one-letter names.
    pub const SEND_MESSAGE_V2: i32 = 310;
    /// Update namesrv config.
    pub const UPDATE_NAMESRV_CONFIG: i32 = 318;
    /// Get namesrv config.
    pub const GET_NAMESRV_CONFIG: i32 = 319;
    /// Store many messages of one queue.
    pub const SEND_BATCH_MESSAGE: i32 = 320;
    /// Broker to name server: is what you know of me current?
    pub const QUERY_DATA_VERSION: i32 = 322;
    /// Send reply message.
    pub const SEND_REPLY_MESSAGE: i32 = 324;
    /// Send reply message v2.
    pub const SEND_REPLY_MESSAGE_V2: i32 = 325;
    /// Push reply message to client.
    pub const PUSH_REPLY_MESSAGE_TO_CLIENT: i32 = 326;
    /// Add write perm of broker.
    pub const ADD_WRITE_PERM_OF_BROKER: i32 = 327;
    /// Get topic config.
    pub const GET_TOPIC_CONFIG: i32 = 351;
    /// Lite pull message.
    pub const LITE_PULL_MESSAGE: i32 = 361;
    /// Recall message.
    pub const RECALL_MESSAGE: i32 = 370;
    /// Get broker member group.
    pub const GET_BROKER_MEMBER_GROUP: i32 = 901;
    /// Broker to name server: I am alive.
    pub const BROKER_HEARTBEAT: i32 = 904;
}

/// Response codes.
pub mod response {
    /// Done.
    pub const SUCCESS: i32 = 0;
    /// Failed; the remark says why.
    pub const SYSTEM_ERROR: i32 = 1;
    /// Overloaded; clients try again elsewhere.
    pub const SYSTEM_BUSY: i32 = 2;
    /// Unknown request code.
    pub const REQUEST_CODE_NOT_SUPPORTED: i32 = 3;
    /// Transaction failed.
    pub const TRANSACTION_FAILED: i32 = 4;
    /// Stored, not known to be on disk in time.
    pub const FLUSH_DISK_TIMEOUT: i32 = 10;
    /// Stored, no slave near enough to replicate to.
    pub const SLAVE_NOT_AVAILABLE: i32 = 11;
    /// Stored, not known to be replicated in time.
    pub const FLUSH_SLAVE_TIMEOUT: i32 = 12;
    /// The message itself is unacceptable; not stored.
    pub const MESSAGE_ILLEGAL: i32 = 13;
    /// The store takes no messages now.
    pub const SERVICE_NOT_AVAILABLE: i32 = 14;
    /// Version not supported.
    pub const VERSION_NOT_SUPPORTED: i32 = 15;
    /// Topic, group or broker forbids it.
    pub const NO_PERMISSION: i32 = 16;
    /// Unknown topic.
    pub const TOPIC_NOT_EXIST: i32 = 17;
    /// Topic exist already.
    pub const TOPIC_EXIST_ALREADY: i32 = 18;
    /// Nothing to read yet at this offset.
    pub const PULL_NOT_FOUND: i32 = 19;
    /// Nothing matched; pull again from `nextBeginOffset`.
    pub const PULL_RETRY_IMMEDIATELY: i32 = 20;
    /// The offset is out of range; go on from `nextBeginOffset`.
    pub const PULL_OFFSET_MOVED: i32 = 21;
    /// What was asked for does not exist.
    pub const QUERY_NOT_FOUND: i32 = 22;
    /// Subscription parse failed.
    pub const SUBSCRIPTION_PARSE_FAILED: i32 = 23;
    /// Subscription not exist.
    pub const SUBSCRIPTION_NOT_EXIST: i32 = 24;
    /// Subscription not latest.
    pub const SUBSCRIPTION_NOT_LATEST: i32 = 25;
    /// Unknown consumer group.
    pub const SUBSCRIPTION_GROUP_NOT_EXIST: i32 = 26;
    /// Filter data not exist.
    pub const FILTER_DATA_NOT_EXIST: i32 = 27;
    /// Filter data not latest.
    pub const FILTER_DATA_NOT_LATEST: i32 = 28;
    /// A parameter is out of its range.
    pub const INVALID_PARAMETER: i32 = 29;
    /// Transaction should commit.
    pub const TRANSACTION_SHOULD_COMMIT: i32 = 200;
    /// Transaction should rollback.
    pub const TRANSACTION_SHOULD_ROLLBACK: i32 = 201;
    /// Transaction state unknow.
    pub const TRANSACTION_STATE_UNKNOW: i32 = 202;
    /// Transaction state group wrong.
    pub const TRANSACTION_STATE_GROUP_WRONG: i32 = 203;
    /// No buyer id.
    pub const NO_BUYER_ID: i32 = 204;
    /// Not in current unit.
    pub const NOT_IN_CURRENT_UNIT: i32 = 205;
    /// Consumer not online.
    pub const CONSUMER_NOT_ONLINE: i32 = 206;
    /// Consume msg timeout.
    pub const CONSUME_MSG_TIMEOUT: i32 = 207;
    /// No message.
    pub const NO_MESSAGE: i32 = 208;
    /// Polling full.
    pub const POLLING_FULL: i32 = 209;
    /// Polling timeout.
    pub const POLLING_TIMEOUT: i32 = 210;
    /// Broker not exist.
    pub const BROKER_NOT_EXIST: i32 = 211;
    /// Broker dispatch not complete.
    pub const BROKER_DISPATCH_NOT_COMPLETE: i32 = 212;
    /// Broadcast consumption.
    pub const BROADCAST_CONSUMPTION: i32 = 213;
    /// Too fast; clients pause briefly.
    pub const FLOW_CONTROL: i32 = 215;
    /// Not leader for queue.
    pub const NOT_LEADER_FOR_QUEUE: i32 = 501;
    /// Illegal operation.
    pub const ILLEGAL_OPERATION: i32 = 604;
    /// Shutting down; reconnect.
    pub const GO_AWAY: i32 = 1500;
}
