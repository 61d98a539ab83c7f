//! A program whose threads are proven, a planner that finds them by name, and a guardian.

use std::{
    ffi::OsString,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    sync::atomic::AtomicBool,
    time::{Duration, Instant},
};

use hitm_collect::{
    AttachOptions, Outcome, Progress, Rate, prove,
    prove::{AfterWindows, Phase, Planned, Planner, Prove, ProveOptions},
    prove_attach,
};
use hitm_model::{
    Avma, Event, Group, GroupEnd, Pid, PlannedGroup, PlannedThread, Tid, Window, Word,
};
use hitm_recording::Writer;

use crate::program::{Program, Shared};

/// Two threads named `fighter` count in neighbouring words. Lines of standard input are commands, see `command`. It
/// says where the words are, and what `HELPERS` say.
const FIGHTERS: &str = r#"
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static volatile long counters[2];
static volatile int stop[2];
static pthread_t threads[2];
static void helper(int who, long turn);
static void command(const char *line);
static void *work(void *arg) {
    int who = (int)(long)arg;
    pthread_setname_np(pthread_self(), "fighter");
    for (long turn = 0; !stop[who]; turn++) {
        for (int i = 0; i < 100000; i++) counters[who]++;
        helper(who, turn);
    }
    return 0;
}
static void pin(pthread_t thread, int first, int last) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu = first; cpu <= last; cpu++) CPU_SET(cpu, &set);
    pthread_setaffinity_np(thread, sizeof set, &set);
}
HELPERS
int main(int argc, char **argv) {
    char line[64];
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], 0, work, (void *)(long)i);
        if (argc > 1) pin(threads[i], atoi(argv[1]) ? i : 0, atoi(argv[1]) ? i : 0);
    }
    printf("%p\n", (void *)counters);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) command(line);
    _exit(0);
}"#;

/// Nothing but counting.
pub(super) const NO_HELPERS: &str = "
static void helper(int who, long turn) { (void)who; (void)turn; }
static void command(const char *line) {
    if (line[0] == 'e') stop[1] = 1;
    if (line[0] == 'w') pin(threads[0], 0, 1);
}";

/// A running program of [`FIGHTERS`].
pub(super) struct Fighters {
    child: Child,
    input: ChildStdin,
    output: BufReader<std::process::ChildStdout>,
    pub(super) counters: Avma,
    _program: Program,
    /// Kept until the program has ended: many of them at once would leave nobody a processor.
    _quiet: nix::fcntl::Flock<std::fs::File>,
}

impl Fighters {
    pub(super) fn start(helpers: &str, arguments: &[&str]) -> Self {
        Self::start_as(&[], helpers, arguments)
    }

    /// With words in front of the command, such as `taskset`.
    pub(super) fn start_as(before: &[&str], helpers: &str, arguments: &[&str]) -> Self {
        let quiet = hitm_testkit::quiet_machine().unwrap();
        let program = Program::new(&FIGHTERS.replace("HELPERS", helpers), &[]);
        let mut words: Vec<OsString> = before.iter().map(Into::into).collect();
        words.push(program.path());
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let counters = u64::from_str_radix(line.trim().trim_start_matches("0x"), 16).unwrap();
        Self {
            child,
            input,
            output,
            counters: Avma(counters),
            _program: program,
            _quiet: quiet,
        }
    }

    pub(super) fn pid(&self) -> Pid {
        Pid(self.child.id())
    }

    pub(super) fn command(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// The numbers that the program says from now on, to the end of its output: it is told to end.
    pub(super) fn said(&mut self) -> Vec<u32> {
        self.command("q");
        let mut said = Vec::new();
        let mut line = String::new();
        while self.output.read_line(&mut line).unwrap() > 0 && line != ".\n" {
            said.push(line.trim().parse().unwrap());
            line.clear();
        }
        said
    }

    /// Waits until the program has killed its children, so that none outlives a test that fails.
    pub(super) fn killed(&mut self) {
        self.command("k");
        let mut line = String::new();
        while self.output.read_line(&mut line).unwrap() > 0 && line != ".\n" {
            line.clear();
        }
    }

    /// The mask of every thread.
    pub(super) fn masks(&self) -> Vec<(Tid, String)> {
        masks_of(self.pid())
    }
}

impl Drop for Fighters {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The mask of every thread of a process.
pub(super) fn masks_of(pid: Pid) -> Vec<(Tid, String)> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let mut masks: Vec<(Tid, String)> = tasks
        .filter_map(|task| {
            let status = std::fs::read_to_string(task.ok()?.path().join("status")).ok()?;
            let value = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name))?;
                Some(line.trim().to_owned())
            };
            Some((
                Tid(value("Pid:")?.parse().ok()?),
                value("Cpus_allowed_list:")?,
            ))
        })
        .collect();
    masks.sort();
    masks
}

/// The number of processors that this test may use.
pub(super) fn n_cpus() -> usize {
    let files = hitm_collect::machine::SystemFiles::of_this_machine();
    hitm_collect::machine::allowed_cpus(&files).len()
}

