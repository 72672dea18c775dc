//! The name server: brokers say where they are and which topics they have, clients ask.
//!
//! A plain state machine: [`NameServer::on_command`] takes a decoded request and the time and appends the answer's frame;
//! [`NameServer::on_disconnect`] and [`NameServer::on_tick`] take away brokers that are gone. Sockets, clock and log lines
//! belong to whoever runs it, embedded in the broker's process or alone.
//!
//! Owns the route registry ([`registry`]) and the KV tables ([`kv`]), all in memory and bounded; after a restart brokers
//! register again within their period (at most 60 s). [`registration`] is the other side: what a broker sends, and when.

pub mod kv;
pub mod registration;
pub mod registry;
mod requests;

#[cfg(test)]
mod tests;

use std::time::Duration;

use protocol::Command;

use kv::KvConfig;
use registry::Registry;
pub use registry::{Departed, RegisterRefusal};

/// One connection, as numbered by whoever holds the sockets. Never used again for another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnectionId(pub u64);

/// What RocketMQ's name server can be set to, with its defaults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NamesrvOptions {
    /// Whether routes carry the order of a topic's queues from the KV namespace ORDER_TOPIC_CONFIG.
    pub order_message_enable: bool,
    /// Whether brokers get that namespace in the answer to their registration.
    pub return_order_topic_config_to_broker: bool,
    /// Whether topics that a full registration doesn't name are taken from the broker.
    pub delete_topic_with_broker_registration: bool,
    /// Whether a slave is shown as the master where there is none and the broker allows it.
    pub support_acting_master: bool,
}

impl Default for NamesrvOptions {
    fn default() -> NamesrvOptions {
        NamesrvOptions {
            order_message_enable: false,
            return_order_topic_config_to_broker: true,
            delete_topic_with_broker_registration: false,
            support_acting_master: false,
        }
    }
}

/// A name server's whole state.
pub struct NameServer {
    options: NamesrvOptions,
    registry: Registry,
    kv: KvConfig,
}

impl NameServer {
    /// One that knows nothing yet.
    pub fn new(options: NamesrvOptions) -> NameServer {
        NameServer { options, registry: Registry::default(), kv: KvConfig::default() }
    }

    /// Does what a request asks and appends the answer to `out`: exactly one frame, or nothing for a one-way request.
    /// `now` is the time since any fixed moment. Responses (somebody's confusion) are dropped.
    pub fn on_command(
        &mut self,
        connection: ConnectionId,
        command: &Command<'_>,
        now: Duration,
        out: &mut Vec<u8>,
    ) {
        if command.is_response() {
            return;
        }
        let answer = self.answer(connection, command, now);
        if !command.is_oneway() {
            answer.write(command, out);
        }
    }

    /// A connection is gone, closed by either side: what registered on it is unregistered. Returns these brokers.
    pub fn on_disconnect(&mut self, connection: ConnectionId) -> Vec<Departed> {
        self.registry.unregister_connection(connection)
    }

    /// Call it every [`SCAN_INTERVAL`]: unregisters brokers that said nothing for longer than they promised. Returns
    /// these; their connections should be closed.
    pub fn on_tick(&mut self, now: Duration) -> Vec<(ConnectionId, Departed)> {
        self.registry.unregister_expired(now)
    }

    /// The routes, for whoever shows or checks them.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }
}

/// RocketMQ's.
pub const SCAN_INTERVAL: Duration = Duration::from_secs(5);
