//! From what people call a place to its offset: `clients[2].flags` in the type of `server`.

use super::types::Shape;
use super::units::DieId;
use super::{DebugInfo, TypeId};

/// Some bytes in a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Where they start.
    pub offset: u64,
    /// How many there are; `None` if the type does not tell.
    pub size: Option<u64>,
    /// What they are.
    pub ty: TypeId,
}

/// How deep fields are looked for in the types of a standard library, whose own names nobody writes.
const DEEPEST: usize = 12;

impl DebugInfo<'_> {
    /// The place that a path leads to from the start of a type: fields and indices, as [`super::FieldPath`] shows them.
    #[must_use]
    pub fn place_of(&self, ty: TypeId, path: &str) -> Option<Place> {
        let mut at = Place {
            offset: 0,
            size: self.size_of(ty.0),
            ty,
        };
        let mut rest = path;
        while !rest.is_empty() {
            at = if let Some(tail) = rest.strip_prefix('[') {
                let (index, tail) = tail.split_once(']')?;
                rest = tail;
                self.element(at, index.trim().parse().ok()?)?
            } else {
                let field = rest.strip_prefix('.').unwrap_or(rest);
                let end = field.find(['.', '[']).unwrap_or(field.len());
                let (name, tail) = field.split_at(end);
                rest = tail;
                self.field(at, name, DEEPEST)?
            };
        }
        Some(at)
    }

    fn element(&self, at: Place, index: u64) -> Option<Place> {
        let ty = self.ty(self.bare(at.ty.0)?)?;
        let Shape::Array {
            element,
            dimensions,
        } = &ty.shape
        else {
            // The array in a `std::array` or a vector of a standard library.
            return self
                .only_member(at)
                .and_then(|inner| self.element(inner, index));
        };
        if dimensions.len() > 1 {
            return None;
        }
        let size = self.size_of(*element)?;
        let inside = dimensions.first()?.is_none_or(|count| index < count);
        inside.then_some(())?;
        Some(Place {
            offset: at.offset.checked_add(index.checked_mul(size)?)?,
            size: Some(size),
            ty: TypeId(*element),
        })
    }

    fn only_member(&self, at: Place) -> Option<Place> {
        let ty = self.ty(self.bare(at.ty.0)?)?;
        let Shape::Record(record) = &ty.shape else {
            return None;
        };
        match record.members.as_slice() {
            [only] => self.inside(at, only.offset, only.ty),
            _ => None,
        }
    }

    fn inside(&self, at: Place, offset: u64, ty: DieId) -> Option<Place> {
        Some(Place {
            offset: at.offset.checked_add(offset)?,
            size: self.size_of(ty),
            ty: TypeId(ty),
        })
    }

    /// A field by its name; one of an anonymous member, a base, a variant or a type of a standard library as if it were
    /// the type's own.
    fn field(&self, at: Place, name: &str, depth: usize) -> Option<Place> {
        let depth = depth.checked_sub(1)?;
        let id = self.bare(at.ty.0)?;
        let ty = self.ty(id)?;
        let Shape::Record(record) = &ty.shape else {
            return None;
        };
        let tuple = format!("__{name}");
        let named = record.all_members().find(|member| {
            member
                .name
                .as_deref()
                .is_some_and(|n| n == name || n == tuple)
        });
        if let Some(member) = named {
            return self.inside(at, member.offset, member.ty);
        }
        let transparent = self.is_standard(id, &ty);
        record
            .all_members()
            .filter(|member| transparent || member.base_class || member.name.is_none())
            .find_map(|member| {
                let inner = self.inside(at, member.offset, member.ty)?;
                self.field(inner, name, depth)
            })
    }
}
