//! Scaling experiments of known numbers, as a table, as JSON and as a picture.

use hitm_experiment::scale::{
    Evidence, Executor, Failed, Meaning, MetricName, Plan, Scaled, Threads, Work, judge, measure,
};
use hitm_experiment::{Health, LogRatio, Metric, Seconds, Trial};
use hitm_report::{
    PageOptions, SCALE_JSON_VERSION, scale_json, scale_json_schema, scale_svg, scale_table,
};
use serde_json::Value;

/// A program whose runs take so long, with a noise of a percent that is no chance.
struct Known(fn(f64) -> f64, usize);

impl Executor for Known {
    type Failure = String;

    fn run(&mut self, threads: Threads) -> Result<Trial, Failed<String>> {
        if threads.0 == 7 {
            return Err(Failed::Run("out of luck".into()));
        }
        self.1 += 1;
        let wall = (self.0)(f64::from(threads.0)) * (1.0 + (self.1 * 7 % 11) as f64 / 1000.0);
        let used = f64::from(threads.0).min(4.0);
        let health = Health {
            wall: Seconds(wall),
            cpu: Seconds(wall * used),
            processors: 4,
            ..Health::default()
        };
        Ok(Trial {
            value: wall,
            health,
        })
    }

    fn spent(&self) -> Seconds {
        Seconds(0.0)
    }
}

fn scaled(seconds: fn(f64) -> f64, points: &[u32], work: Option<Work>) -> Scaled {
    let plan = Plan {
        points: points.iter().copied().map(Threads).collect(),
        processors: 4,
        rounds: 9,
        warm_up: 0,
        most_repeats: 0,
        budget: None,
        seed: 1,
    };
    let rounds = measure(plan, &mut Known(seconds, 0), &mut ());
    let floor = LogRatio::from_percent(2.0);
    Scaled {
        command: vec!["./prog".into(), "<{n}>".into()],
        variables: vec![("OMP_NUM_THREADS".into(), "{n}".into())],
        metric: MetricName::from(&Metric::Wall),
        machine: "a machine".into(),
        judgement: judge(&rounds, Meaning::Time(work), floor),
        rounds,
        evidence: None,
    }
}

/// In the table stands all of this, and nothing that is longer than the terminal is wide.
fn check(scaled: &Scaled, says: &[&str]) {
    let mut text = Vec::new();
    let options = PageOptions {
        color: false,
        width: 100,
    };
    scale_table(scaled, &options, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for wanted in says {
        assert!(words.contains(wanted), "no `{wanted}` in: {text}");
    }
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    valid(scaled);
}

fn valid(scaled: &Scaled) -> Value {
    let mut text = Vec::new();
    scale_json(scaled, &mut text).unwrap();
    let document: Value = serde_json::from_slice(&text).unwrap();
    let schema: Value = serde_json::from_str(&scale_json_schema()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&document)
        .map(|e| e.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(document["version"], SCALE_JSON_VERSION);
    document
}

#[test]
fn negative_scaling_names_the_points_and_the_law_its_terms() {
    let slower = |n: f64| (1.0 + 0.2 * (n - 1.0) + 0.3 * n * (n - 1.0)) / n;
    let mut scaled = scaled(slower, &[1, 2, 3, 4, 8], Some(Work::Fixed));
    scaled.evidence = Some(Evidence {
        threads: Threads(4),
        report: Err("no samples".into()),
    });
    check(
        &scaled,
        &[
            "Negative scaling: slower on 4 than on 2 (",
            "look for a shared line before you blame the scheduler",
            "all runs do the same work",
            "OMP_NUM_THREADS='{n}' ./prog '<{n}>'",
            "8*",
            "○ time-sliced",
            "more threads than processors (4): time-sliced, neither judged nor fitted",
            "contention σ = 0.",
            "coherence κ = 0.",
            "What hitm run sees with n = 4",
            "not recorded: no samples",
        ],
    );
    let document = valid(&scaled);
    assert_eq!(document["verdict"], "negative");
    assert_eq!(document["slower"]["slow"], 4);
    assert_eq!(document["points"][4]["time_sliced"], true);
    let kappa = document["law"]["coherence"]["estimate"].as_f64().unwrap();
    assert!((0.25..0.35).contains(&kappa), "{kappa}");
}

#[test]
fn what_is_not_known_is_said() {
    check(
        &scaled(|_| 1.0, &[1, 2], None),
        &[
            "It depends on what a run does",
            "(--work fixed): saturating",
            "(--work per-thread): linear",
            "Too few cores to fit",
            "n = 2 to n = 1:",
        ],
    );
    check(
        &scaled(|n| 1.0 / n, &[1, 2, 7], Some(Work::Fixed)),
        &["Linear", "n = 7 failed: out of luck", "7*"],
    );
    check(
        &scaled(|n| 1.0 / n, &[5, 6], Some(Work::Fixed)),
        &["No verdict", "both at most 4"],
    );
}

#[test]
fn the_picture_has_every_point_and_escapes_the_command() {
    let mut text = Vec::new();
    let scaled = scaled(
        |n| (1.0 + 0.1 * (n - 1.0)) / n,
        &[1, 2, 3, 4, 8],
        Some(Work::Fixed),
    );
    scale_svg(&scaled, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.matches("<circle").count(), 5);
    assert_eq!(
        text.matches("fill=\"white\" stroke").count(),
        1,
        "one is time-sliced"
    );
    assert!(
        text.contains("&lt;{n}&gt;") && !text.contains("<{n}>"),
        "{text}"
    );
    assert!(text.contains("stroke=\"#06c\""), "the law is drawn");
}
