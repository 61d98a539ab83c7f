//! Where threads begin.
//!
//! `pthread_create` and its kin are given a function. Where that is not a function of the program but one that calls what
//! it finds in memory (the start of a `std::thread`, of a thread of Rust's library, of a wrapper), the functions that
//! the caller puts there are looked for: those whose address it takes, directly or in a table of virtual functions; in
//! its own callers, if it only passes on what it was given.

use hitm_model::Svma;
use rustc_hash::{FxHashMap, FxHashSet};

use super::calls::{self, Joins, Starts};
use super::places::Surroundings;
use super::whole::View;
use super::{Argument, FunctionCode, Target};

/// How many callers away from the start of a thread its function is looked for.
const MOST_LEVELS: usize = 3;
/// More roots are put together with the last one.
pub(super) const MOST_ROOTS: usize = 200;

/// Code that a thread begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// What kind of thread.
    pub kind: RootKind,
    /// Its function, and the functions that lead to it.
    pub entries: Vec<Svma>,
    /// Whether the first of these leads to the others in turn, and the last is the thread's own.
    pub led: bool,
    /// Where it is started: calls.
    pub started_at: Vec<Svma>,
    /// Whether several threads may begin with it.
    pub many: bool,
}

/// What kind of thread it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RootKind {
    /// The one that runs `main`.
    Main,
    /// One that is started.
    Thread,
}

#[derive(Debug, Default)]
pub(super) struct Roots {
    pub(super) all: Vec<Root>,
    pub(super) starts_threads: bool,
    pub(super) unknown: u32,
}

/// Who calls whom.
pub(super) struct Graph {
    numbers: FxHashMap<Svma, usize>,
    /// For each function: the function and the call that calls it.
    pub(super) callers: Vec<Vec<(u32, u32)>>,
    starts: FxHashMap<u32, Starts>,
    joins: FxHashMap<u32, Joins>,
}

impl Graph {
    pub(super) fn new(view: &View<'_, '_>, functions: &[FunctionCode]) -> Self {
        let numbers: FxHashMap<Svma, usize> = functions
            .iter()
            .enumerate()
            .map(|(number, function)| (function.range.start, number))
            .collect();
        let mut callers = vec![Vec::new(); functions.len()];
        for (caller, function) in functions.iter().enumerate() {
            for (number, call) in function.calls.iter().enumerate() {
                if let Target::Function(target) = call.target
                    && let Some(&callee) = numbers.get(&target)
                {
                    callers[callee].push((caller as u32, number as u32));
                }
            }
        }
        let named = || view.imports.names.iter().zip(0u32..);
        let mut graph = Self {
            callers,
            starts: named()
                .filter_map(|(name, number)| Some((number, calls::starts(name)?)))
                .collect(),
            joins: named()
                .filter_map(|(name, number)| Some((number, calls::joins(name)?)))
                .collect(),
            numbers,
        };
        graph.drop_repeated();
        graph
    }

    fn drop_repeated(&mut self) {
        for callers in &mut self.callers {
            callers.dedup();
        }
    }

    pub(super) fn number(&self, function: Svma) -> Option<usize> {
        self.numbers.get(&function).copied()
    }

    pub(super) fn starts(&self, target: Target) -> Option<Starts> {
        match target {
            Target::Import(number) => self.starts.get(&number).copied(),
            Target::Function(_) => None,
        }
    }

    pub(super) fn joins(&self, target: Target) -> Option<Joins> {
        match target {
            Target::Import(number) => self.joins.get(&number).copied(),
            Target::Function(_) => None,
        }
    }
}

/// What was found for one start of a thread.
#[derive(Default)]
struct Found {
    /// Functions that only lead to the thread's own one.
    leading: Vec<Svma>,
    candidates: Vec<Candidate>,
}

/// What may be a thread's function.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Candidate {
    function: Svma,
    site: Svma,
    many: bool,
}

/// A call on the way to the start of a thread.
#[derive(Clone, Copy)]
struct Way {
    site: Svma,
    many: bool,
}

pub(super) fn find(view: &View<'_, '_>, graph: &Graph, functions: &[FunctionCode]) -> Roots {
    let mut roots = Roots::default();
    let main = main_of(view, functions);
    roots.all.push(Root {
        kind: RootKind::Main,
        entries: main.into_iter().collect(),
        led: false,
        started_at: Vec::new(),
        many: false,
    });
    let mut seen = FxHashSet::default();
    for (number, function) in functions.iter().enumerate() {
        for call in &function.calls {
            let Some(starts) = graph.starts(call.target) else {
                continue;
            };
            roots.starts_threads = true;
            if !seen.insert((call.site, call.arguments.map(key))) {
                continue;
            }
            let found = Search {
                view,
                graph,
                functions,
                main,
            }
            .start(number, call, starts);
            let known = add(&mut roots.all, &found);
            roots.unknown += u32::from(!known);
        }
    }
    roots
}

