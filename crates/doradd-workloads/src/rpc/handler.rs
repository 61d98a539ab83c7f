//! The thread that talks to all clients: it makes the total order, and sends the replies.
//!
//! One thread reads all connections in turn, so the order in which requests are read *is* the order of the log. A turn of
//! its loop: take new connections, take results that have come back, read what is there, put the accepted requests into the
//! log file and then into the queue of the dispatcher, send what is complete. It sleeps when nothing of that can go on.
//!
//! # Bounds
//! Requests without a result hold a slot, of which there is a fixed number; when all are taken, connections wait for
//! their turn in the order in which they asked. What a connection holds besides is bounded by itself, see `connection`.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};

use crate::log::{Rows, Transaction};
use crate::request::Request;
use crate::rpc::acceptor::{Accepted, Acceptor};
use crate::rpc::board::{Board, Returned, Slot, Ticket};
use crate::rpc::clients::Clients;
use crate::rpc::connection::Heard;
use crate::rpc::feed::Feed;
use crate::rpc::order_log::OrderLog;
use crate::rpc::pending::Pending;
use crate::rpc::results::{Results, ResultsDigest};
use crate::rpc::server::ServeError;
use crate::rpc::statistics::{Notice, Statistics};
use crate::rpc::wire::{Ask, Body, Request as Frame, Status};

pub(crate) const LISTENER: Token = Token(0);
pub(crate) const WAKER: Token = Token(1);

/// Requests of one connection in its turn, at most.
const BUDGET: usize = 64;
/// Connections accepted in a turn of the loop, at most.
const ACCEPTS: usize = 64;
/// Turns in which nothing happened before the thread sleeps, while results are on their way: each gives way to others.
const PATIENCE: u32 = 16;

/// The `detail` of a refusal because of the write mask; else it is the index of the key.
const NO_SUCH_WRITE: u8 = 255;

/// A transaction on its way through the runtime, with the ticket of its reply.
pub type Ordered<'b> = Request<Ticket<'b>, Transaction>;

/// What the handler needs to begin.
pub(crate) struct Setup<'b> {
    pub(crate) poll: Poll,
    pub(crate) acceptor: Acceptor,
    pub(crate) board: &'b Board,
    /// Gone when nothing more is accepted.
    pub(crate) feed: Option<Feed<Ordered<'b>>>,
    pub(crate) order_log: Option<OrderLog>,
    pub(crate) rows: Rows,
    pub(crate) pipeline: usize,
    /// How long slow readers may take to get their last replies.
    pub(crate) patience: Duration,
    /// How often the operator has said stop.
    pub(crate) stop: Arc<AtomicU32>,
}

/// What it leaves.
#[derive(Debug)]
pub(crate) struct Handled {
    pub(crate) statistics: Statistics,
    pub(crate) results: ResultsDigest,
    pub(crate) failure: Option<ServeError>,
}

/// The thread's state.
pub(crate) struct Handler<'b, N> {
    setup: Setup<'b>,
    events: Events,
    clients: Clients,
    pending: Pending,
    results: Results,
    /// Requests for the state that wait for the results before them.
    states: VecDeque<(u64, Slot)>,
    /// Connections that have something to read, in the order of their turns.
    turns: VecDeque<u32>,
    /// Connections that have something to send, or have ended.
    dirty: Vec<u32>,
    /// What was accepted in this turn of the loop.
    batch: Vec<(Slot, Transaction)>,
    returned: Vec<Returned>,
    /// The place in the order of each slot's transaction.
    sequences: Box<[u64]>,
    /// Transactions that have come back.
    ended: u64,
    stopping: bool,
    /// When connections are closed that are not over by then.
    deadline: Option<Instant>,
    idle_turns: u32,
    statistics: Statistics,
    failure: Option<ServeError>,
    notify: N,
}

impl<'b, N: FnMut(Notice)> Handler<'b, N> {
    pub(crate) fn new(setup: Setup<'b>, notify: N) -> Self {
        let slots = setup.board.slots();
        Self {
            events: Events::with_capacity(1024),
            clients: Clients::new(setup.pipeline),
            pending: Pending::new(slots),
            results: Results::default(),
            states: VecDeque::new(),
            turns: VecDeque::new(),
            dirty: Vec::new(),
            batch: Vec::with_capacity(slots),
            returned: Vec::with_capacity(slots),
            sequences: vec![0; slots].into(),
            ended: 0,
            stopping: false,
            deadline: None,
            idle_turns: 0,
            statistics: Statistics::default(),
            failure: None,
            notify,
            setup,
        }
    }

