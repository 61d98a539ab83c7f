//! Heap objects: the type of the pointer in a register, as DWARF location lists tell it ("data-type profiling").
//!
//! Register values are exact at a sample, so a variable counts as the pointer if its *value* leads to the accessed
//! bytes, whichever register the instruction itself used. Where the pointers lead into one structure from several
//! places (`&quota.in_use` here, `&quota.capacity` there), the structure is found by its layout: the only one of the
//! program that has members of these types at these distances. That is an inference, and the object says so.

use std::collections::BTreeSet;

use hitm_binary::debug::TypeId;
use hitm_model::{Avma, Object, ObjectKind, SourceFrame};

use super::{Attribution, Attributor, Path, part_address, path};
use crate::binaries::ModuleId;
use crate::gather::Exemplar;
use crate::library::own_frame;
use crate::lines::{LineFinding, Part};

/// Exemplars that are asked per participant: the hottest instructions.
const EXEMPLARS: usize = 6;

/// Allocators give blocks of 16 bytes and more at multiples of this (glibc, musl, jemalloc, mimalloc, tcmalloc).
const BLOCK_ALIGNMENT: u64 = 16;

/// A pointer that leads to the accessed bytes.
#[derive(Clone, Debug)]
struct Pointer {
    module: ModuleId,
    /// What it points at: the object itself, or one element of an array.
    start: Avma,
    ty: TypeId,
    size: u64,
    name: String,
    function: String,
    /// Where the program's own code uses it, if the pointer itself is a variable of a library's.
    used_in: Option<String>,
    /// Which element it was, counted from the pointer.
    index: Option<u64>,
    score: u32,
}

/// The structure that a line's pointers have in common.
struct Structure {
    module: ModuleId,
    start: Avma,
    ty: TypeId,
    size: u64,
    inferred: Option<String>,
}

impl Structure {
    fn holds(&self, address: Avma, length: u64) -> bool {
        let offset = address.offset_from(self.start);
        offset.is_some_and(|offset| offset.saturating_add(length) <= self.size)
    }
}

/// What the participants of a line touch that nothing else could attribute, in order.
pub(super) fn attribute(
    attributor: &Attributor<'_, '_, '_>,
    line: &LineFinding,
    known: &[Option<Attribution>],
) -> Vec<Attribution> {
    let parts: Vec<&Part> = line
        .parts
        .iter()
        .zip(known)
        .filter(|(_, known)| known.is_none())
        .map(|(part, _)| part)
        .collect();
    if parts.is_empty() {
        return Vec::new();
    }
    let pointers: Vec<Option<Pointer>> = parts
        .iter()
        .map(|part| {
            attributor
                .exemplars_of(line, part)
                .take(EXEMPLARS)
                .flat_map(|exemplar| pointers(attributor, exemplar))
                .max_by_key(|pointer| pointer.score)
        })
        .collect();
    let common = common_structure(attributor, &pointers);
    let structures = structures(attributor, &pointers);
    parts
        .iter()
        .zip(&pointers)
        .map(|(part, pointer)| {
            let address = part_address(line, part);
            let length = u64::from(part.range.len());
            if let Some(common) = &common
                && address
                    .offset_from(common.start)
                    .is_some_and(|offset| offset < common.size)
            {
                return in_structure(attributor, common, address, length);
            }
            if let Some(around) = structures.iter().find(|it| it.holds(address, length)) {
                return in_structure(attributor, around, address, length);
            }
            match pointer {
                Some(pointer) => behind_pointer(attributor, pointer, address, length),
                None => by_site(attributor, part, address),
            }
        })
        .collect()
}

