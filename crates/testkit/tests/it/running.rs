//! Programs are run with a limit and nothing of them is left.

use std::process::Command;
use std::time::{Duration, Instant};

use hitm_testkit::run_limited;

#[test]
fn output_and_status_are_returned() {
    let outcome = run_limited(
        Command::new("sh").args(["-c", "echo out; echo err >&2; exit 7"]),
        Duration::from_secs(20),
    )
    .unwrap();
    assert_eq!(outcome.status.code(), Some(7));
    assert_eq!(
        (outcome.stdout.as_str(), outcome.stderr.as_str()),
        ("out\n", "err\n")
    );
    assert!(!outcome.timed_out);
}

#[test]
fn a_program_that_does_not_end_is_killed_with_its_children() {
    let outcome = run_limited(
        Command::new("sh").args(["-c", "sleep 1000 & echo $!; wait"]),
        Duration::from_millis(300),
    )
    .unwrap();
    assert!(outcome.timed_out);
    let child = outcome.stdout.trim();
    // Killed and perhaps not yet reaped by whoever adopted it. A signal takes effect when its process next runs, so a
    // busy machine is given some time.
    let state = || std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
    let gone = |state: &str| state.is_empty() || state.contains(") Z") || state.contains(") X");
    let began = Instant::now();
    while !gone(&state()) && began.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let state = state();
    assert!(gone(&state), "{state}");
}

#[test]
fn a_grandchild_that_holds_the_pipe_does_not_hold_the_caller() {
    let outcome = run_limited(
        Command::new("sh").args(["-c", "sleep 1000 & exit 0"]),
        Duration::from_secs(20),
    )
    .unwrap();
    assert!(outcome.status.success() && !outcome.timed_out);
}