    /// Serves until it is stopped and all is answered.
    pub(crate) fn run(mut self) -> Handled {
        while !self.is_over() {
            if let Err(error) = self.turn() {
                self.fail(ServeError::Poll(error));
            }
        }
        Handled {
            statistics: self.statistics,
            results: self.results.so_far().1,
            failure: self.failure,
        }
    }

    fn turn(&mut self) -> io::Result<()> {
        let waited = self.wait();
        if !self.stopping {
            let feed_is_gone = self.setup.feed.as_ref().is_none_or(Feed::is_gone);
            if feed_is_gone || self.setup.stop.load(Ordering::Acquire) > 0 {
                self.stop();
            }
        }
        let accepted = if self.stopping { Ok(()) } else { self.accept() };
        let busy = self.collect() | self.read();
        self.submit();
        self.answer_states();
        self.flush();
        self.expire();
        self.idle_turns = match waited {
            Ok(true) => 0,
            _ if busy => 0,
            _ => self.idle_turns + 1,
        };
        waited.and(accepted)
    }

    fn in_flight(&self) -> u64 {
        self.statistics.accepted - self.ended
    }

    /// Waits for something to do; whether there is.
    fn wait(&mut self) -> io::Result<bool> {
        let can_read = !self.turns.is_empty() && self.pending.room() > 0;
        let may_come = self.in_flight() > 0 && self.idle_turns < PATIENCE;
        let may_accept = !self.stopping && self.setup.acceptor.may_accept();
        let mut timeout = Some(Duration::ZERO);
        if !can_read && !may_come && !may_accept {
            if self.setup.board.may_sleep() {
                self.statistics.sleeps += 1;
                timeout = self
                    .next_deadline()
                    .map(|at| at.saturating_duration_since(Instant::now()));
            }
        } else if self.idle_turns > 0 {
            std::thread::yield_now();
        }
        let polled = self.setup.poll.poll(&mut self.events, timeout);
        self.setup.board.awake();
        match polled {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(false),
            polled => polled?,
        }
        let busy = !self.events.is_empty();
        for event in &self.events {
            match event.token() {
                LISTENER => self.setup.acceptor.is_ready(),
                WAKER => {}
                token => {
                    let Some(index) = self.clients.index(token) else {
                        continue;
                    };
                    let client = self.clients.get(index);
                    client.connection.readable |= event.is_readable() || event.is_error();
                    if event.is_readable() || event.is_error() {
                        queue(&mut self.turns, index, &mut client.connection.is_queued);
                    }
                    if event.is_writable() || event.is_error() {
                        list(&mut self.dirty, index, &mut client.connection.is_dirty);
                    }
                }
            }
        }
        Ok(busy)
    }

    fn next_deadline(&self) -> Option<Instant> {
        let deadlines = [
            self.clients.next_expiry(),
            self.setup.acceptor.retry_at(),
            self.deadline,
        ];
        deadlines.into_iter().flatten().min()
    }

    fn accept(&mut self) -> io::Result<()> {
        let now = Instant::now();
        for _ in 0..ACCEPTS {
            let connections = self.clients.len();
            match self.setup.acceptor.accept(connections, now)? {
                Accepted::Connection(socket) => {
                    self.statistics.connections += 1;
                    let Ok(index) = self.clients.insert(self.setup.poll.registry(), socket) else {
                        self.statistics.broken += 1;
                        continue;
                    };
                    let connections = connections as u64 + 1;
                    self.statistics.peak_connections =
                        self.statistics.peak_connections.max(connections);
                    queue(
                        &mut self.turns,
                        index,
                        &mut self.clients.get(index).connection.is_queued,
                    );
                }
                Accepted::Nothing => return Ok(()),
                Accepted::Notice(notice) => {
                    if let Notice::OutOfDescriptors { .. } = notice {
                        self.statistics.out_of_descriptors += 1;
                    }
                    (self.notify)(notice);
                }
            }
        }
        Ok(())
    }

    /// Takes results that have come back; whether there were any.
    fn collect(&mut self) -> bool {
        let mut returned = std::mem::take(&mut self.returned);
        self.setup.board.take(|one| returned.push(one));
        for one in &returned {
            self.end(one);
        }
        let any = !returned.is_empty();
        returned.clear();
        self.returned = returned;
        any
    }

