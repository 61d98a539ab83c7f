//! `hitm layout` and `hitm diff` as a user runs them, also on files that are none.

use std::fs;
use std::path::Path;
use std::process::Command;

use hitm_testkit::{CompileError, Language, Story1, compile_program, have_tool, skip};

use crate::session::Session;

/// Compiles story 1, or `None` where there is no compiler.
fn story(session: &Session, variant: &Story1) -> Option<String> {
    match variant.build() {
        Ok(built) => {
            let path = session.path(&variant.name);
            fs::copy(built.program, &path).unwrap();
            Some(variant.name.clone())
        }
        Err(CompileError::NoCompiler(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn story_1_without_running_it() {
    let session = Session::new();
    let variants = [
        Story1::with_header_object(),
        Story1::without_header_object(),
        Story1::repaired(),
        Story1::failed_repair(),
    ];
    let names: Option<Vec<String>> = variants.iter().map(|v| story(&session, v)).collect();
    let Some(names) = names else { skip!("no g++") };
    let [old, slow, good, failed] = [0, 1, 2, 3].map(|at| names[at].as_str());
    session.check(
        &["diff", old, slow, "--line-size", "64"],
        0,
        &[
            "the layout changed, not the code",
            "global_epoch::global_epoch +16 and mem_array_idx +32",
            "because header_object (8 bytes) is gone",
            "identical but for addresses",
        ],
    );
    let gate = |old, new, code| {
        let words = ["diff", old, new, "--fail-on", "joined", "--line-size", "64"];
        session.check(&words, code, &[]);
    };
    gate(old, slow, 1);
    gate(slow, good, 0);
    gate(old, failed, 1);
    let outcome = session.check(&["diff", old, slow, "--json"], 0, &[]);
    let document: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(document["verdict"], "layout");
    session.check(
        &["layout", slow, "mem_array_idx", "--line-size", "64"],
        0,
        &[
            "mem_array_idx: Cursor",
            "guard of global_epoch::global_epoch",
        ],
    );
    session.check(
        &["layout", slow, "Epoch"],
        0,
        &["struct Epoch", "lines of 128"],
    );
    session.check(
        &["layout", slow, "--all-types"],
        0,
        &["struct Epoch", "struct Cursor"],
    );
    session.check(
        &["layout", slow, "Epoch.nothing"],
        2,
        &["has no field `nothing`"],
    );
    session.check(
        &["layout", slow, "mem_array"],
        2,
        &["there is mem_array_idx"],
    );
}

/// A C program built in one more way.
fn c(session: &Session, name: &str, flags: &[&str]) -> Option<String> {
    let source = session.path("odd.c");
    fs::write(&source, "struct pair { _Atomic long a; char b; } pair; long next;\nint main(void) { return (int)pair.a + (int)next; }\n").unwrap();
    match compile_program(Language::C, &source, flags) {
        Ok(built) => {
            fs::copy(built.program, session.path(name)).unwrap();
            Some(name.to_owned())
        }
        Err(CompileError::NoCompiler(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn builds_of_every_kind() {
    let session = Session::new();
    let Some(_) = c(&session, "good", &[]) else {
        skip!("no gcc")
    };
    let pair = "struct pair  16 bytes";
    for (flags, says) in [
        (&["-gdwarf-4"][..], pair),
        (&["-gdwarf-5"], pair),
        (&["-gz"], pair),
        (&["-flto"], pair),
        (&["-fdebug-types-section"], pair),
        (&["-gsplit-dwarf"], "split"),
        (&["-g0"], "without debug information"),
        (&["-s"], "without debug information"),
        (&["-g1"], "--all-types"),
    ] {
        let Some(name) = c(&session, "odd", flags) else {
            return;
        };
        let outcome = session.hitm(["layout", &name, "--type", "pair"]);
        let all = format!("{}{}", outcome.stdout, outcome.stderr);
        let known = says == pair;
        assert_eq!(
            outcome.status.code(),
            Some(if known { 0 } else { 2 }),
            "{flags:?}: {all}"
        );
        if says != "split" {
            assert!(all.contains(says), "{flags:?}: {all}");
        }
        // All of it works whatever is missing, and says so.
        let outcome = session.check(&["layout", &name], 0, &[]);
        assert_eq!(
            outcome.stdout.contains("note"),
            !known,
            "{flags:?}: {}",
            outcome.stdout
        );
    }
    if have_tool("strip") {
        let good = session.path("good");
        let stripped = Command::new("strip").arg(&good).status().unwrap();
        assert!(stripped.success());
        session.check(&["layout", "good"], 0, &["stripped"]);
        session.check(
            &["diff", "good", "good", "--fail-on", "joined"],
            2,
            &["cannot be judged"],
        );
    }
}

#[test]
fn another_processor_has_lines_and_types_too() {
    let session = Session::new();
    let Some(_) = c(&session, "x86", &[]) else {
        skip!("no gcc")
    };
    let mut bytes = fs::read(session.path("x86")).unwrap();
    let mut foreign = vec!["patched".to_owned()];
    bytes[18..20].copy_from_slice(&183u16.to_le_bytes());
    fs::write(session.path("patched"), bytes).unwrap();
    if have_tool("aarch64-linux-gnu-gcc") {
        let built = Command::new("aarch64-linux-gnu-gcc")
            .args([
                "-g",
                "-O2",
                "-nostdlib",
                "-ffreestanding",
                "-Wl,-emain",
                "-o",
            ])
            .args([session.path("real"), session.path("odd.c")])
            .status()
            .unwrap();
        assert!(built.success());
        foreign.push("real".to_owned());
    }
    for file in foreign {
        session.check(
            &["layout", &file, "--type", "pair"],
            0,
            &["struct pair  16 bytes"],
        );
        session.check(&["layout", &file, "next"], 0, &["next: long int"]);
        session.check(&["diff", &file, &file], 0, &["not known", "is for aarch64"]);
    }
    assert!(Path::new(&session.path("patched")).exists());
}
