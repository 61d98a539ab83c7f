//! What limits the result, as sentences with what to do.

use hitm_experiment::shake::{ArmEnded, Change, Moved, Shaken};

use super::builds::Base;

/// Processors used on average below which threads hardly ran side by side.
const SIDE_BY_SIDE: f64 = 1.2;

pub(super) fn of(
    shaken: &Shaken,
    base: &Base,
    data_sections: bool,
    changed: &[String],
) -> Vec<String> {
    let mut caveats = Vec::new();
    let missing = shaken.missing();
    if missing > 0 {
        caveats.push(format!(
            "{missing} of {} layouts are missing, and nothing is said of them: why is above",
            shaken.variants.len()
        ));
    }
    if let Some(overlap) = shaken.rounds.as_ref().and_then(|rounds| rounds.overlap())
        && overlap < SIDE_BY_SIDE
    {
        caveats.push(format!(
            "the base used {overlap:.1} processors on average: threads that take turns, or a program with one, do not meet on \
             a line, whatever the layout (run what uses its threads, on an idle machine)"
        ));
    }
    if base.places.is_empty() {
        caveats.push(
            "the program has no symbols: whether variables moved was not checked, and none can be named (link without -s, \
             strip nothing)"
                .into(),
        );
    }
    if let Some(why) = &base.why_not
        && why != "--rebuild"
    {
        caveats.push(format!(
            "each variant was built from the beginning, because {why}"
        ));
    }
    if base.has_lto {
        caveats.push(
            "code is made in the link (LTO): objects in another order give other code too, and their order is not that of \
             the variables"
                .into(),
        );
    }
    let sections = match data_sections {
        true => "",
        false => " (give variables sections of their own: --data-sections)",
    };
    if nothing_moved(shaken) {
        caveats.push(format!(
            "no shift moved a variable within its line: something in the data is aligned to a line or more, and all that is in \
             one block with it stays where it is{sections}"
        ));
    }
    if nothing_shuffled(shaken) {
        caveats.push(format!(
            "there is no other order of what was linked: one object file, whose variables have no sections of their own{sections}"
        ));
    }
    if !changed.is_empty() {
        caveats.push(format!(
            "files of the tree itself changed meanwhile: {} (they are not in the copy)",
            changed.join(", ")
        ));
    }
    if failed_in_another_order(shaken) {
        caveats.push(
            "a variant failed in another order of its objects: does a global object need one of another file when the \
             program begins? That works by luck, too"
                .into(),
        );
    }
    caveats
}

fn nothing_moved(shaken: &Shaken) -> bool {
    let mut shifts = shaken
        .variants
        .iter()
        .filter(|variant| matches!(variant.change, Change::Shift { .. }))
        .peekable();
    let nowhere = |moved: &Moved| matches!(moved, Moved::Nowhere { same_as: None });
    shifts.peek().is_some() && shifts.all(|variant| variant.built.as_ref().is_ok_and(nowhere))
}

fn nothing_shuffled(shaken: &Shaken) -> bool {
    let mut shuffles = shaken
        .variants
        .iter()
        .filter(|variant| matches!(variant.change, Change::Shuffle { .. }))
        .peekable();
    shuffles.peek().is_some() && shuffles.all(|variant| variant.built == Ok(Moved::SameFile))
}

fn failed_in_another_order(shaken: &Shaken) -> bool {
    let Some(rounds) = &shaken.rounds else {
        return false;
    };
    let failed = |number: usize| matches!(rounds.arms.get(number), Some(ArmEnded::Failed(_)));
    shaken.variants.iter().any(|variant| {
        matches!(variant.change, Change::Shuffle { .. }) && variant.number.is_some_and(failed)
    })
}
