//! What the person at the terminal types, and what each command does with it: checks, starts, measures, writes the report,
//! says where it is. Errors travel up as [`Error`]; the exit status tells success.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use protocol::Serialization;

use crate::audit;
use crate::carried::{Backend, Flush, ServerPlan};
use crate::client::control::resolve;
use crate::compare::{Comparison, SHAPES, SHAPES_QUICK, compare};
use crate::error::{Error, Result};
use crate::floor;
use crate::plan::{BodySize, Pacing, Roles, Workload};
use crate::process::{Watched, usable_cores};
use crate::report::{Files, Report, write_file};
use crate::run::{Site, Style, run};
use crate::terminal::{say, show};
use crate::units::{Cores, bytes, parse_bytes, parse_cores, parse_duration};

/// Measures RocketMQ brokers over the wire: what each flush mode costs, and what it keeps.
///
/// Without --namesrv the server that this program carries is started, on its own cores and in a directory of its own, so
/// one file copied to a host measures that host.
///
/// To begin with:
///
///   loadgen compare --quick        SYNC_FLUSH against ASYNC_FLUSH on this disk, in under a minute
///   loadgen run --connections 64   one workload on the carried server
///   loadgen verify --kill          is everything that was acknowledged still there after kill -9?
#[derive(Debug, Parser)]
#[command(name = "loadgen", version, verbatim_doc_comment, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// One workload on one server.
    Run(RunArgs),
    /// Servers side by side in interleaved rounds, with a verdict: SYNC_FLUSH and ASYNC_FLUSH on each backend, or any servers
    /// given by --namesrv NAME=ADDR.
    Compare(CompareArgs),
    /// The acknowledgement audit: everything acknowledged is read back from every queue, after --kill too.
    Verify(VerifyArgs),
    /// Makes the HTML page of a report again from its JSON.
    Report(ReportArgs),
}

