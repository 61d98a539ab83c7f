//! How a type is laid out: every member with its place, as the compiler really chose it.
//!
//! Padding and lines are not looked at here: they follow from these places, for any line size.

use hitm_model::SourceLine;

use super::names;
use super::types::{Member, Record, Shape, Type};
use super::units::{Die, DieId, Language};
use super::{DebugInfo, TypeId};

/// A type and where everything in it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TypeLayout {
    /// Its name with namespaces and what it is generic over.
    pub name: String,
    /// What it is.
    pub kind: TypeKind,
    /// Its size in bytes.
    pub size: u64,
    /// Its alignment in bytes: as stated, else as its members ask for.
    pub align: u64,
    /// Whether the source states the alignment.
    pub align_stated: bool,
    /// Where it is declared.
    pub declared: Option<SourceLine>,
    /// Its members by offset, bases and the discriminant among them.
    pub members: Vec<LayoutMember>,
    /// Of an enumeration with data: the variants, which share their bytes.
    pub variants: Vec<LayoutVariant>,
}

/// What a type is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TypeKind {
    /// A structure.
    Struct,
    /// A class of C++.
    Class,
    /// A union.
    Union,
    /// An enumeration, with data or without.
    Enum,
    /// An array.
    Array,
    /// A number, a pointer and the like.
    Scalar,
}

/// One member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LayoutMember {
    /// Its name; `None` for an anonymous one.
    pub name: Option<String>,
    /// Its type's name.
    pub type_name: String,
    /// Its type.
    pub ty: TypeId,
    /// Bytes from the start of the type.
    pub offset: u64,
    /// Its size in bytes; `None` for an array of any length at the end.
    pub size: Option<u64>,
    /// Of a bit field, its bits.
    pub bits: Option<BitRange>,
    /// What it is to the type.
    pub role: MemberRole,
}

/// Bits of a type, counted from its first byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BitRange {
    /// The first one.
    pub first: u64,
    /// How many.
    pub count: u64,
}

/// What a member is to its type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberRole {
    /// A field.
    Field,
    /// A base class.
    Base,
    /// The number that tells which variant of an enumeration it is.
    Discriminant,
    /// That number, kept in bytes of a variant which cannot have these values otherwise.
    Niche,
}

/// One variant of an enumeration with data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LayoutVariant {
    /// Its name.
    pub name: String,
    /// The discriminant that means it; `None` for the one that all other values mean.
    pub value: Option<i128>,
    /// Its fields, by offset from the start of the enumeration.
    pub members: Vec<LayoutMember>,
}

impl LayoutMember {
    /// The bytes that it takes: first one inside, first one behind. Of a bit field those that its bits are in.
    #[must_use]
    pub fn bytes(&self) -> (u64, u64) {
        match self.bits {
            Some(bits) => {
                let end = bits.first.saturating_add(bits.count).div_ceil(8);
                (bits.first / 8, end)
            }
            None => (
                self.offset,
                self.offset.saturating_add(self.size.unwrap_or(0)),
            ),
        }
    }
}

/// How deep alignments are looked for.
const DEEPEST: usize = 24;

impl<'i> DebugInfo<'i> {
    /// How a type is laid out; `None` for one without a size, as `void` or an incomplete type.
    #[must_use]
    pub fn layout(&self, ty: TypeId) -> Option<TypeLayout> {
        let id = self.bare(ty.0)?;
        let die = self.units.die(id)?;
        let named = die.name().is_some() || ty.0 == id;
        let path = match named {
            true => self.qualified(&die),
            false => self.qualified(&self.units.die(ty.0)?),
        };
        self.layout_called(ty, &path)
    }

    /// As [`DebugInfo::layout`], where the name with its namespaces is known.
    #[must_use]
    pub fn layout_called(&self, ty: TypeId, path: &str) -> Option<TypeLayout> {
        let size = self.size_of(ty.0)?;
        let id = self.bare(ty.0)?;
        let (die, ty) = (self.units.die(id)?, self.ty(id)?);
        let stated = die.number(gimli::DW_AT_alignment);
        let (mut members, mut variants) = (Vec::new(), Vec::new());
        if let Shape::Record(record) = &ty.shape {
            members = record.members.iter().map(|m| self.member(m, 0)).collect();
            variants = self.variants(record);
            mark_niche(&mut members, &variants);
            sort(&mut members);
        }
        let (name, array) = match &ty.shape {
            Shape::Array { .. } => (self.name_of(Some(id), 0), true),
            _ => (readable(path, ty.language), false),
        };
        Some(TypeLayout {
            name,
            kind: if array {
                TypeKind::Array
            } else {
                kind(&die, &variants)
            },
            size,
            align: self.align_of(id, 0),
            align_stated: stated.is_some(),
            declared: self.declared(&die),
            members,
            variants,
        })
    }

    /// The alignment of a type in bytes: as stated, else as its members ask for.
    #[must_use]
    pub fn type_align(&self, ty: TypeId) -> u64 {
        self.align_of(ty.0, 0)
    }

