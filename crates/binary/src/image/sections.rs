//! The debug sections: where they are, and inflated where they are compressed.

use gimli::{DebugAbbrev, Dwarf, EndianSlice, LittleEndian, SectionId};
use object::LittleEndian as LE;
use object::elf;
use object::read::elf::SectionHeader;
use object::read::{CompressedData, CompressionFormat};

use super::elf::{Elf, Section, flagged};
use super::{DebugLevel, Image};

/// How the bytes of debug sections are read.
pub(crate) type Slice<'i> = EndianSlice<'i, LittleEndian>;

/// No compressor does better than this on real sections: a larger claim is damage, not a reason to ask for memory.
const MOST_EXPANSION: u64 = 2000;

/// The sections that were compressed in the file, by name.
#[derive(Debug, Default)]
pub(crate) struct Inflated(Vec<(&'static str, Vec<u8>)>);

impl Image<'_> {
    /// How much the binary, or its separate debug file, tells about its source.
    #[must_use]
    pub fn debug_level(&self) -> DebugLevel {
        *self.level.get_or_init(|| {
            let dwarf = self.dwarf();
            match dwarf.map(|dwarf| has_types(&dwarf, self.is_rust())) {
                Some(true) => DebugLevel::Full,
                Some(false) => DebugLevel::LinesOnly,
                None if self.symbols().is_full() && !self.symbols().is_empty() => {
                    DebugLevel::Symbols
                }
                None => DebugLevel::Stripped,
            }
        })
    }

    /// Whether types and variables are in other files (split DWARF, `.dwo`), of any part of it.
    #[must_use]
    pub fn is_split(&self) -> bool {
        self.dwarf().is_some_and(|dwarf| names_other_files(&dwarf))
    }

    /// Whether it is a separate debug file: it says where the code is and has none of it.
    #[must_use]
    pub fn is_debug_file(&self) -> bool {
        let code = |section: &&Section| flagged(section, elf::SHF_EXECINSTR);
        let mut sections = self.elf.loaded_sections().filter(code).peekable();
        sections.peek().is_some() && sections.all(|it| it.sh_type(LE) == elf::SHT_NOBITS)
    }

    /// Whether it was linked by the Rust compiler.
    #[must_use]
    pub fn is_rust(&self) -> bool {
        self.elf
            .section(b".comment")
            .and_then(|section| self.elf.data_of(section))
            .is_some_and(|comment| comment.windows(13).any(|text| text == b"rustc version"))
    }

    /// The DWARF sections, of the binary or else of its separate debug file; `None` if there is no `.debug_info`.
    pub(crate) fn dwarf(&self) -> Option<Dwarf<Slice<'_>>> {
        let elf = self.debug_elf()?;
        let inflated = self.inflated.get_or_init(|| Inflated::of(elf));
        let load = |id: SectionId| -> Result<Slice<'_>, std::convert::Infallible> {
            let data = inflated
                .get(id.name())
                .or_else(|| elf.data_of(elf.section(id.name().as_bytes())?));
            Ok(EndianSlice::new(data.unwrap_or(&[]), LittleEndian))
        };
        match Dwarf::load(load) {
            Ok(dwarf) => Some(dwarf),
        }
    }

    fn debug_elf(&self) -> Option<&Elf<'_>> {
        [Some(&self.elf), self.separate.as_ref()]
            .into_iter()
            .flatten()
            .find(|elf| {
                let info = elf
                    .section(b".debug_info")
                    .or_else(|| elf.section(b".zdebug_info"));
                info.is_some_and(|section| section.sh_type(LE) != elf::SHT_NOBITS)
            })
    }
}

impl Inflated {
    fn of(elf: &Elf<'_>) -> Self {
        let ids = [
            SectionId::DebugAbbrev,
            SectionId::DebugAddr,
            SectionId::DebugAranges,
            SectionId::DebugInfo,
            SectionId::DebugLine,
            SectionId::DebugLineStr,
            SectionId::DebugLoc,
            SectionId::DebugLocLists,
            SectionId::DebugRanges,
            SectionId::DebugRngLists,
            SectionId::DebugStr,
            SectionId::DebugStrOffsets,
            SectionId::DebugTypes,
        ];
        let inflate = |id: SectionId| Some((id.name(), inflate(elf, id.name())?));
        Self(ids.into_iter().filter_map(inflate).collect())
    }

    fn get(&self, name: &str) -> Option<&[u8]> {
        let (_, data) = self.0.iter().find(|(known, _)| *known == name)?;
        Some(data)
    }
}

