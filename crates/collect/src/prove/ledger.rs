//! What must be put right again: which threads were moved, where they may run by right, and who was born meanwhile.
//!
//! hitm and its guardian keep the same ledger, by the same [`Message`]s: the guardian hears each before it becomes true.
//! Whoever is left puts things right.
//!
//! # Who is taken for a newborn
//! A thread inherits its mask from the one that makes it, so one that is born in a window of ours is confined as its
//! parent is. A newborn is a thread of the program, of its descendants, or of a process that the sampler saw being
//! born, that started after the first move and may use exactly one processor, one that a thread of the group was
//! put on.
//!
//! It gets what the thread of the group that made it, or the first of its ancestors, may use by right, if that thread had
//! been on that processor by then. One that comes from a thread that was not moved has set its mask itself.
//!
//! Where its birth was not told (to the guardian, who does not see what happens after the last window; by the preloaded
//! agent, which does not know who makes a thread; where events were lost), it is guessed: it gets what the thread that
//! was on that processor when it was born may use; where several were, or that is not known, what any of them may use.
//!
//! A child of the group's threads that confines itself to just such a processor cannot be told from one that inherited
//! it.

use std::{collections::BTreeSet, fs};

use hitm_model::{Pid, Tid};

use super::{
    affinity::{self, CpuMask},
    births::{self, Birth, Births, Origin, SAME_BIRTH},
    target::{Stat, Target, Ticks},
};
use crate::machine::Cpu;

/// Newborns may have made more by the time they are found; a program that makes them faster than that is given up on.
const MOST_ROUNDS: usize = 100;

/// A change of the ledger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Message {
    /// The thread will be moved; this is where it may run by right. What was said before does not hold.
    Thread(Target, CpuMask),
    /// It will be put on one processor, at this time.
    Placed(Tid, Cpu, Ticks),
    /// A thread or process was born in the program. These are told in order of time.
    Born(Birth),
    /// A thread has ended.
    Ended(Tid),
    /// All is as it was.
    Restored,
}

/// The threads of a group and where they were put.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Ledger {
    entries: Vec<Entry>,
    births: Births,
    /// When the threads of the group were put back: who is born later may have his mask from one that is as it was.
    put_back: Option<Ticks>,
}

/// What a look at the newborns came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Looked {
    /// Some were released: they may have made others meanwhile.
    pub(super) released: bool,
    /// There are some whose birth may yet be told.
    pub(super) awaited: bool,
}

/// What is to be done about a thread.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Due {
    /// It is none of ours, or as it should be.
    Nothing,
    /// Its birth may yet be told.
    Later,
    /// It may use these by right.
    Give(CpuMask),
}

/// A thread that started after the first move.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Newborn {
    tid: Tid,
    start: Ticks,
    mask: CpuMask,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    target: Target,
    original: CpuMask,
    stays: Vec<Stay>,
}

/// A thread was on a processor of our choice; a stay lasts until the next one begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stay {
    cpu: Cpu,
    from: Ticks,
}

impl Entry {
    /// Whether a mask may be of our making.
    fn is_ours(&self, mask: &CpuMask) -> bool {
        let placed = |cpu| self.stays.iter().any(|stay| stay.cpu == cpu);
        mask.single().is_some_and(placed)
    }

    /// Whether one that it made at that time may have been born on that processor. That a birth takes long, as of a large
    /// process, is no reason to miss it.
    fn had_been_on(&self, cpu: Cpu, at: Ticks) -> bool {
        let mut stays = self.stays.iter();
        stays.any(|stay| stay.cpu == cpu && stay.from.0 <= at.0 + SAME_BIRTH)
    }

    /// Whether it was on that processor at that time, as exactly as ticks tell.
    fn was_on(&self, cpu: Cpu, at: Ticks) -> bool {
        let until = |next: usize| self.stays.get(next).map(|stay| stay.from);
        self.stays.iter().enumerate().any(|(nth, stay)| {
            stay.cpu == cpu && stay.from <= at && until(nth + 1).is_none_or(|until| at <= until)
        })
    }
}

