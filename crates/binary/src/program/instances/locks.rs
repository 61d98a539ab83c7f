//! Which locks are held at one point of a run: only what is certain.
//!
//! A lock counts where its one address is known and every way that leads there took it. What is not followed may give
//! locks back: after a call of a function of the file that is not looked into, none counts.

use iced_x86::{ConditionCode, Instruction, InstructionInfo, Mnemonic, OpKind};

use super::memory::Space;
use super::run::Run;
use super::state::{self, State};
use crate::program::Target;
use crate::program::calls::Turn;
use crate::program::flow::{number, writes};
use crate::program::registers::ARGUMENTS;
use crate::program::semantics;
use crate::program::value::Values;

/// What of a lock is written where it is given back by a store.
const WORD: i64 = 4;
/// A function that takes a lock of Rust's, `std`'s or `parking_lot`'s, calls one of these where the lock is not free.
const SLOW_WAYS: [&str; 2] = [
    "std::sys::sync::mutex::futex::Mutex::lock_contended",
    "parking_lot::raw_mutex::RawMutex::lock_slow",
];

/// A lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Lock {
    pub(super) space: Space,
    pub(super) offset: i64,
    /// Whether several may hold it at once, as who reads under a lock for readers and writers.
    pub(super) shared: bool,
}

/// The locks that are held, sorted.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub(super) struct Held(Vec<Lock>);

impl Held {
    pub(super) fn all(&self) -> &[Lock] {
        &self.0
    }

    fn take(&mut self, lock: Lock) {
        self.0
            .retain(|it| (it.space, it.offset) != (lock.space, lock.offset));
        let at = self.0.partition_point(|other| *other < lock);
        self.0.insert(at, lock);
    }

    /// Something is written there that may be what says that a lock is held.
    pub(super) fn overwritten(&mut self, space: Space, from: i64, size: i64) {
        self.0.retain(|lock| {
            let before = lock.offset.saturating_add(WORD) <= from;
            lock.space != space || before || from.saturating_add(size) <= lock.offset
        });
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// What is held on both of two ways; whether that is less than before.
    pub(super) fn meet(&mut self, other: &Self) -> bool {
        let before = self.0.len();
        let mut changed = false;
        self.0.retain_mut(|lock| {
            let same = |it: &&Lock| (it.space, it.offset) == (lock.space, lock.offset);
            let other = other.0.iter().find(same).copied();
            let shared = other.is_some_and(|it| it.shared) && !lock.shared;
            changed |= shared;
            lock.shared |= shared;
            other.is_some()
        });
        changed || self.0.len() != before
    }
}

/// A lock that is held if something turns out to be zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tried {
    lock: Lock,
    by: TriedBy,
}

/// What tells whether it was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TriedBy {
    /// That the flags say equal.
    Flags,
    /// That this register is zero.
    Register(usize),
}

impl Tried {
    /// What is left of it behind an instruction.
    fn behind(self, instruction: &Instruction, info: &InstructionInfo) -> Option<Self> {
        if let TriedBy::Register(register) = self.by
            && asks_for_zero(instruction, register)
        {
            let by = TriedBy::Flags;
            return Some(Self { by, ..self });
        }
        let lost = match self.by {
            TriedBy::Flags => state::sets_flags(instruction),
            TriedBy::Register(register) => info
                .used_registers()
                .iter()
                .any(|used| writes(used.access()) && number(used.register()) == Some(register)),
        };
        (!lost).then_some(self)
    }
}

/// Whether an instruction compares a register with zero.
fn asks_for_zero(instruction: &Instruction, register: usize) -> bool {
    let is = |operand: u32| {
        instruction.op_kind(operand) == OpKind::Register
            && instruction.op_register(operand).size() >= 4
            && number(instruction.op_register(operand)) == Some(register)
    };
    match instruction.mnemonic() {
        Mnemonic::Test => is(0) && is(1),
        Mnemonic::Cmp => is(0) && matches!(instruction.try_immediate(1), Ok(0)),
        _ => false,
    }
}

impl State {
    /// Behind a call that returns zero if it has taken a lock.
    pub(super) fn tried_by_call(&mut self, lock: Lock) {
        let by = TriedBy::Register(0);
        self.tried = Some(Tried { lock, by });
    }

