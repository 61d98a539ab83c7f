//! Linear forms over unknowns, and expressing one by others.
//!
//! Registers hold 64-bit words, and adding, subtracting, scaling by a constant and shifting left are exact modulo 2⁶⁴.
//! So every register that only such instructions touched is a linear form over the values at the block's entry (and
//! over values loaded on the way), with coefficients in ℤ/2⁶⁴:
//!
//! ```text
//! at the block's entry      rᵢ = sᵢ
//! mov  a, b                 a := b
//! lea  a, [b + k·c + d]     a := b + k·c + d
//! imul a, b, k              a := k·b
//! mov  a₃₂, b₃₂             a := a symbol of its own, which is low(b)
//! and  a₃₂, k               a := a symbol of its own, which is low(a) & k
//! anything else             a := a symbol of its own
//! ```
//!
//! At the instruction pointer the sample tells the value of each register, which is one equation per register:
//! Σ coefficient·symbol + constant = value. [`Equations::express`] eliminates the symbols of another form with these
//! equations. A coefficient can be divided by exactly if it is odd (odd numbers have an inverse modulo 2⁶⁴) or if it
//! divides the other one; otherwise the form stays unknown. A symbol that is left is known if it is the low half of a
//! form that is one register. Nothing is ever approximated.

use hitm_model::Register;

use super::address::{Address, Low, Term};
use super::symbols::{Half, Symbol, Symbols};

/// Σ coefficient·symbol + constant modulo 2⁶⁴; terms in the order of their symbols, none with coefficient 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Form {
    constant: u64,
    terms: [(Symbol, u64); Self::MOST_TERMS],
    len: u8,
}

impl Form {
    /// What does not fit becomes a symbol of its own: still true, only less is known.
    const MOST_TERMS: usize = 4;

    pub(super) const fn constant(constant: u64) -> Self {
        Self {
            constant,
            terms: [(Symbol::BIAS, 0); Self::MOST_TERMS],
            len: 0,
        }
    }

    /// An address in the code's file.
    pub(super) const fn in_file(svma: u64) -> Self {
        let mut form = Self::symbol(Symbol::BIAS);
        form.constant = svma;
        form
    }

    /// The base of the segment `fs`.
    pub(super) const fn fs_base() -> Self {
        Self::symbol(Symbol::FS_BASE)
    }

    pub(super) const fn symbol(symbol: Symbol) -> Self {
        let mut form = Self::constant(0);
        form.terms[0] = (symbol, 1);
        form.len = 1;
        form
    }

    /// Whether it is a constant, an address in the code's file or in the segment `fs`.
    pub(super) fn is_known(&self) -> bool {
        self.terms().iter().all(|(symbol, _)| symbol.is_known())
    }

    /// Its value, if it does not depend on anything.
    pub(super) const fn as_constant(&self) -> Option<u64> {
        match self.len {
            0 => Some(self.constant),
            _ => None,
        }
    }

    pub(super) const fn plus_constant(mut self, constant: u64) -> Self {
        self.constant = self.constant.wrapping_add(constant);
        self
    }

    /// How far `self` is above `other`, if that is a constant.
    pub(super) fn distance_from(&self, other: &Self) -> Option<u64> {
        (self.terms() == other.terms()).then(|| self.constant.wrapping_sub(other.constant))
    }

