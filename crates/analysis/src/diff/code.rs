//! Functions of two builds: the same but for addresses, or changed.

use std::num::NonZeroUsize;

use hitm_binary::decode::{Comparison, compare as compare_code};
use hitm_model::{CodeDiff, FunctionChange, SymbolChange};

use super::build::Build;
use super::meaning::Meaning;
use super::names::is_own;
use super::{matching, parallel};
use crate::layout::Placed;

pub(super) fn compare(old: &Build<'_, '_>, new: &Build<'_, '_>, jobs: NonZeroUsize) -> CodeDiff {
    let matched = matching::functions(old, new);
    let meaning = Meaning::new(old, new, &matched);
    let both = &matched.pairing.both;
    let outcomes = parallel::map(both.len(), jobs, |number| {
        let (was, is) = both[number];
        one(old, new, &meaning, was, is)
    });
    let mut diff = CodeDiff::default();
    for (&(was, is), outcome) in both.iter().zip(outcomes) {
        let sizes = (
            old.functions[was].symbol.size,
            new.functions[is].symbol.size,
        );
        count(&mut diff, shown(&new.functions[is]), sizes, outcome);
    }
    for list in [&mut diff.changed, &mut diff.other_constants] {
        list.sort_by(|a, b| {
            let rank = |change: &FunctionChange| (!is_own(&change.name), change.name.clone());
            rank(a).cmp(&rank(b))
        });
    }
    let change = |object: &Placed<'_>, is_new: bool| SymbolChange {
        name: shown(object),
        section: object.section.to_owned(),
        old_size: (!is_new).then_some(object.symbol.size),
        new_size: is_new.then_some(object.symbol.size),
    };
    let vanished = matched.pairing.vanished.iter();
    diff.vanished = vanished
        .map(|&at| change(&old.functions[at], false))
        .collect();
    let appeared = matched.pairing.appeared.iter();
    diff.appeared = appeared
        .map(|&at| change(&new.functions[at], true))
        .collect();
    diff
}

/// Its name; of a part of a function with what tells it from the rest (`.cold`).
fn shown(function: &Placed<'_>) -> String {
    let symbol = &function.symbol;
    let suffix = symbol.suffix.as_deref().unwrap_or_default();
    let suffix = suffix.split_once(".llvm.").map_or(suffix, |(part, _)| part);
    format!("{}{suffix}", symbol.name)
}

enum Outcome {
    /// Nothing in it differs: its instructions.
    Identical(u64),
    Compared(Comparison),
    Unreadable,
}

fn one(
    old: &Build<'_, '_>,
    new: &Build<'_, '_>,
    meaning: &Meaning<'_, '_>,
    was: usize,
    is: usize,
) -> Outcome {
    let readable = old.shapes[was].is_some() && new.shapes[is].is_some();
    let (Some(old), Some(new), true) = (old.code(was), new.code(is), readable) else {
        return Outcome::Unreadable;
    };
    let comparison = compare_code(old, new, meaning);
    let same = comparison.difference.is_none() && comparison.contents.is_none();
    if same && comparison.addresses == 0 && old.bytes == new.bytes {
        return Outcome::Identical(comparison.new_instructions);
    }
    Outcome::Compared(comparison)
}

/// Adds a function to what is said of all.
fn count(diff: &mut CodeDiff, name: String, sizes: (u64, u64), outcome: Outcome) {
    let comparison = match outcome {
        Outcome::Identical(n) => {
            diff.identical += 1;
            diff.same_instructions += n;
            return;
        }
        Outcome::Unreadable => {
            diff.changed.push(FunctionChange {
                name: name.clone(),
                old_instructions: 0,
                new_instructions: 0,
                first: None,
                why: format!(
                    "its bytes cannot be read ({} and {} of them)",
                    sizes.0, sizes.1
                ),
            });
            return;
        }
        Outcome::Compared(comparison) => comparison,
    };
    let change = |first, why: &str| FunctionChange {
        name: name.clone(),
        old_instructions: comparison.old_instructions,
        new_instructions: comparison.new_instructions,
        first: Some(first),
        why: why.to_owned(),
    };
    match (&comparison.difference, comparison.contents) {
        (Some(difference), _) => {
            let first = (difference.old, difference.new);
            diff.changed.push(change(first, difference.why));
        }
        (None, Some(first)) => {
            let why = "the constant that it points to has other bytes";
            diff.other_constants.push(change(first, why));
        }
        (None, None) => {
            let n = comparison.new_instructions;
            diff.but_for_addresses += 1;
            diff.same_instructions += n;
            let more = diff.largest_same.as_ref().is_none_or(|(_, most)| n > *most);
            if more && comparison.addresses > 0 {
                diff.largest_same = Some((name, n));
            }
        }
    }
}
