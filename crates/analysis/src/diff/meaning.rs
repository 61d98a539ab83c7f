//! What the addresses in the code of two builds mean: whether both are the same thing.

use hitm_binary::decode::{Likeness, PlaceUse, Places, Reference, ordinal};
use hitm_binary::image::{LoadedWord, SectionInfo};
use hitm_model::Svma;

use super::build::Build;
use super::matching::Matched;
use super::pairing::{Pairing, pair};
use crate::layout::Placed;

/// So far pointers in constants are followed.
const DEPTH: u32 = 4;
/// Of a constant whose size is not known so many bytes are compared.
const MOST_BYTES: u64 = 4096;
/// The size of accesses that read all of a constant: vector registers.
const WHOLE: u32 = 64;

/// Something that a symbol names, by the number that both builds have for it.
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    end: u64,
    number: u32,
    /// Its number among the build's functions.
    function: Option<usize>,
}

/// The symbols of one build by address.
#[derive(Debug, Default)]
struct Index(Vec<Entry>);

/// A symbol and an offset in it.
#[derive(Clone, Copy, Debug)]
struct Named {
    number: u32,
    offset: u64,
    function: Option<usize>,
}

impl Index {
    fn at(&self, address: u64) -> Option<Named> {
        let after = self.0.partition_point(|entry| entry.start <= address);
        // Symbols in each other are few.
        let near = self.0[after.saturating_sub(4)..after].iter().rev();
        near.copied()
            .find(|entry| address < entry.end)
            .map(|entry| Named {
                number: entry.number,
                offset: address - entry.start,
                function: entry.function,
            })
    }
}

/// What is where in both builds.
#[derive(Debug)]
pub(super) struct Meaning<'a, 'd> {
    old: &'a Build<'a, 'd>,
    new: &'a Build<'a, 'd>,
    matched: &'a Matched,
    in_old: Index,
    in_new: Index,
    threads_old: Index,
    threads_new: Index,
}

impl<'a, 'd> Meaning<'a, 'd> {
    pub(super) fn new(
        old: &'a Build<'a, 'd>,
        new: &'a Build<'a, 'd>,
        matched: &'a Matched,
    ) -> Self {
        let mut numbers = Numbers::default();
        numbers.add(&old.functions, &new.functions, &matched.pairing, true);
        let written = pair(old.written, new.written);
        numbers.add(old.written, new.written, &written, false);
        let constants = pair(&old.constants, &new.constants);
        numbers.add(&old.constants, &new.constants, &constants, false);
        let (in_old, in_new) = numbers.sorted();
        let locals = pair(&old.thread_locals, &new.thread_locals);
        let mut numbers = Numbers::default();
        numbers.add(&old.thread_locals, &new.thread_locals, &locals, false);
        let (threads_old, threads_new) = numbers.sorted();
        Self {
            old,
            new,
            matched,
            in_old,
            in_new,
            threads_old,
            threads_new,
        }
    }

    fn alike(&self, old: Svma, new: Svma, how: PlaceUse, depth: u32) -> Likeness {
        let (was, is) = (self.in_old.at(old.0), self.in_new.at(new.0));
        match (was, is) {
            (Some(was), Some(is)) if self.is_one(was, is) => {
                let constants = self.both_constant(old, new);
                // It is the same constant, but that does not make it the same bytes.
                return match constants && self.contents(old, new, how, depth) != Likeness::Same {
                    true => Likeness::OtherContents,
                    false => Likeness::Same,
                };
            }
            (None, None) => return self.nameless(old, new, how, depth),
            _ => {}
        }
        if self.border(old, new) {
            return Likeness::Same;
        }
        // A constant is its bytes, whatever its name is.
        let same =
            self.both_constant(old, new) && self.contents(old, new, how, depth) == Likeness::Same;
        either(same)
    }

    fn both_constant(&self, old: Svma, new: Svma) -> bool {
        self.old.section(old).is_some_and(is_constant)
            && self.new.section(new).is_some_and(is_constant)
    }

    /// Whether two symbols and offsets are one thing.
    fn is_one(&self, was: Named, is: Named) -> bool {
        let functions = was.function.zip(is.function);
        if was.number == is.number {
            return was.offset == is.offset
                || functions.is_some_and(|(old, new)| {
                    let at = |build: &Build<'_, '_>, function, offset| {
                        let code = build.code(function)?;
                        Some(ordinal(code, code.start.wrapping_add(offset)))
                    };
                    let old = at(self.old, old, was.offset);
                    old.is_some() && old == at(self.new, new, is.offset)
                });
        }
        // Functions of one name that do the same: it does not matter which.
        was.offset == is.offset
            && functions.is_some_and(|(old, new)| {
                let known = self.old.shapes[old].is_some();
                known && self.matched.old.of(old) == self.matched.new.of(new)
            })
    }

