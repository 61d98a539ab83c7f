//! Every fixture under `hitm run`: the verdict, who does what, and what it is called.

use hitm_model::Verdict;
use hitm_testkit::{
    Claim, CompileError, Expected, Fixture, Language, Layout, Outcome, Variant, compile_program,
    fixture, fixtures, judge, parse_truth, perf_available, quiet_machine, skip,
};
use serde_json::Value;

use crate::session::Session;

/// Below this share of the time nothing can be said about threads that were to run side by side.
const CO_RUNNING_ENOUGH: f64 = 0.25;

/// What a run is compared with.
struct Wanted<'a> {
    verdict: Option<Verdict>,
    /// How the field paths end, in the order of the addresses that the program prints.
    endings: Vec<Option<String>>,
    named: bool,
    one_finding: Option<&'a str>,
}

impl<'a> Wanted<'a> {
    fn of(fixture: &'a Fixture, expected: &Expected, named: bool) -> Self {
        Self {
            verdict: expected.verdict,
            endings: expected
                .parties
                .iter()
                .map(|party| party.ending.clone())
                .collect(),
            named,
            one_finding: fixture
                .one_finding
                .as_deref()
                .filter(|_| expected.verdict.is_some()),
        }
    }

    /// Everything that is wrong with a report.
    fn wrong(&self, outcome: &Outcome, report: &Value) -> Vec<String> {
        let truths = parse_truth(&outcome.stderr).unwrap();
        if self.verdict.is_some() {
            assert_eq!(truths.len(), self.endings.len(), "{}", outcome.stderr);
        }
        let claims: Vec<Claim> = truths
            .into_iter()
            .zip(&self.endings)
            .map(|(truth, ending)| Claim {
                truth,
                ending: ending.clone(),
                named: self.named,
            })
            .collect();
        let judgement = judge(report, self.verdict, &claims).unwrap();
        let mut wrong = judgement.wrong;
        if let Some(object) = self.one_finding
            && !judgement.found.iter().any(|found| found.contains(object))
        {
            wrong.push(format!(
                "no finding of {object}, but {}",
                judgement.found.join(", ")
            ));
        }
        wrong
    }
}

/// What came of a run that may have to be repeated.
enum Live {
    Judged(Vec<String>),
    DidNotCoRun,
}

/// Runs `once` again if its threads did not run side by side, and says so.
#[expect(clippy::print_stderr, reason = "a retry must be seen")]
fn with_retry(title: &str, mut once: impl FnMut() -> (Vec<String>, Option<f64>)) -> Live {
    for attempt in 1..=2 {
        let (wrong, co_running) = once();
        let share = co_running.unwrap_or(0.0);
        if wrong.is_empty() || share >= CO_RUNNING_ENOUGH {
            return Live::Judged(wrong);
        }
        eprintln!(
            "RETRY: {title}: attempt {attempt}: the threads ran side by side in only {:.0} % of the time: {}",
            share * 100.0,
            wrong.join("; ")
        );
    }
    Live::DidNotCoRun
}

fn run_once(
    program: &std::path::Path,
    arguments: &[&str],
    wanted: &Wanted<'_>,
) -> (Vec<String>, Option<f64>) {
    let (outcome, report) = Session::new().run(program, arguments);
    let mut wrong = wanted.wrong(&outcome, &report);
    if !wrong.is_empty() {
        wrong.push(format!("hitm said: {}", outcome.stderr));
    }
    (
        wrong,
        report
            .pointer("/totals/co_running_share")
            .and_then(Value::as_f64),
    )
}

/// One layout of a fixture, built in one way.
fn check_build(fixture: &Fixture, layout: Layout, variant: Option<&Variant>) {
    let expected = fixture.expected(layout).unwrap();
    let title = format!(
        "{} {layout:?} {}",
        fixture.name,
        variant.map_or("", |variant| &variant.name)
    );
    let program = match fixture.build(layout, variant) {
        Ok(built) => built.program,
        Err(CompileError::NoCompiler(compiler)) => skip!("{title}: no {compiler}"),
        Err(error) => panic!("{error}"),
    };
    let wanted = Wanted::of(fixture, expected, !variant.is_some_and(Variant::stripped));
    match with_retry(&title, || run_once(&program, &["--addrs"], &wanted)) {
        Live::Judged(wrong) => assert!(wrong.is_empty(), "{title}: {}", wrong.join("\n")),
        Live::DidNotCoRun => skip!("{title}: this machine does not run two threads side by side"),
    }
}

