//! The units of the debug information and the entries in them, each reachable by one number.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::ControlFlow;
use std::sync::Arc;

use gimli::{
    Attribute, AttributeValue, DwAt, DwTag, Dwarf, Unit, UnitHeader, UnitOffset, UnitType,
};
use rustc_hash::FxHashMap;

use super::outline::Outline;
use crate::image::Slice;

pub(super) type Entry<'i> = gimli::DebuggingInformationEntry<Slice<'i>>;
pub(super) type Value<'i> = AttributeValue<Slice<'i>>;

/// How many references from entry to entry are followed: damaged ones may go in circles.
pub(super) const MOST_STEPS: usize = 64;

/// An entry: its offset in `.debug_info`, or in `.debug_types` if the top bit is set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct DieId(pub(super) u64);

const TYPES: u64 = 1 << 63;

/// The language family of a unit, as far as names and paths differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Language {
    Rust,
    Cpp,
    Other,
}

/// All units, parsed when they are first needed.
pub(super) struct Units<'i> {
    pub(super) dwarf: Arc<Dwarf<Slice<'i>>>,
    units: Vec<LazyUnit<'i>>,
    /// Where the type of a type unit is.
    signatures: FxHashMap<u64, DieId>,
    /// Whether some unit headers could not be read.
    pub(super) damaged: bool,
}

struct LazyUnit<'i> {
    header: UnitHeader<Slice<'i>>,
    start: u64,
    end: u64,
    unit: OnceCell<Option<Box<Unit<Slice<'i>>>>>,
    language: OnceCell<Language>,
    outline: OnceCell<Outline>,
}

/// One entry and the unit it is in.
#[derive(Clone)]
pub(super) struct Die<'a, 'i> {
    pub(super) units: &'a Units<'i>,
    pub(super) number: usize,
    pub(super) unit: &'a Unit<Slice<'i>>,
    pub(super) entry: Entry<'i>,
}

impl<'i> Units<'i> {
    pub(super) fn read(dwarf: Arc<Dwarf<Slice<'i>>>) -> Self {
        let mut units = Self {
            units: Vec::new(),
            signatures: FxHashMap::default(),
            damaged: false,
            dwarf: Arc::clone(&dwarf),
        };
        let mut headers = dwarf.units();
        units.add_all(|| headers.next());
        let mut headers = dwarf.type_units();
        units.add_all(|| headers.next());
        units
    }

    /// Adds units up to the first one that cannot be read: where the next one begins is not known then.
    fn add_all(&mut self, mut next: impl FnMut() -> gimli::Result<Option<UnitHeader<Slice<'i>>>>) {
        loop {
            match next() {
                Ok(Some(header)) => self.add(header),
                Ok(None) => break,
                Err(_) => {
                    self.damaged = true;
                    break;
                }
            }
        }
    }

    /// The number of a unit's first byte.
    pub(super) fn start_of(header: &UnitHeader<Slice<'i>>) -> Option<u64> {
        match (header.debug_info_offset(), header.debug_types_offset()) {
            (Some(offset), _) => Some(offset.0 as u64),
            (_, Some(offset)) => Some(offset.0 as u64 | TYPES),
            _ => None,
        }
    }

    /// Gives back the memory of all units that were parsed.
    pub(super) fn forget(&mut self) {
        for lazy in &mut self.units {
            lazy.unit.take();
            lazy.outline.take();
        }
    }

    fn add(&mut self, header: UnitHeader<Slice<'i>>) {
        let Some(start) = Self::start_of(&header) else {
            return;
        };
        if let UnitType::Type {
            type_signature,
            type_offset,
        } = header.type_()
        {
            let id = DieId(start + type_offset.0 as u64);
            self.signatures.insert(type_signature.0, id);
        }
        self.units.push(LazyUnit {
            start,
            end: start + header.length_including_self() as u64,
            header,
            unit: OnceCell::new(),
            language: OnceCell::new(),
            outline: OnceCell::new(),
        });
    }

