//! Which threads are worth being put on one core: those that the findings so far join, or those that the user names.

use std::collections::BTreeMap;

use hitm_model::{
    Avma, Event, Finding, NamedCode, NamedProgress, Nanos, PlannedGroup, PlannedThread, Report,
    RunMode, ThreadId, Tid, Word,
};
use rustc_hash::FxHashSet;

use super::named::{Meaning, loaded, meaning};
use crate::analyse::analyse;
use crate::binaries::{BinarySource, DebugInfos, Modules};
use crate::gather::Recording;
use crate::options::{Options, ThreadsBy};
use crate::samples::Decoder;
use crate::world::World;

/// Threads that run for less than this share of the time cannot be compared.
const BUSY: f64 = 0.2;

/// Pairs that are taken from one finding with more threads than processors.
const MOST_PAIRS: usize = 2;

/// Groups in all: the time would not suffice for more.
const MOST_GROUPS: usize = 6;

/// Words per thread, the most frequently used first.
const MOST_WORDS: usize = 3;

/// What the user wants to be proven, and where.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlanOptions {
    /// Names or numbers of threads; none: what the findings say.
    pub threads: Vec<String>,
    /// What tells how far threads get; nothing: whatever is found.
    pub progress: Vec<NamedProgress>,
    /// Processors that may be used.
    pub cpus: usize,
}

/// Why there is no plan.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// There is nothing to compare yet; more may be seen later.
    #[error("{0}")]
    NotYet(String),
    /// What the user asked for cannot be had.
    #[error("{0}")]
    Impossible(String),
}

/// Plans what to prove from a recording that is still being made.
///
/// # Errors
/// If no two threads can be compared, or a name is not known.
pub fn plan(
    recording: &dyn Recording,
    source: &dyn BinarySource<'_>,
    options: &Options,
    plan: &PlanOptions,
) -> Result<Vec<PlannedGroup>, PlanError> {
    let options = Options {
        communication: true,
        threads_by: ThreadsBy::Tid,
        ..options.clone()
    };
    let report = analyse(recording, source, &options);
    let alive = Alive::of(recording);
    let mut groups = if plan.threads.is_empty() {
        let mut groups = of_findings(&report, &alive, plan.cpus);
        if groups.is_empty() {
            groups.push(alive.busiest()?);
        }
        groups
    } else {
        chosen(&report, &alive, plan)?
    };
    groups.truncate(MOST_GROUPS);
    let mut planned: Vec<PlannedGroup> = groups
        .into_iter()
        .map(|threads| PlannedGroup {
            words: words(&report, &threads),
            threads,
            code: Vec::new(),
        })
        .collect();
    if !plan.progress.is_empty() {
        name(&mut planned, &alive.world, source, &options, plan)?;
    }
    Ok(planned)
}

/// The threads that are there now.
struct Alive {
    world: World,
    threads: BTreeMap<Tid, PlannedThread>,
    samples: BTreeMap<ThreadId, u64>,
    /// The time that the samples are of.
    elapsed: Nanos,
}

impl Alive {
    fn of(recording: &dyn Recording) -> Self {
        let mut world = World::default();
        let mut ended = FxHashSet::default();
        let mut samples: BTreeMap<ThreadId, u64> = BTreeMap::new();
        for event in recording.events() {
            world.apply(&event);
            match event {
                Event::ThreadEnded { thread, .. } => {
                    ended.insert(thread);
                }
                Event::Sample(sample) => *samples.entry(sample.thread).or_default() += 1,
                _ => {}
            }
        }
        let threads = world.threads.iter();
        let threads = threads
            .filter(|(id, _)| !ended.contains(id))
            .filter_map(|(id, thread)| {
                let pid = world.spaces.get(&thread.space)?.pid?;
                let planned = PlannedThread {
                    thread: *id,
                    pid,
                    tid: thread.tid,
                };
                Some((thread.tid, planned))
            })
            .collect();
        Self {
            elapsed: world.duration(),
            threads,
            samples,
            world,
        }
    }

    /// The share of the time that a thread was seen running, from 0 to 1.
    fn busy(&self, thread: ThreadId) -> f64 {
        let samples = self.samples.get(&thread).copied().unwrap_or(0);
        let period = self.world.sampler.as_ref().map_or(0, |it| it.period.0);
        samples as f64 * period as f64 / self.elapsed.0.max(1) as f64
    }

    fn name(&self, thread: ThreadId) -> &str {
        let thread = self.world.threads.get(&thread);
        thread.map_or("", |thread| thread.name.as_str())
    }

