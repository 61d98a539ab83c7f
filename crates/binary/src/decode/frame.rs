//! Words of the thread's own stack frame, as far as the block has written or read them.
//!
//! Code without optimisation keeps everything there, and optimised code what does not fit into registers. A word that
//! was stored is what a load gets, and two loads without a store in between get the same:
//!
//! ```text
//! mov  [rsp+8], a           word(rsp+8) := a
//! mov  b, [rsp+8]           b := word(rsp+8), a symbol of its own if not yet known
//! add  [rsp+8], c           word(rsp+8) := word(rsp+8) + c
//! ```
//!
//! A word is known by the linear form of its address. Only 8 bytes at a time are stored and loaded this way. A store
//! whose address differs by a constant changes the words that it overlaps; a store through any other form may change
//! each of them, and so may an atomic or string instruction, so that none is known behind it.
//!
//! What is assumed is that nobody else writes into the frame between two instructions of a block without an atomic
//! instruction in between. So words are followed only in the frame: where the address differs from the stack pointer
//! by a constant of 32 bits, or from `rbp` in a function that makes it point to its frame and uses it for nothing else. A
//! variable there may be shared too, and then another thread, or a signal handler, can store to it at that moment.

use hitm_model::{AccessKind, Register};
use iced_x86::{Instruction, InstructionInfo, Mnemonic, OpKind, Register as Name};

use super::execute::{State, Value, writes};
use super::linear::Form;
use super::operands::RawOperand;

/// The known words, none overlapping another.
#[derive(Debug)]
pub(super) struct Frame {
    words: Vec<(Form, Value)>,
    /// Whether `rbp` points into the frame wherever it is the base of an address.
    has_pointer: bool,
}

const WORD: u64 = 8;

impl Frame {
    pub(super) const fn new(has_pointer: bool) -> Self {
        Self {
            words: Vec::new(),
            has_pointer,
        }
    }

    fn get(&self, address: &Form) -> Option<Value> {
        let mut words = self.words.iter();
        words.find(|(at, _)| at == address).map(|&(_, value)| value)
    }

    fn set(&mut self, address: Form, value: Value) {
        self.overwrite(&address, WORD);
        self.words.push((address, value));
    }

    /// Something is stored at an address.
    fn overwrite(&mut self, address: &Form, size: u64) {
        self.words.retain(|(at, _)| {
            let distance = address.distance_from(at);
            distance.is_some_and(|up| up >= WORD && up.wrapping_neg() >= size)
        });
    }

    /// Has the addresses follow the registers, which go from one form for the same value to another.
    pub(super) fn rename(&mut self, rsp: [&Form; 2], rbp: [&Form; 2]) {
        let rbp = self.has_pointer.then_some(rbp);
        self.words.retain_mut(|(at, _)| {
            // What is addressed by both goes with `rbp`: where there is a frame pointer, it is used.
            for [old, new] in rbp.into_iter().chain([rsp]) {
                if let Some(distance) = at.distance_from(old) {
                    *at = new.plus_constant(distance);
                    return true;
                }
            }
            false
        });
    }
}

impl State {
    fn is_in_frame(&self, address: &Form) -> bool {
        let is_at = |register| {
            let base = self.get(register);
            let distance = address.distance_from(base);
            !base.is_known() && distance.is_some_and(|up| i32::try_from(up.cast_signed()).is_ok())
        };
        is_at(Register::Rsp) || self.frame.has_pointer && is_at(Register::Rbp)
    }

    /// What is loaded from a word of the frame.
    pub(super) fn word(&mut self, address: &Form) -> Option<Value> {
        if !self.is_in_frame(address) {
            return None;
        }
        Some(self.frame.get(address).unwrap_or_else(|| {
            let value = self.symbols.fresh().into();
            self.frame.set(*address, value);
            value
        }))
    }

    /// The address of an instruction's memory operand, if that is a word of the frame.
    fn word_operand(&self, instruction: &Instruction) -> Option<Form> {
        if instruction.memory_size().size() as u64 != WORD
            || matches!(instruction.memory_segment(), Name::FS | Name::GS)
        {
            return None;
        }
        let address = self.effective_address(instruction)?;
        self.is_in_frame(&address).then_some(address)
    }

    /// What an instruction loads from a word of the frame.
    pub(super) fn loaded(&mut self, instruction: &Instruction) -> Option<Value> {
        let address = self.word_operand(instruction)?;
        self.word(&address)
    }

    /// Executes what an instruction does to memory, with its accesses already known.
    pub(super) fn execute_stores(
        &mut self,
        instruction: &Instruction,
        info: &InstructionInfo,
        operands: &[RawOperand],
    ) {
        let memory = info.used_memory().iter();
        let n_stores = memory.filter(|memory| writes(memory.access())).count();
        if instruction.mnemonic() == Mnemonic::Clzero {
            // It has no operand, but zeroes a line.
            self.frame.words.clear();
        }
        if n_stores == 0 {
            return;
        }
        let stored = self.stored(instruction);
        let stores = operands.iter().filter_map(|operand| match operand.kind {
            AccessKind::Write | AccessKind::Update => {
                Some((operand.address?, u64::from(operand.size)))
            }
            AccessKind::Read | AccessKind::Atomic => None,
        });
        if instruction.is_string_instruction() || stores.clone().count() != n_stores {
            self.frame.words.clear();
        }
        for (address, size) in stores {
            self.frame.overwrite(&address, size);
        }
        if let Some((address, value)) = stored {
            self.frame.set(address, value);
        }
    }

    /// The word of the frame that an instruction stores to, and what is in it then.
    fn stored(&mut self, instruction: &Instruction) -> Option<(Form, Value)> {
        use Mnemonic::{Add, Dec, Inc, Mov, Push, Sub};

        let mnemonic = instruction.mnemonic();
        if mnemonic == Push {
            let increment = i64::from(instruction.stack_pointer_increment()).cast_unsigned();
            let value = self.source(instruction, 0)?;
            let top = self.get(Register::Rsp).plus_constant(increment);
            return (increment.wrapping_neg() == WORD && self.is_in_frame(&top))
                .then_some((top, value));
        }
        if instruction.op_count() == 0
            || instruction.op0_kind() != OpKind::Memory
            || instruction.has_lock_prefix()
        {
            return None;
        }
        let address = self.word_operand(instruction)?;
        let value = match mnemonic {
            Mov => self.source(instruction, 1)?,
            Add | Sub | Inc | Dec => {
                let old = self.word(&address)?.form;
                let form = match mnemonic {
                    Add => old.plus(1, &self.source(instruction, 1)?.form)?,
                    Sub => old.plus(u64::MAX, &self.source(instruction, 1)?.form)?,
                    Inc => old.plus_constant(1),
                    _ => old.plus_constant(u64::MAX),
                };
                form.into()
            }
            _ => return None,
        };
        Some((address, value))
    }
}
