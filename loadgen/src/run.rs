//! One workload on one server: the `run` command, and the measurement that `compare` repeats. Knows servers as sites: an
//! address to load, perhaps a process to look at.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use protocol::Serialization;

use crate::client::control::{self, Control};
use crate::client::generator::{self, Setup};
use crate::client::tally::{Reading, Tally};
use crate::client::{Topology, code_name};
use crate::clock::{now_ns, rfc3339, wall_ms};
use crate::error::Result;
use crate::floor::FloorRate;
use crate::histogram::{Interval, Latency};
use crate::plan::{Pacing, Workload};
use crate::process::{Environment, Memory, Watched};
use crate::report::{Cell, Fact, Failure, Flushes, Report, Round, Spread};
use crate::terminal::Progress;
use crate::units::count;
use crate::verdict;

/// A server to load.
#[derive(Clone, Debug)]
pub struct Site {
    /// Its name in tables.
    pub name: String,
    /// Its name server.
    pub namesrv: SocketAddr,
    /// Its process, when it is local and known.
    pub watched: Option<Watched>,
    /// Its flush mode, when we started it.
    pub flush: Option<String>,
    /// Its backend, when we started it.
    pub backend: Option<String>,
}

/// How a generator is set up, apart from the workload.
#[derive(Clone, Debug)]
pub struct Style {
    /// Cores for generator threads; empty: one thread, not pinned.
    pub cores: Vec<usize>,
    /// How headers are written.
    pub serialization: Serialization,
    /// Begin of topic names.
    pub topic: String,
    /// How long answers are waited for.
    pub drain: Duration,
}

/// One measured window of one server.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Everything counted.
    pub tally: Tally,
    /// Wall clock at the window's start.
    pub started_ms: u64,
    /// The server's CPU time inside the window.
    pub cpu_ns: Option<u64>,
    /// What the server's flush counters moved by.
    pub flushes: Option<FlushDelta>,
    /// The server's memory at the end.
    pub memory: Option<Memory>,
    /// The device, measured right after; empty when it was not.
    pub floor: Vec<FloorRate>,
    /// CPU that other servers of a comparison used meanwhile, as a share of one core.
    pub others_cpu: Option<f64>,
}

/// The moves of `ringmq.flush.*` within a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlushDelta {
    syncs: u64,
    bytes: u64,
    unprepared_bytes: Option<u64>,
    seconds: f64,
}

impl FlushDelta {
    /// Bytes of one sync; `None` when there was none.
    pub fn bytes_per_sync(&self) -> Option<u64> {
        self.bytes.checked_div(self.syncs)
    }
}

/// Topics of a workload.
pub fn topic_names(prefix: &str, topics: u32) -> Vec<String> {
    (0..topics).map(|number| format!("{prefix}-{number}")).collect()
}

/// Where consumers begin: at what is there now, so that they see this run's messages alone.
pub fn end_offsets(topology: &Topology) -> Result<Vec<i64>> {
    let mut controls: Vec<Control> = Vec::new();
    for broker in &topology.brokers {
        controls.push(Control::connect(broker.address)?);
    }
    topology.lanes.iter().map(|lane| controls[lane.broker].max_offset(lane)).collect()
}

/// Loads a server once and reads what it says of itself around the window.
pub fn measure(
    site: &Site,
    topology: &Topology,
    workload: &Workload,
    style: &Style,
    progress: &mut dyn FnMut(&Look),
) -> Result<Sample> {
    let consumers_alone = workload.roles.consumers && !workload.roles.producers;
    let start_offsets = match (workload.roles.consumers, consumers_alone) {
        (false, _) => Vec::new(),
        // Alone they read what is there, from the beginning.
        (true, true) => start_offsets(topology)?,
        (true, false) => end_offsets(topology)?,
    };
    let mut counters = Counters::connect(topology);
    let setup = Setup {
        topology: topology.clone(),
        cores: style.cores.clone(),
        serialization: style.serialization,
        run: now_ns() ^ wall_ms() << 20,
        audit: Vec::new(),
        start_offsets,
        drain: style.drain,
    };
    let running = generator::start(workload, setup)?;
    let window = running.window;
    let mut look = Look { reading: Reading::default(), since_start_s: 0.0, warming_up: true };
    let mut wait_until = |until_ns: u64, warming_up: bool| {
        while !running.has_ended() && !running.sends_ended() {
            let now = now_ns();
            if now >= until_ns {
                break;
            }
            std::thread::sleep(Duration::from_nanos((until_ns - now).min(20_000_000)));
            look.reading = running.read();
            look.warming_up = warming_up;
            look.since_start_s = (now_ns() as f64 - window.start_ns as f64) / 1e9;
            progress(&look);
        }
    };
    wait_until(window.start_ns, true);
    let before = (counters.read(), site.watched.and_then(|w| w.cpu_ns()), now_ns());
    let started_ms = wall_ms();
    wait_until(window.end_ns, false);
    let after = (counters.read(), site.watched.and_then(|w| w.cpu_ns()), now_ns());
    let memory = site.watched.and_then(|w| w.memory());
    let ended = running.join()?;
    let seconds = (after.2 - before.2) as f64 / 1e9;
    Ok(Sample {
        tally: ended.tally,
        started_ms,
        cpu_ns: after.1.zip(before.1).map(|(after, before)| after.saturating_sub(before)),
        flushes: after.0.zip(before.0).map(|(after, before)| after.since(&before, seconds)),
        memory,
        floor: Vec::new(),
        others_cpu: None,
    })
}

