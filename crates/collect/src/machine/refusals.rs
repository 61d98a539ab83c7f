//! What a refusal means, and what to type next: decisions over what [`events`](super::events) found, no probing here.

use std::fmt;

use nix::errno::Errno;

use super::events::{Abilities, MemorySampler, Settings};

/// Why `perf_event_open` says no.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// `kernel.perf_event_paranoid` is too high for this user.
    Paranoid(i32),
    /// A filter around this process, as containers have it, keeps the call from the kernel.
    Seccomp,
    /// A security module says no.
    SecurityModule,
    /// The kernel has no perf events.
    NotInKernel,
    /// The processor, or what the hypervisor shows of it, does not have it.
    NotInHardware,
    /// Somebody else has all of them.
    InUse,
    /// Anything else.
    Other(Errno),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paranoid(level) => write!(f, "kernel.perf_event_paranoid is {level}"),
            Self::Seccomp => {
                f.write_str("a seccomp filter (a container's default profile) refuses it")
            }
            Self::SecurityModule => f.write_str("a security module refuses it"),
            Self::NotInKernel => f.write_str("the kernel does not have it"),
            Self::NotInHardware => f.write_str("this (virtual) processor does not have it"),
            Self::InUse => f.write_str("another program uses all of them"),
            Self::Other(errno) => write!(f, "the kernel says: {}", errno.desc()),
        }
    }
}

impl Refusal {
    /// What to type, or to do, to have it granted; `None` where nothing helps.
    #[must_use]
    pub const fn remedy(self) -> Option<&'static str> {
        match self {
            Self::Paranoid(_) => Some("sudo sysctl kernel.perf_event_paranoid=2"),
            Self::Seccomp => Some(
                "docker run --cap-add PERFMON … (older Docker: --security-opt seccomp=unconfined)",
            ),
            Self::SecurityModule => Some("sudo dmesg | grep -i denied"),
            Self::InUse => Some("sudo lsof | grep perf_event"),
            Self::Other(_) => Some("uname -r; sudo dmesg | tail"),
            Self::NotInKernel | Self::NotInHardware => None,
        }
    }
}

/// Why opening an event failed with `errno`.
#[must_use]
pub fn refusal(errno: Errno, settings: &Settings) -> Refusal {
    let exempt = settings.capabilities.is_some_and(|caps| caps.perfmon());
    match (errno, settings.perf_event_paranoid) {
        // The file is there exactly where the kernel has perf events, but a container may hide it.
        (Errno::ENOSYS, Some(_)) => Refusal::Seccomp,
        (Errno::ENOSYS, None) if settings.seccomp_filter == Some(true) => Refusal::Seccomp,
        (Errno::ENOSYS, None) => Refusal::NotInKernel,
        // Debian's and Android's level 3 refuses everything; the kernel's own levels grant user-mode events.
        (Errno::EACCES | Errno::EPERM, Some(level)) if level > 2 && !exempt => {
            Refusal::Paranoid(level)
        }
        (Errno::EACCES | Errno::EPERM, _) if settings.seccomp_filter == Some(true) => {
            Refusal::Seccomp
        }
        (Errno::EACCES | Errno::EPERM, _) => Refusal::SecurityModule,
        (Errno::ENOENT | Errno::ENODEV | Errno::EOPNOTSUPP | Errno::EINVAL, _) => {
            Refusal::NotInHardware
        }
        (Errno::ENOSPC | Errno::EBUSY, _) => Refusal::InUse,
        (errno, _) => Refusal::Other(errno),
    }
}

/// Whether a means works, and if not, why and what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Whether it works.
    pub works: bool,
    /// What was found, in a few words.
    pub because: String,
    /// What to type or do next, where it does not work and something helps.
    pub next: Option<String>,
}

impl Answer {
    fn yes(because: impl Into<String>) -> Self {
        Self {
            works: true,
            because: because.into(),
            next: None,
        }
    }

    fn no(because: impl Into<String>, next: Option<&str>) -> Self {
        Self {
            works: false,
            because: because.into(),
            next: next.map(str::to_owned),
        }
    }
}

impl Abilities {
    /// Whether the perf sampler works.
    #[must_use]
    pub fn perf_sampler(&self) -> Answer {
        match self.clock_event {
            Ok(()) => Answer::yes("software event cpu-clock opens"),
            Err(errno) => {
                let refusal = refusal(errno, &self.settings);
                let preload = "hitm run --sampler preload -- COMMAND";
                let next = refusal
                    .remedy()
                    .or_else(|| self.preload_sampler().works.then_some(preload));
                Answer::no(refusal.to_string(), next)
            }
        }
    }

