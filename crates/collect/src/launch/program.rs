//! Which file a command means, and whether it is a program that can be decoded.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read as _},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{MetadataExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
};

use nix::{
    sys::{
        stat::Mode,
        statvfs::{FsFlags, statvfs},
    },
    unistd::{getegid, geteuid},
};

use crate::CollectError;

/// Where commands are looked for when the environment does not say.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A script's interpreter may be a script again, as often as the kernel allows.
const INTERPRETERS: usize = 5;

/// The file that `command` means, searched as a shell would.
pub(super) fn find(
    command: &[OsString],
    environment: &[(OsString, OsString)],
) -> Result<PathBuf, CollectError> {
    let not_found = |command: &OsStr| CollectError::CommandNotFound {
        command: command.to_string_lossy().into_owned(),
    };
    let Some(name) = command.first().filter(|name| !name.is_empty()) else {
        return Err(not_found(OsStr::new("")));
    };
    if name.as_bytes().contains(&b'/') {
        return match std::fs::metadata(name) {
            Ok(metadata) => executable(Path::new(name), &metadata).map(|()| name.into()),
            Err(_) => Err(not_found(name)),
        };
    }
    let path = environment
        .iter()
        .find(|(variable, _)| variable == "PATH")
        .map_or(OsStr::new(DEFAULT_PATH), |(_, path)| path);
    let mut refused = None;
    for directory in std::env::split_paths(path) {
        // An empty element means the current directory.
        let file = Path::new(".").join(directory).join(name);
        let Ok(metadata) = std::fs::metadata(&file) else {
            continue;
        };
        match executable(&file, &metadata) {
            Ok(()) => return Ok(file),
            Err(error) if metadata.is_file() => refused = refused.or(Some(error)),
            Err(_) => {}
        }
    }
    Err(refused.unwrap_or_else(|| not_found(name)))
}

fn executable(path: &Path, metadata: &std::fs::Metadata) -> Result<(), CollectError> {
    let refused = |kind: io::ErrorKind| {
        Err(CollectError::NotExecutable {
            path: path.to_owned(),
            source: kind.into(),
        })
    };
    if metadata.is_dir() {
        refused(io::ErrorKind::IsADirectory)
    } else if metadata.permissions().mode() & 0o111 == 0 {
        refused(io::ErrorKind::PermissionDenied)
    } else {
        Ok(())
    }
}

/// Whether `path` is a 64-bit x86 program, or a script run by one.
pub(crate) fn check(path: &Path) -> Result<(), CollectError> {
    let mut path = path.to_owned();
    for _ in 0..INTERPRETERS {
        // What may be executed but not read is not checked.
        let Ok(head) = head(&path) else {
            return Ok(());
        };
        match recognise(&head) {
            Kind::Native => return Ok(()),
            Kind::Script(interpreter) if !interpreter.exists() => {
                let interpreter = Some(interpreter);
                return Err(CollectError::NoInterpreter { path, interpreter });
            }
            Kind::Script(interpreter) => path = interpreter,
            Kind::Foreign(what) => return Err(CollectError::WrongArchitecture { path, what }),
            Kind::Unknown => return Err(CollectError::BadFormat { path }),
        }
    }
    Ok(())
}

/// Whether `path` starts as this user. Nobody may look into a program that changes it, by whatever sampler.
pub(super) fn check_user(path: &Path) -> Result<(), CollectError> {
    let Ok(metadata) = std::fs::metadata(path) else {
        return Ok(());
    };
    let mode = Mode::from_bits_truncate(metadata.mode());
    let other_user = mode.contains(Mode::S_ISUID) && metadata.uid() != geteuid().as_raw();
    let other_group =
        mode.contains(Mode::S_ISGID | Mode::S_IXGRP) && metadata.gid() != getegid().as_raw();
    if (other_user || other_group) && !bits_are_ignored(path) {
        return Err(CollectError::SetUser {
            path: path.to_owned(),
        });
    }
    Ok(())
}

