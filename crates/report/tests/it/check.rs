//! Reports of `hitm check`: the schema file, and what is valid by it.

use hitm_model::{
    AccessKind, AccessKinds, CheckReport, CheckTotals, Confidence, Fix, LineSize, Party,
    SourceLine, StaticFinding, StaticRule, Svma, ThreadRoot, Toucher, Violation,
};
use hitm_report::{CheckFailOn, check_gate, check_json, check_json_schema, github, sarif};
use serde_json::Value;

fn party(name: &str, offset: u64) -> Party {
    Party {
        name: name.to_owned(),
        type_name: Some("uint64_t".to_owned()),
        address: Some(Svma(0x4000 + offset)),
        section: Some(".bss".to_owned()),
        offset,
        size: 8,
        declared: Some(SourceLine {
            file: "src/a b.c".to_owned(),
            line: 7,
        }),
        touched_by: vec![Toucher {
            thread: Some("worker".to_owned()),
            function: "worker".to_owned(),
            kinds: AccessKinds::from(AccessKind::Write),
            hot: true,
            instruction: Svma(0x1234),
            source: None,
        }],
    }
}

fn report() -> CheckReport {
    CheckReport {
        binary: "./prog".to_owned(),
        build_id: None,
        line_size: LineSize::ASSUMED,
        threads: vec![ThreadRoot {
            name: "main".to_owned(),
            many: false,
            started_in: Vec::new(),
        }],
        findings: vec![StaticFinding {
            fingerprint: "0123456789abcdef".to_owned(),
            rule: StaticRule::GlobalsShareLine,
            confidence: Confidence::High,
            parties: vec![party("a", 0), party("b", 8)],
            line: Some(Svma(0x4000)),
            why: "different threads write them".to_owned(),
            fix: Fix {
                text: "give a a line of its own".to_owned(),
                added_bytes: 56,
                instances: Some(1),
            },
            allowed: None,
            known: false,
        }],
        violations: vec![Violation {
            fingerprint: "fedcba9876543210".to_owned(),
            table: "isolate",
            policy_line: 3,
            what: "a is not alone".to_owned(),
            declared: None,
            known: false,
        }],
        explained: Vec::new(),
        caveats: Vec::new(),
        totals: CheckTotals::default(),
    }
}

/// `UPDATE=1` writes the file anew.
#[test]
fn the_schema_file_is_in_step_and_documents_are_valid_by_it() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/check.schema.json");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, check_json_schema()).unwrap();
    }
    let file = std::fs::read_to_string(path).unwrap();
    assert!(
        file == check_json_schema(),
        "docs/check.schema.json is out of step: run `UPDATE=1 cargo test -p hitm-report`, and raise CHECK_JSON_VERSION \
         if a value went or changed its meaning"
    );
    let validator = jsonschema::validator_for(&serde_json::from_str(&file).unwrap()).unwrap();
    let mut out = Vec::new();
    check_json(&[report()], Confidence::Low, &mut out).unwrap();
    let document: Value = serde_json::from_slice(&out).unwrap();
    assert!(validator.is_valid(&document), "{document:#}");
}

/// The rules of SARIF 2.1.0 that its consumers reject a log by; the whole schema is not in this repository.
#[test]
fn sarif_has_what_the_format_requires() {
    let mut out = Vec::new();
    sarif(&[report()], Confidence::Low, &mut out).unwrap();
    let log: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let rules: Vec<&Value> = run["tool"]["driver"]["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["id"])
        .collect();
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    for result in results {
        assert!(rules.contains(&&result["ruleId"]));
        assert!(["none", "note", "warning", "error"].contains(&result["level"].as_str().unwrap()));
        assert!(result["message"]["text"].is_string());
        assert!(result["partialFingerprints"]["hitm/v1"].is_string());
        let uri = &result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
        assert!(!uri.as_str().unwrap().contains(' '));
    }
}

#[test]
fn annotations_are_one_line_each() {
    let mut out = Vec::new();
    github(&[report()], Confidence::Medium, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("::error title=hitm%3A [[isolate]]::"));
    assert!(lines[1].starts_with("::warning file=src/a b.c,line=7,title="));
}

#[test]
fn what_is_known_or_allowed_does_not_fail() {
    let high = CheckFailOn::Confidence(Confidence::High);
    let mut report = report();
    assert!(check_gate(&[report.clone()], CheckFailOn::Policy));
    report.violations[0].known = true;
    assert!(!check_gate(&[report.clone()], CheckFailOn::Policy));
    assert!(check_gate(&[report.clone()], high));
    report.findings[0].allowed = Some("a reason".to_owned());
    assert!(!check_gate(&[report], high));
}
