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

    /// Sends what the socket takes, at most about `most` bytes. Returns how much was sent and whether the socket is full.
    pub(crate) fn send(&mut self, to: &mut impl Write, most: usize) -> io::Result<(usize, bool)> {
        let mut sent = 0;
        let mut full = false;
        while self.pending() > 0 && sent < most {
            match to.write(&self.bytes[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    sent += n;
                    self.sent += n;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    full = true;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        if self.pending() == 0 {
            self.sent = 0;
            self.bytes.clear();
            if self.bytes.capacity() > KEEP_BYTES {
                self.bytes = Vec::new();
            }
        }
        Ok((sent, full))
    }
}
