//! A run from the options to the exit code.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use indicatif::ProgressBar;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::front::exit::Exit;
use crate::front::json::{Document, JSON_VERSION, Setup, Table};
use crate::front::options::RunOptions;
use crate::front::source::Source;
use crate::front::{progress, text};
use crate::log::Entry;
use crate::memory::{self, Bytes};
use crate::request::Request;
use crate::run::arrivals::Arrivals;
use crate::run::{Arrival, Machine, Measured, Meter, Plan, Second, Verified, execute, verify};

/// From how late on the dispatcher is said to be overloaded: far beyond any pause of the system.
const OVERLOADED_NS: u64 = 100_000_000;

/// Threads that a meter has blocks for from the start.
const METERED: usize = 8;

/// What a program executes its logs on.
#[derive(Debug)]
pub struct Workload<E: Entry> {
    /// The program's name.
    pub program: &'static str,
    /// What a transaction may name.
    pub bounds: E::Bounds,
    /// What the tables need.
    pub bytes: Bytes,
    /// What they are, in words.
    pub what: String,
    /// What to do if that is too much.
    pub remedy: &'static str,
    /// What they are, for the JSON.
    pub table: Table,
}

/// Executes a log by the options on a machine that is made once all else is known to be right.
///
/// # Errors
/// If options contradict each other, there is too little memory, the log is wrong, or the machine refuses threads or
/// processors.
pub fn run<M, E>(
    options: &RunOptions,
    workload: Workload<E>,
    machine: impl FnOnce(Arc<Meter>) -> M,
) -> Result<Exit>
where
    E: Entry,
    M: Machine<Txn = Request<Arrival, E>>,
{
    options.check()?;
    memory::check(workload.bytes, workload.what, workload.remedy)?;
    let source = options.open::<E>(workload.bounds)?;
    let meter = Arc::new(Meter::new(METERED));
    let machine = machine(Arc::clone(&meter));
    execute_log(
        workload.program,
        options,
        machine,
        &meter,
        source,
        workload.table,
    )
}

/// Executes a log, prints what it took, and compares with the serial oracle if that is asked for.
fn execute_log<M, E>(
    program: &str,
    options: &RunOptions,
    mut machine: M,
    meter: &Meter,
    mut source: Source<E>,
    table: Table,
) -> Result<Exit>
where
    E: Entry,
    M: Machine<Txn = Request<Arrival, E>>,
{
    let stop = interrupts()?;
    let (mut runtime, pinned) = options.runtime()?;
    let plan = Plan {
        arrivals: options.arrivals,
        seed: options.arrival_seed,
        time: options.time()?,
        stop: &stop,
    };
    let transactions = source
        .len()
        .map_or(u64::MAX, |length| options.transactions(length));
    let mut view = View::new(options.json, transactions, &stop);
    let log = source.feed(transactions);
    let measured = execute(&mut runtime, log, &machine, meter, &plan, |it| {
        view.second(it)
    });
    view.bar.finish_and_clear();
    let measured = measured?;
    let interrupted = stop.load(Ordering::Relaxed);
    let verified = if options.verify {
        Some(check(&mut machine, source.feed(measured.counts.executed))?)
    } else {
        None
    };
    let differs = verified.as_ref().is_some_and(|it| !it.is_equal());
    let document = Document {
        version: JSON_VERSION,
        program: program.to_owned(),
        setup: setup(options, pinned, table),
        interrupted,
        caveats: caveats(options.arrivals, &measured),
        measured,
        verified,
    };
    print(options.json, &document).context("cannot print what was measured")?;
    if let Source::Streamed(log) = source
        && let Some(fault) = log.fault()
    {
        return Err(fault)
            .context("the standard input; what was measured is of the transactions before");
    }
    Ok(if differs { Exit::Differs } else { Exit::Done })
}

/// A flag that Ctrl-C sets. A second one ends the program at once.
///
/// # Errors
/// If the system does not let us listen to signals.
pub fn interrupts() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag unset and sets it.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .context("cannot listen to Ctrl-C")?;
    }
    Ok(stop)
}

fn check<M, E>(machine: &mut M, log: impl doradd::Log<Txn = E>) -> Result<Verified>
where
    M: Machine<Txn = Request<Arrival, E>>,
{
    let spinner = progress::spinner("executing the log one by one");
    let verified = verify(machine, log).context("executing the log one by one");
    spinner.finish_and_clear();
    verified
}

fn setup(options: &RunOptions, pinned: Vec<usize>, table: Table) -> Setup {
    Setup {
        log: options.log().display().to_string(),
        workers: options.workers(),
        dispatch: options.dispatch,
        pinned,
        max_in_flight: options.max_in_flight,
        arrivals: options.arrivals.to_string(),
        table,
    }
}

/// What a reader of the figures should know.
fn caveats(arrivals: Arrivals, measured: &Measured) -> Vec<String> {
    let mut caveats = Vec::new();
    if arrivals == Arrivals::Saturating {
        caveats.push(
            "with `-i max` the latency is that of a full system, and begins when the dispatcher takes a transaction: \
             give `-i exp:NS` to see what a user waits"
                .to_owned(),
        );
    } else if measured.latest_ns > OVERLOADED_NS {
        caveats.push(format!(
            "transactions arrived faster than they were executed: the last were taken up to {:.1} s after they were due, and \
             the latencies grow with the length of the run; make the interval longer",
            measured.latest_ns as f64 / 1e9
        ));
    }
    caveats
}

fn print(json: bool, document: &Document) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, document)?;
        writeln!(out)?;
    } else {
        let total = text::Total {
            measured: &document.measured,
            verified: document.verified.as_ref(),
            caveats: &document.caveats,
            interrupted: document.interrupted,
        };
        write!(out, "{total}")?;
    }
    out.flush()
}

/// What is shown while it runs.
struct View<'s> {
    lines: bool,
    shown: bool,
    bar: ProgressBar,
    stop: &'s AtomicBool,
}

impl<'s> View<'s> {
    fn new(json: bool, transactions: u64, stop: &'s AtomicBool) -> Self {
        let known = (transactions < u64::MAX).then_some(transactions);
        Self {
            lines: !json,
            shown: false,
            bar: progress::bar(known, "executing"),
            stop,
        }
    }

    fn second(&mut self, second: &Second) {
        if self.lines {
            let header = (!self.shown).then_some(text::HEADER);
            self.shown = true;
            let line = text::second(second);
            // Lines are not torn by a bar on the same terminal.
            let printed = self.bar.suspend(|| {
                let mut out = io::stdout().lock();
                header.map_or(Ok(()), |header| writeln!(out, "{header}"))?;
                writeln!(out, "{line}")
            });
            if printed.is_err() {
                // Nobody reads it any more: there is nothing to go on for.
                self.stop.store(true, Ordering::Relaxed);
            }
        }
        self.bar.set_position(second.executed);
    }
}
