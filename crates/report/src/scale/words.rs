//! What is said of a scaling experiment, in sentences.

use hitm_experiment::scale::{
    Ended, Fit, Judgement, Meaning, NoFit, NoValue, NoVerdict, PointEstimate, Scaled, Term,
    Threads, Verdict, Work,
};
use hitm_experiment::{LogRatio, Range};

use crate::words::counted;

/// The verdict in a sentence.
pub(super) fn verdict(scaled: &Scaled) -> String {
    said(scaled, &scaled.judgement.verdict)
}

fn said(scaled: &Scaled, verdict: &Verdict) -> String {
    match verdict {
        Verdict::Linear => {
            "Linear: each thread gives at least 90 % of what one alone does, at every point"
                .to_owned()
        }
        Verdict::SubLinear { saturates: None } => {
            "Sub-linear: with the most threads, each gives less than 90 % of what one alone does"
                .to_owned()
        }
        Verdict::SubLinear {
            saturates: Some(from),
        } => format!(
            "Saturating: beyond {}, more of them give less than 5 % more",
            threads(*from)
        ),
        Verdict::Negative {
            slow,
            fast,
            effect,
            interval,
        } => format!(
            "Negative scaling: slower on {slow} than on {fast} ({} the throughput, 95 % interval {}): look for a shared line \
             before you blame the scheduler",
            times(*effect),
            range(*interval)
        ),
        Verdict::Undecided { more_rounds } => format!(
            "Undecided: {}",
            match more_rounds {
                Some(more) => format!(
                    "about {} more of each point would tell, at this noise (--runs {})",
                    counted(*more as u64, "run"),
                    rounds(scaled) + more
                ),
                None =>
                    "the noise is too great, or it is just at the border between linear and not"
                        .to_owned(),
            }
        ),
        Verdict::SayWork(both) => format!(
            "It depends on what a run does. If all runs do the same work (--work fixed): {}. If each thread does the same work \
             (--work per-thread): {}",
            in_a_word(&both.fixed),
            in_a_word(&both.per_thread)
        ),
        Verdict::None(why) => format!("No verdict: {}", no_verdict(scaled, *why)),
    }
}

/// The verdict in a word.
pub(super) fn in_a_word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Linear => "linear",
        Verdict::SubLinear { saturates: None } => "sub-linear",
        Verdict::SubLinear { saturates: Some(_) } => "saturating",
        Verdict::Negative { .. } => "negative scaling",
        Verdict::Undecided { .. } => "undecided",
        Verdict::SayWork(_) => "it depends on --work",
        Verdict::None(_) => "no verdict",
    }
}

fn no_verdict(scaled: &Scaled, why: NoVerdict) -> String {
    match why {
        NoVerdict::TooFewPoints if scaled.rounds.plan.processors < 2 => {
            "there is one processor only, so no two threads run at once".to_owned()
        }
        NoVerdict::TooFewPoints => format!(
            "it takes two numbers of threads, both at most {} (the processors), with a run that counts",
            scaled.rounds.plan.processors
        ),
        NoVerdict::NotSideBySide {
            threads,
            used,
            told: true,
        } => format!(
            "{threads} threads used {used:.2} processors together, so they hardly ever ran at the same time: does {{n}} set \
             their number, does one wait for the other all the time, or is the run too short (start and end included)?"
        ),
        NoVerdict::NotSideBySide {
            threads,
            used,
            told: false,
        } => format!(
            "{threads} threads used {used:.2} processors together, and this kernel does not tell whether they waited for \
             processors or for each other"
        ),
    }
}

/// Complete rounds that were planned.
fn rounds(scaled: &Scaled) -> usize {
    let counted = scaled
        .rounds
        .points
        .iter()
        .filter(|point| scaled.rounds.plan.fits(point.threads));
    counted
        .map(|point| point.counted().count())
        .filter(|runs| *runs > 0)
        .min()
        .unwrap_or(0)
}

/// What limits what was said.
pub(super) fn caveats(scaled: &Scaled) -> Vec<String> {
    let mut caveats = Vec::new();
    let judgement = &scaled.judgement;
    caveats.extend(ended(scaled));
    for (threads, failure) in scaled.rounds.failures() {
        caveats.push(format!(
            "n = {threads} failed: {}",
            match failure {
                NoValue::Failed(why) => why.clone(),
                NoValue::NotPositive(value) =>
                    format!("its metric is {value}, and only positive values have a ratio"),
            }
        ));
    }
    let least = scaled
        .rounds
        .points
        .iter()
        .filter(|point| scaled.rounds.plan.fits(point.threads))
        .map(|point| point.counted().count())
        .min();
    if least.is_some_and(|runs| (1..judgement.rounds_needed).contains(&runs)) {
        caveats.push(format!(
            "{} of a point cannot give a 95 % interval for {} at once, whatever they show: {} can",
            counted(least.unwrap_or(0) as u64, "run"),
            counted(scaled.rounds.plan.fitting().count() as u64, "point"),
            judgement.rounds_needed
        ));
    }
    if let Meaning::Time(None) = judgement.meaning {
        caveats.push(
            "what the times are of was not said: they are read as those of the same work at every point (--work fixed); if \
             each thread does so much work, say --work per-thread"
                .to_owned(),
        );
    }
    let sliced = judgement.points.iter().filter(|point| point.time_sliced);
    if sliced.count() > 0 {
        caveats.push(format!(
            "* more threads than processors ({}): time-sliced, neither judged nor fitted",
            scaled.rounds.plan.processors
        ));
    }
    caveats
}

