//! The `benches` program: runs the micro-benchmarks and prints what they found. Fails when one can't be run, or when the
//! path of a send allocates.
#![forbid(unsafe_code)]

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use benches::{BENCHES, Bench, Problem, Run, SAMPLES, SAMPLES_TOY, budget, meter::Figure};
use clap::Parser;

/// What one message costs at each stage of its journey.
#[derive(Parser)]
#[command(name = "benches", max_term_width = 100)]
struct Args {
    /// Run the benchmarks whose names contain this; all of them without it
    filter: Option<String>,
    /// A size that ends within seconds: shows that they work and what they allocate; its times mean little
    #[arg(long)]
    toy: bool,
    /// Tell the benchmarks' names and what they measure
    #[arg(long)]
    list: bool,
    /// Core to pin the benchmarks of a store to
    #[arg(long, value_name = "CORE")]
    core: Option<usize>,
    /// Directory for stores, which are removed afterwards [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            let _unsaid = writeln!(io::stderr(), "benches: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all is well.
fn run(args: &Args) -> Result<bool, Problem> {
    let filter = args.filter.as_deref().unwrap_or("");
    let wanted: Vec<&Bench> = BENCHES.iter().filter(|bench| bench.name.contains(filter)).collect();
    if wanted.is_empty() {
        return Err(format!("no benchmark's name contains `{filter}`; --list tells them"));
    }
    if args.list {
        return wanted
            .iter()
            .try_for_each(|bench| say(&format!("{:10} {}", bench.name, bench.about)))
            .map(|()| true);
    }
    let plan = Run {
        samples: if args.toy { SAMPLES_TOY } else { SAMPLES },
        directory: args.data.clone().unwrap_or_else(std::env::temp_dir),
        core: args.core,
    };
    say(&budget::heading())?;
    let mut figures: Vec<Figure> = Vec::new();
    for bench in wanted {
        let found = (bench.run)(&plan).map_err(|problem| format!("{}: {problem}", bench.name))?;
        found.iter().try_for_each(|figure| say(&budget::line(figure)))?;
        figures.extend(found);
    }
    if let Some(table) = budget::table(&figures) {
        say(&format!("\n{table}"))?;
    }
    Ok(!figures.iter().any(Figure::is_failed))
}

fn say(line: &str) -> Result<(), Problem> {
    writeln!(io::stdout(), "{line}").map_err(|error| format!("cannot write to stdout: {error}"))
}
