//! Threads that wait for each other: on one core they wait differently, and speeds together and apart do not compare.

use hitm_model::{Nanos, Placement, Svma, Window};

use super::footprint::{Footprint, Footprints};
use crate::binaries::ModuleId;
use crate::samples::Decoder;
use crate::world::World;

/// Above this share of its samples in loops that only look at what others write, a thread waits.
const SPINNING: f64 = 0.05;

/// Above this share of the windows apart in which it neither runs nor could, a thread waits.
const SLEEPING: f64 = 0.1;

/// The same if it sleeps that often per second, however shortly.
const SLEEPS_PER_SECOND: f64 = 200.0;

/// A scheduler lets a thread run for milliseconds. Where threads on one processor change places more often per second,
/// they give it up themselves.
const CHANGES_PER_SECOND: f64 = 1500.0;

/// How a thread waits.
#[derive(Clone, Debug)]
pub(super) enum Waits {
    Spins { share: f64, at: (ModuleId, Svma) },
    Sleeps { share: f64, per_second: f64 },
    HandsOver { per_second: f64 },
}

/// How the thread with this place in the group waits, if it does.
pub(super) fn of_thread(
    place: usize,
    windows: &[&Window],
    footprints: &Footprints,
    decoder: &mut Decoder<'_, '_>,
    world: &World,
) -> Option<Waits> {
    by_accounts(place, windows).or_else(|| spins(place, footprints, decoder, world))
}

fn by_accounts(place: usize, windows: &[&Window]) -> Option<Waits> {
    let sums = |placement| {
        let (mut wall, mut idle, mut voluntary, mut changes) = (Nanos(0), Nanos(0), 0, 0);
        for window in windows.iter().filter(|it| it.placement == placement) {
            let Some(thread) = window.threads.get(place) else {
                continue;
            };
            let length = window.end.since(window.start);
            wall = wall.plus(length);
            // What the hypervisor took is neither run nor waited for.
            let busy = thread.ran.plus(thread.waited);
            idle = idle.plus(length.since(busy.plus(window.stolen.unwrap_or_default())));
            voluntary += u64::from(thread.voluntary);
            changes += u64::from(thread.voluntary) + u64::from(thread.involuntary);
        }
        let per_second = |n: u64| n as f64 / wall.as_secs_f64().max(1e-9);
        let share = idle.0 as f64 / wall.0.max(1) as f64;
        (share, per_second(voluntary), per_second(changes))
    };
    let (share, per_second, _) = sums(Placement::Apart);
    if share > SLEEPING || per_second > SLEEPS_PER_SECOND {
        return Some(Waits::Sleeps { share, per_second });
    }
    let (.., per_second) = sums(Placement::Together);
    (per_second > CHANGES_PER_SECOND).then_some(Waits::HandsOver { per_second })
}

fn spins(
    place: usize,
    footprints: &Footprints,
    decoder: &mut Decoder<'_, '_>,
    world: &World,
) -> Option<Waits> {
    let others = footprints.others(place);
    let (thread, own) = footprints.threads.get(place)?;
    let mut waiting = [0; 2];
    let mut most: Option<(u64, (ModuleId, Svma))> = None;
    let mut ips: Vec<_> = own.ips.iter().collect();
    ips.sort_unstable();
    for (&ip, counts) in ips {
        let Some(code) = decoder.place_of(world, *thread, ip) else {
            continue;
        };
        let Some(inner) = decoder.inner_loop(code) else {
            continue;
        };
        if !inner.may_only_wait(|instruction| own.watches((code.0, instruction), &others)) {
            continue;
        }
        waiting[0] += counts[0];
        waiting[1] += counts[1];
        let samples = counts[0] + counts[1];
        if most.is_none_or(|(known, _)| samples > known) {
            most = Some((samples, code));
        }
    }
    let all = |placement: usize| {
        own.ips
            .values()
            .map(|counts| counts[placement])
            .sum::<u64>()
    };
    let share = (0..2)
        .map(|placement| waiting[placement] as f64 / all(placement).max(1) as f64)
        .fold(0.0, f64::max);
    let (_, at) = most?;
    (share > SPINNING).then_some(Waits::Spins { share, at })
}

impl Footprint {
    /// The way a thread walks through memory where it comes near to some lines: 1 upwards, -1 downwards.
    pub(super) fn direction(&self, decoder: &mut Decoder<'_, '_>) -> Option<i64> {
        let mut votes = 0i64;
        let mut keys: Vec<_> = self.by_instruction.iter().collect();
        keys.sort_unstable_by_key(|(key, _)| **key);
        for (key, places) in keys {
            let visits = self.walks.get(key).map_or(0, Vec::len) as i64;
            if let Some(base) = places.base
                && places.bytes.len() > 1
                && let Some(inner) = decoder.inner_loop(*key)
                && let Some(step) = inner.step_of(base)
            {
                votes += step.signum() * visits;
            }
        }
        (votes != 0).then(|| votes.signum())
    }
}
