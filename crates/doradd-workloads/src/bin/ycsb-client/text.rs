//! A run of the client as lines for people.

use std::fmt;

use doradd_workloads::front::number;
use doradd_workloads::rpc::ClientDocument;
use doradd_workloads::rpc::client::{ReplyLatency, ReplySecond};

/// What the columns of [`Second`] are.
pub(crate) const HEADER: &str =
    "      s      sent/s  answered/s     p50 ns     p90 ns     p99 ns   p99.9 ns     max ns\n";

/// A line for a second.
pub(crate) struct Second<'a>(pub(crate) &'a ReplySecond);

impl fmt::Display for Second<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let second = self.0;
        let column = |of: fn(&ReplyLatency) -> u64| {
            second
                .latency
                .as_ref()
                .map_or("-".to_owned(), |latency| number(of(latency)))
        };
        writeln!(
            f,
            "{:>7.1} {:>11} {:>11} {:>10} {:>10} {:>10} {:>10} {:>10}",
            second.at_s,
            number(second.sent_per_s as u64),
            number(second.answered_per_s as u64),
            column(|it| it.p50_ns),
            column(|it| it.p90_ns),
            column(|it| it.p99_ns),
            column(|it| it.p999_ns),
            column(|it| it.max_ns),
        )
    }
}

/// All of a run.
pub(crate) struct Total<'a>(pub(crate) &'a ClientDocument);

impl fmt::Display for Total<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ClientDocument {
            figures,
            answers,
            setup,
            state,
            interrupted,
            ..
        } = self.0;
        let interrupted = if *interrupted { ", interrupted" } else { "" };
        writeln!(
            f,
            "answered    {} of {} requests over {} connections in {:.3} s{interrupted}",
            number(figures.answered),
            number(figures.sent),
            setup.connections,
            figures.took_s
        )?;
        writeln!(
            f,
            "rate        {} per second",
            number(figures.answered_per_s as u64)
        )?;
        if let Some(latency) = figures.latency {
            let begins = if setup.arrivals == "max" {
                "from being given to the connection"
            } else {
                "from when it was due"
            };
            writeln!(
                f,
                "latency     p50 {}, p90 {}, p99 {}, p99.9 {}, max {} ns, {begins} to the reply",
                number(latency.p50_ns),
                number(latency.p90_ns),
                number(latency.p99_ns),
                number(latency.p999_ns),
                number(latency.max_ns)
            )?;
        }
        if figures.latest_ns > LATE_NS {
            writeln!(
                f,
                "note        requests were sent up to {:.1} s after they were due, because no connection had room or the \
                 client was slow: the latencies grow with the length of the run; make the interval longer",
                figures.latest_ns as f64 / 1e9
            )?;
        }
        for (n, what) in [
            (
                answers.refused,
                "refused: the server has fewer rows than the log names",
            ),
            (answers.panicked, "panicked in the server"),
            (
                answers.not_run,
                "have a place in the order and were not run",
            ),
            (answers.unanswered, "without an answer"),
        ] {
            if n > 0 {
                writeln!(f, "NOT DONE    {} requests {what}", number(n))?;
            }
        }
        if answers.goodbyes > 0 {
            writeln!(
                f,
                "ended       {} connections, because the server ended: what was not answered there was not accepted",
                answers.goodbyes
            )?;
        }
        if answers.broken > 0 {
            writeln!(
                f,
                "broken      {} connections ended without a word: what was not answered there may have been executed",
                answers.broken
            )?;
        }
        for fault in &answers.first_faults {
            writeln!(f, "WRONG       {fault}")?;
        }
        if answers.faults > answers.first_faults.len() as u64 {
            writeln!(f, "WRONG       {} faults in all", number(answers.faults))?;
        }
        match state {
            Some(state) => writeln!(
                f,
                "state       {} transactions accepted, results digest {}",
                number(state.transactions),
                state.results_digest
            ),
            None => Ok(()),
        }
    }
}

/// From how late on the schedule was not kept: far beyond any pause of the system.
const LATE_NS: u64 = 100_000_000;
