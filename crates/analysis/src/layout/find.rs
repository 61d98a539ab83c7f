//! What a user calls something → where it is.

use std::num::NonZeroUsize;

use hitm_binary::debug::{Catalog, CatalogEntry, DebugInfo};
use hitm_binary::image::{Image, SymbolKind};
use hitm_model::{Focus, LineSize, Svma};

use super::map::{Placed, objects_in, thread_locals};
use crate::named::{GUARD, split_path};

/// What a name means.
#[derive(Debug)]
pub enum Found {
    /// Places in the data; several where several variables have the name.
    Places(Vec<Focus>),
    /// Types, and the path of a field of them, empty for none.
    Types(Vec<CatalogEntry>, String),
}

/// That nothing has the name, with names that are like it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no variable, type or field `{name}`{}", also(.similar))]
pub struct NotFound {
    /// What was looked for.
    pub name: String,
    /// Names that have it in them.
    pub similar: Vec<String>,
}

fn also(similar: &[String]) -> String {
    match similar {
        [] => String::new(),
        names => format!("; there is {}", names.join(", ")),
    }
}

/// So many similar names are shown.
const MOST_SIMILAR: usize = 5;

/// Finds what a name means: an address (`0x…`), a variable, a type, or a field of either
/// (`server.clients[1].flags`, `Ring.head`, `ring::Ring::head`). A variable goes before a type.
///
/// # Errors
/// If nothing has the name.
pub fn find(
    image: &Image<'_>,
    catalog: Option<&Catalog<'_>>,
    debug: Option<&DebugInfo<'_>>,
    name: &str,
    only_types: bool,
    line_size: LineSize,
    jobs: NonZeroUsize,
) -> Result<Found, NotFound> {
    let name = name.trim();
    if let Some(address) = address(name).filter(|_| !only_types) {
        return Ok(Found::Places(vec![at_address(
            image, debug, address, line_size,
        )]));
    }
    let (base, path) = split_path(name);
    let mut names = Vec::new();
    if !only_types {
        let places = places(image, debug, base, path, line_size, &mut names);
        if !places.is_empty() {
            return Ok(Found::Places(places));
        }
    }
    if let Some(catalog) = catalog {
        let types = catalog.named(base, jobs);
        if !types.is_empty() {
            return Ok(Found::Types(types, path.to_owned()));
        }
        // `ring::Ring::head`: as the language itself writes it.
        if let Some((base, field)) = base.rsplit_once("::").filter(|_| path.is_empty()) {
            let types = catalog.named(base, jobs);
            if !types.is_empty() {
                return Ok(Found::Types(types, field.to_owned()));
            }
        }
    }
    names.sort();
    names.dedup();
    names.truncate(MOST_SIMILAR);
    Err(NotFound {
        name: name.to_owned(),
        similar: names,
    })
}

fn address(name: &str) -> Option<Svma> {
    let digits = name
        .strip_prefix("0x")
        .or_else(|| name.strip_prefix("0X"))?;
    u64::from_str_radix(digits, 16).ok().map(Svma)
}

fn at_address(
    image: &Image<'_>,
    debug: Option<&DebugInfo<'_>>,
    address: Svma,
    line_size: LineSize,
) -> Focus {
    let known = debug.and_then(|debug| debug.global_at(address));
    let named = known.map(|global| (global.name, global.svma));
    let named = named.or_else(|| {
        let symbol = image.symbol_at(address)?;
        Some((symbol.name, symbol.svma))
    });
    let name = match named.and_then(|(name, start)| Some((name, address.offset_from(start)?))) {
        Some((name, 0)) => name,
        Some((name, offset)) => format!("{name} + {offset}"),
        None => address.to_string(),
    };
    Focus {
        name,
        address,
        size: 0,
        type_name: None,
        lines: lines(address, 1, line_size),
        thread_local: false,
    }
}

fn places(
    image: &Image<'_>,
    debug: Option<&DebugInfo<'_>>,
    base: &str,
    path: &str,
    line_size: LineSize,
    similar: &mut Vec<String>,
) -> Vec<Focus> {
    let sections: Vec<_> = image.sections();
    let data: Vec<_> = sections.into_iter().filter(|s| !s.executable).collect();
    let mut candidates = objects_in(image, &data);
    candidates.extend(thread_locals(image));
    let wanted = plain(base);
    let mut exact = Vec::new();
    let mut by_end = Vec::new();
    for object in &candidates {
        let name = plain(&object.symbol.name);
        if object.symbol.raw == base || name == wanted {
            exact.push(object);
        } else if name
            .strip_suffix(&wanted)
            .is_some_and(|before| before.ends_with("::"))
        {
            by_end.push(object);
        } else if wanted.len() > 2 && name.contains(&wanted) && similar.len() < 64 {
            similar.push(object.name());
        }
    }
    // What the linker calls otherwise than the source: `main::counter` for a static of a C function.
    let found = if exact.is_empty() { by_end } else { exact };
    found
        .into_iter()
        .filter_map(|object| focus(debug, object, path, line_size))
        .collect()
}

fn focus(
    debug: Option<&DebugInfo<'_>>,
    object: &Placed<'_>,
    path: &str,
    line_size: LineSize,
) -> Option<Focus> {
    let symbol = &object.symbol;
    let thread_local = symbol.kind == SymbolKind::ThreadLocal;
    let global = debug.and_then(|debug| match thread_local {
        true => debug.thread_local_at(symbol.svma.0),
        false => debug.global_at(symbol.svma),
    });
    let global = global.filter(|global| global.svma == symbol.svma);
    let ty = global.as_ref().and_then(|global| global.ty);
    let mut address = symbol.svma;
    let mut size = symbol.size;
    let mut shown = ty;
    if !path.is_empty() {
        let place = debug?.place_of(ty?, path)?;
        address = address.wrapping_add(place.offset);
        size = place.size.unwrap_or(0);
        shown = Some(place.ty);
    }
    let name = global.map_or_else(|| object.name(), |global| global.name);
    Some(Focus {
        name: format!("{name}{path}"),
        address,
        size,
        type_name: shown.zip(debug).map(|(ty, debug)| debug.type_name(ty)),
        lines: lines(address, size.max(1), line_size),
        thread_local,
    })
}

fn lines(address: Svma, size: u64, line_size: LineSize) -> u64 {
    let bytes = u64::from(line_size.bytes());
    let last = address.0.saturating_add(size.saturating_sub(1));
    last / bytes - address.0 / bytes + 1
}

/// A name as hitm writes it elsewhere: without blanks, and without the empty parameters that linkers' names have.
fn plain(name: &str) -> String {
    let name = name.replace("()", "").replace("guard variable for ", GUARD);
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}