/// Ends the test where there is nothing to compare.
macro_rules! two_cpus_or_skip {
    () => {
        if $crate::prove::support::n_cpus() < 2 {
            hitm_testkit::skip!("there is only one processor");
        }
    };
}
pub(super) use two_cpus_or_skip;

/// Few and short windows, a guardian that is this test program, and what is given.
pub(super) fn options() -> ProveOptions {
    let this = std::env::current_exe().unwrap();
    let test = "prove::support::this_is_the_guardian_if_asked";
    let words = ["--exact", test, "--test-threads=1"].map(OsString::from);
    let mut guardian: Vec<OsString> = vec!["env".into(), format!("{MARK}=1").into(), this.into()];
    guardian.extend(words);
    ProveOptions {
        sample_for: Duration::from_millis(200),
        windows: Some(3),
        length: Some(Duration::from_millis(30)),
        budget: None,
        matrix: false,
        after: AfterWindows::Stop,
        guardian,
        seed: Some(7),
    }
}

/// In the environment of the guardian.
const MARK: &str = "HITM_TEST_IS_GUARDIAN";

#[test]
fn this_is_the_guardian_if_asked() {
    if std::env::var_os(MARK).is_some() {
        prove::guardian().unwrap();
    }
}

/// Plans the first two threads of this name, once there are two.
pub(super) struct ByName {
    file: Shared,
    name: &'static str,
    words: Avma,
}

impl Planner for ByName {
    fn plan(&mut self) -> Option<Planned> {
        let mut threads = named(&self.file.events_so_far(), self.name);
        threads.truncate(2);
        Some(if threads.len() < 2 {
            Planned::NothingYet("too few of them".into())
        } else {
            let words = threads.iter().zip([0, 8]);
            Planned::Groups(vec![PlannedGroup {
                words: words
                    .map(|(thread, offset)| Word {
                        thread: Some(thread.thread),
                        address: Avma(self.words.0 + offset),
                        size: 8,
                        name: None,
                    })
                    .collect(),
                threads,
                code: Vec::new(),
            }])
        })
    }
}

fn named(events: &[Event], wanted: &str) -> Vec<PlannedThread> {
    let mut pids = Vec::new();
    let mut born = Vec::new();
    let mut threads = Vec::new();
    for event in events {
        match event {
            Event::SpaceBorn { space, pid, .. } => pids.push((*space, *pid)),
            Event::ThreadBorn {
                thread,
                space,
                tid,
                name,
                ..
            } => {
                let (_, pid) = pids.iter().find(|(of, _)| of == space).unwrap();
                born.push(PlannedThread {
                    thread: *thread,
                    pid: *pid,
                    tid: *tid,
                });
                if name == wanted {
                    threads.push(*thread);
                }
            }
            Event::ThreadNamed { thread, name, .. } if name == wanted => threads.push(*thread),
            _ => {}
        }
    }
    born.retain(|thread| threads.contains(&thread.thread));
    born
}

/// What came of proving a program.
pub(super) struct Proven {
    pub(super) outcome: Outcome,
    pub(super) events: Vec<Event>,
}

impl Proven {
    pub(super) fn group(&self) -> &Group {
        let mut groups = self.events.iter().filter_map(|event| match event {
            Event::Group(group) => Some(group),
            _ => None,
        });
        groups.next().unwrap()
    }

    pub(super) fn windows(&self) -> Vec<&Window> {
        let windows = self.events.iter().filter_map(|event| match event {
            Event::Window(window) => Some(window),
            _ => None,
        });
        windows.collect()
    }

    pub(super) fn end(&self) -> &GroupEnd {
        let mut ends = self.events.iter().filter_map(|event| match event {
            Event::GroupEnded(end) => Some(end),
            _ => None,
        });
        ends.next().unwrap()
    }
}

/// Proves the fighters of a process. `watch` is called once before each window, with its number from 1 on.
pub(super) fn prove_fighters(
    fighters: &mut Fighters,
    options: &ProveOptions,
    mut watch: impl FnMut(&mut Fighters, u32, &AtomicBool),
) -> Proven {
    let file = Shared::default();
    let interrupt = AtomicBool::new(false);
    let attach = AttachOptions {
        pid: fighters.pid(),
        rate: Rate::Hz(1000),
        duration: Some(Duration::from_secs(60)),
        interrupt: &interrupt,
    };
    let mut planner = ByName {
        file: file.clone(),
        name: "fighter",
        words: fighters.counters,
    };
    let prove = Prove {
        options,
        planner: &mut planner,
    };
    let writer = Writer::new(file.clone()).unwrap();
    let outcome = prove_attach(&attach, prove, writer, &mut |progress: &Progress| {
        if let Phase::Window { window, .. } = progress.phase {
            watch(fighters, window, &interrupt);
        }
    });
    Proven {
        outcome: outcome.unwrap(),
        events: file.events(),
    }
}

/// Waits until something is so, and fails if it never is.
pub(super) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
