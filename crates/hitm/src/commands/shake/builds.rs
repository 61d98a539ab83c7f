//! The builds: the user's own, and one for each variant; by the link alone where that gives the same program.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context as _, bail};
use hitm_binary::relocatable::{Padding, defined_variables};
use hitm_collect::trial::{Command, Run, TrialError, run};
use hitm_experiment::shake::{Change, Moved};
use hitm_model::{ExitStatus, Nanos};

use super::edit::{self, Edit};
use super::link_line::{response_file, with_output};
use super::moved::{Places, summary};
use super::place::{Layout, MARK};
use super::record::Record;
use super::tree::Tree;
use super::wrappers::{self, is_elf};
use crate::commands::static_binary::StaticBinary;

/// Lines of a failed build that are shown.
const SHOWN_LINES: usize = 20;
/// How often the space is corrected where the linker's own alignment changed what came of it.
const CORRECTIONS: usize = 3;
/// The same where each takes a whole build.
const CORRECTIONS_BY_BUILDS: usize = 2;
/// How often an order is drawn until it is another one.
const DRAWS: u64 = 5;
/// Longer command lines go through a file.
const LONG_LINE: usize = 60_000;

/// What builds.
pub(super) struct Builder<'a> {
    pub(super) place: &'a Layout,
    pub(super) tree: &'a Tree,
    pub(super) command: &'a str,
    pub(super) timeout: Duration,
    pub(super) stop: &'a AtomicBool,
}

/// The user's own build.
pub(super) struct Base {
    /// Where the program is to be when it is run.
    pub(super) program: PathBuf,
    /// A copy that stays.
    pub(super) kept: PathBuf,
    /// The link that made it, if it can be repeated alone.
    pub(super) link: Option<Record>,
    /// Why it cannot.
    pub(super) why_not: Option<String>,
    /// Whether it has code that is only made in the link.
    pub(super) has_lto: bool,
    /// What linked it.
    pub(super) linker: String,
    /// Linker's names of the variables of its own object files and archives.
    pub(super) own: HashSet<String>,
    /// Where these are.
    pub(super) places: Places,
}

/// A variant's build.
pub(super) struct Built {
    pub(super) program: PathBuf,
    pub(super) places: Places,
    pub(super) moved: Moved,
}