/// Arguments as something to compare.
fn key(argument: Argument) -> (u8, u64) {
    match argument {
        Argument::File(address) => (0, address.0),
        Argument::Number(number) => (1, number.cast_unsigned()),
        Argument::Passed { number, offset } => (2 + number, offset.cast_unsigned()),
        Argument::Made(_) => (9, 0),
    }
}

/// Adds roots; returns whether any function of a thread was found.
fn add(roots: &mut Vec<Root>, found: &Found) -> bool {
    for candidate in &found.candidates {
        let full = roots.len() >= MOST_ROOTS;
        let same = roots.iter_mut().find(|root| {
            root.kind == RootKind::Thread && root.entries.first() == Some(&candidate.function)
        });
        let leading = found.leading.iter().copied();
        match same {
            Some(root) => {
                if !root.started_at.contains(&candidate.site) {
                    root.started_at.push(candidate.site);
                    root.many = true;
                }
                root.many |= candidate.many;
            }
            None if full => {
                if let Some(last) = roots.last_mut() {
                    last.entries.push(candidate.function);
                }
            }
            None => roots.push(Root {
                kind: RootKind::Thread,
                entries: std::iter::once(candidate.function).chain(leading).collect(),
                led: false,
                started_at: vec![candidate.site],
                many: candidate.many,
            }),
        }
    }
    !found.candidates.is_empty()
}

pub(super) fn main_of(view: &View<'_, '_>, functions: &[FunctionCode]) -> Option<Svma> {
    let starts = |name: &String| name.starts_with("__libc_start_main");
    let start = view.imports.names.iter().position(starts);
    let given = start.and_then(|start| {
        let calls = functions.iter().flat_map(|function| &function.calls);
        let mut given = calls.filter_map(|call| match (call.target, call.arguments[0]) {
            (Target::Import(import), Argument::File(main)) if import as usize == start => {
                Some(main)
            }
            _ => None,
        });
        given.next()
    });
    given
        .or_else(|| Some(view.image.symbol_named("main")?.svma))
        .filter(|main| view.function_start(main.0).is_some())
}

struct Search<'a, 'd> {
    view: &'a View<'a, 'd>,
    graph: &'a Graph,
    functions: &'a [FunctionCode],
    main: Option<Svma>,
}

impl Search<'_, '_> {
    fn start(&self, caller: usize, call: &super::Call, starts: Starts) -> Found {
        let mut found = Found::default();
        let own = Way {
            site: call.site,
            many: call.depth > 0 || matches!(starts, Starts::Parallel(_)),
        };
        let argument = match starts {
            Starts::Routine {
                argument: number, ..
            }
            | Starts::Parallel(number) => Some(call.arguments[number.min(5)]),
            Starts::Object => None,
        };
        if let Some(Argument::File(routine)) = argument
            && self.view.is_code(routine.0)
        {
            found.candidates.push(Candidate {
                function: routine,
                site: own.site,
                many: own.many,
            });
            if !self.is_trampoline(routine) {
                return found;
            }
        }
        let mut passed = match argument {
            Some(Argument::Passed { number, .. }) => Some(number),
            _ => None,
        };
        let mut level: Vec<(usize, Vec<Way>)> = vec![(caller, vec![own])];
        let mut visited: FxHashSet<usize> = FxHashSet::from_iter([caller]);
        for depth in 0..=MOST_LEVELS {
            let mut new = Found::default();
            let mut exact = false;
            for (function, ways) in &level {
                exact |= self.taken(*function, ways, &mut new);
                for way in ways.iter().filter(|_| depth > 0) {
                    self.given(*function, *way, passed, &mut new);
                }
            }
            new.candidates.retain(|candidate| {
                let known = |other: &Candidate| other.function == candidate.function;
                !found.candidates.iter().any(known) && !found.leading.contains(&candidate.function)
            });
            if !new.candidates.is_empty() {
                // What was found so far calls what these are.
                found
                    .leading
                    .extend(found.candidates.iter().map(|it| it.function));
                found.candidates = new.candidates;
            }
            let trampoline = |it: &Candidate| self.is_trampoline(it.function);
            let enough = !found.candidates.is_empty() && !found.candidates.iter().any(trampoline);
            if exact || enough || depth == MOST_LEVELS {
                break;
            }
            level = self.above(&level, &mut visited);
            // Everything would be a candidate.
            if level.is_empty() || level.len() > 256 {
                break;
            }
            if depth > 0 {
                passed = None;
            }
        }
        found
    }

