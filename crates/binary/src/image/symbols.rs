//! Which symbol covers an address.

use hitm_model::Svma;
use object::LittleEndian as LE;
use object::elf;
use object::read::SymbolIndex as Index;
use object::read::elf::{Sym, SymbolTable};

use super::elf::{Elf, Header, flagged};
use super::names;

/// How many symbols before an address are looked at: nested symbols are few, damaged sizes are not.
const NEAREST: usize = 512;

/// A named stretch of memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symbol {
    /// The readable name.
    pub name: String,
    /// The linker's name.
    pub raw: String,
    /// What the compiler appended to the name: `.lto_priv.0`, `.cold`.
    pub suffix: Option<String>,
    /// Where it starts; of a thread-local, its offset in the thread-local segment.
    pub svma: Svma,
    /// Its size in bytes.
    pub size: u64,
    /// What it names.
    pub kind: SymbolKind,
    /// Whether other files can see it.
    pub global: bool,
}

/// What a symbol names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SymbolKind {
    /// A variable.
    Data,
    /// Code.
    Function,
    /// A variable of which each thread has one.
    ThreadLocal,
}

/// Symbols in address order. Names stay in the file until somebody asks.
#[derive(Debug, Default)]
pub(crate) struct SymbolIndex {
    table: Option<Source>,
    addressed: Sorted,
    thread_local: Sorted,
}

/// The table that the indexes are of.
#[derive(Debug, Clone, Copy)]
enum Source {
    Main,
    Dynamic,
    Debug,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    start: u64,
    size: u64,
    index: u32,
    kind: SymbolKind,
    /// Lower is better: sized before guessed, then global, weak, local.
    rank: u8,
}

#[derive(Debug, Default)]
struct Sorted {
    entries: Vec<Entry>,
    /// The largest end of this and all entries before it.
    reach: Vec<u64>,
}

impl SymbolIndex {
    pub(crate) fn build(main: &Elf<'_>, debug: Option<&Elf<'_>>) -> Self {
        let Some(table) = [Source::Main, Source::Debug, Source::Dynamic]
            .into_iter()
            .find(|source| source.table(main, debug).is_some())
        else {
            return Self::default();
        };
        let Some(symbols) = table.table(main, debug) else {
            return Self::default();
        };
        let (mut addressed, mut thread_local) = (Vec::new(), Vec::new());
        for (index, symbol) in symbols.enumerate() {
            let (start, size) = (symbol.st_value.get(LE), symbol.st_size.get(LE));
            let section = symbol.st_shndx(LE);
            if section == elf::SHN_UNDEF || section == elf::SHN_ABS {
                continue;
            }
            let Ok(index) = u32::try_from(index.0) else {
                break;
            };
            let binding = match symbol.st_bind() {
                elf::STB_GLOBAL => 0,
                elf::STB_WEAK => 1,
                _ => 2,
            };
            let kind = match symbol.st_type() {
                elf::STT_TLS => {
                    thread_local.push(Entry {
                        start,
                        size,
                        index,
                        kind: SymbolKind::ThreadLocal,
                        rank: binding,
                    });
                    continue;
                }
                elf::STT_SECTION | elf::STT_FILE => continue,
                _ => match main.section_at(start) {
                    None => continue,
                    Some(section) if flagged(section, elf::SHF_EXECINSTR) => SymbolKind::Function,
                    Some(_) => SymbolKind::Data,
                },
            };
            // Marks such as `_edata` have no size and are no variables; functions in assembler often have none.
            if size > 0 || kind == SymbolKind::Function {
                let rank = binding + if size == 0 { 3 } else { 0 };
                addressed.push(Entry {
                    start,
                    size,
                    index,
                    kind,
                    rank,
                });
            }
        }
        Self {
            table: Some(table),
            addressed: Sorted::new(addressed, main),
            thread_local: Sorted::new(thread_local, main),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.addressed.entries.is_empty()
    }

    /// Whether it is of a full symbol table, not only of what other files can see.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self.table, Some(Source::Main | Source::Debug))
    }

    pub(crate) fn at(&self, elves: Elves<'_, '_>, svma: u64) -> Option<Symbol> {
        self.symbol(elves, self.addressed.covering(svma, |_| true)?)
    }

    pub(crate) fn function_at(&self, svma: u64) -> Option<(u64, u64)> {
        let entry = self
            .addressed
            .covering(svma, |entry| entry.kind == SymbolKind::Function)?;
        Some((entry.start, entry.size))
    }

