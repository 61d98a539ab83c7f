//! `hitm scale` as a user runs it: bad input, failures, and what is kept of them; and story 2's collector, live. What it
//! decides is tested with simulated machines (crates/experiment).

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use hitm_testkit::{have_tool, quiet_machine, skip};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::session::{Session, eventually};

#[test]
fn what_cannot_be_understood_says_what_to_type() {
    let session = Session::new();
    let refused = |arguments: &[&str], says: &[&str]| {
        session.check(&[&["scale"], arguments].concat(), 2, says);
    };
    refused(&["--", "true"], &["write {n} in the command", "--env"]);
    refused(&["--env", "X", "--", "true"], &["NAME=VALUE"]);
    refused(&["--points", "3", "--", "true", "{n}"], &["--points 1,2,4"]);
    refused(&["--points", "0", "--", "true", "{n}"], &["1..=65536"]);
    refused(
        &["--metric", "rss", "--", "true", "{n}"],
        &["no measure of throughput"],
    );
    refused(&["--metric", "ops", "--", "true", "{n}"], &["one group"]);
    let both = [
        "--metric",
        "ops: ([0-9]+)",
        "--work",
        "fixed",
        "--",
        "true",
        "{n}",
    ];
    refused(&both, &["is a throughput", "--better lower"]);
    refused(
        &["--better", "higher", "--", "true", "{n}"],
        &["lower is better"],
    );
    refused(
        &["--to", "2", "--points", "1,2", "--", "true", "{n}"],
        &["--points"],
    );
}

/// With as many repeats as are needed on a busy machine, unless something fails before.
fn failing(session: &Session, script: &str, more: &[&str], says: &[&str]) -> Value {
    let fixed = [
        "scale",
        "--json=out.json",
        "--points",
        "1,2,4",
        "--runs",
        "2",
        "--repeats",
        "1000",
        "--no-evidence",
    ];
    let arguments = [&fixed, more, &["--", "sh", "-c", script]].concat();
    session.check(&arguments, 2, says);
    session.json("out.json")
}

#[test]
fn a_point_that_fails_is_named_and_the_others_are_kept() {
    let session = Session::new();
    let out = failing(
        &session,
        "[ {n} = 4 ] && { echo out of luck >&2; exit 3; }; true",
        &[],
        &["n = 4 failed: ended with exit code 3", "out of luck"],
    );
    assert_eq!(
        out["points"][2]["failure"]
            .as_str()
            .unwrap()
            .lines()
            .count(),
        1
    );
    assert!(out["points"][0]["runs"].as_array().unwrap().len() >= 2);
    let hang = failing(
        &session,
        "[ {n} = 4 ] && sleep 600; true",
        &["--timeout", "0.5"],
        &["n = 4 failed: did not end within", "--timeout SECONDS"],
    );
    assert!(hang["points"][1]["runs"].as_array().unwrap().len() >= 2);
    let out = failing(
        &session,
        "echo many {n}",
        &["--metric", "ops: ([0-9]+)"],
        &[
            "nothing that the command printed",
            "nothing left to compare",
        ],
    );
    assert_eq!(out["ended"], "nothing-to-compare");
    assert_eq!(out["verdict"], "none");
    failing(
        &session,
        "echo ops: 0 for {n}",
        &["--metric", "ops: ([0-9]+)"],
        &["its metric is 0"],
    );
}

#[test]
fn the_number_goes_where_it_was_asked_for() {
    let session = Session::new();
    let arguments = [
        "scale",
        "--json=out.json",
        "--svg",
        "out.svg",
        "--points",
        "1,2",
        "--runs",
        "2",
        "--repeats",
        "1000",
        "--no-evidence",
        "--warm-up",
        "0",
        "--env",
        "T=x{n}",
        "--metric",
        "ops: ([0-9]+)",
        "--",
        "sh",
        "-c",
        "echo ops: {n}00; echo {n}$T >> seen",
    ];
    session.check(
        &arguments,
        0,
        &["throughput of all threads", "(not side by side)", "n"],
    );
    let seen = fs::read_to_string(session.path("seen")).unwrap();
    assert!(seen.contains("1x1\n") && seen.contains("2x2\n"), "{seen}");
    let out = session.json("out.json");
    let medians: Vec<f64> = out["points"]
        .as_array()
        .unwrap()
        .iter()
        .map(|point| point["median"].as_f64().unwrap())
        .collect();
    assert_eq!(medians, [100.0, 200.0]);
    // Twice the number, and nothing ran at the same time: that proves nothing.
    assert_eq!(
        (&out["verdict"], &out["meaning"]),
        (&"none".into(), &"throughput".into())
    );
    let svg = fs::read_to_string(session.path("out.svg")).unwrap();
    assert!(
        svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"),
        "{svg}"
    );
    assert_eq!(svg.matches("<circle").count(), 2);
    // A gate has nothing to judge by.
    let gate = [&["scale", "--fail-on", "negative"], &arguments[1..]].concat();
    session.check(&gate, 2, &["No verdict"]);
}

