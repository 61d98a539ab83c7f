//! The section headers of an object file: gABI, chapter 4, 64-bit little-endian.

use object::elf;

/// What kind of input a linker gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectKind {
    /// Machine code and data, as they will be in the program.
    Native,
    /// What a compiler will make code of while it links (LTO): the order of such files is not that of variables.
    Intermediate,
}

/// What kind of object file these bytes are; `None` if they are none that this crate knows.
#[must_use]
pub fn object_kind(bytes: &[u8]) -> Option<ObjectKind> {
    const BITCODE: [&[u8]; 2] = [b"BC\xc0\xde", b"\xde\xc0\x17\x0b"];
    if BITCODE.iter().any(|magic| bytes.starts_with(magic)) {
        return Some(ObjectKind::Intermediate);
    }
    let headers = Headers::of(bytes)?;
    let is_lto = |at| {
        headers
            .name(at)
            .is_some_and(|name| name.starts_with(b".gnu.lto_"))
    };
    // "Fat" objects have both; the plugin takes the intermediate form.
    Some(match (0..headers.count).any(is_lto) {
        true => ObjectKind::Intermediate,
        false => ObjectKind::Native,
    })
}

/// Bytes of one header.
pub(super) const HEADER: usize = 64;

/// Where the headers of an object file are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Headers<'a> {
    pub(super) bytes: &'a [u8],
    /// Where they begin in the file.
    pub(super) start: usize,
    pub(super) count: usize,
    names: &'a [u8],
}

/// One header, as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Section {
    pub(super) kind: u32,
    pub(super) flags: u64,
    offset: usize,
    size: usize,
    pub(super) align: u64,
}

impl<'a> Headers<'a> {
    /// `None` unless it is a whole object file of 64 bits, little-endian.
    pub(super) fn of(bytes: &'a [u8]) -> Option<Self> {
        let magic = [
            0x7f,
            b'E',
            b'L',
            b'F',
            elf::ELFCLASS64.0,
            elf::ELFDATA2LSB.0,
        ];
        if !bytes.starts_with(&magic) || half(bytes, 16)? != elf::ET_REL.0 {
            return None;
        }
        let start = usize::try_from(long(bytes, 40)?).ok()?;
        let count = usize::from(half(bytes, 60)?);
        if usize::from(half(bytes, 58)?) != HEADER || count == 0 {
            return None;
        }
        bytes.get(start..start.checked_add(count * HEADER)?)?;
        let mut headers = Self {
            bytes,
            start,
            count,
            names: &[],
        };
        let names = usize::from(half(bytes, 62)?);
        headers.names = headers.content(headers.section(names)?)?;
        Some(headers)
    }

    pub(super) fn section(&self, at: usize) -> Option<Section> {
        let header = self.header(at)?;
        Some(Section {
            kind: word(header, 4)?,
            flags: long(header, 8)?,
            offset: usize::try_from(long(header, 24)?).ok()?,
            size: usize::try_from(long(header, 32)?).ok()?,
            align: long(header, 48)?,
        })
    }

    pub(super) fn header(&self, at: usize) -> Option<&'a [u8]> {
        let start = self.start + at.checked_mul(HEADER)?;
        (at < self.count).then(|| self.bytes.get(start..start + HEADER))?
    }

    pub(super) fn name(&self, at: usize) -> Option<&'a [u8]> {
        let start = usize::try_from(word(self.header(at)?, 0)?).ok()?;
        self.names.get(start..)?.split(|byte| *byte == 0).next()
    }

    /// Where a section's bytes are in the file.
    pub(super) fn range(&self, section: Section) -> Option<std::ops::Range<usize>> {
        let end = section.offset.checked_add(section.size)?;
        (end <= self.bytes.len()).then_some(section.offset..end)
    }

    pub(super) fn content(&self, section: Section) -> Option<&'a [u8]> {
        self.bytes.get(self.range(section)?)
    }

    /// The first section of this name, with its number.
    pub(super) fn named(&self, name: &[u8]) -> Option<Section> {
        let at = (0..self.count).find(|&at| self.name(at) == Some(name))?;
        self.section(at)
    }
}

pub(super) fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

pub(super) fn long(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}
