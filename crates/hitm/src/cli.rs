//! The flags. What they do is in `commands`.

mod compare;
mod history;
mod scale;
mod shake;

use std::path::{Path, PathBuf};

use clap::{Args, ColorChoice, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use hitm_report::FailOn;

pub(crate) use self::compare::{BetterChoice, CompareArgs, CompareFailOn};
pub(crate) use self::history::HistoryArgs;
pub(crate) use self::scale::{ScaleArgs, ScaleFailOn, WorkChoice};
pub(crate) use self::shake::{ShakeArgs, ShakeFailOn, ShakeJanitorArgs, ShakeLinkerArgs};

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
    /// Measure what the sharing costs, by putting the threads on one core for short windows.
    Prove(ProveArgs),
    /// Report on a recording again, without the program.
    Report(ReportArgs),
    /// Show which variables of a binary share a line, and how a type lies on lines. Nothing is run.
    Layout(LayoutArgs),
    /// Compare two builds: which variables came onto one line, and whether code changed but for addresses.
    Diff(DiffArgs),
    /// Tell from a binary, before it runs, what may be shared falsely, and check it against a policy.
    Check(CheckArgs),
    /// Run two commands in turn until it is clear which is better, or that neither is.
    Compare(CompareArgs),
    /// Show what earlier comparisons said that were saved, and what changed over commits.
    History(HistoryArgs),
    /// Run a command with 1, 2, … threads in turn: does it get faster, or slower, and by which line?
    Scale(ScaleArgs),
    /// Tell how much of a result is luck of the layout: build a program in many layouts and run them in turn.
    Shake(ShakeArgs),
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
    /// The process that puts threads back if hitm is killed while it proves.
    #[command(hide = true)]
    Guardian,
    /// What a build of `hitm shake` calls in place of a linker.
    #[command(hide = true)]
    ShakeLinker(ShakeLinkerArgs),
    /// What tidies up if `hitm shake` is killed.
    #[command(hide = true)]
    ShakeJanitor(ShakeJanitorArgs),
    /// The process that ends commands if hitm is killed while it measures them.
    #[command(hide = true)]
    Reaper,
}

// The flags that several commands share are described for `run`; what another command does not do is said otherwise there.
#[derive(Debug, Args)]
#[command(mut_group("WindowArgs", |group| group.requires("prove")))]
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

    /// Only record; `hitm report FILE` shows what was recorded.
    #[arg(long, conflicts_with_all = ["json", "fail_on"])]
    pub no_report: bool,

    /// Measure what the sharing costs, as `hitm prove` does, and go on to the program's end.
    #[arg(long, help_heading = WINDOWS)]
    pub prove: bool,

    #[command(flatten)]
    pub windows: WindowArgs,
}

#[derive(Debug, Args)]
#[command(
    mut_group("WindowArgs", |group| group.requires("prove")),
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

    /// Measure what the sharing costs, as `hitm prove` does; then go on if there is `--for`, else stop.
    #[arg(long, help_heading = WINDOWS)]
    pub prove: bool,

    #[command(flatten)]
    pub windows: WindowArgs,
}

#[derive(Debug, Args)]
#[command(
    group(clap::ArgGroup::new("target").args(["pid", "command"]).required(true)),
    override_usage = "hitm prove [OPTIONS] <PID>\n       hitm prove [OPTIONS] -- <CMD>...",
    mut_arg("rate", |arg| arg.help("Samples per second of each running thread, at most 1000 [default: as many as cost less than 3 %, at most 1000].")),
    mut_arg("duration", |arg| arg.help("Stop after so many seconds, whether or not there was anything to measure by then.")),
)]
pub(crate) struct ProveArgs {
    /// The process to measure. It is left running, its threads where they were.
    #[arg(value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Option<u32>,

    /// The program to run and measure, and its arguments. It is ended when the windows are over.
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<std::ffi::OsString>,

    #[command(flatten)]
    pub record: RecordArgs,

    #[command(flatten)]
    pub show: ShowArgs,

    #[command(flatten)]
    pub windows: WindowArgs,
}

const WINDOWS: &str = "Windows";

/// How threads are put together and apart.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = WINDOWS)]
pub(crate) struct WindowArgs {
    /// So many windows of each placement, apart and together, for each group of threads [default: 8, or as many as fit].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(4..=1000))]
    pub windows: Option<u32>,

