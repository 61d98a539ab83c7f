//! A server from beginning to end: its socket, its threads, its outcome.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use doradd::{App, BuildError, Builder, ReplayError, Replayed};
use mio::net::TcpListener;
use mio::{Interest, Poll, Waker};
use thiserror::Error;

use crate::log::Rows;
use crate::rpc::acceptor::Acceptor;
use crate::rpc::board::{Board, Wake};
use crate::rpc::feed::feed;
use crate::rpc::handler::{Handled, Handler, LISTENER, Ordered, Setup, WAKER};
use crate::rpc::order_log::{OrderLog, OrderLogError};
use crate::rpc::results::ResultsDigest;
use crate::rpc::statistics::{Notice, Statistics};

/// How a server is to be.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rows of the table: keys from this on are refused.
    pub rows: Rows,
    /// How the workers are fed; their number is the one below.
    pub runtime: Builder,
    /// Threads that execute.
    pub workers: usize,
    /// Requests at most that are accepted and not executed yet, of all connections.
    pub in_flight: usize,
    /// Requests at most of one connection whose replies are not sent yet.
    pub pipeline: usize,
    /// Connections at most at a time.
    pub connections: usize,
    /// Where the accepted order is written.
    pub log: Option<PathBuf>,
    /// How long slow readers may take for their last replies when the server ends.
    pub patience: Duration,
}

