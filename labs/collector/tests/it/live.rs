//! What hitm says of the lab: the packed array is false sharing, whoever is next to whom, and nothing else is anything.
//!
//! The `hitm` that is asked is the one beside this test's own program, which a build of the workspace makes.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hitm_model::Verdict;
use hitm_testkit::{
    Claim, judge, parse_truth, perf_available, quiet_machine, run_limited, skip, skipped,
};
use serde_json::Value;

use crate::programs::{c, rust};

const TIME_LIMIT: Duration = Duration::from_secs(90);
/// Below this share of the time nothing can be said about threads that were to run side by side.
const CO_RUNNING_ENOUGH: f64 = 0.25;
const ATTEMPTS: usize = 3;

fn hitm() -> Option<PathBuf> {
    let beside = rust().with_file_name("hitm");
    beside.exists().then_some(beside)
}

/// What is wrong with what hitm says of a program, and whether its threads ran side by side.
fn judged(
    hitm: &Path,
    program: &Path,
    arguments: &str,
    verdict: Option<Verdict>,
) -> (Vec<String>, bool) {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(hitm);
    command
        .current_dir(dir.path())
        .env("NO_COLOR", "1")
        .args(["run", "--json=report.json", "--threads-by", "tid", "--"])
        .arg(program)
        .args(["--threads", "2", "--runs", "1", "--addrs"])
        .args(arguments.split_whitespace());
    let outcome = run_limited(&mut command, TIME_LIMIT).unwrap();
    assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
    let text = std::fs::read_to_string(dir.path().join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    let claims: Vec<Claim> = parse_truth(&outcome.stderr)
        .unwrap()
        .into_iter()
        .map(|truth| Claim {
            truth,
            ending: None,
            named: true,
        })
        .collect();
    let judgement = judge(&report, verdict, &claims).unwrap();
    let mut wrong = judgement.wrong;
    if !wrong.is_empty() {
        wrong.push(format!("hitm said: {}{}", outcome.stdout, outcome.stderr));
    }
    let co_ran = judgement.co_running.unwrap_or(0.0) >= CO_RUNNING_ENOUGH;
    (wrong, co_ran)
}

/// Repeated visibly while the machine does not run two threads side by side.
#[expect(clippy::print_stderr, reason = "a retry must be seen")]
fn check(program: &Path, arguments: &str, verdict: Option<Verdict>) {
    let Some(hitm) = hitm() else {
        return skipped("no hitm beside the lab: cargo build -p hitm");
    };
    let title = format!(
        "{} {arguments}",
        program.file_name().and_then(OsStr::to_str).unwrap()
    );
    for attempt in 1..=ATTEMPTS {
        let (wrong, co_ran) = judged(&hitm, program, arguments, verdict);
        if wrong.is_empty() && (co_ran || verdict.is_some()) {
            return;
        }
        assert!(!co_ran, "{title}: {}", wrong.join("\n"));
        eprintln!("RETRY: {title}: attempt {attempt}: the threads hardly ran side by side");
    }
    skipped(&format!(
        "{title}: this machine does not run two threads side by side"
    ));
}

fn check_all(program: &Path) {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    let _alone = quiet_machine().unwrap();
    check(
        program,
        "--layout packed --op rmw --total 3e7",
        Some(Verdict::FalseSharing),
    );
    check(program, "--layout padded --op rmw --total 1e8", None);
    check(program, "--layout per-thread --total 1e9", None);
    // Shared, though it may be cheap: what it costs is another question.
    check(
        program,
        "--layout packed --op plain --total 1e9",
        Some(Verdict::FalseSharing),
    );
}

#[test]
fn hitm_finds_the_packed_array_in_rust() {
    check_all(&rust());
}

#[test]
fn hitm_finds_the_packed_array_in_c() {
    match c() {
        Ok(c) => check_all(&c),
        Err(why) => skip!("{why}"),
    }
}
