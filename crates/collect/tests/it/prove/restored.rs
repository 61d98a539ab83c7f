//! What is recorded of windows, and that the threads are where they were, however it ended.

use std::sync::atomic::Ordering;

use hitm_collect::prove::Proved;
use hitm_model::{GroupOutcome, Placement, StopReason};
use hitm_testkit::{perf_available, skip};

use super::support::{Fighters, NO_HELPERS, eventually, options, prove_fighters, two_cpus_or_skip};
use crate::run::perf_or_skip;

#[test]
fn windows_are_recorded_and_the_masks_are_as_before() {
    perf_or_skip!();
    two_cpus_or_skip!();
    let mut fighters = Fighters::start(NO_HELPERS, &[]);
    let before = fighters.masks();
    let mut inside = Vec::new();
    let proven = prove_fighters(&mut fighters, &options(), |fighters, _, _| {
        inside.push(fighters.masks());
    });
    assert_eq!(fighters.masks(), before);
    // From the second window on the threads are where the first one had put them.
    assert!(inside[1..].iter().all(|masks| *masks != before));

    let (group, end) = (proven.group(), proven.end());
    assert_eq!(end.outcome, GroupOutcome::Complete);
    assert_eq!(proven.outcome.proved, Proved::Windows { groups: 1 });
    assert_eq!(proven.outcome.reason, StopReason::TimeOver);
    assert_eq!((group.planned, group.threads.len()), (3, 2));
    assert_eq!(group.cpus.len(), 2);
    assert_ne!(group.cpus[0], group.cpus[1]);
    let windows = proven.windows();
    assert_eq!(windows.len(), 6);
    for thread in 0..2 {
        let ran: u64 = windows.iter().map(|it| it.threads[thread].ran.0).sum();
        let values = windows.iter().flat_map(|it| &it.words[thread]);
        let values: Vec<u64> = values.map(|reading| reading.value).collect();
        assert!(ran > 0 && values.is_sorted() && values.last() > values.first());
    }
    for window in windows {
        let cpus: Vec<u32> = window.threads.iter().map(|thread| thread.cpu).collect();
        match window.placement {
            Placement::Apart => assert_ne!(cpus[0], cpus[1]),
            Placement::Together => assert_eq!(cpus[0], cpus[1]),
        }
        assert!(cpus.iter().all(|cpu| group.cpus.contains(cpu)));
        let length = window.end.since(window.start);
        assert!(length >= group.length);
        for thread in &window.threads {
            assert!(thread.ran.0 <= length.0 * 11 / 10, "{window:?}");
        }
        assert_eq!(window.words.len(), 2);
        for (readings, thread) in window.words.iter().zip(&window.threads) {
            assert_eq!(readings.len(), 7);
            assert!(readings.is_sorted_by_key(|it| (it.at, it.ran, it.value)));
            assert!(readings[6].ran <= thread.ran);
            let inside = window.start..=window.end;
            assert!(readings.iter().all(|it| inside.contains(&it.at)));
        }
    }
}

#[test]
fn threads_that_the_program_pinned_are_pinned_again() {
    perf_or_skip!();
    two_cpus_or_skip!();
    let mut fighters = Fighters::start(NO_HELPERS, &["1"]);
    let before = fighters.masks();
    let pinned: Vec<&str> = before.iter().map(|(_, mask)| mask.as_str()).collect();
    assert_eq!(pinned[1..], ["0", "1"]);
    let proven = prove_fighters(&mut fighters, &options(), |_, _, _| {});
    assert_eq!(proven.end().outcome, GroupOutcome::Complete);
    assert_eq!(fighters.masks(), before);
}

#[test]
fn an_interrupt_ends_the_windows_and_puts_everything_back() {
    perf_or_skip!();
    two_cpus_or_skip!();
    let mut fighters = Fighters::start(NO_HELPERS, &[]);
    let before = fighters.masks();
    let proven = prove_fighters(&mut fighters, &options(), |_, window, interrupt| {
        if window == 3 {
            interrupt.store(true, Ordering::Relaxed);
        }
    });
    assert_eq!(fighters.masks(), before);
    assert_eq!(proven.end().outcome, GroupOutcome::Interrupted);
    assert_eq!(proven.outcome.reason, StopReason::Interrupted);
    assert_eq!(proven.windows().len(), 2);
}

#[test]
fn fewer_windows_than_were_asked_for_are_not_all() {
    perf_or_skip!();
    two_cpus_or_skip!();
    let mut fighters = Fighters::start(NO_HELPERS, &[]);
    let options = hitm_collect::prove::ProveOptions {
        windows: Some(20),
        budget: Some(std::time::Duration::from_millis(1)),
        ..options()
    };
    let proven = prove_fighters(&mut fighters, &options, |_, _, _| {});
    assert_eq!(proven.end().outcome, GroupOutcome::TimeOver);
    assert_eq!((proven.group().planned, proven.windows().len()), (20, 8));
}

