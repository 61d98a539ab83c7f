//! What a block is made of: words that one thread writes and all may read.
//!
//! An update is a plain load, an addition and a plain store. That is right because only one thread writes a word at a
//! time, which the types see to: the cells are not `Sync`, so nobody can have a reference to another thread's cells, and
//! the library itself only reads them.

#![expect(
    unsafe_code,
    reason = "implementing `Counters` states that a type is made of words"
)]

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;

use crate::isolated::Isolated;
use crate::schema::{Counters, Describe, Kind};
use crate::sync::{AtomicU64, Ordering};

/// One word of one thread.
#[repr(C)]
pub(crate) struct Word {
    value: AtomicU64,
    /// Not `Sync`: two threads that add to one word by load and store would lose counts.
    one_writer: PhantomData<Cell<u64>>,
}

impl Word {
    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: u64) {
        self.value.store(value, Ordering::Relaxed);
    }

    /// Whoever sees this value also sees what this thread wrote before.
    #[inline(always)]
    pub(crate) fn publish(&self, value: u64) {
        self.value.store(value, Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn add(&self, n: u64) {
        self.set(self.get().wrapping_add(n));
    }

    #[inline(always)]
    fn raise(&self, value: u64) {
        if value > self.get() {
            self.overwrite(value);
        }
    }

    /// A plain store to a word that readers swap.
    #[cfg(not(loom))]
    #[inline(always)]
    fn overwrite(&self, value: u64) {
        self.set(value);
    }

    /// loom does not know that a swap comes right behind the store that it read, and would put this store before a swap
    /// that did not read it. An exchange here has the same outcomes as the store and is put where it belongs.
    #[cfg(loom)]
    fn overwrite(&self, value: u64) {
        self.value.swap(value, Ordering::Relaxed);
    }
}

macro_rules! opaque {
    ($($cell:ident),+) => {$(
        impl fmt::Debug for $cell {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($cell))
            }
        }
    )+};
}
opaque!(Counter, SignedCounter, Gauge, Latest, Max, Min);

/// Counts up. The total is the sum over all threads, those that ended included; it wraps around at 2⁶⁴.
#[repr(transparent)]
pub struct Counter {
    word: Word,
}

impl Counter {
    /// Counts one.
    #[inline(always)]
    pub fn inc(&self) {
        self.word.add(1);
    }

    /// Counts `n`.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        self.word.add(n);
    }
}

/// Counts up and down. The total is the sum over all threads, those that ended included, so that one thread may add what
/// another takes away: `+1` where a request arrives, `-1` wherever it is done.
#[repr(transparent)]
pub struct SignedCounter {
    word: Word,
}

impl SignedCounter {
    /// Adds `n`, which may be negative.
    #[inline(always)]
    pub fn add(&self, n: i64) {
        self.word.add(n.cast_unsigned());
    }

    /// Counts one up.
    #[inline(always)]
    pub fn inc(&self) {
        self.add(1);
    }

    /// Counts one down.
    #[inline(always)]
    pub fn dec(&self) {
        self.add(-1);
    }
}

/// A level that belongs to its thread, such as the length of its queue. The thread's view has the value it set last; the
/// total is the sum over the threads that live. When a thread ends, its level goes with it. A reset leaves it alone.
#[repr(transparent)]
pub struct Gauge {
    word: Word,
}

impl Gauge {
    /// Sets the level.
    #[inline(always)]
    pub fn set(&self, value: i64) {
        self.word.set(value.cast_unsigned());
    }

    /// Raises the level by `n`, or lowers it.
    #[inline(always)]
    pub fn add(&self, n: i64) {
        self.word.add(n.cast_unsigned());
    }

    /// The level that this thread set last.
    #[inline(always)]
    pub fn get(&self) -> i64 {
        self.word.get().cast_signed()
    }
}

/// A value of which the whole program has one, set now and then by whichever thread knows it: the total is the value set
/// last by any thread, also one that ended. A reset leaves it alone.
///
/// If one `set` happens before another (on one thread, or handed on through a lock, a channel, …), the later one wins.
/// Sets at the same time may be seen in either order. To order them, each `set` takes a number from a clock that all
/// threads share: an atomic addition, several nanoseconds, more if many threads do it at once.
#[repr(C)]
pub struct Latest {
    stamp: Word,
    value: Word,
}

