//! One line of advice per finding: which object to move, how, and at what price.

use std::collections::{BTreeMap, BTreeSet};

use hitm_model::{Advice, AdviceKind, ByteRange, LineSize, ObjectKind, ThreadId, Verdict};

use crate::attribute::{Attribution, Element};

/// What a participant does with its bytes.
#[derive(Clone, Debug)]
pub(crate) struct Role {
    pub(crate) thread: ThreadId,
    pub(crate) writes: bool,
    pub(crate) atomic: bool,
    pub(crate) range: ByteRange,
    pub(crate) attribution: Attribution,
}

/// What to do about a finding.
pub(crate) fn advise(verdict: Verdict, roles: &[Role], line: LineSize) -> Advice {
    match verdict {
        Verdict::FalseSharing => repair(roles, line),
        Verdict::Mixed => {
            let shared = shared_names(roles);
            let is_shared = |role: &Role| shared.contains(&role.attribution.field_path);
            let own: Vec<Role> = roles.iter().filter(|role| !is_shared(role)).cloned().collect();
            // Where everybody's bytes are shared with somebody, all of it is there to be taken apart.
            let mut advice = repair(if own.iter().any(|role| role.writes) { &own } else { roles }, line);
            if !shared.is_empty() {
                advice.text =
                    format!("{}; what several threads use of {} stays shared, padding does not help that", advice.text, list(&shared));
            }
            advice
        }
        Verdict::TrueSharing => share_less(roles),
        Verdict::LockAndData => Advice {
            kind: AdviceKind::LeaveAsIs,
            text: "a lock beside the data it guards: one transfer brings both, padding would make it two; \
                   shorten the time the lock is held or split the lock"
                .into(),
            added_bytes: None,
        },
        Verdict::Unproven => Advice {
            kind: AdviceKind::LeaveAsIs,
            text: "the meetings do not decide: record for longer or more often (`hitm run --rate 5000`), with the threads \
                   side by side, before changing anything"
                .into(),
            added_bytes: None,
        },
    }
}

fn repair(roles: &[Role], line: LineSize) -> Advice {
    pad_elements(roles, line)
        .or_else(|| align_type(roles, line))
        .unwrap_or_else(|| {
            let objects = names(roles.iter().map(object_name));
            match objects.as_slice() {
                places if roles.iter().all(untyped) => part_untyped(roles, &list(places), line),
                [object] => split_fields(roles, object, line),
                _ => isolate_written(roles, line),
            }
        })
}

/// Neighbouring elements of arrays, each written by one thread: the outermost array of which that is true.
fn pad_elements(roles: &[Role], line: LineSize) -> Option<Advice> {
    let mut arrays: Vec<(&Element, Vec<&Role>)> = Vec::new();
    for role in roles {
        let mut levels = role.attribution.elements.iter();
        let level = levels.find(|level| is_per_thread(roles, &level.array))?;
        match arrays
            .iter_mut()
            .find(|(known, _)| known.array == level.array)
        {
            Some((_, members)) => members.push(role),
            None => arrays.push((level, vec![role])),
        }
    }
    let line_bytes = u64::from(line.bytes());
    let padded = |element: &Element| element.size.next_multiple_of(line_bytes);
    let (first, members) = arrays.first()?;
    let added = arrays.iter().try_fold(0u64, |sum, (element, _)| {
        let grows = padded(element) - element.size;
        sum.checked_add(element.count?.checked_mul(grows)?)
    });
    let text = match arrays.as_slice() {
        [_] if first.size % line_bytes == 0 => format!(
            "start {} at a multiple of {line}: its elements are as large as lines but lie across their borders",
            first.array
        ),
        [_] => format!(
            "give each element of {} a line of its own: {} (each grows from {} to {} bytes)",
            first.array,
            align_element(&first.array, members, line),
            first.size,
            padded(first),
        ),
        _ => format!(
            "put what one thread uses of {} into one struct per thread, aligned to {line} bytes",
            list(&names(
                arrays.iter().map(|(element, _)| element.array.as_str())
            ))
        ),
    };
    Some(Advice {
        kind: AdviceKind::PadElements,
        text,
        added_bytes: added.filter(|bytes| *bytes > 0 && arrays.len() == 1),
    })
}

