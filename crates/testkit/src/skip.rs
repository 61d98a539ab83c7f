//! Skipping visibly: a test that cannot run here says why, and counts as a failure where everything is required.

use std::process::{Command, Stdio};

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
    eprintln!("SKIPPED: {reason}");
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