    /// All sized symbols in address order, one for each stretch of memory: the best-ranked of those that name the same.
    pub(crate) fn all(&self, elves: Elves<'_, '_>, wanted: SymbolKind) -> Vec<Symbol> {
        let sorted = match wanted {
            SymbolKind::ThreadLocal => &self.thread_local,
            _ => &self.addressed,
        };
        let sized = sorted
            .entries
            .iter()
            .filter(|entry| entry.kind == wanted && entry.rank < 3 && entry.size > 0);
        let mut last = (u64::MAX, 0);
        let mut found = Vec::new();
        for entry in sized {
            // Within one start, entries are in the order of rank.
            if last == (entry.start, entry.size) {
                continue;
            }
            if let Some(symbol) = self.symbol(elves, entry) {
                last = (entry.start, entry.size);
                found.push(symbol);
            }
        }
        found
    }

    /// Where all sized functions begin and end.
    pub(crate) fn functions(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ranges(SymbolKind::Function)
    }

    /// Where all variables begin and end, in the order of their addresses.
    pub(crate) fn data(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ranges(SymbolKind::Data)
    }

    /// Variables whose name is `name`, or ends in it behind `::`, and guards of such.
    pub(crate) fn data_named(&self, elves: Elves<'_, '_>, name: &str) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        let Some(table) = self.table.and_then(|table| table.table(elves.0, elves.1)) else {
            return found;
        };
        let last = name.rsplit("::").next().unwrap_or(name);
        for entry in &self.addressed.entries {
            if entry.kind != SymbolKind::Data || entry.rank >= 3 {
                continue;
            }
            let raw = table
                .symbol(Index(entry.index as usize))
                .and_then(|symbol| symbol.name(LE, table.strings()))
                .ok()
                .and_then(|raw| std::str::from_utf8(raw).ok());
            // Every mangled name has the plain one in it, and looking for that is cheaper than to read it all.
            let Some(raw) = raw.filter(|raw| raw.contains(last)) else {
                continue;
            };
            let demangled = names::demangle(raw);
            let known = demangled.trim_start_matches("guard variable for ");
            let matches = known == name
                || raw == name
                || known
                    .strip_suffix(name)
                    .is_some_and(|before| before.ends_with("::"));
            if matches {
                found.push((entry.start, entry.start.saturating_add(entry.size)));
            }
        }
        found
    }

    fn ranges(&self, kind: SymbolKind) -> impl Iterator<Item = (u64, u64)> {
        let entries = self.addressed.entries.iter();
        entries
            .filter(move |entry| entry.kind == kind && entry.rank < 3)
            .map(|entry| (entry.start, entry.start.saturating_add(entry.size)))
    }

    pub(crate) fn thread_local_at(&self, elves: Elves<'_, '_>, offset: u64) -> Option<Symbol> {
        self.symbol(elves, self.thread_local.covering(offset, |_| true)?)
    }

    /// The size of the sized symbol that starts at an address.
    pub(crate) fn size_at(&self, svma: u64) -> Option<u64> {
        let at = self.addressed.entries.partition_point(|e| e.start < svma);
        self.addressed.entries[at..]
            .iter()
            .take_while(|entry| entry.start == svma)
            .find(|entry| entry.rank < 3)
            .map(|entry| entry.size)
    }

    /// All names with their entries: for a search by name.
    pub(crate) fn find(&self, elves: Elves<'_, '_>, raw: &str) -> Option<Symbol> {
        let table = self.table?.table(elves.0, elves.1)?;
        self.addressed
            .entries
            .iter()
            .chain(&self.thread_local.entries)
            .find(|entry| {
                table
                    .symbol(Index(entry.index as usize))
                    .and_then(|symbol| symbol.name(LE, table.strings()))
                    .is_ok_and(|name| name == raw.as_bytes())
            })
            .and_then(|entry| self.symbol(elves, entry))
    }

    /// Functions whose linker name is wanted.
    pub(crate) fn functions_named(
        &self,
        elves: Elves<'_, '_>,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Vec<(Svma, String)> {
        let Some(table) = self.table.and_then(|table| table.table(elves.0, elves.1)) else {
            return Vec::new();
        };
        let functions = self.addressed.entries.iter();
        functions
            .filter(|entry| entry.kind == SymbolKind::Function)
            .filter_map(|entry| {
                let symbol = table.symbol(Index(entry.index as usize)).ok()?;
                let name = std::str::from_utf8(symbol.name(LE, table.strings()).ok()?).ok()?;
                wanted(name).then(|| (Svma(entry.start), name.to_owned()))
            })
            .collect()
    }

    /// The symbols that a person may mean by a name: the linker's, the readable one, or the end of its path.
    pub(crate) fn called(&self, elves: Elves<'_, '_>, name: &str) -> Vec<Symbol> {
        let Some(table) = self.table.and_then(|source| source.table(elves.0, elves.1)) else {
            return Vec::new();
        };
        // The linker's name of whatever has this readable name contains the last word of it.
        let word = name
            .rsplit(|c: char| !c.is_alphanumeric() && c != '_')
            .next();
        let word = word.unwrap_or(name).as_bytes();
        let may_be = |entry: &&Entry| {
            table
                .symbol(Index(entry.index as usize))
                .and_then(|symbol| symbol.name(LE, table.strings()))
                .is_ok_and(|raw| raw.windows(word.len().max(1)).any(|part| part == word))
        };
        let is_meant = |symbol: &Symbol| {
            let plain = symbol.name.split('(').next().unwrap_or(&symbol.name);
            symbol.raw == name
                || plain == name
                || plain
                    .strip_suffix(name)
                    .is_some_and(|path| path.ends_with("::"))
        };
        let entries = self.addressed.entries.iter().filter(may_be);
        entries
            .filter_map(|entry| self.symbol(elves, entry))
            .filter(is_meant)
            .collect()
    }

    fn symbol(&self, elves: Elves<'_, '_>, entry: &Entry) -> Option<Symbol> {
        let table = self.table?.table(elves.0, elves.1)?;
        let symbol = table.symbol(Index(entry.index as usize)).ok()?;
        let raw = String::from_utf8_lossy(symbol.name(LE, table.strings()).ok()?).into_owned();
        if raw.is_empty() {
            return None;
        }
        Some(Symbol {
            name: names::demangle(&raw).into_owned(),
            suffix: names::split_suffix(&raw).1.map(str::to_owned),
            raw,
            svma: Svma(entry.start),
            size: entry.size,
            kind: entry.kind,
            global: symbol.st_bind() != elf::STB_LOCAL,
        })
    }
}

