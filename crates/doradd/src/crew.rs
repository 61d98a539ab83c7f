//! The workers: where ready work waits, who takes it in which order, and what they do when there is none.
//!
//! Work arrives in inboxes (one producer each: a lane of submitting threads, or the dispatcher) and in each worker's
//! own ring (what it freed itself). A worker runs a body to its end, then first what that body freed, then the oldest of
//! its own ring and of the inboxes, then what it can take from others. It takes one id at a time, so that nothing waits
//! behind a long body while somebody is idle.

use std::collections::VecDeque;

use crate::bell::{Bell, Patience};
use crate::counts::{AllCounts, bump};
use crate::line::{Line, assert_apart};
use crate::ring::{Batches, Ring};
use crate::sync::{AtomicUsize, Mutex, Ordering, lock, spin_loop};

/// How often in a row a worker follows what it freed before it looks at older work: a long chain of conflicts keeps its
/// data in one core's cache, but must not starve the others.
const STREAK: u32 = 16;

/// How many bodies before what it refers to a record is fetched: that can be only when the record is there.
const AHEAD: u64 = 3;

/// Spins before a worker without work looks for more: some hundred nanoseconds.
const MOMENT: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 8 };
/// Looks before it says that it is idle.
const LOOKS: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 4 };

/// What workers run.
pub(crate) trait Engine: Sync {
    /// What each worker keeps between two bodies.
    type Worker;

    /// Runs the body of an id that was taken from a ring, and gives `hand` what it freed; whether it ran. If not, the id
    /// waits for another, and whoever runs that one has it now.
    fn run(&self, worker: &mut Self::Worker, id: u32, hand: &mut Hand<'_>) -> bool;

    /// Whether no work will come any more: all that was submitted has been executed. Workers without work ask again and
    /// again, and return then.
    fn is_over(&self) -> bool;

    /// The worker found nothing to do.
    fn idle(&self, worker: &mut Self::Worker);

    /// How many bodies before its own an id is shown to [`Engine::next`]; 0 for not at all.
    fn lookahead(&self, worker: &Self::Worker) -> u64;

    /// Some bodies before [`Engine::next`] shows it: a hint, which may be wrong.
    fn soon(&self, id: u32);

    /// That many bodies later, this id may be run: a hint, which may be wrong.
    fn next(&self, id: u32);

    /// There is work again, and this was the last id before: a hint at what comes.
    fn resumes(&self, _last: u32) {}
}

/// The rings of all workers.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Crew {
    /// Ids in `overflow`; workers look at it when the rings are empty.
    overflowed: Line<AtomicUsize>,
    inboxes: Box<[Ring]>,
    locals: Box<[Ring]>,
    counts: AllCounts,
    overflow: Mutex<VecDeque<u32>>,
    work: Bell,
}

assert_apart!(Crew: overflowed);

impl Crew {
    /// Rings for so many workers and inboxes, each with room for so many ids. The counts are of as many workers.
    pub(crate) fn new(
        workers: usize,
        inboxes: usize,
        room: usize,
        batches: Batches,
        patience: Patience,
        counts: AllCounts,
    ) -> Self {
        let rings = |n, batches| (0..n).map(|_| Ring::new(room, batches)).collect();
        Self {
            overflowed: Line::new(AtomicUsize::new(0)),
            inboxes: rings(inboxes, batches),
            locals: rings(workers, Batches::Published),
            counts,
            overflow: Mutex::new(VecDeque::new()),
            work: Bell::new(patience),
        }
    }

    pub(crate) fn workers(&self) -> usize {
        self.locals.len()
    }

    /// The last worker: a replay's dispatcher, which runs bodies too.
    pub(crate) fn helper(&self) -> usize {
        self.workers() - 1
    }

    /// The inbox of a producer; only that producer may push.
    pub(crate) fn inbox(&self, i: usize) -> &Ring {
        &self.inboxes[i]
    }

    pub(crate) fn inboxes(&self) -> usize {
        self.inboxes.len()
    }

    /// A worker's own ring; only that worker may push.
    pub(crate) fn local(&self, worker: usize) -> &Ring {
        &self.locals[worker]
    }

