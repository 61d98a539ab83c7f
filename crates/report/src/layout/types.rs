//! One type on lines, with all that follows from it.

use std::io;

use hitm_model::{ArrayView, LineSize, RowRole, TypePlacement, TypeRow, TypeView, VariantView};

use crate::page::{BOLD, DIM, LETTER, PLAIN, Page, WARN, plain, span};
use crate::words::{count, counted, short_line};

/// Shows a type; rules are drawn for `line_size`, the other sizes are told in words.
pub(super) fn view(page: &mut Page<'_>, view: &TypeView, line_size: LineSize) -> io::Result<()> {
    page.row(&[span(BOLD, title(view))])?;
    if let Some(declared) = &view.declared {
        page.row(&[span(
            DIM,
            format!("   declared at {}", short_line(declared)),
        )])?;
    }
    page.blank()?;
    if !view.rows.is_empty() || !view.variants.is_empty() {
        page.row(&[span(DIM, format!("{:>9} {:>6}  member", "offset", "size"))])?;
    }
    members(page, view, &view.rows, line_size)?;
    for variant in &view.variants {
        page.row(&[plain(format!("   {}", variant_words(variant)))])?;
        members(page, view, &variant.rows, line_size)?;
    }
    page.blank()?;
    if let Some((name, offset, size)) = &view.focus {
        let size = size.map_or_else(String::new, |size| format!(", {}", counted(size, "byte")));
        let line = offset / u64::from(line_size.bytes());
        let text = format!("{name}: offset {offset}{size}, on line {line} of an aligned instance");
        page.paragraph(&label("field"), HANG, &[span(LETTER, text)])?;
    }
    page.paragraph(&label("padding"), HANG, &[plain(padding(view))])?;
    let sizes: Vec<LineSize> = view.arrays.iter().map(|array| array.line_size).collect();
    for size in sizes {
        let of: Vec<&TypePlacement> = view
            .placements
            .iter()
            .filter(|placement| placement.line_size == size)
            .collect();
        let name = format!("lines of {size}");
        page.paragraph(&label(&name), HANG, &[plain(placed(view, &of))])?;
    }
    for array in &view.arrays {
        let name = format!("array, {}", array.line_size);
        let style = if array.shared { WARN } else { PLAIN };
        page.paragraph(&label(&name), HANG, &[span(style, elements(array))])?;
    }
    Ok(())
}

const HANG: usize = 16;

fn label(text: &str) -> [crate::page::Span; 1] {
    [span(DIM, format!("   {text}"))]
}

/// `struct Ring  32 bytes, aligned to 8`.
pub(super) fn title(view: &TypeView) -> String {
    let stated = if view.align_stated {
        ""
    } else {
        " by its members"
    };
    format!(
        "{} {}  {}, aligned to {}{stated}",
        view.kind,
        view.name,
        counted(view.size, "byte"),
        view.align
    )
}

pub(super) fn variant_words(variant: &VariantView) -> String {
    match variant.value {
        Some(value) => format!("variant {} = {value}", variant.name),
        None => format!("variant {}", variant.name),
    }
}

/// `head: std::atomic<long>`, `(padding)`.
pub(super) fn described(row: &TypeRow) -> String {
    let name = row.name.as_deref().unwrap_or("(anonymous)");
    let bits = match row.bits {
        Some((first, n)) => format!(
            " : {n} (bits {}..{})",
            first % 8,
            (first % 8).saturating_add(n)
        ),
        None => String::new(),
    };
    match row.role {
        RowRole::Field => format!("{name}: {}{bits}", row.type_name),
        RowRole::Base => format!("(base {})", row.type_name),
        RowRole::Discriminant => format!("(tells the variant: {})", row.type_name),
        RowRole::Niche => format!(
            "(tells the variant, in a niche of a field: {})",
            row.type_name
        ),
        RowRole::Padding => match row.bits {
            Some((_, n)) => format!("(padding, {})", counted(n, "bit")),
            None => "(padding)".to_owned(),
        },
    }
}

