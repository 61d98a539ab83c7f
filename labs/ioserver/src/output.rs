//! What a client has still to be sent.

use std::io::{self, Write};

/// Above this capacity memory is given back when everything was sent.
const KEEP_BYTES: usize = 64 << 10;

/// Bytes in order, sent from the front.
#[derive(Debug, Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    sent: usize,
}

impl Output {
    pub(crate) fn pending(&self) -> usize {
        self.bytes.len() - self.sent
    }

    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Takes what is in `more` and leaves it empty.
    pub(crate) fn append(&mut self, more: &mut Vec<u8>) {
        if self.pending() == 0 {
            self.bytes.clear();
            self.sent = 0;
            std::mem::swap(&mut self.bytes, more);
            more.clear();
            return;
        }
        if self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        self.bytes.append(more);
    }

    /// Sends at most `most` bytes with one system call; nothing if the socket is full.
    pub(crate) fn send(&mut self, to: &mut impl Write, most: usize) -> io::Result<Option<usize>> {
        let end = self.bytes.len().min(self.sent.saturating_add(most));
        let sent = match to.write(&self.bytes[self.sent..end]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        self.sent += sent;
        if self.pending() == 0 {
            self.sent = 0;
            self.bytes.clear();
            if self.bytes.capacity() > KEEP_BYTES {
                self.bytes = Vec::new();
            }
        }
        Ok(Some(sent))
    }
}
