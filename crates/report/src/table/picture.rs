//! The picture of a line: who touches which of its bytes.

use std::{io, slice};

use hitm_model::{ByteRange, Finding, LineSize, Participant};

use super::participants::Letters;
use crate::page::{BAD, BOLD, DIM, LETTER, Page, Span, plain, span, width_of};
use crate::words::counted;

/// How many lines are drawn without `all`.
const LINES: usize = 3;

/// Cells are set apart in groups of this many bytes: a machine word.
const GROUP: u32 = 8;

pub(super) fn picture(
    page: &mut Page<'_>,
    finding: &Finding,
    letters: &Letters,
    line_size: LineSize,
    all: bool,
) -> io::Result<()> {
    let n = finding.lines.len();
    let shown = if all { n } else { n.min(LINES) };
    let cell = cell_size(&finding.participants, line_size);
    let mut drawn = String::new();
    for (index, line) in finding.lines.iter().enumerate().take(shown) {
        let on_line: Vec<_> = on_line(finding, index, letters).collect();
        let marks: Vec<char> = (0..line_size.bytes())
            .step_by(cell as usize)
            .map(|at| mark(&on_line, at, cell))
            .collect();
        drawn.extend(&marks);
        let address = span(BOLD, format!("   {}", line.address));
        let samples = span(DIM, format!("   {}", counted(line.samples, "sample")));
        let one_row = [
            slice::from_ref(&address),
            &cells(&marks, cell)[..],
            slice::from_ref(&samples),
        ]
        .concat();
        if width_of(&one_row) <= page.width() {
            page.row(&one_row)?;
            continue;
        }
        page.row(&[address, samples])?;
        let per_row = bytes_per_row(page.width(), cell, line_size);
        for (i, marks) in marks.chunks((per_row / cell) as usize).enumerate() {
            let offset = format!("+{}", i as u32 * per_row);
            let offset = span(DIM, format!("   {offset:>5}"));
            page.row(&[&[offset], &cells(marks, cell)[..]].concat())?;
        }
    }
    if shown < n {
        page.row(&[span(DIM, format!("   … {}", more_lines(n - shown)))])?;
    }
    let legend = legend(cell, &drawn);
    page.paragraph(&[plain("   ")], 3, &[span(DIM, legend)])
}

fn more_lines(n: usize) -> String {
    format!("{n} more line{}", if n == 1 { "" } else { "s" })
}

/// The participants on one line, with their marks.
fn on_line<'a>(
    finding: &'a Finding,
    line: usize,
    letters: &'a Letters,
) -> impl Iterator<Item = (char, &'a Participant)> {
    let all = finding.participants.iter().enumerate();
    all.filter(move |(_, participant)| participant.line == line)
        .map(|(i, participant)| (letters.of(i, participant), participant))
}

/// The largest cell, up to a machine word, that no border of a participant's bytes lies in.
fn cell_size(participants: &[Participant], line_size: LineSize) -> u32 {
    let mut cell = GROUP;
    for border in participants
        .iter()
        .flat_map(|participant| [participant.range.start, participant.range.end])
        .filter(|&border| border < line_size.bytes())
    {
        while border % cell != 0 {
            cell /= 2;
        }
    }
    cell
}

/// A power of two, so that rows end where words do.
fn bytes_per_row(width: usize, cell: u32, line_size: LineSize) -> u32 {
    let columns = |bytes: u32| 10 + (bytes / cell + bytes / GROUP) as usize;
    let mut bytes = line_size.bytes();
    while bytes > GROUP && columns(bytes) > width {
        bytes /= 2;
    }
    bytes
}

/// The cells of a row: words are set apart.
fn cells(marks: &[char], cell: u32) -> Vec<Span> {
    let mut spans = vec![plain(" ")];
    for word in marks.chunks((GROUP / cell) as usize) {
        spans.push(plain(" "));
        spans.extend(word.iter().map(|&mark| drawn_as(mark)));
    }
    spans
}

/// `#` where threads meet on the same bytes, else the letter of the one participant, else `·`.
fn mark(on_line: &[(char, &Participant)], at: u32, cell: u32) -> char {
    let range = ByteRange {
        start: at,
        end: at + cell,
    };
    let mut here = on_line
        .iter()
        .filter(|(_, participant)| participant.range.overlaps(range));
    let Some(&(letter, first)) = here.next() else {
        return '·';
    };
    // Two ranges of the same threads are not a meeting.
    if here.any(|(_, other)| other.threads.tids != first.threads.tids) {
        '#'
    } else {
        letter
    }
}

fn drawn_as(mark: char) -> Span {
    let style = match mark {
        '·' => DIM,
        '#' => BAD,
        _ => LETTER,
    };
    span(style, mark.to_string())
}

fn legend(cell: u32, drawn: &str) -> String {
    let mut legend = match cell {
        1 => "1 byte a cell".to_owned(),
        cell => format!("{cell} bytes a cell"),
    };
    let mut explain = |present: bool, text: &str| {
        if present {
            legend.push_str(text);
        }
    };
    let has = |test: fn(char) -> bool| drawn.chars().any(test);
    explain(has(|c| c.is_ascii_uppercase()), ", capitals write");
    explain(has(|c| c.is_ascii_lowercase()), ", small letters only read");
    explain(has(|c| c == '#'), ", # same bytes of several");
    explain(has(|c| c == '+'), ", + writers not listed");
    explain(has(|c| c == '-'), ", - readers not listed");
    explain(has(|c| c == '·'), ", · untouched");
    legend
}
