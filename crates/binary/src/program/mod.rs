//! A whole program's code: which memory every function accesses where that is fixed in the file, who calls whom, and
//! where threads begin.
//!
//! Nothing is executed and nothing is guessed about values: each function is read once, from its start to its end, with
//! what its registers hold as values. That follows constants, addresses of the file, arguments, and sums of them
//! through registers and the words of the stack frame. What is loaded from changeable memory is just something.
//!
//! # Caveats
//!
//! - Where ways of control meet, all values count; in a loop, what the loop changes is just something.
//! - Calls through pointers are not followed. Functions whose address is taken count as called by who takes it.
//! - A thread begins where its starting function is an address that can be seen; else the roots are not known.

mod blocks;
mod calls;
mod circles;
mod flow;
mod functions;
mod imports;
mod instances;
mod merge;
mod places;
mod reach;
mod registers;
mod roots;
mod semantics;
mod value;
mod walk;
mod whole;

use hitm_model::{AccessKind, Svma, SvmaRange};

pub use blocks::{Block, BlockFrame, BlockKind, Hint, Pointing, Promise};
pub use reach::{Certainty, HeldLock, LockSet, Reached, Touch};
pub use roots::{Root, RootKind};
pub use value::Lineage;
pub use whole::Program;

/// One function's code, as far as anybody asks about it.
#[derive(Clone, Debug)]
pub struct FunctionCode {
    /// Its bytes.
    pub range: SvmaRange,
    /// What it accesses.
    pub accesses: Vec<Access>,
    /// What it calls.
    pub calls: Vec<Call>,
    /// Addresses of functions, and of tables of functions, that it takes.
    pub taken: Vec<Taken>,
    /// Calls and jumps whose target is not known.
    pub indirect: u32,
    /// Whether it may return, or go on elsewhere.
    pub returns: bool,
    /// Whether all of its bytes are instructions.
    pub complete: bool,
}

/// An access of one instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// The instruction.
    pub instruction: Svma,
    /// What it does.
    pub kind: AccessKind,
    /// Whether it compares or exchanges, as taking a lock does.
    pub exchanges: bool,
    /// Bytes.
    pub size: u32,
    /// In how many loops of its function.
    pub depth: u8,
    /// Where.
    pub place: Place,
}

/// Where an access goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// To an address of the file, or to `address + stride · index`.
    File {
        /// The address, without the index.
        address: Svma,
        /// What the index is multiplied with; 0 without one.
        stride: u32,
        /// What the index was made from.
        index: Lineage,
    },
    /// Through a pointer that the function was given.
    Argument {
        /// Which argument.
        number: u8,
        /// From where it points to.
        offset: i64,
        /// What the index is multiplied with; 0 without one.
        stride: u32,
        /// What the index was made from.
        index: Lineage,
    },
    /// Through another pointer.
    Pointer {
        /// Where the pointer itself is, if it is in the file.
        held_at: Option<Svma>,
        /// From where it points to.
        offset: i64,
        /// What the index is multiplied with; 0 without one.
        stride: u32,
        /// What pointer and index were made from.
        lineage: Lineage,
    },
}

/// A call or a tail call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The instruction.
    pub site: Svma,
    /// What is called.
    pub target: Target,
    /// The integer arguments.
    pub arguments: [Argument; 6],
    /// In how many loops of its function.
    pub depth: u8,
}

/// What is called.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// A function of the file.
    Function(Svma),
    /// A function of another file: its number among [`Program::import`].
    Import(u32),
}

/// What is passed to a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Argument {
    /// An address of the file.
    File(Svma),
    /// A number.
    Number(i64),
    /// An argument of the caller, plus an offset.
    Passed {
        /// Which.
        number: u8,
        /// What is added.
        offset: i64,
    },
    /// Something made from these.
    Made(Lineage),
}

/// An address that a function takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// The instruction.
    pub site: Svma,
    /// The address.
    pub address: Svma,
    /// Whether functions are there; else it is a place in constant data.
    pub code: bool,
}
