//! Reads a recording as a stream, passing over what is damaged or unknown.

use std::io::{ErrorKind, Read};
use std::ops::Range;

use hitm_model::{Caveat, Event};

use crate::Error;
use crate::decode::{Cursor, event};
use crate::format::{
    BLOCK_BYTES, BLOCK_HEADER_BYTES, HEADER_BYTES, MARKER, MAX_PAYLOAD_BYTES, VERSION, is_sound,
    payload_length, version,
};

/// What was wrong with a recording, as far as it has been read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Damage {
    /// It ends within a block or without [`Event::Ended`]; known once the iteration is over.
    pub truncated: bool,
    /// Blocks, or stretches of bytes between blocks, that were left out.
    pub damaged_blocks: u64,
    /// Events of unknown kinds or forms that were left out.
    pub unknown_events: u64,
    /// The version of its format.
    pub version: u32,
    /// Whether that is newer than [`VERSION`].
    pub newer: bool,
}

impl Damage {
    /// What a reader of the result must know.
    #[must_use]
    pub fn caveats(&self) -> Vec<Caveat> {
        let mut caveats = Vec::new();
        if self.truncated {
            caveats.push(Caveat::RecordingTruncated);
        }
        if self.damaged_blocks > 0 {
            caveats.push(Caveat::RecordingDamaged {
                blocks: self.damaged_blocks,
            });
        }
        if self.newer || self.unknown_events > 0 {
            caveats.push(Caveat::RecordingNewer {
                version: self.version,
                known: VERSION,
                events: self.unknown_events,
            });
        }
        caveats
    }
}

/// The events of a recording, in order.
///
/// It needs memory for one block, whatever the length of the recording.
#[derive(Debug)]
pub struct Reader<R> {
    source: Source<R>,
    /// Where the events of the current block that are still to be read lie in the source's buffer.
    events: Range<usize>,
    damage: Damage,
    ended: bool,
    finished: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the file header.
    ///
    /// A version newer than [`VERSION`] is no error: what is known of it is read, and [`Damage`] says so.
    ///
    /// # Errors
    /// If it is not a recording or cannot be read.
    pub fn new(source: R) -> Result<Self, Error> {
        let mut source = Source {
            source,
            buffer: Vec::new(),
            start: 0,
            filled: 0,
            at_end: false,
            error: None,
        };
        source.want(HEADER_BYTES);
        if let Some(error) = source.error {
            return Err(Error::Read(error));
        }
        let unread = source.unread();
        let version = version(&unread[..unread.len().min(HEADER_BYTES)])?;
        source.start += HEADER_BYTES;
        Ok(Self {
            source,
            events: 0..0,
            damage: Damage {
                version,
                newer: version > VERSION,
                ..Damage::default()
            },
            ended: false,
            finished: false,
        })
    }

    /// What was wrong so far.
    #[must_use]
    pub const fn damage(&self) -> Damage {
        self.damage
    }

    /// Why reading stopped before the end, if it did; [`Damage::truncated`] is set then.
    #[must_use]
    pub const fn read_error(&self) -> Option<&std::io::Error> {
        self.source.error.as_ref()
    }

    /// Goes to the next sound block, past damage; `None` at the end of the recording.
    fn next_block(&mut self) -> Option<Range<usize>> {
        let mut searching = false;
        loop {
            match self.source.block() {
                Block::Sound(payload) => return Some(payload),
                Block::Damaged => {
                    self.damage.damaged_blocks += 1;
                    searching = false;
                }
                Block::NotOne => {
                    // What is passed over in search of a marker counts once.
                    self.damage.damaged_blocks += u64::from(!searching);
                    searching = true;
                    self.source.skip_to_marker();
                }
                Block::Cut => {
                    self.damage.truncated = true;
                    return None;
                }
                Block::Nothing => {
                    self.damage.truncated = !self.ended || self.source.error.is_some();
                    return None;
                }
            }
        }
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        loop {
            while !self.events.is_empty() {
                let bytes = &self.source.buffer[self.events.start..];
                let mut cursor = Cursor { bytes };
                let length = cursor.u32().map(|length| length as usize);
                let from = self.events.start + (bytes.len() - cursor.bytes.len());
                let Some(length) = length.filter(|length| from + length <= self.events.end) else {
                    // The checksum is right, so a writer put a wrong length there.
                    self.damage.unknown_events += 1;
                    self.events = 0..0;
                    break;
                };
                self.events.start = from + length;
                if let Some(event) = event(cursor.bytes, length) {
                    self.ended |= matches!(event, Event::Ended { .. });
                    return Some(event);
                }
                self.damage.unknown_events += 1;
            }
            if self.finished {
                return None;
            }
            match self.next_block() {
                Some(events) => self.events = events,
                None => self.finished = true,
            }
        }
    }
}

