//! Measured costs in reports made by hand, and what a program wants of them.

use hitm_testkit::{ProofWanted, comparisons, fixtures};
use serde_json::{Value, json};

fn ratio(name: &str, ratio: f64, judged: &str) -> Value {
    let (low, high) = (ratio - 0.1, ratio + 0.1);
    let cost = json!({"ratio": ratio, "low": low, "high": high, "floor": 1.02, "judged": judged});
    json!({"name": name, "tid": 7, "cost": cost, "no_cost": null})
}

fn none(name: &str, reason: &str) -> Value {
    json!({"name": name, "tid": 8, "cost": null, "no_cost": {"reason": reason, "text": "why"}})
}

/// A report with one group of threads: of a finding with that part of false sharing, or with causes and no finding.
fn report(false_part: Option<f64>, causes: &[&str], threads: &[Value]) -> Value {
    let causes: Vec<Value> = causes.iter().map(|kind| json!({"kind": kind})).collect();
    let split = false_part.map(|part| json!({"false_sharing": part, "true_sharing": 1.0 - part}));
    let group =
        json!({"origin": "co-located", "threads": threads, "split": split, "causes": causes});
    if false_part.is_some() {
        let sampled = json!({"origin": "sampled"});
        let finding = json!({"verdict": "false-sharing", "evidence": [sampled, group]});
        json!({"findings": [finding], "compared": []})
    } else {
        json!({"findings": [], "compared": [group]})
    }
}

/// Compares the words that a report fulfils with those listed.
fn check(report: &Value, fulfilled: &str) {
    let comparisons = comparisons(report).unwrap();
    let all = "cost true-sharing free waits no-measure prefetcher bandwidth capacity";
    let met: Vec<&str> = all
        .split(' ')
        .filter(|word| ProofWanted::parse(word).unwrap().met(&comparisons))
        .collect();
    assert_eq!(met.join(" "), fulfilled, "{report}");
}

#[test]
fn what_a_report_says_is_told_apart() {
    let (pays, pays_not) = (ratio("a", 2.8, "costs"), ratio("b", 1.02, "nothing"));
    check(
        &report(Some(1.0), &[], &[pays.clone(), pays_not.clone()]),
        "cost",
    );
    check(
        &report(Some(0.02), &[], std::slice::from_ref(&pays)),
        "cost true-sharing",
    );
    check(
        &report(
            Some(0.5),
            &[],
            &[pays_not.clone(), ratio("b", 0.97, "nothing")],
        ),
        "free",
    );
    check(&report(None, &[], std::slice::from_ref(&pays_not)), "free");
    // One that cannot be told apart from a cost is not free.
    check(
        &report(Some(1.0), &[], &[ratio("a", 1.3, "within-noise")]),
        "",
    );
    check(
        &report(
            None,
            &["prefetcher", "bandwidth"],
            &[pays_not, pays.clone()],
        ),
        "prefetcher",
    );
    check(
        &report(None, &["bandwidth"], std::slice::from_ref(&pays)),
        "bandwidth",
    );
    check(&report(None, &[], std::slice::from_ref(&pays)), "");
    check(
        &report(
            Some(1.0),
            &[],
            &[none("a", "they-wait"), none("b", "they-wait")],
        ),
        "waits",
    );
    // Who says a number all the same has not seen that they wait.
    check(
        &report(Some(1.0), &[], &[none("a", "they-wait"), pays.clone()]),
        "cost",
    );
    check(
        &report(Some(1.0), &[], &[none("a", "no-measure"), pays]),
        "cost no-measure",
    );
    check(&report(None, &[], &[none("a", "too-few-windows")]), "");
    check(&json!({"findings": [], "compared": []}), "");
}

#[test]
fn a_disturbed_comparison_is_known() {
    let disturbed = |reason: &str| {
        let report = report(None, &[], &[none("a", reason)]);
        comparisons(&report).unwrap()[0].disturbed()
    };
    assert!(disturbed("too-few-windows") && disturbed("ended"));
    assert!(!disturbed("they-wait"));
}

#[test]
fn reports_of_another_form_are_errors() {
    for report in [
        json!({"findings": []}),
        json!({"findings": [{}], "compared": []}),
        json!({"findings": [], "compared": [{"threads": [{"name": "a", "cost": null, "no_cost": null}], "causes": []}]}),
    ] {
        assert!(comparisons(&report).is_err(), "{report}");
    }
}

#[test]
fn every_kind_of_answer_is_wanted_of_some_fixture() {
    let proofs: Vec<_> = fixtures()
        .into_iter()
        .flat_map(|fixture| fixture.proofs)
        .flat_map(|(_, wanted)| wanted)
        .collect();
    for word in "cost true-sharing free waits no-measure prefetcher bandwidth capacity".split(' ') {
        let wanted = ProofWanted::parse(word).unwrap();
        assert!(proofs.contains(&wanted), "{word}");
    }
}
