//! What one pass over all debug information finds out: variables by address, and definitions by name.

use std::hash::Hasher;

use gimli::{Attribute, AttributeValue, DwAt, DwTag, Unit};
use rustc_hash::{FxHashMap, FxHasher};

use super::location::{self, Fixed};
use super::units::{self, DieId, Language, Units};
use crate::image::Slice;

/// The program's variables and types. Names are kept as hashes: they are read again when they are shown.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Variables with an address, in address order.
    pub(super) globals: Vec<(u64, DieId)>,
    /// Variables with a place in the thread-local segment, by offset.
    pub(super) thread_locals: Vec<(u64, DieId)>,
    /// Variables without any place, by their linker's or plain name: what link-time optimisation leaves.
    pub(super) unplaced: FxHashMap<u64, Unplaced>,
    /// Complete structures, unions and classes by qualified name.
    pub(super) definitions: FxHashMap<u64, DieId>,
    /// One entry for each complete structure that differs in name or size from the others.
    pub(super) records: Vec<DieId>,
    /// Last name → qualified name, `None` where several share it.
    short: FxHashMap<u64, Option<u64>>,
}

/// Variables of one name that have no place.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Unplaced {
    /// The definition, if there is just one.
    definition: Option<DieId>,
    definitions: u32,
    /// One of the declarations that other files may refer to.
    declaration: Option<DieId>,
}

impl Unplaced {
    /// The entry that a symbol of this name must mean, if that is certain.
    pub(super) fn only(self, global: bool) -> Option<DieId> {
        match self.definitions {
            1 => self.definition,
            0 if global => self.declaration,
            _ => None,
        }
    }
}

pub(super) fn hash(name: &str) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(name.as_bytes());
    hasher.finish()
}

/// A type's name without what is in angle brackets.
pub(super) fn without_arguments(name: &str) -> &str {
    name.split_once('<').map_or(name, |(name, _)| name)
}

impl Index {
    pub(super) fn build(units: &Units<'_>) -> Self {
        let mut index = Self::default();
        let mut records = FxHashMap::default();
        for number in 0..units.len() {
            units.with_unit(number, |unit| {
                Pass {
                    units,
                    number,
                    unit,
                    language: units::language_of(unit),
                    index: &mut index,
                    records: &mut records,
                    path: String::new(),
                    open: Vec::new(),
                }
                .run()
            });
        }
        index.globals.sort_unstable();
        index.thread_locals.sort_unstable();
        index.records = records.into_values().collect();
        index.records.sort_unstable();
        index
    }

    /// Whether a type's last name means one type only in the whole program.
    pub(super) fn is_unambiguous(&self, qualified: &str, last: &str) -> bool {
        match self.short.get(&hash(without_arguments(last))) {
            Some(Some(known)) => *known == hash(without_arguments(qualified)),
            Some(None) => false,
            None => true,
        }
    }
}

struct Pass<'a, 'i> {
    units: &'a Units<'i>,
    number: usize,
    unit: &'a Unit<Slice<'i>>,
    language: Language,
    index: &'a mut Index,
    records: &'a mut FxHashMap<(u64, u64), DieId>,
    /// The qualified name of the innermost open scope.
    path: String,
    open: Vec<Open>,
}

struct Open {
    /// Depth of its children.
    inside: isize,
    /// Length of the path without it.
    outer: usize,
    /// Whether names in it mean nothing to other units.
    local: bool,
    function: bool,
}

