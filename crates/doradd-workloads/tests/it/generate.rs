//! What generated logs are like: the same bytes everywhere, the distributions that were asked for.

use std::collections::BTreeMap;

use doradd::Random;
use doradd_workloads::log::{Rows, Transaction};
use doradd_workloads::ycsb::{
    Contention, Generator, HOT_ROWS, MAX_ROWS, Profile, Theta, WriteRatio, Zipf,
};
use statrs::distribution::{ChiSquared, ContinuousCDF as _};

fn profile() -> Profile {
    Profile {
        rows: Rows(10_000),
        seed: 42,
        contention: Contention::No,
        zipf: None,
        write_ratio: WriteRatio::HALF,
    }
}

fn draw(profile: &Profile, n: usize) -> Vec<Transaction> {
    Generator::new(profile).unwrap().take(n).collect()
}

/// FNV-1a, which is short enough to be read here.
fn digest(transactions: &[Transaction]) -> u64 {
    let bytes = transactions.iter().flat_map(Transaction::encode);
    bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    })
}

/// What was published once must come out for ever: logs are named by their options in reports of measurements.
#[test]
fn logs_are_the_same_to_the_byte_for_ever() {
    let zipf = Some(Theta::new(0.99).unwrap());
    let skewed = Profile {
        contention: Contention::High,
        write_ratio: WriteRatio::new(0.05).unwrap(),
        ..profile()
    };
    let digests = [profile(), Profile { zipf, ..profile() }, skewed]
        .map(|profile| format!("{:016x}", digest(&draw(&profile, 1000))));
    assert_eq!(
        digests,
        ["4f1f8262baa1166b", "4cdffbb2223c78d9", "3439d7a61e6102f4"]
    );
}

#[test]
fn another_seed_gives_another_log() {
    let other = Profile {
        seed: 43,
        ..profile()
    };
    assert_ne!(draw(&profile(), 10), draw(&other, 10));
}

#[test]
fn contention_is_so_many_keys_of_the_hot_set() {
    for (contention, hot) in [
        (Contention::No, 0),
        (Contention::Moderate, 3),
        (Contention::High, 7),
    ] {
        let rows = Rows(1 << 32);
        let log = draw(
            &Profile {
                contention,
                rows,
                ..profile()
            },
            2000,
        );
        for transaction in &log {
            let of_hot = |key: &&u32| u64::from(**key) < HOT_ROWS;
            // That a key of all four billion rows is hot by chance does not happen with this seed.
            assert_eq!(transaction.keys().iter().filter(of_hot).count(), hot);
        }
        if hot > 0 {
            let seen: std::collections::BTreeSet<_> =
                log.iter().flat_map(|it| &it.keys()[..hot]).collect();
            assert_eq!(seen.len() as u64, HOT_ROWS);
        }
    }
}

#[test]
fn keys_are_of_the_table_however_small_it_is() {
    for rows in [1, 2, 3, 76, 77, 78] {
        for contention in [Contention::No, Contention::High] {
            for zipf in [None, Some(Theta::new(0.5).unwrap())] {
                let rows = Rows(rows);
                let log = draw(
                    &Profile {
                        rows,
                        contention,
                        zipf,
                        ..profile()
                    },
                    300,
                );
                assert!(log.iter().all(|it| it.check(rows).is_ok()), "{rows} rows");
            }
        }
    }
    for rows in [0, MAX_ROWS + 1] {
        let refused = Generator::new(&Profile {
            rows: Rows(rows),
            ..profile()
        })
        .unwrap_err();
        assert!(
            refused.to_string().contains("from 1 to 4294967296 rows"),
            "{refused}"
        );
    }
}

