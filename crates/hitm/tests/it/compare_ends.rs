//! `hitm compare` that is ended in the middle: what was measured is kept, and nothing that was started runs on.

use std::fs;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::session::{Session, eventually};

/// The first runs print their value; the fifth hangs, with a child of its own, and writes down the numbers of both.
const SCRIPT: &str = "n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) > n; echo value: 10$n
if [ $n -ge 4 ]; then sleep 600 & echo $! $$ > hanging.new; mv hanging.new hanging; wait; fi
sleep 0.01";

/// Starts a comparison, and waits until its fifth run hangs.
fn hanging(session: &Session) -> (Child, [Pid; 2]) {
    fs::write(session.path("run.sh"), SCRIPT).unwrap();
    let hitm = Command::new(env!("CARGO_BIN_EXE_hitm"))
        .current_dir(session.path(""))
        .args([
            "compare",
            "--aa",
            "--noise-pairs",
            "1",
            "--warm-up",
            "0",
            "--json=r.json",
            "--metric",
            "value: ([0-9]+)",
            "--a",
            "x=sh run.sh",
            "--b",
            "y=sh run.sh",
        ])
        .env("NO_COLOR", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("the fifth run begins", || session.path("hanging").exists());
    let text = fs::read_to_string(session.path("hanging")).unwrap();
    let mut pids = text
        .split_whitespace()
        .map(|pid| Pid::from_raw(pid.parse().unwrap()));
    let both = [pids.next().unwrap(), pids.next().unwrap()];
    (hitm, both)
}

/// Whether a process is there and more than a trace in its parent's list.
fn runs(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .map(|(_, rest)| rest.starts_with('Z'));
    state == Some(false)
}

fn nothing_is_left(pids: [Pid; 2]) {
    for pid in pids {
        eventually("no run is left behind", || !runs(pid));
    }
}

/// What was measured, whichever side ran first.
fn values(document: &Value) -> Vec<f64> {
    let trials = document["rows"][0]["measured"]["trials"]
        .as_array()
        .unwrap();
    let values = trials.iter().map(|trial| trial["value"].as_f64().unwrap());
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

#[test]
fn killed_it_leaves_what_was_measured_and_no_process() {
    let session = Session::new();
    let (mut hitm, pids) = hanging(&session);
    // Of A against itself; the pair behind it hangs.
    eventually("something is kept", || session.path("r.json").exists());
    hitm.kill().unwrap();
    hitm.wait().unwrap();
    nothing_is_left(pids);
    let document = session.json("r.json");
    assert_eq!(document["complete"], false);
    assert_eq!(document["rows"][0]["measured"]["ended"], "running");
    assert_eq!(document["rows"][0]["outcome"], "undecided");
    assert_eq!(values(&document)[..2], [100.0, 101.0]);
}

/// Ends it politely: what it shows and writes, and how.
fn ended_by(signal: Signal) {
    let session = Session::new();
    let (hitm, pids) = hanging(&session);
    kill(Pid::from_raw(hitm.id().cast_signed()), signal).unwrap();
    let output = hitm.wait_with_output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{shown}");
    assert!(shown.contains("failed: interrupted"), "{shown}");
    nothing_is_left(pids);
    let document = session.json("r.json");
    assert_eq!(document["complete"], true);
    assert_eq!(document["rows"][0]["measured"]["ended"], "failed");
    assert_eq!(values(&document), [100.0, 101.0, 102.0, 103.0]);
}

#[test]
fn interrupted_it_shows_what_was_measured() {
    ended_by(Signal::SIGINT);
}

#[test]
fn asked_to_end_it_shows_what_was_measured() {
    ended_by(Signal::SIGTERM);
}
