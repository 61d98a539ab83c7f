//! Where the blocks of a function begin.

use hitm_model::{Svma, SvmaRange};

use super::block::{MOST, read_block};
use super::execute::Conventions;
use super::inner_loop::{InnerLoop, inner_loop};
use super::loops::conditions_of_loops;
use super::scan::{FramePointer, Scan, Starts};
use super::tables::Surroundings;
use super::{Block, Code, DecodeError};
use crate::image::Image;

/// A function and what its branches say about where control can enter.
#[derive(Clone, Debug)]
pub struct Function<'a> {
    code: Code<'a>,
    /// Addresses inside that a branch goes to, in order.
    targets: Vec<u64>,
    /// Those of them to which only jumps into a loop go, in order.
    conditions: Vec<u64>,
    starts: Starts,
    /// Whether every way into the middle of the function is in `targets`.
    entries_known: bool,
    conventions: Conventions,
}

impl<'a> Function<'a> {
    /// Reads all instructions once.
    ///
    /// Control can enter in the middle where a branch of the function goes to. Without the file's constant data it is
    /// not known where jump tables lead: see [`Function::in_image`] and [`Function::with_tables`].
    #[must_use]
    pub fn new(code: Code<'a>) -> Self {
        Self::with_tables(code, |_| None)
    }

    /// Reads all instructions once, and the jump tables that they use; `memory` gives the file's constant bytes from
    /// an address to the end of its section.
    ///
    /// Where it is not known that all ways into the middle are seen, blocks begin at the instruction pointer: in a
    /// function with an indirect jump that neither uses such a table nor leaves the function, with bytes that are no
    /// instruction, or with a branch into the middle of one.
    #[must_use]
    pub fn with_tables<'d>(code: Code<'a>, memory: impl Fn(Svma) -> Option<&'d [u8]>) -> Self {
        let around = Surroundings {
            memory: &memory,
            is_code: &|_| true,
        };
        Self::of_scan(code, Scan::new(code), around)
    }

    /// The function at an address of a file, with its jump tables and all ways into it from elsewhere in the file;
    /// `None` if its bounds are not known.
    ///
    /// A piece of code that the function branches to, other than by a tail call, is a part of it that the compiler put
    /// elsewhere: if it is not known where that jumps to, neither is where the function is entered.
    #[must_use]
    pub fn in_image(image: &Image<'a>, ip: Svma) -> Option<Self> {
        let bounds = image.function_at(ip)?;
        let code = code_of(image, bounds)?;
        let memory = |at| {
            let (_, section) = image.section_range_at(at)?;
            image.code(SvmaRange::new(at, section.end))
        };
        let segments = image.code_ranges();
        let around = Surroundings {
            memory: &memory,
            is_code: &|at| segments.iter().any(|segment| segment.contains(at)),
        };
        let scan = Scan::new(code);
        // A tail call does not come back, and who jumps here from afar is known without reading on.
        let mut parts: Vec<SvmaRange> = scan
            .exits
            .iter()
            .filter_map(|&(target, conditional)| {
                let other = image.function_at(target)?;
                (conditional || other.start != target).then_some(other)
            })
            .collect();
        parts.sort_unstable();
        parts.dedup();
        let mut function = Self::of_scan(code, scan, around);
        for part in parts {
            if let Some(part) = code_of(image, part) {
                function.enter_from(part, around);
            }
        }
        for neighbour in neighbours(image, bounds) {
            function.admit_likely(Scan::new(neighbour).targets());
        }
        let long = image.long_jumps().within(bounds).iter();
        // The function's own jumps are known, and which of them enter a loop.
        let foreign = long.filter(|jump| {
            let is_own = |from| function.starts.contains(code, from);
            !jump.only_from.is_some_and(is_own)
        });
        function.admit_likely(foreign.map(|jump| jump.to).collect());
        Some(function)
    }

    fn of_scan(code: Code<'a>, mut scan: Scan<'_>, around: Surroundings<'_, '_>) -> Self {
        let indirect = scan.indirect_targets(&[code.range()], around);
        let targets = scan.targets();
        let mut function = Self {
            code,
            targets: Vec::new(),
            conditions: Vec::new(),
            starts: scan.starts,
            entries_known: scan.complete && indirect.is_some(),
            conventions: Conventions {
                upwards: scan.upwards,
                frame_pointer: scan.frame_pointer == FramePointer::Set,
            },
        };
        function.admit(targets);
        // All that is admitted from here on is another way in.
        function.conditions = conditions_of_loops(&scan.branches);
        function.admit_likely(indirect.unwrap_or_default());
        function
    }

    /// Adds the ways into this function from another piece of code that belongs to it.
    #[must_use]
    pub fn entered_from(mut self, other: Code<'_>) -> Self {
        let around = Surroundings {
            memory: &|_| None,
            is_code: &|_| true,
        };
        self.enter_from(other, around);
        self
    }

    fn enter_from(&mut self, other: Code<'_>, around: Surroundings<'_, '_>) {
        let mut scan = Scan::new(other);
        let indirect = scan.indirect_targets(&[self.code.range(), other.range()], around);
        self.entries_known &= scan.complete && indirect.is_some();
        self.conventions.upwards &= scan.upwards;
        self.conventions.frame_pointer &= scan.frame_pointer != FramePointer::Misused;
        self.admit(scan.targets());
        self.admit_likely(indirect.unwrap_or_default());
    }

    /// Adds those targets of branches that are inside.
    fn admit(&mut self, mut targets: Vec<u64>) {
        targets.retain(|&target| self.code.range().contains(Svma(target)));
        let mut inside = targets.iter();
        self.entries_known &= inside.all(|&target| self.starts.contains(self.code, target));
        self.admit_likely(targets);
    }

    /// Adds those targets that are instructions here. One that is none came from bytes that are no table or no branch.
    fn admit_likely(&mut self, mut targets: Vec<u64>) {
        targets.sort_unstable();
        self.conditions
            .retain(|condition| targets.binary_search(condition).is_err());
        let targets = targets.into_iter();
        self.targets
            .extend(targets.filter(|&target| self.starts.contains(self.code, target)));
        self.targets.sort_unstable();
        self.targets.dedup();
    }

    /// The function's bytes.
    #[must_use]
    pub const fn code(&self) -> Code<'a> {
        self.code
    }

    /// What is certainly executed around one instruction pointer in it.
    ///
    /// Exactly at the condition of a loop that is entered there by a jump, the block includes the end of the loop's
    /// body: that is only likely, as it is not so in the first pass through the condition.
    ///
    /// # Errors
    ///
    /// If `ip` is not in the function, or is not an instruction.
    pub fn block_at(&self, ip: Svma) -> Result<Block, DecodeError> {
        let range = self.code.range();
        if !range.contains(ip) {
            return Err(DecodeError::Outside { ip, range });
        }
        let leader = if self.entries_known && self.starts.contains(self.code, ip.0) {
            let is_condition = self.conditions.binary_search(&ip.0).is_ok();
            let is_before = |&target: &u64| target < ip.0 || target == ip.0 && !is_condition;
            let n_before = self.targets.partition_point(is_before);
            let leader = match n_before.checked_sub(1) {
                Some(at) => Svma(self.targets[at]),
                None => self.code.start,
            };
            self.starts.back(self.code, ip, MOST).max(leader)
        } else {
            ip
        };
        let code = self.code.from(leader).unwrap_or(self.code);
        read_block(code, ip, self.conventions)
    }
}