impl Builder<'_> {
    /// Builds what the user builds; `candidates` are the words of which the first that is a program is the one.
    pub(super) fn base(&self, candidates: &[PathBuf], rebuild: bool) -> anyhow::Result<Base> {
        self.whole()?;
        let records = Record::all(&self.place.links()).context("cannot read what was linked")?;
        let program = program(self.place, candidates, &records)?;
        let kept = self.place.variant("base");
        fs::create_dir_all(&kept)?;
        let kept = kept.join("program");
        fs::copy(&program, &kept)
            .with_context(|| format!("cannot copy {} (is there room?)", program.display()))?;
        let record = records
            .iter()
            .rev()
            .find(|record| is_same(&record.output(), &program));
        let linked = records.last();
        let own = record
            .or(linked)
            .map_or_else(HashSet::new, |record| self.own(record));
        let mut base = Base {
            places: places(&kept, &own)?,
            own,
            link: None,
            why_not: None,
            has_lto: record.or(linked).is_some_and(|record| record.has_lto),
            linker: record.or(linked).map_or_else(String::new, |record| {
                record
                    .linker
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned()
            }),
            program,
            kept,
        };
        match record {
            _ if records.is_empty() => bail!(not_recorded(self.command)),
            _ if rebuild => base.why_not = Some("--rebuild".into()),
            None => {
                base.why_not = Some(
                    "it is not what any link made (is it changed behind the link: strip, objcopy?)"
                        .into(),
                );
            }
            Some(record) => match self.is_repeatable(record, &base.kept) {
                Ok(()) => base.link = Some(record.clone()),
                Err(error) => base.why_not = Some(format!("{error:#}")),
            },
        }
        Ok(base)
    }

    /// The variables of the files that were built here: not those of the compiler's and the system's libraries.
    fn own(&self, record: &Record) -> HashSet<String> {
        let here = |word: &&OsString| record.directory.join(word).starts_with(self.place.root());
        let files = record.words.iter().filter(here);
        files
            .filter_map(|word| fs::read(record.directory.join(word)).ok())
            .flat_map(|bytes| defined_variables(&bytes))
            .collect()
    }

    /// Runs the user's build in the copy.
    fn whole(&self) -> anyhow::Result<()> {
        let words = ["sh", "-c", self.command].map(OsString::from);
        let variables = wrappers::variables(self.place, &self.tree.cargo_target());
        let command = Command {
            words: words.into(),
            variables,
            directory: Some(self.tree.directory()),
        };
        let run = self.run(&command).context("the build")?;
        if run.status != ExitStatus::Code(0) {
            bail!(
                "the build failed ({}); it wrote:\n{}\n(it runs in a copy of the tree, without .git, target and what cmake \
                 made; try the command by hand, or give more of the tree: --tree DIR)",
                ending(run.status),
                last_lines(&run)
            );
        }
        Ok(())
    }

    fn run(&self, command: &Command) -> anyhow::Result<Run> {
        let timeout = Nanos::from(self.timeout);
        run(command, Some(timeout), None, self.stop).map_err(|error| match error {
            TrialError::TimeOut { timeout, stderr } => anyhow::anyhow!(
                "did not end within {timeout}; it wrote: {} (give it more time: --build-timeout SECONDS)",
                stderr.last_lines(SHOWN_LINES).trim()
            ),
            error => anyhow::Error::new(error),
        })
    }

    /// Repeats a link unchanged: only if the same program comes out, other links say something about the program.
    fn is_repeatable(&self, record: &Record, program: &Path) -> anyhow::Result<()> {
        let folder = self.place.variant("again");
        fs::create_dir_all(&folder)?;
        let again = folder.join("program");
        self.link(record, &record.words, &again)
            .context("the link cannot be repeated")?;
        let same = same_bytes(&again, program)?;
        fs::remove_dir_all(&folder)?;
        match same {
            true => Ok(()),
            false => bail!(
                "the link, repeated, gives another program (is it changed behind the link: strip, objcopy?)"
            ),
        }
    }

    /// Repeats a link with these words.
    fn link(&self, record: &Record, words: &[OsString], output: &Path) -> anyhow::Result<()> {
        let mut words = with_output(words, output);
        if words.iter().map(|word| word.len() + 1).sum::<usize>() > LONG_LINE {
            let path = output.with_extension("words");
            fs::write(&path, response_file(&words))?;
            let mut file = OsString::from("@");
            file.push(&path);
            words = vec![file];
        }
        words.insert(0, record.linker.clone().into());
        let mut variables = record.variables.clone();
        variables.push((MARK.into(), self.place.root().into()));
        let command = Command {
            words,
            variables,
            directory: Some(record.directory.clone()),
        };
        let run = self.run(&command).context("the link")?;
        if run.status != ExitStatus::Code(0) {
            bail!(
                "the link failed ({}); it wrote: {}",
                ending(run.status),
                last_lines(&run)
            );
        }
        Ok(())
    }

    /// Builds a variant.
    pub(super) fn variant(&self, base: &Base, change: Change, unit: u32) -> anyhow::Result<Built> {
        match change {
            Change::Shift { bytes } => self.shifted(base, change, bytes, unit),
            Change::Shuffle { seed, .. } => self.shuffled(base, change, seed, unit),
            Change::Environment { .. } => Ok(Built {
                program: base.kept.clone(),
                places: base.places.clone(),
                moved: Moved::SameFile,
            }),
        }
    }

    /// Of few objects, an order drawn by lot may well be the old one: then another is drawn, where that costs only a link.
    fn shuffled(&self, base: &Base, change: Change, seed: u64, unit: u32) -> anyhow::Result<Built> {
        let draws = if base.link.is_some() { DRAWS } else { 1 };
        let mut built = None;
        for draw in 0..draws {
            let program = self.edited(base, change, Edit::Shuffle(seed.wrapping_add(draw)))?;
            let places = places(&program, &base.own)?;
            let moved = match same_bytes(&program, &base.kept)? {
                true => Moved::SameFile,
                false => summary(base.places.moved_to(&places, unit)),
            };
            let is_other = moved != Moved::SameFile;
            built = Some(Built {
                program,
                places,
                moved,
            });
            if is_other {
                break;
            }
        }
        built.context("nothing was built")
    }

    /// Space before `.data` moves `.bss` too, by what alignment makes of it: what came out is read, and the space corrected.
    fn shifted(&self, base: &Base, change: Change, bytes: u32, unit: u32) -> anyhow::Result<Built> {
        let corrections = if base.link.is_some() {
            CORRECTIONS
        } else {
            CORRECTIONS_BY_BUILDS
        };
        let mut padding = Padding {
            data: bytes,
            bss: bytes,
        };
        let mut tried = vec![padding];
        let mut best: Option<(usize, Padding, Built)> = None;
        for _ in 0..corrections {
            let program = self.edited(base, change, Edit::Pad(padding))?;
            let places = places(&program, &base.own)?;
            let sections = base.places.moved_to(&places, unit);
            let as_asked: usize = sections
                .iter()
                .filter(|section| section.bytes == bytes)
                .map(|section| section.agree)
                .sum();
            for section in &sections {
                let missing = (bytes + unit - section.bytes) % unit;
                let space = match section.section.as_str() {
                    ".data" => &mut padding.data,
                    _ => &mut padding.bss,
                };
                *space = (*space + missing) % unit;
            }
            let built = Built {
                program,
                places,
                moved: summary(sections),
            };
            if best.as_ref().is_none_or(|(most, ..)| as_asked > *most) {
                // The next one has the same name.
                let mut built = built;
                let kept = built.program.with_extension("best");
                fs::rename(&built.program, &kept)?;
                built.program = kept;
                best = Some((as_asked, padding, built));
            }
            if tried.contains(&padding) {
                break;
            }
            tried.push(padding);
        }
        let (_, _, built) = best.context("nothing was built")?;
        Ok(built)
    }

    /// A program with a changed link, in the variant's own directory.
    fn edited(&self, base: &Base, change: Change, edit: Edit) -> anyhow::Result<PathBuf> {
        let folder = self.place.variant(&change.to_string());
        fs::create_dir_all(&folder)?;
        let program = folder.join("program");
        // The file of an earlier try is not written over: it may be mapped.
        let _ = fs::remove_file(&program);
        if let Some(record) = &base.link {
            let words = edit::edited(edit, &record.words, &record.objects, &folder)?;
            self.link(record, &words, &program)?;
            return Ok(program);
        }
        self.tree.copy(self.stop)?;
        edit.write(&self.place.edit())?;
        let built = self.whole();
        fs::remove_file(self.place.edit())?;
        built?;
        fs::copy(&base.program, &program)
            .with_context(|| format!("the build made no {}", base.program.display()))?;
        Ok(program)
    }
}

