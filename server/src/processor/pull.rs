//! PULL_MESSAGE 11 and LITE_PULL_MESSAGE 361 (the same request by lite consumers of 5.x): checks, the answer, and long polling.
//!
//! Contract. A pull is answered in the step that reads it when what it needs is in memory; otherwise a task reads the
//! missing pieces and runs it again. A pull that finds nothing new and may wait is held in the same step in which the
//! queue was looked at, so that no message falls in between; it is run again, once and without permission to wait,
//! when it ends. Answers carry all four offsets fields whatever the code: clients read them unchecked.

use std::{rc::Rc, time::Duration};

use engine::{
    io::Runtime,
    offset::QueueOffset,
    read::{
        hold::HeldPull,
        pull::{Filter, Pull, PullStatus, Pulled},
    },
    shard::Cold,
    stages::ColdFiles,
    write::ack::ReplyTo,
};
use protocol::{
    Command, body::heartbeat::MessageModel, code::response, header::pull::PullRequest, write_response,
};

use crate::{
    broker::Broker,
    client_registry::PullSubscription,
    config::ByteSize,
    connection::{Shared, Step, table::ConnectionKey},
    response::subscription_code,
    subscription::{SubscriptionError, TagFilter},
};

/// Held pulls are answered before any client gives up (Java, Go and Node wait 30 s).
const HOLD_MAX: Duration = Duration::from_secs(25);
/// Most cold pulls under way on one core; further ones wait their turn.
pub(crate) const COLD_PULLS_MAX: usize = 64;
/// Most pulls held for one connection, so that one peer can't take all places. A client has one per queue.
const HELD_OF_A_CONNECTION_MAX: usize = 8192;
/// Most that wait for their turn; connections that ask for more are not read from meanwhile.
const COLD_WAITING_MAX: usize = 4096;

type Refusal = (i32, String);

impl<R: Runtime> Broker<R> {
    pub(crate) fn on_pull(&mut self, to: ReplyTo, command: &Command<'_>) -> Step {
        if self.cold_waiting.len() >= COLD_WAITING_MAX {
            return Step::Later(self.cold_room.clone());
        }
        let request = match PullRequest::decode(command.fields) {
            Ok(request) => request,
            Err(error) => {
                self.refuse_pull(to, response::SYSTEM_ERROR, &error.to_string());
                return Step::Done;
            }
        };
        if let Some(durable) = self.ensure_group(request.consumer_group) {
            return Step::Later(durable);
        }
        let pull = match self.check_pull(&request) {
            Ok(pull) => pull,
            Err((code, remark)) => {
                self.refuse_pull(to, code, &remark);
                return Step::Done;
            }
        };
        if request.commits_offset() {
            self.commit_offset(
                request.consumer_group,
                request.topic,
                request.queue_id,
                request.commit_offset,
            );
        }
        let wait = self.hold_time(&request);
        self.run_pull(to, pull, wait);
        Step::Done
    }

    /// RocketMQ's checks, in its order.
    fn check_pull(&mut self, request: &PullRequest<'_>) -> Result<Pull, Refusal> {
        let group = request.consumer_group;
        let Some(config) = self.groups.get(group) else {
            return Err((
                response::SUBSCRIPTION_GROUP_NOT_EXIST,
                format!(
                    "subscription group [{group}] does not exist, and autoCreateSubscriptionGroup is off"
                ),
            ));
        };
        if !config.consume_enable {
            return Err((response::NO_PERMISSION, format!("subscription group no permission, {group}")));
        }
        let broadcast_enable = config.consume_broadcast_enable;
        if self.targets.get(request.topic).is_none() {
            self.refresh_target(request.topic);
        }
        let Some(target) = self.targets.get(request.topic) else {
            return Err((
                response::TOPIC_NOT_EXIST,
                format!(
                    "topic[{}] not exist, apply first please! create it with code 17 or by sending to it",
                    request.topic
                ),
            ));
        };
        if target.perm & protocol::body::topic::perm::READ == 0 {
            return Err((
                response::NO_PERMISSION,
                format!("the topic[{}] pulling message is forbidden", request.topic),
            ));
        }
        let queue_id = u32::try_from(request.queue_id).ok().filter(|id| *id < target.read_queue_nums);
        let Some(queue_id) = queue_id else {
            return Err((
                response::SYSTEM_ERROR,
                format!(
                    "queueId[{}] is illegal, topic:[{}] topicConfig.readQueueNums:[{}]",
                    request.queue_id, request.topic, target.read_queue_nums
                ),
            ));
        };
        let queue = target.queues[queue_id as usize];
        let Some(queue_offset) = QueueOffset::from_i64(request.queue_offset.max(0)) else {
            return Err((response::SYSTEM_ERROR, format!("queueOffset {} is illegal", request.queue_offset)));
        };
        let filter = self.filter_of(request, broadcast_enable)?;
        let settings = &self.settings;
        let asked = usize::try_from(request.max_msg_nums).unwrap_or(1);
        let count = |max: u32| asked.clamp(1, max as usize);
        let bytes = |max: ByteSize| usize::try_from(max.0).unwrap_or(usize::MAX);
        Ok(Pull {
            queue,
            queue_offset,
            message_count_max: count(settings.max_transfer_count_on_message_in_memory),
            bytes_max: bytes(settings.max_transfer_bytes_on_message_in_memory),
            cold_message_count_max: count(settings.max_transfer_count_on_message_in_disk),
            cold_bytes_max: bytes(settings.max_transfer_bytes_on_message_in_disk),
            filter: match filter {
                TagFilter::All => Filter::All,
                TagFilter::Codes(codes) => Filter::TagCodes(codes),
            },
        })
    }

