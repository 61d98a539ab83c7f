//! What `hitm prove` refuses, and what to do then; and that it leaves a program as it was.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use hitm_testkit::{CompileError, Layout, fixture, have_tool, perf_available, quiet_machine, skip};

use crate::session::Session;

/// Runs hitm and compares the exit code; the message must contain all of `says`.
fn check(session: &Session, arguments: &[&str], code: i32, says: &[&str]) {
    let outcome = session.hitm_for(3000, arguments);
    let stderr = &outcome.stderr;
    assert_eq!(outcome.status.code(), Some(code), "{arguments:?}: {stderr}");
    for text in says {
        assert!(
            stderr.contains(text),
            "{arguments:?}: no `{text}` in: {stderr}"
        );
    }
    assert!(!stderr.contains("panicked"), "{stderr}");
}

fn built(name: &str) -> Option<PathBuf> {
    match fixture(name).build(Layout::Faulty, None) {
        Ok(built) => Some(built.program),
        Err(CompileError::NoCompiler(compiler)) => {
            hitm_testkit::skipped(&format!("no {compiler}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn one_process_or_one_command() {
    let session = Session::new();
    check(&session, &["prove"], 2, &["<PID|CMD>", "-- <CMD>..."]);
    check(
        &session,
        &["prove", "1", "--", "true"],
        2,
        &["cannot be used with"],
    );
    check(
        &session,
        &["prove", "--windows", "3", "1"],
        2,
        &["--windows"],
    );
    check(&session, &["prove", "--window", "0", "1"], 2, &["--window"]);
    check(
        &session,
        &["prove", "--rate", "5000", "--", "true"],
        2,
        &["--rate 1000"],
    );
    check(
        &session,
        &["prove", "--", "/no/such/program"],
        2,
        &["/no/such/program"],
    );
    check(
        &session,
        &["run", "--windows", "8", "--", "true"],
        2,
        &["--prove"],
    );
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let pid = gone.id().to_string();
    check(&session, &["prove", &pid], 2, &[&pid, "try: "]);
}

#[test]
fn programs_with_nothing_to_compare() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    let _alone = quiet_machine().unwrap();
    let session = Session::new();
    let over = ["prove", "--", "true"];
    check(
        &session,
        &over,
        0,
        &["hitm: nothing was measured: it was over"],
    );
    let one_thread = [
        "prove",
        "--sample",
        "0.3",
        "--for",
        "2",
        "--",
        "sh",
        "-c",
        "while :; do :; done",
    ];
    check(
        &session,
        &one_thread,
        0,
        &["hitm: nothing was measured: no two threads"],
    );
}

#[test]
fn names_that_do_not_exist() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    let Some(program) = built("per_thread_array") else {
        return;
    };
    let _alone = quiet_machine().unwrap();
    let session = Session::new();
    let program = program.to_str().unwrap();
    let with = |option: &'static str, name: &'static str| {
        [
            "prove", "--sample", "0.5", "--for", "3", option, name, "--", program,
        ]
    };
    check(
        &session,
        &with("--threads", "nosuch,lane-0"),
        2,
        &["no thread is called \"nosuch\"", "lane-0, lane-1"],
    );
    check(
        &session,
        &with("--threads", "lane-0"),
        2,
        &["name two: --threads A,B"],
    );
    for name in ["nosuch", "per_thread_array.c:9999"] {
        let says = format!("no line of code is called \"{name}\"");
        check(
            &session,
            &with("--progress", name),
            2,
            &[&says, "FILE:LINE"],
        );
    }
}

#[test]
fn one_processor() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    if !have_tool("taskset") {
        skip!("no taskset");
    }
    let _alone = quiet_machine().unwrap();
    let session = Session::new();
    let source = r#"
#include <pthread.h>
#include <unistd.h>
static volatile long a __attribute__((aligned(64))), b;
static void *work(void *at) { for (;;) ++*(volatile long *)at; }
int main(void) {
    pthread_t other;
    alarm(30);
    pthread_create(&other, 0, work, (void *)&a);
    work((void *)&b);
}"#;
    fs::write(session.path("main.c"), source).unwrap();
    let compiled = Command::new("gcc")
        .current_dir(session.path(""))
        .args(["-O1", "-pthread", "-o", "main", "main.c"])
        .output();
    match compiled {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => skip!("no gcc: {error}"),
    }
    let hitm = env!("CARGO_BIN_EXE_hitm");
    let mut command = Command::new("taskset");
    command
        .current_dir(session.path(""))
        .args(["-c", "0", hitm, "prove", "--sample", "0.5", "--", "./main"]);
    let limit = std::time::Duration::from_secs(60);
    let outcome = hitm_testkit::run_limited(&mut command, limit).unwrap();
    assert_eq!(outcome.status.code(), Some(3), "{}", outcome.stderr);
    let said = outcome
        .stderr
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    for text in [
        "may use one processor only",
        "let the process use more (taskset, ",
    ] {
        assert!(said.contains(text), "no `{text}` in: {said}");
    }
}

/// A running process that is measured and goes on: what it creates meanwhile may run where its creator may.
#[test]
fn threads_and_processes_that_are_born_meanwhile_do_not_stay_narrowed() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    let Some(program) = built("births") else {
        return;
    };
    let _alone = quiet_machine().unwrap();
    let ways = [
        (&["prove"][..], false),
        (&["attach", "--prove"], false),
        (&["prove"], true),
    ];
    for (prove, pinned) in ways {
        let session = Session::new();
        let births = Command::new(&program)
            .env("DUEL_MS", "5000")
            .envs(pinned.then_some(("BIRTHS_PINNED", "1")))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = births.id().to_string();
        let mut words = prove.to_vec();
        // So few windows are had to the end, though newborns crowd the processors.
        words.extend([
            "--sample",
            "0.5",
            "--windows",
            "4",
            "--window",
            "90",
            "--json=r.json",
            &pid,
        ]);
        let outcome = session.hitm(words);
        let output = births.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
        assert!(
            said.contains(" narrowed=0 widened=0\n"),
            "{said} {}",
            outcome.stderr
        );
        let group = &session.json("r.json")["compared"][0];
        assert!(group["windows"]["planned"].as_u64() >= Some(4), "{group}");
        assert!(!said.contains("settlers=0"), "{said}");
    }
}
