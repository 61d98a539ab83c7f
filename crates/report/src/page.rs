//! Styled text on lines of a given width.
//!
//! Colour never changes the text: styles are put around words after the lines have been broken.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthStr;

pub(crate) const PLAIN: Style = Style::new();
pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();
pub(crate) const LETTER: Style = AnsiColor::Cyan.on_default().bold();
pub(crate) const TYPE_THIS: Style = AnsiColor::Green.on_default();

/// How a page is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageOptions {
    /// Whether to colour it. The text is the same without.
    pub color: bool,
    /// Columns of the terminal.
    pub width: u16,
}

/// A piece of text in one style.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    style: Style,
    text: String,
}

/// A piece of text in one style. Control characters, which a thread's name may have, are made visible.
pub(crate) fn span(style: Style, text: impl AsRef<str>) -> Span {
    let visible = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    Span {
        style,
        text: text.as_ref().chars().map(visible).collect(),
    }
}

pub(crate) fn plain(text: impl AsRef<str>) -> Span {
    span(PLAIN, text)
}

pub(crate) fn width_of(spans: &[Span]) -> usize {
    spans.iter().map(|span| span.text.width()).sum()
}

/// Where lines are written to.
pub(crate) struct Page<'a> {
    out: &'a mut dyn Write,
    color: bool,
    width: usize,
}

impl<'a> Page<'a> {
    /// No narrower than 40 columns: below, broken lines are harder to read than long ones.
    pub(crate) fn new(out: &'a mut dyn Write, color: bool, width: u16) -> Self {
        Self {
            out,
            color,
            width: usize::from(width).max(40),
        }
    }

    pub(crate) const fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn blank(&mut self) -> io::Result<()> {
        writeln!(self.out)
    }

    /// One line as it is, whatever its width.
    pub(crate) fn row(&mut self, spans: &[Span]) -> io::Result<()> {
        // No blanks at the end of a line, which the last cell of a column may have.
        let last = spans
            .iter()
            .rposition(|span| !span.text.trim_end().is_empty());
        for (i, span) in spans
            .iter()
            .enumerate()
            .take(last.map_or(0, |last| last + 1))
        {
            let text = if Some(i) == last {
                span.text.trim_end()
            } else {
                &span.text
            };
            self.put(span.style, text)?;
        }
        self.blank()
    }

    /// Words, broken into lines that begin at column `hang`, the first one behind `label`.
    ///
    /// A word that is wider than the page is not broken: names are there to be copied.
    pub(crate) fn paragraph(
        &mut self,
        label: &[Span],
        hang: usize,
        text: &[Span],
    ) -> io::Result<()> {
        for span in label {
            self.put(span.style, &span.text)?;
        }
        let mut column = width_of(label);
        while column < hang {
            write!(self.out, " ")?;
            column += 1;
        }
        // A blank between two words belongs to the span it is in.
        let mut at_start = true;
        for word in words(text) {
            let width: usize = width_of(&word.pieces);
            let space = usize::from(word.space_before && !at_start);
            if !at_start && word.space_before && column + space + width > self.width {
                self.blank()?;
                write!(self.out, "{:hang$}", "")?;
                column = hang;
            } else if space > 0 {
                write!(self.out, " ")?;
                column += 1;
            }
            for piece in &word.pieces {
                self.put(piece.style, &piece.text)?;
            }
            column += width;
            at_start = false;
        }
        self.blank()
    }

    fn put(&mut self, style: Style, text: &str) -> io::Result<()> {
        if self.color && style != PLAIN && !text.trim().is_empty() {
            write!(self.out, "{style}{text}{style:#}")
        } else {
            write!(self.out, "{text}")
        }
    }
}

/// Something that is not broken, maybe in several styles.
struct Word {
    pieces: Vec<Span>,
    space_before: bool,
}

/// `text` split at its blanks, but for those in a short command in backquotes and in a short pair of brackets, as
/// intervals have.
fn unbroken(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut keep_until = 0;
    for (i, c) in text.char_indices() {
        let closing = match c {
            '`' => Some('`'),
            '[' => Some(']'),
            _ => None,
        };
        match closing {
            Some(closing) if i >= keep_until => {
                let length = text[i + 1..].find(closing);
                if let Some(length) = length.filter(|&length| length <= 40) {
                    keep_until = i + 1 + length + 1;
                }
            }
            None if c == ' ' && i >= keep_until => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Whether a line may not begin with `word` behind `before`: a number and its unit, a ratio and its interval.
fn belongs_to(word: &str, before: &str) -> bool {
    const UNITS: [&str; 6] = ["%", "ms", "GB/s", "KiB", "MiB", "GiB"];
    let unit = word.trim_end_matches([',', ';', '.', ':', ')']);
    (before.ends_with(|c: char| c.is_ascii_digit()) && UNITS.contains(&unit))
        || (before.ends_with('×') && word.starts_with('['))
}

fn words(text: &[Span]) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut space_before = true;
    for span in text {
        for (i, part) in unbroken(&span.text).into_iter().enumerate() {
            space_before |= i > 0;
            if part.is_empty() {
                continue;
            }
            let piece = Span {
                style: span.style,
                text: part.to_owned(),
            };
            match words.last_mut() {
                Some(word) if !space_before => word.pieces.push(piece),
                _ => words.push(Word {
                    pieces: vec![piece],
                    space_before,
                }),
            }
            space_before = false;
        }
    }
    let mut joined: Vec<Word> = Vec::new();
    for word in words {
        let first = word.pieces.first().map_or("", |piece| &piece.text);
        let last = joined.last_mut().and_then(|word| word.pieces.last_mut());
        match last.filter(|last| belongs_to(first, &last.text)) {
            Some(last) => {
                last.text.push(' ');
                if let Some(joined) = joined.last_mut() {
                    joined.pieces.extend(word.pieces);
                }
            }
            None => joined.push(word),
        }
    }
    joined
}
