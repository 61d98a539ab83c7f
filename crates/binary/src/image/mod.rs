//! Sections, symbols, function bounds and the build-id of an ELF file.
//!
//! An [`Image`] borrows the file's bytes. Parsing it reads the headers only; the index of symbols is built when it is
//! first asked for, so that a recorder can hold many images.

mod elf;
mod identity;
mod inventory;
mod names;
mod relocations;
mod sections;
mod symbols;
mod unwind;

use std::fmt;
use std::sync::OnceLock;

use hitm_model::{Avma, Bias, BuildId, Mapping, MappingKind, Svma, SvmaRange};
use object::LittleEndian as LE;
use object::elf::{EM_AARCH64, EM_X86_64, PF_W, PT_TLS};
use object::read::elf::ProgramHeader;

use crate::BinaryError;
use crate::decode::LongJumps;
use elf::{Elf, Segment};
use symbols::{Elves, SymbolIndex};

pub use identity::content_id;
pub use inventory::SectionInfo;
pub(crate) use names::{demangle, split_suffix};
pub use relocations::LoadedWord;
pub(crate) use relocations::Pointee;
use sections::Inflated;
pub(crate) use sections::Slice;
pub use symbols::{Symbol, SymbolKind};

/// Mappings start on a page.
const PAGE: u64 = 4096;

/// One program or shared library, and its separate debug file if there is one.
#[derive(Debug)]
pub struct Image<'d> {
    elf: Elf<'d>,
    separate: Option<Elf<'d>>,
    symbols: OnceLock<SymbolIndex>,
    inflated: OnceLock<Inflated>,
    level: OnceLock<DebugLevel>,
    long_jumps: OnceLock<LongJumps>,
    relocations: OnceLock<relocations::Relocations>,
}

/// What kind of processor a file is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImageMachine {
    /// 64-bit x86, whose instructions hitm decodes.
    X86_64,
    /// 64-bit Arm.
    Aarch64,
    /// Another one, by its number in the header.
    Other(u16),
}

impl fmt::Display for ImageMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::X86_64 => f.write_str("x86-64"),
            Self::Aarch64 => f.write_str("aarch64"),
            Self::Other(number) => write!(f, "e_machine {number}"),
        }
    }
}

/// How much a binary tells about its source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DebugLevel {
    /// Neither debug information nor symbols.
    Stripped,
    /// Symbols without debug information.
    Symbols,
    /// Lines and functions, but neither variables nor types.
    LinesOnly,
    /// Variables and types too.
    Full,
}

/// The thread-local variables of a file, as each thread gets them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TlsSegment {
    /// Where the initial values are in the file.
    pub address: Svma,
    /// Bytes per thread.
    pub size: u64,
    /// Alignment in bytes.
    pub align: u64,
}

impl TlsSegment {
    /// Where the main program's block of a thread starts, from the thread's FS base.
    ///
    /// On x86-64 the block ends at the FS base: `start = fs − (size rounded up to the alignment)`, for a segment whose
    /// address is aligned.
    #[must_use]
    pub fn block_start(&self, fs_base: Avma) -> Avma {
        let mask = self.align.max(1).wrapping_sub(1);
        let pad = self.address.0.wrapping_add(self.size).wrapping_neg() & mask;
        fs_base.wrapping_sub(self.size.wrapping_add(pad))
    }

    /// The offset in the main program's block of an address, if it is inside.
    #[must_use]
    pub fn offset_of(&self, fs_base: Avma, address: Avma) -> Option<u64> {
        let offset = address.offset_from(self.block_start(fs_base))?;
        (offset < self.size).then_some(offset)
    }
}

impl<'d> Image<'d> {
    /// Reads the headers of a program or shared library.
    ///
    /// # Errors
    /// If the bytes are not a 64-bit x86-64 ELF file with readable program headers. Other damage leaves less
    /// information: see [`Image::damage`].
    pub fn parse(bytes: &'d [u8]) -> Result<Self, BinaryError> {
        Ok(Self::of(Elf::parse(bytes)?))
    }

    /// As [`Image::parse`], of any 64-bit little-endian machine: for sections, symbols and types, whose meaning does not
    /// hang on the processor. [`Image::machine`] tells whether the code can be decoded too.
    ///
    /// # Errors
    /// As [`Image::parse`].
    pub fn parse_any_machine(bytes: &'d [u8]) -> Result<Self, BinaryError> {
        Ok(Self::of(Elf::parse_any_machine(bytes)?))
    }

    fn of(elf: Elf<'d>) -> Self {
        Self {
            elf,
            separate: None,
            symbols: OnceLock::new(),
            inflated: OnceLock::new(),
            level: OnceLock::new(),
            long_jumps: OnceLock::new(),
            relocations: OnceLock::new(),
        }
    }

    /// What kind of processor it is for.
    #[must_use]
    pub fn machine(&self) -> ImageMachine {
        match self.elf.machine {
            EM_X86_64 => ImageMachine::X86_64,
            EM_AARCH64 => ImageMachine::Aarch64,
            other => ImageMachine::Other(other.0),
        }
    }

