//! What is said of layouts, in words that the table and the document share.

use hitm_experiment::shake::{Arm, ArmEnded, Change, Ended, Moved, Shaken, Variant};

/// The name of an arm.
pub(super) fn arm(shaken: &Shaken, arm: Arm) -> String {
    match arm {
        Arm::Base => "base".into(),
        Arm::BaseAgain => "base again".into(),
        Arm::Variant(number) => {
            let of = |variant: &&Variant| variant.number == Some(number);
            let found = shaken.variants.iter().find(of);
            found.map_or_else(String::new, |variant| variant.change.to_string())
        }
    }
}

/// What a variant's variables did.
pub(super) fn moved(variant: &Variant) -> String {
    let moved = match (&variant.built, variant.change) {
        (Err(_), _) => return "not built".into(),
        (Ok(_), Change::Environment { bytes, .. }) => {
            return format!("environment {bytes} bytes larger");
        }
        (Ok(moved), _) => moved,
    };
    match moved {
        Moved::SameFile => "nothing: the same file".into(),
        Moved::Nowhere { same_as: None } => "nothing within its line".into(),
        Moved::Nowhere {
            same_as: Some(other),
        } => format!("as in {other}"),
        Moved::NotKnown => "not known".into(),
        Moved::Sections(sections) => {
            let asked = match variant.change {
                Change::Shift { bytes } => Some(bytes),
                _ => None,
            };
            let texts: Vec<String> = sections
                .iter()
                .map(|section| match asked {
                    Some(asked) if asked == section.bytes => {
                        format!(
                            "{} {} of {}",
                            section.section, section.agree, section.variables
                        )
                    }
                    Some(_) if section.bytes == 0 => {
                        format!(
                            "{} {} of {}",
                            section.section, section.moved, section.variables
                        )
                    }
                    Some(_) if section.bytes == 0 => format!(
                        "{} {} of {}",
                        section.section, section.moved, section.variables
                    ),
                    Some(_) => format!(
                        "{} by {}: {} of {}",
                        section.section, section.bytes, section.agree, section.variables
                    ),
                    None => format!(
                        "{} {} of {}",
                        section.section, section.moved, section.variables
                    ),
                })
                .collect();
            texts.join(", ")
        }
    }
}

/// Why a variant has no runs, or not all; `None` if it has.
pub(super) fn failure(shaken: &Shaken, variant: &Variant) -> Option<String> {
    if let Err(why) = &variant.built {
        return Some(format!("not built: {why}"));
    }
    let ended = shaken.rounds.as_ref()?.arms.get(variant.number?)?;
    match ended {
        ArmEnded::Ran => None,
        ArmEnded::Failed(why) => Some(format!("failed: {why}")),
    }
}

/// Why no more was run, as a word of the document.
pub(super) fn ended(ended: &Ended<String>) -> &'static str {
    match ended {
        Ended::Running => "running",
        Ended::AllRun => "all-run",
        Ended::Budget => "budget",
        Ended::Disturbed => "disturbed",
        Ended::Interrupted => "interrupted",
        Ended::Failed(_) => "failed",
    }
}
