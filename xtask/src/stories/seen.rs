//! What hitm saw: whether the finding that a story is about is there, and what it says of it.

use anyhow::{Context as _, Result};
use serde_json::Value;

/// Below this share of the time threads did not run side by side in earnest: that nothing was seen then says little.
const CO_RUNNING_ENOUGH: f64 = 0.25;

/// What a story's finding must be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    /// Its verdict.
    pub(super) verdict: &'static str,
    /// Parts of names that its objects or field paths must have, each of them in some.
    pub(super) names: &'static [&'static str],
}

/// What a report says that matters here.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Seen {
    /// The finding that was expected, if it is there.
    pub(super) expected: Option<Found>,
    /// Other findings of the same names.
    pub(super) related: Vec<Found>,
    /// All other findings.
    pub(super) others: Vec<Found>,
    /// The share of the time in which threads ran side by side.
    pub(super) co_running: f64,
}

/// A finding in short.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Found {
    pub(super) verdict: String,
    pub(super) objects: Vec<String>,
    /// What it costs at most, as a share of the participants' time.
    pub(super) share: f64,
    /// What `hitm prove` measured, in the words of its table.
    pub(super) measured: Option<String>,
}

impl Seen {
    /// Reads a report in JSON.
    pub(super) fn read(report: &Value, expected: &Expected) -> Result<Self> {
        let findings = report["findings"]
            .as_array()
            .context("no findings in the report")?;
        let mut seen = Self {
            expected: None,
            related: Vec::new(),
            others: Vec::new(),
            co_running: report["totals"]["co_running_share"].as_f64().unwrap_or(0.0),
        };
        for finding in findings {
            let found = Found::read(finding);
            let names = names(finding);
            let has = |part: &str| names.iter().any(|name| name.contains(part));
            if seen.expected.is_none()
                && found.verdict == expected.verdict
                && expected.names.iter().all(|part| has(part))
            {
                seen.expected = Some(found);
            } else if expected.names.iter().any(|part| has(part)) {
                seen.related.push(found);
            } else {
                seen.others.push(found);
            }
        }
        Ok(seen)
    }

    /// Whether threads ran side by side at all: what they do by turns is no sharing that costs, and is not reported.
    pub(super) fn could_be_seen(&self) -> bool {
        self.co_running >= CO_RUNNING_ENOUGH
    }

    /// Nothing of what the story is about.
    pub(super) fn is_gone(&self) -> bool {
        self.expected.is_none() && self.related.is_empty()
    }

    /// The words for it.
    pub(super) fn words(&self) -> String {
        let all = self
            .expected
            .iter()
            .chain(&self.related)
            .chain(&self.others);
        let words: Vec<String> = all.map(Found::words).collect();
        let mut words = match words.as_slice() {
            [] => "nothing".to_owned(),
            words => words.join("; "),
        };
        if !self.could_be_seen() {
            let percent = self.co_running * 100.0;
            words += &format!(" (threads ran side by side in only {percent:.0} % of the time)");
        }
        words
    }
}

impl Found {
    fn read(finding: &Value) -> Self {
        let objects = finding["objects"].as_array();
        Self {
            verdict: finding["verdict"].as_str().unwrap_or("?").to_owned(),
            objects: objects
                .into_iter()
                .flatten()
                .filter_map(|object| object["name"].as_str().map(str::to_owned))
                .collect(),
            share: finding["severity"]["share"].as_f64().unwrap_or(0.0),
            measured: measured(&finding["measured"]),
        }
    }

    fn words(&self) -> String {
        format!(
            "{} of {}, at most {:.0} %",
            self.verdict.replace('-', " "),
            self.objects.join(", "),
            self.share * 100.0
        )
    }
}

fn measured(json: &Value) -> Option<String> {
    let number = |key: &str| json[key].as_f64();
    let (ratio, low, high) = (number("ratio")?, number("low")?, number("high")?);
    let numbers = format!("{ratio:.2}× [{low:.2}, {high:.2}]");
    Some(match json["judged"].as_str()? {
        "costs" => format!("costs {numbers}"),
        "nothing" => format!("no measurable cost, {numbers}"),
        other => format!("{other}, {numbers}"),
    })
}

/// All names in a finding: its objects and the field paths of its participants.
fn names(finding: &Value) -> Vec<&str> {
    let list = |key: &str| finding[key].as_array().into_iter().flatten();
    let objects = list("objects").filter_map(|object| object["name"].as_str());
    let paths = list("participants").filter_map(|participant| participant["field_path"].as_str());
    objects.chain(paths).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const COUNTERS: Expected = Expected {
        verdict: "false-sharing",
        names: &["cnt[0]", "cnt[1]"],
    };

    fn finding(verdict: &str, paths: &[&str]) -> Value {
        let participants: Vec<Value> = (paths.iter())
            .map(|path| json!({ "field_path": path }))
            .collect();
        json!({
            "verdict": verdict, "objects": [{ "name": "cnt" }], "severity": { "share": 0.985 },
            "participants": participants, "measured": null,
        })
    }

    fn check(findings: &[Value], expected: bool, gone: bool, words: &str) {
        let report = json!({ "findings": findings, "totals": { "co_running_share": 0.9 } });
        let seen = Seen::read(&report, &COUNTERS).unwrap();
        assert_eq!((seen.expected.is_some(), seen.is_gone()), (expected, gone));
        assert_eq!(seen.words(), words);
    }

    #[test]
    fn the_finding_has_the_verdict_and_all_names() {
        let both = finding("false-sharing", &["cnt[0]", "cnt[1]"]);
        check(&[both], true, false, "false sharing of cnt, at most 98 %");
        let true_sharing = finding("true-sharing", &["cnt[0]", "cnt[1]"]);
        check(
            &[true_sharing],
            false,
            false,
            "true sharing of cnt, at most 98 %",
        );
        let one = finding("false-sharing", &["cnt[0]"]);
        check(&[one], false, false, "false sharing of cnt, at most 98 %");
        let other = finding("true-sharing", &["other"]);
        check(&[other], false, true, "true sharing of cnt, at most 98 %");
        check(&[], false, true, "nothing");
        assert!(Seen::read(&json!({}), &COUNTERS).is_err());
        let report = json!({ "findings": [], "totals": { "co_running_share": 0.12 } });
        let seen = Seen::read(&report, &COUNTERS).unwrap();
        assert_eq!(
            seen.words(),
            "nothing (threads ran side by side in only 12 % of the time)"
        );
    }

    #[test]
    fn a_measured_cost_is_in_words() {
        let json = |judged| json!({ "ratio": 3.95, "low": 3.8, "high": 4.25, "judged": judged });
        let costs = measured(&json("costs")).unwrap();
        assert_eq!(costs, "costs 3.95× [3.80, 4.25]");
        let nothing = measured(&json("nothing")).unwrap();
        assert_eq!(nothing, "no measurable cost, 3.95× [3.80, 4.25]");
        assert_eq!(measured(&Value::Null), None);
    }
}
