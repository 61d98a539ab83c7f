//! The comparison of two builds for a person: first whether it is the code or the layout, then why.

use std::io::{self, Write};

use hitm_model::{
    BuildDiff, CodeDiff, DiffVerdict, FunctionChange, PairChange, Shift, ShiftCause, Svma,
    SymbolChange, TypeChange, TypesDiff,
};

use crate::layout::caveats;
use crate::page::{BAD, BOLD, DIM, PLAIN, Page, WARN, plain, span};
use crate::words::{count, counted, some_of};

/// How a comparison is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiffTableOptions {
    /// Whether to colour it. The text is the same without.
    pub color: bool,
    /// Columns of the terminal.
    pub width: u16,
    /// How many rows of each kind are shown; all without.
    pub top: Option<usize>,
}

/// Renders `diff` as a table.
///
/// # Errors
/// If `out` cannot be written to.
pub fn diff_table(
    diff: &BuildDiff,
    options: &DiffTableOptions,
    out: &mut impl Write,
) -> io::Result<()> {
    let page = &mut Page::new(out, options.color, options.width);
    let top = options.top.unwrap_or(usize::MAX);
    headline(page, diff)?;
    pairs(page, diff, true, top)?;
    pairs(page, diff, false, top)?;
    shifts(page, &diff.shifts, top)?;
    variables(page, diff, top)?;
    if let Some(code) = &diff.code {
        functions(page, code, top)?;
    }
    if let Some(types) = &diff.types {
        types_part(page, types, top)?;
    }
    caveats(page, &diff.caveats)
}

fn headline(page: &mut Page<'_>, diff: &BuildDiff) -> io::Result<()> {
    let (style, verdict) = match diff.verdict() {
        DiffVerdict::Neither => (BOLD, "neither code nor lines changed"),
        DiffVerdict::Layout => (BAD, "the layout changed, not the code"),
        DiffVerdict::Code => (BOLD, "the code changed, not the lines"),
        DiffVerdict::Both => (BAD, "code and lines changed"),
        DiffVerdict::CannotTell => (WARN, "whether the code changed is not known"),
    };
    let lines = format!(
        ": of {} on lines of {} bytes, {} came onto one line and {} parted",
        counted(diff.objects, "variable"),
        diff.line_size,
        counted(diff.joined.len() as u64, "pair"),
        count(diff.parted.len() as u64),
    );
    page.paragraph(&[], 0, &[span(style, verdict), plain(lines)])?;
    let code = diff.code.as_ref();
    if code.is_some_and(|code| code.compared() == 0) {
        let text = "no function has a name in both builds: compare builds that are not stripped";
        page.paragraph(&[], 0, &[plain(text)])?;
    } else if let Some(code) = code {
        let same = code.identical + code.but_for_addresses;
        let mut text = format!(
            "{} of {} that both have are the same ({} of them but for addresses), {}",
            count(same),
            counted(code.compared(), "function"),
            count(code.but_for_addresses),
            counted(code.same_instructions, "instruction"),
        );
        if let Some((name, n)) = &code.largest_same {
            let n = counted(*n, "instruction");
            text.push_str(&format!(
                "; the largest: {name}, {n}, identical but for addresses"
            ));
        }
        let others = code.other_constants.len() as u64;
        let (have, point) = match others {
            1 => ("has", "points"),
            _ => ("have", "point"),
        };
        if others > 0 {
            let others = count(others);
            text.push_str(&format!(
                "; {others} more {have} the same instructions, but {point} to constants with other bytes"
            ));
        }
        page.paragraph(&[], 0, &[plain(text)])?;
    }
    Ok(())
}

fn heading(page: &mut Page<'_>, text: &str) -> io::Result<()> {
    page.blank()?;
    page.row(&[span(BOLD, text)])
}

fn more(page: &mut Page<'_>, n: usize, top: usize) -> io::Result<()> {
    if n > top {
        let text = format!("   … {} more (--all)", n - top);
        page.row(&[span(DIM, text)])?;
    }
    Ok(())
}

