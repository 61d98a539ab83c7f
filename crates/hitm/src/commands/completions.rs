//! Shell completions and the manual page, from the flags themselves.

use std::io::{self, Write as _};

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::exit_codes::Exit;

/// Prints completions for a shell.
pub(crate) fn completions(shell: Shell) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "hitm", &mut script);
    io::stdout().lock().write_all(&script)?;
    Ok(Exit::Done)
}

/// Prints the manual page: the command itself, then a section for each subcommand.
pub(crate) fn man() -> anyhow::Result<Exit> {
    let command = Cli::command();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for subcommand in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        let name = format!("hitm {}", subcommand.get_name());
        let man = clap_mangen::Man::new(subcommand.clone().display_name(&name).bin_name(&name));
        let title = name.to_uppercase();
        writeln!(page, ".SH \"{title}\"")?;
        man.render_synopsis_section(&mut page)?;
        man.render_description_section(&mut page)?;
        man.render_options_section(&mut page)?;
    }
    io::stdout().lock().write_all(&page)?;
    Ok(Exit::Done)
}