#[cfg(not(loom))]
fn next_stamp() -> u64 {
    static CLOCK: Isolated<AtomicU64> = Isolated::new(AtomicU64::new(1));
    CLOCK.fetch_add(1, Ordering::Relaxed)
}

#[cfg(loom)]
fn next_stamp() -> u64 {
    loom::lazy_static! {
        static ref CLOCK: Isolated<AtomicU64> = Isolated::new(AtomicU64::new(1));
    }
    CLOCK.fetch_add(1, Ordering::Relaxed)
}

impl Latest {
    /// Sets the value.
    #[inline]
    pub fn set(&self, value: i64) {
        // The value first: a reader who sees the stamp sees this value or a newer one.
        self.value.set(value.cast_unsigned());
        self.stamp.publish(next_stamp());
    }
}

/// The largest value seen since the last reset. The largest that can be told is `u64::MAX - 1`; larger ones count as that.
///
/// A reset takes the values of all threads away. An update at the same time counts before it or after it, never in
/// neither and never in both.
#[repr(transparent)]
pub struct Max {
    word: Word,
}

impl Max {
    /// Sees a value.
    #[inline(always)]
    pub fn see(&self, value: u64) {
        self.word.raise(encode_max(value));
    }
}

/// The smallest value seen since the last reset. The largest that can be told is `u64::MAX - 1`; larger ones count as that.
///
/// Reset as [`Max`] is.
#[repr(transparent)]
pub struct Min {
    word: Word,
}

impl Min {
    /// Sees a value.
    #[inline(always)]
    pub fn see(&self, value: u64) {
        self.word.raise(encode_min(value));
    }
}

/// Zero is "nothing seen", so that new memory means that.
#[inline(always)]
pub(crate) const fn encode_max(value: u64) -> u64 {
    value.saturating_add(1)
}

/// As for the largest value, but upside down: then both are folded by taking the greater word.
#[inline(always)]
pub(crate) const fn encode_min(value: u64) -> u64 {
    let limited = if value == u64::MAX { value - 1 } else { value };
    u64::MAX - limited
}

macro_rules! one_word {
    ($cell:ident, $kind:expr, $value:ty, |$word:ident| $decode:expr) => {
        // SAFETY: one `Word` and nothing else, described as such.
        unsafe impl Counters for $cell {
            type Values = $value;
            const WORDS: usize = 1;
            const PER_CPU: bool = !matches!($kind, Kind::Gauge);

            fn describe(describe: &mut Describe<'_>) {
                describe.cell($kind, 1);
            }

            fn values(words: &[u64]) -> $value {
                let $word = words.first().copied().unwrap_or(0);
                $decode
            }
        }
    };
}
one_word!(Counter, Kind::Counter, u64, |word| word);
one_word!(SignedCounter, Kind::SignedCounter, i64, |word| word
    .cast_signed());
one_word!(Gauge, Kind::Gauge, i64, |word| word.cast_signed());
one_word!(Max, Kind::Max, Option<u64>, |word| word.checked_sub(1));
one_word!(Min, Kind::Min, Option<u64>, |word| (word != 0)
    .then_some(u64::MAX - word));

// SAFETY: two `Word`s and nothing else, described as such.
unsafe impl Counters for Latest {
    type Values = Option<i64>;
    const WORDS: usize = 2;
    const PER_CPU: bool = false;

    fn describe(describe: &mut Describe<'_>) {
        describe.cell(Kind::Latest, 2);
    }

    fn values(words: &[u64]) -> Option<i64> {
        match *words {
            [stamp, value] if stamp != 0 => Some(value.cast_signed()),
            _ => None,
        }
    }
}

/// Cells of one kind under one name, told apart by a label (`index` unless the derive is told another).
// SAFETY: `N` times the words of the elements, which follow each other without gaps, described in that order.
unsafe impl<C: Counters, const N: usize> Counters for [C; N] {
    type Values = [C::Values; N];
    const WORDS: usize = N * C::WORDS;
    const PER_CPU: bool = C::PER_CPU;

    fn describe(describe: &mut Describe<'_>) {
        for i in 0..N {
            describe.element::<C>(i);
        }
    }

    fn values(words: &[u64]) -> Self::Values {
        core::array::from_fn(|i| {
            let own = words.get(i * C::WORDS..(i + 1) * C::WORDS);
            C::values(own.unwrap_or(&[]))
        })
    }
}
