//! The shared rings, from the reader's side.
#![expect(
    unsafe_code,
    reason = "the rings are memory that other processes write to"
)]

use std::{fs::File, io, sync::atomic::Ordering};

use hitm_model::Nanos;
use memmap2::MmapRaw;

use super::layout::{Cursors, Header, MAGIC, Payload, Record, VERSION, ring_bytes, ring_offset};

/// All rings together have at most this many bytes.
const MOST_BYTES: usize = 8 * 1024 * 1024;

/// One ring has at most this many records: 13 seconds of one processor at 250 Hz.
const MOST_RECORDS: usize = 3 * 1024;

/// One ring has at least this many: a fifth of a second at 500 Hz.
const FEWEST_RECORDS: usize = 100;

/// A record that was begun is given up when it is not whole after this many looks: its writer was killed in the middle.
const PATIENCE: u32 = 10;

/// How many rings, and how many records in each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    rings: usize,
    records: usize,
}

impl Shape {
    /// A ring for each processor.
    pub(super) fn for_cpus(cpus: usize) -> Self {
        let cpus = cpus.max(1);
        let records = MOST_BYTES / cpus / size_of::<Record>();
        let records = records.clamp(FEWEST_RECORDS, MOST_RECORDS);
        // With so many processors that even the smallest rings are too much, some share one.
        let rings = cpus.min(2 * MOST_BYTES / ring_bytes(records));
        Self { rings, records }
    }

    /// Bytes of the channel's file.
    pub(super) fn bytes(self) -> usize {
        ring_offset(self.rings, self.records)
    }
}

/// The reader of a channel.
#[derive(Debug)]
pub(super) struct Channel {
    map: MmapRaw,
    shape: Shape,
    /// Per ring: looks at a record that is begun and not whole.
    waiting: Vec<u32>,
    /// Per ring: what `lost` was when it was reported.
    lost_reported: Vec<u64>,
    /// Records given up.
    given_up: u64,
}

/// What agents counted that is no record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Counts {
    /// Programs that loaded the agent.
    pub(super) hellos: u32,
    /// Threads that got no timer.
    pub(super) unsampled: u32,
    /// Processes that took the signal, or had none left.
    pub(super) backed_off: u32,
    /// Ticks inside system calls.
    pub(super) kernel: u64,
}

impl Channel {
    /// Maps `file`, which has the shape's size and is empty, and writes its header.
    pub(super) fn new(file: &File, shape: Shape, period: Nanos) -> io::Result<Self> {
        let map = memmap2::MmapOptions::new()
            .len(shape.bytes())
            .map_raw(file)?;
        let header = map.as_mut_ptr().cast::<Header>();
        // SAFETY: the mapping begins with a header, and no other process knows of the file yet.
        let header = unsafe { &mut *header };
        header.magic = MAGIC;
        header.version = VERSION;
        header.rings = shape.rings as u32;
        header.records = shape.records as u32;
        header.period = period.0;
        let waiting = vec![0; shape.rings];
        let lost_reported = vec![0; shape.rings];
        Ok(Self {
            map,
            shape,
            waiting,
            lost_reported,
            given_up: 0,
        })
    }

    /// Tells agents that somebody looks.
    pub(super) fn beat(&self, now: Nanos) {
        self.header()
            .recorder
            .heartbeat
            .store(now.0, Ordering::Relaxed);
    }

    /// Tells agents to take no more samples.
    pub(super) fn stop(&self) {
        self.header().recorder.stop.store(1, Ordering::Relaxed);
    }

    /// What agents counted.
    pub(super) fn counts(&self) -> Counts {
        let agents = &self.header().agents;
        let kernel = (0..self.shape.rings)
            .map(|ring| self.cursors(ring).kernel.0.load(Ordering::Relaxed))
            .sum();
        Counts {
            hellos: agents.hellos.load(Ordering::Relaxed),
            unsampled: agents.unsampled.load(Ordering::Relaxed),
            backed_off: agents.backed_off.load(Ordering::Relaxed),
            kernel,
        }
    }

