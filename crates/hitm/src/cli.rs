//! The flags. What they do is in `commands`.

use std::path::{Path, PathBuf};

use clap::{Args, ColorChoice, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use hitm_report::FailOn;

/// Finds the cache lines that threads of a native program fight over, says whether they have to, and what it
/// costs at most.
///
/// It samples registers with a software clock and decodes the code around each sample, so it needs no performance
/// counters, no root and no recompiling.
#[derive(Debug, Parser)]
#[command(
    version,
    max_term_width = 100,
    after_help = "\
Exit codes: 0 done; 1 findings at or above --fail-on; 2 wrong usage, an error, or no evidence for --fail-on to judge by;
3 the machine refused.
The status of the program that was run is printed and in the JSON, not returned."
)]
pub(crate) struct Cli {
    /// When to use colour; NO_COLOR is honoured.
    #[arg(long, value_enum, global = true, default_value_t = ColorChoice::Auto, value_name = "WHEN")]
    pub color: ColorChoice,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program and report the lines its threads fight over.
    Run(RunArgs),
    /// Do the same for a process that is already running.
    Attach(AttachArgs),
    /// Report on a recording again, without the program.
    Report(ReportArgs),
    /// Tell what this machine can do, and what to type where it cannot.
    Doctor(DoctorArgs),
    /// Show it on a built-in example: per-thread counters on one line, and the repaired layout.
    Demo(DemoArgs),
    /// Print shell completions.
    Completions {
        /// For which shell.
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Print the manual page (roff).
    Man,
    /// The program that the demo samples.
    #[command(hide = true)]
    DemoWorkload(DemoWorkloadArgs),
}

// The flags that several commands share are described for `run`; what another command does not do is said otherwise there.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub record: RecordArgs,

    #[command(flatten)]
    pub show: ShowArgs,

    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<std::ffi::OsString>,

    /// Who takes the samples: `perf` (perf_event_open), `preload` (an agent in the program), or what works here.
    #[arg(long, value_enum, default_value_t = SamplerChoice::Auto, value_name = "WHO")]
    pub sampler: SamplerChoice,
}

#[derive(Debug, Args)]
#[command(
    mut_arg("duration", |arg| arg.help("Stop after so many seconds. The process runs on.")),
    mut_arg("json", |arg| arg.help(JSON_OF_A_RECORDING))
)]
pub(crate) struct AttachArgs {
    #[command(flatten)]
    pub record: RecordArgs,

    #[command(flatten)]
    pub show: ShowArgs,

    /// The process to attach to.
    #[arg(value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: u32,
}

#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// Samples per second of each running thread [default: the highest rate up to 5000 that slows the program by less
    /// than 3 %, measured before the run].
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub rate: Option<u32>,

    /// Stop after so many seconds. The program is ended then, as by Ctrl-C: it and all that descends from it get SIGINT,
    /// after 3 seconds SIGTERM, after 3 more SIGKILL (a second Ctrl-C hurries this on). A daemon that it left behind runs
    /// on.
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds)]
    pub duration: Option<std::time::Duration>,

    /// The recording; an old one is kept as FILE.old.
    #[arg(short, long, value_name = "FILE", default_value = "hitm.data.hitm")]
    pub output: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Write the report as JSON: to FILE, or without one or with `-` to stdout (the program's own stdout goes to stderr
    /// then).
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub json: Option<Option<PathBuf>>,

    /// How threads are put together: by name, digits at the end aside, or each alone.
    #[arg(long, value_enum, default_value_t = ThreadsByChoice::Name, value_name = "HOW")]
    pub threads_by: ThreadsByChoice,

    /// Exit with 1 on findings: `false-sharing`, `any` or `never`, the first two with a least share (`any:5%`). Where there
    /// is nothing to judge by, they exit with 2: no sample, half of them or more not decoded, or a recording that is not
    /// whole.
    #[arg(long, value_name = "WHAT", default_value = "never")]
    pub fail_on: FailOn,

    /// Show at most so many findings.
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,

    /// Hide findings where no participant spends this share of its time at the line.
    #[arg(long, value_name = "PCT", default_value = "1", value_parser = percent)]
    pub min_share: f64,

    /// Show all findings and all their participants, however small their share.
    #[arg(long)]
    pub all: bool,

    /// Judge by this line size instead of the recorded machine's.
    #[arg(long, value_name = "BYTES", value_parser = line_size)]
    pub line_size: Option<hitm_model::LineSize>,
}

#[derive(Debug, Args)]
#[command(mut_arg("json", |arg| arg.help(JSON_OF_A_RECORDING)))]
pub(crate) struct ReportArgs {
    /// The recording.
    #[arg(value_name = "FILE", default_value = "hitm.data.hitm")]
    pub file: PathBuf,

    #[command(flatten)]
    pub show: ShowArgs,
}

const JSON_OF_A_RECORDING: &str =
    "Write the report as JSON: to FILE, or without one or with `-` to stdout, instead of the table";

impl ShowArgs {
    /// Whether JSON goes to stdout, which nothing else may be written to then.
    pub(crate) fn json_on_stdout(&self) -> bool {
        match &self.json {
            Some(None) => true,
            Some(Some(path)) => path.as_os_str() == "-",
            None => false,
        }
    }

    /// The file that JSON goes to.
    pub(crate) fn json_file(&self) -> Option<&Path> {
        let path = self.json.as_ref()?.as_deref()?;
        (path.as_os_str() != "-").then_some(path)
    }
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Skip what takes time: the latency matrix and the measured costs.
    #[arg(long)]
    pub quick: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {}

#[derive(Debug, Args)]
pub(crate) struct DemoWorkloadArgs {
    /// The arguments of the workload.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum SamplerChoice {
    Auto,
    Perf,
    Preload,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ThreadsByChoice {
    Name,
    Tid,
}

fn seconds(text: &str) -> Result<std::time::Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "not a number of seconds".to_owned())?;
    std::time::Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| "not a positive number of seconds".to_owned())
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    match number.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("not a percentage from 0 to 100".to_owned()),
    }
}

fn line_size(text: &str) -> Result<hitm_model::LineSize, String> {
    let bytes: u32 = text
        .parse()
        .map_err(|_| "not a number of bytes".to_owned())?;
    hitm_model::LineSize::new(bytes).map_err(|error| error.to_string())
}
