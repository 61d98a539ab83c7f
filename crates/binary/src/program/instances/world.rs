//! What all runs share: the file, its functions, and what threads are known to change while others run.

use std::rc::Rc;

use hitm_model::{Svma, SvmaRange};
use iced_x86::InstructionInfoFactory;
use rustc_hash::{FxHashMap, FxHashSet};

use super::body::Body;
use super::known::{self, Known};
use super::locks;
use super::log::Log;
use super::memory::Space;
use super::run::Errand;
use crate::program::places::{self, Surroundings};
use crate::program::roots::Graph;
use crate::program::value::Value;
use crate::program::whole::View;
use crate::program::{FunctionCode, Target};

/// Of an array so many elements are taken as changed if any one may be.
const MOST_ELEMENTS: i64 = 64;
/// So many calls away a wait for a thread is looked for.
const DEEPEST_WAIT: usize = 4;

/// The file, as runs see it.
pub(super) trait Ground: Surroundings {
    /// The bytes of the function that starts at an address.
    fn function(&self, start: Svma) -> Option<(SvmaRange, &[u8])>;
    /// The linker's name of what is at an address, and the name that people know.
    fn names(&self, at: Svma) -> Option<(String, String)>;
    /// The name of an import.
    fn import(&self, number: u32) -> Option<&str>;
}

impl Ground for View<'_, '_> {
    fn function(&self, start: Svma) -> Option<(SvmaRange, &[u8])> {
        let range = self.function_range(start)?;
        Some((range, self.image.code(range)?))
    }

    fn names(&self, at: Svma) -> Option<(String, String)> {
        let symbol = self.image.symbol_at(at)?;
        Some((symbol.raw, symbol.name))
    }

    fn import(&self, number: u32) -> Option<&str> {
        self.imports.names.get(number as usize).map(String::as_str)
    }
}

pub(super) struct World<'w> {
    pub(super) ground: &'w dyn Ground,
    pub(super) functions: &'w [FunctionCode],
    pub(super) graph: &'w Graph,
    bodies: FxHashMap<Svma, Option<Rc<Body>>>,
    known: FxHashMap<Target, Option<Known>>,
    waits: FxHashMap<Svma, bool>,
    slow_ways: FxHashMap<Target, bool>,
    info: InstructionInfoFactory,
    /// Words that threads write.
    changed: FxHashSet<(Space, i64)>,
    /// Words that are written by who has started a thread.
    later: FxHashSet<(Space, i64, u64)>,
    /// Whether numbers in memory that others could change are what they were when the thread was started.
    pub(super) trusts_numbers: bool,
}

impl<'w> World<'w> {
    pub(super) fn new(
        ground: &'w dyn Ground,
        functions: &'w [FunctionCode],
        graph: &'w Graph,
    ) -> Self {
        Self {
            ground,
            functions,
            graph,
            bodies: FxHashMap::default(),
            known: FxHashMap::default(),
            waits: FxHashMap::default(),
            slow_ways: FxHashMap::default(),
            info: InstructionInfoFactory::new(),
            changed: FxHashSet::default(),
            later: FxHashSet::default(),
            trusts_numbers: false,
        }
    }

    /// The code of the function that starts at an address.
    pub(super) fn body(&mut self, start: Svma) -> Option<Rc<Body>> {
        if let Some(known) = self.bodies.get(&start) {
            return known.clone();
        }
        let read = self.ground.function(start);
        let body = read.map(|(range, bytes)| Rc::new(Body::read(range, bytes, &mut self.info)));
        let body = body.filter(|body| !body.blocks.is_empty());
        self.bodies.insert(start, body.clone());
        body
    }

    /// What a well-known function does.
    pub(super) fn known(&mut self, target: Target) -> Option<Known> {
        if let Some(known) = self.known.get(&target) {
            return *known;
        }
        let known = match target {
            Target::Import(number) => self.ground.import(number).and_then(known::import),
            Target::Function(start) => self
                .ground
                .names(start)
                .and_then(|(raw, name)| known::function(&raw, &name)),
        };
        self.known.insert(target, known);
        known
    }

    /// Whether a function waits for a lock, and has it when it returns.
    pub(super) fn is_slow_way(&mut self, target: Target) -> bool {
        let Target::Function(start) = target else {
            return false;
        };
        if let Some(known) = self.slow_ways.get(&target) {
            return *known;
        }
        let names = self.ground.names(start);
        let slow = names.is_some_and(|(_, name)| locks::is_slow_way(&name));
        self.slow_ways.insert(target, slow);
        slow
    }

    /// Whether a function waits for a thread, itself or through what it calls.
    pub(super) fn waits(&mut self, function: Svma) -> bool {
        self.waits_within(function, DEEPEST_WAIT)
    }

    fn waits_within(&mut self, function: Svma, depth: usize) -> bool {
        if let Some(known) = self.waits.get(&function) {
            return *known;
        }
        self.waits.insert(function, false);
        let functions = self.functions;
        let calls = self
            .graph
            .number(function)
            .map_or(&[][..], |number| &functions[number].calls[..]);
        let waits = calls.iter().any(|call| match call.target {
            Target::Import(_) => self.graph.joins(call.target).is_some(),
            Target::Function(callee) => depth > 0 && self.waits_within(callee, depth - 1),
        });
        self.waits.insert(function, waits);
        waits
    }

    pub(super) fn is_data(&self, address: u64) -> bool {
        self.ground.is_data(address)
    }

    pub(super) fn number(&self, number: i64) -> Value {
        places::number(number, self.ground)
    }

    pub(super) fn constant(&self, address: u64) -> Option<Value> {
        self.ground.constant(address)
    }

    /// Whether others write the word at an address while somebody runs.
    pub(super) fn is_changed(&self, space: Space, at: Value, by: &Errand) -> bool {
        let elements = if at.stride == 0 { 1 } else { MOST_ELEMENTS };
        (0..elements).any(|number| {
            let offset = number.wrapping_mul(i64::from(at.stride));
            let word = at.offset.wrapping_add(offset) & !7;
            self.changed.contains(&(space, word)) || self.later.contains(&(space, word, by.way))
        })
    }

    /// Notes what is written while several threads run.
    pub(super) fn note_changed(&mut self, log: &Log) {
        self.later.extend(log.later.iter().copied());
        let by_threads = log.touches.iter().filter(|touch| touch.run > 0);
        for touch in by_threads.filter(|touch| touch.kind.writes()) {
            let elements = if touch.stride == 0 { 1 } else { MOST_ELEMENTS };
            for number in 0..elements {
                let offset = number.wrapping_mul(i64::from(touch.stride));
                let from = touch.offset.wrapping_add(offset);
                let end = from.wrapping_add(i64::from(touch.size));
                let mut word = from & !7;
                while word < end {
                    self.changed.insert((touch.space, word));
                    word = word.saturating_add(8);
                }
            }
        }
    }
}
