//! Names for what is on a stack or on the heap: the variables of the functions that are at work there while threads run,
//! and the types of pointers that lead to a block.

use hitm_binary::debug::{DebugInfo, FramePlace, FrameVariable, TypeId};
use hitm_binary::image::Image;
use hitm_binary::program::{Block, BlockFrame, BlockKind, Hint, Pointing, Program};
use hitm_model::{SourceLine, Svma, SvmaRange};
use rustc_hash::FxHashMap;

/// An object of a stack or of the heap.
#[derive(Clone, Debug)]
pub(super) struct BlockObject {
    pub(super) name: String,
    pub(super) start: Svma,
    pub(super) size: u64,
    /// Whether that is known; else it is a bound.
    pub(super) sized: bool,
    pub(super) ty: Option<TypeId>,
    pub(super) declared: Option<SourceLine>,
    /// What the address of the block's start is a multiple of.
    pub(super) align: u64,
    /// Where the block starts that it is in.
    pub(super) block: Svma,
    /// Whether it is on the heap.
    pub(super) heap: bool,
}

/// So large is a block whose size is not known, at least.
const UNKNOWN: u64 = 1 << 20;
/// Before what an `Arc` of Rust's library points to there are two counts; the type of both is known by this name.
const COUNTED: &str = "alloc::sync::ArcInner<";

pub(super) struct Blocks<'a, 'd, 'i> {
    image: &'a Image<'d>,
    debug: &'a DebugInfo<'i>,
    program: &'a Program,
    /// Types of blocks, by their start.
    types: FxHashMap<Svma, Option<TypeId>>,
    /// Variables of each frame that is at work.
    variables: Vec<(BlockFrame, Vec<FrameVariable>)>,
}

impl<'a, 'd, 'i> Blocks<'a, 'd, 'i> {
    pub(super) fn new(
        image: &'a Image<'d>,
        debug: &'a DebugInfo<'i>,
        program: &'a Program,
    ) -> Self {
        Self {
            image,
            debug,
            program,
            types: FxHashMap::default(),
            variables: Vec::new(),
        }
    }

    /// The object at an address of a block; `None` for an address of the file.
    pub(super) fn at(&mut self, at: Svma) -> Option<BlockObject> {
        let block = self.program.block_at(at)?;
        let start = self.program.block_start(at)?;
        Some(match block.kind {
            BlockKind::Heap { site, size } => self.heap(block, start, site, size),
            BlockKind::Stack | BlockKind::Aligned => self.variable(block, start, at),
        })
    }

    fn heap(&mut self, block: &Block, start: Svma, site: Svma, size: Option<u64>) -> BlockObject {
        let ty = match self.types.get(&start) {
            Some(known) => *known,
            None => {
                let found = self.type_of(block, size);
                self.types.insert(start, found);
                found
            }
        };
        let name = match ty {
            Some(ty) => self.debug.type_name(ty),
            None => {
                let frames = self.debug.source_frames(site);
                let own = frames.iter().find(|frame| !frame.is_library());
                let function = own.map(|frame| frame.function.clone()).or_else(|| {
                    let symbol = self.image.symbol_at(site)?;
                    Some(symbol.name)
                });
                let function = function.unwrap_or_else(|| format!("code at {site}"));
                match size {
                    Some(size) => format!("block of {size} bytes of {function}"),
                    None => format!("block of {function}"),
                }
            }
        };
        BlockObject {
            name,
            start,
            size: size.unwrap_or(UNKNOWN),
            sized: size.is_some(),
            ty,
            declared: None,
            align: block.align,
            block: start,
            heap: true,
        }
    }

    /// The type of a block: one of its size that a pointer to its start is said to point to.
    fn type_of(&self, block: &Block, size: Option<u64>) -> Option<TypeId> {
        let mut best: Option<(u64, TypeId)> = None;
        for hint in &block.hints {
            let named = pointers(self.debug, hint);
            let by_code = match hint.pointer {
                Pointing::Register(register) => self
                    .debug
                    .pointer_by_code(hint.instruction, register)
                    .map(|found| (hint.offset.wrapping_add(found.offset), found.pointee)),
                Pointing::Frame { .. } => None,
            };
            for (at, pointee) in named.into_iter().chain(by_code) {
                let Some(bytes) = self.debug.type_size(pointee).filter(|_| at == 0) else {
                    continue;
                };
                // A part of it that is known says little of the rest.
                let fits = size.is_none_or(|size| bytes == size) && bytes > 0;
                if fits && best.is_none_or(|(known, _)| bytes > known) {
                    best = Some((bytes, pointee));
                }
            }
        }
        best.map(|(_, ty)| ty)
    }

