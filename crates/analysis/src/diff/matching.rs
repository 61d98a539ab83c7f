//! Which function of the old build is which of the new one.
//!
//! The linker's name decides where it is the same and there is one of it. Else the readable name says who may be meant, as
//! hashes in Rust's names change from build to build, and C has statics of one name. Of those, functions belong together
//! that do the same with the same things; then those that are called at the same places of callers that belong together;
//! then those that have most in common.

use std::hash::{Hash, Hasher};

use hitm_binary::image::{LoadedWord, Symbol};
use hitm_model::Svma;
use rustc_hash::{FxHashMap, FxHasher};

use super::build::Build;
use super::pairing::Pairing;

/// How far it is followed what functions do: their callees' callees.
const ROUNDS: usize = 3;
/// Functions of one name are compared one by one up to so many pairs.
const MOST_PAIRS: usize = 1 << 18;
/// Functions that have less than this share of their instructions in common are two.
const LEAST_COMMON: f64 = 0.5;
/// Bytes of a constant that are looked at to tell it from others.
const LOOK: u64 = 64;

/// The functions of two builds, and what tells those of one name apart.
#[derive(Debug)]
pub(super) struct Matched {
    pub(super) pairing: Pairing,
    pub(super) old: Classes,
    pub(super) new: Classes,
}

/// Of each function of a build a number: the same for functions of one name that do the same with the same things.
#[derive(Debug)]
pub(super) struct Classes {
    keys: Vec<u64>,
    all: Vec<u64>,
    /// Of those of which there are several by one name, what they name.
    things: Vec<Vec<Thing>>,
}

impl Classes {
    pub(super) fn of(&self, function: usize) -> (u64, u64) {
        (self.keys[function], self.all[function])
    }
}

pub(super) fn functions(old: &Build<'_, '_>, new: &Build<'_, '_>) -> Matched {
    let mut sides = Sides::new(old, new);
    sides.pair_by_linker_name();
    let (old_classes, new_classes) = (Classes::new(old), Classes::new(new));
    sides.pair_by_readable_name(&old_classes, &new_classes);
    Matched {
        pairing: Pairing::of(&sides.old_to_new, &sides.new_to_old),
        old: old_classes,
        new: new_classes,
    }
}

/// The name by which a function of another build may be the same: without hashes and numbers.
fn key(symbol: &Symbol) -> u64 {
    let mut hasher = FxHasher::default();
    symbol.name.hash(&mut hasher);
    let suffix = symbol.suffix.as_deref().unwrap_or_default();
    for part in suffix.split('.') {
        if part == "llvm" {
            break;
        }
        if !part.bytes().all(|byte| byte.is_ascii_digit()) {
            part.hash(&mut hasher);
        }
    }
    hasher.finish()
}

impl Classes {
    /// What a function consists of, sorted: its instructions, and what it names, by name and by what that does.
    fn parts(&self, build: &Build<'_, '_>, function: usize) -> Vec<u32> {
        let shape = build.shapes[function].as_ref();
        let mut parts = shape.map_or_else(Vec::new, |shape| shape.instructions.clone());
        let short = |number: u64| (number ^ (number >> 32)) as u32;
        for thing in &self.things[function] {
            match *thing {
                Thing::Function(other, offset) => {
                    parts.push(short(self.keys[other].wrapping_add(offset)));
                    parts.push(short(self.all[other].wrapping_add(offset).rotate_left(7)));
                }
                Thing::Other(number) => parts.push(short(number)),
            }
        }
        parts.sort_unstable();
        parts
    }

    fn new(build: &Build<'_, '_>) -> Self {
        let functions = build.functions.iter();
        let keys: Vec<u64> = functions.map(|function| key(&function.symbol)).collect();
        let mut names: FxHashMap<u64, u32> = FxHashMap::default();
        for &key in &keys {
            *names.entry(key).or_default() += 1;
        }
        let several: Vec<bool> = keys.iter().map(|key| names[key] > 1).collect();
        let variables = Names::new(build);
        let mut all = keys.clone();
        // What each names but functions stays the same in all rounds.
        let things: Vec<Vec<Thing>> = (0..keys.len())
            .map(
                |function| match (&build.shapes[function], several[function]) {
                    (Some(shape), true) => {
                        let places = shape.places.iter();
                        places
                            .map(|&place| variables.thing(build, place, 2))
                            .collect()
                    }
                    _ => Vec::new(),
                },
            )
            .collect();
        for _ in 0..ROUNDS {
            let mut next = all.clone();
            for function in 0..keys.len() {
                let Some(shape) = build.shapes[function]
                    .as_ref()
                    .filter(|_| several[function])
                else {
                    continue;
                };
                let mut hasher = FxHasher::default();
                (keys[function], shape.hash).hash(&mut hasher);
                for thing in &things[function] {
                    match *thing {
                        Thing::Function(other, offset) => (all[other], offset).hash(&mut hasher),
                        Thing::Other(number) => number.hash(&mut hasher),
                    }
                }
                next[function] = hasher.finish();
            }
            all = next;
        }
        Self { keys, all, things }
    }
}

