//! Servers side by side. Rounds are interleaved: every cell is measured once in every round, one server at a time while
//! the others stay up and idle, so that a noisy neighbour hits all alike and a round's values belong together.
//!
//! Without addresses the servers are the one that this program carries, in SYNC_FLUSH and ASYNC_FLUSH on each backend;
//! then the device's floor is measured next to every cell of SYNC_FLUSH, at that cell's group size.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::carried::{Backend, Carried, Flush, ServerPlan};
use crate::client::{Topology, control};
use crate::clock::{now_ns, rfc3339, wall_ms};
use crate::error::{Error, Result};
use crate::floor::{self, Floor, FloorRate, Method};
use crate::histogram::Interval;
use crate::plan::{BodySize, Pacing, Roles, Workload};
use crate::process::{Environment, pin_thread};
use crate::report::{Cell, FORMAT, Fact, Report};
use crate::run::{Sample, Site, Style, cell, facts, intervals, load_name, measure, topic_names};
use crate::terminal::Progress;
use crate::units::{Cores, bytes, whole};
use crate::verdict;

/// Connections and outstanding requests of one load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Connections.
    pub connections: u32,
    /// Outstanding requests on each.
    pub depth: u32,
}

const fn shape(connections: u32, depth: u32) -> Shape {
    Shape { connections, depth }
}

/// The whole ladder.
pub const SHAPES: [Shape; 5] = [shape(1, 1), shape(16, 1), shape(64, 1), shape(256, 1), shape(16, 32)];
/// The short one.
pub const SHAPES_QUICK: [Shape; 3] = [shape(1, 1), shape(64, 1), shape(16, 32)];

/// What is compared, and how long.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Loads.
    pub shapes: Vec<Shape>,
    /// Backends of carried servers.
    pub backends: Vec<Backend>,
    /// Servers that run already; empty: carried ones.
    pub servers: Vec<Site>,
    /// Rounds.
    pub rounds: u32,
    /// Measured in each cell and round.
    pub duration: Duration,
    /// Before that, not measured.
    pub warmup: Duration,
    /// Bodies.
    pub body: BodySize,
    /// Queues of the topic on each broker.
    pub queues: u32,
    /// Where carried servers keep their stores.
    pub directory: PathBuf,
    /// Stores may hold this much in one round, over all servers.
    pub bytes_per_round: u64,
    /// Size of a carried server's segments.
    pub segment_bytes: u64,
    /// Cores of carried servers.
    pub server_cores: Option<Cores>,
    /// Another program than the carried server.
    pub program: Option<PathBuf>,
    /// Settings of carried servers.
    pub settings: Vec<String>,
    /// Stores stay after the last round.
    pub keep: bool,
    /// Length of each measurement of the device; twice per cell of SYNC_FLUSH.
    pub floor_duration: Duration,
}

/// Below this the windows of fast cells would be too short to mean anything.
const BYTES_PER_ROUND_MIN: u64 = 1 << 30;
const BYTES_PER_ROUND_MAX: u64 = 10 << 30;
/// Segments that a server keeps prepared beside the one it writes.
const SEGMENTS_AHEAD: u64 = 3;
/// What a record takes besides its body, rounded up: record header, topic, properties, queue entry, index.
const RECORD_OVERHEAD_BYTES: u64 = 300;

/// A server of this comparison, and what was measured on it.
struct Contender {
    site: Site,
    topology: Topology,
    carried: Option<Carried>,
}

impl Comparison {
    fn is_carried(&self) -> bool {
        self.servers.is_empty()
    }

    fn plans(&self) -> Vec<ServerPlan> {
        let mut plans = Vec::new();
        for backend in &self.backends {
            for flush in [Flush::Sync, Flush::Async] {
                plans.push(ServerPlan {
                    program: self.program.clone(),
                    data: self.directory.join(format!("{}-{}", flush.name(), backend.name())),
                    flush,
                    backend: *backend,
                    cores: self.server_cores.clone(),
                    segment_bytes: self.segment_bytes,
                    settings: self.settings.clone(),
                });
            }
        }
        plans
    }

