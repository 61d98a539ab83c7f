//! Reads all functions of a file, several at a time.

use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};

use hitm_model::{Svma, SvmaRange};
use iced_x86::InstructionInfoFactory;
use rustc_hash::FxHashSet;

use super::blocks::{self, Block, BlockFrame};
use super::imports::Imports;
use super::places::{self, Surroundings};
use super::value::{Lineage, Value};
use super::walk::walk;
use super::{FunctionCode, Target, calls, circles, functions, instances, merge, reach, roots};
use crate::image::Image;

/// Functions that one thread takes at once.
const SHARE: usize = 128;

/// The code of a whole file.
#[derive(Debug, Default)]
pub struct Program {
    pub(super) functions: Vec<FunctionCode>,
    imports: Vec<String>,
    pub(super) roots: roots::Roots,
    reached: Vec<reach::Touch>,
    alone: Vec<reach::Touch>,
    followed: reach::Reached,
    blocks: Vec<Block>,
    frames: Vec<BlockFrame>,
    lock_sets: Vec<Vec<reach::HeldLock>>,
    apart: FxHashSet<(u16, u16)>,
}

impl Program {
    /// Reads the code with so many threads.
    #[must_use]
    pub fn read(image: &Image<'_>, threads: NonZeroUsize) -> Self {
        let view = View::new(image);
        let functions = read_all(&view, threads);
        let mut program = Self {
            functions,
            imports: Vec::new(),
            roots: roots::Roots::default(),
            reached: Vec::new(),
            alone: Vec::new(),
            followed: reach::Reached::default(),
            blocks: Vec::new(),
            frames: Vec::new(),
            lock_sets: Vec::new(),
            apart: FxHashSet::default(),
        };
        let graph = roots::Graph::new(&view, &program.functions);
        program.roots = roots::find(&view, &graph, &program.functions);
        let (reached, mut followed) =
            reach::follow(&view, &program.functions, &graph, &program.roots);
        let main = roots::main_of(&view, &program.functions);
        // Of Rust, `main` is called through a pointer.
        let by_main = followed.by_root.first().map_or(&[][..], Vec::as_slice);
        let instances = instances::follow(&view, &program.functions, &graph, (main, by_main));
        let roots = &mut program.roots;
        let merged = merge::merge(roots, &mut followed, reached, &graph, &instances);
        drop(graph);
        program.reached = merged.touches;
        program.alone = merged.alone;
        program.apart = merged.apart;
        program.followed = followed;
        program.blocks = instances.blocks;
        program.frames = instances.frames;
        program.lock_sets = instances.lock_sets;
        program.imports = view.imports.names;
        program
    }

    /// All functions, in address order.
    #[must_use]
    pub fn functions(&self) -> &[FunctionCode] {
        &self.functions
    }

    /// The function that holds an address.
    #[must_use]
    pub fn function_at(&self, address: Svma) -> Option<&FunctionCode> {
        let after = self
            .functions
            .partition_point(|function| function.range.start <= address);
        let function = self.functions.get(after.checked_sub(1)?)?;
        function.range.contains(address).then_some(function)
    }

    /// The name of an imported function, as [`Target::Import`] numbers them.
    #[must_use]
    pub fn import(&self, number: u32) -> Option<&str> {
        self.imports.get(number as usize).map(String::as_str)
    }

    /// Where threads begin, the main thread first.
    #[must_use]
    pub fn roots(&self) -> &[roots::Root] {
        &self.roots.all
    }

    /// Whether of two instructions of one function a call executes at most one: neither can follow the other.
    #[must_use]
    pub fn is_either_or(&self, image: &Image<'_>, first: Svma, second: Svma) -> bool {
        let Some(function) = self.function_at(first) else {
            return false;
        };
        let range = function.range;
        let bytes = image.code(range).filter(|_| range.contains(second));
        bytes.is_some_and(|bytes| {
            !circles::may_follow(range, bytes, first, second)
                && !circles::may_follow(range, bytes, second, first)
        })
    }

    /// The pairs of roots of which one is waited for before the other one is started, so that they are never there at once;
    /// the smaller number first.
    #[must_use]
    pub fn apart(&self) -> &FxHashSet<(u16, u16)> {
        &self.apart
    }

    /// Whether it starts threads at all.
    #[must_use]
    pub fn starts_threads(&self) -> bool {
        self.roots.starts_threads
    }

    /// How many starts of threads there are whose function is not known.
    #[must_use]
    pub fn unknown_starts(&self) -> u32 {
        self.roots.unknown
    }

    /// Which fixed places the threads touch while others may run.
    #[must_use]
    pub fn touches(&self) -> &[reach::Touch] {
        &self.reached
    }

    /// How threads touch blocks of the heap that each has for itself; of each block some.
    #[must_use]
    pub fn touches_alone(&self) -> &[reach::Touch] {
        &self.alone
    }

    /// The locks of a set.
    #[must_use]
    pub fn locks(&self, set: reach::LockSet) -> &[reach::HeldLock] {
        let known = set.place().and_then(|place| self.lock_sets.get(place));
        known.map_or(&[], Vec::as_slice)
    }

