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
    print(&script)?;
    Ok(Exit::Done)
}

/// Prints the manual page: the command itself, then a section for each subcommand.
pub(crate) fn man() -> anyhow::Result<Exit> {
    let command = Cli::command();
    let mut page = Vec::new();
    let whole = clap_mangen::Man::new(command.clone());
    whole.render_title(&mut page)?;
    whole.render_name_section(&mut page)?;
    whole.render_synopsis_section(&mut page)?;
    whole.render_description_section(&mut page)?;
    whole.render_options_section(&mut page)?;
    for subcommand in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        let name = format!("hitm {}", subcommand.get_name());
        let man = clap_mangen::Man::new(subcommand.clone().display_name(&name).bin_name(&name));
        let title = name.to_uppercase();
        writeln!(page, ".SH \"{title}\"")?;
        man.render_synopsis_section(&mut page)?;
        man.render_description_section(&mut page)?;
        man.render_options_section(&mut page)?;
    }
    // The list of subcommands is left out: it would refer to pages of their own, and they have sections here.
    if let Some(codes) = command.get_after_help() {
        let codes = codes.to_string().replace('-', r"\-");
        writeln!(page, ".SH \"EXIT STATUS\"\n{codes}")?;
    }
    whole.render_version_section(&mut page)?;
    print(&page)?;
    Ok(Exit::Done)
}

/// What stays in the buffer of stdout is written when nobody is told any more that it failed.
fn print(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()
}
