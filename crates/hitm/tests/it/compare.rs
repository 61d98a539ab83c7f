//! `hitm compare` as a user runs it: refusals, failures, and what is kept of them. What it decides is tested with simulated
//! machines (crates/experiment); here only what a busy machine cannot change.

use std::fs;
use std::path::Path;
use std::process::Command;

use hitm_testkit::{Layout, Outcome, fixture, have_tool, perf_available, quiet_machine, skip};
use serde_json::Value;

use crate::session::Session;

fn write(session: &Session, name: &str, text: &str) -> String {
    fs::write(session.path(name), text).unwrap();
    name.to_owned()
}

#[test]
fn the_same_command_twice_is_nothing_to_compare() {
    let session = Session::new();
    let same = ["compare", "--a", "x=sleep 1", "--b", "y=sleep 1"];
    session.check(&same, 2, &["refused", "nothing to compare", "--aa"]);
}

#[test]
fn what_cannot_be_understood_says_what_to_type() {
    let session = Session::new();
    let two = |a: &'static str, b: &'static str| ["compare", "--a", a, "--b", b];
    session.check(&["compare"], 2, &["--a NAME=COMMAND", "--suite"]);
    session.check(&["compare", "--a", "x=true"], 2, &["--b"]);
    session.check(&two("true", "y=true"), 2, &["is not NAME=COMMAND"]);
    session.check(&two("x='true", "y=true"), 2, &["quote is not closed"]);
    session.check(&two("x=", "y=true"), 2, &["is no command"]);
    let metric = [&two("x=true", "y=false")[..], &["--metric", "ops"]].concat();
    session.check(&metric, 2, &["one group"]);
    let few = [&two("x=true", "y=false")[..], &["--pairs", "4"]].concat();
    session.check(&few, 2, &["--pairs 20"]);
    session.check(
        &["compare", "--suite", "none.toml"],
        2,
        &["cannot read the suite"],
    );
    let suite = write(&session, "s.toml", "pears = 3\n");
    session.check(
        &["compare", "--suite", &suite],
        2,
        &["s.toml", "line 1", "pears"],
    );
}

/// With `--force`, as the two commands differ in more than one thing.
fn failing(session: &Session, b: &str, more: &[&str], says: &[&str]) -> Outcome {
    let arguments = [&["compare", "--force", "--a", "x=true 1", "--b", b], more].concat();
    session.check(&arguments, 2, says)
}

#[test]
fn a_side_that_fails_is_named_with_what_it_said() {
    let session = Session::new();
    let none: [&str; 0] = [];
    let script = "y=sh -c 'echo out of luck >&2; exit 3'";
    failing(
        &session,
        script,
        &none,
        &["y failed: ended with exit code 3", "out of luck"],
    );
    failing(
        &session,
        "y=sh -c 'kill -9 $$'",
        &none,
        &["killed by signal 9"],
    );
    failing(
        &session,
        "y=./nowhere",
        &none,
        &["cannot start ./nowhere", "type -a"],
    );
    let hang = failing(
        &session,
        "y=sleep 600",
        &["--timeout", "0.3"],
        &["did not end within"],
    );
    assert!(hang.stdout.contains("--timeout SECONDS"), "{}", hang.stdout);
    failing(
        &session,
        "y=echo many",
        &["--metric", "ops: ([0-9]+)"],
        &["x failed", "nothing that the command printed"],
    );
}

#[test]
fn what_was_measured_before_a_failure_is_in_the_json() {
    let session = Session::new();
    // B fails at its third run: one to warm up, one in a pair.
    let script =
        "n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) > n; echo value: 10$n; [ $n -lt 2 ]";
    let b = write(&session, "b.sh", script);
    let arguments = [
        "compare",
        "--force",
        "--noise-pairs",
        "1",
        "--json",
        "--metric",
        "value: ([0-9]+)",
        "--a",
        "x=sh -c 'echo value: 100'",
        "--b",
        &format!("y=sh {b}"),
    ];
    let outcome = session.check(&arguments, 2, &[]);
    let document: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let row = &document["rows"][0];
    assert_eq!(row["outcome"], "undecided");
    assert_eq!(
        row["forced"], false,
        "one program with two arguments is compared"
    );
    let measured = &row["measured"];
    assert_eq!(measured["ended"], "failed");
    let failure = measured["failure"].as_str().unwrap();
    assert!(
        failure.starts_with("b: ended with exit code 1"),
        "{failure}"
    );
    let values: Vec<f64> = measured["trials"]
        .as_array()
        .unwrap()
        .iter()
        .map(|trial| trial["value"].as_f64().unwrap())
        .collect();
    assert_eq!(values, [100.0, 100.0, 100.0, 101.0]);
}

