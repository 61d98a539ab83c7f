//! Words of memory that the loader fills with addresses, by their place: what code that goes through them means.

use hitm_model::Svma;
use object::LittleEndian as LE;
use object::elf;
use object::read::elf::{Rela, SectionHeader, Sym};
use rustc_hash::FxHashMap;

use super::Image;
use super::elf::{Elf, flagged};

/// What the loader writes, by the address of the word.
#[derive(Debug, Default)]
pub(super) struct Slots(FxHashMap<u64, Filled>);

#[derive(Debug, Clone, Copy)]
enum Filled {
    Address(u64),
    /// The name's place in the table of dynamic symbols.
    Import(object::read::SymbolIndex),
}

impl Slots {
    fn of(elf: &Elf<'_>) -> Self {
        let mut slots = Self::default();
        let symbols = elf.symbols(elf::SHT_DYNSYM);
        for section in elf.sections.iter().flat_map(|table| table.iter()) {
            if !flagged(section, elf::SHF_ALLOC) {
                continue;
            }
            let Ok(Some((entries, _))) = section.rela(LE, elf.bytes) else {
                continue;
            };
            for entry in entries {
                let at = entry.r_offset(LE);
                let addend = entry.r_addend(LE).cast_unsigned();
                let named = entry
                    .symbol(LE, false)
                    .and_then(|index| Some((index, symbols?.symbol(index).ok()?)));
                let filled = match named {
                    Some((index, symbol)) if symbol.st_shndx(LE) == elf::SHN_UNDEF => {
                        Filled::Import(index)
                    }
                    Some((_, symbol)) => Filled::Address(symbol.st_value(LE).wrapping_add(addend)),
                    None => Filled::Address(addend),
                };
                slots.0.insert(at, filled);
            }
        }
        slots
    }
}

impl<'d> Image<'d> {
    /// The linker's name of the thing of another file whose address the loader puts into the word at an address.
    #[must_use]
    pub fn import_at(&self, slot: Svma) -> Option<&'d str> {
        let Filled::Import(index) = *self.slots().0.get(&slot.0)? else {
            return None;
        };
        let symbols = self.elf.symbols(elf::SHT_DYNSYM)?;
        let symbol = symbols.symbol(index).ok()?;
        std::str::from_utf8(symbol.name(LE, symbols.strings()).ok()?).ok()
    }

    /// The address of this file that the word at an address holds: from the loader, or from the linker.
    #[must_use]
    pub fn pointer_at(&self, slot: Svma) -> Option<Svma> {
        match self.slots().0.get(&slot.0) {
            Some(Filled::Address(address)) => Some(Svma(*address)),
            Some(Filled::Import(_)) => None,
            None => {
                let bytes = self.elf.bytes_from(slot.0)?.first_chunk()?;
                let word = u64::from_le_bytes(*bytes);
                self.elf.section_at(word).map(|_| Svma(word))
            }
        }
    }

    fn slots(&self) -> &Slots {
        self.slots.get_or_init(|| Slots::of(&self.elf))
    }
}