    /// Whether both are the start or the end of the same section, where marks of the linker are.
    fn border(&self, old: Svma, new: Svma) -> bool {
        self.old.sections.iter().any(|was| {
            let at_start = was.range.start == old;
            let at_end = was.range.end == old;
            (at_start || at_end)
                && self.new.sections.iter().any(|is| {
                    was.name == is.name
                        && (at_start && is.range.start == new || at_end && is.range.end == new)
                })
        })
    }

    /// What has no name is alike if it is in the same section and, where it is constant, has the same bytes; a stub if
    /// it leads to the same function of another file.
    fn nameless(&self, old: Svma, new: Svma, how: PlaceUse, depth: u32) -> Likeness {
        let (Some(was), Some(is)) = (self.old.section(old), self.new.section(new)) else {
            return either(self.border(old, new));
        };
        if was.name != is.name && !(is_constant(was) && is_constant(is)) {
            return either(self.border(old, new));
        }
        if was.name.starts_with(".plt") {
            let (old, new) = (self.old.behind_stub(old), self.new.behind_stub(new));
            return either(self.same_word(old, new, depth));
        }
        if was.name.starts_with(".got") {
            return either(self.slot(old, new, depth));
        }
        if is_constant(was) {
            return self.contents(old, new, how, depth);
        }
        Likeness::Same
    }

    /// Whether two words that the loader fills, or the linker, lead to the same thing.
    fn slot(&self, old: Svma, new: Svma, depth: u32) -> bool {
        let (was, is) = (
            self.old.image.loaded_word(old),
            self.new.image.loaded_word(new),
        );
        match (was, is) {
            // A pair of words: the file with the thread-local, and the offset.
            (Some(LoadedWord::Module), Some(LoadedWord::Module)) => {
                let (old, new) = (old.wrapping_add(8), new.wrapping_add(8));
                let words = (
                    self.old.image.loaded_word(old),
                    self.new.image.loaded_word(new),
                );
                match words {
                    (None, None) => match (word_at(self.old, old), word_at(self.new, new)) {
                        (Some(was), Some(is)) => self.same_offset(was, is).unwrap_or(was == is),
                        _ => false,
                    },
                    (was, is) => self.same_word(was, is, depth),
                }
            }
            (None, None) => match (word_at(self.old, old), word_at(self.new, new)) {
                (Some(was), Some(is)) => {
                    self.same_number(was, is, depth)
                        || self.same_thread_local(was.cast_signed(), is.cast_signed()) == Some(true)
                }
                (was, is) => was == is,
            },
            (was, is) => self.same_word(was, is, depth),
        }
    }

    fn same_word(
        &self,
        was: Option<LoadedWord<'_>>,
        is: Option<LoadedWord<'_>>,
        depth: u32,
    ) -> bool {
        match (was, is) {
            (Some(LoadedWord::Address(old)), Some(LoadedWord::Address(new)))
            | (Some(LoadedWord::ChosenBy(old)), Some(LoadedWord::ChosenBy(new))) => {
                self.follow(old, new, depth)
            }
            (Some(LoadedWord::ThreadLocal(old)), Some(LoadedWord::ThreadLocal(new))) => {
                self.same_offset(old, new).unwrap_or(old == new)
            }
            (was, is) => was == is,
        }
    }

    /// Whether two numbers in constant data are the same, or addresses of the same thing.
    fn same_number(&self, was: u64, is: u64, depth: u32) -> bool {
        let (old, new) = (Svma(was), Svma(is));
        match self.are_addresses(old, new) {
            true => self.follow(old, new, depth),
            false => was == is,
        }
    }

    fn follow(&self, old: Svma, new: Svma, depth: u32) -> bool {
        // What is further away was not looked at.
        depth == 0 || self.alike(old, new, PlaceUse::Address, depth - 1) == Likeness::Same
    }

    fn same_offset(&self, old: u64, new: u64) -> Option<bool> {
        match (self.threads_old.at(old), self.threads_new.at(new)) {
            (Some(was), Some(is)) => Some(was.number == is.number && was.offset == is.offset),
            (None, None) => None,
            _ => Some(false),
        }
    }

    /// Whether constants have the same bytes, or lead to the same things.
    fn contents(&self, old: Svma, new: Svma, how: PlaceUse, depth: u32) -> Likeness {
        let (len, whole) = match how {
            PlaceUse::Access(size) if size <= WHOLE => (u64::from(size), true),
            _ => {
                let len = self.old.extent(old).min(self.new.extent(new));
                (len.min(MOST_BYTES), false)
            }
        };
        match (self.same_contents(old, new, len, depth), whole) {
            (true, _) => Likeness::Same,
            (false, true) => Likeness::Other,
            (false, false) => Likeness::OtherContents,
        }
    }

