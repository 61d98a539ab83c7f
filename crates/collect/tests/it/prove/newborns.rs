//! Threads and processes that are born in windows, and would keep the mask that they were born with.

use hitm_model::{GroupOutcome, Pid};
use hitm_testkit::{perf_available, skip};

use super::support::{Fighters, masks_of, options, prove_fighters, two_cpus_or_skip};
use crate::run::perf_or_skip;

/// The fighters themselves make threads, children, and children that give themselves to the system, all of which stay.
const PARENTS: &str = r#"
#include <signal.h>
#include <time.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int said[4096], n_said;
static void say(int pid) {
    pthread_mutex_lock(&lock);
    if (n_said < 4096) said[n_said++] = pid;
    pthread_mutex_unlock(&lock);
}
static void *wait_long(void *arg) { sleep(60); return arg; }
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}
static void helper(int who, long turn) {
    static double next[2];
    static int born[2];
    if (now() < next[who] || born[who] >= 150) return;
    next[who] = now() + 0.01;
    pthread_t thread;
    int pid, to_us[2];
    switch (born[who]++ % 3) {
    case 0:
        pthread_create(&thread, 0, wait_long, 0);
        break;
    case 1:
        if ((pid = fork()) == 0) { sleep(60); _exit(0); }
        say(pid);
        break;
    case 2:
        if (pipe(to_us)) break;
        if (fork() == 0) {
            if ((pid = fork()) == 0) { setsid(); sleep(60); _exit(0); }
            _exit(write(to_us[1], &pid, sizeof pid) < 0);
        }
        if (read(to_us[0], &pid, sizeof pid) == sizeof pid) say(pid);
        close(to_us[0]);
        close(to_us[1]);
        break;
    }
}
static void command(const char *line) {
    if (line[0] == 'k') for (int i = 0; i < n_said; i++) kill(said[i], SIGKILL);
    if (line[0] != 'q') return;
    for (int i = 0; i < n_said; i++) printf("%d\n", said[i]);
    puts(".");
    fflush(stdout);
}"#;

fn check(arguments: &[&str], rights: &[&str]) {
    let mut fighters = Fighters::start(PARENTS, arguments);
    let proven = prove_fighters(&mut fighters, &options(), |_, _, _| {});
    let masks = fighters.masks();
    let born = fighters.said();
    let of_children: Vec<_> = born.iter().map(|&pid| (pid, masks_of(Pid(pid)))).collect();
    fighters.command("kill");
    assert_eq!(proven.end().outcome, GroupOutcome::Complete);
    // Some were born before, some in windows; all of them may run where their parents may.
    assert!(masks.len() > 10 && born.len() > 10, "{masks:?} {born:?}");
    for (tid, mask) in &masks {
        assert!(rights.contains(&mask.as_str()), "thread {tid}: {mask}");
    }
    for (pid, masks) in of_children {
        for (_, mask) in masks {
            assert!(rights.contains(&mask.as_str()), "process {pid}: {mask}");
        }
    }
}

#[test]
fn threads_children_and_daemons_that_are_born_in_windows_may_run_where_their_parents_may() {
    perf_or_skip!();
    two_cpus_or_skip!();
    let all = masks_of(Pid(std::process::id()))[0].1.clone();
    check(&[], &[&all]);
}
