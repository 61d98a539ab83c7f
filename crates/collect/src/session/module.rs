//! An ELF file as it lies in a process's memory: where it was loaded, its functions' bounds, its unwind tables.
//!
//! All is read from the process, so it does not matter whether the file can still be found. The sorted table in
//! `.eh_frame_hdr` has the start of every function that can be unwound through, with or without symbols.

use hitm_model::{Avma, AvmaRange, Mapping, MappingKind, Pid};

use super::{space::Mappings, world::World};

const PT_LOAD: u32 = 1;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
const HEADER: usize = 64;
const SEGMENT: usize = 56;

/// More program headers than any linker makes.
const MOST_SEGMENTS: usize = 128;

/// `.eh_frame_hdr`: a table of pairs of 32-bit offsets from its own start, sorted.
const SORTED_TABLE: u8 = 0x3b;

/// One loaded ELF file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Module {
    /// From its first to its last byte in memory.
    pub(crate) range: AvmaRange,
    /// `.eh_frame_hdr`.
    header: AvmaRange,
    /// Its sorted table: first entry and number of entries.
    table: (Avma, u32),
    /// The segment that has `.eh_frame`, from there on.
    pub(crate) frames: AvmaRange,
}

impl Module {
    /// The module that `mapping` is part of.
    pub(crate) fn find<W: World>(
        world: &W,
        pid: Pid,
        mappings: &Mappings,
        mapping: &Mapping,
    ) -> Option<Self> {
        let start = first_mapping(mappings, mapping)?.range.start;
        Self::read(world, pid, start)
    }

    /// Reads the headers of the module whose file is mapped from its beginning at `start`.
    fn read<W: World>(world: &W, pid: Pid, start: Avma) -> Option<Self> {
        let header = read(world, pid, start, HEADER)?;
        if !header.starts_with(b"\x7fELF\x02\x01") || u16_at(&header, 54)? as usize != SEGMENT {
            return None;
        }
        let at = start.wrapping_add(u64_at(&header, 32)?);
        let count = usize::from(u16_at(&header, 56)?).min(MOST_SEGMENTS);
        let table = read(world, pid, at, count * SEGMENT)?;
        let segments = || table.chunks_exact(SEGMENT).filter_map(Segment::parse);
        let loads = || segments().filter(|segment| segment.kind == PT_LOAD);
        let first = loads().find(|segment| segment.offset == 0)?;
        let bias = start.0.wrapping_sub(first.svma);
        let in_memory = |segment: &Segment| {
            let start = Avma(segment.svma.wrapping_add(bias));
            AvmaRange::new(start, start.wrapping_add(segment.size))
        };
        let end = loads().map(|segment| in_memory(&segment).end).max()?;
        let header = in_memory(&segments().find(|s| s.kind == PT_GNU_EH_FRAME)?);
        let fields = read(world, pid, header.start, 12)?;
        let (frames_encoding, count_encoding) = (fields[1], fields[2]);
        // Version; encodings: a 32-bit offset from itself, a 32-bit number, and the sorted table.
        if fields[0] != 1 || frames_encoding != 0x1b || count_encoding != 3 {
            return None;
        }
        if fields[3] != SORTED_TABLE {
            return None;
        }
        let offset = i64::from(u32_at(&fields, 4)?.cast_signed());
        let frames = header
            .start
            .wrapping_add(4)
            .wrapping_add(offset.cast_unsigned());
        let holder = loads()
            .map(|segment| in_memory(&segment))
            .find(|segment| segment.contains(frames))?;
        Some(Self {
            range: AvmaRange::new(start, end),
            header,
            table: (header.start.wrapping_add(12), u32_at(&fields, 8)?),
            frames: AvmaRange::new(frames, holder.end),
        })
    }

    /// `.eh_frame_hdr`.
    pub(crate) const fn header(&self) -> AvmaRange {
        self.header
    }

    /// The function that holds `ip`: as long as its entry in the table says, else up to the start of the next one.
    pub(crate) fn function_at<W: World>(&self, world: &W, pid: Pid, ip: Avma) -> Option<AvmaRange> {
        let (table, count) = self.table;
        // Where a function starts, and where its entry in `.eh_frame` is.
        let entry = |index: u32| {
            let offsets = read(world, pid, table.wrapping_add(u64::from(index) * 8), 8)?;
            let address = |at| {
                let offset = i64::from(u32_at(&offsets, at)?.cast_signed());
                Some(self.header.start.wrapping_add(offset.cast_unsigned()))
            };
            Some((address(0)?, address(4)?))
        };
        // The first entry behind `ip`.
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            if entry(middle)?.0 <= ip {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let (start, fde) = entry(low.checked_sub(1)?)?;
        let next = match low < count {
            true => entry(low)?.0,
            false => self.range.end,
        };
        // Behind the last function there is data.
        let end = fde_end(world, pid, fde, start).map_or(next, |end| end.min(next));
        let function = AvmaRange::new(start, end);
        function.contains(ip).then_some(function)
    }
}

/// The end of the function that starts at `start`, from its entry in `.eh_frame`: length, offset of what it has in
/// common with others, start as an offset from there, length of the function; 32 bits each.
fn fde_end<W: World>(world: &W, pid: Pid, fde: Avma, start: Avma) -> Option<Avma> {
    const START: usize = 8;
    let fields = read(world, pid, fde, 16)?;
    let offset = i64::from(u32_at(&fields, START)?.cast_signed());
    let said = fde
        .wrapping_add(START as u64)
        .wrapping_add(offset.cast_unsigned());
    // Another form of entry has something else there.
    let len = u32_at(&fields, START + 4)?;
    (said == start).then(|| start.wrapping_add(u64::from(len)))
}

/// A program header: type, flags, offset, address, physical address, size in the file, size in memory, alignment.
struct Segment {
    kind: u32,
    offset: u64,
    svma: u64,
    size: u64,
}

impl Segment {
    fn parse(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            kind: u32_at(bytes, 0)?,
            offset: u64_at(bytes, 8)?,
            svma: u64_at(bytes, 16)?,
            size: u64_at(bytes, 40)?,
        })
    }
}

/// The nearest mapping at or before `mapping` that has the beginning of the same file.
fn first_mapping<'a>(mappings: &'a Mappings, mapping: &Mapping) -> Option<&'a Mapping> {
    let MappingKind::File { path, .. } = &mapping.kind else {
        return None;
    };
    // A file has a handful of mappings, with a few of others or none between.
    const NEAR: usize = 16;
    mappings
        .before(mapping.range.end)
        .take(NEAR)
        .find(|before| match &before.kind {
            MappingKind::File {
                path: other,
                offset,
                ..
            } => other == path && *offset == 0,
            _ => false,
        })
}

/// `len` bytes of a process's memory, or nothing.
pub(crate) fn read<W: World>(world: &W, pid: Pid, at: Avma, len: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; len];
    (world.read(pid, at, &mut bytes) == len).then_some(bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
