//! Instructions and registers → memory accesses.
//!
//! A sample is the exact register state at one instruction boundary. This module finds the instructions that are
//! certainly executed around that boundary, and for each of their memory operands the address as a function of the
//! sampled registers.
//!
//! # Which instructions
//!
//! A block begins behind the last call, return or unconditional jump before the instruction pointer, or at the last
//! branch target before or at it, whichever comes later: everything from there on has just been executed. Conditional
//! branches before the instruction pointer were evidently not taken, so the block reaches back over them. It ends with
//! the first instruction from the instruction pointer on that may go elsewhere, whose own accesses are included
//! (`call [m]`, the push of a `call`, the pop of a `ret`).
//!
//! In one place the block is likely, not certain: exactly at the condition of a loop that is entered by a jump to its
//! condition (`while`, as compilers lay it out). If nothing else goes there, the block reaches back into the loop's body,
//! although in the first pass through the condition the body has not been executed, and has not left in a word of the
//! stack what the condition then loads. A thread that has just jumped in is there for one instant; one that waited for
//! the last instruction of the body is there all that time.
//!
//! The block does not reach back over a call: what comes before it has been executed, but who knows how long ago, and
//! for that stretch there are samples in the callee. So nothing need be assumed about callee-saved registers.
//!
//! [`Function::in_image`] knows the ways into a function best: its own branches, its jump tables, and the jumps from
//! elsewhere in the file (parts for unlikely cases, landing pads, shared tails). [`Function::new`] and [`block_at`]
//! have the function's bytes only. Where it is known that ways in are missing, as behind an indirect jump whose table
//! cannot be read, any instruction may be one, and the block begins at the instruction pointer.
//!
//! # Which addresses
//!
//! The block is executed symbolically. An operand's address is resolved if the registers of the sample determine it
//! exactly; what they do not determine is counted in [`Block::unresolved`]. Nothing is guessed:
//!
//! - what is loaded from memory is unknown, except from a word of the thread's own stack frame that was stored or
//!   loaded in the block before, with nothing in between that may have changed it: that assumes that no other thread
//!   and no signal handler stores to it just then;
//! - the low half of a register is known where the register is, so that 32-bit indices resolve, masked or extended, one
//!   in an address;
//! - RIP-relative and absolute addresses always resolve, in the segment `fs` if its base is known;
//! - `gs`, 32-bit addresses, gathers and scatters, masked vector accesses, `bt [m], r` and save areas larger than a
//!   vector register (`xsave`, `fxsave`) do not resolve;
//! - `lea`, `nop`, `prefetch` and `clflush` are no accesses; a conditional move is a load, whatever the condition;
//! - `cmpxchg` counts as a write even if the comparison fails: the processor owns the line for it;
//! - of a string instruction the element at the current pointers counts, also with `rep`, unless `rcx` is 0 then.

mod address;
mod arithmetic;
mod block;
mod execute;
mod frame;
mod function;
mod inner_loop;
mod linear;
mod long_jumps;
mod loops;
mod operands;
mod same;
mod scan;
mod shape;
mod symbols;
mod tables;

use hitm_model::{AccessKind, Avma, AvmaRange, Bias, Register, Registers, Svma, SvmaRange};

pub use address::Address;
pub use function::Function;
pub use inner_loop::{InnerLoop, LoopAccess};
pub(crate) use long_jumps::LongJumps;
pub(crate) use operands::{is_conditional_move, kind_of as access_kind};
pub use same::{
    Comparison, Difference, Likeness, PlaceUse, Places, Reference, compare, ordinal, stub_slot,
};
pub use shape::{Shape, shape};

/// The bytes of one function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code<'a> {
    /// The address of the first byte.
    pub start: Svma,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// What is certainly executed around one instruction pointer, with [one exception](self#which-instructions).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// The instructions.
    pub range: SvmaRange,
    /// Their accesses whose address the registers at the instruction pointer determine, in the order of execution.
    pub operands: Vec<Operand>,
    /// How many more accesses there are.
    pub unresolved: u32,
    /// How many instructions.
    pub instructions: u32,
}

/// One access to memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operand {
    /// The instruction that does it.
    pub instruction: Svma,
    /// Where that is relative to the instruction pointer: -1 is the instruction just executed, the one that a sampled
    /// thread most likely waited for; 0 is the one at the instruction pointer.
    pub place: i32,
    /// What it does.
    pub kind: AccessKind,
    /// Bytes accessed.
    pub size: u32,
    /// The first byte.
    pub address: Address,
    /// The register that the instruction names as base, and its value then; for finding the type of the pointer.
    pub base: Option<(Register, Address)>,
    /// Whether it is the stack access of a `push`, `pop`, `call`, `ret`, `enter` or `leave`, not an operand.
    pub implicit_stack: bool,
    /// For a string instruction with `rep`: how many elements are left. If it is 0, nothing is accessed.
    pub count: Option<Box<Address>>,
}

impl Operand {
    /// The bytes accessed around one sample; `None` if it needs the base of `fs` and that is not known, or if a
    /// repeated string instruction has nothing left to do.
    #[must_use]
    pub fn resolve(
        &self,
        registers: &Registers,
        bias: Bias,
        fs_base: Option<Avma>,
    ) -> Option<AvmaRange> {
        if let Some(count) = &self.count
            && count.resolve(registers, bias, fs_base)? == Avma(0)
        {
            return None;
        }
        let start = self.address.resolve(registers, bias, fs_base)?;
        Some(AvmaRange::new(
            start,
            start.wrapping_add(u64::from(self.size)),
        ))
    }
}

/// Why there is no block.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The instruction pointer is not in the code given.
    #[error("instruction pointer {ip} is not in the function at {range}")]
    Outside {
        /// The instruction pointer.
        ip: Svma,
        /// The code.
        range: SvmaRange,
    },
    /// There is no instruction there.
    #[error("the bytes at {ip} are not an x86-64 instruction")]
    Undecodable {
        /// The instruction pointer.
        ip: Svma,
    },
}

/// What is certainly executed around one instruction pointer in a function.
///
/// To look at many instruction pointers of one function, make a [`Function`] once.
///
/// # Errors
///
/// If `ip` is not in the function, or is not an instruction.
pub fn block_at(code: Code<'_>, ip: Svma) -> Result<Block, DecodeError> {
    Function::new(code).block_at(ip)
}

/// As [`block_at`] where the start of the function is not known, as in stripped or generated code: only forwards from
/// the start of `code`, the instruction pointer.
///
/// # Errors
///
/// If there is no instruction.
pub fn block_from(code: Code<'_>) -> Result<Block, DecodeError> {
    block::read_block(code, code.start, execute::Conventions::UNKNOWN)
}