    /// Bytes on the disk at the worst moment.
    pub fn space_needed(&self) -> u64 {
        self.bytes_per_round + self.space_besides()
    }

    /// Of that, what is needed besides the messages.
    fn space_besides(&self) -> u64 {
        let servers = self.plans().len() as u64;
        servers * SEGMENTS_AHEAD * self.segment_bytes + floor::FILE_BYTES
    }

    /// Sets the bytes of a round to what the disk offers, up to where no window needs to end early on a fast machine.
    pub fn fit_to_disk(&mut self) -> Result<()> {
        let offered = floor::room_to_use(&self.directory)?.saturating_sub(self.space_besides());
        self.bytes_per_round = (offered / 5 * 4).clamp(BYTES_PER_ROUND_MIN, BYTES_PER_ROUND_MAX);
        Ok(())
    }

    /// How long it will take, roughly.
    pub fn expected(&self) -> Duration {
        let servers = if self.is_carried() { self.plans().len() } else { self.servers.len() };
        let cells = u32::try_from(self.shapes.len() * servers).unwrap_or(u32::MAX);
        let mut round = (self.duration + self.warmup + Duration::from_millis(150)) * cells;
        if self.is_carried() {
            round += self.floor_duration * cells + Duration::from_secs(3);
        }
        round * self.rounds
    }

    fn workload(&self, shape: Shape) -> Workload {
        Workload {
            topics: 1,
            queues: self.queues,
            body: self.body.clone(),
            connections: shape.connections,
            depth: shape.depth,
            pacing: Pacing::Closed,
            roles: Roles { producers: true, consumers: false },
            warmup: self.warmup,
            duration: self.duration,
            messages_max: None,
        }
    }
}

/// Measures everything and makes the report; `intervals` of it are for the `.hlog`.
pub struct Outcome {
    /// The report.
    pub report: Report,
    samples: Vec<Vec<Sample>>,
}

impl Outcome {
    /// Every cell's histograms, one interval per round.
    pub fn intervals(&self) -> Vec<Interval<'_>> {
        let cells = self.report.cells.iter().zip(&self.samples);
        let mut all: Vec<Interval<'_>> = cells.flat_map(|(cell, samples)| intervals(cell, samples)).collect();
        all.sort_by_key(|interval| interval.start_wall_ms);
        all
    }
}

/// Runs the comparison.
pub fn compare(plan: &Comparison, style: &Style, verbose: bool) -> Result<Outcome> {
    let (started_ns, started_ms) = (now_ns(), wall_ms());
    let mut progress = Progress::new(verbose);
    let mut floor = None;
    if plan.is_carried() {
        floor::require_writable(&plan.directory)?;
        progress.show("writing the file for the device's floor");
        floor = Some(Floor::prepare(&plan.directory)?);
    }
    let result = rounds(plan, style, &mut floor, &mut progress);
    progress.clear();
    if plan.is_carried() && !plan.keep {
        remove_stores(plan)?;
    }
    let (sites, samples) = result?;
    let mut cells: Vec<Cell> = Vec::new();
    for (index, samples) in samples.iter().enumerate() {
        let shape = plan.shapes[index / sites.len()];
        cells.push(cell(&sites[index % sites.len()], &plan.workload(shape), samples));
    }
    let mut environment = Environment::look(plan.is_carried().then_some(plan.directory.as_path()));
    environment.generator_cores.clone_from(&style.cores);
    environment.server_cores = plan.server_cores.as_ref().map(|cores| cores.0.clone()).unwrap_or_default();
    let names: Vec<&str> = sites.iter().map(|site| site.name.as_str()).collect();
    let report = Report {
        format: FORMAT.to_owned(),
        title: format!("loadgen compare: {}", names.join(", ")),
        started: rfc3339(started_ms),
        seconds: (now_ns() - started_ns) as f64 / 1e9,
        environment,
        plan: plan_facts(plan, style),
        verdict: if plan.is_carried() {
            verdict::of_flush_modes(&cells)
        } else {
            verdict::of_servers(&cells)
        },
        notes: notes(plan, &cells, &samples, floor.as_ref()),
        device_write_mb_per_second: floor.as_ref().map(|floor| floor.write_mb_per_second),
        cells,
    };
    Ok(Outcome { report, samples })
}

