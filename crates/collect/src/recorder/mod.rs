//! Ties it together: a program, a sampler, a session, and the file that the events go to.

mod options;
mod process;
mod proving;
mod waiting;

use std::{fs::File, io::Write, os::fd::AsRawFd as _, sync::atomic::Ordering, time::Duration};

use hitm_model::{
    Event, ExitStatus, LineSize, Machine, Nanos, Pid, RunInfo, RunMode, SamplerInfo, StopReason,
};
use hitm_recording::Writer;

pub use self::options::{
    AttachOptions, HottestLine, Outcome, Progress, Rate, RunOptions, SamplerChoice,
};
use self::{proving::Watch, waiting::Waiting};
use crate::{
    CollectError, calibrate, clock,
    launch::{Child, Launch, Urgency},
    machine,
    perf::PerfSampler,
    preload::Preload,
    prove::{Life, Phase, Prove, Proved, Prover},
    raw::RawEvent,
    sampler::Sampler,
    session::{ProcFs, Session},
};

/// How often events are fetched.
const POLL_EVERY: Duration = Duration::from_millis(100);

/// A killed recorder loses at most so much.
const FLUSH_EVERY: Nanos = Nanos::from_millis(1000);

/// By then the first mappings and threads are known: a recording that is cut later says what they were.
const FIRST_FLUSH: Nanos = Nanos::from_millis(100);

