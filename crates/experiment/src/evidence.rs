//! The mechanism beside the number: what the lines of both sides do, object by object.
//!
//! A recording of each side says who writes which line and who meets whom there. Objects are matched by name, because a
//! repair moves them. Where the clock cannot tell the sides apart, this can: false sharing that one side has and the other
//! has not is a difference, whatever it is worth in time.

use std::collections::BTreeSet;

use hitm_model::{Confidence, Evidence as Ground, Finding, Report, Tid, Verdict};

use crate::trial::Side;

/// What the lines of both sides do.
#[derive(Clone, PartialEq, Debug)]
pub struct Evidence {
    /// The recording of A, or why there is none.
    pub a: Result<Recording, String>,
    /// The recording of B.
    pub b: Result<Recording, String>,
    /// Objects that threads share on either side, those with most at stake first.
    pub objects: Vec<SharedObjects>,
    /// What this says.
    pub says: Mechanism,
}

/// The denominators of one recording.
#[derive(Clone, PartialEq, Debug)]
pub struct Recording {
    /// Samples taken.
    pub samples: u64,
    /// Of these, samples whose code could not be decoded.
    pub undecoded: u64,
    /// Threads with at least one sample.
    pub threads: u64,
    /// Of these, threads that were seen to write to memory other than their own stack.
    pub writing_threads: u64,
    /// The part of the time with two threads on different processors, from 0 to 1.
    pub co_running: Option<f64>,
    /// Whether threads were seen to meet at any line.
    pub met: bool,
}

/// Objects that share lines on at least one side, and what happens there on both.
#[derive(Clone, PartialEq, Debug)]
pub struct SharedObjects {
    /// Their names.
    pub names: Vec<String>,
    /// On A's lines; `None` if no threads met there.
    pub a: Option<Sharing>,
    /// On B's lines.
    pub b: Option<Sharing>,
}

/// What threads do on the lines of some objects.
#[derive(Clone, PartialEq, Debug)]
pub struct Sharing {
    /// The verdict of the finding with the largest share.
    pub verdict: Verdict,
    /// How sure that is.
    pub confidence: Confidence,
    /// Lines.
    pub lines: usize,
    /// Threads that write to one line, the line with most of them.
    pub writers_per_line: usize,
    /// Samples that met another thread at the line, before and after: conflicts.
    pub conflicts: u64,
    /// Of these, conflicts with other bytes of the line.
    pub conflicts_disjoint: u64,
    /// The part of its threads' time that is spent there at most, from 0 to 1.
    pub share: f64,
    /// The same of what layout can change: the findings of false or mixed sharing.
    pub false_share: f64,
}

/// What the recordings say.
#[derive(Clone, PartialEq, Debug)]
pub enum Mechanism {
    /// A shares objects falsely that B does not.
    FalseSharingGone {
        /// The objects.
        objects: Vec<String>,
    },
    /// B shares objects falsely that A does not.
    FalseSharingNew {
        /// The objects.
        objects: Vec<String>,
    },
    /// Some objects are no longer shared falsely, others are now.
    FalseSharingMoved {
        /// What A shares falsely.
        gone: Vec<String>,
        /// What B does.
        new: Vec<String>,
    },
    /// Both sides share the same objects falsely.
    FalseSharingStays {
        /// The objects.
        objects: Vec<String>,
    },
    /// Neither side was seen to share anything falsely.
    NoFalseSharing,
    /// A recording is missing, or too poor to say what is not there.
    CannotTell {
        /// Why.
        why: String,
    },
}

/// Below this part of its threads' time, false sharing is as good as none; what `hitm run` hides.
const NEGLIGIBLE: f64 = 0.01;
/// And it must be so many times less than on the other side, so that a share near the limit is no difference.
const TIMES_LESS: f64 = 4.0;
/// Fewer samples show only what is very hot.
const ENOUGH_SAMPLES: u64 = 100;
/// Threads that run side by side in less of the time cannot be seen to meet; and not in less than half of what the other
/// side has.
const ENOUGH_CO_RUNNING: f64 = 0.5;

