//! An IO thread: it owns connections, reads and parses what comes, hands commands to the main thread and writes what comes
//! back.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use mio::{Events, Interest, Poll, Token};
use slab::Slab;

use crate::client::{Cause, Client, Next};
use crate::mailbox::{MAIL, Mailbox};
use crate::stats::{Stats, Tally};
use crate::turn::{Session, ToIo, ToMain, Turn};

/// Events taken from the system at once.
const EVENTS: usize = 256;

/// What an IO thread has.
#[derive(Debug)]
pub(crate) struct IoThread<'s> {
    number: usize,
    poll: Poll,
    stats: &'s Stats,
    tally: Tally,
    mail: &'s Mailbox<ToIo>,
    main: &'s Mailbox<ToMain>,
    clients: Slab<Client>,
    /// To the main thread, at the end of the round.
    outbox: Vec<ToMain>,
    /// Clients to be served in the next round, whatever the system says.
    again: Vec<usize>,
    /// Bytes of all clients' buffers.
    held: usize,
    /// What is read at once.
    scratch: Box<[u8]>,
}

impl<'s> IoThread<'s> {
    pub(crate) fn new(
        number: usize,
        poll: Poll,
        stats: &'s Stats,
        mail: &'s Mailbox<ToIo>,
        main: &'s Mailbox<ToMain>,
        chunk: usize,
    ) -> Self {
        Self {
            number,
            poll,
            stats,
            tally: stats.tally(number),
            mail,
            main,
            clients: Slab::new(),
            outbox: Vec::new(),
            again: Vec::new(),
            held: 0,
            scratch: vec![0; chunk].into(),
        }
    }

    /// Serves clients until the main thread says stop, or the system refuses.
    pub(crate) fn run(mut self) {
        let (number, main) = (self.number, self.main);
        let served = catch_unwind(AssertUnwindSafe(move || self.rounds()));
        let error = match served {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            // What it said is on standard error already.
            Err(_) => anyhow!("it panicked, which is a fault of this program"),
        };
        let failed = ToMain::Failed(error.context(format!("IO thread {number}")));
        // If the main thread cannot be woken, it has stopped already.
        let _ = main.post(&mut vec![failed]);
    }

    fn rounds(&mut self) -> Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        let mut mail = Vec::new();
        let mut again = Vec::new();
        loop {
            let timeout = (!self.again.is_empty()).then_some(Duration::ZERO);
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result.context("cannot wait for events")?,
            }
            std::mem::swap(&mut again, &mut self.again);
            for event in events.iter().filter(|event| event.token() != MAIL) {
                let slot = event.token().0;
                if let Some(client) = self.clients.get_mut(slot) {
                    client.on_event(event);
                    self.serve(slot);
                }
            }
            for slot in again.drain(..) {
                self.serve(slot);
            }
            self.mail.take(&mut mail);
            for message in mail.drain(..) {
                match message {
                    ToIo::Client(stream, session) => self.adopt(stream, *session)?,
                    ToIo::Executed(turn) => self.resume(turn),
                    ToIo::Stop => return Ok(()),
                }
            }
            self.keep_to_memory();
            let posted = self.main.post(&mut self.outbox);
            posted.context("cannot wake the main thread")?;
        }
    }

    fn adopt(&mut self, stream: mio::net::TcpStream, session: Session) -> Result<()> {
        let entry = self.clients.vacant_entry();
        let slot = entry.key();
        let limits = &self.stats.limits;
        let client = entry.insert(Client::new(stream, session, self.number, slot, limits));
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = self
            .poll
            .registry()
            .register(client.stream_mut(), Token(slot), interest);
        if registered.is_err() {
            // The system has no room for one more: this client goes, the others stay.
            self.close(slot);
            return Ok(());
        }
        self.serve(slot);
        Ok(())
    }

    fn resume(&mut self, turn: Box<Turn>) {
        let slot = turn.slot;
        if let Some(client) = self.clients.get_mut(slot) {
            client.on_executed(turn);
            self.serve(slot);
        }
    }

    fn serve(&mut self, slot: usize) {
        let Some(client) = self.clients.get_mut(slot) else {
            return;
        };
        let limits = &self.stats.limits;
        let next = client.serve(&self.tally, &mut self.scratch, limits);
        let footprint = client.footprint();
        self.held = self.held - client.counted + footprint;
        client.counted = footprint;
        match next {
            Next::Wait => {}
            Next::Again => self.again.push(slot),
            Next::Execute(turn) => self.outbox.push(ToMain::Execute(turn)),
            Next::Close => self.close(slot),
        }
    }

    fn close(&mut self, slot: usize) {
        let Some(mut client) = self.clients.try_remove(slot) else {
            return;
        };
        self.held -= client.counted;
        let server = self.stats.server;
        let counters: &[&AtomicU64] = match client.cause {
            Some(Cause::Protocol) => &[&server.stat_protocol_errors],
            Some(Cause::Query) => &[
                &server.stat_protocol_errors,
                &server.stat_client_qbuf_limit_disconnections,
            ],
            Some(Cause::Output) => &[&server.stat_client_outbuf_limit_disconnections],
            Some(Cause::Memory) => &[&server.stat_evictedclients],
            None => &[],
        };
        for counter in counters {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        // Closing it does the same; what was never registered is no error.
        let _ = self.poll.registry().deregister(client.stream_mut());
        client.close(&mut self.scratch);
        self.outbox.push(ToMain::Gone {
            thread: self.number,
        });
    }

    /// Disconnects the largest clients while all together have more than this thread's part.
    fn keep_to_memory(&mut self) {
        let n_io_threads = self.stats.n_threads - 1;
        let most = self.stats.limits.maxmemory_clients / n_io_threads;
        while self.held > most {
            // Those that are with the main thread come back in a moment.
            let at_home = self
                .clients
                .iter_mut()
                .filter(|(_, client)| !client.is_away());
            let Some((slot, client)) = at_home.max_by_key(|(_, client)| client.counted) else {
                return;
            };
            client.disconnect(Cause::Memory);
            self.close(slot);
        }
    }
}
