//! What `hitm check` says of programs whose layout is fine as it is, and of files that it can read in part only.

use std::path::PathBuf;

use hitm_testkit::{CompileError, Language, compile_program, skip};

use crate::session::Session;

fn source(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../testkit/fixtures/hazards/{name}"))
}

#[test]
fn a_variable_beside_its_own_guard_is_explained_and_beside_another_guard_is_named() {
    let session = Session::new();
    let (mut explained, mut named) = (0, 0);
    for pad in ["-DPAD=0", "-DPAD=1", "-DPAD=2", "-DPAD=3"] {
        for other in [false, true] {
            let flags: &[&str] = if other { &[pad, "-DOTHER"] } else { &[pad] };
            let source = source("cpp_own_guard.cpp");
            let program = match compile_program(Language::Cpp, &source, flags) {
                Ok(built) => built.program.to_string_lossy().into_owned(),
                Err(CompileError::NoCompiler(_)) => skip!("g++ is not installed"),
                Err(error) => panic!("{error}"),
            };
            let said = session.hitm(["check", "--explain", &program]).stdout;
            let finding = said.lines().find(|line| line.contains("  1. "));
            match finding {
                Some(finding) => {
                    assert!(other && finding.contains("elsewhere"), "{said}");
                    named += usize::from(finding.contains("guard of hits"));
                }
                None => explained += usize::from(said.contains("guard of hits")),
            }
        }
    }
    assert!(explained > 0 && named > 0, "{explained}, {named}");
}

/// What is named of programs that hold the faulty and the repaired layout, and choose when they run.
#[test]
fn of_two_layouts_in_one_program_only_the_faulty_one_is_named() {
    let session = Session::new();
    let handed = [
        (
            Language::C,
            "c_job.c",
            &[
                "main::evens",
                "main::odds",
                "packed_cells[0].hits",
                "packed_cells[1].hits",
                "search.drawn",
                "search.enabled",
            ][..],
        ),
        (
            Language::Rust,
            "rs_box.rs",
            &["Packed.limit", "Packed.used"][..],
        ),
    ];
    for (language, name, expected) in handed {
        let source = source(&format!("../handed/{name}"));
        let program = match compile_program(language, &source, &[]) {
            Ok(built) => built.program.to_string_lossy().into_owned(),
            Err(CompileError::NoCompiler(compiler)) => skip!("{compiler} is not installed"),
            Err(error) => panic!("{error}"),
        };
        let said = session.hitm(["check", "--json", &program]).stdout;
        let document: serde_json::Value = serde_json::from_str(&said).unwrap();
        let findings = document["binaries"][0]["findings"].as_array().unwrap();
        let mut names: Vec<&str> = findings
            .iter()
            .flat_map(|finding| finding["parties"].as_array().unwrap())
            .map(|party| party["name"].as_str().unwrap())
            .collect();
        names.sort_unstable();
        assert_eq!(names, expected, "{name}: {said}");
    }
}

#[test]
fn locks_of_every_kind_of_c_are_known() {
    for how in 0..5 {
        let how = format!("-DHOW={how}");
        let built = |flags: &[&str]| named(Language::C, "handed/c_locks.c", flags);
        let (Some(faulty), Some(repaired)) = (built(&[&how]), built(&[&how, "-DFIXED"])) else {
            skip!("gcc is not installed");
        };
        let [one] = faulty.as_slice() else {
            panic!("{how}: {faulty:?}");
        };
        assert!(one.starts_with("locks.first fields-share-line"), "{one}");
        assert!(repaired.is_empty(), "{how}: {repaired:?}");
    }
}

#[test]
fn what_is_touched_under_one_lock_is_no_finding() {
    for how in 0..7 {
        let how = format!("-DHOW={how}");
        for level in ["-O0", "-O2"] {
            let Some(named) = named(Language::C, "handed/one_lock.c", &[&how, level]) else {
                skip!("gcc is not installed");
            };
            match how.as_str() {
                "-DHOW=0" | "-DHOW=1" | "-DHOW=2" => {
                    assert!(named.is_empty(), "{how} {level}: {named:?}");
                }
                _ => assert!(
                    is_one(&named, "counts.first fields-share-line"),
                    "{how} {level}: {named:?}"
                ),
            }
        }
    }
    let rust = |flags: &[&str]| named(Language::Rust, "handed/one_lock.rs", flags);
    let (Some(one), Some(two)) = (rust(&[]), rust(&["--cfg=TWO"])) else {
        skip!("rustc is not installed");
    };
    assert!(one.is_empty(), "{one:?}");
    assert!(
        matches!(two.as_slice(), [one] if one.contains("COUNTS")),
        "{two:?}"
    );
}

#[test]
fn threads_that_are_waited_for_before_others_start_do_not_share() {
    for level in ["-O1", "-O2", "-O3"] {
        let built = |flags: &[&str]| named(Language::C, "handed/phases.c", flags);
        let (Some(apart), Some(together)) = (built(&[level]), built(&[level, "-DTOGETHER"])) else {
            skip!("gcc is not installed");
        };
        assert!(apart.is_empty(), "{level}: {apart:?}");
        assert!(
            is_one(&together, "counts.first fields-share-line"),
            "{level}: {together:?}"
        );
    }
}