    /// The two threads of one process that run most.
    fn busiest(&self) -> Result<Vec<PlannedThread>, PlanError> {
        let mut busy: Vec<PlannedThread> = self
            .threads
            .values()
            .filter(|it| self.busy(it.thread) >= BUSY)
            .copied()
            .collect();
        busy.sort_by_key(|it| {
            let samples = self.samples.get(&it.thread).copied().unwrap_or(0);
            (std::cmp::Reverse(samples), it.thread)
        });
        let first = busy.first().copied();
        let second = busy
            .iter()
            .skip(1)
            .find(|it| Some(it.pid) == first.map(|it| it.pid));
        match (first, second) {
            (Some(first), Some(&second)) => Ok(vec![first, second]),
            _ => Err(PlanError::NotYet(format!(
                "no two threads of one process ran for {:.0} % of the time or more, so there is nothing to compare \
                 (give it load, or name two threads: --threads A,B)",
                BUSY * 100.0
            ))),
        }
    }
}

/// Groups of threads that findings join, the most costly finding first.
fn of_findings(report: &Report, alive: &Alive, cpus: usize) -> Vec<Vec<PlannedThread>> {
    let mut groups: Vec<Vec<PlannedThread>> = Vec::new();
    let mut add = |threads: Vec<PlannedThread>| {
        let known = groups.iter().any(|group| {
            group.len() == threads.len() && threads.iter().all(|it| group.contains(it))
        });
        if !known && threads.len() > 1 {
            groups.push(threads);
        }
    };
    for finding in &report.findings {
        let threads = takers(finding, alive);
        if threads.len() <= cpus {
            add(threads.into_iter().map(|(_, thread)| thread).collect());
        } else {
            for pair in heaviest_pairs(finding, alive).into_iter().take(MOST_PAIRS) {
                add(pair);
            }
        }
    }
    groups
}

/// The living threads that take part in a finding with their largest share there, the most affected first.
fn takers(finding: &Finding, alive: &Alive) -> Vec<(f64, PlannedThread)> {
    let mut shares: BTreeMap<Tid, f64> = BTreeMap::new();
    for participant in &finding.participants {
        for tid in &participant.threads.tids {
            let share = shares.entry(*tid).or_default();
            *share = share.max(participant.share());
        }
    }
    let mut takers: Vec<(f64, PlannedThread)> = shares
        .into_iter()
        .filter_map(|(tid, share)| Some((share, *alive.threads.get(&tid)?)))
        .collect();
    takers.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.thread.cmp(&b.1.thread)));
    takers
}

/// Pairs of threads that oppose each other, the heaviest conflict first.
fn heaviest_pairs(finding: &Finding, alive: &Alive) -> Vec<Vec<PlannedThread>> {
    let mut weights: BTreeMap<(Tid, Tid), u64> = BTreeMap::new();
    for (i, a) in finding.participants.iter().enumerate() {
        for b in &finding.participants[i + 1..] {
            if a.line != b.line || !(a.kinds.writes() || b.kinds.writes()) {
                continue;
            }
            for &x in &a.threads.tids {
                for &y in b.threads.tids.iter().filter(|y| **y != x) {
                    let weight = a.samples.min(b.samples);
                    *weights.entry((x.min(y), x.max(y))).or_default() += weight;
                }
            }
        }
    }
    let mut pairs: Vec<_> = weights.into_iter().collect();
    pairs.sort_by_key(|&(pair, weight)| (std::cmp::Reverse(weight), pair));
    let pairs = pairs.into_iter();
    pairs
        .filter_map(|((a, b), _)| Some(vec![*alive.threads.get(&a)?, *alive.threads.get(&b)?]))
        .collect()
}

/// The threads that the user named: one group, or the heaviest pairs of them if the processors do not suffice.
fn chosen(
    report: &Report,
    alive: &Alive,
    plan: &PlanOptions,
) -> Result<Vec<Vec<PlannedThread>>, PlanError> {
    let mut threads: Vec<PlannedThread> = Vec::new();
    for name in &plan.threads {
        let named: Vec<PlannedThread> = alive
            .threads
            .values()
            .filter(|it| alive.name(it.thread) == name || it.tid.to_string() == *name)
            .copied()
            .collect();
        if named.is_empty() {
            return Err(unknown_thread(name, alive));
        }
        let new = named.into_iter().filter(|it| !threads.contains(it));
        threads.extend(new.collect::<Vec<_>>());
    }
    if threads.len() < 2 {
        return Err(PlanError::Impossible(
            "one thread alone cannot be compared (name two: --threads A,B)".into(),
        ));
    }
    if threads.iter().any(|it| it.pid != threads[0].pid) {
        return Err(PlanError::Impossible(
            "the threads are of different processes and share no memory that hitm looks at (name two of one process)"
                .into(),
        ));
    }
    if threads.len() <= plan.cpus {
        return Ok(vec![threads]);
    }
    let of_findings = of_findings(report, alive, plan.cpus);
    let mut groups: Vec<Vec<PlannedThread>> = of_findings
        .into_iter()
        .filter(|group| group.iter().all(|it| threads.contains(it)))
        .collect();
    if groups.is_empty() {
        threads.sort_by(|a, b| alive.busy(b.thread).total_cmp(&alive.busy(a.thread)));
        groups.push(threads[..2].to_vec());
    }
    Ok(groups)
}

