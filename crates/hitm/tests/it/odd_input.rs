//! Files of every kind under `check`, `layout` and `diff`: the right answer, or what limits it, or an error that says what to
//! give instead. Never a panic, and never nothing in silence.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use hitm_testkit::{CompileError, Language, compile_program, have_tool, skip, skipped};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::session::Session;

/// Two threads that each change their own variable.
const SOURCE: &str = r"
#include <pthread.h>
_Atomic long requests, replies;
struct ring { _Atomic long head, tail; } ring;
static void *reader(void *p) { for (long i = 0; i < 1000000; i++) requests++; return p; }
static void *writer(void *p) { for (long i = 0; i < 1000000; i++) replies++; return p; }
int main(void) {
    pthread_t a, b;
    pthread_create(&a, 0, reader, 0);
    pthread_create(&b, 0, writer, 0);
    pthread_join(a, 0);
    return pthread_join(b, 0) + (int)ring.head;
}";

/// Compiles a source into a file of the session; `false` where the compiler cannot do that here.
fn build(session: &Session, language: Language, source: &str, flags: &[&str], name: &str) -> bool {
    let extension = match language {
        Language::C => "c",
        Language::Cpp => "cpp",
        Language::Rust => "rs",
    };
    let path = session.path(&format!("source.{extension}"));
    fs::write(&path, source).unwrap();
    match compile_program(language, &path, flags) {
        Ok(built) => {
            fs::copy(built.program, session.path(name)).unwrap();
            true
        }
        Err(CompileError::NoCompiler(_)) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Runs the three commands on a file. Each must end with the code, and say each of the texts for it.
#[track_caller]
fn check(session: &Session, file: &str, code: i32, says: [&[&str]; 3]) {
    let commands: [&[&str]; 3] = [&["check", file], &["layout", file], &["diff", "good", file]];
    for (command, says) in commands.iter().zip(says) {
        let outcome = session.hitm(*command);
        let all = format!("{}{}", outcome.stdout, outcome.stderr);
        assert_eq!(outcome.status.code(), Some(code), "{command:?}: {all}");
        // Long lines are broken.
        let words = all.split_whitespace().collect::<Vec<_>>().join(" ");
        for text in says {
            assert!(words.contains(text), "{command:?}: no `{text}` in: {all}");
        }
        assert!(
            !all.contains("panicked") && !all.trim().is_empty(),
            "{command:?}: {all}"
        );
    }
}

/// A session with the program `good` and its bytes; `None` without a compiler.
fn session() -> Option<(Session, Vec<u8>)> {
    let session = Session::new();
    if !build(&session, Language::C, SOURCE, &[], "good") {
        skipped("no gcc");
        return None;
    }
    let bytes = fs::read(session.path("good")).unwrap();
    Some((session, bytes))
}

const SHARED: &str = "replies and requests share a line [unproven, high confidence]";

#[test]
fn what_is_no_program() {
    let Some((session, bytes)) = session() else {
        return;
    };
    let changed = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = bytes.clone();
        change(&mut bytes);
        fs::write(session.path(name), bytes).unwrap();
    };
    fs::write(session.path("text"), "not a binary\n").unwrap();
    fs::write(session.path("empty"), "").unwrap();
    fs::create_dir(session.path("folder")).unwrap();
    mkfifo(&session.path("pipe"), Mode::S_IRWXU).unwrap();
    changed("short", &|bytes| bytes.truncate(40));
    changed("headless", &|bytes| bytes.truncate(100));
    changed("narrow", &|bytes| bytes[4] = 1);
    changed("big", &|bytes| bytes[5] = 2);
    changed("core", &|bytes| bytes[16] = 4);
    changed("object", &|bytes| bytes[16] = 1);
    fs::write(session.path("archive"), "!<arch>\n").unwrap();
    for (file, says) in [
        (
            "missing",
            "cannot open missing (give a program or a shared library)",
        ),
        ("folder", "not a regular file"),
        ("pipe", "not a regular file"),
        (
            "text",
            "(give a program or a shared library): not an ELF file",
        ),
        ("empty", "not an ELF file"),
        (
            "short",
            "(build or copy it again): damaged ELF file: header",
        ),
        ("headless", "damaged ELF file: program headers"),
        (
            "narrow",
            "(build it for a 64-bit processor): a 32-bit ELF file",
        ),
        (
            "big",
            "(build it for a little-endian processor): a big-endian ELF file",
        ),
        ("core", "but a core dump"),
        ("object", "(give what it is linked into"),
        ("archive", "(it is an archive of object files"),
    ] {
        check(&session, file, 2, [&[says], &[says], &[says]]);
    }
}

#[test]
fn what_may_not_be_read() {
    if nix::unistd::geteuid().is_root() {
        skip!("root may read everything");
    }
    let Some((session, _)) = session() else {
        return;
    };
    fs::copy(session.path("good"), session.path("secret")).unwrap();
    fs::set_permissions(session.path("secret"), fs::Permissions::from_mode(0o111)).unwrap();
    let says: &[&str] = &["cannot open secret", "Permission denied"];
    check(&session, "secret", 2, [says; 3]);
}

#[test]
fn what_is_cut_off_is_read_so_far_and_says_so() {
    let Some((session, bytes)) = session() else {
        return;
    };
    for part in 1..8 {
        let cut = bytes.len() * part / 8;
        fs::write(session.path("cut"), &bytes[..cut]).unwrap();
        let damaged: &[&str] = &["damaged"];
        check(&session, "cut", 0, [damaged; 3]);
    }
    // Nothing was compared then: that is not the same as no difference.
    let outcome = session.hitm(["diff", "good", "cut"]);
    assert!(
        !outcome.stdout.contains("neither code nor lines"),
        "{}",
        outcome.stdout
    );
    let outcome = session.hitm(["diff", "good", "cut", "--fail-on", "joined"]);
    assert_eq!(outcome.status.code(), Some(2), "{}", outcome.stderr);
}

/// Builds in which everything is known.
#[test]
fn builds_with_all_debug_information() {
    let Some((session, _)) = session() else {
        return;
    };
    for flags in [
        &["-gdwarf-4"][..],
        &["-gdwarf-5"],
        &["-gz=zlib"],
        &["-gz=zlib-gnu"],
        &["-fdebug-types-section"],
        &["-flto"],
        &["-no-pie"],
        &["-static"],
        &["-static-pie"],
        &["-shared", "-fPIC"],
    ] {
        if !build(&session, Language::C, SOURCE, flags, "odd") {
            return;
        }
        let type_of = ["layout", "odd", "--type", "ring"];
        let outcome = session.hitm(type_of);
        assert!(
            outcome.stdout.contains("struct ring  16 bytes"),
            "{flags:?}: {}",
            outcome.stderr
        );
        check(
            &session,
            "odd",
            0,
            [&[SHARED], &["requests:"], &["came onto one line"]],
        );
        let outcome = session.hitm(["check", "odd"]);
        assert!(
            !outcome.stdout.contains("note "),
            "{flags:?}: {}",
            outcome.stdout
        );
    }
    // Not every linker can do this.
    let zstd = Command::new("objcopy")
        .arg("--compress-debug-sections=zstd")
        .args([session.path("good"), session.path("zstd")])
        .status();
    if zstd.is_ok_and(|status| status.success()) {
        check(
            &session,
            "zstd",
            0,
            [&[SHARED], &["requests:"], &["neither code nor lines"]],
        );
    } else {
        skipped("objcopy cannot compress with zstd");
    }
}

/// Builds that tell less: what is missing, and what to build instead.
#[test]
fn builds_that_tell_less() {
    let Some((session, _)) = session() else {
        return;
    };
    let none: &[&str] = &["no debug information"];
    for (flags, says) in [
        (
            &["-g0"][..],
            [&[SHARED, "no debug information"][..], none, none],
        ),
        (
            &["-g1"],
            [
                &[SHARED],
                &["lines but neither variables nor types"],
                &["build"],
            ],
        ),
        (
            &["-gsplit-dwarf"],
            [
                &[
                    SHARED,
                    "debug information is in other files",
                    "-gsplit-dwarf",
                ],
                &["build it without -gsplit-dwarf"],
                &["build it without -gsplit-dwarf"],
            ],
        ),
        (
            &["-s"],
            [
                &[
                    "share a line [unproven, high confidence]",
                    "no symbols",
                    "before it is stripped",
                ],
                &["neither symbols nor debug information"],
                &["neither symbols nor debug information"],
            ],
        ),
        (
            &["-static", "-g0"],
            [&[SHARED, "no debug information"], none, none],
        ),
    ] {
        if !build(&session, Language::C, SOURCE, flags, "odd") {
            return;
        }
        check(&session, "odd", 0, says);
    }
    if !have_tool("objcopy") {
        skip!("no objcopy");
    }
    let copied = Command::new("objcopy")
        .arg("--only-keep-debug")
        .args([session.path("good"), session.path("good.debug")])
        .status();
    assert!(copied.unwrap().success());
    for command in [
        &["check", "good.debug"][..],
        &["diff", "good", "good.debug"],
    ] {
        let outcome = session.hitm(command);
        assert_eq!(outcome.status.code(), Some(2), "{}", outcome.stdout);
        assert!(
            outcome.stderr.contains("give the program that it is of"),
            "{}",
            outcome.stderr
        );
    }
    // It has what `layout` needs.
    let outcome = session.hitm(["layout", "good.debug", "--type", "ring"]);
    assert!(
        outcome.stdout.contains("struct ring  16 bytes"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn another_processor() {
    let Some((session, bytes)) = session() else {
        return;
    };
    let mut bytes = bytes.clone();
    bytes[18..20].copy_from_slice(&183u16.to_le_bytes());
    fs::write(session.path("aarch64"), bytes).unwrap();
    let says: [&[&str]; 3] = [
        &["instructions of this processor is not supported"],
        &["requests:"],
        &["is for aarch64", "not known"],
    ];
    check(&session, "aarch64", 0, says);
    // The policy needs no instructions; findings do.
    fs::write(
        session.path("hitm.toml"),
        "[[isolate]]\nsymbol = 'requests'\n",
    )
    .unwrap();
    let gate = |fail_on: &str| {
        let outcome = session.hitm(["check", "aarch64", "--fail-on", fail_on]);
        (outcome.status.code(), outcome.stderr)
    };
    assert_eq!(gate("policy").0, Some(1));
    assert_eq!(gate("low").0, Some(1));
    fs::remove_file(session.path("hitm.toml")).unwrap();
    let (code, says) = gate("high");
    assert_eq!(code, Some(2));
    assert!(
        says.contains("cannot be judged: aarch64 is not for x86-64"),
        "{says}"
    );
}

const EXOTIC_CPP: &str = r"
#include <atomic>
#include <map>
#include <string>
#include <thread>
namespace größe { namespace {
template <class A, class B, int N> struct Wide { std::atomic<long> α, β; };
} }
größe::Wide<std::map<std::string, std::map<std::string, std::map<std::string, int>>>, void (*)(int), -3> zähler;
struct Op {
    std::atomic<long> left, right;
    Op &operator<<(int) { for (int i = 0; i < 1000000; i++) right++; return *this; }
} op;
int main() {
    auto generic = [](auto by) {
        static std::atomic<long> inside;
        for (int i = 0; i < 1000000; i++) { inside += by; zähler.α++; }
    };
    std::thread a(generic, 1), b([] { for (int i = 0; i < 1000000; i++) zähler.β++; }), c([] { op << 1; });
    a.join(); b.join(); c.join();
}";

const EXOTIC_RUST: &str = r"
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::spawn;
#[repr(C)]
struct Paar(AtomicU64, AtomicU64);
static ΖΆΧΑΡΗ: Paar = Paar(AtomicU64::new(0), AtomicU64::new(0));
struct R<'a, T: ?Sized, const N: usize>(&'a T);
trait Größe { fn zähle(&self); }
impl<T: ?Sized + Sync, const N: usize> Größe for R<'_, T, N> {
    fn zähle(&self) { for _ in 0..1000000 { ΖΆΧΑΡΗ.0.fetch_add(N as u64, Relaxed); } }
}
fn r#match() { for _ in 0..1000000 { ΖΆΧΑΡΗ.1.fetch_add(1, Relaxed); } }
fn main() {
    let a = spawn(|| R::<dyn Fn() + Sync, 3>(&|| ()).zähle());
    let b = spawn(|| r#match());
    a.join().unwrap();
    b.join().unwrap();
}";

#[test]
fn exotic_names() {
    for (language, source, flags, shared, laid_out) in [
        (
            Language::Cpp,
            EXOTIC_CPP,
            &["-std=c++20"][..],
            "zähler.α and zähler.β share",
            "zähler",
        ),
        (
            Language::Rust,
            EXOTIC_RUST,
            &["-Csymbol-mangling-version=v0"],
            "ΖΆΧΑΡΗ.0 and",
            "ΖΆΧΑΡΗ",
        ),
        (Language::Rust, EXOTIC_RUST, &[], "ΖΆΧΑΡΗ.0 and", "ΖΆΧΑΡΗ"),
    ] {
        let session = Session::new();
        if !build(&session, language, source, flags, "good") {
            skip!("no compiler");
        }
        check(
            &session,
            "good",
            0,
            [&[shared], &["objects of data"], &["neither code nor lines"]],
        );
        for form in ["--json", "--sarif", "--github"] {
            let outcome = session.hitm(["check", "good", form]);
            assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
            assert!(outcome.stdout.contains(&shared[..8]), "{}", outcome.stdout);
        }
        let outcome = session.hitm(["layout", "good", laid_out]);
        assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
    }
}
