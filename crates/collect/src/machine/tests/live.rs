//! Every probe, alive on whatever machine this is, with a tiny budget.

use std::time::Duration;

use hitm_model::LineSize;

use crate::machine::*;

/// Figures where there are two processors; else the reason why not.
fn two() -> Option<[Cpu; 2]> {
    let files = SystemFiles::of_this_machine();
    let allowed = allowed_cpus(&files);
    two_cpus(&allowed, shared_cores(&files, &allowed).as_deref())
}

#[test]
fn the_machine_has_a_name_and_a_processor() {
    let machine = machine();
    assert!(!machine.architecture.is_empty() && !machine.kernel.is_empty());
    assert!(machine.cpus >= 1);
}

#[test]
fn what_is_granted_comes_with_answers() {
    let found = abilities(&SystemFiles::of_this_machine(), &std::env::temp_dir());
    for answer in [
        found.perf_sampler(),
        found.preload_sampler(),
        found.watchpoints(),
    ] {
        assert!(!answer.because.is_empty());
    }
    assert_eq!(found.perf_sampler().works, found.clock_event.is_ok());
    let nowhere = abilities(&SystemFiles::below("/nonexistent"), "/nonexistent".as_ref());
    assert!(!nowhere.preload_sampler().works, "no place for the agent");
}

#[test]
fn one_processor_is_not_enough() {
    let budget = LatencyBudget {
        total: Duration::ZERO,
        good_windows: 1,
    };
    let of = |cpus: &[Cpu]| latency_matrix(cpus, budget, &mut |_| {});
    assert_eq!(of(&[Cpu(0)]), Err(CannotTell::OneCpu));
    assert_eq!(of(&[]), Err(CannotTell::UnknownCpus));
}

#[test]
fn a_processor_that_is_not_there_is_said_and_does_not_hang() {
    let Some([here, _]) = two() else { return };
    let absent = [here, Cpu(1023)];
    let line = LineSize::new(64).unwrap();
    let budget = RatioBudget {
        pairs: 1,
        time: Duration::ZERO,
    };
    let found = cost_ratio(
        absent,
        line,
        Operation::LockedAdds,
        Placement::SameLine,
        budget,
    );
    assert!(
        matches!(found, Err(CannotTell::NotPinned { cpu: Cpu(1023), .. })),
        "{found:?}"
    );
}

#[test]
fn two_processors_are_watched_and_measured() {
    let Some(cpus) = two() else { return };
    let run = co_run(
        &SystemFiles::of_this_machine(),
        cpus,
        Duration::from_millis(5),
    )
    .unwrap();
    assert!((0.0..=1.0).contains(&run.together), "{run:?}");

    let mut shares = Vec::new();
    let budget = LatencyBudget {
        total: Duration::from_millis(20),
        good_windows: 2,
    };
    let matrix = latency_matrix(&cpus, budget, &mut |share| shares.push(share)).unwrap();
    assert_eq!(
        (matrix.pairs.len(), matrix.all_pairs, shares),
        (1, 1, vec![1.0])
    );
    match &matrix.between(cpus[1], cpus[0]).unwrap().one_way {
        Ok(spread) => assert!(spread.least <= spread.median && spread.median <= spread.most),
        Err(why) => assert!(matches!(why, CannotTell::NeverCoRan { .. }), "{why}"),
    }

    let line = LineSize::new(64).unwrap();
    let budget = RatioBudget {
        pairs: 1,
        time: Duration::from_millis(5),
    };
    for operation in Operation::ALL {
        for placement in [Placement::SameLine, Placement::PairedLines] {
            match cost_ratio(cpus, line, operation, placement, budget) {
                Ok(ratio) => assert!(ratio.median > 0.0 && ratio.interval.is_none()),
                Err(why) => assert!(matches!(why, CannotTell::NeverCoRan { .. }), "{why}"),
            }
        }
    }
}
