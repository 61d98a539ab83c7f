//! What the lines do, as a part of the JSON document of an experiment.

use hitm_experiment as experiment;
use schemars::JsonSchema;
use serde::Serialize;

/// What the lines do on both sides.
#[derive(Serialize, JsonSchema)]
pub(super) struct Evidence {
    /// What this says.
    says: Says,
    /// The objects that it is about: of A, or of both.
    objects_a: Vec<String>,
    /// The objects that it is about: of B, or of both.
    objects_b: Vec<String>,
    /// Why it cannot tell, if it cannot.
    why: Option<String>,
    /// The recording of A; null if there is none.
    recording_a: Option<Recording>,
    /// The recording of B; null if there is none.
    recording_b: Option<Recording>,
    /// Why there is no recording of A.
    not_recorded_a: Option<String>,
    /// Why there is no recording of B.
    not_recorded_b: Option<String>,
    /// Objects that threads share on either side, those with most at stake first.
    objects: Vec<Shared>,
}

/// What the recordings say.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Says {
    /// A shares objects falsely that B does not.
    FalseSharingGone,
    /// B shares objects falsely that A does not.
    FalseSharingNew,
    /// Some objects are no longer shared falsely, others are now.
    FalseSharingMoved,
    /// Both sides share the same objects falsely.
    FalseSharingStays,
    /// Neither side was seen to share anything falsely.
    NoFalseSharing,
    /// A recording is missing, or too poor.
    CannotTell,
}

/// The denominators of a recording.
#[derive(Serialize, JsonSchema)]
struct Recording {
    /// Samples taken.
    samples: u64,
    /// Samples whose code could not be decoded.
    undecoded: u64,
    /// Threads with at least one sample.
    threads: u64,
    /// Of these, threads that were seen to write to memory other than their own stack.
    writing_threads: u64,
    /// The part of the time with two threads on different processors, from 0 to 1.
    co_running: Option<f64>,
}

/// Objects that share lines.
#[derive(Serialize, JsonSchema)]
struct Shared {
    /// Their names.
    names: Vec<String>,
    /// What happens on A's lines; null if no threads met there.
    a: Option<Sharing>,
    /// What happens on B's lines; null if no threads met there.
    b: Option<Sharing>,
}

/// What threads do on the lines of some objects.
#[derive(Serialize, JsonSchema)]
struct Sharing {
    /// The verdict of the finding with the largest share.
    verdict: &'static str,
    /// How sure that is.
    confidence: String,
    /// Lines.
    lines: usize,
    /// Threads that write to one line, the line with most of them.
    writers_per_line: usize,
    /// Samples that met another thread at the line, before and after.
    conflicts: u64,
    /// Of these, conflicts with other bytes of the line.
    conflicts_disjoint: u64,
    /// The part of its threads' time that is spent there at most, from 0 to 1.
    share: f64,
    /// The same of the findings of false or mixed sharing.
    false_share: f64,
}

impl From<&experiment::Evidence> for Evidence {
    fn from(evidence: &experiment::Evidence) -> Self {
        use experiment::Mechanism;
        let none = || (Vec::new(), Vec::new());
        let (says, (objects_a, objects_b), why) = match &evidence.says {
            Mechanism::FalseSharingGone { objects } => {
                (Says::FalseSharingGone, (objects.clone(), Vec::new()), None)
            }
            Mechanism::FalseSharingNew { objects } => {
                (Says::FalseSharingNew, (Vec::new(), objects.clone()), None)
            }
            Mechanism::FalseSharingMoved { gone, new } => {
                (Says::FalseSharingMoved, (gone.clone(), new.clone()), None)
            }
            Mechanism::FalseSharingStays { objects } => (
                Says::FalseSharingStays,
                (objects.clone(), objects.clone()),
                None,
            ),
            Mechanism::NoFalseSharing => (Says::NoFalseSharing, none(), None),
            Mechanism::CannotTell { why } => (Says::CannotTell, none(), Some(why.clone())),
        };
        Self {
            says,
            objects_a,
            objects_b,
            why,
            recording_a: evidence.a.as_ref().ok().map(Recording::from),
            recording_b: evidence.b.as_ref().ok().map(Recording::from),
            not_recorded_a: evidence.a.as_ref().err().cloned(),
            not_recorded_b: evidence.b.as_ref().err().cloned(),
            objects: evidence
                .objects
                .iter()
                .map(|object| Shared {
                    names: object.names.clone(),
                    a: object.a.as_ref().map(Sharing::from),
                    b: object.b.as_ref().map(Sharing::from),
                })
                .collect(),
        }
    }
}

impl From<&experiment::Recording> for Recording {
    fn from(recording: &experiment::Recording) -> Self {
        Self {
            samples: recording.samples,
            undecoded: recording.undecoded,
            threads: recording.threads,
            writing_threads: recording.writing_threads,
            co_running: recording.co_running,
        }
    }
}

impl From<&experiment::Sharing> for Sharing {
    fn from(sharing: &experiment::Sharing) -> Self {
        Self {
            verdict: sharing.verdict.word(),
            confidence: sharing.confidence.to_string(),
            lines: sharing.lines,
            writers_per_line: sharing.writers_per_line,
            conflicts: sharing.conflicts,
            conflicts_disjoint: sharing.conflicts_disjoint,
            share: sharing.share,
            false_share: sharing.false_share,
        }
    }
}