fn ended(scaled: &Scaled) -> Option<String> {
    Some(match scaled.rounds.ended {
        Ended::AllRun => return None,
        Ended::Budget => "the time was over before all rounds were run (more: --budget SECONDS)".to_owned(),
        Ended::Disturbed => "others used the processors in too many runs, which do not count (try again on an idle machine; \
                             how many may be repeated: --repeats N)"
            .to_owned(),
        Ended::Running => "it has not ended: this is what was measured so far".to_owned(),
        Ended::Interrupted => "interrupted: this is what was measured so far".to_owned(),
        Ended::NothingToCompare => "there is nothing left to compare with".to_owned(),
    })
}

/// The law, or why there is none.
pub(super) fn law(judgement: &Judgement, first: Option<Threads>) -> Vec<String> {
    let fit = match &judgement.fit {
        Ok(fit) => fit,
        Err(_) if judgement.points.len() < 2 => return Vec::new(),
        Err(why) => return no_fit(*why, judgement, first),
    };
    let mut lines = vec![format!(
        "Universal Scalability Law: contention σ = {}, coherence κ = {} (least squares on logarithms, 95 % intervals by \
         profile likelihood)",
        term(fit.contention),
        term(fit.coherence)
    )];
    if !fit.follows {
        lines.push(format!(
            "The points do not follow that law: one is {:.0} % away from it, which noise does not explain. Do not rely on the \
             terms",
            fit.farthest * 100.0
        ));
    } else if let Some(peak) = fit.peak() {
        lines.push(peak_within(fit, peak, judgement));
    }
    lines
}

fn peak_within(fit: &Fit, peak: f64, judgement: &Judgement) -> String {
    let most = judgement.points.iter().filter(|point| !point.time_sliced);
    let most = most
        .map(|point| f64::from(point.threads.0))
        .fold(0.0, f64::max);
    if peak <= most {
        format!(
            "By the law throughput is greatest with {peak:.1} threads: {:.2} times that of one",
            fit.at(peak) / fit.one
        )
    } else {
        format!(
            "By the law throughput is greatest beyond {most} threads, where nothing was measured"
        )
    }
}

fn no_fit(why: NoFit, judgement: &Judgement, first: Option<Threads>) -> Vec<String> {
    match why {
        NoFit::TooFewPoints { .. } => {
            let mut lines = Vec::new();
            let fits = |point: &&PointEstimate| !point.time_sliced && point.speed_up.is_some();
            if let (Some(first), Some(point)) = (first, judgement.points.iter().find(fits))
                && let (Some(speed_up), Some(interval)) = (point.speed_up, point.interval)
            {
                lines.push(format!(
                    "n = {} to n = {first}: {} the throughput, 95 % interval {}",
                    point.threads,
                    times(speed_up),
                    range(interval)
                ));
            }
            lines.push("Too few cores to fit the Universal Scalability Law: it takes 4 points with n ≤ processors".to_owned());
            lines
        }
        NoFit::TooFewRounds => vec!["Too few complete rounds to fit the Universal Scalability Law".to_owned()],
        NoFit::MoreThanLinear => vec![
            "The Universal Scalability Law does not describe it: more threads give more than their share (each brings a cache \
             of its own, perhaps)"
                .to_owned(),
        ],
        NoFit::WorkNotSaid => vec!["No fit of the Universal Scalability Law: say --work fixed or --work per-thread".to_owned()],
    }
}

fn term(term: Term) -> String {
    let number = |value: f64| match value {
        value if value.is_infinite() => "?".to_owned(),
        0.0 => "0".to_owned(),
        value if value < 0.001 => format!("{value:.1e}"),
        value => format!("{value:.4}"),
    };
    format!(
        "{} [{}, {}]",
        number(term.estimate),
        number(term.low),
        number(term.high)
    )
}

/// What throughput is, for the head of its column.
pub(super) fn throughput(meaning: Meaning) -> &'static str {
    match meaning {
        Meaning::Throughput => "throughput",
        Meaning::Time(None | Some(Work::Fixed)) => "runs/s",
        Meaning::Time(Some(Work::PerThread)) => "threads' work/s",
    }
}

/// What the values are.
pub(super) fn meaning(meaning: Meaning) -> &'static str {
    match meaning {
        Meaning::Throughput => "the throughput of all threads together, as the command prints it",
        Meaning::Time(None) => "time of a run; of which work was not said",
        Meaning::Time(Some(Work::Fixed)) => "time of a run; all runs do the same work",
        Meaning::Time(Some(Work::PerThread)) => "time of a run; each thread does the same work",
    }
}

fn threads(threads: Threads) -> String {
    counted(u64::from(threads.0), "thread")
}

/// `0.29 times`.
pub(super) fn times(ratio: LogRatio) -> String {
    format!("{} times", factor(ratio))
}

/// `0.29`, or `?` if it is not known.
pub(super) fn factor(ratio: LogRatio) -> String {
    match ratio.ratio() {
        ratio if ratio == 0.0 || ratio.is_infinite() => "?".to_owned(),
        ratio if ratio < 0.1 => format!("{ratio:.3}"),
        ratio if ratio < 10.0 => format!("{ratio:.2}"),
        ratio => format!("{ratio:.1}"),
    }
}

/// `0.28 … 0.31`.
pub(super) fn range(range: Range) -> String {
    match range.low.ln().is_finite() || range.high.ln().is_finite() {
        true => format!("{} … {}", factor(range.low), factor(range.high)),
        false => "–".to_owned(),
    }
}
