//! The runtime as its user sees it: building, submitting, draining, shutting down.

use std::fmt;
use std::io;
use std::sync::Arc;

use thiserror::Error;

use crate::counts::{AllCounts, Watch};
use crate::panics::OnPanic;
use crate::pin::pin;
use crate::replay::pace::Lookahead;
use crate::replay::run::Dispatch;
use crate::stats::Stats;
use crate::sync::threads::{self, JoinHandle};
use crate::when::cown::{Cown, MAX_RECORDS};
use crate::when::engine::When;
use crate::when::objects::Objects;

/// How a [`Runtime`] is to be built. The defaults: a worker per processor but one for the submitter (at least one), 1024
/// in flight, no pinning, [`Dispatch::Auto`], [`OnPanic::Continue`].
#[derive(Clone, Debug)]
pub struct Builder {
    pub(crate) workers: usize,
    pub(crate) max_in_flight: usize,
    pub(crate) dispatch: Dispatch,
    pub(crate) lookahead: Lookahead,
    pin: Vec<usize>,
    on_panic: OnPanic,
}

/// Why a runtime could not be built.
#[derive(Error, Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// No workers, or more than make sense.
    #[error("{0} workers: build with 1 to 1024")]
    Workers(usize),
    /// Nothing may be in flight, or more than a slab has room for.
    #[error("max_in_flight is {0}: build with 1 to {max}", max = MAX_IN_FLIGHT)]
    MaxInFlight(usize),
    /// The system gave no thread.
    #[error("cannot start a worker thread")]
    Thread(#[source] io::Error),
    /// A thread may not run where it was told to.
    #[error("cannot pin a thread to processor {processor}: pin to processors this process may use")]
    Pin {
        /// The processor that was asked for.
        processor: usize,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

/// The largest bound on what may be in flight.
pub(crate) const MAX_IN_FLIGHT: usize = MAX_RECORDS / 1024;

impl Builder {
    pub(crate) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            workers: processors.saturating_sub(1).max(1),
            max_in_flight: 1024,
            dispatch: Dispatch::Auto,
            lookahead: Lookahead::Found,
            pin: Vec::new(),
            on_panic: OnPanic::Continue,
        }
    }

    /// Threads that run bodies.
    #[must_use]
    pub fn workers(mut self, n: usize) -> Self {
        self.workers = n;
        self
    }

    /// Requests at most that are submitted and have not ended; submitting more waits. Requests that bodies submit are not
    /// counted, because a body that waits could hold what others need to end.
    #[must_use]
    pub fn max_in_flight(mut self, n: usize) -> Self {
        self.max_in_flight = n;
        self
    }

    /// On how many threads [`Runtime::replay`] feeds the workers.
    #[must_use]
    pub fn dispatch(mut self, dispatch: Dispatch) -> Self {
        self.dispatch = dispatch;
        self
    }

    /// How many transactions before its own a worker of [`Runtime::replay`] fetches a transaction's rows, 64 at most; 0
    /// is not at all. Without this, each worker finds a distance while it works. Results do not depend on it.
    #[must_use]
    pub fn lookahead(mut self, transactions: u64) -> Self {
        self.lookahead = Lookahead::Fixed(transactions.min(64));
        self
    }

    /// Processors to run on: worker `i` on the `i`-th of these, the dispatcher's further threads on those after them, in a
    /// circle if there are fewer. The calling thread is left where it is. Empty: wherever the system likes.
    #[must_use]
    pub fn pin(mut self, processors: impl IntoIterator<Item = usize>) -> Self {
        self.pin = processors.into_iter().collect();
        self
    }

    /// What becomes of the objects of a body of [`Runtime::when`] that panics.
    #[must_use]
    pub fn on_panic(mut self, policy: OnPanic) -> Self {
        self.on_panic = policy;
        self
    }

    /// Starts the workers.
    ///
    /// # Errors
    /// If a figure is out of range, or the system refuses a thread or a processor.
    pub fn build(self) -> Result<Runtime, BuildError> {
        if !(1..=1024).contains(&self.workers) {
            return Err(BuildError::Workers(self.workers));
        }
        if !(1..=MAX_IN_FLIGHT).contains(&self.max_in_flight) {
            return Err(BuildError::MaxInFlight(self.max_in_flight));
        }
        check_processors(&self.pin)?;
        let when = Arc::new(When::new(self.workers, self.max_in_flight, self.on_panic));
        let workers = self.workers;
        let mut runtime = Runtime {
            when,
            threads: Vec::new(),
            config: self,
            replay: AllCounts::new(workers + 1),
        };
        for worker in 0..workers {
            // An early return drops the runtime, which ends the workers there are.
            let thread = start(&runtime, worker)?;
            runtime.threads.push(thread);
        }
        Ok(runtime)
    }

    /// Where the `i`-th thread belongs.
    pub(crate) fn processor(&self, i: usize) -> Option<usize> {
        (!self.pin.is_empty()).then(|| self.pin[i % self.pin.len()])
    }
}

/// Tries each processor on a thread that does nothing else.
fn check_processors(processors: &[usize]) -> Result<(), BuildError> {
    if processors.is_empty() {
        return Ok(());
    }
    let processors = processors.to_vec();
    let check = move || {
        processors.into_iter().try_for_each(|processor| {
            pin(processor).map_err(|source| BuildError::Pin { processor, source })
        })
    };
    let thread = threads::Builder::new()
        .spawn(check)
        .map_err(BuildError::Thread)?;
    thread
        .join()
        .unwrap_or_else(|_| Err(BuildError::Thread(io::Error::other("the thread died"))))
}

