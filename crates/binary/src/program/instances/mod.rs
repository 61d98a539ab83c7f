//! Each thread that is started, on its own: with the arguments that it is given and the memory that it finds.
//!
//! Which address a thread works on is often decided where the thread is started: it is handed a structure, a closure or an
//! element of an array, and finds there what is its own. So the code that starts threads is run, from `main` or from a few
//! calls above, with what its registers and the words of memory hold as values ([`memory`]): addresses of the file, of
//! stack variables, of blocks of the heap, and numbers. Where a thread is started, what is known is kept, and the thread's
//! function is run with it: it reads its arguments back, takes the branch of its own number, and calls through the pointers
//! it was given.
//!
//! Everything is run twice. First numbers in memory that other threads could reach are not trusted; what is seen to be
//! written by threads is not trusted the second time either, but the rest is: a thread's number, which half of a program
//! it is to run.
//!
//! # Caveats
//!
//! - Loops are run until nothing new is known; what moves on in each round is one of many.
//! - A block that is allocated in a loop stands for all of them.
//! - What functions of other files do to what they are given is known of the common ones only; else it is forgotten.
//! - What threads store for each other in memory is not followed.
//! - The number of steps is bounded: of a large program a part may be left to the other way of following.

mod body;
mod effects;
mod known;
mod lives;
mod locks;
mod log;
mod memory;
mod run;
mod starts;
mod state;
mod stores;
mod tops;
mod touches;
mod vectors;
mod world;

use std::rc::Rc;

use hitm_model::Svma;
use rustc_hash::{FxHashMap, FxHashSet};

use self::locks::{Held, Lock};
use self::log::{Frame, Log, Noted, Start};
use self::memory::{Memory, Space};
use self::run::{Errand, Run};
use self::state::State;
use self::world::{Ground as _, World};
use super::blocks::{Block, BlockFrame, Promise, address_of};
use super::calls::unversioned;
use super::places::Surroundings as _;
use super::reach::{Certainty, HeldLock, LockSet, Touch};
use super::registers::RSP;
use super::roots::Graph;
use super::value::{Lineage, Origin, Value, Values};
use super::whole::View;
use super::{FunctionCode, Target};

pub use self::log::{BlockKind, Hint, Pointing};

/// So many instances are run.
const MOST_INSTANCES: usize = 64;
/// So many instructions are executed for one thread.
const STEPS_OF_THREAD: usize = 100_000;
/// So many to find where threads are started, from one function on.
const STEPS_TO_START: usize = 200_000;
/// So many in all.
const MOST_STEPS: usize = 1_000_000;
/// So many places in frames are kept for naming.
const MOST_FRAMES: usize = 256;

