//! The flags of `hitm compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{JsonArg, percent, seconds};

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 all rows were compared, whatever they say; 1 a row regressed and --fail-on regressed was given; 2 a row was
refused or failed, wrong usage, or an interruption; 3 other programs disturbed too many runs.")]
pub(crate) struct CompareArgs {
    /// The base: a name and its command, which is started without a shell.
    #[arg(long, value_name = "NAME=COMMAND", requires = "b")]
    pub a: Option<String>,

    /// The change.
    #[arg(long, value_name = "NAME=COMMAND", requires = "a")]
    pub b: Option<String>,

    /// Rows, servers and settings from a file instead; docs/compare.md has its keys.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["a", "b", "metric", "better"])]
    pub suite: Option<PathBuf>,

    /// What is compared: `wall` or `cpu` (seconds), `rss` (bytes), `json:/POINTER`, or a regular expression with one group
    /// for the number in what the command prints [default: wall].
    #[arg(long, value_name = "METRIC")]
    pub metric: Option<String>,

    /// Which values are good [default: lower for time and memory, higher for what the command prints].
    #[arg(long, value_enum, value_name = "WHICH")]
    pub better: Option<BetterChoice>,

    /// Pairs of runs at most [default: 20].
    #[arg(long, value_name = "N")]
    pub pairs: Option<usize>,

    /// Pairs of A against itself, before [default: 6].
    #[arg(long, value_name = "N")]
    pub noise_pairs: Option<usize>,

    /// Runs of each side that do not count, at the beginning [default: 1].
    #[arg(long, value_name = "N")]
    pub warm_up: Option<usize>,

    /// Effects below it do not count [default: what A differs from itself, at least 1 %].
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub floor: Option<f64>,

    /// Begin no new pair after so many seconds, of all rows together.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub budget: Option<std::time::Duration>,

    /// A run that takes longer has failed [default: 600].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<std::time::Duration>,

    /// Decides which side runs first in a pair [default: 1].
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Record one more run of each side with `hitm run`, after the pairs: which lines its threads fight over, before and
    /// after. Where the pairs do not tell the sides apart, this may.
    #[arg(long)]
    pub evidence: bool,

    /// Compare a program with itself: what does this machine make of no difference?
    #[arg(long)]
    pub aa: bool,

    /// Compare although the sides are not comparable; the result is marked.
    #[arg(long)]
    pub force: bool,

    /// Exit with 1 if a row regressed.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = CompareFailOn::Never)]
    pub fail_on: CompareFailOn,

    /// Keep all outcomes and runs, for `hitm history`: in FILE, or without one in hitm/history.sqlite in $XDG_DATA_HOME, or
    /// in ~/.local/share.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub save: Option<Option<PathBuf>>,

    #[command(flatten)]
    pub json: JsonArg,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum CompareFailOn {
    Never,
    Regressed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum BetterChoice {
    Higher,
    Lower,
}

impl BetterChoice {
    pub(crate) fn meant(self) -> hitm_experiment::Better {
        match self {
            Self::Higher => hitm_experiment::Better::Higher,
            Self::Lower => hitm_experiment::Better::Lower,
        }
    }
}
