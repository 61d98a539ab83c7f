//! `hitm shake`: how much of a result is layout luck?
//!
//! - `place`, `janitor`: the temporary directory, and that it goes. `tree`: the copy of the user's tree in it.
//! - `wrappers`, `linker`, `record`: a build whose links are recorded. `link_line`, `edit`: links that are changed.
//! - `builds`, `moved`: the variants, and whether their variables moved as they were asked to.
//! - `runs`: their runs. `joined`: which variables tell the slow ones from the fast ones.

mod builds;
mod caveats;
mod edit;
mod janitor;
mod joined;
mod link_line;
mod linker;
mod moved;
mod place;
mod progress;
mod record;
mod request;
mod runs;
mod tree;
mod wrappers;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::bail;
use hitm_collect::trial::adopt_orphans;
use hitm_experiment::shake::{
    Arm, Change, Ended, Explanation, Judgement, Moved, Plan, Program, Shaken, Variant, Verdict,
    judge, measure,
};
use hitm_experiment::{Better, Seconds};
use hitm_model::LineSize;
use hitm_report::{PageOptions, shake_json, shake_table};

pub(crate) use self::janitor::tidy_up;
pub(crate) use self::linker::link;

use self::builds::{Base, Builder, Built};
use self::moved::Signature;
use self::place::Place;
use self::progress::{Line, Watching};
use self::request::Request;
use self::runs::{Runnable, Runs};
use self::tree::Tree;
use super::found::{self, To};
use super::interrupt;
use super::kept::Kept;
use crate::cli::{ShakeArgs, ShakeFailOn};
use crate::commands::compare::facts::machine;
use crate::exit_codes::Exit;
use crate::output;

/// Builds a program in many layouts, runs them in turn, and says what the layout does.
pub(crate) fn shake(args: &ShakeArgs) -> anyhow::Result<Exit> {
    let request = request::request(args)?;
    let stop = interrupt::flag()?;
    adopt_orphans()?;
    let place = Place::new(args.keep)?;
    let mut line = Line::new();
    let session = Session {
        args,
        request: &request,
        place: &place,
        stop: &stop,
    };
    let shaken = session.all(&mut line);
    line.bar.clear();
    if let (Err(_), Some(kept)) = (&shaken, place.kept()) {
        output::say(&format!("hitm: what was made is in {kept}"));
    }
    let shaken = shaken?;
    show(&shaken, args)?;
    Ok(exit(&shaken, args.fail_on))
}

/// What is asked for, and where it is done.
struct Session<'a> {
    args: &'a ShakeArgs,
    request: &'a Request,
    place: &'a Place,
    stop: &'a Arc<AtomicBool>,
}

/// Builds that are run.
struct Layouts {
    variants: Vec<Variant>,
    runnable: Vec<Runnable>,
}

