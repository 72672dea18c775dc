//! One producer connection: its outstanding requests, its unsent bytes, what it has learned of its messages. Decides
//! nothing about time; the generator says when to enqueue, flush and receive.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use protocol::Session;
use protocol::code::response;
use protocol::frame::FRAME_BYTES_MAX;

use super::tally::{Reading, Tally};
use super::template::{OPAQUE_BASE, Template, Variable};
use crate::audit::evidence::ProducerLog;
use crate::audit::identity::{self, Cover, IDENTITY_BYTES, Identity};
use crate::clock::now_ns;

/// What all connections of a thread share while they send.
pub(super) struct Shared<'a> {
    /// Templates by lane.
    pub(super) templates: &'a [Template],
    /// Filler for bodies, as long as the largest.
    pub(super) filler: &'a [u8],
    /// The run.
    pub(super) run: u64,
    /// Checksums over whole bodies, or only over identities.
    pub(super) cover: Cover,
    /// Wall clock minus monotonic clock, milliseconds.
    pub(super) wall_offset_ms: u64,
}

/// How a connection fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// All well.
    Open,
    /// The kernel takes no more bytes now.
    Blocked,
    /// Closed or failed; nothing more will come.
    Lost,
}

/// One producer connection.
pub(super) struct Sender {
    pub(super) stream: TcpStream,
    session: Session,
    out: Vec<u8>,
    out_start: usize,
    slots: Vec<Slot>,
    free: Vec<u16>,
    lanes: Vec<u32>,
    cursor: usize,
    pub(super) log: ProducerLog,
    /// Acknowledged sequences are kept for an audit.
    audited: bool,
    pub(super) lost: bool,
    pub(super) watching_writes: bool,
}

/// An outstanding request.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    intended_ns: u64,
    sequence: u64,
    body_len: u32,
    generation: u16,
    busy: bool,
}

/// The opaque is base + generation × 2^16 + slot: ten digits, and an answer to an earlier request of the slot is told
/// apart for 17,000 requests.
const GENERATIONS: u16 = 17_000;
const RECEIVE_BYTES: usize = 64 * 1024;

impl Sender {
    pub(super) fn new(
        stream: TcpStream,
        depth: u32,
        lanes: Vec<u32>,
        first: usize,
        log: ProducerLog,
        audited: bool,
    ) -> Sender {
        assert!(!lanes.is_empty(), "a producer without queues");
        let depth = u16::try_from(depth).expect("the plan bounds the depth");
        Sender {
            stream,
            session: Session::new(FRAME_BYTES_MAX),
            out: Vec::with_capacity(RECEIVE_BYTES),
            out_start: 0,
            slots: vec![Slot::default(); usize::from(depth)],
            free: (0..depth).rev().collect(),
            cursor: first % lanes.len(),
            lanes,
            log,
            audited,
            lost: false,
            watching_writes: false,
        }
    }

    /// A request can be enqueued.
    pub(super) fn has_room(&self) -> bool {
        !self.lost && !self.free.is_empty()
    }

    pub(super) fn outstanding(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Appends one request to the bytes to send.
    pub(super) fn enqueue(&mut self, shared: &Shared<'_>, intended_ns: u64, now_ns: u64, body_len: u32) {
        let slot_number = self.free.pop().expect("the caller asked has_room");
        let lane = self.lanes[self.cursor];
        self.cursor = (self.cursor + 1) % self.lanes.len();
        let sequence = self.log.take_sequence();
        let slot = &mut self.slots[usize::from(slot_number)];
        let generation = (slot.generation + 1) % GENERATIONS;
        *slot = Slot { intended_ns, sequence, body_len, generation, busy: true };
        let producer = self.log.producer;
        let variable = Variable {
            opaque: OPAQUE_BASE + i32::from(generation) * 65_536 + i32::from(slot_number),
            born_ms: shared.wall_offset_ms + now_ns / 1_000_000,
            unique_high: shared.run << 32 | u64::from(producer),
            unique_low: sequence,
        };
        let filler = &shared.filler[..body_len as usize];
        let (run, cover) = (shared.run, shared.cover);
        shared.templates[lane as usize].append(&mut self.out, &variable, filler, |body| {
            if body.len() >= IDENTITY_BYTES {
                identity::write(body, &Identity { run, producer, sequence, intended_ns, lane }, cover);
            }
        });
    }

    /// Hands what was enqueued to the kernel, in one call when it takes all.
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

    pub(super) fn has_unsent(&self) -> bool {
        self.out_start < self.out.len()
    }

    /// Reads all that has arrived and settles the answered requests.
    pub(super) fn receive(&mut self, tally: &mut Tally, reading: &mut Reading) -> Health {
        loop {
            let room = self.session.receive_room(RECEIVE_BYTES);
            let asked = room.len();
            match (&self.stream).read(room) {
                Ok(0) => self.lost = true,
                Ok(len) => {
                    self.session.on_received(len);
                    self.settle(now_ns(), tally, reading);
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

    fn settle(&mut self, now_ns: u64, tally: &mut Tally, reading: &mut Reading) {
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
            let Some(slot_number) = slot_of(command.opaque, &self.slots) else {
                tally.on_failure(CODE_PROTOCOL, Some("an answer to a request that is not outstanding"));
                continue;
            };
            let slot = &mut self.slots[usize::from(slot_number)];
            slot.busy = false;
            self.free.push(slot_number);
            reading.ended += 1;
            if command.code == response::SUCCESS {
                reading.acked += 1;
                tally.on_sent(slot.intended_ns, slot.body_len, now_ns);
                if self.audited {
                    self.log.on_acked(slot.sequence, now_ns);
                }
            } else {
                reading.failed += 1;
                tally.on_failure(command.code, command.remark);
            }
        }
    }

    /// Ends what is still outstanding and will not be answered; says how many requests that is. What was waited for in
    /// vain until `waited_until_ns` took at least that long; what was lost with its connection took no time at all.
    pub(super) fn abandon(&mut self, tally: &mut Tally, waited_until_ns: Option<u64>) -> u64 {
        let outstanding = self.outstanding() as u64;
        for (number, slot) in self.slots.iter_mut().enumerate().filter(|(_, slot)| slot.busy) {
            slot.busy = false;
            self.free.push(u16::try_from(number).expect("the plan bounds the depth"));
            tally.on_unanswered(slot.intended_ns, waited_until_ns);
        }
        self.out.clear();
        self.out_start = 0;
        outstanding
    }
}

/// Counted like a response code; RocketMQ's own are positive.
pub(super) const CODE_PROTOCOL: i32 = -1;

fn slot_of(opaque: i32, slots: &[Slot]) -> Option<u16> {
    let number = opaque.checked_sub(OPAQUE_BASE).filter(|number| *number >= 0)?;
    let slot_number = u16::try_from(number % 65_536).ok()?;
    let slot = slots.get(usize::from(slot_number))?;
    (slot.busy && i32::from(slot.generation) == number / 65_536).then_some(slot_number)
}
