//! Types as the analysis needs them: what they are made of, how large they are, what they are called.

use std::cell::OnceCell;
use std::rc::Rc;

use gimli::DwTag;

use hitm_model::SourceLine;

use super::index::hash;
use super::members::{dimensions, record};
use super::names;
use super::units::{Die, DieId, Language, MOST_STEPS};
use super::{DebugInfo, TypeId};

/// One type, read from its entry.
#[derive(Debug, Clone)]
pub(super) struct Type {
    /// The name in the source, without namespaces.
    pub(super) name: Option<String>,
    pub(super) size: Option<u64>,
    pub(super) shape: Shape,
    /// Whether it belongs to the standard library of its language, once somebody asked.
    standard: OnceCell<bool>,
    pub(super) language: Language,
}

#[derive(Debug, Clone)]
pub(super) enum Shape {
    /// A number, a character, an enumeration without data, a function.
    Scalar,
    /// A pointer or reference; `None` to `void`.
    Pointer(Option<DieId>),
    /// Dimensions outermost first, `None` where the count is not known.
    Array {
        element: DieId,
        dimensions: Vec<Option<u64>>,
    },
    Record(Rc<Record>),
    /// Another name for a type, or the type qualified (`const`, `volatile`, `_Atomic`); `None` is `void`.
    Alias(DwTag, Option<DieId>),
}

/// A structure, class, union or an enumeration with data.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) members: Vec<Member>,
    pub(super) variants: Vec<Variant>,
    /// Types that it is generic over.
    pub(super) parameters: Vec<DieId>,
    pub(super) union: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) name: Option<String>,
    pub(super) ty: DieId,
    /// In bytes; for a bit field, of the unit that stores it.
    pub(super) offset: u64,
    /// First bit, from the start of the record, and number of bits.
    pub(super) bits: Option<(u64, u64)>,
    /// The alignment that the source asks for, in bytes.
    pub(super) align: Option<u64>,
    pub(super) base_class: bool,
    /// The number that tells which variant of an enumeration it is.
    pub(super) discriminant: bool,
}

#[derive(Debug)]
pub(super) struct Variant {
    pub(super) members: Vec<Member>,
    /// The discriminant that means it; `None` for the one that all other values mean.
    pub(super) value: Option<i128>,
}

impl<'i> DebugInfo<'i> {
    /// The type's name as people write it.
    ///
    /// Modules of Rust's standard library are left out (`AtomicU64`), other modules too where the name means one type
    /// only.
    #[must_use]
    pub fn type_name(&self, ty: TypeId) -> String {
        self.name_of(Some(ty.0), 0)
    }

    /// The type's size in bytes, if it has one.
    #[must_use]
    pub fn type_size(&self, ty: TypeId) -> Option<u64> {
        self.size_of(ty.0)
    }

    /// What a pointer or reference points to.
    #[must_use]
    pub fn pointee(&self, ty: TypeId) -> Option<TypeId> {
        match self.ty(self.bare(ty.0)?)?.shape {
            Shape::Pointer(target) => target.map(TypeId),
            _ => None,
        }
    }

    /// Whether it is a number, a character or an enumeration without data, which says nothing about what it is part of.
    #[must_use]
    pub fn is_base_type(&self, ty: TypeId) -> bool {
        let bare = self.bare(ty.0).and_then(|bare| self.ty(bare));
        bare.is_some_and(|ty| matches!(ty.shape, Shape::Scalar))
    }

    /// Where the type is declared.
    #[must_use]
    pub fn declaration(&self, ty: TypeId) -> Option<SourceLine> {
        let die = self.units.die(self.bare(ty.0)?)?;
        self.declared(&die)
    }

    /// The type behind an entry, read once.
    pub(super) fn ty(&self, id: DieId) -> Option<Rc<Type>> {
        if let Some(known) = self.types.borrow().get(&id) {
            return known.clone();
        }
        let read = self.units.die(id).and_then(|die| self.read(&die));
        let read = read.map(Rc::new);
        self.types.borrow_mut().insert(id, read.clone());
        read
    }

