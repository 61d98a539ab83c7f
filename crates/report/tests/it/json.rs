//! The JSON document: what is in it, and that its schema and its documentation are in step.

use std::collections::BTreeSet;
use std::path::PathBuf;

use hitm_model::Report;
use hitm_report::{JSON_VERSION, json, json_schema};
use serde_json::{Value, json};

use crate::{costs, reports};

fn document(report: &Report) -> Value {
    let mut out = Vec::new();
    json(report, &mut out).unwrap();
    assert_eq!(out.last(), Some(&b'\n'));
    serde_json::from_slice(&out).unwrap()
}

fn docs(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name)
}

fn schema() -> Value {
    serde_json::from_str(&json_schema()).unwrap()
}

/// `UPDATE=1` writes the file anew.
#[test]
fn the_schema_file_is_in_step() {
    let path = docs("report.schema.json");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, json_schema()).unwrap();
    }
    let file = std::fs::read_to_string(&path).unwrap();
    assert!(
        file == json_schema(),
        "docs/report.schema.json is out of step: run `UPDATE=1 cargo test -p hitm-report`, and raise JSON_VERSION if a \
         value went or changed its meaning"
    );
}

#[test]
fn every_document_is_valid() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    for (name, report) in reports::all() {
        let document = document(&report);
        let errors: Vec<_> = validator
            .iter_errors(&document)
            .map(|error| error.to_string())
            .collect();
        assert_eq!(errors, [""; 0], "{name}");
    }
}

#[test]
fn the_schema_refuses_what_is_wrong() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let check = |pointer: &str, value: Value| {
        let mut document = document(&reports::array());
        *document.pointer_mut(pointer).unwrap() = value;
        assert!(!validator.is_valid(&document), "{pointer}");
    };
    check("/schema", json!("another"));
    check("/version", json!(JSON_VERSION + 1));
    check("/findings/0/verdict", json!("bad"));
    check("/findings/0/lines/0/address", json!(4096));
    check("/findings/0/lines/0/address", json!("4096"));
    check("/findings/0/severity", json!({ "samples": 1 }));
    check("/findings/0/evidence/0/origin", json!("guessed"));
    check("/totals/samples", json!(-1));
}

#[test]
fn every_value_is_explained() {
    let text = std::fs::read_to_string(docs("report.md")).unwrap();
    let mut names = BTreeSet::new();
    collect_names(&schema(), &mut names);
    assert!(names.len() > 60, "{names:?}");
    for name in names {
        assert!(
            text.contains(&format!("`{name}`")),
            "docs/report.md does not explain `{name}`"
        );
    }
}

/// Names of properties, and the words of enumerations.
fn collect_names(schema: &Value, names: &mut BTreeSet<String>) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::Object(properties)) = object.get("properties") {
                names.extend(properties.keys().cloned());
            }
            if let Some(Value::Array(words)) = object.get("enum") {
                names.extend(words.iter().filter_map(Value::as_str).map(str::to_owned));
            }
            object
                .values()
                .for_each(|value| collect_names(value, names));
        }
        Value::Array(values) => values.iter().for_each(|value| collect_names(value, names)),
        _ => {}
    }
}

#[test]
fn numbers_and_names_are_those_of_the_report() {
    let document = document(&reports::adjacent_globals());
    let check = |pointer: &str, expected: Value| {
        assert_eq!(document.pointer(pointer), Some(&expected), "{pointer}");
    };
    check("/schema", json!("hitm-report"));
    check("/version", json!(1));
    check("/run/command/2", json!("it's me"));
    check("/run/started_unix_ms", json!(1_700_000_000_000_u64));
    check("/sampler/cost_share", json!(0.026));
    check("/child", json!({ "code": 0, "signal": null }));
    check("/totals/unresolved_operands", json!(310));
    check("/findings/0/verdict", json!("false-sharing"));
    check("/findings/0/objects/1/name", json!("global_epoch"));
    check(
        "/findings/0/objects/1/type",
        json!("std::atomic<unsigned long>"),
    );
    check("/findings/0/objects/1/declared", json!(null));
    check(
        "/findings/0/lines/0",
        json!({ "address": "0x5555555b0040", "samples": 4222 }),
    );
    check(
        "/findings/0/participants/1/threads",
        json!({ "name": "reader", "tids": [72] }),
    );
    check(
        "/findings/0/participants/1/bytes",
        json!({ "start": 16, "end": 24 }),
    );
    check(
        "/findings/0/participants/0/access",
        json!({ "read": true, "write": true, "atomic": false }),
    );
    check("/findings/0/participants/1/share", json!(0.97));
    check(
        "/findings/0/participants/1/sites/0/frames/1",
        json!({
            "function": "Epoch::current",
            "source": { "file": "/home/dev/src/runtime/epoch.hpp", "line": 20 }
        }),
    );
    check("/findings/0/severity/worst_thread_share", json!(0.97));
    check(
        "/findings/0/evidence/0",
        json!({
            "origin": "sampled",
            "samples": 4222,
            "met": 3101,
            "met_disjoint": 3100,
            "met_overlapping": 1,
            "met_on_other_cpu": 3377,
            "window_ns": 2_000_000,
            "plain_writes_only": false
        }),
    );
    check("/findings/0/advice/kind", json!("isolate-written"));
}

