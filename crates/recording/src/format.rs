//! The constants of the format; docs/recording.md says the same in words.

use crate::Error;

/// The version of the format that is written here, and the newest that is known.
///
/// It grows when an event is added. What exists never changes its encoding, so every reader reads every version as
/// far as it knows the events.
pub const VERSION: u32 = 2;

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

/// Marker, payload length, checksum of these two, checksum of the payload.
///
/// The first checksum makes a damaged recording cheap to read: where it is right, the length is too, and the block is
/// passed over in one step; where it is wrong, no payload is looked at.
pub(crate) const BLOCK_HEADER_BYTES: usize = MARKER.len() + 4 + 4 + 4;

/// The header of a block; `None` where the payload is too long for one.
pub(crate) fn block_header(payload: &[u8]) -> Option<[u8; BLOCK_HEADER_BYTES]> {
    if payload.len() > MAX_PAYLOAD_BYTES {
        return None;
    }
    let mut header = [0; BLOCK_HEADER_BYTES];
    header[..4].copy_from_slice(&MARKER);
    header[4..8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    let own = crc32fast::hash(&header[..8]);
    header[8..12].copy_from_slice(&own.to_le_bytes());
    header[12..].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
    Some(header)
}

/// The length of the payload in a block's header; `None` where it is not one.
pub(crate) fn payload_length(header: &[u8; BLOCK_HEADER_BYTES]) -> Option<usize> {
    let length = field(header, 4) as usize;
    let is_one = header.starts_with(&MARKER) && crc32fast::hash(&header[..8]) == field(header, 8);
    (is_one && length <= MAX_PAYLOAD_BYTES).then_some(length)
}

/// Whether `payload` is the one that `header` was written for.
pub(crate) fn is_sound(header: &[u8; BLOCK_HEADER_BYTES], payload: &[u8]) -> bool {
    crc32fast::hash(payload) == field(header, 12)
}

fn field(header: &[u8; BLOCK_HEADER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
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
