//! A log from a pipe: records are checked and executed as they come.
//!
//! A thread of its own reads, because reading waits and the dispatcher must not. It hands on what it has after each read,
//! so a slow writer's records are executed when they are written; a fast writer is held back by the bounded channel.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;

use doradd::{Log, Next};

use crate::log::HEADER_BYTES;
use crate::log::entry::Entry;
use crate::log::error::{LogError, RecordNumber};
use crate::log::record::RECORD_BYTES;

/// Bytes that are read at once at most: what a pipe holds.
const BLOCK: usize = 64 * 1024;
/// Blocks that wait to be executed.
const BLOCKS: usize = 8;

/// A log that is read while it is executed.
///
/// `&mut` of it is what the runtime is given, so that [`Streamed::fault`] can be asked afterwards.
#[derive(Debug)]
pub struct Streamed<E> {
    blocks: Receiver<Result<Vec<E>, LogError>>,
    block: std::vec::IntoIter<E>,
    fault: Option<LogError>,
}

impl<E: Entry> Streamed<E> {
    /// Starts to read a log.
    ///
    /// The thread that reads ends with the input, or at its next record after this is dropped.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn read(input: impl Read + Send + 'static, bounds: E::Bounds) -> io::Result<Self> {
        let (send, blocks) = sync_channel(BLOCKS);
        thread::Builder::new()
            .name("log-reader".to_owned())
            .spawn(move || {
                let mut reader = Reader::new(input, bounds);
                if let Err(error) = reader.run(&send) {
                    // Nobody wants the rest of a log whose reader is gone.
                    let _ = send.send(Err(error));
                }
            })?;
        Ok(Self {
            blocks,
            block: Vec::new().into_iter(),
            fault: None,
        })
    }

    /// Why the log ended, if not because it was at its end.
    #[must_use]
    pub fn fault(self) -> Option<LogError> {
        self.fault
    }
}

impl<E: Entry> Log for &mut Streamed<E> {
    type Txn = E;

    #[inline]
    fn next(&mut self) -> Next<E> {
        loop {
            if let Some(entry) = Iterator::next(&mut self.block) {
                return Next::Txn(entry);
            }
            match self.blocks.try_recv() {
                Ok(Ok(block)) => self.block = block.into_iter(),
                Ok(Err(fault)) => {
                    self.fault = Some(fault);
                    return Next::End;
                }
                Err(TryRecvError::Empty) => return Next::NotYet,
                Err(TryRecvError::Disconnected) => return Next::End,
            }
        }
    }
}

/// The thread's side.
struct Reader<R, B> {
    input: R,
    bounds: B,
    /// What was read and not handed on: less than a record.
    rest: Vec<u8>,
    bytes: u64,
}

impl<R: Read, B: Copy> Reader<R, B> {
    fn new(input: R, bounds: B) -> Self {
        Self {
            input,
            bounds,
            rest: Vec::with_capacity(BLOCK + RECORD_BYTES),
            bytes: 0,
        }
    }

    fn run<E: Entry<Bounds = B>>(
        &mut self,
        send: &SyncSender<Result<Vec<E>, LogError>>,
    ) -> Result<(), LogError> {
        let Some(count) = self.header()? else {
            return Err(LogError::NoHeader { bytes: self.bytes });
        };
        let mut done = 0;
        loop {
            let (block, fault) = self.records::<E>(count, &mut done);
            // Who has hung up wants no more.
            if !block.is_empty() && send.send(Ok(block)).is_err() {
                return Ok(());
            }
            if let Some(fault) = fault {
                return Err(fault);
            }
            if !self.more()? {
                break;
            }
        }
        if done < count || !self.rest.is_empty() {
            let number = RecordNumber(done.into());
            let bytes = self.bytes;
            return Err(LogError::Short {
                number,
                count,
                bytes,
            });
        }
        Ok(())
    }

    fn header(&mut self) -> Result<Option<u32>, LogError> {
        loop {
            if let Some(header) = self.rest.first_chunk::<HEADER_BYTES>() {
                let count = u32::from_le_bytes(*header);
                self.rest.drain(..HEADER_BYTES);
                return Ok(Some(count));
            }
            if !self.more()? {
                return Ok(None);
            }
        }
    }

    /// The records that are there in full, up to the first wrong one.
    fn records<E: Entry<Bounds = B>>(
        &mut self,
        count: u32,
        done: &mut u32,
    ) -> (Vec<E>, Option<LogError>) {
        let (records, _) = self.rest.as_chunks::<RECORD_BYTES>();
        let wanted = ((count - *done) as usize).min(records.len());
        let mut block = Vec::with_capacity(wanted);
        for record in &records[..wanted] {
            match E::checked(record, self.bounds) {
                Ok(entry) => block.push(entry),
                Err(fault) => {
                    let number = RecordNumber((*done).into());
                    return (block, Some(LogError::Record { number, fault }));
                }
            }
            *done += 1;
        }
        self.rest.drain(..wanted * RECORD_BYTES);
        let trailing = *done == count && !self.rest.is_empty();
        (block, trailing.then(|| LogError::trailing(count)))
    }

    /// Reads what there is; whether there was anything before the end.
    fn more(&mut self) -> Result<bool, LogError> {
        let before = self.rest.len();
        self.rest.resize(before + BLOCK, 0);
        let read = loop {
            match self.input.read(&mut self.rest[before..]) {
                Ok(read) => break read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        };
        self.rest.truncate(before + read);
        self.bytes += read as u64;
        Ok(read > 0)
    }
}
