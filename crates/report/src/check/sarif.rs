//! SARIF 2.1.0, which code scanners read.
//!
//! Only what is needed of the format has types here; a test validates the output against the format's own schema.

use std::collections::BTreeMap;
use std::io::{self, Write};

use hitm_model::{CheckReport, Confidence, SourceLine, StaticRule};
use serde::Serialize;

use super::{command, headline};

#[derive(Serialize)]
struct Log {
    #[serde(rename = "$schema")]
    schema: &'static str,
    version: &'static str,
    runs: Vec<Run>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Run {
    tool: Tool,
    artifacts: Vec<Artifact>,
    results: Vec<ResultObject>,
    column_kind: &'static str,
}

#[derive(Serialize)]
struct Tool {
    driver: Driver,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Driver {
    name: &'static str,
    semantic_version: &'static str,
    rules: Vec<Rule>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    id: String,
    short_description: Text,
    help: Text,
    default_configuration: Configuration,
}

#[derive(Serialize)]
struct Configuration {
    level: &'static str,
}

#[derive(Serialize)]
struct Text {
    text: String,
}

#[derive(Serialize)]
struct Artifact {
    location: ArtifactLocation,
}

#[derive(Serialize, Clone)]
struct ArtifactLocation {
    uri: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResultObject {
    rule_id: String,
    level: &'static str,
    kind: &'static str,
    message: Text,
    locations: Vec<Location>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    related_locations: Vec<Location>,
    partial_fingerprints: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    suppressions: Vec<Suppression>,
    baseline_state: &'static str,
    properties: Properties,
}

#[derive(Serialize)]
struct Suppression {
    kind: &'static str,
    justification: String,
}

#[derive(Serialize)]
struct Properties {
    confidence: String,
    verdict: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Location {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u32>,
    physical_location: PhysicalLocation,
    logical_locations: Vec<LogicalLocation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Text>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PhysicalLocation {
    artifact_location: ArtifactLocation,
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<Region>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    start_line: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LogicalLocation {
    fully_qualified_name: String,
}

const POLICY: &str = "policy";
const HELP: &str = "A precondition, not a measurement: `hitm run` tells whether threads meet there and what it costs. \
                    docs/check.md describes the rule and the fix.";

/// Writes reports as a SARIF log, with a line end behind it.
///
/// # Errors
/// If `out` cannot be written to.
pub fn sarif(reports: &[CheckReport], least: Confidence, out: &mut impl Write) -> io::Result<()> {
    let rule = |id: &str, text: &str, level| Rule {
        id: id.to_owned(),
        short_description: Text {
            text: text.to_owned(),
        },
        help: Text {
            text: HELP.to_owned(),
        },
        default_configuration: Configuration { level },
    };
    let mut rules: Vec<Rule> = StaticRule::ALL
        .iter()
        .map(|it| rule(it.name(), it.meaning(), "warning"))
        .collect();
    rules.push(rule(
        POLICY,
        "The layout is not what the project's policy asks for.",
        "error",
    ));
    let log = Log {
        schema: "https://json.schemastore.org/sarif-2.1.0.json",
        version: "2.1.0",
        runs: vec![Run {
            tool: Tool {
                driver: Driver {
                    name: "hitm",
                    semantic_version: env!("CARGO_PKG_VERSION"),
                    rules,
                },
            },
            artifacts: reports
                .iter()
                .map(|report| Artifact {
                    location: ArtifactLocation {
                        uri: uri(&report.binary),
                    },
                })
                .collect(),
            results: reports
                .iter()
                .flat_map(|report| results(report, least))
                .collect(),
            column_kind: "unicodeCodePoints",
        }],
    };
    serde_json::to_writer_pretty(&mut *out, &log)?;
    writeln!(out)
}

fn results(report: &CheckReport, least: Confidence) -> Vec<ResultObject> {
    let mut results = Vec::new();
    for violation in &report.violations {
        results.push(ResultObject {
            rule_id: POLICY.to_owned(),
            level: "error",
            kind: "fail",
            message: Text {
                text: format!("[[{}]]: {}", violation.table, violation.what),
            },
            locations: vec![location(
                None,
                violation.declared.as_ref(),
                report,
                &violation.what,
                None,
            )],
            related_locations: Vec::new(),
            partial_fingerprints: fingerprint(&violation.fingerprint),
            suppressions: Vec::new(),
            baseline_state: state(violation.known),
            properties: Properties {
                confidence: "high".to_owned(),
                verdict: "unproven",
            },
        });
    }
    for finding in report.findings.iter().filter(|it| it.confidence >= least) {
        let text = format!(
            "{}: {}. A precondition, not a measurement; measure with `{}`. Fix: {}.",
            headline(finding),
            finding.why,
            command(report),
            finding.fix.text
        );
        let places = finding.parties.iter().enumerate().map(|(number, party)| {
            let touched = party.touched_by.iter().find_map(|it| it.source.as_ref());
            let place = party.declared.as_ref().or(touched);
            (number, party, place)
        });
        let mut locations: Vec<Location> = Vec::new();
        let mut related = Vec::new();
        for (number, party, place) in places {
            if locations.is_empty() {
                locations.push(location(None, place, report, &party.name, None));
            } else {
                let id = u32::try_from(number).ok();
                let shares = format!("{} shares the line", party.name);
                related.push(location(id, place, report, &party.name, Some(shares)));
            }
        }
        results.push(ResultObject {
            rule_id: finding.rule.name().to_owned(),
            level: match finding.confidence {
                Confidence::High | Confidence::Medium => "warning",
                Confidence::Low => "note",
            },
            kind: "fail",
            message: Text { text },
            locations,
            related_locations: related,
            partial_fingerprints: fingerprint(&finding.fingerprint),
            suppressions: finding
                .allowed
                .iter()
                .map(|reason| Suppression {
                    kind: "external",
                    justification: reason.clone(),
                })
                .collect(),
            baseline_state: state(finding.known),
            properties: Properties {
                confidence: finding.confidence.to_string(),
                verdict: "unproven",
            },
        });
    }
    results
}

fn state(known: bool) -> &'static str {
    if known { "unchanged" } else { "new" }
}

fn fingerprint(of: &str) -> BTreeMap<&'static str, String> {
    BTreeMap::from([("hitm/v1", of.to_owned())])
}

/// A place in the source, or the binary where none is known.
fn location(
    id: Option<u32>,
    place: Option<&SourceLine>,
    report: &CheckReport,
    name: &str,
    message: Option<String>,
) -> Location {
    let file = place.map_or(report.binary.as_str(), |place| place.file.as_str());
    Location {
        id,
        physical_location: PhysicalLocation {
            artifact_location: ArtifactLocation { uri: uri(file) },
            region: place.filter(|place| place.line > 0).map(|place| Region {
                start_line: place.line,
            }),
        },
        logical_locations: vec![LogicalLocation {
            fully_qualified_name: name.to_owned(),
        }],
        message: message.map(|text| Text { text }),
    }
}

/// A path as a URI reference.
fn uri(path: &str) -> String {
    use std::fmt::Write as _;
    let mut uri = String::new();
    if path.starts_with('/') {
        uri.push_str("file://");
    }
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                uri.push(char::from(byte));
            }
            _ => {
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri
}
