//! Compares a report of hitm with what a program says about itself.
//!
//! A report is right if there is one finding with the wanted verdict in which every claimed thread does what is
//! claimed to the claimed bytes under the claimed name, and if there is no other finding. [`judge`] says everything that
//! is wrong, not only the first thing.

use hitm_model::Verdict;
use serde_json::Value;

use crate::{AccessWanted, Truth, Who};

/// One claim that a finding must bear out.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Who does what to which bytes.
    pub truth: Truth,
    /// How the field path must end: a whole ending of components, one with `*` for any ending, or, if `None`, the last
    /// component of the truth's name.
    pub ending: Option<String>,
    /// Whether names are checked at all; a stripped program has none.
    pub named: bool,
}

/// What came of the comparison.
#[derive(Clone, PartialEq, Debug)]
pub struct Judgement {
    /// The verdicts of all findings with their objects, as the report lists them.
    pub found: Vec<String>,
    /// Everything that is wrong; empty if the report is right.
    pub wrong: Vec<String>,
    /// Whether what was to be found was found.
    pub hit: bool,
    /// Findings that were not to be there.
    pub extra: usize,
    /// The share of the time in which threads ran side by side, as the report says.
    pub co_running: Option<f64>,
}

/// Judges a report in JSON.
///
/// `verdict` is the one wanted, `None` for no finding at all; then `claims` do not matter.
///
/// # Errors
/// Where the report is not of the form this function knows.
pub fn judge(
    report: &Value,
    verdict: Option<Verdict>,
    claims: &[Claim],
) -> Result<Judgement, String> {
    let findings = list(report, "findings")?
        .iter()
        .map(Finding::read)
        .collect::<Result<Vec<_>, _>>()?;
    let main_thread = report.pointer("/run/pid").and_then(Value::as_u64);
    let mut judgement = Judgement {
        found: findings.iter().map(Finding::title).collect(),
        wrong: Vec::new(),
        hit: true,
        extra: findings.len(),
        co_running: report
            .pointer("/totals/co_running_share")
            .and_then(Value::as_f64),
    };
    if let Some(verdict) = verdict {
        let best = findings
            .iter()
            .filter(|finding| finding.verdict == verdict.word())
            .map(|finding| finding.unmet(claims, main_thread))
            .min_by_key(Vec::len);
        judgement.hit = best.as_ref().is_some_and(Vec::is_empty);
        judgement.extra -= usize::from(best.is_some());
        let nothing = || vec![format!("no {verdict} finding")];
        judgement.wrong.extend(best.unwrap_or_else(nothing));
    }
    if judgement.extra > 0 {
        judgement.wrong.push(format!(
            "{} unexpected of {}",
            judgement.extra,
            judgement.found.join(", ")
        ));
    }
    Ok(judgement)
}

/// The parts of a finding that matter here.
struct Finding {
    verdict: String,
    objects: Vec<String>,
    participants: Vec<Participant>,
}

struct Participant {
    tids: Vec<u64>,
    start: u64,
    end: u64,
    writes: bool,
    reads: bool,
    path: String,
}

