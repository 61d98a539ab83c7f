//! Two ways of following put together: threads that were run on their own take the place of the roots that stand for them.
//!
//! A root stands for all threads that begin with one function; an instance is one of them (or all that one loop starts),
//! with what it was given. Where instances run the root's function, they are what is judged. Functions that none of them
//! came to are taken to be run by each, as the root says: they were too far away, or not worth the time.

use hitm_model::Svma;
use rustc_hash::FxHashSet;

use super::instances::Instances;
use super::reach::{Reached, Touch};
use super::roots::{Graph, MOST_ROOTS, Root, RootKind, Roots};

/// Who touches what.
pub(super) struct Merged {
    /// What several threads may reach.
    pub(super) touches: Vec<Touch>,
    /// Some of what one thread has for itself on the heap.
    pub(super) alone: Vec<Touch>,
    /// Pairs of roots that are never there at once; the smaller number first.
    pub(super) apart: FxHashSet<(u16, u16)>,
}

pub(super) fn merge(
    roots: &mut Roots,
    followed: &mut Reached,
    touches: Vec<Touch>,
    graph: &Graph,
    instances: &Instances,
) -> Merged {
    if instances.all.is_empty() {
        return Merged {
            touches,
            alone: Vec::new(),
            apart: FxHashSet::default(),
        };
    }
    followed.given_up |= instances.all.iter().any(|instance| !instance.complete);
    let old = std::mem::take(&mut roots.all);
    let old_reached = std::mem::take(&mut followed.by_root);
    // The instances that each root stands for.
    let standing: Vec<Vec<usize>> = old
        .iter()
        .map(|root| match (root.kind, root.entries.first()) {
            (RootKind::Thread, Some(entry)) => (0..instances.all.len())
                .filter(|&number| instances.all[number].visited.contains(entry))
                .collect(),
            _ => Vec::new(),
        })
        .collect();
    let started: Vec<Vec<Svma>> = old.iter().map(|root| root.started_at.clone()).collect();
    let mut kept: Vec<Option<u16>> = Vec::new();
    for (number, root) in old.into_iter().enumerate() {
        if !standing[number].is_empty() {
            kept.push(None);
            continue;
        }
        kept.push(Some(roots.all.len() as u16));
        roots.all.push(root);
        followed
            .by_root
            .push(old_reached.get(number).cloned().unwrap_or_default());
    }
    let first = roots.all.len();
    let room = MOST_ROOTS.saturating_sub(first);
    for (number, instance) in instances.all.iter().take(room).enumerate() {
        // Where the program itself starts it, if a root says so, not where a library does it in the end.
        let sites = instance.sites.iter().copied();
        let said = sites.filter(|site| {
            let stands = started.iter().zip(&standing);
            stands
                .into_iter()
                .any(|(sites, instances)| instances.contains(&number) && sites.contains(site))
        });
        let mut started_at: Vec<Svma> = said.collect();
        if started_at.is_empty() {
            started_at.extend(instance.sites.last());
        }
        roots.all.push(Root {
            kind: RootKind::Thread,
            entries: instance.entries.clone(),
            led: true,
            started_at,
            many: instance.many,
        });
        let visited = instance.visited.iter().filter_map(|it| graph.number(*it));
        let mut visited: Vec<u32> = visited.map(|number| number as u32).collect();
        visited.sort_unstable();
        followed.by_root.push(visited);
    }
    let in_room = |instance: &usize| *instance < room;
    let visited_by = |all: &[usize], function: Svma| {
        all.iter()
            .any(|&number| instances.all[number].visited.contains(&function))
    };
    let everybody: FxHashSet<Svma> = instances
        .all
        .iter()
        .flat_map(|instance| instance.visited.iter().copied())
        .collect();
    let mut merged: Vec<Touch> = Vec::new();
    for touch in touches {
        let Some(root) = touch.root else {
            // Now it is known who calls it.
            if !everybody.contains(&touch.function) {
                merged.push(touch);
            }
            continue;
        };
        match kept.get(usize::from(root)).copied().flatten() {
            Some(root) => {
                let held = match roots.all[usize::from(root)].kind {
                    RootKind::Main => {
                        let key = (touch.instruction, touch.address);
                        instances.held_by_main.get(&key).copied()
                    }
                    _ => None,
                };
                merged.push(Touch {
                    root: Some(root),
                    held: held.unwrap_or_default(),
                    ..touch
                });
            }
            None => {
                let stands = &standing[usize::from(root)];
                if !visited_by(stands, touch.function) {
                    merged.extend(stands.iter().copied().filter(in_room).map(|number| Touch {
                        root: Some((first + number) as u16),
                        ..touch
                    }));
                }
            }
        }
    }
    let with_root = |(run, touch): &(u32, Touch)| {
        let root = match run.checked_sub(1) {
            None => 0,
            Some(number) if (number as usize) < room => (first + number as usize) as u16,
            Some(_) => return None,
        };
        Some(Touch {
            root: Some(root),
            ..*touch
        })
    };
    merged.extend(instances.touches.iter().filter_map(with_root));
    Merged {
        touches: merged,
        alone: instances.alone.iter().filter_map(with_root).collect(),
        apart: instances
            .apart
            .iter()
            .filter(|(_, second)| in_room(second))
            .map(|(one, other)| ((first + one) as u16, (first + other) as u16))
            .collect(),
    }
}
