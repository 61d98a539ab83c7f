//! Words of memory that the loader writes: pointers to places of the file, to functions and variables of others, and
//! where thread-locals are. They are read once, by address; whoever wants all of them and whoever wants one ask here.

use hitm_model::Svma;
use object::LittleEndian as LE;
use object::elf;
use object::read::SymbolIndex;
use object::read::elf::{Rela, SectionHeader, Sym, SymbolTable};

use super::Image;
use super::elf::{Elf, Header, flagged};

/// What the loader puts somewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pointee<'d> {
    /// An address of the file.
    Address(Svma),
    /// The address of something of another file.
    Named(&'d str),
}

/// What a word of memory holds when the loader is done with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LoadedWord<'d> {
    /// An address of the file.
    Address(Svma),
    /// The address that a function of the file returns to the loader.
    ChosenBy(Svma),
    /// The address of a function or variable of another file, by the linker's name.
    Import(&'d str),
    /// What leads to a thread-local of another file, by the linker's name.
    ImportedThreadLocal(&'d str),
    /// What leads to a thread-local of the file, by its offset in the [thread-local segment](Image::tls).
    ThreadLocal(u64),
    /// The number of the file itself among those with thread-locals.
    Module,
}

/// What the loader writes, in the order of the words' addresses.
#[derive(Debug, Default)]
pub(super) struct Relocations(Vec<(u64, Filled)>);

#[derive(Debug, Clone, Copy)]
enum Filled {
    Address(u64),
    ChosenBy(u64),
    /// The name's place in the table of dynamic symbols.
    Import(SymbolIndex),
    ImportedThreadLocal(SymbolIndex),
    ThreadLocal(u64),
    Module,
}

impl Relocations {
    fn of(elf: &Elf<'_>) -> Self {
        let symbols = elf.symbols(elf::SHT_DYNSYM);
        let mut all = Vec::new();
        for section in elf.sections.iter().flat_map(|table| table.iter()) {
            if !flagged(section, elf::SHF_ALLOC) {
                continue;
            }
            if let Ok(Some((entries, _))) = section.rela(LE, elf.bytes) {
                all.extend(entries.iter().filter_map(|entry| {
                    Some((entry.r_offset(LE), filled(entry, symbols.as_ref())?))
                }));
            }
            if let Ok(Some(offsets)) = section.relr(LE, elf.bytes) {
                all.extend(offsets.filter_map(|at| Some((at, Filled::Address(elf.word_at(at)?)))));
            }
        }
        // Of several for one word the loader's last one stays.
        all.sort_by_key(|&(at, _)| at);
        all.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = next.1;
            }
            same
        });
        Self(all)
    }

    fn at(&self, word: Svma) -> Option<Filled> {
        let at = self.0.binary_search_by_key(&word.0, |&(at, _)| at).ok()?;
        Some(self.0[at].1)
    }
}

fn filled(entry: &elf::Rela64<LE>, symbols: Option<&SymbolTable<'_, Header>>) -> Option<Filled> {
    let addend = entry.r_addend(LE).cast_unsigned();
    let named = entry
        .symbol(LE, false)
        .and_then(|index| Some((index, symbols?.symbol(index).ok()?)));
    let imported = named.filter(|(_, symbol)| symbol.st_shndx(LE) == elf::SHN_UNDEF);
    let start = named.map_or(0, |(_, symbol)| symbol.st_value(LE));
    match entry.r_type(LE, false) {
        elf::R_X86_64_RELATIVE => Some(Filled::Address(addend)),
        elf::R_X86_64_IRELATIVE => Some(Filled::ChosenBy(addend)),
        elf::R_X86_64_64 | elf::R_X86_64_GLOB_DAT | elf::R_X86_64_JUMP_SLOT => {
            named?;
            Some(match imported {
                Some((index, _)) => Filled::Import(index),
                None => Filled::Address(start.wrapping_add(addend)),
            })
        }
        kind @ (elf::R_X86_64_TPOFF64 | elf::R_X86_64_DTPOFF64 | elf::R_X86_64_DTPMOD64) => {
            Some(match imported {
                Some((index, _)) => Filled::ImportedThreadLocal(index),
                None if kind == elf::R_X86_64_DTPMOD64 => Filled::Module,
                None => Filled::ThreadLocal(start.wrapping_add(addend)),
            })
        }
        _ => None,
    }
}

impl<'d> Image<'d> {
    /// What the loader puts into the word at an address; `None` if it leaves it as it is in the file.
    #[must_use]
    pub fn loaded_word(&self, at: Svma) -> Option<LoadedWord<'d>> {
        self.shown(self.relocations().at(at)?)
    }

    /// The words that the loader writes, in the order of their addresses.
    pub fn loaded_words(&self) -> impl Iterator<Item = (Svma, LoadedWord<'d>)> {
        let all = self.relocations().0.iter();
        all.filter_map(|&(at, filled)| Some((Svma(at), self.shown(filled)?)))
    }

    /// Calls `see` with each word of memory that the loader puts a pointer into.
    pub(crate) fn relocated_pointers(&self, see: &mut dyn FnMut(Svma, Pointee<'d>)) {
        for (at, word) in self.loaded_words() {
            match word {
                LoadedWord::Address(address) => see(at, Pointee::Address(address)),
                LoadedWord::Import(name) => see(at, Pointee::Named(name)),
                // Neither is a pointer that the file could follow.
                LoadedWord::ChosenBy(_)
                | LoadedWord::ImportedThreadLocal(_)
                | LoadedWord::ThreadLocal(_)
                | LoadedWord::Module => {}
            }
        }
    }

    fn shown(&self, filled: Filled) -> Option<LoadedWord<'d>> {
        Some(match filled {
            Filled::Address(address) => LoadedWord::Address(Svma(address)),
            Filled::ChosenBy(address) => LoadedWord::ChosenBy(Svma(address)),
            Filled::ThreadLocal(offset) => LoadedWord::ThreadLocal(offset),
            Filled::Module => LoadedWord::Module,
            Filled::Import(index) => LoadedWord::Import(self.imported_name(index)?),
            Filled::ImportedThreadLocal(index) => {
                LoadedWord::ImportedThreadLocal(self.imported_name(index)?)
            }
        })
    }

    fn imported_name(&self, index: SymbolIndex) -> Option<&'d str> {
        let symbols = self.elf.symbols(elf::SHT_DYNSYM)?;
        let name = symbols
            .symbol(index)
            .ok()?
            .name(LE, symbols.strings())
            .ok()?;
        std::str::from_utf8(name).ok()
    }

    fn relocations(&self) -> &Relocations {
        self.relocations.get_or_init(|| Relocations::of(&self.elf))
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
    #[must_use]
    pub fn is_fixed(&self) -> bool {
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
