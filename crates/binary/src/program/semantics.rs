//! What instructions do to the general-purpose registers, over any idea of what memory holds.

use iced_x86::{
    Instruction, InstructionInfo, Mnemonic, OpAccess, OpKind, Register as Name, UsedMemory,
};

use super::flow::{number, writes};
use super::registers::{RBP, RSP};
use super::value::{Lineage, Origin, Value, Values};

/// Files are loaded at multiples of this at least.
const SMALLEST_PAGE: u64 = 4096;

/// What an instruction is executed on.
pub(super) trait Machine {
    /// What a number that stands in the code is: an address, where the file is not moved when it is loaded and has
    /// something there.
    fn number(&self, number: i64) -> Value;
    /// What a register holds.
    fn get(&self, register: usize) -> &Values;
    /// Sets a register.
    fn set(&mut self, register: usize, values: Values);
    /// What is in memory at one of these addresses.
    fn load(&self, address: &Values, size: usize) -> Values;
    /// Stores a word of eight bytes where the stack pointer is.
    fn push(&mut self, at: &Values, values: Values);
}

/// The address that an instruction forms without accessing it.
pub(super) fn formed(machine: &impl Machine, instruction: &Instruction) -> Values {
    if instruction.is_ip_rel_memory_operand() {
        return Value::in_file(instruction.ip_rel_memory_address()).into();
    }
    sum(
        machine,
        instruction.memory_base(),
        instruction.memory_index(),
        instruction.memory_index_scale(),
        instruction.memory_displacement64(),
    )
}

/// The address of a memory operand, without the segment.
pub(super) fn address(
    machine: &impl Machine,
    instruction: &Instruction,
    memory: &UsedMemory,
) -> Values {
    if memory.base() == Name::RIP
        || (instruction.is_ip_rel_memory_operand() && memory.base() == Name::None)
    {
        return Value::in_file(memory.displacement()).into();
    }
    sum(
        machine,
        memory.base(),
        memory.index(),
        memory.scale(),
        memory.displacement(),
    )
}

fn sum(machine: &impl Machine, base: Name, index: Name, scale: u32, displacement: u64) -> Values {
    let mut sum: Values = machine.number(displacement.cast_signed()).into();
    if let Some(base) = number(base) {
        sum = machine.get(base).combine(&sum, Value::plus);
    }
    if let Some(index) = number(index) {
        let scale = i64::from(scale);
        let index = machine.get(index).map(|value| value.times(scale));
        sum = sum.combine(&index, Value::plus);
    }
    sum
}

/// What a 32-bit copy keeps of a value: of an address too, where it is a number of the code.
pub(super) fn low_half(machine: &impl Machine, value: Value) -> Value {
    let is_short = value.origin == Origin::File && u32::try_from(value.offset).is_ok();
    if is_short && machine.number(value.offset).origin == Origin::File {
        value
    } else {
        value.low_half()
    }
}

/// What a load gives.
pub(super) fn loaded(
    machine: &impl Machine,
    instruction: &Instruction,
    memory: &UsedMemory,
) -> Values {
    if memory.segment() == Name::FS {
        return Value::something(Lineage::THREAD).into();
    }
    let address = address(machine, instruction, memory);
    machine.load(&address, memory.memory_size().size())
}

/// The value of a source operand.
pub(super) fn source(
    machine: &impl Machine,
    instruction: &Instruction,
    info: &InstructionInfo,
    operand: u32,
) -> Values {
    match instruction.op_kind(operand) {
        OpKind::Register => match number(instruction.op_register(operand)) {
            Some(register) => {
                let values = machine.get(register);
                match instruction.op_register(operand).size() {
                    8 => values.clone(),
                    4 => values.map(|value| low_half(machine, value)),
                    _ => Value::something(values.lineage()).into(),
                }
            }
            None => Value::something(Lineage::OTHER).into(),
        },
        OpKind::Memory => match info.used_memory().first() {
            Some(memory) => loaded(machine, instruction, memory),
            None => Value::something(Lineage::OTHER).into(),
        },
        _ => match instruction.try_immediate(operand) {
            Ok(number) => machine.number(number.cast_signed()).into(),
            Err(_) => Value::something(Lineage::OTHER).into(),
        },
    }
}

/// Executes an instruction that is no jump and no call; returns what it set, if it set one register to something known.
pub(super) fn execute<M: Machine>(
    machine: &mut M,
    instruction: &Instruction,
    info: &InstructionInfo,
) -> Option<Values> {
    match simple(machine, instruction, info) {
        Some((register, values)) => {
            machine.set(register, values.clone());
            Some(values)
        }
        None => {
            general(machine, info);
            None
        }
    }
}

