//! The rows as a table: on the terminal, and as docs/stories.md with the machine.

use std::fmt::Write as _;

use anyhow::{Result, bail};
use serde_json::Value;

use super::case::Outcome;

/// A case as it went.
pub(super) struct Row {
    pub(super) story: u8,
    pub(super) title: String,
    pub(super) repair: String,
    /// What came of it, or why nothing did.
    pub(super) outcome: Result<Outcome, NotRun>,
}

/// Why there is no outcome.
pub(super) enum NotRun {
    /// Something that it needs is not here.
    Skipped(String),
    /// It failed.
    Failed(String),
}

impl Row {
    /// Whether hitm said of both layouts what it has to.
    pub(super) fn is_right(&self) -> bool {
        match &self.outcome {
            Ok(outcome) => {
                let named = outcome.slow.expected.is_some() || !outcome.slow.could_be_seen();
                named && outcome.repaired.is_gone()
            }
            Err(NotRun::Skipped(_)) => true,
            Err(NotRun::Failed(_)) => false,
        }
    }

    fn cells(&self) -> [String; 6] {
        let story = self.story.to_string();
        let (title, repair) = (self.title.clone(), self.repair.clone());
        match &self.outcome {
            Ok(outcome) => {
                let slow = &outcome.slow;
                let note = outcome.note.as_ref();
                let note = note.map_or(String::new(), |note| format!("; {note}"));
                let missed = match (&slow.expected, slow.could_be_seen()) {
                    (Some(_), _) => "",
                    (None, true) => "MISSED: ",
                    (None, false) => "not seen: ",
                };
                let left = if outcome.repaired.is_gone() {
                    ""
                } else {
                    "STILL THERE: "
                };
                [
                    story,
                    title,
                    format!("{missed}{}", slow.words()),
                    outcome.proved.clone().unwrap_or_else(|| "–".to_owned()),
                    format!("{repair}: {left}{}", outcome.repaired.words()),
                    outcome.gain.words() + &note,
                ]
            }
            Err(why) => {
                let why = match why {
                    NotRun::Skipped(why) => format!("skipped: {why}"),
                    NotRun::Failed(why) => format!("FAILED: {why}"),
                };
                [story, title, why, "–".into(), repair, "–".into()]
            }
        }
    }
}

const COLUMNS: [&str; 6] = [
    "story",
    "fault",
    "`hitm run` of it",
    "`hitm prove` of it",
    "repair, and `hitm run` of that",
    "gain, measured",
];

/// The rows for the terminal.
pub(super) fn text(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        let [story, title, slow, proved, repaired, gain] = row.cells();
        let _ = write!(
            text,
            "story {story}  {title}\n  fault     {slow}\n  prove     {proved}\n  repair    {repaired}\n  gain      {gain}\n"
        );
    }
    text
}

/// The page, with the rows of all stories; `machine` is what a report says of it. Where only one story was run, the rows
/// of the others are those of `old`, the page as it was.
///
/// # Errors
/// If those are of another machine.
pub(super) fn markdown(rows: &[Row], machine: &Value, old: Option<(&str, u8)>) -> Result<String> {
    let machine = describe(machine);
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let escaped = |cell: String| cell.replace('|', "\\|").replace('\n', " ");
    let fresh = rows.iter().map(|row| line(&row.cells().map(escaped)));
    let mut lines: Vec<String> = fresh.collect();
    if let Some((old, only)) = old {
        let kept: Vec<String> = rows_of_others(old, only)
            .map(|row| format!("{row}\n"))
            .collect();
        if !kept.is_empty() && !old.lines().any(|line| line == machine) {
            bail!(
                "docs/stories.md is of another machine, and stays as it is: run all stories, without --only"
            );
        }
        lines.extend(kept);
        // Stable: the rows of a story stay in their order.
        lines.sort_by_key(|line| story_of(line));
    }
    let mut page = format!("{INTRODUCTION}\n{machine}\n\n");
    page += &line(&COLUMNS.map(str::to_owned));
    page += &line(&COLUMNS.map(|_| "---".to_owned()));
    page.extend(lines);
    page += EXPLANATION;
    Ok(page)
}

fn rows_of_others(page: &str, only: u8) -> impl Iterator<Item = &str> {
    page.lines()
        .filter(move |line| story_of(line).is_some_and(|story| story != only))
}

/// The story of a line of the table.
fn story_of(line: &str) -> Option<u8> {
    line.strip_prefix("| ")?.split(' ').next()?.parse().ok()
}

/// The machine in a sentence.
fn describe(machine: &Value) -> String {
    let text = |key: &str| machine[key].as_str().unwrap_or("unknown").to_owned();
    let number = |key: &str| {
        machine[key]
            .as_u64()
            .map_or("an unknown number of".to_owned(), |number| {
                number.to_string()
            })
    };
    let kind = match machine["virtual_machine"].as_bool() {
        Some(true) => "a virtual machine",
        Some(false) => "no virtual machine",
        None => "not known whether a virtual machine",
    };
    format!(
        "Machine: {}, {} processors, lines of {} bytes, {kind}, Linux {} on {}.",
        text("processor"),
        number("cpus"),
        number("line_size_bytes"),
        text("kernel").split('-').next().unwrap_or("unknown"),
        text("architecture"),
    )
}

