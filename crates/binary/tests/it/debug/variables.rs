//! Which variables are where at one instruction.
//!
//! A program under test marks the place with a `ud2` or `int3` that never runs, or the test looks for an instruction in
//! the output of objdump.

use std::collections::BTreeSet;

use hitm_binary::debug::{DebugInfo, FramePlace};
use hitm_binary::image::Image;
use hitm_model::Svma;

use crate::program::{self, Program};

/// The addresses of a function's instructions whose text contains `wanted`.
fn instructions(program: &Program, function: &str, wanted: &str) -> Vec<Svma> {
    let flag = format!("--disassemble={function}");
    let text = program::tool("objdump", &["--no-show-raw-insn", &flag], program);
    let found: Vec<Svma> = text
        .lines()
        .filter(|line| line.contains(wanted))
        .filter_map(|line| u64::from_str_radix(line.trim().split_once(':')?.0, 16).ok())
        .map(Svma)
        .collect();
    assert!(!found.is_empty(), "no {wanted} in {function}: {text}");
    found
}

/// `function name: pointee at register+offset` of all pointers.
fn pointers(program: &Program, at: Svma) -> BTreeSet<String> {
    let image = Image::parse(&program.bytes).unwrap();
    let debug = DebugInfo::load(&image).unwrap();
    debug
        .pointers_at(at)
        .iter()
        .map(|p| {
            let pointee = debug.type_name(p.pointee);
            format!(
                "{} {}: {pointee} at {}{:+}",
                p.function, p.name, p.register, p.offset
            )
        })
        .collect()
}

#[track_caller]
fn check(program: &Program, at: Svma, wanted: &[&str]) {
    let found = pointers(program, at);
    for line in wanted {
        // The register is the compiler's choice: `%` stands for any.
        let (before, after) = line.split_once('%').unwrap_or((line, ""));
        assert!(
            found
                .iter()
                .any(|p| p.starts_with(before) && p.ends_with(after)),
            "no {line} among {found:#?}"
        );
    }
}

#[test]
fn pointers_of_c_are_in_registers() {
    let source = "struct shard { long head; long tail; };
static inline __attribute__((always_inline)) void bump(long *counter) { __atomic_add_fetch(counter, 1, 5); }
__attribute__((noinline)) void work(struct shard *shard, long n) {
    for (long i = 0; i < n; i++) bump(&shard->tail);
}
int main(int argc, char **argv) { static struct shard s; (void)argv; work(&s, argc); return s.head + s.tail; }
";
    for flags in [&["-O2", "-g"][..], &["-O2", "-g", "-gdwarf-4"]] {
        let program = program::c(flags, source);
        for at in instructions(&program, "work", "lock ") {
            let image = Image::parse(&program.bytes).unwrap();
            let debug = DebugInfo::load(&image).unwrap();
            let frames = debug.source_frames(at);
            assert_eq!(frames[0].function, "bump");
            let found = debug.pointers_at(at);
            // One of both is in a register; either tells what is at the operand's address.
            assert!(
                found
                    .iter()
                    .any(|p| ["shard", "counter"].contains(&p.name.as_str())),
                "{found:?}"
            );
        }
        let entry = Image::parse(&program.bytes)
            .unwrap()
            .symbol_named("work")
            .unwrap();
        check(&program, entry.svma, &["work shard: shard at rdi+0"]);
    }
}

