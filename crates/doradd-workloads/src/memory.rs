//! How much memory there is for a table, before the system ends the program for taking too much.

use std::fs;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Bytes besides tables: the runtime's window, meters, stacks.
const BESIDES: u64 = 64 << 20;

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Bytes(pub u64);

impl std::fmt::Display for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            n if n >= 1_000_000_000 => write!(f, "{:.1} GB", n as f64 / 1e9),
            n => write!(f, "{:.1} MB", n as f64 / 1e6),
        }
    }
}

/// There is not enough.
#[derive(Error, Clone, PartialEq, Eq, Debug)]
#[error("{what} need {needed}, and {available} are available ({limit}): {remedy}, or free memory")]
pub struct TooLittle {
    /// What was to be made.
    pub what: String,
    /// How much that takes.
    pub needed: Bytes,
    /// How much there is.
    pub available: Bytes,
    /// What sets the limit.
    pub limit: String,
    /// What takes less.
    pub remedy: &'static str,
}

/// What memory is free, and what says so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Available {
    /// How much.
    pub bytes: Bytes,
    /// The machine, or a control group.
    pub limit: String,
}

/// Whether so many bytes can be had. Where the system does not tell, they can.
///
/// # Errors
/// If they cannot.
pub fn check(needed: Bytes, what: String, remedy: &'static str) -> Result<(), TooLittle> {
    let needed = Bytes(needed.0.saturating_add(BESIDES));
    match available(Path::new("/")) {
        Some(available) if available.bytes < needed => Err(TooLittle {
            what,
            needed,
            available: available.bytes,
            limit: available.limit,
            remedy,
        }),
        _ => Ok(()),
    }
}

/// What is free below `root`, which is `/` but in tests: the least of what the machine and the control groups have.
#[must_use]
pub fn available(root: &Path) -> Option<Available> {
    let machine = machine(root).map(|bytes| Available {
        bytes: Bytes(bytes),
        limit: "MemAvailable of the machine".to_owned(),
    });
    groups(root)
        .into_iter()
        .chain(machine)
        .min_by_key(|it| it.bytes)
}

/// `MemAvailable`, in bytes.
fn machine(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// What each control group of this process, and each above it, has left.
fn groups(root: &Path) -> Vec<Available> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut found = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let kind = match controllers {
            "" => V2,
            _ if controllers.split(',').any(|it| it == "memory") => V1,
            _ => continue,
        };
        let top = root.join(kind.top);
        let own = top.join(path.trim_start_matches('/'));
        let mut at: &Path = &own;
        // In a container the path may be that of outside; what is mounted is then found at the top.
        while at.starts_with(&top) {
            found.extend(group(at, &kind));
            let Some(above) = at.parent() else { break };
            at = above;
        }
    }
    found
}

/// The files of a version of control groups.
struct Kind {
    top: &'static str,
    limit: &'static str,
    usage: &'static str,
    /// Of the usage: file pages that are dropped when memory is wanted.
    cache: &'static str,
}

const V2: Kind = Kind {
    top: "sys/fs/cgroup",
    limit: "memory.max",
    usage: "memory.current",
    cache: "inactive_file ",
};
const V1: Kind = Kind {
    top: "sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    cache: "total_inactive_file ",
};

/// What a group has left, if it has a limit.
fn group(path: &Path, kind: &Kind) -> Option<Available> {
    let number = |name: &str| -> Option<u64> {
        fs::read_to_string(path.join(name))
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    let limit = number(kind.limit)?;
    let usage = number(kind.usage)?;
    let stat = fs::read_to_string(path.join("memory.stat")).unwrap_or_default();
    let cache = stat
        .lines()
        .find_map(|line| line.strip_prefix(kind.cache)?.trim().parse::<u64>().ok());
    let free = limit.saturating_sub(usage.saturating_sub(cache.unwrap_or(0)));
    let limit: PathBuf = path.join(kind.limit);
    Some(Available {
        bytes: Bytes(free),
        limit: limit.display().to_string(),
    })
}

/// Memory of this process that is in RAM, in bytes, if the system tells.
#[must_use]
pub fn resident() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}
