//! What `ycsb-server` does: sets up, serves, prints.

use std::fmt;
use std::io::{self, Write as _};
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use doradd::{Runtime, StateDigest};
use doradd_workloads::front::{Exit, raise_descriptor_limit};
use doradd_workloads::log::{MappedLog, Rows};
use doradd_workloads::memory::{self, Bytes};
use doradd_workloads::rpc::{
    Answers, Options, Served, Server, ServerDocument, Stopper, Ticket, execute_serially,
};
use doradd_workloads::ycsb::Ycsb;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::cli::Cli;

pub(crate) fn run(cli: &Cli) -> Result<Exit> {
    match cli.row_bytes {
        64 => run_with::<8>(cli),
        4096 => run_with::<512>(cli),
        _ => run_with::<128>(cli),
    }
}

fn run_with<const WORDS: usize>(cli: &Cli) -> Result<Exit> {
    let bytes = Ycsb::<(), (), WORDS>::bytes(Rows(cli.rows));
    let what = format!("{} rows of {} bytes", cli.rows, cli.row_bytes);
    memory::check(
        Bytes(bytes),
        what,
        "give fewer with --rows, or smaller ones with --row-bytes",
    )?;
    match &cli.check {
        Some(log) => check::<WORDS>(cli, log),
        None => serve::<WORDS>(cli),
    }
}

/// Prints a line for the operator.
fn say(what: &dyn fmt::Display) {
    // Without a standard error there is nobody to tell.
    let _ = writeln!(io::stderr(), "ycsb-server: {what}");
}

fn serve<const WORDS: usize>(cli: &Cli) -> Result<Exit> {
    raise_descriptor_limit();
    let server = Server::bind(&cli.listen, options(cli))?;
    let board = server.board();
    let app: Ycsb<Ticket<'_>, Answers, WORDS> = Ycsb::new(Rows(cli.rows), Answers);
    stop_on_signals(server.stopper())?;
    say(&format_args!(
        "listening at {}, {} rows",
        server.address(),
        cli.rows
    ));
    let address = server.address();
    let served = server.run(&board, &app, |notice| say(&notice))?;
    let state = app.state_digest();
    if cli.json {
        let table = (cli.rows, cli.row_bytes);
        let document = ServerDocument::new(&served, state.to_string(), address.to_string(), table);
        print(&serde_json::to_string_pretty(&document)?)?;
    } else {
        print(&Summary {
            served: &served,
            state,
        })?;
    }
    match served.failure {
        Some(failure) => Err(failure.into()),
        None => Ok(Exit::Done),
    }
}

fn options(cli: &Cli) -> Options {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    Options {
        rows: Rows(cli.rows),
        runtime: Runtime::builder()
            .dispatch(cli.dispatch.into())
            .pin(cli.pin.iter().copied()),
        workers: cli.workers.unwrap_or(processors.saturating_sub(1).max(1)),
        in_flight: cli.in_flight,
        pipeline: cli.pipeline,
        connections: cli.connections,
        log: cli.log.clone(),
        patience: Duration::from_secs(cli.patience),
    }
}

fn stop_on_signals(stopper: Stopper) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot wait for signals")?;
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for _ in signals.forever() {
                stopper.stop();
            }
        })
        .context("cannot start a thread for signals")?;
    Ok(())
}

fn check<const WORDS: usize>(cli: &Cli, path: &Path) -> Result<Exit> {
    let rows = Rows(cli.rows);
    let log = MappedLog::open(path, rows).with_context(|| path.display().to_string())?;
    let executed = execute_serially::<WORDS>(log.entries(), rows)?;
    let text = format!(
        "{} transactions\nstate digest    {}\nresults digest  {}",
        executed.transactions, executed.state, executed.results
    );
    print(&text)?;
    Ok(Exit::Done)
}

fn print(what: &dyn fmt::Display) -> Result<()> {
    match writeln!(io::stdout(), "{what}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done.context("cannot write to standard output"),
    }
}

/// What was done, for people.
struct Summary<'a> {
    served: &'a Served,
    state: StateDigest,
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = &self.served.statistics;
        writeln!(
            f,
            "{} transactions accepted: {} executed, {} panicked, {} not run",
            all.accepted, all.executed, all.panicked, all.not_run
        )?;
        writeln!(
            f,
            "{} requests refused, {} for the state",
            all.refused, all.states
        )?;
        writeln!(
            f,
            "{} connections, at most {} at once; {} sent what is no frame, {} broke, with {} replies undelivered",
            all.connections, all.peak_connections, all.malformed, all.broken, all.undelivered
        )?;
        if let Some(replayed) = &self.served.replayed {
            writeln!(
                f,
                "at most {} in flight; {} stolen, {} handed on, {} run by the dispatcher; workers slept {} times, the handler {}",
                all.peak_in_flight,
                replayed.stolen,
                replayed.handed,
                replayed.helped,
                replayed.parked,
                all.sleeps
            )?;
        }
        writeln!(f, "state digest    {}", self.state)?;
        write!(f, "results digest  {}", self.served.results)
    }
}
