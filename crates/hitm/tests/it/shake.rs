//! `hitm shake` as a user runs it, on projects of every kind of build.
//!
//! The programs say themselves what a run costs, by whether their own two variables are on one line: what comes out does
//! not depend on the machine, and the truth is known.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use hitm_testkit::{Outcome, have_tool, skip};
use serde_json::Value;

use crate::session::Session;

/// Costs 200 if the cursor and the epoch are on one line, else 100.
const MAIN: &str = r#"
#include <stdint.h>
#include <stdio.h>
extern uint32_t cursor; extern uint64_t epoch;
int main(void) {
  printf("cost: %d\n", (uintptr_t)&cursor / 64 == (uintptr_t)&epoch / 64 ? 200 : 100);
  return 0;
}
"#;
/// The cursor comes first; 24 bytes lie between the two.
const CURSOR: &str = "#include <stdint.h>\nuint32_t cursor; uint64_t names[1];\n";
const BETWEEN: &str = "#include <stdint.h>\nuint64_t between_a, between_b;\n";
const EPOCH: &str = "#include <stdint.h>\nuint64_t epoch;\n";

/// What a run costs is printed, and the same however busy the machine is.
/// No more rounds than a verdict takes on up to 12 variants.
pub(crate) const COST: [&str; 9] = [
    "--rounds",
    "9",
    "--metric",
    "cost: ([0-9]+)",
    "--better",
    "lower",
    "--warm-up",
    "0",
    "--count-disturbed",
];

/// A project in C, in the session's directory.
pub(crate) fn project(session: &Session) -> PathBuf {
    let folder = session.path("project");
    fs::create_dir_all(&folder).unwrap();
    for (name, text) in [
        ("main.c", MAIN),
        ("cursor.c", CURSOR),
        ("between.c", BETWEEN),
        ("epoch.c", EPOCH),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
    let makefile = "OBJECTS = cursor.o between.o epoch.o main.o\nCFLAGS = -O1 -g\n\
                    prog: $(OBJECTS)\n\t$(CC) -o $@ $(OBJECTS)\nclean:\n\trm -f prog *.o\n";
    fs::write(folder.join("Makefile"), makefile).unwrap();
    folder
}

/// Runs it in a folder, and returns its document.
pub(crate) fn shake(
    session: &Session,
    folder: &Path,
    arguments: &[&str],
    code: i32,
) -> (Outcome, Value) {
    let json = session.path("shake.json");
    let _ = fs::remove_file(&json);
    let mut command = session.command();
    command
        .current_dir(folder)
        .env("TMPDIR", temporary(session))
        .arg("shake")
        .arg(format!("--json={}", json.display()))
        .args(arguments);
    let outcome = crate::session::run(&mut command);
    let all = format!("{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(outcome.status.code(), Some(code), "{arguments:?}: {all}");
    assert!(!all.contains("panicked"), "{all}");
    let left: Vec<_> = fs::read_dir(temporary(session)).unwrap().collect();
    assert!(left.is_empty() || arguments.contains(&"--keep"), "{left:?}");
    let document =
        fs::read_to_string(&json).map_or(Value::Null, |text| serde_json::from_str(&text).unwrap());
    (outcome, document)
}

/// Where hitm works: what is left there at the end is a fault.
pub(crate) fn temporary(session: &Session) -> PathBuf {
    let folder = session.path("tmp");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// All files below a folder, with what shows that one was changed.
pub(crate) fn files(folder: &Path) -> BTreeMap<PathBuf, (u64, u64, i64, i64, i64)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let it = fs::symlink_metadata(&path).unwrap();
        if it.is_dir() {
            all.extend(files(&path));
        }
        let stamp = (
            it.ino(),
            it.size(),
            it.mtime(),
            it.mtime_nsec(),
            it.ctime_nsec(),
        );
        all.insert(path, stamp);
    }
    all
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect()
}

/// The pairs that tell slow from fast, as `a & b` in alphabetical order.
fn always(document: &Value) -> Vec<String> {
    let pairs = document["explanation"]["always"].as_array().unwrap();
    let pair = |pair: &Value| {
        let mut names = [&pair["a"], &pair["b"]].map(|name| name.as_str().unwrap());
        names.sort_unstable();
        names.join(" & ")
    };
    pairs.iter().map(pair).collect()
}

fn variant<'a>(document: &'a Value, name: &str) -> &'a Value {
    let variants = document["variants"].as_array().unwrap();
    variants
        .iter()
        .find(|variant| variant["name"] == name)
        .unwrap()
}