    /// A transaction has ended.
    fn end(&mut self, returned: &Returned) {
        let Returned {
            slot,
            status,
            result,
            ..
        } = *returned;
        let sequence = self.sequences[slot.0 as usize];
        debug_assert!(status != Status::Executed || sequence == returned.sequence);
        self.ended += 1;
        match status {
            Status::Executed => self.statistics.executed += 1,
            Status::Panicked => self.statistics.panicked += 1,
            _ => self.statistics.not_run += 1,
        }
        self.results.insert(sequence, status, result);
        let reply = self.pending.reply_mut(slot);
        (reply.status, reply.sequence, reply.result) = (status, sequence, result);
        let index = self.pending.complete(slot);
        self.deliver(index);
    }

    /// Answers requests for the state whose moment has come.
    fn answer_states(&mut self) {
        while let Some(&(at, slot)) = self.states.front() {
            self.results.advance(at);
            let (counted, digest) = self.results.so_far();
            if counted < at {
                return;
            }
            self.states.pop_front();
            let reply = self.pending.reply_mut(slot);
            (reply.status, reply.sequence, reply.result) = (Status::State, at, digest.to_bits());
            let index = self.pending.complete(slot);
            self.deliver(index);
        }
        self.results.advance(u64::MAX);
    }

    /// Moves complete replies of a connection into its output.
    fn deliver(&mut self, index: u32) {
        let client = self.clients.get(index);
        while let Some(reply) = self.pending.take(&mut client.connection.queue) {
            if reply.status == Status::Goodbye {
                // It was not accepted after all; the farewell says so.
            } else if client.socket.is_some() {
                client.connection.answer(&reply);
            } else {
                self.statistics.undelivered += 1;
            }
        }
        list(&mut self.dirty, index, &mut client.connection.is_dirty);
    }

    /// Gives connections their turns; whether any had one.
    fn read(&mut self) -> bool {
        let turns = self.turns.len();
        for _ in 0..turns {
            if self.pending.room() == 0 {
                break;
            }
            if let Some(index) = self.turns.pop_front() {
                self.clients.get(index).connection.is_queued = false;
                if self.read_one(index) {
                    let connection = &mut self.clients.get(index).connection;
                    queue(&mut self.turns, index, &mut connection.is_queued);
                }
            }
        }
        turns > 0
    }

    /// One connection's turn; whether it wants another.
    fn read_one(&mut self, index: u32) -> bool {
        for _ in 0..BUDGET {
            let client = self.clients.get(index);
            let Some(socket) = &mut client.socket else {
                self.clients.free_if_over(index);
                return false;
            };
            if client.is_lingering {
                let is_over = client.connection.drain(socket);
                if is_over {
                    self.close(index);
                }
                return !is_over && self.clients.get(index).connection.readable;
            }
            if self.pending.room() == 0 {
                return true;
            }
            match client.connection.hear(socket) {
                Ok(Heard::Request(frame)) => self.request(index, &frame),
                Ok(Heard::Nothing) => {
                    let is_ending = client.connection.is_ending();
                    if is_ending {
                        list(&mut self.dirty, index, &mut client.connection.is_dirty);
                    }
                    return client.connection.readable && !is_ending;
                }
                Ok(Heard::Full) => return false,
                Err(_) => {
                    self.broken(index);
                    return false;
                }
            }
        }
        true
    }

    fn request(&mut self, index: u32, frame: &Frame) {
        let queue = &mut self.clients.get(index).connection.queue;
        let Some(slot) = self.pending.append(queue, index, frame.id) else {
            debug_assert!(false, "there was room");
            return;
        };
        match &frame.ask {
            Ask::State => {
                self.statistics.states += 1;
                let before = self.statistics.accepted + self.batch.len() as u64;
                self.states.push_back((before, slot));
            }
            Ask::Execute(body) => match check(body, self.setup.rows) {
                Ok(transaction) => self.batch.push((slot, transaction)),
                Err(detail) => {
                    self.statistics.refused += 1;
                    let reply = self.pending.reply_mut(slot);
                    (reply.status, reply.detail) = (Status::Refused, detail);
                    self.pending.complete(slot);
                    self.deliver(index);
                }
            },
        }
    }

    /// Gives this turn's requests their places in the order.
    fn submit(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let mut batch = std::mem::take(&mut self.batch);
        match self.write_order(&batch) {
            Ok(()) => self.feed(&batch),
            Err(error) => {
                self.fail(error);
                for (slot, _) in &batch {
                    self.pending.reply_mut(*slot).status = Status::Goodbye;
                    let index = self.pending.complete(*slot);
                    self.deliver(index);
                }
            }
        }
        batch.clear();
        self.batch = batch;
    }

    fn write_order(&mut self, batch: &[(Slot, Transaction)]) -> Result<(), ServeError> {
        if let Some(log) = &mut self.setup.order_log {
            batch
                .iter()
                .for_each(|(_, transaction)| log.push(transaction));
            log.commit()?;
        }
        Ok(())
    }