/// All layouts and builds of a fixture.
fn check(name: &str) {
    if let Err(why) = perf_available() {
        skip!("{name}: {why}");
    }
    let _alone = quiet_machine().unwrap();
    let fixture = fixture(name);
    for (layout, _) in &fixture.layouts {
        check_build(&fixture, *layout, None);
    }
    for variant in &fixture.variants {
        check_build(&fixture, Layout::Faulty, Some(variant));
    }
}

macro_rules! live {
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

live! {
    adjacent_globals
    arc_fields
    barrier_steps
    births
    changing_pace
    heap_neighbours
    heap_reuse
    library
    lock_and_data
    lock_unrelated
    mixed
    padded
    per_thread_array
    phased
    ping_pong
    plain_counters
    pointer_chain
    pointer_ring
    prefetch_neighbours
    published_counts
    read_only
    refcount_payload
    ring_indices
    scoped_array
    shards
    shared_atomic
    spin_lock
    spinning_ring
    stack_lent
    static_local
    statics
    streams
    struct_array
    thread_local
    tls_lent
    wide_array
}

#[test]
fn every_fixture_is_listed() {
    let names: Vec<String> = fixtures().into_iter().map(|fixture| fixture.name).collect();
    assert_eq!(names, LISTED);
}

/// Story 1: both variables, the guard, both functions, a write against reads, and nothing once the cursor is isolated.
#[test]
fn lab_of_story_1() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    let source =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/story1/story1.cpp");
    let program = match compile_program(Language::Cpp, &source, &["-O3", "-fno-toplevel-reorder"]) {
        Ok(built) => built.program,
        Err(CompileError::NoCompiler(compiler)) => skip!("no {compiler}"),
        Err(error) => panic!("{error}"),
    };
    let _alone = quiet_machine().unwrap();
    let packed = Wanted {
        verdict: Some(Verdict::FalseSharing),
        endings: ["mem_array_idx", "global_epoch", "guard of *"]
            .map(|ending| Some(ending.to_owned()))
            .into(),
        named: true,
        one_finding: Some("mem_array_idx"),
    };
    let fixed = Wanted {
        verdict: None,
        endings: Vec::new(),
        named: true,
        one_finding: None,
    };
    for (arguments, wanted) in [
        (&["--seconds", "1", "--addrs"][..], packed),
        (&["--seconds", "1", "--addrs", "--fixed"], fixed),
    ] {
        let judged = with_retry("story 1", || {
            let (outcome, report) = Session::new().run(&program, arguments);
            let mut wrong = wanted.wrong(&outcome, &report);
            if wanted.verdict.is_some() {
                let functions = functions(&report);
                for name in ["Spawner<false>::run", "WorkQueue::dequeue"] {
                    if !functions.iter().any(|function| function.contains(name)) {
                        wrong.push(format!("{name} is not named, but {functions:?}"));
                    }
                }
            }
            (
                wrong,
                report
                    .pointer("/totals/co_running_share")
                    .and_then(Value::as_f64),
            )
        });
        match judged {
            Live::Judged(wrong) => assert!(wrong.is_empty(), "{arguments:?}: {}", wrong.join("\n")),
            Live::DidNotCoRun => skip!("this machine does not run two threads side by side"),
        }
    }
}

/// All functions that any participant's sites name.
fn functions(report: &Value) -> Vec<String> {
    let list = |json: &Value, key: &str| json[key].as_array().cloned().unwrap_or_default();
    list(report, "findings")
        .iter()
        .flat_map(|finding| list(finding, "participants"))
        .flat_map(|participant| list(&participant, "sites"))
        .flat_map(|site| list(&site, "frames"))
        .filter_map(|frame| frame["function"].as_str().map(str::to_owned))
        .collect()
}
