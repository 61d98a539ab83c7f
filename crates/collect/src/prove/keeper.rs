//! Moves the threads of a group, and puts them back whatever happens.
//!
//! Every move is told to the guardian first. The keeper puts everything right when told to, or at the latest when it is
//! dropped, which an error or a panic does.

use hitm_model::{GroupOutcome, Nanos, Pid, PlannedGroup, PlannedThread};
use nix::errno::Errno;

use super::{
    affinity::{self, CpuMask},
    births::{Birth, Life, SAME_BIRTH},
    group::Halt,
    guardian::Guardian,
    ledger::{Ledger, Looked, Message, threads_of},
    target::{Target, Ticks},
};
use crate::machine::{Cpu, SystemFiles};

/// More may be born at any time: those that are missed are found in the next look.
const ROUNDS: usize = 2;

/// The threads of a group while they are in our hands.
#[derive(Debug)]
pub(super) struct Keeper<'g> {
    guardian: &'g mut Guardian,
    ledger: Ledger,
    threads: Vec<Thread>,
}

#[derive(Debug)]
struct Thread {
    target: Target,
    original: CpuMask,
    /// Where we have put it.
    placed: Option<Cpu>,
}

impl<'g> Keeper<'g> {
    /// Takes the threads of a group into its hands, if they may be taken.
    pub(super) fn of(planned: &PlannedGroup, guardian: &'g mut Guardian) -> Result<Self, Halt> {
        let threads: Vec<Thread> = planned
            .threads
            .iter()
            .map(Thread::find)
            .collect::<Result<_, _>>()?;
        let mut keeper = Self {
            guardian,
            ledger: Ledger::default(),
            threads,
        };
        for nth in 0..keeper.threads.len() {
            let thread = &keeper.threads[nth];
            let message = Message::Thread(thread.target, thread.original.clone());
            keeper.tell(&[message])?;
        }
        Ok(keeper)
    }

