//! The rules of the text format that Prometheus scrapes (version 0.0.4), for all that writes it: which names are valid and
//! still free, and how labels and numbers are written.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// What Prometheus calls the type of a family of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shape {
    Counter,
    Gauge,
    Histogram,
}

impl Shape {
    /// As it stands behind `# TYPE`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }

    /// What is appended to the name of a family for its samples.
    fn suffixes(self) -> &'static [&'static str] {
        match self {
            Self::Counter | Self::Gauge => &[""],
            Self::Histogram => &["", "_bucket", "_sum", "_count"],
        }
    }
}

/// The families of one text. A family has one type, so metrics that differ in their type, or whose names differ only in
/// what the format cannot say, get families of their own.
#[derive(Default)]
pub(crate) struct Names {
    given: BTreeMap<(Shape, String), String>,
    taken: BTreeSet<String>,
}

impl Names {
    /// The family of a metric: its name as the format wants it, `_total` behind that of a counter; where that is taken
    /// by another metric, with the type's name behind it, and then a number.
    pub(crate) fn of(&mut self, name: &str, shape: Shape) -> String {
        let key = (shape, name.to_owned());
        if let Some(given) = self.given.get(&key) {
            return given.clone();
        }
        let name = valid(if name.is_empty() { "value" } else { name }, true);
        let stem = match shape {
            Shape::Counter => name.strip_suffix("_total").unwrap_or(&name),
            Shape::Gauge | Shape::Histogram => &name,
        };
        let end = if shape == Shape::Counter {
            "_total"
        } else {
            ""
        };
        let typed = format!("{stem}_{}", shape.word());
        let numbered = (2_u64..).map(|n| format!("{typed}_{n}{end}"));
        let family = [format!("{stem}{end}"), format!("{typed}{end}")]
            .into_iter()
            .chain(numbered)
            .find(|family| self.is_free(family, shape))
            .unwrap_or_default();
        for suffix in shape.suffixes() {
            self.taken.insert(format!("{family}{suffix}"));
        }
        self.given.insert(key, family.clone());
        family
    }

    fn is_free(&self, family: &str, shape: Shape) -> bool {
        let mut samples = (shape.suffixes().iter()).map(|suffix| format!("{family}{suffix}"));
        samples.all(|sample| !self.taken.contains(&sample))
    }
}

/// `{a="b",le="1"}`, or nothing. Labels whose names are the same to the format are told apart by a number; `le` is that of
/// a histogram's buckets.
pub(crate) fn braced<'a>(
    shape: Shape,
    labels: impl Iterator<Item = (&'a str, &'a str)>,
    le: Option<&str>,
) -> String {
    let mut names = Vec::new();
    if shape == Shape::Histogram {
        names.push("le".to_owned());
    }
    let mut all = Vec::new();
    for (name, value) in labels {
        let name = valid(name, false);
        let numbered = (2_u64..).map(|n| format!("{name}_{n}"));
        let free = core::iter::once(name.clone())
            .chain(numbered)
            .find(|name| !names.contains(name))
            .unwrap_or_default();
        all.push(format!("{free}=\"{}\"", escaped(value, true)));
        names.push(free);
    }
    all.extend(le.map(|le| format!("le=\"{le}\"")));
    if all.is_empty() {
        String::new()
    } else {
        format!("{{{}}}", all.join(","))
    }
}

/// A floating-point value as the format writes it.
#[cfg(feature = "metrics")]
pub(crate) fn number(value: f64) -> String {
    if value.is_infinite() {
        let infinite = if value > 0.0 { "+Inf" } else { "-Inf" };
        infinite.to_owned()
    } else {
        format!("{value}")
    }
}

/// Only letters, digits and underscores, and colons in names of metrics; no digit first.
fn valid(name: &str, colons: bool) -> String {
    let mut valid: String = name
        .chars()
        .map(|c| match c {
            _ if c.is_ascii_alphanumeric() => c,
            ':' if colons => c,
            _ => '_',
        })
        .collect();
    if valid.is_empty() || valid.starts_with(|c: char| c.is_ascii_digit()) {
        valid.insert(0, '_');
    }
    valid
}

/// The text behind `# HELP`.
pub(crate) fn help(text: &str) -> String {
    escaped(text, false)
}

fn escaped(text: &str, quotes: bool) -> String {
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
