//! A connection's two buffers, of fixed size: bytes that came and are not parsed yet, replies that are not sent yet.
//!
//! Neither grows, so what a connection can hold is known when it is accepted; see `connection` for what happens when one
//! is full.

use std::io::{self, ErrorKind, Read, Write};

use crate::rpc::wire::{MAX_REQUEST, Malformed, REPLY, Reply, Request, parse};

/// Bytes of the input: some hundred requests with one system call.
const INPUT: usize = 8 << 10;

const _: () = assert!(INPUT >= 2 * MAX_REQUEST);

/// Bytes that came and are not parsed yet.
#[derive(Debug)]
pub struct Input {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

/// What reading from a peer came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filled {
    /// So many bytes, and there may be more.
    Some(usize),
    /// The peer has sent nothing more for now.
    Dry,
    /// The peer will send nothing more.
    End,
}

impl Default for Input {
    fn default() -> Self {
        Self {
            bytes: vec![0; INPUT].into(),
            start: 0,
            end: 0,
        }
    }
}

impl Input {
    /// Forgets all bytes.
    pub fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Whether all is parsed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Reads once. There is room whenever [`Input::take`] has said that no whole frame is left.
    ///
    /// # Errors
    /// What the source says, but for interruptions and for having nothing now.
    pub fn fill(&mut self, mut from: impl Read) -> io::Result<Filled> {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        debug_assert!(self.end < self.bytes.len(), "a whole frame is left");
        match retry(|| from.read(&mut self.bytes[self.end..]))? {
            None => Ok(Filled::Dry),
            Some(0) => Ok(Filled::End),
            Some(n) => {
                self.end += n;
                Ok(Filled::Some(n))
            }
        }
    }

    /// Takes the next request, if it is there as a whole.
    ///
    /// # Errors
    /// If the bytes are no request; nothing is taken then.
    pub fn take(&mut self) -> Result<Option<Request>, Malformed> {
        let parsed = parse(&self.bytes[self.start..self.end])?;
        Ok(parsed.map(|(request, length)| {
            self.start += length;
            request
        }))
    }
}

/// Replies that are not sent yet.
#[derive(Debug)]
pub struct Output {
    bytes: Vec<u8>,
    sent: usize,
}

impl Output {
    /// A buffer for so many replies.
    #[must_use]
    pub fn new(replies: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(replies * REPLY),
            sent: 0,
        }
    }

    /// Forgets all replies.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.sent = 0;
    }

    /// Whether all is sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    /// Replies that are not sent as a whole.
    #[must_use]
    pub fn replies(&self) -> usize {
        (self.bytes.len() - self.sent).div_ceil(REPLY)
    }

    /// Appends a reply. Does not allocate while at most as many are unsent as there is room for.
    pub fn push(&mut self, reply: &Reply) {
        if self.bytes.len() + REPLY > self.bytes.capacity() && self.sent > 0 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        self.bytes.extend_from_slice(&reply.to_bytes());
    }

    /// Sends what the peer takes; whether that was all.
    ///
    /// # Errors
    /// What the target says, but for interruptions and for taking nothing now.
    pub fn flush(&mut self, mut to: impl Write) -> io::Result<bool> {
        while !self.is_empty() {
            match retry(|| to.write(&self.bytes[self.sent..]))? {
                None => return Ok(false),
                Some(0) => return Err(ErrorKind::WriteZero.into()),
                Some(n) => self.sent += n,
            }
        }
        self.clear();
        Ok(true)
    }
}

/// Does it again when it was interrupted; nothing if it would have to wait.
fn retry(mut io: impl FnMut() -> io::Result<usize>) -> io::Result<Option<usize>> {
    loop {
        match io() {
            Ok(n) => return Ok(Some(n)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}
