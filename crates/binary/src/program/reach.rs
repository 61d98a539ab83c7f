//! Which fixed places each thread touches: its functions, with the addresses that are passed down to them.
//!
//! From each root the calls are followed. An argument that is an address of the file goes along, so that a function
//! that is given `&STATS` counts as touching `STATS`; so does whether a number tells the thread from its siblings.
//!
//! The main thread counts only while others may run: from where it starts the first thread (itself, or through a
//! function that leaves one running) to where it has waited for the last one, by the order of the code.

use hitm_model::{AccessKind, Svma};
use rustc_hash::{FxHashMap, FxHashSet};

use super::calls::{self, Does};
use super::places::Surroundings;
use super::roots::{Graph, MOST_ROOTS, RootKind, Roots};
use super::whole::View;
use super::{Access, Argument, FunctionCode, Lineage, Place, Target};

/// So many addresses of one argument of one function are told apart.
const MOST_ADDRESSES: usize = 16;
/// Of a table of virtual functions, so many may be called.
const LONGEST_TABLE: u64 = 64;
/// So many steps are made for one root.
const MOST_STEPS: usize = 2_000_000;

/// How sure it is that a root comes to an access.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Certainty {
    /// Only by functions whose address is taken on the way, which may be called from there or not.
    Guessed,
    /// By calls, whatever decides whether they are made.
    Called,
    /// The thread was run with what it is given.
    Run,
}

/// An access of a fixed place, by one root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Touch {
    /// Which root, by its place among [`super::Program::roots`]; `None` where it is not known who calls the function.
    pub root: Option<u16>,
    /// The instruction.
    pub instruction: Svma,
    /// The function it is in.
    pub function: Svma,
    /// The first byte.
    pub address: Svma,
    /// Bytes.
    pub size: u32,
    /// What it does.
    pub kind: AccessKind,
    /// Whether it compares or exchanges, as taking a lock does.
    pub exchanges: bool,
    /// Whether it is the call of a function that takes or gives back a lock.
    pub lock: bool,
    /// Whether it is in a loop, of its function or of a caller.
    pub hot: bool,
    /// The distance of the elements, where it is one of an array whose number is not known.
    pub stride: u32,
    /// Whether that number tells the thread from its siblings.
    pub by_thread: bool,
    /// Whether the instruction touches one of several places.
    pub chosen: bool,
    /// How sure it is that the root comes there.
    pub certainty: Certainty,
    /// The locks that are held meanwhile, as far as that is certain.
    pub held: LockSet,
}

/// Some locks, which [`super::Program::locks`] tells; 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct LockSet(pub(super) u32);

impl LockSet {
    /// Its place in a list of all sets but the empty one; that has none.
    pub(super) fn place(self) -> Option<usize> {
        self.0.checked_sub(1).map(|place| place as usize)
    }
}

/// A lock that is held.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HeldLock {
    /// Where it is.
    pub address: Svma,
    /// Whether several may hold it at once, as who reads under a lock for readers and writers.
    pub shared: bool,
}

/// How far the calls could be followed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reached {
    /// Functions.
    pub functions: usize,
    /// Of these, functions that a thread or the main thread calls.
    pub by_roots: usize,
    /// Functions that each root calls, sorted: numbers among [`super::Program::functions`].
    pub by_root: Vec<Vec<u32>>,
    /// Whether a search was given up.
    pub given_up: bool,
}

/// What is passed to a function.
#[derive(Clone, Debug, Default, PartialEq)]
struct Given {
    /// Whether it is called in a loop.
    hot: bool,
    /// Whether other threads may run then.
    beside: bool,
    /// Whether calls alone lead there.
    called: bool,
    addresses: [Vec<u64>; 6],
    /// Arguments that tell the thread from its siblings.
    by_thread: u8,
}

impl Given {
    /// Adds what another call passes; whether that is anything new.
    fn add(&mut self, other: &Self) -> bool {
        let before = (self.hot, self.beside, self.called, self.by_thread);
        self.hot |= other.hot;
        self.called |= other.called;
        self.beside |= other.beside;
        self.by_thread |= other.by_thread;
        let mut new = before != (self.hot, self.beside, self.called, self.by_thread);
        for (mine, theirs) in self.addresses.iter_mut().zip(&other.addresses) {
            for address in theirs {
                if mine.len() < MOST_ADDRESSES && !mine.contains(address) {
                    mine.push(*address);
                    new = true;
                }
            }
        }
        new
    }

