//! What an image says, against what binutils say.

use hitm_binary::BinaryError;
use hitm_binary::image::{DebugLevel, Image, SymbolKind};
use hitm_model::{Avma, AvmaRange, Mapping, MappingKind, Svma};

use crate::program::{self, Program};

const SOURCE: &str = r#"
#include <stdio.h>
#include <pthread.h>
struct big { long a[100]; };
static struct big table; struct big *shown = &table;
struct big data = {{1}};
const int constant[4] = {1, 2, 3, 4};
_Thread_local long counter;
__thread int seeded = 5;
__attribute__((noinline)) static int work(int x) { return x * table.a[x] + seeded; }
__attribute__((noinline)) int other(int x) { return x + 1; }
int main(int argc, char **argv) {
    (void)argv;
    counter += work(argc);
    printf("%ld %d\n", counter + data.a[0], other(constant[argc & 3]));
    return 0;
}
"#;

fn plain() -> Program {
    program::c(&["-O1", "-g", "-pthread"], SOURCE)
}

#[test]
fn symbols_are_those_of_nm() {
    for flags in [&["-O1", "-no-pie"][..], &["-O1", "-pie"]] {
        let program = program::c(flags, SOURCE);
        let image = Image::parse(&program.bytes).unwrap();
        let mut seen = 0;
        for line in program::tool("nm", &["-S", "--defined-only"], &program).lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let [start, size, kind, name] = fields[..] else {
                continue;
            };
            let [start, size] = [start, size].map(|hex| u64::from_str_radix(hex, 16).unwrap());
            let thread_local = name == "counter" || name == "seeded";
            for at in [start, start + size - 1] {
                let symbol = if thread_local {
                    image.tls_symbol_at(at).unwrap()
                } else {
                    image.symbol_at(Svma(at)).unwrap()
                };
                assert_eq!((symbol.svma.0, symbol.size), (start, size), "{line}");
                let wanted = match kind {
                    _ if thread_local => SymbolKind::ThreadLocal,
                    "t" | "T" => SymbolKind::Function,
                    _ => SymbolKind::Data,
                };
                assert_eq!(symbol.kind, wanted, "{line}");
            }
            seen += 1;
        }
        assert!(seen > 7, "nm lists only {seen} symbols with a size");
    }
}

#[test]
fn sections_are_those_of_readelf() {
    let program = plain();
    let image = Image::parse(&program.bytes).unwrap();
    for (name, section) in [
        ("table", ".bss"),
        ("shown", ".data"),
        ("data", ".data"),
        ("constant", ".rodata"),
        ("work", ".text"),
    ] {
        let at = hitm_testkit::symbol_address(&program.path, name).unwrap();
        assert_eq!(image.section_at(Svma(at)), Some(section));
    }
    let (name, range) = image
        .section_range_at(image.data_range().end.wrapping_sub(1))
        .unwrap();
    let headers = program::tool("readelf", &["-SW"], &program);
    let line = headers
        .lines()
        .find(|line| line.contains(" .bss "))
        .unwrap();
    assert_eq!(name, ".bss");
    for number in [range.start.0, range.len()] {
        assert!(line.contains(&format!("{number:x}")), "{range}: {line}");
    }
    assert_eq!(image.section_at(image.image_range().end), None);
}

#[test]
fn the_build_id_is_the_one_of_readelf() {
    let program = program::c(&["-Wl,--build-id=sha1"], SOURCE);
    let id = Image::parse(&program.bytes).unwrap().build_id().unwrap();
    let notes = program::tool("readelf", &["-n"], &program);
    assert!(notes.contains(&format!("Build ID: {id}")), "{id}: {notes}");
    let without = program::c(&["-Wl,--build-id=none"], SOURCE);
    assert_eq!(Image::parse(&without.bytes).unwrap().build_id(), None);
}

#[test]
fn function_bounds_survive_stripping() {
    let program = plain();
    let bare = program::changed(&program, "objcopy", &["--strip-all"]);
    let image = Image::parse(&bare.bytes).unwrap();
    assert_eq!(image.debug_level(), DebugLevel::Stripped);
    for line in program::tool("nm", &["-S"], &program).lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        if let [start, size, "t" | "T", "main" | "work" | "other"] = fields[..] {
            let [start, size] = [start, size].map(|hex| u64::from_str_radix(hex, 16).unwrap());
            let bounds = image.function_at(Svma(start + size / 2)).unwrap();
            assert_eq!((bounds.start.0, bounds.len()), (start, size), "{line}");
            assert_eq!(image.code(bounds).unwrap().len() as u64, size);
        }
    }
    assert_eq!(image.function_at(image.data_range().start), None);
}

#[test]
fn levels_of_debug_information() {
    let level = |program: &Program| Image::parse(&program.bytes).unwrap().debug_level();
    let rust = "fn main() { println!(\"{}\", std::env::args().count()); }";
    assert_eq!(level(&plain()), DebugLevel::Full);
    assert_eq!(level(&program::c(&["-g", "-gz"], SOURCE)), DebugLevel::Full);
    assert_eq!(level(&program::c(&["-g1"], SOURCE)), DebugLevel::LinesOnly);
    assert_eq!(level(&program::c(&[], SOURCE)), DebugLevel::Symbols);
    assert_eq!(level(&program::c(&["-s"], SOURCE)), DebugLevel::Stripped);
    for (flag, wanted) in [
        ("-Cdebuginfo=2", DebugLevel::Full),
        ("-Cdebuginfo=1", DebugLevel::LinesOnly),
    ] {
        let program = program::rust(&[flag], rust);
        assert_eq!(level(&program), wanted);
        assert!(Image::parse(&program.bytes).unwrap().is_rust());
    }
    assert!(!Image::parse(&plain().bytes).unwrap().is_rust());
}

