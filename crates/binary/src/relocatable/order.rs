//! Another order of an object file's variables.
//!
//! Compiled with `-fdata-sections`, as Rust always is, each variable has a section of its own, and the linker takes them in
//! the order of their headers. So only headers change places here; what names a section by its number is given the new
//! number.

use object::elf;

use super::headers::{HEADER, Headers, half, word};

/// Section numbers from here on mean something else.
const RESERVED: u16 = 0xff00;
/// The section must come where another one does (gABI, `SHF_LINK_ORDER`).
const LINK_ORDER: u64 = 0x80;

/// An object file with its sections of variables in another order; `draw(n)` gives a number below `n`.
///
/// `None` if there is no other order: fewer than two variables with a section of their own in `.data` and in `.bss`; or
/// if this is no whole object file.
#[must_use]
pub fn reorder_data(object: &[u8], draw: &mut dyn FnMut(usize) -> usize) -> Option<Vec<u8>> {
    let headers = Headers::of(object)?;
    let mut comes_from: Vec<usize> = (0..headers.count).collect();
    let mut moved = false;
    for class in [&b".data"[..], b".bss"] {
        let slots: Vec<usize> = (0..headers.count)
            .filter(|&at| is_movable(&headers, at, class))
            .collect();
        let mut order = slots.clone();
        // Fisher and Yates.
        for last in (1..order.len()).rev() {
            order.swap(last, draw(last + 1).min(last));
        }
        moved |= slots.len() > 1;
        for (slot, from) in slots.iter().zip(order) {
            comes_from[*slot] = from;
        }
    }
    if !moved {
        return None;
    }
    rewrite(&headers, &comes_from)
}

/// Whether a section holds variables of this class and nothing binds it to its place.
fn is_movable(headers: &Headers<'_>, at: usize, class: &[u8]) -> bool {
    let (Some(section), Some(name)) = (headers.section(at), headers.name(at)) else {
        return false;
    };
    let written = elf::SHF_ALLOC.0 | elf::SHF_WRITE.0;
    let bound = elf::SHF_TLS.0 | elf::SHF_GROUP.0 | elf::SHF_MERGE.0 | LINK_ORDER;
    let holds_data = [elf::SHT_PROGBITS.0, elf::SHT_NOBITS.0].contains(&section.kind);
    let rest = name.strip_prefix(class);
    holds_data
        && section.flags & written == written
        && section.flags & bound == 0
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
        // Written by the loader only, and put elsewhere.
        && !name.starts_with(b".data.rel.ro")
}

fn rewrite(headers: &Headers<'_>, comes_from: &[usize]) -> Option<Vec<u8>> {
    let mut goes_to = vec![0; comes_from.len()];
    for (to, from) in comes_from.iter().enumerate() {
        goes_to[*from] = to;
    }
    let new = |number: u32| -> Option<u32> {
        let to = goes_to.get(usize::try_from(number).ok()?)?;
        u32::try_from(*to).ok()
    };
    let mut out = headers.bytes.to_vec();
    for (to, &from) in comes_from.iter().enumerate() {
        let section = headers.section(from)?;
        let mut header = headers.header(from)?.to_vec();
        let link = word(&header, 40)?;
        put(&mut header, 40, &new(link).unwrap_or(link).to_le_bytes())?;
        let names_a_section = [elf::SHT_REL.0, elf::SHT_RELA.0].contains(&section.kind)
            || section.flags & elf::SHF_INFO_LINK.0 != 0;
        if names_a_section {
            let info = word(&header, 44)?;
            put(&mut header, 44, &new(info)?.to_le_bytes())?;
        }
        put(&mut out, headers.start + to * HEADER, &header)?;
        if section.kind == elf::SHT_SYMTAB_SHNDX.0 {
            return None;
        } else if section.kind == elf::SHT_GROUP.0 {
            let range = headers.range(section)?;
            // The first word is of flags.
            for at in (range.start + 4..range.end).step_by(4) {
                let member = word(headers.bytes, at)?;
                put(&mut out, at, &new(member)?.to_le_bytes())?;
            }
        } else if section.kind == elf::SHT_SYMTAB.0 {
            let range = headers.range(section)?;
            const SYMBOL: usize = 24;
            for at in range.step_by(SYMBOL).map(|at| at + 6) {
                let number = half(headers.bytes, at)?;
                if number < RESERVED {
                    let number = u16::try_from(new(u32::from(number))?).ok()?;
                    put(&mut out, at, &number.to_le_bytes())?;
                }
            }
        }
    }
    Some(out)
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) -> Option<()> {
    bytes
        .get_mut(at..at.checked_add(value.len())?)?
        .copy_from_slice(value);
    Some(())
}