/// What a function names.
#[derive(Clone, Copy, Debug)]
enum Thing {
    Function(usize, u64),
    Other(u64),
}

/// The names of what is at an address.
struct Names(Vec<(u64, u64, Thing)>);

impl Names {
    fn new(build: &Build<'_, '_>) -> Self {
        let mut all = Vec::new();
        for (number, function) in build.functions.iter().enumerate() {
            let (start, size) = (function.symbol.svma.0, function.symbol.size);
            all.push((
                start,
                start.saturating_add(size),
                Thing::Function(number, 0),
            ));
        }
        for object in build.written.iter().chain(&build.constants) {
            let (start, size) = (object.symbol.svma.0, object.symbol.size);
            let thing = Thing::Other(key(&object.symbol));
            all.push((start, start.saturating_add(size), thing));
        }
        all.sort_unstable_by_key(|&(start, end, _)| (start, end));
        Self(all)
    }

    fn thing(&self, build: &Build<'_, '_>, place: Svma, depth: u32) -> Thing {
        let after = self.0.partition_point(|&(start, ..)| start <= place.0);
        let named = self.0[after.saturating_sub(4)..after]
            .iter()
            .rev()
            .find(|&&(_, end, _)| place.0 < end);
        if let Some(&(start, _, thing)) = named {
            let offset = place.0 - start;
            return match thing {
                Thing::Function(number, _) => Thing::Function(number, offset),
                Thing::Other(number) => Thing::Other(number.wrapping_add(offset)),
            };
        }
        let mut hasher = FxHasher::default();
        let Some(section) = build.section(place) else {
            return Thing::Other(0);
        };
        section.name.hash(&mut hasher);
        if section.name.starts_with(".plt") {
            self.word(build, build.behind_stub(place), depth, &mut hasher);
        } else if section.name.starts_with(".got") {
            self.word(build, build.image.loaded_word(place), depth, &mut hasher);
        } else if !section.writable && !section.executable && !section.zero {
            self.contents(build, place, depth, &mut hasher);
        }
        Thing::Other(hasher.finish())
    }

    fn word(
        &self,
        build: &Build<'_, '_>,
        word: Option<LoadedWord<'_>>,
        depth: u32,
        hasher: &mut FxHasher,
    ) {
        match word {
            Some(LoadedWord::Import(name)) => name.hash(hasher),
            Some(LoadedWord::Address(address)) if depth > 0 => {
                match self.thing(build, address, depth - 1) {
                    Thing::Function(number, offset) => {
                        (key(&build.functions[number].symbol), offset).hash(hasher);
                    }
                    Thing::Other(number) => number.hash(hasher),
                }
            }
            _ => {}
        }
    }

    /// The first bytes of a constant, and what the pointers in it lead to.
    fn contents(&self, build: &Build<'_, '_>, at: Svma, depth: u32, hasher: &mut FxHasher) {
        let len = build.extent(at).min(LOOK);
        let Some(bytes) = build.bytes(at, len) else {
            return;
        };
        for (number, chunk) in bytes.chunks(8).enumerate() {
            match build.image.loaded_word(at.wrapping_add(8 * number as u64)) {
                None => chunk.hash(hasher),
                word => self.word(build, word, depth, hasher),
            }
        }
    }
}

/// Who belongs to whom so far.
struct Sides<'a, 'b, 'd> {
    old: &'a Build<'b, 'd>,
    new: &'a Build<'b, 'd>,
    old_to_new: Vec<Option<usize>>,
    new_to_old: Vec<Option<usize>>,
}

impl<'a, 'b, 'd> Sides<'a, 'b, 'd> {
    fn new(old: &'a Build<'b, 'd>, new: &'a Build<'b, 'd>) -> Self {
        Self {
            old,
            new,
            old_to_new: vec![None; old.functions.len()],
            new_to_old: vec![None; new.functions.len()],
        }
    }

    fn add(&mut self, old: usize, new: usize) {
        self.old_to_new[old] = Some(new);
        self.new_to_old[new] = Some(old);
    }

    fn pair_by_linker_name(&mut self) {
        let mut names: FxHashMap<&str, (Vec<usize>, Vec<usize>)> = FxHashMap::default();
        for (number, function) in self.old.functions.iter().enumerate() {
            let raw = function.symbol.raw.as_str();
            names.entry(raw).or_default().0.push(number);
        }
        for (number, function) in self.new.functions.iter().enumerate() {
            let raw = function.symbol.raw.as_str();
            names.entry(raw).or_default().1.push(number);
        }
        for (olds, news) in names.into_values() {
            if let ([old], [new]) = (olds.as_slice(), news.as_slice()) {
                self.add(*old, *new);
            }
        }
    }

