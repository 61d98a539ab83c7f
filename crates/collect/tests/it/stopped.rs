//! Sleeping threads are stopped for their registers, and do not notice.

use std::{thread, time::Duration};

use hitm_collect::{ProcFs, World as _};
use hitm_model::{Avma, Event, ExitStatus, Pid, Tid};
use hitm_testkit::{perf_available, skip};
use nix::sys::{
    ptrace,
    wait::{Id, WaitPidFlag, waitid},
};

use crate::{program::Program, run::perf_or_skip, stacks::address};

/// Two threads write two locals of `lend`, which sleeps in a system call of its own and needs its frame pointer, so
/// that nothing below its frame tells where that is. It says where its frame is and how often and with what the call
/// returned.
const LEND: &str = r#"
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static int left = 2, word;
static void *work(void *arg) {
    for (long i = 0; i < 60000000; i++) __atomic_fetch_add((long *)arg, 1, __ATOMIC_RELAXED);
    if (WAKE && __atomic_sub_fetch(&left, 1, __ATOMIC_SEQ_CST) == 0) {
        __atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
        syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1);
    }
    return 0;
}
static inline __attribute__((always_inline)) long call(long number, void *a, long b, long c, void *d) {
    long result;
    register void *r10 __asm__("r10") = d;
    __asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
    return result;
}
__attribute__((noinline)) long lend(FILE *said, long n) {
    _Alignas(16) long lent[2] = {n, n};
    struct timespec time = {0, 700 * 1000 * 1000};
    fprintf(said, "%p %p %p ", __builtin_dwarf_cfa(), (void *)lend, (void *)lent);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, &lent[i]);
    long returns = 0, result;
    do {
        result = SLEEP;
        returns++;
    } while (WAKE && !__atomic_load_n(&word, __ATOMIC_SEQ_CST));
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    fprintf(said, "%ld %ld", returns, result);
    fclose(said);
    return lent[0] + lent[1];
}
int main(int argc, char **argv) {
    return lend(fopen(argv[1], "w"), argc) == 0;
}"#;

/// Records a program in which `sleep` is how the lender sleeps; what it returned at last.
#[track_caller]
fn check(wake: bool, sleep: &str) -> String {
    let flags = [
        format!("-DSLEEP={sleep}"),
        format!("-DWAKE={}", u8::from(wake)),
        "-fno-omit-frame-pointer".into(),
    ];
    let recorded = Program::new(LEND, &flags.each_ref().map(String::as_str)).record();
    assert_eq!(recorded.outcome.child, Some(ExitStatus::Code(0)));
    let [cfa, lend] = [0, 1].map(|at| address(&recorded.words[at]));
    let mut frames = recorded.events.iter().filter_map(|event| match event {
        Event::Frames { frames, .. } => frames.first(),
        _ => None,
    });
    // It was stopped, or its frame would not be known: it is the innermost one.
    let frame = frames
        .rfind(|frame| frame.ip.offset_from(lend).is_some_and(|at| at < 500))
        .expect("the lender's frame");
    assert_eq!(frame.cfa, cfa);
    // A spurious return would be one more.
    assert_eq!(recorded.words[3], "1", "{:?}", recorded.words);
    recorded.words[4].clone()
}

macro_rules! ptrace_or_skip {
    () => {
        perf_or_skip!();
        if let Err(why) = may_trace() {
            skip!("ptrace is refused: {why}");
        }
    };
}

fn may_trace() -> nix::Result<()> {
    let mut other = std::process::Command::new("sleep")
        .arg("10")
        .spawn()
        .unwrap();
    let pid = nix::unistd::Pid::from_raw(other.id().cast_signed());
    let seized = ptrace::seize(pid, ptrace::Options::empty());
    other.kill().unwrap();
    other.wait().unwrap();
    seized
}

#[test]
fn a_lender_that_waits_to_be_woken_is_found_and_woken_once() {
    ptrace_or_skip!();
    let result = check(true, "call(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, 0)");
    assert_eq!(result, "0");
}

