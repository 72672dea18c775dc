//! Offsets: QUERY_CONSUMER_OFFSET 14, UPDATE_CONSUMER_OFFSET 15, SEARCH_OFFSET_BY_TIMESTAMP 29, GET_MAX_OFFSET 30,
//! GET_MIN_OFFSET 31.

use std::rc::Rc;

use engine::{
    derive::consume_queue::QueueIndex, io::Runtime, offset::QueueOffset, read::time::TimeSearch,
    stages::ColdFiles, write::ack::ReplyTo,
};
use protocol::{
    Command,
    code::response,
    header::offset::{
        BoundaryType, OffsetResponse, QueryConsumerOffsetRequest, QueueOffsetRequest, SearchOffsetRequest,
        UpdateConsumerOffsetRequest,
    },
    write_response,
};

use crate::{
    broker::Broker,
    connection::{Shared, Step, send_dirty, table::ConnectionKey},
};

impl<R: Runtime> Broker<R> {
    pub(crate) fn on_query_consumer_offset(&mut self, to: ReplyTo, command: &Command<'_>) {
        let request = match QueryConsumerOffsetRequest::decode(command.fields) {
            Ok(request) => request,
            Err(error) => return self.refuse(to, response::SYSTEM_ERROR, &error.to_string()),
        };
        let stored = self.offsets.get(request.consumer_group, request.topic, request.queue_id);
        if let Some(offset) = stored {
            return self.answer_offset(to, offset);
        }
        // RocketMQ's rule: a new group reads a young queue from its start, if that is still in memory.
        let starts_at_zero = request.set_zero_if_not_found != Some(false)
            && self.queue_of(request.topic, request.queue_id).is_none_or(|queue| self.is_young(queue));
        if starts_at_zero && self.topics.get(request.topic).is_some() {
            return self.answer_offset(to, 0);
        }
        self.refuse(
            to,
            response::QUERY_NOT_FOUND,
            "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first",
        );
    }

    /// Whether the queue still begins with its first message, and that is in memory (or is yet to come).
    fn is_young(&self, queue: QueueIndex) -> bool {
        let mut shard = self.shard.borrow_mut();
        let queues = shard.queues();
        if queues.min_offset(queue) > QueueOffset::ZERO {
            return false;
        }
        if queues.max_offset(queue) == QueueOffset::ZERO {
            return true;
        }
        shard.is_resident(queue, QueueOffset::ZERO)
    }

    pub(crate) fn on_update_consumer_offset(&mut self, to: ReplyTo, command: &Command<'_>) {
        let request = match UpdateConsumerOffsetRequest::decode(command.fields) {
            Ok(request) => request,
            Err(error) => {
                return self.refuse_unless_oneway(to, command, response::SYSTEM_ERROR, &error.to_string());
            }
        };
        self.commit_offset(request.consumer_group, request.topic, request.queue_id, request.commit_offset);
        if !command.is_oneway() {
            self.succeed(to);
        }
    }

    /// Stores how far a group has consumed; the file follows within `flushConsumerOffsetInterval`.
    pub(crate) fn commit_offset(&mut self, group: &str, topic: &str, queue_id: i32, offset: i64) {
        if offset >= 0 && queue_id >= 0 {
            self.offsets.set(group, topic, queue_id, offset);
        }
    }

    pub(crate) fn on_max_offset(&mut self, to: ReplyTo, command: &Command<'_>) {
        self.answer_queue_end(to, command, |broker, queue| {
            // What is acknowledged is counted: nothing confirmed is left undispatched between steps.
            broker.shard.borrow().queues().max_offset(queue)
        });
    }

    pub(crate) fn on_min_offset(&mut self, to: ReplyTo, command: &Command<'_>) {
        self.answer_queue_end(to, command, |broker, queue| broker.shard.borrow().queues().min_offset(queue));
    }

    fn answer_queue_end(
        &mut self,
        to: ReplyTo,
        command: &Command<'_>,
        end: impl FnOnce(&Broker<R>, QueueIndex) -> QueueOffset,
    ) {
        let request = match QueueOffsetRequest::decode(command.fields) {
            Ok(request) => request,
            Err(error) => return self.refuse(to, response::SYSTEM_ERROR, &error.to_string()),
        };
        // Confirmed in this same batch of commands, perhaps: count it.
        let mut shard = self.shard.borrow_mut();
        shard.confirm();
        shard.dispatch();
        drop(shard);
        let offset = match self.queue_of(request.topic, request.queue_id) {
            Some(queue) => end(self, queue).as_i64(),
            None => 0,
        };
        self.answer_offset(to, offset);
    }