/// How requests are made.
#[derive(Debug, Args)]
struct Common {
    /// Cores for the generator's threads, one thread each, for example 1 or 2-3 [default: with the carried server the last
    /// core, else not pinned]
    #[arg(long, value_parser = parse_cores, value_name = "LIST")]
    cores: Option<Cores>,
    /// How request headers are written; clients use JSON unless told otherwise
    #[arg(long, value_enum, default_value_t = Headers::Json)]
    serialization: Headers,
    /// A line of progress every second even when the output is not a terminal
    #[arg(short, long)]
    verbose: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Headers {
    Json,
    Rocketmq,
}

/// The server that this program carries.
#[derive(Debug, Args)]
struct CarriedArgs {
    /// Directory for the stores of carried servers; a free disk is best
    #[arg(long, value_name = "DIR", default_value = "loadgen-data")]
    data: PathBuf,
    /// Cores for the carried server [default: the first core]
    #[arg(long, value_parser = parse_cores, value_name = "LIST")]
    server_cores: Option<Cores>,
    /// A `ringmq` program to start instead of the carried server
    #[arg(long, value_name = "PROGRAM")]
    ringmq: Option<PathBuf>,
    /// A setting of the carried server, key=value; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Size of its commit-log segments
    #[arg(long, value_parser = parse_bytes, value_name = "SIZE", default_value = "64MiB")]
    segment: u64,
    /// Keep the stores at the end
    #[arg(long)]
    keep: bool,
}

#[derive(Debug, Args)]
struct RunArgs {
    /// Name server of the brokers to load, HOST:PORT; without it the carried server is started
    #[arg(long, value_name = "ADDR")]
    namesrv: Option<String>,
    /// Process id of that server when it is local: for CPU per message and memory
    #[arg(long, value_name = "PID", requires = "namesrv")]
    server_pid: Option<u32>,
    /// Send (the default); with --consumers too, end-to-end latency is measured
    #[arg(long)]
    producers: bool,
    /// Pull with code 11 and long polling; alone, what the topics hold is read from the beginning
    #[arg(long)]
    consumers: bool,
    /// Body size: 1024, 4KiB, uniform:100-4000 or mix:70x256,25x1024,5x65536 (weights)
    #[arg(long, value_name = "SIZE", default_value = "1024")]
    body: BodySize,
    /// Topics
    #[arg(long, default_value_t = 1)]
    topics: u32,
    /// Queues of each topic on each broker
    #[arg(long, default_value_t = 4)]
    queues: u32,
    /// Connections of each role
    #[arg(long, default_value_t = 16)]
    connections: u32,
    /// Outstanding sends per connection [default: 1, with --rate 64]
    #[arg(long)]
    depth: Option<u32>,
    /// Messages per second over all connections: an open loop, whose latency counts from the intended send. Without it a
    /// closed loop: a new send for every answer
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// The measured window
    #[arg(long, value_parser = parse_duration, value_name = "TIME", default_value = "10s")]
    duration: Duration,
    /// Before it, under the same load, not measured
    #[arg(long, value_parser = parse_duration, value_name = "TIME", default_value = "2s")]
    warmup: Duration,
    /// Flush mode of the carried server
    #[arg(long, value_enum, default_value_t = Flush::Sync)]
    flush: Flush,
    /// Storage backend of the carried server
    #[arg(long, value_enum, default_value_t = Backend::Direct)]
    backend: Backend,
    /// Begin of the topics' names
    #[arg(long, default_value = "loadgen")]
    topic: String,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report: FILE.html, with .json and .hlog beside it
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    carried: CarriedArgs,
}

#[derive(Debug, Args)]
struct CompareArgs {
    /// Compare servers that run already; repeat it, the first is the reference
    #[arg(long, value_name = "NAME=ADDR")]
    namesrv: Vec<String>,
    /// Process ids of those servers when they are local, NAME=PID; for CPU per message
    #[arg(long, value_name = "NAME=PID", requires = "namesrv")]
    server_pid: Vec<String>,
    /// Three loads on `direct` alone, under 40 seconds
    #[arg(long)]
    quick: bool,
    /// Rounds; the verdict needs at least 3
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Measured in each cell and round [default: 2s, with --quick 1200ms]
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    duration: Option<Duration>,
    /// Before that, not measured [default: 400ms, with --quick 200ms]
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    warmup: Option<Duration>,
    /// Body size, as in `run`
    #[arg(long, value_name = "SIZE", default_value = "1024")]
    body: BodySize,
    /// Queues of the topic on each broker
    #[arg(long, default_value_t = 4)]
    queues: u32,
    /// Stores of one round may hold this much together; windows end early at it
    #[arg(long, value_parser = parse_bytes, value_name = "SIZE", default_value = "6GiB")]
    bytes_per_round: u64,
    /// Begin of the topic's name
    #[arg(long, default_value = "loadgen")]
    topic: String,
    /// Where the report goes: the page, with .json and .hlog beside it
    #[arg(long, value_name = "FILE", default_value = "loadgen-report.html")]
    report: PathBuf,
    /// Write no report
    #[arg(long)]
    no_report: bool,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    carried: CarriedArgs,
}

#[derive(Debug, Args)]
struct VerifyArgs {
    /// Name server of the brokers to audit, HOST:PORT; without it the carried server is started
    #[arg(long, value_name = "ADDR", conflicts_with = "kill")]
    namesrv: Option<String>,
    /// Rounds: kill -9 of the carried server under load, restart, read back; one kill in five comes during recovery
    #[arg(long)]
    kill: bool,
    /// Rounds that must count [default: 10 with --kill, else 1]
    #[arg(long)]
    rounds: Option<u32>,
    /// Plant a lost, a duplicated and a swapped message into the evidence: the audit must find them
    #[arg(long)]
    self_test: bool,
    /// Flush mode of the carried server
    #[arg(long, value_enum, default_value_t = Flush::Sync)]
    flush: Flush,
    /// Storage backend of the carried server
    #[arg(long, value_enum, default_value_t = Backend::Direct)]
    backend: Backend,
    /// Connections
    #[arg(long, default_value_t = 16)]
    connections: u32,
    /// Outstanding sends per connection
    #[arg(long, default_value_t = 32)]
    depth: u32,
    /// Queues of the topic on each broker
    #[arg(long, default_value_t = 4)]
    queues: u32,
    /// Body size, as in `run`; at least 48 bytes, for the identity
    #[arg(long, value_name = "SIZE", default_value = "uniform:48-2000")]
    body: BodySize,
    /// Load of each round; with --kill the kill comes at a moment within it
    #[arg(long, value_parser = parse_duration, value_name = "TIME", default_value = "1s")]
    duration: Duration,
    /// Messages of one round at most
    #[arg(long, default_value_t = 50_000)]
    messages: u64,
    /// Allowance for the clocks when ASYNC_FLUSH on `direct` is judged by its last 20 ms
    #[arg(long, value_parser = parse_duration, value_name = "TIME", default_value = "2ms")]
    margin: Duration,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Repeats the moments of the kills
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    carried: CarriedArgs,
}

#[derive(Debug, Args)]
struct ReportArgs {
    /// The report's JSON
    json: PathBuf,
    /// The page [default: beside the JSON]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Cli {
    /// Does what was asked for; false when it was done and the answer is "no" (an audit that found losses, requests
    /// that failed).
    pub fn run(self) -> Result<bool> {
        match self.command {
            Command::Run(args) => args.run(),
            Command::Compare(args) => args.run(),
            Command::Verify(args) => args.run(),
            Command::Report(args) => args.run(),
        }
    }
}

impl Common {
    fn style(&self, carried: bool, topic: &str) -> Result<Style> {
        let usable = usable_cores();
        let cores = match &self.cores {
            Some(cores) => cores.0.clone(),
            // With a single core there is nothing to keep apart.
            None if carried && usable.len() > 1 => usable.last().copied().into_iter().collect(),
            None => Vec::new(),
        };
        if let Some(core) = cores.iter().find(|core| !usable.contains(core)) {
            return Err(Error::Usage(format!("--cores {core}: this process may use {} only", Cores(usable))));
        }
        let serialization = match self.serialization {
            Headers::Json => Serialization::Json,
            Headers::Rocketmq => Serialization::RocketMq,
        };
        Ok(Style { cores, serialization, topic: topic.to_owned(), drain: Duration::from_secs(5) })
    }
}

impl CarriedArgs {
    /// The first core, when the generator has another one.
    fn cores(&self, style: &Style) -> Option<Cores> {
        let usable = usable_cores();
        let own = usable.iter().find(|core| !style.cores.contains(core)).filter(|_| !style.cores.is_empty());
        self.server_cores.clone().or_else(|| own.map(|core| Cores(vec![*core])))
    }