impl Session<'_> {
    fn all(&self, line: &mut Line) -> anyhow::Result<Shaken> {
        line.bar.says("copying the tree");
        let layout = self.place.layout();
        let tree = Tree::look(&self.args.tree, layout.tree())?;
        tree.copy(self.stop)?;
        wrappers::install(layout, self.args.data_sections)?;
        let builder = Builder {
            place: layout,
            tree: &tree,
            command: &self.args.build,
            timeout: self.args.build_timeout,
            stop: self.stop,
        };
        line.bar.says("building as it is");
        let words = request::candidates(self.args, &self.request.run);
        let candidates: Vec<PathBuf> = words.iter().map(|word| tree.in_copy(word)).collect();
        let base = builder.base(&candidates, self.args.rebuild);
        // Whatever else is wrong, this matters more.
        left_alone(&tree)?;
        let base = base?;
        let layouts = self.layouts(&builder, &base, line);
        if self.stop.load(Ordering::Relaxed) {
            bail!("interrupted while the variants were built: nothing was measured");
        }
        let mut shaken = self.begun(&tree, &base, &layouts);
        if !layouts.runnable.is_empty() {
            self.measure(&tree, &base, &layouts, &mut shaken, line)?;
        }
        shaken.caveats = caveats::of(&shaken, &base, self.args.data_sections, &tree.changed());
        Ok(shaken)
    }

    /// Builds all variants. One that cannot be built is a result, too.
    fn layouts(&self, builder: &Builder<'_>, base: &Base, line: &Line) -> Layouts {
        let unit = self.request.unit;
        let mut known = vec![(None, base.places.signature(unit))];
        let mut layouts = Layouts {
            variants: Vec::new(),
            runnable: Vec::new(),
        };
        for &change in &self.request.changes {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            line.bar.says(&format!("building {change}"));
            let built = builder.variant(base, change, unit);
            let (built, runnable) = match built {
                Ok(built) => sorted(built, base, change, unit, &mut known),
                Err(error) => (Err(format!("{error:#}")), None),
            };
            let number = runnable.is_some().then_some(layouts.runnable.len());
            layouts.runnable.extend(runnable);
            layouts.variants.push(Variant {
                change,
                built,
                number,
            });
        }
        layouts
    }

    fn begun(&self, tree: &Tree, base: &Base, layouts: &Layouts) -> Shaken {
        Shaken {
            build: self.args.build.clone(),
            run: self.request.run.clone(),
            program: Program {
                path: tree.shown(&base.program),
                relinked: base.link.is_some(),
                linker: base.linker.clone(),
            },
            metric: self.request.metric.clone(),
            better: self.request.better,
            machine: machine(),
            line_size: self.request.line_size.bytes(),
            seed: self.args.seed,
            variants: layouts.variants.clone(),
            rounds: None,
            judgement: None,
            explanation: None,
            caveats: Vec::new(),
            kept: self.place.kept(),
        }
    }

    fn measure(
        &self,
        tree: &Tree,
        base: &Base,
        layouts: &Layouts,
        shaken: &mut Shaken,
        line: &mut Line,
    ) -> anyhow::Result<()> {
        let variants = layouts.runnable.len();
        let plan = Plan {
            rounds: self.request.rounds,
            variants,
            warm_up: self.args.warm_up as usize,
            most_repeats: (variants + 2) * self.request.rounds / 2,
            count_disturbed: self.args.count_disturbed,
            budget: self.args.budget.map(|time| Seconds(time.as_secs_f64())),
            seed: self.args.seed,
        };
        let numbered = shaken
            .variants
            .iter()
            .filter(|variant| variant.number.is_some());
        line.runs(
            plan.rounds,
            numbered.map(|variant| variant.change.to_string()).collect(),
        );
        let mut runs = Runs {
            words: self.words(tree, base),
            directory: tree.directory(),
            program: &base.program,
            base: Runnable {
                program: base.kept.clone(),
                environment: 0,
            },
            variants: layouts.runnable.clone(),
            metric: &self.request.metric,
            timeout: self.args.timeout,
            place: self.place.layout().root(),
            stop: self.stop,
            began: Instant::now(),
        };
        let judged = |rounds: &_| judge(rounds, self.request.better, self.request.floor);
        let mut watching = Watching {
            line,
            kept: Kept::new(To::of(self.args.json.json.as_ref())),
            shaken,
            judge: &judged,
        };
        let rounds = measure(plan, &mut runs, &mut watching);
        let judgement = judged(&rounds);
        if judgement.verdict == Verdict::Matters {
            line.bar.says("comparing the fast and the slow builds");
            let builds = from_best_to_worst(shaken, &judgement, &runs);
            shaken.explanation = self.explain(&judgement, &builds, base)?;
        }
        shaken.rounds = Some(rounds);
        shaken.judgement = Some(judgement);
        shaken.settle();
        Ok(())
    }

    /// By lines; where these explain nothing, by what shifts went over, which may be pairs of lines.
    fn explain(
        &self,
        judgement: &Judgement,
        builds: &[joined::Build],
        base: &Base,
    ) -> anyhow::Result<Option<Explanation>> {
        let by = |bytes| joined::explain(&judgement.sides, builds, &base.own, bytes);
        let line_size = self.request.line_size;
        let found = by(line_size)?;
        let is_empty = found.as_ref().is_some_and(|found| found.always.is_empty());
        if !is_empty || self.request.unit == line_size.bytes() {
            return Ok(found);
        }
        let of_pairs = by(LineSize::new(self.request.unit)?)?;
        Ok(of_pairs
            .filter(|of_pairs| !of_pairs.always.is_empty())
            .or(found))
    }

    /// What is run: the program in the copy, whatever path the user gave it.
    fn words(&self, tree: &Tree, base: &Base) -> Vec<OsString> {
        let is_program = |word: &String| {
            word.contains('/')
                && tree
                    .in_copy(word.as_ref())
                    .canonicalize()
                    .is_ok_and(|path| path == base.program)
        };
        let words = self.request.run.iter();
        words
            .map(|word| match word.starts_with('/') && is_program(word) {
                true => base.program.clone().into(),
                false => word.into(),
            })
            .collect()
    }
}

