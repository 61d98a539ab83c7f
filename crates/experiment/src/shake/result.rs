//! All that is known at the end, for a report.

use super::change::Change;
use super::judge::{Judgement, Verdict};
use super::rounds::{ArmEnded, Rounds};
use crate::judge::Better;
use crate::metric::Metric;

/// A program in many layouts.
#[derive(Clone, Debug)]
pub struct Shaken {
    /// What built it, for a shell.
    pub build: String,
    /// What was run.
    pub run: Vec<String>,
    /// The program whose layout was changed.
    pub program: Program,
    /// What was measured.
    pub metric: Metric,
    /// Which values are good.
    pub better: Better,
    /// The machine, in one line.
    pub machine: String,
    /// Bytes of a line.
    pub line_size: u32,
    /// The seed of all that was drawn by lot.
    pub seed: u64,
    /// All variants that were asked for, in their order.
    pub variants: Vec<Variant>,
    /// What was measured; a variant's number there is its place among those with `runs`. `None` if nothing was.
    pub rounds: Option<Rounds<String>>,
    /// What it says.
    pub judgement: Option<Judgement>,
    /// Which variables tell the slow layouts from the fast ones.
    pub explanation: Option<Explanation>,
    /// What limits it, as sentences with what to do.
    pub caveats: Vec<String>,
    /// Where the builds are, if they are kept.
    pub kept: Option<String>,
}

impl Shaken {
    /// Layouts that were asked for and could not be built, or not be run to the end.
    #[must_use]
    pub fn missing(&self) -> usize {
        let arms = self.rounds.as_ref().map_or(&[][..], |rounds| &rounds.arms);
        let failed = |number: usize| matches!(arms.get(number), Some(ArmEnded::Failed(_)));
        let is_missing =
            |variant: &&Variant| variant.built.is_err() || variant.number.is_some_and(failed);
        self.variants.iter().filter(is_missing).count()
    }

    /// Takes back that the layout does not matter, if the layouts that might have said otherwise did not run: some failed, or no
    /// variable could be moved at all.
    pub fn settle(&mut self) {
        let builds = || {
            self.variants
                .iter()
                .filter(|variant| variant.change.is_build())
        };
        let nothing_moved =
            builds().next().is_some() && builds().all(|variant| variant.number.is_none());
        let cannot_tell = self.missing() > 0 || nothing_moved;
        if let Some(judgement) = &mut self.judgement
            && judgement.verdict == Verdict::DoesNotMatter
            && cannot_tell
        {
            judgement.verdict = Verdict::Undecided { more_rounds: None };
        }
    }
}

/// The program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// Its path in the tree.
    pub path: String,
    /// Whether only the link was repeated for each variant.
    pub relinked: bool,
    /// The linker.
    pub linker: String,
}

/// One variant.
#[derive(Clone, Debug)]
pub struct Variant {
    /// What it changes.
    pub change: Change,
    /// What came of it.
    pub built: Result<Moved, String>,
    /// Its number in the rounds; `None` if it was not run.
    pub number: Option<usize>,
}

/// What a build's variables did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Moved {
    /// The file is the base's: nothing in it moved.
    SameFile,
    /// They moved, section by section.
    Sections(Vec<SectionMoved>),
    /// No variable is elsewhere within its line than in this other build (the base without a name).
    Nowhere {
        /// The variant that has the same layout.
        same_as: Option<String>,
    },
    /// It has no symbols to tell by.
    NotKnown,
}

/// How the variables of a section moved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SectionMoved {
    /// The section.
    pub section: String,
    /// Variables that both builds have there.
    pub variables: usize,
    /// Most of them moved by so many bytes within the line (or pair of lines) that shifts go over.
    pub bytes: u32,
    /// How many these are.
    pub agree: usize,
    /// How many moved by anything at all.
    pub moved: usize,
}

/// Which variables tell the slow layouts from the fast ones.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Explanation {
    /// The fast build that was compared.
    pub fast: String,
    /// The slow one.
    pub slow: String,
    /// Pairs that are on one line in all slow builds and in none of the fast ones.
    pub always: Vec<Explained>,
    /// Pairs that came onto one line from `fast` to `slow`, but not in all builds so.
    pub sometimes: Vec<Explained>,
    /// Builds that were looked at.
    pub builds: usize,
    /// Bytes of what "one line" means here: those of a pair of lines where lines alone explain nothing and pairs were asked
    /// for.
    pub bytes: u32,
}

/// Two variables on one line of the slow build.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explained {
    /// The first by address.
    pub a: String,
    /// The other.
    pub b: String,
    /// The line, as an address stated in the slow build's file.
    pub line: u64,
    /// Where the first begins in the line.
    pub a_offset: u64,
    /// Where the other does.
    pub b_offset: u64,
}