const INTRODUCTION: &str = "\
# The three stories, end to end

`cargo xtask stories` runs them and writes this page. Each story is a fault from the field as a program: hitm looks at the
slow layout and must name the fault, looks at the repaired one and must not, and then both run in turn, without hitm, to
measure what the repair gains on this machine.
";

const EXPLANATION: &str = "
## What the columns say

- **`hitm run`** (of the server: `hitm attach`): all findings, with the objects on the line. *At most* is sampled: the share of the
  participants' time in code that touches the line.
- **`hitm prove`**: the threads on one core for short windows and apart again. So much faster per second of its own processor
  time the most affected thread runs without its opponents on other cores, with a 95 % interval.
- **gain**: interleaved pairs of runs, slow and repaired taking turns at being first; the ratio of the costs of one unit of work,
  slow over repaired: its median with a 95 % interval that holds for any noise (between two of the sorted ratios). Pairs whose
  threads did not run *side by side* (processor time against wall time: the machine was busy with something else) are left
  out if there are others. Of the server, whose threads sleep now and then, those pairs count that were *undisturbed*: other
  programs than the server and the benchmark took at most 5 % of the processors. Where the interval reaches down to 1, or
  no pair counts, no gain was shown, and the row says so.

Another machine gives other numbers: what a shared line costs depends on the processor, and on how far apart the cores are.
";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::stories::gain::{Counted, Gain};
    use crate::stories::seen::{Found, Seen};

    fn seen(expected: bool, related: bool) -> Seen {
        let found = || Found {
            verdict: "false-sharing".into(),
            objects: vec!["cnt".into()],
            share: 0.98,
            measured: None,
        };
        Seen {
            expected: expected.then(found),
            related: related.then(found).into_iter().collect(),
            others: Vec::new(),
            co_running: 0.9,
        }
    }

    fn row(slow: Seen, repaired: Seen) -> Row {
        Row {
            story: 2,
            title: "a | fault".into(),
            repair: "a repair".into(),
            outcome: Ok(Outcome {
                slow,
                proved: Some("costs 4.00× [3.80, 4.30]".into()),
                repaired,
                gain: Gain {
                    ratio: 3.4,
                    interval: Some((3.1, 3.9)),
                    counted: Counted::SideBySide,
                    good: 8,
                    pairs: 9,
                },
                note: Some("a note".into()),
                machine: Value::Null,
            }),
        }
    }

    fn not_run(why: NotRun) -> Row {
        Row {
            outcome: Err(why),
            ..row(seen(false, false), seen(false, false))
        }
    }

    #[test]
    fn rows_say_what_was_seen() {
        let rows = [
            row(seen(true, false), seen(false, false)),
            row(seen(false, false), seen(false, true)),
            not_run(NotRun::Skipped("no g++".into())),
            not_run(NotRun::Failed("why".into())),
        ];
        assert_eq!(
            rows.each_ref().map(Row::is_right),
            [true, false, true, false]
        );
        let machine = json!({
            "processor": "P", "cpus": 2, "line_size_bytes": 64, "virtual_machine": true,
            "kernel": "6.1-local", "architecture": "x86_64",
        });
        let page = markdown(&rows, &machine, None).unwrap();
        let table: Vec<&str> = page
            .lines()
            .filter(|line| line.starts_with("| 2"))
            .collect();
        let named = "false sharing of cnt, at most 98 %";
        let gain = "3.40× [3.10, 3.90], 8 of 9 pairs side by side; a note";
        assert_eq!(
            table,
            [
                format!(
                    "| 2 | a \\| fault | {named} | costs 4.00× [3.80, 4.30] | a repair: nothing | {gain} |"
                ),
                format!(
                    "| 2 | a \\| fault | MISSED: nothing | costs 4.00× [3.80, 4.30] | a repair: STILL THERE: {named} | \
                     {gain} |"
                ),
                "| 2 | a \\| fault | skipped: no g++ | – | a repair | – |".to_owned(),
                "| 2 | a \\| fault | FAILED: why | – | a repair | – |".to_owned(),
            ]
        );
        assert!(page.contains(
            "Machine: P, 2 processors, lines of 64 bytes, a virtual machine, Linux 6.1 on x86_64.\n"
        ));

        let mut other = row(seen(true, false), seen(false, false));
        other.story = 1;
        let merged = markdown(&[other], &machine, Some((&page, 1))).unwrap();
        let stories: Vec<u8> = merged.lines().filter_map(story_of).collect();
        assert_eq!(stories, [1, 2, 2, 2, 2]);
        assert!(markdown(&rows, &Value::Null, Some((&merged, 2))).is_err());
        assert!(markdown(&rows, &Value::Null, Some((&page, 2))).is_ok());

        let mut small = row(seen(false, false), seen(false, false));
        if let Ok(outcome) = &mut small.outcome {
            outcome.slow.co_running = 0.1;
        }
        assert!(small.is_right());
        let [_, _, slow, ..] = small.cells();
        assert_eq!(
            slow,
            "not seen: nothing (threads ran side by side in only 10 % of the time)"
        );

        assert!(text(&rows).starts_with("story 2  a | fault\n  fault     false sharing"));
    }
}
