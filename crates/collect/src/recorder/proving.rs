//! The phases of a recording with windows: sample, ask the planner, have the windows, go on or stop.

use std::{io::Write, time::Duration};

use hitm_model::{Event, Nanos, StopReason};

use super::{POLL_EVERY, Progress, Recorder, waiting::Waiting};
use crate::{
    clock,
    prove::{AfterWindows, Host, Life, Phase, Planned, Planner, Prove, Proved, Prover},
};

/// How often a planner that thinks is asked.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// What goes on around a recording while it is made.
pub(super) struct Watch<'a> {
    pub(super) waiting: Waiting,
    pub(super) progress: &'a mut dyn FnMut(&Progress),
    /// Why to stop, so long after the start.
    pub(super) stop: &'a mut dyn FnMut(Nanos) -> Option<StopReason>,
}

/// Records and proves, until there is a reason to stop.
pub(super) fn prove<W: Write>(
    recorder: &mut Recorder<W>,
    watch: &mut Watch<'_>,
    prove: Prove<'_>,
    mut prover: Prover<'_>,
) -> (Proved, StopReason) {
    let options = prove.options;
    let planned = match plan(recorder, watch, prove.planner, options.sample_for) {
        Ok(planned) => planned,
        Err((why, reason)) => return (Proved::Nothing(why), reason),
    };
    let (proved, reason) = match planned {
        Planned::Groups(groups) => {
            recorder.lives = Some(Vec::new());
            let done = prover.prove(&groups, &mut Windows { recorder, watch });
            recorder.lives = None;
            done
        }
        Planned::Refused(why) | Planned::NothingYet(why) => (Proved::Refused(why), None),
    };
    if let Some(reason) = reason {
        return (proved, reason);
    }
    let reason = match options.after {
        AfterWindows::GoOn => recorder.go_on(watch),
        // Once more: threads may have ended because the program does.
        AfterWindows::Stop => recorder
            .record(watch, Phase::Sampling, POLL_EVERY, &mut |_| Some(()))
            .err()
            .unwrap_or(StopReason::TimeOver),
    };
    (proved, reason)
}

/// Samples, asks what to prove, and again if there is nothing yet.
///
/// # Errors
/// Why there was nothing so far, and the reason to stop.
fn plan<W: Write>(
    recorder: &mut Recorder<W>,
    watch: &mut Watch<'_>,
    planner: &mut dyn Planner,
    sample_for: Duration,
) -> Result<Planned, (String, StopReason)> {
    let mut why = "it was over before it had been sampled for long enough".to_owned();
    let mut asked = Nanos::default();
    loop {
        let due = asked.plus(sample_for.into());
        let every = POLL_EVERY.min(sample_for);
        asked = recorder
            .record(watch, Phase::Sampling, every, &mut |now| {
                (now >= due).then_some(now)
            })
            .map_err(|reason| (why.clone(), reason))?;
        // The planner reads the file.
        recorder.output.flush();
        let planned = recorder
            .record(watch, Phase::Planning, ASK_EVERY, &mut |_| planner.plan())
            .map_err(|reason| (why.clone(), reason))?;
        match planned {
            Planned::NothingYet(reason) => {
                recorder.nothing_yet = Some(reason.clone());
                why = reason;
            }
            planned => {
                recorder.nothing_yet = None;
                return Ok(planned);
            }
        }
    }
}

/// The recording, as the windows see it.
struct Windows<'r, 'w, W> {
    recorder: &'r mut Recorder<W>,
    watch: &'r mut Watch<'w>,
}

impl<W: Write> Windows<'_, '_, W> {
    fn elapsed(&self) -> Nanos {
        clock::now().since(self.recorder.started)
    }
}

impl<W: Write> Host for Windows<'_, '_, W> {
    fn write(&mut self, event: &Event) {
        self.recorder.write(event);
    }

    fn drain(&mut self) {
        let elapsed = self.elapsed();
        // A sampler that fails is seen when the recording goes on; a file that takes nothing more is asked for below.
        let _ = self.recorder.poll(elapsed);
    }

    fn take_lives(&mut self) -> Vec<Life> {
        let lives = self.recorder.lives.as_mut();
        lives.map(std::mem::take).unwrap_or_default()
    }

    fn stop(&mut self) -> Option<StopReason> {
        if let Some(failed) = &self.recorder.output.failed {
            return Some(StopReason::WriteFailed(failed.clone()));
        }
        let elapsed = self.elapsed();
        (self.watch.stop)(elapsed)
    }

    fn progress(&mut self, phase: Phase) {
        let elapsed = self.elapsed();
        (self.watch.progress)(&self.recorder.so_far(elapsed, phase));
    }
}
