//! What the rest of the machine did while a command ran.
//!
//! `/proc/stat` has the processors' time in ticks (`USER_HZ`, proc(5)): what is busy and not the command's is somebody
//! else's, and *steal* is what the hypervisor gave to other guests. `/proc/schedstat` has, per processor, the time in ns
//! that runnable threads waited for it (Documentation/scheduler/sched-stats.rst, eighth number).

use std::fs;

use hitm_model::Nanos;

/// What others got while a command ran; what this machine does not tell is `None`.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Others {
    /// Processors of this machine.
    pub processors: usize,
    /// Given to other guests by the hypervisor, of all processors together.
    pub stolen: Option<Nanos>,
    /// Used by other processes, of all processors together.
    pub foreign: Option<Nanos>,
    /// Waited by runnable threads of the whole machine.
    pub queued: Option<Nanos>,
    /// The mean of the processors' frequency at the end, in MHz.
    pub megahertz: Option<f64>,
}

/// The unit of the kernel's processor times.
pub(super) fn tick() -> Nanos {
    let hz = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK)
        .ok()
        .flatten();
    let tick = hz.and_then(|hz| 1_000_000_000_u64.checked_div(hz.cast_unsigned()));
    // What it is on every Linux of today.
    tick.map_or(Nanos::from_millis(10), Nanos)
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    processors: usize,
    busy: Option<Nanos>,
    stolen: Option<Nanos>,
    queued: Option<Nanos>,
    megahertz: Option<f64>,
}

impl Machine {
    pub(super) fn now() -> Self {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        Self::from_texts(
            &text("/proc/stat"),
            &text("/proc/schedstat"),
            &text("/proc/cpuinfo"),
            tick(),
        )
    }

    fn from_texts(stat: &str, schedstat: &str, cpuinfo: &str, tick: Nanos) -> Self {
        let all: Option<Vec<u64>> =
            stat.lines()
                .find_map(|line| line.strip_prefix("cpu "))
                .map(|rest| {
                    rest.split_whitespace()
                        .filter_map(|word| word.parse().ok())
                        .collect()
                });
        let is_processor = |line: &&str| {
            line.strip_prefix("cpu")
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        let nanos = |ticks: u64| Nanos(ticks.saturating_mul(tick.0));
        // user nice system idle iowait irq softirq steal guest guest_nice; guest is in user already.
        let field = |i: usize| all.as_ref().and_then(|all| all.get(i).copied());
        let busy = [0, 1, 2, 5, 6].map(field).into_iter().sum::<Option<u64>>();
        let waits: Vec<u64> = schedstat
            .lines()
            .filter(is_processor)
            .filter_map(|line| line.split_whitespace().nth(8)?.parse().ok())
            .collect();
        let megahertz: Vec<f64> = cpuinfo
            .lines()
            .filter_map(|line| {
                line.strip_prefix("cpu MHz")?
                    .split_once(':')?
                    .1
                    .trim()
                    .parse()
                    .ok()
            })
            .collect();
        Self {
            processors: stat.lines().filter(is_processor).count(),
            busy: busy.map(nanos),
            stolen: field(7).map(nanos),
            queued: (!waits.is_empty()).then(|| Nanos(waits.iter().sum())),
            megahertz: (!megahertz.is_empty())
                .then(|| megahertz.iter().sum::<f64>() / megahertz.len() as f64),
        }
    }

    /// What others got since then, if the command itself used so much.
    pub(super) fn others(&self, after: &Self, own: Nanos) -> Others {
        let grown = |before: Option<Nanos>, after: Option<Nanos>| Some(after?.since(before?));
        Others {
            processors: after.processors,
            stolen: grown(self.stolen, after.stolen),
            foreign: grown(self.busy, after.busy).map(|busy| busy.since(own)),
            queued: grown(self.queued, after.queued),
            megahertz: after.megahertz,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_got_is_the_difference_without_our_own() {
        let tick = Nanos::from_millis(10);
        let stat = |user: u64, steal: u64| {
            format!("cpu  {user} 2 3 1000 9 1 1 {steal} 5 0\ncpu0 1 1 1 1\ncpu1 1 1 1 1\nintr 5\n")
        };
        let sched = |wait: u64| {
            format!(
                "version 15\ncpu0 0 0 0 0 0 0 9 {wait} 4\ndomain0 3\ncpu1 0 0 0 0 0 0 9 100 4\n"
            )
        };
        let before = Machine::from_texts(
            &stat(100, 10),
            &sched(5),
            "cpu MHz\t\t: 3000.0\ncpu MHz : 2000\n",
            tick,
        );
        let after = Machine::from_texts(&stat(300, 13), &sched(905), "", tick);
        let others = before.others(&after, Nanos::from_millis(1500));
        let expected = Others {
            processors: 2,
            stolen: Some(Nanos::from_millis(30)),
            foreign: Some(Nanos::from_millis(500)),
            queued: Some(Nanos(900)),
            megahertz: None,
        };
        assert_eq!(others, expected);
        assert_eq!(before.megahertz, Some(2500.0));
    }

    #[test]
    fn what_is_not_told_is_not_known() {
        let nothing = Machine::from_texts("", "", "", Nanos::from_millis(10));
        assert_eq!(nothing.others(&nothing, Nanos(5)), Others::default());
    }
}
