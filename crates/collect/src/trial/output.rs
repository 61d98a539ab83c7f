//! What a command writes, kept up to a limit: its beginning, and its end.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

/// Bytes of the beginning, and of the end, that are kept.
const KEPT: usize = 4 << 20;

/// What a command wrote.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Output {
    /// The beginning; all of it, if nothing is left out.
    pub head: Vec<u8>,
    /// The end, behind what was left out.
    pub tail: Vec<u8>,
    /// Bytes that were left out between the two.
    pub left_out: u64,
}

impl Output {
    fn add(&mut self, bytes: &[u8]) {
        let room = KEPT - self.head.len();
        let (head, tail) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        self.tail.extend_from_slice(tail);
        // Twice the limit before anything is moved: each byte is moved about once.
        if self.tail.len() > 2 * KEPT {
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        let excess = self.tail.len().saturating_sub(KEPT);
        self.tail.drain(..excess);
        self.left_out += excess as u64;
    }

    /// As text, lossily; `…` stands where something was left out.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::from_utf8_lossy(&self.head).into_owned();
        if self.left_out > 0 {
            text.push('…');
        }
        text.push_str(&String::from_utf8_lossy(&self.tail));
        text
    }

    /// Its last lines, as many as these.
    #[must_use]
    pub fn last_lines(&self, n: usize) -> String {
        let text = self.text();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(n)..].join("\n")
    }
}

/// One stream of a command.
#[derive(Debug)]
pub(super) struct Stream<R> {
    from: Option<R>,
    output: Output,
}

impl<R: Read + AsFd> Stream<R> {
    /// Reads from a pipe from now on without waiting for it.
    pub(super) fn new(from: R) -> io::Result<Self> {
        fcntl(from.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Self {
            from: Some(from),
            output: Output::default(),
        })
    }

    /// What to wait for, while somebody may still write.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.from.as_ref().map(AsFd::as_fd)
    }

    /// Takes what is there.
    pub(super) fn read(&mut self) {
        let mut buffer = [0; 1 << 16];
        while let Some(from) = &mut self.from {
            match from.read(&mut buffer) {
                Ok(0) => self.from = None,
                Ok(n) => self.output.add(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.from = None,
            }
        }
    }

    /// Everything; what comes later is not read.
    pub(super) fn finish(&mut self) -> Output {
        self.read();
        self.from = None;
        self.output.shrink();
        std::mem::take(&mut self.output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginning_and_end_are_kept_and_the_rest_is_counted() {
        let mut output = Output::default();
        let chunk = [b'x'; 100_003];
        output.add(b"first\n");
        for _ in 0..200 {
            output.add(&chunk);
        }
        output.add(b"\nlast");
        output.shrink();
        assert!(output.head.starts_with(b"first\n") && output.head.len() == KEPT);
        assert!(output.tail.ends_with(b"\nlast") && output.tail.len() == KEPT);
        let all = (output.head.len() + output.tail.len()) as u64 + output.left_out;
        assert_eq!(all, 6 + 200 * 100_003 + 5);
        assert_eq!(output.last_lines(1), "last");
    }
}
