//! All types of a file, and those of one name, found by several threads.
//!
//! Types are repeated in each unit that uses them. Two entries with the same name, size and members are one type here.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gimli::{Dwarf, UnitHeader};
use rustc_hash::FxHashMap;

use super::index::hash;
use super::scan::{Defined, Scan, Wanted};
use super::units::{DieId, Units};
use super::{DebugInfo, TypeId, TypeLayout};
use crate::BinaryError;
use crate::image::{Image, Slice};

/// The debug information of an image, for types only.
pub struct Catalog<'i> {
    image: &'i Image<'i>,
    dwarf: Arc<Dwarf<Slice<'i>>>,
    headers: Vec<UnitHeader<Slice<'i>>>,
    /// Where each of them starts.
    starts: Vec<u64>,
    damaged: AtomicBool,
    split: AtomicBool,
}

/// A type that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CatalogEntry {
    /// The type.
    pub ty: TypeId,
    /// Its name with namespaces, as the compiler wrote it.
    pub path: String,
    /// Its size in bytes; `None` where the name is another name of a type.
    pub size: Option<u64>,
    /// The same for types with the same members at the same places.
    pub content: u64,
}

impl std::fmt::Debug for Catalog<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalog")
            .field("image", self.image)
            .field("units", &self.headers.len())
            .finish_non_exhaustive()
    }
}

impl<'i> Catalog<'i> {
    /// Reads the headers of the units; `None` without debug information.
    ///
    /// # Errors
    /// If there is debug information and none of it can be read.
    pub fn new(image: &'i Image<'_>) -> Result<Option<Self>, BinaryError> {
        let Some(mut dwarf) = image.dwarf() else {
            return Ok(None);
        };
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        let (mut headers, mut starts) = (Vec::new(), Vec::new());
        let mut damage = None;
        let mut add = |header: gimli::Result<Option<UnitHeader<Slice<'i>>>>| match header {
            Ok(Some(header)) => {
                if let Some(start) = Units::start_of(&header) {
                    headers.push(header);
                    starts.push(start);
                }
                true
            }
            Ok(None) => false,
            // Where the next one begins is not known then.
            Err(error) => {
                damage = Some(error);
                false
            }
        };
        let mut units = dwarf.units();
        while add(units.next()) {}
        let mut units = dwarf.type_units();
        while add(units.next()) {}
        if let (Some(error), true) = (damage, headers.is_empty()) {
            return Err(error.into());
        }
        Ok(Some(Self {
            image,
            dwarf: Arc::new(dwarf),
            headers,
            starts,
            damaged: AtomicBool::new(damage.is_some()),
            split: AtomicBool::new(false),
        }))
    }

    /// Answers about single types. It belongs to one thread.
    #[must_use]
    pub fn debug(&self) -> DebugInfo<'i> {
        let units = Units::read(Arc::clone(&self.dwarf));
        let mut debug = DebugInfo::new(self.image, units, None);
        debug.local = true;
        debug
    }

    /// Whether a part of what was read so far is damaged.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Whether types are in other files (split DWARF, `.dwo`), as far as was read so far.
    #[must_use]
    pub fn is_split(&self) -> bool {
        self.split.load(Ordering::Relaxed)
    }

    /// All structures, classes, unions and enumerations with data, in the order of the file.
    #[must_use]
    pub fn all(&self, jobs: NonZeroUsize) -> Vec<CatalogEntry> {
        self.find(Wanted::All, jobs)
    }

    /// The types that a name means. It may have namespaces before it and arguments in angle brackets behind it; without
    /// them, types of any are found.
    #[must_use]
    pub fn named(&self, name: &str, jobs: NonZeroUsize) -> Vec<CatalogEntry> {
        let plain = without_arguments(name);
        let last = last_part(plain);
        if last.is_empty() {
            return Vec::new();
        }
        let matches = |entry: &CatalogEntry| is_called(&entry.path, name);
        let mut found = self.find(Wanted::Named(last), jobs);
        found.retain(matches);
        // Where the name means a type as it is, those of the same name in a namespace are not meant.
        if found
            .iter()
            .any(|entry| squeezed(&entry.path) == squeezed(name))
        {
            found.retain(|entry| squeezed(&entry.path) == squeezed(name));
        }
        found
    }

    fn find(&self, wanted: Wanted<'_>, jobs: NonZeroUsize) -> Vec<CatalogEntry> {
        type Found = FxHashMap<(u64, Option<u64>, u64), CatalogEntry>;
        let next = AtomicUsize::new(0);
        let work = || {
            let mut found = Found::default();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(header) = self.headers.get(number) else {
                    return found;
                };
                let start = self.starts[number];
                let mut see = |defined: Defined| {
                    let key = (hash(&defined.path), defined.size, defined.content);
                    let id = DieId(start.saturating_add(defined.offset.0 as u64));
                    let entry = found.entry(key).or_insert_with(|| CatalogEntry {
                        ty: TypeId(id),
                        path: defined.path,
                        size: defined.size,
                        content: defined.content,
                    });
                    entry.ty = entry.ty.min(TypeId(id));
                };
                let scanned = Scan::unit(&self.dwarf, header, wanted, &mut see);
                if scanned.damaged {
                    self.damaged.store(true, Ordering::Relaxed);
                }
                if scanned.split {
                    self.split.store(true, Ordering::Relaxed);
                }
            }
        };
        let mut all = Found::default();
        std::thread::scope(|scope| {
            let helpers: Vec<_> = (1..jobs.get()).map(|_| scope.spawn(work)).collect();
            all = work();
            for helper in helpers {
                // A thread that panicked is a fault of ours, as it would be without it.
                let found = match helper.join() {
                    Ok(found) => found,
                    Err(panic) => std::panic::resume_unwind(panic),
                };
                for (key, entry) in found {
                    let known = all.entry(key).or_insert_with(|| entry.clone());
                    known.ty = known.ty.min(entry.ty);
                }
            }
        });
        let mut found: Vec<CatalogEntry> = all.into_values().collect();
        found.sort_by(|a, b| (a.ty, &a.path).cmp(&(b.ty, &b.path)));
        found
    }

    /// Lays out types on several threads and shows the layouts in the order of `entries`.
    pub fn lay_out(
        &self,
        entries: &[CatalogEntry],
        jobs: NonZeroUsize,
        see: &mut dyn FnMut(&CatalogEntry, TypeLayout),
    ) {
        /// So many types are laid out in one go: enough to be worth a thread's while, few enough to be kept.
        const CHUNK: usize = 256;
        let work =
            |chunks: &mut dyn Iterator<Item = usize>,
             send: &std::sync::mpsc::SyncSender<Vec<Option<TypeLayout>>>| {
                let mut debug = self.debug();
                for chunk in chunks {
                    let part = entries.chunks(CHUNK).nth(chunk).unwrap_or(&[]);
                    let layouts = part
                        .iter()
                        .map(|entry| debug.layout_called(entry.ty, &entry.path))
                        .collect();
                    // What was read is not kept: types of other units have no use for it.
                    debug.forget();
                    if send.send(layouts).is_err() {
                        return;
                    }
                }
            };
        let n_chunks = entries.len().div_ceil(CHUNK);
        let jobs = jobs.get();
        std::thread::scope(|scope| {
            let receivers: Vec<_> = (0..jobs)
                .map(|job| {
                    let (send, receive) = std::sync::mpsc::sync_channel(2);
                    scope.spawn(move || work(&mut (job..n_chunks).step_by(jobs), &send));
                    receive
                })
                .collect();
            for (number, part) in entries.chunks(CHUNK).enumerate() {
                let Ok(layouts) = receivers[number % jobs].recv() else {
                    return;
                };
                for (entry, layout) in part.iter().zip(layouts) {
                    if let Some(layout) = layout {
                        see(entry, layout);
                    }
                }
            }
        });
    }
}

