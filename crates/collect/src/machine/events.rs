//! Which perf events and other means of looking into a program this machine grants.
//!
//! Asking is the only way to know: settings, capabilities, seccomp filters and security modules all have a say. So each
//! means is tried on this process itself, and what the kernel answers is kept as it is; what it means is decided in
//! [`refusals`](super::refusals).

use std::fs::File;
use std::io::{IoSliceMut, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::{SigEvent, SigevNotify};
use nix::sys::timer::Timer;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::time::ClockId;
use nix::unistd::Pid;
use perf_event_open_sys::bindings::{
    HW_BREAKPOINT_LEN_8, HW_BREAKPOINT_W, PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_SW_CPU_CLOCK,
    PERF_FLAG_FD_CLOEXEC, PERF_TYPE_BREAKPOINT, PERF_TYPE_HARDWARE, PERF_TYPE_SOFTWARE,
    perf_event_attr,
};
use perf_event_open_sys::perf_event_open;

use super::SystemFiles;
use super::cpus::field;

/// What the kernel says about means of observation, and what it says when they are tried.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Abilities {
    /// The software event `cpu-clock`, user mode only: what `hitm run` samples with.
    pub clock_event: Result<(), Errno>,
    /// The hardware event `cycles`, user mode only: whether there is a PMU.
    pub hardware_event: Result<(), Errno>,
    /// Hardware watchpoints that one thread can have at once, or why not even one.
    pub watchpoints: Result<usize, Errno>,
    /// Reading a process's memory (`process_vm_readv`), tried on this process itself.
    pub read_memory: Result<(), Errno>,
    /// Whether the system call `ptrace` is let through at all.
    pub ptrace: Result<(), Errno>,
    /// A timer of the kind that the preload agent uses.
    pub timer: Result<(), Errno>,
    /// Whether code in a file of the directory for temporary files may be executed, as the preload agent's must.
    pub temporary_code: Result<(), Errno>,
    /// What is configured.
    pub settings: Settings,
}

/// What the kernel's files say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// `kernel.perf_event_paranoid`; `None` also where the kernel has no perf events.
    pub perf_event_paranoid: Option<i32>,
    /// `kernel.perf_event_mlock_kb`: what a user's rings may take.
    pub perf_event_mlock_kb: Option<u64>,
    /// `kernel.yama.ptrace_scope`; `None` where there is no Yama, which restricts nothing.
    pub ptrace_scope: Option<u32>,
    /// Whether this process runs under a seccomp filter.
    pub seccomp_filter: Option<bool>,
    /// Capabilities in effect.
    pub capabilities: Option<Capabilities>,
    /// Sources of samples with memory addresses.
    pub memory_samplers: Vec<MemorySampler>,
}

/// Effective capabilities, as the mask in `/proc/self/status`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities(pub u64);

impl Capabilities {
    const SYS_PTRACE: u32 = 19;
    const SYS_ADMIN: u32 = 21;
    const PERFMON: u32 = 38;

    const fn has(self, number: u32) -> bool {
        self.0 & 1 << number != 0
    }

    /// Whether `perf_event_paranoid` does not apply.
    #[must_use]
    pub const fn perfmon(self) -> bool {
        self.has(Self::PERFMON) || self.has(Self::SYS_ADMIN)
    }

    /// Whether Yama's scopes below 3 do not apply.
    #[must_use]
    pub const fn ptrace(self) -> bool {
        self.has(Self::SYS_PTRACE)
    }
}

/// A unit that samples loads and stores with their addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemorySampler {
    /// Intel's load latency event.
    Pebs,
    /// AMD's instruction-based sampling.
    Ibs,
    /// Arm's statistical profiling extension.
    Spe,
}

impl MemorySampler {
    /// Its name.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Pebs => "PEBS load latency",
            Self::Ibs => "IBS",
            Self::Spe => "SPE",
        }
    }
}

/// Tries everything. `temporary` is the directory for temporary files.
#[must_use]
pub fn abilities(files: &SystemFiles, temporary: &Path) -> Abilities {
    Abilities {
        clock_event: open_event(clock_event()).map(drop),
        hardware_event: open_event(hardware_event()).map(drop),
        watchpoints: watchpoints(),
        read_memory: read_memory(),
        ptrace: ptrace_let_through(),
        timer: Timer::new(
            ClockId::CLOCK_MONOTONIC,
            SigEvent::new(SigevNotify::SigevNone),
        )
        .map(drop),
        temporary_code: temporary_code(temporary),
        settings: settings(files),
    }
}

