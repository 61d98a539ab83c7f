//! The types of the JSON document of an experiment, and how they are made. Their documentation becomes the schema's.

use hitm_experiment as experiment;
use schemars::JsonSchema;
use serde::Serialize;

use super::COMPARISON_JSON_VERSION;
use super::evidence::Evidence;

/// Two sides compared by running them in pairs.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "hitm-compare")]
pub(super) struct Document {
    /// What kind of document this is.
    schema: SchemaName,
    /// The version of the document's format.
    #[schemars(extend("const" = COMPARISON_JSON_VERSION))]
    version: u32,
    /// The version of the hitm that made it.
    hitm: &'static str,
    /// The machine.
    machine: String,
    /// The name of the base.
    a: String,
    /// The name of the change.
    b: String,
    /// A program was compared with itself on purpose.
    aa: bool,
    /// Whether hitm came to its end. If not, it was killed, and this is what was measured by then: the last row may be half
    /// done, with `ended` `running`.
    complete: bool,
    /// Rows that were asked for; more than there are if the user interrupted.
    rows_asked: usize,
    /// The rows.
    rows: Vec<Row>,
}

/// The name of this kind of document.
#[derive(Serialize, JsonSchema)]
enum SchemaName {
    #[serde(rename = "hitm-compare")]
    HitmCompare,
}

/// One row.
#[derive(Serialize, JsonSchema)]
struct Row {
    /// Its name.
    name: String,
    /// What is said of it.
    outcome: Outcome,
    /// Of an undecided row: about how many pairs more it would take.
    more_pairs: Option<usize>,
    /// What is compared.
    metric: String,
    /// Its unit, empty for a number that the command prints.
    unit: &'static str,
    /// Which values are good.
    better: &'static str,
    /// Why the sides should not be compared.
    refusals: Vec<Refusal>,
    /// They were compared all the same.
    forced: bool,
    /// The measurement; null where it was refused.
    measured: Option<Measured>,
    /// The second measurement of a row whose first was odd.
    again: Option<Measured>,
    /// The probability of error after Holm's correction over the rows.
    adjusted_p: Option<f64>,
    /// Whether mean ± standard deviation of the sides do not overlap. A badge, not the ground of the outcome.
    sigma_disjoint: Option<bool>,
    /// What is known of A.
    side_a: Side,
    /// What is known of B.
    side_b: Side,
    /// The last commit that both sides have, where git can tell.
    merge_base: Option<String>,
    /// What tells the sides apart, or that they are the same: `pairs` of runs, or the `mechanism`, where the pairs do not
    /// and the recordings do; null if nothing does.
    decided_by: Option<&'static str>,
    /// What the lines do on both sides; null if that was not asked for.
    evidence: Option<Evidence>,
}

/// What is said of a row.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    /// B is better by at least the floor.
    Improved,
    /// B is worse by at least the floor.
    Regressed,
    /// They differ by less than the floor.
    Equivalent,
    /// It is not known.
    Undecided,
    /// It was not measured, because the sides are not comparable.
    Refused,
}

/// Why two sides should not be compared.
#[derive(Serialize, JsonSchema)]
struct Refusal {
    /// Why.
    why: String,
    /// How to go on.
    remedy: String,
}

/// A measurement.
#[derive(Serialize, JsonSchema)]
struct Measured {
    /// Why no more was run, in a word.
    ended: &'static str,
    /// Which side failed, and how.
    failure: Option<String>,
    /// Pairs that count.
    pairs: usize,
    /// Pairs that were disturbed, and do not.
    disturbed_pairs: usize,
    /// Effects below it do not count, in percent.
    floor_percent: f64,
    /// What the last look saw; null before the first.
    estimate: Option<Estimate>,
    /// Every run of A against itself, and of the comparison, in the order in which they ran within a pair's sides.
    trials: Vec<Trial>,
}

/// What the pairs say at a look.
#[derive(Serialize, JsonSchema)]
struct Estimate {
    /// Pairs that it is of.
    pairs: usize,
    /// By how many percent of A's value B's is greater: the median of the averages of all pairs of log ratios.
    effect_percent: f64,
    /// The same by the median of the log ratios.
    median_percent: f64,
    /// The lower end of the 95 % interval, valid whenever the experiment stopped; null if it has none.
    low_percent: Option<f64>,
    /// The upper end.
    high_percent: Option<f64>,
    /// The probability of error of "there is a difference", over all looks.
    p: f64,
}

