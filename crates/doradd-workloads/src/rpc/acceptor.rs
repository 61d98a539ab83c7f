//! Accepting connections, also when there is no room for more.
//!
//! The listener tells of a new connection once. Where it cannot be accepted (no file descriptor, no place), it stays in the
//! system's queue, and it is tried again when a connection has ended, and every now and then.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use nix::errno::Errno;

use crate::rpc::statistics::Notice;

/// When to try again after the system had no file descriptor: somebody else may have closed one.
const RETRY: Duration = Duration::from_millis(100);

/// The listener, and whether a connection may be waiting.
#[derive(Debug)]
pub(crate) struct Acceptor {
    listener: TcpListener,
    places: usize,
    waiting: bool,
    retry: Option<Instant>,
    /// The operator knows that connections wait.
    told: bool,
}

/// What one attempt came to.
pub(crate) enum Accepted {
    /// A connection.
    Connection(TcpStream),
    /// None for now.
    Nothing,
    /// None for now, and somebody should know.
    Notice(Notice),
}

impl Acceptor {
    /// Accepts as long as there are fewer than `places` connections.
    pub(crate) fn new(listener: TcpListener, places: usize) -> Self {
        Self {
            listener,
            places,
            waiting: true,
            retry: None,
            told: false,
        }
    }

    /// The poll has told of a connection.
    pub(crate) fn is_ready(&mut self) {
        self.waiting = true;
    }

    /// A connection has ended.
    pub(crate) fn has_room(&mut self) {
        self.waiting |= self.retry.take().is_some() || self.told;
    }

    /// Whether an attempt may find one.
    pub(crate) fn may_accept(&self) -> bool {
        self.waiting
    }

    /// When to try again.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        self.retry
    }

    /// Tries to accept one connection beside those there are.
    ///
    /// # Errors
    /// If the listener itself is broken.
    pub(crate) fn accept(&mut self, connections: usize, now: Instant) -> io::Result<Accepted> {
        if self.retry.is_some_and(|at| at <= now) {
            self.retry = None;
            self.waiting = true;
        }
        if !self.waiting {
            return Ok(Accepted::Nothing);
        }
        if connections >= self.places {
            self.waiting = false;
            return Ok(self.tell(Notice::OutOfPlaces { connections }));
        }
        match self.listener.accept() {
            Ok((socket, _)) => {
                // Replies are written in batches already; the kernel must not wait for more.
                let _ = socket.set_nodelay(true);
                Ok(Accepted::Connection(socket))
            }
            Err(error) => self.refused(&error, connections, now).ok_or(error),
        }
    }

    /// What a failed attempt means; nothing if the listener is broken.
    fn refused(&mut self, error: &io::Error, connections: usize, now: Instant) -> Option<Accepted> {
        let lacks = [Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS, Errno::ENOMEM];
        if error.kind() == ErrorKind::WouldBlock {
            self.waiting = false;
            if std::mem::take(&mut self.told) {
                return Some(Accepted::Notice(Notice::AcceptsAgain));
            }
            return Some(Accepted::Nothing);
        }
        if lacks
            .iter()
            .any(|errno| error.raw_os_error() == Some(*errno as i32))
        {
            self.waiting = false;
            self.retry = Some(now + RETRY);
            return Some(self.tell(Notice::OutOfDescriptors { connections }));
        }
        // Errors of the connection that was to be accepted, which is gone; the next one may be fine.
        let of_one = [
            Errno::ECONNABORTED,
            Errno::EINTR,
            Errno::EPROTO,
            Errno::EPERM,
            Errno::ENETDOWN,
            Errno::EHOSTUNREACH,
        ];
        let is_of_one = of_one
            .iter()
            .any(|errno| error.raw_os_error() == Some(*errno as i32));
        is_of_one.then_some(Accepted::Nothing)
    }

    fn tell(&mut self, notice: Notice) -> Accepted {
        if std::mem::replace(&mut self.told, true) {
            return Accepted::Nothing;
        }
        Accepted::Notice(notice)
    }

    /// The listener, to take it out of the poll.
    pub(crate) fn listener(&mut self) -> &mut TcpListener {
        &mut self.listener
    }
}