/// Starts a program and records it to its end, or until told to stop.
///
/// # Errors
/// If the program cannot be started or sampled. Once it runs, what goes wrong with the recording is the outcome's
/// [`StopReason`], not an error.
pub fn record_run<W: Write>(
    options: &RunOptions<'_>,
    writer: Writer<W>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Outcome, CollectError> {
    run(options, None, writer, progress)
}

/// [`record_run`], and meanwhile the program's threads are put on one processor for short windows.
///
/// # Errors
/// As [`record_run`]. What keeps the threads from being moved is in the outcome.
pub fn prove_run<W: Write>(
    options: &RunOptions<'_>,
    prove: Prove<'_>,
    writer: Writer<W>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Outcome, CollectError> {
    run(options, Some(prove), writer, progress)
}

fn run<W: Write>(
    options: &RunOptions<'_>,
    prove: Option<Prove<'_>>,
    writer: Writer<W>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Outcome, CollectError> {
    let most = most_rate(prove.as_ref());
    let (mut sampler, info) = choose(options.sampler, options.rate, most)?;
    let mut child = Child::hold(Launch {
        command: options.command,
        environment: options.environment,
        extra: &sampler.environment(),
        stdout_to_stderr: options.child_stdout_to_stderr,
    })?;
    sampler.arm(child.pid())?;
    let prove = prove.map(|prove| {
        let mut prover = Prover::new(prove.options);
        prover.measure_baselines();
        (prove, prover)
    });
    let words = options.command.iter();
    let command = words.map(|word| word.to_string_lossy().into_owned());
    let mut recorder = Recorder::new(writer, sampler);
    recorder.head(RunMode::Run, command.collect(), child.pid(), &info);
    child.release()?;
    // Not before the program runs: a recording takes the place of the last one when it is first written to.
    recorder.output.flush();
    let wake = recorder
        .sampler
        .wake_fds()
        .into_iter()
        .chain(child.wake_fd());
    let (proved, reason) = recorder.follow(
        Watch {
            waiting: Waiting::new(wake),
            progress,
            stop: &mut |now| {
                if child.try_wait().is_some() {
                    Some(StopReason::ProgramEnded)
                } else {
                    stop_asked(options.interrupt, options.duration, now)
                }
            },
        },
        prove,
    );
    recorder.stop();
    let status = end(&mut child, &reason, options);
    if let Some(status) = status {
        let pid = child.pid();
        recorder.write(&Event::ChildEnded { pid, status });
    }
    Ok(recorder.tail(child.pid(), status, info, reason, proved))
}

/// Records a process that already runs, to its end or until told to stop. It is left running.
///
/// # Errors
/// If the process cannot be sampled.
pub fn record_attach<W: Write>(
    options: &AttachOptions<'_>,
    writer: Writer<W>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Outcome, CollectError> {
    attach(options, None, writer, progress)
}

/// [`record_attach`], and meanwhile the process's threads are put on one processor for short windows.
///
/// # Errors
/// As [`record_attach`]. What keeps the threads from being moved is in the outcome.
pub fn prove_attach<W: Write>(
    options: &AttachOptions<'_>,
    prove: Prove<'_>,
    writer: Writer<W>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Outcome, CollectError> {
    attach(options, Some(prove), writer, progress)
}

fn attach<W: Write>(
    options: &AttachOptions<'_>,
    prove: Option<Prove<'_>>,
    writer: Writer<W>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Outcome, CollectError> {
    let pid = options.pid;
    process::check(pid)?;
    let (period, cost) = pace(options.rate, most_rate(prove.as_ref()));
    let sampler = PerfSampler::attach(period, pid)?;
    let info = info(&sampler, options.rate, cost, None);
    let process = process::watch(pid);
    let mut recorder = Recorder::new(writer, Box::new(sampler));
    recorder.head(RunMode::Attach, process::command(pid), pid, &info);
    let Recorder {
        session, output, ..
    } = &mut recorder;
    session.adopt(pid, &mut |event| output.write(&event));
    output.flush();
    let wake = process.iter().map(|fd| fd.as_raw_fd());
    let wake = recorder.sampler.wake_fds().into_iter().chain(wake);
    let prove = prove.map(|prove| {
        let prover = Prover::new(prove.options);
        (prove, prover)
    });
    let (proved, reason) = recorder.follow(
        Watch {
            waiting: Waiting::new(wake),
            progress,
            stop: &mut |now| {
                if process::is_gone(pid) {
                    Some(StopReason::ProgramEnded)
                } else {
                    stop_asked(options.interrupt, options.duration, now)
                }
            },
        },
        prove,
    );
    recorder.stop();
    Ok(recorder.tail(pid, None, info, reason, proved))
}

fn stop_asked(
    interrupt: &std::sync::atomic::AtomicBool,
    duration: Option<Duration>,
    elapsed: Nanos,
) -> Option<StopReason> {
    if interrupt.load(Ordering::Relaxed) {
        Some(StopReason::Interrupted)
    } else if duration.is_some_and(|duration| u128::from(elapsed.0) >= duration.as_nanos()) {
        Some(StopReason::TimeOver)
    } else {
        None
    }
}

/// The sampler to use, and what the recording says about it.
fn choose(
    choice: SamplerChoice,
    rate: Rate,
    most: u32,
) -> Result<(Box<dyn Sampler>, SamplerInfo), CollectError> {
    let refused = match choice {
        SamplerChoice::Auto | SamplerChoice::Perf => match PerfSampler::probe() {
            Ok(()) => {
                let (period, cost) = pace(rate, most);
                let sampler = PerfSampler::new(period);
                let info = info(&sampler, rate, cost, None);
                return Ok((Box::new(sampler), info));
            }
            Err(refused) if choice == SamplerChoice::Auto => Some(refused.to_string()),
            Err(refused) => return Err(refused),
        },
        SamplerChoice::Preload => None,
    };
    let rate_or_default = match rate {
        Rate::Auto => calibrate::DEFAULT_RATE.min(most),
        Rate::Hz(rate) => rate,
    };
    let sampler = Preload::new(calibrate::period_of(rate_or_default))?;
    let info = info(&sampler, rate, None, refused);
    Ok((Box::new(sampler), info))
}

/// The highest rate that is chosen for the user. A sample costs time of the very thread whose speed is measured in a
/// window, so there are no more than are needed.
const fn most_rate(prove: Option<&Prove<'_>>) -> u32 {
    match prove {
        Some(_) => 1000,
        None => u32::MAX,
    }
}

/// The period for a rate, `most` if it is ours to choose, and the cost of a sample if it was measured for that.
fn pace(rate: Rate, most: u32) -> (Nanos, Option<Nanos>) {
    let cost = calibrate::sample_cost();
    let rate = match rate {
        Rate::Auto => calibrate::rate_for(cost).min(most),
        Rate::Hz(rate) => rate,
    };
    (calibrate::period_of(rate), cost)
}

fn info(
    sampler: &dyn Sampler,
    rate: Rate,
    cost: Option<Nanos>,
    fallback: Option<String>,
) -> SamplerInfo {
    SamplerInfo {
        kind: sampler.kind(),
        period: sampler.period(),
        cost,
        rate_given: rate != Rate::Auto,
        fallback,
        shortfall: None,
    }
}

/// Sees to it that the program ends, unless it is to be left alone, and waits for that.
fn end(child: &mut Child, reason: &StopReason, options: &RunOptions<'_>) -> Option<ExitStatus> {
    let mut waiting = Waiting::new(child.wake_fd());
    // What is asked for from now on is asked for again.
    let asked = options.interrupt.swap(false, Ordering::Relaxed);
    let mut urgency = if asked && terminal_shows_us() {
        Urgency::Told
    } else {
        Urgency::Usual
    };
    loop {
        if let Some(status) = child.try_wait()
            && child.is_over(clock::now())
        {
            return Some(status);
        }
        if options.interrupt.swap(false, Ordering::Relaxed) {
            urgency = Urgency::Now;
        }
        // A full disk is no reason to end the program, nor to give it less time.
        let left_alone =
            matches!(reason, StopReason::WriteFailed(_)) && !asked && urgency != Urgency::Now;
        if !left_alone {
            child.end(clock::now(), urgency);
            if urgency == Urgency::Now {
                urgency = Urgency::Usual;
            }
        }
        waiting.wait(POLL_EVERY);
    }
}

/// Whether this process is in the foreground of a terminal: what is typed there goes to the program as well, and a
/// second signal would mean more than the user meant.
fn terminal_shows_us() -> bool {
    let foreground = File::open("/dev/tty").map(|tty| nix::unistd::tcgetpgrp(&tty));
    matches!(foreground, Ok(Ok(group)) if group == nix::unistd::getpgrp())
}

/// The recording while it is made.
struct Recorder<W> {
    output: Output<W>,
    sampler: Box<dyn Sampler>,
    session: Session<ProcFs>,
    machine: Machine,
    started: Nanos,
    flush_at: Nanos,
    /// Who was born and who ended, if anybody wants to know.
    lives: Option<Vec<Life>>,
    nothing_yet: Option<String>,
}

impl<W: Write> Recorder<W> {
    fn new(writer: Writer<W>, sampler: Box<dyn Sampler>) -> Self {
        let machine = machine::machine();
        Self {
            output: Output {
                writer,
                failed: None,
            },
            sampler,
            session: Session::new(ProcFs::new(), line_size(&machine)),
            machine,
            started: clock::now(),
            flush_at: FIRST_FLUSH,
            lives: None,
            nothing_yet: None,
        }
    }

    /// What every recording begins with.
    fn head(&mut self, mode: RunMode, command: Vec<String>, pid: Pid, info: &SamplerInfo) {
        self.started = clock::now();
        self.write(&Event::Machine(self.machine.clone()));
        self.write(&Event::Run(RunInfo {
            mode,
            command,
            pid,
            started_unix: clock::wall(),
            started: self.started,
            recorder: env!("CARGO_PKG_VERSION").into(),
        }));
        self.write(&Event::Sampler(info.clone()));
    }

    fn write(&mut self, event: &Event) {
        self.output.write(event);
    }

    /// Records until there is a reason to stop, and proves meanwhile if that is wanted.
    fn follow(
        &mut self,
        mut watch: Watch<'_>,
        prove: Option<(Prove<'_>, Prover<'_>)>,
    ) -> (Proved, StopReason) {
        match prove {
            Some((prove, prover)) => proving::prove(self, &mut watch, prove, prover),
            None => (Proved::NotAsked, self.go_on(&mut watch)),
        }
    }

    /// Records until there is a reason to stop.
    fn go_on(&mut self, watch: &mut Watch<'_>) -> StopReason {
        loop {
            // Nothing else ends it.
            if let Err(reason) =
                self.record(watch, Phase::Sampling, POLL_EVERY, &mut |_| None::<()>)
            {
                return reason;
            }
        }
    }

    /// Fetches events again and again, at least so often, until `until` has something.
    ///
    /// # Errors
    /// The reason to end the recording, if there is one before.
    fn record<T>(
        &mut self,
        watch: &mut Watch<'_>,
        phase: Phase,
        every: Duration,
        until: &mut dyn FnMut(Nanos) -> Option<T>,
    ) -> Result<T, StopReason> {
        loop {
            watch.waiting.wait(every);
            let elapsed = clock::now().since(self.started);
            // Asked before the events are fetched: what happened until the end is all there, then.
            let reason = (watch.stop)(elapsed);
            self.poll(elapsed)?;
            if let Some(reason) = reason {
                return Err(reason);
            }
            if let Some(found) = until(elapsed) {
                return Ok(found);
            }
            (watch.progress)(&self.so_far(elapsed, phase));
        }
    }

    /// Fetches events.
    ///
    /// # Errors
    /// If that fails, or the file cannot be written.
    fn poll(&mut self, elapsed: Nanos) -> Result<(), StopReason> {
        let Self {
            output,
            sampler,
            session,
            lives,
            ..
        } = self;
        let polled = sampler.poll(&mut |raw| {
            if let Some(lives) = lives.as_mut() {
                lives.extend(life(&raw));
            }
            session.handle(raw, &mut |event| output.write(&event));
        });
        if elapsed >= self.flush_at {
            self.flush_at = elapsed.plus(FLUSH_EVERY);
            self.output.flush();
        }
        if let Err(error) = polled {
            return Err(StopReason::WriteFailed(error.to_string()));
        }
        match &self.output.failed {
            Some(failed) => Err(StopReason::WriteFailed(failed.clone())),
            None => Ok(()),
        }
    }

    fn so_far(&self, elapsed: Nanos, phase: Phase) -> Progress {
        let hottest = self.session.hottest();
        Progress {
            elapsed,
            samples: self.session.totals().samples,
            hottest: hottest.map(|(line, place, meetings)| HottestLine {
                line: line.0,
                place,
                meetings,
            }),
            phase,
            nothing_yet: self.nothing_yet.clone(),
        }
    }

    /// Takes no more samples, and fetches what is left.
    fn stop(&mut self) {
        self.sampler.stop();
        let Self {
            output,
            sampler,
            session,
            ..
        } = self;
        // What cannot be fetched any more is lost; the recording up to here is good.
        let _ = sampler.finish(&mut |raw| session.handle(raw, &mut |event| output.write(&event)));
        self.output.flush();
    }

    /// What every recording ends with.
    fn tail(
        mut self,
        pid: Pid,
        child: Option<ExitStatus>,
        sampler: SamplerInfo,
        mut reason: StopReason,
        proved: Proved,
    ) -> Outcome {
        let at = clock::now();
        if let Some(shortfall) = self.sampler.shortfall() {
            self.write(&Event::Sampler(SamplerInfo {
                shortfall: Some(shortfall),
                ..sampler.clone()
            }));
        }
        self.write(&Event::Ended {
            at,
            reason: reason.clone(),
        });
        self.output.flush();
        if let Some(failed) = self.output.failed {
            reason = StopReason::WriteFailed(failed);
        }
        let totals = self.session.totals();
        Outcome {
            pid,
            child,
            sampler,
            samples: totals.samples,
            lost: totals.lost,
            duration: at.since(self.started),
            reason,
            proved,
        }
    }
}

/// The beginning or end of a thread, if that is what the event says.
const fn life(raw: &RawEvent) -> Option<Life> {
    match *raw {
        RawEvent::Born {
            pid,
            tid,
            parent_tid,
            at,
            ..
        } => Some(Life::Born {
            pid,
            tid,
            parent: parent_tid,
            at,
        }),
        RawEvent::Ended { tid, .. } => Some(Life::Ended(tid)),
        _ => None,
    }
}

/// The file, and why it takes no more.
struct Output<W> {
    writer: Writer<W>,
    failed: Option<String>,
}

impl<W: Write> Output<W> {
    fn write(&mut self, event: &Event) {
        if self.failed.is_none()
            && let Err(error) = self.writer.event(event)
        {
            self.failed = Some(describe(&error));
        }
    }

    fn flush(&mut self) {
        if self.failed.is_none()
            && let Err(error) = self.writer.flush()
        {
            self.failed = Some(describe(&error));
        }
    }
}

/// Most machines' line size where the machine does not tell; it only guides what is looked at while recording.
fn line_size(machine: &Machine) -> LineSize {
    machine.line_size.unwrap_or(LineSize::ASSUMED)
}

/// An error with what caused it.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
