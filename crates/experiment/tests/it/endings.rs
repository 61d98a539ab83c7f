//! How rows end: clear, out of time, disturbed, failed, unusable. What was measured is kept in every case.

use hitm_experiment::{
    Busiest, Disturbed, Ended, Floor, LogRatio, Looks, Outcome, Plan, Purpose, Row, Seconds, Side,
    Suspicious, Trial, Unusable, conclude, run,
};

use crate::simulated::{Machine, Noise, plan};

fn machine(percent: f64) -> Machine {
    Machine::new(percent, 0.01, Noise::Normal, 3)
}

fn verdict(row: &Row<&'static str>) -> Outcome {
    conclude(&[(row, None)])[0].outcome
}

const UNKNOWN: Outcome = Outcome::Undecided { more_pairs: None };

#[test]
fn warm_up_and_noise_come_first_and_a_clear_row_ends_early() {
    let mut machine = machine(30.0);
    let row = run(plan(1, 1), &mut machine, &mut ());
    assert_eq!(row.ended, Ended::Decided);
    assert_eq!(verdict(&row), Outcome::Regressed);
    let runs = |purpose| machine.runs.iter().filter(|(_, p)| *p == purpose).count();
    assert_eq!(runs(Purpose::WarmUp), 2);
    assert_eq!(runs(Purpose::Noise), 12);
    assert_eq!(runs(Purpose::Pair), 16);
    let noise_of_a =
        |(side, purpose): &(Side, Purpose)| *purpose != Purpose::Noise || *side == Side::A;
    assert!(machine.runs.iter().all(noise_of_a));
    let first_a = row
        .pairs
        .iter()
        .filter(|pair| pair.first == Side::A)
        .count();
    assert_eq!(first_a * 2, row.pairs.len());
}

#[test]
fn the_same_seed_gives_the_same_row() {
    let row = || run(plan(1, 9), &mut machine(1.0), &mut ());
    assert_eq!(row(), row());
}

#[test]
fn too_few_pairs_for_any_look_run_nothing() {
    let plan = Plan {
        looks: Looks::plan(4, 1),
        ..plan(1, 1)
    };
    let mut machine = machine(30.0);
    let row = run(plan, &mut machine, &mut ());
    assert_eq!((row.ended.clone(), verdict(&row)), (Ended::NoLook, UNKNOWN));
    assert!(machine.runs.is_empty());
}

#[test]
fn when_the_time_is_over_the_last_look_counts() {
    let plan = |budget| Plan {
        budget: Some(Seconds(budget)),
        ..plan(1, 1)
    };
    let noisy = || Machine::new(1.0, 0.04, Noise::Normal, 3);
    let none = run(plan(200.0), &mut noisy(), &mut ());
    assert_eq!(
        (none.ended.clone(), verdict(&none)),
        (Ended::Budget, UNKNOWN)
    );
    assert!(!none.pairs.is_empty());
    let one = run(plan(350.0), &mut noisy(), &mut ());
    assert_eq!(one.ended, Ended::Budget);
    assert_eq!(one.estimate.expect("eight pairs fit").pairs, 8);
}

#[test]
fn a_failed_run_ends_the_row_and_keeps_what_was_measured() {
    let mut machine = machine(30.0);
    machine.fault = |n, side, trial| match side {
        Side::B if n > 24 => Err("exit status 7"),
        _ => Ok(trial),
    };
    let row = run(plan(1, 1), &mut machine, &mut ());
    let failed = Ended::Failed {
        side: Side::B,
        failure: "exit status 7",
    };
    assert_eq!((row.ended.clone(), verdict(&row)), (failed, UNKNOWN));
    assert!(row.pairs.len() >= 4);
}

fn stolen(mut trial: Trial) -> Trial {
    trial.health.stolen = Some(Seconds(trial.health.wall.0 * 0.5));
    trial.value *= 3.0;
    trial
}

#[test]
fn a_disturbed_pair_is_run_again_whole_and_both_are_kept() {
    let mut machine = Machine::new(0.0, 0.003, Noise::Normal, 3);
    machine.fault = |n, _, trial| Ok(if n == 18 { stolen(trial) } else { trial });
    let row = run(plan(1, 1), &mut machine, &mut ());
    assert_eq!(row.disturbed(), 1);
    assert_eq!(row.differences().len() + 1, row.pairs.len());
    let (at, disturbed) = row
        .pairs
        .iter()
        .enumerate()
        .find(|(_, pair)| !pair.disturbed().is_empty())
        .expect("one is");
    assert_eq!(disturbed.disturbed(), [Disturbed::Stolen]);
    assert_eq!(disturbed.first, row.pairs[at + 1].first);
    assert_eq!(verdict(&row), Outcome::Equivalent);
}

