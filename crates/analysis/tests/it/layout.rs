//! Lines, types and differences of whole programs, without running them.

use std::num::NonZeroUsize;
use std::path::Path;

use hitm_analysis::diff::{DiffOptions, Side, diff};
use hitm_analysis::layout::{Found, MapOptions, find, line_map, lines_around, type_view};
use hitm_binary::debug::Catalog;
use hitm_binary::image::Image;
use hitm_model::{BuildDiff, DiffVerdict, LineMap, LineSize, ShiftCause, TypeView};
use hitm_testkit::{
    CompileError, Language, Story1, compile_program, have_tool, skip, skipped, story1_truth,
};

const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();
const LINE: LineSize = LineSize::ASSUMED;

/// The bytes of a build, `None` where there is no compiler or nm.
fn bytes(variant: &Story1) -> Option<Vec<u8>> {
    if !have_tool("nm") {
        skipped("no nm");
        return None;
    }
    match variant.build() {
        Ok(built) => Some(std::fs::read(built.program).unwrap()),
        Err(CompileError::NoCompiler(compiler)) => {
            skipped(&format!("no {compiler}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn compare(old: &[u8], new: &[u8]) -> BuildDiff {
    let (old, new) = (Image::parse(old).unwrap(), Image::parse(new).unwrap());
    let (old_types, new_types) = (Catalog::new(&old).unwrap(), Catalog::new(&new).unwrap());
    let side = |image, catalog| Side {
        name: "a build",
        image,
        catalog,
    };
    let options = DiffOptions {
        line_size: LINE,
        jobs: TWO,
    };
    diff(
        side(&old, old_types.as_ref()),
        side(&new, new_types.as_ref()),
        &options,
    )
}

fn map(bytes: &[u8]) -> LineMap {
    let image = Image::parse(bytes).unwrap();
    let debug = Catalog::new(&image).unwrap().map(|catalog| catalog.debug());
    let options = MapOptions {
        line_size: LINE,
        read_only: false,
    };
    line_map(&image, debug.as_ref(), &options)
}

/// Whether two variables are on one line of a map.
fn together(map: &LineMap, a: &str, b: &str) -> bool {
    map.lines.iter().any(|line| {
        let has = |name| line.parts.iter().any(|part| part.object.name == name);
        has(a) && has(b)
    })
}

const CURSOR: &str = "mem_array_idx";
const EPOCH: &str = "global_epoch::global_epoch";
const GUARD: &str = "guard of global_epoch::global_epoch";

#[test]
fn fifteen_layouts_are_told_apart_without_exception() {
    for variant in Story1::variants() {
        let Some(bytes) = bytes(&variant) else {
            return;
        };
        let truth = story1_truth(&variant.build().unwrap().program).unwrap();
        let map = map(&bytes);
        let name = &variant.name;
        assert_eq!(together(&map, CURSOR, EPOCH), truth.epoch, "{name}");
        assert_eq!(together(&map, CURSOR, GUARD), truth.guard, "{name}");
    }
}

#[test]
fn every_pair_of_layouts_says_who_joined() {
    let base = Story1::with_header_object();
    let Some(old) = bytes(&base) else { return };
    assert!(
        !story1_truth(&base.build().unwrap().program)
            .unwrap()
            .is_slow()
    );
    for variant in Story1::variants() {
        let Some(new) = bytes(&variant) else { return };
        let truth = story1_truth(&variant.build().unwrap().program).unwrap();
        let found = compare(&old, &new);
        let joined = |name: &str| {
            found
                .joined
                .iter()
                .any(|pair| pair.a.name == name && pair.b.name == CURSOR)
        };
        assert_eq!(joined(EPOCH), truth.epoch, "{}", variant.name);
        assert_eq!(joined(GUARD), truth.guard, "{}", variant.name);
    }
}

#[test]
fn the_header_change_is_named_as_the_cause() {
    let (Some(old), Some(new)) = (
        bytes(&Story1::with_header_object()),
        bytes(&Story1::without_header_object()),
    ) else {
        return;
    };
    let found = compare(&old, &new);
    assert_eq!(found.verdict(), DiffVerdict::Layout);
    let shift = found
        .shifts
        .iter()
        .find(|shift| shift.last == CURSOR)
        .unwrap();
    assert_eq!((shift.section.as_str(), shift.bytes), (".bss", -32));
    assert_eq!(
        shift.causes,
        [
            ShiftCause::Vanished {
                name: "header_object".into(),
                size: 8
            },
            ShiftCause::Aligned { bytes: 32 },
        ]
    );
    let code = found.code.unwrap();
    assert_eq!(code.changed, []);
    assert!(code.but_for_addresses > 3, "{code:?}");
    assert_eq!(code.vanished.len(), 1, "the object's constructor");
}

#[test]
fn a_build_does_not_differ_from_itself() {
    let Some(bytes) = bytes(&Story1::repaired()) else {
        return;
    };
    let found = compare(&bytes, &bytes);
    assert_eq!(found.verdict(), DiffVerdict::Neither);
    assert!(found.shifts.is_empty() && found.variables.is_empty());
    let code = found.code.unwrap();
    assert_eq!((code.but_for_addresses, code.changed.len()), (0, 0));
    let types = found.types.unwrap();
    assert!(types.both > 10 && types.changed.is_empty() && types.ambiguous == 0);
}

/// A C program compiled with and without a change.
fn c(source: &str, flags: &[&str]) -> Option<Vec<u8>> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("changed.c");
    std::fs::write(&path, source).unwrap();
    build(&path, flags)
}

fn build(path: &Path, flags: &[&str]) -> Option<Vec<u8>> {
    match compile_program(Language::C, path, flags) {
        Ok(built) => Some(std::fs::read(built.program).unwrap()),
        Err(CompileError::NoCompiler(compiler)) => {
            skipped(&format!("no {compiler}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

const CHANGED: &str = "
#ifdef NEW
struct stats { long calls; long gap[8]; long hits; long misses; };
#define STEP 3
#else
struct stats { long calls; long hits; long misses; };
#define STEP 2
#endif
struct stats stats;
__attribute__((noinline)) void count(void) { stats.calls += STEP; }
__attribute__((noinline)) long same(long n) { return n * n + 1; }
int main(int argc, char **argv) { (void)argv; count(); stats.hits = same(argc); return (int)stats.misses; }
";

#[test]
fn code_and_types_that_changed_are_named() {
    let (Some(old), Some(new)) = (c(CHANGED, &[]), c(CHANGED, &["-DNEW"])) else {
        return;
    };
    let found = compare(&old, &new);
    let code = found.code.as_ref().unwrap();
    let names: Vec<&str> = code
        .changed
        .iter()
        .map(|change| change.name.as_str())
        .collect();
    assert!(
        names.contains(&"count") && !names.contains(&"same"),
        "{names:?}"
    );
    let types = found.types.as_ref().unwrap();
    let [change] = types.changed.as_slice() else {
        panic!("{types:?}")
    };
    assert_eq!((change.old_size, change.new_size), (24, 88));
    let moved: Vec<(&str, u64, u64)> = change
        .moved
        .iter()
        .map(|member| (member.name.as_str(), member.old, member.new))
        .collect();
    assert_eq!(moved, [("hits", 8, 72), ("misses", 16, 80)]);
    assert_eq!(change.parted.len(), 2, "calls from both: {change:?}");
    assert_eq!(change.appeared, ["gap"]);
    assert_eq!(found.variables[0].new_size, Some(88));
}

const TYPES: &str = "
#include <stdatomic.h>
struct small { long n; } small[4];
struct wide { long a[5]; _Atomic long b; char c; } wide;
struct own { _Alignas(64) long n; } own[2];
struct server { int flags; struct small clients[3]; } server;
static long counter; _Thread_local long local;
int main(int argc, char **argv) { (void)argv; static long counter; counter += argc; local++; return (int)(counter + small[0].n + wide.b + own[0].n + server.flags); }
long other(void) { return ++counter; }
";

fn view(bytes: &[u8], name: &str, sizes: &[u32]) -> TypeView {
    let image = Image::parse(bytes).unwrap();
    let catalog = Catalog::new(&image).unwrap().unwrap();
    let entry = catalog.named(name, TWO).remove(0);
    let sizes: Vec<LineSize> = sizes
        .iter()
        .map(|&size| LineSize::new(size).unwrap())
        .collect();
    type_view(&catalog.debug().layout(entry.ty).unwrap(), &sizes)
}

#[test]
fn types_on_lines() {
    let Some(bytes) = c(TYPES, &["-fno-toplevel-reorder"]) else {
        return;
    };
    let wide = view(&bytes, "wide", &[64, 128]);
    assert_eq!(
        (wide.size, wide.padding, wide.holes, wide.tail_padding),
        (56, 7, 1, 7)
    );
    let placed: Vec<(u32, u32, u64, &[u64])> = wide
        .placements
        .iter()
        .map(|p| (p.line_size.bytes(), p.base, p.lines, p.borders.as_slice()))
        .collect();
    assert_eq!(
        placed,
        [
            (64, 0, 1, &[][..]),
            (64, 16, 2, &[48]),
            (128, 0, 1, &[]),
            (128, 80, 2, &[48]),
        ]
    );
    let array = &wide.arrays[0];
    assert_eq!(
        (array.period, array.period_lines, array.straddling),
        (8, 7, 6)
    );
    assert_eq!(array.on_lines[..3], [(0, 1), (1, 2), (2, 3)]);
    assert!(array.shared && array.shared_at_worst);

    let small = view(&bytes, "small", &[64]);
    assert_eq!(small.arrays[0].on_lines, [(0, 7)]);
    assert_eq!(small.placements.len(), 1, "8 bytes never cross a line");

    let own = view(&bytes, "own", &[64, 128]);
    assert_eq!((own.padding, own.align), (56, 64));
    assert!(!own.arrays[0].shared && !own.arrays[0].shared_at_worst);
    assert!(own.arrays[1].shared, "two on each line of 128 bytes");
}

#[test]
fn names_of_every_kind_are_found() {
    let Some(bytes) = c(TYPES, &["-fno-toplevel-reorder"]) else {
        return;
    };
    let image = Image::parse(&bytes).unwrap();
    let catalog = Catalog::new(&image).unwrap().unwrap();
    let debug = catalog.debug();
    let look = |name: &str| find(&image, Some(&catalog), Some(&debug), name, false, LINE, TWO);
    let places = |name: &str| match look(name) {
        Ok(Found::Places(places)) => places,
        other => panic!("{name}: {other:?}"),
    };
    let server = &places("server")[0];
    assert_eq!(
        (server.size, server.type_name.as_deref()),
        (32, Some("server"))
    );
    let field = &places("server.clients[1].n")[0];
    assert_eq!(field.address, server.address.wrapping_add(16));
    assert_eq!(
        (field.size, field.name.as_str()),
        (8, "server.clients[1].n")
    );
    assert_eq!(places("counter").len(), 2, "two statics of one name");
    assert!(places("local")[0].thread_local);
    let inside = format!("{}", server.address.wrapping_add(4));
    assert_eq!(places(&inside)[0].name, "server + 4");
    assert!(
        matches!(look("wide.b"), Ok(Found::Places(_))),
        "the variable goes before the type"
    );
    assert!(matches!(
        find(&image, Some(&catalog), Some(&debug), "wide.b", true, LINE, TWO),
        Ok(Found::Types(_, path)) if path == ".b"
    ));
    let error = look("serve").unwrap_err();
    assert_eq!(error.similar, ["server"]);
    // No place, but a type whose fields can be shown.
    assert!(matches!(look("server.nothing"), Ok(Found::Types(_, path)) if path == ".nothing"));
    assert!(look("").is_err() && look("[").is_err() && look("::").is_err());
    let options = MapOptions {
        line_size: LINE,
        read_only: false,
    };
    let lines = lines_around(&image, Some(&debug), server.clone(), &options);
    let on_line = |name| {
        lines
            .lines
            .iter()
            .any(|l| l.parts.iter().any(|p| p.object.name == name))
    };
    assert!(on_line("server"));
}

#[test]
fn a_stripped_file_has_nothing_to_name() {
    if !have_tool("strip") {
        skip!("no strip");
    }
    let Some(bytes) = c(TYPES, &["-s"]) else {
        return;
    };
    assert!(map(&bytes).lines.is_empty());
    let found = compare(&bytes, &bytes);
    assert_eq!(found.verdict(), DiffVerdict::CannotTell);
    assert_eq!((found.objects, found.types), (0, None));
}