/// Pairs by line: `mem_array_idx came onto the line of global_epoch and …`.
fn pairs(page: &mut Page<'_>, diff: &BuildDiff, joined: bool, top: usize) -> io::Result<()> {
    let (all, text, style) = match joined {
        true => (&diff.joined, "Came onto one line", BAD),
        false => (&diff.parted, "Parted", PLAIN),
    };
    if all.is_empty() {
        return Ok(());
    }
    heading(page, text)?;
    let mut lines: Vec<(Svma, Vec<&PairChange>)> = Vec::new();
    for pair in all {
        match lines.iter_mut().find(|(line, _)| *line == pair.line) {
            Some((_, pairs)) => pairs.push(pair),
            None => lines.push((pair.line, vec![pair])),
        }
    }
    for (line, pairs) in lines.iter().take(top) {
        let section = pairs.first().map_or("", |pair| pair.a.section.as_str());
        let build = if joined { "now" } else { "before" };
        page.row(&[span(DIM, format!("   line {line} of {section} ({build})"))])?;
        for pair in pairs.iter().take(top) {
            let at = |address: Svma| address.0 % u64::from(diff.line_size.bytes());
            let place = |object: &hitm_model::MovedObject| match joined {
                true => at(object.new),
                false => at(object.old),
            };
            page.paragraph(
                &[plain("     ")],
                5,
                &[
                    span(style, &pair.a.name),
                    span(DIM, format!(" +{} ", place(&pair.a))),
                    plain("and "),
                    span(style, &pair.b.name),
                    span(DIM, format!(" +{}", place(&pair.b))),
                ],
            )?;
        }
        more(page, pairs.len(), top)?;
    }
    more(page, lines.len(), top)
}

fn shifts(page: &mut Page<'_>, shifts: &[Shift], top: usize) -> io::Result<()> {
    if shifts.is_empty() {
        return Ok(());
    }
    heading(page, "Moved")?;
    for shift in shifts.iter().take(top) {
        let until = match shift.objects {
            1 => String::new(),
            n => format!(" to {} ({})", shift.last, counted(n, "variable")),
        };
        let lines = match shift.whole_lines {
            true => " (whole lines)",
            false => "",
        };
        let text = format!(
            "{} from {}{until}: {}{lines}{}",
            shift.section,
            shift.first,
            signed(shift.bytes),
            because(&shift.causes),
        );
        page.paragraph(&[plain("   ")], 3, &[plain(text)])?;
    }
    more(page, shifts.len(), top)
}

fn signed(bytes: i64) -> String {
    match bytes {
        ..0 => format!("−{}", count(bytes.unsigned_abs())),
        _ => format!("+{}", count(bytes.unsigned_abs())),
    }
}

fn because(causes: &[ShiftCause]) -> String {
    /// So many causes of one kind are told.
    const MOST: usize = 3;
    if causes.is_empty() {
        return ", as what is before them moved".to_owned();
    }
    let texts: Vec<String> = causes
        .iter()
        .map(|cause| match cause {
            ShiftCause::Vanished { name, size } => {
                format!("{name} ({}) is gone", counted(*size, "byte"))
            }
            ShiftCause::Appeared { name, size } => {
                format!("{name} ({}) is new", counted(*size, "byte"))
            }
            ShiftCause::Resized { name, old, new } => {
                format!(
                    "{name} has {} instead of {}",
                    counted(*new, "byte"),
                    count(*old)
                )
            }
            ShiftCause::Aligned { bytes } => format!("the first is aligned to {bytes}"),
            ShiftCause::Section => "the section begins elsewhere".to_owned(),
            ShiftCause::Reordered => "the order is another one".to_owned(),
        })
        .collect();
    format!(
        ", because {}",
        some_of(texts.iter().map(String::as_str), MOST)
    )
}

fn variables(page: &mut Page<'_>, diff: &BuildDiff, top: usize) -> io::Result<()> {
    if !diff.variables.is_empty() {
        heading(page, "Variables")?;
        changes(page, &diff.variables, top)?;
    }
    if !diff.new_neighbours.is_empty() {
        heading(page, "New neighbours")?;
        for new in diff.new_neighbours.iter().take(top) {
            let text = format!("{} is new on the line of {}", new.appeared, new.beside.name);
            page.paragraph(&[plain("   ")], 3, &[plain(text)])?;
        }
        more(page, diff.new_neighbours.len(), top)?;
    }
    Ok(())
}

