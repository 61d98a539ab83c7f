//! What kind of machine a recording comes from.

use serde::{Deserialize, Serialize};

use crate::LineSize;

/// The machine, as far as a verdict depends on it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// `x86_64` and the like, as `uname -m` says.
    pub architecture: String,
    /// The processor's name, as the kernel gives it.
    pub processor: String,
    /// The kernel's release.
    pub kernel: String,
    /// Processors that the recorder could have used (its affinity mask).
    pub cpus: u32,
    /// The coherence line size; `None` where the machine does not tell.
    pub line_size: Option<LineSize>,
    /// Whether the processor says that it runs under a hypervisor.
    pub virtual_machine: bool,
}
