//! SARIF 2.1.0, which code scanners read.
//!
//! A test validates the output against the format's own schema. What the scanner of GitHub asks for beyond that is here
//! too: paths from the top of the repository, a line in each location, and a fingerprint of the name that it looks at.

mod format;

use std::collections::BTreeMap;
use std::io::{self, Write};

use hitm_model::{CheckReport, Confidence, SourceLine, StaticFinding, StaticRule, Violation};

use super::places::{self, SourceTree};
use super::{command, headline, place_of, shown_first};
use format::{
    Artifact, ArtifactLocation, Configuration, Descriptor, Driver, Invocation,
    InvocationProperties, Location, Log, LogicalLocation, Notification, PhysicalLocation,
    Properties, Region, ResultObject, Rule, Run, Severity, Suppression, Tool,
};

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";
const POLICY: &str = "policy";
const POLICY_MEANING: &str = "The layout is not what the project's policy asks for.";
const POLICY_HELP: &str = "The policy (hitm.toml) says which variables are alone on their cache line, apart or together, and how large types \
     are. Change the layout, or the policy. docs/check.md describes both.";
const HELP: &str = "A precondition, not a measurement: `hitm run` tells whether threads meet there and what it costs. \
                    docs/check.md describes the rule and the fix.";
/// What paths are relative to.
const ROOT: &str = "SRCROOT";

/// Writes reports as a SARIF log, with a line end behind it.
///
/// # Errors
/// If `out` cannot be written to.
pub fn sarif(
    reports: &[CheckReport],
    least: Confidence,
    tree: &SourceTree,
    out: &mut impl Write,
) -> io::Result<()> {
    let writer = Writer { tree };
    let mut artifacts: Vec<ArtifactLocation> = Vec::new();
    for report in reports {
        let location = writer.named(&report.binary);
        // The format wants each of them once.
        if !artifacts.contains(&location) {
            artifacts.push(location);
        }
    }
    let root = format!("{}/", uri(&places::plain(&tree.root)).trim_end_matches('/'));
    let root = ArtifactLocation {
        uri: root,
        uri_base_id: None,
    };
    let log = Log {
        schema: SCHEMA,
        version: "2.1.0",
        runs: vec![Run {
            tool: Tool {
                driver: Driver {
                    name: "hitm",
                    semantic_version: env!("CARGO_PKG_VERSION"),
                    rules: rules(),
                },
            },
            invocations: reports.iter().map(|it| writer.invocation(it)).collect(),
            original_uri_base_ids: BTreeMap::from([(ROOT, root)]),
            artifacts: artifacts
                .into_iter()
                .map(|location| Artifact { location })
                .collect(),
            results: reports
                .iter()
                .flat_map(|report| writer.results(report, least))
                .collect(),
            column_kind: "unicodeCodePoints",
        }],
    };
    serde_json::to_writer_pretty(&mut *out, &log)?;
    writeln!(out)
}

fn rules() -> Vec<Rule> {
    let rule = |id, meaning: &str, help: &str, level| Rule {
        id,
        short_description: meaning.to_owned().into(),
        full_description: meaning.to_owned().into(),
        help: help.to_owned().into(),
        default_configuration: Configuration { level },
    };
    let of_findings = StaticRule::ALL.iter();
    let mut rules: Vec<Rule> = of_findings
        .map(|it| rule(it.name(), it.meaning(), HELP, Severity::Warning))
        .collect();
    rules.push(rule(POLICY, POLICY_MEANING, POLICY_HELP, Severity::Error));
    rules
}

struct Writer<'a> {
    tree: &'a SourceTree,
}

