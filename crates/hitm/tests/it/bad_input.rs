//! What goes wrong for users: each has a message that ends in what to do, and a documented exit code.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use hitm_testkit::{CompileError, perf_available, quiet_machine, skip};

use crate::session::Session;

/// Runs hitm and compares the exit code; the message must contain all of `says`.
fn check(session: &Session, arguments: &[&str], code: i32, says: &[&str]) {
    let outcome = session.hitm(arguments);
    assert_eq!(
        outcome.status.code(),
        Some(code),
        "{arguments:?}: {}",
        outcome.stderr
    );
    for text in says {
        assert!(
            outcome.stderr.contains(text),
            "{arguments:?}: no `{text}` in: {}",
            outcome.stderr
        );
    }
    assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
}

#[test]
fn commands_that_cannot_be_run() {
    let session = Session::new();
    check(
        &session,
        &["run", "--", "/no/such/program"],
        2,
        &["hitm: ", "/no/such/program"],
    );
    check(
        &session,
        &["run", "--", "no-such-program-on-the-path"],
        2,
        &["no-such-program-on-the-path"],
    );
    let script = session.path("data");
    fs::write(&script, "no program\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o644)).unwrap();
    check(&session, &["run", "--", "./data"], 2, &["./data"]);
}

#[test]
fn wrong_usage() {
    let session = Session::new();
    check(&session, &[], 2, &["Usage"]);
    check(&session, &["run"], 2, &["CMD"]);
    check(
        &session,
        &["run", "--rate", "0", "--", "true"],
        2,
        &["--rate"],
    );
    check(
        &session,
        &["run", "--fail-on", "sometimes", "--", "true"],
        2,
        &["--fail-on"],
    );
    check(&session, &["attach", "no-pid"], 2, &["PID"]);
}

#[test]
fn recordings_that_are_none() {
    let session = Session::new();
    check(&session, &["report", "missing.hitm"], 2, &["missing.hitm"]);
    fs::write(session.path("text.hitm"), "not a recording\n").unwrap();
    check(&session, &["report", "text.hitm"], 2, &["text.hitm"]);
    fs::write(session.path("empty.hitm"), "").unwrap();
    check(&session, &["report", "empty.hitm"], 2, &["empty.hitm"]);
}

#[test]
fn processes_that_are_gone() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = child.id().to_string();
    child.wait().unwrap();
    check(&Session::new(), &["attach", &pid, "--for", "1"], 2, &[&pid]);
}

#[test]
fn the_programs_own_status_is_reported_and_not_returned() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    let session = Session::new();
    let outcome = session.hitm([
        "run",
        "--json=report.json",
        "--",
        "sh",
        "-c",
        "echo said; exit 7",
    ]);
    assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "said\n");
    assert_eq!(session.json("report.json")["child"]["code"], 7);
    let outcome = session.hitm([
        "run",
        "--json=report.json",
        "--",
        "sh",
        "-c",
        "kill -SEGV $$",
    ]);
    assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
    assert_eq!(session.json("report.json")["child"]["signal"], 11);
}

#[test]
fn json_on_stdout_is_nothing_but_json() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    let outcome = Session::new().hitm(["run", "--json", "--", "echo", "said"]);
    assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
    let report: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert!(report["findings"].as_array().unwrap().is_empty());
    assert!(outcome.stderr.contains("said"), "{}", outcome.stderr);
}

#[test]
fn a_recording_is_reported_again_and_an_old_one_kept() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    let session = Session::new();
    for _ in 0..2 {
        let outcome = session.hitm(["run", "-o", "r.hitm", "--json=first.json", "--", "true"]);
        assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
    }
    assert!(session.path("r.hitm.old").exists());
    let outcome = session.hitm(["report", "r.hitm", "--json=second.json"]);
    assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
    assert_eq!(session.json("first.json"), session.json("second.json"));
}

#[test]
fn a_truncated_recording_gives_what_can_be_read_and_a_caveat() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    let session = Session::new();
    session.hitm([
        "run",
        "-o",
        "whole.hitm",
        "--",
        "sh",
        "-c",
        "for i in 1 2 3 4 5 6 7 8; do true; done",
    ]);
    let bytes = fs::read(session.path("whole.hitm")).unwrap();
    fs::write(session.path("cut.hitm"), &bytes[..bytes.len() - 5]).unwrap();
    let outcome = session.hitm(["report", "cut.hitm", "--json=cut.json"]);
    assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
    let caveats = session.json("cut.json")["caveats"].to_string();
    assert!(
        caveats.contains("recording-truncated") || caveats.contains("recording-damaged"),
        "{caveats}"
    );
}

#[test]
fn the_gate_is_exit_code_1_and_only_when_asked_for() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    let _alone = quiet_machine().unwrap();
    let fixture = hitm_testkit::fixture("shared_atomic");
    let built = match fixture.build(hitm_testkit::Layout::Faulty, None) {
        Ok(built) => built,
        Err(CompileError::NoCompiler(compiler)) => skip!("no {compiler}"),
        Err(error) => panic!("{error}"),
    };
    let session = Session::new();
    let program = built.program.to_str().unwrap();
    check(
        &session,
        &["run", "-o", "r.hitm", "--json=r.json", "--", program],
        0,
        &[],
    );
    if session.json("r.json")["findings"]
        .as_array()
        .unwrap()
        .is_empty()
    {
        skip!("the threads did not run side by side");
    }
    check(&session, &["report", "r.hitm", "--fail-on", "any"], 1, &[]);
    check(
        &session,
        &["report", "r.hitm", "--fail-on", "false-sharing"],
        0,
        &[],
    );
    check(
        &session,
        &["report", "r.hitm", "--fail-on", "never"],
        0,
        &[],
    );
}