fn changes(page: &mut Page<'_>, changes: &[SymbolChange], top: usize) -> io::Result<()> {
    for change in changes.iter().take(top) {
        let what = match (change.old_size, change.new_size) {
            (Some(old), Some(new)) => format!("{} bytes instead of {}", count(new), count(old)),
            (None, Some(new)) => format!("is new, {}", counted(new, "byte")),
            (Some(old), None) => format!("is gone, {}", counted(old, "byte")),
            (None, None) => String::new(),
        };
        let text = [
            plain(&change.name),
            span(DIM, format!(" {what}, {}", change.section)),
        ];
        page.paragraph(&[plain("   ")], 3, &text)?;
    }
    more(page, changes.len(), top)
}

fn functions(page: &mut Page<'_>, code: &CodeDiff, top: usize) -> io::Result<()> {
    if !code.changed.is_empty() {
        heading(page, "Functions that changed")?;
        for change in code.changed.iter().take(top) {
            page.paragraph(&[plain("   ")], 3, &changed(change))?;
        }
        more(page, code.changed.len(), top)?;
    }
    if !code.other_constants.is_empty() {
        heading(page, "Functions that point to other constants")?;
        for change in code.other_constants.iter().take(top) {
            page.paragraph(&[plain("   ")], 3, &changed(change))?;
        }
        more(page, code.other_constants.len(), top)?;
    }
    if !code.vanished.is_empty() || !code.appeared.is_empty() {
        heading(page, "Functions of one build only")?;
        let both: Vec<SymbolChange> = code
            .vanished
            .iter()
            .chain(&code.appeared)
            .cloned()
            .collect();
        changes(page, &both, top)?;
    }
    Ok(())
}

fn changed(change: &FunctionChange) -> Vec<crate::page::Span> {
    let n = match (change.old_instructions, change.new_instructions) {
        (0, 0) => String::new(),
        (old, new) if old == new => counted(new, "instruction"),
        (old, new) => format!("{} instead of {}", counted(new, "instruction"), count(old)),
    };
    let first = match change.first {
        Some((old, new)) => format!(", first difference at {old} and {new}: {}", change.why),
        None => format!(" {}", change.why),
    };
    vec![plain(&change.name), span(DIM, format!(" {n}{first}"))]
}

fn types_part(page: &mut Page<'_>, types: &TypesDiff, top: usize) -> io::Result<()> {
    if types.changed.is_empty() && types.ambiguous == 0 {
        return Ok(());
    }
    heading(page, "Types")?;
    let crosses = |change: &&TypeChange| !change.moved.is_empty() || !change.joined.is_empty();
    let crossing = types.changed.iter().filter(crosses).count();
    let text = format!(
        "   of {} in both, {} changed, {} with members over a line border{}",
        counted(types.both, "type"),
        count(types.changed.len() as u64),
        count(crossing as u64),
        match types.ambiguous {
            0 => String::new(),
            n => format!(
                "; {} of several types cannot be told apart",
                counted(n, "name")
            ),
        }
    );
    page.row(&[span(DIM, text)])?;
    for change in types.changed.iter().take(top) {
        page.paragraph(&[plain("   ")], 3, &[plain(of_type(change))])?;
    }
    more(page, types.changed.len(), top)
}

fn of_type(change: &TypeChange) -> String {
    /// So many members of one kind are told.
    const MOST: usize = 4;
    let mut parts = Vec::new();
    if change.old_size != change.new_size {
        let (new, old) = (counted(change.new_size, "byte"), count(change.old_size));
        parts.push(format!("{new} instead of {old}"));
    }
    let list = |names: Vec<String>| some_of(names.iter().map(String::as_str), MOST);
    if !change.moved.is_empty() {
        let moved = change.moved.iter();
        let names =
            moved.map(|member| format!("{} (+{} → +{})", member.name, member.old, member.new));
        parts.push(format!("over a line border: {}", list(names.collect())));
    }
    for (pairs, what) in [
        (&change.joined, "came onto one line"),
        (&change.parted, "parted"),
    ] {
        if !pairs.is_empty() {
            let names = pairs.iter().map(|(a, b)| format!("{a} and {b}")).collect();
            parts.push(format!("{what}: {}", list(names)));
        }
    }
    if !change.appeared.is_empty() {
        parts.push(format!("new: {}", list(change.appeared.clone())));
    }
    if !change.vanished.is_empty() {
        parts.push(format!("gone: {}", list(change.vanished.clone())));
    }
    match parts.is_empty() {
        true => format!("{}: members moved within their lines", change.name),
        false => format!("{}: {}", change.name, parts.join("; ")),
    }
}
