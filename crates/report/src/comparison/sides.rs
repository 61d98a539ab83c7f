//! What was compared: the commands as they were run, and how the sides differ beside them.

use hitm_experiment::{
    ComparedRow, Difference, LibraryFacts, SideFacts, different_libraries, different_variables,
};
use hitm_model::shell_command;

/// Digits of a hash or a commit that are enough for people; the JSON has all.
const DIGITS: usize = 12;

/// One note for each side, and one for each kind of difference.
pub(super) fn notes(row: &ComparedRow) -> Vec<String> {
    let mut notes = vec![side("A", &row.a), side("B", &row.b)];
    let libraries = different_libraries(&row.a, &row.b);
    notes.extend(libraries.iter().map(library));
    let variables = different_variables(&row.a, &row.b);
    notes.extend(variables.iter().map(variable));
    notes
}

/// The command, and which build of which commit it starts.
fn side(letter: &str, side: &SideFacts) -> String {
    let mut text = format!("{letter}: {}", shell_command(&side.words));
    if !side.server.is_empty() {
        text.push_str(&format!(", server {}", shell_command(&side.server)));
    }
    let mut known = Vec::new();
    if let Some(program) = side.programs.first() {
        known.push(match &program.build_id {
            Some(id) => format!("build-id {}", short(id)),
            None => format!("sha256 {}", short(&program.sha256)),
        });
    }
    if let Some(git) = &side.git {
        let dirty = if git.dirty { ", changed since" } else { "" };
        known.push(format!("commit {}{dirty}", short(&git.commit)));
    }
    if !known.is_empty() {
        text.push_str(&format!(" ({})", known.join("; ")));
    }
    text
}

fn library(difference: &Difference<LibraryFacts>) -> String {
    let one = |library: &Option<LibraryFacts>| match library {
        None => "does not load it".to_owned(),
        Some(library) => match (&library.path, &library.build_id, &library.sha256) {
            (None, ..) => "does not find it".to_owned(),
            (Some(path), Some(id), _) => format!("has {path} (build-id {})", short(id)),
            (Some(path), None, Some(hash)) => format!("has {path} (sha256 {})", short(hash)),
            (Some(path), None, None) => format!("has {path} (unreadable)"),
        },
    };
    format!(
        "library {}: A {}, B {}",
        difference.name,
        one(&difference.a),
        one(&difference.b)
    )
}

fn variable(difference: &Difference<String>) -> String {
    let one = |value: &Option<String>| match value {
        None => "does not set it".to_owned(),
        Some(value) => format!("sets it to {value:?}"),
    };
    format!(
        "variable {}: A {}, B {}",
        difference.name,
        one(&difference.a),
        one(&difference.b)
    )
}

fn short(digits: &str) -> &str {
    digits.get(..DIGITS).unwrap_or(digits)
}