/// All rounds. Samples come by cell (shapes outside, servers inside), rounds in order.
fn rounds(
    plan: &Comparison,
    style: &Style,
    floor: &mut Option<Floor>,
    progress: &mut Progress,
) -> Result<(Vec<Site>, Vec<Vec<Sample>>)> {
    let mut sites: Vec<Site> = Vec::new();
    let mut samples: Vec<Vec<Sample>> = Vec::new();
    for number in 0..plan.rounds {
        progress.show(&format!("round {} of {}: starting servers", number + 1, plan.rounds));
        let contenders = start_round(plan, style)?;
        let servers = contenders.len();
        samples.resize(plan.shapes.len() * servers, Vec::new());
        let mut round = Round { plan, style, contenders, budget: Budget::new(plan, samples.len()), number };
        for (index, shape) in plan.shapes.iter().enumerate() {
            // Every other round goes through the servers backwards: none is always the one measured first.
            for place in 0..servers {
                let server = if number % 2 == 1 { servers - 1 - place } else { place };
                let sample = round.measure(server, *shape, floor, progress)?;
                samples[index * servers + server].push(sample);
            }
        }
        sites = round.contenders.iter().map(|contender| contender.site.clone()).collect();
        end_round(plan, round.contenders, number + 1 == plan.rounds)?;
    }
    Ok((sites, samples))
}

/// One round: its servers, and what they may still store.
struct Round<'a> {
    plan: &'a Comparison,
    style: &'a Style,
    contenders: Vec<Contender>,
    budget: Budget,
    number: u32,
}

impl Round<'_> {
    /// Measures one server under one load, and the device right after it.
    fn measure(
        &mut self,
        server: usize,
        shape: Shape,
        floor: &mut Option<Floor>,
        progress: &mut Progress,
    ) -> Result<Sample> {
        let mut workload = self.plan.workload(shape);
        workload.messages_max = self.plan.is_carried().then(|| self.budget.messages_max());
        let Contender { site, topology, .. } = &self.contenders[server];
        let place = format!("round {} of {}", self.number + 1, self.plan.rounds);
        let title = format!("{place}, {} at {}", site.name, load_name(&workload));
        let before = (others_cpu_ns(&self.contenders, server), now_ns());
        let mut sample = measure(site, topology, &workload, self.style, &mut |look| {
            if progress.is_due() {
                progress.show(&format!("{title}: {} messages acknowledged", whole(look.reading.acked)));
            }
        })?;
        let after = (others_cpu_ns(&self.contenders, server), now_ns());
        sample.others_cpu = after
            .0
            .zip(before.0)
            .map(|(used, used_before)| used.saturating_sub(used_before) as f64 / (after.1 - before.1) as f64);
        self.budget.spend(sample.tally.done + sample.tally.warmup_done);
        if let Some(floor) = floor.as_mut().filter(|_| site.flush.as_deref() == Some("sync")) {
            sample.floor = device(floor, &sample, self.plan)?;
        }
        Ok(sample)
    }
}

/// CPU time so far of all servers but the one that is measured.
fn others_cpu_ns(contenders: &[Contender], measured: usize) -> Option<u64> {
    let others = contenders.iter().enumerate().filter(|(index, _)| *index != measured);
    others.map(|(_, other)| other.site.watched?.cpu_ns()).sum()
}

