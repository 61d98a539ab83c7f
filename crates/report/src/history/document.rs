//! The types of the JSON document of a history. Their documentation becomes the schema's.

use hitm_experiment as experiment;
use schemars::JsonSchema;
use serde::Serialize;

use super::HISTORY_JSON_VERSION;

/// Series of saved comparisons, and their changes.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "hitm-history")]
pub(super) struct Document {
    /// What kind of document this is.
    schema: SchemaName,
    /// The version of the document's format.
    #[schemars(extend("const" = HISTORY_JSON_VERSION))]
    version: u32,
    /// The version of the hitm that made it.
    hitm: &'static str,
    /// The series.
    series: Vec<Series>,
}

/// The name of this kind of document.
#[derive(Serialize, JsonSchema)]
enum SchemaName {
    #[serde(rename = "hitm-history")]
    HitmHistory,
}

/// One row over time: the same command on the same machine.
#[derive(Serialize, JsonSchema)]
struct Series {
    /// The row's name.
    row: String,
    /// What is compared.
    metric: String,
    /// Its unit, empty for a number that the command prints.
    unit: String,
    /// Which values are good.
    better: &'static str,
    /// The machine.
    machine: String,
    /// B's command, without folders of programs.
    command: String,
    /// What is looked at for changes: `against-base`, B over the same A, or `own`, B's median.
    looked_at: &'static str,
    /// The probability that noise alone looks so much like a change.
    p: f64,
    /// The same by Holm's correction over the series.
    adjusted_p: f64,
    /// Its changes, in order; empty if it is flat, or too short.
    changes: Vec<Change>,
    /// Its points, the oldest first.
    points: Vec<Point>,
}

/// A change.
#[derive(Serialize, JsonSchema)]
struct Change {
    /// `step` or `drift`.
    kind: &'static str,
    /// The first point of the new level, or of the drift: an index into `points`.
    from: usize,
    /// The last point of a drift; null for a step.
    to: Option<usize>,
    /// By how many percent the value grew in all.
    percent: f64,
    /// The same from one point of a drift to the next; null for a step.
    percent_each: Option<f64>,
}

/// One saved row.
#[derive(Serialize, JsonSchema)]
struct Point {
    /// When, as `YYYY-MM-DD HH:MM` in UTC.
    saved: String,
    /// The commit of B, where known.
    commit: Option<String>,
    /// Whether files differed from it.
    dirty: bool,
    /// The median of B's runs.
    value: f64,
    /// By how many percent of A's value B's was greater.
    effect_percent: f64,
    /// The hash of A's program.
    base_sha256: Option<String>,
    /// The outcome.
    outcome: String,
}

impl From<&experiment::History> for Document {
    fn from(history: &experiment::History) -> Self {
        Self {
            schema: SchemaName::HitmHistory,
            version: HISTORY_JSON_VERSION,
            hitm: env!("CARGO_PKG_VERSION"),
            series: history.series.iter().map(Series::from).collect(),
        }
    }
}

impl From<&experiment::Series> for Series {
    fn from(series: &experiment::Series) -> Self {
        let key = &series.key;
        Self {
            row: key.row.clone(),
            metric: key.metric.clone(),
            unit: key.unit.clone(),
            better: match series.better {
                experiment::Better::Higher => "higher",
                experiment::Better::Lower => "lower",
            },
            machine: key.machine.clone(),
            command: key.command.clone(),
            looked_at: match series.measure {
                experiment::Measure::AgainstBase => "against-base",
                experiment::Measure::Own => "own",
            },
            p: series.detected.p,
            adjusted_p: series.detected.adjusted_p,
            changes: series.detected.changes.iter().map(Change::from).collect(),
            points: series.points.iter().map(Point::from).collect(),
        }
    }
}

impl From<&experiment::Change> for Change {
    fn from(change: &experiment::Change) -> Self {
        let percent = change.size().percent();
        match *change {
            experiment::Change::Step { at, .. } => Self {
                kind: "step",
                from: at,
                to: None,
                percent,
                percent_each: None,
            },
            experiment::Change::Drift { from, to, each } => Self {
                kind: "drift",
                from,
                to: Some(to),
                percent,
                percent_each: Some(each.percent()),
            },
        }
    }
}

impl From<&experiment::Point> for Point {
    fn from(point: &experiment::Point) -> Self {
        Self {
            saved: point.saved.clone(),
            commit: point.commit.clone(),
            dirty: point.dirty,
            value: point.value,
            effect_percent: point.effect.percent(),
            base_sha256: Some(point.base.clone()).filter(|base| !base.is_empty()),
            outcome: point.outcome.clone(),
        }
    }
}
