//! hitm is killed in the middle of a window: the program's threads are put back all the same.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hitm_testkit::{Language, compile_program, perf_available, quiet_machine, skip};

use crate::session::Session;

/// Two threads count in neighbouring words; each makes a thread now and then, which stays.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static volatile long counters[2];
static void *wait_long(void *arg) { sleep(100); return arg; }
static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}
/* Twenty births a second, on fast processors and slow ones. */
static void *work(void *arg) {
    long *counter = arg;
    pthread_t thread;
    pthread_setname_np(pthread_self(), "fighter");
    double next = now();
    for (int births = 0;;) {
        for (int i = 0; i < 400000; i++) ++*(volatile long *)counter;
        if (births < 600 && now() >= next) {
            births += !pthread_create(&thread, 0, wait_long, 0);
            next += 0.05;
        }
    }
    return 0;
}
int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, (void *)&counters[i]);
    puts("ready");
    fflush(stdout);
    sleep(100);
    return 0;
}"#;

/// A process that is killed when the test is over.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The masks of all threads of a process.
fn masks(pid: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks
        .filter_map(|task| {
            let status = fs::read_to_string(task.ok()?.path().join("status")).ok()?;
            let mut lines = status.lines();
            let mask = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
            Some(mask.trim().to_owned())
        })
        .collect()
}

/// The guardians of a hitm: children of its with that one word.
fn guardians(hitm: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap();
    let numbers = processes.filter_map(|it| it.ok()?.file_name().to_str()?.parse().ok());
    numbers
        .filter(|pid: &u32| {
            let text = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let stat = String::from_utf8_lossy(&text("stat")).into_owned();
            let parent = stat
                .rsplit_once(") ")
                .and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
            parent == Some(hitm) && text("cmdline").ends_with(b"\0guardian\0")
        })
        .collect()
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(30), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_hitm_that_is_killed_in_a_window_leaves_no_thread_confined() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    let session = Session::new();
    let source = session.path("fighters.c");
    fs::write(&source, PROGRAM).unwrap();
    let program = match compile_program(Language::C, &source, &["-pthread"]) {
        Ok(built) => built.program,
        Err(error) => skip!("{error}"),
    };
    let _quiet = quiet_machine().unwrap();
    let mut program = Running(
        Command::new(program)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut ready = String::new();
    let said = program.0.stdout.take().unwrap();
    BufReader::new(said).read_line(&mut ready).unwrap();
    let pid = program.0.id();
    let right = masks(pid)[0].clone();
    if !right.contains(['-', ',']) {
        skip!("there is only one processor");
    }

    let hitm = Command::new(env!("CARGO_BIN_EXE_hitm"))
        .current_dir(session.path("."))
        .args(["prove", "--sample", "0.3", "--window", "3000"])
        .args(["--threads", "fighter", &pid.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut hitm = Running(hitm);
    let confined = || masks(pid).iter().filter(|mask| **mask != right).count();
    // The two that are moved, and at least one that was born meanwhile.
    eventually("threads are moved", || confined() >= 3);
    let guardians = guardians(hitm.0.id());
    assert_eq!(guardians.len(), 1);
    hitm.0.kill().unwrap();
    hitm.0.wait().unwrap();
    eventually("all are where they were", || confined() == 0);
    eventually("the guardian ends", || {
        !fs::exists(format!("/proc/{}", guardians[0])).unwrap()
    });
    assert_eq!(confined(), 0);
}