    /// Adds the separate debug file of the same build: its symbols and debug information are used where the binary has
    /// none.
    ///
    /// # Errors
    /// If it is not a readable ELF file, or its build-id is not the binary's. The image stays what it was then.
    pub fn add_debug(&mut self, separate: &'d [u8]) -> Result<(), BinaryError> {
        let debug = Elf::parse_any_machine(separate)?;
        let (expected, found) = (self.elf.build_id(), debug.build_id());
        if expected.is_none() || expected != found {
            let owned = |id: Option<&[u8]>| id.map(|id| BuildId(id.to_vec()));
            return Err(BinaryError::BuildIdDiffers {
                expected: owned(expected),
                found: owned(found),
            });
        }
        self.separate = Some(debug);
        self.symbols = OnceLock::new();
        self.inflated = OnceLock::new();
        self.level = OnceLock::new();
        Ok(())
    }

    /// Which part of the file could not be read, if any.
    #[must_use]
    pub fn damage(&self) -> Option<&'static str> {
        self.elf.damage
    }

    /// The note that names this build.
    #[must_use]
    pub fn build_id(&self) -> Option<BuildId> {
        self.elf.build_id().map(|id| BuildId(id.to_vec()))
    }

    /// What tells this build from others: its build-id, or, where the linker wrote none, its content.
    #[must_use]
    pub fn identity(&self) -> Option<BuildId> {
        self.build_id()
            .or_else(|| identity::of_bytes(self.elf.bytes))
    }

    /// File name and CRC-32 of the separate debug file, where the binary names one.
    #[must_use]
    pub fn debug_link(&self) -> Option<(&'d [u8], u32)> {
        let data = self.elf.data_of(self.elf.section(b".gnu_debuglink")?)?;
        let len = data.iter().position(|&byte| byte == 0)?;
        let crc = data.get((len + 4) & !3..)?.first_chunk()?;
        Some((&data[..len], u32::from_le_bytes(*crc)))
    }

    /// The load bias that most of the mappings of this file in one process agree with.
    ///
    /// What was writable may have been made read-only since (relocated data), so that one mapping alone may be
    /// ambiguous.
    #[must_use]
    pub fn bias_of_mappings<'m>(
        &self,
        mappings: impl IntoIterator<Item = &'m Mapping>,
    ) -> Option<Bias> {
        let mut votes: Vec<(Bias, usize)> = Vec::new();
        for mapping in mappings {
            let Some(offset) = file_offset(mapping) else {
                continue;
            };
            let mut possible: Vec<Bias> = self
                .elf
                .loads()
                .filter(|segment| shows(segment, offset))
                .map(|segment| bias(mapping.range.start, offset, segment))
                .collect();
            possible.dedup();
            for bias in possible {
                match votes.iter_mut().find(|(known, _)| *known == bias) {
                    Some((_, count)) => *count += 1,
                    None => votes.push((bias, 1)),
                }
            }
        }
        // The first of equals: mappings come in address order, and the lowest one is seldom ambiguous.
        votes
            .into_iter()
            .reduce(|best, next| if next.1 > best.1 { next } else { best })
            .map(|(bias, _)| bias)
    }

    /// All addresses from the first to the last mapped one, `.bss` included.
    #[must_use]
    pub fn image_range(&self) -> SvmaRange {
        span(self.elf.loads())
    }

    /// From the first to the last writable address, `.bss` included: the kernel shows the pages of `.bss` as anonymous
    /// memory behind the file's mapping.
    #[must_use]
    pub fn data_range(&self) -> SvmaRange {
        span(self.elf.loads().filter(|segment| has(segment, PF_W.0)))
    }

    /// The name of the section that holds an address.
    #[must_use]
    pub fn section_at(&self, svma: Svma) -> Option<&'d str> {
        self.elf.name_of(self.elf.section_at(svma.0)?)
    }

    /// Name and addresses of the section that holds an address.
    #[must_use]
    pub fn section_range_at(&self, svma: Svma) -> Option<(&'d str, SvmaRange)> {
        let section = self.elf.section_at(svma.0)?;
        let start = Svma(section.sh_addr.get(LE));
        let range = SvmaRange::new(start, start.wrapping_add(section.sh_size.get(LE)));
        Some((self.elf.name_of(section)?, range))
    }

    /// The symbol that covers an address, the smallest if there are several.
    #[must_use]
    pub fn symbol_at(&self, svma: Svma) -> Option<Symbol> {
        self.symbols().at(self.elves(), svma.0)
    }

    /// The symbol with a linker name. This goes through all of them.
    #[must_use]
    pub fn symbol_named(&self, raw: &str) -> Option<Symbol> {
        self.symbols().find(self.elves(), raw)
    }

    /// Whether the C library is linked into it, as far as symbols tell: what begins a program is in the file then.
    #[must_use]
    pub fn has_c_library(&self) -> bool {
        self.symbol_named("__libc_start_main").is_some()
    }

    /// Where functions are whose linker name is wanted. This goes through all of them.
    pub(crate) fn functions_named(&self, wanted: &dyn Fn(&str) -> bool) -> Vec<(Svma, String)> {
        self.symbols().functions_named(self.elves(), wanted)
    }

    /// The variables and functions that a person may mean by a name, in order of address: by the linker's name, the
    /// readable one, or the end of its path (`hits` for `stats::hits`).
    #[must_use]
    pub fn symbols_called(&self, name: &str) -> Vec<Symbol> {
        self.symbols().called(self.elves(), name)
    }

    /// The size of the symbol that starts at an address.
    pub(crate) fn symbol_size_at(&self, svma: u64) -> Option<u64> {
        self.symbols().size_at(svma)
    }

    /// The bounds of the function, or of the part of one, around an address: from the unwinder's tables, which stripped
    /// binaries have as well, else from symbols.
    #[must_use]
    pub fn function_at(&self, svma: Svma) -> Option<SvmaRange> {
        let (start, end) = unwind::function_at(&self.elf, svma.0).or_else(|| {
            let (start, size) = self.symbols().function_at(svma.0)?;
            Some((start, start.checked_add(size)?))
        })?;
        Some(SvmaRange::new(Svma(start), Svma(end)))
    }

    /// `CFA − rsp` at an instruction, where the unwinder's tables count the frame from the stack pointer.
    pub(crate) fn cfa_above_sp(&self, svma: u64) -> Option<i64> {
        unwind::cfa_above_sp(&self.elf, svma)
    }

    /// The file's bytes of a range of addresses, if all of them are in the file.
    #[must_use]
    pub fn code(&self, range: SvmaRange) -> Option<&'d [u8]> {
        let len = usize::try_from(range.len()).ok()?;
        self.elf.bytes_from(range.start.0)?.get(..len)
    }

    /// Where the file's long jumps go.
    pub(crate) fn long_jumps(&self) -> &LongJumps {
        self.long_jumps
            .get_or_init(|| LongJumps::new(self.elf.executable()))
    }

    /// Where the file has instructions.
    pub(crate) fn code_ranges(&self) -> Vec<SvmaRange> {
        let end = |start: Svma, bytes: &[u8]| start.wrapping_add(bytes.len() as u64);
        let segments = self.elf.executable();
        segments
            .map(|(start, bytes)| SvmaRange::new(start, end(start, bytes)))
            .collect()
    }

    /// The segment of thread-local variables.
    #[must_use]
    pub fn tls(&self) -> Option<TlsSegment> {
        let segment = self
            .elf
            .segments
            .iter()
            .find(|segment| segment.p_type(LE) == PT_TLS)?;
        Some(TlsSegment {
            address: Svma(segment.p_vaddr.get(LE)),
            size: segment.p_memsz.get(LE),
            align: segment.p_align.get(LE).checked_next_power_of_two()?,
        })
    }

    /// The thread-local symbol that covers an offset in the thread-local segment.
    #[must_use]
    pub fn tls_symbol_at(&self, offset: u64) -> Option<Symbol> {
        self.symbols().thread_local_at(self.elves(), offset)
    }

    fn symbols(&self) -> &SymbolIndex {
        self.symbols
            .get_or_init(|| SymbolIndex::build(&self.elf, self.separate.as_ref()))
    }

    fn elves(&self) -> Elves<'_, 'd> {
        Elves(&self.elf, self.separate.as_ref())
    }
}

