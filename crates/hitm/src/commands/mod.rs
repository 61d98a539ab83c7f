//! What each command does.

pub mod attach;
pub mod completions;
pub mod demo;
pub mod doctor;
mod interrupt;
mod progress;
pub mod report;
pub mod run;
mod show;
mod store;

use crate::cli::{Command, DemoArgs};
use crate::exit_codes::Exit;

/// Runs a command.
pub fn dispatch(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Attach(args) => attach::attach(&args),
        Command::Report(args) => report::report(&args),
        Command::Doctor(args) => doctor::run(&doctor::DoctorOptions { quick: args.quick }),
        Command::Demo(DemoArgs {}) => demo::run(),
        Command::DemoWorkload(args) => demo::workload(&args.arguments),
        Command::Completions { shell } => completions::completions(shell),
        Command::Man => completions::man(),
    }
}