    fn plan(&self, flush: Flush, backend: Backend, style: &Style, name: &str) -> ServerPlan {
        ServerPlan {
            program: self.ringmq.clone(),
            data: self.data.join(name),
            flush,
            backend,
            cores: self.cores(style),
            segment_bytes: self.segment,
            settings: self.settings.clone(),
        }
    }

    /// Removes a store and its log unless it is to be kept, then the directory when it is empty.
    fn clean(&self, plan: &ServerPlan) -> Result<()> {
        if self.keep {
            say(&format!("The store is kept in {}.", plan.data.display()));
            return Ok(());
        }
        crate::compare::remove_store(&plan.data)?;
        self.remove_if_empty();
        Ok(())
    }

    fn remove_if_empty(&self) {
        // Not empty: somebody else's files, which stay.
        let _kept = std::fs::remove_dir(&self.data);
    }
}

impl RunArgs {
    fn run(self) -> Result<bool> {
        let workload = self.workload();
        workload.check().map_err(Error::Usage)?;
        let style = self.common.style(self.namesrv.is_none(), &self.topic)?;
        if let Some(text) = &self.namesrv {
            let site = Site {
                name: text.clone(),
                namesrv: resolve(text).map_err(|e| Error::Usage(format!("--namesrv {text}: {e}")))?,
                watched: self.server_pid.map(|pid| Watched { pid }),
                flush: None,
                backend: None,
            };
            let (report, samples) = run(&site, &workload, &style, None, self.common.verbose)?;
            return self.finish(&report, &samples);
        }
        floor::require_writable(&self.carried.data)?;
        let plan = self.carried.plan(self.flush, self.backend, &style, "run");
        if !plan.data.exists() {
            floor::require_room(&self.carried.data, 4 * self.carried.segment, "give --data another disk")?;
        }
        let server = plan.start()?;
        let site = Site {
            name: format!("{} {}", self.flush.name(), self.backend.name()),
            namesrv: server.namesrv,
            watched: Some(server.watched()),
            flush: Some(self.flush.name().to_owned()),
            backend: Some(self.backend.name().to_owned()),
        };
        let result = run(&site, &workload, &style, Some(&self.carried.data), self.common.verbose);
        server.stop()?;
        self.carried.clean(&plan)?;
        let (mut report, samples) = result?;
        report.environment.server_cores = plan.cores.map(|cores| cores.0).unwrap_or_default();
        self.finish(&report, &samples)
    }

