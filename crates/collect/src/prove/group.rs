//! The windows of one group on one set of processors.

use std::{thread, time::Duration};

use hitm_model::{
    Event, GroupOutcome, Nanos, Pid, PlannedGroup, Reading, StopReason, Tid, Window, Word,
};

use super::{
    Host, Phase,
    accounts::{self, Account, Balance},
    affinity::{self, CpuMask},
    crowding::{self, Crowding},
    keeper::Keeper,
    lost::Lost,
    schedule::{self, Plan, SETTLE, Slot},
    target::Target,
    words::Words,
};
use crate::{clock, machine::Cpu};

/// How often a group's words are read in a window, both ends included.
const READINGS: u64 = 7;

/// In a long window it is looked this often whether to stop, and the sampler's rings are emptied that often.
const LOOK_EVERY: Nanos = Nanos::from_millis(100);
const DRAIN_EVERY: Nanos = Nanos::from_millis(500);

/// A group may take this much longer than planned: a busy machine is slow to move threads.
const TOO_LONG: u64 = 3;
const GRACE: Nanos = Nanos::from_millis(2000);

/// Why there are no more windows.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Halt {
    /// Of this group.
    Group(GroupOutcome),
    /// Of any: the recording is to stop.
    Recording(StopReason),
    /// Of any: the guardian is gone.
    NoGuardian,
}

impl Halt {
    /// `why` ends in what to do.
    pub(super) const fn refused(why: String) -> Self {
        Self::Group(GroupOutcome::Refused(why))
    }

    pub(super) fn too_few_processors(threads: usize, processors: usize) -> Self {
        Self::refused(match processors {
            0 | 1 => "the threads may use one processor only, and to compare takes two: let the process use more (taskset, \
                      the cpuset of its container), or run it on a machine with more"
                .into(),
            _ => format!(
                "{threads} threads need as many processors, and they may use {processors} only: name two of them \
                 (--threads A,B), or let the process use more (taskset, the cpuset of its container)"
            ),
        })
    }

    /// What the recording says of the group.
    pub(super) fn outcome(&self) -> GroupOutcome {
        match self {
            Self::Group(outcome) => outcome.clone(),
            Self::Recording(StopReason::ProgramEnded) => GroupOutcome::ThreadEnded,
            Self::Recording(StopReason::TimeOver) => GroupOutcome::TimeOver,
            Self::Recording(_) => GroupOutcome::Interrupted,
            Self::NoGuardian => GroupOutcome::Refused(super::NO_GUARDIAN.into()),
        }
    }
}

/// Windows of a group that are to be had.
#[derive(Debug)]
pub(super) struct Series<'a> {
    pub(super) number: u32,
    pub(super) planned: &'a PlannedGroup,
    pub(super) cpus: &'a [Cpu],
    /// Of each placement.
    pub(super) windows: u32,
    pub(super) plan: Plan,
    /// Which of the planned groups, from 0 on, and how many there are.
    pub(super) at: (u32, u32),
    pub(super) seed: u64,
}