impl Finding {
    fn read(json: &Value) -> Result<Self, String> {
        let lines = list(json, "lines")?
            .iter()
            .map(address)
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            verdict: string(json, "verdict")?,
            objects: list(json, "objects")?
                .iter()
                .map(|object| string(object, "name"))
                .collect::<Result<_, _>>()?,
            participants: list(json, "participants")?
                .iter()
                .map(|participant| Participant::read(participant, &lines))
                .collect::<Result<_, _>>()?,
        })
    }

    fn title(&self) -> String {
        format!("{} of {}", self.verdict, self.objects.join(" + "))
    }

    /// What of the claims this finding does not bear out.
    fn unmet(&self, claims: &[Claim], main_thread: Option<u64>) -> Vec<String> {
        // The kernel hands out numbers in the order of birth.
        let mut workers: Vec<u64> = self
            .participants
            .iter()
            .flat_map(|participant| participant.tids.iter().copied())
            .filter(|tid| Some(*tid) != main_thread)
            .collect();
        workers.sort_unstable();
        workers.dedup();
        let n_workers = claims
            .iter()
            .map(|claim| match claim.truth.who {
                Who::Worker(number) => number + 1,
                Who::All => 2,
            })
            .max()
            .unwrap_or(0);
        let mut unmet = Vec::new();
        for claim in claims {
            let numbers = match claim.truth.who {
                Who::Worker(number) => number..number + 1,
                Who::All => 0..n_workers,
            };
            for number in numbers {
                if let Some(why) = self.unmet_by(claim, workers.get(number).copied()) {
                    unmet.push(format!("T{number} {}: {why}", claim.truth.name));
                }
            }
        }
        unmet
    }

    /// Why a thread does not do what is claimed, if it does not.
    fn unmet_by(&self, claim: &Claim, tid: Option<u64>) -> Option<String> {
        let Some(tid) = tid else {
            return Some("no such thread in the finding".into());
        };
        let of_thread = || self.participants.iter().filter(|p| p.tids.contains(&tid));
        let covering = |p: &&Participant| {
            p.start < claim.truth.at + claim.truth.size && claim.truth.at < p.end
        };
        if of_thread().next().is_none() {
            return Some("the thread does not take part".into());
        }
        if !of_thread().any(|p| covering(&p)) {
            let others: Vec<&str> = of_thread().map(|p| p.path.as_str()).collect();
            return Some(format!("not touched, but {}", others.join(", ")));
        }
        let right_access = |p: &&Participant| match claim.truth.access {
            AccessWanted::Writes => p.writes,
            AccessWanted::Reads => p.reads && !p.writes,
        };
        let acting: Vec<&Participant> = of_thread().filter(covering).filter(right_access).collect();
        if acting.is_empty() {
            return Some(format!("not {:?}", claim.truth.access).to_lowercase());
        }
        if acting
            .iter()
            .any(|p| !claim.named || claim.names(&p.path, p.end - p.start))
        {
            return None;
        }
        let names: Vec<&str> = of_thread()
            .filter(covering)
            .map(|p| p.path.as_str())
            .collect();
        Some(format!("called {}", names.join(", ")))
    }
}

impl Participant {
    /// `lines` are the addresses of the finding's lines, which participants name by their place.
    fn read(json: &Value, lines: &[u64]) -> Result<Self, String> {
        let place = usize::try_from(number(json, "/line")?).ok();
        let line = place
            .and_then(|place| lines.get(place))
            .ok_or("a participant on a line that the finding does not have")?;
        let does = |what: &str| {
            let flag = json.pointer(&format!("/access/{what}"));
            flag.and_then(Value::as_bool)
                .ok_or_else(|| format!("no access.{what} in a participant"))
        };
        Ok(Self {
            tids: json
                .pointer("/threads/tids")
                .and_then(Value::as_array)
                .ok_or("a participant without threads.tids")?
                .iter()
                .filter_map(Value::as_u64)
                .collect(),
            start: line + number(json, "/bytes/start")?,
            end: line + number(json, "/bytes/end")?,
            writes: does("write")?,
            reads: does("read")?,
            path: string(json, "field_path")?,
        })
    }
}

impl Claim {
    /// Whether a field path names what the claim is about.
    fn names(&self, path: &str, touched: u64) -> bool {
        let path = path.split(" in ").next().unwrap_or(path);
        let path = path.split(" +").next().unwrap_or(path);
        let ending = match &self.ending {
            Some(ending) => match ending.strip_suffix('*') {
                Some(beginning) => return path.contains(beginning),
                None => ending,
            },
            None => self.truth.name.rsplit('.').next().unwrap_or_default(),
        };
        // Whoever touches a part of what the program names may be shown which part.
        let is_part = touched < self.truth.size;
        ends_with_components(path, ending)
            || is_part && inner_parts(path).any(|outer| ends_with_components(outer, ending))
    }
}

/// Whether the path ends in these components, and not in the middle of a word.
fn ends_with_components(path: &str, ending: &str) -> bool {
    path.strip_suffix(ending)
        .is_some_and(|rest| !rest.ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// The path without its last component or index, and so on to its start.
fn inner_parts(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| {
        path.rfind(['.', '[']).map(|at| &path[..at])
    })
    .skip(1)
}

fn list<'a>(json: &'a Value, key: &str) -> Result<&'a Vec<Value>, String> {
    json.get(key)
        .and_then(Value::as_array)
        .ok_or_else(|| format!("no list {key} in the report"))
}

fn string(json: &Value, key: &str) -> Result<String, String> {
    json.get(key)
        .and_then(Value::as_str)
        .map(str::to_owned)
        .ok_or_else(|| format!("no text {key} in the report"))
}

fn number(json: &Value, pointer: &str) -> Result<u64, String> {
    json.pointer(pointer)
        .and_then(Value::as_u64)
        .ok_or_else(|| format!("no number {pointer} in the report"))
}

/// Addresses are text in hexadecimal.
fn address(json: &Value) -> Result<u64, String> {
    let text = string(json, "address")?;
    text.strip_prefix("0x")
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .ok_or_else(|| format!("{text} is no address"))
}
