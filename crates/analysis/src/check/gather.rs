//! A binary's bytes → facts.

use hitm_binary::debug::{DebugInfo, Origin, SharedWord, WordKind};
use hitm_binary::image::{DebugLevel, Image};
use hitm_binary::program::{BlockKind, HeldLock, Place, Program, RootKind, Touch};
use hitm_model::{AccessKind, LineSize, Svma, SvmaRange};
use rustc_hash::{FxHashMap, FxHashSet};

use super::alignment::AllocatedFacts;
use super::blocks::{self, BlockObject, Blocks, own_name};
use super::facts::{Facts, Held, ObjectFacts, RootFacts, Use, UseSite};
use super::types::{PointerUse, TypeFacts, WordFacts};
use crate::named::GUARD;

/// So many instructions of one use are kept.
const MOST_SITES: usize = 8;
/// So many of one block.
const MOST_SITES_OF_BLOCK: usize = 64;
/// So many accesses through pointers are looked at.
const MOST_POINTER_USES: usize = 2_000_000;

/// What was gathered.
pub(super) struct Gathered {
    pub(super) facts: Facts,
    pub(super) types: Vec<TypeFacts>,
    pub(super) pointer_uses: Vec<PointerUse>,
    pub(super) allocated: Vec<AllocatedFacts>,
    /// Named objects in writable data.
    pub(super) named: u64,
    /// The objects that are on a stack or on the heap, by their place among all.
    pub(super) in_blocks: FxHashMap<usize, BlockObject>,
}

pub(super) fn gather(
    image: &Image<'_>,
    debug: &DebugInfo<'_>,
    program: &Program,
    line: LineSize,
) -> Gathered {
    let symbols = Symbols::of(image);
    let roots: Vec<RootFacts> = program
        .roots()
        .iter()
        .map(|root| RootFacts {
            main: root.kind == RootKind::Main,
            many: root.many,
        })
        .collect();
    let mut objects = Objects {
        debug,
        symbols: &symbols,
        undeclared_are_of_library: image.debug_level() == DebugLevel::Full && image.has_c_library(),
        blocks: Blocks::new(image, debug, program),
        in_blocks: FxHashMap::default(),
        numbers: FxHashMap::default(),
        all: Vec::new(),
        words: Vec::new(),
    };
    let uses = uses_of(program, &mut objects);
    let (objects, in_blocks) = (objects.all, objects.in_blocks);
    Gathered {
        facts: Facts {
            line,
            roots,
            apart: program.apart().clone(),
            objects,
            uses,
        },
        allocated: allocated(debug, program),
        types: types_of(debug),
        pointer_uses: pointer_uses(program),
        named: symbols.ranges.len() as u64,
        in_blocks,
    }
}

/// Objects in writable data, by symbol.
pub(super) struct Symbols<'a, 'd> {
    image: &'a Image<'d>,
    ranges: Vec<SvmaRange>,
    writable: Vec<SvmaRange>,
}

impl<'a, 'd> Symbols<'a, 'd> {
    pub(super) fn of(image: &'a Image<'d>) -> Self {
        let writable = image.writable_sections();
        let inside =
            |range: &SvmaRange| writable.iter().any(|section| section.contains(range.start));
        let mut ranges: Vec<SvmaRange> = image.data_symbols().filter(inside).collect();
        // Aliases name one object twice.
        ranges.dedup();
        Self {
            image,
            ranges,
            writable,
        }
    }

    /// Whether the program may change what is there.
    fn is_writable(&self, at: Svma) -> bool {
        self.writable.iter().any(|section| section.contains(at))
    }

    /// The objects that reach into a range.
    pub(super) fn within(&self, range: SvmaRange) -> impl Iterator<Item = SvmaRange> + '_ {
        let to = self
            .ranges
            .partition_point(|object| object.start < range.end);
        self.ranges[..to]
            .iter()
            .rev()
            .take(256)
            .filter(move |object| object.end > range.start)
            .copied()
    }

    fn at(&self, at: Svma) -> Option<SvmaRange> {
        let to = self.ranges.partition_point(|object| object.start <= at);
        let near = &self.ranges[to.saturating_sub(16)..to];
        near.iter()
            .rev()
            .find(|object| object.contains(at))
            .copied()
    }
}

struct Objects<'a, 'd, 'i> {
    debug: &'a DebugInfo<'i>,
    symbols: &'a Symbols<'a, 'd>,
    /// The program has debug information, and the C library that is linked into it has none.
    undeclared_are_of_library: bool,
    blocks: Blocks<'a, 'd, 'i>,
    in_blocks: FxHashMap<usize, BlockObject>,
    numbers: FxHashMap<Svma, usize>,
    all: Vec<ObjectFacts>,
    /// The atomics and locks of each.
    words: Vec<Vec<SharedWord>>,
}

