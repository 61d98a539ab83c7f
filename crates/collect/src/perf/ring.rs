//! The reading side of perf's ring buffers.
//!
//! The kernel writes records into a power of two of bytes behind one page of control data, and moves `data_head`; the
//! reader moves `data_tail`. Nothing of a record may be believed: a size that leads nowhere makes the reader skip to
//! the head and say so.

#![expect(unsafe_code, reason = "the ring is memory shared with the kernel")]

use std::{
    mem::offset_of,
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
};

use perf_event_open_sys::bindings::perf_event_mmap_page;

/// Bytes of a record's header: type (4), misc (2), size (2).
const HEADER: usize = 8;

const HEAD: usize = offset_of!(perf_event_mmap_page, data_head);
const TAIL: usize = offset_of!(perf_event_mmap_page, data_tail);
const _: () = assert!(HEAD.is_multiple_of(8) && TAIL.is_multiple_of(8));

/// One record as the kernel wrote it: header fields, and the bytes behind the header.
#[derive(Debug)]
pub(crate) struct RawRecord<'a> {
    pub(crate) kind: u32,
    pub(crate) misc: u16,
    pub(crate) body: &'a [u8],
}

/// The ring's content makes no sense; it was skipped up to the head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Damaged;

/// One ring.
#[derive(Debug)]
pub(crate) struct Ring {
    control: NonNull<u8>,
    data: NonNull<u8>,
    len: usize,
    /// How far was read.
    tail: u64,
    /// How far the kernel had written at the last [`Ring::refresh`].
    head: u64,
}

impl Ring {
    /// A reader of the ring whose control page is at `control` and whose `len` bytes of data are at `data`.
    ///
    /// # Safety
    /// Both must stay valid for reads and writes as long as the ring is used, `control` for a whole
    /// `perf_event_mmap_page` and aligned to 8; nobody but the kernel and this reader may access them. `len` must be a
    /// power of two, at least 8.
    pub(crate) unsafe fn new(control: NonNull<u8>, data: NonNull<u8>, len: usize) -> Self {
        debug_assert!(len.is_power_of_two() && len >= HEADER);
        let mut ring = Self {
            control,
            data,
            len,
            tail: 0,
            head: 0,
        };
        ring.tail = ring.word(TAIL).load(Ordering::Relaxed);
        ring.head = ring.tail;
        ring
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: `new` requires a whole `perf_event_mmap_page` at `control`, and `offset` is one of its 64-bit fields.
        let field = unsafe { self.control.add(offset) };
        // SAFETY: aligned (the constant assertion above and `new`), valid for the life of `self`, shared with the
        // kernel only through atomic accesses.
        unsafe { AtomicU64::from_ptr(field.as_ptr().cast()) }
    }

    /// Looks how far the kernel has written. Records behind that are seen after the next call.
    pub(crate) fn refresh(&mut self) {
        // Pairs with the kernel's barrier between writing the record and moving the head
        // (https://github.com/torvalds/linux/blob/v6.12/kernel/events/ring_buffer.c, perf_output_put_handle).
        self.head = self.word(HEAD).load(Ordering::Acquire);
    }

    /// Gives what was read back to the kernel.
    pub(crate) fn release(&mut self) {
        // Pairs with the kernel's read of the tail: our copies are done before it may overwrite them.
        self.word(TAIL).store(self.tail, Ordering::Release);
    }

