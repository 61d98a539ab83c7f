//! One replay from beginning to end: its threads, its stop, its outcome.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::bell::Patience;
use crate::counts::{AllCounts, Watch};
use crate::crew::Crew;
use crate::pin::pin;
use crate::replay::access::Access;
use crate::replay::app::{App, Log};
use crate::replay::dispatch::fused;
use crate::replay::execute::{Executor, Worker};
use crate::replay::outcome::{ReplayError, Replayed};
use crate::replay::pace::Lookahead;
use crate::replay::stages::{Cursor, Halt, Stop, fetch, index, spawn, take};
use crate::replay::window::{RELEASED, Window};
use crate::ring::Batches;
use crate::runtime::{Builder, MAX_IN_FLIGHT, Runtime};
use crate::sync::threads::{scope, spawn_in};
use crate::sync::{Mutex, lock};

/// On how many threads the stages of the dispatcher run: taking requests, naming their rows, fetching, joining the graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Dispatch {
    /// Pipelined if the machine has a core for each stage beside the workers, else fused on one.
    #[default]
    Auto,
    /// All stages on the calling thread, which also runs requests when as many are in flight as allowed.
    Fused,
    /// Two threads: the calling one takes requests and names rows.
    FusedOnTwo,
    /// Three threads: as with two, and one that fetches ahead.
    FusedOnThree,
    /// A thread for each of the four stages.
    Pipelined,
}

impl Dispatch {
    /// Threads, the calling one included.
    fn threads(self, workers: usize) -> usize {
        match self {
            Self::Fused => 1,
            Self::FusedOnTwo => 2,
            Self::FusedOnThree => 3,
            Self::Pipelined => 4,
            Self::Auto => {
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                if cores >= workers + 4 { 4 } else { 1 }
            }
        }
    }
}

/// The rows per transaction, if that many are possible.
pub(crate) fn checked_max<A: App>() -> Result<usize, ReplayError> {
    const { assert!(MAX_IN_FLIGHT.next_power_of_two() < RELEASED as usize) }
    if A::MAX_OBJECTS > 64 {
        return Err(ReplayError::MaxObjects(A::MAX_OBJECTS));
    }
    Ok(A::MAX_OBJECTS)
}

impl Runtime {
    /// Executes a log in parallel, with the result of executing it one by one in its order.
    ///
    /// The transactions run on workers of the replay's own, as many as the runtime has; those of the runtime sleep. What
    /// was submitted with [`Runtime::when`] ends first. While a replay runs, nothing can be submitted: the replay has the
    /// runtime for itself, so that a transaction cannot depend on anything outside the log.
    ///
    /// ```compile_fail
    /// # use doradd::{Access, Acquired, App, Ctx, Runtime};
    /// struct Escapes<'r>(&'r Runtime);
    ///
    /// impl App for Escapes<'_> {
    ///     type Txn = ();
    ///     fn access<'a>(&'a self, _: &(), _: &mut Access<'a>) {}
    ///     fn execute(&self, _: &(), _: Acquired<'_>, _: &Ctx) {
    ///         self.0.when(&self.0.cown(1), |_| ());
    ///     }
    /// }
    ///
    /// let mut runtime = Runtime::builder().build().unwrap();
    /// let app = Escapes(&runtime);
    /// runtime.replay([()].into_iter(), &app).unwrap(); // the runtime is borrowed by the app
    /// ```
    ///
    /// # Errors
    /// If a transaction names rows that it cannot have, or the system gives no thread.
    ///
    /// # Panics
    /// If the log or [`App::access`] panics, once the transactions that are in the graph by then have ended. A panic of [`App::execute`] is
    /// caught and reported, see [`App::on_panic`].
    pub fn replay<L, A>(&mut self, log: L, app: &A) -> Result<Replayed, ReplayError>
    where
        L: Log<Txn = A::Txn>,
        A: App,
    {
        self.drain();
        let window = Window::new(self.config().max_in_flight, checked_max::<A>()?);
        let counts = self.replay_counts();
        counts.reset();
        replay(self.config(), &window, counts, log, app)
    }
}