    /// The type without other names and qualifiers, completed where it is only declared; `None` for `void`.
    pub(super) fn bare(&self, id: DieId) -> Option<DieId> {
        let mut at = id;
        for _ in 0..MOST_STEPS {
            match self.ty(at)?.shape {
                Shape::Alias(_, Some(target)) => at = target,
                Shape::Alias(_, None) => return None,
                _ => return Some(at),
            }
        }
        None
    }

    pub(super) fn size_of(&self, id: DieId) -> Option<u64> {
        let mut at = id;
        let mut factor: u64 = 1;
        for _ in 0..MOST_STEPS {
            let ty = self.ty(at)?;
            match (&ty.shape, ty.size) {
                // An atomic structure may be larger than what it is made of.
                (_, Some(size)) => return size.checked_mul(factor),
                (Shape::Alias(_, target), None) => at = (*target)?,
                (
                    Shape::Array {
                        element,
                        dimensions,
                    },
                    None,
                ) => {
                    for count in dimensions {
                        factor = factor.checked_mul((*count)?)?;
                    }
                    at = *element;
                }
                (Shape::Pointer(_), None) => return factor.checked_mul(8),
                _ => return None,
            }
        }
        None
    }

    fn read(&self, die: &Die<'_, 'i>) -> Option<Type> {
        let tag = die.tag();
        let inner = die.target(gimli::DW_AT_type);
        let language = self.units.language(die.number);
        let shape = match tag {
            gimli::DW_TAG_typedef
            | gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_restrict_type
            | gimli::DW_TAG_atomic_type
            | gimli::DW_TAG_packed_type
            | gimli::DW_TAG_immutable_type
            | gimli::DW_TAG_shared_type => Shape::Alias(tag, inner),
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => Shape::Pointer(inner),
            gimli::DW_TAG_array_type => Shape::Array {
                element: inner?,
                dimensions: dimensions(die),
            },
            gimli::DW_TAG_structure_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_interface_type => {
                if let Some(complete) = self.completed(die) {
                    Shape::Alias(gimli::DW_TAG_typedef, Some(complete))
                } else {
                    Shape::Record(Rc::new(record(die)))
                }
            }
            gimli::DW_TAG_base_type
            | gimli::DW_TAG_enumeration_type
            | gimli::DW_TAG_unspecified_type
            | gimli::DW_TAG_subroutine_type
            | gimli::DW_TAG_ptr_to_member_type => Shape::Scalar,
            _ => return None,
        };
        let size = die.number(gimli::DW_AT_byte_size);
        Some(Type {
            name: die.name().map(|name| name.into_owned()),
            size: size.or_else(|| Some(die.number(gimli::DW_AT_bit_size)?.div_ceil(8))),
            shape,
            standard: OnceCell::new(),
            language,
        })
    }

    /// The definition that a mere declaration stands for: by the signature of its type unit, or by its name.
    fn completed(&self, die: &Die<'_, 'i>) -> Option<DieId> {
        if let Some(by_signature) = die.target(gimli::DW_AT_signature) {
            return (by_signature != die.id()).then_some(by_signature);
        }
        if !die.flag(gimli::DW_AT_declaration) || self.local {
            return None;
        }
        let path = self.qualified(die);
        let complete = *self.index().definitions.get(&hash(&path))?;
        (complete != die.id()).then_some(complete)
    }

    /// Whether a type is an implementation detail of a standard library, or made of nothing else.
    pub(super) fn is_standard(&self, id: DieId, ty: &Type) -> bool {
        *ty.standard.get_or_init(|| {
            if ty.language != Language::Rust && is_reserved(ty) {
                return true;
            }
            let path = self.units.die(id).map(|die| self.scope_path(&die));
            let path = path.unwrap_or_default();
            let root = path.split("::").next().unwrap_or_default();
            match ty.language {
                Language::Rust => matches!(root, "core" | "alloc" | "std"),
                Language::Cpp => matches!(root, "std" | "__gnu_cxx" | "__cxxabiv1"),
                Language::Other => false,
            }
        })
    }

