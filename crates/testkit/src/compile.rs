//! Compiles fixtures, once per content.
//!
//! The cache is keyed by everything that goes into a program: its sources and the whole command. A program is built
//! under a name of its own and then renamed, so that test processes that run at the same time never see half a file.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fmt, fs, io};

use crate::fixture::source_dir;
use crate::{Fixture, Language, Layout, Variant, have_tool, run_limited};

/// A compiled fixture.
#[derive(Clone, Debug)]
pub struct Built {
    /// The program.
    pub program: PathBuf,
}

/// Why a fixture could not be compiled.
#[derive(Debug)]
pub enum CompileError {
    /// The compiler is not there: a reason to skip.
    NoCompiler(&'static str),
    /// It is there and failed: a reason to fail.
    Failed(String),
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCompiler(compiler) => write!(f, "{compiler} is not installed"),
            Self::Failed(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for CompileError {}

impl From<io::Error> for CompileError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Where compiled fixtures are kept: in the target directory this test was built into.
#[must_use]
pub fn cache_dir() -> PathBuf {
    let target = env::current_exe().ok().and_then(|exe| {
        let tagged = |dir: &&Path| dir.join("CACHEDIR.TAG").exists();
        exe.ancestors().find(tagged).map(Path::to_owned)
    });
    target.unwrap_or_else(env::temp_dir).join("hitm-fixtures")
}

impl Language {
    fn compiler(self) -> &'static str {
        match self {
            Self::C => "gcc",
            Self::Cpp => "g++",
            Self::Rust => "rustc",
        }
    }

    /// Optimised, with full debug information: what a user of hitm is asked to build.
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::C => &["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-pthread"],
            Self::Cpp => &["-std=c++17", "-O2", "-g", "-Wall", "-Wextra", "-pthread"],
            Self::Rust => &[
                "--edition=2024",
                "-Copt-level=3",
                "-Cdebuginfo=2",
                "-Ccodegen-units=1",
                "--check-cfg=cfg(FIXED)",
                "-Adead_code",
            ],
        }
    }

    fn repaired(self) -> &'static str {
        match self {
            Self::C | Self::Cpp => "-DFIXED",
            Self::Rust => "--cfg=FIXED",
        }
    }
}

impl Fixture {
    /// Compiles a layout, or finds it compiled.
    ///
    /// # Errors
    /// If the compiler is missing or fails.
    pub fn build(&self, layout: Layout, variant: Option<&Variant>) -> Result<Built, CompileError> {
        let mut arguments: Vec<String> = self
            .language
            .flags()
            .iter()
            .map(|&flag| flag.into())
            .collect();
        arguments.extend(self.flags.iter().cloned());
        arguments.extend(
            variant
                .iter()
                .flat_map(|variant| variant.flags.iter().cloned()),
        );
        if layout == Layout::Repaired {
            arguments.push(self.language.repaired().into());
        }
        let library = self
            .library
            .as_ref()
            .map(|source| {
                let mut arguments = arguments.clone();
                arguments.extend(["-shared".into(), "-fPIC".into()]);
                compile(self.language, source, ".so", &arguments, None)
            })
            .transpose()?;
        let program = compile(
            self.language,
            &self.source,
            "",
            &arguments,
            library.as_deref(),
        )?;
        Ok(Built { program })
    }
}

/// Compiles a program that is no fixture, in the same way and into the same cache.
///
/// # Errors
/// If the compiler is missing or fails.
pub fn compile_program(
    language: Language,
    source: &Path,
    flags: &[&str],
) -> Result<Built, CompileError> {
    let own = flags.iter().map(|&flag| flag.into());
    let arguments: Vec<String> = language
        .flags()
        .iter()
        .map(|&flag| flag.into())
        .chain(own)
        .collect();
    let program = compile(language, source, "", &arguments, None)?;
    Ok(Built { program })
}

/// Compiles one source into the cache and returns where the result is.
fn compile(
    language: Language,
    source: &Path,
    extension: &str,
    arguments: &[String],
    library: Option<&Path>,
) -> Result<PathBuf, CompileError> {
    let compiler = language.compiler();
    let stem = source
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let mut hasher = DefaultHasher::new();
    (compiler, arguments, library).hash(&mut hasher);
    fs::read(source)?.hash(&mut hasher);
    for common in sorted_files(&source_dir().join("common"))? {
        fs::read(common)?.hash(&mut hasher);
    }
    let directory = cache_dir().join(format!("{stem}-{:016x}", hasher.finish()));
    let result = directory.join(format!("{stem}{extension}"));
    if result.exists() {
        return Ok(result);
    }
    if !have_tool(compiler) {
        return Err(CompileError::NoCompiler(compiler));
    }
    fs::create_dir_all(&directory)?;
    let workshop = tempfile::Builder::new()
        .prefix("build-")
        .tempdir_in(&directory)?;
    let unfinished = workshop.path().join("out");
    let mut command = Command::new(compiler);
    command.current_dir(source_dir());
    command.args(arguments).arg("-o").arg(&unfinished);
    if language != Language::Rust {
        command.arg("-I.");
    }
    command.arg(source);
    if let Some(library) = library {
        command.arg(library);
    }
    let outcome = run_limited(&mut command, Duration::from_secs(120))?;
    if outcome.timed_out || !outcome.status.success() {
        let message = format!("{command:?}: {}\n{}", outcome.status, outcome.stderr);
        return Err(CompileError::Failed(message));
    }
    fs::rename(&unfinished, &result)?;
    Ok(result)
}

fn sorted_files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = fs::read_dir(directory)?
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}
