//! The types of the JSON document of a scaling experiment, and how they are made. Their documentation becomes the schema's.

use std::io;

use hitm_experiment::scale as experiment;
use hitm_experiment::{LogRatio, Range, Seconds};
use schemars::JsonSchema;
use serde::Serialize;

use super::{SCALE_JSON_VERSION, words};

/// One command with different numbers of threads, run in turn.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "hitm-scale")]
pub(super) struct Document {
    /// What kind of document this is.
    schema: SchemaName,
    /// The version of the document's format.
    #[schemars(extend("const" = SCALE_JSON_VERSION))]
    version: u32,
    /// The version of the hitm that made it.
    hitm: &'static str,
    /// The machine.
    machine: String,
    /// Processors that the command may use: by its affinity and the quotas of its control groups.
    processors: usize,
    /// The command, with `{n}` for the number of threads.
    command: Vec<String>,
    /// Variables that were set for it, perhaps with `{n}`.
    variables: Vec<Variable>,
    /// What was measured.
    metric: String,
    /// Its unit, empty for a number that the command prints.
    unit: &'static str,
    /// What the values are of.
    meaning: Meaning,
    /// The verdict.
    verdict: Verdict,
    /// Of times whose work was not said: the verdict if all runs do the same work.
    verdict_if_fixed: Option<Verdict>,
    /// Of times whose work was not said: the verdict if each thread does the same work.
    verdict_if_per_thread: Option<Verdict>,
    /// The verdict in a sentence.
    says: String,
    /// Of negative scaling: which points.
    slower: Option<Slower>,
    /// Of an undecided verdict: about so many more runs of each point would tell.
    more_runs: Option<usize>,
    /// From this number of threads on, more were shown to give less than 5 % more.
    saturates: Option<u32>,
    /// Smaller losses are not called negative scaling, in percent.
    floor_percent: f64,
    /// Runs of each point without which there is no interval, whatever they show.
    runs_needed: usize,
    /// Why no more was run.
    ended: Ended,
    /// The points, ascending.
    points: Vec<Point>,
    /// The Universal Scalability Law; null if it was not fitted.
    law: Option<Law>,
    /// Why it was not.
    no_law: Option<NoLaw>,
    /// What limits what is said, in sentences.
    caveats: Vec<String>,
    /// What the lines do at the slowest point; null if that was not looked at.
    evidence: Option<Evidence>,
}

/// The name of this kind of document.
#[derive(Serialize, JsonSchema)]
enum SchemaName {
    #[serde(rename = "hitm-scale")]
    HitmScale,
}

/// A variable of the environment.
#[derive(Serialize, JsonSchema)]
struct Variable {
    /// Its name.
    name: String,
    /// Its value.
    value: String,
}

/// What the values are of.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Meaning {
    /// The throughput of all threads together.
    Throughput,
    /// The time of a run, all of which do the same work.
    TimeOfFixedWork,
    /// The time of a run in which each thread does the same work.
    TimeOfWorkPerThread,
    /// The time of a run; of which work was not said. Throughput and speed-up are those of fixed work.
    TimeOfUnknownWork,
}

/// The verdict.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    /// Each thread gives at least 90 % of what one alone does, at every point.
    Linear,
    /// With the most threads, each gives less than that.
    SubLinear,
    /// More threads are slower.
    Negative,
    /// It is not known.
    Undecided,
    /// It depends on what the times are of, which was not said.
    DependsOnWork,
    /// Nothing can be said.
    None,
}

/// Which points are slower than which.
#[derive(Serialize, JsonSchema)]
struct Slower {
    /// Threads of the slower point.
    slow: u32,
    /// Threads of the faster one.
    fast: u32,
    /// The slower one's throughput by the faster one's.
    ratio: Interval,
}

/// A ratio with its interval.
#[derive(Serialize, JsonSchema)]
struct Interval {
    /// The estimate.
    estimate: f64,
    /// The lower end, with 95 % for all points together; null if it has none.
    low: Option<f64>,
    /// The upper end.
    high: Option<f64>,
}

