//! Blocks by processor instead of by thread: for programs with thousands of threads.
//!
//! Where the kernel and the C library have restartable sequences, an update is one plain addition to the block of the
//! processor that the thread is on, and the kernel restarts it if the thread is moved in between. Elsewhere, and on
//! threads that the C library did not make, it is an atomic addition to one of a few shared blocks. A word is only ever
//! updated in one of the two ways: mixed, they would lose counts.

#![expect(
    unsafe_code,
    reason = "the sequence adds to memory that it finds by the processor's number"
)]

#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
mod rseq;

/// Where the sequence is not written for, nothing is ever counted by processor.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
mod rseq {
    #[derive(Clone, Copy, Debug)]
    pub(super) enum Area {}

    impl Area {
        pub(super) fn find() -> Option<Self> {
            None
        }
    }

    pub(super) unsafe fn add(area: Area, _: *const u8, _: usize, _: u32, _: u64) -> bool {
        match area {}
    }
}

use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;
use std::format;
use std::thread;
use std::thread_local;
use std::vec::Vec;

use crate::cells::{Counter, Max, Min, SignedCounter, encode_max, encode_min};
use crate::histogram::Histogram;
use crate::registry::{Lease, Registry};
use crate::schema::{Counters, Schema};
use crate::slab::{Probe, Slab};
use crate::snapshot::{Snapshot, Threads};
use crate::sync::{AtomicU64, AtomicUsize, Ordering};

/// Beyond so many shared blocks, threads seldom meet on one.
const MOST_SHARED: usize = 64;

/// A block of counters for every processor, and their sums: memory goes by processors, not by threads.
///
/// Costs a few instructions more per update than [`PerThread`](crate::PerThread), and tells nothing about single
/// threads. Reading is the same, with the same consistency. Gauges and latest values make no sense here and do not
/// compile:
///
/// ```
/// use hitm_counters::{Counter, Counters, LatencyHistogram, Max, PerCpu};
///
/// #[derive(Counters)]
/// struct Requests { served: Counter, nanos: LatencyHistogram, longest: Max }
///
/// let requests = PerCpu::<Requests>::new();
/// requests.add(|r| &r.served, 1);
/// requests.record(|r| &r.nanos, 250);
/// requests.see_max(|r| &r.longest, 250);
/// let values = requests.snapshot().values();
/// assert_eq!((values.served, values.nanos.count(), values.longest), (1, 1, Some(250)));
/// ```
///
/// ```compile_fail,E0080
/// use hitm_counters::{Counter, Gauge, PerCpu};
/// # #[derive(hitm_counters::Counters)]
/// struct Stats { hits: Counter, clients: Gauge }
/// let stats = PerCpu::<Stats>::new(); // error: gauges and latest values belong to a thread, not to a processor …
/// # stats.add(|s| &s.hits, 1);
/// ```
///
/// The probe block that fields are picked from is never counted in; counting in it by hand counts for nobody.
pub struct PerCpu<C: Counters> {
    registry: Arc<Registry>,
    probe: Probe,
    /// One per block, in the order of the blocks: first those of processors, then the shared ones.
    leases: Vec<Lease>,
    /// All blocks.
    slab: Arc<Slab>,
    area: Option<rseq::Area>,
    cpus: u32,
    block: PhantomData<fn() -> C>,
}

/// How a [`PerCpu`] counts on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CpuMode {
    /// By plain additions in restartable sequences.
    Restartable,
    /// By atomic additions to shared blocks, which threads are spread over.
    Shared,
}

impl<C: Counters> PerCpu<C> {
    /// An instance with a block for every processor that the machine can have.
    pub fn new() -> Self {
        Self::with(rseq::Area::find())
    }

    /// An instance that counts as it would on a machine without restartable sequences.
    #[doc(hidden)]
    pub fn new_shared() -> Self {
        Self::with(None)
    }

    fn with(area: Option<rseq::Area>) -> Self {
        const {
            assert!(
                C::PER_CPU,
                "gauges and latest values belong to a thread, not to a processor: use `PerThread`, or a `SignedCounter` \
                 in place of the gauge"
            );
        }
        let running = thread::available_parallelism().map_or(1, usize::from);
        let (cpus, shared) = match area {
            Some(_) => (possible_cpus().unwrap_or(running), 1),
            None => (0, running.min(MOST_SHARED)),
        };
        let registry = Arc::new(Registry::new(Schema::of::<C>(), cpus + shared));
        let cpu_names = (0..cpus).map(|cpu| format!("cpu{cpu}"));
        let names = cpu_names.chain((0..shared).map(|i| format!("shared{i}")));
        let leases: Vec<Lease> = names.map(|name| registry.claim(Arc::from(name))).collect();
        // There is at least one: `shared` is.
        let slab = (leases.first()).map_or_else(
            || Arc::new(Slab::new(0, 0)),
            |lease| Arc::clone(&lease.slab),
        );
        Self {
            registry,
            probe: Probe::of::<C>(),
            leases,
            slab,
            area,
            cpus: u32::try_from(cpus).unwrap_or(0),
            block: PhantomData,
        }
    }

