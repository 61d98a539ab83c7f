//! A judged line: who takes part, with how many samples, from where in the code.

use std::collections::BTreeMap;

use hitm_model::{AccessKinds, ByteRange, Nanos, ThreadId, Verdict};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::gather::LineKey;
use crate::judge::judge;
use crate::meet::{Meetings, Met, Running, meetings};
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
pub(crate) fn judge_line(
    key: LineKey,
    touches: &[Touch],
    running: &Running,
    window: Nanos,
) -> Option<LineFinding> {
    let meetings = meetings(touches, running, window);
    let judgement = judge(&meetings);
    let verdict = judgement.verdict?;
    let met = meetings.met(&judgement.participants);
    let mut contended: BTreeMap<ThreadId, u64> = BTreeMap::new();
    for (&index, &samples) in judgement.participants.iter().zip(&judgement.contended) {
        *contended.entry(meetings.slots[index].thread).or_default() += samples;
    }
    Some(LineFinding {
        key,
        verdict,
        one_way: judgement.one_way,
        window: meetings.window,
        parts: parts(touches, &meetings, &judgement.participants, met.between),
        contended,
        met,
    })
}

/// What the participants were seen to do with their bytes while they met others: also the accesses that were too rare
/// to have met anybody themselves.
fn parts(
    touches: &[Touch],
    meetings: &Meetings,
    participants: &[usize],
    between: Option<(Nanos, Nanos)>,
) -> Vec<Part> {
    let (from, to) = between.unwrap_or_default();
    let slots = participants.iter().map(|&index| &meetings.slots[index]);
    let taking_part: FxHashSet<(ThreadId, ByteRange, bool)> = slots
        .clone()
        .map(|slot| (slot.thread, slot.range, slot.writes()))
        .collect();
    let bytes: FxHashSet<(ThreadId, ByteRange)> =
        slots.map(|slot| (slot.thread, slot.range)).collect();
    let mut parts: FxHashMap<(ThreadId, ByteRange), Part> = FxHashMap::default();
    let mut sites: FxHashMap<(ThreadId, ByteRange), FxHashMap<SiteId, (AccessKinds, u64)>> =
        FxHashMap::default();
    for touch in touches {
        let takes_part = taking_part.contains(&(touch.thread, touch.range, touch.kind.writes()));
        let beside =
            bytes.contains(&(touch.thread, touch.range)) && from <= touch.at && touch.at <= to;
        if !takes_part && !beside {
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
