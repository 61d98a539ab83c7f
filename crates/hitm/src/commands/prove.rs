//! `hitm prove`: what the sharing costs. It is `run` or `attach` with windows, and ends when these are over.

use std::ffi::OsString;
use std::time::Duration;

use hitm_collect::prove::{AfterWindows, ProveOptions, Proved};

use super::{attach, run};
use crate::cli::{AttachArgs, ProveArgs, RunArgs, SamplerChoice, WindowArgs};
use crate::exit_codes::Exit;
use crate::output;

/// How long to sample before the planner is asked, where the user does not say.
const SAMPLE: Duration = Duration::from_secs(2);

/// More samples than this cost too much of the time of the thread whose speed is measured.
const MOST_RATE: u32 = 1000;

/// Runs or attaches, and measures.
pub(crate) fn prove(args: ProveArgs) -> anyhow::Result<Exit> {
    let ProveArgs {
        record,
        show,
        windows,
        pid,
        command,
    } = args;
    let after = AfterWindows::Stop;
    match pid {
        Some(pid) => {
            let args = AttachArgs {
                record,
                show,
                pid,
                prove: true,
                windows,
            };
            attach::attach(&args, after)
        }
        None => {
            let args = RunArgs {
                record,
                show,
                command,
                sampler: SamplerChoice::Auto,
                no_report: false,
                prove: true,
                windows,
            };
            run::run(&args, after)
        }
    }
}

/// What the process does that hitm starts to clean up after it.
pub(crate) fn guardian() -> anyhow::Result<Exit> {
    hitm_collect::prove::guardian()?;
    Ok(Exit::Done)
}

/// Refuses a rate that does not go with windows.
pub(super) fn check_rate(prove: bool, rate: Option<u32>) -> anyhow::Result<()> {
    if let Some(rate) = rate.filter(|&rate| prove && rate > MOST_RATE) {
        anyhow::bail!(
            "--rate {rate} is too high to measure with: samples cost time of the thread whose speed is measured \
             (at most --rate {MOST_RATE}, or leave it out)"
        );
    }
    Ok(())
}

pub(super) fn prove_options(args: &WindowArgs, after: AfterWindows) -> ProveOptions {
    ProveOptions {
        sample_for: args.sample.unwrap_or(SAMPLE),
        windows: args.windows,
        length: args.window.map(Duration::from_millis),
        budget: args.budget,
        matrix: args.matrix,
        after,
        guardian: ["/proc/self/exe", "guardian"].map(OsString::from).into(),
        seed: None,
    }
}

/// Says what the report cannot: why nothing was measured at all.
pub(super) fn say_what_was_proved(proved: &Proved) {
    match proved {
        Proved::NotAsked | Proved::Windows { .. } => {}
        Proved::Nothing(why) => output::say(&format!("hitm: nothing was measured: {why}")),
        Proved::Refused(why) => output::say(&format!("hitm: nothing could be measured: {why}")),
    }
}
