//! Sets a server up: the socket, the bounds that the system allows, the threads; and takes it down again.

use std::io::Write;
use std::net::SocketAddr;
use std::thread;

use anyhow::{Context as _, Result, ensure};
use hitm_counters::Isolated;
use mio::net::TcpListener;
use mio::{Interest, Poll};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::config::{Config, Limits};
use crate::execute::Executor;
use crate::io_thread::IoThread;
use crate::mailbox::Mailbox;
use crate::main_thread::{LISTENER, MainThread};
use crate::stats::{Stats, thread_name};

/// Descriptors that are no connections: standard streams, the listener, polls and wakers of each thread, and some to spare.
const OTHER_DESCRIPTORS: u64 = 64;

/// Runs a server until a client sends SHUTDOWN. The first line that is written to `out` says where it listens.
///
/// Once in a process: what it counts on shared lines is in a global.
///
/// # Errors
/// If the address cannot be listened on, or the system refuses threads or events.
pub fn serve(config: &Config, out: &mut impl Write) -> Result<()> {
    let mut config = config.clone();
    let per_thread = 2 * u64::from(config.io_threads);
    config.limits.maxclients =
        allowed_clients(config.limits.maxclients, OTHER_DESCRIPTORS + per_thread)?;

    let poll = Poll::new().context("cannot make a poll")?;
    let address = SocketAddr::new(config.bind, config.port);
    let mut listener = TcpListener::bind(address).with_context(|| {
        format!("cannot listen on {address}; another port: --port 0 takes one that is free")
    })?;
    poll.registry()
        .register(&mut listener, LISTENER, Interest::READABLE)?;
    let address = listener.local_addr()?;
    config.port = address.port();
    announce(out, address, &config).context("cannot say where it listens")?;

    let stats = Stats::new(&config, config.limits);
    let mail = Isolated::new(Mailbox::new(poll.registry())?);
    let mut polls = Vec::new();
    let mut mailboxes = Vec::new();
    for _ in 0..config.io_threads {
        let poll = Poll::new().context("cannot make a poll")?;
        mailboxes.push(Isolated::new(Mailbox::new(poll.registry())?));
        polls.push(poll);
    }
    let chunk = config.io_chunk;
    let main = MainThread {
        poll,
        listener,
        executor: Executor::new(&stats, config),
        tally: stats.tally(0),
        mail: &mail,
        io_threads: &mailboxes,
    };
    thread::scope(|scope| {
        for (i, poll) in polls.into_iter().enumerate() {
            let io = IoThread::new(i + 1, poll, &stats, &mailboxes[i], &mail, chunk);
            let spawned = thread::Builder::new()
                .name(thread_name(i + 1))
                .spawn_scoped(scope, || io.run());
            // Those that run already are told to stop when `main` goes.
            spawned.context("cannot start an IO thread")?;
        }
        main.run()
    })
}

fn announce(out: &mut impl Write, address: SocketAddr, config: &Config) -> std::io::Result<()> {
    let Limits { maxclients, .. } = config.limits;
    writeln!(
        out,
        "listening on {address}, {} IO threads, at most {maxclients} clients",
        config.io_threads
    )?;
    out.flush()
}

/// How many connections the limit of open files allows, which is raised if it may be.
fn allowed_clients(wanted: usize, others: u64) -> Result<usize> {
    let (soft, hard) =
        getrlimit(Resource::RLIMIT_NOFILE).context("cannot read the limit of open files")?;
    let needed = (wanted as u64).saturating_add(others);
    let raised = needed.min(hard);
    let allowed = if soft >= needed || setrlimit(Resource::RLIMIT_NOFILE, raised, hard).is_err() {
        soft
    } else {
        raised
    };
    ensure!(
        allowed > others,
        "at most {allowed} files may be open, and {others} are needed beside connections; raise it with ulimit -n"
    );
    Ok(wanted.min(usize::try_from(allowed - others).unwrap_or(usize::MAX)))
}