    /// What the workers have counted.
    pub(crate) fn counts(&self) -> &AllCounts {
        &self.counts
    }

    /// Bodies that have ended, in all workers.
    pub(crate) fn executed(&self) -> u64 {
        self.counts.executed()
    }

    /// Wakes a worker for published work.
    #[inline]
    pub(crate) fn call(&self) {
        self.work.ring();
    }

    /// Wakes all workers, to see that [`Engine::is_over`].
    pub(crate) fn call_all(&self) {
        self.work.ring_all();
    }

    /// Ready work for a ring that is full; rare, because rings have room for all that may be in flight.
    #[cold]
    fn overflow(&self, id: u32) {
        let mut overflow = lock(&self.overflow);
        overflow.push_back(id);
        self.overflowed.store(overflow.len(), Ordering::Release);
        drop(overflow);
        self.work.ring();
    }

    #[cold]
    fn take_overflow(&self) -> Option<u32> {
        let mut overflow = lock(&self.overflow);
        let id = overflow.pop_front();
        self.overflowed.store(overflow.len(), Ordering::Release);
        id
    }

    /// Puts an id into a ring of the caller's.
    #[inline]
    pub(crate) fn push(&self, ring: &Ring, id: u32) {
        if ring.push(id).is_err() {
            self.overflow(id);
        }
    }

    /// The next id for a worker: its own ring and its inboxes in turn, then anybody's.
    #[inline]
    fn find(&self, me: usize, turn: u32) -> Option<u32> {
        let n = self.inboxes.len();
        // Inboxes are shared out; a worker looks at its share first.
        let mut mine = (me % n..n).step_by(self.locals.len());
        let local = |this: &Self| this.locals[me].pop();
        let found = if turn.is_multiple_of(2) {
            local(self).or_else(|| mine.find_map(|i| self.inboxes[i].pop()))
        } else {
            mine.find_map(|i| self.inboxes[i].pop())
                .or_else(|| local(self))
        };
        found.or_else(|| self.steal(me))
    }

    fn steal(&self, me: usize) -> Option<u32> {
        let from = |rings: &[Ring]| {
            let n = rings.len();
            (1..=n).find_map(|i| rings[(me + i) % n].pop())
        };
        if let Some(id) = from(&self.inboxes).or_else(|| from(&self.locals)) {
            bump(&self.counts.of(me).stolen, 1, Ordering::Relaxed);
            return Some(id);
        }
        if self.overflowed.load(Ordering::Acquire) > 0 {
            return self.take_overflow();
        }
        None
    }

    /// Whether a ready id waits somewhere.
    pub(crate) fn has_work(&self) -> bool {
        let any = |rings: &[Ring]| rings.iter().any(|ring| !ring.is_empty());
        any(&self.inboxes) || any(&self.locals) || self.overflowed.load(Ordering::Acquire) > 0
    }

    /// A worker's life: until [`Engine::is_over`] and nothing is left.
    pub(crate) fn work<E: Engine>(&self, engine: &E, worker: &mut E::Worker, me: usize) {
        let mut turns = Turns::default();
        loop {
            if self.step(engine, worker, me, &mut turns) {
                continue;
            }
            if self.is_soon_more(engine) {
                engine.resumes(turns.last);
                continue;
            }
            engine.idle(worker);
            let mut over = false;
            let slept = self.work.wait(|| {
                over = engine.is_over();
                over || self.has_work()
            });
            if slept {
                if self.has_work() {
                    // One call wakes one worker; there may be work for more.
                    self.work.ring();
                }
                bump(&self.counts.of(me).parked, 1, Ordering::Relaxed);
            }
            if over && !self.has_work() {
                return;
            }
        }
    }

    /// Waits a moment for more work.
    ///
    /// A worker that is faster than who feeds it would otherwise take ids one by one, and each time the lines that they come
    /// by; a moment later there are some, whose lines come at the same time.
    fn is_soon_more<E: Engine>(&self, engine: &E) -> bool {
        for _ in 0..LOOKS {
            if engine.is_over() {
                return false;
            }
            for _ in 0..MOMENT {
                spin_loop();
            }
            if self.has_work() {
                return true;
            }
        }
        false
    }

