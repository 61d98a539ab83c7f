//! Lines of `/proc/PID/maps`, and what the kernel's name of a mapping means; perf's records use the same names.

use hitm_model::{Avma, AvmaRange, Mapping, MappingKind};

/// A line of `/proc/PID/maps`: `55d0c0a00000-55d0c0a21000 r-xp 00002000 fe:01 131    /usr/bin/true`.
pub(crate) struct MapsLine<'t> {
    pub(crate) range: AvmaRange,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    pub(crate) executable: bool,
    pub(crate) offset: u64,
    /// 0 where no file is mapped.
    pub(crate) inode: u64,
    pub(crate) name: &'t str,
}

impl<'t> MapsLine<'t> {
    pub(crate) fn parse(line: &'t str) -> Option<Self> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let rights = fields.next()?.as_bytes();
        let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
        let offset = hexadecimal(fields.next()?)?;
        let (_device, inode) = (fields.next()?, fields.next()?);
        Some(Self {
            range: AvmaRange::new(Avma(hexadecimal(start)?), Avma(hexadecimal(end)?)),
            readable: rights.first() == Some(&b'r'),
            writable: rights.get(1) == Some(&b'w'),
            executable: rights.get(2) == Some(&b'x'),
            offset,
            inode: inode.parse().unwrap_or(0),
            name: fields.next().unwrap_or_default().trim_start(),
        })
    }

    /// What it says is mapped.
    pub(crate) fn mapping(&self) -> Mapping {
        Mapping {
            range: self.range,
            // The kernel writes a line feed in a name as an octal number, and nothing else.
            kind: mapping_kind(&self.name.replace("\\012", "\n"), self.offset),
            executable: self.executable,
            writable: self.writable,
        }
    }
}

/// The kind of a mapping that the kernel calls `name` and that starts at `offset` of its file.
pub(crate) fn mapping_kind(name: &str, offset: u64) -> MappingKind {
    match name {
        "" | "//anon" => MappingKind::Anonymous,
        "[heap]" => MappingKind::Heap,
        "[stack]" => MappingKind::MainStack,
        // Shared anonymous memory is a file of the kernel's own.
        "/dev/zero" | "/dev/zero (deleted)" => MappingKind::Anonymous,
        _ if name.starts_with("[anon") => MappingKind::Anonymous,
        _ if name.starts_with('/') => MappingKind::File {
            // The file that replaced it has the same path; the build-id tells them apart.
            path: name.strip_suffix(" (deleted)").unwrap_or(name).to_owned(),
            offset,
            build_id: None,
        },
        _ => MappingKind::Special(name.to_owned()),
    }
}