/// What every build of the project must give.
fn check_cliff(document: &Value) {
    assert_eq!(document["verdict"], "matters", "{document:#}");
    // Of a static program, some of the C library's may do the same: they come last.
    assert_eq!(always(document)[0], "cursor & epoch", "{document:#}");
    // Every shift of 8 is a layout of its own, and each is on the side where its addresses put it.
    let sides = [names(&document["fast"]), names(&document["slow"])].concat();
    for bytes in (8..64).step_by(8) {
        let name = format!("shift-{bytes}");
        assert!(sides.contains(&name.as_str()), "{name}: {document:#}");
        for section in variant(document, &name)["sections"].as_array().unwrap() {
            assert_eq!(section["bytes"], bytes, "{name}: {document:#}");
        }
    }
    assert!(!names(&document["fast"]).is_empty() && !names(&document["slow"]).is_empty());
    let trials = document["trials"].as_array().unwrap();
    for side in ["fast", "slow"] {
        let cost = if side == "fast" { 100.0 } else { 200.0 };
        for name in names(&document[side]) {
            let own = trials.iter().filter(|trial| trial["layout"] == name);
            assert!(
                own.into_iter().all(|trial| trial["value"] == cost),
                "{name}"
            );
        }
    }
}

#[test]
fn make_is_linked_again_and_the_tree_is_left_alone() {
    if !have_tool("make") || !have_tool("gcc") {
        skip!("no make, or no gcc");
    }
    let session = Session::new();
    let folder = project(&session);
    let before = files(&folder);
    let arguments = [&["--build", "make", "--run", "./prog"][..], &COST].concat();
    let (outcome, document) = shake(&session, &folder, &arguments, 0);
    assert_eq!(files(&folder), before);
    check_cliff(&document);
    assert_eq!(document["relinked"], true, "{document:#}");
    for text in [
        "The layout matters",
        "The cliff",
        "cursor +",
        "a line of its own",
    ] {
        assert!(outcome.stdout.contains(text), "{text}: {}", outcome.stdout);
    }
    // Both sides have the same objects: what a shuffle did is in the addresses, and so is its cost.
    let gate = [
        &arguments[..],
        &["--fail-on", "layout", "--variants", "shift"],
    ]
    .concat();
    shake(&session, &folder, &gate, 1);
}

#[test]
fn a_whole_build_gives_the_same_as_a_link() {
    if !have_tool("make") || !have_tool("gcc") {
        skip!("no make, or no gcc");
    }
    let session = Session::new();
    let folder = project(&session);
    // What is stripped of its debug information behind the link cannot be linked again.
    let build = "make && objcopy --strip-debug prog";
    let shifts = ["--variants", "shift"];
    let arguments = [&["--build", build, "--run", "./prog"][..], &COST, &shifts].concat();
    let (_, document) = shake(&session, &folder, &arguments, 0);
    assert_eq!(document["relinked"], false, "{document:#}");
    check_cliff(&document);
    let caveats = document["caveats"].to_string();
    assert!(caveats.contains("changed behind the link"), "{caveats}");
}

#[test]
fn one_command_of_a_compiler_is_linked_again() {
    if !have_tool("gcc") {
        skip!("no gcc");
    }
    let session = Session::new();
    let folder = project(&session);
    let build = "gcc -O1 -g cursor.c between.c epoch.c main.c -o prog";
    for more in ["", " -static", " -flto", " -s"] {
        let build = format!("{build}{more}");
        let shifts = ["--variants", "shift"];
        let arguments = [&["--build", &build, "--run", "./prog"][..], &COST, &shifts].concat();
        let (outcome, document) = shake(&session, &folder, &arguments, 0);
        match more {
            " -s" => {
                assert!(outcome.stdout.contains("no symbols"), "{}", outcome.stdout);
                assert_eq!(document["verdict"], "matters", "{}", outcome.stdout);
            }
            // The compiler sees that nobody writes the variables: what is left of them is its business.
            " -flto" => assert!(outcome.stdout.contains("LTO"), "{}", outcome.stdout),
            _ => check_cliff(&document),
        }
    }
}

