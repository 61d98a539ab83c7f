//! Functions of two builds: the same but for addresses, or changed.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use hitm_binary::decode::{Code, Comparison, Reference, compare as compare_code, stub_slot};
use hitm_binary::image::{Image, SectionInfo, SymbolKind};
use hitm_model::{CodeDiff, FunctionChange, Svma, SvmaRange, SymbolChange};

use super::names::is_own;
use super::pairing::{Pairing, pair};
use crate::layout::Placed;

/// One build's functions, and what an address in its code may mean.
#[derive(Debug)]
pub(super) struct Build<'a, 'd> {
    image: &'a Image<'d>,
    sections: &'a [SectionInfo<'d>],
    functions: Vec<Placed<'d>>,
    /// Variables that may be written and constants: numbers in one list after the other.
    written: &'a [Placed<'d>],
    constants: &'a [Placed<'d>],
}

impl<'a, 'd> Build<'a, 'd> {
    pub(super) fn new(
        image: &'a Image<'d>,
        sections: &'a [SectionInfo<'d>],
        written: &'a [Placed<'d>],
        constants: &'a [Placed<'d>],
    ) -> Self {
        let functions = image.symbols_of(SymbolKind::Function).into_iter();
        Self {
            image,
            sections,
            functions: functions
                .map(|symbol| Placed {
                    symbol,
                    section: ".text",
                })
                .collect(),
            written,
            constants,
        }
    }

    fn section(&self, at: Svma) -> Option<&SectionInfo<'d>> {
        let after = self
            .sections
            .partition_point(|section| section.range.start <= at);
        let section = self.sections.get(after.checked_sub(1)?)?;
        section.range.contains(at).then_some(section)
    }

    fn code(&self, function: usize) -> Option<Code<'d>> {
        let symbol = &self.functions[function].symbol;
        let end = symbol.svma.wrapping_add(symbol.size);
        Some(Code {
            start: symbol.svma,
            bytes: self.image.code(SvmaRange::new(symbol.svma, end))?,
        })
    }
}

/// What is at an address: a symbol by the number that both builds have for it.
#[derive(Debug, Default)]
struct Places(Vec<(u64, u64, u32)>);

impl Places {
    /// The symbol that covers an address, and the offset in it.
    fn at(&self, address: Svma) -> Option<(u32, u64)> {
        let after = self.0.partition_point(|&(start, ..)| start <= address.0);
        // Symbols in each other are few.
        self.0[after.saturating_sub(4)..after]
            .iter()
            .rev()
            .find(|&&(_, end, _)| address.0 < end)
            .map(|&(start, _, number)| (number, address.0 - start))
    }
}

/// The symbols of both builds under common numbers.
fn places(old: &Build<'_, '_>, new: &Build<'_, '_>, functions: &Pairing) -> (Places, Places) {
    let lists = [
        (
            old.functions.as_slice(),
            new.functions.as_slice(),
            functions,
        ),
        (old.written, new.written, &pair(old.written, new.written)),
        (
            old.constants,
            new.constants,
            &pair(old.constants, new.constants),
        ),
    ];
    let (mut in_old, mut in_new) = (Vec::new(), Vec::new());
    let mut next = 0u32;
    for (olds, news, pairing) in lists {
        let mut add = |old: Option<usize>, new: Option<usize>| {
            let entry = |object: &Placed<'_>| {
                let (start, size) = (object.symbol.svma.0, object.symbol.size);
                (start, start.saturating_add(size), next)
            };
            in_old.extend(old.map(|old| entry(&olds[old])));
            in_new.extend(new.map(|new| entry(&news[new])));
            next = next.saturating_add(1);
        };
        for &(old, new) in &pairing.both {
            add(Some(old), Some(new));
        }
        for &old in &pairing.vanished {
            add(Some(old), None);
        }
        for &new in &pairing.appeared {
            add(None, Some(new));
        }
    }
    in_old.sort_unstable();
    in_new.sort_unstable();
    (Places(in_old), Places(in_new))
}

pub(super) fn compare(old: Build<'_, '_>, new: Build<'_, '_>, jobs: NonZeroUsize) -> CodeDiff {
    let pairing = pair(&old.functions, &new.functions);
    let (in_old, in_new) = places(&old, &new, &pairing);
    let judge = Judge {
        old: &old,
        new: &new,
        in_old,
        in_new,
    };
    let mut diff = CodeDiff::default();
    for (&(was, is), outcome) in pairing.both.iter().zip(judge.all(&pairing.both, jobs)) {
        let symbol = &new.functions[is].symbol;
        match outcome {
            Outcome::Identical(n) => {
                diff.identical += 1;
                diff.same_instructions += n;
            }
            Outcome::Compared(comparison) => match comparison.difference {
                None => {
                    let n = comparison.new_instructions;
                    diff.but_for_addresses += 1;
                    diff.same_instructions += n;
                    let more = diff.largest_same.as_ref().is_none_or(|(_, most)| n > *most);
                    if more && comparison.addresses > 0 {
                        diff.largest_same = Some((symbol.name.clone(), n));
                    }
                }
                Some(difference) => diff.changed.push(FunctionChange {
                    name: symbol.name.clone(),
                    old_instructions: comparison.old_instructions,
                    new_instructions: comparison.new_instructions,
                    first: Some((difference.old, difference.new)),
                    why: difference.why.to_owned(),
                }),
            },
            Outcome::Unreadable => diff.changed.push(FunctionChange {
                name: symbol.name.clone(),
                old_instructions: 0,
                new_instructions: 0,
                first: None,
                why: format!(
                    "its bytes cannot be read ({} and {} of them)",
                    old.functions[was].symbol.size, symbol.size
                ),
            }),
        }
    }
    diff.changed.sort_by(|a, b| {
        let rank = |change: &FunctionChange| (!is_own(&change.name), change.name.clone());
        rank(a).cmp(&rank(b))
    });
    let change = |object: &Placed<'_>, is_new: bool| SymbolChange {
        name: object.symbol.name.clone(),
        section: object.section.to_owned(),
        old_size: (!is_new).then_some(object.symbol.size),
        new_size: is_new.then_some(object.symbol.size),
    };
    let vanished = pairing.vanished.iter();
    diff.vanished = vanished
        .map(|&at| change(&old.functions[at], false))
        .collect();
    let appeared = pairing.appeared.iter();
    diff.appeared = appeared
        .map(|&at| change(&new.functions[at], true))
        .collect();
    diff
}

