//! What brokers say to name servers: REGISTER_BROKER 103, UNREGISTER_BROKER 104, QUERY_DATA_VERSION 322,
//! BROKER_HEARTBEAT 904 (name server, 1 and 4). The body of 103 is `body::register`.

use super::{HeaderError, bool_opt, int_opt, long, long_opt, text};
use crate::codec::FrameWriter;
use crate::command::FieldTable;

/// 103: I am here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterBrokerRequest<'a> {
    /// The broker's name, which its replicas share.
    pub broker_name: &'a str,
    /// `ip:port` that clients connect to.
    pub broker_addr: &'a str,
    /// Its cluster.
    pub cluster_name: &'a str,
    /// `ip:port` that slaves connect to.
    pub ha_server_addr: &'a str,
    /// 0 is the master.
    pub broker_id: i64,
    /// Milliseconds without a sign of life after which it counts as gone; absent means 120,000.
    pub heartbeat_timeout_ms: Option<i64>,
    /// Whether a slave may stand in for it; absent before 5.0.
    pub enable_acting_master: Option<bool>,
    /// Whether the body is the compressed form.
    pub compressed: bool,
    /// CRC-32 of the body as sent, without its top bit; 0 is unchecked.
    pub body_crc32: i32,
}

impl<'a> RegisterBrokerRequest<'a> {
    /// Reads it.
    pub fn decode(fields: &'a FieldTable) -> Result<RegisterBrokerRequest<'a>, HeaderError> {
        Ok(RegisterBrokerRequest {
            broker_name: text(fields, "brokerName")?,
            broker_addr: text(fields, "brokerAddr")?,
            cluster_name: text(fields, "clusterName")?,
            ha_server_addr: text(fields, "haServerAddr")?,
            broker_id: long(fields, "brokerId")?,
            heartbeat_timeout_ms: long_opt(fields, "heartbeatTimeoutMillis")?,
            enable_acting_master: bool_opt(fields, "enableActingMaster"),
            compressed: bool_opt(fields, "compressed").unwrap_or(false),
            body_crc32: int_opt(fields, "bodyCrc32")?.unwrap_or(0),
        })
    }

    /// Adds its fields to a frame being written.
    pub fn encode<'w>(&self, writer: FrameWriter<'w>) -> FrameWriter<'w> {
        let mut writer = writer
            .field("brokerName", self.broker_name)
            .field("brokerAddr", self.broker_addr)
            .field("clusterName", self.cluster_name)
            .field("haServerAddr", self.ha_server_addr)
            .field_int("brokerId", self.broker_id);
        if let Some(timeout_ms) = self.heartbeat_timeout_ms {
            writer = writer.field_int("heartbeatTimeoutMillis", timeout_ms);
        }
        if let Some(enable) = self.enable_acting_master {
            writer = writer.field_bool("enableActingMaster", enable);
        }
        writer.field_bool("compressed", self.compressed).field_int("bodyCrc32", self.body_crc32.into())
    }
}

/// The response of 103: only slaves get addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterBrokerResponse<'a> {
    /// The master's HA address.
    pub ha_server_addr: Option<&'a str>,
    /// The master's address.
    pub master_addr: Option<&'a str>,
}

impl<'a> RegisterBrokerResponse<'a> {
    /// Reads it back, for brokers.
    pub fn decode(fields: &'a FieldTable) -> RegisterBrokerResponse<'a> {
        RegisterBrokerResponse {
            ha_server_addr: fields.get("haServerAddr"),
            master_addr: fields.get("masterAddr"),
        }
    }

    /// Adds its fields to a frame being written.
    pub fn encode<'w>(&self, writer: FrameWriter<'w>) -> FrameWriter<'w> {
        writer.field_opt("haServerAddr", self.ha_server_addr).field_opt("masterAddr", self.master_addr)
    }
}

/// 104 (I leave) and 322 (is what you know of me current?): which broker it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokerIdentityRequest<'a> {
    /// The broker's name.
    pub broker_name: &'a str,
    /// Its `ip:port`.
    pub broker_addr: &'a str,
    /// Its cluster.
    pub cluster_name: &'a str,
    /// 0 is the master.
    pub broker_id: i64,
}

impl<'a> BrokerIdentityRequest<'a> {
    /// Reads it.
    pub fn decode(fields: &'a FieldTable) -> Result<BrokerIdentityRequest<'a>, HeaderError> {
        Ok(BrokerIdentityRequest {
            broker_name: text(fields, "brokerName")?,
            broker_addr: text(fields, "brokerAddr")?,
            cluster_name: text(fields, "clusterName")?,
            broker_id: long(fields, "brokerId")?,
        })
    }

    /// Adds its fields to a frame being written.
    pub fn encode<'w>(&self, writer: FrameWriter<'w>) -> FrameWriter<'w> {
        writer
            .field("brokerName", self.broker_name)
            .field("brokerAddr", self.broker_addr)
            .field("clusterName", self.cluster_name)
            .field_int("brokerId", self.broker_id)
    }
}

/// The response of 322; its body is the version that the name server knows, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryDataVersionResponse {
    /// Whether what is known differs from what was asked.
    pub changed: bool,
}

impl QueryDataVersionResponse {
    /// Reads it back, for brokers; a missing field counts as changed.
    pub fn decode(fields: &FieldTable) -> QueryDataVersionResponse {
        QueryDataVersionResponse { changed: bool_opt(fields, "changed").unwrap_or(true) }
    }

    /// Adds its field to a frame being written.
    pub fn encode<'w>(&self, writer: FrameWriter<'w>) -> FrameWriter<'w> {
        writer.field_bool("changed", self.changed)
    }
}

/// 904: I am alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokerHeartbeatRequest<'a> {
    /// The broker's name.
    pub broker_name: &'a str,
    /// Its `ip:port`.
    pub broker_addr: &'a str,
    /// Its cluster.
    pub cluster_name: &'a str,
    /// 0 is the master.
    pub broker_id: Option<i64>,
    /// Milliseconds without a sign of life after which it counts as gone.
    pub heartbeat_timeout_ms: Option<i64>,
}

impl<'a> BrokerHeartbeatRequest<'a> {
    /// Reads it. The fields for controllers (`epoch`, `maxOffset`, …) are skipped.
    pub fn decode(fields: &'a FieldTable) -> Result<BrokerHeartbeatRequest<'a>, HeaderError> {
        Ok(BrokerHeartbeatRequest {
            broker_name: text(fields, "brokerName")?,
            broker_addr: text(fields, "brokerAddr")?,
            cluster_name: text(fields, "clusterName")?,
            broker_id: long_opt(fields, "brokerId")?,
            heartbeat_timeout_ms: long_opt(fields, "heartbeatTimeoutMills")?,
        })
    }

    /// Adds its fields to a frame being written.
    pub fn encode<'w>(&self, writer: FrameWriter<'w>) -> FrameWriter<'w> {
        let mut writer = writer
            .field("brokerName", self.broker_name)
            .field("brokerAddr", self.broker_addr)
            .field("clusterName", self.cluster_name);
        if let Some(id) = self.broker_id {
            writer = writer.field_int("brokerId", id);
        }
        if let Some(timeout_ms) = self.heartbeat_timeout_ms {
            // RocketMQ's spelling.
            writer = writer.field_int("heartbeatTimeoutMills", timeout_ms);
        }
        writer
    }
}
