//! Skipping visibly: a test that cannot run here says why, and counts as a failure where everything is required.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// The environment variable with the file that skips are appended to: test runners hide what passing tests print.
pub const SKIP_LOG: &str = "HITM_SKIP_LOG";

/// Ends the calling test: prints `SKIPPED: …`, or panics where `REQUIRE_ALL=1` says that nothing may be skipped.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)*) => {{
        $crate::skipped(&format!($($reason)*));
        return;
    }};
}

/// What [`skip!`] does before it returns from the test.
///
/// # Panics
/// Where the environment has `REQUIRE_ALL=1`.
#[expect(clippy::print_stderr, reason = "a skip must be seen")]
pub fn skipped(reason: &str) {
    assert!(
        std::env::var_os("REQUIRE_ALL").is_none_or(|value| value != "1"),
        "skipped although REQUIRE_ALL=1: {reason}"
    );
    let line = format!("SKIPPED: {}\n", reason.replace('\n', " "));
    eprint!("{line}");
    if let Some(log) = std::env::var_os(SKIP_LOG) {
        let file = OpenOptions::new().create(true).append(true).open(log);
        // The log is a convenience; the line above is the record.
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

/// Whether a tool can be started here.
#[must_use]
pub fn have_tool(name: &str) -> bool {
    Command::new(name)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}