/// Whether the elements of an array have different owners: each that is written has one writer, each of the others one
/// reader, and these are several threads. Where one thread writes all of them, it is not the elements that are to be apart.
fn is_per_thread(roles: &[Role], array: &str) -> bool {
    let mut elements: BTreeMap<u64, Vec<&Role>> = BTreeMap::new();
    for role in roles {
        let mut levels = role.attribution.elements.iter();
        if let Some(level) = levels.find(|level| level.array == array) {
            elements.entry(level.index).or_default().push(role);
        }
    }
    let mut owners = BTreeSet::new();
    for users in elements.values() {
        let threads = |wanted: &dyn Fn(&Role) -> bool| -> BTreeSet<ThreadId> {
            let users = users.iter().filter(|role| wanted(role));
            users.map(|role| role.thread).collect()
        };
        let writers = threads(&|role| role.writes);
        match writers.len() {
            0 => {
                let readers = threads(&|_| true);
                owners.extend(readers.first().filter(|_| readers.len() == 1));
            }
            1 => owners.extend(writers),
            _ => return false,
        }
    }
    owners.len() > 1 && roles.iter().any(|role| role.writes)
}

/// Blocks of one type that the allocator put side by side.
fn align_type(roles: &[Role], line: LineSize) -> Option<Advice> {
    let first = &roles.first()?.attribution.object;
    let type_name = first.type_name.as_ref()?;
    let same = |role: &Role| {
        let object = &role.attribution.object;
        object.kind == ObjectKind::Heap
            && object.type_name.as_ref() == Some(type_name)
            && object.size == first.size
    };
    let size = first.size.filter(|_| roles.iter().all(same))?;
    if roles
        .iter()
        .all(|role| role.attribution.object.address == first.address)
    {
        return None;
    }
    let line_bytes = u64::from(line.bytes());
    let padded = size.next_multiple_of(line_bytes);
    // The type of a bare value is not the program's to change.
    let bare = roles.iter().any(|role| role.attribution.bare);
    let how = match (bare, roles.iter().any(|role| role.attribution.rust)) {
        (true, false) => format!("allocate each with an alignment and a size of {line} bytes"),
        (true, true) => format!("wrap each in a `#[repr(align({line}))]` struct"),
        (false, true) => format!("`#[repr(align({line}))]` on {type_name}"),
        (false, false) => format!("{} on {type_name}", alignas(line)),
    };
    let grows = if padded > size {
        format!(" (each grows from {size} to {padded} bytes)")
    } else {
        String::new()
    };
    Some(Advice {
        kind: AdviceKind::PadElements,
        text: format!(
            "several {type_name} lie on one line, give each a line of its own: {how}{grows}"
        ),
        added_bytes: Some(padded - size).filter(|bytes| *bytes > 0),
    })
}

/// Memory of which only the code that touches it is known.
fn part_untyped(roles: &[Role], object: &str, line: LineSize) -> Advice {
    Advice {
        kind: AdviceKind::IsolateWritten,
        text: format!(
            "keep what different threads write of {object} at least {line} bytes apart: {}",
            align(roles, "the type of what one thread owns", line)
        ),
        added_bytes: None,
    }
}

/// The object's name in a sentence, in which it does not matter where it lives.
fn object_name(role: &Role) -> &str {
    let name = role.attribution.object.name.as_str();
    name.strip_prefix("(heap) ").unwrap_or(name)
}

fn untyped(role: &Role) -> bool {
    let object = &role.attribution.object;
    object.type_name.is_none() && object.size.is_none() && object.kind != ObjectKind::Global
}

