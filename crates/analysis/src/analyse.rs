//! The whole way from a recording to a report.

use hitm_model::{
    Caveat, Communication, Evidence, Finding, LineSize, Report, RunMode, StopReason, Totals,
    Verdict, shell_command,
};
use rustc_hash::FxHashMap;

use crate::attribute::{Attributor, CodeMap, Homes, home};
use crate::binaries::{BinarySource, DebugInfos, ModuleId, Modules};
use crate::gather::{Gathered, Recording, gather};
use crate::group::{Surroundings, findings};
use crate::lines::{LineFinding, judge_line};
use crate::options::{Options, default_window};
use crate::prove::{Windows, attach, describe, measure};
use crate::world::World;

/// Fewer samples than this decide little.
const FEW_SAMPLES: u64 = 100;

/// Below this share of the time with two threads side by side, the report says so.
const CO_RUNNING_ENOUGH: f64 = 0.5;

/// Above this part of undecoded samples, the report says so.
const UNDECODED_MUCH: f64 = 0.1;

/// Analyses a recording.
///
/// The result is the same, byte for byte, for the same recording, binaries and options.
#[must_use]
pub fn analyse(
    recording: &dyn Recording,
    source: &dyn BinarySource<'_>,
    options: &Options,
) -> Report {
    let head = head(recording);
    let recorded = head.machine.as_ref().and_then(|machine| machine.line_size);
    let line_size = options.line_size.or(recorded);
    let assumed = line_size.is_none();
    let line_size = line_size.unwrap_or(LineSize::ASSUMED);
    let window = options
        .window
        .unwrap_or_else(|| default_window(head.sampler.as_ref()));

    let windows = Windows::of(recording);
    let modules = Modules::new(source);
    let mut gathered = gather(recording, modules, line_size, window, &windows);
    let mut judged: Vec<LineFinding> = gathered
        .lines
        .iter()
        .filter_map(|(key, touches)| judge_line(*key, touches, &gathered.running, window))
        .collect();
    judged.sort_by_key(|line| line.key);
    let (homes, code) = locate(&mut gathered, &judged);
    let measured = measure(
        recording,
        &windows,
        &mut gathered.decoder,
        &gathered.world,
        line_size,
    );

    let debug = DebugInfos::new(&gathered.decoder.modules);
    let mut attributor = Attributor {
        world: &gathered.world,
        debug: &debug,
        sites: &gathered.decoder.sites,
        exemplars: &gathered.exemplars,
        homes: &homes,
        code: &code,
        caveats: Vec::new(),
    };
    let modules = modules_named(&judged, &homes, &gathered);
    let attributed: Vec<_> = judged
        .into_iter()
        .map(|line| {
            let attributions = attributor.line(&line);
            (line, attributions)
        })
        .collect();
    let around = Surroundings {
        world: &gathered.world,
        debug: &debug,
        sites: &gathered.decoder.sites,
        line_size,
        threads_by: options.threads_by,
        next: next_command(&gathered.world),
    };
    let mut all = findings(attributed, &around);
    let found = all.len();
    let groups = measured
        .iter()
        .map(|group| describe(group, &debug, &gathered.world, &all))
        .collect();
    let compared = attach(groups, &mut all);
    let (mut findings, mut communication) = (Vec::new(), Vec::new());
    for finding in all
        .into_iter()
        .filter(|it| it.severity.worst_thread >= options.min_share)
    {
        // What communication costs is worth a place in the list once it has been measured.
        if finding.one_way && !options.communication && !is_measured(&finding) {
            communication.push(Communication {
                field_path: written_field(&finding),
                worst_thread: finding.severity.worst_thread,
            });
        } else {
            findings.push(finding);
        }
    }
    communication.sort_by(|a, b| {
        let by_share = b.worst_thread.total_cmp(&a.worst_thread);
        by_share.then_with(|| a.field_path.cmp(&b.field_path))
    });
    findings.sort_by(by_rank);

    let mut caveats = run_caveats(&gathered, assumed.then_some(line_size));
    caveats.extend(modules.into_iter().flat_map(|id| debug.caveats(id)));
    caveats.append(&mut attributor.caveats);
    caveats.extend(gathered.decoder.modules.caveats().iter().cloned());
    Report {
        totals: totals(&gathered),
        machine: gathered.world.machine.clone(),
        run: gathered.world.run.clone(),
        sampler: gathered.world.sampler.clone(),
        child: gathered.world.child,
        line_size,
        below_min_share: found - findings.len() - communication.len(),
        communication,
        findings,
        compared,
        caveats,
    }
}

fn is_measured(finding: &Finding) -> bool {
    let mut evidence = finding.evidence.iter();
    evidence.any(|evidence| matches!(evidence, Evidence::CoLocated(_)))
}

/// What the first events say of the machine and the sampler.
fn head(recording: &dyn Recording) -> World {
    let mut head = World::default();
    for event in recording.events() {
        if matches!(event, hitm_model::Event::Sample(_)) {
            break;
        }
        head.apply(&event);
    }
    head
}