impl Evidence {
    /// What two recordings say, or what kept them from being made.
    #[must_use]
    pub fn of(a: Result<&Report, String>, b: Result<&Report, String>) -> Self {
        let findings = |report: &Result<&Report, String>| -> Vec<Finding> {
            let report = report.as_ref().ok();
            report.map_or_else(Vec::new, |report| report.findings.clone())
        };
        let objects = matched(&findings(&a), &findings(&b));
        let (a, b) = (a.map(Recording::of), b.map(Recording::of));
        let says = says(&a, &b, &objects);
        Self {
            a,
            b,
            objects,
            says,
        }
    }

    /// A side on which fewer than two threads write, and that shows nothing that another thread could have met: it does
    /// not do what is to be compared. With too few samples nothing is said.
    #[must_use]
    pub fn too_few_writers(&self) -> Option<(Side, &Recording)> {
        let (Ok(a), Ok(b)) = (&self.a, &self.b) else {
            return None;
        };
        // One thread that writes is enough where others read beside it; and on the repaired side nobody meets any more.
        let lacks = |one: &Recording, other: &Recording| {
            let as_other = other.met && one.writing_threads >= other.writing_threads;
            let seen = one.samples >= ENOUGH_SAMPLES;
            seen && one.writing_threads < 2 && !one.met && !as_other
        };
        if lacks(a, b) {
            Some((Side::A, a))
        } else if lacks(b, a) {
            Some((Side::B, b))
        } else {
            None
        }
    }
}

impl Mechanism {
    /// Whether it tells the sides apart.
    #[must_use]
    pub fn decides(&self) -> bool {
        matches!(
            self,
            Self::FalseSharingGone { .. } | Self::FalseSharingNew { .. }
        )
    }
}

impl Recording {
    fn of(report: &Report) -> Self {
        let totals = &report.totals;
        Self {
            samples: totals.samples,
            undecoded: totals.undecoded,
            threads: totals.sampled_threads,
            writing_threads: totals.writing_threads,
            co_running: totals.co_running,
            met: !report.findings.is_empty(),
        }
    }

    /// Why it cannot say that something is not there, compared with the other side's.
    fn too_poor(&self, other: &Self) -> Option<String> {
        let ran = |recording: &Self| recording.co_running.unwrap_or(0.0);
        let needed = ENOUGH_CO_RUNNING.min(ran(other) / 2.0);
        if self.samples < ENOUGH_SAMPLES {
            Some(format!("only {} samples were taken", self.samples))
        } else if self.undecoded * 2 > self.samples {
            Some("most of its code could not be decoded".to_owned())
        } else if self.threads < 2 && other.threads > 1 {
            Some("only one thread was seen running".to_owned())
        } else if ran(self) < needed {
            Some(format!(
                "its threads ran side by side in {:.0} % of the time only",
                ran(self) * 100.0
            ))
        } else {
            None
        }
    }
}

fn says(
    a: &Result<Recording, String>,
    b: &Result<Recording, String>,
    objects: &[SharedObjects],
) -> Mechanism {
    let cannot = |side: &str, why: &str| Mechanism::CannotTell {
        why: format!("{side}: {why}"),
    };
    let (a, b) = match (a, b) {
        (Err(why), _) => return cannot("A", why),
        (_, Err(why)) => return cannot("B", why),
        (Ok(a), Ok(b)) => (a, b),
    };
    let share = |side: &Option<Sharing>| side.as_ref().map_or(0.0, |sharing| sharing.false_share);
    let vanished = |from: &Option<Sharing>, to: &Option<Sharing>| {
        let sure = from
            .as_ref()
            .is_some_and(|sharing| sharing.confidence > Confidence::Low);
        sure && share(from) >= NEGLIGIBLE
            && share(to) < NEGLIGIBLE
            && share(to) * TIMES_LESS <= share(from)
    };
    let names = |which: &dyn Fn(&SharedObjects) -> bool| -> Vec<String> {
        let of = objects.iter().filter(|object| which(object));
        of.map(|object| object.names.join(", ")).collect()
    };
    let gone = names(&|object| vanished(&object.a, &object.b));
    let new = names(&|object| vanished(&object.b, &object.a));
    let stays = names(&|object| share(&object.a).min(share(&object.b)) >= NEGLIGIBLE);
    // What is missing on a side must not be missing because that side was seen badly.
    if let Some(why) = b
        .too_poor(a)
        .filter(|_| !gone.is_empty() || stays.is_empty())
    {
        return cannot("B", &why);
    }
    if let Some(why) = a
        .too_poor(b)
        .filter(|_| !new.is_empty() || stays.is_empty())
    {
        return cannot("A", &why);
    }
    match (gone.is_empty(), new.is_empty()) {
        (false, false) => Mechanism::FalseSharingMoved { gone, new },
        (false, true) => Mechanism::FalseSharingGone { objects: gone },
        (true, false) => Mechanism::FalseSharingNew { objects: new },
        (true, true) if stays.is_empty() => Mechanism::NoFalseSharing,
        (true, true) => Mechanism::FalseSharingStays { objects: stays },
    }
}

