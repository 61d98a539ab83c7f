//! Reports made by hand, and what is wrong with them.

use hitm_model::Verdict;
use hitm_testkit::{Claim, judge, parse_truth};
use serde_json::{Value, json};

const TRUTH: &str = "\
starting
addr thread=0 rw=w name=quota.in_use at=0x1010 size=8 line=0x1000 off=16
addr thread=1 rw=r name=quota.capacity at=0x1018 size=8 line=0x1000 off=24
done
";

fn claims(text: &str) -> Vec<Claim> {
    let truths = parse_truth(text).unwrap();
    let claim = |truth| Claim {
        truth,
        ending: None,
        named: true,
    };
    truths.into_iter().map(claim).collect()
}

fn participant(tid: u64, kinds: &str, range: [u64; 2], path: &str) -> Value {
    json!({
        "threads": {"name": "worker", "tids": [tid]},
        "line": 1,
        "bytes": {"start": range[0], "end": range[1]},
        "access": {
            "read": kinds != "W",
            "write": kinds != "R",
            "atomic": kinds == "atomic",
        },
        "field_path": path,
    })
}

fn report(verdict: &str, participants: &[Value]) -> Value {
    json!({
        "run": {"pid": 100},
        "totals": {"co_running_share": 0.75},
        "findings": [{
            "verdict": verdict,
            "objects": [{"name": "quota"}],
            "lines": [{"address": "0xfc0"}, {"address": "0x1000"}],
            "participants": participants,
        }],
    })
}

/// What the judge says of a report about the quota, joined.
fn check(verdict: &str, participants: &[Value], wrong: &str) {
    let report = report(verdict, participants);
    let judgement = judge(&report, Some(Verdict::FalseSharing), &claims(TRUTH)).unwrap();
    assert_eq!(judgement.wrong.join("; "), wrong);
    assert_eq!(judgement.hit, wrong.is_empty());
    assert_eq!(judgement.co_running, Some(0.75));
}

#[test]
fn a_report_is_right_or_every_fault_of_it_is_said() {
    let writer = participant(101, "atomic", [16, 24], "(heap) Quota.in_use");
    let reader = participant(102, "R", [24, 32], "(heap) Quota.capacity");
    check("false-sharing", &[writer.clone(), reader.clone()], "");
    check("false-sharing", &[reader.clone(), writer.clone()], "");
    check(
        "true-sharing",
        &[writer.clone(), reader.clone()],
        "no false-sharing finding; 1 unexpected of true-sharing of quota",
    );
    check(
        "false-sharing",
        std::slice::from_ref(&writer),
        "T1 quota.capacity: no such thread in the finding",
    );
    check(
        "false-sharing",
        &[
            writer.clone(),
            participant(102, "RW", [24, 32], "Quota.capacity"),
        ],
        "T1 quota.capacity: not reads",
    );
    check(
        "false-sharing",
        &[
            writer.clone(),
            participant(102, "R", [24, 32], "Quota.overcapacity"),
        ],
        "T1 quota.capacity: called Quota.overcapacity",
    );
    check(
        "false-sharing",
        &[
            writer.clone(),
            participant(102, "R", [32, 40], "Quota.limit"),
        ],
        "T1 quota.capacity: not touched, but Quota.limit",
    );
    // The threads the wrong way round.
    let swapped = [
        participant(102, "W", [16, 24], "Quota.in_use"),
        participant(101, "R", [24, 32], "Quota.capacity"),
    ];
    check(
        "false-sharing",
        &swapped,
        "T0 quota.in_use: not touched, but Quota.capacity; T1 quota.capacity: not touched, but Quota.in_use",
    );
    // The main thread is not a worker.
    let main = participant(100, "R", [24, 32], "Quota.capacity");
    check("false-sharing", &[writer, reader, main], "");
}

#[test]
fn where_nothing_is_wanted_every_finding_is_one_too_many() {
    let empty = json!({"findings": [], "totals": {}});
    let judgement = judge(&empty, None, &[]).unwrap();
    assert!(judgement.hit && judgement.wrong.is_empty());
    let judgement = judge(&report("true-sharing", &[]), None, &[]).unwrap();
    assert_eq!(judgement.extra, 1);
    assert_eq!(judgement.wrong, ["1 unexpected of true-sharing of quota"]);
}

#[test]
fn a_part_of_what_is_named_may_be_named_itself() {
    let truth = "addr thread=* rw=w name=db.mutex at=0x1000 size=16 line=0x1000 off=0";
    let part = |tid, path| participant(tid, "atomic", [0, 4], path);
    let judged = |second| {
        let report = report(
            "true-sharing",
            &[part(101, "db.mutex.inner.futex"), part(102, second)],
        );
        judge(&report, Some(Verdict::TrueSharing), &claims(truth))
            .unwrap()
            .wrong
    };
    assert!(judged("db.mutex").is_empty());
    assert!(judged("db.mutex[1].x").is_empty());
    assert_eq!(judged("db.tracer"), ["T1 db.mutex: called db.tracer"]);
}

#[test]
fn a_report_of_another_form_is_an_error() {
    assert!(judge(&json!({"finding": []}), None, &[]).is_err());
    assert!(judge(&json!({"findings": [{"verdict": 1}]}), None, &[]).is_err());
    assert_eq!(
        parse_truth("addr thread=x rw=w"),
        Err("addr thread=x rw=w".into())
    );
}
