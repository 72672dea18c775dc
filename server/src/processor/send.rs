//! SEND_MESSAGE 10, SEND_MESSAGE_V2 310, SEND_BATCH_MESSAGE 320.
//!
//! Contract. The checks come in RocketMQ's order, all of them before the first change. When an accepted message is
//! appended its sender waits in the shard's ack queue, or is answered at once when it asked not to wait
//! (`WAIT=false`), or never (one-way). The steady path neither allocates nor hashes the topic twice.
//!
//! What isn't built is refused by name, never stored as something else: delays, timers, transactions, inner batches.

use std::{fmt::Write, net::SocketAddr};

use engine::{
    commit_log::record::Message,
    derive::consume_queue::QueueIndex,
    io::Runtime,
    limits::PROPERTIES_BYTES_MAX,
    offset::LogOffset,
    shard::{AppendError, Appended},
    write::ack::{Receipt, ReplyTo},
};
use protocol::{
    Command,
    code::response,
    header::send::SendRequest,
    message::{BatchItem, batch_items, offset_message_id, sys_flag},
    properties::{self, NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR, name},
    write_response,
};

use crate::{
    broker::Broker,
    connection::{Step, table::ConnectionKey},
    target::Target,
    topic::name::RETRY_PREFIX,
};

/// The stored properties of a batch are at most so many times `maxMessageSize` together.
const BATCH_PROPERTIES_FACTOR_MAX: usize = 4;

/// What RocketMQ's broker reports as its region.
const REGION: &str = "DefaultRegion";

/// Memory that the send path uses again and again.
pub struct SendScratch {
    /// Properties as they are stored.
    properties: String,
    /// What the broker adds to every message.
    added: String,
    /// For batches: where each item's properties end in `properties`.
    ends: Vec<usize>,
    /// What the ids made here begin with: address and process.
    id_prefix: String,
    id_counter: u64,
}

impl SendScratch {
    /// The scratch of the broker at `address` in `cluster`.
    #[must_use]
    pub fn new(cluster: &str, address: SocketAddr) -> SendScratch {
        let mut added = String::new();
        properties::write(&mut added, name::MSG_REGION, REGION);
        properties::write(&mut added, name::CLUSTER, cluster);
        properties::write(&mut added, name::TRACE_ON, "true");
        let mut id_prefix = String::new();
        if let SocketAddr::V4(address) = address {
            for octet in address.ip().octets() {
                // Writing to a String cannot fail.
                let _infallible = write!(id_prefix, "{octet:02X}");
            }
        } else {
            id_prefix.push_str("00000000");
        }
        let _infallible = write!(id_prefix, "{:04X}", std::process::id() & 0xFFFF);
        SendScratch { properties: String::new(), added, ends: Vec::new(), id_prefix, id_counter: 0 }
    }

    /// An id for a message that came without one: 32 hexadecimal digits.
    fn push_unique_key(&mut self, now_ms: i64) {
        self.id_counter += 1;
        let _infallible = write!(
            self.properties,
            "{}{NAME_VALUE_SEPARATOR}{}{:012X}{:08X}{PROPERTY_SEPARATOR}",
            name::UNIQ_KEY,
            self.id_prefix,
            now_ms & 0xFFFF_FFFF_FFFF,
            self.id_counter & 0xFFFF_FFFF
        );
    }
}

/// Why a send is refused: a response code and what is told.
type Refusal = (i32, String);

/// What the properties of a message say that concerns the broker.
#[derive(Default)]
struct Asked {
    /// Don't wait for the flush.
    no_wait: bool,
    has_unique_key: bool,
    /// All of them are kept as they stand: nothing is replaced, nothing malformed is left out.
    is_kept_whole: bool,
}