/// Reads what is configured.
#[must_use]
pub fn settings(files: &SystemFiles) -> Settings {
    let status = files.text("proc/self/status").unwrap_or_default();
    let devices = "sys/bus/event_source/devices";
    let samplers = [
        ("cpu/format/ldlat", MemorySampler::Pebs),
        ("cpu_core/format/ldlat", MemorySampler::Pebs),
        ("ibs_op", MemorySampler::Ibs),
        ("arm_spe_0", MemorySampler::Spe),
    ];
    Settings {
        perf_event_paranoid: files.number("proc/sys/kernel/perf_event_paranoid"),
        perf_event_mlock_kb: files.number("proc/sys/kernel/perf_event_mlock_kb"),
        ptrace_scope: files.number("proc/sys/kernel/yama/ptrace_scope"),
        // 2 is a filter; 1, the strict mode, would not have let us get here.
        seccomp_filter: field(&status, "Seccomp").map(|mode| mode != "0"),
        capabilities: field(&status, "CapEff")
            .and_then(|mask| u64::from_str_radix(mask, 16).ok())
            .map(Capabilities),
        memory_samplers: samplers
            .into_iter()
            .filter(|(path, _)| files.has(format!("{devices}/{path}")))
            .map(|(_, sampler)| sampler)
            .collect(),
    }
}

fn event(kind: u32, config: u64) -> perf_event_attr {
    let mut attributes = perf_event_attr {
        type_: kind,
        config,
        size: size_of::<perf_event_attr>() as u32,
        ..perf_event_attr::default()
    };
    attributes.set_disabled(1);
    attributes.set_exclude_kernel(1);
    attributes.set_exclude_hv(1);
    attributes
}

fn clock_event() -> perf_event_attr {
    event(PERF_TYPE_SOFTWARE, u64::from(PERF_COUNT_SW_CPU_CLOCK))
}

fn hardware_event() -> perf_event_attr {
    event(PERF_TYPE_HARDWARE, u64::from(PERF_COUNT_HW_CPU_CYCLES))
}

fn watchpoint(address: u64) -> perf_event_attr {
    let mut attributes = event(PERF_TYPE_BREAKPOINT, 0);
    attributes.bp_type = HW_BREAKPOINT_W;
    attributes.__bindgen_anon_3.bp_addr = address;
    attributes.__bindgen_anon_4.bp_len = u64::from(HW_BREAKPOINT_LEN_8);
    attributes
}

/// Opens an event of the calling thread, on whatever processor it runs.
#[expect(unsafe_code, reason = "perf_event_open is a raw system call")]
fn open_event(mut attributes: perf_event_attr) -> Result<OwnedFd, Errno> {
    let flags = u64::from(PERF_FLAG_FD_CLOEXEC);
    // SAFETY: the attributes are a live, exclusively borrowed struct whose `size` field is its size; the kernel writes
    // no further than that.
    let fd = unsafe { perf_event_open(&mut attributes, 0, -1, -1, flags) };
    let fd = Errno::result(fd)?;
    // SAFETY: the kernel has just handed out this descriptor, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Opens watchpoints on words of its own until the kernel has no more.
fn watchpoints() -> Result<usize, Errno> {
    // No processor that Linux runs on has more slots than this.
    const MOST: usize = 16;
    let words = [0_u64; MOST];
    let mut open = Vec::new();
    for word in &words {
        match open_event(watchpoint(std::ptr::from_ref(word) as u64)) {
            Ok(fd) => open.push(fd),
            Err(refused) if open.is_empty() => return Err(refused),
            Err(_) => break,
        }
    }
    Ok(open.len())
}

fn read_memory() -> Result<(), Errno> {
    let source = [0x5a_u8; 8];
    let mut copy = [0_u8; 8];
    let remote = RemoteIoVec {
        base: source.as_ptr() as usize,
        len: source.len(),
    };
    process_vm_readv(Pid::this(), &mut [IoSliceMut::new(&mut copy)], &[remote])?;
    if copy == source {
        Ok(())
    } else {
        Err(Errno::EIO)
    }
}

fn ptrace_let_through() -> Result<(), Errno> {
    // We do not trace ourselves, so a kernel that looks at the request at all says that there is no such tracee.
    match ptrace::getevent(Pid::this()) {
        Ok(_) | Err(Errno::ESRCH) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Maps a file of that directory as code.
#[expect(unsafe_code, reason = "mapping a file")]
fn temporary_code(directory: &Path) -> Result<(), Errno> {
    let errno = |error: std::io::Error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
    let mut file: File = tempfile::tempfile_in(directory).map_err(errno)?;
    file.write_all(&[0; 16]).map_err(errno)?;
    // SAFETY: the file has no name, so nobody else can change or shorten it while it is mapped; nothing in it is run.
    unsafe { memmap2::MmapOptions::new().map_exec(&file) }
        .map(drop)
        .map_err(errno)
}
