//! What a program of known sharing says about itself: which thread touches which bytes.

/// One line of `--addrs`: `addr thread=0 rw=w name=quota.in_use at=0x… size=8 line=0x… off=…`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Truth {
    /// Which of the program's worker threads.
    pub who: Who,
    /// What they do.
    pub access: AccessWanted,
    /// What the program calls it.
    pub name: String,
    /// The address of its first byte.
    pub at: u64,
    /// Its size in bytes.
    pub size: u64,
}

/// Which worker threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    /// One of them, counted from 0 in the order of birth.
    Worker(usize),
    /// All of them.
    All,
}

/// What a thread must be found to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessWanted {
    /// It only reads.
    Reads,
    /// It writes, whether or not it reads too.
    Writes,
}

impl AccessWanted {
    /// `R` and `r` are reads, `W` and `w` are writes.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "r" | "R" => Some(Self::Reads),
            "w" | "W" => Some(Self::Writes),
            _ => None,
        }
    }
}

impl Who {
    /// A number, or `*` for all.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "*" => Some(Self::All),
            number => number.parse().ok().map(Self::Worker),
        }
    }
}

/// The truths among the lines of a program's output; other lines are skipped.
///
/// # Errors
/// The first line that starts as a truth does and is none.
pub fn parse_truth(output: &str) -> Result<Vec<Truth>, String> {
    output
        .lines()
        .filter(|line| line.starts_with("addr "))
        .map(|line| parse_line(line).ok_or_else(|| line.to_owned()))
        .collect()
}

fn parse_line(line: &str) -> Option<Truth> {
    let value = |key: &str| {
        line.split_whitespace()
            .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    };
    Some(Truth {
        who: Who::parse(value("thread")?)?,
        access: AccessWanted::parse(value("rw")?)?,
        name: value("name")?.to_owned(),
        at: u64::from_str_radix(value("at")?.strip_prefix("0x")?, 16).ok()?,
        size: value("size")?.parse().ok()?,
    })
}
