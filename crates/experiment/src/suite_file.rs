//! What is to be compared: the file of a suite, or one row from the command line.

use std::collections::BTreeMap;

use serde::Deserialize;
use thiserror::Error;

use crate::judge::Better;
use crate::looks::Looks;
use crate::metric::{Metric, MetricError};
use crate::ratio::LogRatio;
use crate::row::{Floor, Plan};
use crate::trial::{Seconds, Side};

/// A suite, understood.
#[derive(Clone, Debug)]
pub struct Suite {
    /// The sides' names.
    pub names: [String; 2],
    /// Its rows, at least one.
    pub rows: Vec<RowSpec>,
    /// How all rows are run.
    pub settings: Settings,
}

/// One row.
#[derive(Clone, Debug)]
pub struct RowSpec {
    /// Its name.
    pub name: String,
    /// What is compared.
    pub metric: Metric,
    /// Which values are good.
    pub better: Better,
    /// What each side runs.
    pub sides: [CommandSpec; 2],
}

/// What one side of a row runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandSpec {
    /// The command whose run is measured.
    pub words: Vec<String>,
    /// The server that it needs, started before it and ended after it.
    pub server: Option<Vec<String>>,
    /// A command that succeeds when the server is ready.
    pub ready: Option<Vec<String>>,
    /// Variables that are set for all of them.
    pub variables: Vec<(String, String)>,
    /// Where they run.
    pub directory: Option<String>,
}

/// How rows are run.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Pairs at most.
    pub pairs: usize,
    /// Pairs of A against itself.
    pub noise_pairs: usize,
    /// Runs of each side before anything counts.
    pub warm_up: usize,
    /// The floor of effects.
    pub floor: Floor,
    /// No new pair of a row begins after its part of this time.
    pub budget: Option<Seconds>,
    /// A run that takes longer has failed.
    pub timeout: Seconds,
    /// Decides which side runs first.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pairs: 20,
            noise_pairs: 6,
            warm_up: 1,
            floor: Floor::AtLeast(LogRatio::from_percent(1.0)),
            budget: None,
            timeout: Seconds(600.0),
            seed: 1,
        }
    }
}

impl Suite {
    /// How a row is run, whose part of the budget is this.
    #[must_use]
    pub fn plan(&self, row: &RowSpec, budget: Option<Seconds>) -> Plan {
        let settings = &self.settings;
        Plan {
            looks: Looks::plan(settings.pairs, self.rows.len()),
            better: row.better,
            floor: settings.floor,
            warm_up: settings.warm_up,
            noise_pairs: settings.noise_pairs,
            most_repeats: settings.pairs / 2,
            budget,
            seed: settings.seed,
        }
    }
}

impl RowSpec {
    /// What a side runs.
    #[must_use]
    pub fn side(&self, side: Side) -> &CommandSpec {
        match side {
            Side::A => &self.sides[0],
            Side::B => &self.sides[1],
        }
    }
}

