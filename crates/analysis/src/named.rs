//! What people and hitm write for a variable or a part of one.

/// What stands before the name of a variable for what guards its initialisation.
pub(crate) const GUARD: &str = "guard of ";

/// `server.clients[1]` → `server`, `.clients[1]`. What is in brackets of other kinds is a part of the name.
pub(crate) fn split_path(name: &str) -> (&str, &str) {
    let mut depth = 0i32;
    let mut before = ' ';
    for (at, c) in name.char_indices() {
        match c {
            '<' | '(' | '{' => depth += 1,
            '>' if before != '-' => depth -= 1,
            ')' | '}' => depth -= 1,
            '.' | '[' if depth == 0 && at > 0 => return name.split_at(at),
            _ => {}
        }
        before = c;
    }
    (name, "")
}
