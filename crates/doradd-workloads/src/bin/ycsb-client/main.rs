//! The command `ycsb-client`: sends transactions to a `ycsb-server` and measures the time to the replies.

#![forbid(unsafe_code)]

mod cli;
mod measure;
mod text;

use std::process::ExitCode;

use clap::Parser as _;
use doradd_workloads::front;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    front::end("ycsb-client", measure::run(&cli))
}
