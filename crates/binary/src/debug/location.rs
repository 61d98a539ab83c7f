//! Where a variable is: location expressions, as far as they are an address, a register, or a place in a frame.

use gimli::{Dwarf, Expression, Operation, Unit};

use crate::image::Slice;

/// A place that is the same all the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fixed {
    /// An address in the file.
    Address(u64),
    /// An offset in the thread-local segment.
    ThreadLocal(u64),
}

/// What a value is counted from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Base {
    /// Nothing: a number.
    Constant,
    /// The address of the file's mapping.
    Address,
    /// The thread-local segment.
    ThreadLocal,
    /// A register of this DWARF number.
    Register(u16),
    /// The canonical frame address.
    Cfa,
    /// The frame base of the function.
    Frame,
}

/// `base + offset`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Linear {
    pub(super) base: Base,
    pub(super) offset: i64,
}

/// Where a variable, or a piece of one, is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// In memory at this address.
    Memory(Linear),
    /// Its value is this.
    Value(Linear),
    /// Not anywhere that can be told.
    Unknown,
}

/// A part of a variable, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub(super) offset: u64,
    /// `None` for all of it.
    pub(super) size: Option<u64>,
    pub(super) place: Place,
}

/// Longer expressions are not looked at.
const MOST_OPERATIONS: usize = 64;

/// The address of a variable that has one as long as the program runs.
pub(super) fn fixed<'i>(
    dwarf: &Dwarf<Slice<'i>>,
    unit: &Unit<Slice<'i>>,
    expression: Expression<Slice<'i>>,
) -> Option<Fixed> {
    match *pieces(dwarf, unit, expression).as_slice() {
        [
            Piece {
                size: None,
                place: Place::Memory(Linear { base, offset }),
                ..
            },
        ] => match base {
            Base::Address => Some(Fixed::Address(offset as u64)),
            Base::ThreadLocal => Some(Fixed::ThreadLocal(offset as u64)),
            _ => None,
        },
        _ => None,
    }
}

/// The pieces that an expression puts a variable into; none where the expression cannot be followed.
pub(super) fn pieces<'i>(
    dwarf: &Dwarf<Slice<'i>>,
    unit: &Unit<Slice<'i>>,
    expression: Expression<Slice<'i>>,
) -> Vec<Piece> {
    Follow::default()
        .all(dwarf, unit, expression)
        .unwrap_or_default()
}

#[derive(Default)]
struct Follow {
    stack: Vec<Linear>,
    pieces: Vec<Piece>,
    /// The place stated since the last piece, other than by the stack.
    stated: Option<Place>,
    /// Whether an operation since the last piece could not be followed.
    lost: bool,
    offset: u64,
}

impl Follow {
    fn all<'i>(
        mut self,
        dwarf: &Dwarf<Slice<'i>>,
        unit: &Unit<Slice<'i>>,
        expression: Expression<Slice<'i>>,
    ) -> Option<Vec<Piece>> {
        let mut operations = expression.operations(unit.encoding());
        for _ in 0..MOST_OPERATIONS {
            let Some(operation) = operations.next().ok()? else {
                if self.pieces.is_empty() {
                    let place = self.place();
                    self.pieces.push(Piece {
                        offset: 0,
                        size: None,
                        place,
                    });
                }
                return Some(self.pieces);
            };
            self.step(dwarf, unit, operation)?;
        }
        None
    }

    fn step<'i>(
        &mut self,
        dwarf: &Dwarf<Slice<'i>>,
        unit: &Unit<Slice<'i>>,
        operation: Operation<Slice<'i>>,
    ) -> Option<()> {
        let push = |base, offset| Linear { base, offset };
        match operation {
            Operation::Address { address } => self.stack.push(push(Base::Address, address as i64)),
            Operation::AddressIndex { index } => {
                let address = dwarf.address(unit, index).ok()?;
                self.stack.push(push(Base::Address, address as i64));
            }
            Operation::ConstantIndex { index } => {
                let value = dwarf.address(unit, index).ok()?;
                self.stack.push(push(Base::Constant, value as i64));
            }
            Operation::UnsignedConstant { value } => {
                self.stack.push(push(Base::Constant, value as i64));
            }
            Operation::SignedConstant { value } => self.stack.push(push(Base::Constant, value)),
            Operation::TLS => {
                let top = self.stack.pop()?;
                self.stack.push(push(Base::ThreadLocal, top.offset));
            }
            Operation::RegisterOffset {
                register, offset, ..
            } => self.stack.push(push(Base::Register(register.0), offset)),
            Operation::FrameOffset { offset } => self.stack.push(push(Base::Frame, offset)),
            Operation::CallFrameCFA => self.stack.push(push(Base::Cfa, 0)),
            Operation::PlusConstant { value } => {
                let top = self.stack.last_mut()?;
                top.offset = top.offset.wrapping_add(value as i64);
            }
            Operation::Plus | Operation::Minus => {
                let (b, a) = (self.stack.pop()?, self.stack.pop()?);
                let sum = match (operation, a.base, b.base) {
                    (Operation::Plus, base, Base::Constant)
                    | (Operation::Plus, Base::Constant, base) => {
                        push(base, a.offset.wrapping_add(b.offset))
                    }
                    (Operation::Minus, base, Base::Constant) => {
                        push(base, a.offset.wrapping_sub(b.offset))
                    }
                    _ => return None,
                };
                self.stack.push(sum);
            }
            Operation::StackValue => self.stated = self.stack.pop().map(Place::Value),
            Operation::Register { register } => {
                self.stated = Some(Place::Value(push(Base::Register(register.0), 0)));
            }
            Operation::Piece {
                size_in_bits,
                bit_offset,
            } => {
                let place = match bit_offset {
                    None | Some(0) => self.place(),
                    Some(_) => Place::Unknown,
                };
                let size = size_in_bits / 8;
                self.pieces.push(Piece {
                    offset: self.offset,
                    size: Some(size),
                    place,
                });
                self.offset = self.offset.checked_add(size)?;
            }
            Operation::Nop => {}
            // Everything else either reads memory or registers of another moment, or is a constant.
            _ => self.lost = true,
        }
        Some(())
    }

    /// Ends what describes one place.
    fn place(&mut self) -> Place {
        let top = self.stack.pop();
        self.stack.clear();
        let stated = self.stated.take().or(top.map(Place::Memory));
        match std::mem::take(&mut self.lost) {
            true => Place::Unknown,
            false => stated.unwrap_or(Place::Unknown),
        }
    }
}
