//! Clients and groups: HEART_BEAT 34, UNREGISTER_CLIENT 35, GET_CONSUMER_LIST_BY_GROUP 38, and
//! NOTIFY_CONSUMER_IDS_CHANGED 40, which goes to clients.

use std::time::Duration;

use engine::{
    io::{Runtime, event::Broadcast},
    write::ack::ReplyTo,
};
use protocol::{
    Command, Serialization,
    body::{heartbeat::HeartbeatData, list::ConsumerList},
    code::{request, response},
    command::FLAG_ONEWAY,
    header::group::{ConsumerGroupRequest, HeartbeatResponse, UnregisterClientRequest},
    write_request, write_response,
};

use crate::{
    broker::Broker,
    connection::{Step, table::ConnectionKey},
};

/// A client that sent no heartbeat for so long is gone.
pub(crate) const CLIENT_EXPIRY: Duration = Duration::from_secs(120);

impl<R: Runtime> Broker<R> {
    pub(crate) fn on_heartbeat(&mut self, to: ReplyTo, command: &Command<'_>) -> Step {
        let heartbeat = match HeartbeatData::from_json(command.body) {
            Ok(heartbeat) => heartbeat,
            Err(error) => {
                self.refuse_unless_oneway(
                    to,
                    command,
                    response::SYSTEM_ERROR,
                    &format!("the heartbeat cannot be read: {error}"),
                );
                return Step::Done;
            }
        };
        // The group and its retry topic are durable before the client hears of them.
        for consumer in &heartbeat.consumer_data {
            if let Some(durable) = self.ensure_group(&consumer.group_name) {
                return Step::Later(durable);
            }
            if self.groups.get(&consumer.group_name).is_some()
                && let Some(durable) = self.ensure_retry_topic(
                    &consumer.group_name,
                    consumer.unit_mode,
                    consumer
                        .subscriptions
                        .iter()
                        .any(|data| self.topics.get(&data.topic).is_some_and(|t| t.order)),
                )
            {
                return Step::Later(durable);
            }
        }
        let now = self.since_start();
        let connection = ConnectionKey(to.connection);
        let effects =
            self.clients.on_heartbeat(connection, &heartbeat, command.version, command.language, now);
        if let Some(refused) = effects.refused.first() {
            self.refuse_unless_oneway(to, command, response::SYSTEM_ERROR, &refused.to_string());
        } else if !command.is_oneway() {
            self.connections.answer(connection, |out| {
                let writer = write_response(out, to.serialization, response::SUCCESS, to.opaque);
                HeartbeatResponse { is_support_heart_beat_v2: true, is_sub_change: true }
                    .encode(writer)
                    .finish();
            });
        }
        for group in effects.groups_changed {
            self.notify_consumers(&group);
        }
        Step::Done
    }

    pub(crate) fn on_unregister_client(&mut self, to: ReplyTo, command: &Command<'_>) {
        let request = match UnregisterClientRequest::decode(command.fields) {
            Ok(request) => request,
            Err(error) => {
                return self.refuse_unless_oneway(to, command, response::SYSTEM_ERROR, &error.to_string());
            }
        };
        let changed = self.clients.on_unregister(
            ConnectionKey(to.connection),
            request.client_id,
            request.producer_group,
            request.consumer_group,
        );
        if !command.is_oneway() {
            self.succeed(to);
        }
        for group in changed {
            self.notify_consumers(&group);
        }
    }

    pub(crate) fn on_consumer_list(&mut self, to: ReplyTo, command: &Command<'_>) {
        let request = match ConsumerGroupRequest::decode(command.fields) {
            Ok(request) => request,
            Err(error) => return self.refuse(to, response::SYSTEM_ERROR, &error.to_string()),
        };
        let ids: Option<Vec<String>> =
            self.clients.consumer_ids(request.consumer_group).map(|ids| ids.map(str::to_owned).collect());
        match ids {
            Some(ids) if !ids.is_empty() => {
                let body = ConsumerList { consumer_id_list: ids }.to_json();
                self.succeed_with_body(to, &body);
            }
            _ => self.refuse(
                to,
                response::SYSTEM_ERROR,
                &format!("no consumer for this group, {}", request.consumer_group),
            ),
        }
    }

    /// Tells every consumer of `group` that its members changed, unless its configuration says not to.
    pub(crate) fn notify_consumers(&mut self, group: &str) {
        if self.groups.get(group).is_some_and(|config| !config.notify_consumer_ids_changed_enable) {
            return;
        }
        let channels: Vec<ConnectionKey> = self.clients.channels(group).collect();
        for channel in channels {
            self.push_opaque = self.push_opaque.wrapping_add(1);
            let opaque = self.push_opaque;
            // A client with too much unread already is told by its next rebalance instead.
            let _told = self.connections.push(channel, |out| {
                write_request(
                    out,
                    Serialization::Json,
                    request::NOTIFY_CONSUMER_IDS_CHANGED,
                    opaque,
                    FLAG_ONEWAY,
                )
                .field("consumerGroup", group)
                .finish();
            });
        }
    }

    /// Creates the group's configuration when it is new; what to wait for until that is durable.
    pub(crate) fn ensure_group(&mut self, group: &str) -> Option<Broadcast> {
        let auto_create = self.settings.auto_create_subscription_group;
        let now_ms = self.runtime.wall_clock_ms();
        // A refused name leaves the group missing, and its requests are refused by that.
        if let Ok((_, true)) = self.groups.find_or_create(group, auto_create, now_ms) {
            let generation = self.metadata.writer.borrow_mut().request(self.metadata.groups);
            self.undurable_groups.insert(group.to_owned(), generation);
        }
        self.wait_for_group(group)
    }
}
