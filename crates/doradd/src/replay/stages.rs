//! The dispatcher on several threads: its stages in a row, joined by cursors over the window.
//!
//! A stage owns the transactions between the cursor of the stage before it and its own. It works on all that are there,
//! up to a limit, and then moves its cursor once: batches grow under load and are single transactions without it. The
//! window itself is the bounded queue between all stages, so nothing is copied from one to the next.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::bell::{Bell, Patience};
use crate::crew::Crew;
use crate::line::Line;
use crate::replay::access::Access;
use crate::replay::app::{App, Log, Next};
use crate::replay::dispatch::{Pause, Spawner, name_rows, room_step};
use crate::replay::execute::Executor;
use crate::replay::outcome::ReplayError;
use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// Transactions that a stage works on before it moves its cursor, at most.
const BATCH: u64 = 32;
/// Set in a cursor that will not move any more.
const CLOSED: u64 = 1 << 63;

/// How far a stage is.
#[derive(Debug)]
pub(crate) struct Cursor {
    at: Line<AtomicU64>,
    bell: Bell,
}

impl Cursor {
    pub(crate) fn new(patience: Patience) -> Self {
        Self {
            at: Line::new(AtomicU64::new(0)),
            bell: Bell::new(patience),
        }
    }

    /// Passes all transactions before `at` to the next stage.
    pub(crate) fn publish(&self, at: u64) {
        self.at.store(at, Ordering::Release);
        self.bell.ring();
    }

    /// Nothing more will come.
    pub(crate) fn close(&self) {
        let at = self.at.load(Ordering::Relaxed);
        self.at.store(at | CLOSED, Ordering::Release);
        self.bell.ring();
    }

    /// Waits for transactions after `done`; none if no more will come.
    pub(crate) fn wait(&self, done: u64) -> Option<u64> {
        let mut at = 0;
        self.bell.wait(|| {
            at = self.at.load(Ordering::Acquire);
            at & CLOSED != 0 || at > done
        });
        let end = at & !CLOSED;
        (end > done).then_some(end)
    }
}

/// Why a stage stopped before the end.
#[derive(Debug)]
pub(crate) enum Stop {
    Fault(ReplayError),
    Panic(Box<dyn Any + Send>),
}

impl From<ReplayError> for Stop {
    fn from(error: ReplayError) -> Self {
        Self::Fault(error)
    }
}

/// A stage between two cursors: works on each transaction, and closes its own cursor when it ends, however that is.
pub(crate) fn stage(
    input: &Cursor,
    output: Option<&Cursor>,
    mut batch: impl FnMut(u64, u64) -> (u64, Result<(), ReplayError>),
) -> Result<(), Stop> {
    let mut done = 0;
    let ended = catch_unwind(AssertUnwindSafe(|| {
        while let Some(end) = input.wait(done) {
            let (reached, result) = batch(done, end.min(done + BATCH));
            done = reached;
            if let Some(output) = output {
                output.publish(done);
            }
            result?;
        }
        Ok(())
    }));
    if let Some(output) = output {
        output.close();
    }
    match ended {
        Ok(result) => result,
        Err(payload) => Err(Stop::Panic(payload)),
    }
}

/// What the first stage and the others share.
#[derive(Debug)]
pub(crate) struct Halt(AtomicBool);

impl Halt {
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// A later stage has stopped: no more transactions are wanted.
    pub(crate) fn set<A: App>(&self, executor: &Executor<'_, A>) {
        self.0.store(true, Ordering::Release);
        executor.room.ring_all();
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The first stage, on the caller's thread: takes transactions from the log, and names their rows too if it is given an
/// [`Access`]. Counts in `taken` what it put into the window.
#[expect(
    unsafe_code,
    reason = "the first stage's part of the window's protocol"
)]
pub(crate) fn take<'a, A: App>(
    mut log: impl Log<Txn = A::Txn>,
    app: &'a A,
    executor: &Executor<'_, A>,
    mut access: Option<&mut Access<'a>>,
    output: &Cursor,
    halt: &Halt,
    taken: &mut u64,
) -> Result<(), Stop> {
    let window = executor.window;
    let more = room_step(window) - 1;
    let mut pause = Pause::default();
    let mut published = 0;
    let mut run = || {
        loop {
            if !window.has_room(*taken) {
                if published < *taken {
                    output.publish(*taken);
                    published = *taken;
                }
                executor.wait_for_room(*taken, more, || halt.is_set());
            }
            if halt.is_set() {
                return Ok(());
            }
            match log.next() {
                Next::Txn(txn) => {
                    // SAFETY: there is room, and this is the first stage.
                    unsafe { window.fill(*taken, txn) };
                    *taken += 1;
                    if let Some(access) = access.as_deref_mut() {
                        // SAFETY: it is filled just now.
                        let named = unsafe { name_rows(app, executor, access, *taken - 1) };
                        if let Err(error) = named {
                            output.publish(*taken - 1);
                            return Err(error);
                        }
                    }
                    pause = Pause::default();
                    if *taken - published == BATCH {
                        output.publish(*taken);
                        published = *taken;
                    }
                }
                Next::NotYet => {
                    if published < *taken {
                        output.publish(*taken);
                        published = *taken;
                    }
                    pause.wait();
                }
                Next::End => {
                    output.publish(*taken);
                    return Ok(());
                }
            }
        }
    };
    let ended = catch_unwind(AssertUnwindSafe(&mut run));
    output.close();
    match ended {
        Ok(result) => result.map_err(Stop::Fault),
        Err(payload) => Err(Stop::Panic(payload)),
    }
}

/// The stage that names rows.
#[expect(unsafe_code, reason = "the indexer's part of the window's protocol")]
pub(crate) fn index<'a, A: App>(
    app: &'a A,
    executor: &Executor<'_, A>,
    access: &mut Access<'a>,
    input: &Cursor,
    output: &Cursor,
) -> Result<(), Stop> {
    stage(input, Some(output), |from, to| {
        for sequence in from..to {
            // SAFETY: the cursors give it to this stage.
            if let Err(error) = unsafe { name_rows(app, executor, access, sequence) } {
                return (sequence, Err(error));
            }
        }
        (to, Ok(()))
    })
}

/// The stage that fetches what the spawner will need.
#[expect(unsafe_code, reason = "the prefetcher's part of the window's protocol")]
pub(crate) fn fetch<A: App>(
    executor: &Executor<'_, A>,
    input: &Cursor,
    output: &Cursor,
) -> Result<(), Stop> {
    stage(input, Some(output), |from, to| {
        for sequence in from..to {
            // SAFETY: the cursors give it to this stage.
            unsafe { executor.window.prefetch_tails(executor.window.id(sequence)) };
        }
        (to, Ok(()))
    })
}

/// The last stage; fetches as well if no other stage does.
#[expect(unsafe_code, reason = "the spawner's part of the window's protocol")]
pub(crate) fn spawn<A: App>(
    executor: &Executor<'_, A>,
    crew: &Crew,
    input: &Cursor,
    fetches: bool,
) -> Result<(), Stop> {
    // SAFETY: the only one.
    let mut spawner = unsafe { Spawner::new(executor, crew) };
    stage(input, None, |from, to| {
        if fetches {
            for sequence in from..to {
                // SAFETY: the cursors give it to this stage.
                unsafe { executor.window.prefetch_tails(executor.window.id(sequence)) };
            }
        }
        for _ in from..to {
            // SAFETY: the cursors give it to this stage.
            unsafe { spawner.spawn() };
        }
        spawner.publish();
        (to, Ok(()))
    })
}
