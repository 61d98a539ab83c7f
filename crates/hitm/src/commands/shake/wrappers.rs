//! Scripts that stand before compilers and linkers in a build, and the environment in which they are found.
//!
//! A linker is called by a compiler, as a rule: it finds ours in the directories of `-B` and `COMPILER_PATH`. rustc brings a
//! `-B` of its own, which comes before `COMPILER_PATH`, so the compilers in `PATH` get a script that gives ours first.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use hitm_model::shell_word;

use super::linker::is_executable;
use super::place::{Layout, MARK};

/// Linkers that a compiler may be told to use, whether or not `PATH` has them.
const LINKERS: [&str; 6] = ["ld", "ld.bfd", "ld.gold", "ld.lld", "ld.mold", "mold"];

/// Writes the scripts.
pub(super) fn install(place: &Layout, data_sections: bool) -> anyhow::Result<()> {
    let path = std::env::var("PATH").context("PATH is not set, or no text")?;
    let hitm = std::env::current_exe().context("cannot tell where hitm itself is")?;
    let mut linkers: BTreeSet<String> = LINKERS.map(str::to_owned).into();
    let mut compilers: BTreeSet<String> = BTreeSet::new();
    for folder in std::env::split_paths(&path).filter(|folder| folder.is_absolute()) {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if !is_executable(&entry.path()) {
                continue;
            }
            if is_linker(&name) {
                linkers.insert(name);
            } else if is_compiler(&name) && compilers.insert(name.clone()) {
                let script = compiler(&entry.path(), place, &path, data_sections);
                write(&place.compilers().join(&name), &script)?;
            }
        }
    }
    for name in linkers {
        let words = [
            shown(&hitm),
            "shake-linker".into(),
            shown(place.root()),
            name.clone(),
        ];
        let script = format!(
            "#!/bin/sh\nexec {} -- \"$@\"\n",
            hitm_model::shell_command(&words)
        );
        write(&place.linkers().join(&name), &script)?;
    }
    Ok(())
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// The script before a compiler. What it starts looks for programs where it would without us: a cache of compilers that
/// looks for the next one of its name would find this script again.
fn compiler(real: &Path, place: &Layout, path: &str, data_sections: bool) -> String {
    let more = if data_sections {
        " -fdata-sections"
    } else {
        ""
    };
    format!(
        "#!/bin/sh\nPATH={} exec {} -B{}/{more} \"$@\"\n",
        shell_word(path),
        shell_word(&shown(real)),
        shell_word(&shown(&place.linkers())),
    )
}

fn write(path: &Path, script: &str) -> anyhow::Result<()> {
    let written = fs::write(path, script)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o755)));
    written.with_context(|| format!("cannot write {} (is there room in TMPDIR?)", path.display()))
}

/// `gcc`, `x86_64-linux-gnu-g++-12`, `clang++-19`.
fn is_compiler(name: &str) -> bool {
    const NAMES: [&str; 6] = ["cc", "c++", "gcc", "g++", "clang", "clang++"];
    let is_version =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let plain = match name.rsplit_once('-') {
        Some((plain, version)) if is_version(version) => plain,
        _ => name,
    };
    let last = plain.rsplit_once('-').map_or(plain, |(_, last)| last);
    NAMES.contains(&last)
}

/// `ld`, `x86_64-linux-gnu-ld.bfd`.
fn is_linker(name: &str) -> bool {
    let last = name.rsplit_once('-').map_or(name, |(_, last)| last);
    LINKERS.contains(&last)
}

/// The variables of a build.
pub(super) fn variables(place: &Layout, target: &Path) -> Vec<(OsString, OsString)> {
    let list = |first: &[&Path], variable: &str| -> OsString {
        let rest = std::env::var_os(variable).unwrap_or_default();
        let first = first.iter().map(|path| path.as_os_str());
        let all: Vec<&OsStr> = first
            .chain((!rest.is_empty()).then_some(rest.as_os_str()))
            .collect();
        all.join(OsStr::new(":"))
    };
    let (compilers, linkers) = (place.compilers(), place.linkers());
    [
        ("PATH", list(&[&compilers, &linkers], "PATH")),
        ("COMPILER_PATH", list(&[&linkers], "COMPILER_PATH")),
        ("TMPDIR", place.tmp().into()),
        // One of the user's would be written to.
        ("CARGO_TARGET_DIR", target.into()),
        (MARK, place.root().into()),
    ]
    .map(|(name, value)| (OsString::from(name), value))
    .into()
}

/// Whether a program begins as an ELF file does.
pub(super) fn is_elf(path: &Path) -> bool {
    use io::Read as _;
    let mut magic = [0; 4];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    fs::metadata(path).is_ok_and(|it| it.is_file()) && read.is_ok() && magic == *b"\x7fELF"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilers_and_linkers_are_told_by_their_names() {
        for name in [
            "cc",
            "gcc",
            "g++-12",
            "clang++",
            "x86_64-linux-gnu-gcc-12",
            "clang-19.1",
        ] {
            assert!(is_compiler(name) && !is_linker(name), "{name}");
        }
        for name in ["ld", "ld.gold", "aarch64-linux-gnu-ld", "ld.lld"] {
            assert!(is_linker(name) && !is_compiler(name), "{name}");
        }
        for name in [
            "gcc-ar",
            "clang-format",
            "ccache",
            "ldd",
            "gcc-nm-12",
            "clang-tidy-19",
        ] {
            assert!(!is_compiler(name) && !is_linker(name), "{name}");
        }
    }
}
