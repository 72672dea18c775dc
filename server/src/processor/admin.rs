//! Administration: UPDATE_AND_CREATE_TOPIC 17, GET_BROKER_RUNTIME_INFO 28, and how topics come into being.

use engine::{
    io::{Runtime, event::Broadcast},
    metadata::Generation,
    write::ack::ReplyTo,
};
use protocol::{
    Command,
    body::kv::KvTable,
    code::response,
    header::{admin::CreateTopicRequest, send::SendRequest},
};

use crate::{broker::Broker, connection::Step, topic::SendCreate};

impl<R: Runtime> Broker<R> {
    pub(crate) fn on_create_topic(&mut self, to: ReplyTo, command: &Command<'_>) -> Step {
        let request = match CreateTopicRequest::decode(command.fields) {
            Ok(request) => request,
            Err(error) => {
                self.refuse_unless_oneway(to, command, response::SYSTEM_ERROR, &error.to_string());
                return Step::Done;
            }
        };
        // Brought again after the change became durable: then it only changes nothing.
        match self.topics.update(&request, self.runtime.wall_clock_ms()) {
            Ok(is_changed) => {
                if is_changed {
                    self.on_topic_changed(request.topic);
                }
            }
            Err(error) => {
                self.refuse_unless_oneway(to, command, error.code(), &error.to_string());
                return Step::Done;
            }
        }
        if let Some(durable) = self.wait_for_topic(request.topic) {
            return Step::Later(durable);
        }
        if !command.is_oneway() {
            self.succeed(to);
        }
        Step::Done
    }

    /// Creates the topic that a send is for, by RocketMQ's rules of automatic creation.
    pub(crate) fn create_topic_for_send(&mut self, request: &SendRequest<'_>) -> Result<(), (i32, String)> {
        let send = SendCreate {
            topic: request.topic,
            default_topic: request.default_topic,
            default_topic_queue_nums: request.default_topic_queue_nums,
            unit_mode: request.unit_mode,
        };
        let created = self.topics.create_on_send(send, self.runtime.wall_clock_ms());
        let (_, is_changed) = created.map_err(|error| (error.code(), error.to_string()))?;
        if is_changed {
            self.on_topic_changed(request.topic);
        }
        Ok(())
    }

    /// Creates the retry topic of a group that consumes; what to wait for until it is durable.
    pub(crate) fn ensure_retry_topic(
        &mut self,
        group: &str,
        unit_mode: bool,
        is_order: bool,
    ) -> Option<Broadcast> {
        let topic = format!("%RETRY%{group}");
        let queue_nums = self.groups.get(group).map_or(1, |config| config.retry_queue_nums);
        // A group without retry queues has no retry topic.
        if queue_nums > 0 {
            let now_ms = self.runtime.wall_clock_ms();
            let created = self.topics.create_retry(group, queue_nums, unit_mode, is_order, now_ms);
            if created.is_ok_and(|(_, is_changed)| is_changed) {
                self.on_topic_changed(&topic);
            }
        }
        self.wait_for_topic(&topic)
    }

    /// A topic was created or changed: it is written, the name servers hear of it at once, and sends to it wait until
    /// it is durable.
    fn on_topic_changed(&mut self, topic: &str) {
        let generation = self.metadata.writer.borrow_mut().request(self.metadata.topics);
        self.undurable_topics.insert(topic.to_owned(), generation);
        self.refresh_target(topic);
        self.topic_changes.add(topic);
        self.topics_changed.wake_all();
    }

    /// What to wait for until the topic's configuration is durable; `None` when it is.
    pub(crate) fn wait_for_topic(&mut self, topic: &str) -> Option<Broadcast> {
        if self.undurable_topics.is_empty() {
            return None;
        }
        let durable = self.metadata.writer.borrow().durable_generation(self.metadata.topics);
        wait_for(&mut self.undurable_topics, topic, durable).then(|| self.metadata_durable.clone())
    }