fn start_offsets(topology: &Topology) -> Result<Vec<i64>> {
    let mut controls: Vec<Control> = Vec::new();
    for broker in &topology.brokers {
        controls.push(Control::connect(broker.address)?);
    }
    topology.lanes.iter().map(|lane| controls[lane.broker].min_offset(lane)).collect()
}

/// What progress is told.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Counted so far.
    pub reading: Reading,
    /// Seconds since the window's start; negative during the warm-up.
    pub since_start_s: f64,
    /// The window has not begun.
    pub warming_up: bool,
}

/// Flush counters of all brokers of a server. A server without them is asked once.
struct Counters {
    controls: Vec<Control>,
}

#[derive(Clone, Copy, Debug, Default)]
struct FlushTotals {
    syncs: u64,
    bytes: u64,
    unprepared_bytes: Option<u64>,
}

impl Counters {
    fn connect(topology: &Topology) -> Counters {
        let controls: Result<Vec<Control>> =
            topology.brokers.iter().map(|broker| Control::connect(broker.address)).collect();
        // A broker that takes no further connection will be noticed by the load; its counters are not available.
        let mut counters = Counters { controls: controls.unwrap_or_default() };
        if counters.read().is_none() {
            counters.controls.clear();
        }
        counters
    }

    fn read(&mut self) -> Option<FlushTotals> {
        if self.controls.is_empty() {
            return None;
        }
        let mut sum = FlushTotals { unprepared_bytes: Some(0), ..FlushTotals::default() };
        for control in &mut self.controls {
            let table = control.runtime_info().ok()?;
            let number = |name: &str| table.get(name)?.parse::<u64>().ok();
            sum.syncs += number("ringmq.flush.syncs")?;
            sum.bytes += number("ringmq.flush.bytes")?;
            let unprepared = number("ringmq.flush.unprepared_bytes");
            sum.unprepared_bytes = sum.unprepared_bytes.zip(unprepared).map(|(a, b)| a + b);
        }
        Some(sum)
    }
}

impl FlushTotals {
    fn since(&self, before: &FlushTotals, seconds: f64) -> FlushDelta {
        let unprepared = self.unprepared_bytes.zip(before.unprepared_bytes);
        FlushDelta {
            syncs: self.syncs.saturating_sub(before.syncs),
            bytes: self.bytes.saturating_sub(before.bytes),
            unprepared_bytes: unprepared.map(|(after, before)| after.saturating_sub(before)),
            seconds,
        }
    }
}

/// The name of a load: connections × outstanding, with the rate of an open loop.
pub fn load_name(workload: &Workload) -> String {
    let shape = format!("{}×{}", workload.connections, workload.depth);
    match workload.pacing {
        Pacing::Closed => shape,
        Pacing::Open { per_second } => format!("{shape} at {}/s", count(per_second)),
    }
}

