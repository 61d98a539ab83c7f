//! Runs with so many threads, as processes.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use hitm_collect::trial::{TrialError, run};
use hitm_experiment::scale::{Executor, Failed, Threads};
use hitm_experiment::{Metric, Seconds, Trial};

use super::request::Template;
use crate::commands::compare::executor::{said, trial};

/// Starts a fresh process for every run.
pub(super) struct Runs<'a> {
    command: &'a Template,
    metric: &'a Metric,
    timeout: Duration,
    stop: &'a AtomicBool,
    began: Instant,
}

impl<'a> Runs<'a> {
    pub(super) fn new(
        command: &'a Template,
        metric: &'a Metric,
        timeout: Duration,
        stop: &'a AtomicBool,
    ) -> Self {
        Self {
            command,
            metric,
            timeout,
            stop,
            began: Instant::now(),
        }
    }
}

impl Executor for Runs<'_> {
    type Failure = String;

    fn run(&mut self, threads: Threads) -> Result<Trial, Failed<String>> {
        let command = self.command.with(threads);
        let run = match run(&command, Some(self.timeout.into()), None, self.stop) {
            Ok(run) => run,
            Err(TrialError::Interrupted) => return Err(Failed::Interrupted),
            Err(error) => return Err(Failed::Run(said(&error))),
        };
        trial(self.metric, &run).map_err(Failed::Run)
    }

    fn spent(&self) -> Seconds {
        Seconds(self.began.elapsed().as_secs_f64())
    }
}
