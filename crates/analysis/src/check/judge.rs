//! Which pairs of fields on one line are suspicious.
//!
//! Let `f` be written by root `r` and `g` used by root `s`:
//!
//! | case | what it is |
//! | --- | --- |
//! | `s` writes `g`, `r` does not write `g`, `s` does not write `f` | two owners: each disturbs the other |
//! | `s` reads `g`, does not use `f`, nobody writes `g` in a loop | a reader beside a writer: it waits for a line that it does not need |
//! | `r` and `s` write `f`, only `s` writes `g` | `f` is shared in truth, `g` is not |
//! | `r` and `s` write both | all threads use both: padding does not help |
//! | `f` is a lock and who writes `g` holds it | a lock and the data it guards |
//! | `r` at `f` and `s` at `g` hold one lock | one thread at a time |
//! | `r` is waited for before `s` is started | one thread after another |
//! | `g` is written by `r` in a loop and read by `s` | communication |
//! | `g` is the guard of `f`, a static of a function | nothing: who reads the guard uses the variable |
//!
//! If several threads begin with one root, `r` and `s` may be the same: then the code tells two threads apart where a call
//! executes either the access of `f` or that of `g`, or one instruction touches either.
//!
//! Confidence is high if both are started threads and both accesses are in loops; medium if one of them is the main
//! thread, or the two are told apart by the code of one root; low otherwise, and where it is not known who calls. It is
//! medium at most where a thread was not run but followed from call to call, and low where only functions lead there whose
//! address is taken.

use hitm_model::{Confidence, StaticRule, Svma};

use super::facts::{EitherOr, Facts, most};
use super::fields::{self, Field, User};
use crate::named::GUARD;

/// Suspicious fields on one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Suspicion {
    /// Why.
    pub rule: StaticRule,
    /// How sure.
    pub confidence: Confidence,
    /// The line.
    pub line: Svma,
    /// The fields, in address order.
    pub fields: Vec<Field>,
    /// In words.
    pub why: &'static str,
    /// The distance of elements where it is an array.
    pub stride: Option<u32>,
}

/// Fields that share a line and are no finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoFinding {
    /// The fields.
    pub fields: Vec<Field>,
    /// Why not.
    pub why: &'static str,
}

/// So many fields of one line are compared.
const MOST_FIELDS: usize = 64;
/// So many explanations are kept.
const MOST_EXPLAINED: usize = 1000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Judged {
    read_only: bool,
    confidence: Confidence,
    why: &'static str,
}

const OWNERS: &str = "different threads write them, each its own";
const READER: &str =
    "one thread reads what is beside what another thread writes, and does not need that";
const MIXED: &str = "one of them is written by several threads, the other one only by one of these";
const EITHER: &str = "several threads run this code, and each execution touches only one of them";
const CHOICE: &str = "several threads run this instruction, which touches one of them or the other";
const ALL_READ: &str =
    "several threads write one of them all the time and read the other one, which nobody changes";

const BOTH: &str = "the same threads use both, so that a line of its own for each would not help";
const GUARDED: &str =
    "one is a lock and the other is what it guards: who takes the lock needs the data as well";
const MESSAGE: &str =
    "one thread writes what another one reads: that is communication, wherever it is";
const OWN_GUARD: &str = "one is the guard of the other: whoever reads the guard uses the variable as well, so that lines of their own would not help";
pub(super) const UNDER_ONE_LOCK: &str = "who touches them holds one and the same lock, so that only one thread at a time does, and the lock's own line has to move with it wherever they are";
const ONE_AFTER_ANOTHER: &str = "one of the threads is waited for before the other one is started";
const ALONE: &str = "one atomic that several threads change, with nothing beside it: true sharing, which padding cannot help";

