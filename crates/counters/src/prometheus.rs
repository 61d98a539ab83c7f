//! Snapshots in the text format that Prometheus scrapes (version 0.0.4).
//!
//! Counters and histograms become what they are; signed counters, gauges, latest, largest and smallest values become
//! gauges, and are left out as long as there is no value. A histogram's buckets end at 2^k - 1, where those of the
//! snapshot end too, so the counts are exact.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::exposition::{Names, Shape, braced, help};
use crate::histogram::HistogramValues;
use crate::registry::fold_values;
use crate::schema::{Field, Kind, fold_of};
use crate::snapshot::{Snapshot, Threads, Value};

type Labels<'a> = Vec<(&'a str, &'a str)>;

impl<C> Snapshot<C> {
    /// Writes all fields, each name with `prefix` and an underscore before it, if there is a prefix.
    ///
    /// Names get `_total` behind them where the field is a counter. Fields whose names the format cannot tell apart, or
    /// that have one name and different types, get the type's name behind theirs.
    ///
    /// ```
    /// use hitm_counters::{Counter, Counters, PerThread};
    ///
    /// #[derive(Counters)]
    /// struct Io {
    ///     /// Reads that were processed.
    ///     reads: Counter,
    /// }
    ///
    /// let stats = PerThread::<Io>::new();
    /// stats.local().reads.add(3);
    /// let mut text = String::new();
    /// stats.snapshot().write_prometheus("io", &mut text)?;
    /// assert_eq!(
    ///     text,
    ///     "# HELP io_reads_total Reads that were processed.\n\
    ///      ## TYPE io_reads_total counter\n\
    ///      io_reads_total 3\n"
    /// );
    /// # Ok::<(), std::fmt::Error>(())
    /// ```
    ///
    /// # Errors
    /// What `out` returns.
    pub fn write_prometheus(&self, prefix: &str, out: &mut impl fmt::Write) -> fmt::Result {
        let mut families = Families::default();
        for (field, value) in self.fields() {
            families.add(field, &[], value);
        }
        families.write(prefix, out)
    }
}

impl<C> Threads<C> {
    /// Writes all fields of each thread, with a label `thread`. Threads of one name are added up; what ended threads
    /// counted is under `ended`, so that the sum over the label is the total.
    ///
    /// When a thread ends, what it counted moves to `ended`: rates over the label are right in sum only.
    ///
    /// # Errors
    /// What `out` returns.
    pub fn write_prometheus(&self, prefix: &str, out: &mut impl fmt::Write) -> fmt::Result {
        let mut by_name: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for thread in self.iter().chain([self.ended()]) {
            let sum = (by_name.entry(thread.name()))
                .or_insert_with(|| alloc::vec![0; thread.words().len()]);
            for field in thread.schema().fields() {
                let range = || field.words.clone();
                if let (Some(own), Some(sum)) = (thread.words().get(range()), sum.get_mut(range()))
                {
                    fold_values(fold_of(field.kind), own, sum);
                }
            }
        }
        let mut families = Families::default();
        for (name, words) in &by_name {
            for (field, value) in crate::snapshot::values(self.ended().schema(), words) {
                families.add(field, &[("thread", name)], value);
            }
        }
        families.write(prefix, out)
    }
}

type Sample<'a> = (&'a Field, Labels<'a>, Value);

/// The samples of one family have to be in one piece.
#[derive(Default)]
struct Families<'a> {
    names: Vec<(&'a str, Shape)>,
    samples: BTreeMap<(&'a str, Shape), Vec<Sample<'a>>>,
}

impl<'a> Families<'a> {
    fn add(&mut self, field: &'a Field, more: &[(&'a str, &'a str)], value: Value) {
        let own = field
            .labels
            .iter()
            .map(|(name, at)| (name.as_str(), at.as_str()));
        let labels = more.iter().copied().chain(own).collect();
        let name = (field.name.as_str(), shape_of(field.kind));
        let samples = self.samples.entry(name).or_insert_with(|| {
            self.names.push(name);
            Vec::new()
        });
        samples.push((field, labels, value));
    }

    fn write(&self, prefix: &str, out: &mut impl fmt::Write) -> fmt::Result {
        let mut families = Names::default();
        for name in &self.names {
            let samples = self.samples.get(name).map_or(&[][..], Vec::as_slice);
            let Some((field, ..)) = samples.first() else {
                continue;
            };
            let (name, shape) = *name;
            let family = families.of(&prefixed(prefix, name), shape);
            if !field.help.is_empty() {
                writeln!(out, "# HELP {family} {}", help(&field.help))?;
            }
            writeln!(out, "# TYPE {family} {}", shape.word())?;
            for (_, labels, value) in samples {
                write_value(out, &family, labels, value)?;
            }
        }
        Ok(())
    }
}

fn shape_of(kind: Kind) -> Shape {
    match kind {
        Kind::Counter => Shape::Counter,
        Kind::Histogram { .. } => Shape::Histogram,
        Kind::SignedCounter | Kind::Gauge | Kind::Latest | Kind::Max | Kind::Min => Shape::Gauge,
    }
}

fn prefixed(prefix: &str, name: &str) -> String {
    let name = if name.is_empty() { "value" } else { name };
    let separator = match prefix.chars().last() {
        None | Some('_' | ':') => "",
        Some(_) => "_",
    };
    [prefix, separator, name].concat()
}

fn write_value(
    out: &mut impl fmt::Write,
    family: &str,
    labels: &Labels<'_>,
    value: &Value,
) -> fmt::Result {
    let number = match value {
        Value::Counter(n) => Some(n.to_string()),
        Value::SignedCounter(n) | Value::Gauge(n) => Some(n.to_string()),
        Value::Latest(n) => n.map(|n| n.to_string()),
        Value::Max(n) | Value::Min(n) => n.map(|n| n.to_string()),
        Value::Histogram(values) => return write_histogram(out, family, labels, values),
    };
    match number {
        Some(number) => {
            let labels = braced(Shape::Gauge, labels.iter().copied(), None);
            writeln!(out, "{family}{labels} {number}")
        }
        None => Ok(()),
    }
}

fn write_histogram(
    out: &mut impl fmt::Write,
    family: &str,
    labels: &Labels<'_>,
    values: &HistogramValues,
) -> fmt::Result {
    for bits in 0..64 {
        let Some(below) = values.below_bits(bits) else {
            break;
        };
        let end = ((1_u64 << bits) - 1).to_string();
        let labels = with_le(labels, Some(&end));
        writeln!(out, "{family}_bucket{labels} {below}")?;
    }
    let (count, own) = (values.count(), with_le(labels, None));
    let all = with_le(labels, Some("+Inf"));
    writeln!(out, "{family}_bucket{all} {count}")?;
    writeln!(out, "{family}_sum{own} {}", values.sum())?;
    writeln!(out, "{family}_count{own} {count}")
}

fn with_le(labels: &Labels<'_>, le: Option<&str>) -> String {
    braced(Shape::Histogram, labels.iter().copied(), le)
}
