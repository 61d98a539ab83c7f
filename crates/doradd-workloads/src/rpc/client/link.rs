//! One connection of the client: what it has sent, and what it is owed.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};

use mio::net::TcpStream;

use crate::rpc::wire::{Ask, NoReply, REPLY, Reply, Request, RequestId, Status};

/// A request that waits for its reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owed {
    pub(crate) id: RequestId,
    /// When it was due, in nanoseconds since the run began.
    pub(crate) due: u64,
}

/// Why no reply comes any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Closed {
    /// The server said that it ends.
    Goodbye,
    /// The server said that a request was no frame.
    Malformed,
    /// The connection ended without a word.
    Broken,
    /// The server sent what is no reply.
    NoReply(NoReply),
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Link {
    socket: TcpStream,
    output: Vec<u8>,
    written: usize,
    input: Box<[u8]>,
    filled: usize,
    owed: VecDeque<Owed>,
    pipeline: usize,
    pub(crate) closed: Option<Closed>,
}

impl Link {
    pub(crate) fn new(socket: TcpStream, pipeline: usize) -> Self {
        Self {
            socket,
            output: Vec::new(),
            written: 0,
            input: vec![0; 256 * REPLY].into(),
            filled: 0,
            owed: VecDeque::with_capacity(pipeline),
            pipeline,
            closed: None,
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// Requests that wait for replies.
    pub(crate) fn owed(&self) -> usize {
        if self.is_closed() { 0 } else { self.owed.len() }
    }

    /// Requests that will never be answered.
    pub(crate) fn unanswered(&self) -> u64 {
        self.owed.len() as u64
    }

    /// Whether one more request may wait for its reply.
    pub(crate) fn has_room(&self) -> bool {
        !self.is_closed() && self.owed.len() < self.pipeline
    }

    /// Adds a request; whether it is the first that [`Link::flush`] has to send.
    pub(crate) fn push(&mut self, owed: Owed, ask: Ask) -> bool {
        let was_empty = self.output.is_empty();
        Request { id: owed.id, ask }.encode(&mut self.output);
        self.owed.push_back(owed);
        was_empty
    }

    /// Sends what the server takes.
    pub(crate) fn flush(&mut self) {
        while self.written < self.output.len() && !self.is_closed() {
            match self.socket.write(&self.output[self.written..]) {
                Ok(0) => break,
                Ok(n) => self.written += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The server may have said why before it closed: that is still to be read.
                Err(_) => break,
            }
        }
        self.output.clear();
        self.written = 0;
    }

    /// Takes all replies that have come, each with the request that is the oldest; whether there were any.
    pub(crate) fn receive(&mut self, mut each: impl FnMut(Option<Owed>, &Reply)) -> bool {
        let mut any = false;
        while !self.is_closed() {
            match self.socket.read(&mut self.input[self.filled..]) {
                Ok(0) => self.closed = Some(Closed::Broken),
                Ok(n) => self.filled += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.closed = Some(Closed::Broken),
            }
            any |= self.parse(&mut each);
        }
        any
    }

    fn parse(&mut self, each: &mut impl FnMut(Option<Owed>, &Reply)) -> bool {
        let (frames, _) = self.input[..self.filled].as_chunks::<REPLY>();
        let whole = frames.len() * REPLY;
        for frame in frames {
            match Reply::from_bytes(frame) {
                Ok(reply) if reply.status == Status::Goodbye => self.closed = Some(Closed::Goodbye),
                Ok(reply) if reply.status == Status::Malformed => {
                    self.closed = Some(Closed::Malformed)
                }
                Ok(reply) => each(self.owed.pop_front(), &reply),
                Err(fault) => self.closed = Some(Closed::NoReply(fault)),
            }
        }
        self.input.copy_within(whole..self.filled, 0);
        self.filled -= whole;
        whole > 0
    }
}
