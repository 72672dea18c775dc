//! One function per request code: read the request, ask or change the tables, say the answer.

use std::time::Duration;

use protocol::body::{DataVersion, QueueData, RegisterBrokerBody, TopicList, TopicRouteData};
use protocol::code::{request, response};
use protocol::header::register::{BrokerHeartbeatRequest, BrokerIdentityRequest, RegisterBrokerRequest};
use protocol::header::route::RouteRequest;
use protocol::{Command, write_response};

use super::kv::ORDER_TOPIC_CONFIG;
use super::registry::{BROKER_TIMEOUT_DEFAULT, Registrant};
use super::{ConnectionId, NameServer};
use crate::topic::SEE_FAQ;

/// An answer before it is written.
pub(super) struct Answer {
    code: i32,
    remark: Option<String>,
    fields: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn success() -> Answer {
        Answer { code: response::SUCCESS, remark: None, fields: Vec::new(), body: Vec::new() }
    }

    fn body(body: Vec<u8>) -> Answer {
        Answer { body, ..Answer::success() }
    }

    fn refusal(code: i32, remark: impl ToString) -> Answer {
        Answer { code, remark: Some(remark.to_string()), ..Answer::success() }
    }

    fn field(mut self, name: &'static str, value: Option<impl ToString>) -> Answer {
        self.fields.extend(value.map(|value| (name, value.to_string())));
        self
    }

    pub(super) fn write(&self, command: &Command<'_>, out: &mut Vec<u8>) {
        let mut writer = write_response(out, command.serialization, self.code, command.opaque);
        if let Some(remark) = &self.remark {
            writer = writer.remark(remark);
        }
        for (name, value) in &self.fields {
            writer = writer.field(name, value);
        }
        if self.body.is_empty() { writer.finish() } else { writer.finish_with_body(&self.body) }
    }
}

/// A request that can't be understood: code 1 and what is wrong, as Java answers with its exception.
struct Malformed(String);

impl<E: std::error::Error> From<E> for Malformed {
    fn from(error: E) -> Malformed {
        Malformed(error.to_string())
    }
}

impl NameServer {
    pub(super) fn answer(
        &mut self,
        connection: ConnectionId,
        command: &Command<'_>,
        now: Duration,
    ) -> Answer {
        let answer = match command.code {
            request::REGISTER_BROKER => self.register_broker(connection, command, now),
            request::UNREGISTER_BROKER => self.unregister_broker(command),
            request::GET_ROUTEINFO_BY_TOPIC => self.route(command),
            request::GET_BROKER_CLUSTER_INFO => Ok(Answer::body(self.registry.cluster_info().to_json())),
            request::QUERY_DATA_VERSION => self.query_data_version(command, now),
            request::BROKER_HEARTBEAT => self.broker_heartbeat(command, now),
            request::GET_BROKER_MEMBER_GROUP => self.broker_member_group(command),
            request::GET_ALL_TOPIC_LIST_FROM_NAMESERVER => Ok(topic_list(self.registry.topics(), None)),
            request::GET_TOPICS_BY_CLUSTER => self.topics_by_cluster(command),
            request::GET_SYSTEM_TOPIC_LIST_FROM_NS => Ok(self.system_topics()),
            GET_UNIT_TOPIC_LIST => Ok(self.topics_by_flag(|flag| flag & UNIT != 0)),
            GET_HAS_UNIT_SUB_TOPIC_LIST => Ok(self.topics_by_flag(|flag| flag & UNIT_SUB != 0)),
            GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST => {
                Ok(self.topics_by_flag(|flag| flag & UNIT == 0 && flag & UNIT_SUB != 0))
            }
            request::WIPE_WRITE_PERM_OF_BROKER => self.wipe_write_perm(command),
            request::ADD_WRITE_PERM_OF_BROKER => self.add_write_perm(command),
            request::DELETE_TOPIC_IN_NAMESRV => self.delete_topic(command),
            request::REGISTER_TOPIC_IN_NAMESRV => self.register_topic(command),
            request::PUT_KV_CONFIG => self.put_kv(command),
            request::GET_KV_CONFIG => self.get_kv(command),
            request::DELETE_KV_CONFIG => self.delete_kv(command),
            request::GET_KVLIST_BY_NAMESPACE => self.kv_namespace(command),
            code => Ok(Answer::refusal(
                response::REQUEST_CODE_NOT_SUPPORTED,
                format!(" request type {code} not supported"),
            )),
        };
        answer.unwrap_or_else(|malformed| Answer::refusal(response::SYSTEM_ERROR, malformed.0))
    }

