//! One layout under the sampler: the way of `hitm run`, with the recording in a temporary folder.

use std::ffi::OsString;
use std::fs::File;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use hitm_analysis::Options;
use hitm_collect::{Rate, RunOptions, SamplerChoice, record_run};
use hitm_model::{Report, Verdict};
use hitm_recording::Writer;

use super::workload::Work;
use crate::load::{Files, RecordingFile};

/// Records the workload and analyses the recording.
pub(super) fn sample(work: &Work, interrupt: &AtomicBool) -> anyhow::Result<Report> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let path = folder.path().join("demo.hitm");
    let file = File::create(&path).context("cannot create the recording of the demo")?;
    let writer = Writer::new(file).context("cannot write the recording of the demo")?;
    let program = std::env::current_exe().context("hitm cannot find its own file")?;
    let mut command = vec![program.into_os_string(), OsString::from(super::WORKLOAD)];
    command.extend(work.arguments().map(OsString::from));
    let environment: Vec<_> = std::env::vars_os().collect();
    let options = RunOptions {
        command: &command,
        environment: &environment,
        rate: Rate::Auto,
        sampler: SamplerChoice::Auto,
        duration: None,
        child_stdout_to_stderr: true,
        interrupt,
    };
    record_run(&options, writer, &mut |_| {})?;
    let recording = RecordingFile::open(&path)?;
    let files = Files::default();
    Ok(hitm_analysis::analyse(
        &recording,
        &files,
        &Options::default(),
    ))
}

/// Whether the report has false sharing of the collector's counters.
pub(super) fn shows_false_sharing(report: &Report) -> bool {
    report.findings.iter().any(|finding| {
        finding.verdict == Verdict::FalseSharing
            && finding
                .objects
                .iter()
                .any(|object| object.name.contains(super::COUNTERS))
    })
}