fn has(segment: &Segment, flag: u32) -> bool {
    segment.p_flags(LE).0 & flag != 0
}

fn file_offset(mapping: &Mapping) -> Option<u64> {
    match mapping.kind {
        MappingKind::File { offset, .. } => Some(offset),
        _ => None,
    }
}

/// Whether a page of the file is among those that a segment maps.
fn shows(segment: &Segment, offset: u64) -> bool {
    let (start, size) = segment.file_range(LE);
    start & !(PAGE - 1) <= offset && offset < start.saturating_add(size)
}

fn bias(start: Avma, offset: u64, segment: &Segment) -> Bias {
    Bias(start.0.wrapping_sub(svma_in(segment, offset).0))
}

/// Where a byte of the file is, by a segment that shows it.
fn svma_in(segment: &Segment, file_offset: u64) -> Svma {
    let base = segment
        .p_vaddr
        .get(LE)
        .wrapping_sub(segment.p_offset.get(LE));
    Svma(base.wrapping_add(file_offset))
}

fn span<'d>(segments: impl Iterator<Item = &'d Segment>) -> SvmaRange {
    segments
        .filter(|segment| segment.p_memsz.get(LE) > 0)
        .map(|segment| {
            let start = segment.p_vaddr.get(LE);
            SvmaRange::new(
                Svma(start),
                Svma(start.saturating_add(segment.p_memsz.get(LE))),
            )
        })
        .reduce(|a, b| SvmaRange::new(a.start.min(b.start), a.end.max(b.end)))
        .unwrap_or_default()
}