    /// How long a window is, in milliseconds [default: 150].
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(20..=60_000))]
    pub window: Option<u64>,

    /// How long all windows may take. The groups with the largest share of time come first [default: 5, more with
    /// `--windows` or `--window`].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub budget: Option<std::time::Duration>,

    /// How long to sample before the first windows, to see who shares what [default: 2].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub sample: Option<std::time::Duration>,

    /// Only these threads, by name or number, as one group.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub threads: Vec<String>,

    /// What tells how far a thread got: a variable, a function, or a line of code. Without it hitm looks itself. May be
    /// given several times.
    #[arg(long, value_name = "SYMBOL|FILE:LINE", value_parser = named_progress)]
    pub progress: Vec<hitm_model::NamedProgress>,

    /// Measure each pair on every kind of core pair that this machine has: hardware threads of one core, cores with a
    /// common cache, packages.
    #[arg(long)]
    pub matrix: bool,
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
        goes_to_stdout(self.json.as_ref())
    }

    /// The file that JSON goes to.
    pub(crate) fn json_file(&self) -> Option<&Path> {
        goes_to_file(self.json.as_ref())
    }
}

#[derive(Debug, Args)]
pub(crate) struct LayoutArgs {
    /// A program or shared library.
    #[arg(value_name = "BINARY")]
    pub binary: PathBuf,

    /// A variable, a type, a field of either (`server.clients[1].flags`, `Ring.head`), or an address (`0x…`); without it,
    /// all lines of the data that hold more than one object.
    #[arg(value_name = "NAME", conflicts_with = "all_types")]
    pub name: Option<String>,

    /// List all types with their members and padding, in the order of the file.
    #[arg(long)]
    pub all_types: bool,

    /// NAME is a type, even if a variable is called the same.
    #[arg(long = "type", requires = "name")]
    pub only_types: bool,

    /// Show all lines and types, lines of data that is never written too.
    #[arg(long)]
    pub all: bool,

    /// Show at most so many lines of the data.
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub top: usize,

    /// By this line size instead of this machine's. Types are always shown for 64 and 128 too.
    #[arg(long, value_name = "BYTES", value_parser = line_size)]
    pub line_size: Option<hitm_model::LineSize>,

    #[command(flatten)]
    pub json: JsonArg,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The old build.
    #[arg(value_name = "OLD")]
    pub old: PathBuf,

    /// The new build.
    #[arg(value_name = "NEW")]
    pub new: PathBuf,

    /// Exit with 1 if variables came onto one line (`joined`), or `never`. Where there is nothing to judge by, `joined`
    /// exits with 2.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = DiffFailOn::Never)]
    pub fail_on: DiffFailOn,

    /// Show everything.
    #[arg(long)]
    pub all: bool,

    /// Show at most so many rows of each kind.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,

    /// By this line size instead of this machine's.
    #[arg(long, value_name = "BYTES", value_parser = line_size)]
    pub line_size: Option<hitm_model::LineSize>,

    #[command(flatten)]
    pub json: JsonArg,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum DiffFailOn {
    Joined,
    Never,
}

/// What is written for programs.
#[derive(Debug, Args)]
pub(crate) struct JsonArg {
    /// Write JSON: to FILE beside the table, or without one or with `-` to stdout instead of it.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub json: Option<Option<PathBuf>>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A finding is a precondition, not a measurement: its verdict is always `unproven`. Its confidence says how sure it is that
threads meet there.
Exit codes: 0 done; 1 what --fail-on asks for; 2 wrong usage, an unreadable policy, or a file that is no program.")]
pub(crate) struct CheckArgs {
    /// Programs and shared libraries.
    #[arg(value_name = "BINARY", required = true)]
    pub binaries: Vec<PathBuf>,

    /// What the project asks of its layout (docs/check.md) [default: hitm.toml if there is one].
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,

    /// Findings that are known: only others fail.
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,

    /// Write all findings that are there as a baseline.
    #[arg(long, value_name = "FILE")]
    pub write_baseline: Option<PathBuf>,

    /// Bytes of a line of the machine that it is for.
    #[arg(long, value_name = "BYTES", value_parser = line_size, default_value = "64")]
    pub line_size: hitm_model::LineSize,