impl Objects<'_, '_, '_> {
    /// The object at an address that the program may change.
    fn at(&mut self, at: Svma) -> Option<usize> {
        if let Some(object) = self.blocks.at(at) {
            return Some(self.in_block(object));
        }
        if !self.symbols.is_writable(at) {
            return None;
        }
        let range = self
            .symbols
            .at(at)
            // Without a symbol each word is on its own.
            .unwrap_or_else(|| SvmaRange::new(Svma(at.0 & !7), Svma((at.0 & !7).wrapping_add(8))));
        if let Some(&known) = self.numbers.get(&range.start) {
            return Some(known);
        }
        let global = self.debug.global_at(range.start);
        let named =
            global.filter(|global| global.origin != Origin::Section && global.svma == range.start);
        let undeclared = named
            .as_ref()
            .is_none_or(|global| global.declared.is_none());
        let (name, ty) = match named {
            Some(global) => (global.name, global.ty),
            None => {
                let section = self.symbols.image.section_range_at(range.start);
                let (name, from) = section.map_or(("data", Svma(0)), |(name, it)| (name, it.start));
                let offset = range.start.offset_from(from).unwrap_or(0);
                (format!("{name}+{offset:#x}"), None)
            }
        };
        self.words
            .push(ty.map(|ty| self.debug.words_of(ty)).unwrap_or_default());
        let number = self.all.len();
        self.all.push(ObjectFacts {
            library: is_of_library(&name) || (undeclared && self.undeclared_are_of_library),
            name,
            start: range.start,
            size: range.len(),
        });
        self.numbers.insert(range.start, number);
        Some(number)
    }
}

impl Objects<'_, '_, '_> {
    fn in_block(&mut self, object: BlockObject) -> usize {
        if let Some(&known) = self.numbers.get(&object.start) {
            return known;
        }
        let number = self.all.len();
        self.all.push(ObjectFacts {
            library: is_of_library(own_name(&object.name)),
            name: object.name.clone(),
            start: object.start,
            size: object.size,
        });
        let words = object.ty.map(|ty| self.debug.words_of(ty));
        self.words.push(words.unwrap_or_default());
        self.numbers.insert(object.start, number);
        self.in_blocks.insert(number, object);
        number
    }

    /// Whether the elements that an access reaches are, or hold just there, atomics or locks.
    fn is_element(&self, object: usize, touch: &Touch) -> bool {
        let offset = touch
            .address
            .offset_from(self.all[object].start)
            .unwrap_or(0);
        self.words[object].iter().any(|word| {
            word.repeated.is_some_and(|(stride, count)| {
                let inside = offset.checked_sub(word.offset);
                stride == u64::from(touch.stride)
                    && inside.is_some_and(|at| {
                        at < stride.saturating_mul(count) && at % stride < word.size
                    })
            })
        })
    }
}

/// Whether a name is a standard library's or the compiler's.
fn is_of_library(name: &str) -> bool {
    let name = name
        .trim_start_matches(GUARD)
        .trim_start_matches(['<', '&']);
    // Those that Rust's library brings with it are known by their own names.
    let brought = [
        "memchr::",
        "object::",
        "gimli::",
        "addr2line::",
        "miniz_oxide::",
        "rustc_demangle::",
    ];
    [
        "std::",
        "core::",
        "alloc::",
        "__gnu_cxx::",
        "__",
        "completed.",
        "_IO_",
        "_dl_",
        "_nl_",
        "DW.ref.",
    ]
    .iter()
    .chain(&brought)
    .any(|library| name.starts_with(library))
        || matches!(
            name,
            "completed" | "stdout" | "stderr" | "stdin" | "environ"
        )
}

type Key = (Option<u16>, u64, u32, u32, bool);

fn uses_of(program: &Program, objects: &mut Objects<'_, '_, '_>) -> Vec<Use> {
    let mut numbers: FxHashMap<Key, usize> = FxHashMap::default();
    let mut uses: Vec<Use> = Vec::new();
    for touch in program.touches() {
        let key = (
            touch.root,
            touch.address.0,
            touch.size,
            touch.stride,
            touch.by_thread,
        );
        let number = match numbers.get(&key) {
            Some(&number) => number,
            None => {
                let Some(object) = objects.at(touch.address) else {
                    continue;
                };
                uses.push(Use {
                    root: touch.root,
                    object,
                    at: touch.address,
                    size: touch.size,
                    stride: touch.stride,
                    by_thread: touch.by_thread,
                    element_shared: objects.is_element(object, touch),
                    sites: Vec::new(),
                    locks: false,
                    held_hot: Held::default(),
                    held: Held::default(),
                });
                numbers.insert(key, uses.len() - 1);
                uses.len() - 1
            }
        };
        add(&mut uses[number], touch, program.locks(touch.held));
    }
    uses
}

