//! Many layouts of simulated machines: how often the verdict is right, and what becomes of failures.

use hitm_experiment::shake::{
    Arm, ArmEnded, Ended, Plan, Rounds, Runner, Verdict, judge, measure, rounds_needed,
};
use hitm_experiment::{Better, Floor, Health, LogRatio, Seconds, Trial};

use crate::simulated::Random;

const VARIANTS: usize = 12;

/// A machine on which each layout has a known effect.
struct Layouts {
    /// By the variant's number, in percent; the others have none.
    effects: Vec<(usize, f64)>,
    /// Standard deviation of the logarithm of a run.
    noise: f64,
    /// What the machine gains from one run to the next, in percent: it warms up.
    drift: f64,
    random: Random,
    runs: Vec<Arm>,
    fault: fn(usize, Arm, Trial) -> Result<Trial, &'static str>,
    stops_after: usize,
}

impl Layouts {
    fn new(effects: &[(usize, f64)], noise: f64, seed: u64) -> Self {
        Self {
            effects: effects.to_vec(),
            noise,
            drift: 0.0,
            random: Random(seed),
            runs: Vec::new(),
            fault: |_, _, trial| Ok(trial),
            stops_after: usize::MAX,
        }
    }
}

impl Runner for Layouts {
    type Failure = &'static str;

    fn run(&mut self, arm: Arm) -> Result<Trial, &'static str> {
        let own = |(variant, _): &&(usize, f64)| Arm::Variant(*variant) == arm;
        let effect = self
            .effects
            .iter()
            .find(own)
            .map_or(0.0, |(_, percent)| *percent);
        let drift = self.drift * self.runs.len() as f64;
        let ln = (effect / 100.0).ln_1p() + (drift / 100.0) + self.noise * self.random.normal();
        let value = 10.0 * ln.exp();
        self.runs.push(arm);
        let health = Health {
            wall: Seconds(value),
            processors: 2,
            foreign: Some(Seconds(0.0)),
            ..Health::default()
        };
        (self.fault)(self.runs.len(), arm, Trial { value, health })
    }

    fn is_stopped(&self) -> bool {
        self.runs.len() >= self.stops_after
    }

    fn spent(&self) -> Seconds {
        Seconds(self.runs.len() as f64)
    }
}

fn plan(rounds: usize) -> Plan {
    Plan {
        rounds,
        variants: VARIANTS,
        warm_up: 1,
        most_repeats: 20,
        count_disturbed: false,
        budget: None,
        seed: 3,
    }
}

fn usual_rounds() -> usize {
    rounds_needed(VARIANTS) + 3
}

const FLOOR: Floor = Floor::AtLeast(LogRatio::ZERO);

fn measured(layouts: &mut Layouts) -> Rounds<&'static str> {
    measure(plan(usual_rounds()), layouts, &mut ())
}

#[test]
fn layouts_that_do_nothing_seldom_matter() {
    const SUITES: u64 = 2000;
    for (noise, drift) in [(0.01, 0.0), (0.05, 0.0), (0.01, 0.02)] {
        let (mut alarms, mut missed) = (0, 0);
        for seed in 0..SUITES {
            let mut layouts = Layouts::new(&[], noise, seed);
            layouts.drift = drift;
            // Without a floor: the worst case.
            let judgement = judge(&measured(&mut layouts), Better::Lower, FLOOR);
            alarms += u64::from(judgement.verdict == Verdict::Matters);
            let spread = judgement.spread_interval.unwrap();
            missed += u64::from(spread.low > LogRatio::ZERO);
        }
        let share = |n: u64| n as f64 / SUITES as f64;
        assert!(share(alarms) <= 0.05, "{noise} {drift}: {}", share(alarms));
        assert!(share(missed) <= 0.05, "{noise} {drift}: {}", share(missed));
    }
}

#[test]
fn the_interval_of_the_spread_has_the_spread() {
    const SUITES: u64 = 1000;
    let effects = [(2, 8.0), (5, -4.0), (7, 1.0)];
    let spread = LogRatio::from_percent(8.0).ln() - LogRatio::from_percent(-4.0).ln();
    let mut covered = 0;
    for seed in 0..SUITES {
        let mut layouts = Layouts::new(&effects, 0.02, seed);
        let judgement = judge(&measured(&mut layouts), Better::Lower, FLOOR);
        let interval = judgement.spread_interval.unwrap();
        covered += u64::from(interval.low.ln() <= spread && spread <= interval.high.ln());
    }
    let share = covered as f64 / SUITES as f64;
    assert!(share >= 0.95, "{share}");
}

#[test]
fn a_cliff_is_found_with_both_its_sides() {
    let slow: Vec<(usize, f64)> = (0..4).map(|variant| (variant, 60.0)).collect();
    for better in [Better::Lower, Better::Higher] {
        let mut layouts = Layouts::new(&slow, 0.01, 1);
        let judgement = judge(&measured(&mut layouts), better, FLOOR);
        assert_eq!(judgement.verdict, Verdict::Matters);
        let high: Vec<Arm> = (0..4).map(Arm::Variant).collect();
        let low: Vec<Arm> = [Arm::Base]
            .into_iter()
            .chain((4..VARIANTS).map(Arm::Variant))
            .collect();
        let (fast, slow) = match better {
            Better::Lower => (low, high),
            Better::Higher => (high, low),
        };
        assert_eq!(
            (judgement.sides.fast, judgement.sides.slow),
            (fast, slow),
            "{better:?}"
        );
        assert!(judgement.sides.between.is_empty());
    }
}

