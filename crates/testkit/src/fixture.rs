//! A fixture: a source file whose `//#` directives say what must be found in it.
//!
//! ```text
//! //# flags: -fno-toplevel-reorder      more compiler flags
//! //# library: part.c                   a shared library that the program is linked with
//! //# variant: non-pie -no-pie          the faulty layout once more, built with these flags too
//! //# one-finding: worker_stats         all of it must be one finding, of this object
//! //# faulty: false-sharing             the verdict of the layout as it is found in the wild
//! //# | T0 W lanes[0].hits              worker 0 (by birth) writes; the field path ends like this
//! //# | T* R guard of *                 all workers only read; a `*` at the end stands for any ending
//! //# | T1 W ?                          the name that the program prints
//! //# repaired: nothing                 the same source with -DFIXED / --cfg FIXED
//! //# as-is: nothing                    instead of both: there is one layout only
//! //# prove faulty: cost                what `hitm prove` must measure in that layout ([`ProofWanted`])
//! //# prove repaired: free | no-measure more than one answer is right
//! ```
//! The lines that the program prints with `--addrs` are in the order of the parties.

use std::fs;
use std::path::{Path, PathBuf};

use hitm_model::Verdict;

use crate::{AccessWanted, ProofWanted, Who};

/// A source file and what is known about it.
#[derive(Clone, Debug)]
pub struct Fixture {
    /// The file's name without its extension.
    pub name: String,
    /// What it is written in.
    pub language: Language,
    /// The file.
    pub source: PathBuf,
    /// Compiler flags of its own.
    pub flags: Vec<String>,
    /// The source of a shared library it is linked with.
    pub library: Option<PathBuf>,
    /// The layouts it has, with what must be found in each.
    pub layouts: Vec<(Layout, Expected)>,
    /// What `hitm prove` must measure in them, any of these; layouts that are not here are not proven.
    pub proofs: Vec<(Layout, Vec<ProofWanted>)>,
    /// Other ways to build the faulty layout.
    pub variants: Vec<Variant>,
    /// The object that the only finding must name.
    pub one_finding: Option<String>,
}

/// What a fixture is written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    /// C, compiled by `gcc`.
    C,
    /// C++, compiled by `g++`.
    Cpp,
    /// Rust, compiled by `rustc`.
    Rust,
}

/// Which of a fixture's layouts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// As it is found in the wild; the only one of a fixture without a fault.
    Faulty,
    /// With the repair.
    Repaired,
}

/// What must be found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expected {
    /// The verdict; `None` if there must be no finding at all.
    pub verdict: Option<Verdict>,
    /// Who does what.
    pub parties: Vec<Party>,
}

/// Threads, what they do, and how the path of what they touch ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Party {
    /// Which worker threads.
    pub who: Who,
    /// What they do.
    pub access: AccessWanted,
    /// The ending of the field path; `None` for the name that the program prints.
    pub ending: Option<String>,
}

/// Another way to build a fixture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Variant {
    /// A word for it.
    pub name: String,
    /// More compiler flags.
    pub flags: Vec<String>,
}

impl Variant {
    /// Whether the build has no names in it.
    #[must_use]
    pub fn stripped(&self) -> bool {
        self.flags.iter().any(|flag| flag == "-s")
    }
}

impl Fixture {
    /// What must be found in a layout, if the fixture has it.
    #[must_use]
    pub fn expected(&self, layout: Layout) -> Option<&Expected> {
        self.layouts
            .iter()
            .find_map(|(has, expected)| (*has == layout).then_some(expected))
    }
}

/// The directory of the fixtures' sources.
pub(crate) fn source_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// All fixtures, by name.
///
/// # Panics
/// If the directory or a file's directives cannot be read: the tree is broken then.
#[must_use]
pub fn fixtures() -> Vec<Fixture> {
    let mut sources: Vec<PathBuf> = fs::read_dir(source_dir())
        .expect("the fixtures directory")
        .map(|entry| entry.expect("a directory entry").path())
        .filter(|path| path.extension().is_some())
        .collect();
    sources.sort();
    sources
        .iter()
        .filter_map(|source| {
            let text = fs::read_to_string(source).expect("a readable fixture");
            match parse(source, &text) {
                Ok(fixture) => fixture,
                Err(line) => panic!("{}: bad directive: {line}", source.display()),
            }
        })
        .collect()
}

