//! Runs `hitm run` on a folder of programs whose sharing is known and compares what it says with the truth.
//!
//! # Caveats
//! A verdict needs threads that run side by side. On a busy machine with few processors they sometimes do not: such a
//! run is repeated, whatever it said, and its line stays visible. The last repetition counts, however it went.

mod copy;
mod proof;
mod prove;
mod scale;
mod session;
mod slowdown;
mod table;
mod truth;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::sys::resource::{Resource, setrlimit};

use crate::tools::{build_hitm, check, install, target_dir};
pub(crate) use prove::run as prove;
use session::Session;
use table::Row;
use truth::{Case, Program};

const TIME_LIMIT: Duration = Duration::from_secs(60);
/// Address space of a program: one that allocates for ever fails before the machine does.
const MEMORY_LIMIT: u64 = 4 << 30;
/// How often a run whose threads did not run side by side is repeated.
const REPETITIONS: u32 = 2;

/// What to run.
pub(crate) struct Options {
    /// The folder of the programs; it is copied, not written to.
    pub(crate) dir: PathBuf,
    /// How often each program is run.
    pub(crate) runs: u32,
    /// How long a program without hitm is to take.
    pub(crate) time: Duration,
    /// Only this program.
    pub(crate) only: Option<String>,
    /// This hitm instead of the one of this tree.
    pub(crate) hitm: Option<PathBuf>,
}

/// Builds the programs and runs each in both layouts.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let (session, programs) = prepare(options)?;
    let cases: Vec<_> = programs
        .iter()
        .flat_map(Program::cases)
        .map(|case| (scale::iterations(&session.work, &case, options.time), case))
        .collect();
    let mut rows = Vec::new();
    for run in 1..=options.runs {
        println!("{}", table::header(run, options.runs));
        let before = rows.len();
        for (iterations, case) in &cases {
            rows.push(row(&session, case, iterations.as_ref()));
        }
        print!("{}", table::summary(&rows[before..]));
    }
    if options.runs > 1 {
        print!("\nall {} runs\n{}", options.runs, table::summary(&rows));
    }
    Ok(if rows.iter().all(Row::right) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A program in both layouts, for who compares them in a way of his own.
pub(crate) struct Layouts {
    /// Its name below bin/.
    pub(crate) id: String,
    /// Where it lies.
    pub(crate) folder: PathBuf,
    /// Iterations that take the packed layout the wanted time.
    pub(crate) iterations: u64,
    /// Whether the repaired layout takes false sharing away.
    pub(crate) is_faulty: bool,
}

/// Builds the programs of a folder.
pub(crate) fn layouts(dir: &Path, time: Duration) -> Result<Vec<Layouts>> {
    let work = work_folder(dir)?;
    copy::refresh(dir, &work).with_context(|| format!("cannot copy {}", dir.display()))?;
    build(&work)?;
    programs(&work, None)?
        .iter()
        .map(|program| {
            let [packed, fixed] = program.cases();
            Ok(Layouts {
                id: program.id.clone(),
                folder: work.clone(),
                iterations: scale::iterations(&work, &packed, time)?,
                is_faulty: packed.verdict != fixed.verdict,
            })
        })
        .collect()
}

/// Builds hitm and the programs.
fn prepare(options: &Options) -> Result<(Session, Vec<Program>)> {
    let given = options.hitm.as_ref();
    let hitm = given.map_or_else(build_hitm, |hitm| Ok(hitm.canonicalize()?))?;
    let work = work_folder(&options.dir)?;
    copy::refresh(&options.dir, &work)
        .with_context(|| format!("cannot copy {}", options.dir.display()))?;
    build(&work)?;
    let programs = programs(&work, options.only.as_deref())?;
    // From here on this process only starts programs of the corpus, which inherit it.
    setrlimit(Resource::RLIMIT_AS, MEMORY_LIMIT, MEMORY_LIMIT).context("cannot limit memory")?;
    Ok((Session { hitm, work }, programs))
}

/// Runs one case, again if its threads did not run side by side, and prints each attempt.
fn row(session: &Session, case: &Case<'_>, iterations: Result<&u64, &anyhow::Error>) -> Row {
    let mut attempt = 0;
    loop {
        let judged = match iterations {
            Ok(&iterations) => session.judged(case, iterations),
            Err(error) => Err(anyhow::anyhow!("{error:#}")),
        };
        let row = Row::new(case, judged);
        if attempt == REPETITIONS || !row.ran_apart() {
            println!("{}", row.line());
            return row;
        }
        attempt += 1;
        println!(
            "{}\n       the threads did not run side by side: repeated ({attempt} of {REPETITIONS})",
            row.line()
        );
    }
}

fn programs(work: &Path, only: Option<&str>) -> Result<Vec<Program>> {
    let list = work.join("truth.tsv");
    let text = std::fs::read_to_string(&list).with_context(|| list.display().to_string())?;
    let mut programs = truth::parse(&text)?;
    programs.retain(|program| only.is_none_or(|only| only == program.id));
    if programs.is_empty() {
        bail!("no program to run; truth.tsv lists others");
    }
    Ok(programs)
}

/// A folder of our own per corpus, so that two of the same name do not mix.
fn work_folder(dir: &Path) -> Result<PathBuf> {
    let real = dir
        .canonicalize()
        .with_context(|| dir.display().to_string())?;
    let parts = real
        .components()
        .map(|part| part.as_os_str().to_string_lossy());
    let name: Vec<_> = parts.filter(|part| part != "/").collect();
    Ok(target_dir()?.join("corpus").join(name.join("-")))
}

fn build(work: &Path) -> Result<()> {
    install(&[("make", "make"), ("gcc", "gcc"), ("g++", "g++")]);
    let mut make = Command::new("make");
    // The programs are built as their makefile says, not as ours are.
    for variable in [
        "CARGO_TARGET_DIR",
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "MAKEFLAGS",
    ] {
        make.env_remove(variable);
    }
    check(make.arg("-C").arg(work))
}

fn last_line(text: &str) -> &str {
    text.trim().lines().next_back().unwrap_or("no output")
}