/// Fails if the build wrote to the user's tree.
fn left_alone(tree: &Tree) -> anyhow::Result<()> {
    let changed = tree.changed();
    if !changed.is_empty() {
        bail!(
            "files of the tree itself changed meanwhile: {} (does the build write to where the tree is, whatever directory it \
             runs in? Then let it begin anew in the copy: --build 'cmake -B b . && cmake --build b'; if it was somebody else, \
             try again)",
            changed.join(", ")
        );
    }
    Ok(())
}

/// What became of a built variant, and whether it is worth a run: one with the layout of another is not.
fn sorted(
    built: Built,
    base: &Base,
    change: Change,
    unit: u32,
    known: &mut Vec<(Option<String>, Signature)>,
) -> (Result<Moved, String>, Option<Runnable>) {
    let environment = match change {
        Change::Environment { bytes, .. } => bytes,
        Change::Shift { .. } | Change::Shuffle { .. } => 0,
    };
    let is_shift = matches!(change, Change::Shift { .. });
    if is_shift && !base.places.is_empty() {
        let signature = built.places.signature(unit);
        if let Some((same_as, _)) = known.iter().find(|(_, other)| *other == signature) {
            let same_as = same_as.clone();
            return (Ok(Moved::Nowhere { same_as }), None);
        }
        known.push((Some(change.to_string()), signature));
    }
    // Nothing to change places, no space taken: nothing to run.
    if change.is_build() && built.moved == Moved::SameFile {
        return (Ok(Moved::SameFile), None);
    }
    let runnable = Runnable {
        program: built.program,
        environment,
    };
    (Ok(built.moved), Some(runnable))
}

/// The base and the variants that are builds of their own, by their estimates.
fn from_best_to_worst(
    shaken: &Shaken,
    judgement: &Judgement,
    runs: &Runs<'_>,
) -> Vec<joined::Build> {
    let mut builds = vec![(
        0.0,
        joined::Build {
            arm: Arm::Base,
            name: "base".to_owned(),
            program: runs.base.program.clone(),
        },
    )];
    let of_variants = shaken
        .variants
        .iter()
        .filter(|variant| variant.change.is_build());
    for variant in of_variants {
        let Some(number) = variant.number else {
            continue;
        };
        let arm = Arm::Variant(number);
        let estimate = judgement
            .variants
            .iter()
            .find(|estimate| estimate.arm == arm);
        let (Some(estimate), Some(runnable)) = (estimate, runs.variants.get(number)) else {
            continue;
        };
        let build = joined::Build {
            arm,
            name: variant.change.to_string(),
            program: runnable.program.clone(),
        };
        builds.push((estimate.effect.ln(), build));
    }
    builds.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    if shaken.better == Better::Higher {
        builds.reverse();
    }
    builds.into_iter().map(|(_, build)| build).collect()
}

fn show(shaken: &Shaken, args: &ShakeArgs) -> anyhow::Result<()> {
    let options = PageOptions {
        color: true,
        width: output::width(&io::stdout()),
    };
    found::show(
        To::of(args.json.json.as_ref()),
        |out| shake_json(shaken, out),
        |text| shake_table(shaken, &options, text),
    )
}

fn exit(shaken: &Shaken, fail_on: ShakeFailOn) -> Exit {
    let verdict = shaken.judgement.as_ref().map(|judgement| judgement.verdict);
    let ended = shaken.rounds.as_ref().map(|rounds| &rounds.ended);
    match (verdict, ended) {
        (_, Some(Ended::Running | Ended::Failed(_) | Ended::Interrupted)) => Exit::Error,
        (Some(Verdict::Matters), _) if fail_on == ShakeFailOn::Layout => Exit::Gate,
        (_, Some(Ended::Disturbed)) => Exit::Refused,
        // Nothing to judge by: a gate fails closed.
        (None | Some(Verdict::Undecided { .. }), _) if fail_on == ShakeFailOn::Layout => {
            Exit::Error
        }
        _ => Exit::Done,
    }
}
