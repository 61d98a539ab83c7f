//! What is refused, each with what to do.

use std::sync::atomic::AtomicBool;

use hitm_collect::{
    AttachOptions, Rate,
    prove::{Planned, Planner, Prove, Proved},
    prove_attach,
};
use hitm_model::{GroupOutcome, Nanos, StopReason};
use hitm_recording::Writer;
use hitm_testkit::{have_tool, perf_available, skip};

use super::support::{Fighters, NO_HELPERS, options, prove_fighters, two_cpus_or_skip};
use crate::{program::Shared, run::perf_or_skip};

fn refused(fighters: &mut Fighters, words: &[&str]) {
    let before = fighters.masks();
    let proven = prove_fighters(fighters, &options(), |_, _, _| {});
    assert_eq!(fighters.masks(), before);
    let end = proven.end();
    let GroupOutcome::Refused(why) = &end.outcome else {
        panic!("{end:?}");
    };
    for word in words {
        assert!(why.contains(word), "{word}: {why}");
    }
    assert!(proven.windows().is_empty());
    assert_eq!(end.lost, Nanos(0));
    assert_eq!(proven.group().threads.len(), 2);
    assert_eq!(proven.outcome.proved, Proved::Windows { groups: 0 });
}

#[test]
fn a_process_that_may_use_one_processor_is_left_there() {
    perf_or_skip!();
    if !have_tool("taskset") {
        skip!("taskset is missing");
    }
    let first = super::support::masks_of(hitm_model::Pid(std::process::id()))[0]
        .1
        .clone();
    let first = first.split([',', '-']).next().unwrap();
    let mut fighters = Fighters::start_as(&["taskset", "-c", first], NO_HELPERS, &[]);
    refused(&mut fighters, &["one processor only", "taskset"]);
}

/// Its first fighter runs before all others, if that is permitted; it says so.
const REAL_TIME: &str = r#"
static void helper(int who, long turn) {
    if (who || turn) usleep(1000);
    struct sched_param param = { .sched_priority = 1 };
    if (who == 0 && turn == 0) sched_setscheduler(0, SCHED_RR, &param);
}
static void command(const char *line) {
    if (line[0] != 'q') return;
    int policy;
    struct sched_param param;
    pthread_getschedparam(threads[0], &policy, &param);
    printf("%d\n.\n", policy);
    fflush(stdout);
}"#;

#[test]
fn threads_with_real_time_priority_are_not_moved() {
    perf_or_skip!();
    two_cpus_or_skip!();
    let mut fighters = Fighters::start(REAL_TIME, &[]);
    std::thread::sleep(std::time::Duration::from_millis(100));
    if fighters.said() != [libc_sched_rr()] {
        skip!("real-time priority is not permitted");
    }
    refused(&mut fighters, &["real-time priority (SCHED_RR)", "chrt"]);
}

/// `SCHED_RR`, as the program prints it.
const fn libc_sched_rr() -> u32 {
    2
}

/// Says one thing, or nothing ever.
struct Says(Option<Planned>);

impl Planner for Says {
    fn plan(&mut self) -> Option<Planned> {
        self.0.clone()
    }
}

fn proved(says: Option<Planned>) -> (Proved, StopReason) {
    let fighters = Fighters::start(NO_HELPERS, &[]);
    let interrupt = AtomicBool::new(false);
    let attach = AttachOptions {
        pid: fighters.pid(),
        rate: Rate::Hz(100),
        duration: Some(std::time::Duration::from_secs(3)),
        interrupt: &interrupt,
    };
    let options = options();
    let prove = Prove {
        options: &options,
        planner: &mut Says(says),
    };
    let writer = Writer::new(Shared::default()).unwrap();
    let outcome = prove_attach(&attach, prove, writer, &mut |_| {}).unwrap();
    (outcome.proved, outcome.reason)
}

#[test]
fn what_the_planner_says_is_passed_on() {
    perf_or_skip!();
    let refused = Planned::Refused("no such thread".into());
    assert_eq!(
        proved(Some(refused)),
        (
            Proved::Refused("no such thread".into()),
            StopReason::TimeOver
        )
    );
    let nothing = Planned::NothingYet("nothing shared".into());
    assert_eq!(
        proved(Some(nothing)).0,
        Proved::Nothing("nothing shared".into())
    );
    assert!(matches!(proved(None).0, Proved::Nothing(_)));
    assert_eq!(
        proved(Some(Planned::Groups(Vec::new()))).0,
        Proved::Windows { groups: 0 }
    );
}

#[test]
fn a_process_that_another_one_measures_is_left_to_it() {
    perf_or_skip!();
    two_cpus_or_skip!();
    let mut fighters = Fighters::start(NO_HELPERS, &[]);
    let before = fighters.masks();
    let mut second = None;
    let first = prove_fighters(&mut fighters, &options(), |fighters, window, _| {
        if window == 2 {
            let masks = fighters.masks();
            second = Some(prove_fighters(fighters, &options(), |_, _, _| {}));
            assert_eq!(fighters.masks(), masks);
        }
    });
    let Some(Proved::Refused(why)) = second.map(|second| second.outcome.proved) else {
        panic!("a second one measured");
    };
    assert!(why.contains("another hitm"), "{why}");
    assert_eq!(first.end().outcome, GroupOutcome::Complete);
    assert_eq!(fighters.masks(), before);
    // Its end lets others in.
    let third = prove_fighters(&mut fighters, &options(), |_, _, _| {});
    assert_eq!(third.end().outcome, GroupOutcome::Complete);
}

#[test]
fn with_a_guardian_that_does_not_answer_nothing_is_moved() {
    perf_or_skip!();
    two_cpus_or_skip!();
    let mut fighters = Fighters::start(NO_HELPERS, &[]);
    let before = fighters.masks();
    let stopped = ["sh", "-c", "printf ! >&0; kill -STOP $$"];
    let options = hitm_collect::prove::ProveOptions {
        guardian: stopped.map(Into::into).into(),
        ..options()
    };
    let proven = prove_fighters(&mut fighters, &options, |_, _, _| {});
    let Proved::Refused(why) = &proven.outcome.proved else {
        panic!("{:?}", proven.outcome);
    };
    assert!(why.contains("does not answer"), "{why}");
    assert!(proven.windows().is_empty());
    assert_eq!(fighters.masks(), before);
}

#[test]
fn without_a_guardian_nothing_is_moved() {
    perf_or_skip!();
    two_cpus_or_skip!();
    for guardian in [
        vec![],
        vec!["/nonexistent/hitm".into()],
        vec!["false".into()],
    ] {
        let mut fighters = Fighters::start(NO_HELPERS, &[]);
        let before = fighters.masks();
        let options = hitm_collect::prove::ProveOptions {
            guardian,
            ..options()
        };
        let proven = prove_fighters(&mut fighters, &options, |_, _, _| {});
        let Proved::Refused(why) = &proven.outcome.proved else {
            panic!("{:?}", proven.outcome);
        };
        assert!(why.contains("cannot be started"), "{why}");
        assert_eq!(fighters.masks(), before);
    }
}
