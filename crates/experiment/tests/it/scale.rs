//! `hitm scale` on simulated machines of known curves: what it says is true often enough, and never more than that. Fixed
//! seeds, so a failure is a change of the code and no bad luck.

use hitm_experiment::scale::{
    Ended, Executor, Failed, Hindered, Judgement, Meaning, NoFit, NoValue, NoVerdict, Plan, Rounds,
    SideBySide, Threads, Verdict, Work, judge, measure, rounds_needed,
};
use hitm_experiment::{Health, LogRatio, Seconds, Trial};

use crate::simulated::{ALL, Machine, Noise};

/// A program whose throughput is known.
struct Program {
    /// By threads, of one second's work.
    throughput: fn(f64) -> f64,
    machine: Machine,
    processors: usize,
    fault: fn(usize, Threads, Trial) -> Result<Trial, Failed<&'static str>>,
    runs: Vec<Threads>,
}

impl Program {
    fn new(throughput: fn(f64) -> f64, cv: f64, noise: Noise, seed: u64) -> Self {
        Self {
            throughput,
            machine: Machine::new(0.0, cv, noise, seed),
            processors: 8,
            fault: |_, _, trial| Ok(trial),
            runs: Vec::new(),
        }
    }

    /// Runs it with these numbers of threads.
    fn measure(&mut self, points: &[u32], rounds: usize) -> Rounds<&'static str> {
        let plan = Plan {
            points: points.iter().copied().map(Threads).collect(),
            processors: self.processors,
            rounds,
            warm_up: 0,
            most_repeats: 20,
            budget: None,
            seed: self.machine.random.0,
        };
        measure(plan, self, &mut ())
    }

    fn judge(&mut self, points: &[u32], rounds: usize) -> Judgement {
        judged(&self.measure(points, rounds))
    }
}

impl Executor for Program {
    type Failure = &'static str;

    fn run(&mut self, threads: Threads) -> Result<Trial, Failed<&'static str>> {
        let n = f64::from(threads.0);
        let wall = self.machine.scatter().exp() / (self.throughput)(n);
        self.runs.push(threads);
        let health = Health {
            wall: Seconds(wall),
            cpu: Seconds(wall * n.min(self.processors as f64)),
            processors: self.processors,
            stolen: Some(Seconds(0.0)),
            foreign: Some(Seconds(0.0)),
            queued: Some(Seconds(0.0)),
            ..Health::default()
        };
        let trial = Trial {
            value: wall,
            health,
        };
        (self.fault)(self.runs.len(), threads, trial)
    }

    fn spent(&self) -> Seconds {
        Seconds(self.runs.len() as f64)
    }
}

fn judged<F>(rounds: &Rounds<F>) -> Judgement {
    judge(
        rounds,
        Meaning::Time(Some(Work::Fixed)),
        LogRatio::from_percent(2.0),
    )
}

fn usl(sigma: f64, kappa: f64, n: f64) -> f64 {
    n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0))
}

/// Of so many simulated experiments, the part for which something holds.
fn part(n: u32, mut holds: impl FnMut(u64) -> bool) -> f64 {
    let held = (0..n).filter(|i| holds(u64::from(*i) * 7919 + 1)).count();
    f64::from(u32::try_from(held).unwrap()) / f64::from(n)
}

