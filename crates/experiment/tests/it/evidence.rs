//! What two recordings say together: objects matched by name, and what may be concluded from what is not seen.

use hitm_experiment::{Evidence, Mechanism, Side};
use hitm_model::{
    AccessKind, AccessKinds, Advice, AdviceKind, Avma, ByteRange, Confidence, Evidence as Ground,
    Finding, LineAddress, LineSize, LineView, Nanos, Object, ObjectKind, Participant, Report,
    Sampled, Severity, ThreadGroup, Tid, Totals, Verdict,
};

/// `NAME[+NAME] VERDICT SHARE%`, one finding a line; first `samples=N writers=N co=PERCENT`.
fn report(text: &str) -> Report {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let head = lines.next().unwrap();
    let number = |key: &str| -> u64 {
        let word = head
            .split(' ')
            .find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        word.unwrap().parse().unwrap()
    };
    let writers = number("writers");
    Report {
        machine: None,
        run: None,
        sampler: None,
        child: None,
        line_size: LineSize::new(64).unwrap(),
        totals: Totals {
            samples: number("samples"),
            threads: 3,
            sampled_threads: writers.max(1),
            writing_threads: writers,
            co_running: (writers > 1).then(|| number("co") as f64 / 100.0),
            ..Totals::default()
        },
        findings: lines.map(finding).collect(),
        below_min_share: 0,
        communication: Vec::new(),
        compared: Vec::new(),
        caveats: Vec::new(),
    }
}

fn finding(text: &str) -> Finding {
    let words: Vec<&str> = text.split(' ').collect();
    let share: f64 = words[2].strip_suffix('%').unwrap().parse().unwrap();
    let object = |name: &str| Object {
        kind: ObjectKind::Global,
        name: name.into(),
        type_name: None,
        binary: None,
        section: None,
        address: Avma(0x1000),
        size: None,
        declared: None,
        inferred: None,
    };
    let participant = |tid: u32| Participant {
        threads: ThreadGroup {
            name: "worker".into(),
            tids: vec![Tid(tid)],
        },
        line: 0,
        range: ByteRange {
            start: tid * 8,
            end: tid * 8 + 8,
        },
        kinds: AccessKinds::from(AccessKind::Write),
        field_path: words[0].into(),
        field_type: None,
        object: Some(0),
        samples: 50,
        thread_samples: 100,
        sites: Vec::new(),
    };
    Finding {
        fingerprint: words[0].into(),
        verdict: match words[1] {
            "false" => Verdict::FalseSharing,
            "mixed" => Verdict::Mixed,
            "true" => Verdict::TrueSharing,
            other => panic!("{other}"),
        },
        one_way: false,
        objects: words[0].split('+').map(object).collect(),
        lines: vec![LineView {
            address: LineAddress(Avma(0x1000)),
            samples: 100,
        }],
        participants: vec![participant(1), participant(2)],
        severity: Severity {
            samples: share as u64,
            thread_samples: 100,
            worst_thread: share / 100.0,
        },
        confidence: Confidence::High,
        evidence: vec![Ground::Sampled(Sampled {
            samples: 100,
            met: 80,
            met_disjoint: 80,
            met_overlapping: 0,
            window: Nanos::from_millis(10),
            met_on_other_cpu: 80,
            plain_writes_only: false,
        })],
        advice: Advice {
            kind: AdviceKind::PadElements,
            text: String::new(),
            added_bytes: None,
        },
        next: String::new(),
        caveats: Vec::new(),
    }
}

/// What two recordings say, as a word and the objects.
fn check(a: &str, b: &str, expected: &str) {
    let (a, b) = (report(a), report(b));
    let evidence = Evidence::of(Ok(&a), Ok(&b));
    let said = match &evidence.says {
        Mechanism::FalseSharingGone { objects } => format!("gone {}", objects.join("; ")),
        Mechanism::FalseSharingNew { objects } => format!("new {}", objects.join("; ")),
        Mechanism::FalseSharingMoved { gone, new } => {
            format!("moved {} to {}", gone.join("; "), new.join("; "))
        }
        Mechanism::FalseSharingStays { objects } => format!("stays {}", objects.join("; ")),
        Mechanism::NoFalseSharing => "none".to_owned(),
        Mechanism::CannotTell { why } => format!("cannot tell: {why}"),
    };
    assert_eq!(said, expected, "{evidence:?}");
    let decides = said.starts_with("gone") || said.starts_with("new");
    assert_eq!(evidence.says.decides(), decides);
}

