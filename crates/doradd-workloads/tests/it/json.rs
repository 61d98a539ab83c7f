//! The JSON document of a run: its schema is in step, and what is printed follows it.

use std::path::PathBuf;

use doradd_workloads::front::json_schema;
use serde_json::Value;

use crate::commands::{Dir, ycsb};

fn schema() -> Value {
    serde_json::from_str(&json_schema()).unwrap()
}

/// `UPDATE=1` writes the file anew.
#[test]
fn the_schema_file_is_in_step() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/ycsb.schema.json");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, json_schema()).unwrap();
    }
    let file = std::fs::read_to_string(&path).unwrap();
    assert!(
        file == json_schema(),
        "docs/ycsb.schema.json is out of step: run `UPDATE=1 cargo test -p doradd-workloads`, and raise JSON_VERSION if a \
         value went or changed its meaning"
    );
}

#[test]
fn what_is_printed_follows_the_schema() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let dir = Dir::with_log(500, 100);
    for options in [
        "",
        "--verify",
        "--repeat 3 -i exp:2000 --pin --dispatch fused2 --max-in-flight 7",
    ] {
        let ran = ycsb(&dir, &format!("-n 2 log --rows 100 --json {options}"));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let document: Value = serde_json::from_str(&ran.stdout).unwrap();
        let errors: Vec<_> = validator
            .iter_errors(&document)
            .map(|error| error.to_string())
            .collect();
        assert_eq!(errors, [""; 0], "{options}");
        assert_eq!(document["setup"]["table"]["rows"], 100);
        let executed = if options.starts_with("--repeat") {
            1500
        } else {
            500
        };
        assert_eq!(document["measured"]["counts"]["executed"], executed);
        let latency = &document["measured"]["latency"];
        let of = |name: &str| latency[name].as_u64().unwrap();
        assert!(of("p50_ns") <= of("p90_ns") && of("p90_ns") <= of("p99_ns"));
        assert!(of("p99_ns") <= of("p999_ns") && of("p999_ns") <= of("max_ns"));
        let verified = &document["verified"];
        assert_eq!(verified.is_null(), options != "--verify");
        assert_eq!(verified["digest"], verified["serial_digest"]);
    }
}
