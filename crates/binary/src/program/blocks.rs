//! Memory that is there only while a program runs: stacks and blocks of the heap, as far as its code tells of them.
//!
//! They get addresses that nothing in a file has, so that offsets, lines and fields are told in the same way everywhere.
//! Of such an address only the distance to others of the block means something, and its place on a line as far as the
//! block's alignment goes.

use hitm_model::Svma;

pub use super::instances::{BlockKind, Hint, Pointing};

/// Where addresses of blocks begin.
const FIRST: u64 = 1 << 62;
/// One block has so many of them.
const EACH: u64 = 1 << 32;

/// Memory that is there only while the program runs.
#[derive(Clone, Debug)]
pub struct Block {
    /// What it is.
    pub kind: BlockKind,
    /// What its address is a multiple of.
    pub align: u64,
    /// Of the heap: by whom it is allocated, where that is known to promise something about the address.
    pub promise: Option<Promise>,
    /// Where in the code a register or a variable points to it.
    pub hints: Vec<Hint>,
}

/// What an allocator promises of a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Promise {
    /// The allocator's name.
    pub allocator: String,
    /// What the block's address is a multiple of, by the allocator's contract. That it is one of more is luck.
    pub align: u64,
}

/// A function that is at work on a stack while a thread is started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockFrame {
    /// The function.
    pub function: Svma,
    /// The call that it is at.
    pub call: Svma,
    /// Its canonical frame address.
    pub cfa: Option<Svma>,
    /// `rbp` at the call.
    pub fp: Option<Svma>,
    /// `rsp` at the call.
    pub sp: Option<Svma>,
}

/// The address of an offset in a block.
pub(super) fn address_of(block: u32, kind: BlockKind, offset: i64) -> Svma {
    let base = FIRST + u64::from(block) * EACH + EACH / 2;
    // The stack's first frame ends behind a return address.
    let base = match kind {
        BlockKind::Stack => base - 8,
        BlockKind::Aligned | BlockKind::Heap { .. } => base,
    };
    let far = i64::from(i32::MAX) / 2;
    Svma(base.wrapping_add_signed(offset.clamp(-far, far)))
}

/// The number of the block that an address is in.
pub(super) fn number_at(address: Svma) -> Option<usize> {
    let offset = address.0.checked_sub(FIRST)?;
    usize::try_from(offset / EACH).ok()
}