/// All pointers that lead to what an exemplar accessed.
fn pointers(attributor: &Attributor<'_, '_, '_>, exemplar: &Exemplar) -> Vec<Pointer> {
    let debug = attributor.debug.get(exemplar.module);
    let at_ip = debug.pointers_at(exemplar.ip).into_iter().map(|variable| {
        let value = exemplar
            .registers
            .get(variable.register)
            .wrapping_add(variable.offset as u64);
        let is_base = exemplar.base.is_some_and(|(_, base)| base.0 == value);
        (variable, Avma(value), is_base)
    });
    let at_instruction = exemplar.base.into_iter().flat_map(|(register, base)| {
        let variables = debug.pointers_at(exemplar.instruction).into_iter();
        variables
            .filter(move |variable| variable.register == register)
            .map(move |variable| {
                let value = base.wrapping_add(variable.offset as u64);
                (variable, value, true)
            })
    });
    let by_code = exemplar.base.into_iter().filter_map(|(register, base)| {
        let variable = debug.pointer_by_code(exemplar.instruction, register)?;
        let value = base.wrapping_add(variable.offset as u64);
        Some((variable, value, true))
    });
    let frames = [exemplar.ip, exemplar.instruction]
        .map(|at| debug.source_frames(at))
        .concat();
    let of_library = |function: &str| {
        frames
            .iter()
            .any(|frame| frame.function == function && frame.is_library())
    };
    let own = own_frame(&frames)
        .filter(|frame| !frame.is_library())
        .map(place_of);
    at_ip
        .chain(at_instruction)
        .chain(by_code)
        .filter_map(|(variable, value, is_base)| {
            let size = debug.type_size(variable.pointee).filter(|size| *size > 0)?;
            // A pointer to bytes (`u8`, `char`) is a pointer to anything.
            if size < u64::from(exemplar.size) && debug.is_base_type(variable.pointee) {
                return None;
            }
            let offset = exemplar.address.offset_from(value)?;
            let index = offset / size;
            if index > 0 && !is_base {
                return None;
            }
            let inner = path(
                debug,
                variable.pointee,
                offset % size,
                u64::from(exemplar.size),
            );
            let library = of_library(&variable.function);
            // A structure tells most; then a name that the program's author gave; then the pointer that the
            // instruction itself used; then a type of the library's rather than the number in it.
            let score = 16 * u32::from(!inner.text.is_empty())
                + 8 * u32::from(!library)
                + 4 * u32::from(is_base)
                + 2 * u32::from(index == 0)
                + u32::from(!debug.is_base_type(variable.pointee));
            Some(Pointer {
                module: exemplar.module,
                start: value.wrapping_add(index * size),
                ty: variable.pointee,
                size,
                name: variable.name,
                function: variable.function,
                used_in: own.clone().filter(|_| library),
                index: (index > 0).then_some(index),
                score,
            })
        })
        .collect()
}

/// The structures that some participant has a pointer to, the largest first: what lies inside belongs to them, whatever
/// pointer others have to it.
fn structures(attributor: &Attributor<'_, '_, '_>, pointers: &[Option<Pointer>]) -> Vec<Structure> {
    let mut structures: Vec<Structure> = pointers
        .iter()
        .flatten()
        .filter(|pointer| {
            let debug = attributor.debug.get(pointer.module);
            pointer.used_in.is_none() && !path(debug, pointer.ty, 0, 1).text.is_empty()
        })
        .map(|pointer| Structure {
            module: pointer.module,
            start: pointer.start,
            ty: pointer.ty,
            size: pointer.size,
            inferred: None,
        })
        .collect();
    structures.sort_by_key(|it| (std::cmp::Reverse(it.size), it.start, it.module, it.ty));
    structures
}

fn common_structure(
    attributor: &Attributor<'_, '_, '_>,
    pointers: &[Option<Pointer>],
) -> Option<Structure> {
    let mut members: Vec<&Pointer> = pointers.iter().flatten().collect();
    members.sort_by_key(|pointer| (pointer.start, std::cmp::Reverse(pointer.size)));
    members.dedup_by_key(|pointer| pointer.start);
    let first = *members.first()?;
    let debug = attributor.debug.get(first.module);
    if members.iter().any(|pointer| pointer.module != first.module) {
        return None;
    }
    let spanning = members.iter().find(|pointer| {
        let end = pointer.start.0 + pointer.size;
        members
            .iter()
            .all(|other| pointer.start <= other.start && other.start.0 + other.size <= end)
    });
    if let Some(whole) = spanning {
        let path = path(debug, whole.ty, 0, 1);
        // A pointer to a bare number or a standard wrapper says nothing of the block it is in.
        return (!path.text.is_empty()).then_some(Structure {
            module: whole.module,
            start: whole.start,
            ty: whole.ty,
            size: whole.size,
            inferred: None,
        });
    }
    // Several of one type are an array, a vector or neighbours more often than the members of any one structure.
    let names = members.iter().map(|pointer| debug.type_name(pointer.ty));
    let distinct: BTreeSet<String> = names.collect();
    if distinct.len() < 2 || members.iter().all(|pointer| debug.is_base_type(pointer.ty)) {
        return None;
    }
    let shape: Vec<(u64, TypeId)> = members
        .iter()
        .filter_map(|pointer| Some((pointer.start.offset_from(first.start)?, pointer.ty)))
        .collect();
    let candidates = debug.aggregates_with(&shape);
    let mut fitting = candidates.iter().filter_map(|candidate| {
        let start = first.start.wrapping_sub(candidate.base_offset);
        let size = debug.type_size(candidate.ty)?;
        (start.0 % BLOCK_ALIGNMENT == 0).then_some((candidate.ty, start, size))
    });
    let (ty, start, size) = fitting.next()?;
    let name = debug.type_name(ty);
    // A structure around the first one holds it as a member: that is no contradiction, another name at another place is.
    let unique = fitting.all(|(other, other_start, other_size)| {
        (debug.type_name(other) == name && other_start == start)
            || (other_start <= start
                && start.0 + size <= other_start.0 + other_size
                && other_size > size)
    });
    unique.then(|| Structure {
        module: first.module,
        start,
        ty,
        size,
        inferred: Some(format!(
            "type inferred: {name} is the only structure of the program with {} at these distances",
            list(members.iter().map(|pointer| debug.type_name(pointer.ty)))
        )),
    })
}

