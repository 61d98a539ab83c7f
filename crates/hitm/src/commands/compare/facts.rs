//! What is known of the sides before they run: files, repositories, the machine.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use hitm_binary::image::Image;
use hitm_experiment::{
    CommandSpec, GitFacts, GitRelation, LibraryFacts, ProgramFacts, RowSpec, Side, SideFacts, Suite,
};
use sha2::{Digest as _, Sha256};

use super::executor::command;
use super::libraries;

/// Commits whose subjects are shown.
const SHOWN_COMMITS: &str = "10";

/// Asks each file and repository once.
#[derive(Debug, Default)]
pub(super) struct Gatherer {
    files: HashMap<PathBuf, FileFacts>,
}

/// What tells one file from another.
#[derive(Clone, Debug)]
struct FileFacts {
    sha256: String,
    build_id: Option<String>,
    /// Who loads its libraries, if it has any.
    loader: Option<OsString>,
}

impl Gatherer {
    /// What is known of one side of a row.
    pub(super) fn side(
        &mut self,
        suite: &Suite,
        row: &RowSpec,
        side: Side,
    ) -> anyhow::Result<SideFacts> {
        let spec = row.side(side);
        let name = match side {
            Side::A => &suite.names[0],
            Side::B => &suite.names[1],
        };
        let mut programs = Vec::new();
        for words in spec.server.iter().chain([&spec.words]) {
            programs.extend(self.program(spec, words)?);
        }
        let git = programs
            .first()
            .and_then(|program| git_facts(Path::new(&program.path)));
        Ok(SideFacts {
            name: name.clone(),
            words: spec.words.clone(),
            server: spec.server.clone().unwrap_or_default(),
            variables: spec.variables.clone(),
            directory: spec.directory.clone(),
            programs,
            git,
        })
    }

    /// `None` if there is no such file; that it cannot be started is said when it is.
    fn program(
        &mut self,
        spec: &CommandSpec,
        words: &[String],
    ) -> anyhow::Result<Option<ProgramFacts>> {
        let Some(path) = words.first().and_then(|word| find(spec, word)) else {
            return Ok(None);
        };
        let facts = self.file(&path)?;
        let found = facts.loader.as_ref().map_or_else(Vec::new, |loader| {
            libraries::of(&path, loader, &command(spec, words))
        });
        let libraries = found
            .into_iter()
            .map(|(name, path)| self.library(name, path))
            .collect();
        Ok(Some(ProgramFacts {
            path: path.display().to_string(),
            sha256: facts.sha256,
            build_id: facts.build_id,
            libraries,
        }))
    }

    /// Each file is read once.
    fn file(&mut self, path: &Path) -> anyhow::Result<FileFacts> {
        if let Some(known) = self.files.get(path) {
            return Ok(known.clone());
        }
        let bytes = std::fs::read(path).with_context(|| {
            format!(
                "cannot read {} (is it a file that you may read?)",
                path.display()
            )
        })?;
        let facts = FileFacts {
            sha256: sha256(&bytes),
            build_id: Image::parse_any_machine(&bytes)
                .ok()
                .and_then(|image| image.build_id())
                .map(|id| id.to_string()),
            loader: libraries::loader(&bytes),
        };
        self.files.insert(path.to_owned(), facts.clone());
        Ok(facts)
    }

    /// A library that cannot be read is told from others by its place.
    fn library(&mut self, name: String, path: Option<PathBuf>) -> LibraryFacts {
        let path = path.map(|path| path.canonicalize().unwrap_or(path));
        let facts = path.as_deref().and_then(|path| self.file(path).ok());
        LibraryFacts {
            name,
            path: path.map(|path| path.display().to_string()),
            sha256: facts.as_ref().map(|facts| facts.sha256.clone()),
            build_id: facts.and_then(|facts| facts.build_id),
        }
    }

    /// Which commits of A are missing in B; `None` where git cannot tell.
    pub(super) fn relation(&self, a: &SideFacts, b: &SideFacts) -> Option<GitRelation> {
        let (from, to) = (a.git.as_ref()?, b.git.as_ref()?);
        let folder = Path::new(&b.programs.first()?.path).parent()?;
        let range = format!("{}..{}", to.commit, from.commit);
        let merge_base = git(folder, &["merge-base", &to.commit, &from.commit])?;
        let count = git(folder, &["rev-list", "--count", &range])?;
        let subjects = git(
            folder,
            &["log", "--format=%h %s", "-n", SHOWN_COMMITS, &range],
        )?;
        Some(GitRelation {
            merge_base,
            missing_in_b: subjects.lines().map(str::to_owned).collect(),
            missing: count.parse().ok()?,
        })
    }
}

/// The file that a word means, as `execvp` looks for it.
fn find(spec: &CommandSpec, word: &str) -> Option<PathBuf> {
    let here = spec
        .directory
        .as_ref()
        .map_or_else(PathBuf::new, PathBuf::from);
    let found = if word.contains('/') {
        Some(here.join(word)).filter(|path| path.is_file())
    } else {
        let own = spec.variables.iter().find(|(name, _)| name == "PATH");
        let path = own
            .map(|(_, path)| path.into())
            .or_else(|| std::env::var_os("PATH"))?;
        std::env::split_paths(&path)
            .map(|folder| folder.join(word))
            .find(|path| path.is_file())
    };
    found.and_then(|path| path.canonicalize().ok())
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The state of the repository that a file lies in.
fn git_facts(path: &Path) -> Option<GitFacts> {
    let folder = path.parent()?;
    let commit = git(folder, &["rev-parse", "HEAD"])?;
    let status = git(folder, &["status", "--porcelain", "--untracked-files=no"])?;
    Some(GitFacts {
        commit,
        dirty: !status.is_empty(),
    })
}

/// What git says, if there is git and a repository.
fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(arguments)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(text)
}

/// The machine in one line.
pub(in crate::commands) fn machine() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("an unnamed processor", |(_, name)| name.trim());
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{model}, {processors} processors")
}