    fn certainty(&self) -> Certainty {
        match self.called {
            true => Certainty::Called,
            false => Certainty::Guessed,
        }
    }

    fn tells(&self, lineage: Lineage) -> bool {
        if lineage.meets(Lineage::OTHER) {
            return false;
        }
        lineage.meets(Lineage::THREAD)
            || lineage
                .arguments()
                .any(|number| self.by_thread >> number & 1 == 1)
    }
}

pub(super) fn follow(
    view: &View<'_, '_>,
    functions: &[FunctionCode],
    graph: &Graph,
    roots: &Roots,
) -> (Vec<Touch>, Reached) {
    let mut follow = Follow {
        view,
        functions,
        graph,
        entries: roots
            .all
            .iter()
            .flat_map(|root| root.entries.iter().copied())
            .collect(),
        ends: FxHashMap::default(),
        last: last_functions(view, functions, graph),
        touches: Vec::new(),
        reached: Reached {
            functions: functions.len(),
            ..Reached::default()
        },
    };
    let mut seen: FxHashSet<usize> = FxHashSet::default();
    for (number, root) in roots.all.iter().enumerate().take(MOST_ROOTS) {
        let beside = root.kind == RootKind::Thread;
        let mut starts: Vec<(usize, Given)> = Vec::new();
        for entry in &root.entries {
            let Some(function) = graph.number(*entry) else {
                continue;
            };
            let given = Given {
                beside,
                called: true,
                by_thread: if beside { 0x3f } else { 0 },
                ..Given::default()
            };
            starts.push((function, given));
        }
        let reached = follow.root(number as u16, starts);
        let mut all: Vec<u32> = reached.keys().map(|&function| function as u32).collect();
        all.sort_unstable();
        seen.extend(reached.into_keys());
        follow.reached.by_root.push(all);
    }
    let startup = view.image.startup_slots();
    let startup = startup
        .iter()
        .filter_map(|slot| graph.number(view.function_in(slot.0)?))
        .map(|function| (function, Given::default()))
        .collect();
    seen.extend(follow.walk(startup).into_keys());
    follow.reached.by_roots = seen.len();
    for number in 0..functions.len() {
        if !seen.contains(&number) {
            let given = Given {
                beside: true,
                ..Given::default()
            };
            follow.touch(None, number, &given);
        }
    }
    (follow.touches, follow.reached)
}

/// The functions that do not return because they end the program, as one that prints what went wrong and aborts: they
/// have no way out, and call another one that ends it.
///
/// A thread's own loop without a way out, which aborts where something goes wrong, looks the same. It is run with what it
/// is given, where that is known, and does not depend on this then.
fn last_functions(
    view: &View<'_, '_>,
    functions: &[FunctionCode],
    graph: &Graph,
) -> FxHashSet<usize> {
    let mut last: FxHashSet<usize> = FxHashSet::default();
    let names = &view.imports.names;
    let import_ends = |number: u32| names.get(number as usize).is_some_and(|it| calls::ends(it));
    let mut queue: Vec<usize> = Vec::new();
    for (number, function) in functions.iter().enumerate() {
        let ends = |target| matches!(target, Target::Import(number) if import_ends(number));
        if !function.returns && function.calls.iter().any(|call| ends(call.target)) {
            queue.push(number);
        }
    }
    while let Some(number) = queue.pop() {
        if last.insert(number) {
            let callers = graph.callers[number]
                .iter()
                .map(|(caller, _)| *caller as usize);
            queue.extend(callers.filter(|caller| !functions[*caller].returns));
        }
    }
    last
}

struct Follow<'a, 'd> {
    view: &'a View<'a, 'd>,
    functions: &'a [FunctionCode],
    graph: &'a Graph,
    entries: FxHashSet<Svma>,
    ends: FxHashMap<usize, Option<Beside>>,
    /// Functions after which the program is over.
    last: FxHashSet<usize>,
    touches: Vec<Touch>,
    reached: Reached,
}

/// The part of a function that runs beside the threads it has started.
#[derive(Clone, Copy, Debug)]
struct Beside {
    from: Svma,
    to: Svma,
    /// Whether threads run on when it returns.
    leaves: bool,
}

impl Follow<'_, '_> {
    fn root(&mut self, root: u16, starts: Vec<(usize, Given)>) -> FxHashMap<usize, Given> {
        let reached = self.walk(starts);
        let mut order: Vec<&usize> = reached.keys().collect();
        order.sort_unstable();
        for &function in order {
            if let Some(given) = reached.get(&function) {
                self.touch(Some(root), function, given);
            }
        }
        reached
    }