    /// Whether the preload sampler works, for programs that load shared libraries.
    #[must_use]
    pub fn preload_sampler(&self) -> Answer {
        if let Err(errno) = self.timer {
            return Answer::no(format!("no timers: {}", errno.desc()), None);
        }
        match self.temporary_code {
            Ok(()) => Answer::yes("for dynamically linked programs"),
            Err(Errno::EPERM | Errno::EACCES) => Answer::no(
                "the directory for temporary files is mounted noexec",
                Some("TMPDIR=$HOME hitm run --sampler preload -- COMMAND"),
            ),
            Err(errno) => Answer::no(
                format!("no file can be made for the agent: {}", errno.desc()),
                Some("TMPDIR=$HOME hitm run --sampler preload -- COMMAND"),
            ),
        }
    }

    /// Whether there is a PMU for this process.
    #[must_use]
    pub fn pmu(&self) -> Answer {
        match self.hardware_event {
            Ok(()) => Answer::yes("hardware event cycles opens"),
            Err(errno) => {
                let refusal = refusal(errno, &self.settings);
                Answer::no(
                    format!("{refusal}; hitm does not need it"),
                    refusal.remedy(),
                )
            }
        }
    }

    /// Whether `perf c2c` and `perf mem` would work.
    #[must_use]
    pub fn memory_sampling(&self) -> Answer {
        if let Err(errno) = self.hardware_event {
            let refusal = refusal(errno, &self.settings);
            return Answer::no(format!("no hardware events: {refusal}"), refusal.remedy());
        }
        match self.settings.memory_samplers.first() {
            None => Answer::no(
                "neither PEBS, IBS nor SPE is here; hitm does not need it",
                None,
            ),
            // Older kernels know no user-mode filter for IBS, so it counts as watching the kernel too.
            Some(MemorySampler::Ibs)
                if self
                    .settings
                    .perf_event_paranoid
                    .is_none_or(|level| level > 1)
                    && !self.exempt() =>
            {
                Answer::no(
                    "IBS needs more rights",
                    Some("sudo sysctl kernel.perf_event_paranoid=1"),
                )
            }
            Some(sampler) => Answer::yes(sampler.words()),
        }
    }

    /// Whether hardware watchpoints can be set.
    #[must_use]
    pub fn watchpoints(&self) -> Answer {
        match self.watchpoints {
            Ok(count) => Answer::yes(format!("{count} at once per thread")),
            Err(errno) => {
                let refusal = refusal(errno, &self.settings);
                Answer::no(refusal.to_string(), refusal.remedy())
            }
        }
    }

    /// Whether `hitm run` may read the memory of the program it starts (for stacks of other threads).
    #[must_use]
    pub fn reading_children(&self) -> Answer {
        match (self.read_memory, self.settings.ptrace_scope) {
            (Err(errno), _) => self.no_reading(errno),
            (Ok(()), Some(scope @ 3..)) => Answer::no(
                format!("kernel.yama.ptrace_scope is {scope}, until the next boot"),
                None,
            ),
            (Ok(()), Some(2)) if !self.may_trace() => Answer::no(
                "kernel.yama.ptrace_scope is 2",
                Some("sudo sysctl kernel.yama.ptrace_scope=1"),
            ),
            (Ok(()), _) => Answer::yes("process_vm_readv works"),
        }
    }

    /// Whether `hitm attach` may read the memory of a process of this user that it did not start.
    #[must_use]
    pub fn reading_others(&self) -> Answer {
        match (self.reading_children(), self.settings.ptrace_scope) {
            (answer, _) if !answer.works => answer,
            (_, Some(1)) if !self.may_trace() => Answer::no(
                "kernel.yama.ptrace_scope is 1",
                Some("sudo sysctl kernel.yama.ptrace_scope=0  (or: sudo hitm attach PID)"),
            ),
            _ if self.may_trace() => Answer::yes("of any user"),
            _ => Answer::yes("of this user"),
        }
    }

    /// Whether `hitm run` can work in any way.
    #[must_use]
    pub fn can_run(&self) -> bool {
        self.perf_sampler().works || self.preload_sampler().works
    }

    fn no_reading(&self, errno: Errno) -> Answer {
        if self.settings.seccomp_filter == Some(true) || errno == Errno::ENOSYS {
            let next = "docker run --cap-add SYS_PTRACE …";
            Answer::no("a seccomp filter refuses process_vm_readv", Some(next))
        } else {
            Answer::no(format!("process_vm_readv fails: {}", errno.desc()), None)
        }
    }

    fn exempt(&self) -> bool {
        self.settings
            .capabilities
            .is_some_and(|caps| caps.perfmon())
    }

    fn may_trace(&self) -> bool {
        self.settings.capabilities.is_some_and(|caps| caps.ptrace())
    }
}
