//! Random programs, run by a small interpreter that knows the true address of each access: whatever is resolved from
//! the registers at any instruction boundary must be the truth.

use hitm_binary::decode::{Code, Function, block_at, block_from};
use hitm_model::{AccessKind, Avma, Bias, Register, Registers, Svma};
use proptest::collection::vec;
use proptest::prelude::*;

const START: u64 = 0x1000;

/// A memory operand [base + index·2^scale + displacement]; index 4 is none, as in the encoding.
#[derive(Clone, Copy, Debug)]
struct Memory {
    base: u8,
    index: u8,
    scale: u8,
    displacement: i32,
}

/// One instruction; registers by their encoding.
#[derive(Clone, Copy, Debug)]
enum Op {
    Copy(u8, u8),
    Copy32(u8, u8),
    Constant32(u8, u32),
    Constant64(u8, u64),
    Zero(u8),
    LowByte(u8, u8),
    Add(u8, u8),
    Sub(u8, u8),
    AddConstant(u8, i32),
    SubConstant(u8, i32),
    AddConstant32(u8, i32),
    Inc(u8),
    Dec(u8),
    Neg(u8),
    Not(u8),
    Shl(u8, u8),
    Multiply(u8, u8, i32),
    Exchange(u8, u8),
    ConditionalCopy(u8, u8),
    Lea(u8, Memory),
    Load(u8, Memory),
    Load32(u8, Memory),
    Store(u8, Memory),
    AtomicAdd(u8, Memory),
    Push(u8),
    Pop(u8),
    Movs,
    NotTaken(u8),
}

fn op() -> impl Strategy<Value = Op> {
    let register = || prop_oneof![4 => 0u8..4, 1 => 0u8..16];
    let small = || prop_oneof![3 => -64i32..64, 1 => any::<i32>()];
    let memory = || {
        (register(), register(), 0u8..4, small()).prop_map(|(base, index, scale, displacement)| {
            Memory {
                base,
                index,
                scale,
                displacement,
            }
        })
    };
    prop_oneof![
        (register(), register()).prop_map(|(a, b)| Op::Copy(a, b)),
        (register(), register()).prop_map(|(a, b)| Op::Copy32(a, b)),
        (register(), any::<u32>()).prop_map(|(a, k)| Op::Constant32(a, k)),
        (register(), any::<u64>()).prop_map(|(a, k)| Op::Constant64(a, k)),
        register().prop_map(Op::Zero),
        (register(), any::<u8>()).prop_map(|(a, k)| Op::LowByte(a, k)),
        (register(), register()).prop_map(|(a, b)| Op::Add(a, b)),
        (register(), register()).prop_map(|(a, b)| Op::Sub(a, b)),
        (register(), small()).prop_map(|(a, k)| Op::AddConstant(a, k)),
        (register(), small()).prop_map(|(a, k)| Op::SubConstant(a, k)),
        (register(), small()).prop_map(|(a, k)| Op::AddConstant32(a, k)),
        register().prop_map(Op::Inc),
        register().prop_map(Op::Dec),
        register().prop_map(Op::Neg),
        register().prop_map(Op::Not),
        (register(), 0u8..64).prop_map(|(a, k)| Op::Shl(a, k)),
        (register(), register(), small()).prop_map(|(a, b, k)| Op::Multiply(a, b, k)),
        (register(), register()).prop_map(|(a, b)| Op::Exchange(a, b)),
        (register(), register()).prop_map(|(a, b)| Op::ConditionalCopy(a, b)),
        (register(), memory()).prop_map(|(a, m)| Op::Lea(a, m)),
        (register(), memory()).prop_map(|(a, m)| Op::Load(a, m)),
        (register(), memory()).prop_map(|(a, m)| Op::Load32(a, m)),
        (register(), memory()).prop_map(|(a, m)| Op::Store(a, m)),
        (register(), memory()).prop_map(|(a, m)| Op::AtomicAdd(a, m)),
        register().prop_map(Op::Push),
        register().prop_map(Op::Pop),
        Just(Op::Movs),
        (0u8..40).prop_map(Op::NotTaken),
    ]
}

