//! Types that ask for whole lines, in memory whose allocator was not told so.
//!
//! ```text
//! promised(at) = gcd(what the allocator promises of a block, where the type begins in it)
//! loose        = alignment of the type >= line > promised(at)
//! ```
//!
//! `alignas(64)` on a type is kept by the compiler for what it lays out itself. `malloc` knows nothing of it, nor does
//! `operator new` before C++17. That a block begins with a line is luck then, and what was to keep neighbours away does not.
//!
//! # Caveats
//!
//! - What a block is comes from debug information: a variable of pointer type that the code is seen to point there, with
//!   room for the whole type behind it. Where code aligns the pointer itself, it is no constant offset in the block any
//!   more, and nothing is said.
//! - Allocators promise less than they give: one may happen to align all blocks of this size.

use hitm_model::{Confidence, LineSize, SourceLine, Svma};

use super::facts::{RootFacts, UseSite};

/// A type that is somewhere in a block of the heap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllocatedFacts {
    /// The type's name.
    pub name: String,
    /// Bytes of it.
    pub size: u64,
    /// What the type says that its address is a multiple of.
    pub align: u64,
    /// Where it begins in the block.
    pub at: u64,
    /// What the allocator says that the block's address is a multiple of.
    pub promised: u64,
    /// The allocator.
    pub allocator: String,
    /// The call of it.
    pub site: Svma,
    /// Where the type is declared.
    pub declared: Option<SourceLine>,
    /// Who touches the block.
    pub uses: Vec<(Option<u16>, UseSite)>,
}

/// A type that asks for whole lines and need not get them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AlignmentSuspicion {
    /// The type, by its place in the list.
    pub allocated: usize,
    /// What its address is a multiple of for sure.
    pub promised: u64,
    /// How sure it is that threads need what the type asks for.
    pub confidence: Confidence,
}

/// Judges all types that are seen on the heap.
#[must_use]
pub fn judge_alignment(
    line: LineSize,
    roots: &[RootFacts],
    allocated: &[AllocatedFacts],
) -> Vec<AlignmentSuspicion> {
    let line = u64::from(line.bytes());
    let judge_one = |(number, one): (usize, &AllocatedFacts)| {
        let promised = promised_at(one);
        let loose = one.align >= line && promised < line;
        loose.then(|| AlignmentSuspicion {
            allocated: number,
            promised,
            confidence: match is_written_by_a_thread(roots, one) {
                true => Confidence::Medium,
                false => Confidence::Low,
            },
        })
    };
    allocated.iter().enumerate().filter_map(judge_one).collect()
}

fn promised_at(one: &AllocatedFacts) -> u64 {
    match one.at {
        0 => one.promised,
        at => one.promised.min(1 << at.trailing_zeros()),
    }
}

/// What no started thread writes costs nobody anything.
fn is_written_by_a_thread(roots: &[RootFacts], one: &AllocatedFacts) -> bool {
    one.uses.iter().any(|(root, site)| {
        let root = root.and_then(|root| roots.get(usize::from(root)));
        site.kind.writes() && root.is_some_and(|root| !root.main)
    })
}
