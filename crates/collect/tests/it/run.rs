//! `record_run` with real programs.

use std::{
    ffi::OsString,
    io::{self, Write},
    os::unix::fs::PermissionsExt as _,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use hitm_collect::{CollectError, Rate, RunOptions, SamplerChoice, record_run};
use hitm_model::{Avma, Event, ExitStatus, MappingKind, RunMode, SamplerKind, StopReason};
use hitm_recording::Writer;
use hitm_testkit::{perf_available, skip};

use crate::program::{Program, record, shell, spaces};

macro_rules! perf_or_skip {
    () => {
        if let Err(why) = perf_available() {
            skip!("{why}");
        }
    };
}
pub(crate) use perf_or_skip;

/// Two threads named `adder` spin; the main thread sleeps.
const ADDERS: &str = r#"
#include <pthread.h>
#include <stdio.h>
static long counters[2];
static void *work(void *arg) {
    pthread_setname_np(pthread_self(), "adder");
    for (long i = 0; i < 10000000; i++) __atomic_fetch_add((long *)arg, 1, __ATOMIC_RELAXED);
    return 0;
}
int main(int argc, char **argv) {
    pthread_t threads[2];
    FILE *said = fopen(argv[1], "w");
    fprintf(said, "%p %p", (void *)counters, (void *)work);
    fclose(said);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, &counters[i]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 7;
}"#;

fn address(word: &str) -> Avma {
    Avma(u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap())
}

#[test]
fn a_run_is_recorded_from_exec_to_exit() {
    perf_or_skip!();
    let program = Program::new(ADDERS, &[]);
    let recorded = program.record();
    let [
        Event::Machine(_),
        Event::Run(run),
        Event::Sampler(sampler),
        ..,
    ] = &recorded.events[..]
    else {
        panic!("{:?}", &recorded.events[..3]);
    };
    assert_eq!(run.mode, RunMode::Run);
    assert_eq!(run.command[0], program.path().to_string_lossy());
    assert_eq!(sampler.kind, SamplerKind::Perf);
    assert!(sampler.rate_given && sampler.period.0 <= 500_000);

    let adders = recorded.threads_named("adder");
    assert_eq!(adders.len(), 2, "{adders:?}");
    let work = address(&recorded.words[1]);
    for adder in adders {
        let of_adder = || recorded.samples().filter(|sample| sample.thread == adder);
        let total = of_adder().count();
        let inside = of_adder()
            .filter(|sample| {
                sample
                    .registers
                    .ip
                    .offset_from(work)
                    .is_some_and(|at| at < 200)
            })
            .count();
        assert!(total > 20 && inside * 10 > total * 8, "{inside} of {total}");
    }
    assert!(recorded.samples().is_sorted_by_key(|sample| sample.at));
    let counters = address(&recorded.words[0]);
    let mapped = |wanted: Avma, event: &Event| match event {
        Event::Mapping { mapping, .. } => mapping.range.contains(wanted),
        _ => false,
    };
    for wanted in [counters, work] {
        assert!(
            recorded.events.iter().any(|event| mapped(wanted, event)),
            "{wanted}"
        );
    }
    assert_eq!(recorded.outcome.child, Some(ExitStatus::Code(7)));
    assert_eq!(recorded.outcome.reason, StopReason::ProgramEnded);
    assert_eq!(
        recorded.outcome.samples as usize,
        recorded.samples().count()
    );
    let [
        ..,
        Event::ChildEnded { status, .. },
        Event::Ended { reason, .. },
    ] = &recorded.events[..]
    else {
        panic!("{:?}", recorded.events.last());
    };
    assert_eq!(
        (*status, reason),
        (ExitStatus::Code(7), &StopReason::ProgramEnded)
    );
}

#[test]
fn build_ids_are_those_of_readelf() {
    perf_or_skip!();
    let program = Program::new("int main(void) { return 0; }", &["-Wl,--build-id=sha1"]);
    let recorded = program.record();
    let path = program.path().into_string().unwrap();
    let notes = hitm_testkit::tool_output("readelf", &["-n"], path.as_ref()).unwrap();
    let (_, wanted) = notes.split_once("Build ID: ").unwrap();
    let wanted = wanted.split_whitespace().next().unwrap();
    let ids: Vec<String> = recorded
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Mapping { mapping, .. } => match &mapping.kind {
                MappingKind::File {
                    path: of, build_id, ..
                } if *of == path => Some(
                    build_id
                        .as_ref()
                        .map(ToString::to_string)
                        .unwrap_or_default(),
                ),
                _ => None,
            },
            _ => None,
        })
        .collect();
    assert!(
        !ids.is_empty() && ids.iter().all(|id| id == wanted),
        "{ids:?} {wanted}"
    );
}