    /// Runs one ready body, if there is one.
    #[inline]
    pub(crate) fn step<E: Engine>(
        &self,
        engine: &E,
        worker: &mut E::Worker,
        me: usize,
        turns: &mut Turns,
    ) -> bool {
        turns.turn = turns.turn.wrapping_add(1);
        let Some(id) = turns.next.take().or_else(|| self.find(me, turns.turn)) else {
            return false;
        };
        self.look_ahead(engine, worker, me, turns, id);
        turns.last = id;
        let may_keep = turns.streak < STREAK;
        turns.next = self.run(engine, worker, me, id, may_keep);
        turns.streak = if turns.next.is_some() {
            turns.streak + 1
        } else {
            0
        };
        true
    }

    /// Shows the engine what comes next in the worker's inbox, each id once. Where several are there at once, all their
    /// records are fetched at the same time. An id that came alone is shown when it is taken, so that what it needs comes at
    /// the same time, if late.
    #[inline]
    fn look_ahead<E: Engine>(
        &self,
        engine: &E,
        worker: &mut E::Worker,
        me: usize,
        turns: &mut Turns,
        taken: u32,
    ) {
        let inbox = &self.inboxes[me % self.inboxes.len()];
        let ahead = engine.lookahead(worker);
        let (head, end) = inbox.published(ahead + AHEAD);
        if ahead > 0 && turns.next_at < head {
            engine.soon(taken);
            engine.next(taken);
        }
        turns.soon = turns.soon.max(head);
        while turns.soon < end {
            engine.soon(inbox.at(turns.soon));
            turns.soon += 1;
        }
        turns.next_at = turns.next_at.max(head);
        while turns.next_at < end.min(head + ahead) {
            engine.next(inbox.at(turns.next_at));
            turns.next_at += 1;
        }
    }

    /// Runs a body of the caller's own ring, if there is one. For one who may stop at any time: keeps none for later.
    pub(crate) fn step_own<E: Engine>(
        &self,
        engine: &E,
        worker: &mut E::Worker,
        me: usize,
    ) -> bool {
        let Some(id) = self.locals[me].pop() else {
            return false;
        };
        let ahead = engine.lookahead(worker);
        if ahead > 0
            && let Some(id) = self.locals[me].peek(ahead - 1)
        {
            engine.next(id);
        }
        self.run(engine, worker, me, id, false);
        true
    }

    /// Runs a body, and gives what it freed for this worker itself.
    #[inline]
    fn run<E: Engine>(
        &self,
        engine: &E,
        worker: &mut E::Worker,
        me: usize,
        id: u32,
        may_keep: bool,
    ) -> Option<u32> {
        let mut hand = Hand {
            crew: self,
            me,
            may_keep,
            kept: None,
            shared: 0,
        };
        let ran = engine.run(worker, id, &mut hand);
        let Hand { kept, shared, .. } = hand;
        if shared > 0 {
            self.locals[me].publish();
            self.work.ring();
        }
        let counts = self.counts.of(me);
        if kept.is_some() {
            bump(&counts.handed, 1, Ordering::Relaxed);
        }
        if ran {
            bump(&counts.executed, 1, Ordering::Release);
        }
        kept
    }
}

/// What a worker remembers from one body to the next.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    next: Option<u32>,
    streak: u32,
    turn: u32,
    /// The id that was run last.
    last: u32,
    /// Positions in the inbox up to which [`Engine::soon`] and [`Engine::next`] were told.
    soon: u64,
    next_at: u64,
}

/// Takes what a body freed: the first for this worker itself, the rest for its ring.
#[derive(Debug)]
pub(crate) struct Hand<'a> {
    crew: &'a Crew,
    me: usize,
    may_keep: bool,
    kept: Option<u32>,
    shared: u32,
}

impl Hand<'_> {
    /// This id has become ready.
    #[inline]
    pub(crate) fn ready(&mut self, id: u32) {
        if self.may_keep && self.kept.is_none() {
            self.kept = Some(id);
        } else {
            self.share(id);
        }
    }

    /// This id is ready and may be anybody's.
    pub(crate) fn share(&mut self, id: u32) {
        self.crew.push(&self.crew.locals[self.me], id);
        self.shared += 1;
    }
}