    fn variable(&mut self, block: &Block, start: Svma, at: Svma) -> BlockObject {
        if self.variables.is_empty() {
            let frames = self.program.frames().iter();
            self.variables = frames
                .map(|frame| (*frame, self.debug.frame_variables(frame.call)))
                .collect();
        }
        let mut best: Option<(SvmaRange, &FrameVariable)> = None;
        for (frame, variables) in &self.variables {
            for variable in variables {
                let Some(range) = place(frame, variable).filter(|range| range.contains(at)) else {
                    continue;
                };
                if best.is_none_or(|(known, _)| range.len() < known.len()) {
                    best = Some((range, variable));
                }
            }
        }
        if let Some((range, variable)) = best {
            return BlockObject {
                name: format!("{}::{}", variable.function, variable.name),
                start: range.start,
                size: range.len(),
                sized: true,
                ty: Some(variable.ty),
                declared: variable.declared.clone(),
                align: block.align,
                block: start,
                heap: false,
            };
        }
        let word = Svma(at.0 & !7);
        let below = start.0.cast_signed().wrapping_sub(word.0.cast_signed());
        let function = self
            .program
            .frames()
            .iter()
            .filter(|frame| {
                frame
                    .cfa
                    .or(frame.fp)
                    .is_some_and(|top| top > at && top.0 - at.0 < 1 << 30)
            })
            .min_by_key(|frame| frame.cfa.or(frame.fp))
            .and_then(|frame| self.image.symbol_at(frame.function));
        let function = function.map_or_else(|| "a thread".to_owned(), |symbol| symbol.name);
        BlockObject {
            name: format!("stack of {function}-{below:#x}"),
            start: word,
            size: 8,
            sized: true,
            ty: None,
            declared: None,
            align: block.align,
            block: start,
            heap: false,
        }
    }
}

/// What variables that point to a block are said to point to: where that begins in the block, and its type.
pub(super) fn pointers(debug: &DebugInfo<'_>, hint: &Hint) -> Vec<(i64, TypeId)> {
    match hint.pointer {
        Pointing::Register(register) => debug
            .pointers_at(hint.instruction)
            .into_iter()
            .filter(|pointer| pointer.register == register)
            // The register plus the pointer's offset is where the type begins.
            .map(|pointer| (hint.offset.wrapping_add(pointer.offset), pointer.pointee))
            .collect(),
        Pointing::Frame { cfa, fp } => debug
            .frame_variables(hint.instruction)
            .into_iter()
            .filter(|variable| match variable.place {
                FramePlace::CfaOffset(offset) => offset == cfa,
                FramePlace::FpOffset(offset) => Some(offset) == fp,
                FramePlace::SpOffset(_) => false,
            })
            .filter(|variable| variable.size == 8)
            .filter_map(|variable| Some((hint.offset, debug.held_pointee(variable.ty)?)))
            .collect(),
    }
}

/// Where a variable of a frame is.
fn place(frame: &BlockFrame, variable: &FrameVariable) -> Option<SvmaRange> {
    let (base, offset) = match variable.place {
        FramePlace::CfaOffset(offset) => (frame.cfa?, offset),
        FramePlace::FpOffset(offset) => (frame.fp?, offset),
        FramePlace::SpOffset(offset) => (frame.sp?, offset),
    };
    let start = Svma(base.0.wrapping_add_signed(offset));
    Some(SvmaRange::new(
        start,
        start.wrapping_add(variable.size.max(1)),
    ))
}

/// Whether an object is a standard library's: by what it is, without the counts around it.
pub(super) fn own_name(name: &str) -> &str {
    name.strip_prefix(COUNTED).unwrap_or(name)
}

/// Of all places where a block may begin, in how many two of its bytes are on one line; of two ranges the last byte of the
/// first one and the first byte of the last one are asked for.
pub(super) fn places(object: &BlockObject, a: Svma, b: Svma, line: u64) -> (u64, u64) {
    let align = object.align.clamp(1, line);
    let all = line / align;
    let offset = |at: Svma| at.0.wrapping_sub(object.block.0);
    // A stack's first frame ends behind a return address: the offsets are not from a multiple of the alignment.
    let phase = object.block.0 % align;
    let same = (0..all).filter(|place| {
        let begin = place * align + phase;
        let line_of = |at: Svma| begin.wrapping_add(offset(at)).div_euclid(line);
        line_of(a) == line_of(b)
    });
    (same.count() as u64, all)
}
