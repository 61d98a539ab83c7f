//! One of the two builds: its functions, and where things begin and end in it.

use std::num::NonZeroUsize;

use hitm_binary::decode::{Code, Shape, shape, stub_slot};
use hitm_binary::image::{Image, LoadedWord, SectionInfo, Symbol, SymbolKind};
use hitm_model::{Avma, Svma, SvmaRange};

use super::parallel;
use crate::layout::{Placed, thread_locals};

/// Functions seldom overlap; damaged ones could each claim all code. So many times the code is read at most.
const MOST_CLAIMED: u64 = 8;

/// One build.
#[derive(Debug)]
pub(super) struct Build<'a, 'd> {
    pub(super) image: &'a Image<'d>,
    pub(super) sections: &'a [SectionInfo<'d>],
    pub(super) functions: Vec<Placed<'d>>,
    /// Of each function what does not depend on where things are; `None` where its bytes cannot be read.
    pub(super) shapes: Vec<Option<Shape>>,
    /// Variables that may be written.
    pub(super) written: &'a [Placed<'d>],
    /// Constants that a person named.
    pub(super) constants: Vec<Placed<'d>>,
    pub(super) thread_locals: Vec<Placed<'d>>,
    /// Where something begins or ends, in order.
    landmarks: Vec<u64>,
}

impl<'a, 'd> Build<'a, 'd> {
    pub(super) fn new(
        image: &'a Image<'d>,
        sections: &'a [SectionInfo<'d>],
        written: &'a [Placed<'d>],
        constants: Vec<Placed<'d>>,
        jobs: NonZeroUsize,
    ) -> Self {
        let functions: Vec<Placed<'d>> = image
            .symbols_of(SymbolKind::Function)
            .into_iter()
            .map(|symbol| Placed {
                symbol,
                section: ".text",
            })
            .collect();
        let mut build = Self {
            image,
            sections,
            functions,
            shapes: Vec::new(),
            written,
            constants: Vec::new(),
            thread_locals: thread_locals(image),
            landmarks: Vec::new(),
        };
        build.shapes = build.read_shapes(jobs);
        build.landmarks = build.find_landmarks(&constants);
        build.constants = constants
            .into_iter()
            .filter(|constant| !is_made_up(&constant.symbol))
            .collect();
        build
    }

    fn read_shapes(&self, jobs: NonZeroUsize) -> Vec<Option<Shape>> {
        let executable = self.sections.iter().filter(|section| section.executable);
        let code: u64 = executable.map(|section| section.range.len()).sum();
        let mut claimed = 0u64;
        let n_read = self
            .functions
            .iter()
            .take_while(|function| {
                claimed = claimed.saturating_add(function.symbol.size);
                claimed <= code.saturating_mul(MOST_CLAIMED)
            })
            .count();
        let is_address = |at: Svma| self.image.is_fixed() && self.section(at).is_some();
        parallel::map(self.functions.len(), jobs, |number| {
            let code = (number < n_read).then(|| self.code(number)).flatten()?;
            Some(shape(code, &is_address))
        })
    }

    fn find_landmarks(&self, constants: &[Placed<'d>]) -> Vec<u64> {
        let mut all = Vec::new();
        for section in self.sections {
            all.extend([section.range.start.0, section.range.end.0]);
        }
        for object in self.written.iter().chain(constants) {
            let start = object.symbol.svma.0;
            all.extend([start, start.saturating_add(object.symbol.size)]);
        }
        for (_, word) in self.image.loaded_words() {
            if let LoadedWord::Address(address) = word {
                all.push(address.0);
            }
        }
        // Of a program that is loaded where it says, the linker wrote the pointers.
        let fixed = self
            .sections
            .iter()
            .filter(|section| self.image.is_fixed() && !section.executable && !section.zero);
        for section in fixed {
            let bytes = self.bytes(section.range.start, section.range.len());
            let (words, _) = bytes.unwrap_or_default().as_chunks::<8>();
            let pointers = words.iter().map(|&word| u64::from_le_bytes(word));
            all.extend(pointers.filter(|&word| self.section(Svma(word)).is_some()));
        }
        let shapes = self.shapes.iter().flatten();
        all.extend(
            shapes
                .flat_map(|shape| &shape.places)
                .filter(|&&place| {
                    self.section(place)
                        .is_some_and(|section| !section.executable)
                })
                .map(|place| place.0),
        );
        all.sort_unstable();
        all.dedup();
        all
    }

    pub(super) fn section(&self, at: Svma) -> Option<&SectionInfo<'d>> {
        let after = self
            .sections
            .partition_point(|section| section.range.start <= at);
        let section = self.sections.get(after.checked_sub(1)?)?;
        section.range.contains(at).then_some(section)
    }

    /// A function's bytes, if they can be read.
    pub(super) fn code(&self, function: usize) -> Option<Code<'d>> {
        let symbol = &self.functions[function].symbol;
        let end = symbol.svma.wrapping_add(symbol.size);
        Some(Code {
            start: symbol.svma,
            bytes: self.image.code(SvmaRange::new(symbol.svma, end))?,
        })
    }

    /// From an address to where the next thing begins.
    pub(super) fn extent(&self, at: Svma) -> u64 {
        let after = self.landmarks.partition_point(|&mark| mark <= at.0);
        let end = self.landmarks.get(after).copied().unwrap_or(at.0);
        end.saturating_sub(at.0)
    }

    /// The bytes of constants, `None` where the file has none.
    pub(super) fn bytes(&self, at: Svma, len: u64) -> Option<&'d [u8]> {
        self.image.code(SvmaRange::new(at, at.wrapping_add(len)))
    }

    /// What a stub in `.plt` leads to.
    pub(super) fn behind_stub(&self, at: Svma) -> Option<LoadedWord<'d>> {
        let bytes = self.bytes(at, 16)?;
        self.image
            .loaded_word(stub_slot(Code { start: at, bytes })?)
    }

    /// The offset in the thread-local segment that a distance from the thread's pointer leads to.
    pub(super) fn thread_local_offset(&self, distance: i64) -> Option<u64> {
        // Any pointer will do that no offset wraps around at.
        let pointer = Avma(1 << 62);
        let address = Avma(pointer.0.wrapping_add_signed(distance));
        self.image.tls()?.offset_of(pointer, address)
    }
}

/// Whether a compiler made up the name of a constant: it may name another thing in another build.
fn is_made_up(symbol: &Symbol) -> bool {
    let starts = [
        "anon.",
        ".L",
        "alloc_",
        "vtable.",
        "switch.table",
        "__unnamed_",
        "str.",
        "CSWTCH",
        "GCC_except_table",
    ];
    starts.iter().any(|start| symbol.raw.starts_with(start))
}
