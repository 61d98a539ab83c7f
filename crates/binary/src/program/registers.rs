//! What the general-purpose registers and the words of the stack frame hold at one place of a function.

use super::value::{Lineage, Origin, Value, Values};

/// `rsp`.
pub(super) const RSP: usize = 4;
/// `rbp`.
pub(super) const RBP: usize = 5;
/// The registers of integer arguments, in order.
pub(super) const ARGUMENTS: [usize; 6] = [7, 6, 2, 1, 8, 9];
/// The registers that a call may change.
pub(super) const VOLATILE: u16 = 0b0000_1111_1100_0111;

/// Words of the frame that are followed.
const MOST_WORDS: usize = 32;

#[derive(Clone, Debug)]
pub(super) struct State {
    registers: [Values; 16],
    /// Words of the frame by their offset from the stack pointer at the function's start.
    frame: Vec<(i64, Values)>,
}

impl State {
    /// At the start of a function.
    pub(super) fn at_entry() -> Self {
        let mut state = Self::unknown();
        for (number, register) in ARGUMENTS.into_iter().enumerate() {
            let number = number as u8;
            let value = Value::of(Origin::Argument(number), 0, Lineage::argument(number));
            state.set(register, value.into());
        }
        state.set(RSP, Value::of(Origin::Stack, 0, Lineage::NONE).into());
        state
    }

    /// Nothing known.
    pub(super) fn unknown() -> Self {
        Self {
            registers: std::array::from_fn(|_| Value::something(Lineage::OTHER).into()),
            frame: Vec::new(),
        }
    }

    pub(super) fn get(&self, register: usize) -> &Values {
        &self.registers[register & 15]
    }

    pub(super) fn set(&mut self, register: usize, values: Values) {
        self.registers[register & 15] = values;
    }

    pub(super) fn word(&self, offset: i64) -> Option<&Values> {
        let found = self.frame.iter().find(|(at, _)| *at == offset);
        found.map(|(_, values)| values)
    }

    /// Stores `size` bytes in the frame; `values` where it is a whole word.
    pub(super) fn store(&mut self, offset: i64, size: u32, values: Option<Values>) {
        let end = offset.saturating_add(i64::from(size));
        self.frame
            .retain(|(at, _)| *at >= end || at.saturating_add(8) <= offset);
        if let Some(values) = values
            && self.frame.len() < MOST_WORDS
        {
            self.frame.push((offset, values));
        }
    }

    /// A call changes what it may, and the words of the frame above what it was given the address of.
    pub(super) fn behind_call(&mut self, result: Lineage) {
        let given = ARGUMENTS
            .iter()
            .flat_map(|&register| self.registers[register].all())
            .filter(|value| value.origin == Origin::Stack)
            .map(|value| value.offset)
            .min();
        if let Some(from) = given {
            self.frame.retain(|(at, _)| *at < from);
        }
        self.forget(VOLATILE, Lineage::OTHER);
        self.set(0, Value::something(result).into());
    }

    /// Makes registers something that changes.
    pub(super) fn forget(&mut self, registers: u16, lineage: Lineage) {
        for number in 0..16 {
            if registers >> number & 1 == 1 {
                let with = lineage.with(self.registers[number].lineage());
                self.registers[number] = Value::something(with).into();
            }
        }
    }

    pub(super) fn forget_frame(&mut self) {
        self.frame.clear();
    }

    /// What is known where two ways of control meet.
    pub(super) fn join(&mut self, other: &Self) {
        for (mine, theirs) in self.registers.iter_mut().zip(&other.registers) {
            if mine != theirs {
                *mine = mine.join(theirs);
            }
        }
        self.frame.retain_mut(|(at, values)| match other.word(*at) {
            Some(theirs) => {
                if values != theirs {
                    *values = values.join(theirs);
                }
                true
            }
            None => false,
        });
    }
}
