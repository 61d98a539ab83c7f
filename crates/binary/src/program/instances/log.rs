//! What a run leaves behind: touches, starts of threads, blocks of memory.

use hitm_model::{AccessKind, Register, Svma};
use rustc_hash::FxHashMap;

use super::locks::Held;
use super::memory::{Memory, Space};
use crate::program::Target;
use crate::program::reach::LockSet;
use crate::program::value::{Value, Values};

/// So many touches of a block are kept that is one thread's alone.
const MOST_ALONE: usize = 8;
/// So many places in the code where a block is pointed to are kept for naming it.
const MOST_HINTS: usize = 32;

/// A touch of one instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Noted {
    /// 0 for what started the threads, else the number of the instance.
    pub(super) run: u32,
    pub(super) instruction: Svma,
    pub(super) function: Svma,
    pub(super) space: Space,
    pub(super) offset: i64,
    pub(super) stride: u32,
    pub(super) by_thread: bool,
    pub(super) size: u32,
    pub(super) kind: AccessKind,
    pub(super) exchanges: bool,
    pub(super) lock: bool,
    pub(super) hot: bool,
    pub(super) chosen: bool,
    pub(super) held: LockSet,
}

/// A thread that is started, with what is known then.
#[derive(Clone, Debug)]
pub(super) struct Start {
    /// The calls that lead to it, as one number.
    pub(super) way: u64,
    pub(super) site: Svma,
    pub(super) entry: Svma,
    pub(super) arguments: [Values; 6],
    pub(super) memory: Memory,
    /// Whether in a loop.
    pub(super) many: bool,
    pub(super) frames: Vec<Frame>,
    /// The first function that was run to find it; of a thread that a thread starts nothing.
    pub(super) top: Option<Svma>,
    /// The threads that may be running then, by the ways to their starts.
    pub(super) beside: Vec<u64>,
}

/// A function that is being run.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) function: Svma,
    /// The call that it is at.
    pub(super) call: Svma,
    /// Where its frame ends: the address before which the return address is.
    pub(super) top: Values,
    /// `rsp` and `rbp` at the call.
    pub(super) at_call: [Values; 2],
    /// Whether it is called in a loop.
    pub(super) hot: bool,
    /// The calls that lead to it, as one number.
    pub(super) way: u64,
}

/// A place in the code where something points to a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hint {
    /// The instruction.
    pub instruction: Svma,
    /// What points to it.
    pub pointer: Pointing,
    /// Where it points to in the block.
    pub offset: i64,
}

/// What points to a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pointing {
    /// A register, before the instruction.
    Register(Register),
    /// A word of the function's frame, which the instruction stores.
    Frame {
        /// Where it is from the canonical frame address.
        cfa: i64,
        /// The same from `rbp`, if that points into the frame.
        fp: Option<i64>,
    },
}

/// Memory that is there only while the program runs.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) kind: BlockKind,
    /// What its address is a multiple of.
    pub(super) align: u64,
    /// Which function allocated it, and what its address is a multiple of by that function's contract, where both are
    /// always the same.
    pub(super) promised: Option<(Target, u64)>,
    pub(super) hints: Vec<Hint>,
    /// Whether there may be several, one for each round of a loop.
    pub(super) repeated: bool,
    /// Whose it is.
    pub(super) run: u32,
    /// The touches that are kept of threads that have it for themselves: of which run, at which instruction.
    pub(super) alone: Vec<(u32, Svma)>,
}

/// What a block is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockKind {
    /// A stack. Offsets are from the return address of the first function.
    Stack,
    /// The part of a stack that a function has aligned for itself. Offsets are from where it was aligned.
    Aligned,
    /// A block of the heap, from its start.
    Heap {
        /// The call that allocates it.
        site: Svma,
        /// Bytes, if known.
        size: Option<u64>,
    },
}

/// Everything that runs leave behind.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) touches: Vec<Noted>,
    /// Some touches of blocks of the heap by the only thread that can reach them.
    pub(super) alone: Vec<Noted>,
    pub(super) starts: Vec<Start>,
    /// Words that are written after threads were started: the ways to these.
    pub(super) later: Vec<(Space, i64, u64)>,
    /// Starts whose function is not known.
    pub(super) unknown: Vec<Svma>,
    pub(super) blocks: Vec<Made>,
    /// Sets of locks that were held, but for the empty one, whose number is 0.
    pub(super) lock_sets: Vec<Held>,
    set_numbers: FxHashMap<Held, LockSet>,
    numbers: FxHashMap<(u64, u64), u32>,
}

impl Log {
    /// A point to go back to.
    pub(super) fn mark(&self) -> (usize, usize, usize) {
        (self.touches.len(), self.starts.len(), self.later.len())
    }

    /// Forgets what was noted since.
    pub(super) fn back_to(&mut self, (touches, starts, later): (usize, usize, usize)) {
        self.touches.truncate(touches);
        self.starts.truncate(starts);
        self.later.truncate(later);
    }

    /// The number of a set of locks.
    pub(super) fn lock_set(&mut self, held: &Held) -> LockSet {
        if held.all().is_empty() {
            return LockSet::default();
        }
        if let Some(&known) = self.set_numbers.get(held) {
            return known;
        }
        self.lock_sets.push(held.clone());
        let number = LockSet(self.lock_sets.len() as u32);
        self.set_numbers.insert(held.clone(), number);
        number
    }

    /// The set of a number.
    pub(super) fn locks(&self, set: LockSet) -> Held {
        let known = set.place().and_then(|place| self.lock_sets.get(place));
        known.cloned().unwrap_or_default()
    }

    /// The block that is made on a way at a site.
    pub(super) fn block(&mut self, key: (u64, u64), new: impl FnOnce() -> Made) -> u32 {
        let next = self.blocks.len() as u32;
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.blocks.push(new());
        }
        number
    }

    /// Notes a touch of a block that is one thread's alone. In all rounds of a loop that is so for the first block at least.
    pub(super) fn note_alone(&mut self, noted: Noted) {
        let Space::Block(number) = noted.space else {
            return;
        };
        let Some(block) = self.blocks.get_mut(number as usize) else {
            return;
        };
        let known = (noted.run, noted.instruction);
        let heap = matches!(block.kind, BlockKind::Heap { .. });
        if heap && block.alone.len() < MOST_ALONE && !block.alone.contains(&known) {
            block.alone.push(known);
            self.alone.push(noted);
        }
    }

    /// Forgets these touches: threads are numbered anew.
    pub(super) fn forget_alone(&mut self) {
        self.alone.clear();
        for block in &mut self.blocks {
            block.alone.clear();
        }
    }

    /// Notes that something points to a block.
    pub(super) fn hint(&mut self, at: Svma, pointer: Pointing, value: Value) {
        if let Some(Space::Block(number)) = Space::of(value)
            && value.stride == 0
            && let Some(block) = self.blocks.get_mut(number as usize)
            && block.hints.len() < MOST_HINTS
        {
            let hint = Hint {
                instruction: at,
                pointer,
                offset: value.offset,
            };
            if !block.hints.contains(&hint) {
                block.hints.push(hint);
            }
        }
    }
}
