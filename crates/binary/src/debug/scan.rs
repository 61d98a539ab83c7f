//! One quick pass over the entries of a unit: which types are defined in it.
//!
//! It reads no more than what tells types apart, so that all types of a large binary can be counted, and those of one
//! name found, in a fraction of a second. What is wanted in detail is read again by [`super::layouts`].

use std::borrow::Cow;
use std::hash::Hasher;

use gimli::{
    Attribute, AttributeValue, DebugStrOffsetsBase, DwAt, DwTag, Dwarf, UnitHeader, UnitOffset,
};
use rustc_hash::{FxHashMap, FxHasher};

use super::units::Value;
use crate::image::Slice;

/// What a pass looks for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wanted<'q> {
    /// All complete structures, unions, classes and enumerations with data.
    All,
    /// Whatever is called this, without what is in angle brackets and without namespaces.
    Named(&'q str),
}

/// A type that a unit defines.
#[derive(Debug, Clone)]
pub(super) struct Defined {
    /// Where in the unit.
    pub(super) offset: UnitOffset,
    /// Its name with namespaces, as the compiler wrote it.
    pub(super) path: String,
    pub(super) size: Option<u64>,
    /// What tells it from others of the same name: its members by name and place.
    pub(super) content: u64,
}

/// A scope that is open, or a type that is being read.
struct Open<'i> {
    /// Depth of its children.
    inside: isize,
    name: Option<Cow<'i, str>>,
    anonymous: &'static str,
    record: Option<Reading>,
}

struct Reading {
    offset: UnitOffset,
    size: u64,
    content: FxHasher,
}

/// A pass over one unit.
pub(super) struct Scan<'a, 'i> {
    dwarf: &'a Dwarf<Slice<'i>>,
    header: &'a UnitHeader<Slice<'i>>,
    wanted: Wanted<'a>,
    strings: Option<DebugStrOffsetsBase<usize>>,
    rust: bool,
    open: Vec<Open<'i>>,
    /// Structures without a name, which a typedef may name yet: size and content.
    nameless: FxHashMap<UnitOffset, (u64, u64)>,
    see: &'a mut dyn FnMut(Defined),
}

/// What is known about a unit without its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scanned {
    /// Whether its entries are in another file (split DWARF).
    pub(super) split: bool,
    /// Whether the pass ended at something damaged.
    pub(super) damaged: bool,
}

impl<'a, 'i> Scan<'a, 'i> {
    /// Reads a unit and shows the types that are wanted.
    pub(super) fn unit(
        dwarf: &'a Dwarf<Slice<'i>>,
        header: &'a UnitHeader<Slice<'i>>,
        wanted: Wanted<'a>,
        see: &'a mut dyn FnMut(Defined),
    ) -> Scanned {
        let mut scan = Self {
            dwarf,
            header,
            wanted,
            strings: None,
            rust: false,
            open: Vec::new(),
            nameless: FxHashMap::default(),
            see,
        };
        let mut split = matches!(header.type_(), gimli::UnitType::Skeleton(_));
        let damaged = scan.run(&mut split).is_err();
        Scanned { split, damaged }
    }

    fn run(&mut self, split: &mut bool) -> gimli::Result<()> {
        let abbreviations = self.dwarf.abbreviations(self.header)?;
        let mut entries = self.header.entries_raw(&abbreviations, None)?;
        let mut attrs = Vec::new();
        let mut is_root = true;
        while !entries.is_empty() {
            let (offset, depth) = (entries.next_offset(), entries.next_depth());
            let Some(abbrev) = entries.read_abbreviation()? else {
                continue;
            };
            while self.open.last().is_some_and(|open| open.inside > depth) {
                self.close();
            }
            let tag = abbrev.tag();
            let interest = if is_root {
                Interest::Root
            } else {
                self.interest(tag)
            };
            if interest == Interest::None {
                entries.skip_attributes(abbrev.attributes())?;
                continue;
            }
            entries.read_attributes(abbrev.attributes(), &mut attrs)?;
            match interest {
                Interest::Root => {
                    is_root = false;
                    self.root(&attrs);
                    *split |= has(&attrs, gimli::DW_AT_GNU_dwo_name)
                        || has(&attrs, gimli::DW_AT_dwo_name);
                }
                Interest::Member => self.member(tag, &attrs),
                Interest::Typedef => self.typedef(offset, &attrs),
                Interest::Scope => {
                    let children = abbrev.has_children().then_some(depth + 1);
                    self.scope(tag, offset, &attrs, children);
                }
                Interest::None => {}
            }
        }
        while !self.open.is_empty() {
            self.close();
        }
        Ok(())
    }