    pub(super) fn targets(&self) -> impl Iterator<Item = Target> + '_ {
        self.threads.iter().map(|thread| thread.target)
    }

    /// The processors that the threads can be put on. Where the program has confined each to its own, they may change
    /// places; one that was confined as a whole stays where it is.
    ///
    /// With `far`, all that any thread of the process may use.
    pub(super) fn usable(&self, files: &SystemFiles, far: bool) -> Vec<Cpu> {
        let originals = || self.threads.iter().map(|thread| thread.original.clone());
        let common = originals().reduce(|a, b| a.intersection(&b));
        let any = originals().reduce(|a, b| a.union(&b));
        let process = self
            .threads
            .first()
            .map(|thread| of_process(thread.target.pid));
        let online = online(files);
        let mut masks = [common, any, process]
            .into_iter()
            .flatten()
            .map(|mask| match &online {
                Some(online) => mask.intersection(online),
                None => mask,
            });
        let enough = |mask: &CpuMask| mask.cpus().count() >= self.threads.len();
        let most = if far {
            masks.next_back()
        } else {
            let first = masks.next();
            match first {
                Some(mask) if !enough(&mask) => masks.find(enough).or(Some(mask)),
                mask => mask,
            }
        };
        most.iter().flat_map(CpuMask::cpus).collect()
    }

    /// Puts a thread on a processor.
    pub(super) fn place(&mut self, nth: usize, cpu: Cpu) -> Result<(), Halt> {
        let tid = self.threads[nth].target.tid;
        self.tell(&[Message::Placed(tid, cpu, Ticks::now())])?;
        affinity::set(tid, &CpuMask::only(cpu)).map_err(|errno| self.refusal(nth, errno, cpu))?;
        self.threads[nth].placed = Some(cpu);
        Ok(())
    }

    /// Whether all threads are still where they were put. One that is not was put elsewhere by the program. Of those that were
    /// not moved yet, the masks are looked at again: some time has passed since they were taken.
    pub(super) fn check(&mut self) -> Result<(), Halt> {
        if !self.guardian.is_there() {
            return Err(Halt::NoGuardian);
        }
        for nth in 0..self.threads.len() {
            let thread = &self.threads[nth];
            let Target { pid, tid, .. } = thread.target;
            if !thread.target.is_there() {
                return Err(Halt::Group(GroupOutcome::ThreadEnded));
            }
            let Ok(mask) = affinity::read(pid, tid) else {
                return Err(Halt::Group(GroupOutcome::ThreadEnded));
            };
            match thread.placed.map(CpuMask::only) {
                Some(ours) if ours != mask => {
                    return Err(Halt::refused(format!(
                        "the program itself pins its threads while it runs (thread {tid} is on {mask} now): let it not do \
                         that while it is measured, or wait until it has"
                    )));
                }
                // It was not us: this is the one to give back.
                None if thread.original != mask => {
                    let message = Message::Thread(thread.target, mask.clone());
                    self.threads[nth].original = mask;
                    self.tell(&[message])?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Gives those whose birth was told what their parents may use. `lives` is what was seen since the last time.
    pub(super) fn release_told(&mut self, lives: Vec<Life>) -> Result<(), Halt> {
        let told = self.tell_lives(lives);
        self.ledger.release_told();
        told
    }

    fn tell_lives(&mut self, lives: Vec<Life>) -> Result<(), Halt> {
        let messages: Vec<Message> = lives.into_iter().map(message).collect();
        if messages.is_empty() {
            return Ok(());
        }
        self.tell(&messages)
    }

    /// Gives all that were born confined what their parents may use. `lives` is what was seen since the last time,
    /// up to `until`.
    pub(super) fn release_newborns(
        &mut self,
        lives: Vec<Life>,
        until: Nanos,
    ) -> Result<Looked, Halt> {
        let told = self.tell_lives(lives);
        let until = Ticks(Ticks::at(until).0.saturating_sub(SAME_BIRTH));
        let looked = self.ledger.release_newborns(ROUNDS, until);
        told.map(|()| looked)
    }

    /// To be called before windows: what must be so before the first move.
    pub(super) fn prepare(&mut self) -> Result<(), Halt> {
        Self::await_tick();
        if self.guardian.answers() {
            Ok(())
        } else {
            Err(Halt::NoGuardian)
        }
    }

    /// Waits until no thread that was there before can have been born in the same tick as one that comes later.
    fn await_tick() {
        let now = Ticks::now();
        for _ in 0..100 {
            if Ticks::now() > now {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    /// Puts the threads back where they were, and goes on remembering.
    pub(super) fn put_back(&mut self) {
        self.ledger.put_back();
    }

    /// Puts everything back where it was, and forgets it.
    pub(super) fn restore(&mut self) {
        self.ledger.restore();
        self.forget();
    }

    /// All is where it was.
    pub(super) fn forget(&mut self) {
        self.ledger.apply(&Message::Restored);
        // A guardian that is gone has nothing to forget.
        let _ = self.guardian.tell(&[Message::Restored]);
        self.threads.clear();
    }

    fn tell(&mut self, messages: &[Message]) -> Result<(), Halt> {
        let told = self.guardian.tell(messages).map_err(|_| Halt::NoGuardian);
        // What is done after a failure only puts things right.
        for message in messages {
            self.ledger.apply(message);
        }
        told
    }

    /// Why the kernel did not let us move a thread.
    fn refusal(&self, nth: usize, errno: Errno, cpu: Cpu) -> Halt {
        let Target { pid, tid, .. } = self.threads[nth].target;
        match errno {
            Errno::ESRCH => Halt::Group(GroupOutcome::ThreadEnded),
            Errno::EPERM => Halt::refused(format!(
                "thread {tid} belongs to another user and may not be moved: sudo hitm prove {pid}"
            )),
            Errno::EINVAL => Halt::refused(format!(
                "the cpuset of thread {tid} does not have processor {cpu}: try again if it was just changed; \
                 `cat /proc/{pid}/cpuset` names it"
            )),
            _ => Halt::refused(format!(
                "thread {tid} cannot be put on a processor: {errno} (hitm doctor tells what this machine allows)"
            )),
        }
    }
}

impl Drop for Keeper<'_> {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            self.restore();
        }
    }
}

fn message(life: Life) -> Message {
    match life {
        Life::Born {
            pid,
            tid,
            parent,
            at,
        } => Message::Born(Birth {
            pid,
            tid,
            parent,
            at: Ticks::at(at),
        }),
        Life::Ended(tid) => Message::Ended(tid),
    }
}

/// What any thread of a process may use.
fn of_process(pid: Pid) -> CpuMask {
    let threads = threads_of(pid).into_iter();
    threads
        .filter_map(|tid| affinity::read(pid, tid).ok())
        .fold(CpuMask::default(), |all, mask| all.union(&mask))
}

/// How many processors that are online any thread of a process may use.
pub(super) fn processors_of(files: &SystemFiles, pid: Pid) -> usize {
    let all = of_process(pid);
    match online(files) {
        Some(online) => all.intersection(&online).cpus().count(),
        None => all.cpus().count(),
    }
}

fn online(files: &SystemFiles) -> Option<CpuMask> {
    let list = files.text("sys/devices/system/cpu/online")?;
    CpuMask::parse(&list)
}

impl Thread {
    fn find(planned: &PlannedThread) -> Result<Self, Halt> {
        let (pid, tid) = (planned.pid, planned.tid);
        let ended = || Halt::Group(GroupOutcome::ThreadEnded);
        let (target, stat) = Target::find(pid, tid).ok_or_else(ended)?;
        if let Some(policy) = stat.real_time() {
            return Err(Halt::refused(format!(
                "thread {tid} has real-time priority ({policy}): on one processor with others it would let them starve; \
                 give it a usual one and try again: chrt --other --pid 0 {tid}"
            )));
        }
        let original = affinity::read(pid, tid).map_err(|_| ended())?;
        Ok(Self {
            target,
            original,
            placed: None,
        })
    }
}
