//! What the command line asks for, understood and checked before anything is copied.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use hitm_experiment::shake::{Change, changes, rounds_needed};
use hitm_experiment::{Better, CommandSpec, Floor, LogRatio, Metric};
use hitm_model::LineSize;

use crate::cli::{BetterChoice, ShakeArgs};
use crate::commands::static_binary::line_size;

/// Rounds beyond those without which no verdict is possible: with these alone, one odd run would prevent it.
const SPARE_ROUNDS: usize = 3;

pub(super) struct Request {
    /// What is run, word by word.
    pub(super) run: Vec<String>,
    pub(super) metric: Metric,
    pub(super) better: Better,
    pub(super) changes: Vec<Change>,
    pub(super) rounds: usize,
    pub(super) floor: Floor,
    pub(super) line_size: LineSize,
    /// Bytes over which variables are shifted.
    pub(super) unit: u32,
}

pub(super) fn request(args: &ShakeArgs) -> anyhow::Result<Request> {
    if args.build.trim().is_empty() {
        bail!("--build is empty (for example: --build 'make', --build 'cargo build --release')");
    }
    let run = CommandSpec::parse(&args.run).context("--run")?.words;
    let metric = Metric::parse(&args.metric)?;
    let better = args
        .better
        .map_or_else(|| metric.usually_better(), BetterChoice::meant);
    let line_size = line_size(args.line_size);
    let unit = line_size.bytes() * if args.pair { 2 } else { 1 };
    let changes = changes(args.variants, unit, args.seed);
    if changes.is_empty() {
        bail!("--variants asks for none (for example: --variants shift,shuffle=3,env=2)");
    }
    let needed = rounds_needed(changes.len());
    let rounds = args.rounds.map_or(needed + SPARE_ROUNDS, |n| n as usize);
    if rounds < needed {
        bail!(
            "{rounds} rounds cannot decide anything about {} variants, whatever they show (try: --rounds {needed})",
            changes.len()
        );
    }
    let floor = match args.floor {
        Some(part) => Floor::Fixed(LogRatio::from_percent(part * 100.0)),
        None => Floor::AtLeast(LogRatio::from_percent(1.0)),
    };
    Ok(Request {
        run,
        metric,
        better,
        changes,
        rounds,
        floor,
        line_size,
        unit,
    })
}

/// Words that may be the program, the likeliest first.
pub(super) fn candidates(args: &ShakeArgs, run: &[String]) -> Vec<PathBuf> {
    match &args.program {
        Some(program) => vec![program.clone()],
        None => run.iter().map(Path::new).map(Path::to_owned).collect(),
    }
}
