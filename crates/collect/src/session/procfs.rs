//! The running processes through `/proc` and `process_vm_readv`.

use std::{
    fs::{self, File},
    io::IoSliceMut,
    os::unix::fs::{FileExt as _, MetadataExt as _},
};

use hitm_model::{Avma, AvmaRange, BuildId, Mapping, MappingKind, Nanos, Pid, Tid};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use rustc_hash::FxHashMap;

use super::{
    build_id,
    world::{Standing, World},
};
use crate::{clock, mapping::mapping_kind};

/// Files whose build-id is remembered.
const MOST_FILES: usize = 4096;

/// The live processes of this machine.
#[derive(Debug, Default)]
pub struct ProcFs {
    /// By device, inode, size and time of change.
    build_ids: FxHashMap<(u64, u64, u64, i64), Option<BuildId>>,
}

impl ProcFs {
    /// The processes that run now.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl World for ProcFs {
    fn now(&self) -> Nanos {
        clock::now()
    }

    fn mappings(&self, pid: Pid) -> Vec<Mapping> {
        let text = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        String::from_utf8_lossy(&text)
            .lines()
            .filter_map(parse_maps_line)
            .collect()
    }

    fn threads(&self, pid: Pid) -> Vec<Tid> {
        let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else {
            return Vec::new();
        };
        entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok().map(Tid))
            .collect()
    }

    fn thread_name(&self, pid: Pid, tid: Tid) -> Option<String> {
        let name = fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
        let name = name.strip_suffix(b"\n").unwrap_or(&name);
        Some(String::from_utf8_lossy(name).into_owned())
    }

    fn build_id(&mut self, pid: Pid, mapping: &Mapping) -> Option<BuildId> {
        let file = open(pid, mapping)?;
        let metadata = file.metadata().ok().filter(|m| m.is_file())?;
        let key = (
            metadata.dev(),
            metadata.ino(),
            metadata.size(),
            metadata.mtime_nsec() ^ metadata.mtime().wrapping_mul(1_000_000_000),
        );
        if let Some(known) = self.build_ids.get(&key) {
            return known.clone();
        }
        let found = build_id::find(&|offset, len| read_file(&file, offset, len));
        if self.build_ids.len() >= MOST_FILES {
            self.build_ids.clear();
        }
        self.build_ids.insert(key, found.clone());
        found
    }

    fn read(&self, pid: Pid, at: Avma, buffer: &mut [u8]) -> usize {
        let remote = RemoteIoVec {
            base: at.0 as usize,
            len: buffer.len(),
        };
        let pid = nix::unistd::Pid::from_raw(pid.0.cast_signed());
        process_vm_readv(pid, &mut [IoSliceMut::new(buffer)], &[remote]).unwrap_or(0)
    }

    fn standing(&self, pid: Pid, tid: Tid) -> Option<Standing> {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
        parse_syscall(&text)
    }

    fn file(&self, pid: Pid, mapping: &Mapping, offset: u64, len: usize) -> Option<Vec<u8>> {
        read_file(&open(pid, mapping)?, offset, len)
    }
}

/// The mapped file itself where that is allowed, else what has its path in the process's file system, else in ours.
fn open(pid: Pid, mapping: &Mapping) -> Option<File> {
    let MappingKind::File { path, .. } = &mapping.kind else {
        return None;
    };
    let AvmaRange { start, end } = mapping.range;
    File::open(format!("/proc/{pid}/map_files/{:x}-{:x}", start.0, end.0))
        .or_else(|_| regular(format!("/proc/{pid}/root{path}")))
        .or_else(|_| regular(path.clone()))
        .ok()
}

/// Opening a device or a pipe could block or do things.
fn regular(path: String) -> std::io::Result<File> {
    if fs::metadata(&path)?.is_file() {
        File::open(path)
    } else {
        Err(std::io::ErrorKind::InvalidInput.into())
    }
}

fn read_file(file: &File, offset: u64, len: usize) -> Option<Vec<u8>> {
    let left = file.metadata().ok()?.len().checked_sub(offset)?;
    let mut bytes = vec![0; len.min(usize::try_from(left).ok()?)];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

/// `7f5c-7f5d r-xp 00001000 fd:00 1234    /usr/lib/libc.so.6`
fn parse_maps_line(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let rights = fields.next()?;
    let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
    let (_device, _inode) = (fields.next()?, fields.next()?);
    let name = fields.next().unwrap_or_default().trim_start();
    let address = |text| u64::from_str_radix(text, 16).ok().map(Avma);
    Some(Mapping {
        range: AvmaRange::new(address(start)?, address(end)?),
        // The kernel writes a line break in a name as an octal number, and nothing else.
        kind: mapping_kind(&name.replace("\\012", "\n"), offset),
        executable: rights.as_bytes().get(2) == Some(&b'x'),
        writable: rights.as_bytes().get(1) == Some(&b'w'),
    })
}

/// `202 0x7f… 0x189 … sp ip`, `-1 sp ip` when blocked outside a system call, or `running`.
fn parse_syscall(text: &str) -> Option<Standing> {
    let mut fields = text.split_whitespace().rev();
    let mut address = || {
        let digits = fields.next()?.strip_prefix("0x")?;
        u64::from_str_radix(digits, 16).ok().map(Avma)
    };
    let (ip, sp) = (address()?, address()?);
    Some(Standing { sp, ip })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps_are_read() {
        let mapping = parse_maps_line(
            "7f00-8f00 r-xp 00002000 fd:00 12                      /usr/lib/a b\\012c.so (deleted)",
        )
        .unwrap();
        assert_eq!(mapping.range, AvmaRange::new(Avma(0x7f00), Avma(0x8f00)));
        assert!(mapping.executable && !mapping.writable);
        assert_eq!(mapping.kind, mapping_kind("/usr/lib/a b\nc.so", 0x2000));
        let kind = |line| parse_maps_line(line).map(|mapping| mapping.kind);
        assert_eq!(kind("1-2 rw-p 0 0:0 0"), Some(MappingKind::Anonymous));
        assert_eq!(kind("1-2 rw-p 0 0:0 0    [heap]"), Some(MappingKind::Heap));
        assert_eq!(
            kind("1-2 rw-p 0 0:0 0  [stack]"),
            Some(MappingKind::MainStack)
        );
        assert_eq!(
            kind("1-2 r-xp 0 0:0 0  [vdso]"),
            Some(MappingKind::Special("[vdso]".into()))
        );
        assert_eq!(kind("nonsense"), None);
    }

    #[test]
    fn sleeping_threads_stand_somewhere() {
        let standing = Some(Standing {
            sp: Avma(0x7ffc),
            ip: Avma(0x7f01),
        });
        assert_eq!(
            parse_syscall("202 0x1 0x2 0x3 0x0 0x0 0x6 0x7ffc 0x7f01\n"),
            standing
        );
        assert_eq!(parse_syscall("-1 0x7ffc 0x7f01"), standing);
        assert_eq!(parse_syscall("running\n"), None);
        assert_eq!(parse_syscall(""), None);
    }
}
