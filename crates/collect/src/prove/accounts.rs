//! What the kernel's accounts say of a thread at an instant.
//!
//! `/proc/PID/task/TID/schedstat` knows a running thread's time only up to its last clock tick. A counting event of perf
//! has it exactly: reading it asks the processor that the thread runs on. Where there is no perf, schedstat it is.
//!
//! Time on a run queue is booked when it is over, which may be after the window. But a thread that could run at its
//! beginning and never gave its processor up has waited whenever it did not run.
//!
//! # Caveats
//! Of a thread that sleeps now and then, the time on a run queue may be off by one turn of the others, at either end.
//! Stolen time comes in the ticks of `/proc/stat`, 10 ms on most kernels.

use std::{fs, os::fd::OwnedFd};

use hitm_model::{Nanos, WindowThread};

use super::target::{Stat, Target, per_second};
use crate::{
    machine::{Cpu, StatTicks, SystemFiles},
    perf,
};

/// The accounts of a thread.
#[derive(Debug)]
pub(super) struct Account {
    target: Target,
    /// Counts its processor time from when it was opened.
    clock: Option<OwnedFd>,
}

/// The accounts at an instant; only differences mean something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Balance {
    pub(super) ran: Nanos,
    pub(super) waited: Nanos,
    pub(super) voluntary: u64,
    pub(super) involuntary: u64,
    pub(super) runnable: bool,
}

impl Balance {
    /// How long it waited for a processor from `self` until `after`, in a span of this length.
    pub(super) fn waited_until(&self, after: &Self, length: Nanos) -> Nanos {
        if self.runnable && after.voluntary <= self.voluntary {
            length.since(after.ran.since(self.ran))
        } else {
            after.waited.since(self.waited).min(length)
        }
    }

    /// What was used from `self` until `after`, on this processor, in a window of this length.
    pub(super) fn until(&self, after: &Self, cpu: Cpu, length: Nanos) -> WindowThread {
        let count = |after: u64, before: u64| {
            u32::try_from(after.saturating_sub(before)).unwrap_or(u32::MAX)
        };
        WindowThread {
            cpu: cpu.0,
            ran: after.ran.since(self.ran),
            waited: self.waited_until(after, length),
            voluntary: count(after.voluntary, self.voluntary),
            involuntary: count(after.involuntary, self.involuntary),
        }
    }
}

impl Account {
    pub(super) fn open(target: Target) -> Self {
        Self {
            target,
            clock: perf::task_clock(target.tid).ok(),
        }
    }

    /// Processor time used so far; `None` if the thread is gone.
    pub(super) fn ran(&self) -> Option<Nanos> {
        let Some(clock) = &self.clock else {
            return Some(self.schedstat()?.0);
        };
        let mut count = [0; 8];
        let n = nix::unistd::read(clock, &mut count).ok()?;
        (n == count.len()).then(|| Nanos(u64::from_ne_bytes(count)))
    }

    /// All of it; `None` if the thread is gone.
    pub(super) fn read(&self) -> Option<Balance> {
        let (voluntary, involuntary) = parse_switches(&self.text("status")?)?;
        let (booked, waited) = self.schedstat()?;
        let ran = match &self.clock {
            Some(_) => self.ran()?,
            None => booked,
        };
        Some(Balance {
            ran,
            waited,
            voluntary,
            involuntary,
            runnable: Stat::read(self.target.pid, self.target.tid)?.runnable,
        })
    }

    fn schedstat(&self) -> Option<(Nanos, Nanos)> {
        parse_schedstat(&self.text("schedstat")?)
    }

    fn text(&self, file: &str) -> Option<String> {
        let Target { pid, tid, .. } = self.target;
        let bytes = fs::read(format!("/proc/{pid}/task/{tid}/{file}")).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Time on a processor and time on a run queue. A kernel that does not account for these says `0 0 0`.
fn parse_schedstat(text: &str) -> Option<(Nanos, Nanos)> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    Some((Nanos(numbers.next()?.ok()?), Nanos(numbers.next()?.ok()?)))
}

fn parse_switches(status: &str) -> Option<(u64, u64)> {
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    Some((
        number("voluntary_ctxt_switches:")?,
        number("nonvoluntary_ctxt_switches:")?,
    ))
}

/// Time that the hypervisor took from these processors since boot; `None` where the kernel does not say.
pub(super) fn stolen(cpus: &[Cpu]) -> Option<Nanos> {
    let stat = SystemFiles::of_this_machine().text("proc/stat")?;
    let ticks = StatTicks::parse(&stat, cpus.iter().copied())?;
    Some(Nanos(
        ticks.stolen.saturating_mul(1_000_000_000 / per_second()),
    ))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use hitm_model::{Pid, Tid};

    use super::*;

    #[test]
    fn accounts_are_read_from_their_texts() {
        assert_eq!(parse_schedstat("123 45 6\n"), Some((Nanos(123), Nanos(45))));
        assert_eq!(parse_schedstat(""), None);
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t8\n";
        assert_eq!(parse_switches(status), Some((7, 8)));
        assert_eq!(parse_switches("Name:\tx\n"), None);
    }

    #[test]
    fn a_thread_that_could_always_run_waited_when_it_did_not() {
        let before = |runnable| Balance {
            runnable,
            ..Balance::default()
        };
        let after = |ran, waited, voluntary| Balance {
            ran: Nanos(ran),
            waited: Nanos(waited),
            voluntary,
            ..Balance::default()
        };
        for (title, before, after, wanted) in [
            ("not booked yet", before(true), after(40, 0, 0), 60),
            ("booked from before", before(true), after(90, 500, 0), 10),
            ("slept", before(true), after(40, 5, 1), 5),
            ("slept on", before(false), after(40, 5, 0), 5),
            (
                "booked from before, slept",
                before(true),
                after(0, 500, 1),
                100,
            ),
        ] {
            let window = before.until(&after, Cpu(3), Nanos(100));
            assert_eq!((window.waited, window.cpu), (Nanos(wanted), 3), "{title}");
        }
    }

    #[test]
    fn a_running_thread_sees_its_time_pass() {
        let (pid, tid) = (Pid(std::process::id()), nix::unistd::gettid());
        let (target, _) = Target::find(pid, Tid(tid.as_raw().cast_unsigned())).unwrap();
        let account = Account::open(target);
        let before = account.read().unwrap();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(30) {}
        let after = account.read().unwrap();
        assert!(after.ran > before.ran && after.waited >= before.waited);
    }
}
