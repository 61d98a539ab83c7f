//! The variables that object files and archives of them define.

use std::collections::HashSet;

use object::elf;
use object::read::archive::ArchiveFile;

use super::headers::{Headers, half, word};

/// Bytes of a symbol.
const SYMBOL: usize = 24;

/// The linker's names of the variables that an object file defines, or the files of an archive.
#[must_use]
pub fn defined_variables(bytes: &[u8]) -> HashSet<String> {
    let mut names = HashSet::new();
    let Ok(archive) = ArchiveFile::parse(bytes) else {
        of_object(bytes, &mut names);
        return names;
    };
    for member in archive.members().flatten() {
        if let Ok(bytes) = member.data(bytes) {
            of_object(bytes, &mut names);
        }
    }
    names
}

fn of_object(bytes: &[u8], names: &mut HashSet<String>) -> Option<()> {
    let headers = Headers::of(bytes)?;
    let symbols = headers.named(b".symtab")?;
    let strings = headers.content(headers.named(b".strtab")?)?;
    for symbol in headers.content(symbols)?.chunks_exact(SYMBOL) {
        let kind = symbol[4] & 0xf;
        let is_variable = [elf::STT_OBJECT.0, elf::STT_COMMON.0].contains(&kind);
        if is_variable && half(symbol, 6)? != elf::SHN_UNDEF.0 {
            let start = usize::try_from(word(symbol, 0)?).ok()?;
            let name = strings.get(start..)?.split(|byte| *byte == 0).next()?;
            names.insert(String::from_utf8_lossy(name).into_owned());
        }
    }
    Some(())
}
