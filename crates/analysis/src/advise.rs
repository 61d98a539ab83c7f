//! One line of advice per finding: which object to move, how, and at what price.

use hitm_model::{Advice, AdviceKind, ByteRange, LineSize, ObjectKind, ThreadId, Verdict};

use crate::attribute::Attribution;

/// What a participant does with its bytes.
#[derive(Clone, Debug)]
pub(crate) struct Role {
    pub(crate) thread: ThreadId,
    pub(crate) writes: bool,
    pub(crate) range: ByteRange,
    pub(crate) attribution: Attribution,
}

/// What to do about a finding.
pub(crate) fn advise(verdict: Verdict, roles: &[Role], line: LineSize) -> Advice {
    match verdict {
        Verdict::FalseSharing => repair(roles, line),
        Verdict::Mixed => {
            let shared = shared_names(roles);
            let is_shared = |role: &Role| shared.contains(&role.attribution.field_path);
            let own: Vec<Role> = roles.iter().filter(|role| !is_shared(role)).cloned().collect();
            // Where everybody's bytes are shared with somebody, all of it is there to be taken apart.
            let mut advice = repair(if own.iter().any(|role| role.writes) { &own } else { roles }, line);
            if !shared.is_empty() {
                advice.text =
                    format!("{}; {} stays shared, padding does not help it", advice.text, list(&shared));
            }
            advice
        }
        Verdict::TrueSharing => share_less(roles),
        Verdict::LockAndData => Advice {
            kind: AdviceKind::LeaveAsIs,
            text: "a lock beside the data it guards: one transfer brings both, padding would make it two; \
                   shorten the time the lock is held or split the lock"
                .into(),
            added_bytes: None,
        },
        Verdict::Unproven => Advice {
            kind: AdviceKind::LeaveAsIs,
            text: "gather more evidence before changing anything".into(),
            added_bytes: None,
        },
    }
}

fn repair(roles: &[Role], line: LineSize) -> Advice {
    let objects = names(
        roles
            .iter()
            .map(|role| role.attribution.object.name.as_str()),
    );
    let fields = names(
        roles
            .iter()
            .map(|role| role.attribution.field_path.as_str()),
    );
    if let [object] = objects.as_slice() {
        if fields.len() > 1
            && let Some(advice) = pad_elements(roles, object, line)
        {
            return advice;
        }
        return split_fields(roles, object, line);
    }
    isolate_written(roles, line)
}

/// Neighbouring elements of one array, each a thread's own.
fn pad_elements(roles: &[Role], object: &str, line: LineSize) -> Option<Advice> {
    let element = roles[0].attribution.element?;
    let line_bytes = u64::from(line.bytes());
    let array = roles
        .iter()
        .map(|role| wildcard(&role.attribution.field_path));
    let mut patterns: Vec<String> = array.collect();
    patterns.sort();
    patterns.dedup();
    let [pattern] = patterns.as_slice() else {
        return None;
    };
    if !pattern.contains("[*]") || element.size >= line_bytes {
        return None;
    }
    let padded = element.size.next_multiple_of(line_bytes);
    let array = pattern.split("[*]").next().unwrap_or(object);
    Some(Advice {
        kind: AdviceKind::PadElements,
        text: format!(
            "give each element of {array} a line of its own: {} (each grows from {} to {padded} bytes)",
            align(roles, "the element type", line),
            element.size,
        ),
        added_bytes: element
            .count
            .checked_mul(padded - element.size)
            .filter(|bytes| *bytes > 0),
    })
}

/// Fields of one structure.
fn split_fields(roles: &[Role], object: &str, line: LineSize) -> Advice {
    let written = written(roles);
    if let Some(count) = written.iter().find(|name| is_reference_count(name)) {
        return Advice {
            kind: AdviceKind::SplitFields,
            text: format!(
                "{count} is changed by every clone and drop: borrow instead of cloning on the hot path, or move the \
                 data off its line: {}",
                align(roles, "the shared type", line)
            ),
            added_bytes: Some(u64::from(line.bytes())),
        };
    }
    let names = list(&written);
    Advice {
        kind: AdviceKind::SplitFields,
        text: format!(
            "move {names} in {object} to a line of its own: {}, and nothing behind it on that line",
            align(roles, &names, line)
        ),
        added_bytes: Some(u64::from(line.bytes())),
    }
}