/// Makes a cell of all samples of one server and load.
pub fn cell(site: &Site, workload: &Workload, samples: &[Sample]) -> Cell {
    let spread = |value: &dyn Fn(&Sample) -> f64| Spread::of(samples.iter().map(value).collect());
    let all: Option<Vec<f64>> = samples.iter().map(cpu_us_per_message).collect();
    let messages_per_second = spread(&|s| per_second(s.tally.done, s)).expect("there is at least one round");
    let mb_per_second = spread(&|s| per_second(s.tally.done_bytes, s) / 1e6).map_or(0.0, |s| s.median);
    let consumers = workload.roles.consumers;
    let received_per_second = consumers.then(|| spread(&|s| per_second(s.tally.received, s))).flatten();
    let (mut latency, mut end_to_end) = (Latency::new(), Latency::new());
    for sample in samples {
        latency.add(&sample.tally.latency);
        end_to_end.add(&sample.tally.end_to_end);
    }
    let p99 = samples
        .iter()
        .map(|s| s.tally.latency.summary().map(|l| l.p99_us as f64))
        .collect::<Option<Vec<_>>>();
    Cell {
        server: site.name.clone(),
        flush: site.flush.clone(),
        backend: site.backend.clone(),
        load: load_name(workload),
        connections: workload.connections,
        depth: workload.depth,
        rate: match workload.pacing {
            Pacing::Closed => None,
            Pacing::Open { per_second } => Some(per_second),
        },
        messages_per_second: if workload.roles.producers {
            messages_per_second
        } else {
            received_per_second.clone().unwrap_or(messages_per_second)
        },
        mb_per_second: if workload.roles.producers {
            mb_per_second
        } else {
            spread(&|s| per_second(s.tally.received_bytes, s) / 1e6).map_or(0.0, |s| s.median)
        },
        latency: latency.summary(),
        p99_us: p99.and_then(Spread::of),
        curve: latency.curve(),
        end_to_end: end_to_end.summary(),
        end_to_end_curve: end_to_end.curve(),
        received_per_second,
        flushes: flushes(samples),
        floor: middle_floor(samples),
        floor_share: floor_share(samples),
        cpu_us_per_message: all.and_then(Spread::of),
        memory: samples.last().and_then(|s| s.memory),
        failures: failures(samples),
        unanswered: samples.iter().map(|s| s.tally.unanswered).sum(),
        unsent: samples.iter().map(|s| s.tally.unsent).sum(),
        connections_lost: samples.iter().map(|s| s.tally.connections_lost).sum(),
        rounds: samples.iter().map(|s| round(s, workload)).collect(),
    }
}

/// Intervals of an `.hlog`, one per sample.
pub fn intervals<'a>(cell: &Cell, samples: &'a [Sample]) -> Vec<Interval<'a>> {
    let interval = |sample: &'a Sample| Interval {
        tag: format!("{}-{}", cell.server, cell.load),
        start_wall_ms: sample.started_ms,
        duration: Duration::from_secs_f64(sample.tally.seconds()),
        latency: if sample.tally.latency.is_empty() {
            &sample.tally.end_to_end
        } else {
            &sample.tally.latency
        },
    };
    samples.iter().map(interval).collect()
}

