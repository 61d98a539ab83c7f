//! `hitm prove` on a folder of programs whose sharing is known: what it says the sharing costs, against what the repaired
//! layout gains.
//!
//! # Caveats
//! A proof takes away all sharing of two threads, a repair only the false part; so programs with both are not judged, and
//! where a thread is written off by its program (a writer that runs until the reader is done) the slowdown is the reader's.
//! A proof that the machine disturbed is repeated, whatever it said, and stays visible; the last one counts.

use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hitm_testkit::{Comparison, comparisons, run_limited};
use serde_json::Value;

use super::proof::{Proof, Wanted};
use super::session::{Session, read};
use super::truth::{Case, Program};
use super::{Options, TIME_LIMIT, last_line, prepare, scale, slowdown};
use crate::pairs::{Pairs, median};

/// How long a program without hitm is to take at least, so that no proof runs out of it. More is asked for than needed,
/// because a busy machine makes the first, short run look longer.
const LONG: Duration = Duration::from_secs(20);
/// How often a proof that was disturbed is repeated.
const REPETITIONS: u32 = 3;
/// Below this share of the time two threads did not run side by side in earnest.
const CO_RUNNING_ENOUGH: f64 = 0.5;
/// Fewer pairs that ran side by side say nothing of the slowdown.
const ENOUGH_PAIRS: usize = 3;
/// The median error of the costs, as |ln(cost ÷ slowdown)|.
const MOST_ERROR: f64 = 0.20;

/// What came of all programs.
#[derive(Default)]
struct Tally {
    rows: usize,
    wrong: usize,
    /// How far costs are from slowdowns.
    errors: Vec<f64>,
}

/// Proves each program in both layouts.
pub(crate) fn run(options: &Options, waits: &[String]) -> Result<ExitCode> {
    let (session, programs) = prepare(options)?;
    if let Some(unknown) = waits
        .iter()
        .find(|id| options.only.is_none() && !programs.iter().any(|program| program.id == **id))
    {
        bail!("--waits {unknown}: truth.tsv has no such program");
    }
    let mut tally = Tally::default();
    for run in 1..=options.runs {
        if options.runs > 1 {
            println!("\nrun {run} of {}", options.runs);
        }
        for program in &programs {
            let waits = program.waits || waits.contains(&program.id);
            prove_program(&session, program, waits, &mut tally);
        }
    }
    Ok(tally.finish())
}

/// Measures what the repair gains, then proves both layouts.
fn prove_program(session: &Session, program: &Program, waits: bool, tally: &mut Tally) {
    let pairs = slowdown::measure(&session.work, program);
    match &pairs {
        Ok(pairs) => println!("{:<24} {}", program.id, gain(pairs)),
        Err(error) => println!("{:<24} slowdown not measured: {error:#}", program.id),
    }
    let slowdown = pairs
        .ok()
        .filter(|pairs| pairs.side_by_side >= ENOUGH_PAIRS)
        .map(|pairs| median(&pairs.ratios));
    for case in program.cases() {
        let wanted = Wanted::of(&case, waits);
        let proof = scale::iterations(&session.work, &case, LONG)
            .and_then(|iterations| undisturbed(session, &case, wanted, iterations));
        tally.add(&case, wanted, proof, slowdown);
    }
}

/// Proves a program, again if the machine disturbed it.
fn undisturbed(
    session: &Session,
    case: &Case<'_>,
    wanted: Wanted,
    mut iterations: u64,
) -> Result<Proof> {
    let mut attempt = 0;
    loop {
        let proof = prove(session, case, iterations)?;
        if attempt == REPETITIONS || !proof.disturbed() {
            return Ok(proof);
        }
        attempt += 1;
        row(case, "AGAIN", wanted, &proof);
        let why = if proof.comparisons.iter().any(|it| it.refuses("ended")) {
            // Threads that wait for each other may get several times as much done on one processor.
            iterations = iterations.saturating_mul(4);
            "the program ended too soon"
        } else {
            "the machine was busy"
        };
        println!("         {why}: repeated ({attempt} of {REPETITIONS})");
    }
}

