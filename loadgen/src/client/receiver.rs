//! One consumer connection: a pull outstanding for each of its queues, asked again as soon as it is answered. Pulls are
//! held by the broker (15 s) while there is nothing to read, so an idle consumer costs nothing.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use protocol::code::{request, response};
use protocol::frame::FRAME_BYTES_MAX;
use protocol::header::pull::{PullRequest, PullResponse};
use protocol::message::stored_messages;
use protocol::{Serialization, Session, write_request};

use super::Lane;
use super::sender::{CODE_PROTOCOL, Health};
use super::tally::{Reading, Tally};
use crate::audit::identity::{self, Body};
use crate::clock::now_ns;

/// `SUSPEND | SUBSCRIPTION`: hold the pull, and take the filter from the request, so that no heartbeat is needed.
const PULL_SYS_FLAG: i32 = 0x2 | 0x4;
const SUSPEND_MS: i64 = 15_000;
/// Pause before a refused pull is tried again.
const RETRY_NS: u64 = 100_000_000;
const RECEIVE_BYTES: usize = 256 * 1024;

/// How pulls are made.
#[derive(Clone, Debug)]
pub(super) struct PullStyle {
    pub(super) serialization: Serialization,
    pub(super) group: String,
    /// Most messages in one answer.
    pub(super) batch: i32,
    /// Receipts fill the timeline (nobody sends in this run).
    pub(super) moments: bool,
    /// The run whose stamps are on this clock.
    pub(super) run: u64,
}

/// One consumer connection.
pub(super) struct Receiver {
    pub(super) stream: TcpStream,
    session: Session,
    out: Vec<u8>,
    out_start: usize,
    queues: Vec<Queue>,
    pub(super) lost: bool,
    pub(super) watching_writes: bool,
}

/// A queue that this connection reads.
struct Queue {
    lane: Lane,
    next_offset: i64,
    outstanding: bool,
    retry_at_ns: u64,
    opaque: i32,
}

impl Receiver {
    /// `queues`: each with the offset of the first message wanted.
    pub(super) fn new(stream: TcpStream, queues: Vec<(Lane, i64)>) -> Receiver {
        let queues = queues.into_iter().map(|(lane, next_offset)| Queue {
            lane,
            next_offset,
            outstanding: false,
            retry_at_ns: 0,
            opaque: 0,
        });
        Receiver {
            stream,
            session: Session::new(FRAME_BYTES_MAX),
            out: Vec::new(),
            out_start: 0,
            queues: queues.collect(),
            lost: false,
            watching_writes: false,
        }
    }

    /// Asks for every queue that is not being asked; false when there was nothing to ask now.
    pub(super) fn ask(&mut self, style: &PullStyle, now_ns: u64) -> bool {
        let mut asked = false;
        for (number, queue) in self.queues.iter_mut().enumerate() {
            if queue.outstanding || queue.retry_at_ns > now_ns || self.lost {
                continue;
            }
            // The queue's number in the low bits, a count above: an answer finds its queue, a stale one does not.
            let count = ((queue.opaque >> QUEUE_BITS) + 1) & 0xFFFF;
            queue.opaque = count << QUEUE_BITS | i32::try_from(number).expect("few queues");
            queue.outstanding = true;
            asked = true;
            let pull = PullRequest {
                consumer_group: &style.group,
                topic: &queue.lane.topic,
                queue_id: queue.lane.queue_id,
                queue_offset: queue.next_offset,
                max_msg_nums: style.batch,
                sys_flag: PULL_SYS_FLAG,
                commit_offset: 0,
                suspend_timeout_ms: SUSPEND_MS,
                subscription: Some("*"),
                sub_version: 0,
                expression_type: Some("TAG"),
                max_msg_bytes: None,
            };
            let frame =
                write_request(&mut self.out, style.serialization, request::PULL_MESSAGE, queue.opaque, 0);
            pull.encode(frame).finish();
        }
        asked
    }

