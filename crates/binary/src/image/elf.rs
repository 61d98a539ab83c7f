//! One ELF file: its headers, and bytes by address.

use hitm_model::Svma;
use object::LittleEndian as LE;
use object::elf::{self, FileHeader64, ProgramHeader64, SectionHeader64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, SectionTable, SymbolTable};

use crate::BinaryError;

pub(crate) type Header = FileHeader64<LE>;
pub(crate) type Segment = ProgramHeader64<LE>;
pub(crate) type Section = SectionHeader64<LE>;

/// The headers of one ELF file; everything borrows the file's bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Elf<'d> {
    pub(crate) bytes: &'d [u8],
    pub(crate) machine: elf::Machine,
    pub(crate) segments: &'d [Segment],
    pub(crate) sections: Option<SectionTable<'d, Header>>,
    pub(crate) damage: Option<&'static str>,
    /// Whether it is a program that is loaded where it says.
    pub(crate) is_fixed: bool,
}

impl<'d> Elf<'d> {
    /// The program headers must be readable; without section headers there is less information.
    pub(crate) fn parse(bytes: &'d [u8]) -> Result<Self, BinaryError> {
        let elf = Self::parse_any_machine(bytes)?;
        if elf.machine != elf::EM_X86_64 {
            let machine = elf.machine.0;
            return Err(BinaryError::ForeignMachine { machine });
        }
        Ok(elf)
    }

    /// As [`Elf::parse`], of any 64-bit little-endian machine.
    pub(crate) fn parse_any_machine(bytes: &'d [u8]) -> Result<Self, BinaryError> {
        let Some(ident) = bytes.get(..20) else {
            return Err(BinaryError::NotElf);
        };
        if ident[..4] != elf::ELFMAG {
            return Err(BinaryError::NotElf);
        }
        if ident[4] == 1 {
            return Err(BinaryError::Not64Bit);
        }
        let little = ident[5] != 2;
        let half = |at: usize| {
            let pair = [ident[at], ident[at + 1]];
            if little {
                u16::from_le_bytes(pair)
            } else {
                u16::from_be_bytes(pair)
            }
        };
        let (kind, machine) = (half(16), half(18));
        if !little {
            return Err(BinaryError::BigEndian { machine });
        }
        if kind != elf::ET_EXEC.0 && kind != elf::ET_DYN.0 {
            return Err(BinaryError::NotLinked { kind });
        }
        let damaged = |what| move |source| BinaryError::Damaged { what, source };
        let header = Header::parse(bytes).map_err(damaged("header"))?;
        let segments = header
            .program_headers(LE, bytes)
            .map_err(damaged("program headers"))?;
        let sections = header.sections(LE, bytes);
        Ok(Self {
            bytes,
            machine: elf::Machine(machine),
            segments,
            damage: sections.is_err().then_some("section headers"),
            sections: sections.ok().filter(|table| !table.is_empty()),
            is_fixed: kind == elf::ET_EXEC.0,
        })
    }

    /// The sections that are part of the process's memory, without the templates of thread-locals in `.tbss`, whose
    /// addresses are others' too.
    pub(crate) fn loaded_sections(&self) -> impl Iterator<Item = &'d Section> + use<'d> {
        let headers: &'d [Section] = self.sections.map_or(&[], |table| table.iter().as_slice());
        headers.iter().filter(|section| {
            let tls_bss = flagged(section, elf::SHF_TLS) && section.sh_type(LE) == elf::SHT_NOBITS;
            flagged(section, elf::SHF_ALLOC) && !tls_bss
        })
    }

    /// The loaded section that holds an address.
    pub(crate) fn section_at(&self, svma: u64) -> Option<&'d Section> {
        self.loaded_sections().find(|section| {
            svma.checked_sub(section.sh_addr.get(LE))
                .is_some_and(|offset| offset < section.sh_size.get(LE))
        })
    }

    /// A section's name.
    pub(crate) fn name_of(&self, section: &'d Section) -> Option<&'d str> {
        let name = self.sections?.section_name(LE, section).ok()?;
        std::str::from_utf8(name).ok()
    }

    /// The section of a name.
    pub(crate) fn section(&self, name: &[u8]) -> Option<&'d Section> {
        Some(self.sections?.section_by_name(LE, name)?.1)
    }

    /// The file's bytes of a section.
    pub(crate) fn data_of(&self, section: &'d Section) -> Option<&'d [u8]> {
        section.data(LE, self.bytes).ok()
    }

    /// A symbol table, if it has any symbol.
    pub(crate) fn symbols(&self, kind: elf::SectionType) -> Option<SymbolTable<'d, Header>> {
        let table = self.sections?.symbols(LE, self.bytes, kind).ok()?;
        (!table.is_empty()).then_some(table)
    }

    /// The segments that are mapped.
    pub(crate) fn loads(&self) -> impl Iterator<Item = &'d Segment> + use<'d> {
        self.segments
            .iter()
            .filter(|segment| segment.p_type(LE) == elf::PT_LOAD)
    }

    /// The file's bytes from an address to the end of its segment.
    pub(crate) fn bytes_from(&self, svma: u64) -> Option<&'d [u8]> {
        self.loads().find_map(|segment| {
            let offset = svma.checked_sub(segment.p_vaddr.get(LE))?;
            let data = segment.data(LE, self.bytes).ok()?;
            data.get(usize::try_from(offset).ok()?..)
                .filter(|rest| !rest.is_empty())
        })
    }

    /// The word at an address, if the file has it.
    pub(crate) fn word_at(&self, svma: u64) -> Option<u64> {
        let bytes = self.bytes_from(svma)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    }

    /// Addresses and bytes of the segments with instructions.
    pub(crate) fn executable(&self) -> impl Iterator<Item = (Svma, &'d [u8])> {
        self.loads()
            .filter(|segment| segment.p_flags(LE).0 & elf::PF_X.0 != 0)
            .filter_map(|segment| {
                let bytes = segment.data(LE, self.bytes).ok()?;
                Some((Svma(segment.p_vaddr.get(LE)), bytes))
            })
    }

    /// The build-id note.
    pub(crate) fn build_id(&self) -> Option<&'d [u8]> {
        let in_sections = self
            .sections
            .into_iter()
            .flat_map(|table| table.iter())
            .filter_map(|section| section.notes(LE, self.bytes).ok()?);
        let in_segments = self
            .segments
            .iter()
            .filter_map(|segment| segment.notes(LE, self.bytes).ok()?);
        in_sections.chain(in_segments).find_map(|mut notes| {
            while let Ok(Some(note)) = notes.next() {
                if note.name() == elf::ELF_NOTE_GNU && note.n_type(LE) == elf::NT_GNU_BUILD_ID {
                    return Some(note.desc());
                }
            }
            None
        })
    }
}

/// Whether a section has a flag.
pub(crate) fn flagged(section: &Section, flag: elf::SectionFlags) -> bool {
    section.sh_flags.get(LE).0 & flag.0 != 0
}