impl<'i> Pass<'_, 'i> {
    fn run(&mut self) {
        let Ok(mut entries) = self.unit.entries_raw(None) else {
            return;
        };
        let mut attrs = Vec::new();
        while !entries.is_empty() {
            let (offset, depth) = (entries.next_offset(), entries.next_depth());
            let Ok(abbrev) = entries.read_abbreviation() else {
                return;
            };
            let Some(abbrev) = abbrev else { continue };
            while self.open.last().is_some_and(|open| open.inside > depth) {
                let closed = self.open.pop();
                self.path.truncate(closed.map_or(0, |open| open.outer));
            }
            let tag = abbrev.tag();
            let wanted = is_record(tag) || is_space(tag) || tag == gimli::DW_TAG_variable;
            if !wanted {
                if entries.skip_attributes(abbrev.attributes()).is_err() {
                    return;
                }
                continue;
            }
            if entries
                .read_attributes(abbrev.attributes(), &mut attrs)
                .is_err()
            {
                return;
            }
            let id = self.units.id(self.number, offset);
            if tag == gimli::DW_TAG_variable {
                self.variable(id, &attrs);
            } else {
                self.scope(id, tag, &attrs, depth, abbrev.has_children());
            }
        }
    }

    fn variable(&mut self, id: DieId, attrs: &[Attribute<Slice<'i>>]) {
        let place = match value(attrs, gimli::DW_AT_location) {
            Some(AttributeValue::Exprloc(expression)) => {
                location::fixed(&self.units.dwarf, self.unit, expression)
            }
            Some(_) => return,
            None => None,
        };
        match place {
            Some(Fixed::Address(address)) => self.index.globals.push((address, id)),
            Some(Fixed::ThreadLocal(offset)) => self.index.thread_locals.push((offset, id)),
            None => self.unplaced(id, attrs),
        }
    }

    fn unplaced(&mut self, id: DieId, attrs: &[Attribute<Slice<'i>>]) {
        let local = self.open.iter().any(|open| open.function);
        if local
            || has(attrs, gimli::DW_AT_const_value)
            || has(attrs, gimli::DW_AT_abstract_origin)
            || has(attrs, gimli::DW_AT_specification)
        {
            return;
        }
        let name = value(attrs, gimli::DW_AT_linkage_name)
            .or_else(|| value(attrs, gimli::DW_AT_name))
            .and_then(|name| units::text(self.units, self.unit, name));
        let Some(name) = name else { return };
        let entry = self.index.unplaced.entry(hash(&name)).or_default();
        if !has(attrs, gimli::DW_AT_declaration) {
            entry.definition = Some(id);
            entry.definitions = entry.definitions.saturating_add(1);
        } else if has(attrs, gimli::DW_AT_external) {
            entry.declaration.get_or_insert(id);
        }
    }

    fn scope(
        &mut self,
        id: DieId,
        tag: DwTag,
        attrs: &[Attribute<Slice<'i>>],
        depth: isize,
        has_children: bool,
    ) {
        let outer = self.path.len();
        let name = value(attrs, gimli::DW_AT_name)
            .and_then(|name| units::text(self.units, self.unit, name));
        if !self.path.is_empty() {
            self.path.push_str("::");
        }
        self.path.push_str(name.as_deref().unwrap_or("?"));
        let local = self.open.iter().any(|open| open.local);
        if let (Some(name), true) = (&name, is_record(tag)) {
            self.record(id, name, attrs, local);
        }
        if has_children {
            let function = tag == gimli::DW_TAG_subprogram;
            self.open.push(Open {
                inside: depth + 1,
                outer,
                local: name.is_none() || function,
                function,
            });
        } else {
            self.path.truncate(outer);
        }
    }

    fn record(&mut self, id: DieId, name: &str, attrs: &[Attribute<Slice<'i>>], local: bool) {
        let size = value(attrs, gimli::DW_AT_byte_size).and_then(|size| size.udata_value());
        let (Some(size), false) = (size, has(attrs, gimli::DW_AT_declaration)) else {
            return;
        };
        self.records.entry((hash(&self.path), size)).or_insert(id);
        if !local {
            self.index.definitions.entry(hash(&self.path)).or_insert(id);
        }
        if self.language == Language::Rust {
            let qualified = hash(without_arguments(&self.path));
            self.index
                .short
                .entry(hash(without_arguments(name)))
                .and_modify(|known| {
                    if *known != Some(qualified) {
                        *known = None;
                    }
                })
                .or_insert(Some(qualified));
        }
    }
}

fn is_record(tag: DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type
    )
}

fn is_space(tag: DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_namespace
            | gimli::DW_TAG_module
            | gimli::DW_TAG_enumeration_type
            | gimli::DW_TAG_subprogram
    )
}

fn value<'i>(attrs: &[Attribute<Slice<'i>>], name: DwAt) -> Option<AttributeValue<Slice<'i>>> {
    let attr = attrs.iter().find(|attr| attr.name() == name)?;
    Some(attr.value())
}

fn has(attrs: &[Attribute<Slice<'_>>], name: DwAt) -> bool {
    attrs.iter().any(|attr| attr.name() == name)
}
