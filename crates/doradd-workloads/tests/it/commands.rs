//! The command `ycsb` as its user sees it: what it refuses, with which words and exit code, and that it ends cleanly.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// A directory to run in.
pub(crate) struct Dir(TempDir);

impl Dir {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    /// With a log of so many transactions over so many rows.
    pub(crate) fn with_log(transactions: u32, rows: u64) -> Self {
        let dir = Self::new();
        let ran = ycsb(
            &dir,
            &format!("gen --txns {transactions} --rows {rows} --contention mod -o log"),
        );
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        dir
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn files(&self) -> Vec<String> {
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.unwrap().file_name().into_string().unwrap()
        };
        fs::read_dir(self.0.path()).unwrap().map(name).collect()
    }
}

pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

fn command(dir: &Dir, arguments: &str) -> Command {
    command_of(env!("CARGO_BIN_EXE_ycsb"), dir, arguments)
}

fn command_of(program: &str, dir: &Dir, arguments: &str) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments.split_whitespace())
        .current_dir(dir.0.path());
    command
}

pub(crate) fn ycsb(dir: &Dir, arguments: &str) -> Ran {
    run(env!("CARGO_BIN_EXE_ycsb"), dir, arguments)
}

pub(crate) fn tpcc(dir: &Dir, arguments: &str) -> Ran {
    run(env!("CARGO_BIN_EXE_tpcc"), dir, arguments)
}

pub(crate) fn run(program: &str, dir: &Dir, arguments: &str) -> Ran {
    let output = command_of(program, dir, arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Ran {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn check_in(dir: &Dir, arguments: &str, code: i32, expected: &str) {
    let ran = ycsb(dir, arguments);
    let said = if code == 0 { &ran.stdout } else { &ran.stderr };
    assert_eq!(ran.code, code, "ycsb {arguments}: {}", ran.stderr);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains(expected),
        "ycsb {arguments} says\n{said}\nand not\n{expected}"
    );
    assert!(
        code == 0 || ran.stdout.is_empty(),
        "ycsb {arguments}: {}",
        ran.stdout
    );
}

fn check(arguments: &str, code: i32, expected: &str) {
    check_in(&Dir::with_log(300, 100), arguments, code, expected);
}

#[test]
fn it_executes_and_verifies() {
    check("log --rows 100", 0, "executed 300 transactions in");
    check(
        "-n 3 log --rows 100 --verify",
        0,
        "equal to that of executing the log one by one",
    );
    check(
        "--workers 2 log --rows 100 --repeat 7 --verify",
        0,
        "executed 2,100 transactions",
    );
    check(
        "-n 1 log --rows 100 -i fixed:100 --pin --verify",
        0,
        "equal",
    );
    check(
        "-n 2 log --rows 100 -i exp:100 --pin=0 --max-in-flight 1",
        0,
        "from arrival to the end of the body",
    );
    for dispatch in ["auto", "fused", "fused2", "fused3", "pipelined"] {
        check(
            &format!("log --rows 100 --verify --dispatch {dispatch}"),
            0,
            "equal",
        );
    }
    for bytes in [64, 256, 1024, 4096] {
        check(
            &format!("log --rows 100 --verify --row-bytes {bytes}"),
            0,
            "equal",
        );
    }
}

#[test]
fn wrong_usage_is_refused_with_what_to_do() {
    check("", 2, "<LOG>");
    check("-n 2", 2, "<LOG>");
    check(
        "none --rows 100",
        2,
        "none: cannot read the log: No such file",
    );
    check("log --rows 7", 2, "log: record 0: key");
    check("log --rows 100 -n 0", 2, "0 workers: build with 1 to 1024");
    check("log --rows 100 -n many", 2, "invalid digit");
    check(
        "log --rows 100 --max-in-flight 0",
        2,
        "max_in_flight is 0: build with 1 to",
    );
    check("log --rows 100 -i 180", 2, "such as exp:180");
    check(
        "log --rows 100 --dispatch fast",
        2,
        "[possible values: auto, fused, fused2, fused3, pipelined]",
    );
    check("log --rows 100 --repeat 0", 2, "--repeat");
    check(
        "log --rows 100 --seconds 0",
        2,
        "--seconds 0: give a number of seconds above 0",
    );
    check("log --rows 100 --seconds=-1", 2, "--seconds -1: give");
    check(
        "log --rows 100 --seconds nan",
        2,
        "give a number of seconds above 0",
    );
    check(
        "log --rows 100 --row-bytes 100",
        2,
        "rows have [64, 256, 1024, 4096] bytes",
    );
    check(
        "- --rows 100 --verify",
        2,
        "write it to a file first, with `tee FILE`",
    );
    check(
        "- --rows 100 --repeat 2",
        2,
        "write it to a file first, with `tee FILE`",
    );
    check("log --rows 100 gen", 2, "cannot be used with");
    check("gen --txns 1", 2, "--output <FILE>");
    check(
        "gen --txns 1 --rows 0 -o it",
        2,
        "0 rows: keys have 32 bits, so a table has from 1 to 4294967296 rows",
    );
    check("gen --txns -1 -o it", 2, "--txns");
    check(
        "gen --txns 4294967296 -o it",
        2,
        "4294967296 is not in 0..=4294967295",
    );
    check(
        "gen --txns 1 --zipf 1 -o it",
        2,
        "Gray's formula is for 0 < theta < 1",
    );
    check(
        "gen --txns 1 --write-ratio 2 -o it",
        2,
        "the write ratio is 2: it is the part of the keys",
    );
    check(
        "gen --txns 1 --contention low -o it",
        2,
        "[possible values: no, mod, high]",
    );
    check(
        "gen --txns 1 -o none/it",
        2,
        "name a directory that exists and that you may write to",
    );
    check("gen --txns 1 -o .", 2, "cannot make a file for .");
    check(
        "gen --txns 9000 -o /dev/full",
        2,
        "cannot write /dev/full: nothing is kept of it; make room",
    );
}

#[test]
fn a_wrong_log_from_a_pipe_is_refused_after_what_was_executed() {
    let ran = ycsb(&Dir::new(), "- --rows 100");
    assert_eq!(ran.code, 2);
    assert!(
        ran.stdout.contains("executed    0 transactions"),
        "{}",
        ran.stdout
    );
    let expected = "what was measured is of the transactions before: the log has 0 bytes";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
}

#[test]
fn what_the_machine_cannot_do_has_its_own_code() {
    check(
        "log --rows 4000000000 --row-bytes 4096",
        3,
        "4000000000 rows of 4096 bytes need 16416.1 GB, and ",
    );
    check("log --rows 100 --pin=0,100000", 3, "processor 100000");
}

#[test]
fn a_log_is_generated_again_to_the_byte() {
    let dir = Dir::new();
    let log = |name: &str, options: &str| {
        let ran = ycsb(
            &dir,
            &format!("gen --txns 500 --rows 1000 {options} -o {name}"),
        );
        assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (0, "", ""));
        fs::read(dir.path(name)).unwrap()
    };
    let first = log(
        "a",
        "--seed 9 --contention high --zipf 0.9 --write-ratio 0.2",
    );
    assert_eq!(
        log(
            "b",
            "--seed 9 --contention high --zipf 0.9 --write-ratio 0.2"
        ),
        first
    );
    assert_ne!(
        log(
            "c",
            "--seed 8 --contention high --zipf 0.9 --write-ratio 0.2"
        ),
        first
    );
    let piped = command(
        &dir,
        "gen --txns 500 --rows 1000 --seed 9 --contention high --zipf 0.9 --write-ratio 0.2 -o -",
    );
    assert_eq!({ piped }.output().unwrap().stdout, first);
    assert_eq!(dir.files().len(), 3);
}

#[test]
fn a_log_from_a_pipe_is_executed_while_it_is_written() {
    let dir = Dir::with_log(300, 100);
    let log = fs::read(dir.path("log")).unwrap();
    let mut child = command(&dir, "-n 2 - --rows 100 --json")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    for piece in log.chunks(1000) {
        pipe.write_all(piece).unwrap();
    }
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["measured"]["counts"]["executed"], 300);
}

