//! Variables on the lines of two builds.

use hitm_binary::image::SectionInfo;
use hitm_model::{
    LineSize, MovedObject, NewNeighbour, PairChange, Shift, ShiftCause, Svma, SymbolChange,
};
use rustc_hash::FxHashMap;

use super::names::is_own;
use super::pairing::Pairing;
use crate::layout::{Placed, parts_of};

/// The variables of one build.
#[derive(Clone, Copy, Debug)]
pub(super) struct Build<'a, 'd> {
    /// In address order.
    pub(super) objects: &'a [Placed<'d>],
    pub(super) sections: &'a [SectionInfo<'d>],
}

/// What became of them.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) joined: Vec<PairChange>,
    pub(super) parted: Vec<PairChange>,
    pub(super) new_neighbours: Vec<NewNeighbour>,
    pub(super) shifts: Vec<Shift>,
    pub(super) variables: Vec<SymbolChange>,
}

pub(super) fn compare(
    old: Build<'_, '_>,
    new: Build<'_, '_>,
    pairing: &Pairing,
    line_size: LineSize,
) -> Changes {
    let variables = Variables::new(old, new, pairing);
    let mut joined = variables.pairs(Which::New, line_size);
    let mut parted = variables.pairs(Which::Old, line_size);
    for pairs in [&mut joined, &mut parted] {
        // The program's own variables are what a reader looks for.
        pairs.sort_by_key(|pair| {
            let own = u8::from(is_own(&pair.a.name)) + u8::from(is_own(&pair.b.name));
            (2 - own, pair.line, pair.a.new, pair.b.new)
        });
    }
    Changes {
        joined,
        parted,
        new_neighbours: variables.neighbours(line_size),
        shifts: variables.shifts(line_size),
        variables: variables.changes(),
    }
}

/// So many variables of a line are compared with each other. Only damaged files have more.
const MOST_ON_LINE: usize = 512;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Old,
    New,
}

struct Variables<'a, 'd> {
    old: Build<'a, 'd>,
    new: Build<'a, 'd>,
    pairing: &'a Pairing,
    /// Of each old variable the new one, and the other way round.
    to_new: FxHashMap<usize, usize>,
    to_old: FxHashMap<usize, usize>,
}

impl<'a, 'd> Variables<'a, 'd> {
    fn new(old: Build<'a, 'd>, new: Build<'a, 'd>, pairing: &'a Pairing) -> Self {
        Self {
            old,
            new,
            pairing,
            to_new: pairing.both.iter().copied().collect(),
            to_old: pairing.both.iter().map(|&(old, new)| (new, old)).collect(),
        }
    }

    fn moved(&self, old: usize, new: usize) -> MovedObject {
        let (before, now) = (&self.old.objects[old].symbol, &self.new.objects[new]);
        MovedObject {
            name: now.name(),
            section: now.section.to_owned(),
            size: now.symbol.size,
            old: before.svma,
            new: now.symbol.svma,
        }
    }

    /// The pairs that share a line in one build and not in the other one.
    fn pairs(&self, which: Which, line_size: LineSize) -> Vec<PairChange> {
        let here = match which {
            Which::Old => self.old.objects,
            Which::New => self.new.objects,
        };
        let both = |number: usize| match which {
            Which::Old => Some((number, *self.to_new.get(&number)?)),
            Which::New => Some((*self.to_old.get(&number)?, number)),
        };
        let mut pairs: Vec<PairChange> = Vec::new();
        for line in parts_of(here, line_size) {
            let known: Vec<(usize, usize)> = line
                .parts
                .iter()
                .filter_map(|&(number, _)| both(number))
                .take(MOST_ON_LINE)
                .collect();
            for (i, &a) in known.iter().enumerate() {
                for &b in &known[i + 1..] {
                    let share_there = match which {
                        Which::New => share(self.old.objects, a.0, b.0, line_size),
                        Which::Old => share(self.new.objects, a.1, b.1, line_size),
                    };
                    if !share_there {
                        pairs.push(PairChange {
                            line: line.address,
                            a: self.moved(a.0, a.1),
                            b: self.moved(b.0, b.1),
                        });
                    }
                }
            }
        }
        pairs
    }

    fn neighbours(&self, line_size: LineSize) -> Vec<NewNeighbour> {
        let mut found = Vec::new();
        for line in parts_of(self.new.objects, line_size) {
            let new = |number: &usize| !self.to_old.contains_key(number);
            let parts = line.parts.iter().take(MOST_ON_LINE);
            let numbers = || parts.clone().map(|&(number, _)| number);
            for appeared in numbers().filter(new) {
                for known in numbers() {
                    let Some(&old) = self.to_old.get(&known) else {
                        continue;
                    };
                    found.push(NewNeighbour {
                        line: line.address,
                        appeared: self.new.objects[appeared].name(),
                        beside: self.moved(old, known),
                    });
                }
            }
        }
        found
    }

