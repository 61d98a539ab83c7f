//! A thread of the program, so that another one that was given its number is never taken for it.

use std::fs;

use hitm_model::{Nanos, Pid, Tid};
use nix::unistd::{SysconfVar, sysconf};

use crate::{clock, machine::Cpu};

/// A point in time on the clock of `/proc`'s start times: hundredths of a second since boot, on most kernels.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Ticks(pub(super) u64);

impl Ticks {
    /// Now.
    pub(super) fn now() -> Self {
        Self::of(clock::since_boot())
    }

    /// A point in time of the samples' clock, which stands still while the machine is suspended.
    pub(super) fn at(at: Nanos) -> Self {
        let suspended = clock::since_boot().since(clock::now());
        Self::of(at.plus(suspended))
    }

    fn of(since_boot: Nanos) -> Self {
        let ticks = u128::from(since_boot.0) * u128::from(per_second()) / 1_000_000_000;
        Self(u64::try_from(ticks).unwrap_or(u64::MAX))
    }
}

/// Ticks of `/proc` in a second.
pub(super) fn per_second() -> u64 {
    const USUAL: u64 = 100;
    let told = sysconf(SysconfVar::CLK_TCK).ok().flatten();
    told.and_then(|ticks| u64::try_from(ticks).ok())
        .filter(|&ticks| ticks > 0)
        .unwrap_or(USUAL)
}

/// A thread by its numbers and the time it started.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Target {
    pub(super) pid: Pid,
    pub(super) tid: Tid,
    pub(super) start: Ticks,
}

impl Target {
    /// The thread that has these numbers now.
    pub(super) fn find(pid: Pid, tid: Tid) -> Option<(Self, Stat)> {
        let stat = Stat::read(pid, tid)?;
        let start = stat.start;
        Some((Self { pid, tid, start }, stat))
    }

    /// Whether it still runs.
    pub(super) fn is_there(&self) -> bool {
        Stat::read(self.pid, self.tid).is_some_and(|stat| stat.start == self.start)
    }
}

/// What `/proc/PID/task/TID/stat` says, of a thread that has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stat {
    pub(super) parent: Pid,
    pub(super) start: Ticks,
    pub(super) policy: i32,
    /// Where it ran last, or is to run next.
    pub(super) cpu: Cpu,
    /// Whether it runs or could.
    pub(super) runnable: bool,
}

impl Stat {
    pub(super) fn read(pid: Pid, tid: Tid) -> Option<Self> {
        let text = fs::read(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
        Self::parse(&String::from_utf8_lossy(&text))
    }

    fn parse(text: &str) -> Option<Self> {
        // The name may contain anything. Fields are numbered from 1 in proc(5); the first behind the name is the third.
        let (_, rest) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        if matches!(field(3)?, "Z" | "X") {
            return None;
        }
        Some(Self {
            parent: Pid(field(4)?.parse().ok()?),
            start: Ticks(field(22)?.parse().ok()?),
            policy: field(41)?.parse().ok()?,
            cpu: Cpu(field(39)?.parse().ok()?),
            runnable: field(3)? == "R",
        })
    }

    /// The name of a policy under which a thread lets no usual one run beside it.
    pub(super) const fn real_time(&self) -> Option<&'static str> {
        match self.policy {
            libc::SCHED_FIFO => Some("SCHED_FIFO"),
            libc::SCHED_RR => Some("SCHED_RR"),
            libc::SCHED_DEADLINE => Some("SCHED_DEADLINE"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line of a thread in state `state` with this name.
    fn line(name: &str, state: char) -> String {
        let rest: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        format!("7 ({name}) {state} {}\n", rest.join(" "))
    }

    #[test]
    fn fields_are_counted_behind_the_name() {
        for (name, state) in [("sh", 'S'), ("a) S 1 2", 'R'), (") ", 'R'), ("(((", 'D')] {
            let wanted = Some(Stat {
                parent: Pid(4),
                start: Ticks(22),
                policy: 41,
                cpu: Cpu(39),
                runnable: state == 'R',
            });
            assert_eq!(Stat::parse(&line(name, state)), wanted, "{name}");
        }
        assert_eq!(Stat::parse(&line("sh", 'Z')), None);
        assert_eq!(Stat::parse("7 (sh) R 1"), None);
    }

    #[test]
    fn a_thread_is_itself_and_started_before_now() {
        let (pid, tid) = (Pid(std::process::id()), nix::unistd::gettid());
        let (target, _) = Target::find(pid, Tid(tid.as_raw().cast_unsigned())).unwrap();
        assert!(target.is_there() && target.start <= Ticks::now());
        let other = Target {
            start: Ticks(target.start.0 + 1),
            ..target
        };
        assert!(!other.is_there());
    }
}
