//! Who touches the line: a row for each, and the places in the code beneath it.

use std::io;

use hitm_model::{Finding, Participant, Site};
use unicode_width::UnicodeWidthStr;

use crate::page::{DIM, LETTER, Page, Span, plain, span, width_of};
use crate::words::{count, counted, inline_chain, own_line, percent, short_line, threads};

/// How many participants are listed without `all`.
const SHOWN: usize = 8;

/// How many sites of each are listed without `all`.
const SITES: usize = 2;

/// Which participants are listed, and by which letter each is called.
pub(super) struct Letters {
    /// By the index of the participant.
    letters: Vec<Option<char>>,
}

impl Letters {
    /// All participants of `finding`, or the first eight: those of the hottest line first, and the ones with more
    /// samples before the others. Letters go by the order in which the finding has them.
    pub(super) fn new(finding: &Finding, all: bool) -> Self {
        let participants = &finding.participants;
        let mut by_weight: Vec<_> = (0..participants.len()).collect();
        if !all {
            by_weight.sort_by_key(|&i| {
                (
                    participants[i].line,
                    std::cmp::Reverse(participants[i].samples),
                )
            });
            by_weight.truncate(SHOWN);
        }
        by_weight.sort_unstable();
        let mut letters = vec![None; participants.len()];
        for (i, letter) in by_weight.into_iter().zip('A'..='Z') {
            letters[i] = Some(if participants[i].kinds.writes() {
                letter
            } else {
                letter.to_ascii_lowercase()
            });
        }
        Self { letters }
    }

    /// The mark of the participant with index `i`: its letter, or that of all which are not listed.
    pub(super) fn of(&self, i: usize, participant: &Participant) -> char {
        let unlisted = if participant.kinds.writes() { '+' } else { '-' };
        self.letters.get(i).copied().flatten().unwrap_or(unlisted)
    }

    fn is_listed(&self, i: usize, all: bool) -> bool {
        all || self.letters[i].is_some()
    }
}

pub(super) fn participants(
    page: &mut Page<'_>,
    finding: &Finding,
    letters: &Letters,
    all: bool,
) -> io::Result<()> {
    let listed: Vec<_> = finding
        .participants
        .iter()
        .enumerate()
        .filter(|(i, _)| letters.is_listed(*i, all))
        .collect();
    let page_width = page.width();
    let several_lines = finding.lines.len() > 1;
    let cells: Vec<_> = listed
        .iter()
        .map(|(_, participant)| Cells::new(participant, several_lines))
        .collect();
    let widest = |cell: fn(&Cells) -> &str| cells.iter().map(|c| cell(c).width()).max();
    let who = widest(|cells| &cells.who).unwrap_or(0).max("threads".len());
    let does = widest(|cells| &cells.does).unwrap_or(0).max("does".len());
    let bytes = widest(|cells| &cells.bytes).unwrap_or(0).max("bytes".len());
    let time = widest(|cells| &cells.time)
        .unwrap_or(0)
        .max("of time".len());
    if !cells.is_empty() {
        page.row(&[span(
            DIM,
            format!(
                "      {:who$}  {:does$}  {:bytes$}  {:>time$}  field",
                "threads", "does", "bytes", "of time"
            ),
        )])?;
    }
    let places: Vec<Vec<Place>> = listed
        .iter()
        .map(|(_, participant)| Place::all(page_width, participant))
        .collect();
    // Participants that do it at the same places, as workers do, are listed together above these.
    let mut first = 0;
    for (i, cells) in cells.iter().enumerate() {
        let mark = |i: usize| letters.of(listed[i].0, listed[i].1);
        let front = [
            plain("   "),
            span(LETTER, mark(i).to_string()),
            plain(format!(
                "  {}  {}  {}  {}  ",
                left(&cells.who, who),
                left(&cells.does, does),
                left(&cells.bytes, bytes),
                right(&cells.time, time)
            )),
        ];
        row(page, front, listed[i].1)?;
        let same = |i: usize| places[i].iter().map(|place| &place.text);
        if i + 1 < listed.len() && !places[i].is_empty() && same(i).eq(same(i + 1)) {
            continue;
        }
        let together = (i > first).then(|| match (mark(first), mark(i)) {
            (from, to) if from.is_alphabetic() && to.is_alphabetic() => format!("{from}–{to}: "),
            _ => format!("these {}: ", i + 1 - first),
        });
        sites(page, &places[i], all, together)?;
        first = i + 1;
    }
    let hidden = finding.participants.len() - listed.len();
    if hidden > 0 {
        let samples = finding
            .participants
            .iter()
            .enumerate()
            .filter(|(i, _)| !letters.is_listed(*i, all))
            .map(|(_, participant)| participant.samples)
            .sum();
        page.row(&[span(
            DIM,
            format!("   … {hidden} more, with {}", counted(samples, "sample")),
        )])?;
    }
    Ok(())
}