#[test]
fn a_panic_puts_everything_back() {
    perf_or_skip!();
    two_cpus_or_skip!();
    let mut fighters = Fighters::start(NO_HELPERS, &[]);
    let before = fighters.masks();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        prove_fighters(&mut fighters, &options(), |_, window, _| {
            assert!(window < 3, "as if hitm had a fault");
        });
    }));
    assert!(panicked.is_err());
    assert_eq!(fighters.masks(), before);
}

#[test]
fn a_thread_that_ends_ends_the_windows() {
    perf_or_skip!();
    two_cpus_or_skip!();
    let mut fighters = Fighters::start(NO_HELPERS, &[]);
    let before = fighters.masks();
    let proven = prove_fighters(&mut fighters, &options(), |fighters, window, _| {
        if window == 3 {
            fighters.command("end");
        }
    });
    assert_eq!(proven.end().outcome, GroupOutcome::ThreadEnded);
    assert!(proven.windows().len() < 6);
    // Two windows, of which one was together, had passed.
    assert!(proven.end().lost.0 > 0);
    assert_eq!(fighters.masks(), before[..2]);
}

#[test]
fn a_process_that_ends_ends_everything() {
    perf_or_skip!();
    two_cpus_or_skip!();
    let mut fighters = Fighters::start(NO_HELPERS, &[]);
    let pid = nix::unistd::Pid::from_raw(fighters.pid().0.cast_signed());
    let proven = prove_fighters(&mut fighters, &options(), |_, window, _| {
        if window == 2 {
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
        }
    });
    assert_eq!(proven.end().outcome, GroupOutcome::ThreadEnded);
    assert_eq!(proven.outcome.reason, StopReason::ProgramEnded);
}

#[test]
fn a_mask_that_the_program_sets_meanwhile_is_its_own() {
    perf_or_skip!();
    two_cpus_or_skip!();
    let mut fighters = Fighters::start(NO_HELPERS, &["1"]);
    let before = fighters.masks();
    let proven = prove_fighters(&mut fighters, &options(), |fighters, window, _| {
        if window == 2 {
            fighters.command("widen");
            eventually("the program widens", || fighters.masks()[1].1 == "0-1");
        }
    });
    let GroupOutcome::Refused(why) = &proven.end().outcome else {
        panic!("{:?}", proven.end());
    };
    assert!(why.contains("the program itself pins its threads"), "{why}");
    let masks = fighters.masks();
    assert_eq!(masks[1].1, "0-1", "left as the program set it");
    assert_eq!((&masks[0], &masks[2]), (&before[0], &before[2]));
}

#[test]
fn a_mask_that_is_set_before_the_first_move_is_given_back() {
    perf_or_skip!();
    two_cpus_or_skip!();
    let mut fighters = Fighters::start(NO_HELPERS, &["1"]);
    let before = fighters.masks();
    let proven = prove_fighters(&mut fighters, &options(), |fighters, window, _| {
        if window == 1 {
            fighters.command("widen");
            eventually("the program widens", || fighters.masks()[1].1 == "0-1");
        }
    });
    assert_eq!(proven.end().outcome, GroupOutcome::Complete);
    let masks = fighters.masks();
    assert_eq!(masks[1].1, "0-1", "what it was when it was moved first");
    assert_eq!((&masks[0], &masks[2]), (&before[0], &before[2]));
}

#[test]
fn a_guardian_that_is_gone_ends_the_windows() {
    perf_or_skip!();
    two_cpus_or_skip!();
    let mut fighters = Fighters::start(NO_HELPERS, &[]);
    let before = fighters.masks();
    let mut options = options();
    options.windows = Some(20);
    // A guardian that ends by itself after a while, without having restored anything.
    let script = "printf ! >&0; while read -r line; do case $line in ping) printf ! >&0; exec sleep 0.1; esac; done";
    options.guardian = ["sh", "-c", script].map(Into::into).into();
    let proven = prove_fighters(&mut fighters, &options, |_, _, _| {});
    let GroupOutcome::Refused(why) = &proven.end().outcome else {
        panic!("{:?}", proven.end());
    };
    assert!(why.contains("has ended"), "{why}");
    assert!(matches!(proven.outcome.proved, Proved::Refused(_)));
    assert_eq!(fighters.masks(), before);
}

#[test]
fn a_guardian_that_hears_nothing_for_too_long_restores() {
    perf_or_skip!();
    two_cpus_or_skip!();
    let mut fighters = Fighters::start(NO_HELPERS, &[]);
    let before = fighters.masks();
    let proven = prove_fighters(&mut fighters, &options(), |fighters, window, _| {
        if window == 2 {
            // As if hitm had been stopped. The threads are where the first window had them.
            assert_ne!(fighters.masks(), before);
            eventually("the guardian restores", || fighters.masks() == before);
        }
    });
    let GroupOutcome::Refused(why) = &proven.end().outcome else {
        panic!("{:?}", proven.end());
    };
    assert!(why.contains("stopped"), "{why}");
    assert_eq!(fighters.masks(), before);
    assert_eq!(proven.windows().len(), 1);
}