/// The fixture of that name.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn fixture(name: &str) -> Fixture {
    fixtures()
        .into_iter()
        .find(|fixture| fixture.name == name)
        .unwrap_or_else(|| panic!("no fixture {name}"))
}

/// Reads the directives; `None` for a part of another fixture, `Err` with the line that is wrong.
fn parse(source: &Path, text: &str) -> Result<Option<Fixture>, String> {
    let part = |f: fn(&Path) -> Option<&std::ffi::OsStr>| {
        f(source).map_or_else(String::new, |part| part.to_string_lossy().into_owned())
    };
    let mut fixture = Fixture {
        name: part(Path::file_stem),
        language: match part(Path::extension).as_str() {
            "c" => Language::C,
            "cpp" => Language::Cpp,
            "rs" => Language::Rust,
            other => return Err(format!("unknown extension {other}")),
        },
        source: source.to_owned(),
        flags: Vec::new(),
        library: None,
        layouts: Vec::new(),
        proofs: Vec::new(),
        variants: Vec::new(),
        one_finding: None,
    };
    for line in text.lines().map_while(|line| line.strip_prefix("//# ")) {
        let wrong = || line.to_owned();
        if let Some(party) = line.strip_prefix("| ") {
            let (_, expected) = fixture.layouts.last_mut().ok_or_else(wrong)?;
            expected.parties.push(parse_party(party).ok_or_else(wrong)?);
            continue;
        }
        let (key, value) = line.split_once(": ").ok_or_else(wrong)?;
        let mut words = value.split_whitespace().map(str::to_owned);
        match key {
            "part-of" => return Ok(None),
            "flags" => fixture.flags = words.collect(),
            "library" => fixture.library = Some(source.with_file_name(value)),
            "one-finding" => fixture.one_finding = Some(value.to_owned()),
            "variant" => fixture.variants.push(Variant {
                name: words.next().ok_or_else(wrong)?,
                flags: words.collect(),
            }),
            "prove faulty" | "prove as-is" | "prove repaired" => {
                let wanted = value.split(" | ").map(ProofWanted::parse);
                let wanted: Option<Vec<_>> = wanted.collect();
                fixture
                    .proofs
                    .push((layout_of(key), wanted.ok_or_else(wrong)?));
            }
            "faulty" | "as-is" | "repaired" => {
                let layout = layout_of(key);
                let verdict = parse_verdict(value).ok_or_else(wrong)?;
                let parties = Vec::new();
                fixture
                    .layouts
                    .push((layout, Expected { verdict, parties }));
            }
            _ => return Err(wrong()),
        }
    }
    if fixture.layouts.is_empty() {
        return Err("no verdict".to_owned());
    }
    Ok(Some(fixture))
}

/// The layout that a directive is about.
fn layout_of(key: &str) -> Layout {
    if key.ends_with("repaired") {
        Layout::Repaired
    } else {
        Layout::Faulty
    }
}

fn parse_verdict(word: &str) -> Option<Option<Verdict>> {
    match word {
        "nothing" => Some(None),
        "false-sharing" => Some(Some(Verdict::FalseSharing)),
        "true-sharing" => Some(Some(Verdict::TrueSharing)),
        "mixed" => Some(Some(Verdict::Mixed)),
        "lock-and-data" => Some(Some(Verdict::LockAndData)),
        _ => None,
    }
}

/// `T0 W lanes[0].hits`.
fn parse_party(text: &str) -> Option<Party> {
    let (who, rest) = text.split_once(' ')?;
    let (access, ending) = rest.split_once(' ')?;
    Some(Party {
        who: Who::parse(who.strip_prefix('T')?)?,
        access: AccessWanted::parse(access)?,
        ending: (ending != "?").then(|| ending.to_owned()),
    })
}
