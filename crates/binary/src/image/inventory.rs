//! Everything that a file has: its sections and its symbols, for who must see the whole layout.

use hitm_model::{Svma, SvmaRange};
use object::LittleEndian as LE;
use object::elf::{self, PT_GNU_RELRO};
use object::read::elf::ProgramHeader;

use super::elf::{Section, flagged};
use super::{Image, Symbol, SymbolKind};

/// One section that is part of a process's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SectionInfo<'d> {
    /// Its name.
    pub name: &'d str,
    /// Its addresses.
    pub range: SvmaRange,
    /// Its alignment in bytes.
    pub align: u64,
    /// Whether the program may write to it after it has been started: not so for what the loader relocates and then
    /// protects.
    pub writable: bool,
    /// Whether it holds instructions.
    pub executable: bool,
    /// Whether its bytes are zero and not in the file.
    pub zero: bool,
}

impl<'d> Image<'d> {
    /// The sections in memory, in address order.
    #[must_use]
    pub fn sections(&self) -> Vec<SectionInfo<'d>> {
        let protected: Vec<SvmaRange> = self
            .elf
            .segments
            .iter()
            .filter(|segment| segment.p_type(LE) == PT_GNU_RELRO)
            .map(|segment| {
                let start = Svma(segment.p_vaddr.get(LE));
                SvmaRange::new(start, start.wrapping_add(segment.p_memsz.get(LE)))
            })
            .collect();
        let mut sections: Vec<SectionInfo<'d>> = self
            .elf
            .loaded_sections()
            .filter_map(|section| {
                let start = Svma(section.sh_addr.get(LE));
                let relocated = protected.iter().any(|range| range.contains(start));
                Some(SectionInfo {
                    name: self.elf.name_of(section)?,
                    range: SvmaRange::new(start, start.wrapping_add(section.sh_size.get(LE))),
                    align: section.sh_addralign.get(LE).max(1),
                    writable: !relocated && is_writable(section),
                    executable: flagged(section, elf::SHF_EXECINSTR),
                    zero: section.sh_type.get(LE) == elf::SHT_NOBITS,
                })
            })
            .collect();
        sections.sort_by_key(|section| (section.range.start, section.range.end));
        sections
    }

    /// All symbols of a kind that have a size, in address order; of several names for the same, the most public one.
    #[must_use]
    pub fn symbols_of(&self, kind: SymbolKind) -> Vec<Symbol> {
        self.symbols().all(self.elves(), kind)
    }
}

/// The template of thread-locals is read only to start threads.
fn is_writable(section: &Section) -> bool {
    flagged(section, elf::SHF_WRITE) && !flagged(section, elf::SHF_TLS)
}
