//! From lines to findings: one per set of objects and verdict, however many lines that spans.

use std::collections::BTreeMap;

use hitm_model::{
    AccessKinds, Avma, ByteRange, Caveat, Confidence, Evidence, Finding, LineSize, LineView, Nanos,
    Object, Participant, Sampled, Severity, Site, SpaceId, ThreadGroup, ThreadId, Verdict,
};
use rustc_hash::FxHashMap;

use crate::advise::{Role, advise};
use crate::attribute::Attribution;
use crate::binaries::DebugInfos;
use crate::lines::{LineFinding, union};
use crate::meet::Met;
use crate::options::ThreadsBy;
use crate::samples::SiteKey;
use crate::touch::SiteId;
use crate::world::World;

/// Lines of one finding whose participants are listed; the others only count.
const LISTED_LINES: usize = 64;

/// Sites that are listed per participant.
const LISTED_SITES: usize = 8;

/// With fewer samples that met, the kind of sharing stays open: the finding is a hint.
const MET_TO_DECIDE: u64 = 6;

/// So many samples of participants must have met for medium confidence, and for high.
const MET_FOR_MEDIUM: u64 = 8;
const MET_FOR_HIGH: u64 = 30;

/// Shares of meetings on different processors, from 0 to 1.
const MOSTLY: f64 = 0.5;
const RARELY: f64 = 0.1;

/// What grouping needs to know beside the lines.
pub(crate) struct Surroundings<'a, 'm, 'd> {
    pub(crate) world: &'a World,
    pub(crate) debug: &'a DebugInfos<'m, 'd>,
    pub(crate) sites: &'a [SiteKey],
    pub(crate) line_size: LineSize,
    pub(crate) threads_by: ThreadsBy,
    pub(crate) next: String,
}

type AttributedLine = (LineFinding, Vec<Attribution>);

/// Puts lines of the same objects and verdict together.
pub(crate) fn findings(
    lines: Vec<AttributedLine>,
    around: &Surroundings<'_, '_, '_>,
) -> Vec<Finding> {
    let mut groups: BTreeMap<(SpaceId, Verdict, Vec<String>), Vec<AttributedLine>> =
        BTreeMap::new();
    for (line, attributions) in lines {
        let mut identities: Vec<String> = attributions
            .iter()
            .map(|attribution| attribution.identity.clone())
            .collect();
        identities.sort();
        identities.dedup();
        let key = (line.key.0, line.verdict, identities);
        groups.entry(key).or_default().push((line, attributions));
    }
    groups
        .into_iter()
        .map(|((_, verdict, identities), lines)| finding(verdict, &identities, lines, around))
        .collect()
}

fn finding(
    verdict: Verdict,
    identities: &[String],
    mut lines: Vec<AttributedLine>,
    around: &Surroundings<'_, '_, '_>,
) -> Finding {
    let samples_on =
        |line: &LineFinding| union(line.parts.iter().map(|part| part.times.clone())).len() as u64;
    lines.sort_by_cached_key(|(line, _)| (std::cmp::Reverse(samples_on(line)), line.key.1));
    let met = lines
        .iter()
        .fold(Met::default(), |sum, (line, _)| add(sum, line.met));
    // Threads that took turns on one processor of several have not been seen to fight.
    let one_cpu = around
        .world
        .machine
        .as_ref()
        .is_some_and(|machine| machine.cpus == 1);
    let took_turns = apart(&met) < RARELY && !one_cpu;
    let verdict = if met.samples < MET_TO_DECIDE || took_turns {
        Verdict::Unproven
    } else {
        verdict
    };
    let objects = objects(&lines);
    let participants = participants(&lines, &objects, around);
    let roles: Vec<Role> = lines.iter().take(LISTED_LINES).flat_map(roles).collect();
    let plain_writes_only = plain_writes_only(&participants);
    let mut caveats = Vec::new();
    if plain_writes_only {
        caveats.push(Caveat::PlainWritesOnly);
    }
    if apart(&met) < MOSTLY {
        caveats.push(Caveat::TookTurns { apart: apart(&met) });
    }
    let samples: u64 = lines.iter().map(|(line, _)| samples_on(line)).sum();
    Finding {
        fingerprint: fingerprint(verdict, identities),
        verdict,
        one_way: verdict == Verdict::TrueSharing && lines.iter().all(|(line, _)| line.one_way),
        severity: severity(&lines, around.world),
        confidence: confidence(&met),
        evidence: vec![Evidence::Sampled(Sampled {
            samples,
            met: met.samples,
            met_disjoint: met.disjoint,
            met_overlapping: met.overlapping,
            window: lines
                .iter()
                .map(|(line, _)| line.window)
                .max()
                .unwrap_or_default(),
            met_on_other_cpu: met.on_other_cpu,
            plain_writes_only,
        })],
        advice: advise(verdict, &roles, around.line_size),
        next: around.next.clone(),
        lines: lines
            .iter()
            .map(|(line, _)| LineView {
                address: line.key.1,
                samples: samples_on(line),
            })
            .collect(),
        objects,
        participants,
        caveats,
    }
}

