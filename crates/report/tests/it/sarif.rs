//! The SARIF of `hitm check` by the format's own schema, and by what GitHub's scanner asks for beyond that.
//!
//! The schema is not in this repository: the package `serde-sarif` brings it with its sources, where cargo has them. Its
//! code is not built.

use std::path::{Path, PathBuf};
use std::process::Command;

use hitm_model::{CheckCaveat, CheckReport, Confidence, SourceLine};
use hitm_report::sarif;
use hitm_testkit::skip;
use serde_json::{Value, json};

use crate::check::{report, tree};

fn log(reports: &[CheckReport]) -> Value {
    let mut out = Vec::new();
    sarif(reports, Confidence::Low, &tree(), &mut out).unwrap();
    assert_eq!(out.last(), Some(&b'\n'));
    serde_json::from_slice(&out).unwrap()
}

/// Everything that a log can have.
fn full() -> Vec<CheckReport> {
    let plain = report();
    let mut rich = report();
    rich.binary = "/opt/a b/ünïcode %41".to_owned();
    rich.baseline = Some("known.txt".to_owned());
    rich.caveats = vec![
        CheckCaveat::NoTypes,
        CheckCaveat::UnknownThreads { starts: 3 },
    ];
    rich.findings[0].allowed = Some("at shutdown only".to_owned());
    rich.findings[0].confidence = Confidence::Low;
    for party in &mut rich.findings[0].parties {
        party.declared = None;
    }
    rich.violations[0].known = true;
    rich.violations[0].declared = Some(SourceLine {
        file: "/home/me/project/src/../include/a.h".to_owned(),
        line: 0,
    });
    let mut bare = report();
    bare.policy = None;
    bare.findings.clear();
    bare.violations.clear();
    // The same file twice, as a glob may give it.
    vec![plain.clone(), plain, rich, bare]
}

/// Where cargo has the sources of a package.
fn sources_of(package: &str) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--format-version=1",
            "--locked",
            "--manifest-path",
        ])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|it| it.to_string())?;
    let packages = metadata["packages"].as_array().unwrap();
    let found = packages.iter().find(|it| it["name"] == package).unwrap();
    let manifest = Path::new(found["manifest_path"].as_str().unwrap());
    Ok(manifest.parent().unwrap().to_owned())
}

#[test]
fn it_is_valid_by_the_schema_of_the_format() {
    let schema = match sources_of("serde-sarif") {
        Ok(sources) => sources.join("src/schema.json"),
        Err(error) => skip!("cargo has not the sources of serde-sarif: {error}"),
    };
    let mut schema: Value =
        serde_json::from_str(&std::fs::read_to_string(schema).unwrap()).unwrap();
    // Its pattern of a language's name is no regular expression by the letter; we name no language.
    for object in ["run", "toolComponent"] {
        let language = format!("/definitions/{object}/properties/language");
        let language = schema.pointer_mut(&language).unwrap();
        language.as_object_mut().unwrap().remove("pattern");
    }
    let title = schema["title"].as_str().unwrap();
    assert!(
        title.contains("SARIF") && title.contains("2.1.0"),
        "{title}"
    );
    let validator = jsonschema::options()
        .should_validate_formats(true)
        .build(&schema)
        .unwrap();
    let errors = |log: &Value| -> Vec<String> {
        let errors = validator.iter_errors(log);
        errors
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect()
    };
    for reports in [full(), vec![report()], Vec::new()] {
        assert_eq!(errors(&log(&reports)), [""; 0]);
    }
    // It is not that everything is valid.
    for (pointer, value) in [
        ("/version", json!("2.0.0")),
        ("/runs/0/results/0/level", json!("bad")),
        (
            "/runs/0/results/0/locations/0/physicalLocation/region/startLine",
            json!(0),
        ),
        (
            "/runs/0/artifacts/1",
            json!({ "location": { "uri": "build/prog", "uriBaseId": "SRCROOT" } }),
        ),
        ("/runs/0/artifacts/1/location/uri", json!("a b")),
        ("/runs/0/results/0", json!({ "ruleId": "a" })),
    ] {
        let mut log = log(&full());
        *log.pointer_mut(pointer).unwrap() = value;
        assert_ne!(errors(&log), [""; 0], "{pointer}");
    }
}

/// Its documentation requires of each result: a rule that is described, a message, a place with a path below the
/// repository's top and a line, and a fingerprint by the one name that it looks at.
#[test]
fn it_has_what_githubs_scanner_asks_for() {
    let log = log(&full());
    assert_eq!(log["version"], "2.1.0");
    assert!(log["$schema"].as_str().unwrap().contains("sarif-2.1.0"));
    let run = &log["runs"][0];
    let root = &run["originalUriBaseIds"]["SRCROOT"]["uri"];
    assert_eq!(root, "file:///home/me/project/");
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    for rule in rules {
        for text in ["shortDescription", "fullDescription", "help"] {
            assert!(
                rule[text]["text"].as_str().is_some_and(|it| !it.is_empty()),
                "{rule}"
            );
        }
    }
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 6);
    for result in results {
        assert!(rules.iter().any(|rule| rule["id"] == result["ruleId"]));
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        let hash = &result["partialFingerprints"]["primaryLocationLineHash"];
        assert_eq!(hash, &result["partialFingerprints"]["hitm/v1"]);
        assert_eq!(hash.as_str().unwrap().len(), 16);
        let place = &result["locations"][0]["physicalLocation"];
        assert!(place["region"]["startLine"].as_u64().unwrap() >= 1);
    }
    let place = |result: usize| &results[result]["locations"][0]["physicalLocation"];
    let uri = |result: usize| place(result)["artifactLocation"].clone();
    // What is violated is declared nowhere: the policy's own line; a finding: its source.
    let below = |path: &str| json!({ "uri": path, "uriBaseId": "SRCROOT" });
    assert_eq!(uri(0), below("build/hitm.toml"));
    assert_eq!(place(0)["region"]["startLine"], 3);
    assert_eq!(uri(1), below("src/a%20b.c"));
    assert_eq!(uri(4), below("include/a.h"));
    // Without a source, the binary, which is elsewhere here.
    let elsewhere = "file:///opt/a%20b/%C3%BCn%C3%AFcode%20%2541";
    assert_eq!(uri(5), json!({ "uri": elsewhere }));
    // Without a baseline nothing is new.
    assert_eq!(results[0].get("baselineState"), None);
    assert_eq!(results[4]["baselineState"], "unchanged");
    assert_eq!(results[5]["baselineState"], "new");
    // What limits the answer is in all formats.
    let notes = &run["invocations"][2]["toolExecutionNotifications"];
    assert_eq!(notes[0]["descriptor"]["id"], "no-types");
    assert_eq!(notes.as_array().unwrap().len(), 2);
}