    /// All functions that are called from some, with what they are given.
    fn walk(&mut self, starts: Vec<(usize, Given)>) -> FxHashMap<usize, Given> {
        let mut reached: FxHashMap<usize, Given> = FxHashMap::default();
        let mut queue: Vec<usize> = Vec::new();
        for (function, given) in starts {
            reached.entry(function).or_default().add(&given);
            queue.push(function);
        }
        let mut steps = 0;
        while let Some(function) = queue.pop() {
            let given = reached.get(&function).cloned().unwrap_or_default();
            let part = if given.beside {
                None
            } else {
                self.beside(function, 0)
            };
            let code = &self.functions[function];
            steps += 1 + code.calls.len();
            if steps > MOST_STEPS {
                self.reached.given_up = true;
                break;
            }
            for call in &code.calls {
                let Target::Function(target) = call.target else {
                    continue;
                };
                let Some(callee) = self.graph.number(target) else {
                    continue;
                };
                let mut passed = Given {
                    hot: given.hot || call.depth > 0,
                    // What is done before the program ends is done once.
                    called: given.called && !self.last.contains(&callee),
                    beside: given.beside || part.is_some_and(|part| part.holds(call.site)),
                    ..Given::default()
                };
                for (number, argument) in call.arguments.iter().enumerate() {
                    pass(&given, number, *argument, &mut passed);
                }
                let new = !reached.contains_key(&callee);
                if reached.entry(callee).or_default().add(&passed) || new {
                    queue.push(callee);
                }
            }
            for taken in &code.taken {
                let passed = Given {
                    beside: given.beside || part.is_some_and(|part| part.holds(taken.site)),
                    ..Given::default()
                };
                for callee in self.maybe_called(taken.address, taken.code) {
                    let new = !reached.contains_key(&callee);
                    if reached.entry(callee).or_default().add(&passed) || new {
                        queue.push(callee);
                    }
                }
            }
        }
        reached
    }

    /// The functions whose address is taken, but for those that threads begin with.
    fn maybe_called(&self, address: Svma, code: bool) -> Vec<usize> {
        let number = |function: Svma| {
            let number = self.graph.number(function)?;
            (!self.entries.contains(&function)).then_some(number)
        };
        if code {
            return number(address).into_iter().collect();
        }
        let mut all = Vec::new();
        let mut gaps = 0;
        for word in 0..LONGEST_TABLE {
            match self.view.function_in(address.0.wrapping_add(8 * word)) {
                Some(function) => all.extend(number(function)),
                // Rust's tables begin with a destructor, size and alignment; C++'s with two words before.
                None => {
                    gaps += 1;
                    if gaps > 3 {
                        break;
                    }
                }
            }
        }
        all
    }

    /// Which part of a function runs beside threads that it has started.
    fn beside(&mut self, function: usize, depth: usize) -> Option<Beside> {
        if let Some(known) = self.ends.get(&function) {
            return *known;
        }
        // Who calls itself starts nothing by that.
        self.ends.insert(function, None);
        let functions = self.functions;
        let mut found: Option<Beside> = None;
        for call in &functions[function].calls {
            let (starts, joins) = match call.target {
                Target::Import(_) => (
                    self.graph.starts(call.target).is_some(),
                    self.graph.joins(call.target).is_some(),
                ),
                Target::Function(target) => match self.graph.number(target) {
                    Some(callee) if depth < 8 => (
                        self.beside(callee, depth + 1)
                            .is_some_and(|part| part.leaves),
                        self.waits(callee, 4),
                    ),
                    _ => (false, false),
                },
            };
            if starts {
                let part = found.get_or_insert(Beside {
                    from: call.site,
                    to: functions[function].range.end,
                    leaves: true,
                });
                // What is started after a wait runs on.
                part.to = functions[function].range.end;
                part.leaves = true;
            } else if joins && let Some(part) = &mut found {
                part.to = call.site;
                part.leaves = false;
            }
        }
        self.ends.insert(function, found);
        found
    }

    /// Whether a function waits for a thread, itself or through what it calls.
    fn waits(&self, function: usize, depth: usize) -> bool {
        let mut calls = self.functions[function].calls.iter();
        calls.any(|call| match call.target {
            Target::Import(_) => self.graph.joins(call.target).is_some(),
            Target::Function(target) => {
                depth > 0
                    && self.graph.number(target).is_some_and(|callee| {
                        callee != function && self.waits_near(callee, depth - 1)
                    })
            }
        })
    }

