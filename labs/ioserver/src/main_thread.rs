//! The main thread: it accepts connections, and executes all commands.

use std::io;
use std::time::Duration;

use anyhow::{Context as _, Result};
use hitm_counters::Isolated;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Poll, Token};

use crate::execute::Executor;
use crate::mailbox::Mailbox;
use crate::stats::{Tally, bump, read};
use crate::turn::{Session, ToIo, ToMain};

/// The event of the listening socket.
pub(crate) const LISTENER: Token = Token(0);
/// Connections accepted before commands have their turn.
const ACCEPTS_MAX: usize = 256;
/// How long to wait when the system has no descriptor for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the main thread has.
#[derive(Debug)]
pub(crate) struct MainThread<'s> {
    pub(crate) poll: Poll,
    pub(crate) listener: TcpListener,
    pub(crate) executor: Executor<'s>,
    pub(crate) tally: Tally,
    pub(crate) mail: &'s Mailbox<ToMain>,
    /// Of IO thread `i + 1`.
    pub(crate) io_threads: &'s [Isolated<Mailbox<ToIo>>],
}

/// Whether there may be more connections to accept, which the system says only once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Accepting {
    Done,
    More,
    /// There are, but no descriptors for them.
    Paused,
}

/// Also when it panics: whoever waits for the IO threads must not wait for ever.
impl Drop for MainThread<'_> {
    fn drop(&mut self) {
        for mailbox in self.io_threads {
            // One that cannot be woken has ended.
            let _ = mailbox.post(&mut vec![ToIo::Stop]);
        }
    }
}

impl MainThread<'_> {
    /// Serves until a client or an IO thread ends it.
    pub(crate) fn run(mut self) -> Result<()> {
        self.rounds()
    }

    fn rounds(&mut self) -> Result<()> {
        let mut events = Events::with_capacity(64);
        let mut mail = Vec::new();
        let mut outboxes: Vec<Vec<ToIo>> = self.io_threads.iter().map(|_| Vec::new()).collect();
        let mut next_id = 1;
        let mut accepting = Accepting::More;
        while !self.executor.is_stopped() {
            let timeout = match accepting {
                Accepting::Done => None,
                Accepting::More => Some(Duration::ZERO),
                Accepting::Paused => Some(ACCEPT_PAUSE),
            };
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result.context("cannot wait for events")?,
            }
            if accepting != Accepting::Done || events.iter().any(|event| event.token() == LISTENER)
            {
                accepting = self.accept(&mut outboxes, &mut next_id);
            }
            self.mail.take(&mut mail);
            for message in mail.drain(..) {
                self.receive(message, &mut outboxes)?;
            }
            for (mailbox, outbox) in self.io_threads.iter().zip(&mut outboxes) {
                mailbox.post(outbox).context("cannot wake an IO thread")?;
            }
        }
        Ok(())
    }

    fn receive(&mut self, message: ToMain, outboxes: &mut [Vec<ToIo>]) -> Result<()> {
        match message {
            ToMain::Execute(mut turn) => {
                self.executor.execute(&mut turn);
                if let Some(outbox) = outboxes.get_mut(turn.thread - 1) {
                    outbox.push(ToIo::Executed(turn));
                }
            }
            ToMain::Gone { thread } => self.count_client(thread, -1),
            ToMain::Failed(error) => return Err(error),
        }
        Ok(())
    }

    fn accept(&mut self, outboxes: &mut [Vec<ToIo>], next_id: &mut u64) -> Accepting {
        for _ in 0..ACCEPTS_MAX {
            match self.listener.accept() {
                Ok((stream, address)) => {
                    let session = Session {
                        id: *next_id,
                        address,
                        name: Vec::new(),
                        library: Vec::new(),
                        library_version: Vec::new(),
                    };
                    *next_id += 1;
                    self.welcome(stream, session, outboxes);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Accepting::Done,
                // The client was faster away than we were here.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
                    ) => {}
                // No descriptors, no memory: it may be better in a moment.
                Err(_) => return Accepting::Paused,
            }
        }
        Accepting::More
    }

    /// Gives a connection to the IO thread with the fewest, or refuses it.
    fn welcome(&mut self, mut stream: TcpStream, session: Session, outboxes: &mut [Vec<ToIo>]) {
        let server = self.executor.stats.server;
        let numbers = &server.io_threads_clients_num[1..=outboxes.len()];
        let n_clients: u64 = numbers.iter().map(read).sum();
        if n_clients >= self.executor.stats.limits.maxclients as u64 {
            // A socket that was just made takes a line; if not, the client sees the end.
            let text = b"-ERR max number of clients reached\r\n";
            self.tally.writes();
            let written = io::Write::write(&mut stream, text).unwrap_or(0);
            self.tally.sent(written);
            bump(&server.stat_rejected_conn);
            return;
        }
        // Replies are to go at once; where that is refused they go a little later.
        let _ = stream.set_nodelay(true);
        bump(&server.stat_numconnections);
        let fewest = (0..outboxes.len()).min_by_key(|i| read(&numbers[*i]));
        if let Some(outbox) = fewest.and_then(|i| outboxes.get_mut(i)) {
            outbox.push(ToIo::Client(stream, Box::new(session)));
            self.count_client(fewest.unwrap_or(0) + 1, 1);
        }
    }

    fn count_client(&self, thread: usize, change: i64) {
        let counter = &self.executor.stats.server.io_threads_clients_num[thread];
        let relaxed = std::sync::atomic::Ordering::Relaxed;
        counter.store(read(counter).saturating_add_signed(change), relaxed);
    }
}