/// Members with a rule where a line begins; the first line needs none where rows follow others.
fn members(
    page: &mut Page<'_>,
    view: &TypeView,
    rows: &[TypeRow],
    line_size: LineSize,
) -> io::Result<()> {
    let bytes = u64::from(line_size.bytes());
    let mut line = (!std::ptr::eq(rows, view.rows.as_slice())).then_some(0);
    for row in rows {
        let at = row.offset / bytes;
        if line.is_none_or(|line| at > line) {
            line = Some(at);
            rule(page, &format!("line {at}"))?;
        }
        let size = row
            .size
            .map_or_else(|| "?".to_owned(), |size| size.to_string());
        let in_focus = view.focus.as_ref().is_some_and(|(_, offset, _)| {
            let end = row.offset.saturating_add(row.size.unwrap_or(u64::MAX));
            (row.offset..end).contains(offset) && row.role != RowRole::Padding
        });
        let style = match row.role {
            _ if in_focus => LETTER,
            RowRole::Padding => DIM,
            _ => PLAIN,
        };
        let text = format!("{:>9} {size:>6}  {}", row.offset, described(row));
        page.row(&[span(style, text)])?;
        let last = row.offset.saturating_add(row.size.unwrap_or(1).max(1) - 1) / bytes;
        if Some(last) > line && row.bits.is_none() {
            let first = at + 1;
            let lines = if first == last {
                format!("line {last} begins")
            } else {
                format!("lines {first} to {last} begin")
            };
            rule(page, &format!("{lines} in it"))?;
            line = Some(last);
        }
    }
    Ok(())
}

fn rule(page: &mut Page<'_>, text: &str) -> io::Result<()> {
    page.row(&[span(
        DIM,
        format!(
            "   ── {text} {:─<1$}",
            "",
            40usize.saturating_sub(text.len())
        ),
    )])
}

fn padding(view: &TypeView) -> String {
    if view.padding == 0 {
        return "none".to_owned();
    }
    let mut text = counted(view.padding, "byte");
    text.push_str(&format!(" in {}", counted(view.holes, "hole")));
    match view.tail_padding {
        0 => {}
        tail if tail == view.padding => text.push_str(", at the end"),
        tail => text.push_str(&format!(", {tail} of them at the end")),
    }
    text
}

/// `1; at worst 2, where it begins at +56 of a line: the next one begins before tail (+8)`.
fn placed(view: &TypeView, placements: &[&TypePlacement]) -> String {
    let mut text = String::new();
    for placement in placements {
        let lines = counted(placement.lines, "line");
        text.push_str(&match placement.worst {
            false => format!("{lines} where it begins a line"),
            true => format!(
                "; at worst {lines}, where it begins at +{} of one",
                placement.base
            ),
        });
        let borders: Vec<String> = placement
            .borders
            .iter()
            .take(3)
            .map(|&border| border_words(view, border))
            .collect();
        if !borders.is_empty() {
            let more = if placement.borders.len() > 3 {
                ", …"
            } else {
                ""
            };
            text.push_str(&format!(
                ": a further one begins {}{more}",
                borders.join(", ")
            ));
        }
    }
    let bytes = placements
        .first()
        .map_or(1, |p| u64::from(p.line_size.bytes()));
    if placements.len() < 2 {
        text.push_str(match view.align >= bytes {
            true => ", as its alignment makes it",
            false => "; on no more elsewhere",
        });
    }
    text
}

/// `before tail (+8)`, `in buffer (+64)`.
fn border_words(view: &TypeView, border: u64) -> String {
    let of_variants = view.variants.iter().flat_map(|variant| &variant.rows);
    let mut inside = None;
    for row in view.rows.iter().chain(of_variants) {
        let end = row.offset.saturating_add(row.size.unwrap_or(0));
        let name = match row.role {
            RowRole::Padding => "the padding",
            _ => row.name.as_deref().unwrap_or("a member"),
        };
        if row.offset == border {
            return format!("before {name} (+{border})");
        }
        if row.offset < border && border < end {
            inside = inside.or(Some(name));
        }
    }
    match inside {
        Some(name) => format!("in {name} (+{border})"),
        None => format!("at +{border}"),
    }
}

fn elements(array: &ArrayView) -> String {
    if !array.shared {
        return match array.shared_at_worst {
            false => "no two elements share a line".to_owned(),
            true => "no two elements share a line if the first begins one; elsewhere neighbours do"
                .to_owned(),
        };
    }
    let lines: Vec<String> = array
        .on_lines
        .iter()
        .take(4)
        .map(|&(first, last)| match first == last {
            true => format!("{first}"),
            false => format!("{first}–{last}"),
        })
        .collect();
    let mut text = format!("elements share lines: {}, …", lines.join(" | "));
    if array.straddling > 0 {
        let (some, all) = (count(array.straddling), count(array.period));
        text.push_str(&format!(
            "; {some} of {all} are on one line more than they need"
        ));
    }
    text
}