/// The columns of a participant, but for the field.
struct Cells {
    who: String,
    does: String,
    bytes: String,
    time: String,
}

impl Cells {
    fn new(participant: &Participant, several_lines: bool) -> Self {
        let range = participant.range;
        let line = match participant.line {
            0 => String::new(),
            line if several_lines => format!(" line {}", line + 1),
            _ => String::new(),
        };
        Self {
            who: visible(&threads(&participant.threads)),
            does: participant.kinds.to_string(),
            bytes: format!("+{}..{}{line}", range.start, range.end),
            time: percent(participant.share()),
        }
    }
}

/// The field with its type where there is room, else without; a field that is too long itself goes to the next line.
fn row(page: &mut Page<'_>, front: [Span; 3], participant: &Participant) -> io::Result<()> {
    let path = plain(&participant.field_path);
    let kind = participant
        .field_type
        .iter()
        .map(|name| span(DIM, format!(": {name}")));
    let with_type: Vec<_> = std::iter::once(path.clone()).chain(kind).collect();
    let room = page.width() - width_of(&front).min(page.width());
    if width_of(&with_type) <= room {
        page.row(&[&front[..], &with_type].concat())
    } else if width_of(std::slice::from_ref(&path)) <= room {
        page.row(&[&front[..], &[path]].concat())
    } else {
        page.row(&front)?;
        page.paragraph(&[plain("      ")], 6, &with_type)
    }
}

/// A place in the source, which may be several instructions.
struct Place {
    text: String,
    /// Samples of its most frequent instruction: a sample may show several of them.
    samples: u64,
}

impl Place {
    /// All places of a participant, each once, those with most samples first.
    fn all(page_width: usize, participant: &Participant) -> Vec<Self> {
        let mut places: Vec<Self> = Vec::new();
        for site in &participant.sites {
            let text = place(page_width, site);
            if !places.iter().any(|known| known.text == text) {
                places.push(Self {
                    text,
                    samples: site.samples,
                });
            }
        }
        places
    }
}

fn sites(page: &mut Page<'_>, places: &[Place], all: bool, of: Option<String>) -> io::Result<()> {
    let shown = if all {
        places.len()
    } else {
        places.len().min(SITES)
    };
    for place in &places[..shown] {
        let mut text = vec![plain(&place.text)];
        match &of {
            Some(letters) => text.insert(0, span(LETTER, letters)),
            None if places.len() > 1 => {
                text.push(span(DIM, format!(" ({})", count(place.samples))));
            }
            None => {}
        }
        page.paragraph(&[plain("      ")], 8, &text)?;
    }
    let more = places.len() - shown;
    if more > 0 {
        let s = if more == 1 { "" } else { "s" };
        page.row(&[span(DIM, format!("      … {more} more place{s}"))])?;
    }
    Ok(())
}

/// `bump ← worker, src/main.rs:31`, or what is known instead.
fn place(width: usize, site: &Site) -> String {
    let chain = inline_chain(&site.frames);
    let text = |line: String| {
        if chain.is_empty() {
            line
        } else {
            format!("{chain}, {line}")
        }
    };
    match own_line(&site.frames) {
        None => text(format!("{}+{}", site.binary, site.address)),
        Some(line) => {
            let long = text(line.to_string());
            if long.width() + 6 <= width {
                long
            } else {
                text(short_line(line))
            }
        }
    }
}

/// As wide on the page as it is when measured: see [`span`].
fn visible(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

fn left(text: &str, width: usize) -> String {
    let pad = width.saturating_sub(text.width());
    format!("{text}{:pad$}", "")
}

fn right(text: &str, width: usize) -> String {
    let pad = width.saturating_sub(text.width());
    format!("{:pad$}{text}", "")
}
