//! Whether two sides may be compared at all.
//!
//! A number can be right and mean something else than it seems: the change may lack what its base has, or a flag that the
//! name of the row promises may be missing. Such a comparison is refused, with the way out.

use serde::{Deserialize, Serialize};

use crate::differences::different_libraries;

/// What is known of one side before it is run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct SideFacts {
    /// Its name.
    pub name: String,
    /// The command, word by word.
    pub words: Vec<String>,
    /// The server's command beside it, if there is one.
    pub server: Vec<String>,
    /// Variables that are set for it.
    pub variables: Vec<(String, String)>,
    /// Where it runs.
    pub directory: Option<String>,
    /// The programs that it starts: the server's first, if there is one.
    pub programs: Vec<ProgramFacts>,
    /// The repository that its program lies in.
    pub git: Option<GitFacts>,
}

/// An executable file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProgramFacts {
    /// Where it is.
    pub path: String,
    /// SHA-256 of its bytes, in hexadecimal digits.
    pub sha256: String,
    /// The build-id that its linker gave it.
    pub build_id: Option<String>,
    /// The shared libraries that it is started with, as its loader finds them.
    pub libraries: Vec<LibraryFacts>,
}

/// A shared library of a program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LibraryFacts {
    /// What the program asks for.
    pub name: String,
    /// The file that it gets; `None` if there is none.
    pub path: Option<String>,
    /// SHA-256 of its bytes, if they could be read.
    pub sha256: Option<String>,
    /// The build-id that its linker gave it.
    pub build_id: Option<String>,
}

/// The state of a repository.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GitFacts {
    /// The commit that is checked out.
    pub commit: String,
    /// Whether files differ from it.
    pub dirty: bool,
}

/// How the commits of two sides are related.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GitRelation {
    /// The last commit that both have.
    pub merge_base: String,
    /// Commits that A has and B lacks, newest first, with their subjects.
    pub missing_in_b: Vec<String>,
    /// How many those are in all.
    pub missing: usize,
}

/// Why two sides are not compared.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "why")]
pub enum Refusal {
    /// Both sides are the same.
    NothingToCompare,
    /// B was branched off before commits that A has: their effect would be taken for that of the change.
    MissingCommits {
        /// Commits that A has and B lacks, the newest first.
        commits: Vec<String>,
        /// How many in all.
        missing: usize,
        /// The commit of A.
        onto: String,
    },
    /// The row's name promises what no argument says.
    NameWithoutFlag {
        /// The part of the name.
        promised: String,
        /// The side whose command lacks it.
        side: String,
    },
    /// The sides' commands differ in more than which program they start.
    DifferentArguments {
        /// What only A has.
        only_a: Vec<String>,
        /// What only B has.
        only_b: Vec<String>,
    },
    /// A recording shows no two threads that could fight over a line.
    FewWriters {
        /// The side.
        side: String,
        /// Threads that write.
        writers: u64,
        /// Threads that were seen running.
        threads: u64,
    },
    /// The client was at its limit, and the server was not: the client was measured.
    SaturatedClient {
        /// The side.
        side: String,
        /// The part of the time that the client's busiest thread ran, from 0 to 1.
        client: f64,
        /// The same of the server's.
        server: f64,
    },
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NothingToCompare => f.write_str(
                "nothing to compare: both sides run the same file with the same libraries and arguments in the same environment",
            ),
            Self::MissingCommits { commits, missing, .. } => {
                write!(f, "B lacks {missing} commits that A has: {}", commits.join("; "))?;
                if commits.len() < *missing {
                    write!(f, "; and {} more", missing - commits.len())?;
                }
                Ok(())
            }
            Self::NameWithoutFlag { promised, side } => write!(
                f,
                "the row is called {promised}, but no argument of {side} says so: it measures something else"
            ),
            Self::DifferentArguments { only_a, only_b } => write!(
                f,
                "the sides differ in their arguments as well as in the program: A has {}, B has {}",
                list(only_a),
                list(only_b)
            ),
            Self::FewWriters { side, writers, threads } => write!(
                f,
                "{side} does not do what its lines could be blamed for: threads that ran: {threads}; that wrote to memory that others could share: {writers}"
            ),
            Self::SaturatedClient { side, client, server } => write!(
                f,
                "the client of {side} is at its limit, not the server: its busiest thread ran {:.0} % of the time, the server's {:.0} %",
                client * 100.0,
                server * 100.0
            ),
        }
    }
}

fn list(words: &[String]) -> String {
    if words.is_empty() {
        "none".to_owned()
    } else {
        hitm_model::shell_command(words)
    }
}

impl Refusal {
    /// How to go on.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::NothingToCompare => {
                "--aa compares a program with itself, to see what this machine makes of no difference".into()
            }
            Self::MissingCommits { onto, .. } => {
                format!("git rebase {onto} (in B's repository, and build it again), or --force")
            }
            Self::NameWithoutFlag { .. } => {
                "add the flag to the command, or give the row another name, or --force".into()
            }
            Self::DifferentArguments { .. } => {
                "change one thing at a time, or --force if the arguments are what you compare".into()
            }
            Self::FewWriters { .. } => {
                "give it more threads (is a flag missing?), or leave --evidence out, or --force".into()
            }
            Self::SaturatedClient { .. } => {
                "give the client more threads, or requests that cost the server more (as --threads and -P of redis-benchmark), or --force"
                    .into()
            }
        }
    }
}