/// A number of threads.
#[derive(Serialize, JsonSchema)]
struct Point {
    /// The number.
    threads: u32,
    /// There are fewer processors: the threads take turns. Such a point is neither judged nor fitted.
    time_sliced: bool,
    /// The median of the metric over the runs that count; null if there are none.
    median: Option<f64>,
    /// The median of the throughput.
    throughput: Option<f64>,
    /// Throughput by that of the first point; null at the first.
    speed_up: Option<Interval>,
    /// Speed-up by what the threads could give; null at the first point and at time-sliced ones.
    efficiency: Option<Interval>,
    /// Processors used on average, the median.
    processors_used: Option<f64>,
    /// Whether its threads ran at the same time; null of time-sliced points.
    side_by_side: Option<SideBySide>,
    /// Why it was left out from some round on; null if it was not.
    failure: Option<String>,
    /// Every run, in the order in which they ran.
    runs: Vec<Run>,
}

/// Whether threads ran at the same time.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum SideBySide {
    /// They had the processors when they wanted them.
    Yes,
    /// Together they used hardly more than one.
    No,
    /// They used less than theirs, and the kernel does not tell why.
    Untold,
}

/// One run.
#[derive(Serialize, JsonSchema)]
struct Run {
    /// Its round, from 0: each point runs once in each.
    round: usize,
    /// When it ran, of all runs, from 0.
    position: usize,
    /// The metric.
    value: f64,
    /// From start to end.
    wall_seconds: f64,
    /// Processor time.
    cpu_seconds: f64,
    /// Processor time that the hypervisor gave to others meanwhile, where known.
    stolen_seconds: Option<f64>,
    /// Processor time of other programs meanwhile, where known.
    foreign_seconds: Option<f64>,
    /// Time that runnable threads of the whole machine waited meanwhile, where known.
    queued_seconds: Option<f64>,
    /// How often its threads were taken off a processor before they gave it up.
    involuntary_switches: u64,
    /// The processors' mean frequency, where known.
    megahertz: Option<f64>,
    /// Why it does not count; empty if it does.
    hindered: Vec<&'static str>,
}

/// The Universal Scalability Law: λn / (1 + σ(n − 1) + κn(n − 1)).
#[derive(Serialize, JsonSchema)]
struct Law {
    /// λ: the throughput of one thread.
    one: f64,
    /// σ: contention.
    contention: Term,
    /// κ: coherence.
    coherence: Term,
    /// How far the farthest point is from the law, as a part of it.
    farthest: f64,
    /// Whether noise explains what the points are away from it. If not, do not rely on the terms.
    follows: bool,
    /// The number of threads with the greatest throughput by the law, if coherence is shown to cost anything.
    peak: Option<f64>,
}

/// A term with its 95 % interval, by profile likelihood.
#[derive(Serialize, JsonSchema)]
struct Term {
    /// The best fit that is not negative.
    estimate: f64,
    /// The lower end.
    low: f64,
    /// The upper end; null if there is none.
    high: Option<f64>,
}

/// Why the law was not fitted.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum NoLaw {
    /// Fewer than 4 points fit the processors and count.
    TooFewPoints,
    /// Fewer than two complete rounds.
    TooFewRounds,
    /// More threads give more than their share.
    MoreThanLinear,
    /// What the times are of was not said.
    WorkNotSaid,
}

/// One more run, recorded by `hitm run`.
#[derive(Serialize, JsonSchema)]
struct Evidence {
    /// Its threads.
    threads: u32,
    /// The report, a document of docs/report.schema.json; null if there is none.
    report: Option<serde_json::Value>,
    /// Why there is none.
    not_recorded: Option<String>,
}

/// Why no more was run.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Ended {
    /// It has not: what was measured so far.
    Running,
    /// All rounds were run.
    AllRun,
    /// The time was over.
    Budget,
    /// Too many runs were disturbed.
    Disturbed,
    /// The user interrupted.
    Interrupted,
    /// The first point failed, or all others did.
    NothingToCompare,
}

