//! `loadgen compare`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{CarriedArgs, Common, tell};
use crate::carried::Backend;
use crate::client::control::resolve;
use crate::compare::{Comparison, SHAPES, SHAPES_QUICK, compare};
use crate::error::{Error, Result};
use crate::floor;
use crate::plan::BodySize;
use crate::process::Watched;
use crate::run::{Site, Style};
use crate::terminal::{say, show};
use crate::units::{bytes, parse_bytes, parse_duration};

#[derive(Debug, Args)]
pub(super) struct CompareArgs {
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
    /// Stores of one round may hold this much together; windows end early at it [default: what the disk offers, at most
    /// 10GiB]
    #[arg(long, value_parser = parse_bytes, value_name = "SIZE")]
    bytes_per_round: Option<u64>,
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

impl CompareArgs {
    pub(super) fn run(self) -> Result<bool> {
        let carried = self.namesrv.is_empty();
        let style = self.common.style(carried, &self.topic)?;
        let mut plan = self.plan(&style)?;
        if carried {
            floor::require_writable(&plan.directory)?;
            if self.bytes_per_round.is_none() {
                plan.fit_to_disk()?;
            }
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
        let files = if self.no_report {
            None
        } else {
            Some(outcome.report.write_all(&self.report, &outcome.intervals())?)
        };
        show(&outcome.report);
        if let Some(files) = &files {
            tell(files);
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
            bytes_per_round: self.bytes_per_round.unwrap_or(0),
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
