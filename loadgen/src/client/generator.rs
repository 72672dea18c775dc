//! The load: pinned threads, each an epoll loop over its connections. A thread owns its connections, its timetable and
//! its tally; threads share nothing but a stop flag and the gauges they publish.
//!
//! One turn of the loop: enqueue what is due, hand each connection's bytes to the kernel in one call, wait, read
//! everything that has arrived, refill the places that answers have freed. Per message that is a copy of the template
//! and the body, a decode of the answer and two histogram steps; no allocation and no system call of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use protocol::Serialization;

use super::Topology;
use super::connect::{Part, connect, filler, prepare_thread, templates};
use super::poller::{Poller, Ready};
use super::receiver::{PullStyle, Receiver};
use super::sender::{Health, Sender, Shared};
use super::tally::{Gauge, Reading, Tally, Window};
use super::template::Template;
use crate::audit::evidence::ProducerLog;
use crate::audit::identity::Cover;
use crate::clock::{now_ns, wall_ms};
use crate::error::{Error, Result};
use crate::pace::Timetable;
use crate::plan::{Random, Workload};

/// What a load needs besides the workload.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where the queues are.
    pub topology: Topology,
    /// Cores to pin threads to, one thread each; empty: one thread, not pinned.
    pub cores: Vec<usize>,
    /// How headers are written.
    pub serialization: Serialization,
    /// Identifies the run's messages.
    pub run: u64,
    /// Producers' knowledge of earlier rounds, one per producer connection; empty: new ones, nothing is kept.
    pub audit: Vec<ProducerLog>,
    /// Offsets that consumers begin at, one per lane; empty when there are no consumers.
    pub start_offsets: Vec<i64>,
    /// How long answers are waited for after the window.
    pub drain: Duration,
}

/// A load in progress.
pub struct Running {
    threads: Vec<JoinHandle<Result<Ended>>>,
    gauges: Vec<Arc<Gauge>>,
    common: Arc<Common>,
    /// The window that was planned.
    pub window: Window,
}

/// What a load leaves.
pub struct Ended {
    /// Everything counted.
    pub tally: Tally,
    /// The producers' logs, by producer number.
    pub logs: Vec<ProducerLog>,
}

/// From here to the first send: threads start and pin meanwhile.
const HEAD_START: Duration = Duration::from_millis(20);
/// The longest wait: the stop flag is seen within it.
const WAIT_NS_MAX: u64 = 20_000_000;
/// Quiet time after which consumers are believed to have everything.
const QUIET_NS: u64 = 500_000_000;

/// Opens all connections and starts the threads.
pub fn start(workload: &Workload, setup: Setup) -> Result<Running> {
    let threads = setup.cores.len().max(1).min(workload.connections as usize);
    let parts = connect(workload, &setup, threads)?;
    let begin_ns = now_ns() + nanos(HEAD_START);
    let start_ns = begin_ns + nanos(workload.warmup);
    let window = Window { start_ns, end_ns: start_ns + nanos(workload.duration) };
    let common = Common {
        workload: workload.clone(),
        threads,
        serialization: setup.serialization,
        run: setup.run,
        audited: !setup.audit.is_empty(),
        begin_ns,
        window,
        drain_ns: nanos(setup.drain),
        templates: templates(&setup),
        filler: filler(workload),
        stop: AtomicBool::new(false),
        sending: AtomicUsize::new(if workload.roles.producers { threads } else { 0 }),
    };
    let common = Arc::new(common);
    let mut running =
        Running { threads: Vec::new(), gauges: Vec::new(), common: Arc::clone(&common), window };
    for (thread, part) in parts.into_iter().enumerate() {
        let gauge = Arc::new(Gauge::default());
        running.gauges.push(Arc::clone(&gauge));
        let core = setup.cores.get(thread).copied();
        let common = Arc::clone(&common);
        let handle = std::thread::Builder::new()
            .name(format!("load-{thread}"))
            .spawn(move || {
                prepare_thread(core)?;
                Generator::new(&common, thread, part, gauge)?.run(&common.shared())
            })
            .map_err(|e| Error::os("cannot start a generator thread", e))?;
        running.threads.push(handle);
    }
    Ok(running)
}

