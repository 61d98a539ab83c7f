//! `hitm compare` on real programs whose truth is known: a program against itself must not differ, and the repaired layout of a
//! faulty program must be better than the packed one.
//!
//! # Caveats
//! All of it needs an idle machine. Rows that other programs disturbed too much are no success: they are listed, and the exit
//! code is 1.

mod aa;
mod layouts;
mod redis;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use serde_json::Value;

use crate::tools::{build_hitm, target_dir};

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum What {
    /// Five programs, each against itself.
    Aa,
    /// The programs of a corpus: the packed layout against the repaired one.
    Corpus,
    /// A redis-server against itself, under six loads of redis-benchmark.
    Redis,
}

/// How.
pub(crate) struct Options {
    pub(crate) what: What,
    /// The corpus.
    pub(crate) dir: Option<PathBuf>,
    /// How often the whole is repeated.
    pub(crate) repeats: u32,
    /// Only rows with this in their name.
    pub(crate) only: Option<String>,
    /// This hitm instead of the one of this tree.
    pub(crate) hitm: Option<PathBuf>,
}

/// Compares, and says whether hitm said what is true.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let given = options.hitm.as_ref();
    let hitm = given.map_or_else(build_hitm, |hitm| Ok(hitm.canonicalize()?))?;
    let folder = target_dir()?.join("experiments");
    fs::create_dir_all(&folder)?;
    let bench = Bench { hitm, folder };
    let mut judged = Vec::new();
    for repeat in 1..=options.repeats {
        println!("repeat {repeat} of {}", options.repeats);
        judged.extend(match options.what {
            What::Aa => aa::run(&bench, options)?,
            What::Corpus => layouts::run(&bench, options)?,
            What::Redis => redis::run(&bench, options)?,
        });
    }
    Ok(summary(options.what, &judged))
}

/// What a row is to say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wanted {
    /// Neither improved nor regressed.
    NoDifference,
    /// Improved.
    Improved,
}

/// A row, and what it was to say.
#[derive(Clone, Debug)]
struct Judged {
    name: String,
    wanted: Wanted,
    said: Said,
}

/// What hitm said of a row.
#[derive(Clone, PartialEq, Debug)]
struct Said {
    outcome: String,
    /// Why no more was run, in a word; empty if it was refused.
    ended: String,
    /// B over A in percent, and the interval's ends, where there is an estimate.
    percent: Option<(f64, f64, f64)>,
    pairs: u64,
}

impl Judged {
    /// Whether the machine let it be measured.
    fn measured(&self) -> bool {
        self.said.percent.is_some() && !matches!(&*self.said.ended, "disturbed" | "failed")
    }

    fn is_right(&self) -> bool {
        let differs = matches!(&*self.said.outcome, "improved" | "regressed");
        match self.wanted {
            Wanted::NoDifference => !differs,
            Wanted::Improved => self.said.outcome == "improved",
        }
    }
}

/// One false alarm of so many is what 5 % means; more is a fault.
const ALARMS_PER: usize = 15;

fn summary(what: What, judged: &[Judged]) -> ExitCode {
    println!("\n{:<28} {:<12} {:>8}  interval", "row", "outcome", "Δ");
    for row in judged {
        let percent = row.said.percent.map_or_else(
            || "–".to_owned(),
            |(effect, low, high)| format!("{effect:>+7.1} %  {low:+.1} … {high:+.1} %"),
        );
        let verdict = match (row.measured(), row.is_right()) {
            (false, _) => format!("NOT MEASURED ({})", row.said.ended),
            (true, true) => String::new(),
            (true, false) => "WRONG".to_owned(),
        };
        println!(
            "{:<28} {:<12} {percent}  {} pairs {verdict}",
            row.name, row.said.outcome, row.said.pairs
        );
    }
    let missing = judged.iter().filter(|row| !row.measured()).count();
    let wrong = judged
        .iter()
        .filter(|row| row.measured() && !row.is_right())
        .count();
    // A corpus has differences far above any noise: there each row must be right.
    let permitted = match what {
        What::Aa => judged.len() / ALARMS_PER,
        What::Corpus | What::Redis => 0,
    };
    println!(
        "{} rows: {wrong} wrong ({permitted} permitted), {missing} not measured",
        judged.len()
    );
    if wrong > permitted || missing > 0 || judged.is_empty() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Where suites and results lie, and who runs them.
struct Bench {
    hitm: PathBuf,
    folder: PathBuf,
}

impl Bench {
    /// Runs rows of commands that have no sides against themselves.
    fn against_itself(&self, name: &str, rows: &str) -> Result<Vec<Judged>> {
        let suite = format!("[a]\nname = \"one\"\n[b]\nname = \"same\"\n{rows}");
        let said = self.compare(name, &suite, &["--aa"])?;
        Ok(said
            .into_iter()
            .map(|(name, said)| Judged {
                name,
                wanted: Wanted::NoDifference,
                said,
            })
            .collect())
    }

    /// Writes a suite, runs it, and reads what was said.
    fn compare(&self, name: &str, suite: &str, arguments: &[&str]) -> Result<Vec<(String, Said)>> {
        let file = self.folder.join(format!("{name}.toml"));
        let json = self.folder.join(format!("{name}.json"));
        fs::write(&file, suite)?;
        // That of the last time is not to be taken for this one's.
        let _ = fs::remove_file(&json);
        let status = Command::new(&self.hitm)
            .arg("compare")
            .arg("--suite")
            .arg(&file)
            .arg(format!("--json={}", json.display()))
            .args(arguments)
            .status()
            .with_context(|| format!("cannot start {}", self.hitm.display()))?;
        let text = fs::read_to_string(&json)
            .with_context(|| format!("hitm compare --suite {}: {status}", file.display()))?;
        let document: Value = serde_json::from_str(&text)?;
        let Some(rows) = document["rows"].as_array() else {
            bail!("no rows in {}", json.display());
        };
        rows.iter().map(said).collect()
    }
}

fn said(row: &Value) -> Result<(String, Said)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let estimate = &row["measured"]["estimate"];
    let number = |key: &str| estimate[key].as_f64();
    Ok((
        row["name"].as_str().context("a row without a name")?.into(),
        Said {
            outcome: text(&row["outcome"]),
            ended: text(&row["measured"]["ended"]),
            percent: number("effect_percent").map(|effect| {
                let end = |key, none| number(key).unwrap_or(none);
                (
                    effect,
                    end("low_percent", -100.0),
                    end("high_percent", f64::INFINITY),
                )
            }),
            pairs: row["measured"]["pairs"].as_u64().unwrap_or(0),
        },
    ))
}

/// Text as TOML has it.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Whether a row was asked for.
fn asked(options: &Options, name: &str) -> bool {
    let only = options.only.as_ref();
    only.is_none_or(|only| name.contains(only.as_str()))
}