    /// Exit with 1 on what the policy forbids and on findings: `low`, `medium` or `high` confidence or more; `policy` for
    /// the policy alone; `never` [default: policy]. Not where SARIF goes to stdout: who reads that decides.
    #[arg(long, value_name = "WHAT")]
    pub fail_on: Option<hitm_report::CheckFailOn>,

    /// Show findings of this confidence or more.
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = ConfidenceChoice::Medium)]
    pub confidence: ConfidenceChoice,

    /// Show all findings, those of low confidence too.
    #[arg(long)]
    pub all: bool,

    /// Say of what looks like a finding why it is none.
    #[arg(long)]
    pub explain: bool,

    /// Write JSON: to FILE beside the table, or without one or with `-` to stdout instead of it.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub json: Option<Option<PathBuf>>,

    /// Write SARIF 2.1.0: to FILE beside the table, or without one or with `-` to stdout instead of it.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub sarif: Option<Option<PathBuf>>,

    /// Print annotations for the log of a GitHub action, instead of the table.
    #[arg(long)]
    pub github: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ConfidenceChoice {
    Low,
    Medium,
    High,
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

/// Whether `--json` means stdout: without a file, or with `-`.
fn goes_to_stdout(json: Option<&Option<PathBuf>>) -> bool {
    json.is_some_and(|path| path.as_ref().is_none_or(|path| path.as_os_str() == "-"))
}

/// The file that `--json` means.
fn goes_to_file(json: Option<&Option<PathBuf>>) -> Option<&Path> {
    let path = json?.as_deref()?;
    (path.as_os_str() != "-").then_some(path)
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

/// A line of code if it ends in a number behind a colon, else a name.
fn named_progress(text: &str) -> Result<hitm_model::NamedProgress, String> {
    if let Some((file, line)) = text.rsplit_once(':')
        && !file.is_empty()
        && !file.ends_with(':')
        && !line.is_empty()
        && line.bytes().all(|byte| byte.is_ascii_digit())
    {
        return match line.parse() {
            Ok(line) if line > 0 => Ok(hitm_model::NamedProgress::Line {
                file: file.into(),
                line,
            }),
            _ => Err("lines are counted from 1 on".to_owned()),
        };
    }
    if text.trim().is_empty() {
        return Err("neither a name nor a line of code (FILE:LINE)".to_owned());
    }
    Ok(hitm_model::NamedProgress::Symbol(text.into()))
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use hitm_model::NamedProgress;

    use super::*;

    #[test]
    fn the_flags_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn progress_is_a_name_or_a_line() {
        let line = |file: &str, line| {
            let file = file.to_owned();
            Ok(NamedProgress::Line { file, line })
        };
        let symbol = |name: &str| Ok(NamedProgress::Symbol(name.into()));
        for (text, wanted) in [
            ("server.c:12", line("server.c", 12)),
            ("/src/a:b/x.rs:7", line("/src/a:b/x.rs", 7)),
            ("counter", symbol("counter")),
            ("ns::Type<int>::step", symbol("ns::Type<int>::step")),
            ("ns::7", symbol("ns::7")),
            (":7", symbol(":7")),
            ("x:", symbol("x:")),
        ] {
            assert_eq!(named_progress(text), wanted, "{text}");
        }
        for bad in ["", " ", "x.c:0", "x.c:99999999999"] {
            assert!(named_progress(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn windows_need_prove_and_prove_one_target() {
        let fits = |line: &str| Cli::try_parse_from(line.split(' ')).is_ok();
        for good in [
            "hitm prove 7",
            "hitm prove -- ls -l",
            "hitm prove --windows 6 --threads a,b --progress x --progress y.c:3 --matrix 7",
            "hitm run --prove --windows 6 -- ls",
            "hitm attach --prove --budget 2 7",
            "hitm run -- ls",
        ] {
            assert!(fits(good), "{good}");
        }
        for bad in [
            "hitm prove",
            "hitm prove 7 -- ls",
            "hitm prove --windows 3 7",
            "hitm run --windows 6 -- ls",
            "hitm attach --matrix 7",
        ] {
            assert!(!fits(bad), "{bad}");
        }
    }
}
