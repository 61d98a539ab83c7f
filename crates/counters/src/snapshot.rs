//! What was read, as plain data: all threads as one, or each by itself.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use crate::histogram::HistogramValues;
use crate::registry::{ByThread, Reading};
use crate::schema::{Counters, Field, Fold, Kind, Schema};

/// All threads as one, at about one time.
pub struct Snapshot<C> {
    reading: Reading,
    schema: Arc<Schema>,
    block: PhantomData<fn() -> C>,
}

/// A value of a field whose type is not known at compile time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Value {
    /// Of a [`Counter`](crate::Counter).
    Counter(u64),
    /// Of a [`SignedCounter`](crate::SignedCounter).
    SignedCounter(i64),
    /// Of a [`Gauge`](crate::Gauge).
    Gauge(i64),
    /// Of a [`Latest`](crate::Latest), if it was set.
    Latest(Option<i64>),
    /// Of a [`Max`](crate::Max), if it saw anything since the last reset.
    Max(Option<u64>),
    /// Of a [`Min`](crate::Min), if it saw anything since the last reset.
    Min(Option<u64>),
    /// Of a [`Histogram`](crate::Histogram).
    Histogram(HistogramValues),
}

pub(crate) fn values<'a>(
    schema: &'a Schema,
    words: &'a [u64],
) -> impl Iterator<Item = (&'a Field, Value)> + use<'a> {
    schema.fields().iter().map(|field| {
        let words = words.get(field.words.clone()).unwrap_or(&[]);
        let value = match field.kind {
            Kind::Counter => Value::Counter(crate::Counter::values(words)),
            Kind::SignedCounter => Value::SignedCounter(crate::SignedCounter::values(words)),
            Kind::Gauge => Value::Gauge(crate::Gauge::values(words)),
            Kind::Latest => Value::Latest(crate::Latest::values(words)),
            Kind::Max => Value::Max(crate::Max::values(words)),
            Kind::Min => Value::Min(crate::Min::values(words)),
            Kind::Histogram { precision } => {
                Value::Histogram(HistogramValues::from_words(precision, words))
            }
        };
        (field, value)
    })
}

impl<C: Counters> Snapshot<C> {
    pub(crate) fn new(reading: Reading, schema: Arc<Schema>) -> Self {
        Self {
            reading,
            schema,
            block: PhantomData,
        }
    }

    pub(crate) fn refresh(&mut self, read: impl FnOnce(&mut [u64]) -> u64) {
        self.reading.resets = read(&mut self.reading.words);
    }

    /// The values by name, as a struct.
    pub fn values(&self) -> C::Values {
        C::values(&self.reading.words)
    }

    /// What was counted between an older snapshot of the same instance and this one, without a reset.
    ///
    /// Counters and histograms are subtracted; gauges, latest, largest and smallest values are those of this snapshot.
    /// `None` if there was a reset in between.
    ///
    /// ```
    /// use hitm_counters::{Counter, PerThread};
    ///
    /// let stats = PerThread::<Counter>::new();
    /// stats.local().add(3);
    /// let before = stats.snapshot();
    /// stats.local().add(4);
    /// assert_eq!(stats.snapshot().since(&before).unwrap().values(), 4);
    /// ```
    pub fn since(&self, older: &Self) -> Option<Self> {
        if self.reading.resets != older.reading.resets {
            return None;
        }
        let mut newer = self.clone();
        for run in self.schema.runs() {
            if run.fold == Fold::Sum {
                for i in run.words.clone() {
                    let word = newer.reading.words.get_mut(i)?;
                    *word = word.wrapping_sub(*older.reading.words.get(i)?);
                }
            }
        }
        Some(newer)
    }
}

impl<C> Snapshot<C> {
    /// All fields with their values, for code that does not know the struct.
    pub fn fields(&self) -> impl Iterator<Item = (&Field, Value)> {
        values(&self.schema, &self.reading.words)
    }
}

impl<C> Clone for Snapshot<C> {
    fn clone(&self) -> Self {
        Self {
            reading: self.reading.clone(),
            schema: Arc::clone(&self.schema),
            block: PhantomData,
        }
    }
}

impl<C> fmt::Debug for Snapshot<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug(self.fields(), f)
    }
}

fn debug<'a>(
    fields: impl Iterator<Item = (&'a Field, Value)>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let mut map = f.debug_map();
    for (field, value) in fields {
        let labels: Vec<&str> = field.labels.iter().map(|(_, at)| at.as_str()).collect();
        if labels.is_empty() {
            map.entry(&field.name, &value);
        } else {
            map.entry(&(&field.name, labels), &value);
        }
    }
    map.finish()
}

/// Each thread by itself, from one read.
pub struct Threads<C> {
    total: Snapshot<C>,
    threads: Vec<ThreadValues<C>>,
    ended: ThreadValues<C>,
}

/// What one thread counted since it began, or since the last reset.
pub struct ThreadValues<C> {
    name: Arc<str>,
    number: u64,
    words: Box<[u64]>,
    schema: Arc<Schema>,
    block: PhantomData<fn() -> C>,
}

impl<C: Counters> Threads<C> {
    pub(crate) fn new(by_thread: ByThread, schema: Arc<Schema>) -> Self {
        let values = |name, number, words| ThreadValues {
            name,
            number,
            words,
            schema: Arc::clone(&schema),
            block: PhantomData,
        };
        Self {
            threads: (by_thread.threads.into_iter())
                .map(|(owner, words)| values(owner.name, owner.number, words))
                .collect(),
            ended: values(Arc::from("ended"), u64::MAX, by_thread.ended),
            total: Snapshot::new(by_thread.total, schema),
        }
    }
}

impl<C> Threads<C> {
    /// The threads that live, in the order in which they began to count.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &ThreadValues<C>> {
        self.threads.iter()
    }

    /// What threads counted that have ended. With `iter`, it adds up to `total`.
    ///
    /// A thread that takes its block at this very moment may be missed in the list; what it counted is in here then.
    pub fn ended(&self) -> &ThreadValues<C> {
        &self.ended
    }

    /// All threads as one.
    pub fn total(&self) -> &Snapshot<C> {
        &self.total
    }
}

impl<C> fmt::Debug for Threads<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(&self.threads)
            .entry(&self.ended)
            .finish()
    }
}

impl<C> ThreadValues<C> {
    /// The thread's name when it began to count; empty if it has none.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Tells threads of one name apart: how many blocks had been given out in this instance before.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// All fields with their values, for code that does not know the struct.
    pub fn fields(&self) -> impl Iterator<Item = (&Field, Value)> {
        values(&self.schema, &self.words)
    }
}

impl<C: Counters> ThreadValues<C> {
    /// The values by name, as a struct.
    pub fn values(&self) -> C::Values {
        C::values(&self.words)
    }
}

impl<C> fmt::Debug for ThreadValues<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.name)?;
        debug(self.fields(), f)
    }
}