/// Why a suite is not understood.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum SuiteError {
    /// It is no TOML, or has keys that mean nothing.
    #[error("{0}")]
    Toml(String),
    /// A row has no command.
    #[error("a suite has at least one [[row]] with a name and a command")]
    NoRows,
    /// Two rows have one name.
    #[error("two rows are called {0}")]
    TwoRows(String),
    /// A placeholder means nothing.
    #[error("row {row}: {{{name}}} is none of the vars of side {side} ([{side}.vars] has {known})")]
    UnknownVar {
        /// The row.
        row: String,
        /// What stands in the braces.
        name: String,
        /// `a` or `b`.
        side: char,
        /// The variables that there are.
        known: String,
    },
    /// Quotes that do not end, or nothing at all.
    #[error("{0:?} is no command: a quote is not closed, or it is empty")]
    NoCommand(String),
    /// Its metric is none.
    #[error("row {row}: {source}")]
    Metric {
        /// The row.
        row: String,
        /// Why.
        source: MetricError,
    },
    /// A number that makes no sense.
    #[error("{what} is {value}: {wanted}")]
    Number {
        /// The key.
        what: &'static str,
        /// What it is.
        value: String,
        /// What it should be.
        wanted: &'static str,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    pairs: Option<usize>,
    noise_pairs: Option<usize>,
    warm_up: Option<usize>,
    floor_percent: Option<f64>,
    budget_seconds: Option<f64>,
    timeout_seconds: Option<f64>,
    seed: Option<u64>,
    a: FileSide,
    b: FileSide,
    #[serde(default)]
    row: Vec<FileRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FileSide {
    name: String,
    #[serde(default)]
    vars: BTreeMap<String, String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    directory: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FileRow {
    name: String,
    #[serde(alias = "client")]
    command: String,
    server: Option<String>,
    ready: Option<String>,
    #[serde(default = "wall")]
    metric: String,
    better: Option<Better>,
}

fn wall() -> String {
    "wall".to_owned()
}

impl Suite {
    /// Reads a suite file.
    ///
    /// # Errors
    /// With the line, where the text itself is at fault.
    pub fn parse(text: &str) -> Result<Self, SuiteError> {
        let file: File =
            toml::from_str(text).map_err(|error| SuiteError::Toml(error.to_string()))?;
        if file.row.is_empty() {
            return Err(SuiteError::NoRows);
        }
        let settings = settings(&file)?;
        let mut rows: Vec<RowSpec> = Vec::new();
        for row in &file.row {
            if rows.iter().any(|known| known.name == row.name) {
                return Err(SuiteError::TwoRows(row.name.clone()));
            }
            let metric = Metric::parse(&row.metric).map_err(|source| SuiteError::Metric {
                row: row.name.clone(),
                source,
            })?;
            rows.push(RowSpec {
                name: row.name.clone(),
                better: row.better.unwrap_or_else(|| metric.usually_better()),
                metric,
                sides: [side(row, &file.a, 'a')?, side(row, &file.b, 'b')?],
            });
        }
        Ok(Self {
            names: [file.a.name, file.b.name],
            rows,
            settings,
        })
    }
}

fn settings(file: &File) -> Result<Settings, SuiteError> {
    let usual = Settings::default();
    let positive = |what, value: Option<f64>| match value {
        Some(value) if !(value > 0.0 && value.is_finite()) => Err(SuiteError::Number {
            what,
            value: value.to_string(),
            wanted: "it must be above 0",
        }),
        value => Ok(value),
    };
    let floor = positive("floor-percent", file.floor_percent)?;
    Ok(Settings {
        pairs: file.pairs.unwrap_or(usual.pairs),
        noise_pairs: file.noise_pairs.unwrap_or(usual.noise_pairs),
        warm_up: file.warm_up.unwrap_or(usual.warm_up),
        floor: floor.map_or(usual.floor, |percent| {
            Floor::Fixed(LogRatio::from_percent(percent))
        }),
        budget: positive("budget-seconds", file.budget_seconds)?.map(Seconds),
        timeout: positive("timeout-seconds", file.timeout_seconds)?.map_or(usual.timeout, Seconds),
        seed: file.seed.unwrap_or(usual.seed),
    })
}

fn side(row: &FileRow, of: &FileSide, side: char) -> Result<CommandSpec, SuiteError> {
    let command = |text: &String| {
        let filled = fill(text, &of.vars).map_err(|name| SuiteError::UnknownVar {
            row: row.name.clone(),
            name,
            side,
            known: if of.vars.is_empty() {
                "none".to_owned()
            } else {
                of.vars.keys().cloned().collect::<Vec<_>>().join(", ")
            },
        })?;
        words(&filled)
    };
    Ok(CommandSpec {
        words: command(&row.command)?,
        server: row.server.as_ref().map(command).transpose()?,
        ready: row.ready.as_ref().map(command).transpose()?,
        variables: of.env.clone().into_iter().collect(),
        directory: of.directory.clone(),
    })
}

/// The words of a command, as a shell would part them; nothing else of a shell.
///
/// # Errors
/// If a quote is not closed, or there is no word.
pub(crate) fn words(text: &str) -> Result<Vec<String>, SuiteError> {
    shlex::split(text)
        .filter(|words| !words.is_empty())
        .ok_or_else(|| SuiteError::NoCommand(text.to_owned()))
}

impl CommandSpec {
    /// A command from the command line.
    ///
    /// # Errors
    /// If a quote is not closed, or there is no word.
    pub fn parse(text: &str) -> Result<Self, SuiteError> {
        Ok(Self {
            words: words(text)?,
            server: None,
            ready: None,
            variables: Vec::new(),
            directory: None,
        })
    }
}

/// Puts variables in for `{name}`; `{{` and `}}` are braces. The error is the name that is unknown.
fn fill(text: &str, vars: &BTreeMap<String, String>) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        filled.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        let behind = &rest[at + 1..];
        if behind.starts_with(brace) || brace == "}" {
            filled.push_str(brace);
            rest = behind.strip_prefix(brace).unwrap_or(behind);
            continue;
        }
        let (name, after) = behind.split_once('}').ok_or_else(|| behind.to_owned())?;
        filled.push_str(vars.get(name).ok_or_else(|| name.to_owned())?);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}