/// Appends the encoding; a branch's target is filled in later.
fn encode(op: Op, out: &mut Vec<u8>) {
    match op {
        Op::Copy(to, from) => direct(out, true, &[0x89], from, to),
        Op::Copy32(to, from) => direct(out, false, &[0x89], from, to),
        Op::Constant32(to, k) => {
            out.extend([0x40 | to >> 3, 0xb8 | to & 7]);
            out.extend(k.to_le_bytes());
        }
        Op::Constant64(to, k) => {
            out.extend([0x48 | to >> 3, 0xb8 | to & 7]);
            out.extend(k.to_le_bytes());
        }
        Op::Zero(to) => direct(out, false, &[0x31], to, to),
        Op::LowByte(to, k) => out.extend([0x40 | to >> 3, 0xb0 | to & 7, k]),
        Op::Add(to, from) => direct(out, true, &[0x01], from, to),
        Op::Sub(to, from) => direct(out, true, &[0x29], from, to),
        Op::AddConstant(to, k) => {
            direct(out, true, &[0x81], 0, to);
            out.extend(k.to_le_bytes());
        }
        Op::SubConstant(to, k) => {
            direct(out, true, &[0x81], 5, to);
            out.extend(k.to_le_bytes());
        }
        Op::AddConstant32(to, k) => {
            direct(out, false, &[0x81], 0, to);
            out.extend(k.to_le_bytes());
        }
        Op::Inc(to) => direct(out, true, &[0xff], 0, to),
        Op::Dec(to) => direct(out, true, &[0xff], 1, to),
        Op::Neg(to) => direct(out, true, &[0xf7], 3, to),
        Op::Not(to) => direct(out, true, &[0xf7], 2, to),
        Op::Shl(to, k) => {
            direct(out, true, &[0xc1], 4, to);
            out.push(k);
        }
        Op::Multiply(to, from, k) => {
            direct(out, true, &[0x69], to, from);
            out.extend(k.to_le_bytes());
        }
        Op::Exchange(a, b) => direct(out, true, &[0x87], a, b),
        Op::ConditionalCopy(to, from) => direct(out, true, &[0x0f, 0x44], to, from),
        Op::Lea(to, m) => indirect(out, true, &[0x8d], to, m),
        Op::Load(to, m) => indirect(out, true, &[0x8b], to, m),
        Op::Load32(to, m) => indirect(out, false, &[0x8b], to, m),
        Op::Store(from, m) => indirect(out, true, &[0x89], from, m),
        Op::AtomicAdd(from, m) => {
            out.push(0xf0);
            indirect(out, true, &[0x0f, 0xc1], from, m);
        }
        Op::Push(from) => out.extend([0x40 | from >> 3, 0x50 | from & 7]),
        Op::Pop(to) => out.extend([0x40 | to >> 3, 0x58 | to & 7]),
        Op::Movs => out.extend([0x48, 0xa5]),
        Op::NotTaken(_) => out.extend([0x0f, 0x84, 0, 0, 0, 0]),
    }
}

fn direct(out: &mut Vec<u8>, wide: bool, opcode: &[u8], reg: u8, rm: u8) {
    out.push(0x40 | u8::from(wide) << 3 | reg >> 3 << 2 | rm >> 3);
    out.extend(opcode);
    out.push(0xc0 | (reg & 7) << 3 | rm & 7);
}

