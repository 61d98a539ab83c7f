//! How far apart two values must be, and how near, for each target: a constant cannot ask the machine, so it takes the
//! careful side in each direction, and says where its figure comes from.

/// Two bytes in one aligned block of this size are on one cache line, on every processor of the target that we know.
///
/// What [`assert_same_line!`](crate::assert_same_line) promises. Like C++'s constructive interference size.
pub const TOGETHER: usize = TARGET.together;

/// Two bytes in different aligned blocks of this size do not disturb each other, on every processor of the target that
/// we know: neither on one line nor in one pair of lines that the processor fetches together.
///
/// The alignment of [`Isolated`](crate::Isolated) and the distance between two threads' counters. Like C++'s destructive
/// interference size. The feature `line-128` raises it to 128 where it is smaller.
pub const APART: usize = {
    if cfg!(feature = "line-128") && TARGET.apart < 128 {
        128
    } else {
        TARGET.apart
    }
};

/// What is assumed about the cache lines of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LineFigures {
    /// See [`TOGETHER`].
    pub together: usize,
    /// See [`APART`], without the feature `line-128`.
    pub apart: usize,
    /// Why `apart` is what it is.
    pub reason: &'static str,
    /// Where that can be read.
    pub source: &'static str,
}

const fn figures(
    together: usize,
    apart: usize,
    reason: &'static str,
    source: &'static str,
) -> LineFigures {
    LineFigures {
        together,
        apart,
        reason,
        source,
    }
}

/// The figures of the target this was compiled for.
///
/// ```
/// use hitm_counters::line::TARGET;
/// println!("{} bytes: {} ({})", TARGET.apart, TARGET.reason, TARGET.source);
/// assert!(TARGET.apart >= TARGET.together);
/// ```
pub const TARGET: LineFigures = if cfg!(target_arch = "x86_64") {
    figures(
        64,
        128,
        "lines are 64 bytes, but Intel's spatial prefetcher completes aligned pairs of them",
        "Intel 64 and IA-32 Architectures Optimization Reference Manual, data prefetch to the L2 and last level cache",
    )
} else if cfg!(target_arch = "aarch64") {
    figures(
        64,
        128,
        "Arm's own cores have lines of 64 bytes, Apple's of 128",
        "CTR_EL0.DminLine in the Arm Architecture Reference Manual; sysctl hw.cachelinesize on Apple silicon",
    )
} else if cfg!(target_arch = "powerpc64") {
    figures(
        128,
        128,
        "lines are 128 bytes",
        "Linux arch/powerpc/include/asm/cache.h: L1_CACHE_SHIFT is 7 on 64-bit",
    )
} else if cfg!(target_arch = "s390x") {
    figures(
        256,
        256,
        "lines are 256 bytes",
        "Linux arch/s390/include/asm/cache.h: L1_CACHE_BYTES is 256",
    )
} else if cfg!(any(target_arch = "riscv32", target_arch = "riscv64")) {
    figures(
        64,
        64,
        "lines are 64 bytes on the cores that Linux runs on",
        "Linux arch/riscv/include/asm/cache.h: L1_CACHE_SHIFT is 6",
    )
} else if cfg!(any(
    target_arch = "arm",
    target_arch = "mips",
    target_arch = "mips64"
)) {
    figures(
        32,
        64,
        "lines are 32 bytes on older cores and 64 on newer ones",
        "Linux arch/arm/include/asm/cache.h and mm/Kconfig: ARM_L1_CACHE_SHIFT is 5 or 6",
    )
} else if cfg!(target_arch = "x86") {
    figures(
        64,
        64,
        "lines are 64 bytes; memory is scarcer here than pairs of lines are costly",
        "Linux arch/x86/include/asm/cache.h: L1_CACHE_SHIFT is 6 by default",
    )
} else {
    figures(
        32,
        128,
        "an unknown target: no smaller or larger line is likely",
        "none",
    )
};

/// The line size that the running machine states, in bytes.
///
/// A value to compare [`APART`] with, or to give to [`check_apart`](crate::check_apart): a processor with larger lines
/// than its architecture's others (256 bytes on the A64FX) is noticed only at run time.
///
/// ```no_run
/// let line = hitm_counters::line::of_this_machine()?;
/// assert!(line <= hitm_counters::line::APART, "counters of two threads may share a line of {line} bytes");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// If the machine does not say: `/sys/devices/system/cpu/cpu0/cache` is missing (containers may hide it, and only Linux
/// has it) or holds no plausible size.
#[cfg(feature = "std")]
pub fn of_this_machine() -> std::io::Result<usize> {
    use std::io::{Error, ErrorKind};

    let path = "/sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size";
    let text = std::fs::read_to_string(path)?;
    let size = text.trim().parse().ok();
    size.filter(|size: &usize| size.is_power_of_two() && (16..=4096).contains(size))
        .ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidData,
                std::format!("{path} holds {text:?}"),
            )
        })
}

const _: () = assert!(TOGETHER.is_power_of_two() && APART.is_power_of_two() && TOGETHER <= APART);
