//! Writes a recording block by block, while the program runs.

use std::io::Write;

use hitm_model::Event;

use crate::Error;
use crate::format::{
    BLOCK_BYTES, BLOCK_HEADER_BYTES, HEADER_BYTES, MAX_PAYLOAD_BYTES, block_header, header,
};

/// Writes events into blocks, and each block in one piece.
///
/// If the recorder is killed, the events since the last [`flush`](Self::flush) or full block are lost and everything
/// before them can be read. Dropping a writer does the same; [`into_inner`](Self::into_inner) writes the last block.
#[derive(Debug)]
pub struct Writer<W> {
    sink: W,
    /// The block being filled, with room for its header in front so that it is written in one call.
    block: Vec<u8>,
    scratch: Vec<u8>,
    events: u64,
    bytes: u64,
}

impl<W: Write> Writer<W> {
    /// Writes the file header.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(mut sink: W) -> Result<Self, Error> {
        sink.write_all(&header()).map_err(Error::Write)?;
        let mut block = Vec::with_capacity(BLOCK_HEADER_BYTES + BLOCK_BYTES + 1024);
        block.resize(BLOCK_HEADER_BYTES, 0);
        Ok(Self {
            sink,
            block,
            scratch: Vec::new(),
            events: 0,
            bytes: HEADER_BYTES as u64,
        })
    }

    /// Adds an event, and writes the block if it is full.
    ///
    /// # Errors
    /// If the event is longer than [`MAX_PAYLOAD_BYTES`], which leaves it out, or if the block cannot be written,
    /// which loses the block; more can be tried in both cases.
    pub fn event(&mut self, event: &Event) -> Result<(), Error> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let scratch = postcard::to_extend(event, scratch).map_err(Error::Encode)?;
        let added = self.add(&scratch);
        self.scratch = scratch;
        added
    }

    fn add(&mut self, event: &[u8]) -> Result<(), Error> {
        // The length takes at most five bytes.
        let room = MAX_PAYLOAD_BYTES - 5;
        if event.len() > room {
            return Err(Error::EventTooLong { bytes: event.len() });
        }
        if self.pending() + event.len() > room {
            self.flush_block()?;
        }
        let mut length = event.len();
        while length >= 0x80 {
            self.block.push(length as u8 | 0x80);
            length >>= 7;
        }
        self.block.push(length as u8);
        self.block.extend_from_slice(event);
        self.events += 1;
        if self.pending() >= BLOCK_BYTES {
            self.flush_block()?;
        }
        Ok(())
    }

    /// Ends the block and flushes the sink, so that a reader sees all events added so far.
    ///
    /// # Errors
    /// If the block cannot be written; its events are lost then.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.flush_block()?;
        self.sink.flush().map_err(Error::Write)
    }

    /// Flushes, and gives the sink back.
    ///
    /// # Errors
    /// If the last block cannot be written.
    pub fn into_inner(mut self) -> Result<W, Error> {
        self.flush()?;
        Ok(self.sink)
    }

    /// Events added so far.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Bytes of the recording so far, those of the unwritten block included.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        let unwritten = match self.pending() {
            0 => 0,
            payload => (BLOCK_HEADER_BYTES + payload) as u64,
        };
        self.bytes + unwritten
    }

    /// Payload bytes of the unwritten block.
    const fn pending(&self) -> usize {
        self.block.len() - BLOCK_HEADER_BYTES
    }

    fn flush_block(&mut self) -> Result<(), Error> {
        if self.pending() == 0 {
            return Ok(());
        }
        let (head, payload) = self.block.split_at_mut(BLOCK_HEADER_BYTES);
        let Some(header) = block_header(payload) else {
            // `add` lets no payload grow so long.
            return Err(Error::EventTooLong {
                bytes: payload.len(),
            });
        };
        head.copy_from_slice(&header);
        let written = self.sink.write_all(&self.block).map_err(Error::Write);
        if written.is_ok() {
            self.bytes += self.block.len() as u64;
        }
        self.block.truncate(BLOCK_HEADER_BYTES);
        // One huge event must not hold its memory for the rest of the run.
        self.block.shrink_to(4 * BLOCK_BYTES);
        written
    }
}