    /// The filter that the request carries, or the group's registered one.
    fn filter_of(&mut self, request: &PullRequest<'_>, broadcast_enable: bool) -> Result<TagFilter, Refusal> {
        let group = request.consumer_group;
        if request.has_subscription() {
            let filter = TagFilter::parse(request.subscription, request.expression_type).map_err(refusal)?;
            let now = self.since_start();
            let pull = PullSubscription {
                group,
                topic: request.topic,
                expression: request.subscription,
                expression_type: request.expression_type,
                sub_version: request.sub_version,
            };
            self.clients.on_pull_subscription(&pull, now);
            return Ok(filter);
        }
        let is_broadcasting = self
            .clients
            .group_info(group)
            .is_some_and(|info| info.message_model == MessageModel::Broadcasting);
        if is_broadcasting && !broadcast_enable {
            return Err((
                response::NO_PERMISSION,
                format!("the consumer group[{group}] can not consume by broadcast way"),
            ));
        }
        self.clients.filter(group, request.topic, request.sub_version).cloned().map_err(refusal)
    }

    /// How long this pull may wait for a message; `None` when not at all.
    fn hold_time(&self, request: &PullRequest<'_>) -> Option<Duration> {
        if !request.may_suspend() {
            return None;
        }
        let asked = Duration::from_millis(u64::try_from(request.suspend_timeout_ms).unwrap_or(0));
        let allowed =
            if self.settings.long_polling_enable { HOLD_MAX } else { self.settings.short_polling_time };
        Some(asked.min(allowed))
    }

    /// Runs a pull on what is in memory: answers it, holds it, or leaves it to a task that reads what is missing.
    pub(crate) fn run_pull(&mut self, to: ReplyTo, pull: Pull, wait: Option<Duration>) {
        let pulled = self.shard.borrow_mut().pull(&pull);
        match pulled {
            Ok(pulled) => self.finish_pull(to, pull, pulled, wait),
            Err(cold) => {
                self.cold_waiting.push_back(ColdPull { to, pull, cold });
                self.cold_work.set();
            }
        }
    }

    /// The pull is decided: holds it if that is what it wants, answers it otherwise.
    fn finish_pull(&mut self, to: ReplyTo, pull: Pull, pulled: Pulled, wait: Option<Duration>) {
        let is_waiting = pulled.status == PullStatus::OffsetOverflowOne
            || (pulled.status == PullStatus::NoMessageInQueue && pull.queue_offset == QueueOffset::ZERO);
        if let (true, Some(wait)) = (is_waiting, wait)
            && self.may_hold(to)
        {
            let now = self.runtime.now();
            let held = HeldPull { reply_to: to, pull, deadline: now + wait };
            self.shard.borrow_mut().holds_mut().hold(held, now);
            if wait < Duration::from_secs(1) {
                // Sooner than the look that is taken every second anyway.
                self.holds_changed.set();
            }
            return;
        }
        self.answer_pull(to, pull.queue_offset, pulled);
    }

    /// Whether one more pull of this connection may be held.
    fn may_hold(&self, to: ReplyTo) -> bool {
        let shard = self.shard.borrow();
        let holds = shard.holds();
        holds.len() < self.settings.max_held_pulls as usize
            && holds.len_of(to.connection) < HELD_OF_A_CONNECTION_MAX
            && !self.is_stopping()
    }

