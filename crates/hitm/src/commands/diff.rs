//! `hitm diff`: is it the code or the layout?

use std::io;

use hitm_analysis::diff::{DiffOptions, Side, diff as compare};
use hitm_binary::image::ImageMachine;
use hitm_model::{BuildDiff, Caveat};
use hitm_report::{DiffTableOptions, diff_json, diff_table};

use super::found::{self, To};
use super::static_binary::{StaticBinary, jobs, line_size};
use crate::cli::{DiffArgs, DiffFailOn};
use crate::exit_codes::Exit;
use crate::output;

/// Compares two builds.
pub(crate) fn diff(args: &DiffArgs) -> anyhow::Result<Exit> {
    let (old, new) = (
        StaticBinary::open_with_code(&args.old)?,
        StaticBinary::open_with_code(&args.new)?,
    );
    let (old_types, new_types) = (old.catalog()?, new.catalog()?);
    let (old_name, new_name) = (
        args.old.display().to_string(),
        args.new.display().to_string(),
    );
    let options = DiffOptions {
        line_size: line_size(args.line_size),
        jobs: jobs(),
    };
    let mut found = compare(
        Side {
            name: &old_name,
            image: old.image(),
            catalog: old_types.as_ref(),
        },
        Side {
            name: &new_name,
            image: new.image(),
            catalog: new_types.as_ref(),
        },
        &options,
    );
    for (binary, types) in [(&old, old_types.as_ref()), (&new, new_types.as_ref())] {
        found.caveats.extend(binary.caveats(types));
        let machine = binary.image().machine();
        if machine != ImageMachine::X86_64 {
            found.caveats.push(Caveat::CodeNotDecoded {
                binary: binary.name().to_owned(),
                machine: machine.to_string(),
            });
        }
    }
    // Both builds may have the same to say, and one name.
    let mut known: Vec<Caveat> = Vec::new();
    for caveat in std::mem::take(&mut found.caveats) {
        if !known.contains(&caveat) {
            known.push(caveat);
        }
    }
    found.caveats = known;
    show(&found, args)?;
    Ok(match args.fail_on {
        DiffFailOn::Joined if !found.joined.is_empty() => Exit::Gate,
        // Without symbols there is nothing to judge by: a gate fails closed.
        DiffFailOn::Joined if found.objects == 0 => {
            output::say(
                "hitm: --fail-on cannot be judged: the builds have no variable in common (are they stripped?)",
            );
            Exit::Error
        }
        DiffFailOn::Joined | DiffFailOn::Never => Exit::Done,
    })
}

fn show(found: &BuildDiff, args: &DiffArgs) -> anyhow::Result<()> {
    let options = DiffTableOptions {
        color: true,
        width: output::width(&io::stdout()),
        top: (!args.all).then_some(args.top),
    };
    found::show(
        To::of(args.json.json.as_ref()),
        |out| diff_json(found, out),
        |text| diff_table(found, &options, text),
    )
}