fn start(runtime: &Runtime, worker: usize) -> Result<JoinHandle<()>, BuildError> {
    let processor = runtime.config.processor(worker);
    let when = Arc::clone(&runtime.when);
    let run = move || {
        if let Some(processor) = processor {
            // It worked a moment ago; a processor that is gone since is no reason to have no worker.
            let _ = pin(processor);
        }
        when.work(worker);
    };
    threads::Builder::new()
        .name(format!("doradd-{worker}"))
        .spawn(run)
        .map_err(BuildError::Thread)
}

/// Runs bodies on its workers, each as soon as it holds all its objects, in the order in which requests that share
/// objects were submitted.
///
/// Share it with `Arc` to submit from several threads, or from within bodies. Dropping it, or [`Runtime::shutdown`],
/// waits for all that was submitted. Several runtimes may exist at the same time; each has its own objects.
///
/// ```
/// use doradd::Runtime;
///
/// let mut runtime = Runtime::builder().workers(2).build()?;
/// let (mine, yours) = (runtime.cown(100), runtime.cown(0));
/// for _ in 0..10 {
///     runtime.when((&mine, &yours), |(mine, yours)| {
///         *mine -= 1;
///         *yours += 1;
///     });
/// }
/// runtime.when((&mine, &yours), |(mine, yours)| assert_eq!((*mine, *yours), (90, 10)));
/// assert_eq!(runtime.shutdown().panicked, 0);
/// # Ok::<(), doradd::BuildError>(())
/// ```
pub struct Runtime {
    when: Arc<When>,
    threads: Vec<JoinHandle<()>>,
    config: Builder,
    /// Of the present replay: one more than workers, for its dispatcher.
    replay: AllCounts,
}

impl Runtime {
    /// Starts to build a runtime.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Makes an object that bodies of this runtime can acquire.
    pub fn cown<T>(&self, value: T) -> Cown<T> {
        Cown::new(value, self.when.id())
    }

    /// Submits a body that runs once it holds all the objects: `&cown` to write it, [`read(&cown)`](crate::read) to read
    /// it, alone or in a tuple of up to eight.
    ///
    /// Requests that share an object which one of them writes run one after the other, in the order of submission: if one
    /// call of `when` returns before another begins, the first request is first. All objects are acquired at once, so no
    /// two requests can wait for each other.
    ///
    /// Waits while as many requests are in flight as allowed; not within a body, see [`Builder::max_in_flight`].
    /// Allocates nothing if what the closure captures and eight bytes per object come to at most 96 bytes.
    ///
    /// # Panics
    /// If an object belongs to another runtime, or stands twice among the objects and not only to read; nothing is
    /// submitted then. A panic of the body itself is caught, see [`OnPanic`].
    pub fn when<O, F>(&self, objects: O, body: F)
    where
        O: Objects,
        F: for<'b> FnOnce(O::Accesses<'b>) + Send + 'static,
    {
        self.when.submit(&objects, body);
    }

    /// Waits until all that was submitted has ended, also what bodies submitted.
    ///
    /// # Panics
    /// Within a body of this runtime, which would wait for itself.
    pub fn drain(&self) {
        assert!(
            !self.when.is_inside(),
            "a body cannot wait for the runtime that runs it to drain"
        );
        self.when.drain();
    }

    /// What has happened so far. While bodies run, the figures are those of slightly different moments.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::of(&self.when)
    }

    /// Waits until all that was submitted has ended, ends the workers, and gives the final figures.
    ///
    /// # Panics
    /// Within a body of this runtime, which would wait for itself.
    #[must_use = "the figures tell whether a body panicked"]
    pub fn shutdown(mut self) -> Stats {
        self.drain();
        self.end();
        self.stats()
    }

    /// A view of what [`Runtime::replay`] does, for another thread to look at while it runs.
    ///
    /// ```
    /// # use doradd::{Access, Acquired, App, Ctx, Runtime, Table};
    /// # struct Add(Table<u64>);
    /// # impl App for Add {
    /// #     type Txn = u64;
    /// #     fn access<'a>(&'a self, _: &u64, access: &mut Access<'a>) { access.write(&self.0, 0) }
    /// #     fn execute(&self, txn: &u64, mut rows: Acquired<'_>, _: &Ctx) { *rows.write(&self.0, 0) += txn }
    /// # }
    /// # let app = Add(Table::new(1, |_| 0));
    /// let mut runtime = Runtime::builder().build()?;
    /// let watch = runtime.watch();
    /// let watcher = std::thread::spawn(move || watch.now().parked);
    /// runtime.replay(0..100, &app)?;
    /// assert_eq!(runtime.watch().now().executed, 100);
    /// # watcher.join().unwrap();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch::new(self.replay.clone())
    }

    pub(crate) fn replay_counts(&self) -> AllCounts {
        self.replay.clone()
    }

    pub(crate) fn config(&self) -> &Builder {
        &self.config
    }

    fn end(&mut self) {
        self.when.end();
        for thread in self.threads.drain(..) {
            // Bodies' panics are caught; a worker that panics has met a bug of ours, which its message tells.
            let _ = thread.join();
        }
    }
}

impl Drop for Runtime {
    /// Drains and ends the workers. If the last handle is dropped within a body, the workers end by themselves later.
    fn drop(&mut self) {
        if self.threads.is_empty() {
            return;
        }
        if self.when.is_inside() {
            let when = Arc::clone(&self.when);
            let threads = std::mem::take(&mut self.threads);
            let end = move || {
                when.drain();
                when.end();
                for thread in threads {
                    let _ = thread.join();
                }
            };
            // Without a thread to end them, the workers stay asleep, which is all that can be done here.
            let _ = threads::Builder::new().spawn(end);
            return;
        }
        self.when.drain();
        self.end();
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("workers", &self.when.crew.workers())
            .field("stats", &self.stats())
            .finish()
    }
}