/// What all threads of a load have in common; nothing of it changes but the two atomics.
struct Common {
    workload: Workload,
    threads: usize,
    serialization: Serialization,
    run: u64,
    /// Acknowledgements are kept for an audit, and checksums cover whole bodies.
    audited: bool,
    /// The first send; the warm-up is under the same pace as the window.
    begin_ns: u64,
    window: Window,
    drain_ns: u64,
    templates: Vec<Template>,
    filler: Vec<u8>,
    stop: AtomicBool,
    /// Threads that still send; consumers stay until the last has stopped.
    sending: AtomicUsize,
}

impl Common {
    fn shared(&self) -> Shared<'_> {
        Shared {
            templates: &self.templates,
            filler: &self.filler,
            run: self.run,
            cover: if self.audited { Cover::All } else { Cover::Identity },
            wall_offset_ms: wall_ms().saturating_sub(now_ns() / 1_000_000),
        }
    }
}

/// The group that producers and consumers name.
pub const GROUP: &str = "loadgen";

impl Running {
    /// What has been counted so far, over all threads.
    pub fn read(&self) -> Reading {
        self.gauges.iter().map(|gauge| gauge.read()).fold(Reading::default(), Reading::and)
    }

    /// Ends the sends now; threads still wait for outstanding answers.
    pub fn stop(&self) {
        self.common.stop.store(true, Ordering::Relaxed);
    }

    /// No thread sends any more; answers may still be outstanding.
    pub fn sends_ended(&self) -> bool {
        self.common.workload.roles.producers && self.common.sending.load(Ordering::Acquire) == 0
    }

    /// All threads have ended.
    pub fn has_ended(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits for all threads and merges what they counted.
    pub fn join(self) -> Result<Ended> {
        let mut merged: Option<Ended> = None;
        for thread in self.threads {
            let ended = thread
                .join()
                .map_err(|_| Error::Data("a generator thread panicked; see above".to_owned()))??;
            match &mut merged {
                None => merged = Some(ended),
                Some(all) => {
                    all.tally.merge(ended.tally);
                    all.logs.extend(ended.logs);
                }
            }
        }
        let mut ended = merged.expect("there is at least one thread");
        ended.logs.sort_by_key(|log| log.producer);
        Ok(ended)
    }
}

struct Generator<'a> {
    common: &'a Common,
    poller: Poller,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    timetable: Option<Timetable>,
    next_sender: usize,
    random: Random,
    messages_left: Option<u64>,
    tally: Tally,
    reading: Reading,
    gauge: Arc<Gauge>,
    sends_ended: bool,
    last_receipt_ns: u64,
    style: PullStyle,
}

