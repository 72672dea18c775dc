//! Reading back: every queue, from an offset to its end, with code 11. Hands each message to whoever keeps the evidence;
//! judges nothing.

use std::time::{Duration, Instant};

use protocol::message::stored_messages;

use super::evidence::Found;
use super::identity::{self, Body, Identity};
use crate::client::Topology;
use crate::client::control::Control;
use crate::error::{Error, Result};

/// Connections for reading back, and how far each queue has been read.
pub struct Reader {
    topology: Topology,
    controls: Vec<Control>,
    /// The next offset to read, by lane; `None`: from the queue's beginning.
    next: Vec<Option<i64>>,
}

/// Queues whose ends do not move for this long have received all that was sent.
const QUIET: Duration = Duration::from_millis(300);
const SETTLE_TIMEOUT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);

impl Reader {
    /// Reads from the beginning of every queue.
    pub fn new(topology: &Topology) -> Result<Reader> {
        let next = vec![None; topology.lanes.len()];
        let mut reader = Reader { topology: Topology::default(), controls: Vec::new(), next };
        reader.reconnect(topology)?;
        Ok(reader)
    }

    /// The same queues at other addresses: the server was restarted.
    pub fn reconnect(&mut self, topology: &Topology) -> Result<()> {
        assert_eq!(topology.lanes.len(), self.next.len(), "a restart changed the number of queues");
        self.topology = topology.clone();
        self.controls.clear();
        for broker in &topology.brokers {
            self.controls.push(Control::connect(broker.address)?);
        }
        Ok(())
    }

    /// From the beginning again.
    pub fn rewind(&mut self) {
        self.next.fill(None);
    }

    /// Waits until the queues' ends stand still: some brokers acknowledge before a message can be read.
    pub fn settle(&mut self) -> Result<()> {
        let started = Instant::now();
        let mut last = self.ends()?;
        let mut since = Instant::now();
        while since.elapsed() < QUIET {
            if started.elapsed() > SETTLE_TIMEOUT {
                return Err(Error::Server(format!(
                    "the queues still grow {} s after the last send: does somebody else send to the topic?",
                    SETTLE_TIMEOUT.as_secs()
                )));
            }
            std::thread::sleep(POLL);
            let ends = self.ends()?;
            if ends != last {
                (last, since) = (ends, Instant::now());
            }
        }
        Ok(())
    }

    fn ends(&mut self) -> Result<Vec<i64>> {
        self.topology.lanes.iter().map(|lane| self.controls[lane.broker].max_offset(lane)).collect()
    }

    /// Reads every queue to its end.
    pub fn read(&mut self, found: &mut dyn Evidence) -> Result<()> {
        for number in 0..self.topology.lanes.len() {
            self.read_lane(number, found)?;
        }
        Ok(())
    }

    fn read_lane(&mut self, number: usize, found: &mut dyn Evidence) -> Result<()> {
        let lane = &self.topology.lanes[number];
        let control = &mut self.controls[lane.broker];
        let lane_number = u32::try_from(number).expect("a run has few lanes");
        let end = control.max_offset(lane)?;
        let mut offset = match self.next[number] {
            Some(offset) => offset,
            None => control.min_offset(lane)?,
        };
        while offset < end {
            let pulled = control.pull(lane, offset)?;
            for (expected, message) in (offset..).zip(stored_messages(&pulled.body)) {
                let server = self.topology.brokers[lane.broker].address;
                let message =
                    message.map_err(|e| Error::protocol(server, format!("a pulled message: {e}")))?;
                if message.queue_id != lane.queue_id || message.queue_offset != expected {
                    return Err(Error::protocol(
                        server,
                        format!(
                            "reading {} queue {} at {expected} it sent queue {} offset {}",
                            lane.topic, lane.queue_id, message.queue_id, message.queue_offset
                        ),
                    ));
                }
                found.on_body(identity::read(message.body), lane_number);
            }
            if pulled.next_offset <= offset {
                return Err(Error::protocol(
                    self.topology.brokers[lane.broker].address,
                    format!(
                        "{} queue {} ends at {end}, but a pull at {offset} brings nothing and leads to {}",
                        lane.topic, lane.queue_id, pulled.next_offset
                    ),
                ));
            }
            offset = pulled.next_offset;
        }
        self.next[number] = Some(offset);
        Ok(())
    }
}

/// Takes what was read, in the order of the queue.
pub trait Evidence {
    /// A body, read from the queue `lane`.
    fn on_body(&mut self, body: Body, lane: u32);
}

impl Evidence for Found {
    fn on_body(&mut self, body: Body, lane: u32) {
        match body {
            Body::Known(identity) => self.on_message(identity, lane),
            Body::Damaged => self.damaged += 1,
            Body::Foreign => self.foreign += 1,
        }
    }
}

/// Evidence with three faults planted on its way, beside the true one.
pub struct Planted<'a> {
    /// What was read.
    pub truth: Found,
    /// What the audit is told.
    pub tampered: Found,
    /// Whether a message was acknowledged: only such a one can be lost.
    pub is_acked: &'a dyn Fn(&Identity) -> bool,
    /// The message kept from the audit.
    pub lost: Option<Identity>,
    /// The message told twice.
    pub duplicated: Option<Identity>,
    /// The message told behind its successor.
    pub swapped: Option<Identity>,
    held: Option<(Identity, u32)>,
    seen: u64,
}

/// Messages between two faults, so that they cannot meet.
const APART: u64 = 10;

impl<'a> Planted<'a> {
    /// Nothing planted yet.
    pub fn new(run: u64, is_acked: &'a dyn Fn(&Identity) -> bool) -> Planted<'a> {
        Planted {
            truth: Found::new(run),
            tampered: Found::new(run),
            is_acked,
            lost: None,
            duplicated: None,
            swapped: None,
            held: None,
            seen: 0,
        }
    }

    fn tamper(&mut self, identity: Identity, lane: u32) {
        self.seen += 1;
        if let Some((held, held_lane)) = self.held
            && held.producer == identity.producer
            && held_lane == lane
        {
            // Its successor first, then the one that was held back.
            self.tampered.on_message(identity, lane);
            self.tampered.on_message(held, held_lane);
            (self.swapped, self.held) = (Some(held), None);
            return;
        }
        if self.lost.is_none() && self.seen >= APART && (self.is_acked)(&identity) {
            self.lost = Some(identity);
            return;
        }
        self.tampered.on_message(identity, lane);
        if self.duplicated.is_none() && self.seen >= 2 * APART {
            self.tampered.on_message(identity, lane);
            self.duplicated = Some(identity);
        }
    }

    /// Ends the reading: one that is still held back had no successor.
    pub fn finish(&mut self) {
        if let Some((held, lane)) = self.held.take() {
            self.tampered.on_message(held, lane);
        }
    }
}

impl Evidence for Planted<'_> {
    fn on_body(&mut self, body: Body, lane: u32) {
        self.truth.on_body(body, lane);
        match body {
            Body::Known(identity)
                if self.swapped.is_none() && self.held.is_none() && self.seen >= 3 * APART =>
            {
                self.seen += 1;
                self.held = Some((identity, lane));
            }
            Body::Known(identity) => self.tamper(identity, lane),
            Body::Damaged | Body::Foreign => self.tampered.on_body(body, lane),
        }
    }
}
