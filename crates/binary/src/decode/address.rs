//! Where an instruction accesses memory, as a function of the registers at the sampled instruction boundary.

use std::fmt;

use hitm_model::{Avma, Bias, Register, Registers};

/// A linear form over what is known when a sample is looked at: Σ multiplier·term + constant, modulo 2⁶⁴ as the
/// processor's address arithmetic is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    constant: u64,
    multipliers: [u64; Self::MOST_TERMS],
    terms: [Term; Self::MOST_TERMS],
    len: u8,
    low: Low,
}

/// What an [`Address`] is made of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Term {
    /// The value of a register in the sample.
    Register(Register),
    /// The load bias of the code's file.
    Bias,
    /// The base of the segment `fs`, where a thread's thread-local storage is.
    FsBase,
    /// The low half of a register, which there is only one of.
    Low,
}

/// The low 32 bits of (multiplier·register + addend) & mask, extended to 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Low {
    pub(super) register: Register,
    pub(super) multiplier: u32,
    pub(super) addend: u32,
    pub(super) mask: u32,
    pub(super) signed: bool,
}

impl Low {
    const NONE: Self = Self {
        register: Register::Rax,
        multiplier: 0,
        addend: 0,
        mask: 0,
        signed: false,
    };

    fn of(self, registers: &Registers) -> u64 {
        let product = registers
            .get(self.register)
            .wrapping_mul(self.multiplier.into());
        extended(
            product.wrapping_add(self.addend.into()),
            self.mask,
            self.signed,
        )
    }
}

/// The low 32 bits of value & mask, extended to 64 bits.
pub(super) const fn extended(value: u64, mask: u32, signed: bool) -> u64 {
    let low = value as u32 & mask;
    match signed {
        true => (low.cast_signed() as i64).cast_unsigned(),
        false => low as u64,
    }
}

impl Address {
    /// Base, index, and one more each for a difference or a segment; longer sums do not occur in compiled code.
    pub(super) const MOST_TERMS: usize = 4;

    pub(super) const fn constant(constant: u64) -> Self {
        Self {
            constant,
            multipliers: [0; Self::MOST_TERMS],
            terms: [Term::Bias; Self::MOST_TERMS],
            len: 0,
            low: Low::NONE,
        }
    }

    /// The sum with `multiplier`·`term`, unless it has too many terms. A term must be added only once.
    pub(super) fn plus(mut self, multiplier: u64, term: Term) -> Option<Self> {
        if multiplier == 0 {
            return Some(self);
        }
        let at = usize::from(self.len);
        *self.multipliers.get_mut(at)? = multiplier;
        *self.terms.get_mut(at)? = term;
        self.len += 1;
        Some(self)
    }

    /// The sum with `multiplier`·`low`, unless it has too many terms or another such one.
    pub(super) fn plus_low(self, multiplier: u64, low: Low) -> Option<Self> {
        if self.parts().any(|(_, term)| term == Term::Low) {
            return None;
        }
        Some(Self {
            low,
            ..self.plus(multiplier, Term::Low)?
        })
    }

    /// Its value for one sample of a process; `None` if it needs the base of `fs` and that is not known.
    #[must_use]
    pub fn resolve(
        &self,
        registers: &Registers,
        bias: Bias,
        fs_base: Option<Avma>,
    ) -> Option<Avma> {
        let mut sum = self.constant;
        for (multiplier, term) in self.parts() {
            let value = match term {
                Term::Register(register) => registers.get(register),
                Term::Bias => bias.0,
                Term::FsBase => fs_base?.0,
                Term::Low => self.low.of(registers),
            };
            sum = sum.wrapping_add(multiplier.wrapping_mul(value));
        }
        Some(Avma(sum))
    }

    /// Whether it needs the base of the segment `fs`.
    #[must_use]
    pub fn needs_fs_base(&self) -> bool {
        self.parts().any(|(_, term)| term == Term::FsBase)
    }

    fn parts(&self) -> impl Iterator<Item = (u64, Term)> {
        let len = usize::from(self.len);
        let parts = std::iter::zip(&self.multipliers, &self.terms).take(len);
        parts.map(|(&multiplier, &term)| (multiplier, term))
    }
}

/// As in Intel assembler: `rdi+rcx*8-0x10`, `bias+0x4010`, `fs+0x28`, `rdi+low(rsi&0x3)*8`.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (multiplier, term) in self.parts() {
            let negative = (multiplier as i64) < 0;
            match (negative, first) {
                (true, _) => f.write_str("-")?,
                (false, false) => f.write_str("+")?,
                (false, true) => {}
            }
            match term {
                Term::Register(register) => f.write_str(register.name())?,
                Term::Bias => f.write_str("bias")?,
                Term::FsBase => f.write_str("fs")?,
                Term::Low => write!(f, "{}", self.low)?,
            }
            match (multiplier as i64).unsigned_abs() {
                1 => {}
                factor => write!(f, "*{factor}")?,
            }
            first = false;
        }
        match self.constant as i64 {
            0 if !first => Ok(()),
            _ if first => write!(f, "{:#x}", self.constant),
            constant if constant < 0 => write!(f, "-{:#x}", constant.unsigned_abs()),
            constant => write!(f, "+{constant:#x}"),
        }
    }
}

/// `low(rsi*8+0x1)`, `low(rsi&0x3)`, `signed(rsi)`.
impl fmt::Display for Low {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.signed { "signed" } else { "low" })?;
        write!(f, "({}", self.register)?;
        match self.multiplier {
            1 => {}
            multiplier => write!(f, "*{}", multiplier.cast_signed())?,
        }
        match self.addend.cast_signed() {
            0 => {}
            addend if addend < 0 => write!(f, "-{:#x}", addend.unsigned_abs())?,
            addend => write!(f, "+{addend:#x}")?,
        }
        match self.mask {
            u32::MAX => {}
            mask => write!(f, "&{mask:#x}")?,
        }
        f.write_str(")")
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}
