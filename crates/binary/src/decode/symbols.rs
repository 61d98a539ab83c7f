//! The unknowns of linear forms, some of which are the low half of a form.

use super::address::extended;
use super::linear::Form;

/// A value that is not known as such.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Symbol(u16);

impl Symbol {
    /// The load bias of the code's file.
    pub(super) const BIAS: Self = Self(0);
    /// The base of the segment `fs`.
    pub(super) const FS_BASE: Self = Self(1);
    const FIRST_FRESH: u16 = 2;

    /// Whether it is the same wherever the block is.
    pub(super) const fn is_known(self) -> bool {
        self.0 < Self::FIRST_FRESH
    }
}

/// Hands out symbols that were not used before, and knows which of them are low halves.
#[derive(Debug)]
pub(super) struct Symbols {
    next: u16,
    halves: Vec<(Symbol, Half)>,
}

/// The low 32 bits of form & mask, extended to 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Half {
    pub(super) form: Form,
    pub(super) mask: u32,
    pub(super) signed: bool,
}

impl Symbols {
    pub(super) const fn new() -> Self {
        Self {
            next: Symbol::FIRST_FRESH,
            halves: Vec::new(),
        }
    }

    /// A form that is one new symbol.
    pub(super) fn fresh(&mut self) -> Form {
        Form::symbol(self.unused())
    }

    /// The low 32 bits of form & mask, extended to 64 bits.
    pub(super) fn low(&mut self, form: &Form, mask: u32, signed: bool) -> Form {
        if let Some(constant) = form.as_constant() {
            return Form::constant(extended(constant, mask, signed));
        }
        let half = self.of_whole(form, mask, signed);
        if let Some((symbol, _)) = self.halves.iter().find(|(_, other)| *other == half) {
            return Form::symbol(*symbol);
        }
        let symbol = self.unused();
        self.halves.push((symbol, half));
        Form::symbol(symbol)
    }

    const fn unused(&mut self) -> Symbol {
        let symbol = Symbol(self.next);
        self.next += 1;
        symbol
    }

    /// The low half of a form that has low halves in it is one of what those were made of.
    fn of_whole(&self, form: &Form, mask: u32, signed: bool) -> Half {
        let mut whole = Half {
            form: *form,
            mask,
            signed,
        };
        for &(symbol, coefficient) in form.terms() {
            let Some(half) = self.half(symbol) else {
                continue;
            };
            if *form == Form::symbol(symbol) {
                whole.form = half.form;
                whole.mask &= half.mask;
            } else if half.mask == u32::MAX
                && let Some(sum) = whole.form.plus(coefficient, &half.form)
                && let Some(sum) = sum.plus(coefficient.wrapping_neg(), &Form::symbol(symbol))
            {
                whole.form = sum;
            }
        }
        whole
    }

    /// What a symbol is the low half of.
    pub(super) fn half(&self, symbol: Symbol) -> Option<&Half> {
        let mut halves = self.halves.iter();
        halves
            .find(|(other, _)| *other == symbol)
            .map(|(_, half)| half)
    }
}
