//! The sampler for where `perf_event_open` is refused: an agent in the program itself.
//!
//! `runtime/agent` is compiled into this crate. The program loads it by `LD_PRELOAD`; it gives each thread a timer on
//! the thread's own processor time and writes registers into shared rings, which are read here. `docs/preload.md`
//! says how, and why the timers are what they are.
//!
//! # Caveats
//! The rate is at most the kernel's tick (`CONFIG_HZ`, often 250). Programs that do not load the agent — static ones,
//! setuid ones, other C libraries — give no samples: [`Preload::condition`] tells.

mod channel;
#[path = "../../../../runtime/agent/src/layout.rs"]
mod layout;
mod maps;
mod processes;
mod shipped;

use std::{collections::VecDeque, ffi::OsString, fmt, io};

use hitm_model::{Nanos, Pid, SamplerKind};
use nix::{
    sys::{
        signal::{SigEvent, SigevNotify},
        timer::Timer,
    },
    time::{ClockId, clock_getres, clock_gettime},
    unistd::{SysconfVar, sysconf},
};
use rustc_hash::FxHashSet;

use crate::{CollectError, RawEvent, sampler::Sampler};

use self::{
    channel::{Channel, Shape},
    layout::{CHANNEL_VARIABLE, Payload},
    processes::Processes,
    shipped::Shipped,
};

/// A record can come in this much later than its time says: its writer was preempted while it wrote.
const SETTLING: Nanos = Nanos::from_millis(2);

/// Processes that are gone are looked for this often.
const BURIAL_INTERVAL: Nanos = Nanos::from_millis(500);

/// Samples a program by the agent that it preloads.
#[derive(Debug)]
pub struct Preload {
    shipped: Shipped,
    channel: Channel,
    period: Nanos,
    pending: VecDeque<Payload>,
    processes: Processes,
    buried: Nanos,
}

/// What kept the agent from sampling all there was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Condition {
    /// No program loaded it.
    NotLoaded,
    /// So many threads got no timer.
    ThreadsWithoutTimer(u32),
    /// So many processes took the agent's signal for themselves.
    SignalTaken(u32),
    /// So many processes executed a program that did not load the agent.
    Escaped(u32),
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLoaded => f.write_str(
                "the program did not load the agent: it is static, setuid, or not linked with glibc",
            ),
            Self::ThreadsWithoutTimer(threads) => {
                write!(f, "{threads} threads could not be given a timer and were not sampled")
            }
            Self::Escaped(1) => f.write_str(
                "a process executed a program that did not load the agent: it is static, setuid, not linked with glibc, \
                 or was given an environment without LD_PRELOAD",
            ),
            Self::Escaped(processes) => write!(
                f,
                "{processes} processes executed programs that did not load the agent: they are static, setuid, not linked \
                 with glibc, or were given an environment without LD_PRELOAD"
            ),
            Self::SignalTaken(processes) => write!(
                f,
                "{processes} processes use all real-time signals themselves and were not sampled any longer"
            ),
        }
    }
}

impl Preload {
    /// Prepares to take a sample of each running thread every `period`, or as often as the kernel's tick allows.
    pub fn new(period: Nanos) -> Result<Self, CollectError> {
        let cannot = |doing: &str, source: io::Error| CollectError::Agent {
            why: format!("{doing} failed: {source}"),
        };
        // What refuses it here (a filter) refuses it in the program, which inherits the filter.
        Timer::new(
            ClockId::CLOCK_MONOTONIC,
            SigEvent::new(SigevNotify::SigevNone),
        )
        .map_err(|error| cannot("making a timer", error.into()))?;
        let ticks = Ticks::for_period(period, tick());
        let cpus = sysconf(SysconfVar::_NPROCESSORS_CONF)
            .ok()
            .flatten()
            .unwrap_or(1);
        let shape = Shape::for_cpus(usize::try_from(cpus).unwrap_or(1));
        let shipped = Shipped::new(shape.bytes() as u64)
            .map_err(|error| cannot("writing it to where the program can load it", error))?;
        let channel = Channel::new(&shipped.channel, shape, ticks.timer)
            .map_err(|error| cannot("mapping its rings", error))?;
        channel.beat(now());
        Ok(Self {
            shipped,
            channel,
            period: ticks.period,
            pending: VecDeque::new(),
            processes: Processes::default(),
            buried: now(),
        })
    }

    /// Time between two samples of one running thread.
    #[must_use]
    pub const fn period(&self) -> Nanos {
        self.period
    }

