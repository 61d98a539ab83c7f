//! Which variable of the old build is which of the new one.
//!
//! By the linker's name first; then by the readable name, as hashes in names change with every build of a Rust program;
//! of several with one readable name those of one size, then those that are left if they are as many, in their order.

use rustc_hash::FxHashMap;

use crate::layout::Placed;

/// Symbols of two builds, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Pairing {
    /// In the order of the new build's addresses: old and new number.
    pub(super) both: Vec<(usize, usize)>,
    /// Those of the old build that are gone.
    pub(super) vanished: Vec<usize>,
    /// Those that only the new build has.
    pub(super) appeared: Vec<usize>,
}

impl Pairing {
    /// From what each old and each new symbol belongs to.
    pub(super) fn of(old_to_new: &[Option<usize>], new_to_old: &[Option<usize>]) -> Self {
        let both = new_to_old.iter().enumerate();
        Self {
            both: both.filter_map(|(new, old)| Some(((*old)?, new))).collect(),
            vanished: unmatched(old_to_new),
            appeared: unmatched(new_to_old),
        }
    }
}

/// Pairs the symbols of two builds.
pub(super) fn pair(old: &[Placed<'_>], new: &[Placed<'_>]) -> Pairing {
    let mut matching = Matching {
        old: vec![None; old.len()],
        new: vec![None; new.len()],
    };
    matching.pass(old, new, false, |object| (object.symbol.raw.as_str(), 0));
    matching.pass(old, new, true, |object| {
        (object.symbol.name.as_str(), object.symbol.size)
    });
    matching.pass(old, new, false, |object| (object.symbol.name.as_str(), 0));
    Pairing::of(&matching.old, &matching.new)
}

fn unmatched(matches: &[Option<usize>]) -> Vec<usize> {
    let numbers = matches.iter().enumerate();
    numbers
        .filter_map(|(number, other)| other.is_none().then_some(number))
        .collect()
}

struct Matching {
    old: Vec<Option<usize>>,
    new: Vec<Option<usize>>,
}

impl Matching {
    /// Pairs those of one key in their order, if there are as many on both sides, or if they need not be.
    fn pass<'a, 'd: 'a>(
        &mut self,
        old: &'a [Placed<'d>],
        new: &'a [Placed<'d>],
        any_number: bool,
        key: impl Fn(&'a Placed<'d>) -> (&'a str, u64),
    ) {
        type Sides = (Vec<usize>, Vec<usize>);
        let mut by_key: FxHashMap<(&'a str, u64), Sides> = FxHashMap::default();
        for (number, object) in old.iter().enumerate() {
            if self.old[number].is_none() {
                by_key.entry(key(object)).or_default().0.push(number);
            }
        }
        for (number, object) in new.iter().enumerate() {
            if self.new[number].is_none() {
                by_key.entry(key(object)).or_default().1.push(number);
            }
        }
        for (olds, news) in by_key.into_values() {
            if olds.len() != news.len() && !any_number {
                continue;
            }
            for (old, new) in olds.into_iter().zip(news) {
                self.old[old] = Some(new);
                self.new[new] = Some(old);
            }
        }
    }
}