impl Ledger {
    pub(super) fn apply(&mut self, message: &Message) {
        match message {
            Message::Thread(target, original) => {
                // Told again if its mask changes before it is moved.
                self.entries.retain(|entry| entry.target != *target);
                self.entries.push(Entry {
                    target: *target,
                    original: original.clone(),
                    stays: Vec::new(),
                });
            }
            Message::Placed(tid, cpu, from) => {
                let stay = Stay {
                    cpu: *cpu,
                    from: *from,
                };
                if let Some(entry) = self.entry(*tid) {
                    entry.stays.push(stay);
                }
            }
            Message::Born(birth) => {
                let entries = &self.entries;
                let start_of = |tid| {
                    let mut targets = entries.iter().map(|entry| entry.target);
                    let target = targets.find(|target| target.tid == tid);
                    target.map(|target| target.start)
                };
                self.births.begin(birth, &start_of);
            }
            Message::Ended(tid) => self.births.end(*tid),
            Message::Restored => *self = Self::default(),
        }
    }

    fn entry(&mut self, tid: Tid) -> Option<&mut Entry> {
        self.entries
            .iter_mut()
            .find(|entry| entry.target.tid == tid)
    }

    /// Puts everything right with what is known now: the group's threads, then what was born.
    pub(super) fn restore(&mut self) {
        self.put_back();
        self.release_newborns(MOST_ROUNDS, Ticks(u64::MAX));
    }

    /// Puts the group's threads back. One that set its own mask meanwhile, so that it is not one of ours, is left alone.
    pub(super) fn put_back(&mut self) {
        for entry in &self.entries {
            let Target { pid, tid, .. } = entry.target;
            let ours = || affinity::read(pid, tid).is_ok_and(|mask| entry.is_ours(&mask));
            if entry.target.is_there() && ours() {
                // A thread that is gone or beyond our rights by now is beyond help as well.
                let _ = affinity::set(tid, &entry.original);
            }
        }
        self.put_back = Some(Ticks::now());
    }

    /// Gives those that were told and were born confined what their parents may use by right. To look at every thread of a
    /// program takes too long between windows.
    pub(super) fn release_told(&mut self) {
        let Some(since) = self.since() else {
            return;
        };
        for (pid, tid) in self.births.take_unseen() {
            // Nobody whose birth was told is awaited.
            if let Due::Give(right) = self.look_at(pid, tid, since, Ticks(0)) {
                // One that is gone by now is beyond help.
                let _ = affinity::set(tid, &right);
            }
        }
    }

    /// Gives those that were born confined what their parents may use by right, until there are no more, at
    /// most so many times. All births up to `told` were told.
    pub(super) fn release_newborns(&self, rounds: usize, told: Ticks) -> Looked {
        let mut looked = Looked::default();
        let Some(since) = self.since() else {
            return looked;
        };
        for _ in 0..rounds {
            let mut any = false;
            for pid in self.family() {
                for tid in threads_of(pid) {
                    match self.look_at(pid, tid, since, told) {
                        Due::Nothing => {}
                        Due::Later => looked.awaited = true,
                        // One that is gone by now is beyond help.
                        Due::Give(right) => any |= affinity::set(tid, &right).is_ok(),
                    }
                }
            }
            looked.released |= any;
            if !any {
                break;
            }
        }
        looked
    }

    /// When the first thread was moved.
    fn since(&self) -> Option<Ticks> {
        let stays = self.entries.iter().flat_map(|entry| &entry.stays);
        stays.map(|stay| stay.from).min()
    }

    /// What is to be done about a thread as it is now.
    fn look_at(&self, pid: Pid, tid: Tid, since: Ticks, told: Ticks) -> Due {
        let start = Stat::read(pid, tid).map(|stat| stat.start);
        let Some(start) = start.filter(|&start| start >= since) else {
            return Due::Nothing;
        };
        match affinity::read(pid, tid) {
            Ok(mask) => self.due(&Newborn { tid, start, mask }, told, &|tid| {
                // Any thread's number names its files, not only the first one's of a process.
                Stat::read(Pid(tid.0), tid).map(|stat| stat.start)
            }),
            Err(_) => Due::Nothing,
        }
    }

