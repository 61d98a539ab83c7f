//! What the command line asks for, as a suite.

use anyhow::{Context as _, bail};
use hitm_experiment::{
    CommandSpec, Floor, LogRatio, Looks, Metric, RowSpec, Seconds, Settings, Suite,
};

use crate::cli::{BetterChoice, CompareArgs};

/// From a file, or one row from `--a` and `--b`.
pub(super) fn suite(args: &CompareArgs) -> anyhow::Result<Suite> {
    let mut suite = match &args.suite {
        Some(path) => {
            let shown = path.display();
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read the suite {shown}"))?;
            Suite::parse(&text).with_context(|| format!("the suite {shown}"))?
        }
        None => one_row(args)?,
    };
    settle(&mut suite.settings, args);
    let looks = Looks::plan(suite.settings.pairs, suite.rows.len());
    if looks.most_pairs() == 0 {
        bail!(
            "{} pairs cannot decide anything for {} rows, whatever they show (try: --pairs 20)",
            suite.settings.pairs,
            suite.rows.len()
        );
    }
    Ok(suite)
}

fn one_row(args: &CompareArgs) -> anyhow::Result<Suite> {
    let (Some(a), Some(b)) = (&args.a, &args.b) else {
        bail!("two sides are compared: --a NAME=COMMAND --b NAME=COMMAND, or --suite FILE");
    };
    let ((name_a, a), (name_b, b)) = (side(a)?, side(b)?);
    let metric = Metric::parse(args.metric.as_deref().unwrap_or("wall"))?;
    let better = args
        .better
        .map_or_else(|| metric.usually_better(), BetterChoice::meant);
    Ok(Suite {
        rows: vec![RowSpec {
            name: format!("{name_b} against {name_a}"),
            metric,
            better,
            sides: [a, b],
        }],
        names: [name_a, name_b],
        settings: Settings::default(),
    })
}

/// `NAME=COMMAND`.
fn side(text: &str) -> anyhow::Result<(String, CommandSpec)> {
    let Some((name, command)) = text
        .split_once('=')
        .filter(|(name, _)| !name.trim().is_empty())
    else {
        bail!("{text:?} is not NAME=COMMAND (for example: --a 'base=./old --threads 4')");
    };
    Ok((name.trim().to_owned(), CommandSpec::parse(command)?))
}

/// The command line has the last word.
fn settle(settings: &mut Settings, args: &CompareArgs) {
    let seconds = |time: std::time::Duration| Seconds(time.as_secs_f64());
    if let Some(pairs) = args.pairs {
        settings.pairs = pairs;
    }
    if let Some(pairs) = args.noise_pairs {
        settings.noise_pairs = pairs;
    }
    if let Some(runs) = args.warm_up {
        settings.warm_up = runs;
    }
    if let Some(part) = args.floor {
        settings.floor = Floor::Fixed(LogRatio::from_percent(part * 100.0));
    }
    if let Some(time) = args.budget {
        settings.budget = Some(seconds(time));
    }
    if let Some(time) = args.timeout {
        settings.timeout = seconds(time);
    }
    if let Some(seed) = args.seed {
        settings.seed = seed;
    }
}
