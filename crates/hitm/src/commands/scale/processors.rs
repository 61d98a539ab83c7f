//! How many threads of ours can run at once.

use hitm_collect::machine::{SystemFiles, allowed_cpus, cpu_quota};

/// Processors by affinity, or as many whole ones as the quotas of the control groups grant. At least one.
pub(super) fn processors() -> usize {
    let files = SystemFiles::of_this_machine();
    let allowed = allowed_cpus(&files).len();
    // A quota of 1.5 processors does not let two threads run side by side all the time.
    let granted = cpu_quota(&files).map_or(usize::MAX, |quota| (quota + 0.01).floor() as usize);
    allowed.min(granted).max(1)
}
