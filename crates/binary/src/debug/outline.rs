//! What one pass over a unit finds out: in which scope each entry is, and where functions are.

use gimli::{DwTag, Dwarf, Unit, UnitOffset};

use super::units;
use crate::image::Slice;

/// The scopes and functions of a unit. Entries have no link to their parents, so names with namespaces need this.
#[derive(Debug, Default)]
pub(super) struct Outline {
    scopes: Vec<Scope>,
    /// Entries with names that depend on their scope, in the order of their offsets.
    parents: Vec<(u32, u32)>,
    /// Code of functions, in address order.
    functions: Vec<Function>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Scope {
    pub(super) offset: UnitOffset,
    pub(super) parent: Option<u32>,
    pub(super) tag: DwTag,
}

#[derive(Debug, Clone, Copy)]
struct Function {
    low: u64,
    high: u64,
    offset: UnitOffset,
}

impl Outline {
    pub(super) fn of<'i>(dwarf: &Dwarf<Slice<'i>>, unit: &Unit<Slice<'i>>) -> Self {
        let mut outline = Self::default();
        let Ok(mut entries) = unit.entries_raw(None) else {
            return outline;
        };
        // The scopes that are open, each with the depth of its children.
        let mut open: Vec<(isize, u32)> = Vec::new();
        let mut attrs = Vec::new();
        while !entries.is_empty() {
            let (offset, depth) = (entries.next_offset(), entries.next_depth());
            let Ok(abbrev) = entries.read_abbreviation() else {
                break;
            };
            let Some(abbrev) = abbrev else { continue };
            while open.last().is_some_and(|&(inside, _)| inside > depth) {
                open.pop();
            }
            let (tag, specs) = (abbrev.tag(), abbrev.attributes());
            let scope = open.last().map(|&(_, scope)| scope);
            if let (Some(scope), Ok(at), true) = (scope, u32::try_from(offset.0), is_named(tag)) {
                outline.parents.push((at, scope));
            }
            if is_scope(tag) && abbrev.has_children() {
                let number = outline.scopes.len() as u32;
                outline.scopes.push(Scope {
                    offset,
                    parent: scope,
                    tag,
                });
                open.push((depth + 1, number));
            }
            if tag == gimli::DW_TAG_subprogram {
                if entries.read_attributes(specs, &mut attrs).is_err() {
                    break;
                }
                units::ranges(dwarf, unit, &attrs, |low, high| {
                    outline.functions.push(Function { low, high, offset });
                });
            } else if entries.skip_attributes(specs).is_err() {
                break;
            }
        }
        outline.functions.sort_unstable_by_key(|f| (f.low, f.high));
        outline
    }

    /// The scope that an entry is directly in.
    pub(super) fn scope_of(&self, offset: UnitOffset) -> Option<Scope> {
        let offset = u32::try_from(offset.0).ok()?;
        let at = self
            .parents
            .binary_search_by_key(&offset, |&(offset, _)| offset)
            .ok()?;
        self.scope(self.parents[at].1)
    }

    pub(super) fn scope(&self, number: u32) -> Option<Scope> {
        self.scopes.get(number as usize).copied()
    }

    /// The function whose code covers an address.
    pub(super) fn function_at(&self, svma: u64) -> Option<UnitOffset> {
        let end = self.functions.partition_point(|f| f.low <= svma);
        self.functions[end.saturating_sub(8)..end]
            .iter()
            .rev()
            .find(|function| svma < function.high)
            .map(|function| function.offset)
    }
}

fn is_scope(tag: DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_namespace
            | gimli::DW_TAG_module
            | gimli::DW_TAG_structure_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_interface_type
            | gimli::DW_TAG_enumeration_type
            | gimli::DW_TAG_subprogram
    )
}

fn is_named(tag: DwTag) -> bool {
    is_scope(tag)
        || matches!(
            tag,
            gimli::DW_TAG_variable
                | gimli::DW_TAG_member
                | gimli::DW_TAG_typedef
                | gimli::DW_TAG_base_type
        )
}