fn prove(session: &Session, case: &Case<'_>, iterations: u64) -> Result<Proof> {
    let json = session.work.join("report.json");
    let _ = std::fs::remove_file(&json);
    let mut command = Command::new(&session.hitm);
    command
        .current_dir(&session.work)
        .args(["prove", "--json=report.json", "-o", "last.hitm"])
        .args(["--threads-by", "tid", "--"])
        .args(case.command_line())
        // In this order: programs may choose their layout by what `--addrs` left in the heap.
        .args(["--iters", &iterations.to_string(), "--addrs"]);
    let outcome = run_limited(&mut command, TIME_LIMIT)?;
    if outcome.timed_out {
        bail!(
            "not done after {} s: {}",
            TIME_LIMIT.as_secs(),
            last_line(&outcome.stderr)
        );
    }
    let report = read(&json)
        .with_context(|| format!("hitm: {}: {}", outcome.status, last_line(&outcome.stderr)))?;
    Ok(Proof {
        comparisons: comparisons(&report).map_err(anyhow::Error::msg)?,
        co_running: report
            .pointer("/totals/co_running_share")
            .and_then(Value::as_f64),
    })
}

impl Proof {
    fn disturbed(&self) -> bool {
        self.co_running.unwrap_or(0.0) < CO_RUNNING_ENOUGH
            || self.comparisons.is_empty()
            || self.comparisons.iter().any(Comparison::disturbed)
    }
}

impl Tally {
    /// Judges one program in one layout and prints it.
    fn add(
        &mut self,
        case: &Case<'_>,
        wanted: Wanted,
        proof: Result<Proof>,
        slowdown: Option<f64>,
    ) {
        self.rows += 1;
        let proof = match proof {
            Ok(proof) => proof,
            Err(error) => {
                self.wrong += 1;
                println!("  {:<6} ERROR  {error:#}", case.layout);
                return;
            }
        };
        let mut wrong = wanted.wrong(&proof);
        let error = slowdown.and_then(|slowdown| proof.error(slowdown));
        if wanted == Wanted::Cost && wrong.is_none() {
            match error {
                Some(error) => self.errors.push(error),
                None => wrong = Some("nothing to compare the cost with".to_owned()),
            }
        }
        let mark = if wrong.is_some() { "WRONG" } else { "right" };
        row(case, mark, wanted, &proof);
        if wanted == Wanted::Cost
            && let (Some(highest), Some(slowdown)) = (proof.highest(), slowdown)
        {
            println!(
                "         {highest:.2} against {slowdown:.2}: error {:.2}",
                error.unwrap_or(f64::NAN)
            );
        }
        if let Some(wrong) = wrong {
            self.wrong += 1;
            println!("         {wrong}");
        }
    }

    fn finish(mut self) -> ExitCode {
        self.errors.sort_by(f64::total_cmp);
        let error = median(&self.errors);
        let near = self.errors.is_empty() || error <= MOST_ERROR;
        println!(
            "\nright      {} of {} rows",
            self.rows - self.wrong,
            self.rows
        );
        if !self.errors.is_empty() {
            println!(
                "error      median {error:.2} of {} costs ({}: at most {MOST_ERROR:.2}), the largest {:.2}",
                self.errors.len(),
                if near { "within" } else { "OVER" },
                self.errors[self.errors.len() - 1],
            );
        }
        if near && self.wrong == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

/// What the pairs of runs say.
fn gain(pairs: &Pairs) -> String {
    let range = match pairs.ratios.as_slice() {
        [first, .., last] => format!(" [{first:.2}, {last:.2}]"),
        _ => String::new(),
    };
    format!(
        "slowdown {:.2}{range}, side by side in {} of {} pairs",
        median(&pairs.ratios),
        pairs.side_by_side,
        pairs.n
    )
}

fn row(case: &Case<'_>, mark: &str, wanted: Wanted, proof: &Proof) {
    let co_running = match proof.co_running {
        Some(share) => format!("{:3.0} %", share * 100.0),
        None => "    ?".to_owned(),
    };
    println!(
        "  {:<6} {mark}  wanted {:<17}  co-ran {co_running}",
        case.layout,
        wanted.words()
    );
    for line in proof.lines() {
        println!("         {line}");
    }
}
