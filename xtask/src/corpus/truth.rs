//! truth.tsv: which programs there are, and what must be found in each of their layouts.

use anyhow::{Context as _, Result, bail};
use hitm_model::Verdict;
use hitm_testkit::{Truth, Who};

/// One line of truth.tsv.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Program {
    /// Its name below bin/.
    pub(crate) id: String,
    packed: Option<Verdict>,
    fixed: Option<Verdict>,
    /// Whether its threads wait for each other; a table without a column `waits` does not tell.
    pub(crate) waits: bool,
}

/// A program in one of its layouts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Case<'a> {
    pub(crate) program: &'a Program,
    pub(crate) layout: &'static str,
    /// What must be found; `None` for no finding at all.
    pub(crate) verdict: Option<Verdict>,
}

impl Program {
    pub(crate) fn cases(&self) -> [Case<'_>; 2] {
        let case = |layout, verdict| Case {
            program: self,
            layout,
            verdict,
        };
        [case("packed", self.packed), case("fixed", self.fixed)]
    }
}

impl Case<'_> {
    /// The program with the option of its layout, to be started in the folder of the corpus.
    pub(crate) fn command_line(&self) -> Vec<String> {
        let program = format!("bin/{}", self.program.id);
        let option = (self.layout == "fixed").then(|| "--fixed".to_owned());
        std::iter::once(program).chain(option).collect()
    }

    /// Whether an address that the program prints must be part of the finding: where all sharing is true, only what
    /// all threads touch.
    pub(crate) fn claims(&self, truth: &Truth) -> bool {
        self.verdict != Some(Verdict::TrueSharing) || truth.who == Who::All
    }
}

/// The programs of a truth.tsv, whose first line names the columns.
pub(crate) fn parse(text: &str) -> Result<Vec<Program>> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let header: Vec<&str> = lines
        .next()
        .context("truth.tsv is empty")?
        .split('\t')
        .collect();
    let column = |name: &str| {
        let at = header.iter().position(|column| *column == name);
        at.with_context(|| format!("truth.tsv has no column {name}"))
    };
    let (id, packed, fixed) = (
        column("id")?,
        column("verdict")?,
        column("layout_fixed_64")?,
    );
    let waits = column("waits").ok();
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split('\t').collect();
            let cell = |at: usize| {
                cells
                    .get(at)
                    .copied()
                    .with_context(|| format!("short line: {line}"))
            };
            Ok(Program {
                id: cell(id)?.to_owned(),
                packed: verdict(cell(packed)?)?,
                fixed: verdict(cell(fixed)?)?,
                waits: waits.is_some_and(|at| cells.get(at) == Some(&"yes")),
            })
        })
        .collect()
}

fn verdict(word: &str) -> Result<Option<Verdict>> {
    Ok(match word {
        "none" => None,
        "false" => Some(Verdict::FalseSharing),
        "true" => Some(Verdict::TrueSharing),
        "false+true" | "mixed" => Some(Verdict::Mixed),
        other => bail!("truth.tsv: unknown verdict {other}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name() {
        let text =
            "id\tnote\tlayout_fixed_64\tverdict\na1\t-\tnone\tfalse\nb2\t-\ttrue\tfalse+true\n";
        let programs = parse(text).unwrap();
        let verdicts = |i: usize| programs[i].cases().map(|case| case.verdict);
        assert_eq!(verdicts(0), [Some(Verdict::FalseSharing), None]);
        assert_eq!(
            verdicts(1),
            [Some(Verdict::Mixed), Some(Verdict::TrueSharing)]
        );
        assert_eq!(
            programs[1]
                .cases()
                .map(|case| case.command_line().join(" ")),
            ["bin/b2", "bin/b2 --fixed"]
        );
    }

    #[test]
    fn whether_threads_wait_may_be_told() {
        let text = "id\tverdict\tlayout_fixed_64\twaits\na\tfalse\tnone\tyes\nb\tfalse\tnone\t-\n";
        let waits: Vec<bool> = parse(text).unwrap().iter().map(|it| it.waits).collect();
        assert_eq!(waits, [true, false]);
    }

    #[test]
    fn another_table_is_an_error() {
        assert!(parse("").is_err());
        assert!(parse("id\tverdict\nx\tfalse\n").is_err());
        assert!(parse("id\tverdict\tlayout_fixed_64\nx\tmaybe\tnone\n").is_err());
        assert!(parse("id\tverdict\tlayout_fixed_64\nx\n").is_err());
    }
}