/// Judges all fields that share lines.
pub(super) fn judge(facts: &Facts, either_or: &dyn EitherOr) -> (Vec<Suspicion>, Vec<NoFinding>) {
    let all = fields::of(facts);
    let mut by_line: Vec<(u64, usize)> = Vec::new();
    for (number, field) in all.iter().enumerate() {
        let (first, last) = fields::lines(facts, field.range);
        by_line.extend((first..=last.min(first + 8)).map(|line| (line, number)));
    }
    by_line.sort_unstable();
    let mut suspicions = Vec::new();
    let mut explained = Vec::new();
    for on_line in by_line.chunk_by(|a, b| a.0 == b.0) {
        let fields: Vec<&Field> = on_line
            .iter()
            .take(MOST_FIELDS)
            .map(|&(_, number)| &all[number])
            .collect();
        let line = fields::address_of(facts, on_line[0].0);
        judge_line(
            facts,
            either_or,
            line,
            &fields,
            &mut suspicions,
            &mut explained,
        );
    }
    explained.truncate(MOST_EXPLAINED);
    (suspicions, explained)
}

fn judge_line(
    facts: &Facts,
    either_or: &dyn EitherOr,
    line: Svma,
    fields: &[&Field],
    suspicions: &mut Vec<Suspicion>,
    explained: &mut Vec<NoFinding>,
) {
    if let [field] = fields
        && !facts.objects[field.object].library
        && is_shared_by_all(facts, field)
    {
        explained.push(NoFinding {
            fields: vec![(*field).clone()],
            why: ALONE,
        });
    }
    let mut pairs: Vec<(usize, usize, Judged)> = Vec::new();
    for first in 0..fields.len() {
        for second in first + 1..fields.len() {
            let (f, g) = (fields[first], fields[second]);
            let library = [f, g]
                .iter()
                .any(|field| facts.objects[field.object].library);
            let outcome = match pair(facts, either_or, f, g) {
                Outcome::Suspicious(_) if is_own_guard(facts, f, g) => {
                    Outcome::Explained(OWN_GUARD)
                }
                other => other,
            };
            match outcome {
                Outcome::Suspicious(judged) => {
                    let confidence = if library {
                        Confidence::Low
                    } else {
                        judged.confidence
                    };
                    pairs.push((
                        first,
                        second,
                        Judged {
                            confidence,
                            ..judged
                        },
                    ));
                }
                Outcome::Explained(why) if !library => explained.push(NoFinding {
                    fields: vec![f.clone(), g.clone()],
                    why,
                }),
                Outcome::Explained(_) | Outcome::Nothing => {}
            }
        }
    }
    // What is likely makes a finding of its own; hints do not get in by being beside it.
    let mut taken = vec![false; fields.len()];
    for least in [Confidence::Medium, Confidence::Low] {
        let wanted: Vec<&(usize, usize, Judged)> = pairs
            .iter()
            .filter(|(first, second, judged)| {
                judged.confidence >= least && !(taken[*first] && taken[*second])
            })
            .collect();
        for group in groups(fields.len(), &wanted) {
            let inside: Vec<&Judged> = wanted
                .iter()
                .filter(|(first, _, _)| group.contains(first))
                .map(|(_, _, judged)| judged)
                .collect();
            let Some(best) = inside
                .iter()
                .max_by_key(|it| (it.confidence, !it.read_only))
            else {
                continue;
            };
            for member in &group {
                taken[*member] = true;
            }
            let members: Vec<Field> = group.iter().map(|&member| fields[member].clone()).collect();
            let one = members
                .iter()
                .all(|field| field.object == members[0].object);
            let rule = if inside.iter().all(|judged| judged.read_only) {
                StaticRule::ReadBesideWritten
            } else if one {
                StaticRule::FieldsShareLine
            } else {
                StaticRule::GlobalsShareLine
            };
            suspicions.push(Suspicion {
                rule,
                confidence: best.confidence,
                line,
                fields: members,
                why: best.why,
                stride: None,
            });
        }
    }
}

/// Whether one is a static of a function and the other one says whether that is initialised.
fn is_own_guard(facts: &Facts, f: &Field, g: &Field) -> bool {
    let name = |field: &Field| facts.objects[field.object].name.as_str();
    [(f, g), (g, f)]
        .iter()
        .any(|(guard, variable)| name(guard).strip_prefix(GUARD) == Some(name(variable)))
}

