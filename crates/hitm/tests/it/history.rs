//! `hitm compare --save` and `hitm history`: what is kept, what is shown, and what a file that is something else, is
//! damaged, full or held by another gets.

use std::fs;
use std::path::Path;
use std::thread;

use hitm_testkit::Outcome;
use rusqlite::Connection;
use serde_json::Value;

use crate::session::Session;

/// Memory of a shell is the same whatever else the machine does, so that every comparison has a result.
fn save(session: &Session, file: &str, more: &[&str]) -> Outcome {
    let save = format!("--save={file}");
    let mut arguments = vec![
        "compare",
        "--aa",
        "--pairs",
        "6",
        "--noise-pairs",
        "0",
        "--warm-up",
        "0",
        "--metric",
        "value: ([0-9]+)",
        "--a",
        "x=sh -c 'echo value: 10000$$'",
        "--b",
        "y=sh -c 'echo value: 10000$$'",
        &save,
    ];
    arguments.extend(more);
    session.hitm(arguments)
}

fn says(outcome: &Outcome, code: i32, texts: &[&str]) {
    let all = format!("{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(outcome.status.code(), Some(code), "{all}");
    for text in texts {
        assert!(all.contains(text), "no `{text}` in: {all}");
    }
    assert!(!all.contains("panicked"), "{all}");
}

fn count(file: &Path, table: &str) -> i64 {
    let connection = Connection::open(file).unwrap();
    connection
        .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
            row.get(0)
        })
        .unwrap()
}

#[test]
fn every_outcome_and_every_run_is_kept() {
    let session = Session::new();
    let outcome = save(&session, "h.sqlite", &["--json=r.json"]);
    says(
        &outcome,
        outcome.status.code().unwrap(),
        &["saved in h.sqlite"],
    );
    let document = session.json("r.json");
    let trials = &document["rows"][0]["measured"]["trials"];
    let file = session.path("h.sqlite");
    assert_eq!(count(&file, "comparison"), 1);
    assert_eq!(count(&file, "row"), 1);
    assert_eq!(count(&file, "side"), 2);
    assert_eq!(
        count(&file, "trial"),
        trials.as_array().unwrap().len() as i64
    );
    let sum: f64 = trials
        .as_array()
        .unwrap()
        .iter()
        .map(|trial| trial["value"].as_f64().unwrap())
        .sum();
    let connection = Connection::open(&file).unwrap();
    let kept: f64 = connection
        .query_row("SELECT sum(value) FROM trial", [], |row| row.get(0))
        .unwrap();
    assert!((sum - kept).abs() < 1e-6 * sum, "{sum} {kept}");
}

/// A history as if it had been saved at one commit after the other: B over the same A, in percent.
fn made_up(session: &Session, name: &str, percent: &[f64]) {
    let outcome = save(session, name, &[]);
    says(&outcome, outcome.status.code().unwrap(), &["saved in"]);
    let connection = Connection::open(session.path(name)).unwrap();
    // Saved by hitm itself, so that tables and versions are its own; then the rest after its example.
    connection
        .execute_batch(
            "DELETE FROM trial; DELETE FROM side; DELETE FROM row; UPDATE comparison SET machine_key = 'one machine';",
        )
        .unwrap();
    for (at, percent) in percent.iter().enumerate() {
        let at = at as i64;
        let effect = (percent / 100.0).ln_1p();
        connection
            .execute(
                "INSERT INTO comparison SELECT id + 1 + ?1, saved_at + 1000 * ?1, hitm, machine, machine_key, a, b, aa, 1
                 FROM comparison WHERE id = 1",
                [at],
            )
            .unwrap();
        connection
            .execute(
                "INSERT INTO row (id, comparison, name, metric, unit, better, outcome, refusals, forced, ended, pairs, effect)
                 VALUES (?1 + 2, ?1 + 2, 'get', 'ops', '', 'higher', 'undecided', '', 0, 'all-run', 20, ?2)",
                rusqlite::params![at, effect],
            )
            .unwrap();
        for side in ["a", "b"] {
            connection
                .execute(
                    "INSERT INTO side (row, side, command, server, variables, sha256, git_commit, dirty, median)
                     VALUES (?1 + 2, ?2, './prog', '', '', 'base', printf('%040d', ?1), 0, 100)",
                    rusqlite::params![at, side],
                )
                .unwrap();
        }
    }
}

