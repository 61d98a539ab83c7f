//! Runs the threads and takes their times.
//!
//! # Caveats
//! A run is from the first thread's start to the last one's end. Threads that did not run side by side (the machine was
//! busy with something else) share a line by turns and lose little by it: such runs are left out of the median if there
//! are others.

use std::sync::{PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::time::{ClockId, clock_gettime};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::{Layout, Op};
use crate::counters::Places;
use crate::machine::Machine;

/// Threads that together use less than this part of as many processors did not run side by side all the time.
const SIDE_BY_SIDE: f64 = 0.925;

/// What is to be counted, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) layout: Layout,
    pub(crate) op: Op,
    pub(crate) total: u64,
    pub(crate) pin: bool,
}

/// One run.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(crate) struct Run {
    /// From the first thread's start to the last one's end.
    pub(crate) seconds: f64,
    /// The threads' processor time divided by `seconds`.
    pub(crate) processors_used: f64,
    /// Whether all threads ran at the same time, nearly always.
    pub(crate) side_by_side: bool,
}

/// One thread's part of a run.
struct Part {
    began: Instant,
    ended: Instant,
    cpu: Duration,
}

/// Counts once with so many threads. An error if the sum is not the total.
pub(crate) fn once(job: &Job, machine: &Machine, threads: usize) -> Result<Run> {
    let places = Places::new(job.layout, threads, machine.line_size_bytes);
    let gate = Gate::new(false);
    let parts = thread::scope(|scope| {
        let mut open = gate.write().unwrap_or_else(PoisonError::into_inner);
        let started = (0..threads)
            .map(|thread| {
                let (places, gate) = (&places, &gate);
                let body = move || part(job, machine, places, gate, (thread, threads));
                thread::Builder::new()
                    .name(format!("count-{thread}"))
                    .spawn_scoped(scope, body)
            })
            .collect::<Result<Vec<_>, _>>()
            .with_context(|| format!("cannot start {threads} threads: try fewer"));
        *open = started.is_ok();
        drop(open);
        started?
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| bail!("a thread panicked")))
            .collect::<Result<Vec<_>>>()
    })?;
    let sum = places.sum(threads);
    if sum != job.total {
        bail!("the sum is {sum}, not {}: counts were lost", job.total);
    }
    summarise(&parts).context("no thread ran")
}

/// Threads wait here for each other's birth. Says whether to go on: not where one could not be born.
type Gate = RwLock<bool>;

/// One thread: gets ready, waits at the gate, counts its share.
fn part(
    job: &Job,
    machine: &Machine,
    places: &Places,
    gate: &Gate,
    (thread, threads): (usize, usize),
) -> Result<Part> {
    if job.pin {
        machine.pin(thread)?;
    }
    let go = || *gate.read().unwrap_or_else(PoisonError::into_inner);
    let n = share(job.total, thread, threads);
    let start = || go().then(|| (Instant::now(), cpu_time()));
    let Some((began, cpu_before)) = places.count(thread, job.op, n, start) else {
        bail!("not started");
    };
    let (cpu, ended) = (cpu_time(), Instant::now());
    Ok(Part {
        began,
        ended,
        cpu: cpu?.saturating_sub(cpu_before?),
    })
}

/// How much of a total is one thread's: what cannot be divided goes to the first ones.
fn share(total: u64, thread: usize, threads: usize) -> u64 {
    let (thread, threads) = (thread as u64, threads as u64);
    total / threads + u64::from(thread < total % threads)
}

fn cpu_time() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}

fn summarise(parts: &[Part]) -> Option<Run> {
    let began = parts.iter().map(|part| part.began).min()?;
    let ended = parts.iter().map(|part| part.ended).max()?;
    // No clock is finer than this.
    let seconds = (ended - began).as_secs_f64().max(1e-9);
    let cpu: Duration = parts.iter().map(|part| part.cpu).sum();
    let processors_used = cpu.as_secs_f64() / seconds;
    Some(Run {
        seconds,
        processors_used,
        side_by_side: processors_used >= SIDE_BY_SIDE * parts.len() as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(total: u64, threads: usize, expected: &[u64]) {
        let shares: Vec<u64> = (0..threads).map(|i| share(total, i, threads)).collect();
        assert_eq!(shares, expected);
        assert_eq!(shares.iter().sum::<u64>(), total);
    }

    #[test]
    fn shares_add_up_to_the_total() {
        check(10, 3, &[4, 3, 3]);
        check(2, 4, &[1, 1, 0, 0]);
        check(8, 4, &[2; 4]);
    }

    #[test]
    fn a_run_is_from_the_first_start_to_the_last_end() {
        let zero = Instant::now();
        let at = |ms| zero + Duration::from_millis(ms);
        let part = |began, ended, cpu| Part {
            began: at(began),
            ended: at(ended),
            cpu: Duration::from_millis(cpu),
        };
        let run = summarise(&[part(0, 90, 90), part(10, 100, 90)]).unwrap();
        assert!((run.seconds - 0.1).abs() < 1e-9 && !run.side_by_side);
        let run = summarise(&[part(0, 100, 100), part(1, 99, 98)]).unwrap();
        assert!((run.processors_used - 1.98).abs() < 1e-9 && run.side_by_side);
        assert!(summarise(&[]).is_none());
    }
}