    pub(super) fn len(&self) -> usize {
        self.units.len()
    }

    /// The number of the unit that an entry is in.
    pub(super) fn number_of(&self, id: DieId) -> Option<usize> {
        let at = self.units.partition_point(|unit| unit.start <= id.0);
        let number = at.checked_sub(1)?;
        (id.0 < self.units[number].end).then_some(number)
    }

    pub(super) fn unit(&self, number: usize) -> Option<&Unit<Slice<'i>>> {
        let lazy = self.units.get(number)?;
        let unit = lazy
            .unit
            .get_or_init(|| self.dwarf.unit(lazy.header).ok().map(Box::new));
        unit.as_deref()
    }

    /// The unit parsed for one pass only, unless it is there already: a pass through all units must not keep them all.
    pub(super) fn with_unit<T>(
        &self,
        number: usize,
        pass: impl FnOnce(&Unit<Slice<'i>>) -> T,
    ) -> Option<T> {
        let lazy = self.units.get(number)?;
        match lazy.unit.get() {
            Some(unit) => unit.as_deref().map(pass),
            None => self.dwarf.unit(lazy.header).ok().map(|unit| pass(&unit)),
        }
    }

    pub(super) fn language(&self, number: usize) -> Language {
        let Some(lazy) = self.units.get(number) else {
            return Language::Other;
        };
        *lazy.language.get_or_init(|| {
            self.with_unit(number, |unit| language_of(unit))
                .unwrap_or(Language::Other)
        })
    }

    pub(super) fn outline(&self, number: usize) -> Option<&Outline> {
        let lazy = self.units.get(number)?;
        let unit = self.unit(number)?;
        Some(lazy.outline.get_or_init(|| Outline::of(&self.dwarf, unit)))
    }

    /// The number of an entry by its offset in a unit.
    pub(super) fn id(&self, number: usize, offset: UnitOffset) -> DieId {
        DieId(self.units[number].start.saturating_add(offset.0 as u64))
    }

    pub(super) fn offset_in(&self, number: usize, id: DieId) -> Option<UnitOffset> {
        let offset = id.0.checked_sub(self.units.get(number)?.start)?;
        Some(UnitOffset(usize::try_from(offset).ok()?))
    }

    pub(super) fn die(&self, id: DieId) -> Option<Die<'_, 'i>> {
        let number = self.number_of(id)?;
        let unit = self.unit(number)?;
        let offset = self.offset_in(number, id)?;
        let entry = unit.entry(offset).ok()?;
        Some(Die {
            units: self,
            number,
            unit,
            entry,
        })
    }

    /// The entry that a reference in unit `number` means.
    pub(super) fn target(&self, number: usize, value: &Value<'i>) -> Option<DieId> {
        match *value {
            AttributeValue::UnitRef(offset) => Some(self.id(number, offset)),
            AttributeValue::DebugInfoRef(offset) => Some(DieId(offset.0 as u64)),
            AttributeValue::DebugTypesRef(signature) => self.signatures.get(&signature.0).copied(),
            _ => None,
        }
    }
}

pub(super) fn language_of(unit: &Unit<Slice<'_>>) -> Language {
    let root = unit.entry(unit.header.root_offset()).ok();
    match root.and_then(|root| root.attr_value(gimli::DW_AT_language)) {
        Some(AttributeValue::Language(language)) => match language {
            gimli::DW_LANG_Rust => Language::Rust,
            gimli::DW_LANG_C_plus_plus
            | gimli::DW_LANG_C_plus_plus_03
            | gimli::DW_LANG_C_plus_plus_11
            | gimli::DW_LANG_C_plus_plus_14
            | gimli::DW_LANG_C_plus_plus_17
            | gimli::DW_LANG_C_plus_plus_20 => Language::Cpp,
            _ => Language::Other,
        },
        _ => Language::Other,
    }
}

impl<'a, 'i> Die<'a, 'i> {
    pub(super) fn id(&self) -> DieId {
        self.units.id(self.number, self.entry.offset())
    }