    /// `self` + `factor`·`other`, unless it has too many terms.
    pub(super) fn plus(&self, factor: u64, other: &Self) -> Option<Self> {
        let constant = factor.wrapping_mul(other.constant);
        let mut sum = Self::constant(self.constant.wrapping_add(constant));
        let (mut left, mut right) = (self.terms().iter(), other.terms().iter());
        let (mut a, mut b) = (left.next(), right.next());
        loop {
            let (symbol, coefficient) = match (a, b) {
                (None, None) => return Some(sum),
                (Some(&(symbol, x)), Some(&(other, y))) if symbol == other => {
                    (a, b) = (left.next(), right.next());
                    (symbol, x.wrapping_add(factor.wrapping_mul(y)))
                }
                (Some(&(symbol, x)), other) if other.is_none_or(|&(other, _)| symbol < other) => {
                    a = left.next();
                    (symbol, x)
                }
                (_, Some(&(symbol, y))) => {
                    b = right.next();
                    (symbol, factor.wrapping_mul(y))
                }
                // The guard of the arm before last holds when there is no other.
                (Some(_), None) => return None,
            };
            if coefficient != 0 {
                *sum.terms.get_mut(usize::from(sum.len))? = (symbol, coefficient);
                sum.len += 1;
            }
        }
    }

    /// `factor`·`self`.
    pub(super) fn times(&self, factor: u64) -> Self {
        // Scaling adds no terms, so that it always fits.
        Self::constant(0).plus(factor, self).unwrap_or(*self)
    }

    pub(super) fn terms(&self) -> &[(Symbol, u64)] {
        &self.terms[..usize::from(self.len)]
    }
}

/// Σ coefficient·symbol = Σ multiplier·known + constant.
#[derive(Clone, Debug, Default)]
struct Equation {
    symbols: Vec<(Symbol, u64)>,
    registers: [u64; 16],
    bias: u64,
    constant: u64,
}

impl Equation {
    fn new(form: &Form) -> Self {
        let mut equation = Self {
            constant: form.constant.wrapping_neg(),
            ..Self::default()
        };
        for &(symbol, coefficient) in form.terms() {
            if symbol == Symbol::BIAS {
                equation.bias = coefficient.wrapping_neg();
            } else {
                equation.symbols.push((symbol, coefficient));
            }
        }
        equation
    }

    /// The coefficient of a symbol.
    fn of(&self, symbol: Symbol) -> u64 {
        self.symbols
            .iter()
            .find(|&&(other, _)| other == symbol)
            .map_or(0, |&(_, coefficient)| coefficient)
    }

    /// Adds `factor` times another equation to this one.
    fn add(&mut self, factor: u64, other: &Self) {
        for &(symbol, coefficient) in &other.symbols {
            let addend = factor.wrapping_mul(coefficient);
            match self.symbols.iter_mut().find(|(at, _)| *at == symbol) {
                Some((_, sum)) => *sum = sum.wrapping_add(addend),
                None => self.symbols.push((symbol, addend)),
            }
        }
        self.symbols.retain(|&(_, coefficient)| coefficient != 0);
        for (sum, addend) in self.registers.iter_mut().zip(other.registers) {
            *sum = sum.wrapping_add(factor.wrapping_mul(addend));
        }
        self.bias = self.bias.wrapping_add(factor.wrapping_mul(other.bias));
        self.constant = self
            .constant
            .wrapping_add(factor.wrapping_mul(other.constant));
    }

    fn scale(&mut self, factor: u64) {
        if factor != 1 {
            self.add(factor.wrapping_sub(1), &self.clone());
        }
    }

    /// Scales so that the symbol's coefficient is a power of two.
    fn make_power_of_two(&mut self, symbol: Symbol) {
        let coefficient = self.of(symbol);
        self.scale(inverse_of_odd(coefficient >> coefficient.trailing_zeros()));
    }
}

/// What the registers of the sample say about the symbols, in echelon form: no equation contains the pivot of an
/// earlier one, and each pivot's coefficient is a power of two.
#[derive(Debug)]
pub(super) struct Equations(Vec<(Symbol, Equation)>);

impl Equations {
    /// From what each register holds at the instruction pointer.
    pub(super) fn new(registers: [&Form; 16]) -> Self {
        let mut order: [usize; 16] = std::array::from_fn(|at| at);
        // Short equations first make short addresses.
        order.sort_by_key(|&at| registers[at].len);
        let mut equations = Self(Vec::with_capacity(32));
        for at in order {
            equations.know(Register::ALL[at], registers[at]);
        }
        equations
    }