    /// The next record, copied into `buffer`; `None` when all up to the last refresh is read.
    pub(crate) fn next<'a>(
        &mut self,
        buffer: &'a mut Vec<u8>,
    ) -> Option<Result<RawRecord<'a>, Damaged>> {
        let left = self.head.wrapping_sub(self.tail);
        if left == 0 {
            return None;
        }
        if left < HEADER as u64 || left > self.len as u64 {
            return Some(Err(self.skip()));
        }
        let mut header = [0; HEADER];
        self.copy(self.tail, &mut header);
        let [k0, k1, k2, k3, m0, m1, s0, s1] = header;
        let size = usize::from(u16::from_le_bytes([s0, s1]));
        if size < HEADER || size as u64 > left {
            return Some(Err(self.skip()));
        }
        buffer.clear();
        buffer.resize(size - HEADER, 0);
        self.copy(self.tail.wrapping_add(HEADER as u64), buffer);
        self.tail = self.tail.wrapping_add(size as u64);
        Some(Ok(RawRecord {
            kind: u32::from_le_bytes([k0, k1, k2, k3]),
            misc: u16::from_le_bytes([m0, m1]),
            body: buffer,
        }))
    }

    fn skip(&mut self) -> Damaged {
        self.tail = self.head;
        Damaged
    }

    /// Copies from position `at`, around the end if need be.
    fn copy(&self, at: u64, to: &mut [u8]) {
        debug_assert!(to.len() <= self.len);
        let start = (at & (self.len as u64 - 1)) as usize;
        let first = to.len().min(self.len - start);
        let (front, back) = to.split_at_mut(first);
        self.copy_straight(start, front);
        self.copy_straight(0, back);
    }

    fn copy_straight(&self, start: usize, to: &mut [u8]) {
        debug_assert!(start + to.len() <= self.len);
        // SAFETY: `start` is at most `len` (see `copy`), so the pointer stays in the data that `new` requires.
        let from = unsafe { self.data.add(start) };
        // SAFETY: `start + to.len() <= len`; `to` is memory of ours, so they do not overlap. The kernel does not write
        // between tail and head until the tail is released.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr(), to.len()) };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A ring in memory of our own, written as the kernel does.
    struct Fake {
        control: Box<[u64; size_of::<perf_event_mmap_page>() / 8]>,
        data: Vec<u8>,
        head: u64,
    }

    impl Fake {
        fn new(len: usize, start: u64) -> (Self, Ring) {
            let mut fake = Self {
                control: Box::new([0; size_of::<perf_event_mmap_page>() / 8]),
                data: vec![0xAA; len],
                head: start,
            };
            fake.control[HEAD / 8] = start;
            fake.control[TAIL / 8] = start;
            let control = NonNull::new(fake.control.as_mut_ptr().cast()).unwrap();
            let data = NonNull::new(fake.data.as_mut_ptr()).unwrap();
            // SAFETY: both live on the heap, in boxes that the test keeps until the ring is gone.
            let ring = unsafe { Ring::new(control, data, len) };
            (fake, ring)
        }

        fn bytes(&mut self, bytes: &[u8]) {
            for &byte in bytes {
                let at = (self.head % self.data.len() as u64) as usize;
                self.data[at] = byte;
                self.head += 1;
            }
            self.control[HEAD / 8] = self.head;
        }

        fn record(&mut self, kind: u32, claimed: u16, body: &[u8]) {
            let mut bytes = kind.to_le_bytes().to_vec();
            bytes.extend(7u16.to_le_bytes());
            bytes.extend(claimed.to_le_bytes());
            bytes.extend(body);
            self.bytes(&bytes);
        }

        fn tail(&self) -> u64 {
            self.control[TAIL / 8]
        }
    }

    type Copied = Result<(u32, u16, Vec<u8>), Damaged>;

    fn read_all(ring: &mut Ring) -> Vec<Copied> {
        let mut buffer = Vec::new();
        ring.refresh();
        let mut records = Vec::new();
        while let Some(record) = ring.next(&mut buffer) {
            records.push(record.map(|r| (r.kind, r.misc, r.body.to_vec())));
        }
        ring.release();
        records
    }

    #[test]
    fn a_record_across_the_end_is_whole() {
        let (mut fake, mut ring) = Fake::new(64, 64 * 5 + 52);
        let body: Vec<u8> = (0..32).collect();
        fake.record(9, 40, &body);
        assert_eq!(read_all(&mut ring), [Ok((9, 7, body))]);
        assert_eq!(fake.tail(), fake.head);
    }

    #[test]
    fn a_header_across_the_end_is_whole() {
        let (mut fake, mut ring) = Fake::new(64, 60);
        fake.record(3, 16, &[1; 8]);
        assert_eq!(read_all(&mut ring), [Ok((3, 7, vec![1; 8]))]);
    }

    #[test]
    fn what_comes_after_a_refresh_waits_for_the_next() {
        let (mut fake, mut ring) = Fake::new(64, 0);
        fake.record(1, 8, &[]);
        ring.refresh();
        fake.record(2, 8, &[]);
        let mut buffer = Vec::new();
        assert_eq!(ring.next(&mut buffer).unwrap().unwrap().kind, 1);
        assert!(ring.next(&mut buffer).is_none());
        assert_eq!(read_all(&mut ring), [Ok((2, 7, vec![]))]);
    }

    #[test]
    fn nothing_is_given_back_before_release() {
        let (mut fake, mut ring) = Fake::new(64, 0);
        fake.record(1, 8, &[]);
        ring.refresh();
        let mut buffer = Vec::new();
        assert!(ring.next(&mut buffer).is_some());
        assert_eq!(fake.tail(), 0);
        ring.release();
        assert_eq!(fake.tail(), 8);
    }

    #[test]
    fn damage_skips_to_the_head_and_reading_goes_on() {
        for claimed in [0, 7, 48, u16::MAX] {
            let (mut fake, mut ring) = Fake::new(64, 0);
            fake.record(1, 16, &[5; 8]);
            fake.record(9, claimed, &[5; 8]);
            assert_eq!(
                read_all(&mut ring),
                [Ok((1, 7, vec![5; 8])), Err(Damaged)],
                "{claimed}"
            );
            fake.record(4, 8, &[]);
            assert_eq!(read_all(&mut ring), [Ok((4, 7, vec![]))]);
        }
    }

    #[test]
    fn a_head_that_is_too_far_or_behind_is_damage() {
        for head in [65u64, 4, u64::MAX] {
            let (mut fake, mut ring) = Fake::new(64, 8);
            fake.control[HEAD / 8] = head.wrapping_add(8);
            assert_eq!(read_all(&mut ring), [Err(Damaged)], "{head}");
            assert_eq!(fake.tail(), head.wrapping_add(8));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(start in 0u64..256, bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let (mut fake, mut ring) = Fake::new(64, start);
            fake.bytes(&bytes);
            read_all(&mut ring);
            prop_assert_eq!(fake.tail(), fake.head);
        }

        #[test]
        fn records_come_out_as_they_went_in(sizes in prop::collection::vec(0usize..7, 1..40)) {
            let (mut fake, mut ring) = Fake::new(64, 0);
            for (i, words) in sizes.iter().enumerate() {
                let body = vec![i as u8; words * 8];
                fake.record(i as u32, 8 + body.len() as u16, &body);
                prop_assert_eq!(read_all(&mut ring), [Ok((i as u32, 7, body))]);
            }
        }
    }
}