#[test]
fn a_server_that_somebody_else_runs_is_not_measured() {
    let session = Session::new();
    let suite = |server: &str, ready: &str| {
        format!(
            "[a]\nname='old'\n[b]\nname='new'\n[[row]]\nname='get'\nserver=\"{server}\"\nready=\"{ready}\"\nclient='true'\n"
        )
    };
    let run = |text: &str, says: &[&str]| {
        let file = write(&session, "suite.toml", text);
        session.check(&["compare", "--aa", "--suite", &file], 2, says);
    };
    run(
        &suite("sleep 600", "true"),
        &[
            "old failed: the server is not started",
            "another one answers",
        ],
    );
    run(
        &suite("sh -c 'echo in use >&2; exit 1'", "false"),
        &[
            "the server ended by itself: exit code 1",
            "in use",
            "port taken",
        ],
    );
}

#[test]
fn a_row_that_promises_a_pipeline_needs_one() {
    let session = Session::new();
    let suite = write(
        &session,
        "suite.toml",
        "[a]\nname='old'\n[b]\nname='new'\nenv={X='1'}\n[[row]]\nname='get-pipeline-10'\nclient='true -t get'\n",
    );
    session.check(
        &["compare", "--suite", &suite],
        2,
        &["refused", "pipeline-10", "add the flag"],
    );
}