/// Findings of both sides, put together where they have an object in common.
fn matched(a: &[Finding], b: &[Finding]) -> Vec<SharedObjects> {
    let sides = [(Side::A, a), (Side::B, b)];
    type Members<'a> = Vec<(Side, &'a Finding)>;
    let mut groups: Vec<(BTreeSet<String>, Members<'_>)> = Vec::new();
    for (side, finding) in sides
        .into_iter()
        .flat_map(|(side, findings)| findings.iter().map(move |finding| (side, finding)))
    {
        let mut names: BTreeSet<String> = finding
            .objects
            .iter()
            .map(|object| object.name.clone())
            .collect();
        let mut members = vec![(side, finding)];
        // An object may join what stood apart on the other side.
        groups.retain_mut(|(known, with)| {
            let joins = !known.is_disjoint(&names);
            if joins {
                names.append(known);
                members.splice(0..0, with.drain(..));
            }
            !joins
        });
        groups.push((names, members));
    }
    let mut objects: Vec<SharedObjects> = groups
        .into_iter()
        .map(|(names, members)| {
            let of = |wanted: Side| -> Vec<&Finding> {
                let of_side = members.iter().filter(|(side, _)| *side == wanted);
                of_side.map(|(_, finding)| *finding).collect()
            };
            SharedObjects {
                names: names.into_iter().collect(),
                a: sharing(&of(Side::A)),
                b: sharing(&of(Side::B)),
            }
        })
        .collect();
    let stake = |object: &SharedObjects| -> f64 {
        let share = |side: &Option<Sharing>| side.as_ref().map_or(0.0, |sharing| sharing.share);
        share(&object.a).max(share(&object.b))
    };
    objects.sort_by(|one, other| stake(other).total_cmp(&stake(one)));
    objects
}

/// What some findings of one side say together; `None` of none.
fn sharing(findings: &[&Finding]) -> Option<Sharing> {
    let share = |finding: &Finding| finding.severity.worst_thread;
    let hottest = findings
        .iter()
        .max_by(|one, other| share(one).total_cmp(&share(other)))?;
    let can_be_repaired =
        |finding: &&&Finding| matches!(finding.verdict, Verdict::FalseSharing | Verdict::Mixed);
    let most = |shares: &mut dyn Iterator<Item = f64>| shares.fold(0.0, f64::max);
    let sampled = || {
        let evidence = findings.iter().flat_map(|finding| &finding.evidence);
        evidence.filter_map(|ground| match ground {
            Ground::Sampled(sampled) => Some(sampled),
            Ground::CoLocated(_) => None,
        })
    };
    Some(Sharing {
        verdict: hottest.verdict,
        confidence: hottest.confidence,
        lines: findings.iter().map(|finding| finding.lines.len()).sum(),
        writers_per_line: findings
            .iter()
            .map(|finding| writers_per_line(finding))
            .max()
            .unwrap_or(0),
        conflicts: sampled().map(|sampled| sampled.met).sum(),
        conflicts_disjoint: sampled().map(|sampled| sampled.met_disjoint).sum(),
        share: share(hottest),
        false_share: most(
            &mut findings
                .iter()
                .filter(can_be_repaired)
                .map(|finding| share(finding)),
        ),
    })
}

fn writers_per_line(finding: &Finding) -> usize {
    let writers = |line: usize| -> usize {
        let writing = finding
            .participants
            .iter()
            .filter(|who| who.line == line && who.kinds.writes());
        let threads: BTreeSet<Tid> = writing
            .flat_map(|who| who.threads.tids.iter().copied())
            .collect();
        threads.len()
    };
    (0..finding.lines.len()).map(writers).max().unwrap_or(0)
}
