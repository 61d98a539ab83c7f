//! `hitm shake` where something is wrong: it says what, and leaves nothing behind.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use hitm_testkit::{have_tool, skip};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::session::{Session, eventually};
use crate::shake::{COST, files, project, shake, temporary};

fn can_build() -> bool {
    have_tool("make") && have_tool("gcc")
}

fn fails(session: &Session, folder: &Path, arguments: &[&str], says: &[&str]) {
    let (outcome, _) = shake(session, folder, arguments, 2);
    let all = format!("{}{}", outcome.stdout, outcome.stderr);
    for text in says {
        assert!(all.contains(text), "{arguments:?}: no `{text}` in: {all}");
    }
}

#[test]
fn what_cannot_be_understood_says_what_to_type() {
    let session = Session::new();
    let here = session.path("");
    let with = |more: &[&'static str]| [&["--build", "true", "--run", "./x"][..], more].concat();
    fails(&session, &here, &["--build", "true"], &["--run"]);
    fails(
        &session,
        &here,
        &["--build", " ", "--run", "x"],
        &["--build is empty"],
    );
    fails(
        &session,
        &here,
        &with(&["--variants", "shifts"]),
        &["shuffle=N"],
    );
    fails(&session, &here, &with(&["--metric", "ops"]), &["one group"]);
    fails(
        &session,
        &here,
        &with(&["--rounds", "3"]),
        &["cannot decide", "--rounds 9"],
    );
    fails(
        &session,
        &here,
        &with(&["--tree", "nowhere"]),
        &["cannot find the tree"],
    );
    fails(
        &session,
        &here,
        &with(&["--tree", "/proc/self/fd"]),
        &["does not contain"],
    );
    fails(
        &session,
        &here,
        &with(&[]),
        &["directory for temporary files", "--tree"],
    );
}

#[test]
fn builds_that_go_wrong_are_shown() {
    if !can_build() {
        skip!("no make, or no gcc");
    }
    let session = Session::new();
    let folder = project(&session);
    let build = |build: &'static str| ["--build", build, "--run", "./prog"];
    fails(
        &session,
        &folder,
        &build("echo out of luck >&2; exit 3"),
        &["the build failed (exit code 3)", "out of luck"],
    );
    fails(
        &session,
        &folder,
        &build("true"),
        &["no program in the copy", "--program"],
    );
    let slow = [&build("sleep 60")[..], &["--build-timeout", "0.3"]].concat();
    fails(
        &session,
        &folder,
        &slow,
        &["did not end within", "--build-timeout SECONDS"],
    );
    fails(
        &session,
        &folder,
        &build("printf '#!/bin/sh\\n' > prog"),
        &["no program in the copy"],
    );
    let other = [&build("make")[..], &["--program", "progg"]].concat();
    fails(
        &session,
        &folder,
        &other,
        &["no program in the copy", "tree/prog"],
    );
}

/// What is run may be a program of the system, which is then not the one that is replaced.
#[test]
fn programs_elsewhere_are_never_replaced() {
    if !can_build() {
        skip!("no make, or no gcc");
    }
    let session = Session::new();
    let folder = project(&session);
    let made = Command::new("make").current_dir(&folder).output().unwrap();
    assert!(made.status.success());
    let elsewhere = session.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let other = elsewhere.join("prog");
    fs::rename(folder.join("prog"), &other).unwrap();
    std::os::unix::fs::symlink(&other, folder.join("link")).unwrap();
    let before = files(&elsewhere);
    let other = other.display().to_string();
    for run in [other.as_str(), "./link"] {
        let arguments = ["--build", "make", "--run", run];
        fails(
            &session,
            &folder,
            &arguments,
            &["no program in the copy", "tree/prog"],
        );
        let arguments = [&arguments[..], &["--program", run]].concat();
        fails(&session, &folder, &arguments, &["no program in the copy"]);
    }
    let run = format!("{other} ./prog");
    let shift = [
        "--build",
        "make clean prog",
        "--run",
        &run,
        "--variants",
        "shift",
    ];
    let (_, document) = shake(&session, &folder, &[&shift[..], &COST].concat(), 0);
    assert_eq!(document["program"], "prog");
    assert_eq!(files(&elsewhere), before);
}

/// Objects of C++ that need each other when the program begins: some orders fail, and that is said.
#[test]
fn a_layout_that_fails_is_named_and_nothing_is_said_of_it() {
    if !have_tool("g++") {
        skip!("no g++");
    }
    let session = Session::new();
    let folder = session.path("order");
    fs::create_dir(&folder).unwrap();
    let first = "struct A { int *p; A(); }; A::A() : p(new int(1)) {} A a;\n";
    let second = "struct A { int *p; A(); }; extern A a; struct B { int v; B() : v(*a.p) {} }; B b;\n\
                  int main() { __builtin_printf(\"cost: 100\\n\"); return b.v - 1; }\n";
    fs::write(folder.join("a.cpp"), first).unwrap();
    fs::write(folder.join("b.cpp"), second).unwrap();
    let build = "g++ -O1 a.cpp b.cpp -o prog";
    let run = [
        "--build",
        build,
        "--run",
        "./prog",
        "--variants",
        "shuffle=1",
    ];
    let (outcome, document) = shake(&session, &folder, &[&run[..], &COST].concat(), 0);
    assert_eq!(document["verdict"], "undecided", "{document:#}");
    for text in [
        "shuffle-1: failed: was killed by signal",
        "1 of 1 layouts are missing",
        "global object",
    ] {
        assert!(outcome.stdout.contains(text), "{text}: {}", outcome.stdout);
    }
}

/// A tree that is built already is up to date in the copy too: nothing is linked.
#[test]
fn a_build_without_a_link_is_refused() {
    if !can_build() {
        skip!("no make, or no gcc");
    }
    let session = Session::new();
    let folder = project(&session);
    let made = Command::new("make").current_dir(&folder).output().unwrap();
    assert!(made.status.success());
    let before = files(&folder);
    let arguments = ["--build", "make", "--run", "./prog"];
    fails(
        &session,
        &folder,
        &arguments,
        &["linked no program that hitm saw", "make clean"],
    );
    assert_eq!(files(&folder), before);
    let arguments = [
        &[
            "--build",
            "make clean prog",
            "--run",
            "./prog",
            "--variants",
            "shift",
        ][..],
        &COST,
    ]
    .concat();
    let (_, document) = shake(&session, &folder, &arguments, 0);
    assert_eq!(document["verdict"], "matters");
    assert_eq!(files(&folder), before);
}

#[test]
fn a_build_that_writes_to_the_tree_itself_is_found_out() {
    if !can_build() {
        skip!("no make, or no gcc");
    }
    let session = Session::new();
    let folder = project(&session);
    let build = format!("make -C {}", folder.display());
    let arguments = ["--build", &build, "--run", "./prog"];
    fails(
        &session,
        &folder,
        &arguments,
        &["files of the tree itself changed", "project/prog"],
    );
}

#[test]
fn runs_that_go_wrong_are_shown() {
    if !can_build() {
        skip!("no make, or no gcc");
    }
    let session = Session::new();
    let folder = project(&session);
    let run = |run: &'static str| ["--build", "make", "--run", run, "--variants", "env=1"];
    fails(
        &session,
        &folder,
        &run("./prog 'a"),
        &["quote is not closed"],
    );
    let program = ["--program", "prog"];
    let failing = [&run("sh -c 'echo no luck >&2; exit 4'")[..], &program].concat();
    fails(
        &session,
        &folder,
        &failing,
        &["The base failed", "exit code 4", "no luck"],
    );
    let hanging = [&run("sleep 60")[..], &program, &["--timeout", "0.3"]].concat();
    fails(
        &session,
        &folder,
        &hanging,
        &["The base failed", "did not end within"],
    );
    let silent = [&run("./prog")[..], &["--metric", "ops: ([0-9]+)"]].concat();
    fails(
        &session,
        &folder,
        &silent,
        &["The base failed", "nothing that the command printed"],
    );
    // Nothing to judge by: the gate is not passed.
    let gate = [
        &run("./prog")[..],
        &COST,
        &["--fail-on", "layout", "--floor", "0.0001"],
    ]
    .concat();
    let (_, document) = shake(&session, &folder, &gate, 0);
    assert_eq!(document["verdict"], "does-not-matter", "{document:#}");
}

/// A hitm that is measured long enough to be ended in the middle.
struct Running {
    child: Child,
}

impl Running {
    /// Its runs are those of a script.
    fn start(session: &Session, script: &str, arguments: &[&str]) -> Self {
        let folder = project(session);
        fs::write(folder.join("run.sh"), script).unwrap();
        let mut command = session.command();
        command
            .current_dir(folder)
            .env("TMPDIR", temporary(session))
            .args(["shake", "--build", "make", "--run", "sh run.sh"])
            .args(["--program", "prog"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self {
            child: command.spawn().unwrap(),
        }
    }

    fn signal(&self, signal: Signal) {
        kill(
            Pid::from_raw(i32::try_from(self.child.id()).unwrap()),
            signal,
        )
        .unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processes that have the session's directory in their environment as the place of an experiment.
fn marked(session: &Session) -> usize {
    let mark = format!("HITM_SHAKE_DIR={}", temporary(session).display());
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let environments = entries.filter_map(|entry| fs::read(entry.path().join("environ")).ok());
    environments
        .filter(|bytes| {
            String::from_utf8_lossy(bytes)
                .split('\0')
                .any(|text| text.starts_with(&mark))
        })
        .count()
}

fn is_empty(session: &Session) -> bool {
    fs::read_dir(temporary(session)).unwrap().next().is_none()
}

#[test]
fn nothing_is_left_when_hitm_is_ended() {
    if !can_build() {
        skip!("no make, or no gcc");
    }
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
        let session = Session::new();
        let mut running = Running::start(&session, "sleep 300 & sleep 300\n", &[]);
        // The shell and the two that it started.
        eventually("the run has begun", || marked(&session) == 3);
        running.signal(signal);
        let status = running.child.wait().unwrap();
        match signal {
            Signal::SIGKILL => assert_eq!(status.code(), None),
            _ => assert_eq!(status.code(), Some(2)),
        }
        eventually("all processes are gone", || marked(&session) == 0);
        eventually("the directory is gone", || is_empty(&session));
    }
}

/// Of the first runs there is a value; then one hangs, and hitm cannot say any more what it knows.
#[test]
fn killed_it_leaves_what_was_measured() {
    if !can_build() {
        skip!("no make, or no gcc");
    }
    let session = Session::new();
    let script = "n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) > n; echo value: 10$n; [ $n -lt 6 ] || sleep 600\n";
    let json = format!("--json={}", session.path("out.json").display());
    let running = Running::start(&session, script, &["--metric", "value: ([0-9]+)", &json]);
    eventually("runs are kept", || session.path("out.json").exists());
    eventually("a run hangs", || marked(&session) == 2);
    running.signal(Signal::SIGKILL);
    eventually("all processes are gone", || marked(&session) == 0);
    eventually("the directory is gone", || is_empty(&session));
    let document = session.json("out.json");
    assert_eq!(document["ended"], "running", "{document:#}");
    assert_eq!(document["verdict"], "undecided", "{document:#}");
}