    fn workload(&self) -> Workload {
        let depth = self.depth.unwrap_or(if self.rate.is_some() { 64 } else { 1 });
        Workload {
            topics: self.topics,
            queues: self.queues,
            body: self.body.clone(),
            connections: self.connections,
            depth,
            pacing: self.rate.map_or(Pacing::Closed, |per_second| Pacing::Open { per_second }),
            roles: Roles { producers: self.producers || !self.consumers, consumers: self.consumers },
            warmup: self.warmup,
            duration: self.duration,
            messages_max: None,
        }
    }

    fn finish(&self, report: &Report, samples: &[crate::run::Sample]) -> Result<bool> {
        show(report);
        if let Some(path) = &self.json {
            report.write_json(path)?;
            say(&format!("Figures: {}", path.display()));
        }
        if let Some(path) = &self.report {
            let intervals = crate::run::intervals(&report.cells[0], samples);
            tell(&report.write_all(path, &intervals)?);
        }
        Ok(report.cells.iter().all(|cell| cell.is_clean()))
    }
}

impl CompareArgs {
    fn run(self) -> Result<bool> {
        let carried = self.namesrv.is_empty();
        let style = self.common.style(carried, &self.topic)?;
        let plan = self.plan(&style)?;
        if carried {
            floor::require_writable(&plan.directory)?;
            say(&format!(
                "Needs up to {} in {}; takes about {:.0} s.",
                bytes(plan.space_needed()),
                plan.directory.display(),
                plan.expected().as_secs_f64()
            ));
            floor::require_room(
                &plan.directory,
                plan.space_needed(),
                "give --data another disk, or a smaller --bytes-per-round",
            )?;
        }
        let outcome = compare(&plan, &style, self.common.verbose)?;
        if carried && !plan.keep {
            self.carried.remove_if_empty();
        }
        show(&outcome.report);
        if !self.no_report {
            tell(&outcome.report.write_all(&self.report, &outcome.intervals())?);
        }
        Ok(outcome.report.cells.iter().all(|cell| cell.is_clean()))
    }

    fn plan(&self, style: &Style) -> Result<Comparison> {
        if self.rounds == 0 {
            return Err(Error::Usage("--rounds must be at least 1, and 3 for a verdict".to_owned()));
        }
        let servers = self.servers()?;
        if servers.len() == 1 {
            return Err(Error::Usage("one server cannot be compared: repeat --namesrv NAME=ADDR".to_owned()));
        }
        let millis = |quick, whole| Duration::from_millis(if self.quick { quick } else { whole });
        let plan = Comparison {
            shapes: if self.quick { SHAPES_QUICK.to_vec() } else { SHAPES.to_vec() },
            backends: if self.quick { vec![Backend::Direct] } else { vec![Backend::Direct, Backend::Mapped] },
            servers,
            rounds: self.rounds,
            duration: self.duration.unwrap_or(millis(1_200, 2_000)),
            warmup: self.warmup.unwrap_or(millis(200, 400)),
            body: self.body.clone(),
            queues: self.queues,
            directory: self.carried.data.clone(),
            bytes_per_round: self.bytes_per_round,
            segment_bytes: self.carried.segment,
            server_cores: self.carried.cores(style),
            program: self.carried.ringmq.clone(),
            settings: self.carried.settings.clone(),
            keep: self.carried.keep,
            floor_duration: millis(150, 250),
        };
        Ok(plan)
    }