    fn answer_pull(&mut self, to: ReplyTo, asked: QueueOffset, pulled: Pulled) {
        let (code, remark) = match pulled.status {
            PullStatus::Found => (response::SUCCESS, "FOUND"),
            PullStatus::NoMatchedMessage => (response::PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE"),
            PullStatus::MessageWasRemoving => (response::PULL_RETRY_IMMEDIATELY, "MESSAGE_WAS_REMOVING"),
            PullStatus::NoMessageInQueue if asked == QueueOffset::ZERO => {
                (response::PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE")
            }
            PullStatus::NoMessageInQueue => (response::PULL_OFFSET_MOVED, "NO_MESSAGE_IN_QUEUE"),
            PullStatus::OffsetOverflowOne => (response::PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE"),
            PullStatus::OffsetTooSmall => (response::PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL"),
            PullStatus::OffsetOverflowBadly => (response::PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY"),
        };
        let shard = Rc::clone(&self.shard);
        let mut shard = shard.borrow_mut();
        self.counters.get_messages += shard.selected_count() as u64;
        self.connections.answer(ConnectionKey(to.connection), |out| {
            let writer = write_response(out, to.serialization, code, to.opaque)
                .remark(remark)
                .field_int("suggestWhichBrokerId", 0)
                .field_int("nextBeginOffset", pulled.next_begin_offset.as_i64())
                .field_int("minOffset", pulled.min_offset.as_i64())
                .field_int("maxOffset", pulled.max_offset.as_i64());
            if code == response::SUCCESS {
                writer.finish_with_body_len(shard.selected_bytes());
                shard.copy_selected(out);
            } else {
                writer.finish();
            }
        });
    }

    /// Clients read the four offsets of every answer to a pull.
    fn refuse_pull(&mut self, to: ReplyTo, code: i32, remark: &str) {
        self.connections.answer(ConnectionKey(to.connection), |out| {
            write_response(out, to.serialization, code, to.opaque)
                .remark(remark)
                .field_int("suggestWhichBrokerId", 0)
                .field_int("nextBeginOffset", 0)
                .field_int("minOffset", 0)
                .field_int("maxOffset", 0)
                .finish();
        });
    }

    /// Runs the pulls whose holds have ended, without permission to wait again.
    pub(crate) fn answer_ended_holds(&mut self) {
        loop {
            let ended = self.shard.borrow_mut().holds_mut().take_ended();
            let Some(held) = ended else { return };
            if self.connections.is_full(ConnectionKey(held.reply_to.connection)) {
                self.put_off_pull(held.reply_to, &held.pull);
            } else {
                self.run_pull(held.reply_to, held.pull, None);
            }
        }
    }

    /// Tells a peer that doesn't take the answers it has to ask again, from the same offset: one connection may have
    /// many pulls held or reading, and their messages together must not fill memory.
    fn put_off_pull(&mut self, to: ReplyTo, pull: &Pull) {
        let (min_offset, max_offset) = {
            let shard = self.shard.borrow();
            (shard.queues().min_offset(pull.queue), shard.queues().max_offset(pull.queue))
        };
        let next_begin_offset = pull.queue_offset;
        let status = PullStatus::NoMatchedMessage;
        self.answer_pull(to, pull.queue_offset, Pulled { status, next_begin_offset, min_offset, max_offset });
    }
}

/// A pull that needs bytes from disk.
pub(crate) struct ColdPull {
    to: ReplyTo,
    pull: Pull,
    cold: Cold,
}

/// Starts tasks for the pulls that wait for bytes from disk, within the bound.
pub(crate) fn start_cold_pulls<R: Runtime>(broker: &Shared<Broker<R>>, files: &Rc<ColdFiles<R>>) {
    loop {
        let (next, runtime) = {
            let mut broker = broker.borrow_mut();
            if broker.cold_pulls >= COLD_PULLS_MAX {
                return;
            }
            let Some(next) = broker.cold_waiting.pop_front() else { return };
            broker.cold_pulls += 1;
            (next, broker.runtime.clone())
        };
        let (broker, files) = (Rc::clone(broker), Rc::clone(files));
        runtime.spawn(async move {
            run_cold_pull(&broker, &files, next).await;
            {
                let mut broker = broker.borrow_mut();
                broker.cold_pulls -= 1;
                broker.cold_room.wake_all();
            }
            start_cold_pulls(&broker, &files);
        });
    }
}

/// Reads what a pull needs until it can be decided, and answers it.
async fn run_cold_pull<R: Runtime>(
    broker: &Shared<Broker<R>>,
    files: &Rc<ColdFiles<R>>,
    mut waiting: ColdPull,
) {
    loop {
        let (runtime, shard) = {
            let broker = broker.borrow();
            if !broker.connections.is_open(ConnectionKey(waiting.to.connection)) {
                return;
            }
            (broker.runtime.clone(), Rc::clone(&broker.shard))
        };
        let read = engine::stages::read_cold(&runtime, &shard, files, &waiting.cold).await;
        let mut broker_now = broker.borrow_mut();
        if let Err(error) = read {
            broker_now.refuse_pull(
                waiting.to,
                response::SYSTEM_ERROR,
                &format!("stored messages cannot be read: {error}"),
            );
        } else if broker_now.connections.is_full(ConnectionKey(waiting.to.connection)) {
            broker_now.put_off_pull(waiting.to, &waiting.pull);
        } else {
            let pulled = shard.borrow_mut().pull(&waiting.pull);
            match pulled {
                Err(cold) => {
                    waiting.cold = cold;
                    continue;
                }
                Ok(pulled) => broker_now.finish_pull(waiting.to, waiting.pull, pulled, None),
            }
        }
        crate::connection::send_dirty(&runtime, &mut broker_now.connections);
        return;
    }
}

fn refusal(error: SubscriptionError) -> Refusal {
    (subscription_code(&error), error.to_string())
}