fn per_second(count: u64, sample: &Sample) -> f64 {
    let seconds = sample.tally.seconds();
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

fn cpu_us_per_message(sample: &Sample) -> Option<f64> {
    let messages = sample.tally.done.max(sample.tally.received);
    sample.cpu_ns.filter(|_| messages > 0).map(|cpu_ns| cpu_ns as f64 / 1e3 / messages as f64)
}

fn round(sample: &Sample, workload: &Workload) -> Round {
    Round {
        started_ms: sample.started_ms,
        seconds: sample.tally.seconds(),
        messages: if workload.roles.producers { sample.tally.done } else { sample.tally.received },
        warmup_messages: sample.tally.warmup_done,
        capped: sample.tally.capped,
        timeline: sample.tally.moments(),
    }
}

/// Sums over the rounds, so that a round with few syncs does not weigh as much as one with many.
fn flushes(samples: &[Sample]) -> Option<Flushes> {
    let deltas: Vec<FlushDelta> = samples.iter().map(|s| s.flushes).collect::<Option<_>>()?;
    let syncs: u64 = deltas.iter().map(|d| d.syncs).sum();
    if syncs == 0 {
        return None;
    }
    let bytes: u64 = deltas.iter().map(|d| d.bytes).sum();
    let messages: u64 = samples.iter().map(|s| s.tally.done).sum();
    let seconds: f64 = deltas.iter().map(|d| d.seconds).sum();
    let unprepared: Option<u64> = deltas.iter().map(|d| d.unprepared_bytes).sum();
    Some(Flushes {
        syncs_per_second: syncs as f64 / seconds,
        messages_per_sync: messages as f64 / syncs as f64,
        bytes_per_sync: bytes as f64 / syncs as f64,
        unprepared_share: unprepared.filter(|_| bytes > 0).map(|unprepared| unprepared as f64 / bytes as f64),
    })
}

/// Per method the round in the middle.
fn middle_floor(samples: &[Sample]) -> Vec<FloorRate> {
    use crate::floor::Method;
    let mut floor = Vec::new();
    for method in [Method::Dsync, Method::Fdatasync] {
        let mut rates: Vec<FloorRate> =
            samples.iter().flat_map(|s| &s.floor).filter(|rate| rate.method == method).copied().collect();
        rates.sort_by(|a, b| a.syncs_per_second.total_cmp(&b.syncs_per_second));
        floor.extend(rates.get(rates.len() / 2));
    }
    floor
}

/// Within a round the two were measured one right after the other; between rounds the disk changes.
fn floor_share(samples: &[Sample]) -> Option<Spread> {
    let share = |sample: &Sample| -> Option<f64> {
        let flushes = sample.flushes.filter(|flushes| flushes.syncs > 0)?;
        let best = sample.floor.iter().map(|rate| rate.syncs_per_second).reduce(f64::max)?;
        Some(flushes.syncs as f64 / flushes.seconds / best)
    };
    samples.iter().map(share).collect::<Option<Vec<f64>>>().and_then(Spread::of)
}

fn failures(samples: &[Sample]) -> Vec<Failure> {
    let mut failures: Vec<Failure> = Vec::new();
    for failed in samples.iter().flat_map(|s| &s.tally.failures) {
        match failures.iter_mut().find(|known| known.code == failed.code) {
            Some(known) => known.count += failed.count,
            None => failures.push(Failure {
                code: failed.code,
                name: code_name(failed.code).to_owned(),
                count: failed.count,
                remark: failed.remark.clone(),
            }),
        }
    }
    failures
}

/// The facts of a workload, for the report.
pub fn facts(workload: &Workload, style: &Style) -> Vec<Fact> {
    let roles = match (workload.roles.producers, workload.roles.consumers) {
        (true, true) => "producers and consumers",
        (true, false) => "producers",
        _ => "consumers",
    };
    let serialization = match style.serialization {
        Serialization::Json => "JSON headers",
        Serialization::RocketMq => "ROCKETMQ binary headers",
    };
    let seconds = |d: Duration| format!("{} s", crate::units::significant(d.as_secs_f64()));
    [
        ("Load", roles.to_owned()),
        ("Body", format!("{} bytes", workload.body)),
        ("Topics", format!("{} with {} queues on each broker", workload.topics, workload.queues)),
        ("Warm-up, not measured", seconds(workload.warmup)),
        ("Measured window", seconds(workload.duration)),
        ("Requests", format!("SEND_MESSAGE_V2 (310), {serialization}")),
    ]
    .into_iter()
    .map(|(name, value)| Fact { name: name.to_owned(), value })
    .collect()
}

/// Runs one workload on one server and makes the report.
pub fn run(
    site: &Site,
    workload: &Workload,
    style: &Style,
    data: Option<&Path>,
    verbose: bool,
) -> Result<(Report, Vec<Sample>)> {
    let (started_ns, started_ms) = (now_ns(), wall_ms());
    let topics = topic_names(&style.topic, workload.topics);
    let topology = control::prepare(site.namesrv, &topics, workload.queues)?;
    let mut progress = Progress::new(verbose);
    let mut last = Reading::default();
    let mut last_s = -workload.warmup.as_secs_f64();
    let total_s = workload.duration.as_secs_f64();
    let sample = measure(site, &topology, workload, style, &mut |look: &Look| {
        if !progress.is_due() || look.since_start_s <= last_s {
            return;
        }
        progress.show(&progress_line(look, &last, look.since_start_s - last_s, total_s));
        (last, last_s) = (look.reading, look.since_start_s);
    })?;
    progress.clear();
    let samples = vec![sample];
    let cell = cell(site, workload, &samples);
    let mut environment = Environment::look(data);
    environment.generator_cores.clone_from(&style.cores);
    let report = Report {
        format: crate::report::FORMAT.to_owned(),
        title: format!("loadgen run: {} at {}", site.name, cell.load),
        started: rfc3339(started_ms),
        seconds: (now_ns() - started_ns) as f64 / 1e9,
        environment,
        plan: facts(workload, style),
        verdict: verdict::of_run(&cell),
        cells: vec![cell],
        device_write_mb_per_second: None,
        notes: Vec::new(),
    };
    Ok((report, samples))
}

fn progress_line(look: &Look, last: &Reading, seconds: f64, total_s: f64) -> String {
    let rate = |now: u64, before: u64| count((now - before) as f64 / seconds);
    let mut line = if look.warming_up {
        "warm-up       ".to_owned()
    } else {
        format!("{:4.0} s of {total_s:.0} ", look.since_start_s)
    };
    line.push_str(&format!(
        " {:>10} acknowledged/s  {:>7} outstanding",
        rate(look.reading.acked, last.acked),
        look.reading.outstanding()
    ));
    if look.reading.received > 0 {
        line.push_str(&format!("  {:>10} received/s", rate(look.reading.received, last.received)));
    }
    if look.reading.failed > 0 {
        line.push_str(&format!("  {} failed", look.reading.failed));
    }
    line
}