    fn pair_by_readable_name(&mut self, old: &Classes, new: &Classes) {
        for (olds, news) in self.groups(&old.keys, &new.keys) {
            if let ([old], [new]) = (olds.as_slice(), news.as_slice()) {
                self.add(*old, *new);
            }
        }
        for (olds, news) in self.groups(&old.all, &new.all) {
            if let ([old], [new]) = (olds.as_slice(), news.as_slice()) {
                self.add(*old, *new);
            }
        }
        for _ in 0..ROUNDS {
            self.pair_by_callers(old, new);
        }
        for (olds, news) in self.groups(&old.all, &new.all) {
            for (old, new) in olds.into_iter().zip(news) {
                self.add(old, new);
            }
        }
        for (olds, news) in self.groups(&old.keys, &new.keys) {
            self.pair_alike(&olds, &news, old, new);
        }
    }

    /// Those that belong to nobody yet, by one number of each.
    fn groups(&self, old: &[u64], new: &[u64]) -> Vec<(Vec<usize>, Vec<usize>)> {
        let mut groups: FxHashMap<u64, (Vec<usize>, Vec<usize>)> = FxHashMap::default();
        for (number, other) in self.old_to_new.iter().enumerate() {
            if other.is_none() {
                groups.entry(old[number]).or_default().0.push(number);
            }
        }
        for (number, other) in self.new_to_old.iter().enumerate() {
            if other.is_none() {
                groups.entry(new[number]).or_default().1.push(number);
            }
        }
        let both = groups.into_values();
        both.filter(|(olds, news)| !olds.is_empty() && !news.is_empty())
            .collect()
    }

    /// Functions with the same instructions name corresponding things one after the other.
    fn pair_by_callers(&mut self, old: &Classes, new: &Classes) {
        let starts = |build: &Build<'_, '_>| -> FxHashMap<u64, usize> {
            let functions = build.functions.iter().enumerate();
            functions
                .map(|(number, function)| (function.symbol.svma.0, number))
                .collect()
        };
        let (in_old, in_new) = (starts(self.old), starts(self.new));
        let mut votes: FxHashMap<(usize, usize), u32> = FxHashMap::default();
        for (was, is) in self.old_to_new.iter().enumerate() {
            let Some((was, is)) = is.and_then(|is| {
                Some((
                    self.old.shapes[was].as_ref()?,
                    self.new.shapes[is].as_ref()?,
                ))
            }) else {
                continue;
            };
            if was.hash != is.hash || was.places.len() != is.places.len() {
                continue;
            }
            for (a, b) in was.places.iter().zip(&is.places) {
                let (Some(&a), Some(&b)) = (in_old.get(&a.0), in_new.get(&b.0)) else {
                    continue;
                };
                let free = self.old_to_new[a].is_none() && self.new_to_old[b].is_none();
                if free && old.keys[a] == new.keys[b] {
                    *votes.entry((a, b)).or_default() += 1;
                }
            }
        }
        let mut votes: Vec<_> = votes.into_iter().collect();
        votes.sort_unstable_by_key(|&(pair, n)| (std::cmp::Reverse(n), pair));
        for ((a, b), _) in votes {
            if self.old_to_new[a].is_none() && self.new_to_old[b].is_none() {
                self.add(a, b);
            }
        }
    }

    /// Pairs those that have most in common first.
    fn pair_alike(&mut self, olds: &[usize], news: &[usize], old: &Classes, new: &Classes) {
        if olds.len().saturating_mul(news.len()) > MOST_PAIRS {
            return;
        }
        let old_sorted: Vec<Vec<u32>> = olds.iter().map(|&at| old.parts(self.old, at)).collect();
        let new_sorted: Vec<Vec<u32>> = news.iter().map(|&at| new.parts(self.new, at)).collect();
        let mut scores = Vec::new();
        for (i, was) in old_sorted.iter().enumerate() {
            for (j, is) in new_sorted.iter().enumerate() {
                let total = was.len() + is.len();
                if total == 0 {
                    continue;
                }
                let score = 2.0 * common(was, is) as f64 / total as f64;
                if score >= LEAST_COMMON {
                    scores.push((score, i, j));
                }
            }
        }
        scores.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        for (_, i, j) in scores {
            let (old, new) = (olds[i], news[j]);
            if self.old_to_new[old].is_none() && self.new_to_old[new].is_none() {
                self.add(old, new);
            }
        }
    }
}

/// How many elements two sorted lists have in common.
fn common(a: &[u32], b: &[u32]) -> usize {
    let (mut i, mut j, mut n) = (0, 0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        match x.cmp(y) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                (i, j, n) = (i + 1, j + 1, n + 1);
            }
        }
    }
    n
}