    /// The callers of functions, each with its calls.
    fn above(
        &self,
        level: &[(usize, Vec<Way>)],
        visited: &mut FxHashSet<usize>,
    ) -> Vec<(usize, Vec<Way>)> {
        let mut above: Vec<(usize, Vec<Way>)> = Vec::new();
        for (function, ways) in level {
            let many = ways.iter().all(|way| way.many);
            for &(caller, number) in &self.graph.callers[*function] {
                let caller = caller as usize;
                let call = &self.functions[caller].calls[number as usize];
                let way = Way {
                    site: call.site,
                    many: many || call.depth > 0,
                };
                match above.iter_mut().find(|(known, _)| *known == caller) {
                    Some((_, ways)) => ways.push(way),
                    None if visited.insert(caller) => above.push((caller, vec![way])),
                    None => {}
                }
            }
        }
        above
    }

    /// Adds the functions that a call passes on to where the thread is started.
    fn given(&self, function: usize, way: Way, passed: Option<u8>, found: &mut Found) {
        let calls = &self.functions[function].calls;
        for call in calls.iter().filter(|call| call.site == way.site) {
            for (number, argument) in call.arguments.iter().enumerate() {
                let is_meant = passed.is_none_or(|passed| usize::from(passed) == number);
                if let Argument::File(routine) = argument
                    && is_meant
                    && self.may_be(*routine, found)
                {
                    push(&mut found.candidates, *routine, way);
                }
            }
        }
    }

    fn may_be(&self, routine: Svma, found: &Found) -> bool {
        self.view.is_code(routine.0)
            && Some(routine) != self.main
            && !found.leading.contains(&routine)
            && !self.is_of_library(routine)
    }

    /// Whether a function calls what it finds in memory.
    fn is_trampoline(&self, function: Svma) -> bool {
        let number = self.graph.number(function);
        number.is_some_and(|number| self.functions[number].indirect > 0)
    }

    /// Adds what a function takes the address of; returns whether it is certainly a thread's function.
    fn taken(&self, function: usize, ways: &[Way], found: &mut Found) -> bool {
        let mut exact = false;
        for taken in &self.functions[function].taken {
            // What is taken is most likely given to the next call.
            let next = ways
                .iter()
                .filter(|way| way.site >= taken.site)
                .min_by_key(|way| way.site);
            let Some(way) = next.or(ways.first()).copied() else {
                continue;
            };
            if taken.code {
                if self.may_be(taken.address, found) {
                    push(&mut found.candidates, taken.address, way);
                }
            } else if let Some((run, certain)) = self.run_of_table(taken.address.0) {
                push(&mut found.candidates, run, way);
                exact |= certain;
            }
        }
        exact
    }

    /// The function of a thread that a table of virtual functions holds, and whether its name says so.
    fn run_of_table(&self, table: u64) -> Option<(Svma, bool)> {
        let word = |by: u64| self.view.image.constant_word(Svma(table.wrapping_add(by)));
        let function = |by: u64| self.view.function_in(table.wrapping_add(by));
        // Rust: drop, size, alignment, the first method.
        let is_rust = word(8).is_some_and(|size| size < 1 << 20)
            && word(16).is_some_and(|align| align.is_power_of_two() && align <= 4096)
            && function(8).is_none();
        if is_rust {
            let run = function(24)?;
            let symbol = self.view.image.symbol_at(run);
            return match symbol {
                Some(symbol) => symbol.name.contains("call_once").then_some((run, true)),
                None => Some((run, false)),
            };
        }
        // C++: two destructors, then what the thread runs.
        function(0)?;
        function(8)?;
        let run = function(16)?;
        match self.view.image.symbol_at(Svma(table)) {
            Some(symbol) => symbol.raw.contains("_State_impl").then_some((run, false)),
            None => Some((run, false)),
        }
    }

    fn is_of_library(&self, function: Svma) -> bool {
        let symbol = self.view.image.symbol_at(function);
        symbol.is_some_and(|symbol| {
            let of_trait = ["core", "alloc", "std"];
            let of_trait = of_trait.map(|library| format!(" as {library}::"));
            of_trait.iter().any(|library| symbol.name.contains(library))
                || [
                    "core::", "alloc::", "std::", "<core::", "<alloc::", "<std::", "<&",
                ]
                .iter()
                .any(|library| symbol.name.starts_with(library))
        })
    }
}

fn push(all: &mut Vec<Candidate>, function: Svma, way: Way) {
    let candidate = Candidate {
        function,
        site: way.site,
        many: way.many,
    };
    if !all.contains(&candidate) {
        all.push(candidate);
    }
}