/// One run.
#[derive(Serialize, JsonSchema)]
struct Trial {
    /// `noise` for A against itself, else `pair`.
    purpose: &'static str,
    /// The number of its pair, from 0.
    pair: usize,
    /// `a` or `b`; of a noise pair the two are both runs of A.
    side: &'static str,
    /// Whether it ran first in its pair.
    first: bool,
    /// The metric.
    value: f64,
    /// From start to end.
    wall_seconds: f64,
    /// Processor time.
    cpu_seconds: f64,
    /// Processors used on average.
    overlap: f64,
    /// The most memory of one of its processes.
    max_rss_bytes: u64,
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
    /// The part of the time that the busiest thread of a server's client ran, from 0 to 1, where known.
    busiest_client_thread: Option<f64>,
    /// The same of the server.
    busiest_server_thread: Option<f64>,
    /// Why it does not count; empty if it does.
    disturbed: Vec<&'static str>,
}

/// What is known of a side.
#[derive(Serialize, JsonSchema)]
struct Side {
    /// Its command.
    command: Vec<String>,
    /// Its server's, if there is one.
    server: Vec<String>,
    /// Variables that were set for it.
    variables: Vec<Variable>,
    /// Where it ran, if not where hitm did.
    directory: Option<String>,
    /// The programs that it starts.
    programs: Vec<Program>,
    /// The commit that is checked out where its program lies.
    commit: Option<String>,
    /// Whether files there differ from that commit.
    dirty: Option<bool>,
}

/// A variable of the environment.
#[derive(Serialize, JsonSchema)]
struct Variable {
    /// Its name.
    name: String,
    /// Its value.
    value: String,
}

/// An executable file.
#[derive(Serialize, JsonSchema)]
struct Program {
    /// Where it is.
    path: String,
    /// The hash of its bytes.
    sha256: String,
    /// The build-id that its linker gave it.
    build_id: Option<String>,
    /// The shared libraries that it is started with, as its loader finds them.
    libraries: Vec<Library>,
}

/// A shared library of a program.
#[derive(Serialize, JsonSchema)]
struct Library {
    /// What the program asks for.
    name: String,
    /// The file that it gets; null if there is none.
    path: Option<String>,
    /// The hash of its bytes, if they could be read.
    sha256: Option<String>,
    /// The build-id that its linker gave it.
    build_id: Option<String>,
}

impl From<&experiment::Comparison> for Document {
    fn from(comparison: &experiment::Comparison) -> Self {
        let [a, b] = comparison.names.clone();
        Self {
            schema: SchemaName::HitmCompare,
            version: COMPARISON_JSON_VERSION,
            hitm: env!("CARGO_PKG_VERSION"),
            machine: comparison.machine.clone(),
            a,
            b,
            aa: comparison.aa,
            complete: comparison.complete,
            rows_asked: comparison.asked,
            rows: comparison.rows.iter().map(Row::from).collect(),
        }
    }
}

impl From<&experiment::ComparedRow> for Row {
    fn from(row: &experiment::ComparedRow) -> Self {
        let verdict = row.verdict.as_ref();
        let (outcome, more_pairs) = outcome(row);
        Self {
            name: row.name.clone(),
            outcome,
            more_pairs,
            metric: row.metric.to_string(),
            unit: row.metric.unit(),
            better: match row.better {
                experiment::Better::Higher => "higher",
                experiment::Better::Lower => "lower",
            },
            refusals: row.refusals.iter().map(Refusal::from).collect(),
            forced: row.forced && !row.refusals.is_empty(),
            measured: row.row.as_ref().map(Measured::from),
            again: row.again.as_ref().map(Measured::from),
            adjusted_p: verdict.map(|verdict| verdict.adjusted_p),
            sigma_disjoint: verdict.map(|verdict| verdict.sigma_disjoint),
            side_a: Side::from(&row.a),
            side_b: Side::from(&row.b),
            merge_base: row.git.as_ref().map(|git| git.merge_base.clone()),
            decided_by: row.decided_by().map(|by| match by {
                experiment::DecidedBy::Pairs => "pairs",
                experiment::DecidedBy::Mechanism => "mechanism",
            }),
            evidence: row.evidence.as_ref().map(Evidence::from),
        }
    }
}

fn outcome(row: &experiment::ComparedRow) -> (Outcome, Option<usize>) {
    match row.verdict.as_ref().map(|verdict| verdict.outcome) {
        _ if row.is_refused() => (Outcome::Refused, None),
        Some(experiment::Outcome::Improved) => (Outcome::Improved, None),
        Some(experiment::Outcome::Regressed) => (Outcome::Regressed, None),
        Some(experiment::Outcome::Equivalent) => (Outcome::Equivalent, None),
        Some(experiment::Outcome::Undecided { more_pairs }) => (Outcome::Undecided, more_pairs),
        None => (Outcome::Undecided, None),
    }
}

