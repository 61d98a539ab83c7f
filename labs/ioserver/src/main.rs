//! The command: flags in, a server until it is told to stop.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser as _;
use ioserver::{Config, serve};

#[expect(clippy::print_stderr, reason = "this is the program")]
fn main() -> ExitCode {
    match serve(&Config::parse(), &mut std::io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ioserver: {error:#}");
            ExitCode::FAILURE
        }
    }
}
