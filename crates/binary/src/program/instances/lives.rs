//! Which threads may be running at one point of a run, by the waits for each.
//!
//! Where a thread is started, what waits for it later is written down as a value. Who waits for that value knows that the
//! thread is over.

use super::log::Start;
use super::memory::Space;
use super::run::Run;
use crate::program::Target;
use crate::program::calls::Starts;
use crate::program::registers::ARGUMENTS;
use crate::program::semantics::Machine as _;
use crate::program::value::{Lineage, Origin, Value, Values};

/// The threads that may be running, by the ways to their starts; sorted.
#[derive(Clone, Default, Debug)]
pub(super) struct Lives(Vec<Life>);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Life {
    way: u64,
    /// Whether it stands for several.
    many: bool,
}

impl Lives {
    pub(super) fn ways(&self) -> Vec<u64> {
        self.0.iter().map(|life| life.way).collect()
    }

    pub(super) fn begin(&mut self, way: u64, many: bool) {
        self.add(Life { way, many });
    }

    fn add(&mut self, life: Life) -> bool {
        let new = self.0.binary_search(&life).err();
        if let Some(at) = new {
            self.0.insert(at, life);
        }
        new.is_some()
    }

    /// Those that may be running where two ways of control meet; whether that is more than before.
    pub(super) fn meet(&mut self, other: &Self) -> bool {
        let mut changed = false;
        for life in &other.0 {
            changed |= self.add(*life);
        }
        changed
    }

    /// Somebody waits for one of these. A loop waits for all that are meant.
    fn end(&mut self, threads: &Values, in_loop: bool) {
        let mut ways = Vec::new();
        for value in threads.all() {
            match value.origin {
                Origin::Thread(way) if value.offset == 0 => ways.push(way),
                _ => return,
            }
        }
        if ways.len() == 1 || in_loop {
            self.0
                .retain(|life| !ways.contains(&life.way) || (life.many && !in_loop));
        }
    }
}

impl Start {
    /// Whether one of two threads is waited for before the other one is started.
    pub(super) fn is_apart(&self, other: &Self) -> bool {
        let beside = |one: &Self, other: &Self| other.beside.contains(&one.way);
        self.top.is_some()
            && self.top == other.top
            && self.way != other.way
            && !beside(self, other)
            && !beside(other, self)
    }
}

impl Run<'_, '_> {
    /// Writes down what a thread is waited for by that is started.
    pub(super) fn begins(&mut self, target: Target, starts: Starts, way: u64) {
        let written = match starts {
            Starts::Routine(2) | Starts::Object => true,
            Starts::Routine(1) => self.is_called(target, "thrd_create"),
            Starts::Routine(_) | Starts::Parallel(_) => false,
        };
        let to = self.state.get(ARGUMENTS[0]).clone();
        if !written {
            return;
        }
        self.fill(&to, Some(8), false);
        let sure = to.all().len() == 1;
        for value in to.all() {
            if let Some(space) = Space::of(*value) {
                let thread = Value::of(Origin::Thread(way), 0, Lineage::NONE);
                let memory = &mut self.state.memory;
                memory.store(space, *value, 8, Some(thread.into()), sure);
            }
        }
    }

    /// A thread is waited for.
    pub(super) fn ends(&mut self, target: Target) {
        let given = self.state.get(ARGUMENTS[0]).clone();
        // C++'s threads are objects that hold it.
        let object = ["_ZNSt6thread4joinEv", "_ZNSt3__16thread4joinEv"];
        let threads = match object.iter().any(|name| self.is_called(target, name)) {
            true => self.load(&given, 8),
            false => given,
        };
        self.state.lives.end(&threads, self.hot);
    }

    fn is_called(&self, target: Target, name: &str) -> bool {
        let import = match target {
            Target::Import(number) => self.world.ground.import(number),
            Target::Function(_) => None,
        };
        import.is_some_and(|import| import.split('@').next() == Some(name))
    }
}
