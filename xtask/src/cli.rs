//! The tasks and their options.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};

use crate::{bench, checks, corpus, experiments, lab, nightly, policy, stories};

/// Every CI job of hitm as a command.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// All checks of a change: fmt, tidy, clippy, doc, doctest, loom, shuttle, features, policy, test; installs what the
    /// tests need.
    Ci,
    /// Formatting is rustfmt's.
    Fmt,
    /// File lengths, module docs and words that must not be committed.
    Tidy,
    /// No lint fires.
    Clippy,
    /// The documentation builds without a warning.
    Doc,
    /// The examples in the documentation work.
    Doctest,
    /// The lock-free protocols, every interleaving of small cases.
    Loom,
    /// The deterministic runtime under random schedules.
    Shuttle,
    /// The published crates without their default features, and with all; and what they pack.
    Features,
    /// The layout of doradd's programs is what their policy asks for, by `hitm check`, and nothing else is seen by `hitm run`.
    Policy,
    /// All tests, with nextest where it is installed.
    Test,
    /// Tests of the pure crates under Miri; skips visibly without it.
    Miri,
    /// Tests of the crates with threads under ThreadSanitizer; skips visibly without a nightly toolchain's sources.
    Tsan,
    /// Fuzzes every reader of foreign bytes; skips visibly without cargo-fuzz and a nightly toolchain.
    Fuzz {
        /// Seconds per target.
        #[arg(long, default_value_t = 60)]
        seconds: u32,
        /// Only this target.
        #[arg(long)]
        only: Option<String>,
    },
    /// Runs `hitm run`, or `hitm prove`, on a folder of programs of known sharing and compares; exit code 1 if anything is
    /// missed.
    Corpus {
        /// A folder with a truth.tsv and a Makefile; it is copied, not written to.
        dir: PathBuf,
        /// How often each program is run.
        #[arg(long, default_value_t = 1)]
        runs: u32,
        /// How long a program without hitm is to take; it gets as many iterations.
        #[arg(long, default_value_t = 2.0, value_parser = seconds)]
        seconds: f64,
        /// Only this program.
        #[arg(long)]
        only: Option<String>,
        /// This hitm instead of the one of this tree.
        #[arg(long, value_name = "FILE")]
        hitm: Option<PathBuf>,
        /// Compare what `hitm prove` says the sharing costs with what the repaired layout gains, measured by interleaved
        /// runs.
        #[arg(long, conflicts_with = "seconds")]
        prove: bool,
        /// The threads of this program wait for each other: of it no cost can be told. May be given several times, or be a
        /// column `waits` of truth.tsv.
        #[arg(long, value_name = "ID", requires = "prove")]
        waits: Vec<String>,
    },
    /// Measures hitm itself and its crates, as ratios of interleaved runs.
    Bench {
        /// What to measure.
        what: Bench,
        /// Interleaved runs of each side.
        #[arg(long, default_value_t = 7)]
        runs: u32,
        /// Of doradd, this case only.
        #[arg(long, value_name = "CASE")]
        only: Option<String>,
        /// Of doradd, the memory at points of a log of a hundred million transactions, and nothing else.
        #[arg(long)]
        memory: bool,
    },
    /// Runs `hitm compare` where the truth is known, and says whether it told it: a program against itself, a faulty layout
    /// against the repaired one. Needs an idle machine; exit code 1 if anything was wrong, or not measured.
    Experiments {
        /// What is compared.
        what: experiments::What,
        /// The corpus: a folder with a truth.tsv and a Makefile; it is copied, not written to.
        #[arg(required_if_eq("what", "corpus"))]
        dir: Option<PathBuf>,
        /// How often all of it is repeated.
        #[arg(long, default_value_t = 1)]
        repeats: u32,
        /// Only rows with this in their name.
        #[arg(long)]
        only: Option<String>,
        /// This hitm instead of the one of this tree.
        #[arg(long, value_name = "FILE")]
        hitm: Option<PathBuf>,
    },
    /// Builds a lab and prints how to run it, or runs it.
    Lab {
        /// Which.
        lab: lab::Lab,
        /// Have hitm look at it in all its layouts: what it prints without this, done.
        #[arg(long)]
        run: bool,
        /// For how long each layout runs.
        #[arg(long, default_value_t = 2)]
        seconds: u32,
    },
    /// The three stories end to end: hitm names the slow layout, not the repaired one, and what the repair gains is measured.
    /// Writes docs/stories.md; exit code 1 if hitm said something else.
    Stories {
        /// Only this story; the rows of the others in docs/stories.md stay, if they are of this machine.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=3))]
        only: Option<u8>,
        /// Pairs of runs whose threads ran side by side; at most twice as many are tried.
        #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=100))]
        runs: u32,
        /// This hitm instead of the one of this tree.
        #[arg(long, value_name = "FILE")]
        hitm: Option<PathBuf>,
    },
}