fn git(folder: &Path, arguments: &[&str]) {
    let done = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["-c", "user.name=x", "-c", "user.email=x@example.org"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}

/// Two work trees of one repository, each with a program; the base goes on after the change was branched off.
#[test]
fn a_change_that_lacks_commits_of_its_base_is_refused() {
    if !have_tool("git") {
        skip!("no git");
    }
    let session = Session::new();
    let base = session.path("base");
    fs::create_dir(&base).unwrap();
    let program = |folder: &Path, text: &str| {
        fs::write(folder.join("prog"), format!("#!/bin/sh\n# {text}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(folder.join("prog"), mode).unwrap();
    };
    git(&base, &["init", "-q", "-b", "main"]);
    program(&base, "first");
    git(&base, &["add", "."]);
    git(&base, &["commit", "-qm", "first"]);
    git(
        &base,
        &["worktree", "add", "-q", "-b", "change", "../change"],
    );
    program(&base, "much faster");
    git(&base, &["commit", "-qam", "much faster"]);
    program(&session.path("change"), "padded");
    git(&session.path("change"), &["commit", "-qam", "padded"]);
    let arguments = [
        "compare",
        "--a",
        "base=base/prog",
        "--b",
        "change=change/prog",
    ];
    session.check(
        &arguments,
        2,
        &[
            "refused: B lacks 1 commits that A has",
            "much faster",
            "git rebase",
        ],
    );
}

/// One program, and two builds of a library that it loads.
#[test]
fn the_libraries_of_a_side_are_found_as_its_loader_finds_them() {
    if !have_tool("gcc") {
        skip!("no gcc");
    }
    let session = Session::new();
    let gcc = |arguments: &[&str]| {
        let done = Command::new("gcc")
            .current_dir(session.path(""))
            .args(arguments)
            .output()
            .unwrap();
        assert!(done.status.success(), "{arguments:?}: {done:?}");
    };
    fs::write(
        session.path("main.c"),
        "int f(void); int main(void) { return f(); }",
    )
    .unwrap();
    for (folder, body) in [
        ("old", "return 0;"),
        ("new", "int volatile x = 0; return x;"),
    ] {
        fs::create_dir(session.path(folder)).unwrap();
        fs::write(session.path("f.c"), format!("int f(void) {{ {body} }}")).unwrap();
        let library = format!("{folder}/libf.so");
        gcc(&["-shared", "-fPIC", "-o", &library, "f.c"]);
    }
    gcc(&["-o", "prog", "main.c", "-Lold", "-lf"]);
    let suite = |new: &str| {
        let folder = |name: &str| session.path(name).display().to_string();
        write(
            &session,
            "suite.toml",
            &format!(
                "pairs = 6\nnoise-pairs = 0\n[a]\nname='old'\nenv={{LD_LIBRARY_PATH='{}'}}\n[b]\nname='new'\nenv={{LD_LIBRARY_PATH='{}'}}\n[[row]]\nname='start'\ncommand='./prog'\n",
                folder("old"),
                folder(new)
            ),
        )
    };
    let file = suite("new");
    let outcome = session.hitm(["compare", "--suite", &file, "--json=r.json"]);
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(!said.contains("refused"), "{said}");
    for text in [
        "library libf.so: A has",
        "variable LD_LIBRARY_PATH: A sets it to",
    ] {
        assert!(said.contains(text), "no `{text}` in: {said}");
    }
    let document = session.json("r.json");
    let libraries = |side: &str| -> Vec<Value> {
        let program = &document["rows"][0][side]["programs"][0];
        program["libraries"].as_array().unwrap().clone()
    };
    let find = |side: &str, name: &str| -> Value {
        let mut named = libraries(side)
            .into_iter()
            .filter(|one| one["name"] == name);
        named.next().unwrap()
    };
    let (old, new) = (find("side_a", "libf.so"), find("side_b", "libf.so"));
    assert!(old["path"].as_str().unwrap().ends_with("old/libf.so"));
    assert!(new["path"].as_str().unwrap().ends_with("new/libf.so"));
    assert_ne!(old["sha256"], new["sha256"]);
    assert_eq!(find("side_a", "libc.so.6"), find("side_b", "libc.so.6"));
}

/// A program of one thread has no line that two threads could fight over.
#[test]
fn evidence_needs_two_threads_that_write() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    let session = Session::new();
    let spin = "sh -c 'i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; : ";
    let (a, b) = (format!("x={spin}1'"), format!("y={spin}2'"));
    let outcome = session.hitm([
        "compare",
        "--evidence",
        "--pairs",
        "6",
        "--warm-up",
        "0",
        "--noise-pairs",
        "0",
        "--a",
        &a,
        "--b",
        &b,
    ]);
    let all = format!("{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(outcome.status.code(), Some(2), "{all}");
    for text in [
        "refused: x does not do",
        "give it more threads",
        "threads that ran: 1;",
    ] {
        assert!(all.contains(text), "no `{text}` in: {all}");
    }
    let dir = session.path("");
    assert_eq!(
        fs::read_dir(dir).unwrap().count(),
        0,
        "no recording is left behind"
    );
}

/// The faulty and the repaired layout of one source: the mechanism is seen, and never called a gain.
#[test]
fn evidence_shows_the_line_before_and_after() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    let _alone = quiet_machine().unwrap();
    let fixture = fixture("per_thread_array");
    let [faulty, repaired] = [Layout::Faulty, Layout::Repaired].map(|layout| {
        let built = fixture.build(layout, None);
        built.map(|built| built.program.display().to_string())
    });
    let (Ok(faulty), Ok(repaired)) = (faulty, repaired) else {
        skip!("no compiler");
    };
    let session = Session::new();
    for _ in 0..3 {
        let outcome = session.hitm_for(
            250,
            [
                "compare",
                "--evidence",
                "--pairs",
                "6",
                "--noise-pairs",
                "0",
                "--warm-up",
                "0",
                "--metric",
                "rss",
                "--json=r.json",
                "--a",
                &format!("faulty={faulty}"),
                "--b",
                &format!("repaired={repaired}"),
            ],
        );
        let row = session.json("r.json")["rows"][0].clone();
        let evidence = &row["evidence"];
        assert_ne!(
            row["outcome"], "improved",
            "of memory nothing is gained: {outcome:?}"
        );
        assert!(
            evidence["recording_a"]["samples"].as_u64().unwrap() > 0,
            "{evidence}"
        );
        if evidence["says"] != "false-sharing-gone" {
            continue;
        }
        assert_eq!(row["decided_by"], "mechanism");
        let object = &evidence["objects"][0];
        assert_eq!(object["a"]["writers_per_line"], 2, "{evidence}");
        assert!(object["a"]["conflicts_disjoint"].as_u64().unwrap() > 0);
        assert!(
            outcome
                .stdout
                .contains("decided by: the mechanism, not the metric")
        );
        return;
    }
    skip!("this machine does not run two threads side by side");
}
