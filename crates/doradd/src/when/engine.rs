//! Submitting and running bodies.
//!
//! A thread from outside submits through a *lane*: a lock that is all but never contended, free records, and an inbox of
//! the workers. A body submits through its worker. What both do is the same: fill a record, append its slots to the
//! objects' queues, and push it as ready if all objects came at once.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use crate::bell::{Bell, Patience};
use crate::counts::{AllCounts, bump};
use crate::crew::{Crew, Engine, Hand};
use crate::line::{Line, prefetch_to_write};
use crate::panics::{OnPanic, message};
use crate::ring::Batches;
use crate::sync::{
    AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, SPINS, UnsafeCell, lock, spin_loop,
    thread_local, yield_now,
};
use crate::when::behaviour::{Behaviour, Body, Ended, Fate, Held, INLINE, Run};
use crate::when::cown::{Header, Released, SlotId, free};
use crate::when::objects::{List, Objects};
use crate::when::slab::{NONE, Pool, Slab};

/// Lanes for submitters: more threads than that share them.
const LANES: usize = if cfg!(any(loom, shuttle)) { 1 } else { 4 };
/// Records that a worker collects before it gives them back.
const BATCH: u32 = 32;
/// How many bodies before its own a body's objects are fetched.
const LOOKAHEAD: u64 = 3;
/// Panic messages that are kept.
const KEPT_PANICS: usize = 16;

