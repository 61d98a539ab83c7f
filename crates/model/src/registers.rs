//! The register state that comes with a sample.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Avma;

/// A general-purpose register of x86-64, in the order of its encoding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the registers")]
pub enum Register {
    Rax,
    Rcx,
    Rdx,
    Rbx,
    Rsp,
    Rbp,
    Rsi,
    Rdi,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
}

impl Register {
    /// All of them, in the order of their encoding.
    pub const ALL: [Self; 16] = [
        Self::Rax,
        Self::Rcx,
        Self::Rdx,
        Self::Rbx,
        Self::Rsp,
        Self::Rbp,
        Self::Rsi,
        Self::Rdi,
        Self::R8,
        Self::R9,
        Self::R10,
        Self::R11,
        Self::R12,
        Self::R13,
        Self::R14,
        Self::R15,
    ];

    /// Its place in [`Registers`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The register with a DWARF register number (System V ABI for AMD64, figure 3.36).
    #[must_use]
    pub const fn from_dwarf(number: u16) -> Option<Self> {
        Some(match number {
            0 => Self::Rax,
            1 => Self::Rdx,
            2 => Self::Rcx,
            3 => Self::Rbx,
            4 => Self::Rsi,
            5 => Self::Rdi,
            6 => Self::Rbp,
            7 => Self::Rsp,
            8 => Self::R8,
            9 => Self::R9,
            10 => Self::R10,
            11 => Self::R11,
            12 => Self::R12,
            13 => Self::R13,
            14 => Self::R14,
            15 => Self::R15,
            _ => return None,
        })
    }

    /// Its name in assembler, 64 bits wide.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rax => "rax",
            Self::Rcx => "rcx",
            Self::Rdx => "rdx",
            Self::Rbx => "rbx",
            Self::Rsp => "rsp",
            Self::Rbp => "rbp",
            Self::Rsi => "rsi",
            Self::Rdi => "rdi",
            Self::R8 => "r8",
            Self::R9 => "r9",
            Self::R10 => "r10",
            Self::R11 => "r11",
            Self::R12 => "r12",
            Self::R13 => "r13",
            Self::R14 => "r14",
            Self::R15 => "r15",
        }
    }
}

impl fmt::Display for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The user-mode registers at one instruction boundary.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Registers {
    /// The next instruction to execute.
    pub ip: Avma,
    /// The general-purpose registers, by [`Register::index`].
    pub gpr: [u64; 16],
}

impl Registers {
    /// The value of a general-purpose register.
    #[must_use]
    pub const fn get(&self, register: Register) -> u64 {
        self.gpr[register.index()]
    }

    /// Sets a general-purpose register.
    pub const fn set(&mut self, register: Register, value: u64) {
        self.gpr[register.index()] = value;
    }

    /// The stack pointer.
    #[must_use]
    pub const fn sp(&self) -> Avma {
        Avma(self.get(Register::Rsp))
    }
}