impl Document {
    pub(super) fn of(scaled: &experiment::Scaled) -> io::Result<Self> {
        let judgement = &scaled.judgement;
        let both = match &judgement.verdict {
            experiment::Verdict::SayWork(both) => Some(both),
            _ => None,
        };
        let first = scaled.rounds.plan.points.first().copied();
        Ok(Self {
            schema: SchemaName::HitmScale,
            version: SCALE_JSON_VERSION,
            hitm: env!("CARGO_PKG_VERSION"),
            machine: scaled.machine.clone(),
            processors: scaled.rounds.plan.processors,
            command: scaled.command.clone(),
            variables: scaled
                .variables
                .iter()
                .map(|(name, value)| Variable {
                    name: name.clone(),
                    value: value.clone(),
                })
                .collect(),
            metric: scaled.metric.name.clone(),
            unit: scaled.metric.unit,
            meaning: meaning(judgement.meaning),
            verdict: verdict(&judgement.verdict),
            verdict_if_fixed: both.map(|both| verdict(&both.fixed)),
            verdict_if_per_thread: both.map(|both| verdict(&both.per_thread)),
            says: words::verdict(scaled),
            slower: slower(&judgement.verdict),
            more_runs: match judgement.verdict {
                experiment::Verdict::Undecided { more_rounds } => more_rounds,
                _ => None,
            },
            saturates: match judgement.verdict {
                experiment::Verdict::SubLinear { saturates } => saturates.map(|n| n.0),
                _ => None,
            },
            floor_percent: judgement.floor.percent(),
            runs_needed: judgement.rounds_needed,
            ended: ended(scaled.rounds.ended),
            points: scaled
                .rounds
                .points
                .iter()
                .map(|raw| point(raw, scaled, first))
                .collect(),
            law: judgement.fit.as_ref().ok().map(law),
            no_law: judgement.fit.as_ref().err().map(|why| match why {
                experiment::NoFit::TooFewPoints { .. } => NoLaw::TooFewPoints,
                experiment::NoFit::TooFewRounds => NoLaw::TooFewRounds,
                experiment::NoFit::MoreThanLinear => NoLaw::MoreThanLinear,
                experiment::NoFit::WorkNotSaid => NoLaw::WorkNotSaid,
            }),
            caveats: words::caveats(scaled),
            evidence: scaled.evidence.as_ref().map(evidence).transpose()?,
        })
    }
}

fn meaning(meaning: experiment::Meaning) -> Meaning {
    use experiment::Work;
    match meaning {
        experiment::Meaning::Throughput => Meaning::Throughput,
        experiment::Meaning::Time(Some(Work::Fixed)) => Meaning::TimeOfFixedWork,
        experiment::Meaning::Time(Some(Work::PerThread)) => Meaning::TimeOfWorkPerThread,
        experiment::Meaning::Time(None) => Meaning::TimeOfUnknownWork,
    }
}

fn verdict(verdict: &experiment::Verdict) -> Verdict {
    match verdict {
        experiment::Verdict::Linear => Verdict::Linear,
        experiment::Verdict::SubLinear { .. } => Verdict::SubLinear,
        experiment::Verdict::Negative { .. } => Verdict::Negative,
        experiment::Verdict::Undecided { .. } => Verdict::Undecided,
        experiment::Verdict::SayWork(_) => Verdict::DependsOnWork,
        experiment::Verdict::None(_) => Verdict::None,
    }
}

fn ended(ended: experiment::Ended) -> Ended {
    match ended {
        experiment::Ended::Running => Ended::Running,
        experiment::Ended::AllRun => Ended::AllRun,
        experiment::Ended::Budget => Ended::Budget,
        experiment::Ended::Disturbed => Ended::Disturbed,
        experiment::Ended::Interrupted => Ended::Interrupted,
        experiment::Ended::NothingToCompare => Ended::NothingToCompare,
    }
}

