//! Which variable is at an address.

use gimli::AttributeValue;
use hitm_model::{SourceLine, Svma};

use super::index::hash;
use super::units::{Die, DieId, MOST_STEPS};
use super::{DebugInfo, TypeId};
use crate::image::{Symbol, demangle, split_suffix};

/// How many variables before an address are looked at.
const NEAREST: usize = 16;

/// A variable that exists once per program, or once per thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Global {
    /// Its name with namespaces: `server`, `fs::gate`, `main::counter` for a static of a function, `guard of X` for
    /// the guard of one.
    pub name: String,
    /// Where it starts; of a thread-local, its offset in the thread-local segment.
    pub svma: Svma,
    /// Its size in bytes, 0 if not known.
    pub size: u64,
    /// Its type, if it is certain.
    pub ty: Option<TypeId>,
    /// The alignment that its declaration asks for, in bytes.
    pub align: Option<u64>,
    /// Where it is declared.
    pub declared: Option<SourceLine>,
    /// The variable that this one guards the initialisation of.
    pub guard_of: Option<String>,
    /// How it was found.
    pub origin: Origin,
}

/// How a variable was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// By the address in the debug information.
    Debug,
    /// By a symbol.
    Symbol,
    /// By the section only: it is not known which variable it is.
    Section,
}

impl<'i> DebugInfo<'i> {
    /// The variable that covers an address; the section where no variable is known there.
    #[must_use]
    pub fn global_at(&self, svma: Svma) -> Option<Global> {
        let (section, range) = self.image.section_range_at(svma)?;
        self.placed(&self.index().globals, svma.0, |id, at| {
            // What the linker left out keeps an address of no meaning.
            range.contains(Svma(at)).then_some(())?;
            let size = self.image.symbol_size_at(at);
            self.global(id, at, size)
        })
        .or_else(|| {
            let symbol = self.image.symbol_at(svma)?;
            Some(self.by_symbol(symbol))
        })
        .or_else(|| {
            Some(Global {
                name: section.to_owned(),
                svma: range.start,
                size: range.len(),
                ty: None,
                align: None,
                declared: None,
                guard_of: None,
                origin: Origin::Section,
            })
        })
    }

    /// The thread-local variable that covers an offset in the thread-local segment.
    #[must_use]
    pub fn thread_local_at(&self, tls_offset: u64) -> Option<Global> {
        self.placed(&self.index().thread_locals, tls_offset, |id, at| {
            self.global(id, at, None)
        })
        .or_else(|| Some(self.by_symbol(self.image.tls_symbol_at(tls_offset)?)))
    }

    /// The nearest variable that starts at or before an address and reaches beyond it.
    fn placed(
        &self,
        sorted: &[(u64, DieId)],
        address: u64,
        read: impl Fn(DieId, u64) -> Option<Global>,
    ) -> Option<Global> {
        let end = sorted.partition_point(|&(start, _)| start <= address);
        let mut found: Option<Global> = None;
        for &(start, id) in sorted[end.saturating_sub(NEAREST)..end].iter().rev() {
            if found.as_ref().is_some_and(|found| found.svma.0 != start) {
                break;
            }
            // Of several entries for one place, the first in the file that has a type.
            if let Some(global) = read(id, start)
                && (address - start < global.size || address == start)
                && (global.ty.is_some() || found.is_none())
            {
                found = Some(global);
            }
        }
        found
    }

    fn global(&self, id: DieId, address: u64, symbol_size: Option<u64>) -> Option<Global> {
        let die = self.units.die(id)?;
        let name = self.qualified(&die);
        let ty = die.along_origins(|die| die.target(gimli::DW_AT_type));
        let size = symbol_size.or_else(|| self.size_of(ty?));
        Some(Global {
            name,
            svma: Svma(address),
            size: size.unwrap_or(0),
            ty: ty.map(TypeId),
            align: die.along_origins(|die| die.number(gimli::DW_AT_alignment)),
            declared: self.declared(&die),
            guard_of: None,
            origin: Origin::Debug,
        })
    }

    fn by_symbol(&self, symbol: Symbol) -> Global {
        let guard_of = self.guarded(&symbol);
        let typed = self.only_of_that_name(&symbol);
        let name = match (&guard_of, &typed) {
            (Some(guarded), _) => format!("guard of {guarded}"),
            (None, Some(die)) => self.qualified(die),
            (None, None) => symbol.name,
        };
        Global {
            name,
            svma: symbol.svma,
            size: symbol.size,
            ty: typed
                .as_ref()
                .and_then(|die| die.target(gimli::DW_AT_type))
                .map(TypeId),
            align: typed
                .as_ref()
                .and_then(|die| die.number(gimli::DW_AT_alignment)),
            declared: typed.as_ref().and_then(|die| self.declared(die)),
            guard_of,
            origin: Origin::Symbol,
        }
    }