    pub(super) fn tag(&self) -> DwTag {
        self.entry.tag()
    }

    pub(super) fn value(&self, name: DwAt) -> Option<Value<'i>> {
        self.entry.attr_value(name)
    }

    pub(super) fn number(&self, name: DwAt) -> Option<u64> {
        self.value(name)?.udata_value()
    }

    pub(super) fn flag(&self, name: DwAt) -> bool {
        matches!(self.value(name), Some(AttributeValue::Flag(true)))
    }

    pub(super) fn text(&self, name: DwAt) -> Option<Cow<'i, str>> {
        text(self.units, self.unit, self.value(name)?)
    }

    pub(super) fn name(&self) -> Option<Cow<'i, str>> {
        self.text(gimli::DW_AT_name)
    }

    pub(super) fn target(&self, name: DwAt) -> Option<DieId> {
        self.units.target(self.number, &self.value(name)?)
    }

    /// The entry that this one completes: a declaration, or the abstract form of an inlined function.
    pub(super) fn origin(&self) -> Option<Die<'a, 'i>> {
        let id = self
            .target(gimli::DW_AT_specification)
            .or_else(|| self.target(gimli::DW_AT_abstract_origin))?;
        self.units.die(id)
    }

    /// The first of this entry and those it completes for which `find` has an answer.
    pub(super) fn along_origins<T>(
        &self,
        mut find: impl FnMut(&Die<'a, 'i>) -> Option<T>,
    ) -> Option<T> {
        let mut at = self.clone();
        for _ in 0..8 {
            if let Some(found) = find(&at) {
                return Some(found);
            }
            at = at.origin()?;
        }
        None
    }

    pub(super) fn each_child(&self, mut visit: impl FnMut(Die<'a, 'i>) -> ControlFlow<()>) {
        let Ok(mut tree) = self.unit.entries_tree(Some(self.entry.offset())) else {
            return;
        };
        let Ok(root) = tree.root() else {
            return;
        };
        let mut children = root.children();
        while let Ok(Some(child)) = children.next() {
            let die = Die {
                units: self.units,
                number: self.number,
                unit: self.unit,
                entry: child.entry().clone(),
            };
            if visit(die).is_break() {
                return;
            }
        }
    }
}

pub(super) fn text<'i>(
    units: &Units<'i>,
    unit: &Unit<Slice<'i>>,
    value: Value<'i>,
) -> Option<Cow<'i, str>> {
    let text = units.dwarf.attr_string(unit, value).ok()?;
    let text = match std::str::from_utf8(text.slice()) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(text.to_string_lossy().into_owned()),
    };
    (!text.is_empty()).then_some(text)
}

/// Low and high end of the ranges that attributes state, each with `low < high`.
pub(super) fn ranges<'i>(
    dwarf: &Dwarf<Slice<'i>>,
    unit: &Unit<Slice<'i>>,
    attrs: &[Attribute<Slice<'i>>],
    mut visit: impl FnMut(u64, u64),
) {
    let value = |name| {
        let attr = attrs.iter().find(|attr| attr.name() == name)?;
        Some(attr.value())
    };
    let address = |value| dwarf.attr_address(unit, value).ok().flatten();
    if let Some(list) = value(gimli::DW_AT_ranges) {
        if let Ok(Some(mut list)) = dwarf.attr_ranges(unit, list) {
            while let Ok(Some(range)) = list.next() {
                if range.begin < range.end {
                    visit(range.begin, range.end);
                }
            }
        }
        return;
    }
    let low = value(gimli::DW_AT_low_pc).and_then(address);
    if let (Some(low), Some(high)) = (low, value(gimli::DW_AT_high_pc)) {
        let end = match high {
            AttributeValue::Udata(size) => low.checked_add(size),
            value => address(value),
        };
        if let Some(end) = end.filter(|&end| low < end) {
            visit(low, end);
        }
    }
}