impl Writer<'_> {
    /// How one binary was checked, and what limits the answer.
    fn invocation(&self, report: &CheckReport) -> Invocation {
        let notification = |caveat: &hitm_model::CheckCaveat| Notification {
            descriptor: Descriptor { id: caveat.name() },
            level: Severity::Warning,
            message: caveat.text().into(),
            locations: vec![self.of_binary(report)],
        };
        Invocation {
            execution_successful: true,
            tool_execution_notifications: report.caveats.iter().map(notification).collect(),
            properties: InvocationProperties {
                policy: report.policy.clone(),
                baseline: report.baseline.clone(),
            },
        }
    }

    fn results(&self, report: &CheckReport, least: Confidence) -> Vec<ResultObject> {
        let violations = report.violations.iter();
        let findings = report.findings.iter().filter(|it| it.confidence >= least);
        violations
            .map(|violation| self.violation(report, violation))
            .chain(findings.map(|finding| self.finding(report, finding)))
            .collect()
    }

    fn violation(&self, report: &CheckReport, violation: &Violation) -> ResultObject {
        let rule = self.of_rule(report, violation);
        let declared = violation.declared.as_ref();
        let (location, related) = match (declared.map(|place| self.of_source(place)), rule) {
            (Some(declared), Some(mut rule)) => {
                rule.id = Some(1);
                rule.message = Some("the rule of the policy".to_owned().into());
                (declared, vec![rule])
            }
            (Some(only), None) | (None, Some(only)) => (only, Vec::new()),
            (None, None) => (self.of_binary(report), Vec::new()),
        };
        ResultObject {
            rule_id: POLICY,
            level: Severity::Error,
            kind: "fail",
            message: format!("[[{}]]: {}", violation.table, violation.what).into(),
            locations: vec![location],
            related_locations: related,
            partial_fingerprints: fingerprints(&violation.fingerprint),
            suppressions: Vec::new(),
            baseline_state: state(report, violation.known),
            properties: Properties {
                confidence: None,
                verdict: None,
            },
        }
    }

    fn finding(&self, report: &CheckReport, finding: &StaticFinding) -> ResultObject {
        let text = format!(
            "{}: {}. A precondition, not a measurement; measure with `{}`. Fix: {}.",
            headline(finding),
            finding.why,
            command(report),
            finding.fix.text
        );
        let first = shown_first(finding, self.tree);
        let location_of = |party: &hitm_model::Party| {
            let mut location = match place_of(party) {
                Some(place) => self.of_source(place),
                None => self.of_binary(report),
            };
            location.logical_locations = vec![LogicalLocation {
                fully_qualified_name: party.name.clone(),
            }];
            location
        };
        let mut related = Vec::new();
        for (number, party) in finding.parties.iter().enumerate() {
            if number != first {
                let mut location = location_of(party);
                location.id = u32::try_from(related.len() + 1).ok();
                location.message = Some(format!("{} shares the line", party.name).into());
                related.push(location);
            }
        }
        let locations = match finding.parties.get(first) {
            Some(party) => vec![location_of(party)],
            None => vec![self.of_binary(report)],
        };
        ResultObject {
            rule_id: finding.rule.name(),
            level: match finding.confidence {
                Confidence::High | Confidence::Medium => Severity::Warning,
                Confidence::Low => Severity::Note,
            },
            kind: "fail",
            message: text.into(),
            locations,
            related_locations: related,
            partial_fingerprints: fingerprints(&finding.fingerprint),
            suppressions: finding
                .allowed
                .iter()
                .map(|reason| Suppression {
                    kind: "external",
                    justification: reason.clone(),
                })
                .collect(),
            baseline_state: state(report, finding.known),
            properties: Properties {
                confidence: Some(finding.confidence.to_string()),
                verdict: Some("unproven"),
            },
        }
    }

    fn of_source(&self, place: &SourceLine) -> Location {
        let artifact = match self.tree.source(&place.file) {
            Some(below) => below_root(&below),
            None => elsewhere(&place.file),
        };
        at(artifact, place.line)
    }

    /// The binary, where no source is known.
    fn of_binary(&self, report: &CheckReport) -> Location {
        at(self.named(&report.binary), 1)
    }

    /// The rule's line in the policy.
    fn of_rule(&self, report: &CheckReport, violation: &Violation) -> Option<Location> {
        let policy = report.policy.as_deref()?;
        Some(at(self.named(policy), violation.policy_line))
    }

    fn named(&self, file: &str) -> ArtifactLocation {
        match self.tree.named(file) {
            Some(below) => below_root(&below),
            None => elsewhere(file),
        }
    }
}

fn at(artifact_location: ArtifactLocation, line: u32) -> Location {
    Location {
        id: None,
        physical_location: PhysicalLocation {
            artifact_location,
            // Lines count from 1; scanners do not show what has none.
            region: Region {
                start_line: line.max(1),
            },
        },
        logical_locations: Vec::new(),
        message: None,
    }
}

fn below_root(path: &str) -> ArtifactLocation {
    ArtifactLocation {
        uri: uri(path),
        uri_base_id: Some(ROOT),
    }
}

fn elsewhere(path: &str) -> ArtifactLocation {
    ArtifactLocation {
        uri: uri(&places::plain(path)),
        uri_base_id: None,
    }
}

fn state(report: &CheckReport, known: bool) -> Option<&'static str> {
    report.baseline.as_ref()?;
    Some(if known { "unchanged" } else { "new" })
}

/// Ours, and the same under the name that GitHub's scanner tells results of different commits by.
fn fingerprints(of: &str) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        ("hitm/v1", of.to_owned()),
        ("primaryLocationLineHash", of.to_owned()),
    ])
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
