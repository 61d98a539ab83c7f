//! Where members are, as the compiler chose it: text cases, and the compiler itself as an oracle.

use std::num::NonZeroUsize;
use std::process::Command;

use hitm_binary::debug::{Catalog, LayoutMember, MemberRole, TypeLayout};
use hitm_binary::image::Image;

use crate::program::{self, Program};

const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();

/// `struct ring 16/8: head@0+8 …` of each type of a name.
fn describe(program: &Program, name: &str) -> Vec<String> {
    let image = Image::parse(&program.bytes).unwrap();
    let catalog = Catalog::new(&image).unwrap().unwrap();
    let debug = catalog.debug();
    let mut all: Vec<String> = catalog
        .named(name, TWO)
        .iter()
        .map(|entry| show(&debug.layout_of(entry).unwrap()))
        .collect();
    all.sort();
    all.dedup();
    all
}

fn show(layout: &TypeLayout) -> String {
    let mut text = format!(
        "{:?} {} {}/{}:",
        layout.kind, layout.name, layout.size, layout.align
    );
    for member in &layout.members {
        text.push_str(&format!(" {}", part(member)));
    }
    for variant in &layout.variants {
        let value = variant.value.map(|value| format!("={value}"));
        text.push_str(&format!(" | {}{}", variant.name, value.unwrap_or_default()));
        for member in &variant.members {
            text.push_str(&format!(" {}", part(member)));
        }
    }
    text
}

fn part(member: &LayoutMember) -> String {
    let name = member.name.as_deref().unwrap_or("");
    let role = match member.role {
        MemberRole::Field => "",
        MemberRole::Base => "base ",
        MemberRole::Discriminant => "tag",
        MemberRole::Niche => "niche",
    };
    let size = member.size.map_or("?".to_owned(), |size| size.to_string());
    match member.bits {
        Some(bits) => format!("{role}{name}@{}:{}", bits.first, bits.count),
        None => format!("{role}{name}@{}+{size}", member.offset),
    }
}

#[track_caller]
fn check(program: &Program, cases: &[(&str, &str)]) {
    for (name, wanted) in cases {
        assert_eq!(describe(program, name), [*wanted], "{name}");
    }
}

const C: &str = "#include <stdatomic.h>
struct plain { char a; long b; char c; } plain_v;
struct bits { unsigned x : 3, y : 7; int z; unsigned long w : 40; } bits_v;
struct shared { _Atomic unsigned long hits; _Atomic int flag; atomic_bool stop; } shared_v;
struct __attribute__((packed)) tight { char a; long b; } tight_v;
struct lined { _Alignas(64) long a; long b; } lined_v;
typedef struct { int key; union { long id; double weight; }; } entry; entry entry_v;
struct tail { long n; int items[]; } tail_v;
typedef struct plain alias; alias *alias_v;
union either { long id; char text[24]; } either_v;
struct matrix { short cells[3][4]; struct { int in; } inner; } matrix_v;
int main(void) { return (int)plain_v.b; }
";

#[test]
fn types_of_c() {
    for flags in [
        &["-g", "-gdwarf-5"][..],
        &["-g", "-gdwarf-4"],
        &["-g", "-gz"],
        &["-g", "-fdebug-types-section"],
        &["-g", "-O2", "-flto"],
    ] {
        check(
            &program::c(flags, C),
            &[
                ("plain", "Struct plain 24/8: a@0+1 b@8+8 c@16+1"),
                ("bits", "Struct bits 16/8: x@0:3 y@3:7 z@4+4 w@64:40"),
                ("shared", "Struct shared 16/8: hits@0+8 flag@8+4 stop@12+1"),
                ("tight", "Struct tight 9/1: a@0+1 b@1+8"),
                ("lined", "Struct lined 64/64: a@0+8 b@8+8"),
                ("entry", "Struct entry 16/8: key@0+4 @8+8"),
                ("tail", "Struct tail 8/8: n@0+8 items@8+?"),
                ("alias", "Struct plain 24/8: a@0+1 b@8+8 c@16+1"),
                ("either", "Union either 24/8: id@0+8 text@0+24"),
                ("matrix", "Struct matrix 28/4: cells@0+24 inner@24+4"),
            ],
        );
    }
}

