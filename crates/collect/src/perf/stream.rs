//! Many rings, one sequence in order of time.
//!
//! Each ring is in order of time (nearly: one processor writes it), so merging needs one record of each at a time, and
//! no memory that grows. What is younger than a little slack stays in its ring, since something older may still be on
//! its way into another.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    ptr::NonNull,
};

use hitm_model::Nanos;
use memmap2::{MmapOptions, MmapRaw};

use super::{
    record::{self, Record},
    ring::Ring,
};
use crate::RawEvent;

/// Bytes of a page; perf has one page of control data in front of the ring.
const PAGE: usize = 4096;

/// What a ring is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// Births, names and mappings of one processor.
    Side(i32),
    /// Samples of one processor.
    Sampling(i32),
}

/// One event's ring and the record that comes next.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Whose records it has.
    pub(crate) place: Place,
    event: OwnedFd,
    ring: Ring,
    next: Option<Record>,
    last: Nanos,
    // Keeps the ring's memory; dropped after `ring`, which does not touch it when dropped.
    _memory: MmapRaw,
}

impl Stream {
    /// Maps a ring of `len` bytes (a power of two, whole pages) for `event`.
    #[expect(unsafe_code, reason = "the ring is memory shared with the kernel")]
    pub(crate) fn map(place: Place, event: OwnedFd, len: usize) -> std::io::Result<Self> {
        let memory = MmapOptions::new().len(PAGE + len).map_raw(&event)?;
        let control = NonNull::new(memory.as_mut_ptr()).ok_or(std::io::ErrorKind::OutOfMemory)?;
        // SAFETY: the mapping has `PAGE + len` bytes.
        let data = unsafe { control.add(PAGE) };
        // SAFETY: page-aligned memory that lives as long as `memory`, which is kept beside the ring; a control page
        // holds a `perf_event_mmap_page`; nobody else in this process knows the addresses.
        let ring = unsafe { Ring::new(control, data, len) };
        Ok(Self {
            place,
            event,
            ring,
            next: None,
            last: Nanos::default(),
            _memory: memory,
        })
    }

    /// The event that owns the ring.
    pub(crate) const fn event(&self) -> &OwnedFd {
        &self.event
    }

    /// A descriptor that becomes readable when the ring is filling.
    pub(crate) fn wake_fd(&self) -> RawFd {
        self.event.as_raw_fd()
    }

    fn fill(&mut self, buffer: &mut Vec<u8>) {
        while self.next.is_none() {
            let record = match self.ring.next(buffer) {
                None => break,
                Some(raw) => raw.and_then(|raw| record::parse(&raw)),
            };
            match record {
                Ok(record) => {
                    self.last = record.at;
                    self.next = record.event.is_some().then_some(record);
                }
                Err(_damaged) => {
                    let (at, id) = (self.last, 0);
                    let event = Some(RawEvent::Lost { events: 1, at });
                    self.next = Some(Record { at, id, event });
                }
            }
        }
        self.ring.release();
    }
}

/// Hands over, in order of time, all records of `streams` up to `until`, each with the number of the event it is of.
///
/// `until` must have been passed before the call, so that all that is older has been written by now.
pub(crate) fn merge(streams: &mut [Stream], until: Nanos, sink: &mut dyn FnMut(u64, RawEvent)) {
    let mut buffer = Vec::new();
    let mut queue = BinaryHeap::new();
    for (index, stream) in streams.iter_mut().enumerate() {
        stream.ring.refresh();
        stream.fill(&mut buffer);
        if let Some(next) = &stream.next {
            queue.push(Reverse((next.at, index)));
        }
    }
    while let Some(Reverse((at, index))) = queue.pop() {
        if at > until {
            break;
        }
        let stream = &mut streams[index];
        if let Some(Record {
            id,
            event: Some(event),
            ..
        }) = stream.next.take()
        {
            sink(id, event);
        }
        stream.fill(&mut buffer);
        if let Some(next) = &stream.next {
            queue.push(Reverse((next.at, index)));
        }
    }
}
