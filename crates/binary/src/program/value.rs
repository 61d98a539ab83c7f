//! What a register holds, as far as the function's own code tells.
//!
//! ```text
//! value    = origin + offset + stride · index
//! origin   = nothing | the file | an argument | what a pointer in the file points to | …
//! ```
//!
//! A branch may choose between places (`fixed ? &padded[t] : &packed[t]`), so a register has up to [`MOST`] values;
//! with more of them it is just something, of which is still known what it was made from ([`Lineage`]).

use std::rc::Rc;

/// So many places a pointer may choose from.
pub(super) const MOST: usize = 4;

/// What a value is counted from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// A number.
    Number,
    /// The file: the offset is an address in it.
    File,
    /// The address of an imported function.
    Import(u32),
    /// What an integer argument of the function was at its start.
    Argument(u8),
    /// What the pointer at an offset in what an argument points to was.
    Field(u8, i32),
    /// What the pointer at an address of the file was.
    Pointee(u64),
    /// The stack pointer at the function's start.
    Stack,
    /// The start of a block of memory that is there only while the program runs: a stack, a block of the heap.
    Block(u32),
    /// A thread, by the way to its start: what its starter has to wait for it.
    Thread(u64),
    /// Something.
    Something,
}

/// What a value was made from: a set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Lineage(u16);

impl Lineage {
    /// Constants only.
    pub const NONE: Self = Self(0);
    /// Something that identifies the thread: thread-local memory, the thread's number, the processor.
    pub const THREAD: Self = Self(1 << 6);
    /// Memory that is not the thread's own, or something that changes in a loop, or the result of a call.
    pub const OTHER: Self = Self(1 << 7);
    /// What changes from one round of a loop to the next.
    pub const ROUND: Self = Self(1 << 8);
    /// Any argument.
    pub const ARGUMENTS: Self = Self((1 << 6) - 1);

    /// The integer argument of this number, or what it points to.
    #[must_use]
    pub const fn argument(number: u8) -> Self {
        if number < 6 {
            Self(1 << number)
        } else {
            Self::OTHER
        }
    }

    /// All of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// All but the other's.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether they have something in common.
    #[must_use]
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether it was made from constants only.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The arguments in it.
    pub fn arguments(self) -> impl Iterator<Item = u8> {
        (0..6).filter(move |&number| self.meets(Self::argument(number)))
    }
}

/// One value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Value {
    pub(super) origin: Origin,
    pub(super) offset: i64,
    /// What the unknown index is multiplied with; 0 without one.
    pub(super) stride: u32,
    /// What origin and index were made from.
    pub(super) lineage: Lineage,
    /// What the index was made from.
    pub(super) index: Lineage,
}

impl Value {
    pub(super) const fn of(origin: Origin, offset: i64, lineage: Lineage) -> Self {
        Self {
            origin,
            offset,
            stride: 0,
            lineage,
            index: Lineage::NONE,
        }
    }

    pub(super) const fn number(number: i64) -> Self {
        Self::of(Origin::Number, number, Lineage::NONE)
    }

    pub(super) const fn in_file(address: u64) -> Self {
        Self::of(Origin::File, address.cast_signed(), Lineage::NONE)
    }

    pub(super) const fn something(lineage: Lineage) -> Self {
        Self::of(Origin::Something, 0, lineage)
    }

    /// The number, if it is just one.
    pub(super) fn as_number(self) -> Option<i64> {
        (self.origin == Origin::Number && self.stride == 0).then_some(self.offset)
    }

    /// The address in the file, if it is just one.
    pub(super) fn as_address(self) -> Option<u64> {
        (self.origin == Origin::File && self.stride == 0).then_some(self.offset.cast_unsigned())
    }

    pub(super) const fn plus_number(mut self, number: i64) -> Self {
        self.offset = self.offset.wrapping_add(number);
        self
    }

    /// The value as an index of unknown size: `stride · index`.
    fn as_index(self, factor: u32) -> Self {
        match self.as_number() {
            Some(number) => Self::number(number.wrapping_mul(i64::from(factor))),
            None => {
                let (stride, offset) = match self.origin {
                    Origin::Number => (
                        self.stride.wrapping_mul(factor),
                        self.offset.wrapping_mul(i64::from(factor)),
                    ),
                    _ => (factor, 0),
                };
                Self {
                    origin: Origin::Number,
                    offset,
                    stride,
                    lineage: self.lineage,
                    index: self.lineage,
                }
            }
        }
    }

