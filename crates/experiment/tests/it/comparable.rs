//! What is refused before anything runs, and what is not.

use hitm_experiment::{
    GitFacts, GitRelation, LibraryFacts, ProgramFacts, Refusal, SideFacts, different_libraries,
    refusals,
};

fn side(name: &str, file: &str, command: &str) -> SideFacts {
    SideFacts {
        name: name.into(),
        words: command.split(' ').map(str::to_owned).collect(),
        programs: vec![ProgramFacts {
            path: format!("/bin/{file}"),
            sha256: file.into(),
            build_id: None,
            libraries: Vec::new(),
        }],
        ..SideFacts::default()
    }
}

/// Refusals of two commands as one text; a side is `FILE: COMMAND`.
fn check(row: &str, a: &str, b: &str, expected: &str) {
    let side = |name, text: &str| {
        let (file, command) = text.split_once(": ").expect("a file and a command");
        side(name, file, command)
    };
    let (a_side, b_side) = (side("base", a), side("change", b));
    let named = (!row.is_empty()).then_some(row);
    let got: Vec<String> = refusals(named, &a_side, &b_side, None, false)
        .iter()
        .map(Refusal::to_string)
        .collect();
    assert_eq!(got.join("\n"), expected, "{row}: {a} against {b}");
}

const SAME: &str = "nothing to compare: both sides run the same file with the same libraries and arguments in the same environment";

#[test]
fn the_same_file_with_the_same_arguments_is_nothing_to_compare() {
    check("", "x: ./p -n 4", "x: ./p -n 4", SAME);
    check("", "x: /old/p -n 4", "x: /new/p -n 4", SAME);
    check("", "x: ./p -n 4", "x: ./p -n 8", "");
    check("", "x: ./p -n 4", "y: ./p -n 4", "");
    let (a, b) = (side("a", "x", "./p"), side("b", "x", "./p"));
    assert_eq!(refusals(None, &a, &b, None, true), [], "asked for");
    let other = SideFacts {
        variables: vec![("X".into(), "1".into())],
        ..b
    };
    assert_eq!(refusals(None, &a, &other, None, false), []);
}

#[test]
fn a_name_that_promises_a_number_needs_the_flag() {
    let lacks = |what: &str, side: &str| {
        format!(
            "the row is called {what}, but no argument of {side} says so: it measures something else"
        )
    };
    // The third story: a row called pipeline-10 whose command had no pipeline.
    check(
        "get-pipeline-10",
        "x: rb -t get",
        "y: rb -t get",
        &format!(
            "{}\n{}",
            lacks("pipeline-10", "base"),
            lacks("pipeline-10", "change")
        ),
    );
    check(
        "get-pipeline-10",
        "x: rb -P 10",
        "y: rb",
        &format!(
            "{}\nthe sides differ in their arguments as well as in the program: A has -P 10, B has none",
            lacks("pipeline-10", "change")
        ),
    );
    for command in [
        "rb -P 10",
        "rb -P10",
        "rb --pipeline=10",
        "rb --pipeline 10 -t get",
    ] {
        check(
            "get pipeline 10",
            &format!("x: {command}"),
            &format!("y: {command}"),
            "",
        );
    }
    check("8 threads", "x: p", "y: p", "");
    check(
        "threads=8",
        "x: p -n 18",
        "y: p -n 18",
        &format!(
            "{}\n{}",
            lacks("threads=8", "base"),
            lacks("threads=8", "change")
        ),
    );
    // No promises: versions, parts of words, numbers of something else.
    for name in [
        "redis-7",
        "resize8",
        "rehash 10",
        "get",
        "p99",
        "threads",
        "threads-",
    ] {
        check(name, "x: p", "y: p", "");
    }
}

#[test]
fn two_programs_with_two_sets_of_arguments_are_not_compared() {
    check(
        "",
        "x: ./p --fast 1",
        "y: ./p 1",
        "the sides differ in their arguments as well as in the program: A has --fast, B has none",
    );
    // Files and ports are each side's own.
    check("", "x: ./p /tmp/a -p 7001", "y: ./p /tmp/b -p 7002", "");
}

#[test]
fn a_change_that_lacks_commits_of_its_base_is_refused_with_the_way_out() {
    let mut a = side("base", "x", "./p");
    a.git = Some(GitFacts {
        commit: "abc123".into(),
        dirty: false,
    });
    let b = side("change", "y", "./p");
    let relation = |missing| GitRelation {
        merge_base: "000".into(),
        missing_in_b: vec!["abc123 faster".into(), "abc122 refactor".into()],
        missing,
    };
    let refused = refusals(None, &a, &b, Some(&relation(110)), false);
    let [refusal] = refused.as_slice() else {
        panic!("{refused:?}");
    };
    assert_eq!(
        refusal.to_string(),
        "B lacks 110 commits that A has: abc123 faster; abc122 refactor; and 108 more"
    );
    assert!(
        refusal.remedy().starts_with("git rebase abc123 "),
        "{}",
        refusal.remedy()
    );
    let none = GitRelation {
        missing_in_b: Vec::new(),
        ..relation(0)
    };
    assert_eq!(refusals(None, &a, &b, Some(&none), false), []);
}

/// `NAME=HASH` of each library.
fn with_libraries(mut side: SideFacts, libraries: &[&str]) -> SideFacts {
    side.programs[0].libraries = libraries
        .iter()
        .map(|text| {
            let (name, hash) = text.split_once('=').expect("a name and a hash");
            LibraryFacts {
                name: name.into(),
                path: Some(format!("/lib/{name}")),
                sha256: Some(hash.into()),
                build_id: None,
            }
        })
        .collect();
    side
}

#[test]
fn the_same_program_with_other_libraries_is_another_one() {
    let of =
        |libraries: &[&str], command: &str| with_libraries(side("base", "x", command), libraries);
    let a = of(&["libc=1", "libx=1"], "./p -n 4");
    let b = of(&["libc=1", "libx=2"], "./p -n 4");
    assert_eq!(refusals(None, &a, &b, None, false), []);
    let names = |a: &SideFacts, b: &SideFacts| -> Vec<String> {
        let differences = different_libraries(a, b);
        differences
            .into_iter()
            .map(|library| library.name)
            .collect()
    };
    assert_eq!(names(&a, &b), ["libx"]);
    assert_eq!(names(&a, &of(&["libc=1"], "./p -n 4")), ["libx"]);
    assert_eq!(names(&a, &a), [""; 0]);
    // Libraries and arguments at once: which of the two made the difference?
    let two = refusals(
        None,
        &a,
        &of(&["libc=1", "libx=2"], "./p -n 8"),
        None,
        false,
    );
    assert!(
        matches!(two[..], [Refusal::DifferentArguments { .. }]),
        "{two:?}"
    );
}
