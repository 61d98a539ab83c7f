//! The clock of all samples.

use hitm_model::Nanos;
use nix::time::{ClockId, clock_gettime};

/// Now, by `CLOCK_MONOTONIC`.
pub(crate) fn now() -> Nanos {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Since the machine was booted, also while it was suspended.
pub(crate) fn since_boot() -> Nanos {
    read(ClockId::CLOCK_BOOTTIME)
}

/// Now, by the wall clock: nanoseconds since 1970.
pub(crate) fn wall() -> Nanos {
    read(ClockId::CLOCK_REALTIME)
}

fn read(clock: ClockId) -> Nanos {
    // These clocks exist on every Linux; 0 would only make times look old.
    clock_gettime(clock).map_or_else(
        |_| Nanos::default(),
        |time| {
            let seconds = u64::try_from(time.tv_sec()).unwrap_or_default();
            let nanos = u64::try_from(time.tv_nsec()).unwrap_or_default();
            Nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
        },
    )
}
