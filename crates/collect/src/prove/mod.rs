//! What sharing costs, by the program itself: its threads are put on one processor and apart again, for short windows.
//!
//! The sampler goes on meanwhile, so a recording of windows is a recording like any other with [`Event::Group`],
//! [`Event::Window`] and [`Event::GroupEnded`] in it; what they mean is found out later, and again and again. Here threads are
//! moved, accounts are read, and everything is put back.
//!
//! - `schedule` says which windows there are, `topology` on which processors.
//! - `group` has the windows of one group of threads: it moves them and reads `accounts` and `words`.
//! - `crowding` gives up early where the machine has no room for them.
//! - `keeper` remembers what was before and puts it back, whatever happens; the `guardian` does if hitm is killed. Both by
//!   the same `ledger`, which knows from `births` whose mask a newborn has.
//! - `lock` keeps a second hitm away meanwhile.
//! - `baseline` measures what placement alone does to threads that share nothing.
//!
//! # What the program notices
//! Where its threads run, and that they get less time while they are together; a thread that asks for its own mask within
//! a window sees ours. Every mask is afterwards what it was, also those of threads and processes that were born in
//! windows.

mod accounts;
mod affinity;
mod baseline;
mod births;
mod crowding;
mod group;
mod guardian;
mod keeper;
mod ledger;
mod lock;
mod lost;
mod options;
mod schedule;
mod target;
mod topology;
mod words;

use std::{collections::BTreeSet, time::Duration};

use hitm_model::{
    Baseline, CoreDistance, Event, Group, GroupEnd, GroupOutcome, Nanos, Pid, PlannedGroup,
    StopReason,
};

pub(crate) use self::births::Life;
use self::{
    group::{Halt, Series},
    guardian::Guardian,
    keeper::Keeper,
    ledger::Looked,
    lock::Lock,
    schedule::Plan,
    topology::Topology,
};
pub use self::{
    guardian::guardian,
    options::{AfterWindows, Phase, Planned, Planner, Prove, ProveOptions, Proved},
};
use crate::{
    clock,
    machine::{self, Cpu, SystemFiles},
};

/// The recording that windows are a part of.
pub(crate) trait Host {
    /// Puts an event into the recording.
    fn write(&mut self, event: &Event);

    /// Fetches what the sampler has, as far as it is not too young.
    fn drain(&mut self);

    /// Who was born and who ended, as the sampler saw it, in order of time, since the last call.
    fn take_lives(&mut self) -> Vec<Life>;

    /// Why to stop, if there is a reason.
    fn stop(&mut self) -> Option<StopReason>;

    /// Says how far it is.
    fn progress(&mut self, phase: Phase);
}

/// How long hitm may be silent, beyond the length of a window, before its guardian restores everything.
const PATIENCE: Duration = Duration::from_secs(5);

/// A sampler holds events back that are younger than this.
const SAMPLER_SLACK: Duration = Duration::from_millis(6);

/// A program that goes on making threads from confined ones is looked at so often.
const MOST_LOOKS: usize = 100;

/// Proves groups of threads.
#[derive(Debug)]
pub(crate) struct Prover<'a> {
    options: &'a ProveOptions,
    files: SystemFiles,
    baselines: Vec<(CoreDistance, Option<Baseline>)>,
    groups: u32,
}

impl<'a> Prover<'a> {
    pub(crate) fn new(options: &'a ProveOptions) -> Self {
        Self {
            options,
            files: SystemFiles::of_this_machine(),
            baselines: Vec::new(),
            groups: 0,
        }
    }

    /// Measures what placement alone does, before a program that may use the same processors as we do begins.
    pub(crate) fn measure_baselines(&mut self) {
        let cpus = machine::allowed_cpus(&self.files);
        let topology = Topology::read(&self.files, &cpus);
        let pairs = if self.options.matrix {
            topology.pairs()
        } else {
            let pair = topology.choose(2).and_then(|pair| pair.try_into().ok());
            pair.into_iter().collect()
        };
        for pair in pairs {
            let _ = self.baseline(&topology, &pair);
        }
    }

