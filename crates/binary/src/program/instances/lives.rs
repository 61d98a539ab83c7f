//! Which threads may be running at one point of a run, by the waits for each.
//!
//! Where a thread is started, what waits for it later is written down as a value. Who waits for that value knows that the
//! thread is over.

use super::log::Start;
use super::memory::Space;
use super::run::Run;
use crate::program::calls::{Joins, Starts};
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
        insert(&mut self.0, Life { way, many });
    }

    /// Those that may be running where two ways of control meet; whether that is more than before.
    pub(super) fn meet(&mut self, other: &Self) -> bool {
        let mut changed = false;
        for life in &other.0 {
            changed |= insert(&mut self.0, *life);
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

/// Puts something into a sorted list, unless it is there; whether it is new.
pub(super) fn insert<T: Ord>(sorted: &mut Vec<T>, item: T) -> bool {
    let new = sorted.binary_search(&item).err();
    if let Some(at) = new {
        sorted.insert(at, item);
    }
    new.is_some()
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
    pub(super) fn begins(&mut self, starts: Starts, way: u64) {
        match starts {
            Starts::Routine { handle: true, .. } | Starts::Object => {}
            Starts::Routine { .. } | Starts::Parallel(_) => return,
        }
        let to = self.state.get(ARGUMENTS[0]).clone();
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
    pub(super) fn ends(&mut self, joins: Joins) {
        let given = self.state.get(ARGUMENTS[0]).clone();
        let threads = match joins {
            Joins::Handle => given,
            Joins::Object => self.load(&given, 8),
        };
        self.state.lives.end(&threads, self.hot);
    }
}