/// Whichever way a thread comes to its slot; but for what it stores once, at its end.
#[test]
fn slots_of_threads_are_named() {
    for how in ["-DHOW=0", "-DHOW=1", "-DHOW=2", "-DHOW=3"] {
        for level in ["-O0", "-O1", "-O2", "-O3"] {
            let built = |flags: &[&str]| named(Language::C, "handed/slots.c", flags);
            let (Some(faulty), Some(repaired)) =
                (built(&[how, level]), built(&[how, level, "-DFIXED"]))
            else {
                skip!("gcc is not installed");
            };
            let expected = how != "-DHOW=3";
            let is_named = is_one(&faulty, "slots elements-share-line");
            assert_eq!(is_named, expected, "{how} {level}: {faulty:?}");
            assert!(repaired.is_empty(), "{how} {level}: {repaired:?}");
        }
    }
}

/// Of a queue whose parts are changed by several threads, one row, and no finding.
#[test]
fn the_parts_of_a_queue_are_not_told_apart() {
    let Some(named) = named(Language::Cpp, "handed/cpp_pool.cpp", &[]) else {
        skip!("g++ is not installed");
    };
    assert!(named.is_empty(), "{named:?}");
}

/// Whether one thing is named, which begins so.
fn is_one(named: &[String], begins: &str) -> bool {
    matches!(named, [one] if one.starts_with(begins))
}

/// What is named of a program; `None` where it cannot be compiled here.
fn named(language: Language, source: &str, flags: &[&str]) -> Option<Vec<String>> {
    let source = self::source(&format!("../{source}"));
    let program = match compile_program(language, &source, flags) {
        Ok(built) => built.program.to_string_lossy().into_owned(),
        Err(CompileError::NoCompiler(_)) => return None,
        Err(error) => panic!("{error}"),
    };
    let said = Session::new().hitm(["check", "--json", &program]).stdout;
    let document: serde_json::Value = serde_json::from_str(&said).unwrap();
    let findings = document["binaries"][0]["findings"].as_array().unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    Some(
        findings
            .iter()
            .map(|finding| {
                let party = text(&finding["parties"][0]["name"]);
                format!(
                    "{party} {} {}",
                    text(&finding["rule"]),
                    text(&finding["why"])
                )
            })
            .collect(),
    )
}

/// Types that ask for a line of their own: some allocators are told, some are not, and of some nothing is known.
#[test]
fn a_type_that_asks_for_a_line_is_named_where_its_allocator_is_not_told() {
    let how = |number: u32| format!("-DHOW={number}");
    for level in ["-O0", "-O2"] {
        for number in [0, 1, 2, 3, 4, 10, 11, 12, 13, 14] {
            let Some(named) = named(Language::C, "alignment/c_heap.c", &[level, &how(number)])
            else {
                skip!("gcc is not installed");
            };
            let by = ["malloc", "calloc", "realloc", "malloc", "malloc"].get(number as usize);
            match (by, named.as_slice()) {
                (Some(by), [one]) => assert!(
                    one.starts_with("counter alignment-not-given") && one.contains(by),
                    "{number} {level}: {one}"
                ),
                (None, []) => {}
                _ => panic!("{number} {level}: {named:?}"),
            }
        }
    }
    for number in 0..3 {
        for (standard, expected) in [("-std=c++11", 1), ("-std=c++17", 0)] {
            let flags = [standard, "-Wno-aligned-new", &how(number)];
            let Some(named) = named(Language::Cpp, "alignment/cpp_new.cpp", &flags) else {
                skip!("g++ is not installed");
            };
            assert_eq!(named.len(), expected, "{number} {standard}: {named:?}");
            let by_new = |one: &String| {
                one.starts_with("Counter alignment-not-given") && one.contains("operator new")
            };
            assert!(named.iter().all(by_new), "{number} {standard}: {named:?}");
        }
    }
    for (flags, expected) in [(&[][..], 0), (&["--cfg=RAW"][..], 1)] {
        let flags: Vec<&str> = flags
            .iter()
            .copied()
            .chain(["--check-cfg=cfg(RAW)"])
            .collect();
        let Some(named) = named(Language::Rust, "alignment/rs_vec.rs", &flags) else {
            skip!("rustc is not installed");
        };
        assert_eq!(named.len(), expected, "{flags:?}: {named:?}");
    }
}

/// An ELF file of another machine: the code of one that there is, with another number in its head.
#[test]
fn of_another_machine_the_types_and_the_policy_are_checked() {
    let session = Session::new();
    let source = source("rs_two_atomics.rs");
    let built = match compile_program(Language::Rust, &source, &[]) {
        Ok(built) => built.program,
        Err(CompileError::NoCompiler(_)) => skip!("rustc is not installed"),
        Err(error) => panic!("{error}"),
    };
    let mut bytes = std::fs::read(built).unwrap();
    bytes[18..20].copy_from_slice(&183u16.to_le_bytes());
    let path = session.path("aarch64");
    std::fs::write(&path, bytes).unwrap();
    let path = path.to_string_lossy().into_owned();
    let outcome = session.hitm(["check", "--json", &path]);
    assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
    let document: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    let binary = &document["binaries"][0];
    assert_eq!(binary["findings"].as_array().unwrap().len(), 0);
    assert!(
        outcome.stdout.contains("foreign-instructions"),
        "{}",
        outcome.stdout
    );
    let outcome = session.hitm(["check", "--all", &path]);
    assert!(
        outcome.stdout.contains("Stats.received") && outcome.stdout.contains("low confidence"),
        "{}",
        outcome.stdout
    );
    let policy = session.path("hitm.toml");
    std::fs::write(
        &policy,
        "[[type]]\nname = \"Stats\"\nseparate = [\"received\", \"sent\"]\n",
    )
    .unwrap();
    let outcome = session.hitm(["check", &path, "--policy", &policy.to_string_lossy()]);
    assert_eq!(outcome.status.code(), Some(1), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("policy"), "{}", outcome.stdout);
}
