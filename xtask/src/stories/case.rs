//! A case: one fault, one repair, and what is done with both.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use hitm_testkit::{Said, comparisons};
use serde_json::Value;

use super::child::{self, Interrupts};
use super::gain::{self, Counted, Gain};
use super::seen::{Expected, Seen};
use crate::pairs::Run;

/// Of any one program.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(120);
/// How often hitm looks where threads did not run side by side, or there was no number.
const ATTEMPTS: u32 = 3;

/// One fault and one repair of it.
pub(super) struct Case {
    /// What the fault is.
    pub(super) title: &'static str,
    /// What the repair is.
    pub(super) repair: &'static str,
    /// What hitm must say of the fault.
    pub(super) expected: Expected,
    pub(super) slow: Box<dyn Layout>,
    pub(super) repaired: Box<dyn Layout>,
    /// Whether `hitm prove` is asked too.
    pub(super) prove: bool,
    /// Which pairs of runs count.
    pub(super) counted: Counted,
}

/// A program in one of its layouts.
pub(super) trait Layout {
    /// Has hitm look at it, and returns the report.
    fn look(&self, session: &Session<'_>) -> Result<Value>;

    /// Has `hitm prove` look at it, and returns the report.
    fn prove(&self, session: &Session<'_>) -> Result<Value>;

    /// Runs it once without hitm.
    fn time(&self, session: &Session<'_>) -> Result<Run>;

    /// What else is to be known of the runs so far.
    fn note(&self) -> Option<String> {
        None
    }
}

/// What came of a case.
pub(super) struct Outcome {
    /// What hitm saw of the slow layout.
    pub(super) slow: Seen,
    /// What `hitm prove` said, if it was asked.
    pub(super) proved: Option<String>,
    /// What hitm saw of the repaired layout.
    pub(super) repaired: Seen,
    pub(super) gain: Gain,
    /// What else is to be known of the timed runs.
    pub(super) note: Option<String>,
    /// The machine, as a report describes it.
    pub(super) machine: Value,
}

/// With what cases are run.
pub(super) struct Session<'a> {
    pub(super) hitm: &'a Path,
    /// Where recordings and reports go.
    pub(super) work: &'a Path,
    /// How many pairs are to count.
    pub(super) pairs: u32,
    pub(super) interrupts: &'a Interrupts,
}

impl Session<'_> {
    /// Looks at both layouts, then times them.
    pub(super) fn run(&self, case: &Case) -> Result<Outcome> {
        eprintln!("  hitm run on the slow layout");
        let named = |seen: &Seen| seen.expected.is_some();
        let (slow, machine) = self.look(&*case.slow, &case.expected, named)?;
        eprintln!("    {}", slow.words());
        let proved = if case.prove {
            eprintln!("  hitm prove on the slow layout");
            let proved = self.prove(case)?;
            eprintln!("    {proved}");
            Some(proved)
        } else {
            None
        };
        eprintln!("  hitm run on the repaired layout");
        let (repaired, _) = self.look(&*case.repaired, &case.expected, |_| false)?;
        eprintln!("    {}", repaired.words());
        eprintln!("  both layouts in turn, until {} pairs count", self.pairs);
        let gain = gain::measure(
            self.pairs,
            case.counted,
            || case.repaired.time(self),
            || case.slow.time(self),
        )?;
        eprintln!("    {}", gain.words());
        Ok(Outcome {
            slow,
            proved,
            repaired,
            gain,
            note: case.slow.note(),
            machine,
        })
    }

    /// What hitm sees of a layout; again if its threads did not run side by side, unless `enough` was seen.
    fn look(
        &self,
        layout: &dyn Layout,
        expected: &Expected,
        enough: fn(&Seen) -> bool,
    ) -> Result<(Seen, Value)> {
        let mut attempt = 1;
        loop {
            let report = layout.look(self)?;
            let seen = Seen::read(&report, expected)?;
            if attempt == ATTEMPTS || enough(&seen) || seen.could_be_seen() {
                return Ok((seen, report["machine"].clone()));
            }
            attempt += 1;
            eprintln!("    {}: again", seen.words());
        }
    }

    /// What `hitm prove` says of the slow layout; again if it has no number.
    fn prove(&self, case: &Case) -> Result<String> {
        let mut attempt = 1;
        loop {
            let report = case.slow.prove(self)?;
            let seen = Seen::read(&report, &case.expected)?;
            let measured = seen.expected.and_then(|found| found.measured);
            match measured {
                Some(measured) => return Ok(measured),
                None if attempt == ATTEMPTS => {
                    return Ok(format!("no number: {}", why_none(&report)));
                }
                None => {
                    attempt += 1;
                    eprintln!("    no number ({}): again", why_none(&report));
                }
            }
        }
    }

    /// Runs a command of hitm, whose options and target `add` adds, and reads the report.
    pub(super) fn hitm(&self, subcommand: &str, add: impl FnOnce(&mut Command)) -> Result<Value> {
        let json = self.work.join("report.json");
        let _ = std::fs::remove_file(&json);
        let mut command = Command::new(self.hitm);
        command
            .current_dir(self.work)
            .args([subcommand, "--json=report.json", "-o", "story.hitm"]);
        add(&mut command);
        // Where there was nothing to measure by, the exit code says so, and the report says why.
        let ended = child::run_to_end(&mut command, TIME_LIMIT, self.interrupts)?;
        let text = std::fs::read_to_string(&json)
            .with_context(|| format!("no report: {}", ended.failure()))?;
        serde_json::from_str(&text).context("the report is not JSON")
    }
}

/// How many this process may use.
pub(super) fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The reason that a report gives for having no number, without what to do about it.
fn why_none(report: &Value) -> String {
    let reasons = comparisons(report).unwrap_or_default();
    let mut texts = reasons
        .iter()
        .flat_map(|comparison| &comparison.threads)
        .filter_map(|thread| match &thread.said {
            Said::Nothing { text, .. } => Some(first_words(text)),
            Said::Ratio { .. } => None,
        });
    let nothing = || "no threads were found that share a line".to_owned();
    texts.next().unwrap_or_else(nothing)
}

/// A text up to its second colon: `cannot tell: the threads take turns: let it run alone` is `cannot tell: the threads take
/// turns`.
fn first_words(text: &str) -> String {
    text.split(": ").take(2).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_short() {
        assert_eq!(
            first_words("cannot tell: they wait: do this: or that"),
            "cannot tell: they wait"
        );
        assert_eq!(first_words("one"), "one");
    }
}