#[test]
fn a_separate_debug_file_must_be_of_the_same_build() {
    let program = plain();
    let bare = program::changed(&program, "objcopy", &["--strip-all"]);
    let debug = program::changed(&program, "objcopy", &["--only-keep-debug"]);
    let at = Svma(hitm_testkit::symbol_address(&program.path, "table").unwrap());
    let mut image = Image::parse(&bare.bytes).unwrap();
    assert_eq!(image.symbol_at(at), None);
    let other = program::c(&["-O0", "-g"], SOURCE);
    let error = image.add_debug(&other.bytes);
    assert!(matches!(error, Err(BinaryError::BuildIdDiffers { .. })));
    assert_eq!(image.symbol_at(at), None);
    image.add_debug(&debug.bytes).unwrap();
    assert_eq!(image.symbol_at(at).unwrap().name, "table");
    assert_eq!(image.debug_level(), DebugLevel::Full);
}

#[test]
fn the_load_bias_is_the_same_from_every_mapping() {
    for flags in [
        &["-pie"][..],
        &["-no-pie"],
        &["-pie", "-Wl,-z,noseparate-code"],
    ] {
        let program = program::c(flags, SOURCE);
        let image = Image::parse(&program.bytes).unwrap();
        let bias = 0x5555_5555_4000;
        let headers = program::tool("readelf", &["-lW"], &program);
        let mut mappings = Vec::new();
        for line in headers
            .lines()
            .filter(|line| line.trim().starts_with("LOAD"))
        {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let number =
                |at: usize| u64::from_str_radix(fields[at].trim_start_matches("0x"), 16).unwrap();
            let (offset, svma) = (number(1), number(2));
            // The kernel maps whole pages.
            let page = |at: u64| at & !0xfff;
            let start = Avma(page(svma) + bias);
            let mapping = Mapping {
                range: AvmaRange::new(start, start.wrapping_add(0x1000)),
                kind: MappingKind::File {
                    path: "program".to_owned(),
                    offset: page(offset),
                    build_id: None,
                },
                executable: line.contains(" E "),
                // The loader makes some of it read-only after relocation, so this says little.
                writable: false,
            };
            mappings.push(mapping);
        }
        assert!(mappings.len() > 1);
        assert_eq!(image.bias_of_mappings(&mappings).unwrap().0, bias);
    }
}

#[test]
fn thread_locals_of_the_main_program_end_at_the_thread_pointer() {
    // The program prints where its variables are, from the thread pointer.
    let source = r#"
#include <stdio.h>
#define OFFSET(v) (unsigned long)((char *)&v - (char *)__builtin_thread_pointer())
struct line { _Alignas(64) long v; };
_Thread_local struct line first;
_Thread_local long second = 3;
_Thread_local char third;
int main(void) {
    printf("%lx %lx %lx\n", OFFSET(first), OFFSET(second), OFFSET(third));
}
"#;
    let program = program::c(&[], source);
    let output = hitm_testkit::run_limited(
        &mut std::process::Command::new(&program.path),
        std::time::Duration::from_secs(20),
    )
    .unwrap();
    let image = Image::parse(&program.bytes).unwrap();
    let tls = image.tls().unwrap();
    let fs_base = Avma(0x7fff_f7d8_0740);
    for (name, offset) in ["first", "second", "third"]
        .iter()
        .zip(output.stdout.split_whitespace())
    {
        let address = fs_base.wrapping_add(u64::from_str_radix(offset, 16).unwrap());
        let offset = tls.offset_of(fs_base, address).unwrap();
        assert_eq!(image.tls_symbol_at(offset).unwrap().name, *name);
    }
    assert_eq!(tls.offset_of(fs_base, fs_base), None);
}

#[test]
fn names_are_readable() {
    #[track_caller]
    fn check(source: &str, flags: &[&str], raw: &str, name: &str, suffix: Option<&str>) {
        let Some(program) = program::cpp(flags, source) else {
            return;
        };
        let image = Image::parse(&program.bytes).unwrap();
        let symbol = image.symbol_named(raw).unwrap();
        assert_eq!(
            (symbol.name.as_str(), symbol.suffix.as_deref()),
            (name, suffix)
        );
    }
    let source = "namespace fs { struct G { int n[9]; }; G gate; template <class T> T twice(T x) { return x + x; } }
        int main(int argc, char**) { static int count; return fs::twice<long>(count += fs::gate.n[argc]); }";
    check(source, &[], "_ZN2fs4gateE", "fs::gate", None);
    check(source, &[], "_ZZ4mainE5count", "main::count", None);
    check(
        source,
        &[],
        "_ZN2fs5twiceIlEET_S1_",
        "fs::twice<long>",
        None,
    );
}

#[test]
fn files_that_cannot_be_used_say_why() {
    let program = plain();
    let with = |at: usize, byte: u8| {
        let mut bytes = program.bytes.clone();
        bytes[at] = byte;
        Image::parse(&bytes).map(|_| ()).unwrap_err().to_string()
    };
    let none = Image::parse(b"#!/bin/sh\n").map(|_| ()).unwrap_err();
    assert_eq!(none.to_string(), "not an ELF file");
    assert!(with(4, 1).starts_with("a 32-bit ELF file"));
    assert!(with(18, 183).starts_with("an ELF file for another machine (e_machine 183)"));
    assert!(with(16, 4).starts_with("neither a program nor a shared library"));
    assert!(with(54, 1).starts_with("damaged ELF file: program headers"));
    let cut = Image::parse(&program.bytes[..program.bytes.len() / 2]).unwrap();
    assert_eq!(cut.damage(), Some("section headers"));
    assert!(!cut.image_range().is_empty());
}