/// The new value of the only register that a simple instruction sets.
fn simple<M: Machine>(
    machine: &mut M,
    instruction: &Instruction,
    info: &InstructionInfo,
) -> Option<(usize, Values)> {
    match instruction.mnemonic() {
        Mnemonic::Push => {
            let pushed = source(machine, instruction, info, 0);
            let top = machine.get(RSP).map(|value| value.plus_number(-8));
            machine.push(&top, pushed);
            return Some((RSP, top));
        }
        Mnemonic::Pop if instruction.op0_kind() == OpKind::Register => {
            let register = number(instruction.op0_register())?;
            let popped = machine.load(machine.get(RSP), 8);
            let top = machine.get(RSP).map(|value| value.plus_number(8));
            machine.set(RSP, top);
            return Some((register, popped));
        }
        Mnemonic::Leave => {
            let top = machine.get(RBP).map(|value| value.plus_number(8));
            let popped = machine.load(machine.get(RBP), 8);
            machine.set(RBP, popped);
            return Some((RSP, top));
        }
        _ => {}
    }
    if instruction.op_count() < 2
        && !matches!(instruction.mnemonic(), Mnemonic::Inc | Mnemonic::Dec)
        || instruction.op0_kind() != OpKind::Register
    {
        return None;
    }
    let name = instruction.op0_register();
    let register = number(name).filter(|_| name.size() >= 4)?;
    let wide = name.size() == 8;
    let machine = &*machine;
    let values = result(machine, instruction, info)?;
    Some((
        register,
        if wide {
            values
        } else {
            values.map(|value| low_half(machine, value))
        },
    ))
}

/// What an instruction that sets its first operand, a register, sets it to.
fn result(
    machine: &impl Machine,
    instruction: &Instruction,
    info: &InstructionInfo,
) -> Option<Values> {
    let name = instruction.op0_register();
    let from = |operand| source(machine, instruction, info, operand);
    let own = || from(0);
    let constant = |operand| match from(operand).all() {
        [value] => value.as_number(),
        _ => None,
    };
    Some(match instruction.mnemonic() {
        Mnemonic::Mov => from(1),
        Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd => {
            let values = from(1);
            match values.all() {
                [value] if value.as_number().is_some_and(|number| number >= 0) => values,
                _ => Value::something(values.lineage()).into(),
            }
        }
        Mnemonic::Lea => formed(machine, instruction),
        Mnemonic::Add => own().combine(&from(1), Value::plus),
        Mnemonic::Sub if constant(1).is_some() => {
            let by = constant(1)?.wrapping_neg();
            own().map(|value| value.plus_number(by))
        }
        Mnemonic::Inc => own().map(|value| value.plus_number(1)),
        Mnemonic::Dec => own().map(|value| value.plus_number(-1)),
        Mnemonic::Shl | Mnemonic::Sal => {
            let by = constant(1).filter(|by| (0..31).contains(by))?;
            own().map(|value| value.times(1 << by))
        }
        Mnemonic::Imul if instruction.op_count() == 3 => {
            let by = constant(2)?;
            from(1).map(|value| value.times(by))
        }
        Mnemonic::Xor | Mnemonic::Sub
            if instruction.op1_kind() == OpKind::Register && instruction.op1_register() == name =>
        {
            Value::number(0).into()
        }
        Mnemonic::Xor | Mnemonic::And | Mnemonic::Or => {
            let (left, right) = (own(), from(1));
            let ([left], [right]) = (left.all(), right.all()) else {
                return None;
            };
            let number = bits(instruction.mnemonic(), *left, *right)?;
            Value::number(number).into()
        }
        mnemonic if crate::decode::is_conditional_move(mnemonic) => own().join(&from(1)),
        _ => return None,
    })
}

/// What bits of two numbers make; the difference of two addresses of one page does not depend on where the file is loaded.
fn bits(mnemonic: Mnemonic, left: Value, right: Value) -> Option<i64> {
    if let (Mnemonic::Xor, Some(left), Some(right)) =
        (mnemonic, left.as_address(), right.as_address())
    {
        let differ = left ^ right;
        return (differ < SMALLEST_PAGE).then(|| differ.cast_signed());
    }
    let (left, right) = (left.as_number()?, right.as_number()?);
    match mnemonic {
        Mnemonic::Xor => Some(left ^ right),
        Mnemonic::And => Some(left & right),
        Mnemonic::Or => Some(left | right),
        _ => None,
    }
}

/// Everything an instruction writes is made from everything it reads.
fn general(machine: &mut impl Machine, info: &InstructionInfo) {
    let mut made = Lineage::NONE;
    for used in info.used_registers() {
        let reads = !matches!(used.access(), OpAccess::Write | OpAccess::CondWrite);
        match number(used.register()) {
            Some(register) if reads => made = made.with(machine.get(register).lineage()),
            None if reads && used.register().is_vector_register() => {
                made = made.with(Lineage::OTHER);
            }
            _ => {}
        }
    }
    for memory in info.used_memory() {
        made = made.with(match memory.segment() {
            Name::FS => Lineage::THREAD,
            _ => Lineage::OTHER,
        });
    }
    let mut changed = 0;
    for used in info.used_registers() {
        if writes(used.access())
            && let Some(register) = number(used.register())
        {
            changed |= 1u16 << register;
        }
    }
    for register in 0..16 {
        if changed >> register & 1 == 1 {
            machine.set(register, Value::something(made).into());
        }
    }
}

/// Whether it compares or exchanges, as taking a lock does.
pub(super) fn is_exchange(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Cmpxchg
            | Mnemonic::Cmpxchg8b
            | Mnemonic::Cmpxchg16b
            | Mnemonic::Xchg
            | Mnemonic::Bts
    )
}
