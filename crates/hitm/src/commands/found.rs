//! What was found in binaries, for people and for programs: where it is written.
//!
//! That nobody reads stdout any more is no error, and no end: what is found decides about the exit code all the same, so
//! that `hitm check … | head` is still a gate.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::replace::replace;

/// What documents are written to.
pub(super) type Out = BufWriter<Box<dyn Write>>;

/// Where a document for programs goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum To<'a> {
    /// To stdout, which nothing else may be written to then.
    Stdout,
    /// To a file.
    File(&'a Path),
}

impl<'a> To<'a> {
    /// What a flag such as `--json[=FILE]` means; `None` if it was not given.
    pub(super) fn of(given: Option<&'a Option<PathBuf>>) -> Option<Self> {
        let path = given?.as_deref();
        Some(match path.filter(|path| path.as_os_str() != "-") {
            Some(path) => Self::File(path),
            None => Self::Stdout,
        })
    }
}

/// Writes a document for programs; `flag` is what to give another place with.
pub(super) fn document(
    to: To<'_>,
    flag: &str,
    write: impl FnOnce(&mut Out) -> io::Result<()>,
) -> anyhow::Result<()> {
    let through = |inner: Box<dyn Write>| -> io::Result<()> {
        let mut out = BufWriter::new(inner);
        write(&mut out)?;
        out.flush()
    };
    match to {
        To::Stdout => unless_nobody_reads(through(Box::new(io::stdout().lock()))),
        To::File(path) => replace(path, |file| through(Box::new(file))).with_context(|| {
            let shown = path.display();
            format!("cannot write {shown} (give another place: {flag}=FILE)")
        }),
    }
}

/// Writes a text for people to stdout.
pub(super) fn text(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> anyhow::Result<()> {
    let mut text = Vec::new();
    write(&mut text)?;
    let mut out = anstream::stdout().lock();
    unless_nobody_reads(out.write_all(&text).and_then(|()| out.flush()))
}

/// The document where it was asked for, and the table unless the document has stdout to itself.
pub(super) fn show(
    json: Option<To<'_>>,
    document: impl FnOnce(&mut Out) -> io::Result<()>,
    table: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
) -> anyhow::Result<()> {
    let written = json.map_or(Ok(()), |to| self::document(to, "--json", document));
    // A document that cannot be written must not take the table with it.
    if json != Some(To::Stdout) {
        text(table)?;
    }
    written
}

fn unless_nobody_reads(written: io::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to stdout"),
    }
}