    fn feed(&mut self, batch: &[(Slot, Transaction)]) {
        for (slot, transaction) in batch {
            self.sequences[slot.0 as usize] = self.statistics.accepted;
            self.statistics.accepted += 1;
            let tag = self.setup.board.ticket(*slot);
            let request = Request {
                tag,
                transaction: *transaction,
            };
            if let Some(feed) = &mut self.setup.feed {
                // If the dispatcher is gone, the request is dropped, and answered as one that was not run.
                drop(feed.push(request));
            }
        }
        if let Some(feed) = &self.setup.feed {
            feed.ring();
        }
        self.statistics.peak_in_flight = self.statistics.peak_in_flight.max(self.in_flight());
    }

    /// Sends what is complete, and closes what is over.
    fn flush(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for &index in &dirty {
            self.flush_one(index);
        }
        dirty.clear();
        // What was listed meanwhile has its turn in the next turn of the loop.
        dirty.append(&mut self.dirty);
        self.dirty = dirty;
    }

    fn flush_one(&mut self, index: u32) {
        let client = self.clients.get(index);
        let connection = &mut client.connection;
        connection.is_dirty = false;
        let Some(socket) = &mut client.socket else {
            self.clients.free_if_over(index);
            return;
        };
        if client.is_lingering {
            return;
        }
        if connection.flush(socket).is_err() {
            self.broken(index);
        } else if connection.is_over() {
            self.statistics.malformed += u64::from(connection.was_malformed());
            self.clients.linger(index, Instant::now());
            let client = self.clients.get(index);
            if client.socket.is_some() {
                queue(&mut self.turns, index, &mut client.connection.is_queued);
            } else {
                self.setup.acceptor.has_room();
            }
        } else if connection.has_recovered() {
            queue(&mut self.turns, index, &mut connection.is_queued);
        }
    }

    /// Nothing more is accepted; what was accepted is executed and answered.
    fn stop(&mut self) {
        self.stopping = true;
        self.setup.feed = None;
        let listener = self.setup.acceptor.listener();
        // It is closed with the handler; until then nobody looks at it.
        let _ = self.setup.poll.registry().deregister(listener);
        for index in self.clients.indices() {
            let client = self.clients.get(index);
            if client.socket.is_some() && !client.is_lingering {
                client.connection.goodbye();
                list(&mut self.dirty, index, &mut client.connection.is_dirty);
            }
        }
    }

    fn fail(&mut self, error: ServeError) {
        self.failure.get_or_insert(error);
        if !self.stopping {
            self.stop();
        }
    }

    /// Closes what has had its time.
    fn expire(&mut self) {
        let now = Instant::now();
        if self.clients.expire(now) {
            self.setup.acceptor.has_room();
        }
        if !self.stopping || self.in_flight() > 0 {
            return;
        }
        let hurries = self.setup.stop.load(Ordering::Acquire) > 1;
        let patience = if hurries {
            Duration::ZERO
        } else {
            self.setup.patience
        };
        let deadline = *self.deadline.get_or_insert(now + patience);
        if deadline <= now || hurries {
            for index in self.clients.indices() {
                if self.clients.get(index).socket.is_some() {
                    self.broken(index);
                }
            }
        }
    }

    /// A connection is gone before its time.
    fn broken(&mut self, index: u32) {
        self.statistics.broken += 1;
        self.statistics.undelivered += self.clients.get(index).connection.unsent() as u64;
        self.close(index);
    }

    fn close(&mut self, index: u32) {
        self.clients.close(index);
        self.setup.acceptor.has_room();
    }

    fn is_over(&self) -> bool {
        self.stopping && self.in_flight() == 0 && self.clients.len() == 0
    }
}

/// The transaction that was asked for, or the `detail` of the refusal.
fn check(body: &Body, rows: Rows) -> Result<Transaction, u8> {
    let transaction = Transaction::new(body.keys, body.writes).map_err(|_| NO_SUCH_WRITE)?;
    match body.keys.iter().position(|key| u64::from(*key) >= rows.0) {
        Some(i) => Err(i as u8),
        None => Ok(transaction),
    }
}

fn queue(turns: &mut VecDeque<u32>, index: u32, is_queued: &mut bool) {
    if !std::mem::replace(is_queued, true) {
        turns.push_back(index);
    }
}

fn list(dirty: &mut Vec<u32>, index: u32, is_dirty: &mut bool) {
    if !std::mem::replace(is_dirty, true) {
        dirty.push(index);
    }
}