    pub(crate) fn on_search_offset(&mut self, to: ReplyTo, command: &Command<'_>) -> Step {
        if self.searches_waiting.len() >= SEARCHES_MAX {
            return Step::Later(self.cold_room.clone());
        }
        let request = match SearchOffsetRequest::decode(command.fields) {
            Ok(request) => request,
            Err(error) => {
                self.refuse(to, response::SYSTEM_ERROR, &error.to_string());
                return Step::Done;
            }
        };
        let Some(queue) = self.queue_of(request.topic, request.queue_id) else {
            self.answer_offset(to, 0);
            return Step::Done;
        };
        let is_upper = request.boundary_type == BoundaryType::Upper;
        // UPPER is the last message at or before the time: the one before the first that is later.
        let timestamp_ms =
            if is_upper { request.timestamp_ms.saturating_add(1) } else { request.timestamp_ms };
        let search = TimeSearch::new(&self.shard.borrow(), queue, timestamp_ms);
        self.run_search(PendingSearch { to, search, queue, is_upper });
        Step::Done
    }

    fn run_search(&mut self, mut pending: PendingSearch) {
        let found = pending.search.run(&mut self.shard.borrow_mut());
        match found {
            Ok(offset) => {
                let min = self.shard.borrow().queues().min_offset(pending.queue);
                let answer =
                    if pending.is_upper && offset > min { offset.as_i64() - 1 } else { offset.as_i64() };
                self.answer_offset(pending.to, answer);
            }
            Err(cold) => {
                self.searches_waiting.push_back((pending, cold));
                self.cold_work.set();
            }
        }
    }

    fn answer_offset(&mut self, to: ReplyTo, offset: i64) {
        self.connections.answer(ConnectionKey(to.connection), |out| {
            let writer = write_response(out, to.serialization, response::SUCCESS, to.opaque);
            OffsetResponse { offset }.encode(writer).finish();
        });
    }

    /// The shard's number of a queue that the topic has.
    pub(crate) fn queue_of(&mut self, topic: &str, queue_id: i32) -> Option<QueueIndex> {
        if self.targets.get(topic).is_none() {
            self.refresh_target(topic);
        }
        let queue_id = usize::try_from(queue_id).ok()?;
        self.targets.get(topic)?.queues.get(queue_id).copied()
    }
}

/// Most searches on one core that wait for bytes from disk; connections that ask for more are not read from meanwhile.
const SEARCHES_MAX: usize = 256;
/// Most of them that read at a time.
const SEARCH_TASKS_MAX: usize = 16;

/// A search that waits for bytes from disk.
pub(crate) struct PendingSearch {
    to: ReplyTo,
    search: TimeSearch,
    queue: QueueIndex,
    is_upper: bool,
}

/// Starts tasks for the searches that wait for bytes from disk, within the bound.
pub(crate) fn start_searches<R: Runtime>(broker: &Shared<Broker<R>>, files: &Rc<ColdFiles<R>>) {
    loop {
        let runtime = {
            let mut broker = broker.borrow_mut();
            if broker.searches >= SEARCH_TASKS_MAX || broker.searches_waiting.is_empty() {
                return;
            }
            broker.searches += 1;
            broker.runtime.clone()
        };
        let (broker, files) = (Rc::clone(broker), Rc::clone(files));
        runtime.clone().spawn(go_on_searching(runtime, broker, files));
    }
}

/// Takes one search after the other: see [`super::pull::start_cold_pulls`] for why no task starts the next.
async fn go_on_searching<R: Runtime>(runtime: R, broker: Shared<Broker<R>>, files: Rc<ColdFiles<R>>) {
    loop {
        let next = broker.borrow_mut().searches_waiting.pop_front();
        let Some((pending, cold)) = next else { break };
        let shard = Rc::clone(&broker.borrow().shard);
        let read = engine::stages::read_cold(&runtime, &shard, &files, &cold).await;
        {
            let mut broker = broker.borrow_mut();
            match read {
                Ok(()) => broker.run_search(pending),
                Err(error) => broker.refuse(
                    pending.to,
                    response::SYSTEM_ERROR,
                    &format!("stored messages cannot be read: {error}"),
                ),
            }
            broker.cold_room.wake_all();
            send_dirty(&runtime, &mut broker.connections);
        }
        runtime.yield_now().await;
    }
    broker.borrow_mut().searches -= 1;
}