    /// What is to be done about a newborn. `start_of` says when the thread that has a number now started.
    fn due(&self, newborn: &Newborn, told: Ticks, start_of: &dyn Fn(Tid) -> Option<Ticks>) -> Due {
        let Newborn { tid, start, mask } = newborn;
        let ours = |entry: &Entry| entry.is_ours(mask);
        let Some(cpu) = mask.single().filter(|_| self.entries.iter().any(ours)) else {
            return Due::Nothing;
        };
        let right = match self.births.origin_of(*tid, *start) {
            Some(Origin::Group(of, at)) => {
                let mut entries = self.entries.iter();
                let entry = entries.find(|entry| entry.target.tid == of);
                entry
                    .filter(|entry| entry.had_been_on(cpu, at))
                    .map(|entry| entry.original.clone())
            }
            Some(Origin::Other(of)) => self
                .is_untold(of, start_of)
                .then(|| self.guess(cpu, *start)),
            Some(Origin::Unknown) => Some(self.guess(cpu, *start)),
            None if self.is_group(*tid, *start) || self.may_be_right(newborn) => None,
            // Who is born after all were put back comes from one that is right, or that is found first.
            None if *start > told && self.is_late(*start) => None,
            None if *start > told => return Due::Later,
            None => Some(self.guess(cpu, *start)),
        };
        match right {
            Some(right) if right != *mask => Due::Give(right),
            _ => Due::Nothing,
        }
    }

    fn is_group(&self, tid: Tid, start: Ticks) -> bool {
        let mut targets = self.entries.iter().map(|entry| entry.target);
        targets.any(|target| target.tid == tid && target.start == start)
    }

    /// Whether a thread was born after the first move without being told. One that has ended is old more likely.
    fn is_untold(&self, tid: Tid, start_of: &dyn Fn(Tid) -> Option<Ticks>) -> bool {
        let since = self.since();
        let start = start_of(tid).filter(|&start| since.is_some_and(|since| start >= since));
        start.is_some_and(|start| self.births.origin_of(tid, start).is_none())
    }

    /// Whether all had been put back by then.
    fn is_late(&self, start: Ticks) -> bool {
        self.put_back.is_some_and(|at| start > at)
    }

    /// Whether one whose birth was not told may have been born with its mask by right: by a thread that was put back.
    fn may_be_right(&self, newborn: &Newborn) -> bool {
        let mut originals = self.entries.iter().map(|entry| &entry.original);
        self.is_late(newborn.start) && originals.any(|original| *original == newborn.mask)
    }

    /// What one may use by right that was born at that time, confined to that processor, as far as processors and times
    /// tell.
    fn guess(&self, cpu: Cpu, born: Ticks) -> CpuMask {
        let all = |chosen: &dyn Fn(&&Entry) -> bool| {
            self.entries
                .iter()
                .filter(chosen)
                .fold(CpuMask::default(), |right, entry| {
                    right.union(&entry.original)
                })
        };
        let then = all(&|entry| entry.was_on(cpu, born));
        if then.is_empty() {
            // Made by a newborn when its parent was elsewhere already.
            all(&|entry| entry.stays.iter().any(|stay| stay.cpu == cpu))
        } else {
            then
        }
    }

    /// The processes of the group, those that were seen being born, and all that descend from these.
    fn family(&self) -> BTreeSet<Pid> {
        let roots = self.entries.iter().map(|entry| entry.target.pid);
        let mut family: BTreeSet<Pid> = roots.collect();
        for (pid, tid, at) in self.births.processes() {
            // Its number may have been given to another's process by now.
            let same = || Stat::read(pid, tid).is_some_and(|stat| births::is_same(stat.start, at));
            if !family.contains(&pid) && same() {
                family.insert(pid);
            }
        }
        let parents = parents();
        loop {
            let known = family.len();
            family.extend(
                parents
                    .iter()
                    .filter(|(_, parent)| family.contains(parent))
                    .map(|(child, _)| *child)
                    .collect::<Vec<_>>(),
            );
            if family.len() == known {
                return family;
            }
        }
    }
}

