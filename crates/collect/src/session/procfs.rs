//! The running processes through `/proc` and `process_vm_readv`.

use std::{
    cell::RefCell,
    fs::{self, File},
    io::IoSliceMut,
    os::unix::fs::{FileExt as _, MetadataExt as _},
};

use hitm_binary::image::content_id;
use hitm_model::{Avma, AvmaRange, BuildId, Mapping, MappingKind, Nanos, Pid, Tid};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use rustc_hash::FxHashMap;

use super::{
    build_id,
    stopped::{self, Stopped},
    world::{Standing, World},
};
use crate::{clock, mapping::MapsLine};

/// Files whose build-id is remembered.
const MOST_FILES: usize = 4096;

/// The live processes of this machine.
#[derive(Debug, Default)]
pub struct ProcFs {
    /// By device, inode, size and time of change.
    build_ids: FxHashMap<(u64, u64, u64, i64), Option<BuildId>>,
    inodes: RefCell<Inodes>,
}

/// Which file is mapped where in the process that was asked about last.
#[derive(Debug, Default)]
struct Inodes {
    pid: Option<Pid>,
    by_start: FxHashMap<Avma, u64>,
}

impl Inodes {
    /// The number of the file that is mapped from `start` on; `None` if nothing is, or nothing is known.
    fn get(&mut self, pid: Pid, start: Avma) -> Option<u64> {
        if self.pid == Some(pid)
            && let Some(&known) = self.by_start.get(&start)
        {
            return Some(known);
        }
        let text = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        self.by_start = String::from_utf8_lossy(&text)
            .lines()
            .filter_map(parse_inode)
            .collect();
        self.pid = Some(pid);
        self.by_start.get(&start).copied()
    }
}

/// Stands for the build-id of a file that cannot be had any more: no file is the recorded one, so none gives names.
const GONE: &[u8] = b"gone";

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
        let file = match self.open(pid, mapping) {
            Opened::Mapped(file) => file,
            Opened::Replaced => return Some(BuildId(GONE.to_vec())),
            Opened::Unknown => return None,
        };
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
        let found = build_id::find(&|offset, len| read_file(&file, offset, len))
            .or_else(|| identity_of(&file, metadata.size()));
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

    fn registers(&self, pid: Pid, tid: Tid) -> Option<Stopped> {
        stopped::registers(pid, tid)
    }

    fn file(&self, pid: Pid, mapping: &Mapping, offset: u64, len: usize) -> Option<Vec<u8>> {
        match self.open(pid, mapping) {
            Opened::Mapped(file) => read_file(&file, offset, len),
            Opened::Replaced | Opened::Unknown => None,
        }
    }
}

/// What came of looking for a mapped file.
enum Opened {
    /// It is this one.
    Mapped(File),
    /// It is none of those that have its path now.
    Replaced,
    /// There is none, or it cannot be opened.
    Unknown,
}

impl ProcFs {
    /// The mapped file itself where that is allowed, else what has its path in the process's file system, else in
    /// ours: if it is the one that is mapped, as far as that can be told.
    fn open(&self, pid: Pid, mapping: &Mapping) -> Opened {
        let MappingKind::File { path, .. } = &mapping.kind else {
            return Opened::Unknown;
        };
        let AvmaRange { start, end } = mapping.range;
        let itself = format!("/proc/{pid}/map_files/{:x}-{:x}", start.0, end.0);
        if let Ok(file) = regular(itself) {
            return Opened::Mapped(file);
        }
        let mapped = self.inodes.borrow_mut().get(pid, start);
        let mut replaced = false;
        for path in [format!("/proc/{pid}/root{path}"), path.clone()] {
            let Ok(file) = regular(path) else { continue };
            let inode = file.metadata().map(|metadata| metadata.ino()).ok();
            if mapped.is_none() || inode == mapped {
                return Opened::Mapped(file);
            }
            replaced = true;
        }
        if replaced {
            Opened::Replaced
        } else {
            Opened::Unknown
        }
    }
}

/// What stands for the build-id of an ELF file without one.
fn identity_of(file: &File, len: u64) -> Option<BuildId> {
    if !read_file(file, 0, 4)?.starts_with(b"\x7fELF") {
        return None;
    }
    content_id(len, &mut |offset, buffer| {
        file.read_exact_at(buffer, offset).is_ok()
    })
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

/// The start and the inode of a mapping of a file.
fn parse_inode(line: &str) -> Option<(Avma, u64)> {
    let line = MapsLine::parse(line)?;
    (line.inode != 0).then_some((line.range.start, line.inode))
}

fn parse_maps_line(line: &str) -> Option<Mapping> {
    MapsLine::parse(line).map(|line| line.mapping())
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
    use crate::mapping::mapping_kind;

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
