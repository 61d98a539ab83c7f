//! The three stories end to end: the slow layout, hitm names it, the repaired layout, it is gone, and what that gained.
//!
//! # Caveats
//! The gain is that of this machine, now. A row says how many of its pairs count, and if the machine could not show a gain,
//! that.

mod case;
mod child;
mod gain;
mod labs;
mod page;
mod program;
mod seen;
pub(crate) mod server;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use hitm_testkit::CompileError;
use serde_json::Value;

use crate::tools::{build_hitm, root};
use case::{Case, Session};
use child::Interrupts;
use page::{NotRun, Row};

/// What to run.
pub(crate) struct Options {
    /// Only this story.
    pub(crate) only: Option<u8>,
    /// How many pairs are to count.
    pub(crate) runs: u32,
    /// This hitm instead of the one of this tree.
    pub(crate) hitm: Option<PathBuf>,
}

/// Programs of one story, built together.
struct Group {
    story: u8,
    title: &'static str,
    build: fn(&Session<'_>) -> Result<Vec<Case>>,
}

const GROUPS: [Group; 4] = [
    Group {
        story: 1,
        title: "two globals (C++)",
        build: |_| labs::story1(),
    },
    Group {
        story: 1,
        title: "doradd's `ycsb`",
        build: labs::story1_in_doradd,
    },
    Group {
        story: 2,
        title: "the collector",
        build: |_| labs::story2(),
    },
    Group {
        story: 3,
        title: "the server",
        build: |_| server::story3(),
    },
];

/// A tool that a story needs and that is not here: a reason to leave it out, not to fail.
#[derive(Debug)]
struct Missing(&'static str);

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Missing {}

/// Runs the stories, prints their table, and writes docs/stories.md.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if let Err(why) = hitm_testkit::perf_available() {
        eprintln!("hitm samples by its preloaded agent here, which may see less: {why}");
    }
    let interrupts = Interrupts::watch()?;
    let hitm = match &options.hitm {
        Some(hitm) => hitm
            .canonicalize()
            .with_context(|| hitm.display().to_string())?,
        None => build_hitm()?,
    };
    let work = tempfile::tempdir().context("no directory for recordings")?;
    let session = Session {
        hitm: &hitm,
        work: work.path(),
        pairs: options.runs,
        interrupts: &interrupts,
    };
    let wanted = |group: &&Group| options.only.is_none_or(|only| only == group.story);
    // All that is compiled comes first: nothing is measured beside a compiler.
    let mut built = Vec::new();
    for group in GROUPS.iter().filter(wanted) {
        built.push((group, (group.build)(&session)));
        interrupts.check()?;
    }
    let mut rows = Vec::new();
    for (group, cases) in built {
        rows.extend(tell(group, cases, &session)?);
    }
    print!("{}", page::text(&rows));
    let machine = rows.iter().find_map(|row| row.outcome.as_ref().ok());
    let machine = machine.map_or(Value::Null, |outcome| outcome.machine.clone());
    if !machine.is_null() {
        write_page(&rows, &machine, options.only)?;
    }
    Ok(if rows.iter().all(Row::is_right) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Writes docs/stories.md; the rows of stories that were not run stay.
fn write_page(rows: &[Row], machine: &Value, only: Option<u8>) -> Result<()> {
    let path = root().join("docs/stories.md");
    let old = std::fs::read_to_string(&path).unwrap_or_default();
    let old = only.map(|only| (old.as_str(), only));
    let page = page::markdown(rows, machine, old)?;
    std::fs::write(&path, page).with_context(|| path.display().to_string())?;
    println!("written to docs/stories.md");
    Ok(())
}

/// All rows of a group. An error only if the task is to end.
fn tell(group: &Group, cases: Result<Vec<Case>>, session: &Session<'_>) -> Result<Vec<Row>> {
    let cases = match cases {
        Ok(cases) => cases,
        Err(error) => return Ok(vec![not_built(group, &error)]),
    };
    let mut rows = Vec::new();
    for case in cases {
        eprintln!(
            "story {}: {}; repair: {}",
            group.story, case.title, case.repair
        );
        let outcome = session.run(&case);
        session.interrupts.check()?;
        if let Err(error) = &outcome {
            eprintln!("  failed: {error:#}");
        }
        rows.push(Row {
            story: group.story,
            title: case.title.to_owned(),
            repair: case.repair.to_owned(),
            outcome: outcome.map_err(|error| NotRun::Failed(format!("{error:#}"))),
        });
    }
    Ok(rows)
}

/// Programs that are not there: skipped if a tool is missing, failed if it is there and fails.
fn not_built(group: &Group, error: &anyhow::Error) -> Row {
    let why = format!("{error:#}");
    eprintln!("story {}: {}: {why}", group.story, group.title);
    let no_compiler = matches!(error.downcast_ref(), Some(CompileError::NoCompiler(_)));
    let is_missing = no_compiler || error.is::<Missing>();
    Row {
        story: group.story,
        title: group.title.to_owned(),
        repair: "–".to_owned(),
        outcome: Err(if is_missing {
            NotRun::Skipped(why)
        } else {
            NotRun::Failed(why)
        }),
    }
}