#[test]
fn chains_of_exec_and_fork_are_followed() {
    perf_or_skip!();
    let (outcome, events) = record(
        &shell("exec sh -c '(true; /bin/true); exec true'"),
        None,
        |_| {},
    )
    .unwrap();
    assert_eq!(outcome.child, Some(ExitStatus::Code(0)));
    let spaces = spaces(&events);
    let names: Vec<&str> = spaces.iter().map(|(.., name)| name.as_str()).collect();
    assert_eq!(names, ["sh", "sh", "sh", "true", "true"], "{spaces:?}");
    // Only the subshell was forked, from the second program.
    assert_eq!(spaces[2].1, Some(spaces[1].0));
    assert!(
        [0, 1, 3, 4]
            .iter()
            .all(|&at: &usize| spaces[at].1.is_none())
    );
}

#[test]
fn a_program_that_exits_at_once_or_is_killed_is_fine() {
    perf_or_skip!();
    let status = |command: &[OsString]| record(command, None, |_| {}).unwrap().0.child;
    assert_eq!(status(&["true".into()]), Some(ExitStatus::Code(0)));
    assert_eq!(status(&shell("exit 42")), Some(ExitStatus::Code(42)));
    assert_eq!(status(&shell("kill -9 $$")), Some(ExitStatus::Signal(9)));
}

#[test]
fn the_time_asked_for_ends_the_program() {
    perf_or_skip!();
    let sleep = ["sleep".into(), "1000".into()];
    let (outcome, _) = record(&sleep, Some(Duration::from_millis(50)), |_| {}).unwrap();
    assert_eq!(outcome.reason, StopReason::TimeOver);
    assert_eq!(outcome.child, Some(ExitStatus::Signal(libc_sigint())));
}

#[test]
fn an_interrupt_ends_the_program() {
    perf_or_skip!();
    let sleep = ["sleep".into(), "1000".into()];
    let (outcome, events) = record(&sleep, None, |interrupt| {
        interrupt.store(true, Ordering::Relaxed)
    })
    .unwrap();
    assert_eq!(outcome.reason, StopReason::Interrupted);
    assert_eq!(outcome.child, Some(ExitStatus::Signal(libc_sigint())));
    assert!(matches!(
        events.last(),
        Some(Event::Ended {
            reason: StopReason::Interrupted,
            ..
        })
    ));
}

const fn libc_sigint() -> i32 {
    2
}

#[test]
fn the_childs_output_can_be_sent_to_our_error_output() {
    perf_or_skip!();
    let run = |to_stderr| {
        let command = shell("test /proc/self/fd/1 -ef /proc/self/fd/2");
        let interrupt = AtomicBool::new(false);
        let options = RunOptions {
            command: &command,
            environment: &[("PATH".into(), std::env::var_os("PATH").unwrap())],
            rate: Rate::Hz(1000),
            sampler: SamplerChoice::Perf,
            duration: None,
            child_stdout_to_stderr: to_stderr,
            interrupt: &interrupt,
        };
        let writer = Writer::new(Vec::new()).unwrap();
        record_run(&options, writer, &mut |_| {}).unwrap().child
    };
    assert_eq!(run(true), Some(ExitStatus::Code(0)));
}

