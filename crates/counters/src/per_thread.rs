//! The typed front of a registry: what users make, count in and read.

#![expect(
    unsafe_code,
    reason = "a claim hands out its block as the user's struct"
)]

use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;

use crate::registry::{Lease, Registry};
use crate::schema::{Counters, Schema};
use crate::slab::Probe;
use crate::snapshot::{Snapshot, Threads};

/// A block of counters for every thread, and their sums.
///
/// `C` is a struct with `#[derive(Counters)]`, or a single cell, or an array. Each thread that counts gets a block on
/// cache lines of its own, with all its counters packed in it, the first time it counts; when it ends, the block goes to
/// the next thread that begins, and what it counted stays.
///
/// ```
/// use hitm_counters::{Counter, Counters, Gauge, LatencyHistogram, PerThread};
///
/// /// What an IO thread does.
/// #[derive(Counters)]
/// struct IoStats {
///     /// Reads that were processed.
///     reads: Counter,
///     /// Bytes that were read.
///     bytes: Counter,
///     /// Connected clients.
///     clients: Gauge,
///     /// Nanoseconds per read.
///     latency: LatencyHistogram,
/// }
///
/// let stats = PerThread::<IoStats>::new();
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| {
///             let own = stats.local(); // this thread's block
///             for _ in 0..1000 {
///                 own.reads.inc(); // load, add, store; no lock prefix
///                 own.bytes.add(512);
///                 own.latency.record(250);
///             }
///         });
///     }
/// });
/// let total = stats.snapshot().values();
/// assert_eq!((total.reads, total.bytes), (4000, 4 * 512_000));
/// assert_eq!(total.latency.count(), 4000);
/// ```
///
/// # Consistency
/// Reading takes place while the threads count, and does not slow them but for the cache misses it causes.
///
/// - *Nothing is lost or counted twice.* Whatever was counted before a read (in the sense of happens-before: on the same
///   thread, or made known through a lock, a join, a channel, …) is in it; what is counted during the read is in it or
///   in the next one. That holds for each word: a counter, a histogram's bucket.
/// - *Monotone.* A counter read later is at least what it was, until it is reset, also when threads end or begin.
/// - *[`take`](Self::take) divides time.* Everything counted is in exactly one of what successive calls return.
/// - *Not one instant.* Different counters are read one after another, so `bytes` can be a little ahead of `reads`. A
///   reader that needs an invariant between two counters has to stop the writers.
///
/// # Threads
/// No thread but its owner can count in a block; the types see to that:
///
/// ```compile_fail,E0277
/// # use hitm_counters::{Counter, PerThread};
/// let stats = PerThread::<Counter>::new();
/// let own = stats.local();
/// std::thread::scope(|scope| { scope.spawn(|| own.inc()); }); // error: cannot be shared between threads
/// ```
///
/// ```compile_fail,E0277
/// # use hitm_counters::{Counter, PerThread};
/// let stats = PerThread::<Counter>::new();
/// let own = stats.local();
/// std::thread::spawn(move || own.inc()); // error: cannot be sent between threads
/// ```
///
/// Instances are independent of each other; there is no global one. Dropping an instance while threads have handles of it
/// is fine: what they count then is not read by anyone.
///
/// # Caveats
/// - A thread hands its block on when its thread-locals are destroyed. `JoinHandle::join` waits for that; leaving a
///   `std::thread::scope` does not, so a thread may be listed for a moment longer. Sums are right all the time.
/// - The per-thread view needs to know where a block's owner began: a block that was handed on, and every block after a
///   reset, has a copy of its words for that, so that counters then cost their size twice.
/// - A block is written by the thread that makes its slab, so that is the NUMA node it is on.
/// - A signal handler that counts in the same counter as the code that it interrupts may lose one of the two updates.
/// - After `fork`, the child has copies of all counts, and other threads' blocks have owners that do not exist: see
///   [`after_fork`](Self::after_fork).
pub struct PerThread<C: Counters> {
    registry: Arc<Registry>,
    probe: Probe,
    #[cfg(all(feature = "std", not(loom)))]
    pub(crate) id: crate::local::InstanceId,
    block: PhantomData<fn() -> C>,
}

impl<C: Counters> PerThread<C> {
    /// An instance with blocks ready for a few threads; more are made when they are needed.
    pub fn new() -> Self {
        Self::with_capacity(4)
    }

    /// An instance with blocks ready for so many threads at once.
    ///
    /// The memory is written now, so that a thread that begins to count takes no page fault.
    pub fn with_capacity(threads: usize) -> Self {
        Self {
            registry: Arc::new(Registry::new(Schema::of::<C>(), threads)),
            probe: Probe::of::<C>(),
            #[cfg(all(feature = "std", not(loom)))]
            id: crate::local::InstanceId::new(),
            block: PhantomData,
        }
    }

    /// Makes blocks ready for so many threads besides those that have one.
    pub fn reserve(&self, threads: usize) {
        self.registry.reserve(threads);
    }

    /// A block for whoever holds the claim: for executors and workers that have an identity of their own, and where
    /// there are no thread-locals.
    ///
    /// The claim can be sent to another thread, but not be used by two. Its block is handed on when it is dropped.
    ///
    /// ```
    /// use hitm_counters::{Counter, PerThread};
    ///
    /// let stats = PerThread::<Counter>::new();
    /// let shard = stats.claim("shard_0");
    /// let thread = std::thread::spawn(move || shard.add(3));
    /// thread.join().unwrap();
    /// assert_eq!(stats.snapshot().values(), 3);
    /// ```
    pub fn claim(&self, name: &str) -> Claim<C> {
        let lease = self.registry.claim(Arc::from(name));
        let block = lease.slab.block(lease.slot);
        Claim { block, lease }
    }

    /// All threads as one.
    pub fn snapshot(&self) -> Snapshot<C> {
        Snapshot::new(self.registry.read(), Arc::clone(self.registry.schema()))
    }

    /// [`snapshot`](Self::snapshot) without an allocation.
    pub fn snapshot_into(&self, snapshot: &mut Snapshot<C>) {
        snapshot.refresh(|words| self.registry.read_into(words));
    }

    /// [`snapshot`](Self::snapshot), and a new start from zero: everything counted is in exactly one of what successive
    /// calls return. Gauges and latest values keep their values.
    ///
    /// ```
    /// use hitm_counters::{Counter, PerThread};
    ///
    /// let stats = PerThread::<Counter>::new();
    /// let own = stats.local();
    /// own.add(2);
    /// assert_eq!(stats.take().values(), 2);
    /// own.add(5);
    /// assert_eq!(stats.take().values(), 5);
    /// assert_eq!(stats.snapshot().values(), 0);
    /// ```
    pub fn take(&self) -> Snapshot<C> {
        Snapshot::new(self.registry.take(), Arc::clone(self.registry.schema()))
    }

    /// [`take`](Self::take), and nobody looks.
    pub fn reset(&self) {
        let _ = self.registry.take();
    }

    /// Each thread, those that ended as one, and the total, all from the same reads.
    ///
    /// ```
    /// use hitm_counters::{Counter, Counters, PerThread};
    ///
    /// #[derive(Counters)]
    /// struct Io { reads: Counter, writes: Counter }
    ///
    /// let stats = PerThread::<Io>::new();
    /// let first = stats.claim("io_thread_1");
    /// first.reads.add(2);
    /// first.writes.inc();
    /// let lines: Vec<String> = (stats.threads().iter())
    ///     .map(|thread| format!("{}: reads={}, writes={}", thread.name(), thread.values().reads, thread.values().writes))
    ///     .collect();
    /// assert_eq!(lines, ["io_thread_1: reads=2, writes=1"]);
    /// ```
    pub fn threads(&self) -> Threads<C> {
        Threads::new(
            self.registry.by_thread(),
            Arc::clone(self.registry.schema()),
        )
    }

    /// One field of all threads as one, without reading the others.
    ///
    /// ```
    /// use hitm_counters::{Counter, Counters, PerThread};
    ///
    /// #[derive(Counters)]
    /// struct Io { reads: Counter, writes: Counter }
    ///
    /// let stats = PerThread::<Io>::new();
    /// stats.local().writes.inc();
    /// assert_eq!(stats.get(|io| &io.writes), 1);
    /// ```
    ///
    /// # Panics
    /// If `pick` returns something else than a part of its argument.
    pub fn get<F: Counters>(&self, pick: impl FnOnce(&C) -> &F) -> F::Values {
        let first = self.probe.word_of(pick);
        let words = self.registry.read_words(first..first + F::WORDS);
        F::values(&words.unwrap_or_default())
    }

    /// What is counted.
    pub fn schema(&self) -> &Schema {
        self.registry.schema()
    }

    /// How much memory all blocks have, used or not, in bytes.
    pub fn bytes(&self) -> usize {
        self.registry.bytes()
    }

    #[cfg(all(feature = "std", not(loom)))]
    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Tells a child process made by `fork` that the threads of its parent are not there: their counts are then counted
    /// under "ended", and their blocks are used again.
    ///
    /// `keep` is the claim of the thread that forked, if it has one; the handle that [`local`](Self::local) gives is kept
    /// anyway. If a thread of the parent was reading or ending at the moment of the fork, this waits for ever in the
    /// child, as with any lock that is held at a fork. Called where other threads do exist, their later counts may be
    /// lost.
    pub fn after_fork(&self, keep: Option<&Claim<C>>) {
        #[cfg(all(feature = "std", not(loom)))]
        let own = crate::local::find(self);
        #[cfg(not(all(feature = "std", not(loom))))]
        let own: Option<Arc<Lease>> = None;
        let kept = [keep.map(|claim| &claim.lease), own.as_deref()];
        self.registry.retire_others(&kept);
    }
}

impl<C: Counters> Default for PerThread<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Counters> fmt::Debug for PerThread<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerThread")
            .field("words", &C::WORDS)
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

/// A block that one holder counts in; see [`PerThread::claim`].
pub struct Claim<C> {
    block: NonNull<C>,
    lease: Lease,
}

// SAFETY: the block is reached through this claim only, and the claim is not `Sync`: sending it takes all access along.
// Memory is freed and handed on through atomics and locks.
unsafe impl<C: Counters> Send for Claim<C> {}

impl<C> Deref for Claim<C> {
    type Target = C;

    #[inline(always)]
    fn deref(&self) -> &C {
        // SAFETY: `lease.slab` holds the block's memory, initialised, and was made for this type; other references to it
        // are those of readers, to atomics.
        unsafe { self.block.as_ref() }
    }
}

impl<C> fmt::Debug for Claim<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Claim").field(&self.lease.slot).finish()
    }
}
