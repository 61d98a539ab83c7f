//! Two pinned threads, working side by side for a short window, and the proof that they really did.
//!
//! A line is fought over only while both threads run. On a machine with other load, and in a guest whose virtual
//! processors are taken away, a thread may wait for the other half of a window; a figure from such a window means
//! nothing. So every window carries what each side can know about its own running, and [`Window::co_ran`] decides.
//!
//! # Caveats
//! A guest's thread does not notice in its CPU time that the hypervisor ran another guest. Short windows and medians
//! over many of them are what keeps that out of the figures.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use super::{Cpu, SystemFiles};

/// Why a probe has no figure.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CannotTell {
    /// There is no second processor to compare with.
    #[error("only one processor may be used here")]
    OneCpu,
    /// The processors cannot be told apart.
    #[error("the machine does not tell which processors may be used")]
    UnknownCpus,
    /// A thread could not be put on its processor.
    #[error("a thread could not be put on processor {cpu}: {errno}")]
    NotPinned {
        /// Which processor.
        cpu: Cpu,
        /// What the kernel said.
        errno: Errno,
    },
    /// No thread could be started.
    #[error("a thread could not be started: {0}")]
    NoThread(String),
    /// Two threads on two processors did not run at the same time in enough windows.
    #[error("two threads ran side by side in only {good} of {windows} windows")]
    NeverCoRan {
        /// Windows in which they did.
        good: usize,
        /// Windows tried.
        windows: usize,
    },
    /// The machine does not tell its line size.
    #[error("the line size is unknown")]
    UnknownLineSize,
}

/// One side of a window.
#[derive(Clone, Debug)]
pub(crate) struct Side<R> {
    pub(super) start: Instant,
    pub(super) end: Instant,
    /// CPU time used between `start` and `end`.
    pub(crate) cpu: Duration,
    /// Time in which it could have run but had no processor; `None` where the kernel does not account for it.
    pub(super) waited: Option<Duration>,
    /// How often it lost its processor to another thread.
    pub(super) preemptions: i64,
    pub(crate) result: R,
}

impl<R> Side<R> {
    pub(super) fn wall(&self) -> Duration {
        self.end - self.start
    }
}

/// One window with both its sides.
#[derive(Clone, Debug)]
pub(crate) struct Window<R> {
    /// Whether both sides were there when it started.
    pub(super) met: bool,
    pub(crate) sides: [Side<R>; 2],
}

impl<R> Window<R> {
    /// Whether both sides ran all the time, at the same time.
    pub(crate) fn co_ran(&self) -> bool {
        self.overlapped() && self.sides.iter().all(|side| side.preemptions == 0)
    }

    /// The same, but that somebody else may have had a processor for an instant: where only a side's own time counts, that
    /// does no harm.
    pub(crate) fn overlapped(&self) -> bool {
        let [a, b] = &self.sides;
        let overlap = a
            .end
            .min(b.end)
            .saturating_duration_since(a.start.max(b.start));
        let longest = a.wall().max(b.wall());
        let whole = |side: &Side<R>| side.cpu.as_secs_f64() >= 0.97 * side.wall().as_secs_f64();
        self.met && whole(a) && whole(b) && overlap.as_secs_f64() >= 0.8 * longest.as_secs_f64()
    }

    /// Whether both sides, put on one processor, had it to themselves, each for a good part of the time.
    pub(crate) fn had_one_processor(&self) -> bool {
        let [a, b] = &self.sides;
        let whole = (a.end.max(b.end) - a.start.min(b.start)).as_secs_f64();
        let (a, b) = (a.cpu.as_secs_f64(), b.cpu.as_secs_f64());
        a + b >= 0.9 * whole && a.min(b) >= 0.2 * whole
    }
}

/// The end of a window, for the work in it to look at now and then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until(Instant);

impl Until {
    pub(crate) fn over(self) -> bool {
        Instant::now() >= self.0
    }
}

/// Runs `work` on both processors at once for about `length`.
pub(crate) fn side_by_side<R: Send>(
    cpus: [Cpu; 2],
    length: Duration,
    work: impl Fn(usize, Until) -> R + Sync,
) -> Result<Window<R>, CannotTell> {
    let here = [AtomicU32::new(0), AtomicU32::new(0)];
    let run = |side: usize| -> Result<(bool, Side<R>), CannotTell> {
        let [_, meeting] = &here;
        pin(cpus[side])?;
        let files = SystemFiles::of_this_machine();
        // The first meeting keeps the second short: reading the accounts takes longer than a meeting.
        let met = here.first().is_some_and(meet);
        let waited = run_delay(&files);
        let preemptions = preemptions();
        let met = meet(meeting) && met;
        let (cpu, start) = (cpu_time(), Instant::now());
        let result = work(side, Until(start + length));
        let (end, cpu) = (Instant::now(), cpu_time().saturating_sub(cpu));
        let side = Side {
            start,
            end,
            cpu,
            waited: run_delay(&files)
                .zip(waited)
                .map(|(after, before)| after.saturating_sub(before)),
            preemptions: self::preemptions() - preemptions,
            result,
        };
        Ok((met, side))
    };
    thread::scope(|scope| {
        let run = &run;
        let start = |side: usize| {
            thread::Builder::new()
                .name(format!("hitm-probe-{side}"))
                .spawn_scoped(scope, move || run(side))
                .map_err(|error| CannotTell::NoThread(error.to_string()))
        };
        // Should the second one not start, the first ends by itself: no meeting waits for ever.
        let (a, b) = (start(0)?, start(1)?);
        let ended = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread
                .join()
                .unwrap_or_else(|_| Err(CannotTell::NoThread("it panicked".to_owned())))
        };
        let (a, b) = (ended(a), ended(b));
        let ((met_a, a), (met_b, b)) = (a?, b?);
        Ok(Window {
            met: met_a && met_b,
            sides: [a, b],
        })
    })
}

/// Waits for the other side, spinning; whether it came in time.
fn meet(here: &AtomicU32) -> bool {
    const PATIENCE: Duration = Duration::from_millis(20);
    here.fetch_add(1, Ordering::AcqRel);
    let end = Instant::now() + PATIENCE;
    while here.load(Ordering::Acquire) < 2 {
        if Instant::now() >= end {
            return false;
        }
        std::hint::spin_loop();
    }
    true
}

/// Puts the calling thread on one processor.
///
/// # Errors
/// If it may not run there.
pub fn pin(cpu: Cpu) -> Result<(), CannotTell> {
    let failed = |errno| CannotTell::NotPinned { cpu, errno };
    let mut set = CpuSet::new();
    set.set(cpu.0 as usize).map_err(failed)?;
    sched_setaffinity(Pid::from_raw(0), &set).map_err(failed)
}

fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

fn preemptions() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.involuntary_context_switches())
}

/// Time the calling thread waited for a processor so far.
fn run_delay(files: &SystemFiles) -> Option<Duration> {
    parse_run_delay(&files.text("proc/thread-self/schedstat")?)
}

/// The second number of `/proc/PID/schedstat`: nanoseconds on a run queue.
pub(super) fn parse_run_delay(schedstat: &str) -> Option<Duration> {
    let nanos = schedstat.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}
