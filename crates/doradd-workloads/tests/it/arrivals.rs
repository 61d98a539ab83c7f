//! Schedules: what `-i` may be, and that arrivals are as far apart as it says.

use doradd_workloads::run::arrivals::{Arrivals, Schedule};

fn check(text: &str, expected: Option<Arrivals>) {
    let arrivals: Result<Arrivals, _> = text.parse();
    assert_eq!(arrivals.clone().ok(), expected, "{text}");
    match arrivals {
        Ok(arrivals) => assert_eq!(arrivals.to_string(), text),
        Err(error) => assert!(error.to_string().contains("such as exp:180"), "{error}"),
    }
}

#[test]
fn intervals_are_read_and_wrong_ones_refused() {
    check("max", Some(Arrivals::Saturating));
    check("exp:180", Some(Arrivals::Exponential(180.0)));
    check("fixed:0.5", Some(Arrivals::Fixed(0.5)));
    for wrong in [
        "",
        "MAX",
        "exp",
        "exp:",
        "exp:0",
        "exp:-1",
        "exp:inf",
        "exp:nan",
        "fixed:1s",
        "180",
        "poisson:3",
    ] {
        check(wrong, None);
    }
}

fn dues(arrivals: Arrivals, seed: u64, n: usize) -> Vec<u64> {
    let mut schedule = Schedule::new(arrivals, seed);
    (0..n)
        .map(|_| {
            let due = schedule.due().unwrap();
            schedule.advance();
            due
        })
        .collect()
}

#[test]
fn fixed_arrivals_keep_their_fractions() {
    assert_eq!(dues(Arrivals::Fixed(2.5), 1, 5), [2, 5, 7, 10, 12]);
}

#[test]
fn exponential_arrivals_have_the_mean_and_the_spread() {
    let n = 100_000;
    let dues = dues(Arrivals::Exponential(180.0), 3, n);
    let mean = dues[n - 1] as f64 / n as f64;
    // The mean of n has a standard deviation of 180 / sqrt(n).
    assert!(
        (mean - 180.0).abs() < 4.0 * 180.0 / (n as f64).sqrt(),
        "{mean}"
    );
    let longer = dues
        .windows(2)
        .filter(|pair| pair[1] - pair[0] > 180)
        .count() as f64
        / n as f64;
    assert!((longer - (-1.0_f64).exp()).abs() < 0.01, "{longer}");
}

#[test]
fn a_seed_gives_the_same_arrivals_each_time() {
    let of = |seed| dues(Arrivals::Exponential(100.0), seed, 50);
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

#[test]
fn a_saturating_source_has_no_schedule() {
    assert_eq!(Schedule::new(Arrivals::Saturating, 1).due(), None);
}
