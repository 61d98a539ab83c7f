//! What the walk must know about the file, and what a value means as a place or as an argument.

use hitm_model::Svma;

use super::value::{Lineage, Origin, Value};
use super::{Argument, Place, Target};

/// What the walk must know about the file.
pub(super) trait Surroundings {
    /// Whether instructions are there.
    fn is_code(&self, address: u64) -> bool;
    /// Whether data of the image is there.
    fn is_data(&self, address: u64) -> bool;
    /// Whether numbers in the code may be addresses.
    fn is_fixed(&self) -> bool;
    /// What the loader, or the linker in constant data, put there.
    fn constant(&self, address: u64) -> Option<Value>;
    /// Whether constant data there has addresses of functions.
    fn is_table(&self, address: u64) -> bool;
    /// Whom a call of an address reaches.
    fn target(&self, address: u64) -> Option<Target>;
    /// What the result of an imported function is made from.
    fn result_of(&self, import: u32) -> Lineage;
}

/// A number that stands in the code or in constant data.
pub(super) fn number(number: i64, around: &dyn Surroundings) -> Value {
    let address = number.cast_unsigned();
    if around.is_fixed() && (around.is_data(address) || around.is_code(address)) {
        Value::in_file(address)
    } else {
        Value::number(number)
    }
}

pub(super) fn argument(value: Value) -> Argument {
    match value.origin {
        Origin::File if value.stride == 0 => Argument::File(Svma(value.offset.cast_unsigned())),
        Origin::Number if value.stride == 0 => Argument::Number(value.offset),
        Origin::Argument(number) if value.stride == 0 => Argument::Passed {
            number,
            offset: value.offset,
        },
        // A local variable is the thread's own, whatever is in it.
        Origin::Stack => Argument::Made(Lineage::OTHER),
        _ => Argument::Made(value.lineage),
    }
}

pub(super) fn place(value: Value) -> Option<Place> {
    let (stride, index) = (value.stride, value.index);
    let address = value.offset.cast_unsigned();
    match value.origin {
        Origin::File => Some(Place::File {
            address: Svma(address),
            stride,
            index,
        }),
        Origin::Argument(number) => Some(Place::Argument {
            number,
            offset: value.offset,
            stride,
            index,
        }),
        Origin::Number
        | Origin::Stack
        | Origin::Block(_)
        | Origin::Import(_)
        | Origin::Thread(_) => None,
        Origin::Pointee(at) => Some(Place::Pointer {
            held_at: Some(Svma(at)),
            offset: value.offset,
            stride,
            lineage: value.lineage,
        }),
        Origin::Field(..) | Origin::Something => Some(Place::Pointer {
            held_at: None,
            offset: value.offset,
            stride,
            lineage: value.lineage,
        }),
    }
}