    /// Takes all whole records out.
    pub(super) fn drain(&mut self, mut each: impl FnMut(Payload)) {
        let capacity = self.shape.records as u64;
        for ring in 0..self.shape.rings {
            let cursors = self.cursors(ring);
            let head = cursors.head.0.load(Ordering::Acquire);
            let mut tail = cursors.tail.0.load(Ordering::Relaxed);
            let mut waiting = self.waiting[ring];
            let mut given_up = 0;
            while tail != head {
                let record = self.record(ring, (tail % capacity) as usize);
                // SAFETY: the record is inside the mapping, and its number is atomic.
                let sequence = unsafe { &(*record).sequence };
                if sequence.load(Ordering::Acquire) == tail.wrapping_add(1) {
                    // SAFETY: as above.
                    let payload = unsafe { &raw const (*record).payload };
                    // SAFETY: the number says that the writer is done, and no other writes here before `tail` moves on.
                    each(unsafe { payload.read_volatile() });
                } else if waiting < PATIENCE {
                    waiting += 1;
                    break;
                } else {
                    given_up += 1;
                }
                waiting = 0;
                tail = tail.wrapping_add(1);
            }
            cursors.tail.0.store(tail, Ordering::Release);
            self.waiting[ring] = waiting;
            self.given_up += given_up;
        }
    }

    /// Records dropped since the last call.
    pub(super) fn newly_lost(&mut self) -> u64 {
        let mut lost = std::mem::take(&mut self.given_up);
        for ring in 0..self.shape.rings {
            let total = self.cursors(ring).lost.0.load(Ordering::Relaxed);
            lost += total.wrapping_sub(self.lost_reported[ring]);
            self.lost_reported[ring] = total;
        }
        lost
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping begins with a header; after `new` only its atomics are written.
        unsafe { &*self.map.as_ptr().cast::<Header>() }
    }

    fn cursors(&self, ring: usize) -> &Cursors {
        let offset = ring_offset(ring, self.shape.records);
        // SAFETY: the file has all rings of the shape.
        let cursors = unsafe { self.map.as_ptr().add(offset) };
        // SAFETY: a ring begins with its cursors, on a page boundary; they are atomics.
        unsafe { &*cursors.cast::<Cursors>() }
    }

    fn record(&self, ring: usize, index: usize) -> *const Record {
        let offset = ring_offset(ring, self.shape.records) + size_of::<Cursors>();
        let offset = offset + index * size_of::<Record>();
        self.map.as_ptr().wrapping_add(offset).cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_on_any_machine() {
        for cpus in [0, 1, 2, 64, 128, 512, 1024, 8192] {
            let shape = Shape::for_cpus(cpus);
            assert!(
                shape.bytes() <= 16 * 1024 * 1024 + 4096,
                "{cpus}: {shape:?}"
            );
            assert!(
                shape.rings >= 1 && shape.records >= FEWEST_RECORDS,
                "{cpus}: {shape:?}"
            );
        }
    }

    /// Puts a record into ring 0 as an agent does; `whole` is false for a writer that is killed in the middle.
    fn push(channel: &Channel, at: u64, whole: bool) {
        let cursors = channel.cursors(0);
        let head = cursors.head.0.fetch_add(1, Ordering::Relaxed);
        let record = channel
            .record(0, (head % channel.shape.records as u64) as usize)
            .cast_mut();
        let payload = Payload {
            at,
            pid: 1,
            tid: 1,
            cpu: 0,
            kind: 1,
            length: 0,
            body: [0; 20],
        };
        // SAFETY: the record is inside the mapping of this test.
        let place = unsafe { &raw mut (*record).payload };
        // SAFETY: nobody else has the mapping.
        unsafe { place.write_volatile(payload) };
        if whole {
            // SAFETY: as above.
            let sequence = unsafe { &(*record).sequence };
            sequence.store(head + 1, Ordering::Release);
        }
    }

    fn drained(channel: &mut Channel) -> Vec<u64> {
        let mut times = Vec::new();
        channel.drain(|payload| times.push(payload.at));
        times
    }

    fn channel() -> Channel {
        let shape = Shape {
            rings: 1,
            records: 4,
        };
        let file = tempfile::tempfile().unwrap();
        file.set_len(shape.bytes() as u64).unwrap();
        Channel::new(&file, shape, Nanos::from_millis(1)).unwrap()
    }

    #[test]
    fn records_come_out_once_and_in_order_round_and_round() {
        let mut channel = channel();
        for lap in 0..5 {
            for at in 0..3 {
                push(&channel, lap * 3 + at, true);
            }
            assert_eq!(drained(&mut channel), [lap * 3, lap * 3 + 1, lap * 3 + 2]);
            assert_eq!(drained(&mut channel), []);
        }
    }

    #[test]
    fn a_record_that_never_becomes_whole_is_given_up_and_counted() {
        let mut channel = channel();
        push(&channel, 1, true);
        push(&channel, 2, false);
        push(&channel, 3, true);
        assert_eq!(drained(&mut channel), [1]);
        for _ in 1..PATIENCE {
            assert_eq!(drained(&mut channel), []);
        }
        assert_eq!(drained(&mut channel), [3]);
        assert_eq!(channel.newly_lost(), 1);
        assert_eq!(channel.newly_lost(), 0);
    }
}
