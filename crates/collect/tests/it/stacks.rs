//! Whose stack, whose thread-local storage: checked against what the programs say about themselves.

use hitm_model::{Avma, Event};

use crate::{
    program::{Program, Recorded},
    run::perf_or_skip,
};
use hitm_testkit::{perf_available, skip};

/// Two threads write two locals of `lend`, which waits for them. It says where its frame is.
const LENT: &str = r#"
#include <pthread.h>
#include <stdio.h>
static void *work(void *arg) {
    for (long i = 0; i < 60000000; i++) __atomic_fetch_add((long *)arg, 1, __ATOMIC_RELAXED);
    return 0;
}
__attribute__((noinline)) long lend(FILE *said, long n) {
    _Alignas(ALIGN) long lent[2] = {n, n};
    fprintf(said, "%p %p %p", __builtin_dwarf_cfa(), (void *)lend, (void *)lent);
    fclose(said);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, &lent[i]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return lent[0] + lent[1];
}
int main(int argc, char **argv) {
    return lend(fopen(argv[1], "w"), argc) == 0;
}"#;

pub(crate) fn address(word: &str) -> Avma {
    Avma(u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap())
}

#[track_caller]
fn check_lent(flags: &[&str]) {
    let recorded = Program::new(LENT, flags).record();
    let [cfa, lend, lent] = [0, 1, 2].map(|at| address(&recorded.words[at]));
    let frames = recorded
        .events
        .iter()
        .find_map(|event| match event {
            Event::Frames { frames, .. } => Some(frames),
            _ => None,
        })
        .expect("frames of the lender");
    let frame = frames
        .iter()
        .find(|frame| frame.ip.offset_from(lend).is_some_and(|at| at < 300))
        .unwrap_or_else(|| panic!("no frame of lend at {lend}: {frames:?}"));
    assert_eq!(frame.cfa, cfa);
    assert!(frame.is_return && lent < cfa);
    // Unwinding went on to the start of the program.
    assert!(
        frames
            .last()
            .is_some_and(|last| last.ip.offset_from(lend).is_none_or(|at| at > 4096))
    );
    let stack = recorded.events.iter().find_map(|event| match event {
        Event::Stack { range, .. } => Some(*range),
        _ => None,
    });
    assert!(stack.is_some_and(|stack| stack.contains(lent)), "{stack:?}");
}

#[test]
fn the_frame_that_lends_its_locals_is_found() {
    perf_or_skip!();
    check_lent(&["-DALIGN=16", "-fomit-frame-pointer"]);
}

#[test]
fn a_frame_with_a_frame_pointer_is_found_too() {
    perf_or_skip!();
    check_lent(&["-DALIGN=16", "-fno-omit-frame-pointer"]);
}

/// Such a function keeps the address of its frame in memory, and a copy of its return address below it.
#[test]
fn a_frame_that_aligns_the_stack_is_found_too() {
    perf_or_skip!();
    check_lent(&["-DALIGN=512"]);
}

/// A thread and the main thread each lend a thread-local variable; all say their `fs` base.
const THREAD_LOCALS: &str = r#"
#include <pthread.h>
#include <stdio.h>
static __thread long mine[8];
static long *volatile theirs[2];
static void *base(void) { void *fs; __asm__("mov %%fs:0, %0" : "=r"(fs)); return fs; }
static void *work(void *arg) {
    for (long i = 0; i < 60000000; i++) __atomic_fetch_add(theirs[(long)arg], 1, __ATOMIC_RELAXED);
    return 0;
}
static FILE *said;
static void *lend(void *arg) {
    fprintf(said, "%p ", base());
    theirs[0] = mine; theirs[1] = mine + 1;
    pthread_t threads[2];
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}
int main(int argc, char **argv) {
    said = fopen(argv[1], "w");
    if (ALONE) { lend(0); } else {
        pthread_t thread;
        pthread_create(&thread, 0, lend, 0);
        pthread_join(thread, 0);
    }
    fclose(said);
    return 0;
}"#;

fn thread_pointers(recorded: &Recorded) -> Vec<Avma> {
    let pointers = recorded.events.iter().filter_map(|event| match event {
        Event::ThreadPointer { fs_base, .. } => Some(*fs_base),
        _ => None,
    });
    pointers.collect()
}

#[test]
fn the_thread_pointer_of_a_lent_thread_local_is_found() {
    perf_or_skip!();
    for alone in ["-DALONE=0", "-DALONE=1"] {
        let recorded = Program::new(THREAD_LOCALS, &[alone]).record();
        let wanted = address(&recorded.words[0]);
        let found = thread_pointers(&recorded);
        assert!(found.contains(&wanted), "{alone}: {wanted} in {found:?}");
    }
}

/// Threads that access nothing but thread-locals, in the program's last function; they say their `fs` bases.
const OWN: &str = r#"
#include <pthread.h>
#include <stdio.h>
static void *work(void *arg);
int main(int argc, char **argv) {
    pthread_t threads[2];
    void *bases[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], &bases[i]);
    FILE *said = fopen(argv[1], "w");
    fprintf(said, "%p %p", bases[0], bases[1]);
    fclose(said);
    return 0;
}
static __thread volatile long mine[8];
static void *work(void *arg) {
    void *fs;
    for (long i = 0; i < 500000000; i++) mine[3]++;
    __asm__("mov %%fs:0, %0" : "=r"(fs));
    return fs;
}"#;

#[test]
fn threads_that_use_only_thread_locals_have_their_thread_pointers_found() {
    perf_or_skip!();
    let recorded = Program::new(OWN, &[]).record();
    let found = thread_pointers(&recorded);
    for wanted in recorded.words.iter().map(|word| address(word)) {
        assert!(found.contains(&wanted), "{wanted} in {found:?}");
    }
}