    /// A conditional jump is made or not: whether a lock was taken is known now.
    pub(super) fn has_tried(&mut self, tried: Tried, jump: &Instruction, jumps: bool, falls: bool) {
        let equal = match jump.condition_code() {
            ConditionCode::e => jumps,
            ConditionCode::ne => falls,
            _ => false,
        };
        match tried.by {
            TriedBy::Flags if equal => self.held.take(tried.lock),
            TriedBy::Flags => {}
            TriedBy::Register(_) => self.tried = Some(tried),
        }
    }
}

impl Run<'_, '_> {
    /// The one lock at an address, if it is one for all threads.
    fn lock_at(&self, address: &Values, shared: bool) -> Option<Lock> {
        let [value] = address.all() else {
            return None;
        };
        let space = Space::of(*value).filter(|_| value.stride == 0)?;
        if let Space::Block(number) = space {
            let block = self.log.blocks.get(number as usize)?;
            let own = block.run == self.errand.run && !self.errand.many;
            if block.repeated || !(block.run == 0 || own) {
                return None;
            }
        }
        Some(Lock {
            space,
            offset: value.offset,
            shared,
        })
    }

    /// A function that takes or gives back a lock is called with this address. The lock that it only tries to take is
    /// returned.
    pub(super) fn turn(&mut self, address: &Values, turn: Turn) -> Option<Lock> {
        match turn {
            Turn::Tries { shared } => return self.lock_at(address, shared),
            Turn::Takes { shared } => {
                let lock = self.lock_at(address, shared);
                self.has_waited(lock);
            }
            Turn::GivesBack => {
                for value in address.all() {
                    match Space::of(*value) {
                        Some(space) if value.stride == 0 => {
                            self.state.held.overwritten(space, value.offset, 1);
                        }
                        _ => self.state.held.clear(),
                    }
                }
            }
        }
        None
    }

    /// The lock that an instruction takes if it finds that it is free: a word that becomes 1 if it is 0, in a function
    /// that calls what waits for a lock otherwise.
    pub(super) fn tries(
        &mut self,
        instruction: &Instruction,
        info: &InstructionInfo,
    ) -> Option<Tried> {
        let is = |values: &Values, number: i64| matches!(values.all(), [value] if value.as_number() == Some(number));
        if instruction.mnemonic() != Mnemonic::Cmpxchg
            || instruction.op0_kind() != OpKind::Memory
            || !is(self.state.get(0), 0)
            || !is(&semantics::source(self, instruction, info, 1), 1)
            || !self.waits_for_lock()
        {
            return None;
        }
        let address = semantics::address(self, instruction, info.used_memory().first()?);
        let lock = self.lock_at(&address, false)?;
        let by = TriedBy::Flags;
        Some(Tried { lock, by })
    }

    /// What is known of a lock that was tried, behind an instruction.
    pub(super) fn behind(
        &mut self,
        tried: Option<Tried>,
        instruction: &Instruction,
        info: &InstructionInfo,
    ) {
        let before = self.state.tried.take();
        self.state.tried = tried.or_else(|| before?.behind(instruction, info));
    }

    /// Whether the function that is run calls what waits for a lock.
    fn waits_for_lock(&mut self) -> bool {
        let Some(frame) = self.frames.last() else {
            return false;
        };
        let functions = self.world.functions;
        let Some(function) = self.world.graph.number(frame.function) else {
            return false;
        };
        functions[function]
            .calls
            .iter()
            .any(|call| self.world.is_slow_way(call.target))
    }

    /// The lock that a function takes which waits until it is free, before it is called.
    pub(super) fn waited_for(&mut self, target: Target) -> Option<Lock> {
        if !self.world.is_slow_way(target) {
            return None;
        }
        let address = self.state.get(ARGUMENTS[0]).clone();
        self.lock_at(&address, false)
    }

    /// A lock, if it is known, was waited for and is held now.
    pub(super) fn has_waited(&mut self, lock: Option<Lock>) {
        if let Some(lock) = lock {
            self.state.held.take(lock);
        }
    }
}

/// Whether a function of this name waits for a lock and has it when it returns.
pub(super) fn is_slow_way(name: &str) -> bool {
    let name = name.replace(['<', '>'], "");
    SLOW_WAYS.iter().any(|slow| name.ends_with(slow))
}
