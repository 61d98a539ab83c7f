//! A type on lines: what its members leave unused, where lines begin in it, which elements of an array share one.

use hitm_binary::debug::{LayoutMember, MemberRole, TypeKind, TypeLayout};
use hitm_model::{ArrayView, LineSize, RowRole, TypePlacement, TypeRow, TypeView, VariantView};

/// How a type lies on lines of these sizes.
#[must_use]
pub fn type_view(layout: &TypeLayout, line_sizes: &[LineSize]) -> TypeView {
    let mut rows: Vec<TypeRow> = layout.members.iter().map(row).collect();
    let holes = holes(layout);
    let padding = holes
        .iter()
        .map(|(start, end)| (end - start).div_ceil(8))
        .sum();
    let end = layout.size.saturating_mul(8);
    let tail = holes.last().filter(|hole| hole.1 == end && end > 0);
    rows.extend(holes.iter().map(|&hole| padding_row(hole)));
    rows.sort_by_key(|row| {
        let first = row
            .bits
            .map_or(row.offset.saturating_mul(8), |(first, _)| first);
        (first, row.role == RowRole::Padding)
    });
    let lays = layout.size > 0;
    TypeView {
        name: layout.name.clone(),
        kind: word(layout.kind),
        size: layout.size,
        align: layout.align,
        align_stated: layout.align_stated,
        declared: layout.declared.clone(),
        rows,
        variants: layout
            .variants
            .iter()
            .map(|variant| VariantView {
                name: variant.name.clone(),
                value: variant.value,
                rows: variant.members.iter().map(row).collect(),
            })
            .collect(),
        padding,
        holes: holes.len() as u64,
        tail_padding: tail.map_or(0, |(start, end)| (end - start).div_ceil(8)),
        placements: line_sizes
            .iter()
            .filter(|_| lays)
            .flat_map(|&line| placements(layout, line))
            .collect(),
        arrays: line_sizes
            .iter()
            .filter(|_| lays)
            .map(|&line| array(layout, line))
            .collect(),
        focus: None,
    }
}

const fn word(kind: TypeKind) -> &'static str {
    match kind {
        TypeKind::Struct => "struct",
        TypeKind::Class => "class",
        TypeKind::Union => "union",
        TypeKind::Enum => "enum",
        TypeKind::Array => "array",
        TypeKind::Scalar => "type",
    }
}

fn row(member: &LayoutMember) -> TypeRow {
    TypeRow {
        offset: member.bits.map_or(member.offset, |bits| bits.first / 8),
        size: member.size,
        bits: member.bits.map(|bits| (bits.first, bits.count)),
        name: member.name.clone(),
        type_name: member.type_name.clone(),
        role: match member.role {
            MemberRole::Field => RowRole::Field,
            MemberRole::Base => RowRole::Base,
            MemberRole::Discriminant => RowRole::Discriminant,
            MemberRole::Niche => RowRole::Niche,
        },
    }
}

fn padding_row((start, end): (u64, u64)) -> TypeRow {
    let whole = start.is_multiple_of(8) && end.is_multiple_of(8);
    TypeRow {
        offset: start / 8,
        size: Some((end - start).div_ceil(8)),
        bits: (!whole).then_some((start, end - start)),
        name: None,
        type_name: String::new(),
        role: RowRole::Padding,
    }
}

/// The bits that neither a member nor a variant uses, as half-open ranges.
fn holes(layout: &TypeLayout) -> Vec<(u64, u64)> {
    let has_parts = !layout.members.is_empty() || !layout.variants.is_empty();
    if !has_parts {
        return Vec::new();
    }
    let of_variants = layout.variants.iter().flat_map(|variant| &variant.members);
    let mut used: Vec<(u64, u64)> = layout
        .members
        .iter()
        .chain(of_variants)
        .map(|member| match member.bits {
            Some(bits) => (bits.first, bits.first.saturating_add(bits.count)),
            None => {
                let (start, end) = member.bytes();
                (start.saturating_mul(8), end.saturating_mul(8))
            }
        })
        .collect();
    used.sort_unstable();
    let size = layout.size.saturating_mul(8);
    let mut reached = 0;
    let mut holes = Vec::new();
    for (start, end) in used.into_iter().chain([(size, size)]) {
        if start > reached && reached < size {
            holes.push((reached, start.min(size)));
        }
        reached = reached.max(end);
    }
    holes
}

/// At the start of a line, and where it is on most lines, if that is elsewhere.
fn placements(layout: &TypeLayout, line: LineSize) -> Vec<TypePlacement> {
    let at = |base: u64, worst: bool| {
        let bytes = u64::from(line.bytes());
        let first = bytes - base;
        let further = layout.size.saturating_sub(first).div_ceil(bytes);
        TypePlacement {
            line_size: line,
            base: u32::try_from(base).unwrap_or(0),
            worst,
            lines: 1 + further,
            borders: (0..further)
                .take(TypePlacement::MOST_BORDERS)
                .map(|n| first + n * bytes)
                .collect(),
        }
    };
    let (bytes, align) = (u64::from(line.bytes()), layout.align.max(1));
    let mut placements = vec![at(0, false)];
    if align < bytes {
        // Lines at base b: ceil((b + size) / L), which grows with b. The smallest base with the most lines says best what
        // an unlucky instance looks like.
        let most = at(bytes - align, true).lines;
        let enough = (most - 1).saturating_mul(bytes).checked_sub(layout.size);
        if let Some(enough) = enough.filter(|_| most > placements[0].lines) {
            placements.push(at(
                (enough + 1).next_multiple_of(align).min(bytes - align),
                true,
            ));
        }
    }
    placements
}

fn array(layout: &TypeLayout, line: LineSize) -> ArrayView {
    let (size, bytes) = (layout.size, u64::from(line.bytes()));
    let common = gcd(size, bytes);
    let (period, period_lines) = (bytes / common, size / common);
    let on_lines: Vec<(u64, u64)> = (0..period_lines)
        .take(ArrayView::MOST_LINES)
        .map(|n| {
            let (start, end) = (n.saturating_mul(bytes), (n + 1).saturating_mul(bytes));
            (start / size, (end - 1) / size)
        })
        .collect();
    let needed = size.div_ceil(bytes);
    let straddling = (0..period)
        .filter(|n| {
            let start = u128::from(*n) * u128::from(size);
            let bytes = u128::from(bytes);
            let lines = (start + u128::from(size) - 1) / bytes - start / bytes + 1;
            lines > u128::from(needed)
        })
        .count() as u64;
    let whole = size.is_multiple_of(bytes);
    ArrayView {
        line_size: line,
        period,
        period_lines,
        on_lines,
        straddling,
        shared: !whole,
        shared_at_worst: !whole || layout.align < bytes,
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
