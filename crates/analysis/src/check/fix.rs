//! What to do about a suspicion, and what that costs in bytes.

use hitm_model::{Fix, LineSize, StaticRule};

use super::alignment::AllocatedFacts;
use super::facts::{Facts, ObjectFacts};
use super::fields::Field;
use super::judge::Suspicion;
use super::types::{TypeFacts, TypeHazard, TypeSuspicion};

/// What goes with an alignment on the heap of C and C++.
pub(super) const ALLOCATE: &str = "; malloc, and new before C++17, ignore an alignment: allocate it with aligned_alloc or \
                                   posix_memalign, or new of C++17";

/// For a suspicion of objects in the file.
pub(super) fn of(facts: &Facts, suspicion: &Suspicion, names: &[String], rust: bool) -> Fix {
    let line = u64::from(facts.line.bytes());
    match (suspicion.rule, suspicion.stride) {
        (_, Some(stride)) => {
            let field = &suspicion.fields[0];
            let count = field.range.len() / u64::from(stride.max(1));
            Fix {
                text: format!(
                    "give each element of {} a line of its own ({}), or each thread a variable of its own that is added \
                     up when it is read",
                    names[0],
                    align(facts.line, rust)
                ),
                added_bytes: line.saturating_sub(u64::from(stride)),
                instances: Some(count),
            }
        }
        (StaticRule::FieldsShareLine, None) => {
            let own: u64 = suspicion.fields.iter().map(|field| field.range.len()).sum();
            let lines: u64 = suspicion
                .fields
                .iter()
                .map(|field| whole(field.range.len(), line))
                .sum();
            Fix {
                text: format!(
                    "put {} on lines of their own ({} for each)",
                    list(names),
                    align(facts.line, rust)
                ),
                added_bytes: lines.saturating_sub(own),
                instances: Some(1),
            }
        }
        _ => {
            let (at, object) = owned(facts, suspicion);
            let size = object.size.max(1);
            Fix {
                text: format!(
                    "give {} a line of its own: {}, so that no neighbour can come onto its line whatever is linked",
                    names.get(at).map_or(object.name.as_str(), String::as_str),
                    align(facts.line, rust)
                ),
                added_bytes: whole(size, line) - size,
                instances: Some(1),
            }
        }
    }
}

/// The object to isolate: one that is written in a loop, the smallest of these; it is the side whose symbols are all its
/// owner's.
fn owned<'a>(facts: &'a Facts, suspicion: &Suspicion) -> (usize, &'a ObjectFacts) {
    let hot = |field: &Field| field.users.iter().any(|user| user.writes_hot());
    let best = suspicion
        .fields
        .iter()
        .enumerate()
        .min_by_key(|(_, field)| {
            (
                !hot(field),
                facts.objects[field.object].size,
                field.range.start,
            )
        });
    let (at, field) = best.unwrap_or((0, &suspicion.fields[0]));
    (at, &facts.objects[field.object])
}

/// For a suspicious type.
pub(super) fn of_type(
    line: LineSize,
    ty: &TypeFacts,
    suspicion: &TypeSuspicion,
    names: &[String],
    rust: bool,
) -> Fix {
    let bytes = u64::from(line.bytes());
    let allocate = if rust { "" } else { ALLOCATE };
    match suspicion.kind {
        TypeHazard::Words => {
            let rest = ty.size.saturating_sub(
                suspicion
                    .words
                    .iter()
                    .map(|&word| ty.words[word].size)
                    .sum(),
            );
            let lines: u64 = suspicion
                .words
                .iter()
                .map(|&word| whole(ty.words[word].size, bytes))
                .sum();
            let new = lines + if rest > 0 { whole(rest, bytes) } else { 0 };
            Fix {
                text: format!(
                    "put {} on lines of their own ({} for each){allocate}",
                    list(names),
                    align(line, rust)
                ),
                added_bytes: new.saturating_sub(ty.size),
                instances: None,
            }
        }
        TypeHazard::Elements => Fix {
            text: format!(
                "align {} to a line ({}){allocate}",
                ty.name,
                align(line, rust)
            ),
            added_bytes: whole(ty.size, bytes) - ty.size,
            instances: None,
        },
        TypeHazard::Padding => Fix {
            text: format!(
                "align {} as well ({}): its padding keeps neighbours away only if it begins with a line{allocate}",
                ty.name,
                align(line, rust)
            ),
            added_bytes: 0,
            instances: None,
        },
    }
}

/// For a type whose alignment the allocator was not told.
pub(super) fn of_alignment(one: &AllocatedFacts, rust: bool) -> Fix {
    let AllocatedFacts { name, align, .. } = one;
    let text = match (rust, one.allocator.starts_with("operator new")) {
        (true, _) => format!("allocate {name} with Layout::new::<{name}>(), or in a Box"),
        (false, true) => format!(
            "build with -std=c++17 or newer, where new tells the allocator what {name} asks for (or -faligned-new)"
        ),
        (false, false) => format!(
            "allocate {name} with aligned_alloc({align}, size), or posix_memalign; after realloc too, which keeps no \
             alignment"
        ),
    };
    Fix {
        text,
        // What an aligned block needs more, at most.
        added_bytes: align.saturating_sub(one.promised),
        instances: None,
    }
}

/// How the language says it.
fn align(line: LineSize, rust: bool) -> String {
    if rust {
        format!("a wrapper with #[repr(align({line}))]")
    } else {
        format!("alignas({line}) in a structure padded to {line} bytes")
    }
}

fn whole(size: u64, line: u64) -> u64 {
    size.max(1).checked_next_multiple_of(line).unwrap_or(size)
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [.., last] if names.len() <= 6 => {
            let rest = names[..names.len() - 1].join(", ");
            format!("{rest} and {last}")
        }
        _ => format!("{} and {} more", names[..5].join(", "), names.len() - 5),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up_to_lines() {
        assert_eq!(
            [whole(1, 64), whole(64, 64), whole(65, 64), whole(0, 64)],
            [64, 64, 128, 64]
        );
        assert_eq!(list(&["a".into(), "b".into(), "c".into()]), "a, b and c");
    }
}
