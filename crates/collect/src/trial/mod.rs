//! One run of a command from a fresh start, and whether it had the machine to itself.
//!
//! Experiments compare such runs. The command is started without a shell, with nothing on its standard input; what it
//! writes is kept up to a limit. It is the leader of a process group of its own, and what it leaves behind is ended with it.
//!
//! # Caveats
//!
//! - Wall time begins before the process is made and ends when the kernel says that it has ended: some hundred
//!   microseconds belong to `fork` and `execve`.
//! - Processor time, memory and switches are those of the command and of the children that it waited for (`wait4`); what
//!   ran on without being waited for is missing.
//! - What others got is counted for the whole machine, in ticks of 10 ms: of a run under 0.2 s it says little.

mod accounts;
mod busiest;
mod child;
mod error;
mod orphans;
mod output;
mod reaper;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use hitm_model::{ExitStatus, Nanos};

use self::accounts::Machine;
pub use self::accounts::Others;
pub use self::busiest::Busiest;
use self::busiest::Watch;
use self::child::Started;
pub use self::child::{Service, Usage};
pub use self::error::TrialError;
pub use self::orphans::adopt_orphans;
pub use self::output::Output;
pub use self::reaper::{end_if_killed, reap};
use crate::clock;

/// What is run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Command {
    /// The program and its arguments. Not empty.
    pub words: Vec<OsString>,
    /// Variables on top of our own environment.
    pub variables: Vec<(OsString, OsString)>,
    /// Where it runs; `None` is where we do.
    pub directory: Option<PathBuf>,
}

/// What one run gave.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// From just before it was started until it ended.
    pub wall: Nanos,
    /// What it used.
    pub usage: Usage,
    /// What others used meanwhile.
    pub others: Others,
    /// How busy it and the server beside it were, if there is one.
    pub busiest: Option<Busiest>,
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to its standard output.
    pub stdout: Output,
    /// What it wrote to its standard error.
    pub stderr: Output,
    /// Processes that it left behind, which were ended.
    pub left_behind: usize,
}

/// Runs a command once, until it ends; `beside` is the server that it talks to, whose time is not somebody else's.
///
/// # Errors
/// If it cannot be started, does not end within `timeout`, or `stop` is set meanwhile: then it is ended, with all it
/// started.
pub fn run(
    command: &Command,
    timeout: Option<Nanos>,
    beside: Option<&Service>,
    stop: &AtomicBool,
) -> Result<Run, TrialError> {
    let served = || beside.map_or(Nanos(0), Service::cpu);
    let served_before = served();
    let before = Machine::now();
    let began = clock::now();
    let mut started = Started::spawn(command)?;
    let mut watch = beside.map(|server| Watch::begin(started.pid(), server.pid(), began));
    let deadline = timeout.map(|timeout| began.plus(timeout));
    let ended = loop {
        if started.has_ended(POLL)? {
            break clock::now();
        }
        if let Some(watch) = &mut watch {
            watch.look(clock::now());
        }
        if stop.load(Ordering::Relaxed) {
            started.end();
            return Err(TrialError::Interrupted);
        }
        if let Some(timeout) = timeout
            && deadline.is_some_and(|deadline| clock::now() >= deadline)
        {
            let (_, stderr) = started.end();
            return Err(TrialError::TimeOut { timeout, stderr });
        }
    };
    let after = Machine::now();
    let served = served().since(served_before);
    let left_behind = started.end_family();
    let (status, usage) = started.reap()?;
    let (stdout, stderr) = started.outputs();
    let wall = ended.since(began);
    Ok(Run {
        wall,
        usage,
        busiest: watch.and_then(|watch| watch.seen()),
        others: before.others(&after, usage.cpu().plus(served)),
        status,
        stdout,
        stderr,
        left_behind,
    })
}

/// How often the flag and the clock are looked at while a command runs.
const POLL: Nanos = Nanos::from_millis(100);
