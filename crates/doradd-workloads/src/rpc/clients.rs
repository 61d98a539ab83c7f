//! The connections of the server: places that are used again, with their buffers.

use std::collections::VecDeque;
use std::io;
use std::net::Shutdown;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use crate::rpc::connection::Connection;

/// How long a peer may take to end its side after we have ended ours.
const LINGER: Duration = Duration::from_secs(1);

/// Tokens below are the handler's own.
pub(crate) const FIRST_CLIENT: usize = 2;

/// A connection with its socket.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) socket: Option<TcpStream>,
    pub(crate) connection: Connection,
    is_used: bool,
    /// Our side has ended; what comes is thrown away.
    pub(crate) is_lingering: bool,
    /// How many connections were at this place before.
    generation: u32,
}

/// All places.
#[derive(Debug)]
pub(crate) struct Clients {
    places: Vec<Client>,
    free: Vec<u32>,
    lingering: VecDeque<(Instant, u32, u32)>,
    pipeline: usize,
}

impl Clients {
    /// No connections yet; each will have room for so many requests without a reply.
    pub(crate) fn new(pipeline: usize) -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            lingering: VecDeque::new(),
            pipeline,
        }
    }

    /// Places in use: connections, and closed ones whose requests are still in flight.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Indices of all places, in use or not.
    pub(crate) fn indices(&self) -> std::ops::Range<u32> {
        0..self.places.len() as u32
    }

    /// The place of a token of the poll.
    pub(crate) fn index(&self, token: Token) -> Option<u32> {
        let index = token.0.checked_sub(FIRST_CLIENT)?;
        self.places
            .get(index)?
            .socket
            .is_some()
            .then_some(index as u32)
    }

    pub(crate) fn get(&mut self, index: u32) -> &mut Client {
        &mut self.places[index as usize]
    }

    /// Takes a new connection in.
    pub(crate) fn insert(&mut self, registry: &Registry, mut socket: TcpStream) -> io::Result<u32> {
        let index = self
            .free
            .last()
            .map_or(self.places.len(), |index| *index as usize);
        let token = Token(index + FIRST_CLIENT);
        registry.register(&mut socket, token, Interest::READABLE | Interest::WRITABLE)?;
        if self.free.pop().is_some() {
            let place = &mut self.places[index];
            place.connection.renew();
            place.is_lingering = false;
            place.is_used = true;
            place.socket = Some(socket);
        } else {
            self.places.push(Client {
                socket: Some(socket),
                connection: Connection::new(self.pipeline),
                is_used: true,
                is_lingering: false,
                generation: 0,
            });
        }
        Ok(index as u32)
    }

    /// Ends our side of a connection that owes nothing any more; the peer has time to end its own.
    pub(crate) fn linger(&mut self, index: u32, now: Instant) {
        let client = &mut self.places[index as usize];
        let Some(socket) = &client.socket else {
            return;
        };
        if client.connection.has_heard_end() || socket.shutdown(Shutdown::Write).is_err() {
            self.close(index);
            return;
        }
        client.is_lingering = true;
        client.connection.readable = true;
        self.lingering
            .push_back((now + LINGER, index, client.generation));
    }

    /// Closes a connection. Its place is free when its last request has ended.
    pub(crate) fn close(&mut self, index: u32) {
        // Dropping the socket takes it out of the poll.
        self.places[index as usize].socket = None;
        self.free_if_over(index);
    }

    /// Frees the place of a closed connection whose requests have all ended.
    pub(crate) fn free_if_over(&mut self, index: u32) {
        let client = &mut self.places[index as usize];
        let connection = &client.connection;
        let is_over = client.socket.is_none() && connection.queue.is_empty();
        if client.is_used && is_over && !connection.is_queued && !connection.is_dirty {
            client.is_used = false;
            client.generation = client.generation.wrapping_add(1);
            self.free.push(index);
        }
    }

    /// Closes those that have lingered too long; whether there were any.
    pub(crate) fn expire(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some(&(until, index, generation)) = self.lingering.front()
            && until <= now
        {
            self.lingering.pop_front();
            let client = &self.places[index as usize];
            if client.generation == generation && client.is_lingering && client.socket.is_some() {
                self.close(index);
                any = true;
            }
        }
        any
    }

    /// When the next one has lingered too long.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.lingering.front().map(|(until, ..)| *until)
    }
}
