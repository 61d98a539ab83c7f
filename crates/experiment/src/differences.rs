//! How two sides differ beside their programs: libraries and variables of the environment.

use crate::comparable::{LibraryFacts, SideFacts};

/// Something that is not the same on both sides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference<T> {
    /// What it is called.
    pub name: String,
    /// What A has; `None` if it has none.
    pub a: Option<T>,
    /// What B has.
    pub b: Option<T>,
}

/// Shared libraries whose bytes differ, or that only one side has. The programs of the sides are matched by their place:
/// server with server.
#[must_use]
pub fn different_libraries(a: &SideFacts, b: &SideFacts) -> Vec<Difference<LibraryFacts>> {
    let none = Vec::new();
    let libraries = |side: &SideFacts, at: usize| -> Vec<LibraryFacts> {
        let program = side.programs.get(at);
        program.map_or(&none, |program| &program.libraries).clone()
    };
    let mut differences: Vec<Difference<LibraryFacts>> = Vec::new();
    for at in 0..a.programs.len().max(b.programs.len()) {
        let (of_a, of_b) = (libraries(a, at), libraries(b, at));
        // A script or a static program has none that are known; that its file is another one is seen anyway.
        if of_a.is_empty() || of_b.is_empty() {
            continue;
        }
        let same = |one: &LibraryFacts, other: &LibraryFacts| {
            one.sha256 == other.sha256 && one.path.is_some() == other.path.is_some()
        };
        differences.extend(
            differing(&of_a, &of_b, |library| &library.name, same)
                .into_iter()
                .filter(|new| !differences.contains(new))
                .collect::<Vec<_>>(),
        );
    }
    differences
}

/// Variables that are set to something else, or on one side only.
#[must_use]
pub fn different_variables(a: &SideFacts, b: &SideFacts) -> Vec<Difference<String>> {
    let differences = differing(
        &a.variables,
        &b.variables,
        |(name, _)| name,
        |(_, one), (_, other)| one == other,
    );
    differences
        .into_iter()
        .map(|difference| Difference {
            name: difference.name,
            a: difference.a.map(|(_, value)| value),
            b: difference.b.map(|(_, value)| value),
        })
        .collect()
}

fn differing<T: Clone>(
    a: &[T],
    b: &[T],
    name: impl Fn(&T) -> &String,
    same: impl Fn(&T, &T) -> bool,
) -> Vec<Difference<T>> {
    let find = |list: &[T], wanted: &String| -> Option<T> {
        let mut named = list.iter().filter(|one| name(one) == wanted);
        named.next().cloned()
    };
    let mut names: Vec<&String> = a.iter().chain(b).map(&name).collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .map(|name| Difference {
            name: name.clone(),
            a: find(a, name),
            b: find(b, name),
        })
        .filter(|difference| match (&difference.a, &difference.b) {
            (Some(a), Some(b)) => !same(a, b),
            _ => true,
        })
        .collect()
}