    fn interest(&self, tag: DwTag) -> Interest {
        match tag {
            gimli::DW_TAG_structure_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_enumeration_type
            | gimli::DW_TAG_namespace
            | gimli::DW_TAG_module
            | gimli::DW_TAG_subprogram => Interest::Scope,
            gimli::DW_TAG_typedef => Interest::Typedef,
            gimli::DW_TAG_member
            | gimli::DW_TAG_inheritance
            | gimli::DW_TAG_variant_part
            | gimli::DW_TAG_variant
                if matches!(self.wanted, Wanted::All) =>
            {
                Interest::Member
            }
            _ => Interest::None,
        }
    }

    fn root(&mut self, attrs: &[Attribute<Slice<'i>>]) {
        if let Some(AttributeValue::DebugStrOffsetsBase(base)) =
            value(attrs, gimli::DW_AT_str_offsets_base)
        {
            self.strings = Some(base);
        }
        self.rust = matches!(
            value(attrs, gimli::DW_AT_language),
            Some(AttributeValue::Language(gimli::DW_LANG_Rust))
        );
    }

    fn text(&self, value: Value<'i>) -> Option<Cow<'i, str>> {
        let offset = |offset| self.dwarf.debug_str.get_str(offset).ok();
        let text = match value {
            AttributeValue::String(text) => text,
            AttributeValue::DebugStrRef(at) => offset(at)?,
            AttributeValue::DebugLineStrRef(at) => self.dwarf.debug_line_str.get_str(at).ok()?,
            AttributeValue::DebugStrOffsetsIndex(index) => {
                let format = self.header.format();
                let table = &self.dwarf.debug_str_offsets;
                offset(table.get_str_offset(format, self.strings?, index).ok()?)?
            }
            _ => return None,
        };
        let text = match std::str::from_utf8(text.slice()) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => Cow::Owned(text.to_string_lossy().into_owned()),
        };
        (!text.is_empty()).then_some(text)
    }

    fn name(&self, attrs: &[Attribute<Slice<'i>>]) -> Option<Cow<'i, str>> {
        self.text(value(attrs, gimli::DW_AT_name)?)
    }

    fn scope(
        &mut self,
        tag: DwTag,
        offset: UnitOffset,
        attrs: &[Attribute<Slice<'i>>],
        children: Option<isize>,
    ) {
        let is_record = matches!(
            tag,
            gimli::DW_TAG_structure_type
                | gimli::DW_TAG_class_type
                | gimli::DW_TAG_union_type
                | gimli::DW_TAG_enumeration_type
        );
        let size = value(attrs, gimli::DW_AT_byte_size).and_then(|size| size.udata_value());
        let complete = is_record && !has(attrs, gimli::DW_AT_declaration);
        // A payload of an enumeration of Rust is shown with it, not by itself.
        let inside = self.open.last().map(|open| open.anonymous);
        let payload = self.rust && inside == Some(RECORD);
        let is_all = matches!(self.wanted, Wanted::All);
        let is_plain = tag == gimli::DW_TAG_enumeration_type;
        let is_wanted = !(payload || is_all && is_plain);
        let record = size.filter(|_| complete && is_wanted).map(|size| Reading {
            offset,
            size,
            content: FxHasher::default(),
        });
        if record.is_none() && children.is_none() {
            return;
        }
        self.open.push(Open {
            inside: children.unwrap_or(isize::MAX),
            name: self.name(attrs),
            anonymous: match tag {
                gimli::DW_TAG_namespace => "(anonymous namespace)",
                _ if is_record => RECORD,
                _ => "(anonymous)",
            },
            record,
        });
        if children.is_none() {
            self.close();
        }
    }

    fn member(&mut self, tag: DwTag, attrs: &[Attribute<Slice<'i>>]) {
        let name = self.name(attrs);
        let Some(record) = self.open.last_mut().and_then(|open| open.record.as_mut()) else {
            return;
        };
        let content = &mut record.content;
        content.write_u16(tag.0);
        content.write(name.as_deref().unwrap_or("").as_bytes());
        for attr in attrs {
            match attr.name() {
                gimli::DW_AT_data_member_location
                | gimli::DW_AT_data_bit_offset
                | gimli::DW_AT_bit_offset
                | gimli::DW_AT_bit_size
                | gimli::DW_AT_discr_value => {
                    content.write_u16(attr.name().0);
                    content.write_u64(attr.udata_value().unwrap_or(u64::MAX));
                }
                _ => {}
            }
        }
    }

    fn close(&mut self) {
        let Some(Open { name, record, .. }) = self.open.pop() else {
            return;
        };
        let Some(record) = record else { return };
        let content = record.content.finish();
        let Some(name) = name else {
            self.nameless.insert(record.offset, (record.size, content));
            return;
        };
        if self.is_wanted(&name) {
            let path = self.path(&name);
            (self.see)(Defined {
                offset: record.offset,
                path,
                size: Some(record.size),
                content,
            });
        }
    }

    fn is_wanted(&self, name: &str) -> bool {
        match self.wanted {
            Wanted::All => true,
            Wanted::Named(wanted) => {
                let rest = name.strip_prefix(wanted);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('<'))
            }
        }
    }

    /// A name with the scopes that are open.
    fn path(&self, name: &str) -> String {
        /// No compiler nests deeper; damaged files do, and each name in them would be as long as that.
        const DEEPEST: usize = 64;
        let mut path = String::new();
        for open in &self.open[self.open.len().saturating_sub(DEEPEST)..] {
            let anonymous = match open.anonymous {
                RECORD => "(anonymous)",
                other => other,
            };
            path.push_str(open.name.as_deref().unwrap_or(anonymous));
            path.push_str("::");
        }
        path.push_str(name);
        path
    }

    /// `typedef struct { … } name;`, and, where a name is looked for, what it is another name of.
    fn typedef(&mut self, offset: UnitOffset, attrs: &[Attribute<Slice<'i>>]) {
        let Some(target) = value(attrs, gimli::DW_AT_type) else {
            return;
        };
        // One in another unit is found by the name only, and read when it is wanted.
        let target = match target {
            AttributeValue::UnitRef(target) => target,
            _ => offset,
        };
        let named = self.nameless.get(&target).copied();
        if named.is_none() && matches!(self.wanted, Wanted::All) {
            return;
        }
        let Some(name) = self.name(attrs).filter(|name| self.is_wanted(name)) else {
            return;
        };
        let path = self.path(&name);
        (self.see)(Defined {
            offset: named.map_or(offset, |_| target),
            path,
            size: named.map(|(size, _)| size),
            content: named.map_or(0, |(_, content)| content),
        });
    }
}

/// What marks an open type among open scopes.
const RECORD: &str = "(type)";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Interest {
    Root,
    Scope,
    Member,
    Typedef,
    None,
}

fn value<'i>(attrs: &[Attribute<Slice<'i>>], name: DwAt) -> Option<Value<'i>> {
    let attr = attrs.iter().find(|attr| attr.name() == name)?;
    Some(attr.value())
}

fn has(attrs: &[Attribute<Slice<'_>>], name: DwAt) -> bool {
    attrs.iter().any(|attr| attr.name() == name)
}
