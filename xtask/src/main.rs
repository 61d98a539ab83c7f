//! Every CI job as a command that runs at home: `cargo xtask --help`.

#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a task's output is its purpose"
)]

mod bench;
mod checks;
mod cli;
mod corpus;
mod experiments;
mod lab;
mod nightly;
mod pairs;
mod policy;
mod stories;
mod tidy;
mod tools;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}
