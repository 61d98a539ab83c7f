//! One run of one side, what it gave, and whether it could run as it should.

use serde::{Deserialize, Serialize};

/// The side of a comparison: A is what is, B is what it is compared with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The base.
    A,
    /// The change.
    B,
}

impl Side {
    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// Seconds of wall or processor time.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seconds(pub f64);

/// What a run gave.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Trial {
    /// The metric, in its own unit.
    pub value: f64,
    /// What else is known of the run.
    pub health: Health,
}

/// Whether a run had the machine as it needed it. What this machine does not tell is `None`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Health {
    /// From start to end.
    pub wall: Seconds,
    /// Processor time of the command and all it started.
    pub cpu: Seconds,
    /// Processors the run could use.
    pub processors: usize,
    /// Processor time that the hypervisor gave to others, of all processors together.
    pub stolen: Option<Seconds>,
    /// Time that runnable threads of the whole machine waited for a processor, of all processors together.
    pub queued: Option<Seconds>,
    /// Processor time of everybody else on this machine.
    pub foreign: Option<Seconds>,
    /// How often the command's threads were taken off a processor before they gave it up.
    pub involuntary_switches: u64,
    /// The mean frequency of the processors in MHz, where the kernel tells.
    pub megahertz: Option<f64>,
    /// The most memory that one of its processes had, in bytes.
    pub max_rss: u64,
    /// Processes that the run left behind.
    pub left_behind: usize,
    /// How busy it and its server were, if it has one.
    pub busiest: Option<Busiest>,
}

/// The part of the time that the busiest thread ran, from 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Busiest {
    /// Of the command's threads.
    pub client: f64,
    /// Of its server's.
    pub server: f64,
}

/// Why a run does not count.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Disturbed {
    /// The hypervisor gave much of the processors to others.
    Stolen,
    /// Other programs used much of the processors.
    Foreign,
}

impl Disturbed {
    /// In one word, as in all documents.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Stolen => "stolen",
            Self::Foreign => "foreign",
        }
    }
}

/// Of the processor time that the run could have used, at most so much may be stolen: above, threads that should run side by
/// side take turns.
const MOST_STOLEN: f64 = 0.02;
/// The same of other programs; a shell and a monitor stay below it.
const MOST_FOREIGN: f64 = 0.05;
/// Both are counted in ticks, of 10 ms as a rule, and a tick may be charged to the wrong side of a border at both ends: so
/// many seconds are no evidence.
const TICKS: f64 = 0.02;

impl Health {
    /// Processors used on average: processor time over wall time. Of a program with two busy threads that ran side by side
    /// it is nearly 2.
    #[must_use]
    pub fn overlap(&self) -> f64 {
        if self.wall.0 > 0.0 {
            self.cpu.0 / self.wall.0
        } else {
            0.0
        }
    }

    /// What disturbed the run too much to count it. Nothing that the program does to itself is in it: a program with more
    /// threads than processors waits for itself, and is not repeated for that.
    #[must_use]
    pub fn disturbed(&self) -> Vec<Disturbed> {
        let there = self.wall.0 * self.processors as f64;
        let too_much =
            |time: Option<Seconds>, most: f64| time.is_some_and(|t| t.0 > most * there + TICKS);
        let mut why = Vec::new();
        if too_much(self.stolen, MOST_STOLEN) {
            why.push(Disturbed::Stolen);
        }
        if too_much(self.foreign, MOST_FOREIGN) {
            why.push(Disturbed::Foreign);
        }
        why
    }
}

/// Two runs that are compared with each other.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Pair {
    /// Which side ran first.
    pub first: Side,
    /// The base's run.
    pub a: Trial,
    /// The change's run.
    pub b: Trial,
}

impl Pair {
    /// The run of a side.
    #[must_use]
    pub fn trial(&self, side: Side) -> &Trial {
        match side {
            Side::A => &self.a,
            Side::B => &self.b,
        }
    }

    /// What disturbed either run.
    #[must_use]
    pub fn disturbed(&self) -> Vec<Disturbed> {
        let mut why = self.a.health.disturbed();
        why.extend(self.b.health.disturbed());
        why.sort_unstable();
        why.dedup();
        why
    }
}
