//! Reports of `hitm check`: the schema file, and what is valid by it.

use hitm_model::{
    AccessKind, AccessKinds, CheckCaveat, CheckReport, CheckTotals, Confidence, Fix, LineSize,
    Party, SourceLine, StaticFinding, StaticRule, Svma, ThreadRoot, Toucher, Violation,
};
use hitm_report::{
    CheckFailOn, SourceTree, cannot_check, check_gate, check_json, check_json_schema, github,
};
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

pub(crate) fn report() -> CheckReport {
    CheckReport {
        binary: "./prog".to_owned(),
        build_id: None,
        line_size: LineSize::ASSUMED,
        policy: Some("hitm.toml".to_owned()),
        baseline: None,
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

pub(crate) fn tree() -> SourceTree {
    SourceTree {
        root: "/home/me/project".to_owned(),
        typed_in: "/home/me/project/build".to_owned(),
    }
}

#[test]
fn annotations_are_one_line_each() {
    let mut report = report();
    report.caveats.push(CheckCaveat::NoTypes);
    report.findings[0].parties[0].declared = Some(SourceLine {
        file: "/usr/include/stdio.h".to_owned(),
        line: 1,
    });
    let mut out = Vec::new();
    github(&[report.clone()], Confidence::Medium, &tree(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let begins = [
        "::notice title=hitm%3A no-types::./prog: no debug information",
        "::error file=build/hitm.toml,line=3,title=hitm%3A [[isolate]]::a is not alone",
        "::warning file=src/a b.c,line=7,title=hitm%3A globals-share-line::a and b share a line",
        "hitm check ./prog: 1 violation of hitm.toml, 1 finding of medium confidence or more",
    ];
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), begins.len(), "{text}");
    for (line, begin) in lines.iter().zip(begins) {
        assert!(line.starts_with(begin), "{line}");
    }

    report.violations[0].known = true;
    report.findings[0].allowed = Some("a reason".to_owned());
    report.caveats.clear();
    let mut out = Vec::new();
    github(&[report], Confidence::Medium, &tree(), &mut out).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "hitm check ./prog: 0 violations of hitm.toml, 0 findings of medium confidence or more\n"
    );
}

#[test]
fn what_there_is_nothing_to_judge_by_does_not_pass() {
    let mut report = report();
    report.totals.functions = 0;
    let low = CheckFailOn::Confidence(Confidence::Low);
    let why = cannot_check(&[report.clone()], low).unwrap();
    assert!(why.contains("./prog has no function"), "{why}");
    report.caveats.push(CheckCaveat::ForeignInstructions);
    let why = cannot_check(&[report.clone()], low).unwrap();
    assert!(why.contains("x86-64"), "{why}");
    // The policy needs no instructions.
    assert_eq!(cannot_check(&[report.clone()], CheckFailOn::Policy), None);
    report.totals.functions = 1;
    assert_eq!(cannot_check(&[report], low), None);
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