    /// How this counts here.
    pub fn mode(&self) -> CpuMode {
        match self.area {
            Some(_) => CpuMode::Restartable,
            None => CpuMode::Shared,
        }
    }

    /// Counts `n` in a counter.
    ///
    /// # Panics
    /// As all methods that pick a field: if `pick` returns something else than a part of its argument.
    #[inline]
    pub fn add(&self, pick: impl FnOnce(&C) -> &Counter, n: u64) {
        self.add_to(self.probe.word_of(pick), n);
    }

    /// Adds `n`, which may be negative, to a signed counter.
    ///
    /// # Panics
    /// See [`add`](Self::add).
    #[inline]
    pub fn add_signed(&self, pick: impl FnOnce(&C) -> &SignedCounter, n: i64) {
        self.add_to(self.probe.word_of(pick), n.cast_unsigned());
    }

    /// Counts a value in a histogram.
    ///
    /// # Panics
    /// See [`add`](Self::add).
    #[inline]
    pub fn record<const PRECISION: u32, const N: usize>(
        &self,
        pick: impl FnOnce(&C) -> &Histogram<PRECISION, N>,
        value: u64,
    ) {
        let first = self.probe.word_of(pick);
        self.add_to(first + Histogram::<PRECISION, N>::bucket(value), 1);
        self.add_to(first + N, value);
    }

    /// Sees a value that may be the largest.
    ///
    /// # Panics
    /// See [`add`](Self::add).
    #[inline]
    pub fn see_max(&self, pick: impl FnOnce(&C) -> &Max, value: u64) {
        self.raise(self.probe.word_of(pick), encode_max(value));
    }

    /// Sees a value that may be the smallest.
    ///
    /// # Panics
    /// See [`add`](Self::add).
    #[inline]
    pub fn see_min(&self, pick: impl FnOnce(&C) -> &Min, value: u64) {
        self.raise(self.probe.word_of(pick), encode_min(value));
    }

    #[inline(always)]
    fn add_to(&self, word: usize, n: u64) {
        if let Some(area) = self.area {
            let base = self.slab.start().wrapping_add(word).cast::<u8>();
            // SAFETY: the first `self.cpus` blocks of the slab are written in this way only (see the module), `word` is
            // within a block (`word_of`, and a bucket is below `N`), and the slab lives as long as `self`.
            if unsafe { rseq::add(area, base, self.slab.stride(), self.cpus, n) } {
                return;
            }
        }
        if let Some(word) = self.shared_word(word) {
            word.fetch_add(n, Ordering::Relaxed);
        }
    }

    /// Always atomically: it is seldom more than a comparison, and readers swap these words too.
    #[inline]
    fn raise(&self, word: usize, value: u64) {
        if let Some(word) = self.shared_word(word)
            && value > word.load(Ordering::Relaxed)
        {
            word.fetch_max(value, Ordering::Relaxed);
        }
    }

    fn shared_word(&self, word: usize) -> Option<&AtomicU64> {
        let cpus = self.cpus as usize;
        let shared = self.leases.len().saturating_sub(cpus);
        let block = cpus + own_number().checked_rem(shared)?;
        self.slab.words(block).get(word)
    }

    /// As [`PerThread::snapshot`](crate::PerThread::snapshot).
    pub fn snapshot(&self) -> Snapshot<C> {
        Snapshot::new(self.registry.read(), Arc::clone(self.registry.schema()))
    }

    /// As [`PerThread::take`](crate::PerThread::take).
    pub fn take(&self) -> Snapshot<C> {
        Snapshot::new(self.registry.take(), Arc::clone(self.registry.schema()))
    }

    /// As [`PerThread::threads`](crate::PerThread::threads), by block: `cpu0`, `cpu1`, …, `shared0`, ….
    pub fn blocks(&self) -> Threads<C> {
        Threads::new(
            self.registry.by_thread(),
            Arc::clone(self.registry.schema()),
        )
    }

    /// As [`PerThread::get`](crate::PerThread::get).
    ///
    /// # Panics
    /// See [`add`](Self::add).
    pub fn get<F: Counters>(&self, pick: impl FnOnce(&C) -> &F) -> F::Values {
        let first = self.probe.word_of(pick);
        let words = self.registry.read_words(first..first + F::WORDS);
        F::values(&words.unwrap_or_default())
    }

    /// How much memory all blocks have, in bytes.
    pub fn bytes(&self) -> usize {
        self.registry.bytes()
    }
}

impl<C: Counters> Default for PerCpu<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Counters> fmt::Debug for PerCpu<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerCpu")
            .field("mode", &self.mode())
            .field("blocks", &self.leases.len())
            .finish_non_exhaustive()
    }
}

/// Spreads threads over the shared blocks: in the order in which they first count.
fn own_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.try_with(|number| *number).unwrap_or(0)
}

/// How many processors the machine can have: one more than the highest number in a list such as `0-3,8-11`.
fn possible_cpus() -> Option<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").ok()?;
    let numbers = text.trim().split([',', '-']);
    let highest = numbers
        .filter_map(|number| number.parse::<usize>().ok())
        .max()?;
    (highest < 1 << 16).then_some(highest + 1)
}
