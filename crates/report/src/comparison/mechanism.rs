//! The mechanism beside the number, in words.

use hitm_experiment::{
    ComparedRow, DecidedBy, Evidence, Mechanism, Outcome, Recording, SharedObjects, Sharing,
};
use hitm_model::Verdict;

use super::table::word;
use crate::words::counted;

/// Objects that are shown; the JSON has all.
const SHOWN: usize = 5;
/// Objects with a smaller share on both sides are not worth a line.
const LEAST_SHARE: f64 = 0.01;

/// For a cell of the table.
pub(super) fn in_a_word(says: &Mechanism) -> &'static str {
    match says {
        Mechanism::FalseSharingGone { .. } => "false sharing gone",
        Mechanism::FalseSharingNew { .. } => "false sharing is new",
        Mechanism::FalseSharingMoved { .. } => "false sharing of other objects",
        Mechanism::FalseSharingStays { .. } => "false sharing stays",
        Mechanism::NoFalseSharing => "no false sharing seen",
        Mechanism::CannotTell { .. } => "cannot tell",
    }
}

/// What the recordings show, and who decided.
pub(super) fn notes(row: &ComparedRow, evidence: &Evidence) -> Vec<String> {
    let mut notes = vec![says(&evidence.says)];
    notes.extend(decided(row));
    let worth = |object: &&SharedObjects| {
        let share = |side: &Option<Sharing>| side.as_ref().map_or(0.0, |sharing| sharing.share);
        share(&object.a).max(share(&object.b)) >= LEAST_SHARE
    };
    let worthy: Vec<&SharedObjects> = evidence.objects.iter().filter(worth).collect();
    for object in worthy.iter().take(SHOWN) {
        notes.push(format!(
            "{}: A: {}; B: {}",
            object.names.join(", "),
            side(object.a.as_ref(), evidence.a.as_ref().ok()),
            side(object.b.as_ref(), evidence.b.as_ref().ok())
        ));
    }
    if worthy.len() > SHOWN {
        let more = counted((worthy.len() - SHOWN) as u64, "object");
        notes.push(format!("{more} more are shared: --json has them"));
    }
    for (name, recording) in [("A", &evidence.a), ("B", &evidence.b)] {
        notes.push(match recording {
            Ok(recording) => format!("recording of {name}: {}", denominators(recording)),
            Err(why) => format!("{name} was not recorded: {why}"),
        });
    }
    notes
}

fn says(says: &Mechanism) -> String {
    let list = |objects: &[String]| objects.join("; ");
    match says {
        Mechanism::FalseSharingGone { objects } => format!(
            "mechanism: B no longer shares {} falsely, as A does",
            list(objects)
        ),
        Mechanism::FalseSharingNew { objects } => {
            format!(
                "mechanism: B shares {} falsely, and A does not",
                list(objects)
            )
        }
        Mechanism::FalseSharingMoved { gone, new } => format!(
            "mechanism: A shares {} falsely, B other objects: {}",
            list(gone),
            list(new)
        ),
        Mechanism::FalseSharingStays { objects } => {
            format!("mechanism: both sides share {} falsely", list(objects))
        }
        Mechanism::NoFalseSharing => {
            "mechanism: neither side was seen to share anything falsely".to_owned()
        }
        Mechanism::CannotTell { why } => format!("mechanism: cannot tell ({why})"),
    }
}

/// Which of the two decided, so that nobody takes the one for the other.
fn decided(row: &ComparedRow) -> Option<String> {
    let outcome = row.outcome()?;
    Some(match row.decided_by()? {
        DecidedBy::Pairs if matches!(outcome, Outcome::Improved | Outcome::Regressed) => {
            "decided by: the pairs".to_owned()
        }
        DecidedBy::Pairs => return None,
        DecidedBy::Mechanism => format!(
            "decided by: the mechanism, not the metric. By {} the sides are {}: nothing is said of a gain",
            row.metric,
            word(outcome)
        ),
    })
}

fn side(sharing: Option<&Sharing>, recording: Option<&Recording>) -> String {
    let Some(sharing) = sharing else {
        return match recording {
            Some(_) => "no threads met there".to_owned(),
            None => "not recorded".to_owned(),
        };
    };
    let kind = match sharing.verdict {
        Verdict::FalseSharing => "false sharing",
        Verdict::Mixed => "true and false sharing",
        Verdict::TrueSharing => "true sharing",
        Verdict::LockAndData => "a lock and its data",
        Verdict::Unproven => "perhaps shared",
    };
    format!(
        "{kind}, {} to a line, {} ({} with other bytes), at most {:.1} % of a thread's time",
        counted(sharing.writers_per_line as u64, "writer"),
        counted(sharing.conflicts, "conflict"),
        sharing.conflicts_disjoint,
        sharing.share * 100.0
    )
}

fn denominators(recording: &Recording) -> String {
    let mut text = format!(
        "{}, {} ran, {} of them wrote to memory that others could share",
        counted(recording.samples, "sample"),
        counted(recording.threads, "thread"),
        recording.writing_threads
    );
    if recording.undecoded > 0 {
        text.push_str(&format!(", {} not decoded", recording.undecoded));
    }
    if let Some(share) = recording.co_running {
        text.push_str(&format!(
            ", two of them side by side in {:.0} % of the time",
            share * 100.0
        ));
    }
    text
}