/// Why these two sides are not compared: empty if they may be.
///
/// `row` is the row's name, if it has one of its own; `aa` says that a program is to be compared with itself.
#[must_use]
pub fn refusals(
    row: Option<&str>,
    a: &SideFacts,
    b: &SideFacts,
    git: Option<&GitRelation>,
    aa: bool,
) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    if !aa && same(a, b) {
        refusals.push(Refusal::NothingToCompare);
    }
    if let Some(git) = git.filter(|git| git.missing > 0) {
        refusals.push(Refusal::MissingCommits {
            commits: git.missing_in_b.clone(),
            missing: git.missing,
            onto: a
                .git
                .as_ref()
                .map_or_else(String::new, |git| git.commit.clone()),
        });
    }
    for side in [a, b] {
        for name in row.into_iter().chain([side.name.as_str()]) {
            refusals.extend(
                promises(name)
                    .filter(|(_, n)| !says(side, n))
                    .map(|(promised, _)| Refusal::NameWithoutFlag {
                        promised: promised.to_owned(),
                        side: side.name.clone(),
                    }),
            );
        }
    }
    refusals.extend(different_arguments(a, b));
    refusals.dedup();
    refusals
}

/// Whether nothing that is known differs.
fn same(a: &SideFacts, b: &SideFacts) -> bool {
    let hashes = |side: &SideFacts| -> Vec<String> {
        side.programs
            .iter()
            .map(|program| program.sha256.clone())
            .collect()
    };
    let rest = |words: &[String]| words.get(1..).map(<[String]>::to_vec);
    !a.programs.is_empty()
        && hashes(a) == hashes(b)
        && different_libraries(a, b).is_empty()
        && rest(&a.words) == rest(&b.words)
        && rest(&a.server) == rest(&b.server)
        && a.variables == b.variables
        && a.directory == b.directory
}

/// Words of a name that promise a number of something that benchmarks take as an argument.
const COUNTED: [&str; 18] = [
    "pipeline",
    "threads",
    "thread",
    "clients",
    "client",
    "connections",
    "conns",
    "io-threads",
    "size",
    "bytes",
    "depth",
    "batch",
    "requests",
    "keys",
    "workers",
    "rows",
    "cores",
    "jobs",
];

/// The parts of a name such as `get-pipeline-10`, `threads=4` or `8clients`, with their numbers.
fn promises(name: &str) -> impl Iterator<Item = (&str, &str)> {
    COUNTED.iter().filter_map(move |word| {
        let at = name.find(word)?;
        let (before, after) = (&name[..at], &name[at + word.len()..]);
        // Part of a longer word: "io-threads" has "threads" in it, "resize" has "size".
        let begins = !before.ends_with(|c: char| c.is_alphabetic());
        let number_after = after.trim_start_matches(['-', '_', '=', ' ', ':']);
        let digits = number_after.len()
            - number_after
                .trim_start_matches(|c: char| c.is_ascii_digit())
                .len();
        let separators = after.len() - number_after.len();
        if !begins || digits == 0 || separators > 1 {
            return None;
        }
        let end = at + word.len() + separators + digits;
        Some((&name[at..end], &number_after[..digits]))
    })
}

/// Whether an argument is this number, or ends in it: `-P 10`, `-P10`, `--pipeline=10`.
fn says(side: &SideFacts, number: &str) -> bool {
    let says = |word: &String| {
        word.strip_suffix(number)
            .is_some_and(|rest| !rest.ends_with(|c: char| c.is_ascii_digit() || c == '.'))
    };
    let words = side.words.iter().skip(1).chain(side.server.iter().skip(1));
    words
        .chain(side.variables.iter().map(|(_, value)| value))
        .any(says)
}

/// Two programs with different arguments: which of the two made the difference is not to be told.
fn different_arguments(a: &SideFacts, b: &SideFacts) -> Option<Refusal> {
    let differ = |a: &[String], b: &[String]| -> bool { a.get(1..) != b.get(1..) };
    let other_program = match (a.programs.first(), b.programs.first()) {
        (Some(one), Some(other)) => {
            one.sha256 != other.sha256 || !different_libraries(a, b).is_empty()
        }
        _ => false,
    };
    let only = |of: &SideFacts, not_of: &SideFacts| -> Vec<String> {
        let others = settings(not_of);
        settings(of)
            .into_iter()
            .filter(|word| !others.contains(word))
            .collect()
    };
    let (only_a, only_b) = (only(a, b), only(b, a));
    let differs = differ(&a.words, &b.words) || differ(&a.server, &b.server);
    (other_program && differs && !(only_a.is_empty() && only_b.is_empty()))
        .then_some(Refusal::DifferentArguments { only_a, only_b })
}

/// A side's arguments but for files and ports, which each side has of its own.
fn settings(side: &SideFacts) -> Vec<String> {
    let of = |words: &[String]| -> Vec<String> {
        let with_flag = words.windows(2).map(|two| (two[0].as_str(), &two[1]));
        with_flag
            .filter(|(flag, _)| !matches!(*flag, "-p" | "--port"))
            .map(|(_, word)| word)
            .filter(|word| !word.contains('/') && !word.starts_with("--port="))
            .cloned()
            .collect()
    };
    let mut settings = of(&side.words);
    settings.extend(of(&side.server));
    settings
}
