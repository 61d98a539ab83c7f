//! `--fail-on`: what is understood, and what fails.

use hitm_model::{Caveat, Report, Severity, Verdict};
use hitm_report::{FailOn, cannot_judge, gate};

use crate::costs::with_high;
use crate::reports;

#[test]
fn gates_are_parsed_and_shown_the_same() {
    let check = |text: &str, shown: &str| {
        let parsed: FailOn = text.parse().unwrap();
        assert_eq!(parsed.to_string(), shown, "{text}");
        assert_eq!(shown.parse::<FailOn>().unwrap(), parsed, "{text}");
    };
    check("never", "never");
    check("any", "any");
    check("any:0", "any");
    check("any:5%", "any:5%");
    check("any:5", "any:5%");
    check("any:0.5 %", "any:0.5%");
    check("any:100%", "any:100%");
    check("false-sharing", "false-sharing");
    check("false-sharing:12.5%", "false-sharing:12.5%");
}

#[test]
fn what_is_not_understood_is_told_with_what_would_be() {
    let check = |text: &str, expected: &str| {
        let error = text.parse::<FailOn>().unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    };
    check("", "`` is not a gate: use `false-sharing`");
    check("true-sharing", "`true-sharing` is not a gate");
    check("Any", "`Any` is not a gate");
    check("never:5%", "`never` takes no share");
    for share in ["", "%", "x", "-1", "101", "nan", "inf", "5%%"] {
        check(
            &format!("any:{share}"),
            &format!("`{share}` is not a share from 0 to 100 %: give it as in `--fail-on any:5%`"),
        );
    }
}

fn with(verdict: Verdict, percent: u64, worst_thread: f64) -> Report {
    let mut report = reports::array();
    report.findings[0].verdict = verdict;
    report.findings[0].severity = Severity {
        samples: percent,
        thread_samples: 100,
        worst_thread,
    };
    report
}

#[test]
fn verdicts_count_or_not() {
    let check = |verdict, false_sharing, any| {
        let report = with(verdict, 50, 0.5);
        assert_eq!(
            gate(&report, "false-sharing".parse().unwrap()),
            false_sharing,
            "{verdict}"
        );
        assert_eq!(gate(&report, "any".parse().unwrap()), any, "{verdict}");
        assert!(!gate(&report, FailOn::Never), "{verdict}");
    };
    check(Verdict::FalseSharing, true, true);
    check(Verdict::Mixed, true, true);
    check(Verdict::TrueSharing, false, true);
    check(Verdict::Unproven, false, true);
    check(Verdict::LockAndData, false, false);
}

#[test]
fn the_least_share_is_met_by_all_or_by_one_thread() {
    let check = |percent, worst_thread, fail_on: &str, expected| {
        let report = with(Verdict::FalseSharing, percent, worst_thread);
        assert_eq!(
            gate(&report, fail_on.parse().unwrap()),
            expected,
            "{percent} {worst_thread} {fail_on}"
        );
    };
    check(5, 0.05, "any:5%", true);
    check(4, 0.04, "any:5%", false);
    check(4, 0.97, "any:5%", true);
    check(4, 0.97, "false-sharing:98%", false);
    check(0, 0.0, "any", true);
}

#[test]
fn a_measured_cost_lowers_the_share_and_never_raises_it() {
    let check = |sampled, highs, fail_on: &str, expected| {
        let report = with_high(with(Verdict::FalseSharing, sampled, 0.0), highs);
        assert_eq!(
            gate(&report, fail_on.parse().unwrap()),
            expected,
            "{sampled} {highs:?} {fail_on}"
        );
    };
    // 1 - 1 / 1.25 is a fifth of the time.
    check(97, [Some(1.25), Some(1.02)], "false-sharing:19%", true);
    check(97, [Some(1.25), Some(1.02)], "false-sharing:21%", false);
    check(97, [Some(1.02), Some(1.25)], "any:21%", false);
    check(97, [Some(1.0), Some(1.0)], "any:1%", false);
    // Slower together: that may hide a cost.
    check(97, [Some(0.9), Some(1.0)], "any:1%", true);
    check(10, [Some(5.0), Some(5.0)], "any:11%", false);
    check(10, [Some(5.0), Some(5.0)], "any:10%", true);
    // A thread without a ratio may be the one that pays.
    check(97, [Some(1.02), None], "any:50%", true);
    check(97, [Some(f64::NAN), Some(1.0)], "any:50%", true);
    check(97, [Some(f64::INFINITY), Some(1.0)], "any:97%", true);
    // Without a least share it does not matter.
    check(97, [Some(1.0), Some(1.0)], "any", true);
    check(97, [Some(1.0), Some(1.0)], "false-sharing", true);
}

#[test]
fn one_finding_of_many_is_enough_and_none_is_not() {
    let any = "any".parse().unwrap();
    assert!(gate(&reports::several(), any));
    assert!(!gate(&reports::empty(), any));
    assert!(!gate(&reports::bare(), any));
}

#[test]
fn without_evidence_nothing_passes() {
    let whole = || with(Verdict::LockAndData, 50, 0.5);
    let check = |what: &str, report: &Report, expected: Option<&str>| {
        for fail_on in ["any", "false-sharing", "any:5%"] {
            let why = cannot_judge(report, fail_on.parse().unwrap());
            match expected {
                None => assert_eq!(why, None, "{what}"),
                Some(text) => assert!(
                    why.as_ref().is_some_and(|why| why.contains(text)),
                    "{what}: {why:?}"
                ),
            }
        }
        assert_eq!(cannot_judge(report, FailOn::Never), None, "{what}");
    };
    check("whole", &whole(), None);

    let mut report = whole();
    report.totals.samples = 0;
    check(
        "no samples",
        &report,
        Some("no sample was taken; run it for longer"),
    );

    let undecoded = |undecoded| {
        let mut report = whole();
        (report.totals.samples, report.totals.undecoded) = (101, undecoded);
        report
    };
    check("less than half undecoded", &undecoded(50), None);
    let mut report = undecoded(51);
    check(
        "half undecoded",
        &report,
        Some("the code of 51 of 101 samples could not be decoded"),
    );
    report.caveats.push(Caveat::BuildIdDiffers {
        path: "/bin/rebuilt".into(),
    });
    check(
        "rebuilt",
        &report,
        Some("could not be decoded: /bin/rebuilt is not the build that was recorded; record again"),
    );

    for caveat in [
        Caveat::RecordingTruncated,
        Caveat::RecordingDamaged { blocks: 1 },
        Caveat::RecordingStopped {
            why: "no space".into(),
        },
        Caveat::RecordingNewer {
            version: 2,
            known: 1,
            events: 3,
        },
    ] {
        let mut report = whole();
        report.caveats.push(caveat.clone());
        check(caveat.code(), &report, Some(&caveat.observation()));
        assert!(
            cannot_judge(&report, "any".parse().unwrap())
                .unwrap()
                .ends_with(&caveat.remedy())
        );
    }
    let mut report = whole();
    report.caveats.push(Caveat::RecordingNewer {
        version: 2,
        known: 1,
        events: 0,
    });
    check("newer, but all known", &report, None);
}
