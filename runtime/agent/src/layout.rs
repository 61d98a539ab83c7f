//! The bytes that the agent and the recorder share.
//!
//! One file, compiled into both: the agent as its own module, the recorder by `#[path]`. The channel is
//! `header, ring 0, ring 1, …`, each ring `cursors, record 0, record 1, …`. A ring belongs to a processor, so two
//! writers of one ring never run at once: a thread that is moved to another processor, or preempted, in the middle of
//! a record is why rings are still written with compare-and-swap.
//!
//! What different processors write never shares a line, nor the pair of lines that the adjacent-line prefetcher fetches
//! together: 128 bytes on x86-64. The assertions below say so.

use core::{
    mem::{align_of, offset_of, size_of},
    sync::atomic::{AtomicU32, AtomicU64},
};

/// The first eight bytes of a channel.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"HITMring");

/// The version of this layout. The agent is compiled into the recorder, so they differ only if a program was started by
/// another hitm.
pub(crate) const VERSION: u32 = 1;

/// The variable with the channel's path.
pub(crate) const CHANNEL_VARIABLE: &str = "HITM_CHANNEL";

/// No two processors write inside one stretch of this many bytes: a line and the one prefetched beside it.
pub(crate) const APART: usize = 128;

/// What both sides must know before the first record. Written by the recorder before the program starts, except where
/// it says otherwise.
#[repr(C, align(4096))]
#[derive(Debug)]
pub(crate) struct Header {
    /// [`MAGIC`].
    pub(crate) magic: u64,
    /// [`VERSION`].
    pub(crate) version: u32,
    /// How many rings.
    pub(crate) rings: u32,
    /// Records in each ring.
    pub(crate) records: u32,
    /// Not used yet; zero.
    pub(crate) reserved: u32,
    /// Processor time of a thread between two of its samples, in nanoseconds.
    pub(crate) period: u64,
    /// Written by the recorder while the program runs.
    pub(crate) recorder: RecorderWord,
    /// Written by agents, when a program starts or something is missed: seldom.
    pub(crate) agents: AgentWords,
}

/// What the recorder writes while the program runs.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct RecorderWord {
    /// When the recorder last looked (`CLOCK_MONOTONIC`).
    pub(crate) heartbeat: AtomicU64,
    /// Not 0: agents take no more samples.
    pub(crate) stop: AtomicU32,
}

/// What agents count that belongs to no ring.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct AgentWords {
    /// Programs that loaded the agent.
    pub(crate) hellos: AtomicU32,
    /// Threads without a timer: more of them at once than an agent has places for, or the timer was refused.
    pub(crate) unsampled: AtomicU32,
    /// Processes that took the agent's signal for themselves.
    pub(crate) backed_off: AtomicU32,
}

/// The places to write to and read from in one ring.
#[repr(C, align(4096))]
#[derive(Debug)]
pub(crate) struct Cursors {
    /// Records begun, ever. Written by agents.
    pub(crate) head: Apart<AtomicU64>,
    /// Records read, ever. Written by the recorder.
    pub(crate) tail: Apart<AtomicU64>,
    /// Records dropped because the ring was full. Written by agents.
    pub(crate) lost: Apart<AtomicU64>,
    /// Ticks that fell into a system call, and are no samples. Written by agents.
    pub(crate) kernel: Apart<AtomicU64>,
}

/// A value alone on its lines.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct Apart<T>(pub(crate) T);

/// One record of a ring.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Record {
    /// Its number in the ring, counted from 1: stored last, so a record is whole when the number is the expected one.
    pub(crate) sequence: AtomicU64,
    /// The rest.
    pub(crate) payload: Payload,
}

/// A record without its number.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payload {
    /// When (`CLOCK_MONOTONIC`, in nanoseconds).
    pub(crate) at: u64,
    /// The process.
    pub(crate) pid: u32,
    /// The thread.
    pub(crate) tid: u32,
    /// The processor it ran on.
    pub(crate) cpu: u32,
    /// One of [`kind`].
    pub(crate) kind: u16,
    /// Bytes of text, for [`kind::MAPS`].
    pub(crate) length: u16,
    /// What `kind` says.
    pub(crate) body: [u64; BODY_WORDS],
}

/// Words in the body of a record.
pub(crate) const BODY_WORDS: usize = 20;

/// Bytes of text in a record of kind [`kind::MAPS`]: what is left of the body behind the offset.
pub(crate) const TEXT_BYTES: usize = (BODY_WORDS - 1) * 8;

/// What a record is about.
pub(crate) mod kind {
    /// Registers: `ip`, the sixteen general-purpose ones in the order of their encoding, the base of `fs`.
    pub(crate) const SAMPLE: u16 = 1;
    /// A program loaded the agent. The body is that of [`BORN`].
    pub(crate) const HELLO: u16 = 2;
    /// A process was forked; the body is that of [`BORN`].
    pub(crate) const FORKED: u16 = 3;
    /// A thread was born: two words of name, the base of `fs`, the parent process.
    pub(crate) const BORN: u16 = 4;
    /// A thread ends: two words of name.
    pub(crate) const ENDED: u16 = 5;
    /// A piece of `/proc/self/maps`: the offset of its first byte, then the bytes.
    pub(crate) const MAPS: u16 = 6;
    /// The text of `/proc/self/maps` is complete: its length.
    pub(crate) const MAPS_END: u16 = 7;
}

/// Bytes of one ring.
pub(crate) const fn ring_bytes(records: usize) -> usize {
    (size_of::<Cursors>() + records * size_of::<Record>()).next_multiple_of(4096)
}

/// Where ring `index` begins.
pub(crate) const fn ring_offset(index: usize, records: usize) -> usize {
    size_of::<Header>() + index * ring_bytes(records)
}

const _: () = {
    // Nothing that two sides write is closer than APART.
    assert!(offset_of!(Header, recorder) >= APART);
    assert!(offset_of!(Header, recorder).is_multiple_of(APART));
    assert!(offset_of!(Header, agents) - offset_of!(Header, recorder) >= APART);
    assert!(offset_of!(Cursors, tail) - offset_of!(Cursors, head) >= APART);
    assert!(offset_of!(Cursors, lost) - offset_of!(Cursors, tail) >= APART);
    assert!(offset_of!(Cursors, kernel) - offset_of!(Cursors, lost) >= APART);
    assert!(size_of::<Cursors>() - offset_of!(Cursors, kernel) >= APART);
    // Rings begin on pages of their own, so neighbours' records do not meet.
    assert!(align_of::<Cursors>() == 4096 && size_of::<Cursors>() == 4096);
    assert!(size_of::<Header>() == 4096);
    // A record is three whole lines of 64 bytes, or one and a half pairs: it meets only records of its own ring.
    assert!(size_of::<Record>() == 192);
    assert!(offset_of!(Record, payload) == 8);
    // The registers and the base of fs fit.
    assert!(BODY_WORDS - (1 + 16) >= 1);
};
