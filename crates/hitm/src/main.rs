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
    match commands::dispatch(cli.command) {
        Ok(code) => code.into(),
        Err(error) if output::is_broken_pipe(&error) => exit_codes::Exit::Done.into(),
        Err(error) => {
            output::error(&error);
            exit_codes::of_error(&error).into()
        }
    }
}