/// Objects that only happen to be neighbours.
fn isolate_written(roles: &[Role], line: LineSize) -> Advice {
    let written = written(roles);
    let names = list(&written);
    let heap = roles
        .iter()
        .all(|role| role.attribution.object.kind == ObjectKind::Heap);
    let how = if heap {
        format!("allocate each with an alignment and a size of {line} bytes")
    } else {
        format!(
            "{}, padded to {line} bytes so that no neighbour moves in",
            align(roles, "it", line)
        )
    };
    let count = written.len() as u64;
    Advice {
        kind: AdviceKind::IsolateWritten,
        text: format!("put {names} (written) on a line of its own: {how}"),
        added_bytes: Some(count * u64::from(line.bytes())),
    }
}

fn share_less(roles: &[Role]) -> Advice {
    let mut writers: Vec<ThreadId> = roles
        .iter()
        .filter(|role| role.writes)
        .map(|role| role.thread)
        .collect();
    writers.sort();
    writers.dedup();
    let what = list(&written(roles));
    let text = if writers.len() > 1 {
        format!(
            "padding cannot help: these threads change the same bytes of {what}; give each thread a copy of its own \
             and add them up when reading"
        )
    } else {
        format!(
            "padding cannot help: the readers need what is written to {what}; write it less often, or keep what is \
             read often apart from it"
        )
    };
    Advice {
        kind: AdviceKind::PerThreadCopies,
        text,
        added_bytes: None,
    }
}

/// The fields that two threads use.
fn shared_names(roles: &[Role]) -> Vec<String> {
    let shared = roles.iter().filter(|role| {
        roles.iter().any(|other| {
            other.thread != role.thread
                && other.range.overlaps(role.range)
                && (other.writes || role.writes)
        })
    });
    names(shared.map(|role| role.attribution.field_path.as_str()))
}

fn written(roles: &[Role]) -> Vec<String> {
    names(
        roles
            .iter()
            .filter(|role| role.writes)
            .map(|role| role.attribution.field_path.as_str()),
    )
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for name in names {
        if !seen.iter().any(|known| known == name) {
            seen.push(name.to_owned());
        }
    }
    seen
}

/// Names joined for a sentence; many are cut short.
fn list(names: &[String]) -> String {
    match names {
        [] => "it".into(),
        [one] => one.clone(),
        [one, two] => format!("{one} and {two}"),
        [one, two, three] => format!("{one}, {two} and {three}"),
        [one, two, rest @ ..] => format!("{one}, {two} and {} more", rest.len()),
    }
}

fn is_reference_count(name: &str) -> bool {
    ["ArcInner", "RcInner"]
        .iter()
        .any(|inner| name.starts_with(inner))
        && (name.ends_with(".strong") || name.ends_with(".weak"))
        || name.ends_with("_M_use_count")
        || name.ends_with("_M_weak_count")
}

fn align(roles: &[Role], what: &str, line: LineSize) -> String {
    if roles.iter().any(|role| role.attribution.rust) {
        format!("wrap {what} in a `#[repr(align({line}))]` struct")
    } else {
        format!("`alignas({line})` on {what}")
    }
}

/// `COUNTS[3].hits` → `COUNTS[*].hits`
fn wildcard(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(open) = rest.find('[') {
        let (head, tail) = rest.split_at(open + 1);
        out.push_str(head);
        let digits = tail
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(tail.len());
        if digits > 0 && tail[digits..].starts_with(']') {
            out.push('*');
            rest = &tail[digits..];
        } else {
            rest = tail;
        }
    }
    out.push_str(rest);
    out
}
