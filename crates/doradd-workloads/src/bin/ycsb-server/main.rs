//! The command `ycsb-server`: takes transactions over TCP and executes them.

#![forbid(unsafe_code)]

mod cli;
mod serve;

use std::process::ExitCode;

use clap::Parser as _;
use doradd_workloads::front;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    front::end("ycsb-server", serve::run(&cli))
}
