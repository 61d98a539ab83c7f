//! The preload agent in real programs: what is sampled, and that the programs do not notice.
//!
//! Longer than other files because every test carries the C program that it is about.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::atomic::AtomicBool,
    thread,
    time::{Duration, Instant},
};

use hitm_collect::{
    Rate, RawEvent, RunOptions, SamplerChoice,
    preload::{Condition, Preload},
    record_run,
};
use hitm_model::{Avma, Event, ExitStatus, MappingKind, Nanos, Pid, SamplerKind, Tid};

/// A program, compiled and removed again.
struct Program {
    directory: tempfile::TempDir,
}

impl Program {
    fn new(source: &str) -> Self {
        Self::with(source, &["-pthread"])
    }

    fn with(source: &str, flags: &[&str]) -> Self {
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

    fn path(&self) -> PathBuf {
        self.directory.path().join("program")
    }

    fn command(&self) -> Command {
        Command::new(self.path())
    }
}

/// What came of a run.
struct Run {
    pid: Pid,
    events: Vec<RawEvent>,
    condition: Option<Condition>,
    kernel_ticks: u64,
    output: Output,
}

impl Run {
    fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    /// Samples per process and thread.
    fn samples(&self) -> BTreeMap<(Pid, Tid), usize> {
        let mut counts = BTreeMap::new();
        for event in &self.events {
            if let RawEvent::Sample(sample) = event {
                *counts.entry((sample.pid, sample.tid)).or_default() += 1;
            }
        }
        counts
    }

    /// The last name of each thread.
    fn names(&self) -> BTreeMap<Tid, &str> {
        let mut names = BTreeMap::new();
        for event in &self.events {
            if let RawEvent::Named { tid, name, .. } = event {
                names.insert(*tid, name.as_str());
            }
        }
        names
    }

