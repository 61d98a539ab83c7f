//! The twins do the same: options, errors, table, JSON.

use std::path::Path;

use hitm_testkit::{Outcome, skip};
use serde_json::Value;

use crate::programs::{c, run, rust};

/// Runs both and compares what they leave.
fn check(arguments: &str, compare: fn(&str, &Outcome, &Outcome)) {
    let c = match c() {
        Ok(c) => c,
        Err(why) => skip!("{why}"),
    };
    compare(arguments, &run(&rust(), arguments), &run(&c, arguments));
}

/// Numbers become `#`, blanks one blank, and the twin's name goes; how often threads ran side by side depends on the
/// machine too.
fn without_measurements(text: &str) -> String {
    let text = text.replace("(Rust)", "(C)");
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '0'..='9' | '.' | ' ' => {
                let mark = if c == ' ' { ' ' } else { '#' };
                if !out.ends_with(mark) {
                    out.push(mark);
                }
            }
            other => out.push(other),
        }
    }
    out
}

fn same_table(arguments: &str, rust: &Outcome, c: &Outcome) {
    for outcome in [rust, c] {
        assert_eq!(outcome.status.code(), Some(0), "{arguments}: {outcome:?}");
        assert_eq!(outcome.stderr, "", "{arguments}");
    }
    assert!(rust.stdout.ends_with("\nthe sum was right in every run\n"));
    // Of the first lines all words and settings are the same, of the rows the number of threads.
    let head = |outcome: &Outcome| -> Vec<String> {
        let lines = outcome.stdout.lines().take(3);
        lines.map(|line| line.replace("(Rust)", "(C)")).collect()
    };
    assert_eq!(head(rust), head(c), "{arguments}");
    let threads = |outcome: &Outcome| -> Vec<String> {
        let rows = outcome.stdout.lines().skip(3);
        rows.map(|row| row.split_whitespace().next().unwrap().to_owned())
            .collect()
    };
    assert_eq!(threads(rust), threads(c), "{arguments}");
    assert_eq!(
        without_measurements(&rust.stdout),
        without_measurements(&c.stdout),
        "{arguments}"
    );
}

#[test]
fn tables_are_the_same() {
    for layout in ["packed", "padded", "per-thread"] {
        for op in ["rmw", "plain", "dependent"] {
            if (layout, op) != ("per-thread", "dependent") {
                let arguments = format!("--total 10007 --runs 3 --layout {layout} --op {op}");
                check(&arguments, same_table);
            }
        }
    }
    for arguments in [
        "--total 10007 --runs 3 --scale --threads 11",
        "--total 10007 --runs 3 --threads 7 --pin --line-size 4096 --layout padded",
        // More threads than there is to count.
        "--total 1000 --runs 1 --threads 1024",
    ] {
        check(arguments, same_table);
    }
}

fn document(outcome: &Outcome) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("collect.schema.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let document: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let faults: Vec<String> = (validator.iter_errors(&document))
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    document
}

/// The measured values become null; what is left is settings.
fn settings(mut document: Value) -> Value {
    document["program"] = Value::Null;
    for row in document["rows"].as_array_mut().unwrap() {
        let runs = row["runs"].as_array().unwrap().len();
        row["has_speed_up"] = (!row["speed_up"].is_null()).into();
        for measured in [
            "side_by_side_runs",
            "median_s",
            "min_s",
            "max_s",
            "counts_per_second",
            "speed_up",
        ] {
            row[measured] = Value::Null;
        }
        row["runs"] = runs.into();
    }
    document
}

fn same_document(arguments: &str, rust: &Outcome, c: &Outcome) {
    let [rust, c] = [rust, c].map(document);
    assert_eq!(
        (&rust["program"], &c["program"]),
        (&"rust".into(), &"c".into())
    );
    for document in [&rust, &c] {
        for row in document["rows"].as_array().unwrap() {
            let seconds = |key: &str| row[key].as_f64().unwrap();
            assert!(
                seconds("min_s") <= seconds("median_s") && seconds("median_s") <= seconds("max_s")
            );
            let rate = document["total"].as_f64().unwrap() / seconds("median_s");
            assert!((rate / seconds("counts_per_second") - 1.0).abs() < 1e-3);
        }
    }
    let settings = [rust, c].map(settings);
    let scaled = settings[0]["rows"][0]["has_speed_up"] == true;
    assert_eq!(scaled, arguments.contains("--scale"), "{arguments}");
    assert_eq!(settings[0], settings[1], "{arguments}");
}

#[test]
fn documents_keep_to_the_schema_and_are_the_same() {
    for arguments in [
        "--json --total 10007 --runs 3 --scale",
        "--json --total 1e4 --runs 2 --threads 3 --layout padded --op plain --line-size 128",
        "--json --total 1e4 --runs 2 --threads 2 --layout per-thread --pin",
        "--json --total 1e4 --runs 2 --threads 2 --op dependent",
    ] {
        check(arguments, same_document);
    }
}

fn same_refusal(arguments: &str, rust: &Outcome, c: &Outcome) {
    assert_eq!(rust.status.code(), c.status.code(), "{arguments}");
    assert_ne!(rust.status.code(), Some(0), "{arguments}");
    for outcome in [rust, c] {
        assert_eq!(outcome.stdout, "", "{arguments}");
        let option = arguments.split([' ', '=']).next().unwrap();
        let named = outcome.stderr.contains(option.trim_start_matches("--"));
        assert!(named, "{arguments}: {}", outcome.stderr);
        assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
    }
}

#[test]
fn bad_input_is_refused_alike() {
    for arguments in [
        "--threads 0",
        "--threads 1025",
        "--threads=-1",
        "--threads many",
        "--total 0",
        "--total 1.5",
        "--total nan",
        "--total 1e300",
        "--total -3",
        "--threads -1",
        "--total",
        "--runs 0",
        "--layout loose",
        "--op none",
        "--line-size 48",
        "--line-size 8",
        "--bogus",
        "stray",
        "--op dependent --layout per-thread",
    ] {
        check(arguments, same_refusal);
    }
}

#[test]
fn that_other_addresses_do_not_stay_is_said() {
    for layout in ["padded", "per-thread"] {
        let arguments = format!("--addrs --total 100 --runs 1 --threads 2 --layout {layout}");
        check(&arguments, |_, rust, c| {
            for outcome in [rust, c] {
                let said = "collect: --addrs: only packed counters have addresses that stay";
                assert!(outcome.stderr.starts_with(said), "{}", outcome.stderr);
            }
        });
    }
}

#[test]
fn packed_addresses_are_neighbours_on_one_line() {
    check("--addrs --total 100 --runs 1 --threads 3", |_, rust, c| {
        for outcome in [rust, c] {
            let truths = hitm_testkit::parse_truth(&outcome.stderr).unwrap();
            let at: Vec<u64> = truths.iter().map(|truth| truth.at).collect();
            assert_eq!(at.len(), 3);
            assert_eq!((at[1] - at[0], at[2] - at[0]), (8, 16));
            assert_eq!(at[0] % 128, 0);
        }
    });
}