/// What `bench` measures.
#[derive(Clone, Copy, ValueEnum)]
enum Bench {
    /// The deterministic runtime beside a serial loop.
    Doradd,
    /// The slowdown by `hitm run`, the recorder's memory and the recording's size.
    Overhead,
    /// The time to report on a recording of 480 thread-seconds.
    Report,
    /// Time and memory of `hitm check`, `layout` and `diff` on a large binary, beside the tools that read layouts.
    Check,
    /// The time to read types, beside pahole.
    Layout,
    /// The time `hitm run` adds to a command that does nothing.
    Startup,
    /// Ways of counting from several threads: hitm-counters, atomics, and the crates that people use.
    Counters,
}

/// A time that a program of a corpus can run for.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.01..=30.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("from 0.01 to 30".to_owned())
    }
}

/// Runs the task that the command line names.
pub(crate) fn run() -> Result<ExitCode> {
    let done = |()| ExitCode::SUCCESS;
    match Cli::parse().task {
        Task::Ci => checks::ci().map(done),
        Task::Fmt => checks::fmt().map(done),
        Task::Tidy => checks::tidy().map(done),
        Task::Clippy => checks::clippy().map(done),
        Task::Doc => checks::doc().map(done),
        Task::Doctest => checks::doctest().map(done),
        Task::Loom => checks::loom().map(done),
        Task::Shuttle => checks::shuttle().map(done),
        Task::Features => checks::features().map(done),
        Task::Policy => policy::policy().map(done),
        Task::Test => checks::test().map(done),
        Task::Miri => nightly::miri().map(done),
        Task::Tsan => nightly::tsan().map(done),
        Task::Fuzz { seconds, only } => nightly::fuzz(seconds, only.as_deref()).map(done),
        Task::Corpus {
            dir,
            runs,
            seconds,
            only,
            hitm,
            prove,
            waits,
        } => {
            let options = corpus::Options {
                dir,
                runs,
                time: Duration::from_secs_f64(seconds),
                only,
                hitm,
            };
            if prove {
                corpus::prove(&options, &waits)
            } else {
                corpus::run(&options)
            }
        }
        Task::Bench {
            what,
            runs,
            only,
            memory,
        } => match what {
            Bench::Doradd if memory => bench::doradd_memory(),
            Bench::Doradd => bench::doradd(runs, only.as_deref()),
            Bench::Overhead => bench::overhead(runs),
            Bench::Report => bench::report(runs),
            Bench::Check => bench::check(runs),
            Bench::Layout => bench::layout(runs),
            Bench::Startup => bench::startup(runs),
            Bench::Counters => bench::counters(runs),
        }
        .map(done),
        Task::Experiments {
            what,
            dir,
            repeats,
            only,
            hitm,
        } => experiments::run(&experiments::Options {
            what,
            dir,
            repeats,
            only,
            hitm,
        }),
        Task::Lab { lab, run, seconds } => lab::run(lab, run, seconds).map(done),
        Task::Stories { only, runs, hitm } => stories::run(&stories::Options { only, runs, hitm }),
    }
}
