//! Runs of commands as experiments make them: what is kept of them, and what is left of them.

use std::ffi::OsString;
use std::sync::atomic::AtomicBool;

use hitm_collect::trial::{Command, Run, Service, TrialError, run};
use hitm_model::{ExitStatus, Nanos};

fn shell(script: &str) -> Command {
    Command {
        words: ["sh", "-c", script].map(OsString::from).into(),
        variables: vec![("GIVEN".into(), "here".into())],
        directory: None,
    }
}

fn ran(script: &str, beside: Option<&Service>) -> Run {
    let limit = Some(Nanos::from_millis(60_000));
    run(&shell(script), limit, beside, &AtomicBool::new(false)).unwrap()
}

#[test]
fn what_a_command_gave_is_kept() {
    let run = ran("echo $GIVEN; echo oops >&2; exit 7", None);
    assert_eq!(run.status, ExitStatus::Code(7));
    assert_eq!(
        (&*run.stdout.text(), &*run.stderr.text()),
        ("here\n", "oops\n")
    );
    assert!(run.wall.0 > 0 && run.usage.max_rss > 0, "{run:?}");
    assert_eq!(run.busiest, None, "there is no server");
}

#[test]
fn one_that_hangs_is_ended() {
    let script = "echo begun >&2; sleep 600 & wait";
    let hangs = run(
        &shell(script),
        Some(Nanos::from_millis(400)),
        None,
        &AtomicBool::new(false),
    );
    let Err(TrialError::TimeOut { stderr, .. }) = hangs else {
        panic!("{hangs:?}");
    };
    assert_eq!(stderr.text(), "begun\n");
}

/// A server that only sleeps, under a client that only computes.
#[test]
fn who_is_busy_is_told_from_who_waits() {
    let server = Service::start(&shell("exec sleep 600")).unwrap();
    // Some seconds on a busy machine; the first look is after 0.3 s.
    let run = ran(
        "i=0; while [ $i -lt 900000 ]; do i=$((i+1)); done",
        Some(&server),
    );
    server.end();
    let Some(busiest) = run.busiest else {
        // A machine that is fast enough gives no look; the numbers below are then nothing that it could get wrong.
        assert!(run.wall < Nanos::from_millis(500), "{run:?}");
        return;
    };
    assert!(busiest.server < 0.05, "{busiest:?}");
    assert!(
        busiest.client > 2.0 * busiest.server && busiest.client <= 1.05,
        "{busiest:?}"
    );
}
