//! Does what the command line says: which numbers of threads, how often, and printing.

use std::io::{self, Write as _};

use anyhow::{Result, bail};

use crate::cli::{Cli, Layout, MOST_THREADS, Op};
use crate::counters::packed_addresses;
use crate::document::Document;
use crate::machine::Machine;
use crate::measure::{self, Job};
use crate::table;

/// Up to this number of threads a scaling table has every one.
const EVERY: usize = 8;

pub(crate) fn run(cli: &Cli) -> Result<()> {
    if cli.layout == Layout::PerThread && cli.op == Op::Dependent {
        bail!(
            "a per-thread counter is not read by its owner, so nothing can depend on it: use --op plain, or --layout padded"
        );
    }
    let machine = Machine::look(cli.line_size)?;
    let counts = thread_counts(cli, machine.processors);
    match (cli.addrs, cli.layout) {
        (true, Layout::Packed) => {
            print_addresses(&machine, counts.last().copied().unwrap_or(1));
        }
        (true, _) => eprintln!(
            "collect: --addrs: only packed counters have addresses that stay, so there is nothing to print"
        ),
        (false, _) => {}
    }
    let job = Job {
        layout: cli.layout,
        op: cli.op,
        total: cli.total,
        pin: cli.pin,
    };
    let mut document = Document::new(&job, machine);
    say(cli, &table::header(&document, cli.runs))?;
    for threads in counts {
        let runs = (0..cli.runs)
            .map(|_| measure::once(&job, &document.machine, threads))
            .collect::<Result<Vec<_>>>()?;
        let row = document.row(threads, runs);
        say(cli, &table::row(&row))?;
        document.rows.push(row);
    }
    say(cli, table::FOOTER)?;
    if cli.json {
        let mut out = io::stdout().lock();
        serde_json::to_writer_pretty(&mut out, &document)?;
        writeln!(out)?;
    }
    Ok(())
}

pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Prints a part of the table, at once: the next may take a while.
fn say(cli: &Cli, text: &str) -> io::Result<()> {
    if cli.json {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// The numbers of threads, in rising order.
fn thread_counts(cli: &Cli, processors: usize) -> Vec<usize> {
    let given = cli
        .threads
        .and_then(|threads| usize::try_from(threads).ok());
    if !cli.scale {
        return vec![given.unwrap_or(processors).min(MOST_THREADS)];
    }
    let most = given.unwrap_or(2 * processors).min(MOST_THREADS);
    (1..=most)
        .filter(|&n| {
            n <= EVERY || n.is_power_of_two() || n == processors || n == 2 * processors || n == most
        })
        .collect()
}

/// In the form that the testkit reads: which thread writes which bytes.
fn print_addresses(machine: &Machine, threads: usize) {
    let line = machine.line_size_bytes;
    for (thread, at) in packed_addresses(threads).enumerate() {
        eprintln!(
            "addr thread={thread} rw=w name=cnt[{thread}] at={at:#x} size=8 line={:#x} off={}",
            at / line * line,
            at % line
        );
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn check(arguments: &str, processors: usize, expected: &[usize]) {
        let words = std::iter::once("collect").chain(arguments.split_whitespace());
        let cli = Cli::parse_from(words);
        assert_eq!(thread_counts(&cli, processors), expected, "{arguments}");
    }

    #[test]
    fn a_scaling_table_goes_beyond_the_processors() {
        check("", 2, &[2]);
        check("--threads 5", 2, &[5]);
        check("--scale", 2, &[1, 2, 3, 4]);
        check("--scale --threads 3", 8, &[1, 2, 3]);
        check("--scale", 12, &[1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24]);
        check("--scale --threads 11", 2, &[1, 2, 3, 4, 5, 6, 7, 8, 11]);
    }
}
