//! A run as lines for people.

use std::fmt;

use crate::memory::Bytes;
use crate::run::{Latency, Measured, Second, Verified};

/// What the columns of [`second`] are.
pub(crate) const HEADER: &str = "      s   spawned/s  executed/s  in flight    p50 ns    p90 ns    p99 ns  p99.9 ns    max ns   stolen/s   parked/s   resident";

/// A line for a second.
pub(crate) fn second(second: &Second) -> String {
    let latency = second.latency;
    let column =
        |of: fn(&Latency) -> u64| latency.as_ref().map_or("-".to_owned(), |it| number(of(it)));
    format!(
        "{:>7.1} {:>11} {:>11} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>10} {:>10}",
        second.at_s,
        number(second.spawned_per_s as u64),
        number(second.executed_per_s as u64),
        number(second.in_flight),
        column(|it| it.p50_ns),
        column(|it| it.p90_ns),
        column(|it| it.p99_ns),
        column(|it| it.p999_ns),
        column(|it| it.max_ns),
        number(second.stolen_per_s as u64),
        number(second.parked_per_s as u64),
        second
            .resident_bytes
            .map_or("-".to_owned(), |it| Bytes(it).to_string()),
    )
}

/// All of a run.
pub(crate) struct Total<'a> {
    pub(crate) measured: &'a Measured,
    pub(crate) verified: Option<&'a Verified>,
    pub(crate) caveats: &'a [String],
    pub(crate) interrupted: bool,
}

impl fmt::Display for Total<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let measured = self.measured;
        let counts = &measured.counts;
        let interrupted = if self.interrupted {
            ", interrupted"
        } else {
            ""
        };
        writeln!(
            f,
            "executed    {} transactions in {:.3} s{interrupted}",
            number(counts.executed),
            measured.took_s
        )?;
        writeln!(
            f,
            "spawn rate  {} per second",
            number(measured.spawned_per_s as u64)
        )?;
        writeln!(
            f,
            "exec rate   {} per second",
            number(measured.executed_per_s as u64)
        )?;
        if let Some(latency) = measured.latency {
            writeln!(
                f,
                "latency     p50 {}, p90 {}, p99 {}, p99.9 {}, max {} ns, from arrival to the end of the body",
                number(latency.p50_ns),
                number(latency.p90_ns),
                number(latency.p99_ns),
                number(latency.p999_ns),
                number(latency.max_ns)
            )?;
        }
        writeln!(
            f,
            "workers     {} stolen, {} run by whom they waited for, {} run by the dispatcher, parked {} times",
            number(counts.stolen),
            number(counts.handed),
            number(counts.helped),
            number(counts.parked)
        )?;
        if counts.panicked + counts.refused > 0 {
            writeln!(
                f,
                "panics      {} transactions panicked, {} refused",
                number(counts.panicked),
                number(counts.refused)
            )?;
        }
        if let Some(resident) = measured.resident_bytes {
            writeln!(f, "resident    {}", Bytes(resident))?;
        }
        for caveat in self.caveats {
            writeln!(f, "note        {caveat}")?;
        }
        self.verified
            .map_or(Ok(()), |verified| verification(f, verified))
    }
}

fn verification(f: &mut fmt::Formatter<'_>, verified: &Verified) -> fmt::Result {
    let Verified {
        digest,
        serial_digest,
        inconsistencies,
    } = verified;
    if digest == serial_digest {
        writeln!(
            f,
            "verified    digest {digest}, equal to that of executing the log one by one"
        )?;
    } else {
        writeln!(
            f,
            "DIFFERENT   digest {digest}; executing the log one by one gives {serial_digest}"
        )?;
    }
    inconsistencies
        .iter()
        .try_for_each(|it| writeln!(f, "WRONG       {it}"))
}

/// A number with commas.
#[must_use]
pub fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
