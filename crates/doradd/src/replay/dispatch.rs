//! The dispatcher on one thread: all stages fused.
//!
//! It takes transactions from the log some steps ahead of joining them to the graph, so that the tails of their rows have
//! arrived by then, and publishes them in batches. When as many are in flight as allowed, it runs bodies itself: on a
//! machine with few cores the dispatcher's core is worth as much as a worker's. For that it keeps back a few
//! transactions that wait for nobody; their records and rows have not been on another core yet, and rows that many
//! transactions meet at stay on the worker's.

use std::time::{Duration, Instant};

use crate::crew::Crew;
use crate::replay::access::Access;
use crate::replay::app::{App, Log, Next, Sequence};
use crate::replay::execute::{Executor, Worker};
use crate::replay::outcome::ReplayError;
use crate::replay::run::HELPER;
use crate::replay::spawn::Planner;
use crate::replay::window::Window;
use crate::ring::Ring;
use crate::sync::{SPINS, YIELDS, spin_loop, yield_now};

/// Steps between naming rows and joining the graph.
const LOOKAHEAD: u64 = 8;
/// Transactions that are published at once, at most.
const BATCH: u64 = 8;
/// Transactions that the dispatcher keeps for itself, at most.
const OWN: u64 = 16;
/// Of these, so many are run next, and the rows of more are fetched later.
const OWN_FETCHED: u64 = 2;
/// A body that took a dispatcher longer than this, which had time, may have kept it from workers that had none to do.
const LONG: Duration = Duration::from_micros(200);
/// Then it keeps none for so many transactions, but for when the window is full.
const FEEDS: u64 = 4096;
/// For so many transactions after the window was full, it keeps some.
const FULL_LATELY: u64 = 256;
/// Room that a dispatcher which found none waits for, at most.
const ROOM: u64 = 32;

/// How much room to wait for at once.
pub(crate) fn room_step<T>(window: &Window<T>) -> u64 {
    ROOM.min(window.bound() / 4).max(1)
}

/// Joins transactions to the graph and passes them to workers.
pub(crate) struct Spawner<'s, 'a, A: App> {
    executor: &'s Executor<'a, A>,
    crew: &'s Crew,
    planner: Planner,
    spawned: u64,
    inbox: usize,
    /// Transactions that had ended when it was looked.
    ended: u64,
    /// Up to this number, transactions that wait for nobody are kept.
    keeps_until: u64,
}

#[expect(
    unsafe_code,
    reason = "the one spawning thread's part of the window's protocol"
)]
impl<'s, 'a, A: App> Spawner<'s, 'a, A> {
    /// # Safety
    /// It is the replay's only spawner.
    pub(crate) unsafe fn new(executor: &'s Executor<'a, A>, crew: &'s Crew) -> Self {
        Self {
            executor,
            crew,
            planner: Planner::new(executor.window),
            spawned: 0,
            inbox: 0,
            ended: 0,
            keeps_until: 0,
        }
    }

    /// Joins the next transaction to the graph.
    ///
    /// # Safety
    /// This thread's stage has it, and its rows are written down.
    #[inline]
    pub(crate) unsafe fn spawn(&mut self) {
        let window = self.executor.window;
        let id = window.id(self.spawned);
        // SAFETY: there is one spawner, which counts.
        let alone = unsafe { self.planner.plan(window, self.spawned) };
        if alone && self.spawned < self.keeps_until && self.own().written_and_not_taken() < OWN {
            if self.own().written_and_not_taken() < OWN_FETCHED {
                self.executor.prefetch_rows(id);
            }
            self.crew.push(self.own(), id);
            self.own().publish();
        } else {
            self.crew.push(self.crew.inbox(self.inbox), id);
        }
        self.spawned += 1;
        self.executor.progress.add_spawned();
    }

    /// The ring of what is kept; workers without work take from it too.
    fn own(&self) -> &Ring {
        self.crew.local(self.crew.helper())
    }

    /// Whether as many transactions are in flight as there are workers, so that one more would wait. Looks at lines that
    /// workers write, but not at those that they wait for when they are taken away.
    fn workers_are_busy(&mut self) -> bool {
        if self.ended < self.spawned {
            self.ended = self.crew.executed();
        }
        self.spawned - self.ended >= self.crew.helper() as u64
    }

    /// Shows workers what is in the graph.
    #[inline]
    pub(crate) fn publish(&mut self) {
        if self.crew.inbox(self.inbox).publish() {
            self.crew.call();
            self.inbox = (self.inbox + 1) % self.crew.inboxes();
        }
    }
}

