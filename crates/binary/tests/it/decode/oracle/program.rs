//! Instructions, random programs of them, and their encoding.

use proptest::collection::vec;
use proptest::prelude::*;

pub(super) const RSP: u8 = 4;
pub(super) const RBP: u8 = 5;
pub(super) const RSI: u8 = 6;
pub(super) const RDI: u8 = 7;

pub(super) const NO_INDEX: u8 = 4;

/// A memory operand [base + index·2^scale + displacement].
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    pub(super) base: u8,
    pub(super) index: u8,
    pub(super) scale: u8,
    pub(super) displacement: i32,
}

/// One instruction; registers by their encoding.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
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
    And(u8, i32),
    And32(u8, i32),
    ByteOf(u8, u8),
    SignExtended(u8, u8),
    Lea32(u8, Memory),
    Shl32(u8, u8),
    /// `mov rbp, rsp`
    FramePointer,
    Load(u8, Memory),
    AddLoaded(u8, Memory),
    Load32(u8, Memory),
    Store(u8, Memory),
    Store32(u8, Memory),
    StoreConstant(i32, Memory),
    AddTo(u8, Memory),
    Dec64(Memory),
    AtomicAdd(u8, Memory),
    Push(u8),
    Pop(u8),
    Leave,
    Movs,
    NotTaken(u8),
}

fn register() -> impl Strategy<Value = u8> {
    prop_oneof![4 => 0u8..4, 1 => 0u8..16]
}

fn small() -> impl Strategy<Value = i32> {
    prop_oneof![3 => -64i32..64, 1 => any::<i32>()]
}

fn anywhere() -> impl Strategy<Value = Memory> {
    (register(), register(), 0u8..4, small()).prop_map(|(base, index, scale, displacement)| {
        Memory {
            base,
            index,
            scale,
            displacement,
        }
    })
}

fn at(base: u8, displacement: i32) -> Memory {
    Memory {
        base,
        index: NO_INDEX,
        scale: 0,
        displacement,
    }
}

/// One of few words of the frame, some of which overlap.
fn word() -> impl Strategy<Value = Memory> {
    let displacement = prop_oneof![4 => (-1i32..2).prop_map(|at| 8 * at), 1 => -12i32..12];
    (RSP..=RBP, displacement).prop_map(|(base, displacement)| at(base, displacement))
}

