//! The disk's floor: how close the store engine comes to a plain thread that does nothing but write and sync.
//!
//! One group at a time (depth 1). The engine appends a group of records and waits until SYNC_FLUSH has confirmed it; the
//! plain thread writes the same blocks at the same positions of a file that was written before, with `pwrite` and
//! O_DSYNC, or `pwrite` and `fdatasync`. Both use O_DIRECT and the same core. They alternate, because a disk has calm and
//! busy minutes, and what is shown is the median of the ratios of neighbouring measurements. Where `fio` is installed it
//! takes its turn with `psync` and the same size, as a witness that the plain thread is no straw man.
#![forbid(unsafe_code)]

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::Parser;

use engine::write::flush::SyncMethod;

mod engine_side;
mod plain_side;
mod witness;

/// How close the store engine comes to a plain thread that writes and syncs.
#[derive(Parser)]
#[command(name = "sync_floor", max_term_width = 100)]
struct Args {
    /// Measurements of each, alternating
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long each measurement lasts at most; it also ends after 16 MiB
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    seconds: f64,
    /// Records that are made durable together
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,256")]
    groups: Vec<usize>,
    /// A tenth of the time and less of the disk: shows that it works
    #[arg(long)]
    toy: bool,
    /// Core for both
    #[arg(long, value_name = "CORE")]
    core: Option<usize>,
    /// Directory on the disk that is meant; files in it are removed afterwards
    #[arg(long, value_name = "DIR", default_value = ".")]
    data: PathBuf,
}

/// Why it could not be measured.
type Problem = String;

/// One measurement: groups made durable per second, and the median time of one.
#[derive(Clone, Copy, Debug)]
struct Measured {
    per_second: f64,
    median: Duration,
}

impl Measured {
    /// From the time that each group took.
    fn of(mut took: Vec<Duration>) -> Measured {
        let total: Duration = took.iter().sum();
        took.sort_unstable();
        Measured { per_second: took.len() as f64 / total.as_secs_f64(), median: took[took.len() / 2] }
    }
}

/// What each measurement is of.
#[derive(Clone, Copy, Debug)]
struct Load {
    group: usize,
    at_most: Duration,
    bytes_max: u64,
}

/// What both sides are made for.
#[derive(Clone, Copy, Debug)]
struct Plan {
    method: SyncMethod,
    core: Option<usize>,
    /// Bytes that all measurements write at most, on each side.
    bytes_max: u64,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            let _unsaid = writeln!(io::stderr(), "sync_floor: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Problem> {
    if args.rounds == 0
        || args.groups.is_empty()
        || args.groups.iter().any(|group| !(1..=GROUP_MAX).contains(group))
    {
        return Err(format!("at least one round, and groups of 1 to {GROUP_MAX} records"));
    }
    let directory = tempfile::Builder::new().prefix("ringmq-floor-").tempdir_in(&args.data);
    let directory = directory.map_err(|error| format!("cannot write to {}: {error}", args.data.display()))?;
    let measurements = (args.rounds * args.groups.len()) as u64;
    let (at_most, bytes_max) =
        if args.toy { (args.seconds / 10.0, BYTES_MAX_TOY) } else { (args.seconds, BYTES_MAX) };
    let at_most = Duration::try_from_secs_f64(at_most).map_err(|error| format!("--seconds: {error}"))?;
    say(&format!(
        "{:>10} {:>7}  {:>20}  {:>20}  {:>24}  {}",
        "method", "records", "engine syncs/s, p50", "plain syncs/s, p50", "ratio (smallest–largest)", "fio"
    ))?;
    for method in [SyncMethod::Dsync, SyncMethod::Fdatasync] {
        let root = directory.path().join(name(method));
        std::fs::create_dir(&root).map_err(|error| format!("cannot create {}: {error}", root.display()))?;
        let plan = Plan { method, core: args.core, bytes_max: (bytes_max + GROUP_BYTES_MAX) * measurements };
        let engine = engine_side::Engine::start(&root.join("store"), plan)?;
        let mut plain = plain_side::Plain::prepare(&root.join("plain"), plan)?;
        for group in &args.groups {
            let load = Load { group: *group, at_most, bytes_max };
            let mut rounds = Vec::new();
            for number in 0..args.rounds {
                rounds.push(one_round(&engine, &mut plain, load, number)?);
            }
            say(&line(method, load, &rounds))?;
        }
        engine.stop()?;
    }
    Ok(())
}

/// Both once, in turns first, and `fio` when it is there.
fn one_round(
    engine: &engine_side::Engine,
    plain: &mut plain_side::Plain,
    load: Load,
    number: usize,
) -> Result<Round, Problem> {
    let (ours, floor) = if number.is_multiple_of(2) {
        let ours = engine.measure(load)?;
        (ours, plain.measure(load)?)
    } else {
        let floor = plain.measure(load)?;
        (engine.measure(load)?, floor)
    };
    Ok(Round { ours, floor, fio: witness::measure(plain, load)? })
}

struct Round {
    ours: Measured,
    floor: Measured,
    fio: Option<f64>,
}

fn line(method: SyncMethod, load: Load, rounds: &[Round]) -> String {
    let side = |of: fn(&Round) -> Measured| {
        let per_second = median(rounds.iter().map(|round| of(round).per_second));
        let p50 = median(rounds.iter().map(|round| of(round).median.as_secs_f64() * 1e6));
        format!("{per_second:.0}/s {p50:.0} µs")
    };
    let ratio = |by: &dyn Fn(&Round) -> Option<f64>| {
        let mut ratios: Vec<f64> =
            rounds.iter().filter_map(|round| Some(round.ours.per_second / by(round)?)).collect();
        ratios.sort_by(f64::total_cmp);
        match (ratios.first(), ratios.last()) {
            (Some(first), Some(last)) => {
                format!("{:.2} ({first:.2}–{last:.2})", median(ratios.iter().copied()))
            }
            _ => "not installed".to_owned(),
        }
    };
    format!(
        "{:>10} {:>7}  {:>20}  {:>20}  {:>24}  {}",
        name(method),
        load.group,
        side(|round| round.ours),
        side(|round| round.floor),
        ratio(&|round| Some(round.floor.per_second)),
        ratio(&|round| round.fio),
    )
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn name(method: SyncMethod) -> &'static str {
    match method {
        SyncMethod::Dsync => "dsync",
        SyncMethod::Fdatasync => "fdatasync",
    }
}

fn say(line: &str) -> Result<(), Problem> {
    writeln!(io::stdout(), "{line}").map_err(|error| format!("cannot write to stdout: {error}"))
}

/// Bytes of each body, and bytes of records after which a measurement ends: it exceeds them by less than a group.
const BODY_BYTES: usize = 1_024;
const BYTES_MAX: u64 = 16 << 20;
const BYTES_MAX_TOY: u64 = 1 << 20;
const GROUP_BYTES_MAX: u64 = 1 << 20;
/// Records of a group at most: more than 1 MiB would be more than one write of the engine.
const GROUP_MAX: usize = 800;
