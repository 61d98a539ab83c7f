//! The size of a cache line, from everything on the machine that states one.
//!
//! The kernel's sysfs has it per cache, but the directory is empty in some virtual machines and containers. Then what
//! the processor itself says is left: CPUID through the C library, and `/proc/cpuinfo`.

use std::collections::BTreeMap;
use std::fmt;

use hitm_model::LineSize;

use super::SystemFiles;
use super::cpus::field;

/// A cache, or the set of equal caches, of one level and kind.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CacheKind {
    /// 1 is nearest to the core.
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
}

impl fmt::Display for CacheKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "L{}", self.level)?;
        match self.kind.as_str() {
            "Data" => f.write_str("d"),
            "Instruction" => f.write_str("i"),
            _ => Ok(()),
        }
    }
}

/// Where a line size was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LineSource {
    /// `coherency_line_size` of a cache in sysfs.
    Sysfs(CacheKind),
    /// The C library, which asks the processor (CPUID).
    Sysconf,
    /// `clflush size` in `/proc/cpuinfo`.
    CpuInfo,
}

impl fmt::Display for LineSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sysfs(cache) => write!(f, "{cache} (sysfs)"),
            Self::Sysconf => f.write_str("processor (CPUID)"),
            Self::CpuInfo => f.write_str("kernel (/proc/cpuinfo)"),
        }
    }
}

/// All statements of a line size on this machine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LineSizes {
    /// Each with its source, the most trustworthy first.
    pub stated: Vec<(LineSource, LineSize)>,
}

impl LineSizes {
    /// The coherence granule: the largest line of a cache that holds data, or what else is known.
    ///
    /// The largest, because two values closer than that can meet in at least one cache.
    #[must_use]
    pub fn coherence(&self) -> Option<LineSize> {
        let of_data = self
            .stated
            .iter()
            .filter_map(|(source, size)| match source {
                LineSource::Sysfs(cache) if cache.kind != "Instruction" => Some(*size),
                _ => None,
            });
        of_data
            .max()
            .or_else(|| self.stated.first().map(|(_, size)| *size))
    }

    /// Whether all sources state the same size.
    #[must_use]
    pub fn agree(&self) -> bool {
        self.stated
            .windows(2)
            .all(|pair| matches!(pair, [(_, a), (_, b)] if a == b))
    }
}

/// Reads every statement of a line size.
#[must_use]
pub fn line_sizes(files: &SystemFiles) -> LineSizes {
    let mut stated = Vec::new();
    for (cache, sizes) in sysfs_line_sizes(files) {
        for size in sizes {
            stated.push((LineSource::Sysfs(cache.clone()), size));
        }
    }
    if let Some(size) = sysconf_line_size() {
        stated.push((LineSource::Sysconf, size));
    }
    let cpuinfo = files.text("proc/cpuinfo").unwrap_or_default();
    if let Some(size) = field(&cpuinfo, "clflush size").and_then(parse_line_size) {
        stated.push((LineSource::CpuInfo, size));
    }
    LineSizes { stated }
}

/// The line sizes of sysfs by cache; more than one per cache where processors differ.
fn sysfs_line_sizes(files: &SystemFiles) -> BTreeMap<CacheKind, Vec<LineSize>> {
    let mut found: BTreeMap<CacheKind, Vec<LineSize>> = BTreeMap::new();
    let cpus = "sys/devices/system/cpu";
    for cpu in files.names(cpus) {
        let number = cpu.strip_prefix("cpu").unwrap_or_default();
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        for index in files.names(format!("{cpus}/{cpu}/cache")) {
            let file = |name: &str| files.text(format!("{cpus}/{cpu}/cache/{index}/{name}"));
            let cache = (|| {
                let size = parse_line_size(&file("coherency_line_size")?)?;
                let level = file("level")?.parse().ok()?;
                let kind = file("type")?;
                Some((CacheKind { level, kind }, size))
            })();
            if let Some((cache, size)) = cache {
                let sizes = found.entry(cache).or_default();
                if !sizes.contains(&size) {
                    sizes.push(size);
                }
            }
        }
    }
    found
}

fn parse_line_size(text: &str) -> Option<LineSize> {
    LineSize::new(text.trim().parse().ok()?).ok()
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "sysconf is a foreign function")]
fn sysconf_line_size() -> Option<LineSize> {
    // SAFETY: sysconf takes an integer, returns one, and touches no memory of ours.
    let bytes = unsafe { libc::sysconf(libc::_SC_LEVEL1_DCACHE_LINESIZE) };
    LineSize::new(u32::try_from(bytes).ok()?).ok()
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn sysconf_line_size() -> Option<LineSize> {
    None
}