fn slower(verdict: &experiment::Verdict) -> Option<Slower> {
    let experiment::Verdict::Negative {
        slow,
        fast,
        effect,
        interval,
    } = verdict
    else {
        return None;
    };
    Some(Slower {
        slow: slow.0,
        fast: fast.0,
        ratio: ratio(*effect, Some(*interval)),
    })
}

fn ratio(estimate: LogRatio, interval: Option<Range>) -> Interval {
    let finite = |end: LogRatio| end.ln().is_finite().then(|| end.ratio());
    Interval {
        estimate: estimate.ratio(),
        low: interval.and_then(|interval| finite(interval.low)),
        high: interval.and_then(|interval| finite(interval.high)),
    }
}

fn point(
    raw: &experiment::Point<String>,
    scaled: &experiment::Scaled,
    first: Option<experiment::Threads>,
) -> Point {
    let estimates = scaled.judgement.points.iter();
    let estimate = estimates.clone().find(|point| point.threads == raw.threads);
    let time_sliced = !scaled.rounds.plan.fits(raw.threads);
    let efficiency = || {
        let (point, first) = (estimate?, first?);
        Some(ratio(
            point.efficiency(first)?,
            point.efficiency_interval(first),
        ))
    };
    Point {
        threads: raw.threads.0,
        time_sliced,
        median: estimate.map(|point| point.median),
        throughput: estimate.map(|point| point.throughput),
        speed_up: estimate.and_then(|point| Some(ratio(point.speed_up?, point.interval))),
        efficiency: if time_sliced { None } else { efficiency() },
        processors_used: estimate.map(|point| point.overlap),
        side_by_side: estimate
            .filter(|_| !time_sliced)
            .map(|point| match point.side_by_side {
                experiment::SideBySide::Yes => SideBySide::Yes,
                experiment::SideBySide::No => SideBySide::No,
                experiment::SideBySide::Untold => SideBySide::Untold,
            }),
        failure: raw.failure.as_ref().map(|failure| match failure {
            experiment::NoValue::Failed(why) => why.clone(),
            experiment::NoValue::NotPositive(value) => format!("its metric is {value}"),
        }),
        runs: raw.runs.iter().map(run).collect(),
    }
}

fn run(run: &experiment::PointRun) -> Run {
    let health = &run.trial.health;
    let seconds = |time: Option<Seconds>| time.map(|time| time.0);
    Run {
        round: run.round,
        position: run.position,
        value: run.trial.value,
        wall_seconds: health.wall.0,
        cpu_seconds: health.cpu.0,
        stolen_seconds: seconds(health.stolen),
        foreign_seconds: seconds(health.foreign),
        queued_seconds: seconds(health.queued),
        involuntary_switches: health.involuntary_switches,
        megahertz: health.megahertz,
        hindered: run
            .hindered
            .iter()
            .map(|why| match why {
                experiment::Hindered::Stolen => "stolen",
                experiment::Hindered::Foreign => "foreign",
                experiment::Hindered::Queued => "queued",
            })
            .collect(),
    }
}

fn law(fit: &experiment::Fit) -> Law {
    let term = |term: experiment::Term| Term {
        estimate: term.estimate,
        low: term.low,
        high: term.high.is_finite().then_some(term.high),
    };
    Law {
        one: fit.one,
        contention: term(fit.contention),
        coherence: term(fit.coherence),
        farthest: fit.farthest,
        follows: fit.follows,
        peak: fit.peak(),
    }
}

fn evidence(evidence: &experiment::Evidence) -> io::Result<Evidence> {
    let document = |report| -> io::Result<serde_json::Value> {
        let mut text = Vec::new();
        crate::json::json(report, &mut text).map_err(io::Error::other)?;
        Ok(serde_json::from_slice(&text)?)
    };
    Ok(Evidence {
        threads: evidence.threads.0,
        report: evidence.report.as_ref().ok().map(document).transpose()?,
        not_recorded: evidence.report.as_ref().err().cloned(),
    })
}
