//! Whether two processors of this machine really run two threads at the same time.
//!
//! Both threads do nothing but look at the clock. A thread that has its processor sees it move by well under a
//! microsecond; a jump means that it was taken away, by another thread or by the hypervisor. What is left when the
//! jumps of both sides are taken out is the time they ran side by side.

use std::time::{Duration, Instant};

use hitm_model::Nanos;

use super::window::{CannotTell, side_by_side};
use super::{Cpu, SystemFiles};

/// How two threads on two processors ran.
#[derive(Clone, PartialEq, Debug)]
pub struct CoRun {
    /// The two processors.
    pub cpus: [Cpu; 2],
    /// How long they were watched.
    pub watched: Nanos,
    /// The share of that time in which both ran, from 0 to 1.
    pub together: f64,
    /// The share of that time in which a thread waited for its processor because others had it (the worse of the
    /// two); `None` where the kernel does not account for it.
    pub waiting: Option<f64>,
    /// The share of the two processors' time that the hypervisor gave to others; `None` where the kernel does not say.
    pub stolen: Option<f64>,
}

/// What a [`CoRun`] means for figures measured on this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CoRunVerdict {
    /// They ran side by side nearly always: costs measured now are real.
    SideBySide,
    /// They did for a part of the time: costs measured now are too low.
    Partly,
    /// They hardly did: costs measured now mean nothing.
    Hardly,
}

impl CoRun {
    /// What it means.
    #[must_use]
    pub fn verdict(&self) -> CoRunVerdict {
        match self.together {
            share if share >= 0.9 => CoRunVerdict::SideBySide,
            share if share >= 0.4 => CoRunVerdict::Partly,
            _ => CoRunVerdict::Hardly,
        }
    }

    /// The likely cause, where they did not always run side by side.
    #[must_use]
    pub fn cause(&self) -> Option<&'static str> {
        if self.verdict() == CoRunVerdict::SideBySide {
            return None;
        }
        let lost = 1.0 - self.together;
        Some(match (self.waiting, self.stolen) {
            (_, Some(stolen)) if stolen >= 0.3 * lost => {
                "the hypervisor gives the processors to others"
            }
            (Some(waiting), _) if waiting >= 0.3 * lost => {
                "other programs on this machine use the processors"
            }
            (Some(_), Some(_)) => "a CPU quota, or a hypervisor that does not tell what it takes",
            _ => "other programs, a CPU quota or the hypervisor",
        })
    }
}

/// Watches two threads for about `budget`.
///
/// # Errors
/// If the threads cannot be put on the two processors.
pub fn co_run(files: &SystemFiles, cpus: [Cpu; 2], budget: Duration) -> Result<CoRun, CannotTell> {
    let before = StatTicks::read(files, cpus);
    let window = side_by_side(cpus, budget, |_, until| {
        let mut jumps = Vec::with_capacity(1024);
        let mut last = Instant::now();
        while !until.over() {
            let now = Instant::now();
            if now - last >= JUMP {
                jumps.push((last, now));
            }
            last = now;
        }
        jumps
    })?;
    let after = StatTicks::read(files, cpus);
    let [a, b] = &window.sides;
    let whole = (a.start.min(b.start), a.end.max(b.end));
    let watched = whole.1 - whole.0;
    let share = |span: Duration| {
        if watched.is_zero() {
            0.0
        } else {
            span.as_secs_f64() / watched.as_secs_f64()
        }
    };
    // Before its start and after its end a side did not run either.
    let mut apart = Vec::new();
    for side in &window.sides {
        apart.push((whole.0, side.start));
        apart.push((side.end, whole.1));
        apart.extend(side.result.iter().copied());
    }
    let together = watched.saturating_sub(union(apart));
    Ok(CoRun {
        cpus,
        watched: Nanos::from(watched),
        together: share(together),
        waiting: a
            .waited
            .zip(b.waited)
            .map(|(a, b)| share(a.max(b)).min(1.0)),
        stolen: before
            .zip(after)
            .and_then(|(before, after)| after.stolen_since(before)),
    })
}

/// An interrupt takes a few microseconds; a preempted thread is away for much longer.
const JUMP: Duration = Duration::from_micros(25);

/// The length of the union of intervals.
fn union(mut spans: Vec<(Instant, Instant)>) -> Duration {
    spans.sort();
    let mut total = Duration::ZERO;
    let mut reached: Option<Instant> = None;
    for (start, end) in spans {
        let start = reached.map_or(start, |reached| reached.max(start));
        total += end.saturating_duration_since(start);
        reached = Some(reached.map_or(end, |reached| reached.max(end)));
    }
    total
}

/// What `/proc/stat` says about some processors, in clock ticks since boot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StatTicks {
    pub(crate) stolen: u64,
    pub(super) all: u64,
}

impl StatTicks {
    fn read(files: &SystemFiles, cpus: [Cpu; 2]) -> Option<Self> {
        Self::parse(&files.text("proc/stat")?, cpus)
    }

    /// Sums the lines of `cpus`; `None` if one of them is missing or has no steal time.
    pub(crate) fn parse(stat: &str, cpus: impl IntoIterator<Item = Cpu>) -> Option<Self> {
        let mut sum = Self { stolen: 0, all: 0 };
        for cpu in cpus {
            let name = format!("cpu{cpu}");
            let mut words = stat
                .lines()
                .map(str::split_ascii_whitespace)
                .find_map(|mut words| (words.next() == Some(&name)).then_some(words))?;
            // user nice system idle iowait irq softirq steal; guest times are inside user's.
            let ticks: Vec<u64> = words
                .by_ref()
                .take(8)
                .map_while(|word| word.parse().ok())
                .collect();
            sum.stolen = sum.stolen.checked_add(*ticks.get(7)?)?;
            sum.all = ticks
                .iter()
                .try_fold(sum.all, |all, &ticks| all.checked_add(ticks))?;
        }
        Some(sum)
    }

    fn stolen_since(self, before: Self) -> Option<f64> {
        let all = self.all.checked_sub(before.all)?;
        let stolen = self.stolen.checked_sub(before.stolen)?;
        (all > 0).then(|| stolen as f64 / all as f64)
    }
}
