//! Running transactions that hold their rows.

use std::collections::{BTreeMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::bell::{Bell, Patience};
use crate::crew::{Engine, Hand};
use crate::line::{Line, prefetch};
use crate::panics::{OnPanic, message};
use crate::replay::access::Acquired;
use crate::replay::app::{App, Ctx, Sequence};
use crate::replay::outcome::Replayed;
use crate::replay::pace::{Lookahead, Pace};
use crate::replay::progress::Progress;
use crate::replay::streak::Streak;
use crate::replay::window::Window;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// Panic messages that are kept: of the first in the log.
const KEPT_PANICS: usize = 16;

/// What workers need of a replay.
pub(crate) struct Executor<'a, A: App> {
    app: &'a A,
    pub(crate) window: &'a Window<A::Txn>,
    seed: u64,
    poisons: bool,
    /// The dispatcher sleeps here until a record is free.
    pub(crate) room: Bell,
    /// No transaction before this one makes the room that the dispatcher waits for.
    awaited: Line<AtomicU64>,
    /// How far ahead the first worker fetched rows in the end.
    chosen: AtomicU64,
    pub(crate) progress: Progress,
    faults: Mutex<Faults>,
}

/// What a worker knows.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) pace: Pace,
    streak: Streak,
}

impl Worker {
    pub(crate) fn new(lookahead: Lookahead) -> Self {
        Self {
            pace: Pace::new(lookahead),
            streak: Streak::default(),
        }
    }
}

/// Panics and what they left behind; touched only when something panics, or has.
#[derive(Debug, Default)]
struct Faults {
    poisoned: HashSet<usize>,
    panicked: u64,
    refused: u64,
    panics: BTreeMap<Sequence, String>,
}

impl<'a, A: App> Executor<'a, A> {
    pub(crate) fn new(app: &'a A, window: &'a Window<A::Txn>, patience: Patience) -> Self {
        Self {
            app,
            window,
            seed: app.seed(),
            poisons: app.on_panic() == OnPanic::Poison,
            room: Bell::new(patience),
            awaited: Line::new(AtomicU64::new(0)),
            chosen: AtomicU64::new(0),
            progress: Progress::default(),
            faults: Mutex::new(Faults::default()),
        }
    }

