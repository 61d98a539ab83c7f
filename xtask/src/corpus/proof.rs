//! What `hitm prove` must say of a program whose sharing is known, and whether it does.

use std::ops::RangeInclusive;

use hitm_model::Verdict;
use hitm_testkit::{Comparison, Said};

use super::truth::Case;

/// The ratios of threads that share nothing.
const FREE: RangeInclusive<f64> = 0.95..=1.06;

/// What must be measured of a program in one of its layouts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    /// A cost, near what the repair gains.
    Cost,
    /// Nothing: the part that the repair would remove is not told from the rest.
    Anything,
    /// Threads that cost each other nothing.
    Free,
    /// A cost, on the same bytes only.
    TrueSharing,
    /// That they wait for each other, and no number.
    CannotTell,
}

/// One program in one layout, with what was said of it.
#[derive(Debug)]
pub(super) struct Proof {
    /// All groups of threads.
    pub(super) comparisons: Vec<Comparison>,
    /// The share of the time in which threads ran side by side.
    pub(super) co_running: Option<f64>,
}

impl Wanted {
    /// `waits` says that the program's threads wait for each other, which truth.tsv need not know.
    pub(super) fn of(case: &Case<'_>, waits: bool) -> Self {
        match case.verdict {
            _ if waits => Self::CannotTell,
            None => Self::Free,
            Some(Verdict::FalseSharing) => Self::Cost,
            Some(Verdict::TrueSharing) => Self::TrueSharing,
            Some(_) => Self::Anything,
        }
    }

    /// The words for it.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Cost => "a cost",
            Self::Anything => "-",
            Self::Free => "0.95 to 1.06",
            Self::TrueSharing => "true sharing only",
            Self::CannotTell => "cannot tell",
        }
    }

    /// What is wrong with a proof, if anything is.
    pub(super) fn wrong(self, proof: &Proof) -> Option<String> {
        let all = &proof.comparisons;
        let ratios: Vec<f64> = all.iter().flat_map(Comparison::ratios).collect();
        let costs = || all.iter().filter(|it| it.worst().is_some());
        // True sharing need not cost much: it must only not be called false.
        let above = || {
            let all = all.iter();
            all.filter(|it| it.ratios().into_iter().any(|ratio| ratio > 1.0))
        };
        let by_finding = |it: &Comparison| it.verdict.is_some();
        match self {
            Self::Anything => None,
            Self::Cost if costs().any(by_finding) => None,
            Self::Cost => Some("no finding has a cost".to_owned()),
            Self::Free if ratios.is_empty() => Some("no ratio".to_owned()),
            Self::Free => ratios
                .iter()
                .find(|ratio| !FREE.contains(ratio))
                .map(|ratio| format!("{ratio:.3} is not from {} to {}", FREE.start(), FREE.end())),
            Self::TrueSharing if !above().any(by_finding) => {
                Some("no finding has a ratio above 1".to_owned())
            }
            Self::TrueSharing => above()
                .any(|it| !it.only_true_sharing())
                .then(|| "a ratio is not attributed to true sharing only".to_owned()),
            Self::CannotTell if !ratios.is_empty() => {
                Some(format!("a ratio, {:.2}, though they wait", ratios[0]))
            }
            Self::CannotTell => {
                let refused = all.iter().any(|it| it.refuses("they-wait"));
                (!refused).then(|| "not said that they wait".to_owned())
            }
        }
    }
}

impl Proof {
    /// The highest cost that a thread of a finding was measured to pay.
    pub(super) fn highest(&self) -> Option<f64> {
        let joined = self.comparisons.iter().filter(|it| it.verdict.is_some());
        joined.filter_map(Comparison::worst).max_by(f64::total_cmp)
    }

    /// How far the highest cost is from the slowdown, as |ln(cost ÷ slowdown)|.
    pub(super) fn error(&self, slowdown: f64) -> Option<f64> {
        Some((self.highest()? / slowdown).ln().abs())
    }

    /// A line for each group of threads.
    pub(super) fn lines(&self) -> Vec<String> {
        self.comparisons.iter().map(line).collect()
    }
}

