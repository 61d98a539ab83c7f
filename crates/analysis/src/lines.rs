//! A judged line: who takes part, with how many samples, from where in the code.

use std::collections::BTreeMap;

use hitm_model::{AccessKinds, ByteRange, Nanos, ThreadId, Verdict};
use rustc_hash::FxHashMap;

use crate::gather::LineKey;
use crate::judge::judge;
use crate::meet::{Meetings, meetings};
use crate::touch::{SiteId, Touch};

/// A thread's accesses to one byte range of a line: what the reader calls a participant.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) thread: ThreadId,
    pub(crate) range: ByteRange,
    pub(crate) kinds: AccessKinds,
    /// When its samples were taken; each once, in order.
    pub(crate) times: Vec<Nanos>,
    /// The instructions, most samples first.
    pub(crate) sites: Vec<(SiteId, AccessKinds, u64)>,
}

/// How often participants met.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Met {
    pub(crate) met: u64,
    pub(crate) disjoint: u64,
    pub(crate) overlapping: u64,
    pub(crate) on_other_cpu: u64,
}

impl Met {
    pub(crate) fn add(&mut self, other: Self) {
        self.met += other.met;
        self.disjoint += other.disjoint;
        self.overlapping += other.overlapping;
        self.on_other_cpu += other.on_other_cpu;
    }
}

/// A line with a verdict.
#[derive(Clone, Debug)]
pub(crate) struct LineFinding {
    pub(crate) key: LineKey,
    pub(crate) verdict: Verdict,
    pub(crate) one_way: bool,
    /// How far apart two samples could be and count as near here.
    pub(crate) window: Nanos,
    /// In order of address, then thread.
    pub(crate) parts: Vec<Part>,
    /// The samples in which each thread can have been held up here at most.
    pub(crate) contended: BTreeMap<ThreadId, u64>,
    pub(crate) met: Met,
}

/// Judges one line by its touches, which are in order of time.
pub(crate) fn judge_line(key: LineKey, touches: &[Touch], window: Nanos) -> Option<LineFinding> {
    let meetings = meetings(touches, window);
    let judgement = judge(&meetings);
    let verdict = judgement.verdict?;
    let mut met = Met::default();
    let mut contended: BTreeMap<ThreadId, u64> = BTreeMap::new();
    for (&index, &samples) in judgement.participants.iter().zip(&judgement.contended) {
        let slot = &meetings.slots[index];
        *contended.entry(slot.thread).or_default() += samples;
        met.add(Met {
            met: slot.met,
            disjoint: slot.met_disjoint,
            overlapping: slot.met_overlapping,
            on_other_cpu: slot.met_on_other_cpu,
        });
    }
    Some(LineFinding {
        key,
        verdict,
        one_way: judgement.one_way,
        window: meetings.window,
        parts: parts(touches, &meetings, &judgement.participants),
        contended,
        met,
    })
}

fn parts(touches: &[Touch], meetings: &Meetings, participants: &[usize]) -> Vec<Part> {
    let taking_part: rustc_hash::FxHashSet<(ThreadId, ByteRange, bool)> = participants
        .iter()
        .map(|&index| &meetings.slots[index])
        .map(|slot| (slot.thread, slot.range, slot.writes()))
        .collect();
    let mut parts: FxHashMap<(ThreadId, ByteRange), Part> = FxHashMap::default();
    let mut sites: FxHashMap<(ThreadId, ByteRange), FxHashMap<SiteId, (AccessKinds, u64)>> =
        FxHashMap::default();
    for touch in touches {
        if !taking_part.contains(&(touch.thread, touch.range, touch.kind.writes())) {
            continue;
        }
        let key = (touch.thread, touch.range);
        let part = parts.entry(key).or_insert_with(|| Part {
            thread: touch.thread,
            range: touch.range,
            kinds: AccessKinds::NONE,
            times: Vec::new(),
            sites: Vec::new(),
        });
        part.kinds = part.kinds.with(touch.kind);
        if part.times.last() != Some(&touch.at) {
            part.times.push(touch.at);
        }
        let site = sites.entry(key).or_default().entry(touch.site).or_default();
        site.0 = site.0.with(touch.kind);
        site.1 += 1;
    }
    let mut parts: Vec<Part> = parts
        .into_iter()
        .map(|(key, mut part)| {
            let sites = sites.remove(&key).unwrap_or_default();
            part.sites = sites
                .into_iter()
                .map(|(site, (kinds, n))| (site, kinds, n))
                .collect();
            part.sites
                .sort_by_key(|&(site, _, samples)| (std::cmp::Reverse(samples), site));
            part
        })
        .collect();
    parts.sort_by_key(|part| (part.range, part.thread));
    parts
}

/// Merges times that are each in order, dropping doubles.
pub(crate) fn union(lists: impl Iterator<Item = Vec<Nanos>>) -> Vec<Nanos> {
    let mut all: Vec<Nanos> = lists.flatten().collect();
    all.sort_unstable();
    all.dedup();
    all
}
