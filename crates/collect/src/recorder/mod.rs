//! Ties it together: a program, a sampler, a session, and the file that the events go to.

mod options;
mod process;
mod waiting;

use std::{fs::File, io::Write, os::fd::AsRawFd as _, sync::atomic::Ordering, time::Duration};

use hitm_model::{
    Event, ExitStatus, LineSize, Machine, Nanos, Pid, RunInfo, RunMode, SamplerInfo, StopReason,
};
use hitm_recording::Writer;

pub use self::options::{
    AttachOptions, HottestLine, Outcome, Progress, Rate, RunOptions, SamplerChoice,
};
use self::waiting::Waiting;
use crate::{
    CollectError, calibrate, clock,
    launch::{Child, Launch, Urgency},
    machine,
    perf::PerfSampler,
    preload::Preload,
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
    let (mut sampler, info) = choose(options.sampler, options.rate)?;
    let mut child = Child::hold(Launch {
        command: options.command,
        environment: options.environment,
        extra: &sampler.environment(),
        stdout_to_stderr: options.child_stdout_to_stderr,
    })?;
    sampler.arm(child.pid())?;
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
    let reason = recorder.record(Waiting::new(wake), progress, &mut |now| {
        if child.try_wait().is_some() {
            Some(StopReason::ProgramEnded)
        } else {
            stop_asked(options.interrupt, options.duration, now)
        }
    });
    recorder.stop();
    let status = end(&mut child, &reason, options);
    if let Some(status) = status {
        let pid = child.pid();
        recorder.write(&Event::ChildEnded { pid, status });
    }
    Ok(recorder.tail(child.pid(), status, info, reason))
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
    let pid = options.pid;
    process::check(pid)?;
    let (period, cost) = pace(options.rate);
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
    let reason = recorder.record(Waiting::new(wake), progress, &mut |now| {
        if process::is_gone(pid) {
            Some(StopReason::ProgramEnded)
        } else {
            stop_asked(options.interrupt, options.duration, now)
        }
    });
    recorder.stop();
    Ok(recorder.tail(pid, None, info, reason))
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
) -> Result<(Box<dyn Sampler>, SamplerInfo), CollectError> {
    let refused = match choice {
        SamplerChoice::Auto | SamplerChoice::Perf => match PerfSampler::probe() {
            Ok(()) => {
                let (period, cost) = pace(rate);
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
        Rate::Auto => calibrate::DEFAULT_RATE,
        Rate::Hz(rate) => rate,
    };
    let sampler = Preload::new(calibrate::period_of(rate_or_default))?;
    let info = info(&sampler, rate, None, refused);
    Ok((Box::new(sampler), info))
}

/// The period for a rate, and the cost of a sample if it was measured for that.
fn pace(rate: Rate) -> (Nanos, Option<Nanos>) {
    let cost = calibrate::sample_cost();
    let rate = match rate {
        Rate::Auto => calibrate::rate_for(cost),
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

    /// Fetches events again and again, until `stop` gives a reason to end or the file cannot be written.
    fn record(
        &mut self,
        mut waiting: Waiting,
        progress: &mut dyn FnMut(&Progress),
        stop: &mut dyn FnMut(Nanos) -> Option<StopReason>,
    ) -> StopReason {
        let mut flush_at = FIRST_FLUSH;
        loop {
            waiting.wait(POLL_EVERY);
            let elapsed = clock::now().since(self.started);
            // Asked before the events are fetched: what happened until the end is all there, then.
            let reason = stop(elapsed);
            let Self {
                output,
                sampler,
                session,
                ..
            } = self;
            let polled = sampler.poll(&mut |raw| {
                session.handle(raw, &mut |event| output.write(&event));
            });
            if elapsed >= flush_at {
                flush_at = elapsed.plus(FLUSH_EVERY);
                self.output.flush();
            }
            if let Err(error) = polled {
                return StopReason::WriteFailed(error.to_string());
            }
            if let Some(failed) = &self.output.failed {
                return StopReason::WriteFailed(failed.clone());
            }
            if let Some(reason) = reason {
                return reason;
            }
            progress(&Progress {
                elapsed,
                samples: self.session.totals().samples,
                hottest: self
                    .session
                    .hottest()
                    .map(|(line, place, meetings)| HottestLine {
                        line: line.0,
                        place,
                        meetings,
                    }),
            });
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
        }
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
