//! Members that went over a line border.

use hitm_binary::debug::{Catalog, CatalogEntry, TypeLayout};
use hitm_model::{LineSize, MemberMove, TypeChange, TypesDiff};
use rustc_hash::{FxHashMap, FxHashSet};

use super::DiffOptions;
use super::names::is_own;

pub(super) fn compare(old: &Catalog<'_>, new: &Catalog<'_>, options: &DiffOptions) -> TypesDiff {
    let (old_all, new_all) = (old.all(options.jobs), new.all(options.jobs));
    let by_name = |all: &'_ [CatalogEntry]| {
        let mut map: FxHashMap<String, Vec<usize>> = FxHashMap::default();
        for (number, entry) in all.iter().enumerate() {
            map.entry(entry.path.clone()).or_default().push(number);
        }
        map
    };
    let old_names = by_name(&old_all);
    let key = |entry: &CatalogEntry| (entry.size, entry.content);
    let mut diff = TypesDiff::default();
    let (mut changed_old, mut changed_new) = (Vec::new(), Vec::new());
    let mut names: Vec<(String, Vec<usize>)> = by_name(&new_all).into_iter().collect();
    names.sort();
    for (name, news) in names {
        let Some(olds) = old_names.get(&name) else {
            continue;
        };
        diff.both += 1;
        let was: FxHashSet<_> = olds.iter().map(|&at| key(&old_all[at])).collect();
        let is: FxHashSet<_> = news.iter().map(|&at| key(&new_all[at])).collect();
        let gone: Vec<usize> = olds
            .iter()
            .copied()
            .filter(|&at| !is.contains(&key(&old_all[at])))
            .collect();
        let come: Vec<usize> = news
            .iter()
            .copied()
            .filter(|&at| !was.contains(&key(&new_all[at])))
            .collect();
        match (gone.as_slice(), come.as_slice()) {
            ([], _) | (_, []) => {}
            ([one], [other]) => {
                changed_old.push(old_all[*one].clone());
                changed_new.push(new_all[*other].clone());
            }
            _ => diff.ambiguous += 1,
        }
    }
    let old_debug = old.debug();
    let new_debug = new.debug();
    for (was, is) in changed_old.iter().zip(&changed_new) {
        let layouts = (
            old_debug.layout_called(was.ty, &was.path),
            new_debug.layout_called(is.ty, &is.path),
        );
        if let (Some(was), Some(is)) = layouts {
            diff.changed.extend(change(&was, &is, options.line_size));
        }
    }
    diff.changed.sort_by_key(|change| {
        let quiet = change.moved.is_empty() && change.joined.is_empty() && change.parted.is_empty();
        (quiet, !is_own(&change.name), change.name.clone())
    });
    diff
}

/// The first and the last byte of each member, by its name.
fn members(layout: &TypeLayout) -> Vec<(String, u64, u64)> {
    let plain = layout.members.iter().map(|member| (None, member));
    let of_variants = layout.variants.iter().flat_map(|variant| {
        let members = variant.members.iter();
        members.map(|member| (Some(variant.name.as_str()), member))
    });
    plain
        .chain(of_variants)
        .map(|(variant, member)| {
            let name = match (&member.name, member.role) {
                (Some(name), _) => name.clone(),
                (None, hitm_binary::debug::MemberRole::Field) => member.type_name.clone(),
                (None, hitm_binary::debug::MemberRole::Base) => {
                    format!("(base {})", member.type_name)
                }
                (None, _) => "(discriminant)".to_owned(),
            };
            let name = variant.map_or(name.clone(), |variant| format!("{variant}.{name}"));
            let (start, end) = member.bytes();
            (name, start, end.max(start + 1) - 1)
        })
        .collect()
}

/// What became of a type; `None` if its members are where they were.
fn change(old: &TypeLayout, new: &TypeLayout, line_size: LineSize) -> Option<TypeChange> {
    /// Pairs of members are looked at in types of at most so many.
    const MOST: usize = 256;
    let bytes = u64::from(line_size.bytes());
    let (was, is) = (members(old), members(new));
    let old_by_name: FxHashMap<&str, (u64, u64)> = was
        .iter()
        .map(|(name, start, last)| (name.as_str(), (*start, *last)))
        .collect();
    let new_names: FxHashSet<&str> = is.iter().map(|(name, ..)| name.as_str()).collect();
    let mut change = TypeChange {
        name: new.name.clone(),
        old_size: old.size,
        new_size: new.size,
        moved: Vec::new(),
        joined: Vec::new(),
        parted: Vec::new(),
        appeared: Vec::new(),
        vanished: Vec::new(),
    };
    let vanished = was
        .iter()
        .filter(|(name, ..)| !new_names.contains(name.as_str()));
    change.vanished = vanished.map(|(name, ..)| name.clone()).collect();
    let mut both = Vec::new();
    for (name, start, last) in &is {
        match old_by_name.get(name.as_str()) {
            None => change.appeared.push(name.clone()),
            Some(&before) => {
                let now = (*start, *last);
                if before.0 / bytes != now.0 / bytes {
                    change.moved.push(MemberMove {
                        name: name.clone(),
                        old: before.0,
                        new: now.0,
                    });
                }
                both.push((name, before, now));
            }
        }
    }
    both.truncate(MOST);
    for (i, (a, a_old, a_new)) in both.iter().enumerate() {
        for (b, b_old, b_new) in &both[i + 1..] {
            let share = |x: &(u64, u64), y: &(u64, u64)| {
                x.0 / bytes <= y.1 / bytes && y.0 / bytes <= x.1 / bytes
            };
            let names = || ((*a).clone(), (*b).clone());
            match (share(a_old, b_old), share(a_new, b_new)) {
                (false, true) => change.joined.push(names()),
                (true, false) => change.parted.push(names()),
                _ => {}
            }
        }
    }
    let same = old.size == new.size
        && change.appeared.is_empty()
        && change.vanished.is_empty()
        && both.iter().all(|(_, before, now)| before == now);
    (!same).then_some(change)
}