    /// The variable whose initialisation a symbol `_ZGV…` guards.
    fn guarded(&self, symbol: &Symbol) -> Option<String> {
        let (raw, _) = split_suffix(&symbol.raw);
        let guarded = format!("_Z{}", raw.strip_prefix("_ZGV")?);
        let known = self
            .image
            .symbol_named(&guarded)
            .and_then(|symbol| self.global_at(symbol.svma))
            .filter(|global| global.origin == Origin::Debug);
        Some(known.map_or_else(|| demangle(&guarded).into_owned(), |global| global.name))
    }

    /// The variable that a symbol without a place in the debug information must be: the only one of its name, and as
    /// large as the symbol.
    fn only_of_that_name(&self, symbol: &Symbol) -> Option<Die<'_, 'i>> {
        let (raw, _) = split_suffix(&symbol.raw);
        let id = self.index().unplaced.get(&hash(raw))?.only(symbol.global)?;
        let die = self.units.die(id)?;
        let ty = die.target(gimli::DW_AT_type)?;
        (self.size_of(ty) == Some(symbol.size)).then_some(die)
    }

    /// The name of an entry with all its scopes.
    pub(super) fn qualified(&self, die: &Die<'_, 'i>) -> String {
        let scope = self.scope_path(die);
        let name = die.along_origins(Die::name);
        let name = name.as_deref().unwrap_or("?");
        if scope.is_empty() {
            name.to_owned()
        } else {
            format!("{scope}::{name}")
        }
    }

    /// The names of the scopes around an entry, outermost first.
    pub(super) fn scope_path(&self, die: &Die<'_, 'i>) -> String {
        self.scope_path_at(die, 0)
    }

    fn scope_path_at(&self, die: &Die<'_, 'i>, depth: usize) -> String {
        // What completes a declaration belongs where that is.
        if let Some(declared) = die.origin().filter(|_| depth < 8) {
            return self.scope_path_at(&declared, depth + 1);
        }
        let mut parts: Vec<String> = Vec::new();
        let Some(outline) = self.units.outline(die.number) else {
            return String::new();
        };
        let mut scope = outline.scope_of(die.entry.offset());
        while let Some(at) = scope
            && parts.len() < MOST_STEPS
        {
            scope = at.parent.and_then(|parent| outline.scope(parent));
            let Some(around) = self.units.die(self.units.id(die.number, at.offset)) else {
                break;
            };
            // A function outside its class or namespace says where it belongs by its declaration.
            if let Some(declared) = around.origin().filter(|_| depth < 8) {
                let outer = self.scope_path_at(&declared, depth + 1);
                parts.push(
                    around
                        .along_origins(Die::name)
                        .map_or_else(|| "?".to_owned(), |name| name.into_owned()),
                );
                if !outer.is_empty() {
                    parts.push(outer);
                }
                break;
            }
            parts.push(match around.name() {
                Some(name) => name.into_owned(),
                None if at.tag == gimli::DW_TAG_namespace => "(anonymous namespace)".to_owned(),
                None => "(anonymous)".to_owned(),
            });
        }
        parts.reverse();
        parts.join("::")
    }

    /// Where an entry is declared.
    pub(super) fn declared(&self, die: &Die<'_, 'i>) -> Option<SourceLine> {
        die.along_origins(|die| {
            let AttributeValue::FileIndex(file) = die.value(gimli::DW_AT_decl_file)? else {
                return None;
            };
            let header = die.unit.line_program.as_ref()?.header();
            let entry = header.file(file)?;
            let text = |value| die.units.dwarf.attr_string(die.unit, value).ok();
            let mut path = String::new();
            if let Some(dir) = die.unit.comp_dir {
                push(&mut path, &dir.to_string_lossy());
            }
            if let Some(dir) = entry.directory(header).and_then(text)
                && (entry.directory_index() != 0 || header.version() >= 5)
            {
                push(&mut path, &dir.to_string_lossy());
            }
            push(&mut path, &text(entry.path_name())?.to_string_lossy());
            let line = die.number(gimli::DW_AT_decl_line).unwrap_or(0);
            Some(SourceLine {
                file: path,
                line: u32::try_from(line).unwrap_or(0),
            })
        })
    }
}

/// Appends a part of a path, or replaces the path by it where it is absolute.
fn push(path: &mut String, part: &str) {
    if part.starts_with('/') {
        path.clear();
    } else if !path.is_empty() && !path.ends_with('/') {
        path.push('/');
    }
    path.push_str(part);
}
