//! What is said of the machine: its name, the processors that may be used, and the size of its lines.

use std::fs;

use anyhow::{Context as _, Result};
use hitm_counters::line;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use schemars::JsonSchema;
use serde::Serialize;

/// The machine, as far as it matters.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Machine {
    /// The processor's name.
    pub(crate) processor: String,
    /// How many processors this process may use.
    pub(crate) processors: usize,
    /// The line size that padded counters are laid out by, in bytes.
    pub(crate) line_size_bytes: usize,
    /// Where that is from.
    pub(crate) line_size_from: LineSizeFrom,
    /// The numbers of the processors.
    #[serde(skip)]
    pub(crate) cpus: Vec<usize>,
}

/// Where a line size is from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LineSizeFrom {
    /// The kernel: `coherency_line_size`.
    Sysfs,
    /// The command line.
    Option,
    /// The kernel does not say: a size that is large enough for all processors of this kind.
    Assumed,
}

impl Machine {
    /// Looks at the machine; `line_size` is what the command line says.
    pub(crate) fn look(line_size: Option<usize>) -> Result<Self> {
        let (line_size_bytes, line_size_from) = match (line_size, line::of_this_machine()) {
            (Some(size), _) => (size, LineSizeFrom::Option),
            (None, Ok(size)) => (size, LineSizeFrom::Sysfs),
            (None, Err(_)) => (line::APART, LineSizeFrom::Assumed),
        };
        let cpus = allowed_cpus()?;
        Ok(Self {
            processor: processor(),
            processors: cpus.len(),
            line_size_bytes,
            line_size_from,
            cpus,
        })
    }

    /// Puts the calling thread on one of the processors.
    pub(crate) fn pin(&self, thread: usize) -> Result<()> {
        let cpu = self.cpus[thread % self.cpus.len()];
        let mut set = CpuSet::new();
        set.set(cpu)?;
        sched_setaffinity(Pid::from_raw(0), &set)
            .with_context(|| format!("cannot put a thread on processor {cpu}: try without --pin"))
    }
}

impl LineSizeFrom {
    /// The words for it.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Sysfs => "coherency_line_size",
            Self::Option => "--line-size",
            Self::Assumed => "assumed, the kernel does not say: --line-size sets it",
        }
    }
}

fn allowed_cpus() -> Result<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(0)).context("cannot ask for the processors")?;
    Ok((0..CpuSet::count())
        .filter(|&cpu| set.is_set(cpu).unwrap_or(false))
        .collect())
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text
        .lines()
        .find(|line| line.starts_with("model name"))
        .and_then(|line| line.split_once(':'));
    name.map_or("unknown processor", |(_, name)| name.trim())
        .to_owned()
}