/// One thread, or all that one loop starts.
#[derive(Debug)]
pub(super) struct Instance {
    /// Its function, and those that it is led to.
    pub(super) entries: Vec<Svma>,
    /// The calls that lead to its start, which is the last.
    pub(super) sites: Vec<Svma>,
    pub(super) many: bool,
    /// The starts of the functions that it runs.
    pub(super) visited: FxHashSet<Svma>,
    /// Whether it was run to its end.
    pub(super) complete: bool,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Instances {
    pub(super) all: Vec<Instance>,
    /// Touches, of the instance of this number less one; 0 for the main thread.
    pub(super) touches: Vec<(u32, Touch)>,
    /// The same of blocks of the heap that are one thread's alone; not all.
    pub(super) alone: Vec<(u32, Touch)>,
    pub(super) blocks: Vec<Block>,
    pub(super) frames: Vec<BlockFrame>,
    /// Pairs of which one is waited for before the other one is started; the smaller number first.
    pub(super) apart: Vec<(usize, usize)>,
    /// Sets of locks that are held at touches.
    pub(super) lock_sets: Vec<Vec<HeldLock>>,
    /// Where the main thread was run to its end: what it holds whenever it touches data of the file with an instruction.
    pub(super) held_by_main: FxHashMap<(Svma, Svma), LockSet>,
}

/// Runs what starts threads, and the threads.
///
/// `main` is the main thread's function, with the numbers of all functions that it calls.
pub(super) fn follow(
    view: &View<'_, '_>,
    functions: &[FunctionCode],
    graph: &Graph,
    main: (Option<Svma>, &[u32]),
) -> Instances {
    let tops = tops::Tops::of(functions, graph, main);
    if tops.is_empty() {
        return Instances::default();
    }
    let mut world = World::new(view, functions, graph);
    let mut log = Log::default();
    let mut found = Vec::new();
    let mut main_is_known = false;
    for trusts_numbers in [false, true] {
        world.trusts_numbers = trusts_numbers;
        log.back_to((0, 0, 0));
        log.forget_alone();
        let mut left = MOST_STEPS;
        main_is_known = find_starts(&mut world, &mut log, &tops, &mut left);
        found = threads(&mut world, &mut log, &mut left);
        world.note_changed(&log);
    }
    finish(view, log, found, main_is_known)
}

/// Runs what starts threads; what cannot be reached from far above is tried from near by. Whether what the main thread
/// runs was run to its end is returned.
fn find_starts(
    world: &mut World<'_>,
    log: &mut Log,
    tops: &tops::Tops<'_>,
    left: &mut usize,
) -> bool {
    let mut main_is_known = true;
    for (path, top, is_main) in tops.far() {
        let given_up = begin(world, log, path, top, is_main, left);
        main_is_known &= !(is_main && given_up);
    }
    let seen: FxHashSet<Svma> = log.starts.iter().map(|start| start.site).collect();
    for (path, top, is_main) in tops.near(&seen) {
        let given_up = begin(world, log, path, top, is_main, left);
        main_is_known &= !(is_main && given_up);
    }
    let mut known = FxHashSet::default();
    // Of one way the last is the one that knows all.
    let mut all: Vec<Start> = std::mem::take(&mut log.starts);
    all.reverse();
    all.retain(|start| known.insert((start.way, start.entry)));
    all.reverse();
    log.starts = all;
    main_is_known
}

/// Whether it was given up.
fn begin(
    world: &mut World<'_>,
    log: &mut Log,
    path: Rc<FxHashSet<Svma>>,
    top: Svma,
    is_main: bool,
    left: &mut usize,
) -> bool {
    let errand = Errand {
        run: 0,
        many: false,
        path: Some(path),
        noted: is_main,
        way: 0,
        steps: STEPS_TO_START.min(*left),
    };
    let state = State::new(Lineage::OTHER, Memory::default());
    run(world, log, errand, state, top, top.0, left).given_up
}

fn threads(world: &mut World<'_>, log: &mut Log, left: &mut usize) -> Vec<Instance> {
    let mut all = Vec::new();
    while all.len() < MOST_INSTANCES
        && let Some(start) = log.starts.get(all.len()).cloned()
    {
        let lineage = match start.many {
            true => Lineage::THREAD,
            false => Lineage::OTHER,
        };
        let mut state = State::new(lineage, start.memory);
        if start.many {
            state.memory.map(memory::by_thread);
        }
        for (number, values) in start.arguments.iter().enumerate() {
            let given = match start.many {
                true => values.map(|value| match value.origin {
                    Origin::Something => Value::something(Lineage::THREAD),
                    _ => memory::by_thread(value),
                }),
                false => values.clone(),
            };
            state.set(super::registers::ARGUMENTS[number], given);
        }
        let errand = Errand {
            run: all.len() as u32 + 1,
            many: start.many,
            path: None,
            noted: true,
            way: start.way,
            steps: STEPS_OF_THREAD.min(*left),
        };
        let way = start.way ^ start.entry.0;
        let done = run(world, log, errand, state, start.entry, way, left);
        all.push(Instance {
            entries: std::iter::once(start.entry).chain(done.led_to).collect(),
            sites: start.frames.iter().map(|frame| frame.call).collect(),
            many: start.many,
            visited: done.visited,
            complete: !done.given_up,
        });
    }
    all
}

struct Done {
    visited: FxHashSet<Svma>,
    led_to: Vec<Svma>,
    given_up: bool,
}

/// Runs a function on a stack of its own.
fn run(
    world: &mut World<'_>,
    log: &mut Log,
    errand: Errand,
    state: State,
    function: Svma,
    way: u64,
    left: &mut usize,
) -> Done {
    let given = errand.steps;
    let mut run = Run {
        world,
        log,
        errand,
        state,
        frames: Vec::new(),
        visited: FxHashSet::default(),
        led_to: Vec::new(),
        given_up: false,
        hot: false,
        info: None,
    };
    run.frames.push(Frame {
        function,
        call: function,
        top: Value::something(Lineage::OTHER).into(),
        at_call: [0; 2].map(|_| Value::something(Lineage::OTHER).into()),
        hot: false,
        way,
    });
    let stack = run.new_stack(function.0, 16);
    let top = Values::from(Value::of(Origin::Block(stack), 0, Lineage::NONE));
    run.state.memory.begin(Space::Block(stack));
    run.state.set(RSP, top.clone());
    run.frames[0].top = top;
    run.function(function);
    *left = left.saturating_sub(given - run.errand.steps);
    Done {
        visited: run.visited,
        led_to: run.led_to,
        given_up: run.given_up,
    }
}

/// The name of an import without its version, as people write it.
fn known_as(import: &str) -> String {
    crate::image::demangle(unversioned(import)).into_owned()
}

/// Turns offsets in blocks into addresses that nothing in the file has.
fn finish(view: &View<'_, '_>, mut log: Log, all: Vec<Instance>, main_is_known: bool) -> Instances {
    let held_by_main = match main_is_known {
        true => held_by_main(&mut log),
        false => FxHashMap::default(),
    };
    let touches = touches_of(view, &log, &log.touches);
    let alone = touches_of(view, &log, &log.alone);
    let place = |values: &Values, by: i64| match values.all() {
        [value] if value.stride == 0 => match value.origin {
            Origin::Block(block) => {
                let kind = log.blocks.get(block as usize)?.kind;
                Some(address_of(block, kind, value.offset.wrapping_add(by)))
            }
            _ => None,
        },
        _ => None,
    };
    let mut frames: Vec<BlockFrame> = Vec::new();
    for frame in log.starts.iter().flat_map(|start| &start.frames) {
        let frame = BlockFrame {
            function: frame.function,
            call: frame.call,
            cfa: place(&frame.top, 8),
            fp: place(&frame.at_call[1], 0),
            sp: place(&frame.at_call[0], 0),
        };
        if frames.len() < MOST_FRAMES && !frames.contains(&frame) {
            frames.push(frame);
        }
    }
    let starts = log.starts.iter().take(all.len()).enumerate();
    let apart = starts
        .flat_map(|(second, start)| {
            let before = log.starts.iter().take(second).enumerate();
            before
                .filter(move |(_, other)| start.is_apart(other))
                .map(move |(first, _)| (first, second))
        })
        .collect();
    let address = |lock: &Lock| match lock.space {
        Space::File => Svma(lock.offset.cast_unsigned()),
        Space::Block(block) => address_of(block, log.blocks[block as usize].kind, lock.offset),
    };
    let held_lock = |lock: &Lock| HeldLock {
        address: address(lock),
        shared: lock.shared,
    };
    let lock_sets = log
        .lock_sets
        .iter()
        .map(|held| held.all().iter().map(held_lock).collect())
        .collect();
    let blocks = log
        .blocks
        .into_iter()
        .map(|made| Block {
            kind: made.kind,
            align: made.align,
            promise: made.promised.and_then(|(by, align)| {
                let allocator = match by {
                    Target::Import(number) => known_as(view.import(number)?),
                    Target::Function(start) => view.names(start)?.1,
                };
                Some(Promise { allocator, align })
            }),
            hints: made.hints,
        })
        .collect();
    Instances {
        all,
        touches,
        alone,
        blocks,
        frames,
        apart,
        lock_sets,
        held_by_main,
    }
}

/// What the main thread holds whenever it touches data of the file with an instruction.
fn held_by_main(log: &mut Log) -> FxHashMap<(Svma, Svma), LockSet> {
    let mut held: FxHashMap<(Svma, Svma), Held> = FxHashMap::default();
    for noted in &log.touches {
        if (noted.run, noted.space) != (0, Space::File) {
            continue;
        }
        let locks = log.locks(noted.held);
        held.entry((noted.instruction, Svma(noted.offset.cast_unsigned())))
            .and_modify(|known| {
                known.meet(&locks);
            })
            .or_insert(locks);
    }
    held.into_iter()
        .map(|(touch, held)| (touch, log.lock_set(&held)))
        .collect()
}

/// Each touch once, with an address.
fn touches_of(view: &View<'_, '_>, log: &Log, all: &[Noted]) -> Vec<(u32, Touch)> {
    let mut seen: FxHashSet<Noted> = FxHashSet::default();
    let mut touches = Vec::new();
    for noted in all {
        // What the main thread does with data of the file is found otherwise.
        let address = match noted.space {
            Space::File if noted.run == 0 => continue,
            Space::File if !view.is_data(noted.offset.cast_unsigned()) => continue,
            Space::File => Svma(noted.offset.cast_unsigned()),
            Space::Block(block) => address_of(block, log.blocks[block as usize].kind, noted.offset),
        };
        if !seen.insert(*noted) {
            continue;
        }
        touches.push((
            noted.run,
            Touch {
                root: None,
                instruction: noted.instruction,
                function: noted.function,
                address,
                size: noted.size,
                kind: noted.kind,
                exchanges: noted.exchanges,
                lock: noted.lock,
                hot: noted.hot,
                stride: noted.stride,
                by_thread: noted.by_thread,
                chosen: noted.chosen,
                certainty: Certainty::Run,
                held: noted.held,
            },
        ));
    }
    touches
}
