//! Comparisons and histories, for people and for programs: what is said of each, and what is never said.

use hitm_experiment::{
    Better, Busiest, ComparedRow, Comparison, Evidence, Executor, Floor, Health, History,
    LibraryFacts, LogRatio, Looks, Mechanism, Metric, Plan, Point, ProgramFacts, Purpose, Refusal,
    Row, Seconds, SeriesKey, SharedObjects, Sharing, Side, SideFacts, Trial, conclude, run,
};
use hitm_model::{Confidence, Verdict};
use hitm_report::{
    HistoryTableOptions, comparison_json, comparison_json_schema, comparison_table, history_json,
    history_json_schema, history_table,
};
use serde_json::Value;

/// Runs whose values are 100 and a little, B's by a factor more.
struct Machine {
    factor: f64,
    runs: u32,
}

impl Executor for Machine {
    type Failure = String;

    fn run(&mut self, side: Side, _: Purpose) -> Result<Trial, String> {
        self.runs += 1;
        let factor = match side {
            Side::A => 1.0,
            Side::B => self.factor,
        };
        Ok(Trial {
            value: 100.0 * factor + f64::from(self.runs * 7 % 10) / 10.0,
            health: Health {
                wall: Seconds(1.0),
                cpu: Seconds(1.9),
                processors: 2,
                busiest: Some(Busiest {
                    client: 0.5,
                    server: 0.9,
                }),
                ..Health::default()
            },
        })
    }

    fn spent(&self) -> Seconds {
        Seconds(f64::from(self.runs))
    }
}

fn measured(factor: f64) -> Row<String> {
    let plan = Plan {
        looks: Looks::plan(20, 1),
        better: Better::Higher,
        floor: Floor::Fixed(LogRatio::from_percent(2.0)),
        warm_up: 1,
        noise_pairs: 2,
        most_repeats: 10,
        budget: None,
        seed: 1,
    };
    run(plan, &mut Machine { factor, runs: 0 }, &mut ())
}

fn side(name: &str, library: &str) -> SideFacts {
    SideFacts {
        name: name.into(),
        words: vec![format!("/{name}/prog"), "--threads".into(), "2".into()],
        variables: vec![("MODE".into(), name.into())],
        programs: vec![ProgramFacts {
            path: format!("/{name}/prog"),
            sha256: "same".into(),
            build_id: Some("0123456789abcdef0123".into()),
            libraries: vec![LibraryFacts {
                name: "libx.so".into(),
                path: Some(format!("/{name}/libx.so")),
                sha256: Some(library.into()),
                build_id: None,
            }],
        }],
        ..SideFacts::default()
    }
}

fn gone() -> Evidence {
    let recording = |met| hitm_experiment::Recording {
        samples: 1200,
        undecoded: 3,
        threads: 2,
        writing_threads: 2,
        co_running: Some(0.93),
        met,
    };
    Evidence {
        a: Ok(recording(true)),
        b: Ok(recording(false)),
        objects: vec![SharedObjects {
            names: vec!["cnt".into()],
            a: Some(Sharing {
                verdict: Verdict::FalseSharing,
                confidence: Confidence::High,
                lines: 1,
                writers_per_line: 2,
                conflicts: 800,
                conflicts_disjoint: 790,
                share: 0.612,
                false_share: 0.612,
            }),
            b: None,
        }],
        says: Mechanism::FalseSharingGone {
            objects: vec!["cnt".into()],
        },
    }
}

fn comparison(factor: f64, evidence: Option<Evidence>, refusals: Vec<Refusal>) -> Comparison {
    let row = measured(factor);
    let verdict = conclude(&[(&row, None)]).remove(0);
    Comparison {
        names: ["old".into(), "new".into()],
        asked: 1,
        rows: vec![ComparedRow {
            name: "get".into(),
            metric: Metric::parse("ops: ([0-9]+)").unwrap(),
            better: Better::Higher,
            a: side("old", "1"),
            b: side("new", "2"),
            git: None,
            refusals,
            forced: false,
            row: Some(row),
            again: None,
            verdict: Some(verdict),
            evidence,
        }],
        aa: false,
        complete: true,
        machine: "a machine".into(),
    }
}

fn table(comparison: &Comparison) -> String {
    let mut text = Vec::new();
    comparison_table(comparison, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// The document, which is valid.
fn document(schema: &str, text: &[u8]) -> Value {
    let schema: Value = serde_json::from_str(schema).unwrap();
    let document: Value = serde_json::from_slice(text).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&document)
        .map(|error| error.to_string())
        .collect();
    assert_eq!(errors, [""; 0]);
    document
}

fn row_of(comparison: &Comparison) -> Value {
    let mut text = Vec::new();
    comparison_json(comparison, &mut text).unwrap();
    document(&comparison_json_schema(), &text)["rows"][0].clone()
}

fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no `{part}` in: {text}");
    }
}

#[test]
fn what_was_compared_is_shown_with_all_that_differs() {
    let comparison = comparison(1.1, None, Vec::new());
    let text = table(&comparison);
    says(
        &text,
        &[
            "- A: /old/prog --threads 2 (build-id 0123456789ab)",
            "- library libx.so: A has /old/libx.so (sha256 1), B has /new/libx.so (sha256 2)",
            "- variable MODE: A sets it to \"old\", B sets it to \"new\"",
            "improved",
        ],
    );
    let row = row_of(&comparison);
    assert_eq!(row["outcome"], "improved");
    assert_eq!(row["decided_by"], "pairs");
    assert_eq!(row["evidence"], Value::Null);
    assert_eq!(row["measured"]["trials"][0]["busiest_server_thread"], 0.9);
}

