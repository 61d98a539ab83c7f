//! Which variable is at an address.

use std::collections::BTreeSet;

use hitm_binary::debug::{DebugInfo, Global, Origin};
use hitm_binary::image::Image;
use hitm_model::Svma;

use crate::program::{self, Program};

/// `name: type, size` of the variable at the last byte of a symbol, and how it was found.
fn describe(program: &Program, raw: &str) -> String {
    let image = Image::parse(&program.bytes).unwrap();
    let debug = DebugInfo::load(&image).unwrap();
    let symbol = image.symbol_named(raw).unwrap();
    let last = symbol.svma.wrapping_add(symbol.size.saturating_sub(1));
    let global = match symbol.kind {
        hitm_binary::image::SymbolKind::ThreadLocal => debug.thread_local_at(last.0).unwrap(),
        _ => debug.global_at(last).unwrap(),
    };
    assert_eq!(global.svma, symbol.svma);
    show(&debug, &global)
}

fn show(debug: &DebugInfo<'_>, global: &Global) -> String {
    let ty = global.ty.map_or("?".to_owned(), |ty| debug.type_name(ty));
    let line = global.declared.as_ref().map_or(0, |declared| declared.line);
    let origin = match global.origin {
        Origin::Debug => "debug",
        Origin::Symbol => "symbol",
        Origin::Section => "section",
    };
    format!(
        "{}: {ty}, {} bytes, line {line}, {origin}",
        global.name, global.size
    )
}

#[track_caller]
fn check(program: &Program, cases: &[(&str, &str)]) {
    for (symbol, wanted) in cases {
        assert_eq!(describe(program, symbol), *wanted);
    }
}

const C: &str = "struct client { int flags; unsigned long id; };
static struct { volatile int go; struct client clients[3]; } server;
struct client *current; _Thread_local long hits;
static int step(void) { static unsigned counter; return ++counter; }
_Alignas(64) _Atomic unsigned long total;
int main(int argc, char **argv) { static struct client last; (void)argv;
    server.clients[argc].flags = 1; current = &server.clients[argc]; hits++; total += step();
    last = *current; return server.go + last.flags; }
";

#[test]
fn variables_of_c() {
    for flags in [
        &["-g", "-gdwarf-5"][..],
        &["-g", "-gdwarf-4", "-no-pie"],
        &["-g", "-O2", "-fno-toplevel-reorder"],
        &["-g", "-gz"],
        &["-g", "-fdebug-types-section"],
        &["-g", "-shared", "-fPIC"],
    ] {
        let program = program::c(flags, C);
        // DWARF has a word for atomic types from version 5 on.
        let total = match flags.contains(&"-gdwarf-4") {
            true => "total: long unsigned int, 8 bytes, line 5, debug",
            false => "total: _Atomic long unsigned int, 8 bytes, line 5, debug",
        };
        check(
            &program,
            &[
                ("total", total),
                (
                    "server",
                    "server: (anonymous struct), 56 bytes, line 2, debug",
                ),
                ("current", "current: client *, 8 bytes, line 3, debug"),
                ("hits", "hits: long int, 8 bytes, line 3, debug"),
            ],
        );
    }
}

#[test]
fn statics_of_functions_are_named_after_them() {
    let program = program::c(&["-g"], C);
    let image = Image::parse(&program.bytes).unwrap();
    let debug = DebugInfo::load(&image).unwrap();
    let mut names = BTreeSet::new();
    let mut at = image.data_range().start;
    while at < image.data_range().end {
        names.extend(debug.global_at(at).map(|global| show(&debug, &global)));
        at = at.wrapping_add(4);
    }
    for wanted in [
        "step::counter: unsigned int, 4 bytes, line 4, debug",
        "main::last: client, 16 bytes, line 6, debug",
    ] {
        assert!(names.contains(wanted), "{wanted}: {names:?}");
    }
}

