//! Snapshots as serde values (feature `serde`).
//!
//! A snapshot is a list of records, each with name, labels and value, so that what reads it needs no struct of ours. For
//! a value that looks like the struct, let the derive add serde's: `#[counters(derive(serde::Serialize))]`.

use alloc::string::String;
use alloc::vec::Vec;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::histogram::{HistogramValues, buckets};
use crate::snapshot::{Snapshot, ThreadValues, Threads, Value};

/// A field of a snapshot by itself: what a serialised [`Snapshot`] is a list of.
///
/// ```
/// use hitm_counters::{Counter, Counters, PerThread, Record, Value};
///
/// #[derive(Counters)]
/// struct Io { reads: Counter }
///
/// let stats = PerThread::<Io>::new();
/// stats.local().reads.add(3);
/// let json = serde_json::to_string(&stats.snapshot())?;
/// assert_eq!(json, r#"[{"name":"reads","value":{"counter":3}}]"#);
/// let records: Vec<Record> = serde_json::from_str(&json)?;
/// assert_eq!(records[0].value, Value::Counter(3));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Record {
    /// See [`Field::name`](crate::Field::name).
    pub name: String,
    /// See [`Field::labels`](crate::Field::labels).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<(String, String)>,
    /// What it is.
    pub value: Value,
}

fn records<'a>(
    fields: impl Iterator<Item = (&'a crate::Field, Value)>,
) -> impl Iterator<Item = Record> {
    fields.map(|(field, value)| Record {
        name: field.name.clone(),
        labels: field.labels.clone(),
        value,
    })
}

impl<C> Serialize for Snapshot<C> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(records(self.fields()))
    }
}

/// A thread as it is serialised.
#[derive(Serialize)]
struct Thread<'a> {
    name: &'a str,
    number: u64,
    fields: Vec<Record>,
}

fn thread<C>(values: &ThreadValues<C>) -> Thread<'_> {
    Thread {
        name: values.name(),
        number: values.number(),
        fields: records(values.fields()).collect(),
    }
}

/// A struct of `total` and `ended`, each a list of records, and `threads`, each with `name`, `number` and `fields`.
impl<C> Serialize for Threads<C> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct All<'a> {
            total: Vec<Record>,
            threads: Vec<Thread<'a>>,
            ended: Vec<Record>,
        }

        let all = All {
            total: records(self.total().fields()).collect(),
            threads: self.iter().map(thread).collect(),
            ended: records(self.ended().fields()).collect(),
        };
        all.serialize(serializer)
    }
}

/// A histogram as it is serialised: its buckets by number, without the empty ones.
#[derive(Serialize, Deserialize)]
#[serde(rename = "Histogram")]
struct Sparse {
    precision: u32,
    buckets: usize,
    sum: u64,
    counts: Vec<(usize, u64)>,
}

impl Serialize for HistogramValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let counts = self.buckets().iter().copied().enumerate();
        let sparse = Sparse {
            precision: self.precision(),
            buckets: self.buckets().len(),
            sum: self.sum(),
            counts: counts.filter(|(_, n)| *n > 0).collect(),
        };
        sparse.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for HistogramValues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let sparse = Sparse::deserialize(deserializer)?;
        let precision = sparse.precision;
        if precision > 16 || sparse.buckets > buckets(precision, 64) {
            return Err(D::Error::custom("no histogram has that many buckets"));
        }
        let mut words = alloc::vec![0_u64; sparse.buckets + 1];
        for (bucket, n) in sparse.counts {
            if bucket >= sparse.buckets {
                return Err(D::Error::custom("a bucket beyond the last one"));
            }
            if let Some(word) = words.get_mut(bucket) {
                *word = n;
            }
        }
        if let Some(sum) = words.last_mut() {
            *sum = sparse.sum;
        }
        Ok(Self::from_words(precision, &words))
    }
}
