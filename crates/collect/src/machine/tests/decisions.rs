//! What answers and figures mean.

use std::fmt::Write as _;

use hitm_model::Nanos;
use nix::errno::Errno;

use crate::machine::latency::spread_order;
use crate::machine::*;

/// A machine that grants everything to an ordinary user.
fn open() -> Abilities {
    Abilities {
        clock_event: Ok(()),
        hardware_event: Ok(()),
        watchpoints: Ok(4),
        read_memory: Ok(()),
        ptrace: Ok(()),
        timer: Ok(()),
        temporary_code: Ok(()),
        settings: Settings {
            perf_event_paranoid: Some(2),
            perf_event_mlock_kb: Some(516),
            ptrace_scope: None,
            seccomp_filter: Some(false),
            capabilities: Some(Capabilities(0)),
            memory_samplers: vec![MemorySampler::Pebs],
        },
    }
}

/// Compares the answers that are not a plain yes with `expected`: `what: why → what to type`.
fn check(change: impl FnOnce(&mut Abilities), expected: &[&str]) {
    let mut abilities = open();
    change(&mut abilities);
    let mut found = Vec::new();
    for (what, answer) in [
        ("perf", abilities.perf_sampler()),
        ("preload", abilities.preload_sampler()),
        ("pmu", abilities.pmu()),
        ("c2c", abilities.memory_sampling()),
        ("watchpoints", abilities.watchpoints()),
        ("children", abilities.reading_children()),
        ("others", abilities.reading_others()),
    ] {
        if !answer.works {
            let mut line = format!("{what}: {}", answer.because);
            if let Some(next) = answer.next {
                write!(line, " → {next}").unwrap();
            }
            found.push(line);
        } else {
            assert_eq!(answer.next, None, "{what} works, so there is nothing to do");
        }
    }
    assert_eq!(found, expected);
}

fn no_perf(abilities: &mut Abilities, errno: Errno) {
    abilities.clock_event = Err(errno);
    abilities.hardware_event = Err(errno);
    abilities.watchpoints = Err(errno);
}

#[test]
fn an_open_machine_needs_nothing() {
    check(|_| {}, &[]);
    assert!(open().can_run());
}

#[test]
fn paranoid_3_is_told_from_seccomp() {
    let sysctl = "sudo sysctl kernel.perf_event_paranoid=2";
    check(
        |machine| {
            no_perf(machine, Errno::EACCES);
            machine.settings.perf_event_paranoid = Some(3);
        },
        &[
            &format!("perf: kernel.perf_event_paranoid is 3 → {sysctl}"),
            &format!("pmu: kernel.perf_event_paranoid is 3; hitm does not need it → {sysctl}"),
            &format!("c2c: no hardware events: kernel.perf_event_paranoid is 3 → {sysctl}"),
            &format!("watchpoints: kernel.perf_event_paranoid is 3 → {sysctl}"),
        ],
    );
    let docker = "docker run --cap-add PERFMON … (older Docker: --security-opt seccomp=unconfined)";
    let seccomp = "a seccomp filter (a container's default profile) refuses it";
    for errno in [Errno::EPERM, Errno::ENOSYS] {
        check(
            |machine| {
                no_perf(machine, errno);
                machine.settings.seccomp_filter = Some(true);
            },
            &[
                &format!("perf: {seccomp} → {docker}"),
                &format!("pmu: {seccomp}; hitm does not need it → {docker}"),
                &format!("c2c: no hardware events: {seccomp} → {docker}"),
                &format!("watchpoints: {seccomp} → {docker}"),
            ],
        );
    }
}

#[test]
fn every_refusal_has_its_cause() {
    let settings = |paranoid, filter, capabilities| Settings {
        perf_event_paranoid: paranoid,
        seccomp_filter: filter,
        capabilities: Some(Capabilities(capabilities)),
        ..Settings::default()
    };
    let perfmon = 1 << 38;
    for (errno, settings, expected) in [
        (
            Errno::EACCES,
            settings(Some(3), Some(false), 0),
            Refusal::Paranoid(3),
        ),
        (
            Errno::EACCES,
            settings(Some(3), Some(true), 0),
            Refusal::Paranoid(3),
        ),
        (
            Errno::EACCES,
            settings(Some(3), Some(false), perfmon),
            Refusal::SecurityModule,
        ),
        (
            Errno::EACCES,
            settings(Some(2), Some(false), 0),
            Refusal::SecurityModule,
        ),
        (
            Errno::EPERM,
            settings(Some(2), Some(true), 0),
            Refusal::Seccomp,
        ),
        (
            Errno::EPERM,
            settings(None, Some(true), 0),
            Refusal::Seccomp,
        ),
        (Errno::ENOSYS, settings(Some(2), None, 0), Refusal::Seccomp),
        (
            Errno::ENOSYS,
            settings(None, Some(true), 0),
            Refusal::Seccomp,
        ),
        (
            Errno::ENOSYS,
            settings(None, Some(false), 0),
            Refusal::NotInKernel,
        ),
        (
            Errno::ENOENT,
            settings(Some(2), Some(false), 0),
            Refusal::NotInHardware,
        ),
        (
            Errno::EOPNOTSUPP,
            settings(Some(2), Some(false), 0),
            Refusal::NotInHardware,
        ),
        (
            Errno::ENOSPC,
            settings(Some(2), Some(false), 0),
            Refusal::InUse,
        ),
        (
            Errno::EMFILE,
            settings(Some(2), Some(false), 0),
            Refusal::Other(Errno::EMFILE),
        ),
    ] {
        assert_eq!(
            refusal(errno, &settings),
            expected,
            "{errno} with {settings:?}"
        );
    }
}

