//! Words of memory that the loader writes: pointers to places of the file, and to functions and variables of others.

use hitm_model::Svma;
use object::LittleEndian as LE;
use object::elf;
use object::read::elf::{Rela, SectionHeader, Sym};

use super::Image;
use super::elf::flagged;

/// What the loader puts somewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pointee<'d> {
    /// An address of the file.
    Address(Svma),
    /// The address of something of another file.
    Named(&'d str),
}

impl<'d> Image<'d> {
    /// Calls `see` with each word of memory that the loader puts a pointer into.
    pub(crate) fn relocated_pointers(&self, see: &mut dyn FnMut(Svma, Pointee<'d>)) {
        let Some(sections) = self.elf.sections else {
            return;
        };
        let symbols = sections
            .symbols(LE, self.elf.bytes, elf::SHT_DYNSYM)
            .ok()
            .filter(|table| !table.is_empty());
        for section in sections.iter() {
            if !flagged(section, elf::SHF_ALLOC) {
                continue;
            }
            if let Ok(Some((entries, _))) = section.rela(LE, self.elf.bytes) {
                for entry in entries {
                    let at = Svma(entry.r_offset(LE));
                    let addend = entry.r_addend(LE).cast_unsigned();
                    let kind = entry.r_type(LE, false);
                    if kind == elf::R_X86_64_RELATIVE {
                        see(at, Pointee::Address(Svma(addend)));
                        continue;
                    }
                    if ![
                        elf::R_X86_64_64,
                        elf::R_X86_64_GLOB_DAT,
                        elf::R_X86_64_JUMP_SLOT,
                    ]
                    .contains(&kind)
                    {
                        continue;
                    }
                    let symbol = entry.symbol(LE, false).zip(symbols);
                    let Some((symbol, table)) =
                        symbol.and_then(|(index, table)| Some((table.symbol(index).ok()?, table)))
                    else {
                        continue;
                    };
                    if symbol.st_shndx(LE) == elf::SHN_UNDEF {
                        let name = symbol.name(LE, table.strings()).ok();
                        if let Some(name) = name.and_then(|name| std::str::from_utf8(name).ok()) {
                            see(at, Pointee::Named(name));
                        }
                    } else {
                        let address = symbol.st_value(LE).wrapping_add(addend);
                        see(at, Pointee::Address(Svma(address)));
                    }
                }
            }
            if let Ok(Some(offsets)) = section.relr(LE, self.elf.bytes) {
                for at in offsets {
                    if let Some(address) = self.elf.word_at(at) {
                        see(Svma(at), Pointee::Address(Svma(address)));
                    }
                }
            }
        }
    }

    /// The word at an address of data that the program cannot change, or only the loader.
    pub(crate) fn constant_word(&self, at: Svma) -> Option<u64> {
        let section = self.elf.section_at(at.0)?;
        let constant = !flagged(section, elf::SHF_WRITE)
            || self.elf.name_of(section).is_some_and(|name| {
                name.starts_with(".data.rel.ro") || name == ".got" || name.ends_with("_array")
            });
        constant.then(|| self.elf.word_at(at.0))?
    }

    /// Where the functions are, as the unwinder's tables and symbols say: in no order, and some twice.
    pub(crate) fn function_ranges(&self) -> Vec<hitm_model::SvmaRange> {
        let range = |(start, end)| hitm_model::SvmaRange::new(Svma(start), Svma(end));
        let mut all: Vec<_> = Vec::new();
        super::unwind::functions(&self.elf, &mut |start, end| all.push(range((start, end))));
        all.extend(self.symbols().functions().map(range));
        all
    }

    /// Where the stubs are that lead to functions of other files.
    pub(crate) fn stub_ranges(&self) -> Vec<hitm_model::SvmaRange> {
        let stubs = self.elf.loaded_sections().filter(|section| {
            let name = self.elf.name_of(section);
            name.is_some_and(|name| name.starts_with(".plt"))
        });
        stubs
            .map(|section| {
                let start = Svma(section.sh_addr.get(LE));
                hitm_model::SvmaRange::new(start, start.wrapping_add(section.sh_size.get(LE)))
            })
            .collect()
    }

    /// Functions that run before and after `main`: those in the loader's lists.
    pub(crate) fn startup_slots(&self) -> Vec<Svma> {
        let lists = self.elf.loaded_sections().filter(|section| {
            matches!(
                section.sh_type(LE),
                elf::SHT_INIT_ARRAY | elf::SHT_FINI_ARRAY | elf::SHT_PREINIT_ARRAY
            )
        });
        lists
            .flat_map(|section| {
                let start = section.sh_addr.get(LE);
                let words = section.sh_size.get(LE).min(1 << 20) / 8;
                (0..words).map(move |word| Svma(start.wrapping_add(8 * word)))
            })
            .collect()
    }

    /// Whether its addresses are those of the process.
    pub(crate) fn is_fixed(&self) -> bool {
        self.elf.is_fixed
    }

    /// The sections that the program may change, but for what only the loader does.
    #[must_use]
    pub fn writable_sections(&self) -> Vec<hitm_model::SvmaRange> {
        let sections = self.elf.loaded_sections().filter(|section| {
            let fixed = self.elf.name_of(section).is_some_and(|name| {
                name.starts_with(".data.rel.ro")
                    || name.starts_with(".got")
                    || name.ends_with("_array")
                    || matches!(name, ".dynamic" | ".tdata" | ".tm_clone_table")
            });
            flagged(section, elf::SHF_WRITE) && !flagged(section, elf::SHF_TLS) && !fixed
        });
        sections
            .map(|section| {
                let start = Svma(section.sh_addr.get(LE));
                hitm_model::SvmaRange::new(start, start.wrapping_add(section.sh_size.get(LE)))
            })
            .collect()
    }

    /// The variables of a name, as people write it or as the linker does, and the guards of their initialisation.
    #[must_use]
    pub fn data_symbols_named(&self, name: &str) -> Vec<hitm_model::SvmaRange> {
        let mut all = self.symbols().data_named(self.elves(), name);
        all.sort_unstable();
        all.dedup();
        let range = |(start, end)| hitm_model::SvmaRange::new(Svma(start), Svma(end));
        all.into_iter().map(range).collect()
    }

    /// Where all variables are that symbols name, in the order of their addresses.
    pub fn data_symbols(&self) -> impl Iterator<Item = hitm_model::SvmaRange> {
        let range = |(start, end)| hitm_model::SvmaRange::new(Svma(start), Svma(end));
        self.symbols().data().map(range)
    }
}
