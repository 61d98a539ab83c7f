//! Numbers and names as people read them.

use hitm_model::{
    ExitStatus, Interval, Nanos, SamplerKind, SourceFrame, SourceLine, Svma, ThreadGroup, Verdict,
};

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

/// `2.8× [2.6, 3.0]`.
pub(crate) fn interval(interval: Interval) -> String {
    let Interval { ratio, low, high } = interval;
    let number = |number| decimal(number, decimals(ratio));
    format!("{}× [{}, {}]", number(ratio), number(low), number(high))
}

/// `2.8×`.
pub(crate) fn times(ratio: f64) -> String {
    format!("{}×", decimal(ratio, decimals(ratio)))
}

/// Two near 1, where they tell a cost from none.
fn decimals(ratio: f64) -> usize {
    match ratio {
        ratio if ratio < 1.5 => 2,
        ratio if ratio < 10.0 => 1,
        _ => 0,
    }
}

fn decimal(number: f64, decimals: usize) -> String {
    match number {
        number if number.is_finite() => format!("{number:.decimals$}"),
        number if number > 0.0 => "∞".into(),
        _ => "?".into(),
    }
}

/// `0.04 s`, `1.2 s`: time that adds up.
pub(crate) fn seconds(span: Nanos) -> String {
    match span.as_secs_f64() {
        0.0 => "0 s".into(),
        s if s < 0.005 => "< 0.01 s".into(),
        s if s < 0.095 => format!("{s:.2} s"),
        s if s < 9.5 => format!("{s:.1} s"),
        s => format!("{s:.0} s"),
    }
}

/// `512 bytes`, `12 KiB`, `3.5 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.into_iter().find(|(unit, _)| bytes >= *unit) {
        None => counted(bytes, "byte"),
        Some((unit, name)) => match bytes as f64 / unit as f64 {
            n if n < 9.95 && !bytes.is_multiple_of(unit) => format!("{n:.1} {name}"),
            n => format!("{n:.0} {name}"),
        },
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

/// `worker, src/main.c:40`: the innermost function of the program's own, or an address in the file.
pub(crate) fn spot(binary: &str, address: Svma, frames: &[SourceFrame]) -> String {
    function_and_line(frames).unwrap_or_else(|| in_file(binary, address))
}

/// `prog+0x1193`.
pub(crate) fn in_file(binary: &str, address: Svma) -> String {
    if binary.is_empty() {
        "code of no file".into()
    } else {
        format!("{binary}+{address}")
    }
}

/// `worker, src/main.c:40`; `None` where nothing is known.
pub(crate) fn function_and_line(frames: &[SourceFrame]) -> Option<String> {
    let own = frames.iter().find(|frame| !frame.is_library());
    let frame = own.or(frames.first())?;
    Some(match own_line(frames) {
        Some(line) => format!("{}, {}", frame.function, short_line(line)),
        None => frame.function.clone(),
    })
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