fn unknown_thread(name: &str, alive: &Alive) -> PlanError {
    let mut names: Vec<&str> = alive
        .threads
        .values()
        .map(|it| alive.name(it.thread))
        .collect();
    names.sort_unstable();
    names.dedup();
    names.truncate(12);
    let text = format!(
        "no thread is called {name:?}; there are: {}",
        names.join(", ")
    );
    // Those of a program that was just started may still be born.
    match &alive.world.run {
        Some(run) if run.mode == RunMode::Attach => PlanError::Impossible(text),
        _ => PlanError::NotYet(text),
    }
}

/// Words that only one of the threads writes, as the findings show them.
fn words(report: &Report, threads: &[PlannedThread]) -> Vec<Word> {
    let mut found: Vec<(u64, Word)> = Vec::new();
    for finding in &report.findings {
        for (i, participant) in finding.participants.iter().enumerate() {
            let [tid] = participant.threads.tids.as_slice() else {
                continue;
            };
            let Some(thread) = threads.iter().find(|it| it.tid == *tid) else {
                continue;
            };
            let Some(line) = finding.lines.get(participant.line) else {
                continue;
            };
            let written_by_others = finding.participants.iter().enumerate().any(|(j, other)| {
                j != i
                    && other.line == participant.line
                    && other.kinds.writes()
                    && other.range.overlaps(participant.range)
                    && other.threads.tids != participant.threads.tids
            });
            let size = participant.range.len();
            if !participant.kinds.writes() || written_by_others || !matches!(size, 4 | 8) {
                continue;
            }
            found.push((
                participant.samples,
                Word {
                    thread: Some(thread.thread),
                    address: line
                        .address
                        .0
                        .wrapping_add(u64::from(participant.range.start)),
                    size: size as u8,
                    name: None,
                },
            ));
        }
    }
    found.sort_by_key(|(samples, word)| (std::cmp::Reverse(*samples), word.address));
    let mut taken: BTreeMap<Option<ThreadId>, Vec<Avma>> = BTreeMap::new();
    let few = found.into_iter().filter(|(_, word)| {
        let known = taken.entry(word.thread).or_default();
        let new = known.len() < MOST_WORDS && !known.contains(&word.address);
        if new {
            known.push(word.address);
        }
        new
    });
    few.map(|(_, word)| word).collect()
}

/// Adds what the user named to each group.
fn name(
    groups: &mut [PlannedGroup],
    world: &World,
    source: &dyn BinarySource<'_>,
    options: &Options,
    plan: &PlanOptions,
) -> Result<(), PlanError> {
    let line_size = options.line_size.unwrap_or(hitm_model::LineSize::ASSUMED);
    let mut decoder = Decoder::new(Modules::new(source), line_size);
    let spaces: Vec<_> = groups
        .iter()
        .map(|group| {
            let first = group.threads.first();
            let thread = first.and_then(|it| world.threads.get(&it.thread));
            thread.map_or_else(Vec::new, |it| loaded(&mut decoder, world, it.space))
        })
        .collect();
    let debug = DebugInfos::new(&decoder.modules);
    for (group, loaded) in groups.iter_mut().zip(&spaces) {
        for named in &plan.progress {
            let text = match named {
                NamedProgress::Symbol(name) => name.clone(),
                NamedProgress::Line { file, line } => format!("{file}:{line}"),
            };
            match meaning(named, loaded, &debug) {
                Some(Meaning::Word { address, size }) => add_word(group, address, size, text),
                Some(Meaning::Code(code)) => group.code.push(NamedCode { name: text, ..code }),
                None => {
                    return Err(PlanError::Impossible(format!(
                        "no variable of 1, 2, 4 or 8 bytes, no function and no line of code is called {text:?} in the \
                         program or its libraries (give --progress a symbol, a field of a variable such as \
                         server.requests, or FILE:LINE; a line needs debug information)"
                    )));
                }
            }
        }
    }
    Ok(())
}

/// A word that one thread of the group is known to write is that thread's; else it counts for all.
fn add_word(group: &mut PlannedGroup, address: Avma, size: u8, name: String) {
    let known = group.words.iter_mut().find(|word| word.address == address);
    if let Some(known) = known {
        known.name = Some(name);
    } else {
        group.words.push(Word {
            thread: None,
            address,
            size,
            name: Some(name),
        });
    }
}
