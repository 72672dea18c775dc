//! What the person at the terminal types, and what each command does with it: checks, starts, measures, writes the report,
//! says where it is. Errors travel up as [`Error`]; the exit status tells success.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use protocol::Serialization;

mod compare;
mod run;
mod verify;

use crate::carried::{Backend, Flush, ServerPlan};
use crate::error::{Error, Result};
use crate::process::usable_cores;
use crate::report::{Files, Report, write_file};
use crate::run::Style;
use crate::terminal::say;
use crate::units::{Cores, parse_bytes, parse_cores};

/// Measures RocketMQ brokers over the wire: what each flush mode costs, and what it keeps.
///
/// Without --namesrv the server that this program carries is started, on its own cores and in a
/// directory of its own: one file copied to a host measures that host.
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
    Run(run::RunArgs),
    /// Servers side by side in interleaved rounds, with a verdict: SYNC_FLUSH and ASYNC_FLUSH on each backend, or any servers
    /// given by --namesrv NAME=ADDR.
    Compare(compare::CompareArgs),
    /// The acknowledgement audit: everything acknowledged is read back from every queue, after --kill too.
    Verify(verify::VerifyArgs),
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
