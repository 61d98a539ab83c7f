//! The interpreter, which knows the truth.

use std::collections::HashMap;

use hitm_model::{AccessKind, Registers};

use super::program::{Memory, NO_INDEX, Op, RBP, RDI, RSI, RSP};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Truth {
    pub(super) kind: AccessKind,
    pub(super) size: u32,
    pub(super) address: u64,
}

/// The interpreter. What is not near the stack pointer, or the frame pointer if there is one, belongs to other threads
/// as well: each load gives the next of the given words.
pub(super) struct Machine {
    pub(super) registers: Registers,
    pub(super) has_frame_pointer: bool,
    pub(super) memory: HashMap<u64, u8>,
    pub(super) words: std::iter::Cycle<std::vec::IntoIter<u64>>,
    pub(super) accesses: Vec<Truth>,
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
            NO_INDEX => 0,
            index => self.get(index) << m.scale,
        };
        self.get(m.base)
            .wrapping_add(index)
            .wrapping_add(m.displacement as u64)
    }

    fn access(&mut self, kind: AccessKind, size: u32, address: u64) {
        self.accesses.push(Truth {
            kind,
            size,
            address,
        });
    }

    fn belongs_to_frame(&self, address: u64) -> bool {
        let is_near = |register| {
            let distance = address.wrapping_sub(self.get(register)).cast_signed();
            i32::try_from(distance).is_ok()
        };
        is_near(RSP) || self.has_frame_pointer && is_near(RBP)
    }

    fn word_at(&mut self, address: u64) -> u64 {
        let mut bytes = self.words.next().unwrap().to_le_bytes();
        if self.belongs_to_frame(address) {
            for (at, byte) in bytes.iter_mut().enumerate() {
                let address = address.wrapping_add(at as u64);
                *byte = *self.memory.entry(address).or_insert(*byte);
            }
        }
        u64::from_le_bytes(bytes)
    }

    fn put(&mut self, address: u64, bytes: &[u8]) {
        let addresses = (0..).map(|at| address.wrapping_add(at));
        self.memory.extend(addresses.zip(bytes.iter().copied()));
    }

    fn load(&mut self, address: u64) -> u64 {
        self.access(AccessKind::Read, 8, address);
        self.word_at(address)
    }

    fn store(&mut self, address: u64, value: u64) {
        self.access(AccessKind::Write, 8, address);
        self.put(address, &value.to_le_bytes());
    }

    fn update(&mut self, address: u64, addend: u64) {
        self.access(AccessKind::Update, 8, address);
        let sum = self.word_at(address).wrapping_add(addend);
        self.put(address, &sum.to_le_bytes());
    }

    pub(super) fn execute(&mut self, op: Op) {
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
            Op::And(to, k) => self.set(to, self.get(to) & k as u64),
            Op::And32(to, k) => self.set(to, self.get(to) & u64::from(k as u32)),
            Op::ByteOf(to, from) => self.set(to, self.get(from) & 0xff),
            Op::SignExtended(to, from) => self.set(to, self.get(from) as i32 as u64),
            Op::Lea32(to, m) => self.set(to, u64::from(self.address(m) as u32)),
            Op::Shl32(to, k) => self.set(to, u64::from((self.get(to) as u32) << (k & 31))),
            Op::FramePointer => self.set(RBP, self.get(RSP)),
            Op::Load(to, m) => {
                let value = self.load(self.address(m));
                self.set(to, value);
            }
            Op::AddLoaded(to, m) => {
                let value = self.load(self.address(m));
                self.set(to, self.get(to).wrapping_add(value));
            }
            Op::Load32(to, m) => {
                let address = self.address(m);
                self.access(AccessKind::Read, 4, address);
                let value = self.word_at(address);
                self.set(to, u64::from(value as u32));
            }
            Op::Store(from, m) => self.store(self.address(m), self.get(from)),
            Op::Store32(from, m) => {
                let address = self.address(m);
                self.access(AccessKind::Write, 4, address);
                self.put(address, &self.get(from).to_le_bytes()[..4]);
            }
            Op::StoreConstant(k, m) => self.store(self.address(m), k as u64),
            Op::AddTo(from, m) => self.update(self.address(m), self.get(from)),
            Op::Dec64(m) => self.update(self.address(m), u64::MAX),
            Op::AtomicAdd(from, m) => {
                let address = self.address(m);
                self.access(AccessKind::Atomic, 8, address);
                // With it, other threads may hand over what they did to the frame.
                self.memory.clear();
                let value = self.words.next().unwrap();
                self.set(from, value);
            }
            Op::Push(from) => {
                let value = self.get(from);
                let top = self.get(RSP).wrapping_sub(8);
                self.store(top, value);
                self.set(RSP, top);
            }
            Op::Pop(to) => {
                let top = self.get(RSP);
                let value = self.load(top);
                self.set(RSP, top.wrapping_add(8));
                self.set(to, value);
            }
            Op::Leave => {
                let top = self.get(RBP);
                let value = self.load(top);
                self.set(RSP, top.wrapping_add(8));
                self.set(RBP, value);
            }
            Op::Movs => {
                let value = self.load(self.get(RSI));
                self.store(self.get(RDI), value);
                self.set(RSI, self.get(RSI).wrapping_add(8));
                self.set(RDI, self.get(RDI).wrapping_add(8));
            }
            Op::NotTaken(_) => {}
        }
    }
}
