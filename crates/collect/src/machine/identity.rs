//! The machine as a recording names it.

use std::thread;

use hitm_model::Machine;
use nix::sys::utsname::uname;

use super::SystemFiles;
use super::cpus::{allowed_cpus, field};
use super::lines::line_sizes;

/// What the recordings made here say about the machine.
#[must_use]
pub fn machine() -> Machine {
    let files = SystemFiles::of_this_machine();
    let (architecture, kernel) = match uname() {
        Ok(names) => (
            names.machine().to_string_lossy().into_owned(),
            names.release().to_string_lossy().into_owned(),
        ),
        Err(_) => (std::env::consts::ARCH.to_owned(), "unknown".to_owned()),
    };
    let processor = processor(&files.text("proc/cpuinfo").unwrap_or_default());
    let allowed = allowed_cpus(&files).len();
    let cpus = match allowed {
        0 => thread::available_parallelism().map_or(1, usize::from),
        known => known,
    };
    Machine {
        architecture,
        processor: processor.name,
        kernel,
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
        line_size: line_sizes(&files).coherence(),
        virtual_machine: processor.hypervisor,
    }
}

/// What `/proc/cpuinfo` says about the first processor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Processor {
    /// Its name, or as much as identifies it.
    pub name: String,
    /// Whether it says that it runs under a hypervisor.
    pub hypervisor: bool,
}

/// Reads `/proc/cpuinfo`; what it does not say is `unknown`.
#[must_use]
pub fn processor(cpuinfo: &str) -> Processor {
    let name = field(cpuinfo, "model name")
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        // Arm kernels give numbers only.
        .or_else(|| {
            let implementer = field(cpuinfo, "CPU implementer")?;
            let part = field(cpuinfo, "CPU part")?;
            Some(format!("implementer {implementer} part {part}"))
        })
        .unwrap_or_else(|| "unknown".to_owned());
    let hypervisor = field(cpuinfo, "flags").is_some_and(|flags| {
        flags
            .split_ascii_whitespace()
            .any(|flag| flag == "hypervisor")
    });
    Processor { name, hypervisor }
}