#[test]
fn a_lender_that_waits_for_a_time_is_found_and_waits_to_its_end() {
    ptrace_or_skip!();
    let timed_out = (-libc::ETIMEDOUT).to_string();
    let result = check(
        false,
        "call(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &time)",
    );
    assert_eq!(result, timed_out);
}

#[test]
fn a_lender_that_sleeps_for_a_time_is_found_and_sleeps_to_its_end() {
    ptrace_or_skip!();
    let sleep = "call(SYS_clock_nanosleep, (void *)CLOCK_MONOTONIC, 0, (long)&time, &time)";
    assert_eq!(check(false, sleep), "0");
}

fn sleeper() -> std::process::Child {
    let program = std::process::Command::new("sleep").arg("0.4").spawn();
    program.unwrap()
}

#[test]
fn a_process_that_was_stopped_for_its_registers_ends_as_usual() {
    let mut child = sleeper();
    let (pid, tid) = (Pid(child.id()), Tid(child.id()));
    let registers = || ProcFs::new().registers(pid, tid);
    // It takes a moment before it sleeps.
    let stopped = (0..200).find_map(|_| {
        thread::sleep(Duration::from_millis(1));
        registers()
    });
    // As often as it is let.
    for _ in 0..20 {
        registers();
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let Some(stopped) = stopped else {
        skip!("ptrace is refused");
    };
    assert_ne!(stopped.registers.sp(), Avma(0));
    assert_ne!(stopped.fs_base, Avma(0));
}

/// As if the tracer were killed, or waited no longer, between the stop and the end of it.
#[test]
fn a_process_goes_on_when_its_tracer_ends() {
    for wait_for_stop in [false, true] {
        let mut child = sleeper();
        let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
        thread::sleep(Duration::from_millis(20));
        let traced = thread::spawn(move || {
            ptrace::seize(pid, ptrace::Options::empty())?;
            ptrace::interrupt(pid)?;
            let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOWAIT | WaitPidFlag::__WALL;
            if wait_for_stop {
                waitid(Id::Pid(pid), flags)?;
            }
            nix::Result::Ok(())
        });
        let traced = traced.join().unwrap();
        // The thread is joined a moment before the kernel lets go of what it traced.
        let status = format!("/proc/{pid}/status");
        let tracer = format!("TracerPid:\t{}\n", std::process::id());
        while std::fs::read_to_string(&status).unwrap().contains(&tracer) {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(child.wait().unwrap().code(), Some(0));
        if let Err(why) = traced {
            skip!("ptrace is refused: {why}");
        }
    }
}

/// The main thread waits until it has got 1000 signals, none of which may be lost; if one is, it waits until the alarm.
const SIGNALLED: &str = r#"
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
static pthread_t waiter;
static int n, word;
static void count(int number) { (void)number; if (++n == 1000) word = 1; }
static void *send(void *arg) {
    for (int i = 0; i < 1000; i++) { pthread_kill(waiter, SIGRTMIN + 3); usleep(100); }
    return arg;
}
int main(void) {
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART};
    pthread_t sender;
    alarm(20);
    waiter = pthread_self();
    sigaction(SIGRTMIN + 3, &action, 0);
    pthread_create(&sender, 0, send, 0);
    while (!*(volatile int *)&word)
        if (syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, 0) == 0) return 3;
    return n == 1000 ? 0 : 4;
}"#;

#[test]
fn signals_that_come_at_the_same_time_are_not_lost() {
    let program = Program::new(SIGNALLED, &[]);
    let mut child = std::process::Command::new(program.path()).spawn().unwrap();
    let (pid, tid) = (Pid(child.id()), Tid(child.id()));
    let mut n_stops = 0;
    let status = loop {
        n_stops += u32::from(ProcFs::new().registers(pid, tid).is_some());
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
    };
    assert_eq!(status.code(), Some(0));
    if n_stops == 0 {
        skip!("ptrace is refused");
    }
}
