//! What names a build that has no build-id: its content.
//!
//! Linkers of some systems write no build-id. A file that was rebuilt since would then be taken for the recorded one,
//! and its names would be wrong, which is worse than none.

use hitm_model::BuildId;

/// What such a name starts with. No linker writes text.
const PREFIX: &[u8] = b"content:";

/// Larger files are read at both ends only, so much at each: the headers, most of the code, and the tables of sections
/// and names, where a difference shows.
const END: u64 = 32 << 20;

/// Bytes that are read at once.
const PIECE: u64 = 1 << 20;

/// The name of an ELF file of `len` bytes without a build-id.
///
/// `read` fills a buffer from an offset of the file and says whether it could.
pub fn content_id(len: u64, read: &mut dyn FnMut(u64, &mut [u8]) -> bool) -> Option<BuildId> {
    let mut sum = crc32fast::Hasher::new();
    let mut buffer = Vec::new();
    let ends = if len <= 2 * END {
        [0..len, len..len]
    } else {
        [0..END, len - END..len]
    };
    for end in ends {
        let mut at = end.start;
        while at < end.end {
            let piece = PIECE.min(end.end - at);
            buffer.resize(piece as usize, 0);
            if !read(at, &mut buffer) {
                return None;
            }
            sum.update(&buffer);
            at += piece;
        }
    }
    let mut name = PREFIX.to_vec();
    name.extend(len.to_be_bytes());
    name.extend(sum.finalize().to_be_bytes());
    Some(BuildId(name))
}

/// The same, of a file in memory.
pub(super) fn of_bytes(bytes: &[u8]) -> Option<BuildId> {
    content_id(bytes.len() as u64, &mut |offset, buffer| {
        let found = usize::try_from(offset)
            .ok()
            .and_then(|offset| bytes.get(offset..)?.get(..buffer.len()));
        found.map(|found| buffer.copy_from_slice(found)).is_some()
    })
}