/// Together on several lines. A sample that met others on two lines counts twice here; the lines' samples do, too.
fn add(a: Met, b: Met) -> Met {
    Met {
        samples: a.samples + b.samples,
        disjoint: a.disjoint + b.disjoint,
        overlapping: a.overlapping + b.overlapping,
        on_other_cpu: a.on_other_cpu + b.on_other_cpu,
        between: None,
    }
}

fn objects(lines: &[AttributedLine]) -> Vec<Object> {
    let mut objects: Vec<Object> = lines
        .iter()
        .flat_map(|(_, attributions)| attributions.iter().map(|it| it.object.clone()))
        .collect();
    objects.sort_by(|a, b| (a.address, &a.name).cmp(&(b.address, &b.name)));
    objects.dedup_by(|a, b| a.address == b.address && a.name == b.name);
    objects
}

fn roles((line, attributions): &AttributedLine) -> Vec<Role> {
    line.parts
        .iter()
        .zip(attributions)
        .map(|(part, attribution)| Role {
            thread: part.thread,
            writes: part.kinds.writes(),
            atomic: part.kinds.atomic(),
            range: part.range,
            attribution: attribution.clone(),
        })
        .collect()
}

fn participants(
    lines: &[AttributedLine],
    objects: &[Object],
    around: &Surroundings<'_, '_, '_>,
) -> Vec<Participant> {
    let mut participants = Vec::new();
    for (index, (line, attributions)) in lines.iter().take(LISTED_LINES).enumerate() {
        // Keyed so that what one reader would call one participant falls together, in order of address.
        // The same field of two objects is not one participant.
        let mut merged: BTreeMap<(u32, String, String, Avma), Merged<'_>> = BTreeMap::new();
        let mut starts: FxHashMap<(String, String, Avma), u32> = FxHashMap::default();
        for (part, attribution) in line.parts.iter().zip(attributions) {
            let group = group_key(around, part.thread);
            let object = attribution.object.address;
            let field = (group.clone(), attribution.field_path.clone(), object);
            let start = *starts.entry(field).or_insert(part.range.start);
            let key = (start, group, attribution.field_path.clone(), object);
            let entry = merged
                .entry(key)
                .or_insert_with(|| Merged::new(part.range, attribution));
            entry.range = entry.range.hull(part.range);
            entry.kinds = entry.kinds.union(part.kinds);
            entry
                .times
                .entry(part.thread)
                .or_default()
                .push(part.times.clone());
            for &(site, kinds, samples) in &part.sites {
                let known = entry.sites.entry(site).or_default();
                *known = (known.0.union(kinds), known.1 + samples);
            }
        }
        participants.extend(
            merged
                .into_values()
                .map(|merged| merged.into_participant(index, objects, around)),
        );
    }
    participants
}

struct Merged<'a> {
    range: ByteRange,
    kinds: AccessKinds,
    attribution: &'a Attribution,
    times: BTreeMap<ThreadId, Vec<Vec<Nanos>>>,
    sites: FxHashMap<SiteId, (AccessKinds, u64)>,
}

impl<'a> Merged<'a> {
    fn new(range: ByteRange, attribution: &'a Attribution) -> Self {
        Self {
            range,
            kinds: AccessKinds::NONE,
            attribution,
            times: BTreeMap::new(),
            sites: FxHashMap::default(),
        }
    }