/// A program that keeps its pointers in the frame, and uses them.
pub(super) fn spilling() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => (0u8..4, word()).prop_map(|(a, m)| Op::Load(a, m)),
        6 => (0u8..4, word()).prop_map(|(a, m)| Op::Store(a, m)),
        8 => (0u8..4, 0u8..4).prop_map(|(a, b)| Op::Load(a, at(b, 0))),
        2 => (0u8..4, 0u8..4).prop_map(|(a, b)| Op::Store(a, at(b, 0))),
        2 => (0u8..4, word()).prop_map(|(a, m)| Op::Lea(a, m)),
        2 => (0u8..4, word()).prop_map(|(a, m)| Op::Store32(a, m)),
        1 => (0u8..4, word()).prop_map(|(a, m)| Op::AddTo(a, m)),
        1 => (0u8..4, word()).prop_map(|(a, m)| Op::AtomicAdd(a, m)),
        1 => (0u8..4).prop_map(Op::Push),
        1 => (0u8..4).prop_map(Op::Pop),
    ];
    let start = prop_oneof![
        Just(vec![]),
        Just(vec![Op::FramePointer]),
        Just(vec![Op::FramePointer, Op::Copy(RBP, 3)]),
    ];
    (start, vec(op, 1..30)).prop_map(|(start, ops)| [start, ops].concat())
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    let memory = || prop_oneof![anywhere(), word()];
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
        (register(), any::<i32>()).prop_map(|(a, k)| Op::And(a, k)),
        (register(), any::<i32>()).prop_map(|(a, k)| Op::And32(a, k)),
        (register(), register()).prop_map(|(a, b)| Op::ByteOf(a, b)),
        (register(), register()).prop_map(|(a, b)| Op::SignExtended(a, b)),
        (register(), memory()).prop_map(|(a, m)| Op::Lea32(a, m)),
        (register(), 0u8..64).prop_map(|(a, k)| Op::Shl32(a, k)),
        Just(Op::FramePointer),
        (register(), memory()).prop_map(|(a, m)| Op::Load(a, m)),
        (register(), memory()).prop_map(|(a, m)| Op::AddLoaded(a, m)),
        (register(), memory()).prop_map(|(a, m)| Op::Load32(a, m)),
        (register(), memory()).prop_map(|(a, m)| Op::Store(a, m)),
        (register(), memory()).prop_map(|(a, m)| Op::Store32(a, m)),
        (any::<i32>(), memory()).prop_map(|(k, m)| Op::StoreConstant(k, m)),
        (register(), memory()).prop_map(|(a, m)| Op::AddTo(a, m)),
        memory().prop_map(Op::Dec64),
        (register(), memory()).prop_map(|(a, m)| Op::AtomicAdd(a, m)),
        register().prop_map(Op::Push),
        register().prop_map(Op::Pop),
        Just(Op::Leave),
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
        Op::And(to, k) => {
            direct(out, true, &[0x81], 4, to);
            out.extend(k.to_le_bytes());
        }
        Op::And32(to, k) => {
            direct(out, false, &[0x81], 4, to);
            out.extend(k.to_le_bytes());
        }
        Op::ByteOf(to, from) => direct(out, false, &[0x0f, 0xb6], to, from),
        Op::SignExtended(to, from) => direct(out, true, &[0x63], to, from),
        Op::Lea32(to, m) => indirect(out, false, &[0x8d], to, m),
        Op::Shl32(to, k) => {
            direct(out, false, &[0xc1], 4, to);
            out.push(k);
        }
        Op::FramePointer => direct(out, true, &[0x89], 4, 5),
        Op::Load(to, m) => indirect(out, true, &[0x8b], to, m),
        Op::AddLoaded(to, m) => indirect(out, true, &[0x03], to, m),
        Op::Load32(to, m) => indirect(out, false, &[0x8b], to, m),
        Op::Store(from, m) => indirect(out, true, &[0x89], from, m),
        Op::Store32(from, m) => indirect(out, false, &[0x89], from, m),
        Op::StoreConstant(k, m) => {
            indirect(out, true, &[0xc7], 0, m);
            out.extend(k.to_le_bytes());
        }
        Op::AddTo(from, m) => indirect(out, true, &[0x01], from, m),
        Op::Dec64(m) => indirect(out, true, &[0xff], 1, m),
        Op::AtomicAdd(from, m) => {
            out.push(0xf0);
            indirect(out, true, &[0x0f, 0xc1], from, m);
        }
        Op::Push(from) => out.extend([0x40 | from >> 3, 0x50 | from & 7]),
        Op::Pop(to) => out.extend([0x40 | to >> 3, 0x58 | to & 7]),
        Op::Leave => out.push(0xc9),
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

/// Whether an instruction has `rbp` point to somewhere else than to the frame.
pub(super) fn misuses_frame_pointer(op: Op) -> bool {
    match op {
        Op::Copy(RBP, RSP) => false,
        Op::Lea(RBP, memory) if (memory.base, memory.index) == (RSP, NO_INDEX) => false,
        _ => destinations(op).contains(&Some(RBP)),
    }
}

/// The registers that an instruction names as destination.
fn destinations(op: Op) -> [Option<u8>; 2] {
    match op {
        Op::Exchange(a, b) => [Some(a), Some(b)],
        Op::FramePointer
        | Op::Store(..)
        | Op::Store32(..)
        | Op::StoreConstant(..)
        | Op::AddTo(..)
        | Op::Dec64(_)
        | Op::Push(_)
        | Op::Pop(_)
        | Op::Leave
        | Op::Movs
        | Op::NotTaken(_) => [None; 2],
        Op::Copy(to, _)
        | Op::Copy32(to, _)
        | Op::Constant32(to, _)
        | Op::Constant64(to, _)
        | Op::Zero(to)
        | Op::LowByte(to, _)
        | Op::Add(to, _)
        | Op::Sub(to, _)
        | Op::AddConstant(to, _)
        | Op::SubConstant(to, _)
        | Op::AddConstant32(to, _)
        | Op::Inc(to)
        | Op::Dec(to)
        | Op::Neg(to)
        | Op::Not(to)
        | Op::Shl(to, _)
        | Op::Multiply(to, ..)
        | Op::ConditionalCopy(to, _)
        | Op::Lea(to, _)
        | Op::And(to, _)
        | Op::And32(to, _)
        | Op::ByteOf(to, _)
        | Op::SignExtended(to, _)
        | Op::Lea32(to, _)
        | Op::Shl32(to, _)
        | Op::Load(to, _)
        | Op::AddLoaded(to, _)
        | Op::Load32(to, _)
        | Op::AtomicAdd(to, _) => [Some(to), None],
    }
}

/// A program's bytes, and where each instruction is.
pub(super) fn assemble(ops: &[Op]) -> (Vec<u8>, Vec<u64>) {
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