    pub(super) fn times(self, factor: i64) -> Self {
        match (u32::try_from(factor), self.as_number()) {
            (_, Some(number)) => Self::number(number.wrapping_mul(factor)),
            (Ok(1), _) => self,
            (Ok(factor @ 1..), None) => self.as_index(factor),
            _ => Self::something(self.lineage),
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        let (base, index) = match (is_pointer(self), is_pointer(other)) {
            (true, false) => (self, other),
            (false, true) => (other, self),
            (false, false) if self.origin == Origin::Number => (other, self),
            (false, false) => (self, other),
            // The sum of two pointers is none; one of them is an index, but which?
            (true, true) => return Self::something(self.lineage.with(other.lineage)),
        };
        let index = match index.origin {
            Origin::Number => index,
            _ => index.as_index(1),
        };
        Self {
            origin: base.origin,
            offset: base.offset.wrapping_add(index.offset),
            stride: common(base.stride, index.stride),
            lineage: base.lineage.with(index.lineage),
            index: base.index.with(index.index),
        }
    }

    /// The same with less known about it: what a 32-bit copy keeps.
    pub(super) fn low_half(self) -> Self {
        match self.origin {
            Origin::Number => Self {
                offset: self.offset & 0xffff_ffff,
                ..self
            },
            _ => Self::something(self.lineage),
        }
    }
}

/// Whether it is known to be a pointer rather than an index.
fn is_pointer(value: Value) -> bool {
    matches!(
        value.origin,
        Origin::File | Origin::Stack | Origin::Block(_) | Origin::Pointee(_) | Origin::Import(_)
    )
}

/// The greatest common divisor: what all sums of multiples of both are multiples of.
fn common(a: u32, b: u32) -> u32 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// All values that a register may have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Values {
    One(Value),
    Some(Rc<[Value]>),
}

impl From<Value> for Values {
    fn from(value: Value) -> Self {
        Self::One(value)
    }
}

impl Values {
    pub(super) fn all(&self) -> &[Value] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Some(values) => values,
        }
    }

    pub(super) fn lineage(&self) -> Lineage {
        let lineages = self.all().iter().map(|value| value.lineage);
        lineages.fold(Lineage::NONE, Lineage::with)
    }

    fn of(values: impl Iterator<Item = Value>) -> Self {
        let mut all: Vec<Value> = Vec::new();
        let mut lineage = Lineage::NONE;
        for value in values {
            lineage = lineage.with(value.lineage).with(value.index);
            if !all.contains(&value) {
                all.push(value);
            }
        }
        match all.as_slice() {
            [value] => Self::One(*value),
            several => {
                let unknown = several
                    .iter()
                    .any(|value| value.origin == Origin::Something);
                if unknown || several.is_empty() || several.len() > MOST {
                    Self::One(Value::something(lineage))
                } else {
                    Self::Some(all.into())
                }
            }
        }
    }

    pub(super) fn map(&self, change: impl Fn(Value) -> Value) -> Self {
        match self {
            Self::One(value) => Self::One(change(*value)),
            Self::Some(values) => Self::of(values.iter().map(|value| change(*value))),
        }
    }

    pub(super) fn combine(&self, other: &Self, with: impl Fn(Value, Value) -> Value) -> Self {
        match (self, other) {
            (Self::One(a), Self::One(b)) => Self::One(with(*a, *b)),
            _ => {
                let pairs = self
                    .all()
                    .iter()
                    .flat_map(|a| other.all().iter().map(|b| with(*a, *b)));
                Self::of(pairs)
            }
        }
    }

    /// What it is where a loop comes back to its start: a value that has moved on by then moves on in each round.
    pub(super) fn widen(&self, back: &Self) -> Self {
        if self == back {
            return self.clone();
        }
        let mut all: Vec<Value> = Vec::new();
        for value in self.all().iter().chain(back.all()) {
            match all.iter_mut().find(|known| known.origin == value.origin) {
                Some(known) => {
                    let moved = known.offset.abs_diff(value.offset);
                    let moved = u32::try_from(moved).unwrap_or(1);
                    let stride = common(common(known.stride, value.stride), moved);
                    let changes = stride != 0 && (moved != 0 || known.stride != value.stride);
                    known.stride = stride;
                    known.lineage = known.lineage.with(value.lineage);
                    known.index = known.index.with(value.index);
                    if changes {
                        known.lineage = known.lineage.with(Lineage::ROUND);
                        known.index = known.index.with(Lineage::ROUND);
                    }
                }
                None => all.push(*value),
            }
        }
        Self::of(all.into_iter())
    }

    /// What it is where two ways of control meet.
    pub(super) fn join(&self, other: &Self) -> Self {
        if self == other {
            return self.clone();
        }
        Self::of(self.all().iter().chain(other.all()).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_indexed_by_an_argument_keeps_its_base_and_what_the_index_is() {
        let me = Value::of(Origin::Argument(0), 0, Lineage::argument(0));
        let element = Value::in_file(0x4000).plus(me.times(8)).plus_number(16);
        assert_eq!(element.origin, Origin::File);
        assert_eq!((element.offset, element.stride), (0x4010, 8));
        assert_eq!(element.index, Lineage::argument(0));
    }

    #[test]
    fn a_choice_of_too_many_places_is_something() {
        let mut values = Values::One(Value::in_file(0));
        for at in 1..=MOST as u64 {
            values = values.join(&Values::One(Value::in_file(8 * at)));
        }
        assert_eq!(values, Values::One(Value::something(Lineage::NONE)));
    }
}