enum Outcome {
    /// Nothing in it differs: its instructions.
    Identical(u64),
    Compared(Comparison),
    Unreadable,
}

struct Judge<'a, 'd> {
    old: &'a Build<'a, 'd>,
    new: &'a Build<'a, 'd>,
    in_old: Places,
    in_new: Places,
}

impl Judge<'_, '_> {
    fn all(&self, pairs: &[(usize, usize)], jobs: NonZeroUsize) -> Vec<Outcome> {
        /// So many functions are compared in one go.
        const CHUNK: usize = 64;
        // Functions seldom overlap; damaged ones could each claim all code.
        let size = |section: &SectionInfo<'_>| {
            if section.executable {
                section.range.len()
            } else {
                0
            }
        };
        let code: u64 = self.new.sections.iter().map(size).sum();
        let mut claimed = 0u64;
        let n_read = pairs
            .iter()
            .take_while(|&&(_, new)| {
                claimed = claimed.saturating_add(self.new.functions[new].symbol.size);
                claimed <= code.saturating_mul(8)
            })
            .count();
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(chunk) = pairs.chunks(CHUNK).nth(number) else {
                    return done;
                };
                let outcomes: Vec<Outcome> = chunk
                    .iter()
                    .enumerate()
                    .map(|(at, &(old, new))| match number * CHUNK + at < n_read {
                        true => self.one(old, new),
                        false => Outcome::Unreadable,
                    })
                    .collect();
                done.push((number, outcomes));
            }
        };
        let mut done = std::thread::scope(|scope| {
            let helpers: Vec<_> = (1..jobs.get()).map(|_| scope.spawn(work)).collect();
            let mut done = work();
            for helper in helpers {
                match helper.join() {
                    Ok(more) => done.extend(more),
                    // A fault of ours, as it would be without the thread.
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            done
        });
        done.sort_by_key(|&(number, _)| number);
        done.into_iter()
            .flat_map(|(_, outcomes)| outcomes)
            .collect()
    }

    fn one(&self, old: usize, new: usize) -> Outcome {
        let (Some(old), Some(new)) = (self.old.code(old), self.new.code(new)) else {
            return Outcome::Unreadable;
        };
        let comparison = compare_code(
            old,
            new,
            &|old, new| self.old.section(old).is_some() && self.new.section(new).is_some(),
            &|reference| self.same(reference),
        );
        match comparison.difference {
            None if old == new => Outcome::Identical(comparison.new_instructions),
            None if comparison.addresses == 0 && old.bytes == new.bytes => {
                Outcome::Identical(comparison.new_instructions)
            }
            _ => Outcome::Compared(comparison),
        }
    }

    /// Whether two addresses mean the same thing.
    fn same(&self, reference: Reference) -> bool {
        let (old, new) = (reference.old, reference.new);
        match (self.in_old.at(old), self.in_new.at(new)) {
            (Some(was), Some(is)) => was == is || self.border(old, new),
            (None, None) => self.alike(reference),
            _ => self.border(old, new),
        }
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

    /// What has no name is alike if it is in the same section and, where it is constant and its size is known, has the
    /// same bytes; a stub if it leads to the same function of another file.
    fn alike(&self, reference: Reference) -> bool {
        let (old, new) = (reference.old, reference.new);
        let sections = (self.old.section(old), self.new.section(new));
        let (Some(was), Some(is)) = sections else {
            return self.border(old, new);
        };
        if was.name != is.name {
            return self.border(old, new);
        }
        let bytes = |image: &Image<'_>, at: Svma, size: u32| {
            let end = at.wrapping_add(u64::from(size));
            image.code(SvmaRange::new(at, end)).map(<[u8]>::to_vec)
        };
        if was.name.starts_with(".plt") {
            let target = |build: &Build<'_, '_>, at: Svma| {
                let code = build.image.code(SvmaRange::new(at, at.wrapping_add(16)))?;
                let slot = stub_slot(Code {
                    start: at,
                    bytes: code,
                })?;
                build.image.import_at(slot).map(str::to_owned)
            };
            return target(self.old, old) == target(self.new, new);
        }
        if was.name.starts_with(".got") {
            return match (self.old.image.import_at(old), self.new.image.import_at(new)) {
                (None, None) => self.pointed(old, new),
                (was, is) => was == is,
            };
        }
        match reference.size {
            Some(size) if !was.writable && !was.zero && size <= 64 => {
                bytes(self.old.image, old, size) == bytes(self.new.image, new, size)
            }
            _ => true,
        }
    }

    /// Whether two words that the loader fills lead to the same thing of the file.
    fn pointed(&self, old: Svma, new: Svma) -> bool {
        let targets = (
            self.old.image.pointer_at(old),
            self.new.image.pointer_at(new),
        );
        match targets {
            (Some(old), Some(new)) => match (self.in_old.at(old), self.in_new.at(new)) {
                (Some(was), Some(is)) => was == is,
                (None, None) => true,
                _ => self.border(old, new),
            },
            (None, None) => true,
            _ => false,
        }
    }
}
