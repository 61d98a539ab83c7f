//! A client that measures: sends a log's transactions over many connections by a schedule, checks every reply, and takes
//! the time to it.
//!
//! One thread talks to all connections. With a schedule the load is *open*: a request's latency begins when it was due,
//! also if no connection had room for it then or this thread was late. Between arrivals that are less than a millisecond apart
//! the thread does not sleep.

mod checks;
mod figures;
mod link;

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};
use thiserror::Error;

use crate::log::Transaction;
use crate::rpc::client::checks::Checks;
use crate::rpc::client::figures::Meter;
use crate::rpc::client::link::{Link, Owed};
use crate::rpc::wire::{Ask, Body, RequestId};
use crate::run::arrivals::{Arrivals, Schedule};

pub use checks::{Answers, Fault};
pub use figures::{Figures, ReplyLatency, ReplySecond};

/// How a server is measured.
#[derive(Clone, Debug)]
pub struct Plan<'p> {
    /// The server.
    pub address: &'p str,
    /// Connections, at least 1.
    pub connections: usize,
    /// Requests of one connection that wait for replies at most, at least 1.
    pub pipeline: usize,
    /// When requests are due.
    pub arrivals: Arrivals,
    /// What random arrivals start from.
    pub seed: u64,
    /// No request is sent after that long.
    pub time: Option<Duration>,
    /// How long to try to connect to a server that is not there yet.
    pub wait: Duration,
    /// How long the server may be silent while it owes replies.
    pub timeout: Duration,
    /// No request is sent once this is set.
    pub stop: &'p AtomicBool,
}

/// Why nothing could be measured.
#[derive(Error, Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// The server is not there.
    #[error(
        "cannot connect to {address}: start the server with `ycsb-server --listen {address}`, or give `--wait` the seconds until it is there"
    )]
    Connect {
        /// Where it should be.
        address: String,
        /// What the system says of the last attempt.
        #[source]
        source: io::Error,
    },
    /// Not so many connections.
    #[error(
        "cannot open connection {number} of {wanted}: raise the limit with `ulimit -n`, or ask for fewer with `-c`"
    )]
    Descriptors {
        /// Which one failed.
        number: usize,
        /// How many were to be.
        wanted: usize,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The system does not tell of sockets.
    #[error("cannot wait for replies")]
    Poll(#[source] io::Error),
}

/// The state as the server told it after the last reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    /// Transactions that the server had accepted, of all clients.
    pub transactions: u64,
    /// The digest of their results.
    pub digest: u64,
}

/// What a run came to.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Run {
    /// What it took.
    pub figures: Figures,
    /// What the replies said, and what was wrong with them.
    pub answers: Answers,
    /// The state at the end, if the server told it.
    pub state: Option<State>,
}

/// Sends transactions and measures. `watch` is given the figures of each second as it ends.
///
/// # Errors
/// If the server cannot be reached. What it does wrong later is part of the outcome.
pub fn run(
    plan: &Plan<'_>,
    transactions: impl Iterator<Item = Transaction>,
    watch: impl FnMut(&ReplySecond),
) -> Result<Run, ClientError> {
    let mut client = Client::connect(plan)?;
    client.drive(transactions, watch)?;
    let state = client.ask_state()?;
    Ok(Run {
        figures: client.meter.figures(),
        answers: client.checks.answers(&client.links),
        state,
    })
}

/// The connections and what is known of them.
struct Client<'p> {
    plan: &'p Plan<'p>,
    poll: Poll,
    events: Events,
    links: Vec<Link>,
    /// The link that is tried first for the next request.
    next: usize,
    /// Links that have something to send.
    dirty: Vec<usize>,
    checks: Checks,
    meter: Meter,
    sent: u64,
    last_reply: Instant,
}

/// How long the poll may sleep at most: the figures of a second are due.
const TICK: Duration = Duration::from_millis(100);

impl<'p> Client<'p> {
    fn connect(plan: &'p Plan<'p>) -> Result<Self, ClientError> {
        let poll = Poll::new().map_err(ClientError::Poll)?;
        let mut links = Vec::with_capacity(plan.connections);
        let mut server = None;
        for number in 0..plan.connections {
            let socket = match server {
                None => first(plan)?,
                Some(address) => TcpStream::connect::<SocketAddr>(address).map_err(|source| {
                    ClientError::Descriptors {
                        number: number + 1,
                        wanted: plan.connections,
                        source,
                    }
                })?,
            };
            server = socket.peer_addr().ok();
            let link = prepare(socket).and_then(|mut socket| {
                let interest = Interest::READABLE | Interest::WRITABLE;
                poll.registry()
                    .register(&mut socket, Token(number), interest)?;
                Ok(Link::new(socket, plan.pipeline))
            });
            links.push(link.map_err(ClientError::Poll)?);
        }
        Ok(Self {
            plan,
            poll,
            events: Events::with_capacity(1024),
            links,
            next: 0,
            dirty: Vec::new(),
            checks: Checks::default(),
            meter: Meter::new(),
            sent: 0,
            last_reply: Instant::now(),
        })
    }

