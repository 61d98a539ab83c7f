//! The shared libraries that a program is started with, as its own loader finds them.
//!
//! The loader that the program names is asked (`--list`, ld.so(8); musl's knows it too): search paths of the program, of the
//! environment and of the system are its business, and are the side's, as it is asked in the side's environment and
//! directory. Nothing of the program runs. What it loads later by itself (`dlopen`) is not known.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use hitm_collect::trial::{Command, run};
use hitm_model::Nanos;
use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader as _, ProgramHeader as _};

/// A loader needs milliseconds.
const TIMEOUT: Nanos = Nanos::from_millis(10_000);

/// A library that a program asks for, and the file that it gets.
pub(super) type Found = (String, Option<PathBuf>);

/// The libraries of a program, as this loader finds them.
///
/// `in_environment` is a command of the side, of which only variables and directory matter.
pub(super) fn of(program: &Path, loader: &OsStr, in_environment: &Command) -> Vec<Found> {
    let ask = Command {
        words: vec![loader.into(), "--list".into(), program.into()],
        ..in_environment.clone()
    };
    // A loader that says nothing leaves the libraries unknown on both sides.
    run(&ask, Some(TIMEOUT), None, &AtomicBool::new(false))
        .map_or_else(|_| Vec::new(), |run| listed(&run.stdout.text()))
}

/// The loader that a program names; a static one or a script names none.
pub(super) fn loader(bytes: &[u8]) -> Option<OsString> {
    let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, bytes).ok()?;
    let name = segments
        .iter()
        .find_map(|segment| segment.interpreter(endian, bytes).ok().flatten())?;
    Some(OsStr::from_bytes(name).to_owned())
}

/// What a loader lists: `NAME => FILE (ADDRESS)`, `FILE (ADDRESS)`, or `NAME => not found`.
fn listed(text: &str) -> Vec<Found> {
    let without_address = |text: &str| -> String {
        let text = text.trim();
        let end = text.rfind(" (0x").unwrap_or(text.len());
        text[..end].to_owned()
    };
    text.lines()
        .filter_map(|line| match line.split_once(" => ") {
            Some((name, file)) => {
                let file = without_address(file);
                let found = file.starts_with('/').then(|| PathBuf::from(file));
                Some((name.trim().to_owned(), found))
            }
            // The kernel's own library is no file.
            None => {
                let file = without_address(line);
                file.starts_with('/').then(|| {
                    let name = file.rsplit('/').next().unwrap_or(&file).to_owned();
                    (name, Some(PathBuf::from(file)))
                })
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_loaders_list_is_read() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibfoo.so => /a b/libfoo.so (0x00007f)\n\
                    \tlibbar.so.2 => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let found = |name: &str, path: Option<&str>| (name.to_owned(), path.map(PathBuf::from));
        assert_eq!(
            listed(text),
            [
                found("libfoo.so", Some("/a b/libfoo.so")),
                found("libbar.so.2", None),
                found("ld-linux-x86-64.so.2", Some("/lib64/ld-linux-x86-64.so.2")),
            ]
        );
        assert_eq!(listed("\tstatically linked\n"), []);
    }

    #[test]
    fn a_file_without_a_loader_has_no_libraries() {
        for bytes in [&b"#!/bin/sh\n"[..], b"\x7fELF", b""] {
            assert_eq!(loader(bytes), None);
        }
    }
}
