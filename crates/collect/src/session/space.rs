//! What is mapped in one address space, as far as it was told.

use std::collections::BTreeMap;

use hitm_model::{Avma, AvmaRange, Mapping, MappingKind};

/// The mappings of an address space; a later one covers what was there. Nobody reports `munmap`, so what is gone stays
/// until something else is mapped there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mappings {
    by_start: BTreeMap<Avma, Mapping>,
}

/// More mappings than the kernel allows a process by default (`vm.max_map_count`) are not kept.
const MOST: usize = 65_530;

impl Mappings {
    /// The mapping that holds `address`.
    pub(crate) fn at(&self, address: Avma) -> Option<&Mapping> {
        let (_, mapping) = self.by_start.range(..=address).next_back()?;
        mapping.range.contains(address).then_some(mapping)
    }

    /// Those that start before `address`, the nearest first.
    pub(crate) fn before(&self, address: Avma) -> impl Iterator<Item = &Mapping> {
        self.by_start
            .range(..address)
            .rev()
            .map(|(_, mapping)| mapping)
    }

    /// Whether this very mapping is there. A build-id that is not known is no difference.
    pub(crate) fn has(&self, mapping: &Mapping) -> bool {
        self.at(mapping.range.start)
            .is_some_and(|known| same(known, mapping))
    }

    /// Whether anything is known in `range`.
    pub(crate) fn overlaps(&self, range: AvmaRange) -> bool {
        self.by_start
            .range(..range.end)
            .next_back()
            .is_some_and(|(_, known)| known.range.end > range.start)
    }

    /// Maps something, over whatever was there.
    pub(crate) fn insert(&mut self, mapping: Mapping) {
        let AvmaRange { start, end } = mapping.range;
        if mapping.range.is_empty() {
            return;
        }
        let covered: Vec<Avma> = self
            .by_start
            .range(..end)
            .rev()
            .take_while(|(_, known)| known.range.end > start)
            .map(|(&at, _)| at)
            .collect();
        for at in covered {
            let Some(known) = self.by_start.remove(&at) else {
                continue;
            };
            if known.range.start < start {
                let left = part(&known, AvmaRange::new(known.range.start, start));
                self.by_start.insert(left.range.start, left);
            }
            if known.range.end > end {
                let right = part(&known, AvmaRange::new(end, known.range.end));
                self.by_start.insert(right.range.start, right);
            }
        }
        if self.by_start.len() < MOST {
            self.by_start.insert(start, mapping);
        }
    }
}

fn same(known: &Mapping, other: &Mapping) -> bool {
    let same_kind = match (&known.kind, &other.kind) {
        (
            MappingKind::File { path, offset, .. },
            MappingKind::File {
                path: other_path,
                offset: other_offset,
                ..
            },
        ) => path == other_path && offset == other_offset,
        (known, other) => known == other,
    };
    same_kind
        && known.range == other.range
        && known.executable == other.executable
        && known.writable == other.writable
}

/// The part of a mapping that is in `range`.
fn part(mapping: &Mapping, range: AvmaRange) -> Mapping {
    let mut part = mapping.clone();
    let skipped = range.start.offset_from(mapping.range.start).unwrap_or(0);
    if let MappingKind::File { offset, .. } = &mut part.kind {
        *offset = offset.wrapping_add(skipped);
    }
    part.range = range;
    part
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(start: u64, end: u64, path: &str) -> Mapping {
        Mapping {
            range: AvmaRange::new(Avma(start), Avma(end)),
            kind: MappingKind::File {
                path: path.into(),
                offset: start,
                build_id: None,
            },
            executable: false,
            writable: true,
        }
    }

    proptest! {
        /// The oracle is an array with the last mapping of every address.
        #[test]
        fn the_last_mapping_of_an_address_is_found(ranges in prop::collection::vec((0u64..60, 1u64..30), 1..20)) {
            let mut mappings = Mappings::default();
            let mut oracle = [None; 100];
            for (i, &(start, len)) in ranges.iter().enumerate() {
                mappings.insert(file(start, start + len, &i.to_string()));
                oracle[start as usize..(start + len) as usize].fill(Some(i));
            }
            for (address, want) in oracle.iter().enumerate() {
                let got = mappings.at(Avma(address as u64));
                let MappingKind::File { path, offset, .. } = got.map_or_else(
                    || MappingKind::File { path: String::new(), offset: 0, build_id: None },
                    |mapping| mapping.kind.clone(),
                ) else { unreachable!() };
                prop_assert_eq!(path, want.map_or_else(String::new, |i| i.to_string()));
                // Offset and address were the same at first, so they stay the same in every part.
                prop_assert_eq!(offset, got.map_or(0, |mapping| mapping.range.start.0));
                let one = AvmaRange::new(Avma(address as u64), Avma(address as u64 + 1));
                prop_assert_eq!(mappings.overlaps(one), want.is_some());
            }
        }
    }
}