impl Series<'_> {
    /// Has all windows, or as many as can be had. What the threads lost by it, and why there were no more.
    pub(super) fn run(
        &self,
        keeper: &mut Keeper<'_>,
        host: &mut dyn Host,
    ) -> (Nanos, Result<(), Halt>) {
        let accounts: Vec<Account> = keeper.targets().map(Account::open).collect();
        let mut lost = Lost::from_now_on(&accounts);
        let result = self.windows(&mut lost, keeper, host);
        (lost.sum(), result)
    }

    fn windows(
        &self,
        lost: &mut Lost<'_>,
        keeper: &mut Keeper<'_>,
        host: &mut dyn Host,
    ) -> Result<(), Halt> {
        let _elsewhere = Elsewhere::go(self.cpus);
        keeper.prepare()?;
        let started = clock::now();
        let n_threads = self.planned.threads.len();
        let limit = self.plan.cost(n_threads, self.windows).0;
        let limit = Nanos(limit.saturating_mul(TOO_LONG)).plus(GRACE);
        let slots = schedule::schedule(n_threads, self.cpus, self.windows, self.seed);
        let targets: Vec<Target> = keeper.targets().collect();
        let mut crowding = Crowding::default();
        for (nth, slot) in slots.iter().enumerate() {
            host.progress(Phase::Window {
                window: nth as u32 + 1,
                windows: slots.len() as u32,
                group: self.at.0 + 1,
                groups: self.at.1,
            });
            let window = self.window(slot, lost, keeper, host);
            host.drain();
            // Also after a window that came to nothing.
            keeper.release_told(host.take_lives())?;
            let window = window?;
            crowding.add(&window, || crowding::others_on(self.cpus, &targets));
            host.write(&Event::Window(window));
            crowding.check(slots.len())?;
            if clock::now().since(started) > limit {
                return Err(Halt::Group(GroupOutcome::TimeOver));
            }
        }
        Ok(())
    }

    fn window(
        &self,
        slot: &Slot,
        lost: &mut Lost<'_>,
        keeper: &mut Keeper<'_>,
        host: &mut dyn Host,
    ) -> Result<Window, Halt> {
        // Between here and the moves a mask that the program sets itself would go unseen; that is microseconds.
        keeper.check()?;
        for (nth, &cpu) in slot.cpus.iter().enumerate() {
            keeper.place(nth, cpu)?;
        }
        sleep_until(clock::now().plus(SETTLE), host)?;
        let length = schedule::length_of(slot.placement, slot.cpus.len(), self.plan.length);
        let stolen = accounts::stolen(self.cpus);
        let before = lost.look().ok_or_else(ended)?;
        let start = clock::now();
        let words = self.watch(lost.accounts(), &before, start.plus(length), host)?;
        let end = clock::now();
        let after = lost.look().ok_or_else(ended)?;
        // What was measured counts only if they were there all the time.
        keeper.check()?;
        let stolen = accounts::stolen(self.cpus).zip(stolen);
        Ok(Window {
            group: self.number,
            placement: slot.placement,
            start,
            end,
            threads: before
                .iter()
                .zip(&after)
                .zip(&slot.cpus)
                .map(|((before, after), cpu)| before.until(after, *cpu, end.since(start)))
                .collect(),
            words,
            stolen: stolen.map(|(after, before)| after.since(before)),
        })
    }

    /// Lets the window pass, and reads the group's words in it.
    fn watch(
        &self,
        accounts: &[Account],
        before: &[Balance],
        end: Nanos,
        host: &mut dyn Host,
    ) -> Result<Vec<Vec<Reading>>, Halt> {
        let mut words = Words::new(
            self.pid(),
            self.planned
                .words
                .iter()
                .map(|word| (word, self.who_counts(word)))
                .collect(),
            accounts,
            before.iter().map(|balance| balance.ran).collect(),
        );
        if words.is_empty() {
            sleep_until(end, host)?;
            return Ok(Vec::new());
        }
        let start = clock::now();
        for nth in 0..READINGS {
            let at = end.since(start).0 / (READINGS - 1) * nth;
            sleep_until(start.plus(Nanos(at)), host)?;
            words.read();
        }
        Ok(words.into_readings())
    }

    /// The threads whose time counts for a word.
    fn who_counts(&self, word: &Word) -> Vec<usize> {
        let threads = self.planned.threads.iter().enumerate();
        threads
            .filter(|(_, thread)| word.thread.is_none_or(|of| of == thread.thread))
            .map(|(nth, _)| nth)
            .collect()
    }

    fn pid(&self) -> Pid {
        let first = self.planned.threads.first();
        first.map_or(Pid(0), |thread| thread.pid)
    }
}

const fn ended() -> Halt {
    Halt::Group(GroupOutcome::ThreadEnded)
}

/// Sleeps, unless there is a reason to stop.
fn sleep_until(end: Nanos, host: &mut dyn Host) -> Result<(), Halt> {
    let mut drained = clock::now();
    loop {
        let now = clock::now();
        let left = end.since(now).0.min(LOOK_EVERY.0);
        if left == 0 {
            return Ok(());
        }
        thread::sleep(Duration::from_nanos(left));
        if let Some(reason) = host.stop() {
            return Err(Halt::Recording(reason));
        }
        if clock::now().since(drained) > DRAIN_EVERY {
            drained = clock::now();
            host.drain();
        }
    }
}

/// Our own thread, away from the processors that are measured, if there are others.
#[derive(Debug)]
struct Elsewhere(Option<CpuMask>);

impl Elsewhere {
    fn go(used: &[Cpu]) -> Self {
        let own = Tid(nix::unistd::gettid().as_raw().cast_unsigned());
        let Ok(before) = affinity::read(Pid(std::process::id()), own) else {
            return Self(None);
        };
        let others = before.without(&used.iter().copied().collect());
        let gone = !others.is_empty() && affinity::set_own(&others).is_ok();
        Self(gone.then_some(before))
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // What was allowed a moment ago is so still, or there is nothing to be done.
            let _ = affinity::set_own(before);
        }
    }
}
