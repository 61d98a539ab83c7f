//! From which functions the starts of threads are looked for.

use std::rc::Rc;

use hitm_model::Svma;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::program::FunctionCode;
use crate::program::roots::Graph;

/// So many calls above the start of a thread its caller is looked for.
const FAR: usize = 14;
/// So many where that leads too far.
const NEAR: usize = 3;
/// With more callers than that the way is lost.
const MOST_CALLERS: usize = 20_000;
/// So many functions are begun with.
const MOST_TOPS: usize = 48;

/// The functions on the way, the first one, and whether the main thread runs it.
pub(super) type Top = (Rc<FxHashSet<Svma>>, Svma, bool);

/// Functions that start threads, and their callers.
pub(super) struct Tops<'a> {
    functions: &'a [FunctionCode],
    graph: &'a Graph,
    main: Option<usize>,
    /// All that it calls.
    by_main: &'a [u32],
    /// The functions that start threads, with the calls.
    starters: Vec<(usize, Vec<Svma>)>,
    far: FxHashMap<usize, usize>,
}

impl<'a> Tops<'a> {
    pub(super) fn of(
        functions: &'a [FunctionCode],
        graph: &'a Graph,
        (main, by_main): (Option<Svma>, &'a [u32]),
    ) -> Self {
        let starters: Vec<(usize, Vec<Svma>)> = functions
            .iter()
            .enumerate()
            .filter_map(|(number, function)| {
                let calls = function.calls.iter();
                let sites: Vec<Svma> = calls
                    .filter(|call| graph.starts(call.target).is_some())
                    .map(|call| call.site)
                    .collect();
                (!sites.is_empty()).then_some((number, sites))
            })
            .collect();
        let mut tops = Self {
            functions,
            graph,
            main: main.and_then(|main| graph.number(main)),
            by_main,
            starters,
            far: FxHashMap::default(),
        };
        let all: Vec<usize> = tops.starters.iter().map(|(number, _)| *number).collect();
        tops.far = tops.above(&all, FAR);
        tops
    }

    pub(super) fn is_empty(&self) -> bool {
        self.starters.is_empty()
    }

    /// Functions and their callers, with how many calls they are above.
    fn above(&self, starters: &[usize], most: usize) -> FxHashMap<usize, usize> {
        let mut levels: FxHashMap<usize, usize> =
            starters.iter().map(|&number| (number, 0)).collect();
        let mut last: Vec<usize> = starters.to_vec();
        for level in 1..=most {
            let mut next = Vec::new();
            for &function in &last {
                for &(caller, _) in &self.graph.callers[function] {
                    let caller = caller as usize;
                    if levels.len() < MOST_CALLERS && !levels.contains_key(&caller) {
                        levels.insert(caller, level);
                        next.push(caller);
                    }
                }
            }
            last = next;
        }
        levels
    }

    /// Those of some functions that none of the others calls, `main` first.
    fn highest(&self, levels: &FxHashMap<usize, usize>) -> Vec<usize> {
        let is_highest = |function: &usize| {
            let callers = &self.graph.callers[*function];
            Some(*function) == self.main
                || !callers.iter().any(|(caller, _)| {
                    *caller as usize != *function && levels.contains_key(&(*caller as usize))
                })
        };
        let mut all: Vec<usize> = levels.keys().copied().filter(is_highest).collect();
        // Where all call each other, who starts threads is as good as any other.
        if all.is_empty() {
            all = levels
                .iter()
                .filter(|(_, level)| **level == 0)
                .map(|(function, _)| *function)
                .collect();
        }
        all.sort_unstable_by_key(|function| (Some(*function) != self.main, *function));
        all.truncate(MOST_TOPS);
        all
    }

    fn starts_of(&self, levels: &FxHashMap<usize, usize>) -> Rc<FxHashSet<Svma>> {
        let starts = levels.keys().map(|&it| self.functions[it].range.start);
        Rc::new(starts.collect())
    }

    fn begun(&self, levels: &FxHashMap<usize, usize>) -> Vec<Top> {
        let path = self.starts_of(levels);
        let tops = self.highest(levels).into_iter();
        tops.map(|top| {
            let start = self.functions[top].range.start;
            let is_main =
                Some(top) == self.main || self.by_main.binary_search(&(top as u32)).is_ok();
            (Rc::clone(&path), start, is_main)
        })
        .collect()
    }

    /// From far above.
    pub(super) fn far(&self) -> Vec<Top> {
        self.begun(&self.far)
    }

    /// From near by, for the starts that were not found.
    pub(super) fn near(&self, seen: &FxHashSet<Svma>) -> Vec<Top> {
        let missing: Vec<usize> = self
            .starters
            .iter()
            .filter(|(_, sites)| !sites.iter().any(|site| seen.contains(site)))
            .map(|(number, _)| *number)
            .collect();
        if missing.is_empty() {
            return Vec::new();
        }
        self.begun(&self.above(&missing, NEAR))
    }
}