const GOOD: &str = "samples=1000 writers=2 co=90";

fn good(findings: &str) -> String {
    format!("{GOOD}\n{findings}")
}

#[test]
fn false_sharing_goes_comes_moves_or_stays() {
    let packed = good("cnt false 60%");
    check(&packed, GOOD, "gone cnt");
    check(GOOD, &packed, "new cnt");
    check(&packed, &packed, "stays cnt");
    check(GOOD, GOOD, "none");
    check(&packed, &good("other false 9%"), "moved cnt to other");
    check(&packed, &good("cnt true 60%"), "gone cnt");
    check(&good("cnt mixed 30%"), GOOD, "gone cnt");
    check(&good("cnt true 60%"), GOOD, "none");
}

#[test]
fn objects_that_share_a_line_on_one_side_only_are_one_case() {
    let joined = good("epoch+index false 24%");
    check(&joined, &good("index true 3%"), "gone epoch, index");
    check(
        &joined,
        &good("index false 5%\nepoch true 1%"),
        "stays epoch, index",
    );
}

#[test]
fn little_is_as_good_as_none_and_near_the_limit_is_no_difference() {
    check(&good("cnt false 60%"), &good("cnt false 0.5%"), "gone cnt");
    check(&good("cnt false 0.9%"), GOOD, "none");
    check(&good("cnt false 1.2%"), &good("cnt false 0.9%"), "none");
}

#[test]
fn what_was_seen_badly_is_not_gone() {
    let packed = good("cnt false 60%");
    check(
        &packed,
        "samples=50 writers=2 co=90",
        "cannot tell: B: only 50 samples were taken",
    );
    check(
        &packed,
        "samples=900 writers=1",
        "cannot tell: B: only one thread was seen running",
    );
    check(
        &packed,
        "samples=900 writers=2 co=20",
        "cannot tell: B: its threads ran side by side in 20 % of the time only",
    );
    // On a busy machine both sides run apart, and the one can be told from the other all the same.
    check(
        "samples=900 writers=2 co=30\ncnt false 60%",
        "samples=900 writers=2 co=20",
        "gone cnt",
    );
    let none = Evidence::of(Ok(&report(&packed)), Err("refused (EPERM)".to_owned()));
    let Mechanism::CannotTell { why } = none.says else {
        panic!("{none:?}")
    };
    assert_eq!(why, "B: refused (EPERM)");
}

#[test]
fn the_numbers_are_those_of_the_findings() {
    let packed = report(&good("cnt false 60%"));
    let evidence = Evidence::of(Ok(&packed), Ok(&report(GOOD)));
    let sharing = evidence.objects[0].a.as_ref().unwrap();
    assert_eq!((sharing.writers_per_line, sharing.lines), (2, 1));
    assert_eq!((sharing.conflicts, sharing.conflicts_disjoint), (80, 80));
    assert!((sharing.share - 0.6).abs() < 1e-12);
    assert_eq!(evidence.objects[0].b, None);
}

fn lacking(a: &str, b: &str) -> Option<Side> {
    let (a, b) = (report(a), report(b));
    let evidence = Evidence::of(Ok(&a), Ok(&b));
    evidence.too_few_writers().map(|(side, _)| side)
}

#[test]
fn a_side_without_two_threads_that_write_is_noticed() {
    let packed = good("cnt false 60%");
    assert_eq!(lacking(&packed, GOOD), None);
    let one = "samples=900 writers=1";
    assert_eq!(lacking(one, one), Some(Side::A));
    assert_eq!(lacking(&packed, one), Some(Side::B), "its flag is missing");
    assert_eq!(lacking(one, &packed), Some(Side::A));
    let hardly_seen = "samples=99 writers=1";
    assert_eq!(lacking(&packed, hardly_seen), None, "who knows");
    // A writer beside a reader, and the same apart: nothing is missing.
    let beside = "samples=900 writers=1\nflag+cnt false 30%";
    assert_eq!(lacking(beside, one), None);
    assert_eq!(lacking(one, beside), None);
}