fn replay<L, A>(
    config: &Builder,
    window: &Window<A::Txn>,
    counts: AllCounts,
    log: L,
    app: &A,
) -> Result<Replayed, ReplayError>
where
    L: Log<Txn = A::Txn>,
    A: App,
{
    let workers = config.workers;
    let threads = config.dispatch.threads(workers);
    let patience = Patience::of(workers + threads);
    // One more for the dispatcher, which helps.
    let crew = Crew::new(
        workers + 1,
        workers,
        config.max_in_flight,
        Batches::Published,
        patience,
        counts,
    );
    // On the heap, where tools can tell by the pointers to it whose words its threads meet at.
    let executor = Box::new(Executor::new(app, window, patience));
    let owner = std::ptr::from_ref(window).addr() as u64;
    let mut access = Access::new(owner, A::MAX_OBJECTS);
    let mut taken = 0;
    let stopped = scope(|scope| {
        for worker in 0..workers {
            let (crew, executor) = (&crew, &*executor);
            let processor = config.processor(worker);
            let run = move || {
                pin_to(processor);
                let mut state = Worker::new(config.lookahead);
                crew.work(executor, &mut state, worker);
                if worker == 0 {
                    executor.set_chosen(state.pace.chosen());
                }
            };
            if let Err(error) = spawn_in(scope, format!("doradd-{worker}"), run) {
                executor.progress.end();
                crew.call_all();
                return Some(Stop::Fault(ReplayError::Thread(error.to_string())));
            }
        }
        let stopped = if threads == 1 {
            let dispatch = || fused(log, app, &executor, &crew, &mut access, &mut taken);
            match catch_unwind(AssertUnwindSafe(dispatch)) {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(Stop::Fault(error)),
                Err(payload) => Some(Stop::Panic(payload)),
            }
        } else {
            let stages = Stages {
                config,
                app,
                executor: &executor,
                crew: &crew,
                patience,
            };
            stages.run(threads, log, &mut access, &mut taken)
        };
        finish(&executor, &crew);
        executor.progress.end();
        crew.call_all();
        stopped
    });
    let spawned = executor.progress.spawned();
    for sequence in spawned..taken {
        #[expect(unsafe_code, reason = "requests that were taken and not executed")]
        // SAFETY: it is filled, not in the graph, and no thread is left.
        unsafe {
            window.drop_txn(window.id(sequence));
        }
    }
    drop(access);
    match stopped {
        Some(Stop::Panic(payload)) => resume_unwind(payload),
        Some(Stop::Fault(error)) => Err(error),
        None => Ok(outcome(*executor, &crew)),
    }
}

/// The dispatcher has few transactions at a time, and nothing to find out with.
pub(crate) const HELPER: Lookahead = Lookahead::Fixed(2);

/// Waits until all transactions in the graph have ended, and runs those that the dispatcher has kept.
fn finish<A: App>(executor: &Executor<'_, A>, crew: &Crew) {
    let spawned = executor.progress.spawned();
    let mut state = Worker::new(HELPER);
    while crew.step_own(executor, &mut state, crew.helper()) {}
    executor.wait_for(|| crew.executed() == spawned);
}

fn outcome<A: App>(executor: Executor<'_, A>, crew: &Crew) -> Replayed {
    let done = Watch::new(crew.counts().clone()).now();
    Replayed {
        helped: done.helped,
        stolen: done.stolen,
        handed: done.handed,
        parked: done.parked,
        ..executor.outcome(done.executed)
    }
}

fn pin_to(processor: Option<usize>) {
    if let Some(processor) = processor {
        // It worked when the runtime was built; a processor that is gone since is not worth a failed replay.
        let _ = pin(processor);
    }
}

/// The dispatcher on several threads.
struct Stages<'s, 'a, A: App> {
    config: &'s Builder,
    app: &'a A,
    executor: &'s Executor<'a, A>,
    crew: &'s Crew,
    patience: Patience,
}

impl<'a, A: App> Stages<'_, 'a, A> {
    fn run(
        &self,
        threads: usize,
        log: impl Log<Txn = A::Txn>,
        access: &mut Access<'a>,
        taken: &mut u64,
    ) -> Option<Stop> {
        let (app, executor, crew) = (self.app, self.executor, self.crew);
        let cursors = [(); 3].map(|()| Cursor::new(self.patience));
        let [first, second, third] = &cursors;
        let (halt, stop) = (Halt::new(), Mutex::new(None));
        let ended = |result: Result<(), Stop>| {
            if let Err(why) = result {
                lock(&stop).get_or_insert(why);
                halt.set(executor);
            }
        };
        scope(|scope| {
            let pinned = |i: usize| self.config.processor(self.config.workers + i);
            let ended = &ended;
            let mut access = Some(access);
            let last = match threads {
                2 => first,
                3 => second,
                _ => third,
            };
            let fetches = threads == 2;
            let processor = pinned(threads - 1);
            let spawner = move || {
                pin_to(processor);
                ended(spawn(executor, crew, last, fetches));
            };
            let mut started = spawn_in(scope, "doradd-spawner".to_owned(), spawner);
            if threads >= 3 && started.is_ok() {
                let (input, output) = if threads == 3 {
                    (first, second)
                } else {
                    (second, third)
                };
                let processor = pinned(threads - 2);
                let fetcher = move || {
                    pin_to(processor);
                    ended(fetch(executor, input, output));
                };
                started = spawn_in(scope, "doradd-fetcher".to_owned(), fetcher);
            }
            if threads == 4
                && started.is_ok()
                && let Some(access) = access.take()
            {
                let processor = pinned(1);
                let indexer = move || {
                    pin_to(processor);
                    ended(index(app, executor, access, first, second));
                };
                started = spawn_in(scope, "doradd-indexer".to_owned(), indexer);
            }
            match started {
                Ok(()) => ended(take(log, app, executor, access, first, &halt, taken)),
                Err(error) => {
                    ended(Err(Stop::Fault(ReplayError::Thread(error.to_string()))));
                    // Stages that did start wait for one that did not.
                    cursors.iter().for_each(Cursor::close);
                }
            }
        });
        stop.into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
