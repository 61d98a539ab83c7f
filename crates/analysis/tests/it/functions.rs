//! Functions of two builds of one source: what moved is the same, what changed is named.

use std::num::NonZeroUsize;

use hitm_analysis::diff::{DiffOptions, Side, diff};
use hitm_binary::image::{Image, SymbolKind};
use hitm_model::{CodeDiff, FunctionChange, LineSize, SymbolChange};
use hitm_testkit::{CompileError, Language, compile_program, skipped};

const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();

fn build(language: Language, source: &str, flags: &[&str]) -> Option<Vec<u8>> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(match language {
        Language::Rust => "moved.rs",
        _ => "moved.c",
    });
    std::fs::write(&path, source).unwrap();
    match compile_program(language, &path, flags) {
        Ok(built) => Some(std::fs::read(built.program).unwrap()),
        Err(CompileError::NoCompiler(compiler)) => {
            skipped(&format!("no {compiler}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn compare(old: &Image<'_>, new: &Image<'_>) -> CodeDiff {
    let side = |image| Side {
        name: "a build",
        image,
        catalog: None,
    };
    let options = DiffOptions {
        line_size: LineSize::ASSUMED,
        jobs: TWO,
    };
    diff(side(old), side(new), &options).code.unwrap()
}

/// What became of the functions that the source names, a kind per line; those of the start-up code are left out.
fn told(old: &[u8], new: &[u8]) -> String {
    let (old, new) = (Image::parse(old).unwrap(), Image::parse(new).unwrap());
    let code = compare(&old, &new);
    let is_ours = |name: &str| {
        !name.starts_with('_') && !name.ends_with("tm_clones") && name != "frame_dummy"
    };
    let changes = |list: &[FunctionChange], why: bool| {
        let ours = list.iter().filter(|change| is_ours(&change.name));
        ours.map(|change| match why {
            true => format!("{} ({})", change.name, change.why),
            false => change.name.clone(),
        })
        .collect::<Vec<String>>()
    };
    let symbols = |list: &[SymbolChange]| {
        let ours = list.iter().filter(|change| is_ours(&change.name));
        ours.map(|change| change.name.clone())
            .collect::<Vec<String>>()
    };
    let lists = [
        ("changed", changes(&code.changed, true)),
        ("constants", changes(&code.other_constants, false)),
        ("new", symbols(&code.appeared)),
        ("gone", symbols(&code.vanished)),
    ];
    let functions = new.symbols_of(SymbolKind::Function).len() as u64;
    let listed = (code.changed.len() + code.other_constants.len() + code.appeared.len()) as u64;
    assert_eq!(
        functions,
        code.identical + code.but_for_addresses + listed,
        "every function is counted once"
    );
    lists
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(kind, names)| format!("{kind}: {}\n", names.join(", ")))
        .collect()
}

/// A C program with and without `-DNEW`, and what is told of it; also the other way round nothing else may be told.
#[track_caller]
fn check(source: &str, flags: &[&str], expected: &str) {
    let with_new: Vec<&str> = flags.iter().copied().chain(["-DNEW"]).collect();
    let builds = (
        build(Language::C, source, flags),
        build(Language::C, source, &with_new),
    );
    let (Some(old), Some(new)) = builds else {
        return;
    };
    assert_eq!(told(&old, &new), expected, "{flags:?}");
    assert_eq!(told(&old, &old), "", "{flags:?}: a build and itself");
}

const THREAD_LOCALS: &str = "
#define KEEP __attribute__((noipa))
#ifdef NEW
_Thread_local long added[3] = {1, 2, 3};
KEEP long *sum(void) { return added; }
#endif
_Thread_local long first = 1, second = 2;
KEEP long read_second(void) { return second; }
KEEP void add(long n) { first += n; second -= n; }
KEEP long *address(void) { return &second; }
#ifdef NEW
KEEP long other(void) { return first; }
#else
KEEP long other(void) { return second; }
#endif
int main(void) { add(1); return (int)(read_second() + *address() + other()); }
";

#[test]
fn thread_locals_that_moved_are_the_same_code() {
    let expected = "changed: other (an access of another thread-local)\nnew: sum\n";
    check(THREAD_LOCALS, &["-fpie", "-pie"], expected);
    check(THREAD_LOCALS, &["-fno-pie", "-no-pie"], expected);
    // Through the words that the loader fills.
    check(
        THREAD_LOCALS,
        &["-fpic", "-shared", "-ftls-model=initial-exec"],
        "changed: other (an access of something else)\nnew: sum\n",
    );
    check(
        THREAD_LOCALS,
        &["-fpic", "-shared"],
        "changed: other (an access of something else)\nnew: sum\n",
    );
}

const TABLES: &str = "
#define KEEP __attribute__((noipa))
#ifdef NEW
KEEP double added(double n) { return n * 3.25 + 17.75; }
const char *const words[] = {\"one\", \"two\", \"four\"};
#define SIX 66
#define SCALE 2.5
#define TEXT \"written now\"
#else
const char *const words[] = {\"one\", \"two\", \"three\"};
#define SIX 6
#define SCALE 1.5
#define TEXT \"written then\"
#endif
long a, b, c;
KEEP long pick(int n) {
    switch (n) {
    case 0: return a * 3; case 1: b++; return 4; case 2: return b - c; case 3: a = 7; return b;
    case 4: return c * 5; case 5: c--; return a; case 6: return a + b; default: return 9;
    }
}
KEEP long names(int n) {
    static const long values[] = {1, 20, 3, 44, 5, SIX};
    return values[n];
}
KEEP double scaled(double n) { return n * SCALE; }
KEEP double same_scale(double n) { return n * 0.125; }
KEEP const char *text(void) { return TEXT; }
KEEP const char *same_text(void) { return \"always this\"; }
KEEP const char *word(int n) { return words[n]; }
int main(int argc, char **argv) {
    (void)argv;
    return (int)(pick(argc) + names(argc)) + (int)(scaled(argc) + same_scale(argc)) + text()[0] + same_text()[0] + *word(argc);
}
";

#[test]
fn tables_texts_and_constants() {
    for flags in [&["-fpie", "-pie"], &["-fno-pie", "-no-pie"]] {
        check(
            TABLES,
            flags,
            "changed: scaled (an access of something else)\nconstants: names, text, word\nnew: added\n",
        );
    }
}

const ABSOLUTE: &str = "
#define KEEP __attribute__((noipa))
#ifdef NEW
long added[5] = {1};
KEEP long *more(void) { return added; }
#endif
long table[9] = {2}, scalar = 3;
KEEP long element(long n) { return table[n]; }
KEEP long one(void) { return scalar; }
KEEP long *place(void) { return &table[4]; }
KEEP long (*function(void))(void) { return one; }
#ifdef NEW
KEEP long *other(void) { return &table[3]; }
#else
KEEP long *other(void) { return &table[2]; }
#endif
int main(int argc, char **argv) {
    (void)argv;
    return (int)(element(argc) + *place() + function()() + *other());
}
";

#[test]
fn addresses_of_every_kind() {
    for flags in [
        &["-fpie", "-pie"][..],
        &["-fno-pie", "-no-pie"],
        &["-fpic", "-shared"],
    ] {
        let why = match flags[0] {
            "-fno-pie" | "-fpic" => "another number",
            _ => "an access of something else",
        };
        let expected = format!("changed: other ({why})\nnew: more\n");
        check(ABSOLUTE, flags, &expected);
    }
}

const GENERIC: &str = "
#![allow(dead_code)]
use std::hint::black_box;
pub trait Size { fn size(&self) -> u64; }
pub struct Pile<T>(Vec<T>);
impl<T: Copy + Into<u64>> Pile<T> {
    #[inline(never)]
    pub fn total(&self) -> u64 { self.0.iter().map(|&n| n.into() * STEP_OF_ALL).sum::<u64>() + step::<T>() }
}
const STEP_OF_ALL: u64 = 3;
#[inline(never)]
fn step<T>() -> u64 {
    let n = black_box(std::mem::size_of::<T>() as u64);
    if cfg!(NEW) && std::mem::size_of::<T>() == 4 { n * 77 } else { n * 5 }
}
fn main() {
    // The order in which they are made is not that of before.
    #[cfg(NEW)]
    println!(\"{}\", Pile(black_box(vec![1u32])).total());
    println!(\"{}\", Pile(black_box(vec![1u8])).total());
    println!(\"{}\", Pile(black_box(vec![1u16])).total());
    #[cfg(not(NEW))]
    println!(\"{}\", Pile(black_box(vec![1u32])).total());
    println!(\"{}\", Pile(black_box(vec![1u64])).total());
}
";

#[test]
fn instances_of_one_name_are_found_again_by_what_they_do() {
    let flags = ["-Copt-level=2", "-Ccodegen-units=1"];
    let with = |more: &[&'static str]| -> Vec<&'static str> {
        flags.iter().copied().chain(more.iter().copied()).collect()
    };
    let builds = (
        build(Language::Rust, GENERIC, &with(&["-Cmetadata=one"])),
        build(Language::Rust, GENERIC, &with(&["-Cmetadata=two"])),
        build(
            Language::Rust,
            GENERIC,
            &with(&["-Cmetadata=two", "--cfg=NEW"]),
        ),
    );
    let (Some(old), Some(hashed), Some(new)) = builds else {
        return;
    };
    assert_eq!(
        told(&old, &hashed),
        "",
        "other hashes in the names are no change"
    );
    let told = told(&old, &new);
    let changed: Vec<&str> = told
        .lines()
        .flat_map(|line| line.trim_start_matches("changed: ").split(", "))
        .collect();
    let [main, step] = changed.as_slice() else {
        panic!("{told}")
    };
    assert!(
        step.starts_with("moved::step (") && main.starts_with("moved::main ("),
        "{told}"
    );
}