    /// Sends all transactions and takes all replies.
    fn drive(
        &mut self,
        mut transactions: impl Iterator<Item = Transaction>,
        mut watch: impl FnMut(&ReplySecond),
    ) -> Result<(), ClientError> {
        let mut schedule = Schedule::new(self.plan.arrivals, self.plan.seed);
        let mut next = transactions.next();
        let end = self
            .plan
            .time
            .map_or(u64::MAX, |time| time.as_nanos() as u64);
        loop {
            let now = self.meter.now();
            if self.plan.stop.load(Ordering::Relaxed) || now >= end {
                next = None;
            }
            while let Some(transaction) = next
                && schedule.due().is_none_or(|due| due <= now)
                && let Some(link) = self.link_with_room()
            {
                let due = schedule.due().unwrap_or(now);
                self.send(link, &transaction, due);
                self.meter.sent(now - due);
                schedule.advance();
                next = transactions.next();
            }
            self.flush();
            let waits = self.links.iter().any(|link| link.owed() > 0);
            let none_is_left = self.links.iter().all(Link::is_closed);
            if (next.is_none() && !waits) || none_is_left || self.is_silent(waits) {
                return Ok(());
            }
            let has_room = next.is_some() && self.link_with_room().is_some();
            let until = schedule.due().filter(|_| has_room);
            self.receive(until)?;
            if let Some(second) = self.meter.second() {
                watch(&second);
            }
        }
    }

    /// A link that may send one more request, in turn.
    fn link_with_room(&mut self) -> Option<usize> {
        let n = self.links.len();
        let found = (0..n)
            .map(|i| (self.next + i) % n)
            .find(|link| self.links[*link].has_room())?;
        self.next = found;
        Some(found)
    }

    fn send(&mut self, link: usize, transaction: &Transaction, due: u64) {
        let id = RequestId(self.sent);
        self.sent += 1;
        let body = Body {
            keys: *transaction.keys(),
            writes: transaction.writes(),
        };
        if self.links[link].owed() == 0 {
            self.last_reply = Instant::now();
        }
        if self.links[link].push(Owed { id, due }, Ask::Execute(body)) {
            self.dirty.push(link);
        }
        self.next = (link + 1) % self.links.len();
    }

    fn flush(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for link in dirty.drain(..) {
            self.links[link].flush();
        }
        self.dirty = dirty;
    }

    /// Whether the server has owed replies for too long.
    fn is_silent(&mut self, waits: bool) -> bool {
        let silent = waits && self.last_reply.elapsed() > self.plan.timeout;
        if silent {
            self.checks.fault(Fault::Silent {
                seconds: self.plan.timeout.as_secs(),
            });
        }
        silent
    }

    /// Takes replies; until the next request is due, if that is known.
    fn receive(&mut self, until: Option<u64>) -> Result<(), ClientError> {
        let wait = until.map_or(TICK, |due| {
            Duration::from_nanos(due.saturating_sub(self.meter.now()))
        });
        // The poll's milliseconds are too coarse for what comes sooner.
        let timeout = Duration::from_millis(wait.min(TICK).as_millis() as u64);
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            polled => polled.map_err(ClientError::Poll)?,
        }
        if self.events.is_empty() && timeout.is_zero() {
            // Others may need this processor more than a loop that waits.
            thread::yield_now();
        }
        for event in &self.events {
            let link = &mut self.links[event.token().0];
            if event.is_writable() {
                link.flush();
            }
            if event.is_readable() || event.is_error() {
                let now = self.meter.now();
                let (checks, meter) = (&mut self.checks, &mut self.meter);
                let any = link.receive(|owed, reply| {
                    checks.reply(owed.as_ref(), reply);
                    if let Some(owed) = owed
                        && reply.status.is_ordered()
                    {
                        meter.answered(now.saturating_sub(owed.due));
                    }
                });
                if any {
                    self.last_reply = Instant::now();
                }
            }
        }
        Ok(())
    }

    /// Asks for the state, once all is answered.
    fn ask_state(&mut self) -> Result<Option<State>, ClientError> {
        let Some(link) = self
            .links
            .iter()
            .position(|link| !link.is_closed() && link.owed() == 0)
        else {
            return Ok(None);
        };
        self.last_reply = Instant::now();
        self.links[link].push(
            Owed {
                id: RequestId(u64::MAX),
                due: self.meter.now(),
            },
            Ask::State,
        );
        self.links[link].flush();
        while self.links[link].owed() > 0 && !self.links[link].is_closed() && !self.is_silent(true)
        {
            self.receive(None)?;
        }
        Ok(self.checks.state())
    }
}

/// Connects to the server, which may not be there yet.
fn first(plan: &Plan<'_>) -> Result<TcpStream, ClientError> {
    let began = Instant::now();
    loop {
        let attempt = plan.address.to_socket_addrs().and_then(|addresses| {
            let mut last = io::Error::other("it names no address");
            for address in addresses {
                match TcpStream::connect(address) {
                    Ok(socket) => return Ok(socket),
                    Err(error) => last = error,
                }
            }
            Err(last)
        });
        match attempt {
            Ok(socket) => return Ok(socket),
            Err(source) => {
                let stopped = plan.stop.load(Ordering::Relaxed);
                if stopped
                    || began.elapsed() >= plan.wait
                    || source.kind() != ErrorKind::ConnectionRefused
                {
                    return Err(ClientError::Connect {
                        address: plan.address.to_owned(),
                        source,
                    });
                }
                thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

fn prepare(socket: TcpStream) -> io::Result<mio::net::TcpStream> {
    socket.set_nonblocking(true)?;
    socket.set_nodelay(true)?;
    Ok(mio::net::TcpStream::from_std(socket))
}