const TO_8: [u32; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

fn is_negative(judgement: &Judgement) -> bool {
    matches!(judgement.verdict, Verdict::Negative { .. })
}

/// Curves on which no number of threads is slower than fewer are: some as flat as can be.
fn no_alarm_in_10_000(points: &[u32]) {
    let curves: [fn(f64) -> f64; 4] = [|_| 1.0, |n| n, |n| usl(0.3, 0.0, n), |n| n.min(3.0)];
    let each = 10_000 / (curves.len() * ALL.len()) as u32;
    for noise in ALL {
        for (number, curve) in curves.iter().enumerate() {
            let alarms = part(each, |seed| {
                let mut program = Program::new(*curve, 0.05, noise, seed);
                is_negative(&program.judge(points, rounds_needed(points.len())))
            });
            assert!(alarms <= 0.05, "{noise:?}, curve {number}: {alarms}");
        }
    }
}

#[test]
fn no_negative_scaling_is_called_on_two_processors_where_there_is_none() {
    no_alarm_in_10_000(&[1, 2]);
}

#[test]
fn no_negative_scaling_is_called_on_eight_processors_where_there_is_none() {
    no_alarm_in_10_000(&TO_8);
}

/// On curves just beside a border.
#[test]
fn words_are_true_in_95_percent() {
    let just_not_linear: fn(f64) -> f64 = |n| n * 0.895_f64.powf((n - 1.0) / 7.0);
    let just_linear: fn(f64) -> f64 = |n| n * 0.905_f64.powf((n - 1.0) / 7.0);
    let points = [1, 2, 4, 8];
    for noise in ALL {
        let wrong = part(500, |seed| {
            let mut program = Program::new(just_not_linear, 0.02, noise, seed);
            program.judge(&points, 8).verdict == Verdict::Linear
        });
        assert!(wrong <= 0.05, "linear, {noise:?}: {wrong}");
        let wrong = part(500, |seed| {
            let mut program = Program::new(just_linear, 0.02, noise, seed);
            let verdict = program.judge(&points, 8).verdict;
            matches!(
                verdict,
                Verdict::SubLinear { .. } | Verdict::Negative { .. }
            )
        });
        assert!(wrong <= 0.05, "sub-linear, {noise:?}: {wrong}");
    }
}

#[test]
fn what_is_clear_is_said() {
    let check = |throughput: fn(f64) -> f64, points: &[u32], expected: fn(&Verdict) -> bool| {
        let said = part(100, |seed| {
            let mut program = Program::new(throughput, 0.02, Noise::Normal, seed);
            expected(&program.judge(points, rounds_needed(points.len())).verdict)
        });
        assert!(said >= 0.8, "{points:?}: {said}");
    };
    // The collector of story 2, packed: a sixth of the speed with the second thread.
    let slower = |n: f64| if n > 1.0 { 0.2 + 0.01 * n } else { 1.0 };
    check(slower, &[1, 2], |verdict| {
        matches!(
            verdict,
            Verdict::Negative {
                slow: Threads(2),
                fast: Threads(1),
                ..
            }
        )
    });
    check(
        |n| usl(0.05, 0.05, n),
        &TO_8,
        |verdict| {
            matches!(
                verdict,
                Verdict::Negative {
                    slow: Threads(8),
                    ..
                }
            )
        },
    );
    check(|n| n, &[1, 2], |verdict| *verdict == Verdict::Linear);
    check(|n| n, &TO_8, |verdict| *verdict == Verdict::Linear);
    check(
        |n| usl(0.1, 0.0, n),
        &TO_8,
        |verdict| matches!(verdict, Verdict::SubLinear { saturates: None }),
    );
    check(
        |n| n.min(3.0),
        &TO_8,
        |verdict| {
            matches!(
                verdict,
                Verdict::SubLinear {
                    saturates: Some(Threads(3..=6))
                }
            )
        },
    );
}

#[test]
fn the_intervals_of_the_law_cover_its_terms() {
    let check = |sigma: f64, kappa: f64, throughput: fn(f64) -> f64, noise: Noise| {
        let (mut of_sigma, mut of_kappa, mut refused) = (0, 0, 0);
        let runs = 1000;
        for seed in 0..runs {
            let mut program = Program::new(throughput, 0.02, noise, seed * 7919 + 1);
            match program.judge(&[1, 2, 3, 4, 6, 8], 8).fit {
                Ok(fit) => {
                    let in_it = |term: hitm_experiment::scale::Term, truth: f64| {
                        u64::from(term.low <= truth && truth <= term.high)
                    };
                    of_sigma += in_it(fit.contention, sigma);
                    of_kappa += in_it(fit.coherence, kappa);
                }
                // "More than linear" is wrong, and all that is said then.
                Err(_) => refused += 1,
            }
        }
        // Three standard errors of 1000 experiments around 95 %. "More than linear" may come from either term.
        let least = (runs - refused) * 93 / 100;
        assert!(
            of_sigma >= least && of_kappa >= least && refused <= runs * 7 / 100,
            "σ {sigma}, κ {kappa}, {noise:?}: {of_sigma} and {of_kappa} of {runs}, {refused} refused"
        );
    };
    for noise in [Noise::Normal, Noise::Bimodal] {
        check(0.0, 0.0, |n| n, noise);
        check(0.1, 0.0, |n| usl(0.1, 0.0, n), noise);
        check(0.0, 0.01, |n| usl(0.0, 0.01, n), noise);
        check(0.05, 0.02, |n| usl(0.05, 0.02, n), noise);
        check(0.5, 0.1, |n| usl(0.5, 0.1, n), noise);
    }
}

#[test]
fn the_terms_of_a_curve_without_noise_are_found() {
    for (sigma, kappa) in [
        (0.0, 0.0),
        (0.1, 0.0),
        (0.0, 0.02),
        (0.05, 0.01),
        (0.8, 0.3),
    ] {
        let values = |n: u32| vec![1000.0 * usl(sigma, kappa, f64::from(n)); 3];
        let points: Vec<(Threads, Vec<f64>)> = [1, 2, 4, 8, 16]
            .into_iter()
            .map(|n| (Threads(n), values(n)))
            .collect();
        let fit = hitm_experiment::scale::Fit::of(&points).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-4;
        assert!(
            near(fit.contention.estimate, sigma)
                && near(fit.coherence.estimate, kappa)
                && near(fit.one / 1000.0, 1.0)
                && near(fit.at(8.0) / values(8)[0], 1.0)
                && fit.follows,
            "{sigma} {kappa}: {fit:?}"
        );
    }
}

#[test]
fn a_curve_of_another_law_is_said_to_be_one() {
    // A cliff between two sockets.
    let cliff = |n: f64| if n > 4.0 { n * 0.4 } else { n };
    let mut program = Program::new(cliff, 0.01, Noise::Normal, 3);
    let fit = program.judge(&TO_8, 8).fit.unwrap();
    assert!(!fit.follows && fit.farthest > 0.1, "{fit:?}");
    // More than linear: the second thread brings a cache of its own.
    let mut program = Program::new(|n| n.powf(1.3), 0.01, Noise::Normal, 3);
    assert_eq!(program.judge(&TO_8, 8).fit, Err(NoFit::MoreThanLinear));
}

#[test]
fn points_beyond_the_processors_are_marked_and_neither_judged_nor_fitted() {
    // As fast as can be on two processors, and a catastrophe beyond.
    let throughput = |n: f64| if n > 2.0 { 0.1 } else { n };
    let mut program = Program::new(throughput, 0.01, Noise::Normal, 1);
    program.processors = 2;
    let judgement = program.judge(&[1, 2, 3, 4, 8], 6);
    let sliced: Vec<bool> = judgement
        .points
        .iter()
        .map(|point| point.time_sliced)
        .collect();
    assert_eq!(sliced, [false, false, true, true, true]);
    assert_eq!(judgement.verdict, Verdict::Linear);
    assert_eq!(judgement.fit, Err(NoFit::TooFewPoints { points: 2 }));
    assert_eq!(judgement.rounds_needed, 6);
}

#[test]
fn too_few_rounds_say_how_many_more() {
    let mut program = Program::new(|n| 1.0 / n, 0.01, Noise::Normal, 1);
    let judgement = program.judge(&[1, 2], 5);
    assert_eq!(
        judgement.verdict,
        Verdict::Undecided {
            more_rounds: Some(1)
        }
    );
}

#[test]
fn what_times_are_of_is_not_guessed() {
    let said = |throughput: fn(f64) -> f64| {
        let mut program = Program::new(throughput, 0.01, Noise::Normal, 1);
        let rounds = program.measure(&[1, 2], 6);
        judge(&rounds, Meaning::Time(None), LogRatio::from_percent(2.0)).verdict
    };
    // Four times as long with two threads is slower whatever they do; half as long is linear whatever they do.
    assert!(matches!(
        said(|n| if n > 1.0 { 0.25 } else { 1.0 }),
        Verdict::Negative { .. }
    ));
    assert_eq!(said(|n| n), Verdict::Linear);
    // As long as before is no gain, or all that there can be.
    let Verdict::SayWork(both) = said(|n| n.powf(-0.04)) else {
        panic!("guessed");
    };
    assert!(matches!(both.fixed, Verdict::Negative { .. }));
    assert_eq!(both.per_thread, Verdict::Linear);
}

#[test]
fn threads_that_did_not_run_side_by_side_prove_nothing() {
    let mut program = Program::new(|n| 1.0 / n, 0.01, Noise::Normal, 1);
    // They take turns on one processor.
    program.fault = |_, _, mut trial| {
        trial.health.cpu = trial.health.wall;
        Ok(trial)
    };
    let judgement = program.judge(&[1, 2], 6);
    assert_eq!(judgement.points[1].side_by_side, SideBySide::No);
    assert!(matches!(
        judgement.verdict,
        Verdict::None(NoVerdict::NotSideBySide {
            threads: Threads(2),
            told: true,
            ..
        })
    ));
    // Half of what they could, and the kernel does not tell why.
    program.fault = |_, threads, mut trial| {
        trial.health.queued = None;
        if threads.0 > 1 {
            trial.health.cpu = Seconds(trial.health.cpu.0 * 0.6);
        }
        Ok(trial)
    };
    let judgement = program.judge(&[1, 2], 6);
    assert!(matches!(
        judgement.verdict,
        Verdict::None(NoVerdict::NotSideBySide { told: false, .. })
    ));
}

#[test]
fn disturbed_runs_are_repeated_within_a_limit() {
    let mut program = Program::new(|n| n, 0.01, Noise::Normal, 1);
    program.fault = |run, threads, mut trial| {
        if run % 5 == 0 && threads.0 == 2 {
            trial.health.queued = Some(Seconds(trial.health.wall.0));
        }
        Ok(trial)
    };
    let rounds = program.measure(&[1, 2], 6);
    assert_eq!(rounds.ended, Ended::AllRun);
    let hindered = rounds.points[1].runs.iter().filter(|run| !run.counts());
    assert!(hindered.clone().count() > 0);
    assert!(
        hindered
            .clone()
            .all(|run| run.hindered == [Hindered::Queued])
    );
    assert_eq!(rounds.points[1].counted().count(), 6);

    program.fault = |_, _, mut trial| {
        trial.health.foreign = Some(Seconds(trial.health.wall.0 * 4.0));
        Ok(trial)
    };
    let rounds = program.measure(&[1, 2], 6);
    assert_eq!(rounds.ended, Ended::Disturbed);
    let judgement = judged(&rounds);
    assert_eq!(judgement.verdict, Verdict::None(NoVerdict::TooFewPoints));
    // With more threads than processors, waiting is their own doing.
    program.processors = 1;
    program.fault = |_, _, mut trial| {
        trial.health.queued = Some(trial.health.wall);
        Ok(trial)
    };
    let rounds = program.measure(&[2, 3], 6);
    assert_eq!(rounds.ended, Ended::AllRun);
}

#[test]
fn a_point_that_fails_is_left_out_and_the_others_go_on() {
    let mut program = Program::new(|n| n, 0.01, Noise::Normal, 1);
    program.fault = |run, threads, trial| match threads.0 {
        4 if run > 8 => Err(Failed::Run("out of memory")),
        _ => Ok(trial),
    };
    let rounds = program.measure(&[1, 2, 4], 7);
    assert_eq!(rounds.ended, Ended::AllRun);
    let failures: Vec<_> = rounds.failures().collect();
    assert_eq!(failures, [(Threads(4), &NoValue::Failed("out of memory"))]);
    assert!(
        !rounds.points[2].runs.is_empty(),
        "what was measured is kept"
    );
    assert_eq!(rounds.points[1].runs.len(), 7);

    program.fault = |_, threads, trial| match threads.0 {
        1 => Err(Failed::Run("no")),
        _ => Ok(trial),
    };
    assert_eq!(
        program.measure(&[1, 2, 4], 7).ended,
        Ended::NothingToCompare
    );
    program.fault = |_, _, mut trial| {
        trial.value = 0.0;
        Ok(trial)
    };
    let rounds = program.measure(&[1, 2], 7);
    assert_eq!(rounds.ended, Ended::NothingToCompare);
    let failed: Vec<_> = rounds.failures().map(|(_, why)| why).collect();
    assert_eq!(failed, [&NoValue::NotPositive(0.0)]);
    program.fault = |_, _, _| Err(Failed::Interrupted);
    assert_eq!(program.measure(&[1, 2], 7).ended, Ended::Interrupted);
}

#[test]
fn points_take_turns_in_orders_that_cancel_out() {
    let mut program = Program::new(|n| n, 0.01, Noise::Normal, 1);
    let rounds = program.measure(&[1, 2, 3, 4], 8);
    let order: Vec<&[Threads]> = program.runs.chunks(4).collect();
    for two in order.chunks(2) {
        let back: Vec<Threads> = two[1].iter().rev().copied().collect();
        assert_eq!(two[0], back);
    }
    assert!(order.iter().step_by(2).any(|round| *round != order[0]));
    assert_eq!(rounds.points[0].runs.len(), 8);
}