#[test]
fn calm_layouts_do_not_matter_and_loud_ones_are_undecided() {
    let floor = Floor::Fixed(LogRatio::from_percent(1.0));
    let verdict = |noise, rounds| {
        let mut layouts = Layouts::new(&[], noise, 1);
        judge(
            &measure(plan(rounds), &mut layouts, &mut ()),
            Better::Lower,
            floor,
        )
        .verdict
    };
    assert_eq!(verdict(0.001, usual_rounds()), Verdict::DoesNotMatter);
    let Verdict::Undecided {
        more_rounds: Some(more),
    } = verdict(0.02, usual_rounds())
    else {
        panic!("{:?}", verdict(0.02, usual_rounds()));
    };
    assert!(more > 20, "{more}");
    // As many rounds as no verdict is possible with.
    let few = verdict(0.001, rounds_needed(VARIANTS) - 1);
    assert_eq!(
        few,
        Verdict::Undecided {
            more_rounds: Some(1)
        }
    );
}

#[test]
fn an_effect_below_the_floor_is_none() {
    let floor = Floor::Fixed(LogRatio::from_percent(5.0));
    let mut layouts = Layouts::new(&[(0, 2.0)], 0.001, 1);
    let judgement = judge(&measured(&mut layouts), Better::Lower, floor);
    assert_eq!(judgement.verdict, Verdict::DoesNotMatter);
    assert!(judgement.variants[0].p <= 0.05);
}

#[test]
fn every_layout_is_as_early_as_it_is_late() {
    let mut layouts = Layouts::new(&[], 0.01, 1);
    let rounds = measured(&mut layouts);
    assert_eq!(rounds.ended, Ended::AllRun);
    let runs = &layouts.runs[1..];
    let size = VARIANTS + 2;
    let orders: Vec<&[Arm]> = runs.chunks(size).collect();
    assert_eq!(orders.len(), usual_rounds());
    for two in orders.chunks_exact(2) {
        let backwards: Vec<Arm> = two[1].iter().rev().copied().collect();
        assert_eq!(two[0], backwards);
    }
    assert_ne!(orders[0], orders[2]);
}

#[test]
fn a_variant_that_fails_once_is_not_run_again_and_the_others_are() {
    let mut layouts = Layouts::new(&[], 0.01, 1);
    layouts.fault = |run, arm, trial| match arm {
        Arm::Variant(3) if run > 40 => Err("no luck"),
        _ => Ok(trial),
    };
    let rounds = measured(&mut layouts);
    assert_eq!(rounds.ended, Ended::AllRun);
    assert_eq!(rounds.arms[3], ArmEnded::Failed("no luck"));
    let failed = rounds.trials(Arm::Variant(3)).count();
    assert!((1..=3).contains(&failed), "{failed}");
    assert_eq!(rounds.trials(Arm::Variant(4)).count(), usual_rounds());
}

#[test]
fn the_base_fails_and_all_is_over_with_what_there_is() {
    let mut layouts = Layouts::new(&[], 0.01, 1);
    layouts.fault = |run, arm, trial| match arm {
        Arm::Base if run > 20 => Err("no luck"),
        _ => Ok(trial),
    };
    let rounds = measured(&mut layouts);
    assert_eq!(rounds.ended, Ended::Failed("no luck"));
    assert_eq!(rounds.trials(Arm::Base).count(), 1);
}

#[test]
fn interruptions_and_budgets_keep_what_was_measured() {
    let mut layouts = Layouts::new(&[], 0.01, 1);
    layouts.stops_after = 50;
    let rounds = measured(&mut layouts);
    assert_eq!(rounds.ended, Ended::Interrupted);
    assert_eq!(layouts.runs.len(), 50);
    let mut layouts = Layouts::new(&[], 0.01, 1);
    let plan = Plan {
        budget: Some(Seconds(30.0)),
        ..plan(usual_rounds())
    };
    let rounds = measure(plan, &mut layouts, &mut ());
    assert_eq!((rounds.ended, rounds.rounds.len()), (Ended::Budget, 3));
}

#[test]
fn disturbed_runs_are_repeated_and_do_not_count() {
    let mut layouts = Layouts::new(&[], 0.01, 1);
    layouts.fault = |run, _, mut trial| {
        if run.is_multiple_of(10) {
            trial.health.foreign = Some(trial.health.wall);
            trial.value *= 3.0;
        }
        Ok(trial)
    };
    let rounds = measured(&mut layouts);
    assert_eq!(rounds.ended, Ended::AllRun);
    assert!(rounds.disturbed() > 10, "{}", rounds.disturbed());
    assert_eq!(rounds.trials(Arm::Base).count(), usual_rounds());
    let judgement = judge(&rounds, Better::Lower, FLOOR);
    assert_ne!(judgement.verdict, Verdict::Matters);

    let disturbed = layouts.fault;
    layouts = Layouts::new(&[], 0.01, 1);
    layouts.fault = disturbed;
    let counted = Plan {
        count_disturbed: true,
        ..plan(usual_rounds())
    };
    let rounds = measure(counted, &mut layouts, &mut ());
    assert_eq!(rounds.ended, Ended::AllRun);
    assert_eq!(layouts.runs.len(), 1 + usual_rounds() * (VARIANTS + 2));
    assert_eq!(rounds.trials(Arm::Base).count(), usual_rounds());

    layouts = Layouts::new(&[], 0.01, 1);
    layouts.fault = |_, _, mut trial| {
        trial.health.foreign = Some(trial.health.wall);
        Ok(trial)
    };
    let rounds = measured(&mut layouts);
    assert_eq!(rounds.ended, Ended::Disturbed);
    assert_eq!(rounds.disturbed(), 21);
    let verdict = judge(&rounds, Better::Lower, FLOOR).verdict;
    assert_eq!(verdict, Verdict::Undecided { more_rounds: None });
}