/// Fields of one structure.
fn split_fields(roles: &[Role], object: &str, line: LineSize) -> Advice {
    let written = written(roles);
    if let Some(count) = written.iter().find(|name| is_reference_count(name)) {
        return Advice {
            kind: AdviceKind::SplitFields,
            text: format!(
                "{count} is changed by every clone and drop: borrow instead of cloning on the hot path, or move the \
                 data off its line: {}",
                align(roles, "the shared type", line)
            ),
            added_bytes: Some(u64::from(line.bytes())),
        };
    }
    let owned = by_owner(roles);
    let lines = owned.len().max(1) as u64;
    let text = match owned.as_slice() {
        [] | [_] => {
            let names = list(&written);
            let it = if written.len() == 1 { "it" } else { "them" };
            format!(
                "move {names} in {object} to a line of its own: {}, and nothing else on that line",
                align(roles, it, line)
            )
        }
        [_, others @ ..] if written.len() == owned.len() && others.len() < 3 => {
            format!(
                "give {} of {object} a line each: {}, and nothing else on those lines",
                list(&written),
                align(roles, "each", line)
            )
        }
        _ => format!(
            "group the fields of {object} by the thread that writes them ({}) and give each group a line of its own: {}",
            owned
                .iter()
                .map(|fields| list(fields))
                .collect::<Vec<_>>()
                .join(" | "),
            align(roles, "each group", line)
        ),
    };
    Advice {
        kind: AdviceKind::SplitFields,
        text,
        added_bytes: Some(lines * u64::from(line.bytes())),
    }
}

/// The written fields, those of the same writers together.
fn by_owner(roles: &[Role]) -> Vec<Vec<String>> {
    let mut groups: Vec<(Vec<ThreadId>, Vec<String>)> = Vec::new();
    for field in written(roles) {
        let writes = |role: &&Role| role.writes && role.attribution.field_path == field;
        let mut writers: Vec<ThreadId> = roles
            .iter()
            .filter(writes)
            .map(|role| role.thread)
            .collect();
        writers.sort();
        writers.dedup();
        match groups.iter_mut().find(|(known, _)| *known == writers) {
            Some((_, fields)) => fields.push(field),
            None => groups.push((writers, vec![field])),
        }
    }
    groups.into_iter().map(|(_, fields)| fields).collect()
}

/// Objects that only happen to be neighbours.
fn isolate_written(roles: &[Role], line: LineSize) -> Advice {
    let objects = names(roles.iter().filter(|role| role.writes).map(object_name));
    let heap = roles
        .iter()
        .all(|role| role.attribution.object.kind == ObjectKind::Heap);
    let several = objects.len() > 1;
    let how = match (heap, several) {
        (true, _) => format!("allocate each with an alignment and a size of {line} bytes"),
        (false, true) => format!(
            "{}, each padded to {line} bytes so that no neighbour moves in",
            align(roles, "each", line)
        ),
        (false, false) => format!(
            "{}, padded to {line} bytes so that no neighbour moves in",
            align(roles, "it", line)
        ),
    };
    let each = if several {
        "lines of their own"
    } else {
        "a line of its own"
    };
    Advice {
        kind: AdviceKind::IsolateWritten,
        text: format!("put {} (written) on {each}: {how}", list(&objects)),
        added_bytes: Some(objects.len() as u64 * u64::from(line.bytes())),
    }
}

fn share_less(roles: &[Role]) -> Advice {
    let mut writers: Vec<ThreadId> = roles
        .iter()
        .filter(|role| role.writes)
        .map(|role| role.thread)
        .collect();
    writers.sort();
    writers.dedup();
    let fields = written(roles);
    let what = list(&fields);
    let several = writers.len() > 1;
    let locks = names(roles.iter().filter(|role| is_lock(role)).map(object_field));
    let text = if several && !locks.is_empty() {
        format!(
            "padding cannot help: these threads take the same lock, {}; shorten the time it is held, take it less often, \
             or split it",
            list(&locks)
        )
    } else if several && let Some(count) = fields.iter().find(|name| is_reference_count(name)) {
        format!(
            "padding cannot help: {count} is changed by every copy and drop; pass a reference on the hot path instead of \
             copying"
        )
    } else if several && !roles.iter().any(|role| role.atomic) {
        format!(
            "padding cannot help: these threads change the same bytes of {what} and not atomically, so something must \
             make them take turns; do less while it does, or split the data"
        )
    } else if several {
        format!(
            "padding cannot help: these threads change the same bytes of {what}; give each thread a copy of its own \
             and add them up when reading"
        )
    } else {
        format!(
            "padding cannot help: the readers need what is written to {what}; write it less often, or keep what is \
             read often apart from it"
        )
    };
    Advice {
        kind: AdviceKind::PerThreadCopies,
        text,
        added_bytes: None,
    }
}

