//! Who made whom while threads were moved.
//!
//! A thread inherits its mask from the one that makes it. What a newborn's mask was before we had a hand in it is thus
//! told by the first of its ancestors that was not born meanwhile: a thread of the group, or one that was never moved.
//! That is found out when a birth is told, since births are told in order of time: its parent's number may be another's
//! later, and nothing of the parent need be kept once it has ended.

use std::collections::BTreeMap;

use hitm_model::{Nanos, Pid, Tid};

use super::target::Ticks;

/// The sampler's and the kernel's times of one birth differ by so many ticks at most: a thread that makes another one can
/// lose its processor in the middle. Numbers are given in turn, so none is given twice in that time.
pub(super) const SAME_BIRTH: u64 = 10;

/// A program that has more newborns than this has some of them forgotten.
const MOST: usize = 1 << 16;

/// What a sampler saw of a thread's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Life {
    /// It began.
    Born {
        /// Its process; a new one if the numbers are the same.
        pid: Pid,
        /// Its number.
        tid: Tid,
        /// The thread that made it, if that is known.
        parent: Option<Tid>,
        /// When.
        at: Nanos,
    },
    /// It ended.
    Ended(Tid),
}

/// The birth of a thread, or of a process with its first one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Birth {
    pub(super) pid: Pid,
    pub(super) tid: Tid,
    /// The thread that made it, if that is known.
    pub(super) parent: Option<Tid>,
    pub(super) at: Ticks,
}

/// Where a newborn has its mask from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// From this thread of the group, which made it, or the first of its ancestors, at this time.
    Group(Tid, Ticks),
    /// From this thread, which is none of the group and whose birth was not told.
    Other(Tid),
    /// Nobody knows.
    Unknown,
}

/// The newborns that have not ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Births(BTreeMap<Tid, Newborn>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Newborn {
    pid: Pid,
    at: Ticks,
    origin: Origin,
    /// Whether its mask was looked at. It was born with it, so once is enough.
    seen: bool,
}

impl Births {
    /// `group` says when the thread of the group that has a number started.
    pub(super) fn begin(&mut self, birth: &Birth, group: &dyn Fn(Tid) -> Option<Ticks>) {
        let newborn = Newborn {
            pid: birth.pid,
            at: birth.at,
            origin: self.origin(birth, group),
            seen: false,
        };
        if self.0.len() < MOST || self.0.contains_key(&birth.tid) {
            self.0.insert(birth.tid, newborn);
        }
    }

    pub(super) fn end(&mut self, tid: Tid) {
        self.0.remove(&tid);
    }

    fn origin(&self, birth: &Birth, group: &dyn Fn(Tid) -> Option<Ticks>) -> Origin {
        let Some(parent) = birth.parent else {
            return Origin::Unknown;
        };
        let newborn = self.0.get(&parent);
        match group(parent) {
            // Else that thread has ended, and a newborn was given its number.
            Some(start) if newborn.is_none_or(|newborn| is_same(start, newborn.at)) => {
                Origin::Group(parent, birth.at)
            }
            _ => newborn.map_or(Origin::Other(parent), |newborn| newborn.origin),
        }
    }

    /// Where the thread with this number that started at this time has its mask from, if its birth was told.
    pub(super) fn origin_of(&self, tid: Tid, start: Ticks) -> Option<Origin> {
        let newborn = self.0.get(&tid);
        newborn
            .filter(|newborn| is_same(start, newborn.at))
            .map(|newborn| newborn.origin)
    }

    /// Those that were told since the last call and have not ended: process and number.
    pub(super) fn take_unseen(&mut self) -> Vec<(Pid, Tid)> {
        let unseen = self.0.iter_mut().filter(|(_, newborn)| !newborn.seen);
        unseen
            .map(|(tid, newborn)| {
                newborn.seen = true;
                (newborn.pid, *tid)
            })
            .collect()
    }

    /// The newborns' processes, and when which thread of each was born.
    pub(super) fn processes(&self) -> impl Iterator<Item = (Pid, Tid, Ticks)> + '_ {
        let newborns = self.0.iter();
        newborns.map(|(tid, newborn)| (newborn.pid, *tid, newborn.at))
    }
}

/// Whether a thread that started at this time is the one whose birth was told to be at that time.
pub(super) const fn is_same(start: Ticks, told: Ticks) -> bool {
    start.0.abs_diff(told.0) <= SAME_BIRTH
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Births as `time tid parent` (`?`: not known), ends as `end tid`; threads 10 and 11 are the group's, since 5. Where
    /// those that live have their masks from.
    fn check(lives: &str, wanted: &str) {
        let group = |tid| [Tid(10), Tid(11)].contains(&tid).then_some(Ticks(5));
        let mut births = Births::default();
        for line in lives.split(',') {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |nth: usize| words[nth].parse::<u32>().unwrap();
            if words[0] == "end" {
                births.end(Tid(number(1)));
                continue;
            }
            let birth = Birth {
                pid: Pid(1),
                tid: Tid(number(1)),
                parent: (words[2] != "?").then(|| Tid(number(2))),
                at: Ticks(number(0).into()),
            };
            births.begin(&birth, &group);
        }
        let found = births.0.iter().map(|(tid, newborn)| {
            assert_eq!(births.origin_of(*tid, newborn.at), Some(newborn.origin));
            match newborn.origin {
                Origin::Group(of, at) => format!("{tid} of {of} at {}", at.0),
                Origin::Other(of) => format!("{tid} of other {of}"),
                Origin::Unknown => format!("{tid} unknown"),
            }
        });
        assert_eq!(found.collect::<Vec<_>>().join(", "), wanted, "{lives}");
    }

    #[test]
    fn a_newborn_has_its_mask_from_the_end_of_the_chain() {
        check("100 20 10", "20 of 10 at 100");
        check(
            "100 20 11, 110 21 20, 120 22 21",
            "20 of 11 at 100, 21 of 11 at 100, 22 of 11 at 100",
        );
        check("100 20 1, 110 21 20", "20 of other 1, 21 of other 1");
        check("100 20 ?, 110 21 20", "20 unknown, 21 unknown");
    }

    #[test]
    fn ancestors_may_end_and_their_numbers_be_given_again() {
        check("100 20 10, 110 21 20, end 20", "21 of 10 at 100");
        check(
            "100 20 10, 110 21 20, end 20, 500 20 1, 510 22 20",
            "20 of other 1, 21 of 10 at 100, 22 of other 1",
        );
        // A thread of the group has ended.
        check("500 10 11, 510 20 10", "10 of 11 at 500, 20 of 11 at 500");
        // Its own birth was told.
        check("5 10 1, 100 20 10", "10 of other 1, 20 of 10 at 100");
    }

    #[test]
    fn a_number_that_was_given_again_is_another_thread() {
        let mut births = Births::default();
        let birth = Birth {
            pid: Pid(1),
            tid: Tid(20),
            parent: None,
            at: Ticks(100),
        };
        births.begin(&birth, &|_| None);
        assert_eq!(births.origin_of(Tid(20), Ticks(99)), Some(Origin::Unknown));
        assert_eq!(births.origin_of(Tid(20), Ticks(100 + SAME_BIRTH + 1)), None);
        assert_eq!(births.origin_of(Tid(21), Ticks(100)), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut births = Births::default();
        for number in 0..MOST as u32 + 10 {
            let birth = Birth {
                pid: Pid(1),
                tid: Tid(number),
                parent: None,
                at: Ticks(number.into()),
            };
            births.begin(&birth, &|_| None);
        }
        assert_eq!(births.0.len(), MOST);
    }
}
