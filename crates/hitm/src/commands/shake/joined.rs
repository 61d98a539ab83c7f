//! Which variables are on one line in the slow layouts and apart in the fast ones.
//!
//! Each fast build is compared with one slow one, and each slow one with one fast one (`hitm diff`): a pair that came onto
//! one line in all of these is together in every slow build and in no fast one.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use hitm_analysis::diff::{Side, diff_variables};
use hitm_binary::image::{Image, SymbolKind};
use hitm_experiment::shake::{Arm, Explained, Explanation, Sides};
use hitm_model::{BuildDiff, LineSize, PairChange};

use crate::commands::static_binary::StaticBinary;

/// Builds of each side that are looked at.
const MOST: usize = 8;

/// A build that can be looked at.
pub(super) struct Build {
    pub(super) arm: Arm,
    pub(super) name: String,
    pub(super) program: PathBuf,
}

/// Compares the builds of both sides; `own` are the linker's names of the program's own variables, and
/// `builds` has those that are files of their own, from the best to the worst.
///
/// `None` if one of the sides has no build.
pub(super) fn explain(
    sides: &Sides,
    builds: &[Build],
    own: &HashSet<String>,
    line_size: LineSize,
) -> anyhow::Result<Option<Explanation>> {
    let is_of = |arms: &[Arm]| {
        let arms = arms.to_vec();
        move |build: &&Build| arms.contains(&build.arm)
    };
    let fast: Vec<&Build> = builds
        .iter()
        .filter(is_of(&sides.fast))
        .take(MOST)
        .collect();
    let slow = builds.iter().rev().filter(is_of(&sides.slow));
    let slow: Vec<&Build> = slow.take(MOST).collect();
    let (Some(best), Some(worst)) = (fast.first(), slow.first()) else {
        return Ok(None);
    };
    let first = compare(&best.program, &worst.program, line_size)?;
    let mut always: Vec<&PairChange> = first.joined.iter().collect();
    let others = slow[1..].iter().map(|slow| (best, slow));
    for (fast, slow) in others.chain(fast[1..].iter().map(|fast| (fast, worst))) {
        if always.is_empty() {
            break;
        }
        let joined = compare(&fast.program, &slow.program, line_size)?.joined;
        always.retain(|pair| joined.iter().any(|other| names(other) == names(pair)));
    }
    // Those of the program's own files first: of a static one, all of the C library's variables move with them.
    let own = readable(StaticBinary::open_with_code(&best.program)?.image(), own);
    let is_own = |pair: &PairChange| own.contains(&pair.a.name) && own.contains(&pair.b.name);
    always.sort_by_key(|pair| !is_own(pair));
    let is_always = |pair: &&PairChange| always.iter().any(|other| names(other) == names(pair));
    let sometimes = first.joined.iter().filter(|pair| !is_always(pair));
    let explained = |pair: &PairChange| explained(pair, line_size);
    Ok(Some(Explanation {
        fast: best.name.clone(),
        slow: worst.name.clone(),
        sometimes: sometimes.map(explained).collect(),
        always: always.iter().map(|pair| explained(pair)).collect(),
        builds: fast.len() + slow.len(),
        bytes: line_size.bytes(),
    }))
}

fn compare(fast: &Path, slow: &Path, line_size: LineSize) -> anyhow::Result<BuildDiff> {
    let (fast, slow) = (
        StaticBinary::open_with_code(fast)?,
        StaticBinary::open_with_code(slow)?,
    );
    let side = |binary| Side {
        name: "",
        image: StaticBinary::image(binary),
        catalog: None,
    };
    Ok(diff_variables(side(&fast), side(&slow), line_size))
}

/// The names that [`diff_variables`] gives to the variables with these linker's names.
fn readable(image: &Image<'_>, own: &HashSet<String>) -> HashSet<String> {
    let symbols = image.symbols_of(SymbolKind::Data).into_iter();
    let names = symbols
        .filter(|symbol| own.contains(&symbol.raw))
        .map(|symbol| {
            let name = symbol.name.replace("()::", "::");
            let guarded = name.strip_prefix("guard variable for ");
            guarded.map_or_else(|| name.clone(), |name| format!("guard of {name}"))
        });
    names.collect()
}

/// The two, whichever comes first in its build.
fn names(pair: &PairChange) -> [&str; 2] {
    let mut names = [pair.a.name.as_str(), pair.b.name.as_str()];
    names.sort_unstable();
    names
}

fn explained(pair: &PairChange, line_size: LineSize) -> Explained {
    let offset = |address: hitm_model::Svma| address.0 % u64::from(line_size.bytes());
    Explained {
        a: pair.a.name.clone(),
        b: pair.b.name.clone(),
        line: pair.line.0,
        a_offset: offset(pair.a.new),
        b_offset: offset(pair.b.new),
    }
}
