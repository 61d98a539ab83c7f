//! What is promised: few false alarms, enough power, intervals that cover. Simulated with fixed seeds, so a failure is
//! a change of the code and no bad luck.

use hitm_experiment::{Outcome, conclude, run};

use crate::simulated::{ALL, Machine, Noise, plan};

/// Of so many simulated experiments, the part for which something holds.
fn part(n: u32, mut holds: impl FnMut(u64) -> bool) -> f64 {
    let held = (0..n).filter(|i| holds(u64::from(*i) * 7919 + 1)).count();
    held as f64 / f64::from(n)
}

fn alarm(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Improved | Outcome::Regressed)
}

#[test]
fn equal_programs_raise_an_alarm_in_at_most_5_percent_of_10_000_suites() {
    const ROWS: usize = 6;
    for noise in ALL {
        let alarms = part(10_000 / ALL.len() as u32, |seed| {
            let rows: Vec<_> = (0..ROWS as u64)
                .map(|row| {
                    let mut machine = Machine::new(0.0, 0.03, noise, seed * 31 + row);
                    run(plan(ROWS, seed + row), &mut machine, &mut ())
                })
                .collect();
            let rows: Vec<_> = rows.iter().map(|row| (row, None)).collect();
            conclude(&rows).iter().any(|verdict| alarm(verdict.outcome))
        });
        assert!(alarms <= 0.05, "{noise:?}: {alarms}");
    }
}

#[test]
fn one_row_alone_raises_an_alarm_in_at_most_5_percent() {
    for noise in ALL {
        for cv in [0.01, 0.1] {
            let alarms = part(2500, |seed| {
                let mut machine = Machine::new(0.0, cv, noise, seed);
                let row = run(plan(1, seed), &mut machine, &mut ());
                alarm(conclude(&[(&row, None)])[0].outcome)
            });
            assert!(alarms <= 0.05, "{noise:?} {cv}: {alarms}");
        }
    }
}

#[test]
fn an_effect_of_2_percent_at_1_percent_noise_is_found_in_20_pairs() {
    for (percent, expected) in [(2.0, Outcome::Regressed), (-2.0, Outcome::Improved)] {
        let found = part(2000, |seed| {
            let mut machine = Machine::new(percent, 0.01, Noise::Normal, seed);
            let row = run(plan(1, seed), &mut machine, &mut ());
            conclude(&[(&row, None)])[0].outcome == expected
        });
        assert!(found >= 0.8, "{percent}: {found}");
    }
}

#[test]
fn the_same_in_a_suite_of_six_rows() {
    let found = part(1000, |seed| {
        let rows: Vec<_> = (0..6)
            .map(|row| {
                let mut machine = Machine::new(2.0, 0.01, Noise::Normal, seed * 31 + row);
                run(plan(6, seed + row), &mut machine, &mut ())
            })
            .collect();
        let rows: Vec<_> = rows.iter().map(|row| (row, None)).collect();
        conclude(&rows)[0].outcome == Outcome::Regressed
    });
    assert!(found >= 0.8, "{found}");
}

#[test]
fn the_interval_covers_the_effect_stopping_included() {
    for noise in ALL {
        for percent in [0.0, 1.0, 2.0] {
            let covered = part(1500, |seed| {
                let mut machine = Machine::new(percent, 0.01, noise, seed);
                let truth = machine.effect;
                let row = run(plan(1, seed), &mut machine, &mut ());
                let interval = row
                    .estimate
                    .expect("20 pairs are enough for a look")
                    .interval;
                interval.low <= truth && truth <= interval.high
            });
            assert!(covered >= 0.94, "{noise:?} {percent}: {covered}");
        }
    }
}

#[test]
fn equal_programs_are_called_equivalent_where_noise_permits() {
    let equivalent = part(1000, |seed| {
        let mut machine = Machine::new(0.0, 0.005, Noise::Normal, seed);
        let row = run(plan(1, seed), &mut machine, &mut ());
        conclude(&[(&row, None)])[0].outcome == Outcome::Equivalent
    });
    assert!(equivalent >= 0.8, "{equivalent}");
}

#[test]
fn the_number_of_pairs_that_would_decide_is_about_right() {
    let mut asked = Vec::new();
    for seed in 0..200 {
        let mut machine = Machine::new(3.0, 0.04, Noise::Normal, seed);
        let row = run(plan(1, seed), &mut machine, &mut ());
        if let Outcome::Undecided {
            more_pairs: Some(more),
        } = conclude(&[(&row, None)])[0].outcome
        {
            asked.push(more + 20);
        }
    }
    asked.sort_unstable();
    // By the normal distribution, 3 % at a noise of 4 % · √2 is half of an interval at (2.6 · 5.7 / 3)² = 24 pairs.
    let middle = asked[asked.len() / 2];
    assert!((22..=80).contains(&middle), "{middle}");
}