    /// When a refused pull may be tried again.
    pub(super) fn retry_at_ns(&self) -> Option<u64> {
        let waiting = self.queues.iter().filter(|queue| !queue.outstanding && !self.lost);
        waiting.map(|queue| queue.retry_at_ns).min()
    }

    pub(super) fn flush(&mut self) -> Health {
        while self.out_start < self.out.len() && !self.lost {
            match (&self.stream).write(&self.out[self.out_start..]) {
                Ok(0) => self.lost = true,
                Ok(written) => self.out_start += written,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Health::Blocked,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.lost = true,
            }
        }
        self.out.clear();
        self.out_start = 0;
        if self.lost { Health::Lost } else { Health::Open }
    }

    /// Reads all that has arrived.
    pub(super) fn receive(&mut self, style: &PullStyle, tally: &mut Tally, reading: &mut Reading) -> Health {
        loop {
            let room = self.session.receive_room(RECEIVE_BYTES);
            let asked = room.len();
            match (&self.stream).read(room) {
                Ok(0) => self.lost = true,
                Ok(len) => {
                    self.session.on_received(len);
                    self.settle(style, now_ns(), tally, reading);
                    if len == asked && !self.lost {
                        continue;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => self.lost = true,
            }
            return if self.lost { Health::Lost } else { Health::Open };
        }
    }

    fn settle(&mut self, style: &PullStyle, now_ns: u64, tally: &mut Tally, reading: &mut Reading) {
        loop {
            let command = match self.session.poll_command() {
                Ok(Some(command)) => command,
                Ok(None) => return,
                Err(error) => {
                    tally.on_failure(CODE_PROTOCOL, Some(&format!("the server broke the protocol: {error}")));
                    self.lost = true;
                    return;
                }
            };
            if !command.is_response() {
                continue;
            }
            let number = (command.opaque & QUEUE_MASK).unsigned_abs() as usize;
            let Some(queue) =
                self.queues.get_mut(number).filter(|q| q.outstanding && q.opaque == command.opaque)
            else {
                tally.on_failure(CODE_PROTOCOL, Some("an answer to a pull that is not outstanding"));
                continue;
            };
            queue.outstanding = false;
            match command.code {
                response::SUCCESS
                | response::PULL_NOT_FOUND
                | response::PULL_RETRY_IMMEDIATELY
                | response::PULL_OFFSET_MOVED => match PullResponse::decode(command.fields) {
                    Ok(pulled) => queue.next_offset = pulled.next_begin_offset,
                    Err(error) => {
                        tally.on_failure(CODE_PROTOCOL, Some(&format!("a pull's answer: {error}")));
                        queue.retry_at_ns = now_ns + RETRY_NS;
                    }
                },
                code => {
                    tally.on_failure(code, command.remark);
                    queue.retry_at_ns = now_ns + RETRY_NS;
                }
            }
            if command.code == response::SUCCESS {
                take_messages(command.body, style, now_ns, tally, reading);
            }
        }
    }
}

fn take_messages(body: &[u8], style: &PullStyle, now_ns: u64, tally: &mut Tally, reading: &mut Reading) {
    for message in stored_messages(body) {
        match message {
            Ok(message) => {
                let intended_ns = match identity::read(message.body) {
                    Body::Known(identity) if identity.run == style.run => Some(identity.intended_ns),
                    Body::Known(_) | Body::Damaged | Body::Foreign => None,
                };
                tally.on_received(intended_ns, message.body.len(), now_ns, style.moments);
                reading.received += 1;
            }
            Err(error) => {
                tally.on_failure(CODE_PROTOCOL, Some(&format!("a pulled message: {error}")));
                return;
            }
        }
    }
}

/// Low bits of a pull's opaque that number the queue; the plan bounds queues per connection far below.
const QUEUE_BITS: u32 = 14;
const QUEUE_MASK: i32 = (1 << QUEUE_BITS) - 1;
/// Queues of one consumer connection at most.
pub(super) const QUEUES_MAX: usize = 1 << QUEUE_BITS;