/// Reads the properties for what concerns the broker; refuses what isn't built.
fn examine(properties: &str) -> Result<Asked, Refusal> {
    let mut asked = Asked::default();
    let mut kept_bytes = 0;
    for (key, value) in properties::iter(properties) {
        if !is_replaced(key) {
            kept_bytes += key.len() + value.len() + SEPARATORS_BYTES;
        }
        match key {
            name::WAIT => asked.no_wait = value.eq_ignore_ascii_case("false"),
            name::UNIQ_KEY => asked.has_unique_key = true,
            name::DELAY if value.trim().parse::<i64>().is_ok_and(|level| level <= 0) => {}
            name::DELAY | name::TIMER_DELAY_SEC | name::TIMER_DELAY_MS | name::TIMER_DELIVER_MS => {
                return Err((
                    response::MESSAGE_ILLEGAL,
                    format!(
                        "delayed messages are not supported by this broker (property {key}={value}); send without it"
                    ),
                ));
            }
            name::TRAN_MSG if value.eq_ignore_ascii_case("true") => {
                return Err((
                    response::MESSAGE_ILLEGAL,
                    "transactional messages are not supported by this broker; use an ordinary producer"
                        .to_owned(),
                ));
            }
            name::INNER_NUM | name::INNER_BASE | name::INNER_MULTI_DISPATCH => {
                return Err((
                    response::MESSAGE_ILLEGAL,
                    format!(
                        "inner batches and light queues are not supported by this broker (property {key})"
                    ),
                ));
            }
            _ => {}
        }
    }
    let is_ended = properties.is_empty() || properties.ends_with(PROPERTY_SEPARATOR);
    asked.is_kept_whole = kept_bytes == properties.len() + usize::from(!is_ended);
    Ok(asked)
}

/// Behind a name and behind a value.
const SEPARATORS_BYTES: usize = 2;

/// Properties that the broker sets itself, or that mustn't be stored.
fn is_replaced(key: &str) -> bool {
    matches!(key, name::CLUSTER | name::MSG_REGION | name::TRACE_ON | name::POP_CK | name::CRC32)
}

