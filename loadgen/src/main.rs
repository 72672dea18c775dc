//! The `loadgen` program: becomes the carried server when started as its own child, else does what the command line says.
//! Exit status: 0 all well; 1 measured or audited, and the answer is no; 2 it could not be done.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == loadgen::carried::SUBCOMMAND) {
        return loadgen::carried::become_server(arguments);
    }
    match loadgen::cli::Cli::parse().run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("loadgen: {error}");
            ExitCode::from(2)
        }
    }
}