    /// The same of a small function: large ones do other things.
    fn waits_near(&self, function: usize, depth: usize) -> bool {
        self.functions[function].calls.len() <= 16 && self.waits(function, depth)
    }

    /// Notes what a function touches.
    fn touch(&mut self, root: Option<u16>, function: usize, given: &Given) {
        let part = if given.beside {
            None
        } else {
            self.beside(function, 0)
        };
        if !given.beside && part.is_none() {
            return;
        }
        let counts = |site| given.beside || part.is_some_and(|part| part.holds(site));
        let code = &self.functions[function];
        for (number, access) in code.accesses.iter().enumerate() {
            if !counts(access.instruction) {
                continue;
            }
            let near = |other: usize| {
                code.accesses
                    .get(other)
                    .is_some_and(|other| other.instruction == access.instruction)
            };
            let chosen = near(number + 1) || number.checked_sub(1).is_some_and(near);
            self.access(root, code, access, given, chosen);
        }
        for call in &code.calls {
            let Target::Import(import) = call.target else {
                continue;
            };
            if !counts(call.site) {
                continue;
            }
            let name = self.view.imports.names.get(import as usize);
            for &(number, does) in name.map_or(&[][..], |name| calls::does(name)) {
                let size = |of: usize| match call.arguments[of] {
                    Argument::Number(bytes) => u32::try_from(bytes).unwrap_or(1),
                    _ => 1,
                };
                let (kind, size, lock) = match does {
                    Does::Locks(size, _) => (AccessKind::Atomic, size, true),
                    Does::Changes(size) => (AccessKind::Atomic, size, false),
                    Does::Fills(of) => (AccessKind::Write, size(of), false),
                    Does::Copies(of) => (AccessKind::Read, size(of), false),
                };
                let mut passed = Given::default();
                pass(given, number, call.arguments[number], &mut passed);
                for &address in &passed.addresses[number] {
                    if size == 0 || !self.view.is_data(address) {
                        continue;
                    }
                    self.touches.push(Touch {
                        certainty: given.certainty(),
                        root,
                        instruction: call.site,
                        function: code.range.start,
                        address: Svma(address),
                        size,
                        kind,
                        exchanges: lock,
                        lock,
                        hot: given.hot || call.depth > 0,
                        stride: 0,
                        by_thread: false,
                        chosen: false,
                        held: LockSet::default(),
                    });
                }
            }
        }
    }

    fn access(
        &mut self,
        root: Option<u16>,
        code: &FunctionCode,
        access: &Access,
        given: &Given,
        chosen: bool,
    ) {
        let mut note = |address: u64, stride: u32, index: Lineage| {
            if !self.view.is_data(address) {
                return;
            }
            self.touches.push(Touch {
                certainty: given.certainty(),
                root,
                instruction: access.instruction,
                function: code.range.start,
                address: Svma(address),
                size: access.size,
                kind: access.kind,
                exchanges: access.exchanges,
                lock: false,
                hot: given.hot || access.depth > 0,
                stride,
                by_thread: stride > 0 && given.tells(index),
                chosen,
                held: LockSet::default(),
            });
        };
        match access.place {
            Place::File {
                address,
                stride,
                index,
            } => note(address.0, stride, index),
            Place::Argument {
                number,
                offset,
                stride,
                index,
            } => {
                for base in &given.addresses[usize::from(number).min(5)] {
                    note(base.wrapping_add_signed(offset), stride, index);
                }
            }
            Place::Pointer { .. } => {}
        }
    }
}

impl Beside {
    fn holds(&self, site: Svma) -> bool {
        self.from < site && site <= self.to
    }
}

/// What an argument of a call is, by what the caller was given.
fn pass(given: &Given, number: usize, argument: Argument, into: &mut Given) {
    match argument {
        Argument::File(address) => into.addresses[number].push(address.0),
        Argument::Number(_) => {}
        Argument::Passed {
            number: from,
            offset,
        } => {
            let from = usize::from(from).min(5);
            let added = given.addresses[from]
                .iter()
                .map(|address| address.wrapping_add_signed(offset));
            into.addresses[number].extend(added);
            if given.by_thread >> from & 1 == 1 {
                into.by_thread |= 1 << number;
            }
        }
        Argument::Made(lineage) => {
            if given.tells(lineage) {
                into.by_thread |= 1 << number;
            }
        }
    }
}