impl<R: Runtime> Broker<R> {
    pub(crate) fn on_send(&mut self, to: ReplyTo, command: &Command<'_>) -> Step {
        let request = match SendRequest::decode(command.code, command.fields) {
            Ok(request) => request,
            Err(error) => {
                self.refuse_send(to, command, (response::SYSTEM_ERROR, error.to_string()));
                return Step::Done;
            }
        };
        let placed = match self.targets.get_mut(request.topic) {
            // It was checked when its target was made.
            Some(target) if target.is_sendable => place(target, &request),
            _ => match self.prepare_target(&request) {
                Ok(target) => place(target, &request),
                Err(refusal) => {
                    self.refuse_send(to, command, refusal);
                    return Step::Done;
                }
            },
        };
        if let Some(durable) = self.wait_for_topic(request.topic) {
            return Step::Later(durable);
        }
        if let Some(group) = request.topic.strip_prefix(RETRY_PREFIX) {
            if let Some(durable) = self.ensure_group(group) {
                return Step::Later(durable);
            }
            if self.groups.get(group).is_none() {
                let remark = format!("subscription group not exist, {group}");
                self.refuse_send(to, command, (response::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
                return Step::Done;
            }
        }
        if let Err(fence_or_room) = self.room() {
            return match fence_or_room {
                NoSend::Later(room) => Step::Later(room),
                NoSend::Refused(refusal) => {
                    self.refuse_send(to, command, refusal);
                    Step::Done
                }
            };
        }
        let done = match placed {
            Err(refusal) => Err(refusal.into()),
            Ok(place) if request.batch => self.send_batch(to, command, &request, place),
            Ok(place) => self.send_single(to, command, &request, place),
        };
        match done {
            Ok(()) => Step::Done,
            Err(NoSend::Later(room)) => Step::Later(room),
            Err(NoSend::Refused(refusal)) => {
                self.refuse_send(to, command, refusal);
                Step::Done
            }
        }
    }

    fn send_single(
        &mut self,
        to: ReplyTo,
        command: &Command<'_>,
        request: &SendRequest<'_>,
        Place { queue_id, queue, sys_flag }: Place,
    ) -> Result<(), NoSend> {
        if command.body.len() > self.message_bytes_max() {
            return Err(self.too_large("body", command.body.len()).into());
        }
        let asked = examine(request.properties)?;
        let now_ms = self.clocks().wall_ms;
        self.scratch.properties.clear();
        append_kept(&mut self.scratch.properties, request.properties, &asked);
        let SendScratch { properties, added, .. } = &mut self.scratch;
        properties.push_str(added);
        if !asked.has_unique_key {
            self.scratch.push_unique_key(now_ms);
        }
        // 5.1.4 writes no separator behind the last property.
        self.scratch.properties.pop();
        check_properties(&self.scratch.properties)?;
        let message = Message {
            topic: request.topic,
            queue_id,
            flag: request.flag,
            sys_flag,
            born_timestamp_ms: request.born_timestamp_ms,
            born_host: self.born_host(to),
            store_host: self.identity.address,
            reconsume_times: request.reconsume_times,
            prepared_transaction_offset: 0,
            body: command.body,
            properties: &self.scratch.properties,
        };
        let appended = self.shard.borrow_mut().append(queue, &message, now_ms);
        let appended = appended.map_err(|error| self.no_send(error))?;
        self.counters.put_messages += 1;
        if !command.is_oneway() {
            let receipt = self.receipt(to, queue_id, appended, Vec::new(), appended.end);
            self.promise(receipt, asked.no_wait);
        }
        Ok(())
    }

    fn send_batch(
        &mut self,
        to: ReplyTo,
        command: &Command<'_>,
        request: &SendRequest<'_>,
        Place { queue_id, queue, sys_flag }: Place,
    ) -> Result<(), NoSend> {
        if command.body.len() > self.message_bytes_max() {
            return Err(self.too_large("batch", command.body.len()).into());
        }
        if request.topic.starts_with(RETRY_PREFIX) {
            return Err(illegal("a batch cannot go to a retry topic; send its messages one by one").into());
        }
        let asked = examine(request.properties)?;
        let now_ms = self.clocks().wall_ms;
        self.scratch.properties.clear();
        self.scratch.ends.clear();
        let mut count = 0;
        for item in batch_items(command.body) {
            let item = item.map_err(|error| illegal(&format!("the batch cannot be read: {error}")))?;
            self.add_item_properties(&item, request.properties, now_ms)?;
            count += 1;
        }
        if count == 0 {
            return Err(illegal("the batch holds no message").into());
        }
        let scratch = &self.scratch;
        let template = Message {
            topic: request.topic,
            queue_id,
            flag: 0,
            sys_flag,
            born_timestamp_ms: request.born_timestamp_ms,
            born_host: self.born_host(to),
            store_host: self.identity.address,
            reconsume_times: request.reconsume_times,
            prepared_transaction_offset: 0,
            body: &[],
            properties: "",
        };
        let starts = std::iter::once(0).chain(scratch.ends.iter().copied());
        let messages =
            batch_items(command.body).zip(starts.zip(scratch.ends.iter())).map(|(item, (start, end))| {
                let item = item.expect("every item was read above");
                Message {
                    flag: item.flag,
                    body: item.body,
                    properties: &scratch.properties[start..*end],
                    ..template
                }
            });
        let mut first = None;
        let mut rest = Vec::new();
        let mut last_end = LogOffset::ZERO;
        let appended = self.shard.borrow_mut().append_batch(queue, messages, now_ms, |appended| {
            last_end = appended.end;
            match first {
                None => first = Some(appended),
                Some(_) => rest.push(appended.log_offset),
            }
        });
        appended.map_err(|error| self.no_send(error))?;
        self.counters.put_messages += count;
        if let (Some(first), false) = (first, command.is_oneway()) {
            let receipt = self.receipt(to, queue_id, first, rest, last_end);
            self.promise(receipt, asked.no_wait);
        }
        Ok(())
    }

    /// Adds what is stored as the properties of one item: its own, then the wrapper's as the broker rebuilds them,
    /// except the wrapper's UNIQ_KEY: an item keeps its own, or gets one.
    fn add_item_properties(
        &mut self,
        item: &BatchItem<'_>,
        wrapper: &str,
        now_ms: i64,
    ) -> Result<(), NoSend> {
        let asked = examine(item.properties)?;
        let start = self.scratch.properties.len();
        append_kept(&mut self.scratch.properties, item.properties, &asked);
        for (key, value) in properties::iter(wrapper) {
            if key != name::UNIQ_KEY && !is_replaced(key) {
                properties::write(&mut self.scratch.properties, key, value);
            }
        }
        let SendScratch { properties, added, .. } = &mut self.scratch;
        properties.push_str(added);
        if !asked.has_unique_key {
            self.scratch.push_unique_key(now_ms);
        }
        self.scratch.properties.pop();
        check_properties(&self.scratch.properties[start..])?;
        // Each item repeats the wrapper's properties: tiny items would make a small batch a huge one.
        if self.scratch.properties.len() > BATCH_PROPERTIES_FACTOR_MAX * self.message_bytes_max() {
            return Err(illegal(
                "the batch's own properties, repeated for each of its messages, make it too large; send fewer \
                 messages at once",
            )
            .into());
        }
        self.scratch.ends.push(self.scratch.properties.len());
        Ok(())
    }

    /// Finds or creates the topic of a send, and makes its target.
    fn prepare_target(&mut self, request: &SendRequest<'_>) -> Result<&mut Target, Refusal> {
        self.create_topic_for_send(request)?;
        self.refresh_target(request.topic);
        Ok(self.targets.get_mut(request.topic).expect("the topic exists"))
    }

    /// Makes the target of an existing topic.
    pub(crate) fn refresh_target(&mut self, topic: &str) {
        let Some(config) = self.topics.get(topic) else {
            self.targets.forget(topic);
            return;
        };
        let count = |nums: i32| u32::try_from(nums).unwrap_or(0);
        let (write_queue_nums, read_queue_nums) =
            (count(config.write_queue_nums), count(config.read_queue_nums));
        let target = Target {
            perm: config.perm,
            write_queue_nums,
            read_queue_nums,
            is_multi_tag: config.topic_filter_type == protocol::body::topic::TopicFilterType::MultiTag,
            is_sendable: crate::topic::name::is_sendable(topic),
            next_queue: 0,
            queues: {
                let mut shard = self.shard.borrow_mut();
                let queues = shard.queues_mut();
                (0..write_queue_nums.max(read_queue_nums))
                    .map(|queue_id| queues.open(topic, queue_id))
                    .collect()
            },
        };
        self.targets.set(topic, target);
    }

    fn room(&mut self) -> Result<(), NoSend> {
        let now = self.clocks().now;
        let mut shard = self.shard.borrow_mut();
        if shard.fence().is_some() {
            drop(shard);
            return Err(NoSend::Refused((response::SERVICE_NOT_AVAILABLE, self.fence_remark())));
        }
        if shard.has_room(now).is_ok() {
            return Ok(());
        }
        if let Some(error) = shard.file_error() {
            let remark = format!(
                "the next commit-log file cannot be made: {error}; the slow stage is the disk; free space under {}",
                shard.settings().root.display()
            );
            return Err(NoSend::Refused((response::SERVICE_NOT_AVAILABLE, remark)));
        }
        Err(NoSend::Later(shard.room.clone()))
    }

    /// What is told to senders once the log is fenced.
    pub(crate) fn fence_remark(&self) -> String {
        let shard = self.shard.borrow();
        match shard.fence() {
            Some(fence) => format!(
                "service not available: {} of the commit log under {} failed ({}, errno {}); nothing more is \
                 accepted until the broker is restarted on a healthy disk",
                fence.operation,
                shard.settings().root.display(),
                fence.text,
                fence.errno
            ),
            None => "service not available".to_owned(),
        }
    }

    fn no_send(&self, error: AppendError) -> NoSend {
        match error {
            AppendError::NoRoom(_) => NoSend::Later(self.shard.borrow().room.clone()),
            AppendError::Fenced(_) => NoSend::Refused((response::SERVICE_NOT_AVAILABLE, self.fence_remark())),
            AppendError::TooLarge { record_bytes, record_bytes_max } => illegal(&format!(
                "the records would take {record_bytes} bytes, more than a commit-log file holds ({record_bytes_max}); \
                 send less at once or raise mappedFileSizeCommitLog"
            ))
            .into(),
        }
    }

    fn receipt(
        &mut self,
        reply_to: ReplyTo,
        queue_id: u32,
        first: Appended,
        rest: Vec<LogOffset>,
        end: LogOffset,
    ) -> Receipt {
        let now = self.clocks().now;
        Receipt {
            reply_to,
            queue_id,
            queue_offset: first.queue_offset,
            log_offset: first.log_offset,
            rest,
            end,
            deadline: self.shard.borrow().ack_deadline(now),
        }
    }

    /// Answers a sender that doesn't want to wait; the others wait.
    fn promise(&mut self, receipt: Receipt, no_wait: bool) {
        if no_wait {
            self.write_send_answer(&receipt, response::SUCCESS, None);
        } else {
            self.shard.borrow_mut().wait_for_promise(receipt);
        }
    }

    pub(crate) fn write_send_answer(&mut self, receipt: &Receipt, code: i32, remark: Option<&str>) {
        let address = self.identity.address;
        let to = receipt.reply_to;
        self.connections.answer(ConnectionKey(to.connection), |out| {
            let mut writer = write_response(out, to.serialization, code, to.opaque)
                .field_int("queueId", receipt.queue_id.into())
                .field_int("queueOffset", receipt.queue_offset.as_i64())
                .field("MSG_REGION", REGION)
                .field("TRACE_ON", "true");
            let id = |offset: LogOffset| offset_message_id(address.ip(), address.port(), offset.as_i64());
            let first = id(receipt.log_offset);
            if receipt.rest.is_empty() {
                writer = writer.field("msgId", first.as_str());
            } else {
                let mut ids = first.as_str().to_owned();
                for offset in &receipt.rest {
                    ids.push(',');
                    ids.push_str(id(*offset).as_str());
                }
                writer = writer.field("msgId", &ids);
            }
            if let Some(remark) = remark {
                writer = writer.remark(remark);
            }
            writer.finish();
        });
    }

    /// Java reads the fields of a refused send too: they are always there.
    fn refuse_send(&mut self, to: ReplyTo, command: &Command<'_>, (code, remark): Refusal) {
        self.counters.refused_sends += 1;
        if command.is_oneway() {
            return;
        }
        self.connections.answer(ConnectionKey(to.connection), |out| {
            write_response(out, to.serialization, code, to.opaque)
                .field("MSG_REGION", REGION)
                .field("TRACE_ON", "true")
                .remark(&remark)
                .finish();
        });
    }

    fn born_host(&self, to: ReplyTo) -> SocketAddr {
        let peer = self.connections.peer_address(ConnectionKey(to.connection));
        // C++ and Node clients read four-byte addresses only: others are stored as 0.0.0.0.
        match peer {
            Some(SocketAddr::V4(address)) => address.into(),
            Some(SocketAddr::V6(address)) => {
                let ip = address.ip().to_ipv4_mapped().unwrap_or(std::net::Ipv4Addr::UNSPECIFIED);
                SocketAddr::new(ip.into(), address.port())
            }
            None => SocketAddr::new(std::net::Ipv4Addr::UNSPECIFIED.into(), 0),
        }
    }

    fn message_bytes_max(&self) -> usize {
        self.shard.borrow().settings().message_bytes_max
    }

    fn too_large(&self, what: &str, len: usize) -> Refusal {
        illegal(&format!(
            "the {what} is {len} bytes, more than maxMessageSize allows ({}); send less at once or raise it",
            self.message_bytes_max()
        ))
    }
}

/// Where a message goes.
#[derive(Clone, Copy)]
struct Place {
    queue_id: u32,
    queue: QueueIndex,
    /// It is stored with this.
    sys_flag: i32,
}

/// Where a message of `target`'s topic goes. The producer or, asked by a negative queue id, the broker chooses.
fn place(target: &mut Target, request: &SendRequest<'_>) -> Result<Place, Refusal> {
    let unbuilt = sys_flag::TRANSACTION_MASK | sys_flag::NEED_UNWRAP | sys_flag::INNER_BATCH;
    if request.sys_flag & unbuilt != 0 {
        return Err(illegal(&format!(
            "sysFlag {:#x} asks for a transaction or an inner batch, which this broker does not support",
            request.sys_flag
        )));
    }
    let queue_id = match u32::try_from(request.queue_id) {
        Ok(queue_id) => queue_id,
        Err(_) => {
            target.next_queue = target.next_queue.wrapping_add(1);
            target.next_queue % target.write_queue_nums.max(1)
        }
    };
    let Some(queue) = target.queues.get(queue_id as usize).copied() else {
        let most = target.read_queue_nums.max(target.write_queue_nums);
        return Err((
            response::SYSTEM_ERROR,
            format!("request queueId[{queue_id}] is illegal, topic {} has {most} queues", request.topic),
        ));
    };
    let multi = if target.is_multi_tag { sys_flag::MULTI_TAGS } else { 0 };
    Ok(Place { queue_id, queue, sys_flag: request.sys_flag | multi })
}

/// A send that didn't happen.
pub(crate) enum NoSend {
    /// Not at this moment.
    Later(engine::io::event::Broadcast),
    /// Not at all.
    Refused(Refusal),
}

impl From<Refusal> for NoSend {
    fn from(refusal: Refusal) -> NoSend {
        NoSend::Refused(refusal)
    }
}

fn illegal(remark: &str) -> Refusal {
    (response::MESSAGE_ILLEGAL, remark.to_owned())
}

/// Appends the sender's properties without those that the broker sets, each ended by a separator.
fn append_kept(out: &mut String, sent: &str, asked: &Asked) {
    if asked.is_kept_whole {
        out.push_str(sent);
        if !sent.is_empty() && !sent.ends_with(PROPERTY_SEPARATOR) {
            out.push(PROPERTY_SEPARATOR);
        }
        return;
    }
    for (key, value) in properties::iter(sent) {
        if !is_replaced(key) {
            out.push_str(key);
            out.push(NAME_VALUE_SEPARATOR);
            out.push_str(value);
            out.push(PROPERTY_SEPARATOR);
        }
    }
}

fn check_properties(stored: &str) -> Result<(), Refusal> {
    if stored.len() > PROPERTIES_BYTES_MAX {
        return Err(illegal(&format!(
            "the properties are {} bytes with what the broker adds, more than {PROPERTIES_BYTES_MAX}",
            stored.len()
        )));
    }
    Ok(())
}
