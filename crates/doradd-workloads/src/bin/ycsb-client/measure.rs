//! What `ycsb-client` does: opens the log, measures, prints.

use std::io::{self, Write as _};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use doradd_workloads::front::{Exit, interrupts, raise_descriptor_limit};
use doradd_workloads::log::{MappedLog, Rows};
use doradd_workloads::rpc::client::{self, Plan};
use doradd_workloads::rpc::{ClientDocument, ClientSetup};

use crate::cli::Cli;
use crate::text;

pub(crate) fn run(cli: &Cli) -> Result<Exit> {
    // Which rows there are, the server knows.
    let log =
        MappedLog::open(&cli.log, Rows(u64::MAX)).with_context(|| cli.log.display().to_string())?;
    if log.is_empty() {
        bail!("{} has no transactions", cli.log.display());
    }
    raise_descriptor_limit();
    let stop = interrupts()?;
    let plan = Plan {
        address: &cli.address,
        connections: cli.connections.get(),
        pipeline: cli.pipeline.get(),
        arrivals: cli.arrivals,
        seed: cli.arrival_seed,
        time: cli.seconds,
        wait: cli.wait.unwrap_or(Duration::ZERO),
        timeout: cli.timeout,
        stop: &stop,
    };
    let mut lines = 0;
    let watch = |second: &client::ReplySecond| {
        if cli.json {
            return;
        }
        let header = if lines == 0 { text::HEADER } else { "" };
        lines += 1;
        if write!(io::stdout().lock(), "{header}{}", text::Second(second)).is_err() {
            // Nobody reads it any more: there is nothing to go on for.
            stop.store(true, Ordering::Relaxed);
        }
    };
    let run = if cli.seconds.is_some() {
        let again = std::iter::repeat_with(|| log.entries()).flatten();
        client::run(&plan, again, watch)?
    } else {
        client::run(&plan, log.entries(), watch)?
    };
    let all_right = run.answers.are_all_right();
    let document = ClientDocument::new(run, setup(cli), stop.load(Ordering::Relaxed));
    print(cli.json, &document).context("cannot print what was measured")?;
    Ok(if all_right { Exit::Done } else { Exit::Differs })
}

fn setup(cli: &Cli) -> ClientSetup {
    ClientSetup {
        address: cli.address.clone(),
        log: cli.log.display().to_string(),
        connections: cli.connections.get(),
        pipeline: cli.pipeline.get(),
        arrivals: cli.arrivals.to_string(),
    }
}

fn print(json: bool, document: &ClientDocument) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, document)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", text::Total(document))?;
    }
    out.flush()
}