#[test]
fn an_interruption_keeps_what_was_measured_and_leaves_nothing_behind() {
    let session = Session::new();
    let script =
        "echo $$ >> pids; [ {n} = 1 ] && exit 0; [ -e go ] || { touch go; exit 0; }; sleep 600";
    let child = Command::new(env!("CARGO_BIN_EXE_hitm"))
        .current_dir(session.path("."))
        .args([
            "scale",
            "--points",
            "1,2",
            "--repeats",
            "1000",
            "--json=out.json",
            "--",
        ])
        .args(["sh", "-c", script])
        .spawn()
        .unwrap();
    let runs = || fs::read_to_string(session.path("pids")).unwrap_or_default();
    // Two runs to warm up; then n = 1 may run before n = 2 hangs.
    for _ in 0..600 {
        if runs().lines().count() >= 3 {
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let outcome = child.wait_with_output().unwrap();
    assert_eq!(outcome.status.code(), Some(2));
    let out = session.json("out.json");
    assert_eq!(out["ended"], "interrupted");
    for pid in runs().lines() {
        assert!(
            !PathBuf::from(format!("/proc/{pid}")).exists(),
            "{pid} is left behind"
        );
    }
}

/// Of the first runs there is a value; then one hangs, and hitm cannot say any more what it knows.
#[test]
fn killed_it_leaves_what_was_measured_and_no_process() {
    let session = Session::new();
    let script = "n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) > n; echo value: 10{n}; \
                  [ $n -lt 5 ] || { echo $$ > hanging.new; mv hanging.new hanging; sleep 600; }";
    let mut child = Command::new(env!("CARGO_BIN_EXE_hitm"))
        .current_dir(session.path("."))
        .args(["scale", "--points", "1,2", "--repeats", "1000"])
        .args(["--metric", "value: ([0-9]+)", "--better", "higher"])
        .args(["--json=out.json", "--", "sh", "-c", script])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    eventually("a run hangs, others are kept", || {
        session.path("hanging").exists() && session.path("out.json").exists()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let pid = fs::read_to_string(session.path("hanging")).unwrap();
    eventually("the run is ended", || {
        !PathBuf::from(format!("/proc/{}", pid.trim())).exists()
    });
    let out = session.json("out.json");
    assert_eq!(out["ended"], "running");
    let points = out["points"].as_array().unwrap();
    let runs = points
        .iter()
        .flat_map(|point| point["runs"].as_array().unwrap());
    assert!(runs.clone().count() > 0, "{out:#}");
    for run in runs {
        assert!([101.0, 102.0].contains(&run["value"].as_f64().unwrap()));
    }
}

/// Story 2, as far as this machine lets two threads run side by side.
#[test]
fn the_packed_collector_scales_negatively_and_the_padded_one_does_not() {
    if !have_tool("cc") {
        skip!("no C compiler");
    }
    let session = Session::new();
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../labs/collector/collect.c"
    );
    let built = session.shell(&format!("cc -O2 -pthread -o collect '{source}'"));
    assert!(built.status.success(), "{}", built.stderr);
    let _quiet = quiet_machine().unwrap();
    let scaled = |layout: &str, total: &str| -> Value {
        let arguments = [
            "scale",
            "--json=out.json",
            "--points",
            "1,2,4",
            "--work",
            "fixed",
            "--repeats",
            "30",
            "--no-evidence",
            "--",
            "./collect",
            "--threads",
            "{n}",
            "--layout",
            layout,
            "--op",
            "rmw",
            "--runs",
            "1",
            "--total",
            total,
        ];
        let outcome = session.hitm(arguments);
        assert!(
            outcome.status.code().is_some_and(|code| code != 2),
            "{}",
            outcome.stderr
        );
        session.json("out.json")
    };
    let packed = scaled("packed", "2e7");
    let judged = |out: &Value| {
        let all_run = out["ended"] == "all-run";
        all_run && !["none", "undecided"].contains(&out["verdict"].as_str().unwrap_or_default())
    };
    if !judged(&packed) {
        skip!("two threads could not run side by side: {}", packed["says"]);
    }
    assert_eq!(packed["verdict"], "negative", "{}", packed["says"]);
    let processors = packed["processors"].as_u64().unwrap();
    for point in packed["points"].as_array().unwrap() {
        let sliced = point["threads"].as_u64().unwrap() > processors;
        assert_eq!(point["time_sliced"], sliced, "{point}");
    }
    let padded = scaled("padded", "5e7");
    if !judged(&padded) {
        skip!("two threads could not run side by side: {}", padded["says"]);
    }
    assert_ne!(padded["verdict"], "negative", "{}", padded["says"]);
}