    /// What placement alone does on these processors. It is measured once for each kind of pair, while they are idle.
    fn baseline(&mut self, topology: &Topology, cpus: &[Cpu]) -> Option<Baseline> {
        let &[a, b] = cpus else {
            return None;
        };
        let distance = topology.distance(a, b);
        let known = self.baselines.iter().find(|(of, _)| *of == distance);
        if let Some((_, baseline)) = known {
            return *baseline;
        }
        let baseline = baseline::are_idle(&self.files, [a, b])
            .then(|| baseline::baseline([a, b]))
            .flatten();
        self.baselines.push((distance, baseline));
        baseline
    }

    /// Proves all groups, as far as the time allows. What came of it, and why the recording is to stop, if it is.
    pub(crate) fn prove(
        &mut self,
        groups: &[PlannedGroup],
        host: &mut dyn Host,
    ) -> (Proved, Option<StopReason>) {
        let most = groups.iter().map(|group| group.threads.len()).max();
        let length = self
            .plan(1)
            .length
            .0
            .saturating_mul(most.unwrap_or(2) as u64);
        let patience = PATIENCE.saturating_add(Duration::from_nanos(length));
        let locks = match lock(groups) {
            Ok(locks) => locks,
            Err(why) => return (Proved::Refused(why), None),
        };
        let mut guardian = match Guardian::start(&self.options.guardian, &locks, patience) {
            Ok(guardian) => guardian,
            Err(error) => {
                let why = format!(
                    "the process that would restore the threads' processors if hitm were killed cannot be started: {error} \
                     (is the number of processes limited? `ulimit -u`)"
                );
                return (Proved::Refused(why), None);
            }
        };
        let started = clock::now();
        let mut done = 0;
        for (nth, planned) in groups.iter().enumerate() {
            let at = (nth as u32, groups.len() as u32);
            match self.prove_group(planned, at, started, &mut guardian, host) {
                Ok(()) => done += 1,
                Err(Halt::Recording(reason)) => {
                    return (Proved::Windows { groups: done }, Some(reason));
                }
                Err(Halt::NoGuardian) => return (Proved::Refused(NO_GUARDIAN.into()), None),
                Err(Halt::Group(_)) => {}
            }
        }
        (Proved::Windows { groups: done }, None)
    }

    fn plan(&self, kinds: usize) -> Plan {
        let options = self.options;
        Plan::new(options.windows, options.length, options.budget, kinds)
    }

    /// Proves a group on one set of processors, or with `matrix` a pair on every kind of core pair.
    fn prove_group(
        &mut self,
        planned: &PlannedGroup,
        at: (u32, u32),
        started: Nanos,
        guardian: &mut Guardian,
        host: &mut dyn Host,
    ) -> Result<(), Halt> {
        let n_threads = planned.threads.len();
        let mut keeper = match Keeper::of(planned, guardian) {
            Ok(keeper) => keeper,
            Err(halt) => return self.turned_away(planned, halt, host),
        };
        let usable = keeper.usable(&self.files, self.options.matrix);
        let topology = Topology::read(&self.files, &usable);
        let choices: Vec<Vec<Cpu>> = if self.options.matrix && n_threads == 2 {
            topology.pairs().into_iter().map(Into::into).collect()
        } else {
            topology.choose(n_threads).into_iter().collect()
        };
        if choices.is_empty() {
            keeper.restore();
            let halt = Halt::too_few_processors(n_threads, usable.len());
            return self.turned_away(planned, halt, host);
        }
        let plan = self.plan(choices.len());
        for (kind, cpus) in choices.iter().enumerate() {
            let spent = clock::now().since(started);
            let windows = plan.afford(n_threads, spent, at.0 == 0 && kind == 0);
            let baseline = self.baseline(&topology, cpus);
            let number = self.next_number();
            host.write(&Event::Group(Group {
                planned: plan.planned(windows),
                length: plan.length,
                cpus: cpus.iter().map(|cpu| cpu.0).collect(),
                distance: topology.widest(cpus),
                baseline,
                ..described(planned, number)
            }));
            let series = Series {
                number,
                planned,
                cpus,
                windows,
                plan,
                at,
                seed: self.seed(number),
            };
            let (lost, result) = if windows == 0 {
                let over = Halt::Group(GroupOutcome::TimeOver);
                (Nanos::default(), Err(over))
            } else {
                series.run(&mut keeper, host)
            };
            let outcome = match &result {
                Err(halt) => halt.outcome(),
                Ok(()) if windows < plan.planned(windows) => GroupOutcome::TimeOver,
                Ok(()) => GroupOutcome::Complete,
            };
            let last = kind + 1 == choices.len();
            if result.is_err() || last {
                give_back(&mut keeper, host);
            }
            host.write(&Event::GroupEnded(GroupEnd {
                number,
                outcome,
                lost,
            }));
            result?;
        }
        Ok(())
    }