/// The program that is meant: one in the copy, as it is going to be replaced. Others, as those of the system, are only run.
fn program(place: &Layout, candidates: &[PathBuf], records: &[Record]) -> anyhow::Result<PathBuf> {
    let in_copy = |path: &PathBuf| {
        let real = path.canonicalize().ok()?;
        (is_elf(&real) && real.starts_with(place.tree())).then_some(real)
    };
    if let Some(found) = candidates.iter().find_map(in_copy) {
        return Ok(found);
    }
    let mut made: Vec<PathBuf> = records
        .iter()
        .filter_map(|record| in_copy(&record.output()))
        .collect();
    made.sort();
    made.dedup();
    let list = |paths: &[PathBuf]| {
        let paths: Vec<String> = paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        paths.join(", ")
    };
    let linked = match made.is_empty() {
        true => "it linked none there".to_owned(),
        false => format!("it linked {}", list(&made)),
    };
    bail!(
        "no program in the copy of the tree after the build among: {} ({linked}; name it by its path in the tree: \
         --program PATH)",
        list(candidates)
    );
}

fn not_recorded(build: &str) -> String {
    format!(
        "the build linked no program that hitm saw. Was all of it made already? Then let it begin anew: --build 'make clean \
         all' or the like. Does it name its compiler or linker with a path that is not in PATH? Then name it without: CC=gcc, \
         LD=ld. It was: {build}"
    )
}

/// Whether a file is what a link made, or a copy of that.
fn is_same(output: &Path, program: &Path) -> bool {
    let (Ok(a), Ok(b)) = (fs::metadata(output), fs::metadata(program)) else {
        return false;
    };
    (a.dev(), a.ino()) == (b.dev(), b.ino()) || same_bytes(output, program).unwrap_or(false)
}

fn same_bytes(a: &Path, b: &Path) -> anyhow::Result<bool> {
    let length = |path: &Path| fs::metadata(path).map(|metadata| metadata.len());
    Ok(length(a)? == length(b)? && fs::read(a)? == fs::read(b)?)
}

fn places(program: &Path, own: &HashSet<String>) -> anyhow::Result<Places> {
    Ok(Places::of(
        StaticBinary::open_with_code(program)?.image(),
        own,
    ))
}

fn ending(status: ExitStatus) -> String {
    match status {
        ExitStatus::Code(code) => format!("exit code {code}"),
        ExitStatus::Signal(signal) => format!("killed by signal {signal}"),
    }
}

/// What a build wrote last: its errors, or what it printed if there are none.
fn last_lines(run: &Run) -> String {
    let stderr = run.stderr.last_lines(SHOWN_LINES);
    match stderr.trim().is_empty() {
        true => run.stdout.last_lines(SHOWN_LINES),
        false => stderr,
    }
}
