//! The flags of `hitm shake`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use hitm_experiment::shake::Kinds;

use super::{BetterChoice, JsonArg, line_size, percent, seconds};

#[derive(Debug, Args)]
#[command(after_help = "\
The tree is copied to a temporary directory (TMPDIR) and built there; files of yours are not changed.
Exit codes: 0 done, whatever it says; 1 the layout matters and --fail-on layout was given; 2 wrong usage, the build or the
run failed, an interruption, or --fail-on layout and undecided; 3 other programs disturbed too many runs.")]
pub(crate) struct ShakeArgs {
    /// What builds the program, as a shell is told it, in a copy of the tree.
    #[arg(long, value_name = "COMMAND")]
    pub build: String,

    /// What is run and measured, without a shell, in the copy of the tree.
    #[arg(long, value_name = "COMMAND")]
    pub run: String,

    /// The tree that is copied; the commands run where hitm does, within the copy.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub tree: PathBuf,

    /// The program whose layout is changed [default: the first word of --run that is a program in the tree].
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,

    /// Which layouts: `shift` (variables 8, 16, … 56 bytes further on), `shuffle[=N]` (object files and variables in
    /// other orders), `env[=N]` (a larger environment).
    #[arg(long, value_name = "KINDS", default_value = "shift,shuffle=3,env=2")]
    pub variants: Kinds,

    /// Shift to the end of a pair of lines, which some processors fetch together: to 120 bytes.
    #[arg(long)]
    pub pair: bool,

    /// Compile with -fdata-sections, so that single variables of a C or C++ file can change places too.
    #[arg(long)]
    pub data_sections: bool,

    /// Build everything anew for each layout, even where the link alone would do.
    #[arg(long)]
    pub rebuild: bool,

    /// What is compared: `wall` or `cpu` (seconds), `rss` (bytes), `json:/POINTER`, or a regular expression with one group
    /// for the number in what the program prints.
    #[arg(long, value_name = "METRIC", default_value = "wall")]
    pub metric: String,

    /// Which values are good [default: lower for time and memory, higher for what the program prints].
    #[arg(long, value_enum, value_name = "WHICH")]
    pub better: Option<BetterChoice>,

    /// How often each layout runs [default: as many as a verdict on so many variants takes, and 3 more].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,

    /// Count runs that others disturbed, too, instead of repeating them: for a metric that does not depend on what else
    /// runs.
    #[arg(long)]
    pub count_disturbed: bool,

    /// Runs that do not count, at the beginning.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub warm_up: u32,

    /// Effects below it do not count [default: what the base differs from itself, at least 1 %].
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub floor: Option<f64>,

    /// Begin no new round after so many seconds of rounds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub budget: Option<std::time::Duration>,

    /// A run that takes longer has failed.
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    pub timeout: std::time::Duration,

    /// A build that takes longer has failed.
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = seconds)]
    pub build_timeout: std::time::Duration,

    /// Decides about orders and sizes.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// By this line size instead of this machine's.
    #[arg(long, value_name = "BYTES", value_parser = line_size)]
    pub line_size: Option<hitm_model::LineSize>,

    /// Leave the copy and all builds where they are, and say where.
    #[arg(long)]
    pub keep: bool,

    /// Exit with 1 if the layout matters (`layout`), or `never`.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = ShakeFailOn::Never)]
    pub fail_on: ShakeFailOn,

    #[command(flatten)]
    pub json: JsonArg,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ShakeFailOn {
    Layout,
    Never,
}

/// What a build of `hitm shake` calls in place of a linker.
#[derive(Debug, Args)]
pub(crate) struct ShakeLinkerArgs {
    /// Where hitm works.
    pub place: PathBuf,

    /// The linker's name.
    pub name: OsString,

    /// What the linker is told.
    #[arg(last = true, allow_hyphen_values = true)]
    pub words: Vec<OsString>,
}

/// What tidies up if hitm is killed.
#[derive(Debug, Args)]
pub(crate) struct ShakeJanitorArgs {
    /// Where hitm works.
    pub place: PathBuf,

    /// Leave the directory, and end the processes only.
    #[arg(long)]
    pub keep: bool,
}
