//! What a measurement leaves behind: a JSON file that holds everything, an HTML page made from it and from nothing
//! else, and an `.hlog` with the full histograms. This module owns the JSON's shape; `html` and `svg` draw it.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub mod html;
pub mod svg;

use crate::error::{Error, Result};
use crate::floor::FloorRate;
use crate::histogram::{CurvePoint, Interval, Summary, write_hlog};
use crate::process::{Environment, Memory};
use crate::verdict::Verdict;

/// The value of [`Report::format`] that this version writes and reads.
pub const FORMAT: &str = "ringmq-loadgen-report/1";

/// Everything that one `run` or `compare` found out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: String,
    /// What was measured.
    pub title: String,
    /// Wall clock at the start, RFC 3339 in UTC.
    pub started: String,
    /// How long the whole took, in seconds.
    pub seconds: f64,
    /// The machine.
    pub environment: Environment,
    /// The plan in words, one fact per entry.
    pub plan: Vec<Fact>,
    /// Conclusions, first in the page.
    pub verdict: Verdict,
    /// What was compared or run, one entry per server and load.
    pub cells: Vec<Cell>,
    /// Sequential write throughput of the device in MB/s, when it was measured here.
    pub device_write_mb_per_second: Option<f64>,
    /// Things the reader must know to judge the figures.
    pub notes: Vec<String>,
}

/// A name and its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// What.
    pub name: String,
    /// Its value, as shown.
    pub value: String,
}

/// One server under one load, over all rounds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// The server's name in this report, for example `sync direct`.
    pub server: String,
    /// Its flush mode, when we started it.
    pub flush: Option<String>,
    /// Its storage backend, when we started it.
    pub backend: Option<String>,
    /// The load's name, `connections×outstanding`.
    pub load: String,
    /// Connections of each role.
    pub connections: u32,
    /// Outstanding requests per connection at most.
    pub depth: u32,
    /// Messages per second asked for; absent in a closed loop.
    pub rate: Option<f64>,
    /// Messages per second, one value per round, and their median.
    pub messages_per_second: Spread,
    /// Body megabytes (10^6) per second, median.
    pub mb_per_second: f64,
    /// Latency of acknowledged sends over all rounds.
    pub latency: Option<Summary>,
    /// The 99th percentile per round, microseconds.
    pub p99_us: Option<Spread>,
    /// Latency over percentile.
    pub curve: Vec<CurvePoint>,
    /// From the producer's intended send to the consumer's receipt.
    pub end_to_end: Option<Summary>,
    /// The curve of that.
    pub end_to_end_curve: Vec<CurvePoint>,
    /// Messages received by consumers per second.
    pub received_per_second: Option<Spread>,
    /// What the server said of its syncs; absent: not available.
    pub flushes: Option<Flushes>,
    /// The device at this cell's group size, measured next to it.
    pub floor: Vec<FloorRate>,
    /// The server's syncs per second as a share of the better of the device's two rates, round by round.
    pub floor_share: Option<Spread>,
    /// Server CPU per message in microseconds; absent: not available.
    pub cpu_us_per_message: Option<Spread>,
    /// The server's memory after the last round.
    pub memory: Option<Memory>,
    /// Failures over all rounds, by response code.
    pub failures: Vec<Failure>,
    /// Requests that were never answered.
    pub unanswered: u64,
    /// Messages of an open loop that were due and never found a place.
    pub unsent: u64,
    /// Connections that the server closed.
    pub connections_lost: u64,
    /// The rounds in order.
    pub rounds: Vec<Round>,
}

impl Cell {
    /// Nothing failed, nothing was left unanswered.
    pub fn is_clean(&self) -> bool {
        self.failures.is_empty() && self.unanswered == 0 && self.unsent == 0 && self.connections_lost == 0
    }

    /// The better of the device's rates at this cell's group size.
    pub fn floor_best(&self) -> Option<&FloorRate> {
        self.floor.iter().max_by(|a, b| a.syncs_per_second.total_cmp(&b.syncs_per_second))
    }
}

