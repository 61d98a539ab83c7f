//! The build-id of an ELF file, from a few small reads.

use hitm_model::BuildId;

const PT_NOTE: u32 = 4;
const NT_GNU_BUILD_ID: u32 = 3;
const HEADER: usize = 64;
const SEGMENT: usize = 56;

/// More than any linker makes of them.
const MOST_SEGMENTS: u16 = 128;
const MOST_NOTES: u64 = 64 << 10;

/// Finds the build-id with `read`, which gives up to so many bytes from an offset of the file.
pub(crate) fn find(read: &dyn Fn(u64, usize) -> Option<Vec<u8>>) -> Option<BuildId> {
    let header = read(0, HEADER)?;
    // 64-bit, little-endian.
    if header.len() < HEADER || !header.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let table = u64_at(&header, 32)?;
    let size = u16_at(&header, 54)?;
    let count = u16_at(&header, 56)?.min(MOST_SEGMENTS);
    if usize::from(size) != SEGMENT {
        return None;
    }
    let segments = read(table, SEGMENT * usize::from(count))?;
    segments
        .chunks_exact(SEGMENT)
        .filter(|segment| u32_at(segment, 0) == Some(PT_NOTE))
        .find_map(|segment| {
            let offset = u64_at(segment, 8)?;
            let len = u64_at(segment, 32)?.min(MOST_NOTES);
            let align = u64_at(segment, 48)?;
            in_notes(&read(offset, len as usize)?, align)
        })
}

/// Each note: length of its name, length of its content, type; name and content, each padded.
fn in_notes(mut notes: &[u8], align: u64) -> Option<BuildId> {
    let align = if align == 8 { 8 } else { 4 };
    loop {
        let name_len = u32_at(notes, 0)? as usize;
        let content_len = u32_at(notes, 4)? as usize;
        let kind = u32_at(notes, 8)?;
        let content_at = 12usize
            .checked_add(name_len)?
            .checked_next_multiple_of(align)?;
        let content_end = content_at.checked_add(content_len)?;
        let name = notes.get(12..12usize.checked_add(name_len)?)?;
        let content = notes.get(content_at..content_end)?;
        if kind == NT_GNU_BUILD_ID && name == b"GNU\0" {
            return Some(BuildId(content.to_vec()));
        }
        notes = notes.get(content_end.checked_next_multiple_of(align)?..)?;
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn find_in(file: &[u8]) -> Option<BuildId> {
        find(&|offset, len| {
            let start = usize::try_from(offset).ok()?.min(file.len());
            Some(file[start..start.saturating_add(len).min(file.len())].to_vec())
        })
    }

    proptest! {
        #[test]
        fn damaged_files_are_read_without_a_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let magic = b"\x7fELF\x02\x01";
            if bytes.len() >= 64 {
                bytes[..6].copy_from_slice(magic);
                bytes[32..40].copy_from_slice(&64u64.to_le_bytes());
                bytes[54..58].copy_from_slice(&[56, 0, 4, 0]);
            }
            let _ = find_in(&bytes);
        }
    }

    #[test]
    fn the_note_is_found_behind_another() {
        let mut notes = Vec::new();
        for (kind, content) in [(1u32, &[9u8; 6][..]), (NT_GNU_BUILD_ID, &[0xAB; 20])] {
            notes.extend(4u32.to_le_bytes());
            notes.extend((content.len() as u32).to_le_bytes());
            notes.extend(kind.to_le_bytes());
            notes.extend(b"GNU\0");
            notes.extend(content);
            notes.resize(notes.len().next_multiple_of(4), 0);
        }
        assert_eq!(in_notes(&notes, 4), Some(BuildId(vec![0xAB; 20])));
        assert_eq!(in_notes(&notes[..40], 4), None);
    }
}
