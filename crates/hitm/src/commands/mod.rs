//! What each command does.

pub(crate) mod attach;
mod bar;
mod baseline;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod doctor;
mod evidence;
mod found;
pub(crate) mod history;
mod input;
mod interrupt;
mod kept;
pub(crate) mod layout;
mod planner;
mod progress;
pub(crate) mod prove;
mod replace;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod scale;
pub(crate) mod shake;
mod show;
mod static_binary;
mod store;

use hitm_collect::prove::AfterWindows;

use crate::cli::{Command, DemoArgs};
use crate::exit_codes::Exit;

/// Runs a command.
pub(crate) fn dispatch(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Run(args) => run::run(&args, AfterWindows::GoOn),
        Command::Attach(args) => {
            let after = attach::after_windows(&args);
            attach::attach(&args, after)
        }
        Command::Prove(args) => prove::prove(args),
        Command::Report(args) => report::report(&args),
        Command::Layout(args) => layout::layout(&args),
        Command::Diff(args) => diff::diff(&args),
        Command::Check(args) => check::check(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::History(args) => history::history(&args),
        Command::Scale(args) => scale::scale(&args),
        Command::Shake(args) => shake::shake(&args),
        Command::ShakeLinker(args) => shake::link(args),
        Command::ShakeJanitor(args) => shake::tidy_up(&args).map(|()| Exit::Done),
        Command::Doctor(args) => doctor::run(&doctor::DoctorOptions { quick: args.quick }),
        Command::Demo(DemoArgs {}) => demo::run(),
        Command::DemoWorkload(args) => demo::workload(&args.arguments),
        Command::Guardian => prove::guardian(),
        Command::Reaper => compare::reaper(),
        Command::Completions { shell } => completions::completions(shell),
        Command::Man => completions::man(),
    }
}