    fn register_broker(
        &mut self,
        connection: ConnectionId,
        command: &Command<'_>,
        now: Duration,
    ) -> Result<Answer, Malformed> {
        let header = RegisterBrokerRequest::decode(command.fields)?;
        if header.body_crc32 != 0 && header.body_crc32 != protocol::message::body_crc(command.body) {
            return Ok(Answer::refusal(response::SYSTEM_ERROR, "crc32 not match"));
        }
        let body = RegisterBrokerBody::decode(command.body, header.compressed, command.version)?;
        let who = Registrant {
            cluster: header.cluster_name,
            broker_name: header.broker_name,
            address: header.broker_addr,
            ha_address: header.ha_server_addr,
            broker_id: header.broker_id,
            timeout: timeout(header.heartbeat_timeout_ms),
            enable_acting_master: header.enable_acting_master,
            zone_name: command.fields.get("__ZONE_NAME"),
        };
        let registered = match self.registry.register(who, &body, connection, now, &self.options) {
            Ok(registered) => registered,
            Err(refusal) => return Ok(Answer::refusal(response::SYSTEM_ERROR, refusal)),
        };
        let order = self.kv.namespace(ORDER_TOPIC_CONFIG);
        let order = order.filter(|_| self.options.return_order_topic_config_to_broker);
        Ok(Answer::body(order.map_or(Vec::new(), |table| table.to_json()))
            .field("haServerAddr", registered.ha_address)
            .field("masterAddr", registered.master_address))
    }

    fn unregister_broker(&mut self, command: &Command<'_>) -> Result<Answer, Malformed> {
        let header = BrokerIdentityRequest::decode(command.fields)?;
        self.registry.unregister(header.cluster_name, header.broker_name, header.broker_addr);
        Ok(Answer::success())
    }

    fn route(&self, command: &Command<'_>) -> Result<Answer, Malformed> {
        let header = RouteRequest::decode(command.fields)?;
        let Some(mut route) = self.registry.route(header.topic, &self.options) else {
            let remark =
                format!("No topic route info in name server for the topic: {}{SEE_FAQ}", header.topic);
            return Ok(Answer::refusal(response::TOPIC_NOT_EXIST, remark));
        };
        if self.options.order_message_enable {
            route.order_topic_conf = self.kv.get(ORDER_TOPIC_CONFIG, header.topic).map(str::to_owned);
        }
        Ok(Answer::body(route.to_json(header.wants_standard_json(command.version))))
    }

    fn query_data_version(&mut self, command: &Command<'_>, now: Duration) -> Result<Answer, Malformed> {
        let header = BrokerIdentityRequest::decode(command.fields)?;
        let asked = DataVersion::from_json(command.body)?;
        let known = self.registry.data_version(header.cluster_name, header.broker_addr);
        self.registry.touch(header.cluster_name, header.broker_addr, now);
        let body = known.map_or(Vec::new(), |known| known.to_json());
        Ok(Answer::body(body).field("changed", Some(known != Some(asked))))
    }

    fn broker_heartbeat(&mut self, command: &Command<'_>, now: Duration) -> Result<Answer, Malformed> {
        let header = BrokerHeartbeatRequest::decode(command.fields)?;
        self.registry.touch(header.cluster_name, header.broker_addr, now);
        Ok(Answer::success())
    }

    fn broker_member_group(&self, command: &Command<'_>) -> Result<Answer, Malformed> {
        let (cluster, broker_name) = (field(command, "clusterName")?, field(command, "brokerName")?);
        let broker = self.registry.broker(broker_name);
        let addresses: Vec<String> = broker
            .iter()
            .flat_map(|broker| &broker.broker_addrs)
            .map(|(id, address)| format!("{id}:{}", quote(address)))
            .collect();
        let body = format!(
            "{{\"brokerMemberGroup\":{{\"brokerAddrs\":{{{}}},\"brokerName\":{},\"cluster\":{}}}}}",
            addresses.join(","),
            quote(broker_name),
            quote(cluster)
        );
        Ok(Answer::body(body.into_bytes()))
    }