thread_local! {
    /// The engine and worker this thread works for, and whether it submits from a body.
    static CURRENT: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
    static LANE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// All that the workers and handles of one runtime share.
#[derive(Debug)]
pub(crate) struct When {
    /// Set once, when all work is done; polled by workers without work.
    over: Line<AtomicBool>,
    slab: Slab,
    pub(crate) crew: Crew,
    lanes: Box<[Line<Lane>]>,
    nests: Box<[Line<Nest>]>,
    next_lane: AtomicUsize,
    /// Submitters wait here for free records.
    room: Bell,
    /// `drain` waits here for everything to end.
    quiet: Bell,
    on_panic: OnPanic,
    batch: u32,
    panicked: AtomicU64,
    refused: AtomicU64,
    panics: Mutex<Vec<String>>,
}

/// Where threads from outside submit.
#[derive(Debug)]
struct Lane {
    locked: AtomicBool,
    free: UnsafeCell<u32>,
    submitted: AtomicU64,
}

/// Where a worker's bodies submit; only the worker's thread uses it.
#[derive(Debug)]
struct Nest {
    free: UnsafeCell<u32>,
    submitted: AtomicU64,
}

#[expect(unsafe_code, reason = "a cell under a lock, and a cell of one thread")]
mod shared {
    use super::{Lane, Nest};

    // SAFETY: `free` is only touched while `locked` is held.
    unsafe impl Sync for Lane {}
    // SAFETY: `free` is only touched by the worker of the same number.
    unsafe impl Sync for Nest {}
}

/// Records on their way back to the slab, in a worker's hands.
#[derive(Debug)]
struct Returning {
    pool: Pool,
    first: u32,
    last: u32,
    n: u32,
}

/// What a worker keeps between two bodies.
#[derive(Debug)]
pub(crate) struct Worker {
    returning: [Returning; 2],
    unseen: bool,
}

impl Worker {
    pub(crate) fn new() -> Self {
        let returning = |pool| Returning {
            pool,
            first: NONE,
            last: NONE,
            n: 0,
        };
        Self {
            returning: [returning(Pool::Outside), returning(Pool::Inside)],
            unseen: false,
        }
    }
}

impl Lane {
    fn lock(&self) {
        let mut looks = 0;
        while self.locked.load(Ordering::Relaxed)
            || self
                .locked
                .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
        {
            looks += 1;
            if looks < SPINS {
                spin_loop();
            } else {
                yield_now();
            }
        }
    }

    fn unlock(&self) {
        self.locked.store(false, Ordering::Release);
    }
}

impl When {
    pub(crate) fn new(workers: usize, max_in_flight: usize, on_panic: OnPanic) -> Self {
        let free = || UnsafeCell::new(NONE);
        let patience = Patience::of(workers + 1);
        let counts = AllCounts::new(workers);
        Self {
            over: Line::new(AtomicBool::new(false)),
            slab: Slab::new(max_in_flight),
            crew: Crew::new(
                workers,
                LANES,
                max_in_flight,
                Batches::Open,
                patience,
                counts,
            ),
            lanes: (0..LANES)
                .map(|_| {
                    Line::new(Lane {
                        locked: AtomicBool::new(false),
                        free: free(),
                        submitted: AtomicU64::new(0),
                    })
                })
                .collect(),
            nests: (0..workers)
                .map(|_| {
                    Line::new(Nest {
                        free: free(),
                        submitted: AtomicU64::new(0),
                    })
                })
                .collect(),
            next_lane: AtomicUsize::new(0),
            room: Bell::new(patience),
            quiet: Bell::new(Patience::SHORT),
            on_panic,
            batch: BATCH.min((max_in_flight / (4 * workers)) as u32).max(1),
            panicked: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            panics: Mutex::new(Vec::new()),
        }
    }

    /// Names this runtime in its objects. A later runtime at the same address does no harm: all queues of this one are
    /// empty by then.
    pub(crate) fn id(&self) -> u64 {
        std::ptr::from_ref(self).addr() as u64
    }

    /// Bodies submitted so far.
    pub(crate) fn submitted(&self) -> u64 {
        let lanes = self.lanes.iter().map(|lane| &lane.submitted);
        let nests = self.nests.iter().map(|nest| &nest.submitted);
        lanes
            .chain(nests)
            .map(|count| count.load(Ordering::Acquire))
            .sum()
    }

    pub(crate) fn panicked(&self) -> (u64, u64, Vec<String>) {
        (
            self.panicked.load(Ordering::Relaxed),
            self.refused.load(Ordering::Relaxed),
            lock(&self.panics).clone(),
        )
    }

    /// Waits until every submitted body has ended.
    ///
    /// What has ended is read before what was submitted; so if the two are equal, they were equal at the time between.
    pub(crate) fn drain(&self) {
        self.quiet.wait(|| self.crew.executed() == self.submitted());
    }

    /// Lets the workers return. Everything has ended, and nothing will be submitted.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.crew.call_all();
    }

    /// Whether this thread runs a body of this runtime.
    pub(crate) fn is_inside(&self) -> bool {
        CURRENT.with(|current| current.get().0 == self.id() as usize)
    }

    /// What a worker thread does.
    pub(crate) fn work(&self, me: usize) {
        CURRENT.with(|current| current.set((self.id() as usize, me)));
        self.crew.work(self, &mut Worker::new(), me);
        CURRENT.with(|current| current.set((0, 0)));
    }

    /// Submits a body.
    pub(crate) fn submit<O, F>(&self, objects: &O, body: F)
    where
        O: Objects,
        F: for<'b> FnOnce(O::Accesses<'b>) + Send + 'static,
    {
        let mut list = List::new(self.id());
        objects.list(&mut list);
        let held = list.ordered();
        for held in held {
            // The lines come at the same time rather than one after the other, and while the record is filled.
            prefetch_to_write(held.object);
        }
        let job = (body, objects.pointers());
        let (engine, me) = CURRENT.with(Cell::get);
        if engine == self.id() as usize {
            self.submit_inside::<O, F>(me, job, held);
        } else {
            self.submit_outside::<O, F>(job, held);
        }
    }

    fn submit_inside<O, F>(&self, me: usize, job: (F, O::Pointers), held: &[Held])
    where
        O: Objects,
        F: for<'b> FnOnce(O::Accesses<'b>) + Send + 'static,
    {
        let nest = &self.nests[me];
        #[expect(unsafe_code, reason = "a cell of this thread's")]
        let id = nest.free.with_mut(|free| {
            // SAFETY: this is the worker's thread, and nothing below comes back here.
            let free = unsafe { &mut *free };
            if *free == NONE {
                *free = self.slab.take_all(Pool::Inside);
            }
            if *free == NONE {
                *free = self.slab.grow();
            }
            self.unlink(free, size_of::<(F, O::Pointers)>())
        });
        bump(&nest.submitted, 1, Ordering::Release);
        if self.enqueue::<O, F>(id, job, held) {
            let ring = self.crew.local(me);
            self.crew.push(ring, id);
            ring.publish();
            self.crew.call();
        }
    }

    fn submit_outside<O, F>(&self, job: (F, O::Pointers), held: &[Held])
    where
        O: Objects,
        F: for<'b> FnOnce(O::Accesses<'b>) + Send + 'static,
    {
        let i = self.my_lane();
        let lane = &self.lanes[i];
        lane.lock();
        let id = loop {
            #[expect(unsafe_code, reason = "a cell under the lane's lock")]
            let id = lane.free.with_mut(|free| {
                // SAFETY: the lane is locked.
                let free = unsafe { &mut *free };
                if *free == NONE {
                    *free = self.slab.take_all(Pool::Outside);
                }
                (*free != NONE).then(|| self.unlink(free, size_of::<(F, O::Pointers)>()))
            });
            if let Some(id) = id {
                break id;
            }
            lane.unlock();
            let mut chain = NONE;
            self.room.wait(|| {
                chain = self.gather();
                chain != NONE
            });
            lane.lock();
            self.put(lane, chain);
        };
        bump(&lane.submitted, 1, Ordering::Release);
        let ready = self.enqueue::<O, F>(id, job, held);
        if ready {
            let ring = self.crew.inbox(i);
            self.crew.push(ring, id);
            ring.publish_batch();
        }
        lane.unlock();
        if ready {
            self.crew.call();
        }
    }

    fn my_lane(&self) -> usize {
        LANE.with(|lane| {
            if lane.get() == usize::MAX {
                lane.set(self.next_lane.fetch_add(1, Ordering::Relaxed));
            }
            lane.get() % LANES
        })
    }

    /// Free records from wherever they are: the slab, or lanes that do not need theirs.
    fn gather(&self) -> u32 {
        let chain = self.slab.take_all(Pool::Outside);
        if chain != NONE {
            return chain;
        }
        for lane in &self.lanes {
            lane.lock();
            #[expect(unsafe_code, reason = "a cell under the lane's lock")]
            let chain = lane.free.with_mut(|free| {
                // SAFETY: the lane is locked.
                std::mem::replace(unsafe { &mut *free }, NONE)
            });
            lane.unlock();
            if chain != NONE {
                return chain;
            }
        }
        NONE
    }

    /// Adds a chain to a locked lane's.
    fn put(&self, lane: &Lane, chain: u32) {
        let mut last = chain;
        loop {
            match self.slab.get(last).next_free() {
                NONE => break,
                next => last = next,
            }
        }
        #[expect(unsafe_code, reason = "a cell under the lane's lock")]
        lane.free.with_mut(|free| {
            // SAFETY: the lane is locked.
            let free = unsafe { &mut *free };
            self.slab.get(last).set_next_free(*free);
            *free = chain;
        });
    }

    /// Takes the first record of a chain, to put a body of this size in.
    fn unlink(&self, chain: &mut u32, body: usize) -> u32 {
        let id = *chain;
        *chain = self.slab.get(id).next_free();
        if *chain != NONE {
            // Some worker wrote it last; it will be written here next, most likely for a request like this one.
            self.slab.get(*chain).prefetch_to_fill(body);
            // Chains mostly run up or down: guess the one after the next too, whose link is on its way.
            let guess = chain.wrapping_add(chain.wrapping_sub(id).wrapping_mul(2));
            if let Some(record) = self.slab.first(guess) {
                record.prefetch_to_fill(body);
            }
        }
        id
    }

    /// Fills a record and appends it to its objects' queues; whether it holds them all already.
    fn enqueue<O, F>(&self, id: u32, job: (F, O::Pointers), held: &[Held]) -> bool
    where
        O: Objects,
        F: for<'b> FnOnce(O::Accesses<'b>) + Send + 'static,
    {
        let record = self.slab.get(id);
        let body = size_of::<(F, O::Pointers)>();
        record.set_job(store::<O, F>(record, job), body, held);
        acquire(&self.slab, id, held)
    }

    /// Records and counts a panic.
    #[cold]
    fn panicked_with(&self, message: String) {
        self.panicked.fetch_add(1, Ordering::Relaxed);
        let mut panics = lock(&self.panics);
        if panics.len() < KEPT_PANICS {
            panics.push(message);
        }
    }

    fn give_back(&self, returning: &mut Returning) {
        if returning.n > 0 {
            self.slab
                .give_back(returning.pool, returning.first, returning.last);
            returning.n = 0;
            returning.first = NONE;
            if returning.pool == Pool::Outside {
                self.room.ring_all();
            }
        }
    }
}