/// The contents of a compressed section, in the standard form or in the older GNU one (`.zdebug_info`).
fn inflate(elf: &Elf<'_>, name: &str) -> Option<Vec<u8>> {
    let compressed = match elf.section(name.as_bytes()) {
        Some(section) => standard(elf, section)?,
        None => gnu(
            elf,
            elf.section(name.replacen(".debug", ".zdebug", 1).as_bytes())?,
        )?,
    };
    let claimed = compressed.uncompressed_size / MOST_EXPANSION;
    if claimed > compressed.data.len() as u64 {
        return None;
    }
    Some(compressed.decompress().ok()?.into_owned())
}

fn standard<'d>(elf: &Elf<'d>, section: &'d Section) -> Option<CompressedData<'d>> {
    let (header, offset, size) = section.compression(LE, elf.bytes).ok()??;
    let (offset, size) = (usize::try_from(offset).ok()?, usize::try_from(size).ok()?);
    let format = match header.ch_type.get(LE) {
        elf::ELFCOMPRESS_ZLIB => CompressionFormat::Zlib,
        elf::ELFCOMPRESS_ZSTD => CompressionFormat::Zstandard,
        _ => return None,
    };
    Some(CompressedData {
        format,
        data: elf.bytes.get(offset..)?.get(..size)?,
        uncompressed_size: header.ch_size.get(LE),
    })
}

fn gnu<'d>(elf: &Elf<'d>, section: &'d Section) -> Option<CompressedData<'d>> {
    let data = elf.data_of(section)?.strip_prefix(b"ZLIB")?;
    let (size, data) = data.split_first_chunk()?;
    Some(CompressedData {
        format: CompressionFormat::Zlib,
        data,
        uncompressed_size: u64::from_be_bytes(*size),
    })
}

/// Whether any unit of the program's own language describes variables and types. In a Rust program the standard
/// library's units and the C parts say nothing about how the program itself was compiled.
fn has_types(dwarf: &Dwarf<Slice<'_>>, rust: bool) -> bool {
    let mut units = dwarf.units();
    let mut seen: Vec<(usize, bool)> = Vec::new();
    while let Ok(Some(header)) = units.next() {
        let at = header.debug_abbrev_offset().0;
        let described = match seen.iter().find(|(known, _)| *known == at) {
            Some(&(_, described)) => described,
            None => {
                let described = describes_types(&dwarf.debug_abbrev, &header);
                seen.push((at, described));
                described
            }
        };
        if described && (!rust || is_rust_unit(dwarf, header)) {
            return true;
        }
    }
    false
}

fn names_other_files(dwarf: &Dwarf<Slice<'_>>) -> bool {
    let mut units = dwarf.units();
    let mut last = None;
    while let Ok(Some(header)) = units.next() {
        let at = header.debug_abbrev_offset().0;
        if last.replace(at) == Some(at) {
            continue;
        }
        let Ok(abbrevs) = header.abbreviations(&dwarf.debug_abbrev) else {
            continue;
        };
        let names = [gimli::DW_AT_dwo_name, gimli::DW_AT_GNU_dwo_name];
        let mut all = (1..).map_while(|code| abbrevs.get(code));
        if all.any(|it| {
            it.attributes()
                .iter()
                .any(|attr| names.contains(&attr.name()))
        }) {
            return true;
        }
    }
    false
}

fn describes_types(
    abbrevs: &DebugAbbrev<Slice<'_>>,
    header: &gimli::UnitHeader<Slice<'_>>,
) -> bool {
    let Ok(abbrevs) = header.abbreviations(abbrevs) else {
        return false;
    };
    // Codes are dense from 1 on in everything that compilers write.
    let tags = || {
        (1..)
            .map_while(|code| abbrevs.get(code))
            .map(|abbrev| abbrev.tag())
    };
    let has = |wanted: &[gimli::DwTag]| tags().any(|tag| wanted.contains(&tag));
    has(&[gimli::DW_TAG_base_type, gimli::DW_TAG_structure_type])
        && has(&[gimli::DW_TAG_variable, gimli::DW_TAG_formal_parameter])
}

fn is_rust_unit(dwarf: &Dwarf<Slice<'_>>, header: gimli::UnitHeader<Slice<'_>>) -> bool {
    let language = || {
        let abbrevs = dwarf.abbreviations(&header).ok()?;
        let root = header.entry(&abbrevs, header.root_offset()).ok()?;
        root.attr_value(gimli::DW_AT_language)
    };
    matches!(
        language(),
        Some(gimli::AttributeValue::Language(gimli::DW_LANG_Rust))
    )
}