#[test]
fn a_mechanism_decides_only_where_the_pairs_do_not_and_is_no_gain() {
    let same = comparison(1.0, Some(gone()), Vec::new());
    let text = table(&same);
    says(
        &text,
        &[
            "equivalent; mechanism: false sharing gone",
            "decided by: the mechanism, not the metric",
            "nothing is said of a gain",
            "cnt: A: false sharing, 2 writers to a line, 800 conflicts (790 with other bytes), at most 61.2 % of a thread's time; B: no threads met there",
            "1,200 samples, 2 threads ran, 2 of them wrote",
        ],
    );
    assert!(!text.contains("improved"), "{text}");
    let row = row_of(&same);
    assert_eq!(row["outcome"], "equivalent");
    assert_eq!(row["decided_by"], "mechanism");
    assert_eq!(row["evidence"]["says"], "false-sharing-gone");

    let faster = comparison(1.1, Some(gone()), Vec::new());
    says(&table(&faster), &["decided by: the pairs"]);
    assert_eq!(row_of(&faster)["decided_by"], "pairs");
}

#[test]
fn a_recording_that_failed_is_said_and_changes_nothing() {
    let mut evidence = gone();
    evidence.b = Err("refused (EPERM)".into());
    evidence.says = Mechanism::CannotTell {
        why: "B: refused (EPERM)".into(),
    };
    let comparison = comparison(1.1, Some(evidence), Vec::new());
    says(
        &table(&comparison),
        &[
            "improved",
            "cannot tell (B: refused (EPERM))",
            "B was not recorded",
        ],
    );
    assert_eq!(row_of(&comparison)["outcome"], "improved");
}

#[test]
fn what_is_refused_afterwards_is_no_result() {
    let refusal = Refusal::SaturatedClient {
        side: "new".into(),
        client: 0.99,
        server: 0.61,
    };
    let comparison = comparison(1.1, Some(gone()), vec![refusal]);
    let text = table(&comparison);
    says(
        &text,
        &[
            "refused: the client of new is at its limit",
            "99 % of the time, the server's 61 %",
            "try: give the client",
        ],
    );
    assert!(!text.contains("improved"), "{text}");
    let row = row_of(&comparison);
    assert_eq!(row["outcome"], "refused");
    assert_eq!(row["decided_by"], Value::Null);
}

fn history(percent: impl Fn(usize) -> f64, n: usize, bases: usize) -> History {
    let points = (0..n)
        .map(|i| Point {
            saved: format!("2026-01-{:02} 12:00", i + 1),
            commit: Some(format!("{i:012}f")),
            dirty: i == 0,
            value: 1000.0 * (1.0 + percent(i) / 100.0),
            effect: LogRatio::from_percent(percent(i)),
            base: format!("base{}", i % bases),
            outcome: "undecided".into(),
        })
        .collect();
    let key = SeriesKey {
        machine: "a machine".into(),
        row: "get".into(),
        metric: "ops: ([0-9]+)".into(),
        unit: String::new(),
        command: "prog --threads 2".into(),
    };
    History::of(vec![(key, Better::Higher, points)])
}

fn shown(history: &History, plot: bool) -> String {
    let options = HistoryTableOptions { plot, points: plot };
    let mut text = Vec::new();
    history_table(history, &options, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn wobble(i: usize) -> f64 {
    [0.0, 0.2, -0.1, 0.1, -0.2][i % 5]
}

#[test]
fn a_step_is_named_with_its_commit_and_drawn() {
    let history = history(|i| wobble(i) + if i < 10 { 0.0 } else { -5.0 }, 20, 1);
    says(
        &shown(&history, true),
        &[
            "get (ops: ([0-9]+), higher is better): prog --threads 2",
            "20 points from 2026-01-01 12:00 to 2026-01-20 12:00",
            "worse by -5.0 % from 000000000010 (2026-01-11 12:00) on",
            "of B against the same A",
            "+0.20 % ┤●●●● ●●●● │\n",
            "-0.48 % ┤    ●    ●│\n",
            "000000000000+",
        ],
    );
    let mut text = Vec::new();
    history_json(&history, &mut text).unwrap();
    let document = document(&history_json_schema(), &text);
    assert_eq!(document["series"][0]["changes"][0]["from"], 10);
}

#[test]
fn a_drift_a_flat_series_and_a_short_one_are_named() {
    let drift = history(|i| wobble(i) + 0.2 * i as f64, 25, 1);
    says(&shown(&drift, false), &["better little by little: +4."]);
    let flat = history(wobble, 25, 1);
    says(&shown(&flat, false), &["flat: no change of 1 % or more"]);
    let other_bases = history(wobble, 25, 2);
    says(
        &shown(&other_bases, false),
        &["B's own median, as A changed"],
    );
    let short = history(wobble, 3, 1);
    says(&shown(&short, true), &["too short", "5 points at least"]);
    let none = History::of(Vec::new());
    says(&shown(&none, true), &["no row with a result was saved yet"]);
}