const CPP: &str = "#include <atomic>
namespace ring { template <class T, int N> struct Queue { std::atomic<unsigned long> head, tail; T items[N]; };
class Base { public: virtual ~Base() {} int id; }; struct Derived : Base { char mark; long more; };
namespace { struct Hidden { long secret; char rest; } hidden; }
struct alignas(64) Padded { std::atomic<long> n; }; }
ring::Queue<int, 4> ints; ring::Queue<char, 3> chars; ring::Derived derived; ring::Padded padded[2];
int main() { struct Local { short s; long l; } local{1, 2}; ring::hidden.secret = local.l; return int(ints.head + chars.tail); }
";

#[test]
fn types_of_cpp() {
    let Some(program) = program::cpp(&["-g"], CPP) else {
        return;
    };
    check(
        &program,
        &[
            (
                "ring::Queue<int, 4>",
                "Struct ring::Queue<int, 4> 32/8: head@0+8 tail@8+8 items@16+16",
            ),
            (
                "Queue<char,3>",
                "Struct ring::Queue<char, 3> 24/8: head@0+8 tail@8+8 items@16+3",
            ),
            (
                "ring::Derived",
                "Struct ring::Derived 24/8: base @0+16 mark@12+1 more@16+8",
            ),
            ("Padded", "Struct ring::Padded 64/64: n@0+8"),
            (
                "Hidden",
                "Struct ring::(anonymous namespace)::Hidden 16/8: secret@0+8 rest@8+1",
            ),
            ("Local", "Struct main::Local 16/8: s@0+2 l@8+8"),
        ],
    );
    assert_eq!(describe(&program, "Queue").len(), 2, "both instances");
    assert!(describe(&program, "Que").is_empty(), "no part of a name");
}

