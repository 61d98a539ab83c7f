//! `hitm prove` on the fixtures: what sharing costs where it does, that it is free where it is, and when there is no number.
//!
//! The windows are few and short here; what they measure is compared with what a repair gains by
//! `cargo xtask corpus DIR --prove`.

use std::path::Path;

use hitm_testkit::{
    Comparison, CompileError, Fixture, Layout, Outcome, ProofWanted, comparisons, fixture,
    fixtures, perf_available, quiet_machine, skip,
};

use crate::session::Session;

/// Below this share of the time nothing can be said about threads that were to run side by side.
const CO_RUNNING_ENOUGH: f64 = 0.25;
/// How often a proof is tried on a machine that is busy with something else.
const ATTEMPTS: usize = 3;

/// Windows that are long enough for programs that do nothing else.
const SHORT: [&str; 6] = ["--sample", "1", "--windows", "4", "--window", "60"];

/// What `hitm prove` said of a program, and whether the machine let it measure.
struct Proof {
    outcome: Outcome,
    comparisons: Vec<Comparison>,
    undisturbed: bool,
}

fn prove(session: &Session, program: &Path, arguments: &[&str]) -> Proof {
    let mut words = vec!["prove", "--json=report.json", "-o", "r.hitm"];
    words.extend(arguments);
    words.extend(["--", program.to_str().unwrap()]);
    let outcome = session.hitm_for(20_000, words);
    assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
    let report = session.json("report.json");
    let comparisons = comparisons(&report).unwrap();
    let co_running = report["totals"]["co_running_share"].as_f64();
    let disturbed =
        comparisons.is_empty() || comparisons.iter().any(|it| it.disturbed() || it.noisy());
    Proof {
        undisturbed: !disturbed && co_running.unwrap_or(0.0) >= CO_RUNNING_ENOUGH,
        outcome,
        comparisons,
    }
}

fn build(fixture: &Fixture, layout: Layout) -> Option<std::path::PathBuf> {
    match fixture.build(layout, None) {
        Ok(built) => Some(built.program),
        Err(CompileError::NoCompiler(compiler)) => {
            hitm_testkit::skipped(&format!("{}: no {compiler}", fixture.name));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// One layout of a fixture; repeated visibly while the machine does not let it be measured.
#[expect(clippy::print_stderr, reason = "a retry must be seen")]
fn check_layout(fixture: &Fixture, layout: Layout, wanted: &[ProofWanted]) {
    let title = format!("{} {layout:?}", fixture.name);
    let Some(program) = build(fixture, layout) else {
        return;
    };
    for attempt in 1..=ATTEMPTS {
        let session = Session::new();
        // Short windows may show too little of threads whose speed changes; the usual ones are to suffice.
        let windows: &[&str] = if attempt == 1 { &SHORT } else { &[] };
        let proof = prove(&session, &program, windows);
        if wanted.iter().any(|wanted| wanted.met(&proof.comparisons)) {
            return;
        }
        let said = format!(
            "wanted {wanted:?}, but {:#?}\nhitm said: {}",
            proof.comparisons, proof.outcome.stderr
        );
        let short = attempt == 1
            && !proof
                .comparisons
                .iter()
                .any(|it| it.ratios().next().is_some());
        assert!(short || !proof.undisturbed, "{title}: {said}");
        eprintln!("RETRY: {title}: attempt {attempt}: the machine was busy, or no number: {said}");
    }
    skip!("{title}: this machine is too busy to measure");
}

fn check(name: &str) {
    if let Err(why) = perf_available() {
        skip!("{name}: {why}");
    }
    let _alone = quiet_machine().unwrap();
    let fixture = fixture(name);
    for (layout, wanted) in &fixture.proofs {
        check_layout(&fixture, *layout, wanted);
    }
}

macro_rules! proofs {
    ($($name:ident)*) => {
        const LISTED: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                check(stringify!($name));
            }
        )*
    };
}

proofs! {
    adjacent_globals
    barrier_steps
    changing_pace
    mixed
    per_thread_array
    ping_pong
    plain_counters
    pointer_ring
    prefetch_neighbours
    published_counts
    refcount_payload
    shared_atomic
    spin_lock
    spinning_ring
    stack_lent
    statics
    streams
}

#[test]
fn every_fixture_with_a_proof_is_listed() {
    let proven = fixtures()
        .into_iter()
        .filter(|fixture| !fixture.proofs.is_empty());
    let names: Vec<String> = proven.map(|fixture| fixture.name).collect();
    assert_eq!(names, LISTED);
}

/// A program that two threads of fight over, for other ways to measure it.
fn fighting() -> Option<std::path::PathBuf> {
    build(&fixture("per_thread_array"), Layout::Faulty)
}

#[test]
fn a_recording_renders_the_same_costs_again() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    let Some(program) = fighting() else { return };
    let _alone = quiet_machine().unwrap();
    let session = Session::new();
    let proof = prove(&session, &program, &SHORT);
    let again = session.hitm(["report", "r.hitm", "--json=again.json"]);
    assert_eq!(again.status.code(), Some(0), "{}", again.stderr);
    assert_eq!(session.json("report.json"), session.json("again.json"));
    assert!(!proof.comparisons.is_empty(), "{}", proof.outcome.stderr);
}

#[test]
fn run_goes_on_to_the_programs_end() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    let Some(program) = fighting() else { return };
    let _alone = quiet_machine().unwrap();
    let session = Session::new();
    let mut words = vec!["run", "--prove", "--json=report.json"];
    words.extend(SHORT);
    words.extend(["--", program.to_str().unwrap()]);
    let outcome = session.hitm_for(4000, words);
    assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("batches="), "{}", outcome.stdout);
    let report = session.json("report.json");
    assert_eq!(report["child"]["code"], 0, "{}", outcome.stderr);
    assert_eq!(comparisons(&report).unwrap().len(), 1);
}

#[test]
fn a_program_that_ends_in_the_middle_is_told_so() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    let Some(program) = fighting() else { return };
    let _alone = quiet_machine().unwrap();
    let session = Session::new();
    // The windows are so long that few are over by then.
    let mut words = vec!["prove", "--sample", "0.5", "--window", "2000"];
    words.extend(["--json=r.json", "--", program.to_str().unwrap()]);
    let outcome = session.hitm_for(1500, words);
    assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
    let report = session.json("r.json");
    let comparisons = comparisons(&report).unwrap();
    let finding = &report["findings"][0];
    assert!(comparisons[0].refuses("ended"), "{comparisons:?}");
    // What sampling said of it stays.
    assert!(finding["severity"]["share"].as_f64().unwrap() > 0.0);
    assert!(finding["measured"].is_null(), "{finding}");
}
