//! Compiled loops: which of them may only be waiting, and what their rounds add to registers.

use hitm_binary::decode::{Function, InnerLoop};
use hitm_binary::image::Image;
use hitm_model::{AccessKind, Svma};
use object::{Object as _, ObjectSymbol as _};

use crate::program;

const SOURCE: &str = r#"
#include <stddef.h>
extern int printf(const char *, ...);
static int volatile flag, lock, own;
static size_t volatile peer, cache, sum;
__attribute__((noinline)) void look(void) { while (!flag) {} }
__attribute__((noinline)) void look_and_pause(void) { while (!flag) __builtin_ia32_pause(); }
__attribute__((noinline)) void look_and_keep(size_t t) { size_t v; do { v = peer; cache = v; } while (v == t); }
__attribute__((noinline)) void look_and_count(void) { while (!flag) own++; }
__attribute__((noinline)) void try_lock(void) { while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE)) {} }
__attribute__((noinline)) void compare_lock(void) {
    int zero;
    do { zero = 0; } while (!__atomic_compare_exchange_n(&lock, &zero, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
}
__attribute__((noinline)) void retry(void) {
    size_t old = peer;
    while (!__atomic_compare_exchange_n(&peer, &old, old * 3, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
}
__attribute__((noinline)) void count(size_t n) { for (size_t i = 0; i < n; i++) __atomic_fetch_add(&peer, 1, __ATOMIC_RELAXED); }
__attribute__((noinline)) void walk(size_t const *p, size_t n) { size_t s = 0; for (size_t i = 0; i < n; i++) { s += p[i * 3]; sum = s; } }
__attribute__((noinline)) void talk(void) { while (!flag) printf("x"); }
int main(int argc, char **argv) {
    look(); look_and_pause(); look_and_keep(1); look_and_count(); try_lock(); compare_lock(); retry(); count(argc);
    walk((size_t const *)argv, argc); talk();
    return 0;
}
"#;

/// All distinct innermost loops of a function.
fn loops_of(flags: &[&str], function: &str) -> Vec<InnerLoop> {
    let program = program::c(flags, SOURCE);
    let image = Image::parse(&program.bytes).unwrap();
    let file = object::File::parse(&*program.bytes).unwrap();
    let symbol = file
        .symbols()
        .find(|symbol| symbol.name() == Ok(function))
        .unwrap();
    let function = Function::in_image(&image, Svma(symbol.address())).unwrap();
    let code = function.code().range();
    let mut loops: Vec<InnerLoop> = (code.start.0..code.end.0)
        .filter_map(|ip| function.inner_loop_at(Svma(ip)))
        .collect();
    loops.sort_by_key(|it| it.range);
    loops.dedup();
    loops
}

/// Whether the function has a loop that may only be waiting if others write all that it reads.
#[track_caller]
fn check(function: &str, waits: bool) {
    for flags in [&["-O2"][..], &["-O3"], &["-Os"]] {
        let loops = loops_of(flags, function);
        assert!(!loops.is_empty(), "{function} {flags:?}");
        let found = loops.iter().any(|it| it.may_only_wait(|_| true));
        assert_eq!(found, waits, "{function} {flags:?}: {loops:#x?}");
        let unwatched = loops.iter().any(|it| it.may_only_wait(|_| false));
        assert!(!unwatched, "{function} {flags:?}");
    }
}

#[test]
fn loops_that_only_look_may_wait() {
    check("look", true);
    check("look_and_pause", true);
    check("look_and_keep", true);
    check("try_lock", true);
    check("compare_lock", true);
}

#[test]
fn loops_that_get_something_done_do_not() {
    check("look_and_count", false);
    check("retry", false);
    check("count", false);
    check("walk", false);
    check("talk", false);
}

#[test]
fn the_rounds_of_a_walk_add_to_its_pointer() {
    let loops = loops_of(&["-O2"], "walk");
    let [walk] = loops.as_slice() else {
        panic!("{loops:#x?}");
    };
    let steps: Vec<i64> = walk.steps.iter().map(|(_, step)| *step).collect();
    assert!(steps.contains(&24), "{walk:#x?}");
    let kinds: Vec<AccessKind> = walk.accesses.iter().map(|access| access.kind).collect();
    assert!(kinds.contains(&AccessKind::Read) && kinds.contains(&AccessKind::Write));
}
