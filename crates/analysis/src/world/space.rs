//! What is mapped in an address space.

use std::collections::BTreeMap;

use hitm_model::{Avma, Mapping, Pid};

/// An address space: mappings that do not overlap, by their start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Space {
    pub(crate) pid: Option<Pid>,
    /// The path of the program: the kernel maps it before all else.
    pub(crate) program: Option<String>,
    mappings: BTreeMap<Avma, Mapping>,
}

impl Space {
    /// Maps something over whatever was there.
    pub(crate) fn map(&mut self, mapping: Mapping) {
        let range = mapping.range;
        if range.is_empty() {
            return;
        }
        if let hitm_model::MappingKind::File { path, .. } = &mapping.kind {
            self.program.get_or_insert_with(|| path.clone());
        }
        // The one that begins before may reach in; those that begin inside are covered or cut at their start.
        let touched: Vec<Avma> = self
            .mappings
            .range(..range.start)
            .next_back()
            .filter(|(_, before)| before.range.end > range.start)
            .map(|(start, _)| *start)
            .into_iter()
            .chain(
                self.mappings
                    .range(range.start..range.end)
                    .map(|(start, _)| *start),
            )
            .collect();
        for start in touched {
            let Some(old) = self.mappings.remove(&start) else {
                continue;
            };
            if old.range.start < range.start {
                let mut left = old.clone();
                left.range.end = range.start;
                self.mappings.insert(left.range.start, left);
            }
            if old.range.end > range.end {
                let mut right = old;
                advance(&mut right, range.end);
                self.mappings.insert(right.range.start, right);
            }
        }
        self.mappings.insert(range.start, mapping);
    }

    /// The mapping that holds `address`.
    pub(crate) fn at(&self, address: Avma) -> Option<&Mapping> {
        let (_, mapping) = self.mappings.range(..=address).next_back()?;
        mapping.range.contains(address).then_some(mapping)
    }

    /// The mappings of one file in order of address.
    pub(crate) fn of_file<'s>(&'s self, path: &'s str) -> impl Iterator<Item = &'s Mapping> {
        self.mappings()
            .filter(move |mapping| mapping.file().is_some_and(|(of, _)| of == path))
    }

    /// All mappings in order of address.
    pub(crate) fn mappings(&self) -> impl Iterator<Item = &Mapping> {
        self.mappings.values()
    }
}

/// Cuts the start of a mapping off.
fn advance(mapping: &mut Mapping, start: Avma) {
    let cut = start.0 - mapping.range.start.0;
    mapping.range.start = start;
    if let hitm_model::MappingKind::File { offset, .. } = &mut mapping.kind {
        *offset += cut;
    }
}

#[cfg(test)]
mod tests {
    use hitm_model::{AvmaRange, MappingKind};

    use super::*;

    fn file(start: u64, end: u64, offset: u64) -> Mapping {
        Mapping {
            range: AvmaRange::new(Avma(start), Avma(end)),
            kind: MappingKind::File {
                path: "a".into(),
                offset,
                build_id: None,
            },
            executable: false,
            writable: true,
        }
    }

    #[track_caller]
    fn check(maps: &[(u64, u64, u64)], expected: &str) {
        let mut space = Space::default();
        for &(start, end, offset) in maps {
            space.map(file(start, end, offset));
        }
        let text: Vec<String> = space
            .mappings()
            .map(|mapping| match &mapping.kind {
                MappingKind::File { offset, .. } => format!("{} @{offset:#x}", mapping.range),
                _ => String::new(),
            })
            .collect();
        assert_eq!(text.join(", "), expected);
    }

    #[test]
    fn a_new_mapping_covers_what_was_there() {
        check(&[(0x1000, 0x3000, 0)], "0x1000..0x3000 @0x0");
        check(
            &[(0x1000, 0x3000, 0), (0x1000, 0x3000, 0x10)],
            "0x1000..0x3000 @0x10",
        );
        check(
            &[(0x1000, 0x4000, 0), (0x2000, 0x3000, 0x8000)],
            "0x1000..0x2000 @0x0, 0x2000..0x3000 @0x8000, 0x3000..0x4000 @0x2000",
        );
        check(
            &[(0x2000, 0x4000, 0), (0x1000, 0x3000, 0x8000)],
            "0x1000..0x3000 @0x8000, 0x3000..0x4000 @0x1000",
        );
        check(
            &[
                (0x1000, 0x2000, 0),
                (0x2000, 0x3000, 0x5000),
                (0x1800, 0x2800, 0x9000),
            ],
            "0x1000..0x1800 @0x0, 0x1800..0x2800 @0x9000, 0x2800..0x3000 @0x5800",
        );
        check(&[(0x2000, 0x2000, 0)], "");
    }
}