#[test]
fn a_machine_that_always_disturbs_gives_no_verdict() {
    let mut machine = machine(30.0);
    machine.fault = |_, side, trial| {
        Ok(if side == Side::B {
            stolen(trial)
        } else {
            trial
        })
    };
    let row = run(plan(1, 1), &mut machine, &mut ());
    assert_eq!(
        (row.ended.clone(), verdict(&row)),
        (Ended::Disturbed, UNKNOWN)
    );
    assert_eq!(row.pairs.len(), 11);
}

#[test]
fn what_the_machine_does_not_tell_disturbs_nothing() {
    let mut machine = machine(30.0);
    machine.fault = |_, _, mut trial| {
        trial.health.stolen = None;
        trial.health.foreign = None;
        Ok(trial)
    };
    assert_eq!(run(plan(1, 1), &mut machine, &mut ()).ended, Ended::Decided);
}

#[test]
fn values_without_a_ratio_are_refused() {
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let mut machine = machine(0.0);
        machine.fault = match bad {
            0.0 => |_, _, trial| {
                Ok(Trial {
                    value: 0.0,
                    ..trial
                })
            },
            -1.0 => |_, _, trial| {
                Ok(Trial {
                    value: -1.0,
                    ..trial
                })
            },
            x if x.is_nan() => |_, _, trial| {
                Ok(Trial {
                    value: f64::NAN,
                    ..trial
                })
            },
            _ => |_, _, trial| {
                Ok(Trial {
                    value: f64::INFINITY,
                    ..trial
                })
            },
        };
        let row = run(plan(1, 1), &mut machine, &mut ());
        let refused = matches!(row.ended, Ended::Unusable(Unusable::NotPositive { .. }));
        assert!(refused, "{bad}: {:?}", row.ended);
        assert_eq!(verdict(&row), UNKNOWN);
    }
}

#[test]
fn a_metric_in_whole_seconds_is_too_coarse() {
    let mut machine = Machine::new(0.0, 0.05, Noise::Normal, 3);
    machine.fault = |_, _, trial| {
        Ok(Trial {
            value: trial.value.round(),
            ..trial
        })
    };
    let row = run(plan(1, 1), &mut machine, &mut ());
    let coarse = Ended::Unusable(Unusable::Coarse {
        step: 1.0,
        value: 10.0,
    });
    assert_eq!((row.ended.clone(), verdict(&row)), (coarse, UNKNOWN));
}

#[test]
fn the_floor_is_what_a_differs_from_itself_or_what_was_asked() {
    let noisy = run(
        plan(1, 1),
        &mut Machine::new(0.0, 0.2, Noise::Normal, 6),
        &mut (),
    );
    assert!(noisy.floor > LogRatio::from_percent(1.0));
    let fixed = Plan {
        floor: Floor::Fixed(LogRatio::from_percent(5.0)),
        ..plan(1, 1)
    };
    let row = run(fixed, &mut machine(3.0), &mut ());
    assert_eq!(
        (row.floor, verdict(&row)),
        (LogRatio::from_percent(5.0), Outcome::Equivalent)
    );
}

#[test]
fn a_decided_row_that_is_odd_is_suspicious_and_must_be_confirmed() {
    let steady = run(plan(1, 1), &mut machine(30.0), &mut ());
    assert_eq!(steady.suspicious(), None);
    // B is slower by half in the first four pairs, then by a tenth.
    let mut changing = machine(0.0);
    changing.fault = |n, side, mut trial| {
        if side == Side::B {
            trial.value *= if n <= 22 { 1.5 } else { 1.1 };
        }
        Ok(trial)
    };
    let changing = run(plan(1, 1), &mut changing, &mut ());
    assert_eq!(changing.suspicious(), Some(Suspicious::HalvesDiffer));
    let mut often = machine(30.0);
    often.fault = |n, _, trial| {
        Ok(if n > 14 && n % 5 == 0 {
            stolen(trial)
        } else {
            trial
        })
    };
    let often = run(plan(1, 1), &mut often, &mut ());
    assert_eq!(often.suspicious(), Some(Suspicious::OftenDisturbed));
    let confirmed = run(plan(1, 2), &mut machine(30.0), &mut ());
    let denied = run(plan(1, 2), &mut machine(0.0), &mut ());
    let with = |again| conclude(&[(&changing, Some(again))])[0].outcome;
    assert_eq!(with(&confirmed), Outcome::Regressed);
    assert_eq!(with(&denied), UNKNOWN);
}

/// The client's busiest thread and the server's, of every run.
fn busy(client: f64, server: f64) -> Option<Side> {
    let mut machine = machine(3.0);
    let mut row = run(plan(1, 1), &mut machine, &mut ());
    for pair in &mut row.pairs {
        pair.b.health.busiest = Some(Busiest { client, server });
    }
    row.saturated_client().map(|(side, _)| side)
}

#[test]
fn a_client_at_its_limit_is_noticed_unless_the_server_is_too() {
    assert_eq!(busy(0.99, 0.60), Some(Side::B));
    assert_eq!(busy(0.99, 0.98), None);
    assert_eq!(busy(0.60, 0.99), None);
    assert_eq!(busy(0.60, 0.60), None);
}
