//! The flags of `hitm history`.

use std::path::PathBuf;

use clap::Args;

use super::JsonArg;

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 shown, whatever it says; 2 wrong usage, no history, or a file that is none.")]
pub(crate) struct HistoryArgs {
    /// The history [default: hitm/history.sqlite in $XDG_DATA_HOME, or in ~/.local/share].
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Only rows of this name, with all their points.
    #[arg(long, value_name = "NAME")]
    pub row: Option<String>,

    /// Draw each series.
    #[arg(long)]
    pub plot: bool,

    /// Look at the last N points of each series.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=2000))]
    pub last: u32,

    #[command(flatten)]
    pub json: JsonArg,
}