/// Whether the mount, or a setting of this process, takes the power from such bits.
fn bits_are_ignored(path: &Path) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let no_new_privileges = status
        .lines()
        .filter_map(|line| line.strip_prefix("NoNewPrivs:"))
        .any(|set| set.trim() == "1");
    no_new_privileges || statvfs(path).is_ok_and(|mount| mount.flags().contains(FsFlags::ST_NOSUID))
}

fn head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(256).read_to_end(&mut head)?;
    Ok(head)
}

/// What the first bytes of a file say.
#[derive(PartialEq, Eq, Debug)]
enum Kind {
    Native,
    Script(PathBuf),
    Foreign(String),
    Unknown,
}

fn recognise(head: &[u8]) -> Kind {
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|&b| b == b'\n').next().unwrap_or_default();
        let interpreter = line
            .split(|b| matches!(b, b' ' | b'\t'))
            .find(|word| !word.is_empty());
        return interpreter.map_or(Kind::Unknown, |interpreter| {
            Kind::Script(OsStr::from_bytes(interpreter).into())
        });
    }
    // e_ident: magic, class, data; behind it e_type and e_machine.
    let [0x7f, b'E', b'L', b'F', class, data, ..] = *head else {
        return Kind::Unknown;
    };
    let Some(&[low, high]) = head.get(18..20) else {
        return Kind::Unknown;
    };
    let machine = if data == 2 {
        u16::from_be_bytes([low, high])
    } else {
        u16::from_le_bytes([low, high])
    };
    let name = match machine {
        3 => "x86".to_owned(),
        20 => "PowerPC".to_owned(),
        21 => "64-bit PowerPC".to_owned(),
        22 => "s390".to_owned(),
        40 => "Arm".to_owned(),
        62 => "x86-64".to_owned(),
        183 => "AArch64".to_owned(),
        243 => "RISC-V".to_owned(),
        258 => "LoongArch".to_owned(),
        other => format!("the machine with ELF number {other}"),
    };
    match (class, machine) {
        (2, 62) => Kind::Native,
        (1, 3) => Kind::Foreign("a 32-bit x86 program".into()),
        (1, 62) => Kind::Foreign("an x32 program (32-bit pointers)".into()),
        _ => Kind::Foreign(format!("a program for {name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(class: u8, data: u8, machine: [u8; 2]) -> Vec<u8> {
        let mut bytes = b"\x7fELF".to_vec();
        bytes.extend([class, data]);
        bytes.resize(18, 0);
        bytes.extend(machine);
        bytes
    }

    #[test]
    fn programs_are_told_by_their_first_bytes() {
        let cases = [
            (elf(2, 1, [62, 0]), Kind::Native),
            (
                elf(1, 1, [3, 0]),
                Kind::Foreign("a 32-bit x86 program".into()),
            ),
            (
                elf(1, 1, [62, 0]),
                Kind::Foreign("an x32 program (32-bit pointers)".into()),
            ),
            (
                elf(2, 1, [183, 0]),
                Kind::Foreign("a program for AArch64".into()),
            ),
            (
                elf(2, 2, [0, 22]),
                Kind::Foreign("a program for s390".into()),
            ),
            (b"\x7fELF\x02\x01".to_vec(), Kind::Unknown),
            (b"#! /bin/sh -e\n".to_vec(), Kind::Script("/bin/sh".into())),
            (
                b"#!/usr/bin/env".to_vec(),
                Kind::Script("/usr/bin/env".into()),
            ),
            (b"#!\n/bin/sh".to_vec(), Kind::Unknown),
            (b"hello".to_vec(), Kind::Unknown),
            (Vec::new(), Kind::Unknown),
        ];
        for (head, kind) in cases {
            assert_eq!(recognise(&head), kind, "{head:?}");
        }
    }
}