    /// Runs a transaction's body, and ends its request.
    ///
    /// # Safety
    /// The caller has the transaction, which holds its rows; called once.
    #[expect(unsafe_code, reason = "the worker has the record and the rows")]
    #[inline]
    pub(crate) unsafe fn body(&self, id: u32) {
        let (sequence, n, writes) = self.window.task(id);
        let rows = self.window.rows(id);
        if self.progress.is_any_poisoned() && self.refuses((0..n).map(|i| rows.get(i))) {
            // SAFETY: as the caller promises.
            let _ = catch_unwind(AssertUnwindSafe(|| unsafe { self.window.drop_txn(id) }));
            return;
        }
        let ctx = Ctx {
            sequence: Sequence(sequence),
            seed: self.seed,
        };
        let ended = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: as the caller promises.
            let txn = unsafe { self.window.txn(id) };
            // SAFETY: as the caller promises.
            let acquired = unsafe { Acquired::new(rows, n, writes) };
            self.app.execute(txn, acquired, &ctx);
        }));
        // SAFETY: as the caller promises.
        let dropped = catch_unwind(AssertUnwindSafe(|| unsafe { self.window.drop_txn(id) }));
        if let Err(payload) = ended.and(dropped) {
            let written = (0..n).filter(|i| writes >> i & 1 == 1);
            let message = message(&*payload);
            self.panicked(sequence, message, written.map(|i| rows.get(i)));
        }
    }

    #[cold]
    fn refuses(&self, mut rows: impl Iterator<Item = *mut u8>) -> bool {
        let mut faults = lock(&self.faults);
        let refuses = rows.any(|row| faults.poisoned.contains(&row.addr()));
        faults.refused += u64::from(refuses);
        refuses
    }

    #[cold]
    fn panicked(&self, sequence: u64, message: String, written: impl Iterator<Item = *mut u8>) {
        let mut faults = lock(&self.faults);
        faults.panicked += 1;
        faults.panics.insert(Sequence(sequence), message);
        if faults.panics.len() > KEPT_PANICS {
            faults.panics.pop_last();
        }
        if self.poisons {
            faults.poisoned.extend(written.map(|row| row.addr()));
            self.progress.set_poisoned();
        }
    }

    /// Waits until there is room for this transaction and some more, or until `stops`.
    ///
    /// Some more, because the record that is looked at is one that a worker is about to write, and each look takes it away
    /// from there.
    pub(crate) fn wait_for_room(&self, next: u64, more: u64, stops: impl Fn() -> bool) {
        let mut told = None;
        self.room.wait(|| {
            let missing = [next + more, next]
                .into_iter()
                .find(|&sequence| !self.window.has_room(sequence));
            let Some(missing) = missing else {
                return true;
            };
            let awaited = missing.saturating_sub(self.window.bound());
            if told.replace(awaited) != Some(awaited) {
                // Relaxed: who reads an older one rings too often, or not until it runs out of work.
                self.awaited.store(awaited, Ordering::Relaxed);
            }
            stops()
        });
    }

    /// A worker's report at its end.
    pub(crate) fn set_chosen(&self, lookahead: u64) {
        self.chosen.store(lookahead, Ordering::Relaxed);
    }

    /// Waits for what is true at the latest when the workers run out of work.
    pub(crate) fn wait_for(&self, ready: impl FnMut() -> bool) {
        self.awaited.store(u64::MAX, Ordering::Relaxed);
        self.room.wait(ready);
    }

    /// Fetches the rows of a transaction that runs soon.
    #[inline]
    pub(crate) fn prefetch_rows(&self, id: u32) {
        let (_, n, _) = self.window.task(id);
        let rows = self.window.rows(id);
        for i in 0..n {
            let row = rows.get(i);
            for line in 0..A::PREFETCH_LINES {
                prefetch(row.wrapping_add(line * 64));
            }
        }
    }

    pub(crate) fn outcome(self, executed: u64) -> Replayed {
        let faults = std::mem::take(&mut *lock(&self.faults));
        Replayed {
            executed,
            panicked: faults.panicked,
            refused: faults.refused,
            panics: faults.panics,
            lookahead: self.chosen.load(Ordering::Relaxed),
            ..Replayed::default()
        }
    }
}

#[expect(unsafe_code, reason = "ready ids come from rings that give each once")]
impl<A: App> Engine for Executor<'_, A> {
    type Worker = Worker;

    #[inline]
    fn run(&self, worker: &mut Worker, id: u32, hand: &mut Hand<'_>) -> bool {
        let (sequence, ..) = self.window.task(id);
        let is_mine = worker.streak.covers(sequence, self.window.records());
        if !is_mine && !self.window.admit(id) {
            return false;
        }
        // SAFETY: its predecessors have ended: it holds its rows, and its record is this worker's.
        unsafe { self.body(id) };
        worker.streak.ran(sequence);
        self.window.release(id, sequence, |id| {
            self.prefetch_rows(id);
            hand.ready(id);
        });
        // May miss who is just falling asleep; the next body, or running out of work, does not.
        if self.room.maybe_sleepers() && sequence >= self.awaited.load(Ordering::Relaxed) {
            self.room.ring_all();
        }
        worker.pace.tick();
        true
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.progress.is_over()
    }

    fn idle(&self, worker: &mut Worker) {
        worker.pace.pause();
        self.room.ring_all();
    }

    #[inline]
    fn lookahead(&self, worker: &Worker) -> u64 {
        worker.pace.lookahead()
    }

    #[inline]
    fn soon(&self, id: u32) {
        self.window.prefetch_to_run(id);
    }

    #[inline]
    fn next(&self, id: u32) {
        self.prefetch_rows(id);
    }

    #[inline]
    fn resumes(&self, last: u32) {
        // Most likely the transaction after it: its record comes while the ring is looked at.
        self.window
            .prefetch_to_run(self.window.id(u64::from(last) + 1));
    }
}
