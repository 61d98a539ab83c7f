//! What of a run is compared.

use regex::Regex;
use serde::{Serialize, Serializer};
use thiserror::Error;

use crate::judge::Better;
use crate::trial::Seconds;

/// What of a run is compared.
#[derive(Clone, Debug)]
pub enum Metric {
    /// Seconds from start to end.
    Wall,
    /// Seconds of processor time, user and system.
    Cpu,
    /// Bytes of memory at most.
    MaxRss,
    /// The number in the one group of a regular expression, in what the command prints.
    Printed(Regex),
    /// A number in the JSON that the command prints, by its JSON pointer (RFC 6901).
    Json(String),
}

/// What a run can be measured by.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// From start to end.
    pub wall: Seconds,
    /// Processor time.
    pub cpu: Seconds,
    /// Memory at most, in bytes.
    pub max_rss: u64,
    /// Standard output.
    pub stdout: &'a str,
    /// Standard error; a regular expression that finds nothing in the output is tried on it.
    pub stderr: &'a str,
}

/// Why a metric is none, or a run has none.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum MetricError {
    /// The regular expression is none.
    #[error("the metric is no regular expression: {0}")]
    NotRegular(String),
    /// Which number is meant is not clear.
    #[error(
        "the metric must have one group, as in 'ops: ([0-9.]+)': it has {0} (wall, cpu, rss and json:/POINTER are others)"
    )]
    Groups(usize),
    /// It is not in what was printed.
    #[error(
        "nothing that the command printed matches {0} (look at what it prints; it may have failed)"
    )]
    NotFound(String),
    /// Several are.
    #[error(
        "{metric} matches {times} times in what the command printed (make it match the one that counts)"
    )]
    Ambiguous {
        /// The expression.
        metric: String,
        /// How often.
        times: usize,
    },
    /// What matches is no number.
    #[error("{text:?} is no number")]
    NotANumber {
        /// What matched.
        text: String,
    },
    /// What was printed is no JSON.
    #[error("the command did not print JSON: {0}")]
    NotJson(String),
}

impl Metric {
    /// `wall`, `cpu`, `rss`, `json:/POINTER`, else a regular expression with one group.
    ///
    /// # Errors
    /// If it is none of these.
    pub fn parse(text: &str) -> Result<Self, MetricError> {
        if let Some(pointer) = text.strip_prefix("json:") {
            return Ok(Self::Json(pointer.to_owned()));
        }
        Ok(match text {
            "wall" => Self::Wall,
            "cpu" => Self::Cpu,
            "rss" => Self::MaxRss,
            _ => {
                let regex =
                    Regex::new(text).map_err(|error| MetricError::NotRegular(error.to_string()))?;
                let groups = regex.captures_len() - 1;
                if groups != 1 {
                    return Err(MetricError::Groups(groups));
                }
                Self::Printed(regex)
            }
        })
    }

    /// Which values are good, if that is not said: less of time and memory, more of what a program prints.
    #[must_use]
    pub fn usually_better(&self) -> Better {
        match self {
            Self::Wall | Self::Cpu | Self::MaxRss => Better::Lower,
            Self::Printed(_) | Self::Json(_) => Better::Higher,
        }
    }

    /// Its unit, where it has one.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        match self {
            Self::Wall | Self::Cpu => "s",
            Self::MaxRss => "bytes",
            Self::Printed(_) | Self::Json(_) => "",
        }
    }

    /// The value of a run.
    ///
    /// # Errors
    /// If the run has none, or it is not clear which.
    pub fn of(&self, measured: &Measured<'_>) -> Result<f64, MetricError> {
        match self {
            Self::Wall => Ok(measured.wall.0),
            Self::Cpu => Ok(measured.cpu.0),
            Self::MaxRss => Ok(measured.max_rss as f64),
            Self::Printed(regex) => [measured.stdout, measured.stderr]
                .into_iter()
                .find_map(|text| printed(regex, text))
                .unwrap_or_else(|| Err(MetricError::NotFound(regex.to_string()))),
            Self::Json(pointer) => json(pointer, measured.stdout),
        }
    }
}

impl std::fmt::Display for Metric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Wall => f.write_str("wall"),
            Self::Cpu => f.write_str("cpu"),
            Self::MaxRss => f.write_str("rss"),
            Self::Printed(regex) => write!(f, "{regex}"),
            Self::Json(pointer) => write!(f, "json:{pointer}"),
        }
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// `None` if nothing matches.
fn printed(regex: &Regex, text: &str) -> Option<Result<f64, MetricError>> {
    let all: Vec<&str> = regex
        .captures_iter(text)
        .filter_map(|captures| captures.get(1))
        .map(|group| group.as_str())
        .collect();
    match all.as_slice() {
        [] => None,
        [one] => Some(number(one)),
        several => Some(Err(MetricError::Ambiguous {
            metric: regex.to_string(),
            times: several.len(),
        })),
    }
}

/// A number as programs print it: `1,234,567.8` and `1_000` too.
fn number(text: &str) -> Result<f64, MetricError> {
    let digits: String = text
        .trim()
        .chars()
        .filter(|c| !matches!(c, ',' | '_'))
        .collect();
    digits.parse().map_err(|_| MetricError::NotANumber {
        text: text.to_owned(),
    })
}

fn json(pointer: &str, text: &str) -> Result<f64, MetricError> {
    let document: serde_json::Value =
        serde_json::from_str(text).map_err(|error| MetricError::NotJson(error.to_string()))?;
    let value = document
        .pointer(pointer)
        .ok_or_else(|| MetricError::NotFound(format!("json:{pointer}")))?;
    match value {
        serde_json::Value::String(text) => number(text),
        value => value.as_f64().ok_or_else(|| MetricError::NotANumber {
            text: value.to_string(),
        }),
    }
}