    fn same_contents(&self, old: Svma, new: Svma, len: u64, depth: u32) -> bool {
        let (Some(was), Some(is)) = (self.old.bytes(old, len), self.new.bytes(new, len)) else {
            // All zero, or not in the file.
            return self.old.bytes(old, len).is_none() && self.new.bytes(new, len).is_none();
        };
        let mut at = 0u64;
        while at < len {
            let (a, b) = (old.wrapping_add(at), new.wrapping_add(at));
            let words = (self.old.image.loaded_word(a), self.new.image.loaded_word(b));
            let index = at as usize;
            match words {
                (None, None) if was[index] == is[index] => at += 1,
                (None, None) => {
                    // The difference may be in the middle of a number.
                    if self.in_distance(old, new, was, is, index, depth) {
                        at = at / 4 * 4 + 4;
                        continue;
                    }
                    let back = a.0 % 8;
                    if back != b.0 % 8 || back > at {
                        return false;
                    }
                    let start = (at - back) as usize;
                    let number = |bytes: &[u8]| {
                        let bytes = bytes.get(start..)?.first_chunk::<8>()?;
                        Some(u64::from_le_bytes(*bytes))
                    };
                    match (number(was), number(is)) {
                        (Some(x), Some(y)) if x != y && self.same_number(x, y, depth) => {
                            at = start as u64 + 8;
                        }
                        _ => return false,
                    }
                }
                (was_word, is_word) => {
                    if !self.same_word(was_word, is_word, depth) {
                        return false;
                    }
                    at += 8;
                }
            }
        }
        true
    }

    /// Whether what differs are distances from the table's start to the same thing: of a `switch`, or to strings.
    fn in_distance(
        &self,
        old: Svma,
        new: Svma,
        was: &[u8],
        is: &[u8],
        index: usize,
        depth: u32,
    ) -> bool {
        let start = index / 4 * 4;
        let target = |base: Svma, bytes: &[u8]| {
            let bytes = bytes.get(start..)?.first_chunk::<4>()?;
            let distance = i64::from(i32::from_le_bytes(*bytes));
            Some(Svma(base.0.wrapping_add_signed(distance)))
        };
        let (Some(a), Some(b)) = (target(old, was), target(new, is)) else {
            return false;
        };
        let known = self.old.section(a).is_some() && self.new.section(b).is_some();
        known && depth > 0 && self.follow(a, b, depth)
    }
}

impl Places for Meaning<'_, '_> {
    fn are_addresses(&self, old: Svma, new: Svma) -> bool {
        let fixed = self.old.image.is_fixed() && self.new.image.is_fixed();
        fixed && self.old.section(old).is_some() && self.new.section(new).is_some()
    }

    fn likeness(&self, reference: Reference) -> Likeness {
        let Reference { old, new, how } = reference;
        self.alike(old, new, how, DEPTH)
    }

    fn same_thread_local(&self, old: i64, new: i64) -> Option<bool> {
        let was = self.old.thread_local_offset(old)?;
        let is = self.new.thread_local_offset(new)?;
        // Without names any two are taken for the same.
        Some(self.same_offset(was, is).unwrap_or(true))
    }
}

fn either(same: bool) -> Likeness {
    match same {
        true => Likeness::Same,
        false => Likeness::Other,
    }
}

fn is_constant(section: &SectionInfo<'_>) -> bool {
    !section.writable && !section.executable && !section.name.starts_with(".got")
}

fn word_at(build: &Build<'_, '_>, at: Svma) -> Option<u64> {
    let bytes = build.bytes(at, 8)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*bytes))
}

/// The symbols of both builds under common numbers.
#[derive(Debug, Default)]
struct Numbers {
    old: Vec<Entry>,
    new: Vec<Entry>,
    next: u32,
}

impl Numbers {
    fn add(&mut self, old: &[Placed<'_>], new: &[Placed<'_>], pairing: &Pairing, functions: bool) {
        let both = pairing
            .both
            .iter()
            .map(|&(old, new)| (Some(old), Some(new)));
        let gone = pairing.vanished.iter().map(|&old| (Some(old), None));
        let come = pairing.appeared.iter().map(|&new| (None, Some(new)));
        for (was, is) in both.chain(gone).chain(come) {
            let entry = |object: &Placed<'_>, at: usize| Entry {
                start: object.symbol.svma.0,
                end: object.symbol.svma.0.saturating_add(object.symbol.size),
                number: self.next,
                function: functions.then_some(at),
            };
            self.old.extend(was.map(|at| entry(&old[at], at)));
            self.new.extend(is.map(|at| entry(&new[at], at)));
            self.next = self.next.saturating_add(1);
        }
    }

    fn sorted(mut self) -> (Index, Index) {
        for side in [&mut self.old, &mut self.new] {
            side.sort_unstable_by_key(|entry| (entry.start, entry.end, entry.number));
        }
        (Index(self.old), Index(self.new))
    }
}
