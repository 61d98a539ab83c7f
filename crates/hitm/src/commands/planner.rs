//! What to prove: the threads that findings join, by the recording so far.
//!
//! Analysing takes a while, and the sampler's rings must be emptied meanwhile, so the planner thinks on a thread of its
//! own. It reads the recording that is still being written.

use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use hitm_analysis::{PlanError, PlanOptions};
use hitm_collect::prove::{Planned, Planner};
use hitm_model::Pid;

use super::show::analysis_options;
use crate::cli::{ShowArgs, WindowArgs};
use crate::load::{Files, RecordingFile};

/// Plans by findings.
#[derive(Debug)]
pub(super) struct FindingsPlanner {
    question: Arc<Question>,
    thinking: Option<JoinHandle<Planned>>,
}

#[derive(Debug)]
struct Question {
    recording: Mutex<RecordingFile>,
    analysis: hitm_analysis::Options,
    plan: PlanOptions,
    alive: Option<Pid>,
}

impl FindingsPlanner {
    /// Plans by `recording`, which is still being written. `alive` is the process if somebody else started it, and `cpus` is
    /// how many processors its threads may use.
    pub(super) fn new(
        recording: RecordingFile,
        show: &ShowArgs,
        windows: &WindowArgs,
        alive: Option<Pid>,
        cpus: usize,
    ) -> Self {
        Self {
            question: Arc::new(Question {
                recording: Mutex::new(recording),
                analysis: analysis_options(show),
                plan: PlanOptions {
                    threads: windows.threads.clone(),
                    progress: windows.progress.clone(),
                    cpus,
                },
                alive,
            }),
            thinking: None,
        }
    }
}

impl Planner for FindingsPlanner {
    fn plan(&mut self) -> Option<Planned> {
        let thinking = match self.thinking.take() {
            Some(thinking) => thinking,
            None => {
                let question = Arc::clone(&self.question);
                let thread = thread::Builder::new().name("hitm-planner".into());
                match thread.spawn(move || question.answer()) {
                    Ok(thinking) => thinking,
                    Err(error) => {
                        return Some(Planned::Refused(format!(
                            "a thread of hitm's own cannot be started: {error} (is the number of processes limited? \
                             `ulimit -u`)"
                        )));
                    }
                }
            }
        };
        if !thinking.is_finished() {
            self.thinking = Some(thinking);
            return None;
        }
        // A panic has been reported by the thread itself.
        let failed = || Planned::Refused("hitm itself failed (see above)".into());
        Some(thinking.join().unwrap_or_else(|_| failed()))
    }
}

impl Question {
    fn answer(&self) -> Planned {
        let files = Files::seen_by(self.alive);
        let Ok(recording) = self.recording.lock() else {
            return Planned::Refused("hitm itself failed (see above)".into());
        };
        match hitm_analysis::plan(&*recording, &files, &self.analysis, &self.plan) {
            Ok(groups) if groups.is_empty() => {
                Planned::NothingYet("no threads were seen to share a line".into())
            }
            Ok(groups) => Planned::Groups(groups),
            Err(PlanError::NotYet(why)) => Planned::NothingYet(why),
            Err(error) => Planned::Refused(error.to_string()),
        }
    }
}
