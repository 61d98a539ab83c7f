//! By what progress was measured: in a few words behind a ratio, and in full.

use hitm_model::{Measure, Progress};

use crate::words::{in_file, inline_chain, interval, own_line, some_of, spot};

/// `, by rbx at worker, src/main.c:40`, or `both by` it, or with what each says where there are several measures.
pub(super) fn by(measures: &[Measure], threads: usize) -> String {
    let by = match threads {
        1 => "by",
        2 => "both by",
        _ => "all by",
    };
    let all: Vec<_> = match measures {
        [] => return String::new(),
        [one] => vec![format!("{by} {}", in_few_words(one))],
        several => several
            .iter()
            .map(|one| format!("{by} {} ({})", in_few_words(one), interval(one.ratio)))
            .collect(),
    };
    format!(", {}", some_of(all.iter().map(String::as_str), 3))
}

fn in_few_words(measure: &Measure) -> String {
    let what = match &measure.progress {
        Progress::Word { name, .. } => format!("the word {name}"),
        Progress::Register {
            register,
            binary,
            address,
            throughout,
            frames,
        } => {
            let preposition = if *throughout { "throughout" } else { "at" };
            let place = spot(binary, *address, frames);
            format!("{register} {preposition} {place}")
        }
    };
    what + &named(measure)
}

/// With the instruction's or the word's address.
pub(super) fn in_full(measure: &Measure) -> String {
    let what = match &measure.progress {
        Progress::Word { name, address } => format!("the word {name} at {address}"),
        Progress::Register {
            register,
            binary,
            address,
            throughout,
            frames,
        } => {
            let where_to = if *throughout {
                "at all instructions of"
            } else {
                "at"
            };
            let code = in_file(binary, *address);
            match (own_line(frames), inline_chain(frames)) {
                (Some(line), chain) => format!("{register} {where_to} {chain}, {line} ({code})"),
                (None, chain) if chain.is_empty() => format!("{register} {where_to} {code}"),
                (None, chain) => format!("{register} {where_to} {chain} ({code})"),
            }
        }
    };
    what + &named(measure)
}

fn named(measure: &Measure) -> String {
    match &measure.named {
        Some(name) => format!(" (named by `--progress {name}`)"),
        None => String::new(),
    }
}