    fn changes(&self) -> Vec<SymbolChange> {
        let change = |object: &Placed<'_>, old_size, new_size| SymbolChange {
            name: object.name(),
            section: object.section.to_owned(),
            old_size,
            new_size,
        };
        let vanished = self.pairing.vanished.iter().map(|&number| {
            let object = &self.old.objects[number];
            change(object, Some(object.symbol.size), None)
        });
        let appeared = self.pairing.appeared.iter().map(|&number| {
            let object = &self.new.objects[number];
            change(object, None, Some(object.symbol.size))
        });
        let resized = self.pairing.both.iter().filter_map(|&(old, new)| {
            let (before, now) = (&self.old.objects[old], &self.new.objects[new]);
            let (before, after) = (before.symbol.size, now.symbol.size);
            (before != after).then(|| change(now, Some(before), Some(after)))
        });
        vanished.chain(appeared).chain(resized).collect()
    }

    /// Runs of variables that moved by the same distance, section by section.
    fn shifts(&self, line_size: LineSize) -> Vec<Shift> {
        let mut shifts = Vec::new();
        for section in self.new.sections {
            let inside = |new: usize| section.range.contains(self.new.objects[new].symbol.svma);
            let both: Vec<(usize, usize)> = self
                .pairing
                .both
                .iter()
                .copied()
                .filter(|&(_, new)| inside(new))
                .collect();
            let mut before: Option<(usize, usize)> = None;
            let mut at = 0;
            while let Some(&first) = both.get(at) {
                let bytes = self.distance(first);
                let run = both[at..]
                    .iter()
                    .take_while(|&&pair| self.distance(pair) == bytes)
                    .count();
                let last = both[at + run - 1];
                if bytes != 0 {
                    let causes = match before {
                        Some(before) => self.causes(before, first),
                        None => self.causes_at_start(section, first),
                    };
                    let name = |pair: (usize, usize)| self.new.objects[pair.1].name();
                    shifts.push(Shift {
                        section: section.name.to_owned(),
                        first: name(first),
                        last: name(last),
                        objects: run as u64,
                        bytes,
                        whole_lines: bytes
                            .unsigned_abs()
                            .is_multiple_of(line_size.bytes().into()),
                        causes,
                    });
                }
                before = Some(last);
                at += run;
            }
        }
        shifts
    }

    fn distance(&self, (old, new): (usize, usize)) -> i64 {
        let (old, new) = (
            self.old.objects[old].symbol.svma,
            self.new.objects[new].symbol.svma,
        );
        new.0.wrapping_sub(old.0).cast_signed()
    }

    /// What is between two neighbours of the new build, in either build.
    fn causes(&self, before: (usize, usize), first: (usize, usize)) -> Vec<ShiftCause> {
        let old = |pair: (usize, usize)| &self.old.objects[pair.0].symbol;
        if old(before).svma > old(first).svma {
            return vec![ShiftCause::Reordered];
        }
        let mut causes = Vec::new();
        let (was, is) = (old(before).size, self.new.objects[before.1].symbol.size);
        if was != is {
            causes.push(ShiftCause::Resized {
                name: self.new.objects[before.1].name(),
                old: was,
                new: is,
            });
        }
        self.between(before.0 + 1..first.0, before.1 + 1..first.1, &mut causes);
        let moved = self.distance(first).wrapping_sub(self.distance(before));
        self.finish(causes, first, moved)
    }

    /// What is between the start of a section and its first variable that both builds have.
    fn causes_at_start(&self, section: &SectionInfo<'_>, first: (usize, usize)) -> Vec<ShiftCause> {
        let was = self
            .old
            .sections
            .iter()
            .find(|old| old.name == section.name);
        let mut causes = Vec::new();
        let start = |objects: &[Placed<'_>], from: Svma| {
            objects.partition_point(|object| object.symbol.svma < from)
        };
        if let Some(was) = was {
            let old = start(self.old.objects, was.range.start);
            let new = start(self.new.objects, section.range.start);
            self.between(old..first.0, new..first.1, &mut causes);
            if was.range.start != section.range.start {
                causes.push(ShiftCause::Section);
                return causes;
            }
        }
        self.finish(causes, first, self.distance(first))
    }

    fn between(
        &self,
        old: std::ops::Range<usize>,
        new: std::ops::Range<usize>,
        causes: &mut Vec<ShiftCause>,
    ) {
        causes.extend(old.filter(|old| !self.to_new.contains_key(old)).map(|old| {
            let object = &self.old.objects[old];
            ShiftCause::Vanished {
                name: object.name(),
                size: object.symbol.size,
            }
        }));
        causes.extend(new.filter(|new| !self.to_old.contains_key(new)).map(|new| {
            let object = &self.new.objects[new];
            ShiftCause::Appeared {
                name: object.name(),
                size: object.symbol.size,
            }
        }));
    }

    /// Alignment makes more or less of a change than it is: it is a cause of what the others do not explain.
    fn finish(
        &self,
        mut causes: Vec<ShiftCause>,
        first: (usize, usize),
        moved: i64,
    ) -> Vec<ShiftCause> {
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let explained: i64 = causes
            .iter()
            .map(|cause| match cause {
                ShiftCause::Vanished { size, .. } => -signed(*size),
                ShiftCause::Appeared { size, .. } => signed(*size),
                ShiftCause::Resized { old, new, .. } => signed(*new).saturating_sub(signed(*old)),
                _ => 0,
            })
            .fold(0, i64::saturating_add);
        let (old, new) = (
            self.old.objects[first.0].symbol.svma,
            self.new.objects[first.1].symbol.svma,
        );
        let bytes = 1u64 << (old.0 | new.0).trailing_zeros().min(12);
        if bytes > 1 && explained != moved {
            causes.push(ShiftCause::Aligned { bytes });
        }
        causes
    }
}

/// Whether two variables of a build share a line.
fn share(objects: &[Placed<'_>], a: usize, b: usize, line_size: LineSize) -> bool {
    let bytes = u64::from(line_size.bytes());
    let lines = |number: usize| {
        let symbol = &objects[number].symbol;
        let last = symbol.svma.0.saturating_add(symbol.size.max(1) - 1);
        (symbol.svma.0 / bytes, last / bytes)
    };
    let (a, b) = (lines(a), lines(b));
    a.0 <= b.1 && b.0 <= a.1
}