#[test]
fn as_many_keys_are_written_as_were_asked_for() {
    for ratio in [0.0, 0.05, 0.5, 1.0] {
        let write_ratio = WriteRatio::new(ratio).unwrap();
        let log = draw(
            &Profile {
                write_ratio,
                ..profile()
            },
            10_000,
        );
        let written: u32 = log.iter().map(|it| it.writes().count_ones()).sum();
        let expected = 100_000.0 * ratio;
        let deviation = (100_000.0 * ratio * (1.0 - ratio)).sqrt();
        assert!(
            (f64::from(written) - expected).abs() <= 4.0 * deviation,
            "{written} of 100,000 keys are written at {ratio}"
        );
    }
    assert!(WriteRatio::new(1.1).is_err() && WriteRatio::new(f64::NAN).is_err());
}

/// The probability that draws of the expected distribution deviate as much as these.
fn chi_square(counts: &[(u64, f64)]) -> f64 {
    // Cells with few expected draws are put together, as the test's approximation needs.
    let (mut statistic, mut cells) = (0.0, 0);
    let (mut seen, mut expected) = (0.0, 0.0);
    for (count, mean) in counts {
        seen += *count as f64;
        expected += mean;
        if expected >= 20.0 {
            statistic += (seen - expected).powi(2) / expected;
            cells += 1;
            (seen, expected) = (0.0, 0.0);
        }
    }
    ChiSquared::new(f64::from(cells - 1)).unwrap().sf(statistic)
}

#[test]
fn uniform_keys_are_uniform() {
    let rows = 500;
    let log = draw(
        &Profile {
            rows: Rows(rows),
            ..profile()
        },
        20_000,
    );
    let mut counts = BTreeMap::new();
    for key in log.iter().flat_map(Transaction::keys) {
        *counts.entry(*key).or_insert(0) += 1;
    }
    let counts: Vec<(u64, f64)> = counts
        .values()
        .map(|count| (*count, 200_000.0 / rows as f64))
        .collect();
    let p = chi_square(&counts);
    assert!(p > 0.001, "p = {p}");
}

const DRAWS: u64 = 400_000;

fn ranks(zipf: &Zipf, n: u64) -> Vec<u64> {
    let mut random = Random::new(11);
    let mut counts = vec![0; n as usize];
    for _ in 0..DRAWS {
        counts[zipf.draw(&mut random) as usize] += 1;
    }
    counts
}

/// Against the exact probabilities of the formula: the length of the interval of `u` for each rank.
#[test]
fn ranks_are_drawn_as_the_formula_says() {
    for theta in [0.2, 0.5, 0.9, 0.99] {
        let n = 1000;
        let zipf = Zipf::new(n, Theta::new(theta).unwrap());
        let expected = |rank: usize| zipf.probability(rank as u64) * DRAWS as f64;
        let total: f64 = (0..n).map(|rank| zipf.probability(rank)).sum();
        assert!((total - 1.0).abs() < 1e-9, "{total}");
        let counts: Vec<(u64, f64)> = ranks(&zipf, n)
            .into_iter()
            .enumerate()
            .map(|(rank, count)| (count, expected(rank)))
            .collect();
        let p = chi_square(&counts);
        assert!(p > 0.001, "theta {theta}: p = {p}");
    }
}

/// How far the formula is from the law itself: exact for two ranks, near for the others.
#[test]
fn the_formula_is_near_zipfs_law() {
    for theta in [0.2, 0.5, 0.9, 0.99] {
        let n = 1000;
        let zipf = Zipf::new(n, Theta::new(theta).unwrap());
        let zeta: f64 = (1..=n).map(|i| (i as f64).powf(-theta)).sum();
        let law = |rank: u64| ((rank + 1) as f64).powf(-theta) / zeta;
        for rank in 0..2 {
            assert!((zipf.probability(rank) - law(rank)).abs() < 1e-12);
        }
        let distance: f64 = (0..n)
            .map(|rank| (zipf.probability(rank) - law(rank)).abs())
            .sum::<f64>()
            / 2.0;
        assert!(
            distance < 0.02,
            "theta {theta}: {distance} of the draws would have to change"
        );
    }
}

#[test]
fn exponents_that_the_formula_is_not_for_are_refused() {
    for theta in [0.0, 1.0, -0.5, 1.5, f64::NAN] {
        assert!(Theta::new(theta).is_err(), "{theta}");
    }
}