/// The threads of a process; none when it is gone.
pub(super) fn threads_of(pid: Pid) -> Vec<Tid> {
    numbers(&format!("/proc/{pid}/task")).map(Tid).collect()
}

/// Every process with its parent.
fn parents() -> Vec<(Pid, Pid)> {
    numbers("/proc")
        .filter_map(|number| Some((Pid(number), Stat::read(Pid(number), Tid(number))?.parent)))
        .collect()
}

fn numbers(directory: &str) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(tid: u32) -> Target {
        Target {
            pid: Pid(1),
            tid: Tid(tid),
            start: Ticks(0),
        }
    }

    fn mask(list: &str) -> CpuMask {
        CpuMask::parse(list).unwrap()
    }

    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        for message in [
            Message::Thread(target(10), mask("0-7")),
            Message::Thread(target(11), mask("4")),
            Message::Placed(Tid(10), Cpu(0), Ticks(100)),
            Message::Placed(Tid(11), Cpu(1), Ticks(100)),
            Message::Placed(Tid(10), Cpu(1), Ticks(120)),
            Message::Placed(Tid(11), Cpu(0), Ticks(120)),
            Message::Placed(Tid(11), Cpu(1), Ticks(140)),
        ] {
            ledger.apply(&message);
        }
        ledger
    }

    #[test]
    fn who_was_there_is_guessed_by_processors_and_times() {
        let ledger = ledger();
        assert_eq!(ledger.since(), Some(Ticks(100)));
        let guess = |cpu, born| ledger.guess(Cpu(cpu), Ticks(born)).to_string();
        assert_eq!(guess(0, 110), "0-7");
        assert_eq!(guess(1, 110), "4");
        // A tick in which they changed places.
        assert_eq!(guess(0, 120), "0-7");
        assert_eq!(guess(0, 130), "4");
        // Together.
        assert_eq!(guess(1, 150), "0-7");
        // Nobody was there then; both had been before.
        assert_eq!(guess(0, 150), "0-7");
        assert_eq!(guess(5, 110), "");
    }

    /// Two threads of the group that were pinned to {0} and {1}, 10 and 11, and changed places between 200 and 300; thread 1
    /// was not moved.
    fn pinned(put_back: Option<u64>, births: &[(u64, u32, Option<u32>)]) -> Ledger {
        let mut ledger = Ledger::default();
        for message in [
            Message::Thread(target(10), mask("0")),
            Message::Thread(target(11), mask("1")),
            Message::Placed(Tid(10), Cpu(0), Ticks(100)),
            Message::Placed(Tid(11), Cpu(1), Ticks(100)),
            Message::Placed(Tid(10), Cpu(1), Ticks(200)),
            Message::Placed(Tid(11), Cpu(0), Ticks(200)),
            Message::Placed(Tid(10), Cpu(0), Ticks(300)),
            Message::Placed(Tid(11), Cpu(1), Ticks(300)),
        ] {
            ledger.apply(&message);
        }
        for &(at, tid, parent) in births {
            ledger.apply(&Message::Born(Birth {
                pid: Pid(1),
                tid: Tid(tid),
                parent: parent.map(Tid),
                at: Ticks(at),
            }));
        }
        ledger.put_back = put_back.map(Ticks);
        ledger
    }

    /// What is due to thread 20 that was born at that time with that mask, where all is told up to 1000.
    fn due(ledger: &Ledger, start: u64, list: &str) -> Due {
        let newborn = Newborn {
            tid: Tid(20),
            start: Ticks(start),
            mask: mask(list),
        };
        let start_of = |tid| match tid {
            Tid(1) => Some(Ticks(7)),
            Tid(2) => Some(Ticks(205)),
            _ => None,
        };
        ledger.due(&newborn, Ticks(1000), &start_of)
    }

    fn give(list: &str) -> Due {
        Due::Give(mask(list))
    }

    #[test]
    fn a_newborn_gets_what_its_parent_may_use() {
        let of_10 = pinned(None, &[(250, 20, Some(10))]);
        assert_eq!(due(&of_10, 250, "1"), give("0"));
        // As it should be; and its own doing.
        assert_eq!(due(&of_10, 250, "0"), Due::Nothing);
        assert_eq!(due(&of_10, 250, "0-1"), Due::Nothing);
        let of_11 = pinned(None, &[(250, 20, Some(11))]);
        assert_eq!(due(&of_11, 250, "0"), give("1"));
        // Its parent had not been there yet.
        let early = pinned(None, &[(150, 20, Some(11))]);
        assert_eq!(due(&early, 150, "0"), Due::Nothing);
        // By a newborn, which has ended.
        let mut chain = pinned(None, &[(250, 19, Some(10)), (350, 20, Some(19))]);
        chain.apply(&Message::Ended(Tid(19)));
        assert_eq!(due(&chain, 350, "1"), give("0"));
    }

    #[test]
    fn a_newborn_of_a_thread_that_was_not_moved_has_set_its_mask_itself() {
        let ledger = pinned(None, &[(250, 19, Some(1)), (251, 20, Some(19))]);
        assert_eq!(due(&ledger, 251, "1"), Due::Nothing);
        // That one was not there before, and its birth was lost.
        let ledger = pinned(None, &[(250, 20, Some(2))]);
        assert_eq!(due(&ledger, 250, "1"), give("0"));
    }

    #[test]
    fn a_newborn_that_was_not_told_is_awaited_and_then_guessed() {
        let untold = pinned(None, &[]);
        assert_eq!(due(&untold, 1001, "1"), Due::Later);
        assert_eq!(due(&untold, 250, "1"), give("0"));
        // Told, but by one that does not know the parent.
        let unknown = pinned(None, &[(250, 20, None)]);
        assert_eq!(due(&unknown, 250, "1"), give("0"));
        // Its number was another's before.
        let reused = pinned(None, &[(150, 20, Some(11))]);
        assert_eq!(due(&reused, 250, "1"), give("0"));
        // A thread of the group, and a newborn that has the number of one.
        let mut group = pinned(None, &[]);
        group.entries[1].target.tid = Tid(20);
        assert_eq!(due(&group, 0, "0"), Due::Nothing);
        assert_eq!(due(&group, 250, "0"), give("1"));
    }

    #[test]
    fn who_is_born_after_all_were_put_back_may_be_right() {
        let ledger = pinned(Some(400), &[]);
        assert_eq!(due(&ledger, 401, "1"), Due::Nothing);
        // Nobody is confined like that by right.
        let mut wide = ledger;
        wide.entries[0].original = mask("0-1");
        assert_eq!(due(&wide, 401, "0"), give("0-1"));
    }

    #[test]
    fn only_masks_of_ours_are_taken_back() {
        let ledger = ledger();
        let [first, second] = &ledger.entries[..] else {
            panic!("{ledger:?}");
        };
        assert!(first.is_ours(&mask("0")) && first.is_ours(&mask("1")));
        assert!(!first.is_ours(&mask("0-1")) && !second.is_ours(&mask("4")));
    }

    #[test]
    fn nothing_is_left_once_all_is_restored() {
        let mut ledger = ledger();
        ledger.apply(&Message::Born(Birth {
            pid: Pid(5),
            tid: Tid(5),
            parent: Some(Tid(10)),
            at: Ticks(150),
        }));
        ledger.apply(&Message::Ended(Tid(6)));
        ledger.apply(&Message::Restored);
        assert_eq!(ledger, Ledger::default());
    }
}
