//! What is known at one point of a run: registers, the last comparison, memory.

use std::rc::Rc;

use iced_x86::{ConditionCode, Instruction, InstructionInfo, Mnemonic, OpKind, Register as Name};

use super::lives::{Lives, insert};
use super::locks::{Held, Tried};
use super::memory::Memory;
use crate::program::registers::VOLATILE;
use crate::program::value::{Lineage, Value, Values};

/// The two words of a vector register, or of its lower half.
type Pair = [Values; 2];

#[derive(Clone, Debug)]
pub(super) struct State {
    registers: [Values; 16],
    vectors: Rc<[Pair; 16]>,
    /// What was compared last, where both sides are numbers.
    compared: Option<Compared>,
    pub(super) memory: Memory,
    pub(super) held: Held,
    pub(super) tried: Option<Tried>,
    /// The starts of threads that may be running, sorted: the ways to them. After a wait for any thread there is none.
    started: Vec<u64>,
    pub(super) lives: Lives,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Compared {
    /// Whether by their common bits rather than by their difference.
    by_bits: bool,
    left: i64,
    right: i64,
}

impl State {
    pub(super) fn new(lineage: Lineage, memory: Memory) -> Self {
        let unknown = || Values::from(Value::something(lineage));
        Self {
            registers: std::array::from_fn(|_| unknown()),
            vectors: Rc::new(std::array::from_fn(|_| [unknown(), unknown()])),
            compared: None,
            memory,
            held: Held::default(),
            tried: None,
            started: Vec::new(),
            lives: Lives::default(),
        }
    }

    /// Whether threads that were started here may be running.
    pub(super) fn is_beside(&self) -> bool {
        !self.started.is_empty()
    }

    /// The ways to their starts.
    pub(super) fn started(&self) -> &[u64] {
        &self.started
    }

    /// A thread is started; whether it is another one.
    pub(super) fn start(&mut self, way: u64) -> bool {
        insert(&mut self.started, way)
    }

    /// Threads were waited for.
    pub(super) fn wait(&mut self) {
        self.started.clear();
    }

    pub(super) fn get(&self, register: usize) -> &Values {
        &self.registers[register & 15]
    }

    pub(super) fn set(&mut self, register: usize, values: Values) {
        self.registers[register & 15] = values;
    }

    pub(super) fn vector(&self, number: usize) -> Pair {
        self.vectors[number & 15].clone()
    }

    pub(super) fn set_vector(&mut self, number: usize, pair: Pair) {
        let old = &self.vectors[number & 15];
        if *old != pair {
            Rc::make_mut(&mut self.vectors)[number & 15] = pair;
        }
    }

    /// A call changes all registers but those that it must leave as they are.
    pub(super) fn behind_call(&mut self, result: Values) {
        let unknown = Values::from(Value::something(Lineage::OTHER));
        for number in (0..16).filter(|number| VOLATILE >> number & 1 == 1) {
            self.registers[number] = unknown.clone();
        }
        self.registers[0] = result;
        self.compared = None;
        self.tried = None;
        for number in 0..16 {
            self.set_vector(number, [unknown.clone(), unknown.clone()]);
        }
    }

    /// The registers that a function leaves as they are, from before the call.
    pub(super) fn keep(&mut self, before: &Self) {
        for number in (0..16).filter(|number| VOLATILE >> number & 1 == 0) {
            self.registers[number] = before.registers[number].clone();
        }
    }