const RUST: &str = "use std::sync::atomic::*;
mod ring { pub struct Ring<T> { pub a: u8, pub head: std::sync::atomic::AtomicU64, pub b: u16, pub item: T }
#[repr(C)] pub struct InOrder { pub a: u8, pub head: u64, pub b: u16 } }
pub enum Shape { Dot, Circle(f32), Rect { w: f64, h: f64 } }
#[inline(never)] fn see<T>(value: T) -> T { std::hint::black_box(value) }
fn main() {
    see(ring::Ring { a: 1, head: AtomicU64::new(2), b: 3, item: 4u32 });
    see(ring::InOrder { a: 1, head: 2, b: 3 });
    see(Shape::Circle(1.0)); see(Shape::Rect { w: 1.0, h: 2.0 }); see(Shape::Dot);
    see(Some(Box::new(5u64)));
}
";

#[test]
fn types_of_rust() {
    let program = program::rust(&["-Cdebuginfo=2", "-Copt-level=0"], RUST);
    check(
        &program,
        &[
            (
                "InOrder",
                "Struct program::ring::InOrder 24/8: a@0+1 head@8+8 b@16+2",
            ),
            (
                "Shape",
                "Enum program::Shape 24/8: tag@0+4 | Dot=0 | Circle=1 0@4+4 | Rect=2 w@8+8 h@16+8",
            ),
            (
                "Option<alloc::boxed::Box<u64, alloc::alloc::Global>>",
                "Enum core::option::Option<alloc::boxed::Box<u64>> 8/8: niche@0+8 | None=0 | Some 0@0+8",
            ),
        ],
    );
    // The order that this compiler chose: all of it, whatever it is.
    let ring = describe(&program, "Ring").remove(0);
    assert!(ring.contains("program::ring::Ring<u32> 16/8:"), "{ring}");
    for part in ["a@", "head@", "b@", "item@"] {
        assert!(ring.contains(part), "{ring}");
    }
}

/// The compiler's own word: `offsetof` of every member, printed by the program.
#[test]
fn offsets_are_those_of_the_compiler() {
    let members = [
        ("char", "a"),
        ("long", "b"),
        ("short", "c"),
        ("double", "d"),
        ("char", "e[3]"),
        ("long double", "f"),
        ("void *", "g"),
        ("_Bool", "h"),
    ];
    let mut source = String::from("#include <stddef.h>\n#include <stdio.h>\n");
    let mut printed = String::new();
    // Every rotation of the members is another structure.
    for first in 0..members.len() {
        source.push_str(&format!("struct s{first} {{ "));
        for at in 0..members.len() {
            let (ty, name) = members[(first + at) % members.len()];
            source.push_str(&format!("{ty} {name}; "));
        }
        source.push_str(&format!("}} v{first};\n"));
        printed.push_str(&format!(
            "printf(\"Struct s{first} %zu/%zu:\", sizeof v{first}, _Alignof(struct s{first}));\n"
        ));
        for at in 0..members.len() {
            let (_, name) = members[(first + at) % members.len()];
            let name = name.split('[').next().unwrap();
            printed.push_str(&format!(
                "printf(\" {name}@%zu+%zu\", offsetof(struct s{first}, {name}), sizeof v{first}.{name});\n"
            ));
        }
        printed.push_str("printf(\"\\n\");\n");
    }
    source.push_str(&format!("int main(void) {{ {printed} return 0; }}\n"));
    let program = program::c(&["-g"], &source);
    let output = Command::new(&program.path).output().unwrap();
    let truth = String::from_utf8(output.stdout).unwrap();
    assert_eq!(truth.lines().count(), members.len());
    for (number, wanted) in truth.lines().enumerate() {
        assert_eq!(describe(&program, &format!("s{number}")), [wanted]);
    }
}

#[test]
fn a_list_is_the_same_with_any_number_of_threads() {
    let program = program::rust(&["-Cdebuginfo=2", "-Copt-level=0"], RUST);
    let image = Image::parse(&program.bytes).unwrap();
    let catalog = Catalog::new(&image).unwrap().unwrap();
    let list = |jobs: usize| {
        let jobs = NonZeroUsize::new(jobs).unwrap();
        let entries = catalog.all(jobs);
        let mut shown = Vec::new();
        catalog.lay_out(&entries, jobs, &mut |entry, layout| {
            assert_eq!(entry.size, Some(layout.size));
            shown.push(show(&layout));
        });
        assert_eq!(shown.len(), entries.len());
        shown
    };
    let one = list(1);
    assert!(one.iter().any(|ty| ty.contains("program::Shape")));
    assert_eq!(one, list(2));
    assert_eq!(one, list(5));
}

#[test]
fn places_by_their_paths() {
    let program = program::c(&["-g"], C);
    let image = Image::parse(&program.bytes).unwrap();
    let catalog = Catalog::new(&image).unwrap().unwrap();
    let debug = catalog.debug();
    let place = |name: &str, path: &str| {
        let ty = catalog.named(name, TWO).first().unwrap().ty;
        let place = debug.place_of(ty, path)?;
        Some((place.offset, place.size))
    };
    assert_eq!(place("plain", ".b"), Some((8, Some(8))));
    assert_eq!(place("entry", ".weight"), Some((8, Some(8))));
    assert_eq!(place("either", ".text[5]"), Some((5, Some(1))));
    assert_eq!(place("either", ".text[24]"), None);
    assert_eq!(place("tail", ".items[3]"), Some((20, Some(4))));
    assert_eq!(place("matrix", ".inner.in"), Some((24, Some(4))));
    assert_eq!(place("plain", ".nothing"), None);
    assert_eq!(place("plain", ".b["), None);
}

/// Types and data mean the same whatever the processor: a file of another one is read for them.
#[test]
fn a_file_of_another_processor() {
    let program = program::c(&["-g"], C);
    let mut bytes = program.bytes.clone();
    bytes[18..20].copy_from_slice(&183u16.to_le_bytes());
    assert!(Image::parse(&bytes).is_err());
    let image = Image::parse_any_machine(&bytes).unwrap();
    assert_eq!(image.machine().to_string(), "aarch64");
    let catalog = Catalog::new(&image).unwrap().unwrap();
    let found = catalog.named("plain", TWO);
    let layout = catalog.debug().layout(found[0].ty).unwrap();
    assert_eq!(show(&layout), "Struct plain 24/8: a@0+1 b@8+8 c@16+1");
}
