//! The flags of `hitm scale`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{BetterChoice, JsonArg, percent, seconds};

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 done, whatever it says; 1 more threads are slower and --fail-on negative was given; 2 wrong usage, a point
failed, an interruption, or --fail-on negative and no verdict; 3 other programs disturbed too many runs.
docs/scale.md has the rules of the verdict.")]
pub(crate) struct ScaleArgs {
    /// The program and its arguments; `{n}` stands for the number of threads. Started without a shell.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,

    /// Set a variable, for programs that take the number of threads from there: --env 'OMP_NUM_THREADS={n}'.
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,

    /// Go on to so many threads. With more of them than processors they take turns: such points are marked, and nothing
    /// follows from them [default: the processors that the command may use].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_THREADS), conflicts_with = "points")]
    pub to: Option<u32>,

    /// These numbers of threads [default: 1, 2, … 8, then 12, 16, 24, …].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=MOST_THREADS))]
    pub points: Vec<u32>,

    /// What is measured: `wall` (seconds), `json:/POINTER`, or a regular expression with one group for the number in what
    /// the command prints.
    #[arg(long, value_name = "METRIC", default_value = "wall")]
    pub metric: String,

    /// Which values are good; `higher` says that the metric is a throughput [default: lower for `wall`, higher for what
    /// the command prints].
    #[arg(long, value_enum, value_name = "WHICH")]
    pub better: Option<BetterChoice>,

    /// Of what work a time is: of the same at every point (`fixed`: twice the threads should take half the time), or of so
    /// much for each thread (`per-thread`: should take the same time). Where it is not said, only what holds either way is.
    #[arg(long, value_enum, value_name = "WORK")]
    pub work: Option<WorkChoice>,

    /// Runs of each point [default: as many as a verdict on so many points takes, and 2 more; at least 5].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: Option<u32>,

    /// Runs of each point that do not count, at the beginning.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub warm_up: u32,

    /// Repeat at most so many runs because others disturbed them [default: half as many as there are runs].
    #[arg(long, value_name = "N")]
    pub repeats: Option<usize>,

    /// Smaller losses are not called negative scaling.
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = percent)]
    pub floor: f64,

    /// Begin no new round after so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub budget: Option<std::time::Duration>,

    /// A run that takes longer has failed.
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    pub timeout: std::time::Duration,

    /// Decides about the order.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Do not record the slowest point with `hitm run` afterwards.
    #[arg(long)]
    pub no_evidence: bool,

    /// Draw speed-up over threads to FILE, as SVG.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Exit with 1 if more threads are slower (`negative`), or `never`.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = ScaleFailOn::Never)]
    pub fail_on: ScaleFailOn,

    #[command(flatten)]
    pub json: JsonArg,
}

/// More threads nobody starts.
const MOST_THREADS: i64 = 65_536;

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ScaleFailOn {
    Negative,
    Never,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum WorkChoice {
    Fixed,
    PerThread,
}

impl WorkChoice {
    pub(crate) fn meant(self) -> hitm_experiment::scale::Work {
        match self {
            Self::Fixed => hitm_experiment::scale::Work::Fixed,
            Self::PerThread => hitm_experiment::scale::Work::PerThread,
        }
    }
}
