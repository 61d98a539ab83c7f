//! Function bounds and frames from the tables of the unwinder, which stripping leaves in place.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry, LittleEndian,
    Pointer, UnwindContext, UnwindSection, X86_64,
};
use object::LittleEndian as LE;
use object::elf;
use object::read::elf::ProgramHeader;

use super::elf::Elf;

type Slice<'d> = EndianSlice<'d, LittleEndian>;

/// Start and end of the code around `svma` that one entry of `.eh_frame` describes.
///
/// A compiler may split a function into several such parts (`.cold`); the linker's stubs in `.plt` share one.
pub(crate) fn function_at(elf: &Elf<'_>, svma: u64) -> Option<(u64, u64)> {
    let (_, _, entry) = entry_at(elf, svma)?;
    let start = entry.initial_address();
    Some((start, start.checked_add(entry.len())?))
}

/// `CFA − rsp` at an instruction, where the canonical frame address is counted from the stack pointer.
pub(crate) fn cfa_above_sp(elf: &Elf<'_>, svma: u64) -> Option<i64> {
    let (frames, bases, entry) = entry_at(elf, svma)?;
    let mut context = UnwindContext::new();
    let row = entry
        .unwind_info_for_address(&frames, &bases, &mut context, svma)
        .ok()?;
    match *row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } if register == X86_64::RSP => Some(offset),
        _ => None,
    }
}

/// Start and end of everything that the tables describe.
pub(crate) fn functions(elf: &Elf<'_>, see: &mut dyn FnMut(u64, u64)) {
    let Some(section) = elf.section(b".eh_frame") else {
        return;
    };
    let Some(data) = elf.data_of(section) else {
        return;
    };
    let bases = BaseAddresses::default().set_eh_frame(section.sh_addr.get(LE));
    let frames = EhFrame::new(data, LittleEndian);
    let mut entries = frames.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let gimli::CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let Ok(entry) = partial.parse(EhFrame::cie_from_offset) else {
            continue;
        };
        let start = entry.initial_address();
        if let Some(end) = start.checked_add(entry.len()) {
            see(start, end);
        }
    }
}

fn entry_at<'d>(
    elf: &Elf<'d>,
    svma: u64,
) -> Option<(
    EhFrame<Slice<'d>>,
    BaseAddresses,
    FrameDescriptionEntry<Slice<'d>>,
)> {
    let segment = elf
        .segments
        .iter()
        .find(|segment| segment.p_type(LE) == elf::PT_GNU_EH_FRAME)?;
    let header_at = segment.p_vaddr.get(LE);
    let data = segment.data(LE, elf.bytes).ok()?;
    let bases = BaseAddresses::default().set_eh_frame_hdr(header_at);
    let header = EhFrameHdr::new(data, LittleEndian).parse(&bases, 8).ok()?;
    let Pointer::Direct(frames_at) = header.eh_frame_ptr() else {
        return None;
    };
    let frames = EhFrame::new(elf.bytes_from(frames_at)?, LittleEndian);
    let bases = bases.set_eh_frame(frames_at);
    let Pointer::Direct(entry_at) = header.table()?.lookup(svma, &bases).ok()? else {
        return None;
    };
    let offset = usize::try_from(entry_at.checked_sub(frames_at)?).ok()?;
    let entry = frames
        .fde_from_offset(&bases, offset.into(), EhFrame::cie_from_offset)
        .ok()?;
    let start = entry.initial_address();
    let end = start.checked_add(entry.len())?;
    (start <= svma && svma < end).then_some((frames, bases, entry))
}
