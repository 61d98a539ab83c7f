//! `hitm check` on the thirteen hazards: each is named, and its repaired version is not.

use std::path::PathBuf;
use std::process::Command;

use hitm_testkit::{CompileError, Language, compile_program, have_tool, skip};

use crate::session::Session;

/// A hazard, what must be named of it, and whether that is possible without debug information.
const HAZARDS: [(&str, &[&str], bool); 13] = [
    (
        "rs_two_atomics.rs",
        &["Stats.received", "Stats.sent"],
        false,
    ),
    ("rs_two_atomics_repr_c.rs", &["STATS"], true),
    (
        "rs_two_mutexes.rs",
        &["Shared.requests", "Shared.replies"],
        false,
    ),
    ("rs_vec_slots.rs", &["Slot.hits"], false),
    ("rs_array_static.rs", &["COUNTERS"], true),
    ("rs_flag_and_config.rs", &["SERVER"], true),
    ("rs_adjacent_statics.rs", &["ANSWERS"], true),
    ("cpp_two_atomics.cpp", &["stats"], true),
    ("cpp_two_mutexes.cpp", &["shared"], true),
    ("cpp_slots.cpp", &["slot"], true),
    ("cpp_spsc_ring.cpp", &["ring"], true),
    ("cpp_stop_flag.cpp", &["control"], true),
    ("cpp_adjacent_globals.cpp", &["cursor", "epoch"], true),
];

/// Code of a program that is loaded where it was linked to has addresses as numbers.
const NOT_MOVED: [&str; 2] = ["-fno-pie", "-no-pie"];

fn build(source: &str, repaired: bool, more: &[&str]) -> Result<PathBuf, CompileError> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../testkit/fixtures/hazards");
    let (language, flag) = match source.ends_with(".rs") {
        true => (Language::Rust, "--cfg=FIXED"),
        false => (Language::Cpp, "-DFIXED"),
    };
    let mut flags = more.to_vec();
    if repaired {
        flags.push(flag);
    }
    Ok(compile_program(language, &folder.join(source), &flags)?.program)
}

/// The names of all parties of the findings that are shown by default.
fn named(session: &Session, program: &str) -> Vec<String> {
    let outcome = session.hitm(["check", "--json", program]);
    assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
    let document: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    let findings = document["binaries"][0]["findings"].as_array().unwrap();
    let parties = findings.iter().flat_map(|finding| {
        assert_eq!(finding["verdict"], "unproven");
        finding["parties"].as_array().unwrap()
    });
    parties
        .map(|party| party["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn each_hazard_is_named_and_its_repair_is_not() {
    let session = Session::new();
    for (source, expected, without_types) in HAZARDS {
        let (faulty, repaired) = match (build(source, false, &[]), build(source, true, &[])) {
            (Ok(faulty), Ok(repaired)) => (faulty, repaired),
            (Err(CompileError::NoCompiler(compiler)), _)
            | (_, Err(CompileError::NoCompiler(compiler))) => {
                skip!("{compiler} is not installed")
            }
            (Err(error), _) | (_, Err(error)) => panic!("{error}"),
        };
        let names = named(&session, &faulty.to_string_lossy());
        for part in expected {
            assert!(
                names.iter().any(|name| name.contains(part)),
                "{source}: no {part} in {names:?}"
            );
        }
        let names = named(&session, &repaired.to_string_lossy());
        assert!(names.is_empty(), "{source}, repaired: {names:?}");
        if !have_tool("strip") || !without_types {
            continue;
        }
        let stripped = session.path("stripped");
        let status = Command::new("strip")
            .arg("-g")
            .arg("-o")
            .arg(&stripped)
            .arg(&faulty)
            .status();
        assert!(status.unwrap().success());
        let names = named(&session, &stripped.to_string_lossy());
        for part in expected {
            assert!(
                names.iter().any(|name| name.contains(part)),
                "{source} without debug information: no {part} in {names:?}"
            );
        }
    }
}

#[test]
fn hazards_are_named_in_programs_that_are_not_moved() {
    let session = Session::new();
    for (source, expected, _) in HAZARDS {
        if !source.ends_with(".cpp") {
            continue;
        }
        for repaired in [false, true] {
            let program = match build(source, repaired, &NOT_MOVED) {
                Ok(program) => program,
                Err(CompileError::NoCompiler(compiler)) => skip!("{compiler} is not installed"),
                Err(error) => panic!("{error}"),
            };
            let names = named(&session, &program.to_string_lossy());
            for part in expected {
                let is_named = names.iter().any(|name| name.contains(part));
                assert_eq!(
                    is_named, !repaired,
                    "{source}, repaired {repaired}: {names:?}"
                );
            }
        }
    }
}
