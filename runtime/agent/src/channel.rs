//! The shared rings, from the writers' side: bounded, without locks, usable in a signal handler.

use core::{
    ffi::c_char,
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

use crate::{
    layout::{Cursors, Header, MAGIC, Payload, Record, VERSION, ring_offset},
    sys,
};

/// The recorder is taken for dead when it has not looked for this long.
const RECORDER_GONE: u64 = 5_000_000_000;

/// How often a place in a ring is tried for. Two writers of one ring can only meet when one was preempted between two
/// instructions, so the second try nearly always succeeds.
const TRIES: u32 = 8;

static CHANNEL: AtomicPtr<Header> = AtomicPtr::new(ptr::null_mut());

/// The mapped channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Channel(&'static Header);

/// What became of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pushed {
    /// It is in the ring.
    Yes,
    /// There was no room; it is counted.
    Full,
}

impl Channel {
    /// The channel, if this process has one.
    pub(crate) fn get() -> Option<Self> {
        let header = CHANNEL.load(Ordering::Acquire);
        // SAFETY: it is null or a header that stays mapped for ever.
        unsafe { header.as_ref() }.map(Self)
    }

    /// Maps the channel at `path`.
    ///
    /// # Safety
    /// `path` must point to a zero-terminated string.
    pub(crate) unsafe fn open(path: *const c_char) -> Option<Self> {
        // SAFETY: the caller vouches for the path.
        let file = unsafe { sys::File::open(path, libc::O_RDWR) }.ok()?;
        // SAFETY: all zeros is a valid stat.
        let mut stat: libc::stat = unsafe { core::mem::zeroed() };
        // SAFETY: it writes a stat.
        if unsafe { libc::fstat(file.descriptor(), &raw mut stat) } != 0 {
            return None;
        }
        let bytes = usize::try_from(stat.st_size).ok()?;
        if bytes < size_of::<Header>() {
            return None;
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at a place of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                protection,
                libc::MAP_SHARED,
                file.descriptor(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return None;
        }
        let header = base.cast::<Header>();
        // SAFETY: the mapping is page-aligned, at least a header long, and never removed.
        let shared = unsafe { &*header };
        let end = ring_offset(shared.rings as usize, shared.records as usize);
        let sound = shared.magic == MAGIC
            && shared.version == VERSION
            && shared.rings > 0
            && shared.records > 0
            && end <= bytes;
        if !sound {
            // SAFETY: nobody else has seen this mapping.
            unsafe { libc::munmap(base, bytes) };
            return None;
        }
        CHANNEL.store(header, Ordering::Release);
        Some(Self(shared))
    }

    /// Its header.
    pub(crate) const fn header(self) -> &'static Header {
        self.0
    }

    /// Whether samples are wanted no more: the recorder said so.
    pub(crate) fn stopped(self) -> bool {
        self.0.recorder.stop.load(Ordering::Relaxed) != 0
    }

    /// Whether the recorder has not looked for long: it was killed.
    pub(crate) fn abandoned(self, now: u64) -> bool {
        now.saturating_sub(self.0.recorder.heartbeat.load(Ordering::Relaxed)) > RECORDER_GONE
    }

    /// Counts a tick that fell into a system call.
    pub(crate) fn count_kernel(self, cpu: u32) {
        self.cursors(cpu).kernel.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Puts a record into the ring of `payload.cpu`.
    pub(crate) fn push(self, payload: &Payload) -> Pushed {
        let cursors = self.cursors(payload.cpu);
        let capacity = u64::from(self.0.records);
        for _ in 0..TRIES {
            let head = cursors.head.0.load(Ordering::Relaxed);
            if head.wrapping_sub(cursors.tail.0.load(Ordering::Acquire)) >= capacity {
                break;
            }
            let next = head.wrapping_add(1);
            if cursors
                .head
                .0
                .compare_exchange(head, next, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
            {
                continue;
            }
            let record = self.record(cursors, head.checked_rem(capacity).unwrap_or(0));
            // SAFETY: the place is inside the ring, and this writer's alone from the exchange to the store below.
            let place = unsafe { &raw mut (*record).payload };
            // SAFETY: as above; `Payload` is plain data.
            unsafe { place.write_volatile(*payload) };
            // SAFETY: the record is inside the mapping, and its number is atomic.
            let sequence = unsafe { &(*record).sequence };
            sequence.store(next, Ordering::Release);
            return Pushed::Yes;
        }
        cursors.lost.0.fetch_add(1, Ordering::Relaxed);
        Pushed::Full
    }

    /// The cursors of a processor's ring.
    fn cursors(self, cpu: u32) -> &'static Cursors {
        // `rings` is not 0; the checked form leaves no way to panic.
        let index = cpu.checked_rem(self.0.rings).unwrap_or(0);
        let offset = ring_offset(index as usize, self.0.records as usize);
        let base: *const Header = self.0;
        // SAFETY: `open` checked that all rings are inside the mapping.
        let ring = unsafe { base.byte_add(offset) };
        // SAFETY: a ring begins with its cursors, on a page boundary.
        unsafe { &*ring.cast::<Cursors>() }
    }

    /// Record `index` behind `cursors`.
    fn record(self, cursors: &'static Cursors, index: u64) -> *mut Record {
        let first = ptr::from_ref(cursors)
            .cast_mut()
            .wrapping_add(1)
            .cast::<Record>();
        first.wrapping_add(index as usize)
    }
}
