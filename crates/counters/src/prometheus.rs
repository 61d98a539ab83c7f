//! Snapshots in the text format that Prometheus scrapes (version 0.0.4).
//!
//! Counters and histograms become what they are; signed counters, gauges, latest, largest and smallest values become
//! gauges, and are left out as long as there is no value. A histogram's buckets end at 2^k - 1, where those of the
//! snapshot end too, so the counts are exact.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::histogram::HistogramValues;
use crate::registry::fold_values;
use crate::schema::{Field, Kind, fold_of};
use crate::snapshot::{Snapshot, Threads, Value};

type Labels<'a> = Vec<(&'a str, &'a str)>;

impl<C> Snapshot<C> {
    /// Writes all fields, each name with `prefix` before it.
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
    /// stats.snapshot().write_prometheus("io_", &mut text)?;
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

/// The samples of one name have to be in one piece.
#[derive(Default)]
struct Families<'a> {
    names: Vec<&'a str>,
    samples: BTreeMap<&'a str, Vec<(&'a Field, Labels<'a>, Value)>>,
}

impl<'a> Families<'a> {
    fn add(&mut self, field: &'a Field, more: &[(&'a str, &'a str)], value: Value) {
        let own = field
            .labels
            .iter()
            .map(|(name, at)| (name.as_str(), at.as_str()));
        let labels = more.iter().copied().chain(own).collect();
        let samples = self.samples.entry(&field.name).or_insert_with(|| {
            self.names.push(&field.name);
            Vec::new()
        });
        samples.push((field, labels, value));
    }

    fn write(&self, prefix: &str, out: &mut impl fmt::Write) -> fmt::Result {
        for name in &self.names {
            let samples = self.samples.get(name).map_or(&[][..], Vec::as_slice);
            let Some((field, ..)) = samples.first() else {
                continue;
            };
            let name = metric_name(prefix, name, field.kind);
            if !field.help.is_empty() {
                writeln!(out, "# HELP {name} {}", escaped(&field.help, false))?;
            }
            let kind = match field.kind {
                Kind::Counter => "counter",
                Kind::Histogram { .. } => "histogram",
                _ => "gauge",
            };
            writeln!(out, "# TYPE {name} {kind}")?;
            for (_, labels, value) in samples {
                write_value(out, &name, labels, value)?;
            }
        }
        Ok(())
    }
}

fn write_value(
    out: &mut impl fmt::Write,
    name: &str,
    labels: &Labels<'_>,
    value: &Value,
) -> fmt::Result {
    let number = match value {
        Value::Counter(n) => Some(n.to_string()),
        Value::SignedCounter(n) | Value::Gauge(n) => Some(n.to_string()),
        Value::Latest(n) => n.map(|n| n.to_string()),
        Value::Max(n) | Value::Min(n) => n.map(|n| n.to_string()),
        Value::Histogram(values) => return write_histogram(out, name, labels, values),
    };
    match number {
        Some(number) => write_sample(out, name, "", labels, None, &number),
        None => Ok(()),
    }
}

fn write_histogram(
    out: &mut impl fmt::Write,
    name: &str,
    labels: &Labels<'_>,
    values: &HistogramValues,
) -> fmt::Result {
    for bits in 0..64 {
        let Some(below) = values.below_bits(bits) else {
            break;
        };
        let end = ((1_u64 << bits) - 1).to_string();
        write_sample(out, name, "_bucket", labels, Some(&end), &below.to_string())?;
    }
    let count = values.count().to_string();
    write_sample(out, name, "_bucket", labels, Some("+Inf"), &count)?;
    write_sample(out, name, "_sum", labels, None, &values.sum().to_string())?;
    write_sample(out, name, "_count", labels, None, &count)
}

fn write_sample(
    out: &mut impl fmt::Write,
    name: &str,
    suffix: &str,
    labels: &Labels<'_>,
    le: Option<&str>,
    value: &str,
) -> fmt::Result {
    write!(out, "{name}{suffix}")?;
    let all = labels.iter().copied().chain(le.map(|le| ("le", le)));
    for (i, (label, at)) in all.clone().enumerate() {
        let open = if i == 0 { "{" } else { "," };
        write!(
            out,
            "{open}{}=\"{}\"",
            valid(label, false),
            escaped(at, true)
        )?;
    }
    let close = if all.count() > 0 { "}" } else { "" };
    writeln!(out, "{close} {value}")
}

/// `_total` is how Prometheus knows counters.
fn metric_name(prefix: &str, name: &str, kind: Kind) -> String {
    let name = if name.is_empty() { "value" } else { name };
    let mut full = valid(&(prefix.to_owned() + name), true);
    if kind == Kind::Counter && !full.ends_with("_total") {
        full.push_str("_total");
    }
    full
}

/// Only letters, digits and underscores, and colons in names of metrics; no digit first.
pub(crate) fn valid(name: &str, colons: bool) -> String {
    let mut valid: String = name
        .chars()
        .map(|c| match c {
            _ if c.is_ascii_alphanumeric() => c,
            ':' if colons => c,
            _ => '_',
        })
        .collect();
    if valid.starts_with(|c: char| c.is_ascii_digit()) {
        valid.insert(0, '_');
    }
    valid
}

pub(crate) fn escaped(text: &str, quotes: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '"' if quotes => escaped.push_str("\\\""),
            c => escaped.push(c),
        }
    }
    escaped
}
