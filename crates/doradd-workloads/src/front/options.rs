//! The options of a run, the same for every workload.

use std::io::{self, IsTerminal as _};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use doradd::{Dispatch, Runtime};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use schemars::JsonSchema;
use serde::Serialize;

use crate::front::source::Source;
use crate::log::{Entry, Mapped, Streamed};
use crate::run::arrivals::Arrivals;

/// How a log is executed and what is shown of it.
#[derive(Args, Clone, Debug)]
pub struct RunOptions {
    /// The log to execute; `-` is one that is read from the standard input while it is executed
    #[arg(required = true)]
    log: Option<PathBuf>,

    /// Threads that run transactions [default: one per processor, but one for the dispatcher]
    #[arg(short = 'n', long, value_name = "N")]
    workers: Option<usize>,

    /// When transactions arrive: `max`, as fast as they are taken; `exp:NS`, independently, NS nanoseconds apart on average;
    /// `fixed:NS`
    #[arg(
        short = 'i',
        long = "interval",
        value_name = "INTERVAL",
        default_value = "max"
    )]
    pub arrivals: Arrivals,

    /// On how many threads transactions are dispatched
    #[arg(long, value_enum, default_value = "auto")]
    pub dispatch: DispatchChoice,

    /// Processors to run on: the dispatcher on the first, the workers on the next, in a circle [without a list: all that
    /// this process may use]
    #[arg(long, value_name = "LIST", num_args = 0..=1, require_equals = true, value_delimiter = ',')]
    pub pin: Option<Vec<usize>>,

    /// Transactions at most that are dispatched and have not ended [default: 1024]
    #[arg(long, value_name = "N")]
    pub max_in_flight: Option<usize>,

    /// How often the log is executed, as one long log [default: once; with --seconds: as often as there is time for]
    #[arg(long, value_name = "N")]
    pub repeat: Option<NonZeroU64>,

    /// Takes no more transactions after so long
    #[arg(long, value_name = "S")]
    pub seconds: Option<f64>,

    /// What random arrivals start from
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub arrival_seed: u64,

    /// Afterwards executes the same transactions one by one, and compares: exit code 1 if the states differ
    #[arg(long)]
    pub verify: bool,

    /// Prints one JSON document at the end (docs/ycsb.schema.json) instead of lines for people
    #[arg(long)]
    pub json: bool,
}

/// On how many threads transactions are dispatched.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DispatchChoice {
    /// Pipelined if there is a processor for each stage beside the workers, else fused
    Auto,
    /// All stages on one thread, which also runs transactions when as many are in flight as allowed
    Fused,
    /// On two threads
    Fused2,
    /// On three threads
    Fused3,
    /// A thread for each of the four stages
    Pipelined,
}

impl From<DispatchChoice> for Dispatch {
    fn from(choice: DispatchChoice) -> Self {
        match choice {
            DispatchChoice::Auto => Self::Auto,
            DispatchChoice::Fused => Self::Fused,
            DispatchChoice::Fused2 => Self::FusedOnTwo,
            DispatchChoice::Fused3 => Self::FusedOnThree,
            DispatchChoice::Pipelined => Self::Pipelined,
        }
    }
}

impl RunOptions {
    /// Says what cannot go together.
    ///
    /// # Errors
    /// If something cannot.
    pub fn check(&self) -> Result<()> {
        if self.is_streamed() {
            if self.verify {
                bail!(
                    "--verify executes the log twice, and a pipe can be read once: write it to a file first, with `tee FILE`"
                );
            }
            if self.repeat.is_some() {
                bail!(
                    "--repeat reads the log again, and a pipe can be read once: write it to a file first, with `tee FILE`"
                );
            }
            if io::stdin().is_terminal() {
                bail!(
                    "the standard input is a terminal: pipe a log into it, or give a file instead of `-`"
                );
            }
        }
        self.time()?;
        Ok(())
    }

    /// How long transactions are taken, if not until the log ends.
    ///
    /// # Errors
    /// If it is no time.
    pub fn time(&self) -> Result<Option<Duration>> {
        let Some(seconds) = self.seconds else {
            return Ok(None);
        };
        match Duration::try_from_secs_f64(seconds) {
            Ok(time) if !time.is_zero() => Ok(Some(time)),
            _ => bail!("--seconds {seconds}: give a number of seconds above 0"),
        }
    }

    /// Opens the log.
    ///
    /// # Errors
    /// If it cannot be read, or is wrong.
    pub fn open<E: Entry>(&self, bounds: E::Bounds) -> Result<Source<E>> {
        if self.is_streamed() {
            let streamed = Streamed::read(io::stdin(), bounds);
            return Ok(Source::Streamed(
                streamed.context("cannot start a thread that reads the log")?,
            ));
        }
        let log =
            Mapped::open(self.log(), bounds).with_context(|| self.log().display().to_string())?;
        Ok(Source::Mapped(log))
    }

    /// How many transactions of a log of `length` are executed.
    #[must_use]
    pub fn transactions(&self, length: u64) -> u64 {
        match (self.repeat, self.seconds) {
            (Some(repeat), _) => length.saturating_mul(repeat.get()),
            (None, Some(_)) => u64::MAX,
            (None, None) => length,
        }
    }

    /// Builds the runtime, and puts the calling thread, the dispatcher, where it belongs.
    ///
    /// # Errors
    /// If a figure is out of range, or the system refuses threads or processors.
    pub fn runtime(&self) -> Result<(Runtime, Vec<usize>)> {
        let pinned = self.processors()?;
        let mut builder = Runtime::builder()
            .dispatch(self.dispatch.into())
            .workers(self.workers());
        if let Some(n) = self.max_in_flight {
            builder = builder.max_in_flight(n);
        }
        if let Some((first, others)) = pinned.split_first() {
            // The runtime's list begins with the first worker.
            builder = builder.pin(others.iter().copied().chain([*first]));
        }
        let runtime = builder.build()?;
        if let Some(first) = pinned.first() {
            pin(*first)?;
        }
        Ok((runtime, pinned))
    }

    /// The processors to pin to, none if nothing is pinned.
    fn processors(&self) -> Result<Vec<usize>> {
        match &self.pin {
            None => Ok(Vec::new()),
            Some(list) if !list.is_empty() => Ok(list.clone()),
            Some(_) => {
                let set = sched_getaffinity(Pid::from_raw(0))
                    .context("cannot ask for this process's processors")?;
                let may = |processor: &usize| set.is_set(*processor).unwrap_or(false);
                Ok((0..CpuSet::count()).filter(may).collect())
            }
        }
    }

    /// Worker threads.
    #[must_use]
    pub fn workers(&self) -> usize {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        self.workers.unwrap_or(processors.saturating_sub(1).max(1))
    }

    /// The log's name, `-` for the standard input.
    #[must_use]
    pub fn log(&self) -> &Path {
        // There is one wherever there is no subcommand: the parser sees to that.
        self.log.as_deref().unwrap_or(Path::new("-"))
    }

    fn is_streamed(&self) -> bool {
        self.log() == Path::new("-")
    }
}

/// Puts the calling thread on a processor.
fn pin(processor: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(processor)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
        .with_context(|| format!("cannot pin the dispatcher to processor {processor}"))
}
