//! The `ringmq` program: see the library's `boot`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    server::run(std::env::args_os())
}