#[test]
fn a_guest_without_a_pmu_is_no_obstacle() {
    check(
        |machine| {
            machine.hardware_event = Err(Errno::ENOENT);
            machine.settings.memory_samplers.clear();
        },
        &[
            "pmu: this (virtual) processor does not have it; hitm does not need it",
            "c2c: no hardware events: this (virtual) processor does not have it",
        ],
    );
}

#[test]
fn yama_and_containers_restrict_reading() {
    check(
        |machine| machine.settings.ptrace_scope = Some(1),
        &[
            "others: kernel.yama.ptrace_scope is 1 → sudo sysctl kernel.yama.ptrace_scope=0  (or: sudo hitm attach PID)",
        ],
    );
    check(
        |machine| {
            machine.settings.ptrace_scope = Some(1);
            machine.settings.capabilities = Some(Capabilities(1 << 19));
        },
        &[],
    );
    check(
        |machine| machine.settings.ptrace_scope = Some(3),
        &[
            "children: kernel.yama.ptrace_scope is 3, until the next boot",
            "others: kernel.yama.ptrace_scope is 3, until the next boot",
        ],
    );
    check(
        |machine| {
            machine.read_memory = Err(Errno::EPERM);
            machine.settings.seccomp_filter = Some(true);
        },
        &[
            "children: a seccomp filter refuses process_vm_readv → docker run --cap-add SYS_PTRACE …",
            "others: a seccomp filter refuses process_vm_readv → docker run --cap-add SYS_PTRACE …",
        ],
    );
}

#[test]
fn without_any_sampler_nothing_can_run() {
    let mut machine = open();
    machine.clock_event = Err(Errno::EPERM);
    assert!(machine.can_run(), "the preload agent is left");
    machine.temporary_code = Err(Errno::EPERM);
    assert!(!machine.can_run());
    assert_eq!(
        machine.perf_sampler().next.as_deref(),
        Some("sudo dmesg | grep -i denied"),
        "an agent that does not work is not offered"
    );
}

fn ratio(median: f64, interval: Option<(f64, f64)>) -> Ratio {
    Ratio {
        median,
        interval,
        pairs: 20,
        left_out: 0,
    }
}

#[test]
fn a_cost_is_claimed_only_where_the_interval_clears_the_margin() {
    for (interval, expected) in [
        (Some((3.2, 3.4)), CostVerdict::Costs),
        (Some((1.06, 1.4)), CostVerdict::Costs),
        (Some((1.01, 1.04)), CostVerdict::Free),
        (Some((0.98, 1.02)), CostVerdict::Free),
        (Some((1.02, 1.30)), CostVerdict::Unclear),
        (Some((0.9, 2.0)), CostVerdict::Unclear),
        (None, CostVerdict::Unclear),
    ] {
        assert_eq!(
            cost_verdict(&ratio(1.2, interval)),
            expected,
            "{interval:?}"
        );
    }
}

#[test]
fn the_pair_matters_if_any_operation_says_so_and_does_not_if_all_do() {
    let costs = || Ok(ratio(1.3, Some((1.2, 1.4))));
    let free = || Ok(ratio(1.0, Some((0.99, 1.01))));
    let unclear = || Ok(ratio(1.1, None));
    let failed = || {
        Err(CannotTell::NeverCoRan {
            good: 0,
            windows: 9,
        })
    };
    let cases: [(Vec<Result<Ratio, CannotTell>>, PairVerdict); 7] = [
        (vec![costs(), free()], PairVerdict::Matters),
        (vec![failed(), costs()], PairVerdict::Matters),
        (vec![free(), free()], PairVerdict::DoesNotMatter),
        (vec![free(), unclear()], PairVerdict::CannotTell),
        (vec![free(), failed()], PairVerdict::CannotTell),
        (vec![failed()], PairVerdict::CannotTell),
        (vec![], PairVerdict::CannotTell),
    ];
    for (ratios, expected) in cases {
        let ratios: Vec<_> = ratios
            .into_iter()
            .map(|ratio| (Operation::LockedAdds, ratio))
            .collect();
        assert_eq!(pair_verdict(&ratios), expected, "{ratios:?}");
    }
}

#[test]
fn running_side_by_side_and_why_not() {
    for (together, waiting, stolen, expected) in [
        (0.99, Some(0.0), Some(0.0), "SideBySide None"),
        (
            0.5,
            Some(0.48),
            Some(0.0),
            "Partly Some(\"other programs on this machine use the processors\")",
        ),
        (
            0.1,
            Some(0.0),
            Some(0.6),
            "Hardly Some(\"the hypervisor gives the processors to others\")",
        ),
        (
            0.5,
            Some(0.0),
            Some(0.0),
            "Partly Some(\"a CPU quota, or a hypervisor that does not tell what it takes\")",
        ),
        (
            0.5,
            None,
            None,
            "Partly Some(\"other programs, a CPU quota or the hypervisor\")",
        ),
    ] {
        let run = CoRun {
            cpus: [Cpu(0), Cpu(1)],
            watched: Nanos::from_millis(100),
            together,
            waiting,
            stolen,
        };
        assert_eq!(format!("{:?} {:?}", run.verdict(), run.cause()), expected);
    }
}

#[test]
fn a_sample_of_pairs_is_spread_and_all_pairs_are_visited_once() {
    for count in 1..200 {
        let mut order: Vec<usize> = spread_order(count).collect();
        order.sort_unstable();
        assert_eq!(order, (0..count).collect::<Vec<_>>());
    }
    // The first ten of a thousand leave no fifth of them out.
    let mut fifths: Vec<usize> = spread_order(1000)
        .take(10)
        .map(|index| index / 200)
        .collect();
    fifths.sort_unstable();
    fifths.dedup();
    assert_eq!(fifths, [0, 1, 2, 3, 4]);
}