    /// Names of programs executed in a process.
    fn programs(&self) -> Vec<(Pid, &str)> {
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

    fn count(&self, matches: impl Fn(&RawEvent) -> bool) -> usize {
        self.events.iter().filter(|event| matches(event)).count()
    }

    /// The file that is mapped at `address` in a process.
    fn file_at(&self, process: Pid, address: Avma) -> Option<&str> {
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

#[track_caller]
fn run(command: &mut Command) -> Run {
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
const SPEND: &str = r"
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

fn program(body: &str) -> Program {
    Program::new(&format!("{SPEND}{body}"))
}

#[test]
fn both_threads_on_a_line_are_sampled() {
    let program = program(
        r#"
        static void *work(void *name) {
          pthread_setname_np(pthread_self(), name);
          spend(*(char *)name == 'l' ? &line.a : &line.b, 300);
          return 0;
        }
        int main(void) {
          pthread_t l, r;
          pthread_create(&l, 0, work, "left");
          pthread_create(&r, 0, work, "right");
          pthread_join(l, 0), pthread_join(r, 0);
          printf("%p %p %d\n", (void *)&line.a, (void *)&line.b, errno);
          return 7;
        }"#,
    );
    let run = run(&mut program.command());
    assert_eq!(run.output.status.code(), Some(7));
    assert_eq!(run.output.stderr, b"");
    assert_eq!(run.condition, None);
    let stdout = run.stdout();
    assert!(stdout.ends_with(" 0\n"), "{stdout}");
    let line = u64::from_str_radix(
        stdout.split_once(' ').unwrap().0.trim_start_matches("0x"),
        16,
    );
    let line = line.unwrap();

    let names = run.names();
    let samples = run.samples();
    for (name, word) in [("left", line), ("right", line + 8)] {
        let tid = *names.iter().find(|(_, found)| **found == name).unwrap().0;
        // 300 ms of processor time are 30 ticks where Linux ticks most seldom, at 100 Hz. A virtual machine that has to
        // wait for its processors gets fewer.
        assert!(samples[&(run.pid, tid)] >= 5, "{name}: {samples:?}");
        let own: Vec<_> = run
            .events
            .iter()
            .filter_map(|event| match event {
                RawEvent::Sample(sample) if sample.tid == tid => Some(sample.registers),
                _ => None,
            })
            .collect();
        let inside = own
            .iter()
            .filter(|registers| {
                run.file_at(run.pid, registers.ip)
                    .is_some_and(|path| Path::new(path) == program.path())
            })
            .count();
        assert!(
            inside * 10 >= own.len() * 9,
            "{name}: {inside} of {} in the program",
            own.len()
        );
        let pointing = own
            .iter()
            .filter(|registers| registers.gpr.contains(&word))
            .count();
        assert!(
            pointing * 2 >= own.len(),
            "{name}: {pointing} of {} point at the word",
            own.len()
        );
        assert_eq!(
            run.count(|event| matches!(event, RawEvent::ThreadPointer { tid: t, .. } if *t == tid)),
            1
        );
        assert_eq!(
            run.count(|event| matches!(event, RawEvent::Ended { tid: t, .. } if *t == tid)),
            1
        );
    }
}

#[test]
fn events_come_in_order_of_time() {
    let program = program("int main(void) { spend(&line.a, 150); return 0; }");
    let run = run(&mut program.command());
    let times: Vec<Nanos> = run
        .events
        .iter()
        .filter_map(|event| match event {
            RawEvent::Sample(sample) => Some(sample.at),
            RawEvent::Born { at, .. }
            | RawEvent::Ended { at, .. }
            | RawEvent::Named { at, .. }
            | RawEvent::Mapped { at, .. } => Some(*at),
            _ => None,
        })
        .collect();
    assert!(times.len() > 5 && times.is_sorted(), "{times:?}");
}

/// Waits in every call that fails with `EINTR` after a handler ran, whatever `SA_RESTART` says, between short bursts of
/// work: a sampler that interrupts sleepers cannot miss it.
#[test]
fn sleeping_threads_are_neither_disturbed_nor_sampled() {
    let program = program(
        r#"
        #include <linux/futex.h>
        #include <poll.h>
        #include <semaphore.h>
        #include <sys/epoll.h>
        #include <sys/select.h>
        #include <sys/socket.h>
        #include <sys/syscall.h>
        static int ep, fds[2], word;
        static sem_t sem;
        static long interrupted[8], calls;
        static void check(int which, int failed) {
          calls++;
          if (failed && errno == EINTR) interrupted[which]++;
        }
        static void *work(void *unused) {
          char c;
          struct epoll_event ev;
          sigset_t usr1;
          sigemptyset(&usr1), sigaddset(&usr1, SIGUSR1);
          for (int i = 0; i < 60; i++) {
            spend(&line.a, 1);
            check(0, nanosleep(&(struct timespec){0, 1000000}, 0));
            check(1, epoll_wait(ep, &ev, 1, 1) < 0);
            check(2, syscall(SYS_futex, &word, FUTEX_WAIT, 0, &(struct timespec){0, 1000000}, 0, 0) < 0);
            check(3, read(fds[0], &c, 1) < 0);
            check(4, poll(0, 0, 1) < 0);
            check(5, select(0, 0, 0, 0, &(struct timeval){0, 1000}) < 0);
            check(6, sigtimedwait(&usr1, 0, &(struct timespec){0, 1000000}) < 0);
            struct timespec t;
            clock_gettime(CLOCK_REALTIME, &t);
            t.tv_nsec += 1000000;
            if (t.tv_nsec >= 1000000000) t.tv_nsec -= 1000000000, t.tv_sec++;
            check(7, sem_timedwait(&sem, &t) < 0);
          }
          return 0;
        }
        static void *sleeper(void *unused) {
          check(0, nanosleep(&(struct timespec){0, 500000000}, 0));
          return 0;
        }
        int main(void) {
          ep = epoll_create1(0);
          socketpair(AF_UNIX, SOCK_STREAM, 0, fds);
          struct timeval timeout = {0, 1000};
          setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
          sem_init(&sem, 0, 0);
          pthread_t w, s;
          pthread_create(&w, 0, work, 0);
          pthread_create(&s, 0, sleeper, 0);
          pthread_setname_np(s, "sleeper");
          pthread_join(w, 0), pthread_join(s, 0);
          for (int i = 0; i < 8; i++) printf("%ld ", interrupted[i]);
          printf("of %ld\n", calls);
          return 0;
        }"#,
    );
    let run = run(&mut program.command());
    assert_eq!(run.stdout(), "0 0 0 0 0 0 0 0 of 481\n");
    let names = run.names();
    let sleeper = *names
        .iter()
        .find(|(_, name)| **name == "sleeper")
        .unwrap()
        .0;
    assert_eq!(run.samples().get(&(run.pid, sleeper)), None);
}

#[test]
fn time_in_the_kernel_is_no_sample() {
    let program = Program::new(
        r#"
        #include <fcntl.h>
        #include <stdlib.h>
        #include <unistd.h>
        int main(void) {
          int fd = open("/dev/zero", O_RDONLY);
          size_t n = 64 << 20;
          char *p = malloc(n);
          for (int i = 0; i < 24; i++) if (read(fd, p, n) < 0) return 1;
          return 0;
        }"#,
    );
    let run = run(&mut program.command());
    assert!(run.kernel_ticks >= 1, "{}", run.kernel_ticks);
    let samples: usize = run.samples().values().sum();
    assert!(
        (samples as u64) <= run.kernel_ticks,
        "{samples} samples, {} ticks",
        run.kernel_ticks
    );
}

#[test]
fn a_forked_child_is_a_process_of_its_own() {
    let program = program(
        r#"
        static void *work(void *unused) { spend(&line.b, 150); return 0; }
        int main(void) {
          pthread_t t;
          pid_t child = fork();
          if (!child) {
            pthread_create(&t, 0, work, 0);
            spend(&line.a, 150);
            pthread_join(t, 0);
            _exit(3);
          }
          spend(&line.a, 150);
          int status;
          waitpid(child, &status, 0);
          printf("%d\n", child);
          return WEXITSTATUS(status);
        }"#,
    );
    let run = run(&mut program.command());
    assert_eq!(run.output.status.code(), Some(3));
    let child = Pid(run.stdout().trim().parse().unwrap());
    let born = |event: &RawEvent| matches!(event, RawEvent::Born { pid, parent_pid, .. } if *pid == child && *parent_pid == run.pid);
    assert_eq!(run.count(born), 1);
    let samples = run.samples();
    let of = |wanted: Pid| -> Vec<usize> {
        samples
            .iter()
            .filter(|((pid, _), _)| *pid == wanted)
            .map(|(_, count)| *count)
            .collect()
    };
    assert!(of(run.pid).len() == 1 && of(run.pid)[0] >= 1, "{samples:?}");
    assert!(
        of(child).len() == 2 && of(child).iter().all(|count| *count >= 1),
        "{samples:?}"
    );
}

#[test]
fn each_program_of_an_exec_chain_is_sampled() {
    let program = program("int main(void) { spend(&line.a, 150); puts(\"done\"); return 4; }");
    let script = format!("exec env HITM_TEST=1 {}", program.path().display());
    let run = run(Command::new("sh").args(["-c", &script]));
    assert_eq!(
        (run.stdout().as_str(), run.output.status.code()),
        ("done\n", Some(4))
    );
    assert_eq!(run.output.stderr, b"");
    let pid = run.pid;
    assert_eq!(
        run.programs(),
        [(pid, "sh"), (pid, "env"), (pid, "program")]
    );
    assert_eq!(run.count(|event| matches!(event, RawEvent::Born { .. })), 0);
    let ip = run.events.iter().rev().find_map(|event| match event {
        RawEvent::Sample(sample) => Some(sample.registers.ip),
        _ => None,
    });
    assert!(run.file_at(pid, ip.unwrap()).is_some());
}

#[test]
fn a_shells_children_are_sampled() {
    let program = program("int main(void) { spend(&line.a, 150); return 0; }");
    let path = program.path();
    let run = run(Command::new("sh")
        .arg("-c")
        .arg(format!("{0}; {0}; true", path.display())));
    let programs: BTreeSet<_> = run
        .programs()
        .into_iter()
        .filter(|(_, name)| *name == "program")
        .collect();
    assert_eq!(programs.len(), 2);
    for (pid, _) in programs {
        assert!(run.samples().contains_key(&(pid, Tid(pid.0))));
    }
}

#[test]
fn thousands_of_short_threads() {
    let program = program(
        r#"
        static void *work(void *name) { pthread_setname_np(pthread_self(), name); return 0; }
        static void *leave(void *name) { pthread_setname_np(pthread_self(), name); pthread_exit(0); }
        int main(void) {
          for (int i = 0; i < 2500; i++) {
            pthread_t a, b;
            if (pthread_create(&a, 0, work, "short") || pthread_create(&b, 0, leave, "short")) return 1;
            pthread_join(a, 0), pthread_join(b, 0);
          }
          return 0;
        }"#,
    );
    let run = run(&mut program.command());
    assert_eq!(run.output.status.code(), Some(0));
    assert_eq!(run.condition, None);
    let lost: u64 = run
        .events
        .iter()
        .map(|event| {
            if let RawEvent::Lost { events, .. } = event {
                *events
            } else {
                0
            }
        })
        .sum();
    let born = run.count(|event| matches!(event, RawEvent::Born { .. }));
    let ended = run.count(|event| matches!(event, RawEvent::Ended { .. }));
    let named = run.count(|event| matches!(event, RawEvent::Named { name, .. } if name == "short"));
    assert!(
        born <= 5000 && born as u64 + lost >= 5000,
        "{born} born, {lost} lost"
    );
    assert!(ended as u64 + lost >= 5000, "{ended} ended, {lost} lost");
    assert!(named as u64 + lost >= 5000, "{named} named, {lost} lost");
}

#[test]
fn the_programs_own_profiling_signal_works() {
    let program = program(
        r#"
        #include <sys/time.h>
        static volatile int own;
        static void handler(int s) { own++; }
        int main(void) {
          signal(SIGPROF, handler);
          struct itimerval it = {{0, 10000}, {0, 10000}};
          setitimer(ITIMER_PROF, &it, 0);
          spend(&line.a, 300);
          printf("%d\n", own);
          return 0;
        }"#,
    );
    let run = run(&mut program.command());
    let own: u32 = run.stdout().trim().parse().unwrap();
    assert!(own >= 1, "{own}");
    assert!(run.samples().contains_key(&(run.pid, Tid(run.pid.0))));
}

#[test]
fn a_program_that_wants_every_signal_gets_it() {
    let program = program(
        r#"
        static volatile int unexpected, wanted;
        static void handler(int s) { if (s == wanted) wanted = 0; else unexpected++; }
        int main(void) {
          for (int s = SIGRTMIN; s <= SIGRTMAX; s++) {
            struct sigaction old, new = {.sa_handler = handler};
            if (sigaction(s, &new, &old) || old.sa_handler != SIG_DFL) return 1;
          }
          spend(&line.a, 150);
          int missing = 0;
          for (int s = SIGRTMIN; s <= SIGRTMAX; s++) {
            wanted = s;
            raise(s);
            missing += wanted != 0;
          }
          printf("%d unexpected, %d missing\n", unexpected, missing);
          return 0;
        }"#,
    );
    let run = run(&mut program.command());
    assert_eq!(run.stdout(), "0 unexpected, 0 missing\n");
    assert_eq!(run.condition, Some(Condition::SignalTaken(1)));
}

/// Threads that block all signals are sampled, and `sigwait` for all of them never sees the agent's.
#[test]
fn blocking_every_signal_hides_nothing_and_shows_nothing() {
    let program = program(
        r#"
        static void *work(void *unused) { spend(&line.a, 150); return 0; }
        int main(void) {
          sigset_t all, now;
          sigfillset(&all);
          pthread_sigmask(SIG_SETMASK, &all, 0);
          pthread_t t;
          pthread_create(&t, 0, work, 0);
          spend(&line.b, 150);
          pthread_join(t, 0);
          int got = sigtimedwait(&all, 0, &(struct timespec){0, 100000000});
          printf("%d %d\n", got, errno == EAGAIN);
          return 0;
        }"#,
    );
    let run = run(&mut program.command());
    assert_eq!(run.stdout(), "-1 1\n");
    assert_eq!(run.samples().len(), 2, "{:?}", run.samples());
}

#[test]
fn a_static_program_is_noticed() {
    let program = Program::with("int main(void) { return 5; }", &["-static"]);
    let run = run(&mut program.command());
    assert_eq!(run.output.status.code(), Some(5));
    assert_eq!(run.condition, Some(Condition::NotLoaded));
    assert_eq!(run.samples().len(), 0);
}

/// The environment of a container: `perf_event_open` is refused to the recorder and to the program, which tries it
/// itself to prove that.
#[test]
fn auto_falls_back_where_perf_event_open_is_refused() {
    let program = program(
        r#"
        #include <sys/syscall.h>
        int main(void) {
          int refused = syscall(SYS_perf_event_open, 0, 0, 0, 0, 0) == -1 && errno == EPERM;
          spend(&line.a, 150);
          return refused ? 6 : 5;
        }"#,
    );
    // A filter is for the thread that installs it and what that thread makes.
    let recorded = thread::spawn(move || {
        refuse_perf_event_open();
        let mut recording = Vec::new();
        let options = RunOptions {
            command: &[program.path().into_os_string()],
            environment: &std::env::vars_os().collect::<Vec<_>>(),
            rate: Rate::Auto,
            sampler: SamplerChoice::Auto,
            duration: None,
            child_stdout_to_stderr: false,
            interrupt: &AtomicBool::new(false),
        };
        let writer = hitm_recording::Writer::new(&mut recording).unwrap();
        let outcome = record_run(&options, writer, &mut |_| {}).unwrap();
        (outcome, recording)
    });
    let (outcome, recording) = recorded.join().unwrap();
    assert_eq!(outcome.child, Some(ExitStatus::Code(6)));
    assert_eq!(outcome.sampler.kind, SamplerKind::Preload);
    let why = outcome.sampler.fallback.unwrap();
    assert!(why.contains("perf_event_open is refused"), "{why}");
    let (events, _) = hitm_recording::read_slice(&recording).unwrap();
    let samples = events
        .iter()
        .filter(|event| matches!(event, Event::Sample(_)));
    assert!(samples.count() >= 1);
}

/// Installs a filter as the usual profiles of containers have: `perf_event_open` fails with `EPERM`.
#[expect(unsafe_code, reason = "seccomp has no wrapper")]
fn refuse_perf_event_open() {
    let instruction = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter {
        code: u16::try_from(code).unwrap(),
        jt,
        jf,
        k,
    };
    let refuse = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
    let number = u32::try_from(libc::SYS_perf_event_open).unwrap();
    let mut code = [
        // The number of the call is the first word of `struct seccomp_data`.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, refuse),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog {
        len: 4,
        filter: code.as_mut_ptr(),
    };
    // SAFETY: takes numbers.
    let result = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(result, 0);
    let mode = libc::SECCOMP_MODE_FILTER;
    // SAFETY: the kernel copies the four instructions.
    let result = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter) };
    assert_eq!(result, 0);
}

#[test]
fn libraries_loaded_later_are_mapped() {
    let program = Program::with(
        &format!(
            "{SPEND}{}",
            r#"
            #include <dlfcn.h>
            int main(void) {
              spend(&line.a, 20);
              void *m = dlopen("libm.so.6", RTLD_NOW);
              double (*cosine)(double) = (double (*)(double))dlsym(m, "cos");
              printf("%p\n", (void *)cosine);
              volatile double x = 1;
              for (int i = 0; i < 8000000; i++) x = cosine(x);
              return 0;
            }"#
        ),
        &["-pthread", "-ldl"],
    );
    let run = run(&mut program.command());
    let address = u64::from_str_radix(run.stdout().trim().trim_start_matches("0x"), 16).unwrap();
    let file = run.file_at(run.pid, Avma(address)).unwrap();
    assert!(file.contains("libm"), "{file}");
}

#[test]
fn the_agent_needs_and_shows_no_more_than_it_must() {
    let sampler = Preload::new(Nanos::from_millis(1)).unwrap();
    let environment = sampler.environment();
    let library = &environment
        .iter()
        .find(|(name, _)| name == "LD_PRELOAD")
        .unwrap()
        .1;
    let tool = |program: &str, arguments: &[&str]| {
        let output = Command::new(program)
            .args(arguments)
            .arg(library)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    let exported: Vec<String> = tool("nm", &["-D", "--defined-only", "--format=just-symbols"])
        .lines()
        .map(str::to_owned)
        .collect();
    assert_eq!(
        exported,
        [
            "pthread_create",
            "pthread_sigmask",
            "sigaction",
            "signal",
            "sigprocmask",
            "thrd_create"
        ]
    );
    let needed: Vec<String> = tool("readelf", &["-d"])
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .map(|line| line.split(['[', ']']).nth(1).unwrap().to_owned())
        .collect();
    assert_eq!(needed, ["libc.so.6"]);
    // Nothing that allocates or panics is linked in.
    let wanted = tool("nm", &["-D", "--undefined-only", "--format=just-symbols"]);
    for name in ["malloc", "calloc", "realloc", "pthread_mutex_lock", "abort"] {
        assert!(
            !wanted.lines().any(|line| line.starts_with(name)),
            "{name} in {wanted}"
        );
    }
}
