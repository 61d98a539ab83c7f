//! Names as people write them: without the modules of standard libraries and without default arguments.

/// A Rust type: `alloc::sync::Arc<r::Config, alloc::alloc::Global>` → `Arc<Config>`.
pub(super) fn rust_type(name: &str) -> String {
    let name = name.replace(", alloc::alloc::Global", "");
    shorten(&name, last_of_type)
}

/// What the containers of C++'s standard library have as last arguments unless somebody asks for something else.
const DEFAULTS: [&str; 5] = [
    ", std::allocator<",
    ", std::default_delete<",
    ", std::less<",
    ", std::equal_to<",
    ", std::hash<",
];

/// A C++ type: `std::vector<int, std::allocator<int> >` → `std::vector<int>`.
pub(super) fn cpp_type(name: &str) -> String {
    let mut name = name.replace("__cxx11::", "").replace("__1::", "");
    for default in DEFAULTS {
        // The first one has nothing before it that could be inside it.
        while let Some(start) = name.find(default) {
            let mut depth = 0usize;
            let end = name[start..].char_indices().find_map(|(at, c)| {
                match c {
                    '<' => depth += 1,
                    '>' => depth = depth.saturating_sub(1),
                    _ => return None,
                }
                (c == '>' && depth == 0).then_some(start + at + 1)
            });
            let Some(end) = end else { break };
            name.replace_range(start..end, "");
        }
    }
    name.replace(" >", ">").replace(
        "std::basic_string<char, std::char_traits<char>>",
        "std::string",
    )
}

/// A Rust function: `<alloc::sync::Arc<r::Config> as core::clone::Clone>::clone` → `<Arc<r::Config> as Clone>::clone`,
/// `core::sync::atomic::AtomicU64::fetch_add` → `AtomicU64::fetch_add`.
pub(super) fn rust_function(name: &str) -> String {
    let name = name.replace(", alloc::alloc::Global", "");
    let short = shorten(&name, last_of_function);
    // `<Mutex<T>>::lock` is a method of the type itself.
    match short
        .strip_prefix('<')
        .and_then(|rest| rest.split_once(">::"))
    {
        Some((ty, method)) if !short.contains(" as ") && !ty.contains(['<', '&', '[', '*']) => {
            format!("{ty}::{method}")
        }
        _ => short,
    }
}

/// Replaces each path in a name.
fn shorten(name: &str, replace: fn(&str) -> &str) -> String {
    let mut short = String::with_capacity(name.len());
    let mut path = String::new();
    let mut braces = 0usize;
    for c in name.chars() {
        match c {
            '{' => braces += 1,
            '}' => braces = braces.saturating_sub(1),
            _ => {}
        }
        let in_path = braces > 0 || matches!(c, ':' | '_' | '#' | '{' | '}') || c.is_alphanumeric();
        if in_path {
            path.push(c);
        } else {
            short.push_str(replace(&path));
            path.clear();
            short.push(c);
        }
    }
    short.push_str(replace(&path));
    short
}

fn is_standard(path: &str) -> bool {
    ["core::", "alloc::", "std::"]
        .iter()
        .any(|root| path.starts_with(root))
}

/// The end of a path that starts with a type's name, or the last two parts where the last one is a closure or such.
fn last_of_type(path: &str) -> &str {
    // What goes on after a closing bracket is a part of the path before it.
    if path.starts_with("::") {
        return path;
    }
    let mut start = path.rfind("::").map_or(0, |at| at + 2);
    while path[start..].starts_with('{') && start > 0 {
        start = path[..start - 2].rfind("::").map_or(0, |at| at + 2);
    }
    &path[start..]
}

/// A path into a standard library from its type on, or its last two parts; other paths stay whole.
fn last_of_function(path: &str) -> &str {
    if !is_standard(path) {
        return path;
    }
    let parts = path.split("::").scan(0, |at, part| {
        let start = *at;
        *at += part.len() + 2;
        Some((start, part))
    });
    let upper = parts
        .clone()
        .find(|(_, part)| part.starts_with(|c: char| c.is_uppercase()));
    let start = match upper {
        Some((start, _)) => start,
        None => {
            let starts: Vec<usize> = parts.map(|(start, _)| start).collect();
            starts[starts.len().saturating_sub(2)]
        }
    };
    &path[start..]
}
