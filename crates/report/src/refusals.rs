//! Why a thread has no measured cost, as a plain sentence that ends in what to do.

use hitm_model::{CoLocated, GroupOutcome, NoCost, Waiting};

use crate::measured::Joined;
use crate::words::{count, counted, function_and_line, percent, times};

/// How to name what progress is measured by.
const NAME_ONE: &str = "`--progress SYMBOL` or `--progress FILE:LINE`";

/// Why a thread of `group` has no cost. Nothing of it is about that thread alone, so that threads of one fate are told
/// together.
pub(crate) fn refusal(why: &NoCost, group: &CoLocated, joined: Joined) -> String {
    match why {
        NoCost::TheyWait(_) => they_wait(group),
        NoCost::NoMeasure => {
            format!("no progress measure found, no number; name one: {NAME_ONE}")
        }
        NoCost::NamedUnfit { name, why } => format!(
            "no number: {name} does not tell how far it gets, {why}; name something that counts what it gets done, or leave \
             --progress out"
        ),
        NoCost::MeasuresDisagree { low, high } => format!(
            "no number: its measures of progress disagree, from {} to {}; name the right one: {NAME_ONE}",
            times(*low),
            times(*high)
        ),
        NoCost::TooFewWindows { dropped, of } => format!(
            "cannot tell on this machine now: in {} of {} a thread did not get its processor; try again while the \
             machine is quieter; where the program itself has more busy threads than there are processors, that takes a machine with more",
            count(u64::from(*dropped)),
            counted(u64::from(*of), "window"),
        ),
        NoCost::Ended { done, planned } => ended(*done, *planned, &group.outcome, joined),
        NoCost::Refused(text) => text.clone(),
    }
}

/// `ended after 3 of 16 windows (a thread ended); severity stays the sampled one; let it finish`.
fn ended(done: u32, planned: u32, outcome: &GroupOutcome, joined: Joined) -> String {
    let why = unfinished(outcome)
        .map(|why| format!(" ({why})"))
        .unwrap_or_default();
    let so = match joined {
        Joined::ByFinding => "; severity stays the sampled one",
        Joined::ByNothing => ", no number",
    };
    let mend = match outcome {
        GroupOutcome::TimeOver => "give it more time: `--budget SECONDS`",
        GroupOutcome::Interrupted => "let it finish",
        GroupOutcome::Complete | GroupOutcome::ThreadEnded | GroupOutcome::Refused(_) => {
            "give the program more work, or ask for fewer or shorter ones: `--windows N`, `--window MS`"
        }
    };
    format!(
        "ended after {} of {}{why}{so}; {mend}",
        count(u64::from(done)),
        counted(u64::from(planned), "window"),
    )
}

/// Why a group has fewer windows than were planned.
pub(crate) fn unfinished(outcome: &GroupOutcome) -> Option<&str> {
    match outcome {
        GroupOutcome::Complete => None,
        GroupOutcome::ThreadEnded => Some("a thread ended"),
        GroupOutcome::TimeOver => Some("the time for it was over"),
        GroupOutcome::Interrupted => Some("it was interrupted"),
        GroupOutcome::Refused(why) => Some(why),
    }
}

/// Each thread of the group that was seen to wait, in one sentence: where one waits, nothing can be told of the others.
fn they_wait(group: &CoLocated) -> String {
    let mut how: Vec<String> = Vec::new();
    for thread in &group.threads {
        if let Err(NoCost::TheyWait(waiting)) = &thread.cost {
            let text = waits(waiting);
            if !how.contains(&text) {
                how.push(text);
            }
        }
    }
    let asleep = group
        .threads
        .iter()
        .any(|thread| matches!(thread.cost, Err(NoCost::TheyWait(Waiting::Sleeps { .. }))));
    let why = if asleep {
        "what a thread gets done that sleeps does not depend on its processor time alone"
    } else {
        "as threads do that wait for each other, and on one core they wait differently"
    };
    format!(
        "cannot tell this way: {} ({why}); an A/B of the two layouts would tell: run both and compare (planned: \
         `hitm compare`)",
        how.join(", ")
    )
}

fn waits(waiting: &Waiting) -> String {
    match waiting {
        Waiting::Spins {
            thread,
            share,
            frames,
        } => {
            let place = function_and_line(frames)
                .map(|place| format!(" in {place}"))
                .unwrap_or_default();
            format!(
                "`{thread}` does nothing but look at what another writes{place} for {} of its samples",
                percent(*share)
            )
        }
        Waiting::Sleeps {
            thread,
            share,
            switches_per_second,
        } => format!(
            "`{thread}` sleeps for {} of the time and gives its processor up {} times a second",
            percent(*share),
            count(switches_per_second.round() as u64)
        ),
        Waiting::HandsOver {
            thread,
            switches_per_second,
        } => format!(
            "`{thread}` hands a common processor over {} times a second",
            count(switches_per_second.round() as u64)
        ),
    }
}