/// Waits for its first line, interrupts it, and gives what it said until it ended.
fn interrupted(dir: &Dir, arguments: &str, signal: Signal) -> (Option<i32>, String) {
    let mut child = command(dir, arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut said = vec![0];
    stdout.read_exact(&mut said).unwrap();
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
    stdout.read_to_end(&mut said).unwrap();
    (
        child.wait().unwrap().code(),
        String::from_utf8(said).unwrap(),
    )
}

#[test]
fn ctrl_c_ends_a_run_and_shows_what_was_measured() {
    let dir = Dir::with_log(300, 100);
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let (code, said) = interrupted(
            &dir,
            "-n 1 log --rows 100 --repeat 1000000000 -i exp:100000 --verify",
            signal,
        );
        assert_eq!(code, Some(0), "{said}");
        assert!(
            said.contains(", interrupted") && said.contains("latency     p50"),
            "{said}"
        );
        assert!(
            said.contains("equal to that of executing the log one by one"),
            "{said}"
        );
    }
}

#[test]
fn ctrl_c_ends_a_run_whose_pipe_is_silent() {
    let dir = Dir::new();
    let (code, said) = interrupted(&dir, "-n 1 - --rows 100", Signal::SIGINT);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("executed    0 transactions"), "{said}");
}

#[test]
fn time_ends_a_run_that_would_go_on() {
    let dir = Dir::with_log(300, 100);
    check_in(
        &dir,
        "-n 1 log --rows 100 --seconds 0.2 --verify",
        0,
        "equal",
    );
    check_in(
        &dir,
        "-n 1 log --rows 100 --seconds 0.2 -i exp:20000",
        0,
        "executed",
    );
    // More than any machine can do: it ends all the same, and says so.
    check_in(
        &dir,
        "-n 1 log --rows 100 --seconds 0.4 -i fixed:0.5",
        0,
        "transactions arrived faster than they were executed",
    );
}

#[test]
fn an_interrupted_generator_leaves_nothing() {
    let dir = Dir::new();
    let child = command(&dir, "gen --txns 4000000000 -o log")
        .spawn()
        .unwrap();
    let pid = Pid::from_raw(child.id() as i32);
    // It has begun once its file is there.
    while dir.files().is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    kill(pid, Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(dir.files(), [""; 0]);
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let dir = Dir::with_log(300, 100);
    let mut child = command(&dir, "-n 1 log --rows 100")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]));
}