/// All events in `bytes`, and what was wrong.
///
/// # Errors
/// If it is not a recording.
pub fn read_slice(bytes: &[u8]) -> Result<(Vec<Event>, Damage), Error> {
    let mut reader = Reader::new(bytes)?;
    let events = reader.by_ref().collect();
    Ok((events, reader.damage()))
}

/// What is at one place of a recording.
enum Block {
    /// A block whose payload is here in the buffer; the source is past it.
    Sound(Range<usize>),
    /// A block whose payload is damaged; the source is past it.
    Damaged,
    /// No block; the source is still here.
    NotOne,
    /// The start of a block that does not end before the recording does.
    Cut,
    /// The end of the recording.
    Nothing,
}

/// A source with a window of unread bytes.
#[derive(Debug)]
struct Source<R> {
    source: R,
    /// Bytes from the source; those in `start..filled` are unread.
    buffer: Vec<u8>,
    start: usize,
    filled: usize,
    at_end: bool,
    error: Option<std::io::Error>,
}

impl<R: Read> Source<R> {
    fn unread(&self) -> &[u8] {
        &self.buffer[self.start..self.filled]
    }

    /// Reads until `bytes` are unread or the source has no more.
    fn want(&mut self, bytes: usize) {
        if self.filled - self.start >= bytes || self.at_end {
            return;
        }
        self.buffer.copy_within(self.start..self.filled, 0);
        self.filled -= self.start;
        self.start = 0;
        // Grown as bytes arrive, so that a damaged length does not allocate what the file does not have.
        while self.filled < bytes && !self.at_end {
            if self.filled == self.buffer.len() || self.buffer.is_empty() {
                let size = (2 * self.filled).clamp(4 * BLOCK_BYTES, MAX_PAYLOAD_BYTES * 2);
                self.buffer.resize(size, 0);
            }
            match self.source.read(&mut self.buffer[self.filled..]) {
                Ok(0) => self.at_end = true,
                Ok(read) => self.filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.error = Some(error);
                    self.at_end = true;
                }
            }
        }
    }

    /// Looks at the place where a block should begin.
    fn block(&mut self) -> Block {
        self.want(BLOCK_HEADER_BYTES);
        let unread = self.unread();
        if unread.is_empty() {
            return Block::Nothing;
        }
        let Some(&header) = unread.first_chunk::<BLOCK_HEADER_BYTES>() else {
            let marker = &unread[..unread.len().min(MARKER.len())];
            return if MARKER.starts_with(marker) {
                Block::Cut
            } else {
                Block::NotOne
            };
        };
        let Some(length) = payload_length(&header) else {
            return Block::NotOne;
        };
        let whole = BLOCK_HEADER_BYTES + length;
        self.want(whole);
        if self.filled - self.start < whole {
            return Block::Cut;
        }
        let payload = self.start + BLOCK_HEADER_BYTES..self.start + whole;
        self.start += whole;
        if is_sound(&header, &self.buffer[payload.clone()]) {
            Block::Sound(payload)
        } else {
            Block::Damaged
        }
    }

    /// Goes at least one byte on, to the next marker, or the end.
    fn skip_to_marker(&mut self) {
        let mut from = 1;
        loop {
            self.want(from + MARKER.len());
            let unread = self.unread();
            let ahead = unread.get(from..).unwrap_or_default();
            let found = ahead
                .windows(MARKER.len())
                .position(|window| window == MARKER);
            if let Some(found) = found {
                self.start += from + found;
                return;
            }
            if self.at_end {
                self.start = self.filled;
                return;
            }
            // The last bytes may be the beginning of one: they stay until more is read.
            self.start += from + ahead.len().saturating_sub(MARKER.len() - 1);
            from = 0;
        }
    }
}