/// Why a server cannot serve, or not go on.
#[derive(Error, Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be listened at.
    #[error(
        "cannot listen at {address}: use `--listen` with an address of this machine and a free port, or port 0 for any"
    )]
    Listen {
        /// Where.
        address: String,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// A figure is out of range.
    #[error("{what} is {value}: use 1 to {max}")]
    Range {
        /// Which figure.
        what: &'static str,
        /// What it is.
        value: usize,
        /// What it may be at most.
        max: usize,
    },
    /// The runtime cannot be built.
    #[error("cannot build the runtime")]
    Build(#[from] BuildError),
    /// The runtime stopped.
    #[error("the runtime stopped")]
    Replay(#[from] ReplayError),
    /// The accepted order cannot be written.
    #[error(transparent)]
    Log(#[from] OrderLogError),
    /// The system does not tell of sockets any more.
    #[error("cannot wait for connections")]
    Poll(#[source] io::Error),
    /// The thread that talks to clients could not be started.
    #[error("cannot start the thread that talks to clients")]
    Thread(#[source] io::Error),
    /// The thread that talks to clients ended by a fault of its own.
    #[error("the thread that talks to clients panicked: a fault of the server, please report it")]
    Panicked,
}

impl ServeError {
    /// Whether the system refused something that another machine, or another moment, may give.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Listen { .. } | Self::Poll(_) | Self::Thread(_))
    }
}

/// What a server did.
#[derive(Debug)]
#[non_exhaustive]
pub struct Served {
    /// What it counted.
    pub statistics: Statistics,
    /// The digest of the results of all accepted transactions.
    pub results: ResultsDigest,
    /// What the runtime counted; nothing if it stopped.
    pub replayed: Option<Replayed>,
    /// Why it ended, if nobody told it to.
    pub failure: Option<ServeError>,
}

/// Tells a server to end; may be used from any thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    times: Arc<AtomicU32>,
    waker: Arc<Waker>,
}

impl Stopper {
    /// The server accepts nothing more, executes and answers what it has accepted, and ends. The second time, it does not
    /// wait for clients that do not read.
    pub fn stop(&self) {
        self.times.fetch_add(1, Ordering::Release);
        // The thread that is woken looks at the number; if it cannot be woken, it looks at its next turn.
        let _ = self.waker.wake();
    }
}

struct OfPoll(Arc<Waker>);

impl Wake for OfPoll {
    fn wake(&self) {
        // The descriptor is ours and stays open; if its counter is full, the thread is awake already.
        let _ = self.0.wake();
    }
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    options: Options,
    poll: Poll,
    listener: TcpListener,
    address: SocketAddr,
    order_log: Option<OrderLog>,
    stopper: Stopper,
}

const MAX_IN_FLIGHT: usize = 1 << 20;
const MAX_PIPELINE: usize = 1 << 16;
const MAX_CONNECTIONS: usize = 1 << 20;

impl Server {
    /// Begins to listen. Connections wait until [`Server::run`].
    ///
    /// # Errors
    /// If a figure is out of range, or the address or the log cannot be had.
    pub fn bind(address: &str, options: Options) -> Result<Self, ServeError> {
        in_range("in_flight", options.in_flight, MAX_IN_FLIGHT)?;
        in_range("pipeline", options.pipeline, MAX_PIPELINE)?;
        in_range("connections", options.connections, MAX_CONNECTIONS)?;
        in_range("workers", options.workers, 1024)?;
        let listen = |source| ServeError::Listen {
            address: address.to_owned(),
            source,
        };
        let mut listener = listen_at(address).map_err(listen)?;
        let local = listener.local_addr().map_err(listen)?;
        let poll = Poll::new().map_err(ServeError::Poll)?;
        poll.registry()
            .register(&mut listener, LISTENER, Interest::READABLE)
            .map_err(ServeError::Poll)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER).map_err(ServeError::Poll)?);
        let order_log = options.log.as_deref().map(OrderLog::create).transpose()?;
        Ok(Self {
            poll,
            listener,
            address: local,
            order_log,
            stopper: Stopper {
                times: Arc::default(),
                waker,
            },
            options,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What tells it to end.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Where results come back: the app's requests carry its tickets.
    #[must_use]
    pub fn board(&self) -> Board {
        let Options {
            in_flight, workers, ..
        } = self.options;
        // The dispatcher executes as well when it has nothing else to do.
        Board::new(
            in_flight,
            workers + 1,
            Box::new(OfPoll(Arc::clone(&self.stopper.waker))),
        )
    }

    /// Serves until the stopper says so and all that was accepted is executed and answered, on this thread and others of
    /// its own. `notify` is called on one of them.
    ///
    /// # Errors
    /// If it cannot begin. What ends it later is part of what it did.
    pub fn run<'b, A>(
        self,
        board: &'b Board,
        app: &A,
        notify: impl FnMut(Notice) + Send,
    ) -> Result<Served, ServeError>
    where
        A: App<Txn = Ordered<'b>>,
    {
        let options = self.options;
        let mut runtime = options.runtime.workers(options.workers).build()?;
        let (feed, source) = feed(board.slots(), || board.wake());
        let setup = Setup {
            poll: self.poll,
            acceptor: Acceptor::new(self.listener, options.connections),
            board,
            feed: Some(feed),
            order_log: self.order_log,
            rows: options.rows,
            pipeline: options.pipeline,
            patience: options.patience,
            stop: self.stopper.times,
        };
        let handler = Handler::new(setup, notify);
        thread::scope(|scope| {
            let handler = thread::Builder::new()
                .name("rpc".to_owned())
                .spawn_scoped(scope, || handler.run())
                .map_err(ServeError::Thread)?;
            let replayed = runtime.replay(source, app);
            let handled = handler.join().map_err(|_| ServeError::Panicked)?;
            Ok(served(replayed, handled))
        })
    }
}

fn served(replayed: Result<Replayed, ReplayError>, handled: Handled) -> Served {
    let Handled {
        statistics,
        results,
        failure,
    } = handled;
    let (replayed, failure) = match replayed {
        Ok(replayed) => (Some(replayed), failure),
        // The runtime stopped first, and the rest followed.
        Err(error) => (None, Some(error.into())),
    };
    Served {
        statistics,
        results,
        replayed,
        failure,
    }
}

fn in_range(what: &'static str, value: usize, max: usize) -> Result<(), ServeError> {
    if (1..=max).contains(&value) {
        return Ok(());
    }
    Err(ServeError::Range { what, value, max })
}

/// Listens at the first of the addresses that can be had.
fn listen_at(address: &str) -> io::Result<TcpListener> {
    let mut refusal = io::Error::other("it names no address");
    for address in address.to_socket_addrs()? {
        match TcpListener::bind(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => refusal = error,
        }
    }
    Err(refusal)
}