impl<'a> Generator<'a> {
    fn new(common: &'a Common, thread: usize, part: Part, gauge: Arc<Gauge>) -> Result<Generator<'a>> {
        let workload = &common.workload;
        Ok(Generator {
            common,
            poller: Poller::new()?,
            senders: part.senders,
            receivers: part.receivers,
            timetable: Timetable::new(workload.pacing, common.begin_ns, thread, common.threads),
            next_sender: 0,
            random: Random::new(common.run ^ (thread as u64 + 1)),
            messages_left: workload.messages_max.map(|max| max / common.threads as u64),
            tally: Tally::new(common.window),
            reading: Reading::default(),
            gauge,
            sends_ended: false,
            last_receipt_ns: 0,
            style: PullStyle {
                serialization: common.serialization,
                group: GROUP.to_owned(),
                batch: 32,
                moments: !workload.roles.producers,
                run: common.run,
            },
        })
    }

    fn run(mut self, shared: &Shared<'_>) -> Result<Ended> {
        for (number, sender) in self.senders.iter().enumerate() {
            self.poller.add(&sender.stream, number as u64)?;
        }
        for (number, receiver) in self.receivers.iter().enumerate() {
            self.poller.add(&receiver.stream, (self.senders.len() + number) as u64)?;
        }
        self.wait_for_begin();
        let mut now = now_ns();
        self.fill_all(shared, now)?;
        loop {
            self.ask_all(now)?;
            self.gauge.publish(&self.reading);
            if self.is_over(now) {
                break;
            }
            self.poller.wait(self.wait_ns(now))?;
            for index in 0..self.poller.len() {
                self.on_ready(shared, self.poller.ready(index))?;
            }
            now = now_ns();
            self.end_sends_if_due(now);
            if self.timetable.is_some() {
                self.send_due(shared, now)?;
            }
        }
        Ok(self.close())
    }

    fn is_closed(&self) -> bool {
        self.timetable.is_none()
    }

    fn wait_for_begin(&self) {
        let now = now_ns();
        if self.common.begin_ns > now {
            std::thread::sleep(Duration::from_nanos(self.common.begin_ns - now));
        }
    }

    /// A closed loop begins with every place taken.
    fn fill_all(&mut self, shared: &Shared<'_>, now_ns: u64) -> Result<()> {
        if !self.is_closed() {
            return Ok(());
        }
        for number in 0..self.senders.len() {
            self.refill(shared, number, now_ns)?;
        }
        Ok(())
    }

    fn on_ready(&mut self, shared: &Shared<'_>, ready: Ready) -> Result<()> {
        let number = usize::try_from(ready.number).expect("a connection's number");
        if number >= self.senders.len() {
            return self.on_receiver_ready(number - self.senders.len(), ready);
        }
        if ready.writable {
            self.flush(number)?;
        }
        if ready.readable && !self.senders[number].lost {
            let health = self.senders[number].receive(&mut self.tally, &mut self.reading);
            if health == Health::Lost {
                return self.lose(number);
            }
            if self.is_closed() {
                self.refill(shared, number, now_ns())?;
            }
        }
        Ok(())
    }

    /// Closed loop: takes every free place of one connection, and sends them together.
    fn refill(&mut self, shared: &Shared<'_>, number: usize, now_ns: u64) -> Result<()> {
        while !self.sends_ended && self.senders[number].has_room() {
            if !self.take_message(now_ns) {
                break;
            }
            self.enqueue(shared, number, now_ns, now_ns);
        }
        self.flush(number)
    }

    /// Open loop: everything that is due and finds a place, round robin over connections.
    fn send_due(&mut self, shared: &Shared<'_>, now_ns: u64) -> Result<()> {
        let mut tried = 0;
        while !self.sends_ended && tried < self.senders.len() {
            let number = self.next_sender;
            if !self.senders[number].has_room() {
                self.next_sender = (number + 1) % self.senders.len();
                tried += 1;
                continue;
            }
            // Behind the window's end only what was due inside is still sent.
            let until_ns = now_ns.min(self.tally.window.end_ns.saturating_sub(1));
            let Some(intended_ns) = self.timetable.as_mut().and_then(|table| table.take(until_ns)) else {
                break;
            };
            if !self.take_message(now_ns) {
                break;
            }
            self.enqueue(shared, number, intended_ns, now_ns);
            self.next_sender = (number + 1) % self.senders.len();
            tried = 0;
        }
        for number in 0..self.senders.len() {
            if self.senders[number].has_unsent() && !self.senders[number].watching_writes {
                self.flush(number)?;
            }
        }
        Ok(())
    }

    /// Counts against the cap; the last message ends the window.
    fn take_message(&mut self, now_ns: u64) -> bool {
        match &mut self.messages_left {
            None => true,
            Some(0) => {
                self.tally.cap(now_ns);
                self.end_sends(now_ns);
                false
            }
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }

    fn enqueue(&mut self, shared: &Shared<'_>, number: usize, intended_ns: u64, now_ns: u64) {
        let body_len = self.common.workload.body.draw(&mut self.random);
        self.senders[number].enqueue(shared, intended_ns, now_ns, body_len);
        self.reading.sent += 1;
    }

    fn flush(&mut self, number: usize) -> Result<()> {
        let sender = &mut self.senders[number];
        let blocked = match sender.flush() {
            Health::Lost => return self.lose(number),
            Health::Blocked => true,
            Health::Open => false,
        };
        if blocked != sender.watching_writes {
            sender.watching_writes = blocked;
            self.poller.watch_writes(&sender.stream, number as u64, blocked)?;
        }
        Ok(())
    }

    fn lose(&mut self, number: usize) -> Result<()> {
        let sender = &mut self.senders[number];
        self.reading.ended += sender.abandon(&mut self.tally, None);
        self.tally.connections_lost += 1;
        self.poller.remove(&sender.stream)
    }

    fn on_receiver_ready(&mut self, number: usize, ready: Ready) -> Result<()> {
        if ready.writable {
            self.flush_receiver(number)?;
        }
        if ready.readable && !self.receivers[number].lost {
            let before = self.reading.received;
            let health = self.receivers[number].receive(&self.style, &mut self.tally, &mut self.reading);
            if self.reading.received > before {
                self.last_receipt_ns = now_ns();
            }
            if health == Health::Lost {
                return self.lose_receiver(number);
            }
        }
        Ok(())
    }

    fn ask_all(&mut self, now_ns: u64) -> Result<()> {
        for number in 0..self.receivers.len() {
            if self.receivers[number].ask(&self.style, now_ns) {
                self.flush_receiver(number)?;
            }
        }
        Ok(())
    }

    fn flush_receiver(&mut self, number: usize) -> Result<()> {
        let receiver = &mut self.receivers[number];
        if receiver.lost {
            return Ok(());
        }
        let blocked = match receiver.flush() {
            Health::Lost => return self.lose_receiver(number),
            Health::Blocked => true,
            Health::Open => false,
        };
        if blocked != receiver.watching_writes {
            receiver.watching_writes = blocked;
            self.poller.watch_writes(&receiver.stream, (self.senders.len() + number) as u64, blocked)?;
        }
        Ok(())
    }

    fn lose_receiver(&mut self, number: usize) -> Result<()> {
        self.tally.connections_lost += 1;
        self.poller.remove(&self.receivers[number].stream)
    }

    fn end_sends_if_due(&mut self, now_ns: u64) {
        if self.common.stop.load(Ordering::Relaxed) {
            self.end_window(now_ns);
            self.end_sends(now_ns);
            return;
        }
        let end_ns = self.tally.window.end_ns;
        let is_behind = self.timetable.as_ref().is_some_and(|table| table.next_due_ns() < end_ns);
        if now_ns >= end_ns && (!is_behind || now_ns >= end_ns + self.common.drain_ns) {
            self.end_sends(now_ns);
        }
    }

    /// Ended before its time: what was measured ends here.
    fn end_window(&mut self, now_ns: u64) {
        if now_ns < self.tally.window.end_ns {
            self.tally.window.end_ns = now_ns.max(self.tally.window.start_ns);
        }
    }

    /// No more sends. In an open loop what was due inside the window and has found no place until now is counted with the
    /// time that it has waited: a server that stalls at the end must not look better than one that stalls before.
    fn end_sends(&mut self, now_ns: u64) {
        if self.sends_ended {
            return;
        }
        self.sends_ended = true;
        self.common.sending.fetch_sub(usize::from(self.common.workload.roles.producers), Ordering::AcqRel);
        let end_ns = self.tally.window.end_ns;
        if let Some(table) = &mut self.timetable {
            while let Some(intended_ns) = table.take(end_ns.saturating_sub(1)) {
                self.tally.on_unsent(intended_ns, now_ns);
            }
        }
    }

    fn is_over(&self, now_ns: u64) -> bool {
        let all_lost = self.senders.iter().all(|sender| sender.lost) && self.receivers.iter().all(|r| r.lost);
        if all_lost {
            return true;
        }
        if !self.sends_ended {
            return false;
        }
        let answered = self.senders.iter().all(|sender| sender.lost || sender.outstanding() == 0);
        let read_all = self.receivers.is_empty()
            || !self.common.workload.roles.producers
            || (self.common.sending.load(Ordering::Acquire) == 0
                && now_ns >= self.last_receipt_ns.max(self.tally.window.end_ns) + QUIET_NS);
        answered && read_all || now_ns >= self.tally.window.end_ns + self.common.drain_ns
    }

    fn wait_ns(&self, now_ns: u64) -> u64 {
        let mut until_ns = now_ns + WAIT_NS_MAX;
        if !self.sends_ended {
            if self.tally.window.end_ns > now_ns {
                until_ns = until_ns.min(self.tally.window.end_ns);
            }
            // Without a free place the next due message waits for an answer, not for its time.
            if let Some(table) = &self.timetable
                && self.senders.iter().any(Sender::has_room)
            {
                until_ns = until_ns.min(table.next_due_ns());
            }
        }
        for receiver in &self.receivers {
            until_ns = receiver.retry_at_ns().map_or(until_ns, |at| until_ns.min(at));
        }
        until_ns.saturating_sub(now_ns)
    }

    fn close(mut self) -> Ended {
        // All connections lost before the end: the time that was measured ends with them.
        self.end_sends_if_due(now_ns());
        if !self.sends_ended {
            let now = now_ns();
            self.end_window(now);
            self.end_sends(now);
        }
        let now = now_ns();
        for sender in &mut self.senders {
            self.reading.ended += sender.abandon(&mut self.tally, Some(now));
        }
        self.gauge.publish(&self.reading);
        Ended { tally: self.tally, logs: self.senders.into_iter().map(|sender| sender.log).collect() }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4)
}