#[test]
fn a_step_and_a_drift_are_shown_with_their_commit() {
    let session = Session::new();
    let wobble = |i: usize| [0.0, 0.3, -0.2, 0.1, -0.3][i % 5];
    let step: Vec<f64> = (0..20)
        .map(|i| if i < 12 { wobble(i) } else { wobble(i) - 4.0 })
        .collect();
    made_up(&session, "h.sqlite", &step);
    let shown = session.hitm(["history", "--file", "h.sqlite", "--plot", "--row", "get"]);
    says(
        &shown,
        0,
        &[
            "worse by",
            "from 000000000000",
            "●",
            "on one machine",
            "20 points",
        ],
    );
    let json = session.hitm(["history", "--file", "h.sqlite", "--json"]);
    let document: Value = serde_json::from_str(&json.stdout).unwrap();
    let series = &document["series"][0];
    assert_eq!(series["changes"][0]["kind"], "step", "{series}");
    assert_eq!(series["changes"][0]["from"], 12);
    assert_eq!(series["points"].as_array().unwrap().len(), 20);
    assert_eq!(series["looked_at"], "against-base");

    let drift: Vec<f64> = (0..30).map(|i| wobble(i) - 0.15 * i as f64).collect();
    made_up(&session, "drift.sqlite", &drift);
    let shown = session.hitm(["history", "--file", "drift.sqlite"]);
    says(&shown, 0, &["worse little by little"]);
    let flat: Vec<f64> = (0..30).map(wobble).collect();
    made_up(&session, "flat.sqlite", &flat);
    let shown = session.hitm(["history", "--file", "flat.sqlite"]);
    says(&shown, 0, &["flat: no change"]);
}

#[test]
fn what_is_no_history_is_left_as_it_is() {
    let session = Session::new();
    let untouched = |name: &str, texts: &[&str]| {
        let before = fs::read(session.path(name)).unwrap();
        says(&save(&session, name, &[]), 2, texts);
        says(&session.hitm(["history", "--file", name]), 2, texts);
        assert!(
            fs::read(session.path(name)).unwrap() == before,
            "{name} was changed"
        );
    };
    fs::write(
        session.path("text"),
        "no database at all, but a text of some length\n".repeat(50),
    )
    .unwrap();
    untouched("text", &["is damaged, or no history", "not touched"]);
    let other = Connection::open(session.path("other")).unwrap();
    other.execute_batch("CREATE TABLE mine (x)").unwrap();
    drop(other);
    untouched("other", &["is a database, but no history of hitm"]);
    save(&session, "newer", &[]);
    let newer = Connection::open(session.path("newer")).unwrap();
    newer.pragma_update(None, "user_version", 99).unwrap();
    drop(newer);
    untouched("newer", &["version 99", "not touched"]);
    save(&session, "damaged", &[]);
    let mut bytes = fs::read(session.path("damaged")).unwrap();
    for page in bytes.chunks_mut(4096).skip(1) {
        page.fill(0xa5);
    }
    fs::write(session.path("damaged"), bytes).unwrap();
    untouched("damaged", &["damaged"]);
    let none = session.hitm(["history", "--file", "nowhere"]);
    says(&none, 2, &["there is no history at nowhere", "--save"]);
    says(
        &save(&session, "no/such/folder", &[]),
        2,
        &["cannot open the history", "--save=FILE"],
    );
    save(&session, "h", &[]);
    let unknown = session.hitm(["history", "--file", "h", "--row", "what"]);
    says(&unknown, 2, &["no row is called what"]);
}

#[test]
fn two_writers_at_once_both_save() {
    let session = Session::new();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let outcome = save(&session, "h", &[]);
                says(&outcome, outcome.status.code().unwrap(), &["saved in h"]);
            });
        }
    });
    assert_eq!(count(&session.path("h"), "comparison"), 4);
}

/// A limit on the size of files is a full disk, as far as SQLite can tell.
#[test]
fn a_full_disk_loses_nothing_that_was_there() {
    let session = Session::new();
    save(&session, "h", &[]);
    let size = fs::metadata(session.path("h")).unwrap().len();
    let limited = format!(
        "ulimit -f {}; exec {} compare --aa --pairs 20 --noise-pairs 20 --floor 0.0001 --metric rss --a 'x=sleep 0' --b 'y=sleep 0' --save=h",
        // In blocks of 512 or 1024 bytes, as the shell likes: either way not enough.
        size / 1024,
        env!("CARGO_BIN_EXE_hitm")
    );
    let outcome = session.shell(&limited);
    says(
        &outcome,
        2,
        &["cannot save in the history", "nothing else is lost"],
    );
    assert!(
        outcome.stdout.contains("B = y against A = x"),
        "shown all the same: {outcome:?}"
    );
    assert_eq!(count(&session.path("h"), "comparison"), 1);
    let shown = session.hitm(["history", "--file", "h"]);
    says(&shown, 0, &[]);
}
