//! Which structures of the program have given members at given distances.
//!
//! Where an instruction only has a pointer to a field, the types of two fields and their distance often fit one
//! structure only.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

use super::types::Shape;
use super::units::DieId;
use super::{DebugInfo, TypeId};

/// A structure that has all members looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aggregate {
    /// Its type.
    pub ty: TypeId,
    /// Where the first member looked for is in it.
    pub base_offset: u64,
    /// Its size in bytes.
    pub size: u64,
}

/// A type by name and size: one type has an entry in each unit that uses it.
type Key = u64;

/// Where types are members.
#[derive(Debug, Default)]
pub(super) struct Placements(FxHashMap<Key, Vec<Placement>>);

#[derive(Debug, Clone, Copy)]
struct Placement {
    record: DieId,
    offset: u64,
    /// In an array: number and size of elements.
    count: u64,
    stride: u64,
}

/// How many elements of an array are tried as the place of a member.
const MOST_ELEMENTS: u64 = 64;
/// How many places are tried in all.
const MOST_TRIED: usize = 20_000;
/// How many records deep a member is looked for.
const DEEPEST: usize = 12;

impl DebugInfo<'_> {
    /// The structures that contain members of all these types, nested ones included, at these offsets from the first;
    /// the smallest first. Structures around one that fits are not listed: one result means that it is unique.
    #[must_use]
    pub fn aggregates_with(&self, members: &[(u64, TypeId)]) -> Vec<Aggregate> {
        let Some(&(first, ty)) = members.first() else {
            return Vec::new();
        };
        let others: Option<Vec<(i128, Key)>> = members[1..]
            .iter()
            .map(|&(at, ty)| Some((i128::from(at) - i128::from(first), self.key(ty.0, 0)?)))
            .collect();
        let (Some(key), Some(others)) = (self.key(ty.0, 0), others) else {
            return Vec::new();
        };
        let placements = self.placements.get_or_init(|| self.all_placements());
        let mut found: Vec<(Key, Aggregate)> = Vec::new();
        let mut tried = FxHashSet::default();
        let mut queue: VecDeque<(Key, u64)> = VecDeque::from([(key, 0)]);
        while let Some((key, inner)) = queue.pop_front() {
            for placement in placements.0.get(&key).into_iter().flatten() {
                for number in 0..placement.count.min(MOST_ELEMENTS) {
                    let Some(base) = placement.at(number, inner) else {
                        break;
                    };
                    let Some(outer) = self.key(placement.record, 0) else {
                        break;
                    };
                    if tried.len() > MOST_TRIED || !tried.insert((outer, base)) {
                        continue;
                    }
                    if others
                        .iter()
                        .all(|&(distance, key)| self.has(placement.record, base, distance, key))
                    {
                        let size = self.size_of(placement.record).unwrap_or(0);
                        found.push((
                            outer,
                            Aggregate {
                                ty: TypeId(placement.record),
                                base_offset: base,
                                size,
                            },
                        ));
                    } else {
                        queue.push_back((outer, base));
                    }
                }
            }
        }
        found.sort_by_key(|(_, a)| (a.size, a.base_offset, a.ty));
        found.into_iter().map(|(_, aggregate)| aggregate).collect()
    }

    fn has(&self, record: DieId, base: u64, distance: i128, key: Key) -> bool {
        u64::try_from(i128::from(base) + distance)
            .is_ok_and(|at| self.has_member(record, at, key, DEEPEST))
    }

    /// Whether a component of this type starts at an offset.
    fn has_member(&self, id: DieId, offset: u64, key: Key, depth: usize) -> bool {
        let Some(id) = self.bare(id).filter(|_| depth > 0) else {
            return false;
        };
        if offset == 0 && self.key(id, 0) == Some(key) {
            return true;
        }
        let Some(ty) = self.ty(id) else {
            return false;
        };
        match &ty.shape {
            Shape::Record(record) => record.all_members().any(|member| {
                offset.checked_sub(member.offset).is_some_and(|inside| {
                    self.size_of(member.ty).is_some_and(|size| inside < size)
                        && self.has_member(member.ty, inside, key, depth - 1)
                })
            }),
            Shape::Array { element, .. } => self
                .size_of(*element)
                .and_then(|size| offset.checked_rem(size))
                .is_some_and(|inside| self.has_member(*element, inside, key, depth - 1)),
            _ => false,
        }
    }

    fn all_placements(&self) -> Placements {
        let mut placements = Placements::default();
        for &record in &self.index().records {
            let Some(ty) = self.ty(record) else { continue };
            let Shape::Record(shape) = &ty.shape else {
                continue;
            };
            for member in shape.all_members().filter(|member| member.bits.is_none()) {
                placements.add(self, record, member.offset, member.ty);
            }
        }
        placements
    }

    fn key(&self, id: DieId, depth: usize) -> Option<Key> {
        let id = self.bare(id)?;
        let ty = self.ty(id).filter(|_| depth < 4)?;
        let mut hasher = FxHasher::default();
        self.size_of(id).hash(&mut hasher);
        match (&ty.name, &ty.shape) {
            (Some(name), _) => name.hash(&mut hasher),
            (None, Shape::Pointer(target)) => {
                ("*", target.and_then(|target| self.key(target, depth + 1))).hash(&mut hasher);
            }
            (None, Shape::Array { element, .. }) => {
                ("[]", self.key(*element, depth + 1)?).hash(&mut hasher);
            }
            _ => id.hash(&mut hasher),
        }
        Some(hasher.finish())
    }
}

impl Placement {
    /// Where something at `inner` in element `number` of the member is in the record.
    fn at(&self, number: u64, inner: u64) -> Option<u64> {
        self.offset
            .checked_add(number.checked_mul(self.stride)?)?
            .checked_add(inner)
    }
}

impl Placements {
    fn add(&mut self, debug: &DebugInfo<'_>, record: DieId, offset: u64, member: DieId) {
        let mut put = |ty: DieId, count: u64, stride: u64| {
            let Some(key) = debug.key(ty, 0) else { return };
            self.0.entry(key).or_default().push(Placement {
                record,
                offset,
                count,
                stride,
            });
        };
        put(member, 1, 0);
        let Some(ty) = debug.bare(member).and_then(|bare| debug.ty(bare)) else {
            return;
        };
        if let Shape::Array {
            element,
            dimensions,
        } = &ty.shape
        {
            let count = dimensions.iter().try_fold(1, |all: u64, count| {
                all.checked_mul((*count).unwrap_or(MOST_ELEMENTS))
            });
            if let (Some(count), Some(stride)) = (count, debug.size_of(*element)) {
                put(*element, count, stride);
            }
        }
    }
}