    fn servers(&self) -> Result<Vec<Site>> {
        let mut servers: Vec<Site> = Vec::new();
        for text in &self.namesrv {
            let wrong = |what: &str| Error::Usage(format!("--namesrv {text}: {what}"));
            let (name, address) = text
                .split_once('=')
                .ok_or_else(|| wrong("write NAME=HOST:PORT, the name is for the tables"))?;
            if servers.iter().any(|site| site.name == name) {
                return Err(wrong("this name was given before"));
            }
            let namesrv = resolve(address).map_err(|e| wrong(&e))?;
            servers.push(Site { name: name.to_owned(), namesrv, watched: None, flush: None, backend: None });
        }
        for text in &self.server_pid {
            let wrong = |what: &str| Error::Usage(format!("--server-pid {text}: {what}"));
            let (name, pid) = text.split_once('=').ok_or_else(|| wrong("write NAME=PID"))?;
            let pid = pid.parse().map_err(|_| wrong("the process id is not a number"))?;
            let site = servers.iter_mut().find(|site| site.name == name);
            site.ok_or_else(|| wrong("no --namesrv has this name"))?.watched = Some(Watched { pid });
        }
        Ok(servers)
    }
}

impl VerifyArgs {
    fn run(self) -> Result<bool> {
        let style = self.common.style(self.namesrv.is_none(), "loadgen-audit")?;
        let workload = Workload {
            topics: 1,
            queues: self.queues,
            body: self.body.clone(),
            connections: self.connections,
            depth: self.depth,
            pacing: Pacing::Closed,
            roles: Roles { producers: true, consumers: false },
            warmup: Duration::ZERO,
            duration: self.duration,
            messages_max: Some(self.messages),
        };
        workload.check().map_err(Error::Usage)?;
        if (self.body.min() as usize) < audit::identity::IDENTITY_BYTES {
            return Err(Error::Usage(format!(
                "--body {}: the audit needs at least {} bytes for a message's identity",
                self.body,
                audit::identity::IDENTITY_BYTES
            )));
        }
        let rounds = self.rounds.unwrap_or(if self.kill { 10 } else { 1 });
        let plan = audit::Plan {
            workload,
            rounds,
            kill: self.kill,
            self_test: self.self_test,
            margin: self.margin,
            seed: self.seed,
            verbose: self.common.verbose,
        };
        let audited = match &self.namesrv {
            Some(text) => {
                let namesrv = resolve(text).map_err(|e| Error::Usage(format!("--namesrv {text}: {e}")))?;
                audit::external(&plan, &style, text, namesrv)?
            }
            None => {
                floor::require_writable(&self.carried.data)?;
                let needed = plan.bytes_max() + 4 * self.carried.segment;
                say(&format!("Needs up to {} in {}.", bytes(needed), self.carried.data.display()));
                floor::require_room(
                    &self.carried.data,
                    needed,
                    "give --data another disk, or fewer --rounds or --messages",
                )?;
                let server = self.carried.plan(self.flush, self.backend, &style, "verify");
                crate::compare::remove_store(&server.data)?;
                let audited = audit::carried(&plan, &style, &server);
                // The evidence of a failed audit is worth more than the room it takes.
                match &audited {
                    Ok(audited) if audited.passed => self.carried.clean(&server)?,
                    _ => say(&format!("The store is kept for inspection in {}.", server.data.display())),
                }
                audited?
            }
        };
        audited.show();
        if let Some(path) = &self.json {
            let mut text = serde_json::to_string_pretty(&audited)
                .map_err(|e| Error::Data(format!("cannot write the audit as JSON: {e}")))?;
            text.push('\n');
            write_file(path, text.as_bytes())?;
            say(&format!("Figures: {}", path.display()));
        }
        Ok(audited.passed)
    }
}

impl ReportArgs {
    fn run(self) -> Result<bool> {
        let report = Report::read(&self.json)?;
        let html = self.html.unwrap_or_else(|| self.json.with_extension("html"));
        write_file(&html, crate::report::html::page(&report).as_bytes())?;
        tell(&Files { html, json: self.json, hlog: None });
        Ok(true)
    }
}

fn tell(files: &Files) {
    say(&format!("Report: {}", files.html.display()));
    let hlog = files.hlog.as_ref().map_or_else(String::new, |path| format!(" and {}", path.display()));
    say(&format!("Data: {}{hlog}", files.json.display()));
}
