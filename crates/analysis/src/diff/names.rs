//! Whose a name is.

use crate::named::GUARD;

/// Whether something is the program's own, not one of a language's library or of the start-up code.
pub(super) fn is_own(name: &str) -> bool {
    let name = name
        .strip_prefix(GUARD)
        .unwrap_or(name)
        .trim_start_matches('<');
    let foreign = ["std::", "core::", "alloc::", "__", "_IO_", "completed"];
    !foreign.iter().any(|prefix| name.starts_with(prefix))
}
