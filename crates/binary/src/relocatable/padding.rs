//! An object file that is nothing but space: linked first, it moves all variables that come behind it.

use object::elf;

use super::headers::{Headers, half, word};

/// The name of the space in `.data`. The linker must be told that it is needed (`--undefined`), or it may drop it.
pub const PAD_DATA: &str = "hitm_shake_pad_data";
/// The name of the space in `.bss`.
pub const PAD_BSS: &str = "hitm_shake_pad_bss";

/// How much space, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Padding {
    /// Before variables with a value.
    pub data: u32,
    /// Before those that are zero at first.
    pub bss: u32,
}

/// The note that says what protection the code supports: the linker keeps only what all its inputs have.
const PROPERTY: &[u8] = b".note.gnu.property";

/// An object file with this much space, for the machine of the object `like`, or x86-64.
#[must_use]
pub fn padding_object(padding: Padding, like: Option<&[u8]>) -> Vec<u8> {
    let like = like.and_then(Headers::of);
    let machine = like.and_then(|like| half(like.bytes, 18));
    let flags = like.and_then(|like| word(like.bytes, 48));
    let property = like.and_then(|like| {
        let section = like.named(PROPERTY)?;
        Some((like.content(section)?.to_vec(), section.align))
    });
    let mut file = File {
        bytes: vec![0; EHDR],
        headers: vec![[0; 8]],
        names: vec![0],
    };
    let written = elf::SHF_ALLOC.0 | elf::SHF_WRITE.0;
    let data = vec![0; padding.data as usize];
    file.section(b".data", elf::SHT_PROGBITS.0, written, &data, [0, 0, 1, 0]);
    file.section(b".bss", elf::SHT_NOBITS.0, written, &[], [0, 0, 1, 0]);
    file.headers[2][SIZE] = u64::from(padding.bss);
    // Without it the stack would become executable.
    file.section(
        b".note.GNU-stack",
        elf::SHT_PROGBITS.0,
        0,
        &[],
        [0, 0, 1, 0],
    );
    if let Some((note, align)) = property {
        let loaded = elf::SHF_ALLOC.0;
        file.section(PROPERTY, elf::SHT_NOTE.0, loaded, &note, [0, 0, align, 0]);
    }
    let mut strings = vec![0];
    let mut symbols = vec![0; SYMBOL];
    for (name, section, size) in [(PAD_DATA, 1, padding.data), (PAD_BSS, 2, padding.bss)] {
        symbols.extend(
            u32::try_from(strings.len())
                .unwrap_or_default()
                .to_le_bytes(),
        );
        symbols.push(elf::STB_GLOBAL.0 << 4 | elf::STT_OBJECT.0);
        symbols.push(elf::STV_HIDDEN.0);
        symbols.extend(u16::to_le_bytes(section));
        symbols.extend(0u64.to_le_bytes());
        symbols.extend(u64::from(size).to_le_bytes());
        strings.extend(name.bytes());
        strings.push(0);
    }
    let string_table = file.headers.len() as u64 + 1;
    let entry = SYMBOL as u64;
    file.section(
        b".symtab",
        elf::SHT_SYMTAB.0,
        0,
        &symbols,
        [string_table, 1, 8, entry],
    );
    file.section(b".strtab", elf::SHT_STRTAB.0, 0, &strings, [0, 0, 1, 0]);
    file.finish(machine.unwrap_or(elf::EM_X86_64.0), flags.unwrap_or(0))
}

const EHDR: usize = 64;
const SYMBOL: usize = 24;
/// The place of a section's size among the numbers of its header.
const SIZE: usize = 4;

/// A file in the making.
struct File {
    bytes: Vec<u8>,
    /// Name, kind, flags, offset, size, then link and info in one, alignment, size of an entry.
    headers: Vec<[u64; 8]>,
    names: Vec<u8>,
}

impl File {
    /// `rest`: link, info, alignment, size of an entry.
    fn section(&mut self, name: &[u8], kind: u32, flags: u64, content: &[u8], rest: [u64; 4]) {
        while !self.bytes.len().is_multiple_of(8) {
            self.bytes.push(0);
        }
        let name_at = self.names.len() as u64;
        self.names.extend(name);
        self.names.push(0);
        let offset = self.bytes.len() as u64;
        self.bytes.extend(content);
        let [link, info, align, entry] = rest;
        let (kind, size) = (u64::from(kind), content.len() as u64);
        let links = link | info << 32;
        self.headers
            .push([name_at, kind, flags, offset, size, links, align, entry]);
    }

    fn finish(mut self, machine: u16, flags: u32) -> Vec<u8> {
        // Its own name must be in it.
        let names_at = self.headers.len();
        self.section(b".shstrtab", elf::SHT_STRTAB.0, 0, &[], [0, 0, 1, 0]);
        self.headers[names_at][SIZE] = self.names.len() as u64;
        self.bytes.extend(&self.names);
        while !self.bytes.len().is_multiple_of(8) {
            self.bytes.push(0);
        }
        let headers_at = self.bytes.len() as u64;
        for [name, kind, flags, offset, size, links, align, entry] in &self.headers {
            self.bytes.extend((name | kind << 32).to_le_bytes());
            for number in [flags, &0, offset, size, links, align, entry] {
                self.bytes.extend(number.to_le_bytes());
            }
        }
        let halves = |bytes: &mut [u8], at: usize, value: &[u8]| {
            bytes[at..at + value.len()].copy_from_slice(value);
        };
        let out = &mut self.bytes[..EHDR];
        let (class, order) = (elf::ELFCLASS64.0, elf::ELFDATA2LSB.0);
        halves(
            out,
            0,
            &[0x7f, b'E', b'L', b'F', class, order, elf::EV_CURRENT.0],
        );
        halves(out, 16, &elf::ET_REL.0.to_le_bytes());
        halves(out, 18, &machine.to_le_bytes());
        halves(out, 20, &1u32.to_le_bytes());
        halves(out, 40, &headers_at.to_le_bytes());
        halves(out, 48, &flags.to_le_bytes());
        halves(out, 52, &(EHDR as u16).to_le_bytes());
        halves(out, 58, &64u16.to_le_bytes());
        halves(out, 60, &(self.headers.len() as u16).to_le_bytes());
        halves(out, 62, &(names_at as u16).to_le_bytes());
        self.bytes
    }
}