#[test]
fn costs_are_those_of_the_report() {
    let check = |report: &Report, pointer: &str, expected: Value| {
        assert_eq!(
            document(report).pointer(pointer),
            Some(&expected),
            "{pointer}"
        );
    };
    let report = costs::rare_victim();
    check(
        &report,
        "/findings/0/measured",
        json!({ "judged": "costs", "together_with": [], "ratio": 2.8, "low": 2.6, "high": 3.0 }),
    );
    check(
        &costs::two_findings(),
        "/findings/0/measured/together_with",
        json!(["00000000000000ff"]),
    );
    let evidence = "/findings/0/evidence/1";
    let check_evidence = |report: &Report, pointer: &str, expected| {
        check(report, &format!("{evidence}{pointer}"), expected);
    };
    check_evidence(&report, "/origin", json!("co-located"));
    check_evidence(&report, "/distance", json!("same-cache"));
    check_evidence(&report, "/cpus", json!([0, 1]));
    check_evidence(
        &report,
        "/windows",
        json!({ "planned": 8, "apart": 7, "together": 7, "dropped": 2 }),
    );
    check_evidence(&report, "/outcome", json!("complete"));
    check_evidence(&report, "/baseline", json!({ "low": 0.95, "high": 1.03 }));
    check_evidence(&report, "/lost_ns", json!(1_234_000_000));
    check_evidence(&report, "/threads/1/tid", json!(72));
    check_evidence(&report, "/threads/1/no_cost", json!(null));
    check_evidence(
        &report,
        "/threads/1/cost/measures/0",
        json!({
            "progress": {
                "kind": "register",
                "register": "rbx",
                "binary": "prog",
                "address": "0x1193",
                "throughout": false,
                "frames": [{ "function": "worker", "source": { "file": "src/main.c", "line": 40 } }]
            },
            "ratio": 2.8,
            "low": 2.6,
            "high": 3.0,
            "per_second_apart": 5.0e7,
            "coverage": 0.98,
            "dispersion": 0.021,
            "steps": 1234,
            "steady": 1180,
            "named": null
        }),
    );
    check_evidence(
        &costs::two_measures(),
        "/threads/0/cost/measures/1/progress",
        json!({ "kind": "word", "name": "COUNTS[0].hits", "address": "0x5555555b0040" }),
    );
    check_evidence(&costs::true_sharing(), "/threads/0/tid", json!(null));
    check_evidence(&costs::cheap(), "/threads/0/cost/judged", json!("nothing"));
    check(&costs::waits(), "/findings/0/measured", json!(null));
    check_evidence(&costs::waits(), "/threads/0/cost", json!(null));
    check_evidence(
        &costs::waits(),
        "/threads/1/no_cost/waiting/thread",
        json!("spawner"),
    );
    check(
        &costs::waits(),
        "/compared/0/threads/0/no_cost/waiting",
        json!({ "kind": "sleeps", "thread": "queue", "share": 0.35, "switches_per_second": 1204.0 }),
    );
    check(&reports::array(), "/findings/0/measured", json!(null));
    check(&reports::array(), "/compared", json!([]));
}

#[test]
fn refusals_and_causes_are_words_with_a_sentence() {
    let no_cost = |report: &Report| {
        let document = document(report);
        let of = document.pointer("/findings/0/evidence/1/threads/0/no_cost");
        of.cloned().unwrap()
    };
    let check = |report: &Report, reason: &str, ends_in: &str| {
        let no_cost = no_cost(report);
        assert_eq!(no_cost["reason"], json!(reason));
        let text = no_cost["text"].as_str().unwrap();
        assert!(text.ends_with(ends_in), "{text}");
    };
    check(&costs::waits(), "they-wait", "(planned: `hitm compare`)");
    check(
        &costs::no_measure(),
        "no-measure",
        "`--progress SYMBOL` or `--progress FILE:LINE`",
    );
    check(
        &costs::noisy_machine(),
        "too-few-windows",
        "a machine with more",
    );
    check(&costs::ended(), "ended", "`--windows N`, `--window MS`");
    assert_eq!(no_cost(&costs::ended())["planned"], json!(16));

    let compared = &document(&costs::noisy_machine())["compared"][0];
    assert_eq!(compared["outcome"], json!("refused"));
    assert_eq!(
        compared["refused"],
        compared["threads"][0]["no_cost"]["text"]
    );

    let cause = &document(&costs::neighbours())["compared"][0]["causes"][0];
    assert_eq!(cause["kind"], json!("prefetcher"));
    assert_eq!(cause["gap_bytes"], json!(512));
    let text = cause["text"].as_str().unwrap();
    assert!(
        text.ends_with("separate them by 32 lines (2 KiB)"),
        "{text}"
    );
}

#[test]
fn caveats_and_the_childs_end_are_told() {
    let document = document(&reports::stripped());
    assert_eq!(document["child"], json!({ "code": null, "signal": 11 }));
    let codes: Vec<_> = document["caveats"]
        .as_array()
        .unwrap()
        .iter()
        .map(|caveat| &caveat["code"])
        .collect();
    assert_eq!(codes, ["sampler-fallback", "few-samples", "stripped"]);
    for caveat in document["caveats"].as_array().unwrap() {
        for part in ["observation", "cause", "remedy"] {
            assert!(!caveat[part].as_str().unwrap().is_empty(), "{caveat}");
        }
    }
    assert_eq!(document["sampler"]["cost_share"], Value::Null);
    assert_eq!(document["findings_below_min_share"], json!(1));
}

#[test]
fn numbers_that_json_does_not_have_do_not_appear() {
    let mut report = reports::array();
    report.findings[0].severity.worst_thread = f64::NAN;
    report.totals.co_running = Some(f64::INFINITY);
    if let Some(sampler) = &mut report.sampler {
        sampler.period = hitm_model::Nanos(0);
    }
    let validator = jsonschema::validator_for(&schema()).unwrap();
    assert!(validator.is_valid(&document(&report)));
}