/// Appends a filled record's slots to the queues of its objects, all at once; whether it holds them all already.
#[expect(
    unsafe_code,
    reason = "follows pointers to objects that handles keep alive"
)]
pub(crate) fn acquire(slab: &Slab, id: u32, held: &[Held]) -> bool {
    fn header<'a>(held: &Held) -> &'a Header {
        // SAFETY: the submitter has handles to its objects while it submits.
        unsafe { &*held.object }
    }
    let record = slab.get(id);
    if let [one] = held
        && one.write
    {
        record.wait_for(1);
        if header(one).try_take(SlotId::new(id, 0)) {
            return true;
        }
    }
    let mut states = [0; crate::when::behaviour::MAX_OBJECTS];
    let mut missing = 0;
    for (i, (held, state)) in held.iter().zip(&mut states).enumerate() {
        let locked = header(held).lock();
        let (after, granted) = header(held).append(locked, slab, SlotId::new(id, i), held.write);
        *state = after;
        missing += u32::from(!granted);
    }
    // Nobody can grant a slot before its queue is unlocked.
    record.wait_for(missing);
    for (held, state) in held.iter().zip(states) {
        header(held).unlock(state);
    }
    missing == 0
}

/// Puts a closure with its pointers into a record, boxed if it is too large.
#[expect(unsafe_code, reason = "type erasure of closures without an allocation")]
fn store<O, F>(record: &Behaviour, job: (F, O::Pointers)) -> Run
where
    O: Objects,
    F: for<'b> FnOnce(O::Accesses<'b>) + Send + 'static,
{
    fn call<O, F>((body, pointers): (F, O::Pointers), fate: Fate) -> Ended
    where
        O: Objects,
        F: for<'b> FnOnce(O::Accesses<'b>) + Send + 'static,
    {
        let ended = catch_unwind(AssertUnwindSafe(move || {
            if fate == Fate::Run {
                // SAFETY: the record runs, so it holds its objects, until after this.
                body(unsafe { O::accesses(pointers) });
            }
        }));
        match ended {
            Ok(()) => Ended::Well,
            Err(payload) => Ended::Panicked(message(&*payload)),
        }
    }
    unsafe fn inline<O, F>(body: *mut Body, fate: Fate) -> Ended
    where
        O: Objects,
        F: for<'b> FnOnce(O::Accesses<'b>) + Send + 'static,
    {
        let job: *mut (F, O::Pointers) = body.cast();
        // SAFETY: `store` wrote this type there, and it is consumed once.
        call::<O, F>(unsafe { job.read() }, fate)
    }
    unsafe fn boxed<O, F>(body: *mut Body, fate: Fate) -> Ended
    where
        O: Objects,
        F: for<'b> FnOnce(O::Accesses<'b>) + Send + 'static,
    {
        let job: *mut Box<(F, O::Pointers)> = body.cast();
        // SAFETY: `store` wrote this type there, and it is consumed once.
        call::<O, F>(*unsafe { job.read() }, fate)
    }
    if size_of::<(F, O::Pointers)>() <= INLINE
        && align_of::<(F, O::Pointers)>() <= align_of::<Body>()
    {
        record.write_body(|body| {
            // SAFETY: it fits in size and alignment, as just checked.
            unsafe { body.cast::<(F, O::Pointers)>().write(job) }
        });
        inline::<O, F>
    } else {
        let job = Box::new(job);
        record.write_body(|body| {
            // SAFETY: a pointer fits.
            unsafe { body.cast::<Box<(F, O::Pointers)>>().write(job) }
        });
        boxed::<O, F>
    }
}