    /// What is known where two ways of control meet; whether that is less than before.
    pub(super) fn meet(&mut self, other: &Self, widen: bool) -> bool {
        let with = |a: &Values, b: &Values| match (a == b, widen) {
            (true, _) => a.clone(),
            (false, true) => a.widen(b),
            (false, false) => a.join(b),
        };
        let mut changed = self.memory.meet(&other.memory, with);
        for (mine, theirs) in self.registers.iter_mut().zip(&other.registers) {
            let met = with(mine, theirs);
            changed |= met != *mine;
            *mine = met;
        }
        if !Rc::ptr_eq(&self.vectors, &other.vectors) && self.vectors != other.vectors {
            let met: [Pair; 16] = std::array::from_fn(|number| {
                let (mine, theirs) = (&self.vectors[number], &other.vectors[number]);
                [with(&mine[0], &theirs[0]), with(&mine[1], &theirs[1])]
            });
            changed |= met != *self.vectors;
            self.vectors = Rc::new(met);
        }
        if self.compared != other.compared {
            changed |= self.compared.is_some();
            self.compared = None;
        }
        changed |= self.held.meet(&other.held);
        if self.tried != other.tried {
            changed |= self.tried.take().is_some();
        }
        changed |= self.lives.meet(&other.lives);
        for way in &other.started {
            changed |= self.start(*way);
        }
        changed
    }

    /// Nothing is known any more, but for where the stack is.
    pub(super) fn give_up(&mut self) {
        let started = std::mem::take(&mut self.started);
        let lives = std::mem::take(&mut self.lives);
        let stack = self.registers[super::super::registers::RSP].clone();
        *self = Self::new(Lineage::OTHER.with(Lineage::ROUND), Memory::default());
        self.registers[super::super::registers::RSP] = stack;
        self.started = started;
        self.lives = lives;
    }

    /// Notes a comparison; any other instruction that sets the flags makes it void.
    pub(super) fn compare(&mut self, instruction: &Instruction, left: &Values, right: &Values) {
        let number = |values: &Values| match values.all() {
            [value] => value.as_number(),
            _ => None,
        };
        let bytes = match instruction.op0_kind() {
            OpKind::Register => instruction.op0_register().size(),
            _ => instruction.memory_size().size(),
        };
        let wide = |number: i64| match bytes {
            1 => i64::from(number as i8),
            2 => i64::from(number as i16),
            4 => i64::from(number as i32),
            _ => number,
        };
        self.compared = match (number(left), number(right)) {
            (Some(left), Some(right)) => Some(Compared {
                by_bits: instruction.mnemonic() == Mnemonic::Test,
                left: wide(left),
                right: wide(right),
            }),
            _ => None,
        };
    }

    pub(super) fn forget_comparison(&mut self) {
        self.compared = None;
    }

    /// Whether a condition holds, if that is known.
    pub(super) fn holds(&self, condition: ConditionCode) -> Option<bool> {
        let Compared {
            by_bits,
            left,
            right,
        } = self.compared?;
        if by_bits {
            let bits = left & right;
            return Some(match condition {
                ConditionCode::e => bits == 0,
                ConditionCode::ne => bits != 0,
                ConditionCode::s | ConditionCode::l => bits < 0,
                ConditionCode::ns | ConditionCode::ge => bits >= 0,
                ConditionCode::le => bits <= 0,
                ConditionCode::g => bits > 0,
                _ => return None,
            });
        }
        let (above, below) = (left.cast_unsigned(), right.cast_unsigned());
        Some(match condition {
            ConditionCode::e => left == right,
            ConditionCode::ne => left != right,
            ConditionCode::l => left < right,
            ConditionCode::le => left <= right,
            ConditionCode::g => left > right,
            ConditionCode::ge => left >= right,
            ConditionCode::b => above < below,
            ConditionCode::be => above <= below,
            ConditionCode::a => above > below,
            ConditionCode::ae => above >= below,
            _ => return None,
        })
    }
}

/// The number of a vector register, if it is one of those that are followed.
pub(super) fn vector(register: Name) -> Option<usize> {
    (register.is_xmm() || register.is_ymm())
        .then(|| register.number())
        .filter(|number| *number < 16)
}

/// Whether an instruction changes the flags.
pub(super) fn sets_flags(instruction: &Instruction) -> bool {
    instruction.rflags_modified() != 0
}

/// The vector registers that an instruction writes.
pub(super) fn written_vectors(info: &InstructionInfo) -> impl Iterator<Item = usize> + '_ {
    info.used_registers()
        .iter()
        .filter(|used| crate::program::flow::writes(used.access()))
        .filter_map(|used| vector(used.register()))
}
