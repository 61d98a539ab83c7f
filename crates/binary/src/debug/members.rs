//! What arrays and records are made of, as their entries say.

use std::ops::ControlFlow;

use gimli::{AttributeValue, Operation};

use super::types::{Member, Record, Variant};
use super::units::{Die, DieId, MOST_STEPS, Units, Value};

/// More members than this are not read.
const MOST_MEMBERS: usize = 1 << 16;

/// The number of elements in each dimension, outermost first.
pub(super) fn dimensions(die: &Die<'_, '_>) -> Vec<Option<u64>> {
    let mut dimensions = Vec::new();
    die.each_child(|child| {
        if child.tag() == gimli::DW_TAG_subrange_type {
            let lower = child.number(gimli::DW_AT_lower_bound).unwrap_or(0);
            let upper = || {
                // An array without elements has the bound −1, in any width.
                let value = child.value(gimli::DW_AT_upper_bound)?;
                let upper = value.sdata_value()?.checked_add(1)?;
                Some(upper.max(0).cast_unsigned().saturating_sub(lower))
            };
            dimensions.push(child.number(gimli::DW_AT_count).or_else(upper));
        }
        match dimensions.len() {
            0..16 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    });
    if dimensions.is_empty() {
        dimensions.push(None);
    }
    dimensions
}

/// The members and variants of a structure, class or union.
pub(super) fn record(die: &Die<'_, '_>) -> Record {
    let mut record = Record {
        union: die.tag() == gimli::DW_TAG_union_type,
        ..Record::default()
    };
    die.each_child(|child| {
        match child.tag() {
            gimli::DW_TAG_member | gimli::DW_TAG_inheritance => {
                record.members.extend(member(&child));
            }
            gimli::DW_TAG_variant_part => variants(&child, &mut record),
            gimli::DW_TAG_template_type_parameter => {
                record.parameters.extend(child.target(gimli::DW_AT_type));
            }
            _ => {}
        }
        match record.members.len() {
            0..MOST_MEMBERS => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    });
    record
}

fn variants(part: &Die<'_, '_>, record: &mut Record) {
    part.each_child(|child| {
        match child.tag() {
            gimli::DW_TAG_member => record.members.extend(member(&child).map(|member| Member {
                discriminant: true,
                ..member
            })),
            gimli::DW_TAG_variant => {
                let mut members = Vec::new();
                child.each_child(|child| {
                    members.extend(member(&child));
                    ControlFlow::Continue(())
                });
                record.variants.push(Variant {
                    members,
                    value: child.value(gimli::DW_AT_discr_value).and_then(number),
                });
            }
            _ => {}
        }
        match record.variants.len() {
            0..MOST_MEMBERS => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    });
}

/// A discriminant's value: without a sign where the form leaves that open.
fn number(value: Value<'_>) -> Option<i128> {
    let unsigned = value.udata_value().map(i128::from);
    unsigned.or_else(|| value.sdata_value().map(i128::from))
}

/// A member that has a place in its record: neither a static one nor a virtual base class, whose place varies.
fn member(die: &Die<'_, '_>) -> Option<Member> {
    if die.flag(gimli::DW_AT_external) || die.flag(gimli::DW_AT_declaration) {
        return None;
    }
    let ty = die.target(gimli::DW_AT_type)?;
    let stated = match die.value(gimli::DW_AT_data_member_location) {
        None => 0,
        Some(AttributeValue::Exprloc(expression)) => {
            let mut operations = expression.operations(die.unit.encoding());
            match (operations.next(), operations.next()) {
                (Ok(Some(Operation::PlusConstant { value })), Ok(None)) => value,
                _ => return None,
            }
        }
        Some(value) => value.udata_value()?,
    };
    let (offset, bits) = match die.number(gimli::DW_AT_bit_size) {
        None => (stated, None),
        Some(bits) => bit_field(die, stated, bits, ty)?,
    };
    Some(Member {
        name: die.name().map(|name| name.into_owned()),
        ty,
        offset,
        bits,
        align: die.number(gimli::DW_AT_alignment),
        base_class: die.tag() == gimli::DW_TAG_inheritance,
        discriminant: false,
    })
}

/// Offset of the unit that stores a bit field, and its bits from the start of the record.
fn bit_field(
    die: &Die<'_, '_>,
    stated: u64,
    bits: u64,
    ty: DieId,
) -> Option<(u64, Option<(u64, u64)>)> {
    let unit_size = die
        .number(gimli::DW_AT_byte_size)
        .or_else(|| base_size(die.units, ty))?
        .max(1);
    let first = match (
        die.number(gimli::DW_AT_data_bit_offset),
        die.number(gimli::DW_AT_bit_offset),
    ) {
        (Some(first), _) => first.checked_add(stated.checked_mul(8)?)?,
        // The old form counts from the most significant bit of the storage unit.
        (None, Some(from_top)) => stated
            .checked_add(unit_size)?
            .checked_mul(8)?
            .checked_sub(from_top.checked_add(bits)?)?,
        (None, None) => stated.checked_mul(8)?,
    };
    let unit_at = first / 8 / unit_size * unit_size;
    Some((unit_at, Some((first, bits))))
}

fn base_size(units: &Units<'_>, ty: DieId) -> Option<u64> {
    let mut at = ty;
    for _ in 0..MOST_STEPS {
        let die = units.die(at)?;
        if let Some(size) = die.number(gimli::DW_AT_byte_size) {
            return Some(size);
        }
        at = die.target(gimli::DW_AT_type)?;
    }
    None
}
