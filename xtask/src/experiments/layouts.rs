//! The corpus: packed against repaired. Where false sharing goes, the program gets faster; a negative control does not.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::{Bench, Judged, Options, Wanted, asked, quoted};
use crate::corpus::{Layouts, layouts};

/// How long the packed layout is to run each time.
const RUN: Duration = Duration::from_millis(700);

pub(super) fn run(bench: &Bench, options: &Options) -> Result<Vec<Judged>> {
    let dir = options
        .dir
        .as_ref()
        .context("which corpus? cargo xtask experiments corpus DIR")?;
    let programs: Vec<Layouts> = layouts(dir, RUN)?
        .into_iter()
        .filter(|program| asked(options, &program.id))
        .collect();
    let Some(first) = programs.first() else {
        bail!("no program to run; truth.tsv lists others");
    };
    let folder = quoted(&first.folder.display().to_string());
    let mut suite = format!(
        "[a]\nname = \"packed\"\ndirectory = {folder}\nvars = {{ layout = \"\" }}\n\
         [b]\nname = \"fixed\"\ndirectory = {folder}\nvars = {{ layout = \"--fixed\" }}\n"
    );
    for program in &programs {
        write!(
            suite,
            "[[row]]\nname = {}\ncommand = {}\nmetric = {}\nbetter = \"lower\"\n",
            quoted(&program.id),
            quoted(&format!(
                "bin/{} --iters {} {{layout}}",
                program.id, program.iterations
            )),
            quoted(r"elapsed_s=([0-9.]+)")
        )?;
    }
    let said = bench.compare("corpus", &suite, &[])?;
    let faulty = |name: &str| {
        let program = programs.iter().find(|program| program.id == name);
        program.is_some_and(|program| program.is_faulty)
    };
    Ok(said
        .into_iter()
        .map(|(name, said)| Judged {
            wanted: if faulty(&name) {
                Wanted::Improved
            } else {
                Wanted::NoDifference
            },
            name,
            said,
        })
        .collect())
}
