//! Vector registers, as far as they carry pointers: compilers copy structures and store pairs of pointers with them.

use iced_x86::{Instruction, InstructionInfo, Mnemonic, OpKind};

use super::run::Run;
use super::state::{State, vector};
use crate::program::flow::number;
use crate::program::semantics::{self, Machine as _};
use crate::program::value::{Lineage, Value, Values};

impl State {
    /// What an instruction stores from a vector register: its words.
    pub(super) fn stored_vector(
        &self,
        instruction: &Instruction,
        size: usize,
    ) -> Option<[Values; 2]> {
        let operand = instruction.op_count().checked_sub(1)?;
        if instruction.op_kind(operand) != OpKind::Register || size < 8 {
            return None;
        }
        let pair = self.vector(vector(instruction.op_register(operand))?);
        match instruction.mnemonic() {
            mnemonic if is_whole(mnemonic) => Some(pair),
            Mnemonic::Movq | Mnemonic::Vmovq | Mnemonic::Movlps | Mnemonic::Movlpd => Some(pair),
            Mnemonic::Movhps | Mnemonic::Movhpd | Mnemonic::Vmovhps | Mnemonic::Vmovhpd => {
                let [low, high] = pair;
                Some([high, low])
            }
            _ => None,
        }
    }
}

/// Moves of all of a register.
fn is_whole(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Movups
            | Mnemonic::Movaps
            | Mnemonic::Movupd
            | Mnemonic::Movapd
            | Mnemonic::Movdqu
            | Mnemonic::Movdqa
            | Mnemonic::Vmovups
            | Mnemonic::Vmovaps
            | Mnemonic::Vmovupd
            | Mnemonic::Vmovapd
            | Mnemonic::Vmovdqu
            | Mnemonic::Vmovdqa
    )
}

impl Run<'_, '_> {
    /// Executes moves between vector registers and others; whether it was one.
    pub(super) fn vectors(&mut self, instruction: &Instruction, info: &InstructionInfo) -> bool {
        if instruction.op_count() < 2 || instruction.op0_kind() != OpKind::Register {
            return false;
        }
        let mnemonic = instruction.mnemonic();
        let Some(into) = vector(instruction.op0_register()) else {
            return self.set_from_vector(instruction);
        };
        let operand = instruction.op_count() - 1;
        let zero = || Values::from(Value::number(0));
        let from = |run: &Self| match instruction.op_kind(operand) {
            OpKind::Register => match vector(instruction.op_register(operand)) {
                Some(number) => Some(run.state.vector(number)),
                None => {
                    let number = number(instruction.op_register(operand))?;
                    Some([run.state.get(number).clone(), zero()])
                }
            },
            OpKind::Memory => {
                let memory = info.used_memory().first()?;
                let address = semantics::address(run, instruction, memory);
                let next = address.map(|value| value.plus_number(8));
                let second = match memory.memory_size().size() {
                    8 => zero(),
                    _ => run.load(&next, 8),
                };
                Some([run.load(&address, 8), second])
            }
            _ => None,
        };
        let old = self.state.vector(into);
        let pair = match mnemonic {
            mnemonic if is_whole(mnemonic) => from(self),
            Mnemonic::Movq | Mnemonic::Vmovq => from(self).map(|[low, _]| [low, zero()]),
            Mnemonic::Movhps | Mnemonic::Movhpd | Mnemonic::Movlhps | Mnemonic::Punpcklqdq => {
                from(self).map(|[low, _]| [old[0].clone(), low])
            }
            Mnemonic::Vpunpcklqdq | Mnemonic::Vmovhps | Mnemonic::Vmovlhps => {
                let first = vector(instruction.op1_register());
                let first = first.map(|first| self.state.vector(first)[0].clone());
                first.and_then(|first| Some([first, from(self)?[0].clone()]))
            }
            Mnemonic::Vpinsrq | Mnemonic::Pinsrq => {
                let high = match instruction.op_kind(operand.wrapping_sub(1)) {
                    OpKind::Register => number(instruction.op_register(operand - 1))
                        .map(|register| self.state.get(register).clone()),
                    _ => info.used_memory().first().map(|memory| {
                        let address = semantics::address(self, instruction, memory);
                        self.load(&address, 8)
                    }),
                };
                let base = match mnemonic {
                    Mnemonic::Vpinsrq => {
                        vector(instruction.op1_register()).map(|first| self.state.vector(first))
                    }
                    _ => Some(old),
                };
                let second = instruction.try_immediate(operand).is_ok_and(|it| it == 1);
                match (base, high) {
                    (Some([low, _]), Some(high)) if second => Some([low, high]),
                    _ => None,
                }
            }
            Mnemonic::Pxor | Mnemonic::Xorps | Mnemonic::Xorpd
                if instruction.op1_kind() == OpKind::Register
                    && instruction.op1_register() == instruction.op0_register() =>
            {
                Some([zero(), zero()])
            }
            Mnemonic::Vpxor | Mnemonic::Vxorps
                if instruction.op_kind(2) == OpKind::Register
                    && instruction.op1_register() == instruction.op2_register() =>
            {
                Some([zero(), zero()])
            }
            _ => return false,
        };
        let unknown = || Values::from(Value::something(Lineage::OTHER));
        self.state
            .set_vector(into, pair.unwrap_or_else(|| [unknown(), unknown()]));
        true
    }

    /// A general-purpose register that is set to the lower word of a vector register.
    fn set_from_vector(&mut self, instruction: &Instruction) -> bool {
        if !matches!(instruction.mnemonic(), Mnemonic::Movq | Mnemonic::Vmovq)
            || instruction.op1_kind() != OpKind::Register
        {
            return false;
        }
        let (Some(into), Some(from)) = (
            number(instruction.op0_register()),
            vector(instruction.op1_register()),
        ) else {
            return false;
        };
        let [low, _] = self.state.vector(from);
        self.state.set(into, low);
        true
    }
}