    /// The stack or block of the heap that an address of a touch is in; `None` for one of the file.
    #[must_use]
    pub fn block_at(&self, address: Svma) -> Option<&Block> {
        self.blocks.get(blocks::number_at(address)?)
    }

    /// Where the block that an address is in begins; of a stack, where offsets are counted from.
    #[must_use]
    pub fn block_start(&self, address: Svma) -> Option<Svma> {
        let number = blocks::number_at(address)?;
        let block = self.blocks.get(number)?;
        Some(blocks::address_of(number as u32, block.kind, 0))
    }

    /// All blocks, with where each begins.
    pub fn blocks(&self) -> impl Iterator<Item = (Svma, &Block)> {
        self.blocks.iter().enumerate().map(|(number, block)| {
            let start = blocks::address_of(number as u32, block.kind, 0);
            (start, block)
        })
    }

    /// The functions that are at work on stacks while threads are started.
    #[must_use]
    pub fn frames(&self) -> &[BlockFrame] {
        &self.frames
    }

    /// How far the calls could be followed.
    #[must_use]
    pub fn followed(&self) -> &reach::Reached {
        &self.followed
    }
}

fn read_all(view: &View<'_, '_>, threads: NonZeroUsize) -> Vec<FunctionCode> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut info = InstructionInfoFactory::new();
        let mut read: Vec<FunctionCode> = Vec::new();
        loop {
            let from = next.fetch_add(SHARE, Ordering::Relaxed);
            let Some(share) = view.ranges.get(from..) else {
                return read;
            };
            if share.is_empty() {
                return read;
            }
            for &range in &share[..share.len().min(SHARE)] {
                if let Some(bytes) = view.image.code(range) {
                    read.push(walk(range, bytes, view, &mut info));
                }
            }
        }
    };
    let mut all = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.get()).map(|_| scope.spawn(work)).collect();
        let mut all = work();
        for other in others {
            all.extend(other.join().unwrap_or_else(|fault| resume_unwind(fault)));
        }
        all
    });
    all.sort_unstable_by_key(|function| function.range.start);
    all
}

/// The file as the walk sees it.
pub(super) struct View<'a, 'd> {
    pub(super) image: &'a Image<'d>,
    pub(super) imports: Imports,
    ranges: Vec<SvmaRange>,
    code: Vec<SvmaRange>,
    whole: SvmaRange,
}

impl<'a, 'd> View<'a, 'd> {
    fn new(image: &'a Image<'d>) -> Self {
        let stubs = image.stub_ranges();
        let mut ranges = functions::all(image);
        ranges.retain(|range| !stubs.iter().any(|stubs| stubs.contains(range.start)));
        Self {
            imports: Imports::of(image),
            ranges,
            code: image.code_ranges(),
            whole: image.image_range(),
            image,
        }
    }

    /// The start of the function at an address, if one starts just there.
    pub(super) fn function_start(&self, address: u64) -> Option<Svma> {
        let found = self
            .ranges
            .binary_search_by_key(&Svma(address), |range| range.start);
        found.is_ok().then_some(Svma(address))
    }

    /// The bytes of the function that starts at an address.
    pub(super) fn function_range(&self, start: Svma) -> Option<SvmaRange> {
        let found = self
            .ranges
            .binary_search_by_key(&start, |range| range.start);
        found.ok().map(|number| self.ranges[number])
    }

    /// The address of the function that a word of constant data holds.
    pub(super) fn function_in(&self, address: u64) -> Option<Svma> {
        self.function_start(self.constant(address)?.as_address()?)
    }
}

impl Surroundings for View<'_, '_> {
    fn is_code(&self, address: u64) -> bool {
        self.function_start(address).is_some()
    }

    fn is_data(&self, address: u64) -> bool {
        let address = Svma(address);
        self.whole.contains(address) && !self.code.iter().any(|range| range.contains(address))
    }

    fn is_fixed(&self) -> bool {
        self.image.is_fixed()
    }

    fn constant(&self, address: u64) -> Option<Value> {
        if let Some(value) = self.imports.at(address) {
            return Some(value);
        }
        let word = self.image.constant_word(Svma(address))?;
        Some(places::number(word.cast_signed(), self))
    }

    fn is_table(&self, address: u64) -> bool {
        if !self.is_data(address) || !address.is_multiple_of(8) {
            return false;
        }
        [16, 24].iter().any(|by| {
            let at = address.wrapping_add(*by);
            // In most files the loader fills such tables, and a look at its list is cheap.
            let known = self.imports.at(at).and_then(Value::as_address);
            match known {
                Some(address) => self.is_code(address),
                None => self.is_fixed() && self.function_in(at).is_some(),
            }
        })
    }

    fn target(&self, address: u64) -> Option<Target> {
        if let Some(import) = self.imports.linked_in(Svma(address)) {
            return Some(Target::Import(import));
        }
        if let Some(number) = functions::at(&self.ranges, Svma(address)) {
            return Some(Target::Function(self.ranges[number].start));
        }
        let import = self.imports.behind_stub(self.image, Svma(address))?;
        Some(Target::Import(import))
    }

    fn result_of(&self, import: u32) -> Lineage {
        let name = self.imports.names.get(import as usize);
        name.map_or(Lineage::OTHER, |name| calls::result_of(name))
    }
}
