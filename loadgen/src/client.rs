//! Our side of the wire: where queues are, control requests (blocking), and the load itself (non-blocking, pinned
//! threads). Speaks through the `protocol` crate; no module outside this folder opens a connection to a broker.

use std::net::SocketAddr;

pub mod control;
mod connect;
pub mod generator;
mod poller;
mod receiver;
mod sender;
pub mod tally;
pub mod template;

/// A broker that takes sends and pulls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    /// Its name in the route.
    pub name: String,
    /// Its master's address.
    pub address: SocketAddr,
}

/// One queue somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The topic.
    pub topic: String,
    /// Index of its broker in [`Topology::brokers`].
    pub broker: usize,
    /// The queue's id on that broker.
    pub queue_id: i32,
}

/// All queues that a run uses, in a fixed order: a lane's index is its number in identities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// The brokers.
    pub brokers: Vec<Broker>,
    /// The queues.
    pub lanes: Vec<Lane>,
}

impl Topology {
    /// Numbers of the lanes of one broker.
    pub fn lanes_of(&self, broker: usize) -> Vec<u32> {
        let numbered = self.lanes.iter().enumerate().filter(|(_, lane)| lane.broker == broker);
        numbered.map(|(number, _)| u32::try_from(number).expect("a run has few lanes")).collect()
    }
}

/// RocketMQ's name of a response code, for tables and messages.
pub fn code_name(code: i32) -> &'static str {
    use protocol::code::response as r;
    match code {
        r::SUCCESS => "SUCCESS",
        r::SYSTEM_ERROR => "SYSTEM_ERROR",
        r::SYSTEM_BUSY => "SYSTEM_BUSY",
        r::REQUEST_CODE_NOT_SUPPORTED => "REQUEST_CODE_NOT_SUPPORTED",
        r::FLUSH_DISK_TIMEOUT => "FLUSH_DISK_TIMEOUT",
        r::SLAVE_NOT_AVAILABLE => "SLAVE_NOT_AVAILABLE",
        r::FLUSH_SLAVE_TIMEOUT => "FLUSH_SLAVE_TIMEOUT",
        r::MESSAGE_ILLEGAL => "MESSAGE_ILLEGAL",
        r::SERVICE_NOT_AVAILABLE => "SERVICE_NOT_AVAILABLE",
        r::NO_PERMISSION => "NO_PERMISSION",
        r::TOPIC_NOT_EXIST => "TOPIC_NOT_EXIST",
        r::PULL_NOT_FOUND => "PULL_NOT_FOUND",
        r::PULL_RETRY_IMMEDIATELY => "PULL_RETRY_IMMEDIATELY",
        r::PULL_OFFSET_MOVED => "PULL_OFFSET_MOVED",
        r::SUBSCRIPTION_GROUP_NOT_EXIST => "SUBSCRIPTION_GROUP_NOT_EXIST",
        r::INVALID_PARAMETER => "INVALID_PARAMETER",
        r::FLOW_CONTROL => "FLOW_CONTROL",
        r::GO_AWAY => "GO_AWAY",
        _ => "unnamed",
    }
}
