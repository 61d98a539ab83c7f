//! The constants of the format; docs/recording.md says the same in words.

use crate::Error;

/// The version of the format that is written here, and the newest that is known.
///
/// It grows when an event is added. What exists never changes its encoding, so every reader reads every version as
/// far as it knows the events.
pub const VERSION: u32 = 1;

/// A block is written when its payload has reached this many bytes.
pub const BLOCK_BYTES: usize = 64 * 1024;

/// No payload is longer: a reader needs no more memory than this, whatever a damaged length says.
pub const MAX_PAYLOAD_BYTES: usize = 16 * 1024 * 1024;

/// The first bytes of a recording. The line ends and the control character show whether a text tool changed it.
pub(crate) const MAGIC: [u8; 8] = *b"HITM\r\n\x1a\n";

/// Magic, then the version.
pub(crate) const HEADER_BYTES: usize = MAGIC.len() + 4;

/// The first bytes of a block. No text has the first one, and no pointer or small number has all of them.
pub(crate) const MARKER: [u8; 4] = [0xf5, b'B', b'L', b'K'];

/// Marker, payload length, checksum.
pub(crate) const BLOCK_HEADER_BYTES: usize = MARKER.len() + 4 + 4;

/// The CRC-32 of a block: over the four bytes of its length, then its payload.
pub(crate) fn checksum(length: [u8; 4], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length);
    hasher.update(payload);
    hasher.finalize()
}

/// The header of a recording written here.
pub(crate) fn header() -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
    bytes[MAGIC.len()..].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// The version in the first bytes of a file, which are fewer than [`HEADER_BYTES`] where the file is shorter.
pub(crate) fn version(start: &[u8]) -> Result<u32, Error> {
    if start.is_empty() {
        return Err(Error::Empty);
    }
    // perf's magic, its byte-swapped form, and the one of its first version.
    if [&b"PERFILE2"[..], b"2ELIFREP", b"PERFFILE"].contains(&&start[..start.len().min(8)]) {
        return Err(Error::PerfData);
    }
    let Some(header) = start.first_chunk::<HEADER_BYTES>() else {
        return Err(if start.starts_with(&MAGIC) || MAGIC.starts_with(start) {
            Error::HeaderCut { bytes: start.len() }
        } else {
            Error::NotARecording
        });
    };
    let (magic, version) = header.split_at(MAGIC.len());
    match version.try_into().map(u32::from_le_bytes) {
        Ok(version) if magic == MAGIC && version != 0 => Ok(version),
        _ => Err(Error::NotARecording),
    }
}