/// Values of several rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// In the order of the rounds.
    pub rounds: Vec<f64>,
}

impl Spread {
    /// `None` without rounds.
    pub fn of(rounds: Vec<f64>) -> Option<Spread> {
        let median = crate::verdict::median(&rounds)?;
        let min = rounds.iter().copied().fold(f64::INFINITY, f64::min);
        let max = rounds.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Spread { median, min, max, rounds })
    }

    /// How far the rounds lie apart, as a share of the median.
    pub fn relative(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.max - self.min) / self.median }
    }
}

/// What the server's own counters say of the measured windows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flushes {
    /// Syncs per second.
    pub syncs_per_second: f64,
    /// Messages that one sync made durable, on average.
    pub messages_per_sync: f64,
    /// Bytes that one sync made durable, on average.
    pub bytes_per_sync: f64,
    /// The share of bytes written into blocks that were not prepared; absent: not told.
    pub unprepared_share: Option<f64>,
}

/// Failed requests of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// RocketMQ's response code.
    pub code: i32,
    /// Its name.
    pub name: String,
    /// How often.
    pub count: u64,
    /// The first remark that came with it.
    pub remark: String,
}

/// One measured window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Wall clock at the window's start, milliseconds since 1970.
    pub started_ms: u64,
    /// Its length in seconds; shorter than planned when the cap on bytes was reached.
    pub seconds: f64,
    /// Messages acknowledged (or received, when only consumers ran) inside.
    pub messages: u64,
    /// Messages acknowledged during the warm-up before it, not in any figure.
    pub warmup_messages: u64,
    /// The cap on bytes ended the window.
    pub capped: bool,
    /// Rate over time.
    pub timeline: Vec<Moment>,
}

/// A short stretch of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// Milliseconds since the window's start.
    pub at_ms: u64,
    /// Its length in milliseconds.
    pub len_ms: u64,
    /// Messages completed in it.
    pub messages: u64,
    /// The slowest of them, microseconds.
    pub max_us: u64,
}

/// The files of one report.
#[derive(Clone, Debug)]
pub struct Files {
    /// The page.
    pub html: PathBuf,
    /// The data.
    pub json: PathBuf,
    /// The histograms; absent when the report was made from its JSON.
    pub hlog: Option<PathBuf>,
}

impl Report {
    /// Reads a report's JSON back.
    pub fn read(path: &Path) -> Result<Report> {
        let text = fs::read_to_string(path).map_err(|e| Error::path("cannot read", path, e))?;
        let report: Report = serde_json::from_str(&text)
            .map_err(|e| Error::Data(format!("{} is not a loadgen report: {e}", path.display())))?;
        if report.format != FORMAT {
            return Err(Error::Data(format!(
                "{} has the format `{}`, this program reads `{FORMAT}`",
                path.display(),
                report.format
            )));
        }
        Ok(report)
    }

    /// Writes the JSON.
    pub fn write_json(&self, path: &Path) -> Result<()> {
        let mut text = serde_json::to_string_pretty(self)
            .map_err(|e| Error::Data(format!("cannot write the report as JSON: {e}")))?;
        text.push('\n');
        write_file(path, text.as_bytes())
    }

    /// Writes page, data and histograms side by side; `html` names the page, the others take its stem.
    pub fn write_all(&self, html: &Path, intervals: &[Interval<'_>]) -> Result<Files> {
        let json = html.with_extension("json");
        let hlog = html.with_extension("hlog");
        self.write_json(&json)?;
        write_file(html, html::page(self).as_bytes())?;
        let mut bytes = Vec::new();
        write_hlog(&mut bytes, intervals)?;
        write_file(&hlog, &bytes)?;
        Ok(Files { html: html.to_owned(), json, hlog: Some(hlog) })
    }
}

/// Writes a whole file, naming it when that fails.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(|e| Error::path("cannot create the directory", parent, e))?;
    }
    fs::write(path, bytes).map_err(|e| Error::path("cannot write", path, e))
}