fn line(comparison: &Comparison) -> String {
    let threads: Vec<String> = comparison
        .threads
        .iter()
        .map(|thread| {
            let tid = thread.tid.map_or("all".to_owned(), |tid| tid.to_string());
            let said = match &thread.said {
                Said::Ratio {
                    ratio, low, high, ..
                } => format!("{ratio:.2} [{low:.2}, {high:.2}]"),
                Said::Nothing { reason, .. } => reason.clone(),
            };
            format!("{} ({tid}) {said}", thread.name)
        })
        .collect();
    let whose = comparison.verdict.as_deref().unwrap_or("no shared line");
    let mut line = format!("{}: {whose}", threads.join(", "));
    if let Some(part) = comparison.false_part {
        line += &format!(", {:.0} % of it false", part * 100.0);
    }
    if comparison.worst().is_some() && !comparison.causes.is_empty() {
        line += &format!(", likely {}", comparison.causes.join(" or "));
    }
    line
}

#[cfg(test)]
mod tests {
    use hitm_testkit::ProvenThread;

    use super::*;

    fn said(verdict: Option<&str>, false_part: f64, ratios: &[f64]) -> Comparison {
        let thread = |&ratio: &f64| ProvenThread {
            name: "t".into(),
            tid: Some(7),
            said: Said::Ratio {
                ratio,
                low: ratio - 0.1,
                high: ratio + 0.1,
                floor: 1.02,
                costs: ratio > 1.1,
            },
        };
        Comparison {
            verdict: verdict.map(str::to_owned),
            threads: ratios.iter().map(thread).collect(),
            false_part: verdict.map(|_| false_part),
            causes: vec!["bandwidth".to_owned()],
        }
    }

    fn refused(reason: &str) -> Comparison {
        let mut comparison = said(Some("false-sharing"), 1.0, &[1.0]);
        comparison.threads[0].said = Said::Nothing {
            reason: reason.into(),
            text: "why".into(),
        };
        comparison
    }

    fn check(wanted: Wanted, comparisons: Vec<Comparison>, wrong: &str) {
        let proof = Proof {
            comparisons,
            co_running: None,
        };
        assert_eq!(wanted.wrong(&proof).unwrap_or_default(), wrong);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let finding = |part, ratios: &[f64]| said(Some("false-sharing"), part, ratios);
        check(Wanted::Cost, vec![finding(1.0, &[1.0, 2.8])], "");
        check(
            Wanted::Cost,
            vec![finding(1.0, &[1.0])],
            "no finding has a cost",
        );
        check(
            Wanted::Cost,
            vec![said(None, 0.0, &[2.0])],
            "no finding has a cost",
        );
        check(Wanted::Free, vec![said(None, 0.0, &[0.951, 1.059])], "");
        check(
            Wanted::Free,
            vec![said(None, 0.0, &[1.061])],
            "1.061 is not from 0.95 to 1.06",
        );
        check(Wanted::Free, vec![refused("no-measure")], "no ratio");
        check(Wanted::TrueSharing, vec![finding(0.0, &[4.0])], "");
        check(
            Wanted::TrueSharing,
            vec![finding(0.0, &[4.0]), finding(0.3, &[4.0])],
            "a ratio is not attributed to true sharing only",
        );
        check(Wanted::TrueSharing, vec![finding(0.0, &[1.02])], "");
        check(
            Wanted::TrueSharing,
            vec![finding(0.0, &[0.99])],
            "no finding has a ratio above 1",
        );
        check(Wanted::CannotTell, vec![refused("they-wait")], "");
        check(
            Wanted::CannotTell,
            vec![refused("no-measure")],
            "not said that they wait",
        );
        check(
            Wanted::CannotTell,
            vec![finding(1.0, &[20.0])],
            "a ratio, 20.00, though they wait",
        );
        check(Wanted::Anything, Vec::new(), "");
    }

    #[test]
    fn the_error_is_that_of_the_thread_that_pays_most() {
        let proof = Proof {
            comparisons: vec![
                said(Some("false-sharing"), 1.0, &[1.0, 2.0]),
                said(None, 0.0, &[9.0]),
            ],
            co_running: None,
        };
        assert_eq!(proof.highest(), Some(2.0));
        assert_eq!(proof.error(2.0), Some(0.0));
        assert!((proof.error(4.0).unwrap() - 2.0_f64.ln()).abs() < 1e-9);
        assert_eq!(
            proof.lines(),
            [
                "t (7) 1.00 [0.90, 1.10], t (7) 2.00 [1.90, 2.10]: false-sharing, 100 % of it false, likely bandwidth",
                "t (7) 9.00 [8.90, 9.10]: no shared line, likely bandwidth",
            ]
        );
    }
}
