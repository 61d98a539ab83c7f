//! How much work a program is given: as much as takes it the wanted time on this machine.
//!
//! The programs were made for another processor. A run of 0.05 s holds too few samples to judge, whoever takes them.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hitm_testkit::run_limited;

use super::truth::Case;
use super::{TIME_LIMIT, last_line};

/// The most that a program's own amount of work is multiplied or divided by.
const MOST: f64 = 64.0;

/// Runs a program without hitm and says with how many iterations it would take `wanted`.
pub(super) fn iterations(work: &Path, case: &Case<'_>, wanted: Duration) -> Result<u64> {
    let line = case.command_line();
    let mut command = Command::new(&line[0]);
    let outcome = run_limited(command.args(&line[1..]).current_dir(work), TIME_LIMIT)?;
    if outcome.timed_out {
        bail!("alone it is not done after {} s", TIME_LIMIT.as_secs());
    }
    if !outcome.status.success() {
        bail!("alone: {}: {}", outcome.status, last_line(&outcome.stderr));
    }
    scaled(&outcome.stdout, wanted).with_context(|| {
        format!(
            "no iters= and elapsed_s= in: {}",
            last_line(&outcome.stdout)
        )
    })
}

/// From `… iters=350 elapsed_s=0.25 …`.
fn scaled(output: &str, wanted: Duration) -> Option<u64> {
    let (iterations, took) = (value(output, "iters=")?, value(output, "elapsed_s=")?);
    let factor = (wanted.as_secs_f64() / took).clamp(1.0 / MOST, MOST);
    Some((iterations * factor) as u64)
}

/// The number behind a key in a program's output.
pub(super) fn value(output: &str, key: &str) -> Option<f64> {
    let words = &mut output.split_whitespace();
    words.find_map(|word| word.strip_prefix(key))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(output: &str, expected: Option<u64>) {
        assert_eq!(scaled(output, Duration::from_secs(1)), expected, "{output}");
    }

    #[test]
    fn work_is_scaled_to_the_wanted_time_within_bounds() {
        check(
            "x mode=packed iters=300 elapsed_s=0.2500 check=7\n",
            Some(1200),
        );
        check("x iters=300 elapsed_s=2.0\n", Some(150));
        check("x iters=300 elapsed_s=0.0001\n", Some(19200));
        check("x iters=300 elapsed_s=0.0000\n", Some(19200));
        check("x iters=6400 elapsed_s=900\n", Some(100));
        check("x iters=300\n", None);
        check("x iters=many elapsed_s=1\n", None);
    }
}