/// The binary and its separate debug file.
#[derive(Clone, Copy)]
pub(crate) struct Elves<'a, 'd>(pub(crate) &'a Elf<'d>, pub(crate) Option<&'a Elf<'d>>);

impl Source {
    fn table<'d>(self, main: &Elf<'d>, debug: Option<&Elf<'d>>) -> Option<SymbolTable<'d, Header>> {
        match self {
            Self::Main => main.symbols(elf::SHT_SYMTAB),
            Self::Dynamic => main.symbols(elf::SHT_DYNSYM),
            Self::Debug => debug?.symbols(elf::SHT_SYMTAB),
        }
    }
}

impl Sorted {
    fn new(mut entries: Vec<Entry>, elf: &Elf<'_>) -> Self {
        entries.sort_unstable_by_key(|entry| (entry.start, entry.rank, entry.index));
        let mut next = u64::MAX;
        let mut current = u64::MAX;
        for entry in entries.iter_mut().rev() {
            if entry.start != current {
                next = current;
                current = entry.start;
            }
            if entry.size == 0 && entry.kind == SymbolKind::Function {
                let end = elf.section_at(entry.start).map_or(entry.start, |section| {
                    section
                        .sh_addr
                        .get(LE)
                        .saturating_add(section.sh_size.get(LE))
                });
                entry.size = next.min(end).saturating_sub(entry.start);
            }
        }
        let mut reach = 0;
        let reach = entries
            .iter()
            .map(|entry| {
                reach = entry.start.saturating_add(entry.size).max(reach);
                reach
            })
            .collect();
        Self { entries, reach }
    }

    /// The smallest entry that covers `address`, the best-ranked of equals.
    fn covering(&self, address: u64, wanted: impl Fn(&Entry) -> bool) -> Option<&Entry> {
        let end = self.entries.partition_point(|entry| entry.start <= address);
        (end.saturating_sub(NEAREST)..end)
            .rev()
            .take_while(|&at| self.reach[at] > address)
            .map(|at| &self.entries[at])
            .filter(|entry| address - entry.start < entry.size && wanted(entry))
            .min_by_key(|entry| (entry.rank >= 3, entry.size, entry.rank, entry.index))
    }
}
