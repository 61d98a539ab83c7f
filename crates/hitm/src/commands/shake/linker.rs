//! What a build calls in place of a linker: the linker itself, with a record of what it was told, or told otherwise.
//!
//! Compilers find it through `COMPILER_PATH` and `-B`, makefiles through `PATH`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use super::edit::{self, Edit};
use super::link_line::{makes_program, output, response_words};
use super::place::Layout;
use super::record::Record;
use crate::cli::ShakeLinkerArgs;
use crate::exit_codes::Exit;

/// Links as it was told to; never returns if there is nothing to add.
pub(crate) fn link(args: ShakeLinkerArgs) -> anyhow::Result<Exit> {
    let place = Layout::at(&args.place);
    let linker = real(&args.name, &place).with_context(|| {
        let name = args.name.to_string_lossy();
        format!("there is no {name} on this machine beside the one of hitm shake")
    })?;
    let mut words = Vec::new();
    for word in &args.words {
        match word.to_str().and_then(|word| word.strip_prefix('@')) {
            Some(path) => match fs::read(path) {
                Ok(text) => words.extend(response_words(&text)),
                // What looks like one and is none is a word.
                Err(_) => words.push(word.clone()),
            },
            None => words.push(word.clone()),
        }
    }
    if !makes_program(&words) {
        let error = Command::new(&linker).args(&args.words).exec();
        return Err(error).with_context(|| format!("cannot start {}", linker.display()));
    }
    let edit = Edit::read(&place.edit())?;
    let told = match &edit {
        None => args.words.clone(),
        Some(edit) => {
            let folder = tempfile::Builder::new()
                .prefix("edit-")
                .tempdir_in(place.tmp())?;
            // The linker needs what is in it; all of `tmp` goes in the end.
            edit::edited(*edit, &words, &edit::objects(&words), &folder.keep())?
        }
    };
    let status = Command::new(&linker)
        .args(&told)
        .status()
        .with_context(|| format!("cannot start {}", linker.display()))?;
    let Some(code) = status.code() else {
        bail!("{} was killed: {status}", linker.display());
    };
    if code == 0 && edit.is_none() && output(&words).is_file() {
        Record::make(&place.links(), &place.tmp(), &linker, &words)
            .context("cannot keep what the linker was told (is there room in TMPDIR?)")?;
    }
    // Compilers ask for no more than whether it went well.
    Ok(if code == 0 { Exit::Done } else { Exit::Error })
}

/// The linker of this name that would be found without us: where the compiler looks, beside the compiler, in `PATH`.
fn real(name: &OsStr, place: &Layout) -> Option<PathBuf> {
    let list = |variable| std::env::var_os(variable).unwrap_or_default();
    let (compiler, path) = (list("COMPILER_PATH"), list("PATH"));
    let beside = fs::read_link(format!("/proc/{}/exe", nix::unistd::getppid())).ok();
    let own = place.linkers().canonicalize().ok();
    std::env::split_paths(&compiler)
        .chain(beside.and_then(|exe| Some(exe.parent()?.to_owned())))
        .chain(std::env::split_paths(&path))
        .filter(|folder| folder.is_absolute() && folder.canonicalize().ok() != own)
        .map(|folder| folder.join(name))
        .find(|candidate| is_executable(candidate))
}

pub(super) fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}