/// Messages that stores may still take in this round. A cell may use half of what is left, so that a fast one at the
/// beginning does not starve the others, and at least its even share.
struct Budget {
    bytes_left: u64,
    bytes_each: u64,
    message_bytes: u64,
}

impl Budget {
    fn new(plan: &Comparison, cells: usize) -> Budget {
        Budget {
            bytes_left: plan.bytes_per_round,
            bytes_each: plan.bytes_per_round / cells.max(1) as u64,
            message_bytes: u64::from(plan.body.max()) + RECORD_OVERHEAD_BYTES,
        }
    }

    fn messages_max(&self) -> u64 {
        ((self.bytes_left / 2).max(self.bytes_each).min(self.bytes_left) / self.message_bytes).max(1)
    }

    fn spend(&mut self, messages: u64) {
        self.bytes_left = self.bytes_left.saturating_sub(messages * self.message_bytes);
    }
}

/// The device at the size of the groups just seen, without counters at one block; from the server's core, which is idle
/// now, so that both had the same machine.
fn device(floor: &mut Floor, sample: &Sample, plan: &Comparison) -> Result<Vec<FloorRate>> {
    let group = sample.flushes.and_then(|f| f.bytes_per_sync()).unwrap_or(floor::BLOCK_BYTES as u64);
    let core = plan.server_cores.as_ref().and_then(|cores| cores.0.first().copied());
    let measure_all = || {
        if let Some(core) = core {
            pin_thread(core)?;
        }
        let methods = [Method::Dsync, Method::Fdatasync];
        methods.into_iter().map(|method| floor.measure(method, group, plan.floor_duration)).collect()
    };
    std::thread::scope(|scope| scope.spawn(measure_all).join())
        .unwrap_or_else(|_| Err(Error::Data("the device-floor thread panicked; see above".to_owned())))
}

fn start_round(plan: &Comparison, style: &Style) -> Result<Vec<Contender>> {
    let topics = topic_names(&style.topic, 1);
    let mut contenders = Vec::new();
    if !plan.is_carried() {
        for site in &plan.servers {
            let topology = control::prepare(site.namesrv, &topics, plan.queues)?;
            contenders.push(Contender { site: site.clone(), topology, carried: None });
        }
        return Ok(contenders);
    }
    remove_stores(plan)?;
    for server in plan.plans() {
        let carried = server.start()?;
        let site = Site {
            name: format!("{} {}", server.flush.name(), server.backend.name()),
            namesrv: carried.namesrv,
            watched: Some(carried.watched()),
            flush: Some(server.flush.name().to_owned()),
            backend: Some(server.backend.name().to_owned()),
        };
        let topology = control::prepare(site.namesrv, &topics, plan.queues)?;
        contenders.push(Contender { site, topology, carried: Some(carried) });
    }
    Ok(contenders)
}

fn end_round(plan: &Comparison, contenders: Vec<Contender>, is_last: bool) -> Result<()> {
    for contender in contenders {
        if let Some(carried) = contender.carried {
            carried.stop()?;
        }
    }
    if plan.is_carried() && !(plan.keep && is_last) {
        remove_stores(plan)?;
    }
    Ok(())
}

/// Removes what our own servers wrote, and nothing else of the directory.
fn remove_stores(plan: &Comparison) -> Result<()> {
    for server in plan.plans() {
        remove_store(&server.data)?;
    }
    Ok(())
}

/// Removes one store and the log beside it.
pub(crate) fn remove_store(data: &Path) -> Result<()> {
    match fs::remove_dir_all(data) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::path("cannot remove the store", data, e));
        }
        _ => {}
    }
    let log = data.with_extension("log");
    match fs::remove_file(&log) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::path("cannot remove", &log, e)),
        _ => Ok(()),
    }
}