    fn topics_by_cluster(&self, command: &Command<'_>) -> Result<Answer, Malformed> {
        Ok(topic_list(self.registry.topics_of_cluster(field(command, "cluster")?), None))
    }

    fn system_topics(&self) -> Answer {
        let (topics, address) = self.registry.system_topics();
        topic_list(topics, address)
    }

    fn topics_by_flag(&self, accepts: impl Fn(i32) -> bool) -> Answer {
        topic_list(self.registry.topics_by_flag(accepts), None)
    }

    fn wipe_write_perm(&mut self, command: &Command<'_>) -> Result<Answer, Malformed> {
        let count = self.registry.wipe_write_perm(field(command, "brokerName")?);
        Ok(Answer::success().field("wipeTopicCount", Some(count)))
    }

    fn add_write_perm(&mut self, command: &Command<'_>) -> Result<Answer, Malformed> {
        let count = self.registry.add_write_perm(field(command, "brokerName")?);
        Ok(Answer::success().field("addTopicCount", Some(count)))
    }

    fn delete_topic(&mut self, command: &Command<'_>) -> Result<Answer, Malformed> {
        let cluster = command.fields.get("clusterName").filter(|cluster| !cluster.is_empty());
        self.registry.delete_topic(field(command, "topic")?, cluster);
        Ok(Answer::success())
    }

    fn register_topic(&mut self, command: &Command<'_>) -> Result<Answer, Malformed> {
        let topic = field(command, "topic")?;
        let queues: Vec<QueueData> = match command.body {
            [] => Vec::new(),
            body => TopicRouteData::from_json(body)?.queue_datas,
        };
        self.registry.put_topic(topic, queues);
        Ok(Answer::success())
    }

    fn put_kv(&mut self, command: &Command<'_>) -> Result<Answer, Malformed> {
        let (namespace, key) = (field(command, "namespace")?, field(command, "key")?);
        match self.kv.put(namespace, key, field(command, "value")?) {
            Ok(()) => Ok(Answer::success()),
            Err(full) => Ok(Answer::refusal(response::SYSTEM_ERROR, full)),
        }
    }

    fn get_kv(&self, command: &Command<'_>) -> Result<Answer, Malformed> {
        let (namespace, key) = (field(command, "namespace")?, field(command, "key")?);
        Ok(match self.kv.get(namespace, key) {
            Some(value) => Answer::success().field("value", Some(value)),
            None => {
                let remark = format!("No config item, Namespace: {namespace} Key: {key}");
                Answer::refusal(response::QUERY_NOT_FOUND, remark)
            }
        })
    }

    fn delete_kv(&mut self, command: &Command<'_>) -> Result<Answer, Malformed> {
        self.kv.delete(field(command, "namespace")?, field(command, "key")?);
        Ok(Answer::success())
    }

    fn kv_namespace(&self, command: &Command<'_>) -> Result<Answer, Malformed> {
        let namespace = field(command, "namespace")?;
        Ok(match self.kv.namespace(namespace) {
            Some(table) => Answer::body(table.to_json()),
            None => {
                Answer::refusal(response::QUERY_NOT_FOUND, format!("No config item, Namespace: {namespace}"))
            }
        })
    }
}

fn topic_list(topic_list: Vec<String>, broker_addr: Option<String>) -> Answer {
    Answer::body(TopicList { broker_addr, topic_list }.to_json())
}

/// A header field that must be there.
fn field<'a>(command: &Command<'a>, name: &'static str) -> Result<&'a str, Malformed> {
    command.fields.get(name).ok_or_else(|| Malformed(format!("the header field {name} is missing")))
}

/// What a broker promised, within reason: a sign of life at least once an hour.
fn timeout(promised_ms: Option<i64>) -> Duration {
    match promised_ms.map(u64::try_from) {
        Some(Ok(millis)) if millis > 0 => Duration::from_millis(millis).min(BROKER_TIMEOUT_MAX),
        _ => BROKER_TIMEOUT_DEFAULT,
    }
}

fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

const GET_UNIT_TOPIC_LIST: i32 = 311;
const GET_HAS_UNIT_SUB_TOPIC_LIST: i32 = 312;
const GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: i32 = 313;
/// Bits of a topic's flags.
const UNIT: i32 = 1;
const UNIT_SUB: i32 = 2;
const BROKER_TIMEOUT_MAX: Duration = Duration::from_secs(3_600);