    fn into_participant(
        self,
        line: usize,
        objects: &[Object],
        around: &Surroundings<'_, '_, '_>,
    ) -> Participant {
        let threads = &around.world.threads;
        let of = |id: &ThreadId| threads.get(id);
        let names: Vec<&str> = self
            .times
            .keys()
            .filter_map(of)
            .map(|thread| thread.name.as_str())
            .collect();
        let object = objects.iter().position(|object| {
            object.address == self.attribution.object.address
                && object.name == self.attribution.object.name
        });
        let mut sites: Vec<(SiteId, (AccessKinds, u64))> = self.sites.into_iter().collect();
        sites.sort_by_key(|&(site, (_, samples))| (std::cmp::Reverse(samples), site));
        Participant {
            threads: ThreadGroup {
                name: common_name(&names),
                tids: self
                    .times
                    .keys()
                    .filter_map(of)
                    .map(|thread| thread.tid)
                    .collect(),
            },
            line,
            range: self.range,
            kinds: self.kinds,
            field_path: self.attribution.field_path.clone(),
            field_type: self.attribution.field_type.clone(),
            object,
            samples: self
                .times
                .values()
                .map(|lists| union(lists.iter().cloned()).len() as u64)
                .sum(),
            thread_samples: self
                .times
                .keys()
                .filter_map(of)
                .map(|thread| thread.samples)
                .sum(),
            sites: sites
                .into_iter()
                .take(LISTED_SITES)
                .map(|(site, (kinds, samples))| describe(around, site, kinds, samples))
                .collect(),
        }
    }
}

fn describe(
    around: &Surroundings<'_, '_, '_>,
    site: SiteId,
    kinds: AccessKinds,
    samples: u64,
) -> Site {
    let key = around.sites[site.0 as usize];
    let module = around.debug.module(key.module);
    Site {
        binary: module.name().to_owned(),
        address: key.instruction,
        kinds,
        samples,
        frames: around.debug.frames(key.module, key.instruction),
    }
}

fn group_key(around: &Surroundings<'_, '_, '_>, thread: ThreadId) -> String {
    let name = around
        .world
        .threads
        .get(&thread)
        .map_or("", |thread| thread.name.as_str());
    match around.threads_by {
        ThreadsBy::Name => name
            .trim_end_matches(|c: char| c.is_ascii_digit())
            .to_owned(),
        ThreadsBy::Tid => format!("{name}\0{thread}"),
    }
}

/// The name of all, or with `*` for digits at the end that differ.
fn common_name(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [first, rest @ ..] if rest.iter().all(|name| name == first) => (*first).to_owned(),
        [first, ..] => format!("{}*", first.trim_end_matches(|c: char| c.is_ascii_digit())),
    }
}

/// Samples of a thread on several lines, or in several slots of one, may be the same ones: together they are no more
/// than the samples that show the thread at any of the lines.
fn severity(lines: &[AttributedLine], world: &World) -> Severity {
    let mut times: BTreeMap<ThreadId, Vec<Vec<Nanos>>> = BTreeMap::new();
    let mut contended: BTreeMap<ThreadId, u64> = BTreeMap::new();
    for (line, _) in lines {
        for part in &line.parts {
            times
                .entry(part.thread)
                .or_default()
                .push(part.times.clone());
        }
        for (thread, samples) in &line.contended {
            *contended.entry(*thread).or_default() += samples;
        }
    }
    let mut severity = Severity {
        samples: 0,
        thread_samples: 0,
        worst_thread: 0.0,
    };
    for (thread, lists) in times {
        let there = union(lists.into_iter()).len() as u64;
        let samples = contended
            .get(&thread)
            .map_or(0, |contended| there.min(*contended));
        let all = world
            .threads
            .get(&thread)
            .map_or(0, |thread| thread.samples)
            .max(there);
        severity.samples += samples;
        severity.thread_samples += all;
        if all > 0 {
            severity.worst_thread = severity.worst_thread.max(samples as f64 / all as f64);
        }
    }
    severity
}

fn confidence(met: &Met) -> Confidence {
    let apart = apart(met);
    if met.samples >= MET_FOR_HIGH && apart >= MOSTLY {
        Confidence::High
    } else if met.samples >= MET_FOR_MEDIUM && apart >= RARELY {
        Confidence::Medium
    } else {
        Confidence::Low
    }
}

/// The share of meetings with the opponent on another processor, from 0 to 1.
fn apart(met: &Met) -> f64 {
    met.on_other_cpu as f64 / met.samples.max(1) as f64
}

/// Whether nobody waits for the line: no locked operation, and nobody reads what only others write beside.
fn plain_writes_only(participants: &[Participant]) -> bool {
    participants
        .iter()
        .all(|part| part.kinds.writes() && !part.kinds.atomic())
}

/// FNV-1a, 64 bits: small, and the same in every version.
fn fingerprint(verdict: Verdict, identities: &[String]) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let words = std::iter::once(verdict.word()).chain(identities.iter().map(String::as_str));
    for byte in words.flat_map(|word| word.bytes().chain(std::iter::once(0))) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    format!("{hash:016x}")
}
