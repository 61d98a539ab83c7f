//! The `hitm` command: flags and glue. This crate alone prints, exits and opens files.

mod cli;
mod commands;
mod exit_codes;
mod load;
mod output;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    output::choose_colour(cli.color);
    output::apologise_for_panics();
    // A fault of ours has the exit code of one; a program that runs is ended on the way.
    let result = std::panic::catch_unwind(|| commands::dispatch(cli.command));
    match result.unwrap_or(Ok(exit_codes::Exit::Error)) {
        Ok(code) => code.into(),
        Err(error) if output::is_broken_pipe(&error) => exit_codes::Exit::Done.into(),
        Err(error) => {
            output::error(&error);
            exit_codes::of_error(&error).into()
        }
    }
}