impl From<&experiment::Refusal> for Refusal {
    fn from(refusal: &experiment::Refusal) -> Self {
        Self {
            why: refusal.to_string(),
            remedy: refusal.remedy(),
        }
    }
}

impl From<&experiment::Row<String>> for Measured {
    fn from(row: &experiment::Row<String>) -> Self {
        let (ended, failure) = ended(&row.ended);
        let mut trials = Vec::new();
        for (purpose, pairs) in [("noise", &row.noise), ("pair", &row.pairs)] {
            for (number, pair) in pairs.iter().enumerate() {
                trials.extend(both(purpose, number, pair));
            }
        }
        Self {
            ended,
            failure,
            pairs: row.differences().len(),
            disturbed_pairs: row.disturbed(),
            floor_percent: row.floor.percent(),
            estimate: row.estimate.as_ref().map(Estimate::from),
            trials,
        }
    }
}

fn ended(ended: &experiment::Ended<String>) -> (&'static str, Option<String>) {
    use experiment::Ended;
    match ended {
        Ended::Running => ("running", None),
        Ended::Decided => ("decided", None),
        Ended::AllRun => ("all-run", None),
        Ended::NoLook => ("no-look", None),
        Ended::Budget => ("budget", None),
        Ended::Disturbed => ("disturbed", None),
        Ended::Unusable(why) => ("unusable", Some(why.to_string())),
        Ended::Failed { side, failure } => {
            let side = match side {
                experiment::Side::A => "a",
                experiment::Side::B => "b",
            };
            ("failed", Some(format!("{side}: {failure}")))
        }
    }
}

impl From<&experiment::Estimate> for Estimate {
    fn from(estimate: &experiment::Estimate) -> Self {
        let finite = |ratio: experiment::LogRatio| ratio.ln().is_finite().then(|| ratio.percent());
        Self {
            pairs: estimate.pairs,
            effect_percent: estimate.effect.percent(),
            median_percent: estimate.median.percent(),
            low_percent: finite(estimate.interval.low),
            high_percent: finite(estimate.interval.high),
            p: estimate.p,
        }
    }
}

fn both(purpose: &'static str, number: usize, pair: &experiment::Pair) -> [Trial; 2] {
    let trial = |side: experiment::Side, trial: &experiment::Trial| {
        let health = &trial.health;
        let seconds = |time: Option<experiment::Seconds>| time.map(|time| time.0);
        Trial {
            purpose,
            pair: number,
            side: match side {
                experiment::Side::A => "a",
                experiment::Side::B => "b",
            },
            first: pair.first == side,
            value: trial.value,
            wall_seconds: health.wall.0,
            cpu_seconds: health.cpu.0,
            overlap: health.overlap(),
            max_rss_bytes: health.max_rss,
            stolen_seconds: seconds(health.stolen),
            foreign_seconds: seconds(health.foreign),
            queued_seconds: seconds(health.queued),
            involuntary_switches: health.involuntary_switches,
            megahertz: health.megahertz,
            busiest_client_thread: health.busiest.map(|busiest| busiest.client),
            busiest_server_thread: health.busiest.map(|busiest| busiest.server),
            disturbed: health
                .disturbed()
                .into_iter()
                .map(experiment::Disturbed::word)
                .collect(),
        }
    };
    [
        trial(experiment::Side::A, &pair.a),
        trial(experiment::Side::B, &pair.b),
    ]
}

impl From<&experiment::SideFacts> for Side {
    fn from(side: &experiment::SideFacts) -> Self {
        Self {
            command: side.words.clone(),
            server: side.server.clone(),
            variables: side
                .variables
                .iter()
                .map(|(name, value)| Variable {
                    name: name.clone(),
                    value: value.clone(),
                })
                .collect(),
            directory: side.directory.clone(),
            programs: side
                .programs
                .iter()
                .map(|program| Program {
                    path: program.path.clone(),
                    sha256: program.sha256.clone(),
                    build_id: program.build_id.clone(),
                    libraries: program.libraries.iter().map(Library::from).collect(),
                })
                .collect(),
            commit: side.git.as_ref().map(|git| git.commit.clone()),
            dirty: side.git.as_ref().map(|git| git.dirty),
        }
    }
}

impl From<&experiment::LibraryFacts> for Library {
    fn from(library: &experiment::LibraryFacts) -> Self {
        Self {
            name: library.name.clone(),
            path: library.path.clone(),
            sha256: library.sha256.clone(),
            build_id: library.build_id.clone(),
        }
    }
}