    /// Says in the recording why a group has no windows.
    fn turned_away(
        &mut self,
        planned: &PlannedGroup,
        halt: Halt,
        host: &mut dyn Host,
    ) -> Result<(), Halt> {
        let number = self.next_number();
        let plan = self.plan(1);
        host.write(&Event::Group(Group {
            planned: plan.windows,
            length: plan.length,
            ..described(planned, number)
        }));
        host.write(&Event::GroupEnded(GroupEnd {
            number,
            outcome: halt.outcome(),
            lost: Nanos::default(),
        }));
        Err(halt)
    }

    const fn next_number(&mut self) -> u32 {
        let number = self.groups;
        self.groups += 1;
        number
    }

    fn seed(&self, number: u32) -> u64 {
        let seed = self.options.seed.unwrap_or_else(|| clock::now().0);
        seed.wrapping_add(number.into())
    }
}

/// Makes the processes of all groups ours to measure, or says why that may not be.
fn lock(groups: &[PlannedGroup]) -> Result<Vec<Lock>, String> {
    let threads = groups.iter().flat_map(|group| &group.threads);
    let pids: BTreeSet<Pid> = threads.map(|thread| thread.pid).collect();
    pids.into_iter()
        .map(|pid| match Lock::take(pid) {
            Ok(Some(lock)) => Ok(lock),
            Ok(None) => Err(format!(
                "another hitm measures process {pid} now: wait until it has ended (pgrep -a hitm)"
            )),
            Err(error) => Err(format!(
                "whether another hitm measures process {pid} now cannot be told, as sockets are refused here: {error} (does a \
                 container's seccomp profile filter them?)"
            )),
        })
        .collect()
}

/// Why nothing is proven any more when the guardian is gone.
const NO_GUARDIAN: &str = "the process that would restore the threads' processors if hitm were killed has ended or does not \
     answer, or hitm was stopped for so long that it restored them: nothing more was moved (try again, and leave hitm in the \
     foreground)";

/// How many processors the threads of a process may use, all together; 1 where nothing is known.
#[must_use]
pub fn processors_of(pid: Pid) -> usize {
    keeper::processors_of(&SystemFiles::of_this_machine(), pid).max(1)
}

/// Gives those that were born confined what their parents may use, as far as the sampler knows of them by now.
fn release_newborns(keeper: &mut Keeper<'_>, host: &mut dyn Host) -> Result<Looked, Halt> {
    let slack = u64::try_from(SAMPLER_SLACK.as_nanos()).unwrap_or(u64::MAX);
    let until = clock::now().since(Nanos(slack));
    host.drain();
    keeper.release_newborns(host.take_lives(), until)
}

/// Puts everything back, also what the sampler tells of only now.
///
/// Who is found in one look may have made others that the sampler tells of in the next one. When two looks, with the
/// sampler's slack before each, find nobody, then all that live were made by threads that had their masks back.
fn give_back(keeper: &mut Keeper<'_>, host: &mut dyn Host) {
    keeper.put_back();
    let mut quiet = 0;
    for _ in 0..MOST_LOOKS {
        std::thread::sleep(SAMPLER_SLACK);
        match release_newborns(keeper, host) {
            Ok(looked) if looked == Looked::default() => quiet += 1,
            Ok(_) => quiet = 0,
            // Without a guardian there is still us, with what is known.
            Err(_) => break,
        }
        if quiet == 2 {
            return keeper.forget();
        }
    }
    keeper.restore();
}

/// A group before anything is known but what was planned.
fn described(planned: &PlannedGroup, number: u32) -> Group {
    Group {
        number,
        threads: planned.threads.iter().map(|thread| thread.thread).collect(),
        words: planned.words.clone(),
        code: planned.code.clone(),
        cpus: Vec::new(),
        distance: CoreDistance::Unknown,
        planned: 0,
        length: Nanos::default(),
        baseline: None,
    }
}