fn locate(
    gathered: &mut Gathered<'_, '_>,
    judged: &[LineFinding],
) -> (Homes, FxHashMap<hitm_model::SpaceId, CodeMap>) {
    let mut homes = Homes::default();
    let mut code = FxHashMap::default();
    for line in judged {
        if let Some(home) = home(&mut gathered.decoder.modules, &gathered.world, line.key) {
            homes.insert(line.key, home);
        }
        if let Some(space) = gathered.world.spaces.get(&line.key.0) {
            code.entry(line.key.0)
                .or_insert_with(|| CodeMap::of(&mut gathered.decoder.modules, space));
        }
    }
    (homes, code)
}

/// The binaries whose names the findings need: those of the code, and those of the data.
fn modules_named(
    judged: &[LineFinding],
    homes: &Homes,
    gathered: &Gathered<'_, '_>,
) -> std::collections::BTreeSet<ModuleId> {
    let code = judged
        .iter()
        .flat_map(|line| &line.parts)
        .flat_map(|part| &part.sites)
        .map(|(site, ..)| gathered.decoder.sites[site.0 as usize].module);
    let data = judged
        .iter()
        .filter_map(|line| homes.get(&line.key))
        .map(|(module, _)| *module);
    code.chain(data).collect()
}

/// What a repair helps comes first, then what it helps in part, then the rest; within, the larger share first.
fn by_rank(a: &Finding, b: &Finding) -> std::cmp::Ordering {
    let class = |finding: &Finding| match finding.verdict {
        Verdict::FalseSharing | Verdict::Mixed | Verdict::Unproven => 0,
        Verdict::TrueSharing => 1,
        Verdict::LockAndData => 2,
    };
    class(a)
        .cmp(&class(b))
        .then(b.severity.worst_thread.total_cmp(&a.severity.worst_thread))
        .then(b.severity.share().total_cmp(&a.severity.share()))
        .then_with(|| a.fingerprint.cmp(&b.fingerprint))
}

/// The field that is written.
fn written_field(finding: &Finding) -> String {
    let written = finding
        .participants
        .iter()
        .find(|participant| participant.kinds.writes());
    written.map_or_else(String::new, |participant| participant.field_path.clone())
}

/// What sampling cannot tell is what it costs; what was measured is worth measuring again after a repair.
fn next_command(world: &World) -> String {
    match &world.run {
        Some(run) if run.mode == RunMode::Attach => format!("hitm prove {}", run.pid),
        Some(run) => format!("hitm prove -- {}", shell_command(&run.command)),
        None => "hitm prove -- COMMAND".into(),
    }
}

fn totals(gathered: &Gathered<'_, '_>) -> Totals {
    let world = &gathered.world;
    Totals {
        samples: gathered.counts.samples,
        lost: world.lost,
        undecoded: gathered.counts.undecoded,
        operands: gathered.counts.operands,
        unresolved: gathered.counts.unresolved,
        unmapped: gathered.counts.unmapped,
        threads: world.threads.len() as u64,
        sampled_threads: world
            .threads
            .values()
            .filter(|thread| thread.samples > 0)
            .count() as u64,
        writing_threads: gathered.writing_threads,
        spaces: world.spaces.len() as u64,
        duration: world.duration(),
        co_running: gathered.co_running,
    }
}

fn run_caveats(gathered: &Gathered<'_, '_>, assumed: Option<LineSize>) -> Vec<Caveat> {
    let (world, totals) = (&gathered.world, totals(gathered));
    let mut caveats = Vec::new();
    match totals.samples {
        0 => caveats.push(Caveat::NoSamples),
        samples if samples < FEW_SAMPLES => caveats.push(Caveat::FewSamples { samples }),
        _ => {}
    }
    if let Some(Some(why)) = world
        .sampler
        .as_ref()
        .map(|sampler| sampler.fallback.clone())
    {
        caveats.push(Caveat::SamplerFallback { why });
    }
    if let Some(Some(why)) = world.sampler.as_ref().map(|it| it.shortfall.clone()) {
        caveats.push(Caveat::SamplerShortfall { why });
    }
    match (totals.sampled_threads, gathered.co_running) {
        _ if world
            .machine
            .as_ref()
            .is_some_and(|machine| machine.cpus == 1) =>
        {
            caveats.push(Caveat::OneCpu)
        }
        (1, _) => caveats.push(Caveat::OneThread),
        (_, Some(share)) if share < CO_RUNNING_ENOUGH => {
            caveats.push(Caveat::NotCoRunning { share })
        }
        _ => {}
    }
    if totals.lost > 0 {
        caveats.push(Caveat::Lost {
            events: totals.lost,
        });
    }
    if totals.undecoded as f64 > UNDECODED_MUCH * totals.samples as f64 {
        caveats.push(Caveat::Undecoded {
            samples: totals.undecoded,
            of: totals.samples,
        });
    }
    if totals.spaces > 1 {
        caveats.push(Caveat::SeveralProcesses {
            spaces: totals.spaces,
        });
    }
    if let Some(StopReason::WriteFailed(why)) = &world.stopped {
        caveats.push(Caveat::RecordingStopped { why: why.clone() });
    }
    if let Some(size) = assumed {
        caveats.push(Caveat::LineSizeAssumed {
            bytes: size.bytes(),
        });
    }
    caveats
}
