//! Story 2 as a program: a collector of statistics whose counters share lines, or do not.
//!
//! `collect.c` beside this is the same program in C; README.md shows what both show.

#![forbid(unsafe_code)]
#![expect(clippy::print_stderr, reason = "a lab's output is its purpose")]

mod cli;
mod count;
mod counters;
mod document;
mod machine;
mod measure;
mod run;
mod table;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    match run::run(&cli::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the table has seen enough.
        Err(error) if run::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("collect: {error:#}");
            ExitCode::FAILURE
        }
    }
}
