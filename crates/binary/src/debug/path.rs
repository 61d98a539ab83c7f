//! From an offset in a variable to what people call that place: `.stat_io_reads_processed[1]`.

use std::fmt::Write;
use std::rc::Rc;

use super::types::{Member, Record, Shape, Type};
use super::units::{DieId, Language, MOST_STEPS};
use super::{DebugInfo, TypeId};

/// The place of some bytes in a type.
///
/// How a standard library implements its types is no part of a path: an `AtomicU64`, a `Mutex` or a `std::atomic` is
/// one place, and what it is generic over goes on behind it (`db.mutex.hits` for a `Mutex<Db>`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldPath {
    /// Fields and indices: `.clients[2].flags`, `[3].hits`; empty for the whole.
    pub path: String,
    /// The type of the last component.
    pub leaf_type: String,
    /// Where the last component starts.
    pub leaf_offset: u64,
    /// Its size in bytes, 0 if not known.
    pub leaf_size: u64,
    /// The arrays on the way, outermost first.
    pub arrays: Vec<ArrayStep>,
    /// The innermost structure of the program's own that holds the place.
    pub container: Option<Container>,
}

/// An array on a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArrayStep {
    /// Size of one element in bytes.
    pub element_size: u64,
    /// Number of elements, if the type tells.
    pub count: Option<u64>,
    /// Which one.
    pub index: u64,
}

/// A structure on a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Container {
    /// Its type.
    pub ty: TypeId,
    /// Its type's name.
    pub name: String,
    /// Where it starts.
    pub offset: u64,
    /// Its size in bytes, 0 if not known.
    pub size: u64,
}

/// Types with names of the standard library whose fields people know by name.
const SHOWN: [&str; 3] = ["ArcInner<", "RcInner<", "RcBox<"];

/// How many places a search through nested unions looks at.
const MOST_PLACES: u32 = 4096;

impl DebugInfo<'_> {
    /// The place of `size` bytes at `offset` in a type: the smallest component that holds all of them.
    #[must_use]
    pub fn field_path(&self, ty: TypeId, offset: u64, size: u64) -> FieldPath {
        let mut walk = Walk {
            debug: self,
            offset,
            size: size.max(1),
            at: Some(ty.0),
            base: 0,
            hidden: None,
            leaf: (ty.0, 0, None),
            path: String::new(),
            arrays: Vec::new(),
            container: None,
        };
        for _ in 0..MOST_STEPS {
            if walk.step().is_none() {
                break;
            }
        }
        walk.finish()
    }

    /// What the pointer at an offset in a type points to, if there is a pointer just there: what a register points to
    /// that was loaded from there. An `Arc<T>` holds a pointer to `ArcInner<T>` at offset 0.
    #[must_use]
    pub fn pointer_stored_at(&self, ty: TypeId, offset: u64) -> Option<TypeId> {
        self.pointer_in(ty.0, offset).map(TypeId)
    }

    /// Whether two entries describe one type: types are repeated in each unit.
    fn same_type(&self, a: DieId, b: DieId) -> bool {
        if a == b {
            return true;
        }
        let (Some(a), Some(b)) = (self.ty(a), self.ty(b)) else {
            return false;
        };
        a.name.is_some() && a.name == b.name && a.size == b.size
    }

    /// The scalar at an offset, if a wanted one of this size starts there.
    fn scalar_at(
        &self,
        id: DieId,
        offset: u64,
        size: u64,
        wanted: fn(&Shape) -> bool,
        budget: &mut u32,
    ) -> Option<DieId> {
        *budget = budget.checked_sub(1)?;
        let id = self.bare(id)?;
        let ty = self.ty(id)?;
        match &ty.shape {
            Shape::Record(record) => record
                .all_members()
                .filter(|member| member.bits.is_none())
                .find_map(|member| {
                    let inside = offset.checked_sub(member.offset)?;
                    let end = self.size_of(member.ty)?;
                    (inside < end)
                        .then(|| self.scalar_at(member.ty, inside, size, wanted, budget))?
                }),
            Shape::Array { element, .. } => {
                let inside = offset.checked_rem(self.size_of(*element)?)?;
                self.scalar_at(*element, inside, size, wanted, budget)
            }
            shape => (offset == 0 && self.size_of(id) == Some(size) && wanted(shape)).then_some(id),
        }
    }

    /// What the pointer that starts at an offset in a type points to.
    pub(super) fn pointer_in(&self, id: DieId, offset: u64) -> Option<DieId> {
        let scalar = self.scalar_at(id, offset, 8, is_pointer, &mut { MOST_PLACES })?;
        match self.ty(scalar)?.shape {
            Shape::Pointer(Some(target)) if self.size_of(target) == Some(1) => Some(
                self.vector_element(id, offset, DEEPEST_VECTOR)
                    .unwrap_or(target),
            ),
            Shape::Pointer(target) => target,
            _ => None,
        }
    }

    /// The element type of the Rust vector at an offset in a type: its own pointer is one to bytes.
    fn vector_element(&self, id: DieId, offset: u64, depth: usize) -> Option<DieId> {
        let ty = self.ty(self.bare(id)?)?;
        let Shape::Record(record) = &ty.shape else {
            return None;
        };
        let name = ty.name.as_deref().unwrap_or("");
        if ty.language == Language::Rust
            && (name.starts_with("Vec<") || name.starts_with("RawVec<"))
        {
            return record.parameters.first().copied();
        }
        let depth = depth.checked_sub(1)?;
        record.members.iter().find_map(|member| {
            let inside = offset.checked_sub(member.offset)?;
            let holds = inside < self.size_of(member.ty)?;
            holds.then(|| self.vector_element(member.ty, inside, depth))?
        })
    }
}

