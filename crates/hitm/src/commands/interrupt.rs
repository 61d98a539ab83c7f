//! Ctrl-C as a flag.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};

const FAILED: &str = "cannot watch for signals";

/// A flag that is set when the user, or the system, asks hitm to end.
///
/// A hang-up that the user had ignored, as `nohup` does, stays ignored, for the program too. The other signals are obeyed
/// always: a shell's background jobs ignore them, but nobody sends one to hitm without a reason.
pub(super) fn flag() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let ignored = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let watch = |signal, flag| signal_hook::flag::register(signal, flag).context(FAILED);
    watch(SIGINT, Arc::clone(&flag))?;
    watch(SIGTERM, Arc::clone(&flag))?;
    // Ctrl-\: the recording is kept, and threads that were moved are put back.
    watch(SIGQUIT, Arc::clone(&flag))?;
    if !is_ignored(&ignored, SIGHUP) {
        watch(SIGHUP, Arc::clone(&flag))?;
    }
    // Beyond a limit on the size of files, writing is to fail, not to end hitm.
    watch(SIGXFSZ, Arc::default())?;
    Ok(flag)
}

/// Whether `/proc/PID/status` says that a signal is ignored.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_in_the_mask() {
        let status = "SigBlk:\tffffffffffffffff\nSigIgn:\t0000000000000003\n";
        assert!(is_ignored(status, SIGHUP) && is_ignored(status, SIGINT));
        assert!(!is_ignored(status, SIGTERM));
        assert!(!is_ignored("", SIGHUP));
    }
}
