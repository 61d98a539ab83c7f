//! Threads that were compared apart and together though no listed finding joins them: because the user named them, or
//! because something slows them down that is not a line.

use std::io;

use hitm_model::{CoLocated, LineSize};

use super::finding::TEXT;
use super::{label, measured as paragraphs};
use crate::causes::cause;
use crate::measured::{Judged, Measured, measured};
use crate::page::{BOLD, Page, plain, span};
use crate::words::{interval, some_of};

pub(super) fn compared(
    page: &mut Page<'_>,
    groups: &[CoLocated],
    line_size: LineSize,
    all: bool,
) -> io::Result<()> {
    page.row(&[span(BOLD, "Threads compared that share no listed line")])?;
    for group in groups {
        page.blank()?;
        let outcome = measured(std::iter::once(group));
        title(page, group, outcome)?;
        paragraphs::of_group(page, group, all)?;
        if outcome.is_some_and(|measured| measured.judged == Judged::Costs) {
            causes(page, group, line_size)?;
        }
    }
    Ok(())
}

/// `lower and upper: 1.7× [1.6, 1.8]`.
fn title(page: &mut Page<'_>, group: &CoLocated, outcome: Option<Measured>) -> io::Result<()> {
    let who = some_of(group.threads.iter().map(|thread| thread.name.as_str()), 4);
    let who = if who.is_empty() { "no threads" } else { &who };
    let outcome = match outcome {
        None => String::new(),
        Some(Measured { judged, ratio }) => match judged {
            Judged::Costs => format!(": {}", interval(ratio)),
            Judged::Slower => format!(
                ": {}: slower together, which may hide a cost",
                interval(ratio)
            ),
            Judged::WithinNoise => format!(": {}, within the noise", interval(ratio)),
            Judged::Nothing => format!(": {}: nothing to gain by separating them", interval(ratio)),
        },
    };
    page.paragraph(&[plain("   ")], 5, &[span(BOLD, who), plain(outcome)])
}

/// What else may slow them down, the likeliest first.
fn causes(page: &mut Page<'_>, group: &CoLocated, line_size: LineSize) -> io::Result<()> {
    let shared = group.split.is_some();
    let intro = match (shared, group.causes.as_slice()) {
        (true, _) => {
            "they share lines that are below the least share and not listed: `--min-share 0` lists them"
        }
        (false, []) => "no line was seen that they share, and nothing else that would explain it",
        (false, [_]) => "no line is shared; the likely cause:",
        (false, _) => "no line is shared; likely causes:",
    };
    page.paragraph(&label("why"), TEXT, &[plain(intro)])?;
    for of in &group.causes {
        let bullet = format!("{:TEXT$}- ", "");
        page.paragraph(&[plain(bullet)], TEXT + 2, &[plain(cause(of, line_size))])?;
    }
    Ok(())
}