    /// Adds that the form is the value of `register` in the sample.
    pub(super) fn know(&mut self, register: Register, form: &Form) {
        let mut equation = Equation::new(form);
        equation.registers[register.index()] = 1;
        self.insert(equation);
    }

    /// Keeps the echelon form: where the new equation has the smaller power of two at a pivot, it takes the place of
    /// the old one, which goes on to be inserted.
    fn insert(&mut self, mut equation: Equation) {
        for (pivot, by) in &mut self.0 {
            let have = equation.of(*pivot);
            if have == 0 {
                continue;
            }
            let mut unit = by.of(*pivot).trailing_zeros();
            if have.trailing_zeros() < unit {
                equation.make_power_of_two(*pivot);
                std::mem::swap(&mut equation, by);
                unit = have.trailing_zeros();
            }
            let factor = equation.of(*pivot) >> unit;
            equation.add(factor.wrapping_neg(), by);
        }
        let pivot = equation
            .symbols
            .iter()
            .min_by_key(|(_, coefficient)| coefficient.trailing_zeros());
        let Some(&(pivot, coefficient)) = pivot else {
            return;
        };
        equation.make_power_of_two(pivot);
        let power = coefficient.trailing_zeros();
        let mut rest = equation.clone();
        self.0.push((pivot, equation));
        if power > 0 {
            // Times this the pivot vanishes, and what is left says something about the other symbols.
            rest.scale(1 << (64 - power));
            self.insert(rest);
        }
    }

    /// The form's value in terms of the registers of the sample, if they determine it.
    pub(super) fn express(&self, form: &Form, symbols: &Symbols) -> Option<Address> {
        // form = unknown, so that after the elimination: 0 = unknown - form's value.
        let mut rest = Equation::new(form);
        self.reduce(&mut rest);
        let mut address = Address::constant(rest.constant.wrapping_neg());
        for register in Register::ALL {
            let multiplier = rest.registers[register.index()].wrapping_neg();
            address = address.plus(multiplier, Term::Register(register))?;
        }
        address = address.plus(rest.bias.wrapping_neg(), Term::Bias)?;
        for &(symbol, coefficient) in &rest.symbols {
            address = match symbol {
                Symbol::FS_BASE => address.plus(coefficient, Term::FsBase)?,
                _ => address.plus_low(coefficient, self.express_half(symbols.half(symbol)?)?)?,
            };
        }
        Some(address)
    }

    /// The low half of a form in terms of one register, if that determines it.
    fn express_half(&self, half: &Half) -> Option<Low> {
        let mut rest = Equation::new(&half.form);
        self.reduce(&mut rest);
        let mut registers = Register::ALL
            .into_iter()
            .filter(|register| rest.registers[register.index()] != 0);
        let register = registers.next()?;
        let is_alone = registers.next().is_none() && rest.symbols.is_empty() && rest.bias == 0;
        is_alone.then(|| Low {
            register,
            multiplier: rest.registers[register.index()].wrapping_neg() as u32,
            addend: rest.constant.wrapping_neg() as u32,
            mask: half.mask,
            signed: half.signed,
        })
    }

    /// Eliminates the pivots from an equation, as far as it goes without dividing inexactly.
    fn reduce(&self, equation: &mut Equation) {
        for (pivot, by) in &self.0 {
            let (have, unit) = (equation.of(*pivot), by.of(*pivot).trailing_zeros());
            if have != 0 && have.trailing_zeros() >= unit {
                equation.add((have >> unit).wrapping_neg(), by);
            }
        }
    }
}

/// The inverse of an odd number modulo 2⁶⁴, by Newton's iteration: each step doubles the number of right bits.
fn inverse_of_odd(odd: u64) -> u64 {
    let mut inverse = odd;
    for _ in 0..5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
    }
    inverse
}
