//! Lines and the objects on them.

use std::io;

use hitm_model::{DataObject, Focus, LineMap, LineSize, MapLine, MapPart};
use unicode_width::UnicodeWidthStr;

use crate::page::{BOLD, DIM, LETTER, PLAIN, Page, plain, span};
use crate::words::{count, counted, short_line};

/// Shows a map.
pub(super) fn map(
    page: &mut Page<'_>,
    binary: &str,
    map: &LineMap,
    top: Option<usize>,
) -> io::Result<()> {
    match &map.focus {
        Some(focus) => focused(page, map, focus)?,
        None => summary(page, binary, map)?,
    }
    let shown = top.unwrap_or(usize::MAX).min(map.lines.len());
    for line in &map.lines[..shown] {
        page.blank()?;
        draw(page, line, map)?;
    }
    if shown < map.lines.len() {
        page.blank()?;
        let more = counted((map.lines.len() - shown) as u64, "more line");
        page.row(&[span(DIM, format!("… {more} (--all)"))])?;
    }
    Ok(())
}

fn summary(page: &mut Page<'_>, binary: &str, map: &LineMap) -> io::Result<()> {
    let objects: u64 = map.sections.iter().map(|section| section.objects).sum();
    let text = format!(
        "{binary}  {} of data; {} of {} bytes with more than one",
        counted(objects, "object"),
        counted(map.lines.len() as u64, "line"),
        map.line_size,
    );
    page.paragraph(&[], 0, &[span(BOLD, text)])?;
    for section in &map.sections {
        let text = format!(
            "   {:<14} {}  {} bytes, aligned to {}, {}, {}",
            section.name,
            section.address,
            count(section.size),
            section.align,
            counted(section.objects, "object"),
            counted(section.shared_lines, "shared line"),
        );
        page.row(&[span(DIM, text)])?;
    }
    Ok(())
}

fn focused(page: &mut Page<'_>, map: &LineMap, focus: &Focus) -> io::Result<()> {
    let mut text = focus.name.clone();
    if let Some(ty) = &focus.type_name {
        text.push_str(&format!(": {ty}"));
    }
    if focus.size > 0 {
        text.push_str(&format!(", {}", counted(focus.size, "byte")));
    }
    let offset = focus.address.0 % u64::from(map.line_size.bytes());
    let at = match focus.thread_local {
        true => format!(", at offset {} of each thread's block", focus.address),
        false => format!(", at {} (+{offset} of its line)", focus.address),
    };
    page.paragraph(&[], 0, &[span(BOLD, text), plain(at)])?;
    if focus.thread_local {
        let note = "each thread has its own: neighbours on these lines are of the same thread, and lines are as drawn \
                    only where the block begins one";
        page.paragraph(&[], 3, &[span(DIM, note)])?;
    }
    if focus.lines > 2 {
        let note = format!(
            "   on {}; those between the first and the last are its own",
            counted(focus.lines, "line")
        );
        page.row(&[span(DIM, note)])?;
    }
    Ok(())
}

/// A line: its bytes as letters, then who has which letter.
fn draw(page: &mut Page<'_>, line: &MapLine, map: &LineMap) -> io::Result<()> {
    let sections: Vec<&str> = line
        .parts
        .iter()
        .map(|part| part.object.section.as_str())
        .collect();
    let section = sections.first().copied().unwrap_or("");
    page.row(&[
        span(BOLD, format!("{}", line.address)),
        plain(format!("  {}  ", picture(line, map.line_size))),
        span(DIM, section),
    ])?;
    let names: Vec<String> = line.parts.iter().map(|part| named(&part.object)).collect();
    let width = names.iter().map(|name| name.width()).max().unwrap_or(0);
    let room = page.width().saturating_sub(40).max(20);
    for ((number, part), name) in line.parts.iter().enumerate().zip(&names) {
        let gap = width.min(room).saturating_sub(name.width()) + 2;
        let wanted = map.focus.as_ref().is_some_and(|focus| holds(part, focus));
        page.row(&[
            span(LETTER, format!("   {} ", letter(number))),
            plain(format!(
                "{:<11}",
                format!("+{}..{}", part.bytes.start, part.bytes.end)
            )),
            span(if wanted { BOLD } else { PLAIN }, name),
            span(DIM, format!("{:gap$}{}", "", details(&part.object))),
        ])?;
    }
    Ok(())
}

fn holds(part: &MapPart, focus: &Focus) -> bool {
    let offset = focus.address.offset_from(part.object.address);
    offset.is_some_and(|offset| offset < part.object.size)
}

fn named(object: &DataObject) -> String {
    match &object.type_name {
        Some(ty) => format!("{}: {ty}", object.name),
        None => object.name.clone(),
    }
}

fn details(object: &DataObject) -> String {
    let mut text = counted(object.size, "byte");
    if let Some(align) = object.align {
        text.push_str(&format!(", aligned to {align}"));
    }
    if let Some(declared) = &object.declared {
        text.push_str(&format!(", {}", short_line(declared)));
    }
    text
}

fn letter(number: usize) -> char {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    LETTERS.get(number).map_or('+', |&letter| letter.into())
}

/// One letter for each byte, or for as many as make 64 of a line; blanks between words.
fn picture(line: &MapLine, line_size: LineSize) -> String {
    let cell = line_size.bytes().div_ceil(64);
    let mut text = String::new();
    for at in (0..line_size.bytes()).step_by(cell as usize) {
        if at > 0 && at % (8 * cell) == 0 {
            text.push(' ');
        }
        let owner = line
            .parts
            .iter()
            .position(|part| part.bytes.start < at + cell && at < part.bytes.end);
        text.push(owner.map_or('·', letter));
    }
    text
}
