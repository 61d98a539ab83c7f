//! Which processors this process may use, how much of them, and which of them share a core.

use std::collections::BTreeSet;
use std::fmt;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

use super::SystemFiles;

/// The kernel's number of a processor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cpu(pub u32);

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The processors of a list such as `0-3,8,10-11`, as the kernel writes it; `None` if it is not one.
#[must_use]
pub fn parse_cpu_list(text: &str) -> Option<BTreeSet<Cpu>> {
    // No kernel has more processors than this (NR_CPUS); a damaged list must not allocate without bound.
    const MOST: u32 = 1 << 16;
    let mut cpus = BTreeSet::new();
    for part in text
        .trim()
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last >= MOST {
            return None;
        }
        cpus.extend((first..=last).map(Cpu));
    }
    Some(cpus)
}

/// The processors in the affinity mask of the calling thread, in order; empty where the machine does not tell.
#[must_use]
pub fn allowed_cpus(files: &SystemFiles) -> Vec<Cpu> {
    // The kernel refuses a mask that is too small for all its processors: then its text has them.
    if let Ok(set) = sched_getaffinity(Pid::from_raw(0)) {
        return (0..CpuSet::count())
            .filter(|&cpu| set.is_set(cpu).unwrap_or(false))
            .map(|cpu| Cpu(cpu as u32))
            .collect();
    }
    let status = files.text("proc/thread-self/status").unwrap_or_default();
    let allowed = field(&status, "Cpus_allowed_list").and_then(parse_cpu_list);
    let online = files
        .text("sys/devices/system/cpu/online")
        .and_then(|list| parse_cpu_list(&list));
    match (allowed, online) {
        (Some(allowed), Some(online)) => allowed.intersection(&online).copied().collect(),
        (Some(allowed), None) => allowed.into_iter().collect(),
        (None, _) => Vec::new(),
    }
}

/// The value behind `name:` in a text of such lines (`/proc/self/status`, `/proc/cpuinfo`): the first one.
#[must_use]
pub(super) fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// The allowed processors that share a core with another allowed one, core by core; empty where none do, `None` where
/// the machine does not tell.
#[must_use]
pub fn shared_cores(files: &SystemFiles, allowed: &[Cpu]) -> Option<Vec<Vec<Cpu>>> {
    let mut cores = BTreeSet::new();
    for cpu in allowed {
        let topology = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        // The first name is the current one, the second the older kernels'.
        let siblings = files
            .text(format!("{topology}/core_cpus_list"))
            .or_else(|| files.text(format!("{topology}/thread_siblings_list")))
            .and_then(|list| parse_cpu_list(&list))?;
        let siblings: Vec<Cpu> = siblings
            .into_iter()
            .filter(|sibling| allowed.contains(sibling))
            .collect();
        if siblings.len() > 1 {
            cores.insert(siblings);
        }
    }
    Some(cores.into_iter().collect())
}

/// Two allowed processors, on different cores if possible; `None` with fewer than two.
#[must_use]
pub fn two_cpus(allowed: &[Cpu], shared_cores: Option<&[Vec<Cpu>]>) -> Option<[Cpu; 2]> {
    let (&first, rest) = allowed.split_first()?;
    let sibling = |cpu: &Cpu| {
        shared_cores
            .unwrap_or_default()
            .iter()
            .any(|core| core.contains(&first) && core.contains(cpu))
    };
    let second = rest
        .iter()
        .find(|cpu| !sibling(cpu))
        .or_else(|| rest.first())?;
    Some([first, *second])
}
