//! `loadgen run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{CarriedArgs, Common, tell};
use crate::carried::{Backend, Flush};
use crate::client::control::resolve;
use crate::error::{Error, Result};
use crate::floor;
use crate::plan::{BodySize, Pacing, Roles, Workload};
use crate::process::Watched;
use crate::report::Report;
use crate::run::{Sample, Site, intervals, run};
use crate::terminal::{say, show};
use crate::units::parse_duration;

#[derive(Debug, Args)]
pub(super) struct RunArgs {
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

impl RunArgs {
    pub(super) fn run(self) -> Result<bool> {
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

    fn finish(&self, report: &Report, samples: &[Sample]) -> Result<bool> {
        show(report);
        if let Some(path) = &self.json {
            report.write_json(path)?;
            say(&format!("Figures: {}", path.display()));
        }
        if let Some(path) = &self.report {
            let intervals = intervals(&report.cells[0], samples);
            tell(&report.write_all(path, &intervals)?);
        }
        Ok(report.cells.iter().all(|cell| cell.is_clean()))
    }
}
