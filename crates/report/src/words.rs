//! Numbers and names as people read them.

use hitm_model::{ExitStatus, SamplerKind, SourceFrame, SourceLine, ThreadGroup, Verdict};

/// `31,234`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 sample`, `2,000 samples`.
pub(crate) fn counted(n: u64, one: &str) -> String {
    format!("{} {one}{}", count(n), if n == 1 { "" } else { "s" })
}

/// `97 %`, `4.2 %`, `0.03 %`: two digits are all that a sample supports. What is not nothing never becomes `0 %`.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        p if p <= 0.0 || !p.is_finite() => "0 %".into(),
        p if p < 0.01 => "< 0.01 %".into(),
        p if p < 0.095 => format!("{p:.2} %"),
        p if p < 9.5 => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}

/// `the program exited with 1`, without the subject.
pub(crate) fn ending(status: ExitStatus) -> String {
    match status {
        ExitStatus::Code(code) => format!("exited with {code}"),
        ExitStatus::Signal(signal) => format!("killed by signal {signal}"),
    }
}

pub(crate) fn sampler(kind: SamplerKind) -> &'static str {
    match kind {
        SamplerKind::Perf => "perf",
        SamplerKind::Preload => "preloaded agent",
    }
}

/// `reader (tid 7)`, `worker-* × 8`.
pub(crate) fn threads(group: &ThreadGroup) -> String {
    match group.tids.as_slice() {
        [tid] => format!("{} (tid {tid})", group.name),
        [] => group.name.clone(),
        tids => format!("{} × {}", group.name, tids.len()),
    }
}

pub(crate) fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::FalseSharing => "false sharing",
        Verdict::Mixed => "mixed sharing",
        Verdict::TrueSharing => "true sharing",
        Verdict::LockAndData => "lock and data",
        Verdict::Unproven => "unproven sharing",
    }
}

/// `A, B and 3 more`.
pub(crate) fn some_of<'a>(names: impl ExactSizeIterator<Item = &'a str>, most: usize) -> String {
    let n = names.len();
    let shown = if n <= most { n } else { most - 1 };
    let mut text = String::new();
    for (i, name) in names.take(shown).enumerate() {
        if i > 0 {
            text.push_str(if i + 1 == n { " and " } else { ", " });
        }
        text.push_str(name);
    }
    if shown < n {
        text.push_str(&format!(" and {} more", n - shown));
    }
    text
}

/// `innermost ← outer`, as far as it is the program's own: of a language's library only the function that the program
/// called, because nobody looks for `fetch_add` in it. Of a long chain the innermost two and the outermost.
pub(crate) fn inline_chain(frames: &[SourceFrame]) -> String {
    let own: Vec<_> = frames.iter().filter(|frame| !frame.is_library()).collect();
    let called = frames.iter().take_while(|frame| frame.is_library()).last();
    let mut names: Vec<_> = called
        .into_iter()
        .chain(own)
        .map(|frame| frame.function.as_str())
        .collect();
    if names.len() > 4 {
        names.splice(3..names.len() - 1, ["…"]);
    }
    names.join(" ← ")
}

/// The line to look at: that of the innermost function of the program's own.
pub(crate) fn own_line(frames: &[SourceFrame]) -> Option<&SourceLine> {
    let own = frames
        .iter()
        .find(|frame| !frame.is_library() && frame.line.is_some());
    own.or(frames.first()).and_then(|frame| frame.line.as_ref())
}

/// A source line by the last two parts of its path.
pub(crate) fn short_line(line: &SourceLine) -> String {
    let parts: Vec<_> = line.file.rsplitn(3, '/').collect();
    match parts.as_slice() {
        [file, folder, rest] if !rest.is_empty() => SourceLine {
            file: format!("…/{folder}/{file}"),
            line: line.line,
        }
        .to_string(),
        _ => line.to_string(),
    }
}