impl DebugInfo<'_> {
    /// How a type of a catalog of the same image is laid out, under the name it was found by.
    #[must_use]
    pub fn layout_of(&self, entry: &CatalogEntry) -> Option<TypeLayout> {
        match entry.size {
            Some(_) => self.layout_called(entry.ty, &entry.path),
            None => self.layout(entry.ty),
        }
    }

    /// Gives back the memory of types that were read.
    fn forget(&mut self) {
        self.types.borrow_mut().clear();
        self.units.forget();
    }
}

/// A name without what is in angle brackets at its end.
fn without_arguments(name: &str) -> &str {
    name.split_once('<')
        .map_or(name, |(name, _)| name)
        .trim_end()
}

/// What is behind the last `::`.
fn last_part(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name).trim()
}

/// A name without blanks: `a<b, c >` and `a<b,c>` are one.
fn squeezed(name: &str) -> String {
    name.chars().filter(|c| !c.is_whitespace()).collect()
}

/// Whether a path ends in a name, at the border of a namespace; without its arguments if the name has none.
fn is_called(path: &str, name: &str) -> bool {
    let path = match name.contains('<') {
        true => squeezed(path),
        false => squeezed(plain_end(path)),
    };
    let name = squeezed(name);
    path.strip_suffix(&name)
        .is_some_and(|before| before.is_empty() || before.ends_with("::"))
}

/// A path without the arguments of its last part, which may have paths with arguments in them.
fn plain_end(path: &str) -> &str {
    if !path.ends_with('>') {
        return path;
    }
    let mut depth = 0usize;
    for (at, c) in path.char_indices().rev() {
        match c {
            '>' => depth += 1,
            '<' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return &path[..at];
                }
            }
            _ => {}
        }
    }
    path
}
