//! Where a thread's thread-control block is, found by the pointers to itself that glibc keeps in it.
//!
//! The `fs` base of another thread can be asked for only by stopping it. But glibc's `tcbhead_t` has its own address
//! in its first word and in its third, is aligned to 64 bytes, and lies above all frames in the stack's mapping (for
//! the main thread: in a small anonymous mapping made by the dynamic loader).

use hitm_model::{Avma, AvmaRange, MappingKind, Pid, Tid};

use super::{module::u64_at, space::Mappings, world::World};

/// How much memory is searched for one thread.
const MOST_SEARCHED: u64 = 1 << 20;

/// Larger mappings are not the loader's.
const LARGEST: u64 = 1 << 20;

/// How many mappings are searched for the main thread's block.
const MOST_MAPPINGS: usize = 64;

const CHUNK: usize = 64 << 10;
const ALIGNMENT: usize = 64;

/// In `struct pthread` of glibc for x86-64, which begins with the block: the thread's number (since 2.4).
const TID_AT: usize = 0x2d0;

/// The block of a thread whose stack pointer is in `stack`: the first one above it.
pub(crate) fn above<W: World>(
    world: &W,
    pid: Pid,
    tid: Tid,
    sp: Avma,
    stack: AvmaRange,
) -> Option<Avma> {
    let end = stack.end.min(sp.wrapping_add(MOST_SEARCHED));
    let near = AvmaRange::new(sp.max(stack.start), end);
    let top = AvmaRange::new(
        Avma(stack.end.0.saturating_sub(CHUNK as u64)).max(stack.start),
        stack.end,
    );
    search(world, pid, tid, near)
        .or_else(|| search(world, pid, tid, top))
        .map(|(block, _)| block)
}

/// The block of a main thread. It must be the only candidate, or have the thread's number.
pub(crate) fn of_main<W: World>(world: &W, pid: Pid, mappings: &Mappings) -> Option<Avma> {
    let candidates: Vec<_> = mappings
        .before(Avma(u64::MAX))
        .filter(|mapping| {
            mapping.writable
                && mapping.kind == MappingKind::Anonymous
                && mapping.range.len() <= LARGEST
        })
        .take(MOST_MAPPINGS)
        .filter_map(|mapping| search(world, pid, Tid(pid.0), mapping.range))
        .collect();
    match candidates.as_slice() {
        [(block, _)] => Some(*block),
        several => several
            .iter()
            .find(|(_, certain)| *certain)
            .map(|(block, _)| *block),
    }
}

/// The first block in `range`; the one with the thread's number is preferred and certain.
fn search<W: World>(world: &W, pid: Pid, tid: Tid, range: AvmaRange) -> Option<(Avma, bool)> {
    let mut first = None;
    let mut at = Avma(range.start.0.next_multiple_of(ALIGNMENT as u64));
    let mut buffer = vec![0; CHUNK + TID_AT + 4];
    while at < range.end {
        let len = world.read(pid, at, &mut buffer);
        let bytes = buffer.get(..len)?;
        let left = range.end.0 - at.0;
        for offset in (0..CHUNK.min(left as usize)).step_by(ALIGNMENT) {
            let address = at.wrapping_add(offset as u64);
            let points_here = |offset| u64_at(bytes, offset) == Some(address.0);
            if points_here(offset) && points_here(offset + 16) {
                let number = bytes.get(offset + TID_AT..).and_then(|b| b.first_chunk());
                if number.map(|number| u32::from_le_bytes(*number)) == Some(tid.0) {
                    return Some((address, true));
                }
                first = first.or(Some((address, false)));
            }
        }
        if len < CHUNK {
            break;
        }
        at = at.wrapping_add(CHUNK as u64);
    }
    first
}