/// A disk that is full after so many bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fits = bytes.len().min(self.0);
        self.0 -= fits;
        if fits == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(fits)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_program() {
    perf_or_skip!();
    let program = Program::new(ADDERS, &[]);
    let command = [program.path(), program.said().into()];
    let interrupt = AtomicBool::new(false);
    let options = RunOptions {
        command: &command,
        environment: &[],
        rate: Rate::Hz(5000),
        sampler: SamplerChoice::Perf,
        duration: None,
        child_stdout_to_stderr: false,
        interrupt: &interrupt,
    };
    let outcome = record_run(&options, Writer::new(Full(500)).unwrap(), &mut |_| {}).unwrap();
    let StopReason::WriteFailed(why) = &outcome.reason else {
        panic!("{outcome:?}");
    };
    assert!(why.contains("no storage space"), "{why}");
    assert_eq!(outcome.child, Some(ExitStatus::Code(7)));
}

#[test]
fn thousands_of_threads_are_told_apart() {
    perf_or_skip!();
    let program = Program::new(
        r#"
        #include <pthread.h>
        static void *work(void *arg) { return arg; }
        int main(void) {
            for (int round = 0; round < 20; round++) {
                pthread_t threads[100];
                for (int i = 0; i < 100; i++) if (pthread_create(&threads[i], 0, work, 0)) return 1;
                for (int i = 0; i < 100; i++) pthread_join(threads[i], 0);
            }
            return 0;
        }"#,
        &[],
    );
    let recorded = program.record();
    assert_eq!(recorded.outcome.child, Some(ExitStatus::Code(0)));
    let count = |wanted: fn(&Event) -> bool| recorded.events.iter().filter(|e| wanted(e)).count();
    assert_eq!(
        count(|event| matches!(event, Event::ThreadBorn { .. })),
        2001
    );
    assert_eq!(
        count(|event| matches!(event, Event::ThreadEnded { .. })),
        2001
    );
    assert_eq!(count(|event| matches!(event, Event::Lost { .. })), 0);
}

#[test]
fn what_cannot_be_started_is_said_precisely() {
    perf_or_skip!();
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8], mode: u32| {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.into_os_string()
    };
    let mut elf32 = b"\x7fELF\x01\x01\x01".to_vec();
    elf32.resize(18, 0);
    elf32.extend([3, 0]);
    let mut broken = b"\x7fELF\x02\x01\x01".to_vec();
    broken.resize(18, 0);
    broken.extend([62, 0, 0, 0]);
    type Expected = fn(&CollectError) -> bool;
    let cases: [(OsString, Expected); 9] = [
        ("no-such-command".into(), |e| {
            matches!(e, CollectError::CommandNotFound { .. })
        }),
        ("/no/such/file".into(), |e| {
            matches!(e, CollectError::CommandNotFound { .. })
        }),
        ("".into(), |e| {
            matches!(e, CollectError::CommandNotFound { .. })
        }),
        (file("plain", b"#!/bin/sh\n", 0o644), |e| {
            matches!(e, CollectError::NotExecutable { .. })
        }),
        (directory.path().into(), |e| {
            matches!(e, CollectError::NotExecutable { .. })
        }),
        (file("text", b"hello\n", 0o755), |e| {
            matches!(e, CollectError::BadFormat { .. })
        }),
        (file("elf32", &elf32, 0o755), |e| {
            matches!(e, CollectError::WrongArchitecture { .. })
        }),
        (file("broken", &broken, 0o755), |e| {
            matches!(e, CollectError::BadFormat { .. })
        }),
        (file("lost", b"#!/no/interpreter\n", 0o755), |e| {
            matches!(e, CollectError::NoInterpreter { .. })
        }),
    ];
    for (command, expected) in cases {
        let error = record(std::slice::from_ref(&command), None, |_| {}).unwrap_err();
        assert!(expected(&error), "{command:?}: {error:?}");
        assert!(!error.is_refusal() && !error.remedy().is_empty());
    }
}

#[test]
fn scripts_run() {
    perf_or_skip!();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("script");
    std::fs::write(&path, "#!/bin/sh\nexit 3\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (outcome, _) = record(&[path.into()], None, |_| {}).unwrap();
    assert_eq!(outcome.child, Some(ExitStatus::Code(3)));
}