#[expect(
    unsafe_code,
    reason = "runs closures and releases objects that a ready record holds"
)]
impl Engine for When {
    type Worker = Worker;

    fn run(&self, worker: &mut Worker, id: u32, hand: &mut Hand<'_>) -> bool {
        let record = self.slab.get(id);
        let slots = usize::from(record.job().slots);
        // SAFETY: held objects are alive.
        let header = |held: Held| unsafe { &*held.object };
        let refuse = self.on_panic == OnPanic::Poison
            && (0..slots).any(|i| header(record.held(i)).is_poisoned());
        let fate = if refuse { Fate::Refuse } else { Fate::Run };
        // SAFETY: it came from a ring of ready records, which gives each once.
        let ended = unsafe { record.run(fate) };
        if refuse {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        if let Ended::Panicked(message) = ended {
            self.panicked_with(message);
            if self.on_panic == OnPanic::Poison && !refuse {
                for held in (0..slots).map(|i| record.held(i)).filter(|held| held.write) {
                    header(held).poison(true);
                }
            }
        }
        for i in 0..slots {
            let held = record.held(i);
            let slot = SlotId::new(id, i);
            let released = header(held).release(&self.slab, slot, held.write, |id| hand.ready(id));
            if released == Released::Orphaned
                && let Some(object) = NonNull::new(held.object.cast_mut())
            {
                // SAFETY: the release said so. A value whose drop panics is dropped as far as it can be.
                let dropped = catch_unwind(AssertUnwindSafe(|| unsafe { free(object) }));
                if let Err(payload) = dropped {
                    self.panicked_with(message(&*payload));
                }
            }
        }
        let returning = &mut worker.returning[self.slab.pool(id) as usize];
        record.set_next_free(returning.first);
        returning.first = id;
        if returning.n == 0 {
            returning.last = id;
        }
        returning.n += 1;
        if returning.n >= self.batch || self.room.maybe_sleepers() {
            self.give_back(returning);
        }
        worker.unseen = true;
        true
    }

    fn lookahead(&self, _: &Worker) -> u64 {
        LOOKAHEAD
    }

    fn next(&self, id: u32) {
        self.slab.get(id).prefetch_to_run();
    }

    fn soon(&self, id: u32) {
        self.slab.get(id).prefetch();
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    fn idle(&self, worker: &mut Worker) {
        for returning in &mut worker.returning {
            self.give_back(returning);
        }
        if std::mem::take(&mut worker.unseen) {
            self.quiet.ring_all();
        }
    }
}