impl Function<'_> {
    /// The innermost loop around an instruction, as far as direct branches close it.
    #[must_use]
    pub fn inner_loop_at(&self, ip: Svma) -> Option<InnerLoop> {
        let scan = Scan::new(self.code);
        inner_loop(self.code, &scan.branches, ip)
    }
}

impl Code<'_> {
    /// Where it is.
    #[must_use]
    pub const fn range(&self) -> SvmaRange {
        SvmaRange::new(self.start, self.start.wrapping_add(self.bytes.len() as u64))
    }

    /// The part from `at` on.
    pub(super) fn from(&self, at: Svma) -> Option<Self> {
        let offset = usize::try_from(at.offset_from(self.start)?).ok()?;
        Some(Self {
            start: at,
            bytes: self.bytes.get(offset..)?,
        })
    }
}

fn code_of<'a>(image: &Image<'a>, bounds: SvmaRange) -> Option<Code<'a>> {
    Some(Code {
        start: bounds.start,
        bytes: image.code(bounds)?,
    })
}

/// The code before and behind a function from where a short jump reaches it.
fn neighbours<'a>(image: &Image<'a>, bounds: SvmaRange) -> impl Iterator<Item = Code<'a>> {
    /// How far a jump with an 8-bit distance goes.
    const REACH: u64 = 0x80;
    /// Decoding from the start of a longer function would take too long; from anywhere it soon meets instructions.
    const FAR: u64 = 0x1000;

    let before = (1..=REACH)
        .rev()
        .find_map(|reach| image.function_at(bounds.start.wrapping_sub(reach)))
        .map(|function| function.start.max(bounds.start.wrapping_sub(FAR)));
    let behind = (0..=REACH)
        .rev()
        .map(|reach| SvmaRange::new(bounds.end, bounds.end.wrapping_add(reach)))
        .find(|range| image.code(*range).is_some());
    let before = before.map(|start| SvmaRange::new(start, bounds.start));
    [before, behind]
        .into_iter()
        .flatten()
        .filter_map(|range| code_of(image, range))
}