fn object_field(role: &Role) -> &str {
    &role.attribution.field_path
}

/// The fields that two threads use.
fn shared_names(roles: &[Role]) -> Vec<String> {
    let shared = roles.iter().filter(|role| {
        roles.iter().any(|other| {
            other.thread != role.thread
                && other.range.overlaps(role.range)
                && (other.writes || role.writes)
        })
    });
    names(shared.map(|role| role.attribution.field_path.as_str()))
}

fn written(roles: &[Role]) -> Vec<String> {
    names(
        roles
            .iter()
            .filter(|role| role.writes)
            .map(|role| role.attribution.field_path.as_str()),
    )
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for name in names {
        if !seen.iter().any(|known| known == name) {
            seen.push(name.to_owned());
        }
    }
    seen
}

/// Names joined for a sentence; many are cut short.
fn list(names: &[String]) -> String {
    match names {
        [] => "it".into(),
        [one] => one.clone(),
        [one, two] => format!("{one} and {two}"),
        [one, two, three] => format!("{one}, {two} and {three}"),
        [one, two, rest @ ..] => format!("{one}, {two} and {} more", rest.len()),
    }
}

/// Whether the type says that it is a lock.
fn is_lock(role: &Role) -> bool {
    let field_type = role.attribution.field_type.as_deref().unwrap_or("");
    let name = field_type
        .split('<')
        .next()
        .unwrap_or("")
        .to_ascii_lowercase();
    [
        "mutex",
        "mutex_t",
        "rwlock",
        "rwlock_t",
        "spinlock",
        "spinlock_t",
    ]
    .iter()
    .any(|lock| name.ends_with(lock))
}

fn is_reference_count(name: &str) -> bool {
    ["ArcInner", "RcInner"]
        .iter()
        .any(|inner| name.starts_with(inner))
        && (name.ends_with(".strong") || name.ends_with(".weak"))
        || name.contains("_Sp_counted")
        || name.ends_with("_M_use_count")
        || name.ends_with("_M_weak_count")
}

/// In C the keyword does not go where a type is declared, but the attribute does, in both languages' compilers.
fn alignas(line: LineSize) -> String {
    format!("`alignas({line})` (C: `__attribute__((aligned({line})))`)")
}

fn align(roles: &[Role], what: &str, line: LineSize) -> String {
    if roles.iter().any(|role| role.attribution.rust) {
        format!("wrap {what} in a `#[repr(align({line}))]` struct")
    } else {
        format!("{} on {what}", alignas(line))
    }
}

/// How to align the elements of an array: the type, where it is a structure of the program's own.
fn align_element(array: &str, members: &[&Role], line: LineSize) -> String {
    let rust = members.iter().any(|role| role.attribution.rust);
    // What goes on behind the index with a dot is a field of a structure; else it is a number or a library's type.
    let structure = members.iter().any(|role| {
        let mut levels = role.attribution.elements.iter();
        levels.any(|level| {
            let element = format!("{}[{}].", array, level.index);
            role.attribution.field_path.starts_with(&element)
        })
    });
    match (structure, rust) {
        (true, true) => format!("`#[repr(align({line}))]` on the element type"),
        (true, false) => format!("{} on the element type", alignas(line)),
        (false, true) => format!("wrap each in a `#[repr(align({line}))]` struct"),
        (false, false) => format!("put each into a struct with {}", alignas(line)),
    }
}

#[cfg(test)]
mod tests;
