//! Whether variables moved as they were asked to: read from the files that came out, not from what the linker was told.

use std::collections::{BTreeMap, HashMap, HashSet};

use hitm_binary::image::{Image, SymbolKind};
use hitm_binary::relocatable::{PAD_BSS, PAD_DATA};
use hitm_experiment::shake::{Moved, SectionMoved};

/// What is before all objects, or is no variable: it never moves.
const NOT_MOVED: [&str; 11] = [
    PAD_DATA,
    PAD_BSS,
    "completed.0",
    "__dso_handle",
    "__data_start",
    "data_start",
    "__bss_start",
    "_edata",
    "edata",
    "_end",
    "__TMC_END__",
];

/// Where the variables of a build are: by section and linker's name. Names that several have are left out, and so are those of
/// libraries of the system, if it is known which are the program's own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Places {
    by_section: BTreeMap<String, BTreeMap<String, u64>>,
}

/// Of each variable its name, its line from the first of the section on, and where it is in the line.
pub(super) type Signature = Vec<(String, u64, u64)>;

impl Places {
    pub(super) fn of(image: &Image<'_>, own: &HashSet<String>) -> Self {
        let places = Self::of_those(image, &|name| own.contains(name));
        match places.is_empty() {
            // What is made in the link has other names.
            true => Self::of_those(image, &|_| true),
            false => places,
        }
    }

    fn of_those(image: &Image<'_>, wanted: &dyn Fn(&str) -> bool) -> Self {
        let mut seen: HashMap<String, Option<(String, u64)>> = HashMap::new();
        for symbol in image.symbols_of(SymbolKind::Data) {
            let Some(section) = image
                .section_at(symbol.svma)
                .filter(|name| is_shifted(name))
            else {
                continue;
            };
            if !wanted(&symbol.raw) {
                continue;
            }
            // What begins so is the compiler's, and never written.
            if NOT_MOVED.contains(&symbol.raw.as_str()) || symbol.raw.starts_with("DW.ref.") {
                continue;
            }
            let place = Some((section.to_owned(), symbol.svma.0));
            seen.entry(symbol.raw)
                .and_modify(|known| {
                    if *known != place {
                        *known = None;
                    }
                })
                .or_insert(place);
        }
        let mut by_section: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for (name, place) in seen {
            if let Some((section, at)) = place {
                by_section.entry(section).or_default().insert(name, at);
            }
        }
        Self { by_section }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_section.is_empty()
    }

    /// Two builds with equal signatures have the same variables on the same lines.
    pub(super) fn signature(&self, unit: u32) -> Signature {
        let unit = u64::from(unit);
        let mut all = Vec::new();
        for section in self.by_section.values() {
            let first = section.values().min().map_or(0, |at| at / unit);
            let places = section.iter();
            all.extend(places.map(|(name, at)| (name.clone(), at / unit - first, at % unit)));
        }
        all
    }

    /// How the variables of each section moved within a unit of so many bytes.
    pub(super) fn moved_to(&self, new: &Self, unit: u32) -> Vec<SectionMoved> {
        let mut all = Vec::new();
        for (section, old) in &self.by_section {
            let Some(new) = new.by_section.get(section) else {
                continue;
            };
            let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
            for (name, at) in old {
                if let Some(now) = new.get(name) {
                    let by = now.wrapping_sub(*at) % u64::from(unit);
                    *counts.entry(by as u32).or_default() += 1;
                }
            }
            let variables = counts.values().sum();
            // Of several that are as frequent, the least.
            let most = counts.iter().rev().max_by_key(|(_, count)| **count);
            if let Some((&bytes, &agree)) = most {
                all.push(SectionMoved {
                    section: section.clone(),
                    variables,
                    bytes,
                    agree,
                    moved: variables - counts.get(&0).copied().unwrap_or(0),
                });
            }
        }
        all
    }
}

/// Sections that padding moves.
fn is_shifted(section: &str) -> bool {
    [".data", ".bss"].contains(&section)
}

/// What became of a variant with these sections.
pub(super) fn summary(sections: Vec<SectionMoved>) -> Moved {
    match sections.is_empty() {
        true => Moved::NotKnown,
        false => Moved::Sections(sections),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(section: &str, all: &[(&str, u64)]) -> Places {
        let all = all.iter().map(|(name, at)| ((*name).to_owned(), *at));
        Places {
            by_section: [(section.to_owned(), all.collect())].into(),
        }
    }

    #[test]
    fn most_variables_say_how_far_a_section_moved() {
        let old = places(
            ".bss",
            &[("a", 0x1000), ("b", 0x1008), ("c", 0x1040), ("gone", 0)],
        );
        let new = places(
            ".bss",
            &[("a", 0x2008), ("b", 0x2010), ("c", 0x2080), ("new", 0)],
        );
        let moved = old.moved_to(&new, 64);
        let expected = SectionMoved {
            section: ".bss".into(),
            variables: 3,
            bytes: 8,
            agree: 2,
            moved: 2,
        };
        assert_eq!(moved, [expected]);
    }

    #[test]
    fn whole_lines_change_nothing_and_parts_of_lines_do() {
        let old = places(".bss", &[("a", 0x1000), ("b", 0x1008)]);
        let lines = places(".bss", &[("a", 0x1080), ("b", 0x1088)]);
        let part = places(".bss", &[("a", 0x1038), ("b", 0x1040)]);
        assert_eq!(old.signature(64), lines.signature(64));
        assert_ne!(old.signature(64), part.signature(64));
        assert_eq!(old.signature(128), lines.signature(128));
    }
}