    pub(super) fn name_of(&self, id: Option<DieId>, depth: usize) -> String {
        let Some(id) = id else {
            return "void".to_owned();
        };
        let Some(ty) = self.ty(id).filter(|_| depth < 16) else {
            return "?".to_owned();
        };
        let inner = |id: Option<DieId>| self.name_of(id, depth + 1);
        match (&ty.shape, &ty.name) {
            (Shape::Alias(tag, target), name) => match (*tag, name) {
                (gimli::DW_TAG_typedef, Some(name)) => name.clone(),
                (gimli::DW_TAG_const_type, _) => qualified("const ", inner(*target)),
                (gimli::DW_TAG_volatile_type, _) => qualified("volatile ", inner(*target)),
                (gimli::DW_TAG_atomic_type, _) => qualified("_Atomic ", inner(*target)),
                _ => inner(*target),
            },
            (Shape::Pointer(_), Some(name)) => self.readable(name, ty.language),
            (Shape::Pointer(target), None) => {
                let reference = self
                    .units
                    .die(id)
                    .is_some_and(|die| die.tag() != gimli::DW_TAG_pointer_type);
                let mark = if reference { '&' } else { '*' };
                format!("{} {mark}", inner(*target)).replace("* *", "**")
            }
            (
                Shape::Array {
                    element,
                    dimensions,
                },
                _,
            ) => array_name(
                &inner(Some(*element)),
                dimensions,
                ty.language == Language::Rust,
            ),
            (Shape::Record(record), None) => {
                let what = if record.union { "union" } else { "struct" };
                format!("(anonymous {what})")
            }
            (Shape::Record(_), Some(name)) => {
                let path = self
                    .units
                    .die(id)
                    .map_or_else(|| name.clone(), |die| self.qualified(&die));
                match self.enumeration_of(id, &ty) {
                    Some(outer) => format!("{}::{name}", inner(Some(outer))),
                    None => self.record_name(id, &ty, name, &path),
                }
            }
            (Shape::Scalar, Some(name)) => self.readable(name, ty.language),
            (Shape::Scalar, None) => "(function)".to_owned(),
        }
    }

    /// The enumeration that a type is a variant of.
    fn enumeration_of(&self, id: DieId, ty: &Type) -> Option<DieId> {
        let number = self.units.number_of(id)?;
        let offset = self.units.offset_in(number, id)?;
        let scope = self.units.outline(number)?.scope_of(offset)?;
        (ty.language == Language::Rust && scope.tag == gimli::DW_TAG_structure_type)
            .then(|| self.units.id(number, scope.offset))
    }

    fn record_name(&self, id: DieId, ty: &Type, name: &str, path: &str) -> String {
        match ty.language {
            Language::Rust if self.local => self.readable(name, ty.language),
            Language::Rust if self.is_standard(id, ty) => self.readable(name, ty.language),
            // A variant or a closure says nothing without what it is of.
            Language::Rust if !name.starts_with('{') && self.index().is_unambiguous(path, name) => {
                self.readable(name, ty.language)
            }
            _ => self.readable(path, ty.language),
        }
    }

    fn readable(&self, name: &str, language: Language) -> String {
        match language {
            Language::Rust => names::rust_type(name),
            Language::Cpp => names::cpp_type(name),
            Language::Other => name.to_owned(),
        }
    }
}

/// Whether all fields have names that C reserves for its implementation, as those of `pthread_mutex_t` have.
fn is_reserved(ty: &Type) -> bool {
    let Shape::Record(record) = &ty.shape else {
        return false;
    };
    let reserved = |member: &Member| member.name.as_ref().is_some_and(|n| n.starts_with("__"));
    !record.members.is_empty() && record.members.iter().all(reserved)
}

/// A type with a qualifier; of an array the elements have it as well, and it is said once.
fn qualified(qualifier: &str, name: String) -> String {
    if name.starts_with(qualifier) {
        name
    } else {
        format!("{qualifier}{name}")
    }
}

fn array_name(element: &str, dimensions: &[Option<u64>], rust: bool) -> String {
    let count = |count: &Option<u64>| count.map_or_else(String::new, |count| count.to_string());
    if rust {
        dimensions.iter().rev().fold(element.to_owned(), |name, n| {
            format!("[{name}; {}]", count(n))
        })
    } else {
        let counts: String = dimensions
            .iter()
            .map(|n| format!("[{}]", count(n)))
            .collect();
        format!("{element}{counts}")
    }
}
