//! Asks and measures everything, in an order that shows progress; decides and prints nothing.

use std::time::Duration;

use hitm_collect::machine::{
    Abilities, CannotTell, CoRun, Cpu, LatencyBudget, LatencyMatrix, LineSizes, Operation,
    Placement, Ratio, RatioBudget, SystemFiles, abilities, allowed_cpus, co_run, cost_ratio,
    cpu_quota, latency_matrix, line_sizes, machine, shared_cores, two_cpus,
};
use hitm_model::{LineSize, Machine};

/// All that the doctor knows.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Examination {
    /// What the machine is.
    pub(super) machine: Machine,
    /// The processors that may be used.
    pub(super) cpus: Vec<Cpu>,
    /// Those of them that share a core; `None` where the machine does not tell.
    pub(super) shared_cores: Option<Vec<Vec<Cpu>>>,
    /// The CPU quota, in processors.
    pub(super) quota: Option<f64>,
    /// What states a line size.
    pub(super) lines: LineSizes,
    /// What is granted.
    pub(super) abilities: Abilities,
    /// What was measured, unless the user was in a hurry.
    pub(super) measured: Option<Measured>,
}

/// Figures, or why there are none.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Measured {
    /// Whether two threads ran side by side.
    pub(super) co_run: Result<CoRun, CannotTell>,
    /// What moving a line takes.
    pub(super) latency: Result<LatencyMatrix, CannotTell>,
    /// What one line for two threads costs.
    pub(super) same_line: Vec<(Operation, Result<Ratio, CannotTell>)>,
    /// What neighbouring lines for two threads cost.
    pub(super) paired_lines: Vec<(Operation, Result<Ratio, CannotTell>)>,
}

/// Where a neighbour's line is dragged over by a prefetcher, these feel it.
const PAIR_OPERATIONS: [Operation; 2] = [Operation::LockedAdds, Operation::DependentUpdates];

const CO_RUN: Duration = Duration::from_millis(200);
const LATENCY: LatencyBudget = LatencyBudget {
    total: Duration::from_millis(2500),
    good_windows: 10,
};
/// An idle machine needs a tenth of the time; a busy one gets more tries.
const RATIO: RatioBudget = RatioBudget {
    pairs: 20,
    time: Duration::from_millis(700),
};

/// Examines this machine. `progress` gets what is being done and the share that is done, from 0 to 1.
pub(super) fn examine(quick: bool, progress: &mut dyn FnMut(&str, f64)) -> Examination {
    let files = SystemFiles::of_this_machine();
    let cpus = allowed_cpus(&files);
    let shared_cores = shared_cores(&files, &cpus);
    let lines = line_sizes(&files);
    let measured = (!quick).then(|| {
        let two = two_cpus(&cpus, shared_cores.as_deref());
        measure(&files, &cpus, two, lines.coherence(), progress)
    });
    Examination {
        machine: machine(),
        quota: cpu_quota(&files),
        abilities: abilities(&files, &std::env::temp_dir()),
        cpus,
        shared_cores,
        lines,
        measured,
    }
}

fn measure(
    files: &SystemFiles,
    cpus: &[Cpu],
    two: Option<[Cpu; 2]>,
    line: Option<LineSize>,
    progress: &mut dyn FnMut(&str, f64),
) -> Measured {
    let missing = match cpus {
        [] => CannotTell::UnknownCpus,
        _ => CannotTell::OneCpu,
    };
    let two = two.ok_or(missing);
    progress("two threads side by side", 0.0);
    let co_run = two.clone().and_then(|two| co_run(files, two, CO_RUN));
    let latency = latency_matrix(cpus, LATENCY, &mut |share| {
        progress("line transfer between cores", 0.1 + 0.4 * share);
    });
    let ratio = |operation, placement| {
        let line = line.ok_or(CannotTell::UnknownLineSize)?;
        cost_ratio(two.clone()?, line, operation, placement, RATIO)
    };
    let mut same_line = Vec::new();
    for (done, operation) in Operation::ALL.into_iter().enumerate() {
        progress("what a shared line costs", 0.5 + 0.08 * done as f64);
        same_line.push((operation, ratio(operation, Placement::SameLine)));
    }
    let mut paired_lines = Vec::new();
    for (done, operation) in PAIR_OPERATIONS.into_iter().enumerate() {
        progress("what a neighbouring line costs", 0.82 + 0.09 * done as f64);
        paired_lines.push((operation, ratio(operation, Placement::PairedLines)));
    }
    progress("done", 1.0);
    Measured {
        co_run,
        latency,
        same_line,
        paired_lines,
    }
}