/// A vector is looked for in so many structures in each other.
const DEEPEST_VECTOR: usize = 12;

fn is_pointer(shape: &Shape) -> bool {
    matches!(shape, Shape::Pointer(_))
}

impl Record {
    /// Members of the record and of all its variants.
    pub(super) fn all_members(&self) -> impl Iterator<Item = &Member> {
        let of_variants = self.variants.iter().flat_map(|variant| &variant.members);
        self.members.iter().chain(of_variants)
    }
}

struct Walk<'a, 'i> {
    debug: &'a DebugInfo<'i>,
    offset: u64,
    size: u64,
    /// The component reached, `None` at the end of the way.
    at: Option<DieId>,
    base: u64,
    /// Inside a type of a standard library: what it is generic over.
    hidden: Option<Vec<DieId>>,
    /// The last component shown, where it starts, and its size where that is not the type's.
    leaf: (DieId, u64, Option<u64>),
    path: String,
    arrays: Vec<ArrayStep>,
    container: Option<Container>,
}

impl Walk<'_, '_> {
    fn step(&mut self) -> Option<()> {
        let id = self.debug.bare(self.at.take()?)?;
        let ty = self.debug.ty(id)?;
        self.unhide(id);
        match &ty.shape {
            Shape::Array {
                element,
                dimensions,
            } => self.array(*element, dimensions),
            Shape::Record(record) => self.record(id, &ty, record),
            _ => None,
        }
    }

    /// Comes out of the standard library where what it is generic over begins.
    fn unhide(&mut self, id: DieId) {
        let parameters = self.hidden.as_ref();
        if parameters.is_some_and(|known| known.iter().any(|&p| self.debug.same_type(p, id))) {
            self.hidden = None;
        }
    }

    fn array(&mut self, element: DieId, dimensions: &[Option<u64>]) -> Option<()> {
        let element_size = self.debug.size_of(element).filter(|&size| size > 0)?;
        if let Some(bare) = self.debug.bare(element) {
            self.unhide(bare);
        }
        let mut rest = self.offset - self.base;
        let mut steps = Vec::new();
        for (number, &count) in dimensions.iter().enumerate() {
            let mut stride = element_size;
            for &inner in &dimensions[number + 1..] {
                stride = stride.checked_mul(inner?)?;
            }
            let index = rest.checked_div(stride)?;
            if count.is_some_and(|count| index >= count) {
                return None;
            }
            rest -= index * stride;
            steps.push(ArrayStep {
                element_size: stride,
                count,
                index,
            });
        }
        let start = self.offset - rest;
        let last = steps.len().checked_sub(1)?;
        let spanned = rest.saturating_add(self.size).div_ceil(element_size);
        if self.hidden.is_none() {
            for (number, step) in steps.iter().enumerate() {
                let index = step.index;
                // Writing into a string cannot fail.
                let _ = match step.count {
                    _ if number < last || spanned <= 1 => write!(self.path, "[{index}]"),
                    Some(count) => {
                        let end = index.saturating_add(spanned).min(count);
                        write!(self.path, "[{index}..{end}]")
                    }
                    None => write!(self.path, "[{index}..{}]", index.saturating_add(spanned)),
                };
            }
            let size = (spanned > 1).then(|| spanned.saturating_mul(element_size));
            self.leaf = (element, start, size);
            self.arrays.append(&mut steps);
        }
        if spanned > 1 {
            return None;
        }
        self.at = Some(element);
        self.base = start;
        Some(())
    }

