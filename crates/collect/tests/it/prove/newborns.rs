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

/// The fighters, which are pinned to {0} and {1}, and a thread that is not, make threads and processes all the time, also by
/// way of others that they make. Some stay: they say who they are, and whose mask they are to have.
const MAKERS: &str = r#"
#define SETTLERS 4000
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
static struct { int n, ids[SETTLERS]; } *settlers;
static void settle(int whose, int process) {
    int id = (int)syscall(SYS_gettid) * 16 + process * 8 + whose;
    int nth = __atomic_fetch_add(&settlers->n, 1, __ATOMIC_RELAXED);
    if (nth < SETTLERS) __atomic_store_n(&settlers->ids[nth], id, __ATOMIC_RELAXED);
    sleep(60);
}
static void thread(void *(*start)(void *), int whose) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    pthread_create(&thread, &attributes, start, (void *)(intptr_t)whose);
    pthread_attr_destroy(&attributes);
}
static void *leave(void *whose) { usleep(10000); return whose; }
static void *stay(void *whose) { settle((int)(intptr_t)whose, 0); return 0; }
static void *relay(void *whose) { thread(stay, (int)(intptr_t)whose); usleep(10000); return 0; }
static void *stay_on_one(void *cpu) {
    pin(pthread_self(), (int)(intptr_t)cpu, (int)(intptr_t)cpu);
    settle(3 + (int)(intptr_t)cpu, 0);
    return 0;
}
static void make(int whose, int turn) {
    thread(leave, whose);
    switch (turn % 6) {
    case 0: thread(stay, whose); break;
    case 1: if (fork() == 0) { settle(whose, 1); _exit(0); } break;
    case 2: thread(relay, whose); break;
    case 3:
        if (fork() == 0) {
            if (fork() == 0) { setsid(); settle(whose, 1); _exit(0); }
            usleep(10000);
            _exit(0);
        }
        break;
    case 4: if (fork() == 0) { thread(stay, whose); settle(whose, 1); _exit(0); } break;
    case 5: if (whose == 2) thread(stay_on_one, turn / 6 % 2); break;
    }
}
static void helper(int who, long turn) {
    static struct timespec last[2];
    static int made[2];
    static int pinned[2];
    cpu_set_t own;
    if (!pinned[who]) { /* by the main thread, soon */
        if (sched_getaffinity(0, sizeof own, &own) || CPU_COUNT(&own) != 1) return;
        pinned[who] = 1;
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long since = (now.tv_sec - last[who].tv_sec) * 1000000000 + now.tv_nsec - last[who].tv_nsec;
    if (since < 5000000 || made[who] >= 360) return;
    last[who] = now;
    make(who, made[who]++);
}
static void *unpinned(void *arg) {
    for (int turn = 0; turn < 360; turn++) make(2, turn), usleep(5000);
    return arg;
}
__attribute__((constructor)) static void start(void) {
    signal(SIGCHLD, SIG_IGN);
    settlers = mmap(0, sizeof *settlers, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    thread(unpinned, 0);
}
static void command(const char *line) {
    int n = __atomic_load_n(&settlers->n, __ATOMIC_RELAXED);
    for (int i = 0; i < n && i < SETTLERS; i++) {
        int id = __atomic_load_n(&settlers->ids[i], __ATOMIC_RELAXED);
        if (id && line[0] == 'q') printf("%d\n", id);
        if (id & 8 && line[0] == 'k') kill(id / 16, SIGKILL);
    }
    puts(".");
    fflush(stdout);
}"#;

#[test]
fn newborns_have_the_mask_of_who_made_them_where_each_thread_is_pinned() {
    perf_or_skip!();
    two_cpus_or_skip!();
    let all = masks_of(Pid(std::process::id()))[0].1.clone();
    let masks = ["0", "1", &all, "0", "1"];
    let mut fighters = Fighters::start(MAKERS, &["1"]);
    let mut options = options();
    // So few are had to the end, though newborns crowd the processors.
    options.windows = Some(4);
    options.length = Some(std::time::Duration::from_millis(70));
    let proven = prove_fighters(&mut fighters, &options, |_, _, _| {});
    let settlers = fighters.said();
    let mut found = [0; 5];
    let mut wrong = Vec::new();
    for id in settlers {
        let (tid, whose) = (id / 16, id as usize % 8);
        // Any thread's number names its files.
        let Some((_, mask)) = masks_of(Pid(tid)).into_iter().find(|it| it.0.0 == tid) else {
            continue;
        };
        found[whose] += 1;
        if mask != masks[whose] {
            wrong.push((tid, id & 8 != 0, whose, mask));
        }
    }
    fighters.killed();
    assert_eq!(proven.end().outcome, GroupOutcome::Complete);
    assert!(found.iter().all(|&n| n >= 5), "{found:?}");
    assert!(wrong.is_empty(), "{wrong:?} of {found:?}");
}