/// Puts a transaction in flight: its request and its rows.
///
/// # Safety
/// The window has room for this number, the caller is the stage that fills it, and the numbers come in order.
#[expect(
    unsafe_code,
    reason = "the first stages' part of the window's protocol"
)]
#[inline]
pub(crate) unsafe fn name_rows<'a, A: App>(
    app: &'a A,
    executor: &Executor<'_, A>,
    access: &mut Access<'a>,
    sequence: u64,
) -> Result<(), ReplayError> {
    let window = executor.window;
    let id = window.id(sequence);
    access.begin();
    // SAFETY: as the caller promises.
    app.access(unsafe { window.txn(id) }, access);
    if access.has_fault()
        && let Some(fault) = access.take_fault()
    {
        let sequence = Sequence(sequence);
        return Err(ReplayError::Access { sequence, fault });
    }
    // SAFETY: as the caller promises.
    unsafe { window.set_rows(id, access) };
    Ok(())
}

/// All stages on this thread. Gives how many transactions it put into the window, and why it stopped if not at the end;
/// the last one is then not in the graph, nor are those of a panic.
#[expect(unsafe_code, reason = "all stages' part of the window's protocol")]
pub(crate) fn fused<'a, A: App>(
    mut log: impl Log<Txn = A::Txn>,
    app: &'a A,
    executor: &Executor<'_, A>,
    crew: &Crew,
    access: &mut Access<'a>,
    taken: &mut u64,
) -> Result<(), ReplayError> {
    let window = executor.window;
    // SAFETY: the only one.
    let mut spawner = unsafe { Spawner::new(executor, crew) };
    let mut pause = Pause::default();
    let mut worker = Worker::new(HELPER);
    let step = room_step(window);
    let mut room_until = 0;
    let mut feeds_until = 0;
    let mut fault = None;
    let mut ended = false;
    loop {
        let mut full = false;
        let mut dry = false;
        let mut batch = 0;
        while !ended && batch < BATCH {
            if *taken == room_until && window.has_room(*taken + step - 1) {
                room_until += step;
            }
            if *taken == room_until || !window.has_room(*taken) {
                full = true;
                break;
            }
            match log.next() {
                Next::Txn(txn) => {
                    if *taken + LOOKAHEAD < room_until {
                        window.prefetch_to_fill(window.id(*taken + LOOKAHEAD));
                    }
                    // SAFETY: there is room, and this is the first stage.
                    unsafe { window.fill(*taken, txn) };
                    *taken += 1;
                    // SAFETY: it is filled just now.
                    if let Err(error) = unsafe { name_rows(app, executor, access, *taken - 1) } {
                        fault = Some(error);
                        ended = true;
                        break;
                    }
                    // SAFETY: its rows are written down.
                    unsafe { window.prefetch_tails(window.id(*taken - 1)) };
                    batch += 1;
                }
                Next::NotYet => {
                    dry = true;
                    break;
                }
                Next::End => ended = true,
            }
        }
        let keep = if ended || full || dry { 0 } else { LOOKAHEAD };
        let named = *taken - u64::from(fault.is_some());
        let before = spawner.spawned;
        while spawner.spawned + keep < named {
            // SAFETY: its rows are written down.
            unsafe { spawner.spawn() };
        }
        spawner.publish();
        if ended {
            return fault.map_or(Ok(()), Err);
        }
        if full {
            spawner.keeps_until = spawner.spawned + FULL_LATELY;
        }
        if dry {
            // If workers are busy, what comes next would wait for one, and here is time.
            let busy = spawner.spawned >= feeds_until && spawner.workers_are_busy();
            spawner.keeps_until = spawner.spawned + if busy { BATCH } else { 0 };
        }
        let nothing_done = spawner.spawned == before;
        if nothing_done && (full || dry) {
            // The model checkers' schedules must not depend on a clock.
            let began = (dry && !cfg!(any(loom, shuttle))).then(Instant::now);
            if crew.step_own(executor, &mut worker, crew.helper()) {
                if began.is_some_and(|began| began.elapsed() > LONG) {
                    feeds_until = spawner.spawned + FEEDS;
                }
                continue;
            }
        }
        if full && nothing_done {
            executor.wait_for_room(*taken, step - 1, || false);
        }
        if dry {
            pause.wait();
        } else {
            pause = Pause::default();
        }
    }
}

/// Waits for a source that cannot ring: spins, gives way, then sleeps for moments.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    waits: u32,
}

impl Pause {
    pub(crate) fn wait(&mut self) {
        self.waits = self.waits.saturating_add(1);
        if self.waits < SPINS {
            spin_loop();
        } else if self.waits < SPINS + 16 * YIELDS || cfg!(shuttle) {
            yield_now();
        } else {
            std::thread::sleep(Duration::from_micros(20));
        }
    }
}
