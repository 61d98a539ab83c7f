//! The table of what was expected and what was found, with recall and precision below it.

use std::fmt::Write as _;

use anyhow::Result;
use hitm_model::Verdict;
use hitm_testkit::Judgement;

use super::truth::Case;

/// Below this share of the time two threads did not run side by side in earnest.
const CO_RUNNING_ENOUGH: f64 = 0.5;

/// One run of one program in one layout.
pub(crate) struct Row {
    program: String,
    layout: &'static str,
    expected: Option<Verdict>,
    /// The outcome, or why there is none.
    judged: Result<Judgement>,
}

impl Row {
    pub(crate) fn new(case: &Case<'_>, judged: Result<Judgement>) -> Self {
        Self {
            program: case.program.id.clone(),
            layout: case.layout,
            expected: case.verdict,
            judged,
        }
    }

    /// Whether everything was as it must be.
    pub(crate) fn right(&self) -> bool {
        self.judged
            .as_ref()
            .is_ok_and(|judgement| judgement.wrong.is_empty())
    }

    pub(crate) fn line(&self) -> String {
        let expected = self.expected.map_or("nothing", Verdict::word);
        let (mark, found, why) = match &self.judged {
            Err(error) => ("ERROR", "-".to_owned(), format!("{error:#}")),
            Ok(judgement) => {
                let found = match judgement.found.as_slice() {
                    [] => "nothing".to_owned(),
                    found => found.join(", "),
                };
                let mark = if self.right() { "right" } else { "WRONG" };
                (mark, found, judgement.wrong.join("; "))
            }
        };
        let co_running = match self.co_running() {
            Some(share) => format!("{:3.0} %", share * 100.0),
            None => "    ?".to_owned(),
        };
        let mut line = format!(
            "{:<24} {:<6}  {mark}  {expected:<13}  {co_running}  {found}",
            self.program, self.layout
        );
        if !why.is_empty() {
            let _ = write!(line, "\n       {why}");
        }
        line
    }

    /// Whether the threads did not run side by side; not said of a run without a report.
    pub(crate) fn ran_apart(&self) -> bool {
        self.judged.is_ok() && self.co_running().unwrap_or(0.0) < CO_RUNNING_ENOUGH
    }

    fn co_running(&self) -> Option<f64> {
        self.judged.as_ref().ok()?.co_running
    }
}

/// The line above the rows of a run.
pub(crate) fn header(run: u32, runs: u32) -> String {
    let columns = format!(
        "{:<24} {:<6}  {:<5}  {:<13}  {}  found",
        "program", "layout", "", "expected", "co-ran"
    );
    if runs == 1 {
        columns
    } else {
        format!("\nrun {run} of {runs}\n{columns}")
    }
}

/// The figures below the rows.
pub(crate) fn summary(rows: &[Row]) -> String {
    let count = |which: fn(&Row) -> bool| rows.iter().filter(|row| which(row)).count();
    let judgements = || rows.iter().filter_map(|row| row.judged.as_ref().ok());
    let wanted = count(|row| row.expected.is_some());
    let hits = count(|row| {
        row.expected.is_some() && row.judged.as_ref().is_ok_and(|judgement| judgement.hit)
    });
    let found: usize = judgements().map(|judgement| judgement.found.len()).sum();
    let mut text = format!("right      {} of {} rows", count(Row::right), rows.len());
    let errors = count(|row| row.judged.is_err());
    if errors > 0 {
        let _ = write!(text, ", {errors} errors");
    }
    let apart = count(Row::ran_apart);
    if apart > 0 {
        let _ = write!(text, ", {apart} whose threads did not run side by side");
    }
    let _ = write!(
        text,
        "\nrecall     {} ({hits} of {wanted} expected findings)\nprecision  {} ({hits} of {found} findings)\n",
        percent(hits, wanted),
        percent(hits, found),
    );
    text
}

fn percent(part: usize, whole: usize) -> String {
    if whole == 0 {
        return "100 %".to_owned();
    }
    format!("{:.1} %", part as f64 * 100.0 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::truth;

    fn judgement(found: &[&str], wrong: &[&str], hit: bool) -> Judgement {
        Judgement {
            found: found.iter().map(|&text| text.into()).collect(),
            wrong: wrong.iter().map(|&text| text.into()).collect(),
            hit,
            extra: 0,
            co_running: Some(0.1),
        }
    }

    #[test]
    fn recall_and_precision_count_what_was_wanted_and_what_was_said() {
        let programs = truth::parse("id\tverdict\tlayout_fixed_64\nx\tfalse\tnone\n").unwrap();
        let [packed, fixed] = programs[0].cases();
        let rows = [
            Row::new(&packed, Ok(judgement(&["false-sharing of x"], &[], true))),
            Row::new(&fixed, Ok(judgement(&[], &[], true))),
            Row::new(
                &packed,
                Ok(judgement(
                    &["mixed of x"],
                    &["no false-sharing finding"],
                    false,
                )),
            ),
            Row::new(&fixed, Err(anyhow::anyhow!("no report"))),
        ];
        assert_eq!(rows.each_ref().map(Row::right), [true, true, false, false]);
        assert_eq!(
            rows.each_ref().map(Row::ran_apart),
            [true, true, true, false]
        );
        assert_eq!(
            summary(&rows),
            "right      2 of 4 rows, 1 errors, 3 whose threads did not run side by side\n\
             recall     50.0 % (1 of 2 expected findings)\n\
             precision  50.0 % (1 of 2 findings)\n"
        );
        assert_eq!(
            rows[2].line(),
            "x                        packed  WRONG  false-sharing   10 %  mixed of x\n       \
             no false-sharing finding"
        );
        assert_eq!(
            rows[3].line(),
            "x                        fixed   ERROR  nothing            ?  -\n       no report"
        );
    }
}
