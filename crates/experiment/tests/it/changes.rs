//! Series of known truth: flat ones are left alone, steps and drifts are seen.

use hitm_experiment::{Change, LogRatio, detect};

use crate::simulated::{Machine, Noise};

/// Percent of the first level, point by point.
fn series(
    n: usize,
    noise: Noise,
    cv: f64,
    seed: u64,
    truth: impl Fn(usize) -> f64,
) -> Vec<LogRatio> {
    let mut machine = Machine::new(0.0, cv, noise, seed);
    (0..n)
        .map(|i| LogRatio::from_ln(machine.scatter() + (truth(i) / 100.0).ln_1p()))
        .collect()
}

fn found(values: &[LogRatio]) -> Vec<Change> {
    let floor = LogRatio::from_percent(1.0);
    detect(&[values.to_vec()], floor).remove(0).changes
}

/// Of so many series, the part of which something is said.
fn part(trials: u64, says: impl Fn(u64) -> bool) -> f64 {
    (0..trials).filter(|seed| says(*seed)).count() as f64 / trials as f64
}

#[test]
fn a_flat_series_alarms_in_at_most_five_percent() {
    // Without a floor: any change at all would be an alarm.
    let mut all = Vec::new();
    for noise in [Noise::Normal, Noise::Bimodal, Noise::Outliers] {
        for n in [5, 8, 15, 40] {
            let alarms = part(500, |seed| {
                let flat = series(n, noise, 0.01, seed * 31 + n as u64, |_| 0.0);
                detect(&[flat], LogRatio::ZERO)[0].adjusted_p <= 0.05
            });
            // Of 500 series the part itself scatters by 1 % around what it is.
            assert!(alarms <= 0.08, "{noise:?} {n}: {alarms}");
            all.push(alarms);
        }
    }
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    assert!(mean <= 0.05, "{mean}: {all:?}");
}

#[test]
fn of_many_flat_series_together_any_alarms_in_at_most_five_percent() {
    let alarms = part(200, |seed| {
        let many: Vec<_> = (0..8)
            .map(|i| series(20, Noise::Normal, 0.01, seed * 100 + i, |_| 0.0))
            .collect();
        let detected = detect(&many, LogRatio::ZERO);
        detected.iter().any(|one| one.adjusted_p <= 0.05)
    });
    assert!(alarms <= 0.05, "{alarms}");
}

#[test]
fn a_step_is_seen_where_it_is() {
    for (n, at) in [(20, 10), (24, 18), (40, 34)] {
        let seen = part(200, |seed| {
            let step = series(
                n,
                Noise::Normal,
                0.01,
                seed,
                |i| if i < at { 0.0 } else { 3.0 },
            );
            matches!(found(&step)[..], [Change::Step { at: where_, size }]
                if where_.abs_diff(at) <= 1 && (1.5..4.5).contains(&size.percent()))
        });
        assert!(seen >= 0.85, "{n} {at}: {seen}");
    }
}

#[test]
fn a_slow_drift_is_seen_and_called_one() {
    // A fifth of the noise with each commit: no two neighbours differ to speak of.
    let drift = |seed| series(40, Noise::Normal, 0.01, seed, |i| 0.2 * i as f64);
    let seen = part(200, |seed| !found(&drift(seed)).is_empty());
    assert!(seen >= 0.99, "{seen}");
    let called = part(200, |seed| {
        matches!(found(&drift(seed))[..], [Change::Drift { each, .. }]
            if (0.1..0.3).contains(&each.percent()))
    });
    assert!(called >= 0.9, "{called}");
}

#[test]
fn there_and_halfway_back_are_two_steps() {
    let seen = part(100, |seed| {
        let bump = |i: usize| match i {
            ..15 => 0.0,
            15..30 => 6.0,
            _ => 3.0,
        };
        let values = series(45, Noise::Normal, 0.01, seed, bump);
        matches!(found(&values)[..], [Change::Step { at: up, size: more }, Change::Step { at: down, size: less }]
            if up.abs_diff(15) <= 1 && down.abs_diff(30) <= 1
                && more > LogRatio::ZERO && less < LogRatio::ZERO)
    });
    assert!(seen >= 0.85, "{seen}");
}

#[test]
fn what_is_small_or_short_is_left_alone() {
    let clear = |size: f64, n: usize| -> Vec<LogRatio> {
        let level = |i: usize| if i < n / 2 { 0.0 } else { size };
        series(n, Noise::Normal, 0.0001, 1, level)
    };
    assert_eq!(found(&clear(0.5, 20)), [], "below the floor");
    assert_eq!(
        found(&clear(50.0, 4)),
        [],
        "four points in any order are nothing special"
    );
    assert_eq!(found(&[]), []);
    assert_eq!(found(&[LogRatio::ZERO; 30]), [], "all the same");
    assert_eq!(found(&clear(50.0, 20)).len(), 1);
}
