//! What must be put right again: which threads were moved, where they may run by right, and who was born meanwhile.
//!
//! hitm and its guardian keep the same ledger, by the same [`Message`]s: the guardian hears each before it becomes true.
//! Whoever is left puts things right.
//!
//! # Who is taken for a newborn
//! A thread inherits its mask from the one that makes it, so one that is born in a window of ours is confined as its
//! parent is. A newborn is a thread of the program, of its descendants, or of a process that the sampler saw being
//! born, that started after the first move and may use exactly one processor, one that a thread of the group was
//! put on. It gets what the thread that was on that processor when it was born may use by right; where several were,
//! or that is not known, what any of them may use. A new thread that confines itself to just such a processor within
//! the window cannot be told from one that inherited it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use hitm_model::{Pid, Tid};

use super::{
    affinity::{self, CpuMask},
    target::{Stat, Target, Ticks},
};
use crate::machine::Cpu;

/// Newborns may have made more by the time they are found; a program that makes them faster than that is given up on.
const MOST_ROUNDS: usize = 100;

/// The sampler's and the kernel's times of one birth differ by so many ticks at most.
const SAME_BIRTH: u64 = 2;

/// A change of the ledger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Message {
    /// The thread will be moved; this is where it may run by right.
    Thread(Target, CpuMask),
    /// It will be put on one processor, at this time.
    Placed(Tid, Cpu, Ticks),
    /// A process was born in the program, at this time.
    Born(Pid, Ticks),
    /// All is as it was.
    Restored,
}

/// The threads of a group and where they were put.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Ledger {
    entries: Vec<Entry>,
    born: BTreeMap<Pid, Ticks>,
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
            Message::Thread(target, original) => self.entries.push(Entry {
                target: *target,
                original: original.clone(),
                stays: Vec::new(),
            }),
            Message::Placed(tid, cpu, from) => {
                let stay = Stay {
                    cpu: *cpu,
                    from: *from,
                };
                if let Some(entry) = self.entry(*tid) {
                    entry.stays.push(stay);
                }
            }
            Message::Born(pid, at) => {
                self.born.insert(*pid, *at);
            }
            Message::Restored => *self = Self::default(),
        }
    }

    fn entry(&mut self, tid: Tid) -> Option<&mut Entry> {
        self.entries
            .iter_mut()
            .find(|entry| entry.target.tid == tid)
    }

    /// Puts everything right: the group's threads, then what was born. A thread that set its own mask meanwhile, so that it
    /// is not one of ours, is left alone.
    pub(super) fn restore(&self) {
        for entry in &self.entries {
            let Target { pid, tid, .. } = entry.target;
            let ours = || affinity::read(pid, tid).is_ok_and(|mask| entry.is_ours(&mask));
            if entry.target.is_there() && ours() {
                // A thread that is gone or beyond our rights by now is beyond help as well.
                let _ = affinity::set(tid, &entry.original);
            }
        }
        self.release_newborns(MOST_ROUNDS);
    }

    /// Gives those that were born confined what their parents may use by right, until there are no more, at
    /// most so many times.
    pub(super) fn release_newborns(&self, rounds: usize) {
        let Some(since) = self.since() else {
            return;
        };
        for _ in 0..rounds {
            let mut any = false;
            for pid in self.family() {
                for tid in threads_of(pid) {
                    any |= self.release(pid, tid, since);
                }
            }
            if !any {
                break;
            }
        }
    }

    /// When the first thread was moved.
    fn since(&self) -> Option<Ticks> {
        let stays = self.entries.iter().flat_map(|entry| &entry.stays);
        stays.map(|stay| stay.from).min()
    }

    /// Releases a thread if it is a newborn; whether it was.
    fn release(&self, pid: Pid, tid: Tid, since: Ticks) -> bool {
        if self.entries.iter().any(|entry| entry.target.tid == tid) {
            return false;
        }
        let born = Stat::read(pid, tid).map(|stat| stat.start);
        let Some(born) = born.filter(|&born| born >= since) else {
            return false;
        };
        let Some(mask) = affinity::read(pid, tid).ok() else {
            return false;
        };
        let right = mask.single().map(|cpu| self.right_of(cpu, born));
        match right {
            Some(right) if !right.is_empty() && right != mask => affinity::set(tid, &right).is_ok(),
            _ => false,
        }
    }

    /// What one may use by right that was born at that time, confined to that processor; empty if not by us.
    fn right_of(&self, cpu: Cpu, born: Ticks) -> CpuMask {
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
        // Its number may have been given to another's process by now.
        let born = self.born.iter().filter(|(pid, at)| {
            let stat = Stat::read(**pid, Tid(pid.0));
            stat.is_some_and(|stat| stat.start.0.abs_diff(at.0) <= SAME_BIRTH)
        });
        let mut family: BTreeSet<Pid> = roots.chain(born.map(|(pid, _)| *pid)).collect();
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
    fn newborns_get_the_right_of_who_was_there_when_they_were_born() {
        let ledger = ledger();
        assert_eq!(ledger.since(), Some(Ticks(100)));
        let right = |cpu, born| ledger.right_of(Cpu(cpu), Ticks(born)).to_string();
        assert_eq!(right(0, 110), "0-7");
        assert_eq!(right(1, 110), "4");
        // A tick in which they changed places.
        assert_eq!(right(0, 120), "0-7");
        assert_eq!(right(0, 130), "4");
        // Together.
        assert_eq!(right(1, 150), "0-7");
        // Nobody was there then; both had been before.
        assert_eq!(right(0, 150), "0-7");
        assert_eq!(right(5, 110), "");
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
        ledger.apply(&Message::Born(Pid(5), Ticks(150)));
        ledger.apply(&Message::Restored);
        assert_eq!(ledger, Ledger::default());
    }
}
