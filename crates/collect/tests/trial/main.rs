//! Runs of commands as experiments make them. A test binary of its own: whoever becomes our child while a command runs is
//! taken for its child, so these tests run one after the other, and beside no others.

use std::ffi::OsString;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hitm_collect::trial::{Command, Run, Service, TrialError, adopt_orphans, run};
use hitm_model::{ExitStatus, Nanos, Pid};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    adopt_orphans().expect("every Linux since 3.4 has it");
    guard
}

fn words(words: &[&str]) -> Command {
    Command {
        words: words.iter().map(OsString::from).collect(),
        variables: Vec::new(),
        directory: None,
    }
}

fn sh(script: &str) -> Command {
    words(&["sh", "-c", script])
}

fn done(command: &Command) -> Run {
    run(command, None, None, &AtomicBool::new(false)).expect("it runs")
}

fn is_there(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .map(|(_, rest)| rest.starts_with(['Z', 'X']));
    state == Some(false)
}

fn pid_in(text: &str) -> Pid {
    Pid(text.trim().parse().expect("a number"))
}

#[test]
fn a_run_says_how_it_ended_what_it_wrote_and_what_it_took() {
    let _alone = alone();
    let run = done(&sh(
        "echo out; echo err >&2; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 7",
    ));
    assert_eq!(run.status, ExitStatus::Code(7));
    assert_eq!(
        (run.stdout.text().as_str(), run.stderr.text().as_str()),
        ("out\n", "err\n")
    );
    assert!(run.usage.cpu() > Nanos(0) && run.usage.cpu() <= run.wall.plus(Nanos::from_millis(20)));
    assert!(run.usage.max_rss > 100_000, "{} bytes", run.usage.max_rss);
    assert!(run.others.processors >= 1);
    assert_eq!(run.left_behind, 0);
    let killed = done(&sh("kill -9 $$"));
    assert_eq!(killed.status, ExitStatus::Signal(9));
}

#[test]
fn there_is_no_shell_no_input_and_the_environment_asked_for() {
    let _alone = alone();
    let echo = done(&words(&["printf", "%s|", "a b", "$HOME", "*"]));
    assert_eq!(echo.stdout.text(), "a b|$HOME|*|");
    assert_eq!(done(&words(&["cat"])).stdout.text(), "");
    let command = Command {
        variables: vec![("X_Y".into(), "1 2".into())],
        directory: Some("/".into()),
        ..sh("echo $X_Y $PWD")
    };
    assert_eq!(done(&command).stdout.text(), "1 2 /\n");
}

#[test]
fn what_cannot_be_started_says_so() {
    let _alone = alone();
    for command in [words(&["/nowhere/prog"]), words(&["/"]), words(&[])] {
        let error = run(&command, None, None, &AtomicBool::new(false)).unwrap_err();
        assert!(matches!(error, TrialError::Start { .. }), "{error:?}");
        assert!(error.remedy().contains("type -a"));
    }
}

#[test]
fn a_run_that_hangs_is_ended_with_all_it_started() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let script = format!(
        "trap '' TERM; sleep 600 & echo $! > {}; echo here >&2; wait; sleep 600",
        file.display()
    );
    let began = Instant::now();
    let error = run(
        &sh(&script),
        Some(Nanos::from_millis(500)),
        None,
        &AtomicBool::new(false),
    )
    .unwrap_err();
    let TrialError::TimeOut { stderr, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(stderr.text(), "here\n");
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "it was waited for"
    );
    assert!(!is_there(pid_in(&fs::read_to_string(&file).unwrap())));
}

#[test]
fn what_a_run_leaves_behind_is_ended_and_counted() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    // One in its process group, and one that left it, as daemons do. It says when it has: the run must not end before.
    let script = "mkfifo left; sleep 600 & echo $!; setsid sh -c 'echo $$; echo >left; exec sleep 600' & read -r _ <left";
    let run = done(&Command {
        directory: Some(folder.path().into()),
        ..sh(script)
    });
    let text = run.stdout.text();
    let pids: Vec<Pid> = text.lines().map(pid_in).collect();
    assert_eq!(pids.len(), 2, "{text}");
    assert_eq!(run.left_behind, 2);
    assert!(pids.iter().all(|pid| !is_there(*pid)));
}

#[test]
fn the_user_can_interrupt() {
    let _alone = alone();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(200));
            stop.store(true, Ordering::Relaxed);
        });
        let error = run(&words(&["sleep", "600"]), None, None, &stop).unwrap_err();
        assert!(matches!(error, TrialError::Interrupted), "{error:?}");
    });
}

#[test]
fn endless_output_takes_bounded_memory() {
    let _alone = alone();
    let run = done(&sh(
        "echo first; head -c 50000000 /dev/zero; echo; echo last",
    ));
    assert!(run.stdout.head.len() + run.stdout.tail.len() <= 8 << 20);
    assert!(run.stdout.left_out > 40_000_000);
    assert_eq!(run.stdout.last_lines(1), "last");
}

#[test]
fn a_service_runs_beside_others_and_is_not_taken_for_theirs() {
    let _alone = alone();
    let mut service = Service::start(&sh("echo up; exec sleep 600")).unwrap();
    service.attend(Nanos::from_millis(200)).unwrap();
    let pid = service.pid();
    assert_eq!(done(&words(&["true"])).left_behind, 0);
    assert!(is_there(pid));
    assert_eq!(service.end().0.text(), "up\n");
    assert!(!is_there(pid));
}

#[test]
fn the_time_of_the_server_beside_a_run_is_not_that_of_others() {
    let _alone = alone();
    let service = Service::start(&sh("while :; do :; done")).unwrap();
    let client = words(&["sleep", "0.5"]);
    let beside = run(&client, None, Some(&service), &AtomicBool::new(false)).unwrap();
    let alone = done(&client);
    // Two ticks at each end; and whatever else this machine does is in both.
    let (beside, alone) = (
        beside.others.foreign.unwrap(),
        alone.others.foreign.unwrap(),
    );
    assert!(service.cpu() > Nanos::from_millis(200), "{}", service.cpu());
    assert!(
        beside < alone,
        "{beside} beside it, {alone} without saying so"
    );
}

#[test]
fn a_service_that_ends_by_itself_is_an_error_with_what_it_said() {
    let _alone = alone();
    let mut service = Service::start(&sh("echo taken >&2; exit 3")).unwrap();
    let error = (0..100)
        .find_map(|_| service.attend(Nanos::from_millis(100)).err())
        .expect("it ends at once");
    let TrialError::ServiceEnded { status, stderr } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(
        (status.as_str(), stderr.text().as_str()),
        ("exit code 3", "taken\n")
    );
}