    fn member(&self, member: &Member, base: u64) -> LayoutMember {
        let size = self.size_of(member.ty);
        LayoutMember {
            name: member.name.as_deref().map(plain_name),
            type_name: self.name_of(Some(member.ty), 0),
            ty: TypeId(member.ty),
            offset: base.saturating_add(member.offset),
            size,
            bits: member.bits.map(|(first, count)| BitRange {
                first: base.saturating_mul(8).saturating_add(first),
                count,
            }),
            role: match (member.base_class, member.discriminant) {
                (true, _) => MemberRole::Base,
                (_, true) => MemberRole::Discriminant,
                _ => MemberRole::Field,
            },
        }
    }

    fn variants(&self, record: &Record) -> Vec<LayoutVariant> {
        let payload = |member: &Member| {
            let ty = self.ty(self.bare(member.ty)?)?;
            match &ty.shape {
                Shape::Record(fields) => Some((ty.name.clone(), fields.clone())),
                _ => None,
            }
        };
        let variant = |variant: &super::types::Variant| {
            let mut members = Vec::new();
            let mut name = None;
            for member in &variant.members {
                match payload(member) {
                    Some((type_name, fields)) => {
                        name = name.or(member.name.clone()).or(type_name);
                        let fields = fields.members.iter();
                        members.extend(fields.map(|field| self.member(field, member.offset)));
                    }
                    None => members.push(self.member(member, 0)),
                }
            }
            sort(&mut members);
            LayoutVariant {
                name: name.unwrap_or_else(|| "?".to_owned()),
                value: variant.value,
                members,
            }
        };
        record.variants.iter().map(variant).collect()
    }

    /// The alignment of a type in bytes: as stated, else as follows from what it is made of.
    pub(super) fn align_of(&self, id: DieId, depth: usize) -> u64 {
        let Some(ty) = self.ty(id).filter(|_| depth < DEEPEST) else {
            return 1;
        };
        let stated = || {
            let die = self.units.die(id)?;
            let align = die.number(gimli::DW_AT_alignment)?;
            align.is_power_of_two().then_some(align)
        };
        match &ty.shape {
            Shape::Alias(_, None) => 1,
            Shape::Alias(_, Some(target)) => {
                stated().unwrap_or_else(|| self.align_of(*target, depth + 1))
            }
            Shape::Pointer(_) => 8,
            Shape::Array { element, .. } => {
                stated().unwrap_or_else(|| self.align_of(*element, depth + 1))
            }
            Shape::Scalar => match ty.size {
                Some(size @ 1..=16) => size.next_power_of_two(),
                Some(_) => 16,
                None => 1,
            },
            Shape::Record(record) => {
                stated().unwrap_or_else(|| self.natural(record, &ty, depth + 1))
            }
        }
    }

    /// The largest alignment of a member, less where the places of the members show that the record is packed.
    fn natural(&self, record: &Record, ty: &Type, depth: usize) -> u64 {
        let mut align = 1;
        let mut shown = ty.size.unwrap_or(0);
        for member in record.all_members() {
            let wanted = member
                .align
                .filter(|align| align.is_power_of_two())
                .unwrap_or_else(|| self.align_of(member.ty, depth));
            align = align.max(wanted);
            if member.offset % wanted != 0 {
                shown |= member.offset;
            }
        }
        match shown {
            0 => align,
            _ => align.min(1 << shown.trailing_zeros().min(32)),
        }
    }
}

/// A discriminant in bytes that a variant uses too is a niche.
fn mark_niche(members: &mut [LayoutMember], variants: &[LayoutVariant]) {
    for member in members {
        let (start, end) = member.bytes();
        let shared = variants
            .iter()
            .flat_map(|variant| &variant.members)
            .any(|other| other.bytes().0 < end && start < other.bytes().1);
        if member.role == MemberRole::Discriminant && shared {
            member.role = MemberRole::Niche;
        }
    }
}

fn sort(members: &mut [LayoutMember]) {
    members.sort_by_key(|member| {
        (
            member
                .bits
                .map_or(member.offset.saturating_mul(8), |bits| bits.first),
            member.size,
        )
    });
}

fn kind(die: &Die<'_, '_>, variants: &[LayoutVariant]) -> TypeKind {
    match die.tag() {
        gimli::DW_TAG_enumeration_type => TypeKind::Enum,
        _ if !variants.is_empty() => TypeKind::Enum,
        gimli::DW_TAG_class_type => TypeKind::Class,
        gimli::DW_TAG_union_type => TypeKind::Union,
        gimli::DW_TAG_structure_type | gimli::DW_TAG_interface_type => TypeKind::Struct,
        _ => TypeKind::Scalar,
    }
}

/// A name with its namespaces, without default arguments.
pub(super) fn readable(path: &str, language: Language) -> String {
    match language {
        Language::Rust => path.replace(", alloc::alloc::Global", ""),
        Language::Cpp => names::cpp_type(path),
        Language::Other => path.to_owned(),
    }
}

/// Rust's compiler calls the fields of tuples `__0`, `__1`.
fn plain_name(name: &str) -> String {
    match name.strip_prefix("__") {
        Some(number) if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) => {
            number.to_owned()
        }
        _ => name.to_owned(),
    }
}
