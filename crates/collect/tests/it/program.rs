//! Programs of these tests, and recordings of them.

use std::{
    ffi::OsString,
    io::Write,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hitm_collect::{CollectError, Outcome, Progress, Rate, RunOptions, SamplerChoice, record_run};
use hitm_model::{Event, Sample, SpaceId, ThreadId};
use hitm_recording::Writer;

/// A file in memory that can be read after the recorder has had it.
#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    /// What is there by now; a recorder may still be writing.
    pub(crate) fn events_so_far(&self) -> Vec<Event> {
        hitm_recording::read_slice(&self.0.lock().unwrap())
            .unwrap()
            .0
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        let (events, damage) = hitm_recording::read_slice(&self.0.lock().unwrap()).unwrap();
        assert!(
            !damage.truncated && damage.damaged_blocks == 0,
            "{damage:?}"
        );
        events
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A C program that prints to standard output, which goes to a file.
pub(crate) struct Program {
    directory: tempfile::TempDir,
}

/// A run and what was recorded of it.
pub(crate) struct Recorded {
    pub(crate) outcome: Outcome,
    pub(crate) events: Vec<Event>,
    /// What the program wrote to its file, word by word.
    pub(crate) words: Vec<String>,
}

impl Program {
    pub(crate) fn new(source: &str, flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("main.c");
        std::fs::write(&file, source).unwrap();
        let output = std::process::Command::new("gcc")
            .args(["-O1", "-g", "-D_GNU_SOURCE", "-pthread", "-o"])
            .arg(directory.path().join("main"))
            .arg(&file)
            .args(flags)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        Self { directory }
    }

    pub(crate) fn path(&self) -> OsString {
        self.directory.path().join("main").into()
    }

    /// The file that the program gets as its first argument.
    pub(crate) fn said(&self) -> std::path::PathBuf {
        self.directory.path().join("said")
    }

    pub(crate) fn record(&self) -> Recorded {
        let command = [self.path(), self.said().into()];
        let (outcome, events) = record(&command, None, |_| {}).unwrap();
        let said = std::fs::read_to_string(self.said()).unwrap_or_default();
        let words = said.split_whitespace().map(str::to_owned).collect();
        Recorded {
            outcome,
            events,
            words,
        }
    }
}

/// Records a command. `watch` sees the progress and may set the flag that interrupts.
pub(crate) fn record(
    command: &[OsString],
    duration: Option<Duration>,
    mut watch: impl FnMut(&AtomicBool),
) -> Result<(Outcome, Vec<Event>), CollectError> {
    let file = Shared::default();
    let environment: Vec<_> = std::env::vars_os().collect();
    let interrupt = AtomicBool::new(false);
    let options = RunOptions {
        command,
        environment: &environment,
        rate: Rate::Hz(2000),
        sampler: SamplerChoice::Perf,
        duration,
        child_stdout_to_stderr: false,
        interrupt: &interrupt,
    };
    let mut progress = |_: &Progress| watch(&interrupt);
    let outcome = record_run(&options, Writer::new(file.clone()).unwrap(), &mut progress)?;
    assert!(interrupt.load(Ordering::Relaxed) || outcome.lost == 0);
    Ok((outcome, file.events()))
}

/// `sh -c` with a script.
pub(crate) fn shell(script: &str) -> [OsString; 3] {
    ["sh".into(), "-c".into(), script.into()]
}

impl Recorded {
    pub(crate) fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.events.iter().filter_map(|event| match event {
            Event::Sample(sample) => Some(sample),
            _ => None,
        })
    }

    pub(crate) fn threads_named(&self, wanted: &str) -> Vec<ThreadId> {
        let named = |event: &Event| match event {
            Event::ThreadBorn { thread, name, .. } | Event::ThreadNamed { thread, name, .. } => {
                (name == wanted).then_some(*thread)
            }
            _ => None,
        };
        self.events.iter().filter_map(named).collect()
    }
}

/// The spaces with the names of their first threads, in order.
pub(crate) fn spaces(events: &[Event]) -> Vec<(SpaceId, Option<SpaceId>, String)> {
    let mut spaces = Vec::new();
    for event in events {
        if let Event::SpaceBorn { space, parent, .. } = event {
            let first = events.iter().find_map(|event| match event {
                Event::ThreadBorn {
                    space: of, name, ..
                } if of == space => Some(name.clone()),
                _ => None,
            });
            spaces.push((*space, *parent, first.unwrap_or_default()));
        }
    }
    spaces
}
