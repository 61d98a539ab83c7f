//! `hitm scale`: what do more threads give?
//!
//! - `request`: what the command line asks for. `processors`: how many there are to be used.
//! - `runs`: runs with so many threads. `progress`: how far it is.

mod processors;
mod progress;
mod request;
mod runs;

use std::ffi::OsString;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use hitm_collect::trial::{adopt_orphans, end_if_killed};
use hitm_experiment::scale::{
    Ended, Evidence, MetricName, Rounds, Scaled, Verdict, judge, measure,
};
use hitm_report::{PageOptions, scale_json, scale_svg, scale_table};

use self::progress::{Line, Watching};
use self::request::Request;
use self::runs::Runs;
use super::compare::facts::machine;
use super::evidence::evidence;
use super::found::{self, To};
use super::interrupt;
use super::kept::Kept;
use crate::cli::{ScaleArgs, ScaleFailOn};
use crate::exit_codes::Exit;
use crate::output;

/// Runs a command with different numbers of threads, in turn, and says what that gives.
pub(crate) fn scale(args: &ScaleArgs) -> anyhow::Result<Exit> {
    let request = request::request(args)?;
    let stop = interrupt::flag()?;
    adopt_orphans()?;
    end_if_killed(&["/proc/self/exe", "reaper"].map(OsString::from))?;
    let scaled = experiment(&request, args, &stop);
    show(&scaled, args)?;
    Ok(exit(&scaled, args.fail_on))
}

fn experiment(request: &Request, args: &ScaleArgs, stop: &AtomicBool) -> Scaled {
    let mut line = Line::new(&request.plan);
    let mut runs = Runs::new(&request.command, &request.metric, args.timeout, stop);
    let subject = Subject {
        request,
        machine: machine(),
    };
    let mut watching = Watching {
        line: &mut line,
        kept: Kept::new(To::of(args.json.json.as_ref())),
        subject: &subject,
    };
    let rounds = measure(request.plan.clone(), &mut runs, &mut watching);
    let mut scaled = subject.scaled(rounds);
    if !args.no_evidence && !stop.load(Ordering::Relaxed) {
        scaled.evidence = looked_at(&scaled, request, args, &line, stop);
    }
    line.bar.clear();
    scaled
}

/// What is measured, and where.
struct Subject<'a> {
    request: &'a Request,
    machine: String,
}

impl Subject<'_> {
    /// What rounds say of it.
    fn scaled(&self, rounds: Rounds<String>) -> Scaled {
        let request = self.request;
        let judgement = judge(&rounds, request.meaning, request.floor);
        Scaled {
            command: request.command.shown(),
            variables: request.command.shown_variables(),
            metric: MetricName::from(&request.metric),
            machine: self.machine.clone(),
            rounds,
            judgement,
            evidence: None,
        }
    }
}

/// One more run of the slowest point, recorded.
fn looked_at(
    scaled: &Scaled,
    request: &Request,
    args: &ScaleArgs,
    line: &Line,
    stop: &AtomicBool,
) -> Option<Evidence> {
    let threads = scaled.rounds.slowest(&scaled.judgement)?;
    line.bar
        .says(&format!("recording n = {threads} under hitm run"));
    let command = request.command.with(threads);
    let report = evidence(&command, args.timeout.into(), stop);
    Some(Evidence {
        threads,
        report: report.map_err(|error| format!("{error:#}")),
    })
}

fn show(scaled: &Scaled, args: &ScaleArgs) -> anyhow::Result<()> {
    let options = PageOptions {
        color: true,
        width: output::width(&io::stdout()),
    };
    found::show(
        To::of(args.json.json.as_ref()),
        |out| scale_json(scaled, out),
        |text| scale_table(scaled, &options, text),
    )?;
    // Last: a picture that cannot be written must not take the numbers with it.
    if let Some(path) = &args.svg {
        found::document(To::File(path), "--svg", |out| scale_svg(scaled, out))?;
    }
    Ok(())
}

fn exit(scaled: &Scaled, fail_on: ScaleFailOn) -> Exit {
    let failed = scaled.rounds.failures().next().is_some();
    let gate = fail_on == ScaleFailOn::Negative;
    match (&scaled.judgement.verdict, scaled.rounds.ended) {
        (Verdict::Negative { .. }, _) if gate => Exit::Gate,
        (_, Ended::Running | Ended::Interrupted | Ended::NothingToCompare) => Exit::Error,
        _ if failed => Exit::Error,
        (_, Ended::Disturbed) => Exit::Refused,
        // Nothing to judge by: a gate fails closed.
        (Verdict::Undecided { .. } | Verdict::SayWork(_) | Verdict::None(_), _) if gate => {
            Exit::Error
        }
        _ => Exit::Done,
    }
}
