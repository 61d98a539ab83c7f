//! C programs compiled on the spot, run under the preload agent.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use hitm_collect::{
    RawEvent,
    preload::{Condition, Preload},
};
use hitm_model::{Avma, MappingKind, Nanos, Pid, Tid};

/// A program, compiled and removed again.
pub(super) struct Program {
    directory: tempfile::TempDir,
}

impl Program {
    pub(super) fn new(source: &str) -> Self {
        Self::with(source, &["-pthread"])
    }

    pub(super) fn with(source: &str, flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("program.c");
        fs::write(&file, source).unwrap();
        let output = Command::new("gcc")
            .args(["-O1", "-g", "-D_GNU_SOURCE", "-o"])
            .arg(directory.path().join("program"))
            .arg(&file)
            .args(flags)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Self { directory }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.path().join("program")
    }

    pub(super) fn command(&self) -> Command {
        Command::new(self.path())
    }
}

/// What came of a run.
pub(super) struct Run {
    pub(super) pid: Pid,
    pub(super) events: Vec<RawEvent>,
    pub(super) condition: Option<Condition>,
    pub(super) kernel_ticks: u64,
    pub(super) output: Output,
}

impl Run {
    pub(super) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    /// Samples per process and thread.
    pub(super) fn samples(&self) -> BTreeMap<(Pid, Tid), usize> {
        let mut counts = BTreeMap::new();
        for event in &self.events {
            if let RawEvent::Sample(sample) = event {
                *counts.entry((sample.pid, sample.tid)).or_default() += 1;
            }
        }
        counts
    }

    /// The last name of each thread.
    pub(super) fn names(&self) -> BTreeMap<Tid, &str> {
        let mut names = BTreeMap::new();
        for event in &self.events {
            if let RawEvent::Named { tid, name, .. } = event {
                names.insert(*tid, name.as_str());
            }
        }
        names
    }

    /// Names of programs executed in a process.
    pub(super) fn programs(&self) -> Vec<(Pid, &str)> {
        self.events
            .iter()
            .filter_map(|event| match event {
                RawEvent::Named {
                    pid,
                    name,
                    exec: true,
                    ..
                } => Some((*pid, name.as_str())),
                _ => None,
            })
            .collect()
    }

    pub(super) fn count(&self, matches: impl Fn(&RawEvent) -> bool) -> usize {
        self.events.iter().filter(|event| matches(event)).count()
    }

    /// The file that is mapped at `address` in a process.
    pub(super) fn file_at(&self, process: Pid, address: Avma) -> Option<&str> {
        self.events.iter().rev().find_map(|event| match event {
            RawEvent::Mapped { pid, mapping, .. }
                if *pid == process && mapping.range.contains(address) =>
            {
                match &mapping.kind {
                    MappingKind::File { path, .. } => Some(path.as_str()),
                    _ => None,
                }
            }
            _ => None,
        })
    }
}

/// Runs a program under the agent and gathers what comes of it.
#[track_caller]
pub(super) fn run(command: &mut Command) -> Run {
    let mut sampler = Preload::new(Nanos::from_millis(1)).unwrap();
    command
        .envs(sampler.environment())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let pid = Pid(child.id());
    sampler.expect(pid);
    let mut events = Vec::new();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "the program hangs"
        );
        sampler.poll(&mut |event| events.push(event));
        thread::sleep(Duration::from_millis(20));
    }
    sampler.finish(&mut |event| events.push(event));
    let output = child.wait_with_output().unwrap();
    let (condition, kernel_ticks) = (sampler.condition(), sampler.kernel_ticks());
    Run {
        pid,
        events,
        condition,
        kernel_ticks,
        output,
    }
}

/// Spends processor time until it has used `ms` milliseconds of it.
pub(super) const SPEND: &str = r"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static volatile struct { long a, b; } line __attribute__((aligned(64)));
__attribute__((noinline)) static void spend(volatile long *word, int ms) {
  struct timespec t;
  long end = 0;
  do {
    for (int i = 0; i < 10000; i++) __atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    long now = t.tv_sec * 1000000000L + t.tv_nsec;
    if (!end) end = now + ms * 1000000L;
    else if (now >= end) break;
  } while (1);
}
";

/// A program that can spend time on a line.
pub(super) fn program(body: &str) -> Program {
    Program::new(&format!("{SPEND}{body}"))
}
