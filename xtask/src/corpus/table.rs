//! The table of what was expected and what was found, with recall and precision below it.

use std::fmt::Write as _;

use anyhow::Result;
use hitm_model::Verdict;
use hitm_testkit::Judgement;

use super::truth::Case;

/// Below this share of the time two threads did not run side by side in earnest.
const CO_RUNNING_ENOUGH: f64 = 0.3;

/// One run of one program in one layout.
pub(crate) struct Row {
    run: u32,
    program: String,
    layout: &'static str,
    expected: Option<Verdict>,
    /// The outcome, or why there is none.
    judged: Result<Judgement>,
}

impl Row {
    pub(crate) fn new(run: u32, case: &Case<'_>, judged: Result<Judgement>) -> Self {
        Self {
            run,
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
        let co_running = match self
            .judged
            .as_ref()
            .ok()
            .and_then(|judgement| judgement.co_running)
        {
            Some(share) => format!("{:3.0} %", share * 100.0),
            None => "    ?".to_owned(),
        };
        let (found, why) = match &self.judged {
            Ok(judgement) if judgement.found.is_empty() => {
                ("nothing".to_owned(), judgement.wrong.join("; "))
            }
            Ok(judgement) => (judgement.found.join(", "), judgement.wrong.join("; ")),
            Err(error) => ("-".to_owned(), format!("{error:#}")),
        };
        let mark = if self.right() { "right" } else { "WRONG" };
        let mut line = format!(
            "{:>3}  {:<24} {:<6}  {mark}  {expected:<13}  {co_running}  {found}",
            self.run, self.program, self.layout
        );
        if !why.is_empty() {
            let _ = write!(line, "\n       {why}");
            if self.did_not_co_run() {
                line.push_str("; the threads did not run side by side");
            }
        }
        line
    }

    fn did_not_co_run(&self) -> bool {
        let share = self
            .judged
            .as_ref()
            .ok()
            .and_then(|judgement| judgement.co_running);
        share.is_some_and(|share| share < CO_RUNNING_ENOUGH)
    }
}

/// The figures below the table.
pub(crate) fn summary(rows: &[Row]) -> String {
    let wanted = rows.iter().filter(|row| row.expected.is_some()).count();
    let judged = || {
        rows.iter()
            .filter_map(|row| Some((row, row.judged.as_ref().ok()?)))
    };
    let hits = judged()
        .filter(|(row, judgement)| row.expected.is_some() && judgement.hit)
        .count();
    let found: usize = judged().map(|(_, judgement)| judgement.found.len()).sum();
    let right = rows.iter().filter(|row| row.right()).count();
    let apart = rows.iter().filter(|row| row.did_not_co_run()).count();
    format!(
        "recall {} ({hits} of {wanted} expected findings), precision {} ({hits} of {found} findings), \
         {right} of {} runs all right, {apart} whose threads did not run side by side\n",
        percent(hits, wanted),
        percent(hits, found),
        rows.len(),
    )
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
            Row::new(
                1,
                &packed,
                Ok(judgement(&["false-sharing of x"], &[], true)),
            ),
            Row::new(1, &fixed, Ok(judgement(&[], &[], true))),
            Row::new(
                2,
                &packed,
                Ok(judgement(
                    &["mixed of x"],
                    &["no false-sharing finding"],
                    false,
                )),
            ),
            Row::new(2, &fixed, Err(anyhow::anyhow!("no report"))),
        ];
        assert_eq!(rows.each_ref().map(Row::right), [true, true, false, false]);
        assert_eq!(
            summary(&rows),
            "recall 50.0 % (1 of 2 expected findings), precision 50.0 % (1 of 2 findings), \
             2 of 4 runs all right, 3 whose threads did not run side by side\n"
        );
        assert_eq!(
            rows[2].line(),
            "  2  x                        packed  WRONG  false-sharing   10 %  mixed of x\n       \
             no false-sharing finding; the threads did not run side by side"
        );
        assert!(rows[3].line().ends_with("-\n       no report"));
    }
}