#[test]
fn pointers_of_rust_are_in_registers() {
    let source = "use std::sync::{Arc, Mutex, atomic::{AtomicU64, Ordering::Relaxed}};
pub struct Quota { in_use: AtomicU64, limits: Mutex<u64> }
#[unsafe(no_mangle)] #[inline(never)]
pub fn reserve(in_use: &AtomicU64, n: u64) { for i in 0..n { in_use.fetch_add(i | 1, Relaxed); } }
#[unsafe(no_mangle)] #[inline(never)]
pub fn sum(rows: &[Quota]) -> u64 { rows.iter().map(|row| row.in_use.load(Relaxed)).fold(7, |a, b| a * 31 + b) }
#[unsafe(no_mangle)] #[inline(never)]
pub fn perhaps(quota: Option<&Quota>) -> u64 { quota.map_or(0, |quota| quota.in_use.fetch_add(3, Relaxed)) }
#[unsafe(no_mangle)] #[inline(never)]
pub fn inner(quota: std::ptr::NonNull<Quota>) -> u64 { unsafe { quota.as_ref().in_use.fetch_add(3, Relaxed) } }
fn main() {
    let quota = Arc::new(Quota { in_use: AtomicU64::new(1), limits: Mutex::new(0) });
    reserve(&quota.in_use, std::env::args().count() as u64);
    println!(\"{} {} {}\", sum(std::slice::from_ref(&quota)), perhaps(Some(&quota)) + inner((&*quota).into()), quota.limits.lock().unwrap());
}
";
    let program = program::rust(&["-Cdebuginfo=2", "-Ccodegen-units=1"], source);
    for at in instructions(&program, "reserve", "lock ") {
        check(
            &program,
            at,
            &[
                "program::reserve in_use: AtomicU64 at %+0",
                "AtomicU64::fetch_add self: AtomicU64 at %+0",
            ],
        );
    }
    let start = |name: &str| {
        let image = Image::parse(&program.bytes).unwrap();
        image.symbol_named(name).unwrap().svma
    };
    check(
        &program,
        start("sum"),
        &["program::sum rows: Quota at rdi+0"],
    );
    // Structures and enumerations of which the register holds a pointer.
    check(
        &program,
        start("perhaps"),
        &["program::perhaps quota: Quota at rdi+0"],
    );
    check(
        &program,
        start("inner"),
        &["program::inner quota: Quota at rdi+0"],
    );
}

#[test]
fn variables_of_a_frame_are_where_they_are() {
    // The program prints where its variables are, from the frame's CFA.
    let source = "#include <stdio.h>
struct lane { long hits; char name[24]; };
static __attribute__((noinline)) void show(const char *name, void *at, char *cfa) {
    printf(\"%s %ld\\n\", name, (long)((char *)at - cfa));
}
static inline __attribute__((always_inline)) void inner(char *cfa) { volatile long odds = 1; show(\"odds\", (void *)&odds, cfa); }
__attribute__((noinline)) void outer(void) {
    char *cfa = __builtin_dwarf_cfa(); volatile long evens = 0; struct lane lanes[2];
    show(\"evens\", (void *)&evens, cfa); show(\"lanes\", lanes, cfa); inner(cfa);
}
int main(void) { outer(); }
";
    for flags in [
        &["-g", "-O2"][..],
        &["-g", "-O0"],
        &["-g", "-O2", "-gdwarf-4", "-fno-omit-frame-pointer"],
    ] {
        let program = program::c(flags, source);
        let output = hitm_testkit::run_limited(
            &mut std::process::Command::new(&program.path),
            std::time::Duration::from_secs(20),
        )
        .unwrap();
        let image = Image::parse(&program.bytes).unwrap();
        let debug = DebugInfo::load(&image).unwrap();
        for line in output.stdout.lines() {
            let (name, offset) = line.split_once(' ').unwrap();
            let offset: i64 = offset.parse().unwrap();
            // Before each call, all live variables are in the frame.
            let found: Vec<_> = instructions(&program, "outer", "call")
                .into_iter()
                .flat_map(|at| debug.frame_variables(at))
                .filter(|variable| variable.name == name)
                .collect();
            assert!(!found.is_empty(), "no {name} with {flags:?}");
            for variable in found {
                assert_eq!(
                    variable.place,
                    FramePlace::CfaOffset(offset),
                    "{name} with {flags:?}"
                );
                let (function, ty, size) = match name {
                    "odds" => ("inner", "volatile long int", 8),
                    "evens" => ("outer", "volatile long int", 8),
                    _ => ("outer", "lane[2]", 64),
                };
                assert_eq!(variable.function, function);
                assert_eq!(
                    (debug.type_name(variable.ty).as_str(), variable.size),
                    (ty, size)
                );
            }
        }
    }
}

#[test]
fn places_from_the_stack_pointer_become_places_from_the_cfa() {
    let source = "use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
#[inline(never)] fn show(lent: &AtomicU64) -> u64 { lent.fetch_add(1, Relaxed) }
#[unsafe(no_mangle)] #[inline(never)]
pub fn parent(n: u64) -> u64 {
    let evens = AtomicU64::new(n);
    let mut sum = 0; for _ in 0..n { sum += show(std::hint::black_box(&evens)); } sum
}
fn main() { println!(\"{}\", parent(std::env::args().count() as u64)); }
";
    let program = program::rust(&["-Cdebuginfo=2", "-Ccodegen-units=1"], source);
    let image = Image::parse(&program.bytes).unwrap();
    let debug = DebugInfo::load(&image).unwrap();
    let call = instructions(&program, "parent", "call")[0];
    let variables = debug.frame_variables(call);
    let evens = variables
        .iter()
        .find(|variable| variable.name == "evens")
        .unwrap();
    assert_eq!(
        (evens.function.as_str(), evens.size),
        ("program::parent", 8)
    );
    // What readelf says: the variable from the stack pointer, and the CFA from there.
    let info = program::tool("readelf", &["--debug-dump=info"], &program);
    let lines: Vec<&str> = info.lines().collect();
    let name = lines
        .iter()
        .position(|line| line.contains("DW_AT_name") && line.ends_with(": evens"))
        .unwrap();
    let location = lines[name - 1].split("DW_OP_fbreg: ").nth(1).unwrap();
    let from_sp: i64 = location.trim_end_matches(')').parse().unwrap();
    let frames = program::tool("readelf", &["-wF"], &program);
    let start = format!("pc={:016x}", image.symbol_named("parent").unwrap().svma.0);
    let row = frames
        .lines()
        .skip_while(|line| !line.contains(&start))
        .skip(2)
        .take_while(|line| !line.is_empty())
        .filter(|line| u64::from_str_radix(&line[..16], 16).is_ok_and(|at| at <= call.0))
        .last()
        .unwrap();
    let cfa = row.split_whitespace().nth(1).unwrap();
    let cfa: i64 = cfa.strip_prefix("rsp+").unwrap().parse().unwrap();
    assert_eq!(evens.place, FramePlace::CfaOffset(from_sp - cfa));
}
