//! Linker names → names that people read.

use std::borrow::Cow;

/// What compilers append to the name of a copy or a part of something.
const SUFFIXES: [&str; 8] = [
    ".lto_priv",
    ".constprop.",
    ".isra.",
    ".part.",
    ".cold",
    ".llvm.",
    ".localalias",
    ".warm",
];

/// Longer names are shown as they are: demangling could take any time and space.
const LONGEST: usize = 8 << 10;

/// Splits a linker name into the name proper and what a compiler appended (`.lto_priv.0`, `.cold`, `.0`).
pub(crate) fn split_suffix(raw: &str) -> (&str, Option<&str>) {
    let unversioned = raw.split_once('@').map_or(raw, |(name, _)| name);
    let mut end = SUFFIXES
        .iter()
        .filter_map(|suffix| unversioned.find(suffix))
        .min()
        .unwrap_or(unversioned.len());
    // A C compiler numbers the statics of functions.
    while let Some((name, number)) = unversioned[..end].rsplit_once('.') {
        if name.is_empty() || number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
            break;
        }
        end = name.len();
    }
    if end == 0 {
        return (unversioned, None);
    }
    let (name, suffix) = unversioned.split_at(end);
    (name, (!suffix.is_empty()).then_some(suffix))
}

/// The readable form of a linker name, without hashes, parameters and compiler suffixes.
pub(crate) fn demangle(raw: &str) -> Cow<'_, str> {
    let (name, _) = split_suffix(raw);
    if name.len() > LONGEST {
        return Cow::Borrowed(name);
    }
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return Cow::Owned(format!("{rust:#}"));
    }
    if name.starts_with("_Z") {
        let options = cpp_demangle::DemangleOptions::new()
            .no_params()
            .no_return_type();
        if let Some(cpp) = cpp_demangle::Symbol::new(name)
            .ok()
            .and_then(|symbol| symbol.demangle_with_options(&options).ok())
        {
            return Cow::Owned(cpp);
        }
    }
    Cow::Borrowed(name)
}