fn indirect(out: &mut Vec<u8>, wide: bool, opcode: &[u8], reg: u8, m: Memory) {
    out.push(0x40 | u8::from(wide) << 3 | reg >> 3 << 2 | m.index >> 3 << 1 | m.base >> 3);
    out.extend(opcode);
    out.push(0x84 | (reg & 7) << 3);
    out.push(m.scale << 6 | (m.index & 7) << 3 | m.base & 7);
    out.extend(m.displacement.to_le_bytes());
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Truth {
    kind: AccessKind,
    size: u32,
    address: u64,
}

/// The interpreter. Memory belongs to other threads as well: each load gives the next of the given words.
struct Machine {
    registers: Registers,
    words: std::iter::Cycle<std::vec::IntoIter<u64>>,
    accesses: Vec<Truth>,
}

impl Machine {
    fn get(&self, register: u8) -> u64 {
        self.registers.gpr[usize::from(register)]
    }

    fn set(&mut self, register: u8, value: u64) {
        self.registers.gpr[usize::from(register)] = value;
    }

    fn address(&self, m: Memory) -> u64 {
        let index = match m.index {
            4 => 0,
            index => self.get(index) << m.scale,
        };
        self.get(m.base)
            .wrapping_add(index)
            .wrapping_add(m.displacement as u64)
    }

    fn access(&mut self, kind: AccessKind, size: u32, address: u64) -> u64 {
        self.accesses.push(Truth {
            kind,
            size,
            address,
        });
        self.words.next().unwrap()
    }

    fn execute(&mut self, op: Op) {
        const RSP: u8 = 4;
        const RSI: u8 = 6;
        const RDI: u8 = 7;
        match op {
            Op::Copy(to, from) => self.set(to, self.get(from)),
            Op::Copy32(to, from) => self.set(to, u64::from(self.get(from) as u32)),
            Op::Constant32(to, k) => self.set(to, u64::from(k)),
            Op::Constant64(to, k) => self.set(to, k),
            Op::Zero(to) => self.set(to, 0),
            Op::LowByte(to, k) => self.set(to, self.get(to) & !0xff | u64::from(k)),
            Op::Add(to, from) => self.set(to, self.get(to).wrapping_add(self.get(from))),
            Op::Sub(to, from) => self.set(to, self.get(to).wrapping_sub(self.get(from))),
            Op::AddConstant(to, k) => self.set(to, self.get(to).wrapping_add(k as u64)),
            Op::SubConstant(to, k) => self.set(to, self.get(to).wrapping_sub(k as u64)),
            Op::AddConstant32(to, k) => {
                self.set(to, u64::from((self.get(to) as u32).wrapping_add(k as u32)));
            }
            Op::Inc(to) => self.set(to, self.get(to).wrapping_add(1)),
            Op::Dec(to) => self.set(to, self.get(to).wrapping_sub(1)),
            Op::Neg(to) => self.set(to, self.get(to).wrapping_neg()),
            Op::Not(to) => self.set(to, !self.get(to)),
            Op::Shl(to, k) => self.set(to, self.get(to) << k),
            Op::Multiply(to, from, k) => self.set(to, self.get(from).wrapping_mul(k as u64)),
            Op::Exchange(a, b) => {
                let value = self.get(a);
                self.set(a, self.get(b));
                self.set(b, value);
            }
            Op::ConditionalCopy(to, from) => {
                if self.words.next().unwrap() & 1 == 0 {
                    self.set(to, self.get(from));
                }
            }
            Op::Lea(to, m) => self.set(to, self.address(m)),
            Op::Load(to, m) => {
                let value = self.access(AccessKind::Read, 8, self.address(m));
                self.set(to, value);
            }
            Op::Load32(to, m) => {
                let value = self.access(AccessKind::Read, 4, self.address(m));
                self.set(to, u64::from(value as u32));
            }
            Op::Store(_, m) => {
                self.access(AccessKind::Write, 8, self.address(m));
            }
            Op::AtomicAdd(from, m) => {
                let value = self.access(AccessKind::Atomic, 8, self.address(m));
                self.set(from, value);
            }
            Op::Push(_) => {
                let top = self.get(RSP).wrapping_sub(8);
                self.access(AccessKind::Write, 8, top);
                self.set(RSP, top);
            }
            Op::Pop(to) => {
                let top = self.get(RSP);
                let value = self.access(AccessKind::Read, 8, top);
                self.set(RSP, top.wrapping_add(8));
                self.set(to, value);
            }
            Op::Movs => {
                self.access(AccessKind::Read, 8, self.get(RSI));
                self.access(AccessKind::Write, 8, self.get(RDI));
                self.set(RSI, self.get(RSI).wrapping_add(8));
                self.set(RDI, self.get(RDI).wrapping_add(8));
            }
            Op::NotTaken(_) => {}
        }
    }
}

/// A program's bytes, and where each instruction is.
fn assemble(ops: &[Op]) -> (Vec<u8>, Vec<u64>) {
    let (mut bytes, mut offsets) = (Vec::new(), Vec::new());
    for &op in ops {
        offsets.push(bytes.len() as u64);
        encode(op, &mut bytes);
    }
    for (at, &op) in ops.iter().enumerate() {
        let Op::NotTaken(target) = op else { continue };
        let target = offsets[usize::from(target) % ops.len()] as i32;
        let end = offsets[at] as usize + 6;
        bytes[end - 4..end].copy_from_slice(&(target - end as i32).to_le_bytes());
    }
    (bytes, offsets)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_resolved_is_true(
        ops in vec(op(), 1..40),
        registers in any::<[u64; 16]>(),
        words in vec(any::<u64>(), 1..8),
    ) {
        let (bytes, offsets) = assemble(&ops);
        let mut machine = Machine {
            registers: Registers { ip: Avma(0), gpr: registers },
            words: words.into_iter().cycle(),
            accesses: Vec::new(),
        };
        let (mut before, mut truths) = (Vec::new(), Vec::new());
        for &op in &ops {
            before.push(machine.registers);
            machine.execute(op);
            truths.push(std::mem::take(&mut machine.accesses));
        }

        let code = Code { start: Svma(START), bytes: &bytes };
        let function = Function::new(code);
        for (at, offset) in offsets.iter().enumerate() {
            let block = function.block_at(Svma(START + offset)).unwrap();
            let mut n_here = 0;
            for operand in &block.operands {
                let address = operand.resolve(&before[at], Bias(0), None).unwrap().start;
                let truth = Truth { kind: operand.kind, size: operand.size, address: address.0 };
                let instruction = offsets.binary_search(&(operand.instruction.0 - START)).unwrap();
                prop_assert_eq!(instruction as i32, at as i32 + operand.place);
                prop_assert!(
                    truths[instruction].contains(&truth),
                    "at {:?}: {:?} of {:?} is not among {:?}",
                    ops[at], operand, ops[instruction], truths[instruction]
                );
                if let Some((base, value)) = operand.base {
                    let value = value.resolve(&before[at], Bias(0), None).unwrap();
                    prop_assert_eq!(value.0, before[instruction].get(base));
                }
                n_here += usize::from(operand.place == 0);
            }
            // The registers at an instruction give all that it accesses.
            prop_assert_eq!(n_here, truths[at].len());
        }
    }

    #[test]
    fn any_bytes_are_input(bytes in vec(any::<u8>(), 0..200)) {
        let code = Code { start: Svma(START), bytes: &bytes };
        for offset in 0..bytes.len() + 2 {
            if let Ok(block) = block_at(code, Svma(START + offset as u64)) {
                let mut registers = Registers::default();
                registers.set(Register::Rcx, u64::MAX);
                for operand in &block.operands {
                    let _ = operand.resolve(&registers, Bias(u64::MAX), None);
                    prop_assert!(block.range.contains(operand.instruction));
                }
            }
        }
        let _ = block_from(code);
    }
}