    /// What to wait for until the group's configuration is durable; `None` when it is.
    pub(crate) fn wait_for_group(&mut self, group: &str) -> Option<Broadcast> {
        if self.undurable_groups.is_empty() {
            return None;
        }
        let durable = self.metadata.writer.borrow().durable_generation(self.metadata.groups);
        wait_for(&mut self.undurable_groups, group, durable).then(|| self.metadata_durable.clone())
    }

    pub(crate) fn on_runtime_info(&mut self, to: ReplyTo) {
        let body = KvTable { table: self.runtime_info() }.to_json();
        self.succeed_with_body(to, &body);
    }

    /// RocketMQ's keys that apply here, and ours under `ringmq.`.
    fn runtime_info(&self) -> std::collections::BTreeMap<String, String> {
        let shard = self.shard.borrow();
        let mut table = std::collections::BTreeMap::new();
        let mut put = |key: &str, value: String| {
            table.insert(key.to_owned(), value);
        };
        let (flush, counters) = (shard.flush_counters(), shard.counters());
        let connections = self.connections.counters();
        put("bootTimestamp", self.start_timestamp_ms.to_string());
        put("runtime", format!("[ {} seconds ]", self.since_start().as_secs()));
        put("brokerVersion", protocol::VERSION.to_string());
        put("brokerVersionDesc", "V5_3_3".to_owned());
        put("putMessageTimesTotal", self.counters.put_messages.to_string());
        put("msgPutTotalTodayNow", self.counters.put_messages.to_string());
        put("msgGetTotalTodayNow", self.counters.get_messages.to_string());
        put("getTransferredTps", "0.0 0.0 0.0".to_owned());
        put("putTps", "0.0 0.0 0.0".to_owned());
        put("commitLogMinOffset", shard.log_min().to_string());
        put("commitLogMaxOffset", shard.log().end().to_string());
        put("remainHowManyDataToFlush", format!("{} B", shard.log().end().since(shard.flushed_end())));
        put("dispatchBehindBytes", shard.confirmed_end().since(shard.dispatched_end()).to_string());
        put("brokerRole", "ASYNC_MASTER".to_owned());
        put("brokerActive", (!self.is_stopping()).to_string());
        put("ringmq.health", if shard.fence().is_some() { "fenced".to_owned() } else { "ok".to_owned() });
        put("ringmq.flush.syncs", flush.syncs.to_string());
        put("ringmq.flush.writes", flush.writes.to_string());
        put("ringmq.flush.bytes", flush.synced_bytes.to_string());
        put("ringmq.flush.sync_micros", flush.sync_time.as_micros().to_string());
        put("ringmq.flush.unprepared_bytes", shard.log().unprepared_bytes().to_string());
        put("ringmq.append.messages", counters.appended_messages.to_string());
        put("ringmq.append.bytes", counters.appended_bytes.to_string());
        put("ringmq.pull.messages", counters.pulled_messages.to_string());
        put("ringmq.pull.bytes", counters.pulled_bytes.to_string());
        put("ringmq.pull.cold_reads", counters.cold_reads.to_string());
        put("ringmq.pull.held", shard.holds().len().to_string());
        put("ringmq.send.waiting", shard.waiting_senders().to_string());
        put("ringmq.send.refused", self.counters.refused_sends.to_string());
        put("ringmq.connections.open", self.connections.len().to_string());
        put("ringmq.connections.opened", connections.opened.to_string());
        put("ringmq.connections.refused", connections.refused.to_string());
        put("ringmq.connections.malformed", connections.malformed.to_string());
        put("ringmq.connections.idle_closed", connections.idle.to_string());
        put("ringmq.connections.answer_bytes", self.connections.answer_bytes().to_string());
        put("ringmq.recovery.how", self.recovery.how.clone());
        put("ringmq.recovery.unclean_bytes", self.recovery.unclean_bytes.to_string());
        table
    }
}

/// Whether the change of `name` isn't durable yet; forgets those that are.
fn wait_for(
    undurable: &mut std::collections::HashMap<String, Generation>,
    name: &str,
    durable: Generation,
) -> bool {
    match undurable.get(name) {
        Some(generation) if *generation <= durable => {
            undurable.remove(name);
            false
        }
        Some(_) => true,
        None => false,
    }
}