fn list(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(" and ")
}

fn in_structure(
    attributor: &Attributor<'_, '_, '_>,
    structure: &Structure,
    address: Avma,
    length: u64,
) -> Attribution {
    let module = attributor.debug.module(structure.module);
    let offset = address.offset_from(structure.start).unwrap_or(0);
    let debug = attributor.debug.get(structure.module);
    let name = unqualified(debug.type_name(structure.ty));
    let path = path(debug, structure.ty, offset, length);
    attribution(
        module.image.is_rust(),
        Object {
            kind: ObjectKind::Heap,
            name: format!("(heap) {name}"),
            type_name: Some(name.clone()),
            binary: Some(module.name().to_owned()),
            section: None,
            address: structure.start,
            size: Some(structure.size),
            declared: debug.declaration(structure.ty),
            inferred: structure.inferred.clone(),
        },
        &name,
        path,
    )
}

fn behind_pointer(
    attributor: &Attributor<'_, '_, '_>,
    pointer: &Pointer,
    address: Avma,
    length: u64,
) -> Attribution {
    let module = attributor.debug.module(pointer.module);
    let debug = attributor.debug.get(pointer.module);
    let type_name = unqualified(debug.type_name(pointer.ty));
    let offset = address.offset_from(pointer.start).unwrap_or(0);
    let path = path(debug, pointer.ty, offset, length);
    let index = pointer
        .index
        .map_or_else(String::new, |index| format!("[{index}]"));
    // A structure is known by its type wherever the pointer came from; a bare value only by the pointer's name, or by
    // the place that uses it where that name is a library's.
    let (name, root) = match &pointer.used_in {
        _ if !path.text.is_empty() => (format!("(heap) {type_name}"), type_name.clone()),
        Some(place) => (
            format!("(heap) {type_name} touched in {place}"),
            type_name.clone(),
        ),
        None if !debug.is_base_type(pointer.ty) => {
            (format!("(heap) {type_name}"), type_name.clone())
        }
        None => {
            let root = if index.is_empty() {
                format!("*{}", pointer.name)
            } else {
                format!("{}{index}", pointer.name)
            };
            let name = format!(
                "(heap) {type_name} behind {} in {}()",
                pointer.name, pointer.function
            );
            (name, root)
        }
    };
    attribution(
        module.image.is_rust(),
        Object {
            kind: ObjectKind::Heap,
            name,
            type_name: Some(type_name),
            binary: Some(module.name().to_owned()),
            section: None,
            address: pointer.start,
            size: Some(pointer.size),
            declared: debug.declaration(pointer.ty),
            inferred: None,
        },
        &root,
        path,
    )
}

/// Without a type, the place in the source that touches it.
fn by_site(attributor: &Attributor<'_, '_, '_>, part: &Part, address: Avma) -> Attribution {
    let site = part
        .sites
        .first()
        .map(|(site, ..)| &attributor.sites[site.0 as usize]);
    let place = site.and_then(|site| {
        let debug = attributor.debug.get(site.module);
        let frames = debug.source_frames(site.instruction);
        let own = own_frame(&frames).filter(|frame| !frame.is_library());
        // Of a library alone, the function that was called says most.
        own.or(frames.last()).map(place_of)
    });
    let place = place.or_else(|| {
        let site = site?;
        let module = attributor.debug.module(site.module);
        let symbol = module.image.symbol_at(site.instruction);
        Some(symbol.map_or_else(
            || format!("{}+{}", module.name(), site.instruction),
            |symbol| format!("{}()", symbol.name),
        ))
    });
    let name = match place {
        Some(place) => format!("(heap) memory touched in {place}"),
        None => format!("(heap) memory at {address}"),
    };
    let rust = site.is_some_and(|site| attributor.debug.module(site.module).image.is_rust());
    Attribution {
        rust,
        ..Attribution::named_only(ObjectKind::Heap, name.clone(), name, address)
    }
}

/// A function and where in it; of a library's function, whose file is nobody's here, only the function.
fn place_of(frame: &SourceFrame) -> String {
    match &frame.line {
        Some(line) if !frame.is_library() => format!("{}() at {line}", frame.function),
        _ => format!("{}()", frame.function),
    }
}

/// The type without what only this pointer says of it.
fn unqualified(type_name: String) -> String {
    let mut name = type_name.as_str();
    while let Some(rest) = ["const ", "volatile "]
        .iter()
        .find_map(|word| name.strip_prefix(word))
    {
        name = rest;
    }
    name.to_owned()
}

fn attribution(rust: bool, object: Object, root: &str, path: Path) -> Attribution {
    Attribution {
        identity: object.name.clone(),
        field_path: format!("{root}{}", path.text),
        elements: path.elements(root),
        bare: path.text.is_empty(),
        field_type: path.leaf_type,
        rust,
        object,
    }
}