/// The fields that pairs connect.
fn groups(count: usize, pairs: &[&(usize, usize, Judged)]) -> Vec<Vec<usize>> {
    let mut group: Vec<usize> = (0..count).collect();
    for (first, second, _) in pairs {
        let (from, to) = (group[*second], group[*first]);
        for member in &mut group {
            if *member == from {
                *member = to;
            }
        }
    }
    let mut all: Vec<Vec<usize>> = Vec::new();
    for start in 0..count {
        let members: Vec<usize> = (0..count).filter(|&it| group[it] == start).collect();
        if members.len() > 1 {
            all.push(members);
        }
    }
    all
}

fn is_shared_by_all(facts: &Facts, field: &Field) -> bool {
    let writers = field.users.iter().filter(|user| user.writes_hot());
    let weight: usize = writers
        .map(|user| match user.root {
            Some(root) if facts.roots[usize::from(root)].many => 2,
            Some(_) => 1,
            None => 0,
        })
        .sum();
    weight >= 2
}

enum Outcome {
    Suspicious(Judged),
    Explained(&'static str),
    Nothing,
}

fn pair(facts: &Facts, either_or: &dyn EitherOr, f: &Field, g: &Field) -> Outcome {
    let mut best: Option<Judged> = None;
    let mut why_not = None;
    for (f, g) in [(f, g), (g, f)] {
        for r in f.users.iter().filter(|user| user.writes()) {
            for s in &g.users {
                let outcome = if facts.are_apart(r.root, s.root) {
                    Outcome::Explained(ONE_AFTER_ANOTHER)
                } else if one_at_a_time(facts, r, s) {
                    Outcome::Explained(UNDER_ONE_LOCK)
                } else if r.root == s.root {
                    same_root(facts, either_or, f, g, r, s)
                } else {
                    two_roots(facts, f, g, r, s)
                };
                match outcome {
                    Outcome::Suspicious(judged) => {
                        let better = best.is_none_or(|best| {
                            (judged.confidence, !judged.read_only)
                                > (best.confidence, !best.read_only)
                        });
                        if better {
                            best = Some(judged);
                        }
                    }
                    Outcome::Explained(why) if why == UNDER_ONE_LOCK => why_not = Some(why),
                    Outcome::Explained(why) => why_not = why_not.or(Some(why)),
                    Outcome::Nothing => {}
                }
            }
        }
    }
    match (best, why_not) {
        (Some(judged), _) => Outcome::Suspicious(judged),
        (None, Some(why)) => Outcome::Explained(why),
        (None, None) => Outcome::Nothing,
    }
}

/// Whether two threads may be there, but never at once.
fn one_at_a_time(facts: &Facts, r: &User, s: &User) -> bool {
    let several = match r.root {
        Some(root) if r.root == s.root => facts.roots[usize::from(root)].many,
        _ => true,
    };
    several && r.excludes(s)
}

fn two_roots(facts: &Facts, f: &Field, g: &Field, r: &User, s: &User) -> Outcome {
    let r_on_g = g.user(r.root);
    let s_on_f = f.user(s.root);
    let r_writes_g = r_on_g.is_some_and(User::writes);
    let s_writes_f = s_on_f.is_some_and(User::writes);
    let suspicious = |read_only, confidence, why| {
        Outcome::Suspicious(Judged {
            read_only,
            confidence,
            why,
        })
    };
    let hot = r.writes_hot() && if s.writes() { s.writes_hot() } else { s.hot() };
    let confidence = confidence(facts, r.root, s.root, hot).min(most_of(r, s));
    match (r_writes_g, s_writes_f, s.writes()) {
        (true, true, _) => Outcome::Explained(if f.is_locked() || g.is_locked() {
            GUARDED
        } else {
            BOTH
        }),
        (false, false, true) => suspicious(false, confidence, OWNERS),
        (false, true, true) if f.is_locked() => Outcome::Explained(GUARDED),
        (_, true, false) if f.is_locked() => Outcome::Explained(GUARDED),
        (false, true, true) => suspicious(false, confidence.min(Confidence::Medium), MIXED),
        (_, _, false) if s_on_f.is_some() => Outcome::Explained(BOTH),
        (true, _, false) => Outcome::Explained(MESSAGE),
        (false, _, false) if g.users.iter().any(|user| writes_beside(facts, user)) => {
            // Someone else writes it all the time: that is what its reader waits for.
            Outcome::Explained(MESSAGE)
        }
        (false, false, false) => suspicious(true, confidence, READER),
        _ => Outcome::Nothing,
    }
}

/// Whether a started thread writes it in a loop.
fn writes_beside(facts: &Facts, user: &User) -> bool {
    user.writes_hot()
        && user
            .root
            .is_some_and(|root| !facts.roots[usize::from(root)].main)
}

/// The most that can be said, as far as it is sure that both come to their accesses.
fn most_of(r: &User, s: &User) -> Confidence {
    most(r.certainty(true).min(s.certainty(s.writes())))
}

fn confidence(facts: &Facts, r: Option<u16>, s: Option<u16>, hot: bool) -> Confidence {
    let main = |root: u16| facts.roots[usize::from(root)].main;
    match (r, s) {
        (Some(r), Some(s)) if hot && !main(r) && !main(s) => Confidence::High,
        (Some(_), Some(_)) if hot => Confidence::Medium,
        _ => Confidence::Low,
    }
}

fn same_root(
    facts: &Facts,
    either_or: &dyn EitherOr,
    f: &Field,
    g: &Field,
    r: &User,
    s: &User,
) -> Outcome {
    let Some(root) = r.root else {
        // Who calls it is not known: perhaps one thread only.
        return Outcome::Nothing;
    };
    if !facts.roots[usize::from(root)].many || !r.writes_hot() || !s.hot() {
        return Outcome::Nothing;
    }
    let chosen = r.sites.iter().any(|site| {
        site.chosen
            && site.kind.writes()
            && s.sites
                .iter()
                .any(|other| other.instruction == site.instruction)
    });
    let suspicious = |read_only, why| {
        Outcome::Suspicious(Judged {
            read_only,
            confidence: Confidence::Medium.min(most_of(r, s)),
            why,
        })
    };
    if chosen {
        return suspicious(false, CHOICE);
    }
    if is_either_or(either_or, r, s) {
        let others = |field: &Field| {
            field
                .users
                .iter()
                .any(|user| user.root != r.root && writes_beside(facts, user))
        };
        if !others(f) && !others(g) {
            return suspicious(!s.writes(), EITHER);
        }
    }
    if f.is_locked() || g.is_locked() {
        return Outcome::Explained(GUARDED);
    }
    let changes = |user: &User| {
        user.writes()
            && user
                .root
                .is_some_and(|root| !facts.roots[usize::from(root)].main)
    };
    if !g.users.iter().any(changes) {
        // In one object a writer is more likely to be missed than that there is none.
        let confidence = if f.object == g.object {
            Confidence::Low
        } else {
            Confidence::Medium
        };
        return Outcome::Suspicious(Judged {
            read_only: true,
            confidence: confidence.min(most_of(r, s)),
            why: ALL_READ,
        });
    }
    Outcome::Explained(BOTH)
}

/// Whether the accesses of two fields in loops are never those of one execution.
fn is_either_or(either_or: &dyn EitherOr, r: &User, s: &User) -> bool {
    let hot = |user: &User| {
        let sites = user.sites.iter().filter(|site| site.hot).copied();
        sites.collect::<Vec<_>>()
    };
    let (writes, uses) = (hot(r), hot(s));
    !writes.is_empty()
        && !uses.is_empty()
        && writes.iter().all(|a| {
            uses.iter().all(|b| {
                a.function == b.function && either_or.is_either_or(a.instruction, b.instruction)
            })
        })
}