#[test]
fn variables_of_cpp() {
    let source = "#include <atomic>
#include <vector>
#include <string>
namespace fs { struct Gate { std::atomic<int> go; static long opened; }; Gate gate; long Gate::opened; }
namespace { std::vector<std::string> lines; }
inline int shared_by_units;
struct Probe { Probe(); int n; }; Probe::Probe() : n(1) {}
struct Server { int poll() { static Probe probe; return ++probe.n; } };
int main() { Server server; shared_by_units++; lines.push_back(\"\");
    return fs::gate.go + fs::Gate::opened++ + server.poll() + lines.size(); }
";
    for flags in [&["-g"][..], &["-g", "-O2", "-gdwarf-4"]] {
        let Some(program) = program::cpp(flags, source) else {
            return;
        };
        check(
            &program,
            &[
                ("_ZN2fs4gateE", "fs::gate: fs::Gate, 4 bytes, line 4, debug"),
                (
                    "_ZN2fs4Gate6openedE",
                    "fs::Gate::opened: long int, 8 bytes, line 4, debug",
                ),
                (
                    "_ZN12_GLOBAL__N_15linesE",
                    "(anonymous namespace)::lines: std::vector<std::string>, 24 bytes, line 5, debug",
                ),
                (
                    "shared_by_units",
                    "shared_by_units: int, 4 bytes, line 6, debug",
                ),
                (
                    "_ZZN6Server4pollEvE5probe",
                    "Server::poll::probe: Probe, 4 bytes, line 8, debug",
                ),
                (
                    "_ZGVZN6Server4pollEvE5probe",
                    "guard of Server::poll::probe: ?, 8 bytes, line 0, symbol",
                ),
            ],
        );
    }
}

#[test]
fn variables_of_rust() {
    let source = "use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
mod shop { pub static QUERIES: super::AtomicU64 = super::AtomicU64::new(0); }
struct Db { hits: u64 }
#[unsafe(no_mangle)] static DB: Mutex<Db> = Mutex::new(Db { hits: 0 });
fn step() -> u64 { static COUNTER: AtomicU64 = AtomicU64::new(0); COUNTER.fetch_add(1, Relaxed) }
fn main() { DB.lock().unwrap().hits += shop::QUERIES.fetch_add(step(), Relaxed); }
";
    for flags in [
        &["-Cdebuginfo=2"][..],
        &["-Cdebuginfo=2", "-Cdwarf-version=5"],
    ] {
        let program = program::rust(flags, source);
        let image = Image::parse(&program.bytes).unwrap();
        let debug = DebugInfo::load(&image).unwrap();
        let mut names = BTreeSet::new();
        let mut at = image.data_range().start;
        while at < image.data_range().end {
            let global = debug
                .global_at(at)
                .filter(|global| global.declared.is_some());
            names.extend(global.map(|global| show(&debug, &global)));
            at = at.wrapping_add(4);
        }
        for wanted in [
            "program::shop::QUERIES: AtomicU64, 8 bytes, line 3, debug",
            "program::DB: Mutex<Db>, 16 bytes, line 5, debug",
            "program::step::COUNTER: AtomicU64, 8 bytes, line 6, debug",
        ] {
            assert!(names.contains(wanted), "{wanted}: {names:?}");
        }
    }
}

#[test]
fn what_has_no_place_in_the_debug_information_is_found_by_its_symbol() {
    let program = program::c(&["-g1"], C);
    check(
        &program,
        &[("server", "server: ?, 56 bytes, line 0, symbol")],
    );
    let image = Image::parse(&program.bytes).unwrap();
    let debug = DebugInfo::load(&image).unwrap();
    let bare = program::changed(&program, "objcopy", &["--strip-all"]);
    let server = image.symbol_named("server").unwrap().svma;
    assert_eq!(debug.global_at(server).unwrap().origin, Origin::Symbol);
    let image = Image::parse(&bare.bytes).unwrap();
    let debug = DebugInfo::load(&image).unwrap();
    let global = debug.global_at(server).unwrap();
    assert_eq!(
        (global.name.as_str(), global.origin),
        (".bss", Origin::Section)
    );
    assert_eq!(debug.global_at(Svma(u64::MAX)), None);
}