#[test]
fn cmake_is_linked_again() {
    if !have_tool("cmake") || !have_tool("make") || !have_tool("gcc") {
        skip!("no cmake, make or gcc");
    }
    let session = Session::new();
    let folder = project(&session);
    let lists = "cmake_minimum_required(VERSION 3.13)\nproject(prog C)\n\
                 add_executable(prog cursor.c between.c epoch.c main.c)\ntarget_compile_options(prog PRIVATE -O1 -g)\n";
    fs::write(folder.join("CMakeLists.txt"), lists).unwrap();
    // A build directory of the user's, whose makefiles write to where it is.
    let configured = Command::new("cmake")
        .args(["-B", "build"])
        .current_dir(&folder)
        .output();
    assert!(configured.unwrap().status.success());
    let before = files(&folder);
    let build = "cmake -B build && cmake --build build";
    let arguments = [&["--build", build, "--run", "build/prog"][..], &COST].concat();
    let (_, document) = shake(&session, &folder, &arguments, 0);
    assert_eq!(files(&folder), before);
    assert_eq!(document["relinked"], true, "{document:#}");
    check_cliff(&document);
}

/// Costs by its own addresses, as the project in C.
const IN_RUST: &str = r#"
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
static CURSOR: AtomicU64 = AtomicU64::new(0);
static BETWEEN: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
static EPOCH: AtomicU64 = AtomicU64::new(0);
fn main() {
    for each in [&CURSOR, &BETWEEN[0], &BETWEEN[1], &EPOCH] {
        black_box(each).fetch_add(1, Ordering::Relaxed);
    }
    let line = |it: &AtomicU64| std::ptr::from_ref(black_box(it)).addr() / 64;
    println!("cost: {}", if line(&CURSOR) == line(&EPOCH) { 200 } else { 100 });
}
"#;

#[test]
fn cargo_is_linked_again_with_the_linker_of_rustc() {
    if !have_tool("cargo") || !have_tool("cc") {
        skip!("no cargo, or no cc");
    }
    let session = Session::new();
    let folder = session.path("crate");
    fs::create_dir_all(folder.join("src")).unwrap();
    let manifest = "[package]\nname = \"prog\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n\
                    [profile.release]\ndebug = 2\nopt-level = 1\n";
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    fs::write(folder.join("src/main.rs"), IN_RUST).unwrap();
    let build = "cargo build --release --offline";
    let run = ["--build", build, "--run", "target/release/prog"];
    let variants = ["--variants", "shift,shuffle=2"];
    let arguments = [&run[..], &COST, &variants].concat();
    let (_, document) = shake(&session, &folder, &arguments, 0);
    assert!(!folder.join("target").exists() && !folder.join("Cargo.lock").exists());
    assert_eq!(document["relinked"], true, "{document:#}");
    assert_eq!(document["verdict"], "matters", "{document:#}");
    let pairs = always(&document);
    let of_both = |pair: &&String| pair.contains("CURSOR") && pair.contains("EPOCH");
    assert!(pairs.iter().any(|pair| of_both(&pair)), "{pairs:?}");
    // Shifts are by what was asked in Rust too, as its variables have sections of their own.
    for section in variant(&document, "shift-8")["sections"]
        .as_array()
        .unwrap()
    {
        assert_eq!(section["bytes"], 8, "{document:#}");
    }
}