    fn record(&mut self, id: DieId, ty: &Rc<Type>, record: &Rc<Record>) -> Option<()> {
        let debug = self.debug;
        let known = |name: &String| SHOWN.iter().any(|shown| name.starts_with(shown));
        let standard = debug.is_standard(id, ty) && !ty.name.as_ref().is_some_and(known);
        if standard {
            let bare = record.parameters.iter().filter_map(|&p| debug.bare(p));
            self.hidden.get_or_insert_default().extend(bare);
        } else if self.hidden.is_none() && ty.name.is_some() {
            self.container = Some(Container {
                ty: TypeId(id),
                name: debug.name_of(Some(id), 0),
                offset: self.base,
                size: debug.size_of(id).unwrap_or(0),
            });
        }
        let inside = self.offset - self.base;
        if let Some(member) = self.member_at(record, inside) {
            return self.enter(member.clone(), ty);
        }
        self.bit_fields(record, inside);
        if record
            .members
            .iter()
            .any(|m| m.discriminant && self.holds(m, inside))
        {
            return None;
        }
        let mut possible = record.variants.iter().filter_map(|variant| {
            let member = variant.members.first()?;
            let payload = debug.bare(member.ty)?;
            let Shape::Record(fields) = &debug.ty(payload)?.shape else {
                return None;
            };
            let within = inside.checked_sub(member.offset)?;
            self.member_at(fields, within).is_some().then_some(member)
        });
        match (possible.next(), possible.next()) {
            (Some(only), None) => {
                let only = only.clone();
                drop(possible);
                self.enter(only, ty)
            }
            _ => None,
        }
    }

    /// The member that holds all bytes looked for; of a union, one with a scalar in just that place.
    fn member_at<'r>(&self, record: &'r Record, inside: u64) -> Option<&'r Member> {
        let mut holders = record.members.iter().filter(|member| {
            !member.discriminant && member.bits.is_none() && self.holds(member, inside)
        });
        let first = holders.next()?;
        let mut budget = MOST_PLACES;
        let mut exact = |member: &Member| {
            let within = inside - member.offset;
            self.debug
                .scalar_at(member.ty, within, self.size, |_| true, &mut budget)
                .is_some()
        };
        let mut all = std::iter::once(first).chain(holders);
        if record.union {
            all.find(|member| exact(member)).or(Some(first))
        } else {
            // Empty members share their place with others.
            Some(first)
        }
    }

    fn holds(&self, member: &Member, inside: u64) -> bool {
        let Some(within) = inside.checked_sub(member.offset) else {
            return false;
        };
        match self.debug.size_of(member.ty) {
            Some(size) => within.saturating_add(self.size) <= size,
            // An array of any length is the last member.
            None => self
                .debug
                .bare(member.ty)
                .and_then(|bare| self.debug.ty(bare))
                .is_some_and(|ty| matches!(ty.shape, Shape::Array { .. })),
        }
    }

    fn enter(&mut self, member: Member, of: &Type) -> Option<()> {
        self.base = self.base.checked_add(member.offset)?;
        self.at = Some(member.ty);
        if let (Some(name), false, None) = (&member.name, member.base_class, &self.hidden) {
            self.path.push('.');
            self.path.push_str(field_name(name, of.language));
            self.leaf = (member.ty, self.base, None);
        }
        Some(())
    }

    /// Ends the path in the bit fields that the bytes hold.
    fn bit_fields(&mut self, record: &Record, inside: u64) {
        if self.hidden.is_some() {
            return;
        }
        let (low, high) = (
            inside.saturating_mul(8),
            inside.saturating_add(self.size).saturating_mul(8),
        );
        let touched: Vec<&Member> = record
            .members
            .iter()
            .filter(|member| {
                member
                    .bits
                    .is_some_and(|(first, bits)| first < high && low < first.saturating_add(bits))
            })
            .collect();
        let units = touched.iter().map(|member| {
            let size = self.debug.size_of(member.ty).unwrap_or(0);
            (member.offset, member.offset.saturating_add(size))
        });
        let unit = units.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        if !unit
            .is_some_and(|(start, end)| start <= inside && inside.saturating_add(self.size) <= end)
        {
            return;
        }
        let names: Vec<&str> = touched.iter().filter_map(|m| m.name.as_deref()).collect();
        match names[..] {
            [] => return,
            [one] => {
                self.path.push('.');
                self.path.push_str(one);
            }
            _ => {
                let more = if names.len() > 4 { ",…" } else { "" };
                let shown = names[..names.len().min(4)].join(",");
                let _ = write!(self.path, ".{{{shown}{more}}}");
            }
        }
        if let Some(first) = touched.first() {
            let start = self.base.saturating_add(first.offset);
            self.leaf = (first.ty, start, None);
        }
    }

    fn finish(self) -> FieldPath {
        let (leaf, leaf_offset, size) = self.leaf;
        FieldPath {
            path: self.path,
            leaf_type: self.debug.name_of(Some(leaf), 0),
            leaf_offset,
            leaf_size: size.or_else(|| self.debug.size_of(leaf)).unwrap_or(0),
            arrays: self.arrays,
            container: self.container,
        }
    }
}

/// The name as the source has it: Rust's compiler calls the fields of tuples `__0`, `__1`.
fn field_name(name: &str, language: Language) -> &str {
    match (language, name.strip_prefix("__")) {
        (Language::Rust, Some(number)) if number.bytes().all(|b| b.is_ascii_digit()) => number,
        _ => name,
    }
}