    /// Variables for the program; `LD_PRELOAD` goes before the user's own.
    #[must_use]
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        vec![
            ("LD_PRELOAD".into(), self.shipped.library.clone().into()),
            (
                CHANNEL_VARIABLE.into(),
                self.shipped.channel_path.clone().into(),
            ),
        ]
    }

    /// The program will run in this process.
    pub fn expect(&mut self, child: Pid) {
        self.processes.expect(child);
    }

    /// Hands over what has come in.
    pub fn poll(&mut self, sink: &mut dyn FnMut(RawEvent)) {
        let now = now();
        self.channel.beat(now);
        let cutoff = Nanos(now.0.saturating_sub(SETTLING.0));
        if now.since(self.buried) < BURIAL_INTERVAL {
            self.take(cutoff, sink);
        } else {
            self.buried = now;
            let dead = self.processes.dead();
            self.take(cutoff, sink);
            self.bury(&dead, now, sink);
            self.processes.look_for_escapes(shipped::NAME);
        }
    }

    /// Tells all agents to stop.
    pub fn stop(&mut self) {
        self.channel.stop();
    }

    /// Hands over everything that is left.
    pub fn finish(&mut self, sink: &mut dyn FnMut(RawEvent)) {
        let dead = self.processes.dead();
        self.take(Nanos(u64::MAX), sink);
        self.bury(&dead, now(), sink);
    }

    /// What kept the agent from sampling all there was, as far as it is known yet.
    #[must_use]
    pub fn condition(&self) -> Option<Condition> {
        let counts = self.channel.counts();
        match (counts.hellos, counts.backed_off, counts.unsampled) {
            (0, ..) => Some(Condition::NotLoaded),
            (_, 0, 0) => match self.processes.n_escapes() {
                0 => None,
                processes => Some(Condition::Escaped(processes)),
            },
            (_, 0, threads) => Some(Condition::ThreadsWithoutTimer(threads)),
            (_, processes, _) => Some(Condition::SignalTaken(processes)),
        }
    }

    /// Ticks that fell into system calls, and are no samples.
    #[must_use]
    pub fn kernel_ticks(&self) -> u64 {
        self.channel.counts().kernel
    }

    /// Lets go of processes that are gone, except those that still have records to be handed over.
    fn bury(&mut self, dead: &[Pid], at: Nanos, sink: &mut dyn FnMut(RawEvent)) {
        let pending: FxHashSet<Pid> = self.pending.iter().map(|record| Pid(record.pid)).collect();
        for &pid in dead.iter().filter(|pid| !pending.contains(pid)) {
            self.processes.bury(pid, at, sink);
        }
    }

    fn take(&mut self, cutoff: Nanos, sink: &mut dyn FnMut(RawEvent)) {
        self.channel
            .drain(|payload| self.pending.push_back(payload));
        self.pending
            .make_contiguous()
            .sort_by_key(|payload| payload.at);
        self.processes.handle(&mut self.pending, cutoff, sink);
        let events = self.channel.newly_lost();
        if events > 0 {
            sink(RawEvent::Lost { events, at: now() });
        }
    }
}

impl Sampler for Preload {
    fn kind(&self) -> SamplerKind {
        SamplerKind::Preload
    }

    fn period(&self) -> Nanos {
        self.period()
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        self.environment()
    }

    fn arm(&mut self, child: Pid) -> Result<(), CollectError> {
        self.expect(child);
        Ok(())
    }

    fn poll(&mut self, sink: &mut dyn FnMut(RawEvent)) -> Result<(), CollectError> {
        self.poll(sink);
        Ok(())
    }

    fn shortfall(&self) -> Option<String> {
        self.condition().map(|condition| condition.to_string())
    }

    fn stop(&mut self) {
        self.stop();
    }

    fn finish(&mut self, sink: &mut dyn FnMut(RawEvent)) -> Result<(), CollectError> {
        self.finish(sink);
        Ok(())
    }
}

/// How a wanted period becomes a timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ticks {
    /// What comes of it.
    period: Nanos,
    /// What the timer is set to.
    timer: Nanos,
}

impl Ticks {
    /// Processor-time timers are looked at when the kernel ticks. One that is to fire at every tick is set to half of
    /// it: were it due a little after a tick, it would miss that one.
    fn for_period(wanted: Nanos, tick: Nanos) -> Self {
        let tick = tick.0.max(1);
        let ticks = ((wanted.0 + tick / 2) / tick).max(1);
        let period = Nanos(ticks * tick);
        let timer = if ticks == 1 {
            Nanos(tick.div_ceil(2))
        } else {
            period
        };
        Self { period, timer }
    }
}

/// The kernel's tick: the resolution of the clock that it moves on.
fn tick() -> Nanos {
    clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).map_or(Nanos::from_millis(4), |resolution| {
        Nanos(std::time::Duration::from(resolution).as_nanos() as u64)
    })
}

fn now() -> Nanos {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Nanos(0), |time| {
        Nanos(std::time::Duration::from(time).as_nanos() as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_a_whole_number_of_ticks() {
        let check = |wanted, period, timer| {
            let ticks = Ticks::for_period(Nanos(wanted), Nanos(4_000));
            assert_eq!(
                ticks,
                Ticks {
                    period: Nanos(period),
                    timer: Nanos(timer)
                }
            );
        };
        check(0, 4_000, 2_000);
        check(1_000, 4_000, 2_000);
        check(4_000, 4_000, 2_000);
        check(9_000, 8_000, 8_000);
        check(10_000, 12_000, 12_000);
    }
}
