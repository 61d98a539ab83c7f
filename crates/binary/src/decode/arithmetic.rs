//! What instructions compute from registers, where that is a linear form or the low half of one.

use hitm_model::Register;
use iced_x86::{Instruction, Mnemonic, OpKind, Register as Name};

use super::execute::{State, Value, general};
use super::linear::Form;

impl State {
    /// The register that an instruction sets, and to what.
    pub(super) fn computed(&mut self, instruction: &Instruction) -> Option<(Register, Value)> {
        use Mnemonic::{Cdqe, Movsxd, Movzx};

        if instruction.mnemonic() == Cdqe {
            let eax = *self.get(Register::Rax);
            return Some((Register::Rax, self.symbols.low(&eax, u32::MAX, true).into()));
        }
        if instruction.op_count() == 0 || instruction.op0_kind() != OpKind::Register {
            return None;
        }
        let name = instruction.op0_register();
        if !name.is_gpr64() && !name.is_gpr32() {
            return None;
        }
        let register = general(name.full_register())?;
        let value = match instruction.mnemonic() {
            Movsxd if name.is_gpr64() => {
                let (from, mask) = part(instruction, 1)?;
                let from = *self.get(from);
                self.symbols.low(&from, mask, true).into()
            }
            Movzx => {
                let (from, mask) = part(instruction, 1)?;
                let from = *self.get(from);
                self.low(&from, mask)
            }
            Mnemonic::And => {
                let mask = self.operand(instruction, 1)?.as_constant()?;
                let mask = match name.is_gpr64() {
                    true => u32::try_from(mask).ok()?,
                    false => mask as u32,
                };
                let old = *self.get(register);
                self.low(&old, mask)
            }
            _ => {
                let form = self.linear(instruction, register)?;
                match name.is_gpr64() {
                    true => form.into(),
                    false => self.low(&form, u32::MAX),
                }
            }
        };
        Some((register, value))
    }

    /// Low 32 bits, of which the upper half is zero.
    pub(super) fn low(&mut self, form: &Form, mask: u32) -> Value {
        Value {
            form: self.symbols.low(form, mask, false),
            narrow: true,
        }
    }

    /// The result in 64 bits; of a 32-bit instruction, its low half.
    fn linear(&mut self, instruction: &Instruction, register: Register) -> Option<Form> {
        use Mnemonic::{Add, Dec, Imul, Inc, Lea, Neg, Not, Sal, Shl, Sub};

        let old = *self.get(register);
        Some(match instruction.mnemonic() {
            Add => old.plus(1, &self.operand(instruction, 1)?)?,
            Sub => old.plus(u64::MAX, &self.operand(instruction, 1)?)?,
            Inc => old.plus_constant(1),
            Dec => old.plus_constant(u64::MAX),
            Neg => old.times(u64::MAX),
            Not => old.times(u64::MAX).plus_constant(u64::MAX),
            Shl | Sal => {
                let count = self.operand(instruction, 1)?.as_constant()?;
                let bits = if instruction.op0_register().is_gpr64() {
                    64
                } else {
                    32
                };
                old.times(1 << (count & (bits - 1)))
            }
            Imul if instruction.op_count() == 3 => {
                let factor = self.operand(instruction, 2)?.as_constant()?;
                self.operand(instruction, 1)?.times(factor)
            }
            Lea => self.effective_address(instruction)?,
            _ => return None,
        })
    }

    /// What an instruction reads, of which as many bits count as are written.
    fn operand(&mut self, instruction: &Instruction, operand: u32) -> Option<Form> {
        match instruction.op_kind(operand) {
            OpKind::Register => {
                let name = instruction.op_register(operand);
                // A count of bits in `cl` is neither.
                if !name.is_gpr64() && !name.is_gpr32() {
                    return None;
                }
                Some(*self.get(general(name.full_register())?))
            }
            OpKind::Immediate32 | OpKind::Immediate8to32 => {
                Some(Form::constant(instruction.immediate(operand)))
            }
            _ => Some(self.source(instruction, operand)?.form),
        }
    }
}

/// The register that an operand is the lowest bits of, and which bits.
fn part(instruction: &Instruction, operand: u32) -> Option<(Register, u32)> {
    if instruction.op_kind(operand) != OpKind::Register {
        return None;
    }
    let name = instruction.op_register(operand);
    let mask = match name {
        Name::AH | Name::BH | Name::CH | Name::DH => return None,
        _ if name.is_gpr8() => 0xff,
        _ if name.is_gpr16() => 0xffff,
        _ if name.is_gpr32() => u32::MAX,
        _ => return None,
    };
    Some((general(name.full_register())?, mask))
}
