//! What the command line asks for, understood and checked before anything is run.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use anyhow::bail;
use hitm_collect::trial::Command;
use hitm_experiment::scale::{Meaning, Plan, Threads, default_points, rounds_needed};
use hitm_experiment::{LogRatio, Metric, Seconds};

use super::processors::processors;
use crate::cli::{BetterChoice, ScaleArgs};

/// What stands for the number of threads.
const HOLE: &[u8] = b"{n}";
/// Rounds beyond those without which no verdict is possible: with these alone, one odd run would prevent it.
const SPARE_ROUNDS: usize = 2;
/// What people expect at least.
const LEAST_ROUNDS: usize = 5;

pub(super) struct Request {
    pub(super) command: Template,
    pub(super) metric: Metric,
    pub(super) meaning: Meaning,
    pub(super) floor: LogRatio,
    pub(super) plan: Plan,
}

pub(super) fn request(args: &ScaleArgs) -> anyhow::Result<Request> {
    let command = Template::new(args)?;
    let metric = Metric::parse(&args.metric)?;
    let meaning = meaning(args, &metric)?;
    if args.floor >= 1.0 {
        bail!("--floor is a loss below 100 % (for example: --floor 2)");
    }
    let processors = processors();
    let points = points(args, processors)?;
    let fitting = points.iter().filter(|n| n.0 as usize <= processors).count();
    let rounds = args.runs.map_or_else(
        || (rounds_needed(fitting) + SPARE_ROUNDS).max(LEAST_ROUNDS),
        |runs| runs as usize,
    );
    Ok(Request {
        command,
        metric,
        meaning,
        // A loss of 2 % is a ratio of 0.98.
        floor: LogRatio::from_ln(-(-args.floor).ln_1p()),
        plan: Plan {
            most_repeats: args.repeats.unwrap_or(points.len() * rounds / 2),
            points,
            processors,
            rounds,
            warm_up: args.warm_up as usize,
            budget: args.budget.map(|time| Seconds(time.as_secs_f64())),
            seed: args.seed,
        },
    })
}

fn meaning(args: &ScaleArgs, metric: &Metric) -> anyhow::Result<Meaning> {
    let better = args
        .better
        .map_or_else(|| metric.usually_better(), BetterChoice::meant);
    let work = args.work.map(crate::cli::WorkChoice::meant);
    match Meaning::of(metric, better, work) {
        Some(Meaning::Throughput) if work.is_some() => bail!(
            "--work says what a time is of, and {metric} is a throughput: leave it out (if it is a time: --better lower)"
        ),
        Some(meaning) => Ok(meaning),
        None if matches!(metric, Metric::Wall) => {
            bail!(
                "of wall time, lower is better (a number that the command prints: --metric 'ops: ([0-9.]+)')"
            )
        }
        None => bail!(
            "{metric} is no measure of throughput (wall, json:/POINTER, or a number that the command prints: --metric 'ops: \
             ([0-9.]+)')"
        ),
    }
}

fn points(args: &ScaleArgs, processors: usize) -> anyhow::Result<Vec<Threads>> {
    let points = if args.points.is_empty() {
        let all = u32::try_from(processors).unwrap_or(u32::MAX);
        default_points(processors, args.to.unwrap_or(all))
    } else {
        let mut points: Vec<Threads> = args.points.iter().copied().map(Threads).collect();
        points.sort_unstable();
        points.dedup();
        points
    };
    if points.len() < 2 {
        let why = if processors < 2 && args.to.is_none() && args.points.is_empty() {
            "the command may use one processor only (taskset -p $$ and its control group say why)"
        } else {
            "there is one number of threads only"
        };
        bail!("{why}, so there is nothing to compare (try: --to 4, or --points 1,2,4)");
    }
    Ok(points)
}

/// The command, with holes for the number of threads.
pub(super) struct Template {
    words: Vec<OsString>,
    variables: Vec<(String, String)>,
}

impl Template {
    fn new(args: &ScaleArgs) -> anyhow::Result<Self> {
        let mut variables = Vec::new();
        for text in &args.env {
            match text.split_once('=') {
                Some((name, value)) if !name.is_empty() && !text.contains('\0') => {
                    variables.push((name.to_owned(), value.to_owned()));
                }
                _ => {
                    bail!("{text:?} is not NAME=VALUE (for example: --env 'OMP_NUM_THREADS={{n}}')")
                }
            }
        }
        let template = Self {
            words: args.command.clone(),
            variables,
        };
        let in_words = template.words.iter().any(|word| has_hole(word));
        let in_variables = template.variables.iter();
        if !in_words
            && !in_variables
                .clone()
                .any(|(_, value)| has_hole(value.as_ref()))
        {
            bail!(
                "nothing says where the number of threads goes: write {{n}} in the command (hitm scale -- ./prog --threads \
                 {{n}}) or in a variable (--env 'OMP_NUM_THREADS={{n}}')"
            );
        }
        Ok(template)
    }

    /// The command with so many threads.
    pub(super) fn with(&self, threads: Threads) -> Command {
        let variables = self.variables.iter();
        Command {
            words: self
                .words
                .iter()
                .map(|word| filled(word, threads))
                .collect(),
            variables: variables
                .map(|(name, value)| (name.into(), filled(value.as_ref(), threads)))
                .collect(),
            directory: None,
        }
    }

    /// As it was given.
    pub(super) fn shown(&self) -> Vec<String> {
        let shown = |word: &OsString| word.to_string_lossy().into_owned();
        self.words.iter().map(shown).collect()
    }

    pub(super) fn shown_variables(&self) -> Vec<(String, String)> {
        self.variables.clone()
    }
}

fn has_hole(text: &OsStr) -> bool {
    let bytes = text.as_bytes();
    bytes.windows(HOLE.len()).any(|window| window == HOLE)
}

/// All holes filled; bytes that are no text stay as they are.
fn filled(text: &OsStr, threads: Threads) -> OsString {
    let number = threads.to_string();
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(HOLE) {
            bytes.extend_from_slice(number.as_bytes());
            rest = after;
        } else {
            bytes.push(*first);
            rest = behind;
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hole_is_filled_and_nothing_else() {
        for (text, expected) in [
            ("{n}", "12"),
            ("--threads={n},{n}", "--threads=12,12"),
            ("{{n}}", "{12}"),
            ("{m} n {", "{m} n {"),
            ("", ""),
        ] {
            assert_eq!(filled(text.as_ref(), Threads(12)), expected, "{text}");
            assert_eq!(has_hole(text.as_ref()), text.contains("{n}"), "{text}");
        }
    }
}