fn site_of(touch: &Touch) -> UseSite {
    UseSite {
        function: touch.function,
        instruction: touch.instruction,
        kind: touch.kind,
        hot: touch.hot,
        chosen: touch.chosen,
        certainty: touch.certainty,
    }
}

fn add(used: &mut Use, touch: &Touch, held: &[HeldLock]) {
    used.held.add(held);
    if touch.hot {
        used.held_hot.add(held);
    }
    used.locks |= touch.lock || touch.exchanges;
    let site = site_of(touch);
    // Of each kind enough are kept to tell what is done, and where.
    let alike = used
        .sites
        .iter()
        .filter(|other| {
            other.kind.writes() == site.kind.writes()
                && other.hot == site.hot
                && other.certainty >= site.certainty
        })
        .count();
    if alike < MOST_SITES && !used.sites.contains(&site) {
        used.sites.push(site);
    }
}

/// The types that blocks of the heap hold for sure, where what their allocator promises is known.
fn allocated(debug: &DebugInfo<'_>, program: &Program) -> Vec<AllocatedFacts> {
    let mut uses: FxHashMap<Svma, Vec<(Option<u16>, UseSite)>> = FxHashMap::default();
    for touch in program.touches().iter().chain(program.touches_alone()) {
        if let Some(start) = program.block_start(touch.address) {
            let sites = uses.entry(start).or_default();
            let site = (touch.root, site_of(touch));
            if sites.len() < MOST_SITES_OF_BLOCK && !sites.contains(&site) {
                sites.push(site);
            }
        }
    }
    let mut all = Vec::new();
    for (start, block) in program.blocks() {
        let BlockKind::Heap {
            site,
            size: Some(room),
        } = block.kind
        else {
            continue;
        };
        let Some(promise) = &block.promise else {
            continue;
        };
        let mut seen = FxHashSet::default();
        for hint in &block.hints {
            for (at, ty) in blocks::pointers(debug, hint) {
                let (Ok(at), Some(size @ 1..)) = (u64::try_from(at), debug.type_size(ty)) else {
                    continue;
                };
                let fits = at.checked_add(size).is_some_and(|end| end <= room);
                if !fits || !seen.insert((at, ty)) {
                    continue;
                }
                all.push(AllocatedFacts {
                    name: debug.type_name(ty),
                    size,
                    align: debug.type_align(ty),
                    at,
                    promised: promise.align,
                    allocator: promise.allocator.clone(),
                    site,
                    declared: debug.declaration(ty),
                    uses: uses.get(&start).cloned().unwrap_or_default(),
                });
            }
        }
    }
    all
}

fn types_of(debug: &DebugInfo<'_>) -> Vec<TypeFacts> {
    let word = |word: &SharedWord| WordFacts {
        path: word.path.clone(),
        offset: word.offset,
        size: word.size,
        lock: word.kind == WordKind::Lock,
        repeated: word.repeated,
    };
    let (types, arrays) = debug.shared_types();
    let types = types.into_iter().map(|ty| TypeFacts {
        words: ty.words.iter().map(word).collect(),
        name: ty.name,
        size: ty.size,
        align: ty.align,
        padding: ty.padding,
        in_list: None,
        declared: ty.declared,
    });
    let arrays = arrays.into_iter().map(|array| TypeFacts {
        words: array.words.iter().map(word).collect(),
        name: array.element_name,
        size: array.size,
        align: None,
        padding: None,
        in_list: Some(array.name),
        declared: array.declared,
    });
    types.chain(arrays).collect()
}

/// Accesses through pointers by started threads: all atomic ones, and stores with an index.
fn pointer_uses(program: &Program) -> Vec<PointerUse> {
    let mut uses = Vec::new();
    let mut seen = FxHashSet::default();
    for (number, functions) in program.followed().by_root.iter().enumerate() {
        let is_thread = program
            .roots()
            .get(number)
            .is_some_and(|root| root.kind == RootKind::Thread);
        if !is_thread {
            continue;
        }
        for &function in functions {
            let Some(function) = program.functions().get(function as usize) else {
                continue;
            };
            for access in &function.accesses {
                let (offset, stride) = match access.place {
                    Place::Argument { offset, stride, .. }
                    | Place::Pointer { offset, stride, .. } => (offset, stride),
                    Place::File { .. } => continue,
                };
                let wanted =
                    access.kind == AccessKind::Atomic || (stride > 0 && access.kind.writes());
                let root = number as u16;
                if wanted
                    && uses.len() < MOST_POINTER_USES
                    && seen.insert((root, access.instruction, offset))
                {
                    uses.push(PointerUse {
                        root,
                        function: function.range.start,
                        instruction: access.instruction,
                        kind: access.kind,
                        hot: access.depth > 0,
                        offset,
                        stride,
                    });
                }
            }
        }
    }
    uses
}