fn plan_facts(plan: &Comparison, style: &Style) -> Vec<Fact> {
    let mut all = facts(&plan.workload(plan.shapes[0]), style);
    let rounds =
        format!("{}, interleaved; one server measured at a time, the others up and idle", plan.rounds);
    all.push(Fact { name: "Rounds".to_owned(), value: rounds });
    if plan.is_carried() {
        let cap = bytes(plan.bytes_per_round);
        all.push(Fact { name: "Most bytes stored in a round".to_owned(), value: cap });
        all.push(Fact { name: "Segment size".to_owned(), value: bytes(plan.segment_bytes) });
    }
    all
}

fn notes(plan: &Comparison, cells: &[Cell], samples: &[Vec<Sample>], floor: Option<&Floor>) -> Vec<String> {
    let mut notes = Vec::new();
    let idle: Vec<f64> = samples.iter().flatten().filter_map(|sample| sample.others_cpu).collect();
    if let Some(most) = idle.iter().copied().reduce(f64::max) {
        let typical = verdict::median(&idle).unwrap_or(most);
        notes.push(format!(
            "The servers not being measured were idle: together they used {:.1} % of a core (median over all windows, at most {:.1} %).",
            100.0 * typical,
            100.0 * most
        ));
    }
    if cells.iter().flat_map(|cell| &cell.rounds).any(|round| round.capped) {
        notes.push(
            "The cap on bytes per round ended some windows early (`capped` in the JSON); `--bytes-per-round` raises it."
                .to_owned(),
        );
    }
    if floor.is_some_and(|floor| floor.buffered) {
        notes.push(
            "The file system refuses O_DIRECT: the device's floor was measured through the page cache."
                .to_owned(),
        );
    }
    let unprepared: Vec<String> = cells
        .iter()
        .filter_map(|cell| Some((cell, cell.flushes?.unprepared_share?)))
        .filter(|(_, share)| *share > 0.01)
        .map(|(cell, share)| format!("{} at {} {:.0} %", cell.server, cell.load, 100.0 * share))
        .collect();
    if !unprepared.is_empty() {
        notes.push(format!(
            "Bytes that went into blocks which were not prepared ahead, and whose syncs are slower for it: {}.",
            unprepared.join(", ")
        ));
    }
    if plan.is_carried() && cells.iter().any(|cell| cell.cpu_us_per_message.is_none()) {
        notes.push("CPU per message is not available: /proc did not tell.".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Comparison {
        Comparison {
            shapes: SHAPES.to_vec(),
            backends: vec![Backend::Direct, Backend::Mapped],
            servers: Vec::new(),
            rounds: 3,
            duration: Duration::from_secs(2),
            warmup: Duration::from_millis(400),
            body: BodySize::Fixed(1024),
            queues: 4,
            directory: PathBuf::from("nowhere"),
            bytes_per_round: 4 << 30,
            segment_bytes: 64 << 20,
            server_cores: None,
            program: None,
            settings: Vec::new(),
            keep: false,
            floor_duration: Duration::from_millis(250),
        }
    }

    #[test]
    fn the_default_comparison_has_twenty_cells_and_takes_less_than_five_minutes() {
        let plan = plan();
        assert_eq!(plan.shapes.len() * plan.plans().len(), 20);
        assert!(plan.expected() < Duration::from_secs(280), "{:?}", plan.expected());
        assert!(plan.space_needed() > plan.bytes_per_round);
    }

    #[test]
    fn a_round_never_stores_more_than_its_bytes() {
        let plan = plan();
        let mut budget = Budget::new(&plan, 20);
        let mut stored = 0;
        for _ in 0..20 {
            let most = budget.messages_max();
            assert!(most > 0);
            budget.spend(most);
            stored += most * budget.message_bytes;
        }
        // The last cells may send one message each when nothing is left.
        assert!(stored <= plan.bytes_per_round + 20 * budget.message_bytes, "{stored}");
    }
}
