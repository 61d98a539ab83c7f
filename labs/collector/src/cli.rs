//! The options, which are those of the twin in C.

use clap::{Parser, ValueEnum};
use schemars::JsonSchema;
use serde::Serialize;

/// As many threads at most; the packed counters are a static array of this length.
pub(crate) const MOST_THREADS: usize = 1024;

/// Counts with several threads, each in a counter of its own, and says how long that takes where the counters share cache
/// lines and where they do not.
#[derive(Debug, Parser)]
#[command(
    name = "collect",
    version,
    max_term_width = 100,
    allow_negative_numbers = true
)]
pub(crate) struct Cli {
    /// How many threads count; with `--scale`, how many at most [default: as many as processors may be used, with
    /// `--scale` twice as many].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_THREADS as u64))]
    pub(crate) threads: Option<u64>,

    /// Where the counters are.
    #[arg(long, value_enum, default_value_t = Layout::Packed)]
    pub(crate) layout: Layout,

    /// How one is counted.
    #[arg(long, value_enum, default_value_t = Op::Rmw)]
    pub(crate) op: Op,

    /// How much is counted, by all threads together; also written like 2e9.
    #[arg(long, value_name = "N", default_value = "2e9", value_parser = total)]
    pub(crate) total: u64,

    /// Runs of each number of threads; their median counts.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) runs: u32,

    /// A table over numbers of threads: 1 to 8, powers of two, the processors and twice as many, up to `--threads`.
    #[arg(long)]
    pub(crate) scale: bool,

    /// Put each thread on a processor of its own, as far as there are any.
    #[arg(long)]
    pub(crate) pin: bool,

    /// How far padded counters are apart, in bytes [default: the line size that the machine states].
    #[arg(long, value_name = "BYTES", value_parser = line_size)]
    pub(crate) line_size: Option<usize>,

    /// Print a JSON document (labs/collector/collect.schema.json) instead of the table.
    #[arg(long)]
    pub(crate) json: bool,

    /// Print each packed counter's address to stderr before the first run; the others are made anew for each run.
    #[arg(long)]
    pub(crate) addrs: bool,
}

/// Where the counters are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Layout {
    /// In an array, side by side: eight to a line of 64 bytes.
    Packed,
    /// Each on a line of its own.
    Padded,
    /// In blocks of hitm-counters, one for each thread.
    PerThread,
}

/// How one is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Op {
    /// By a locked add; with `--layout per-thread` by load, add and store, because no lock is needed there.
    Rmw,
    /// By load, add and store.
    Plain,
    /// The same, and where the next load goes depends on what the last one gave.
    Dependent,
}

/// A whole number that a double can hold.
fn total(text: &str) -> Result<u64, String> {
    let plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b".eE+".contains(&byte));
    let number: f64 = text
        .parse()
        .ok()
        .filter(|_| plain)
        .ok_or_else(|| "not a whole number from 1 to 1e15".to_owned())?;
    if (1.0..=1e15).contains(&number) && number.fract() == 0.0 {
        Ok(number as u64)
    } else {
        Err("not a whole number from 1 to 1e15".to_owned())
    }
}

fn line_size(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|size: &usize| size.is_power_of_two() && (16..=4096).contains(size))
        .ok_or_else(|| "not a power of two from 16 to 4096".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<u64>) {
        assert_eq!(total(text).ok(), expected, "{text}");
    }

    #[test]
    fn totals_are_whole_numbers() {
        check("2e9", Some(2_000_000_000));
        check("17", Some(17));
        check("1.5e3", Some(1500));
        check("1.5", None);
        check("0", None);
        check("-5", None);
        check("inf", None);
        check("nan", None);
        check("0x10", None);
        check("", None);
        check("1e16", None);
    }
}