/// In one file with something that is aligned to a line, nothing can be told, until variables have sections of their own.
#[test]
fn variables_of_one_file_change_places_when_they_have_sections() {
    if !have_tool("gcc") {
        skip!("no gcc");
    }
    let session = Session::new();
    let folder = session.path("one");
    fs::create_dir_all(&folder).unwrap();
    let cursor = CURSOR.replace("uint32_t cursor", "_Alignas(64) uint32_t cursor");
    let source = format!("{cursor}{BETWEEN}{EPOCH}_Alignas(64) char large[256];\n{MAIN}");
    fs::write(folder.join("one.c"), source).unwrap();
    let build = "gcc -O1 -g -fno-toplevel-reorder one.c -o prog";
    let run = [
        "--build",
        build,
        "--run",
        "./prog",
        "--variants",
        "shift,shuffle=5",
    ];
    let arguments = [&run[..], &COST].concat();
    let (outcome, document) = shake(&session, &folder, &arguments, 0);
    assert_eq!(document["verdict"], "not-measured", "{document:#}");
    assert!(
        outcome.stdout.contains("--data-sections"),
        "{}",
        outcome.stdout
    );
    let arguments = [&arguments[..], &["--data-sections"]].concat();
    let (_, document) = shake(&session, &folder, &arguments, 0);
    assert_eq!(document["verdict"], "matters", "{document:#}");
    let pairs = always(&document);
    assert!(pairs.contains(&"cursor & epoch".to_owned()), "{pairs:?}");
}

#[test]
fn one_seed_gives_one_result() {
    if !have_tool("make") || !have_tool("gcc") {
        skip!("no make, or no gcc");
    }
    let session = Session::new();
    let folder = project(&session);
    let run = [
        "--build",
        "make",
        "--run",
        "./prog",
        "--budget",
        "0.000001",
        "--variants",
        "shuffle=2,env=1",
        "--seed",
    ];
    let with = |seed: &str| {
        let arguments = [&run[..], &[seed], &COST].concat();
        let (_, document) = shake(&session, &folder, &arguments, 0);
        document["variants"].to_string()
    };
    assert_eq!(with("1"), with("1"));
    assert_ne!(with("1"), with("2"));
}

/// In time instead of in what is printed: the lab, on this machine. A machine that is busy is tried again, and then said.
#[test]
fn the_lab_of_story_1_has_a_cliff() {
    if !have_tool("make") || !have_tool("g++") {
        skip!("no make, or no g++");
    }
    if std::thread::available_parallelism().is_ok_and(|n| n.get() < 2) {
        skip!("one processor: threads do not meet");
    }
    let session = Session::new();
    let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/story1/apart");
    let folder = session.path("apart");
    fs::create_dir_all(&folder).unwrap();
    for entry in fs::read_dir(lab).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
    }
    let run = [
        "--build",
        "make",
        "--run",
        "./story1 3000000",
        "--variants",
        "shift",
    ];
    let _quiet = hitm_testkit::quiet_machine().unwrap();
    let mut other = None;
    for _ in 0..3 {
        let Some(document) = on_this_machine(&session, &folder, &run) else {
            continue;
        };
        // Shifts leave the two on one line or not; what is measured must be what the addresses say, or not be sure.
        let pairs = always(&document);
        let expected = "global_epoch::global_epoch & mem_array_idx";
        if pairs.iter().any(|pair| pair == expected) {
            assert!(!names(&document["fast"]).contains(&"base"), "{document:#}");
            return;
        }
        other = Some(document);
    }
    assert!(other.is_none(), "another cause each time: {other:#?}");
    skip!("the machine was too busy for a verdict, three times");
}

/// The document if the layout matters; `None` if the machine was too busy to tell.
fn on_this_machine(session: &Session, folder: &Path, arguments: &[&str]) -> Option<Value> {
    let mut command = session.command();
    command
        .current_dir(folder)
        .env("TMPDIR", temporary(session))
        .args(["shake", "--json"])
        .args(arguments);
    let outcome = crate::session::run(&mut command);
    let code = outcome.status.code();
    assert!(matches!(code, Some(0 | 3)), "{code:?}: {}", outcome.stderr);
    let document: Value = serde_json::from_str(&outcome.stdout).unwrap();
    (code == Some(0) && document["verdict"] == "matters").then_some(document)
}
