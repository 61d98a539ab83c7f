//! `record_attach` with real programs.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
};

use hitm_collect::{AttachOptions, CollectError, Progress, Rate, record_attach};
use hitm_model::{Event, Pid, RunMode, StopReason};
use hitm_recording::Writer;
use hitm_testkit::{perf_available, skip};

use crate::{
    program::{Program, Recorded, Shared},
    run::perf_or_skip,
};

/// Threads named `early` spin from the start; one named `late` is made when a line comes in.
const SERVER: &str = r#"
#include <pthread.h>
#include <stdio.h>
static volatile int stop;
static long counters[16];
static void *work(void *name) {
    pthread_setname_np(pthread_self(), name);
    for (long i = 0; !stop; i++) counters[i & 15]++;
    return 0;
}
int main(void) {
    pthread_t threads[3];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, "early");
    puts("ready"); fflush(stdout);
    getchar();
    pthread_create(&threads[2], 0, work, "late");
    getchar();
    stop = 1;
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    return 0;
}"#;

fn start(program: &Program) -> Child {
    let mut child = Command::new(program.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "ready\n");
    child
}

#[test]
fn threads_that_are_there_and_threads_that_come_are_sampled() {
    perf_or_skip!();
    let program = Program::new(SERVER, &[]);
    let mut child = start(&program);
    let mut input = child.stdin.take().unwrap();
    let file = Shared::default();
    let interrupt = AtomicBool::new(false);
    let options = AttachOptions {
        pid: Pid(child.id()),
        rate: Rate::Hz(2000),
        duration: None,
        interrupt: &interrupt,
    };
    let mut polls = 0;
    let outcome = record_attach(
        &options,
        Writer::new(file.clone()).unwrap(),
        &mut |_: &Progress| {
            polls += 1;
            match polls {
                3 => input.write_all(b"\n").unwrap(),
                12 => interrupt.store(true, Ordering::Relaxed),
                _ => {}
            }
        },
    )
    .unwrap();
    // It runs on, and ends when told to.
    assert!(child.try_wait().unwrap().is_none());
    input.write_all(b"\n").unwrap();
    assert!(child.wait().unwrap().success());

    assert_eq!(
        (outcome.child, &outcome.reason),
        (None, &StopReason::Interrupted)
    );
    let recorded = Recorded {
        outcome,
        events: file.events(),
        words: Vec::new(),
    };
    let Event::Run(run) = &recorded.events[1] else {
        panic!("{:?}", recorded.events[1]);
    };
    assert_eq!(run.mode, RunMode::Attach);
    for (name, n) in [("early", 2), ("late", 1)] {
        let threads = recorded.threads_named(name);
        assert_eq!(threads.len(), n, "{name}");
        for thread in threads {
            let samples = recorded.samples().filter(|sample| sample.thread == thread);
            assert!(samples.count() > 0, "{name}");
        }
    }
}

#[test]
fn a_process_that_ends_ends_the_recording() {
    perf_or_skip!();
    let program = Program::new(SERVER, &[]);
    let mut child = start(&program);
    let mut input = child.stdin.take().unwrap();
    let interrupt = AtomicBool::new(false);
    let options = AttachOptions {
        pid: Pid(child.id()),
        rate: Rate::Hz(1000),
        duration: None,
        interrupt: &interrupt,
    };
    let mut told = false;
    let outcome = record_attach(
        &options,
        Writer::new(Vec::new()).unwrap(),
        &mut |_: &Progress| {
            if !std::mem::replace(&mut told, true) {
                input.write_all(b"\n\n").unwrap();
            }
        },
    );
    assert_eq!(outcome.unwrap().reason, StopReason::ProgramEnded);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_process_that_is_not_there_is_an_error() {
    let interrupt = AtomicBool::new(false);
    let options = AttachOptions {
        pid: Pid(u32::MAX / 2),
        rate: Rate::Hz(1000),
        duration: None,
        interrupt: &interrupt,
    };
    let error = record_attach(&options, Writer::new(Vec::new()).unwrap(), &mut |_| {}).unwrap_err();
    assert!(
        matches!(error, CollectError::NoSuchProcess { .. }),
        "{error:?}"
    );
}
