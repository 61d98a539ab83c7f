//! Story 3: a server whose IO threads count, driven by the real redis-benchmark.
//!
//! # Caveats
//! The server, its threads and the benchmark share the processors. On a machine with few of them the IO threads seldom run
//! side by side, and the benchmark may be the slower part: then the layouts hardly differ, whatever the line costs.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hitm_testkit::have_tool;
use serde_json::Value;

use super::Missing;
use super::case::{Case, Layout, Session, TIME_LIMIT, processors};
use super::child::{self, Running};
use super::gain::Counted;
use super::seen::Expected;
use crate::pairs::{Run, children_cpu};
use crate::tools::{cargo, check, install, target_dir};

/// How long the benchmark runs before hitm looks.
const WARM_UP: Duration = Duration::from_millis(500);
/// Of the processors, at most so much may others take from a run that counts.
const MOST_FOREIGN: f64 = 0.05;
/// What the benchmark does: large values, which the server reads in small pieces, so that it has much to count.
const LOAD: [&str; 6] = ["-t", "set", "-d", "100000", "-c", "12"];
const REQUESTS: &str = "2500";
/// The server's main thread and three IO threads.
const THREADS: usize = 4;
/// A piece takes the IO thread a microsecond in the kernel, and counting it a few nanoseconds.
const SAMPLING: [&str; 4] = ["--rate", "5000", "--for", "4"];

/// Both faults, then one after the other repaired.
const LAYOUTS: [&str; 3] = [
    "--io-threads 3 --stats shared --net-bytes shared",
    "--io-threads 3 --stats counters --net-bytes shared",
    "--io-threads 3 --stats counters --net-bytes per-thread",
];
/// Small pieces, so that an IO thread has much to count.
const PIECES: [&str; 2] = ["--io-chunk", "64"];

/// The server in one of its layouts.
struct Server {
    program: PathBuf,
    options: &'static str,
    /// Processors that the server and the benchmark used in the last timed run.
    used: Cell<Option<(f64, f64)>>,
}

/// The lab as commands to type.
pub(crate) fn print_commands(seconds: u32) -> Result<()> {
    let program = build()?;
    for options in LAYOUTS {
        let pieces = PIECES.join(" ");
        println!("{} --port 7379 {pieces} {options} &", program.display());
        println!(
            "redis-benchmark -p 7379 {} -q -l > /dev/null &",
            LOAD.join(" ")
        );
        println!("hitm attach $(pidof ioserver) --rate 5000 --for {seconds}");
        println!("kill %redis-benchmark; redis-cli -p 7379 shutdown\n");
    }
    Ok(())
}

/// Has hitm look at the lab under load in each layout, and prints what it says.
pub(crate) fn show(hitm: &Path, work: &Path, seconds: u32) -> Result<()> {
    let program = build()?;
    let interrupts = child::Interrupts::watch()?;
    for options in LAYOUTS {
        interrupts.check()?;
        println!("\nioserver {options}");
        let server = Server::new(&program, options);
        let (running, _load) = server.under_load()?;
        let mut attach = Command::new(hitm);
        attach
            .args([
                "attach",
                "--rate",
                "5000",
                "--for",
                &seconds.to_string(),
                "-o",
            ])
            .arg(work.join("ioserver.hitm"))
            .arg(running.pid().to_string());
        check(&mut attach)?;
    }
    Ok(())
}

/// Builds the server; installs what drives it.
fn build() -> Result<PathBuf> {
    install(&[("redis-benchmark", "redis-tools")]);
    if !have_tool("redis-benchmark") {
        bail!(Missing("no redis-benchmark: apt-get install redis-tools"));
    }
    check(&mut cargo(&["build", "--release", "--package=ioserver"]))?;
    Ok(target_dir()?.join("release/ioserver"))
}

/// Both faults, each beside its repair.
pub(super) fn story3() -> Result<Vec<Case>> {
    let program = build()?;
    let layout = |options| Box::new(Server::new(&program, options));
    Ok(vec![
        Case {
            title: "per-IO-thread statistics as arrays in a server's one large struct",
            repair: "hitm-counters, a block for each thread",
            expected: Expected {
                verdict: "false-sharing",
                names: &["stat_io_reads_processed"],
            },
            slow: layout("--io-threads 3 --stats shared --net-bytes per-thread"),
            repaired: layout("--io-threads 3 --stats counters --net-bytes per-thread"),
            prove: false,
            counted: Counted::Undisturbed,
        },
        Case {
            title: "one count of bytes that all IO threads add to: true sharing",
            repair: "a copy for each thread, added up on reading",
            expected: Expected {
                verdict: "true-sharing",
                names: &["stat_net_input_bytes"],
            },
            slow: layout("--io-threads 3 --stats counters --net-bytes shared"),
            repaired: layout("--io-threads 3 --stats counters --net-bytes per-thread"),
            prove: false,
            counted: Counted::Undisturbed,
        },
    ])
}

impl Server {
    fn new(program: &Path, options: &'static str) -> Self {
        Self {
            program: program.to_owned(),
            options,
            used: Cell::new(None),
        }
    }

    /// Starts it, and a benchmark that does not end.
    fn under_load(&self) -> Result<(Running, Running)> {
        let (server, port) = self.start()?;
        let mut forever = benchmark(port);
        forever.args(["-q", "-l"]);
        let mut load = Running::start(&mut forever)?;
        load.drain();
        thread::sleep(WARM_UP);
        Ok((server, load))
    }

    /// Starts it on a port that the system chooses, and says which.
    fn start(&self) -> Result<(Running, u16)> {
        let mut command = Command::new(&self.program);
        command
            .args(["--port", "0"])
            .args(PIECES)
            .args(self.options.split_whitespace());
        let mut running = Running::start(&mut command)?;
        let line = running.line()?;
        let port = port(&line).with_context(|| format!("ioserver said {line:?}, no address"))?;
        Ok((running, port))
    }
}

impl Layout for Server {
    fn look(&self, session: &Session<'_>) -> Result<Value> {
        let (server, _load) = self.under_load()?;
        let pid = server.pid().to_string();
        session.hitm("attach", |command| {
            command.args(SAMPLING).arg(&pid);
        })
    }

    fn prove(&self, _: &Session<'_>) -> Result<Value> {
        bail!("the threads of a server wait for its clients: nothing to prove")
    }

    fn time(&self, session: &Session<'_>) -> Result<Run> {
        let (server, port) = self.start()?;
        let mut timed = benchmark(port);
        timed.args(["-n", REQUESTS, "--csv"]);
        let before = Used::now(&server)?;
        let ended = child::run(&mut timed, TIME_LIMIT, session.interrupts)?;
        let used = Used::now(&server)?.since(&before);
        let rate = rate(&ended.stdout)
            .with_context(|| format!("redis-benchmark printed {:?}", ended.stdout))?;
        self.used.set(Some((used.server, used.benchmark)));
        Ok(Run {
            cost: 1.0 / rate,
            side_by_side: used.foreign <= MOST_FOREIGN,
        })
    }

    fn note(&self) -> Option<String> {
        let (server, benchmark) = self.used.get()?;
        Some(format!(
            "of {} processors the server's {THREADS} threads used {server:.1}, the benchmark {benchmark:.1}",
            processors()
        ))
    }
}

fn benchmark(port: u16) -> Command {
    let mut command = Command::new("redis-benchmark");
    command.args(["-p", &port.to_string()]).args(LOAD);
    command
}

/// From `listening on 127.0.0.1:40001, 3 IO threads, …`.
fn port(line: &str) -> Option<u16> {
    let words = &mut line.split([' ', ',']);
    words.find_map(|word| word.rsplit_once(':')?.1.parse().ok())
}

/// Requests per second from the benchmark's table: a line of names, then one for each test.
fn rate(csv: &str) -> Option<f64> {
    let cells = |line: &str| -> Vec<String> {
        line.split(',')
            .map(|cell| cell.trim_matches('"').to_owned())
            .collect()
    };
    let mut lines = csv.lines().filter(|line| line.starts_with('"'));
    let column = cells(lines.next()?).iter().position(|name| name == "rps")?;
    let rate: f64 = cells(lines.next()?).get(column)?.parse().ok()?;
    (rate > 0.0).then_some(rate)
}

/// Processor time of the server, of the programs waited for, and of all, in seconds, and when.
struct Used {
    at: Instant,
    server: f64,
    benchmark: f64,
    all: f64,
}

/// The same between two moments, in processors; of others, as a part of all processors.
struct Rates {
    server: f64,
    benchmark: f64,
    foreign: f64,
}

impl Used {
    fn now(server: &Running) -> Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", server.pid()))?;
        Ok(Self {
            at: Instant::now(),
            server: ticks_of_process(&stat).context("bad /proc stat of the server")?,
            benchmark: children_cpu()?,
            all: ticks_of_all(&fs::read_to_string("/proc/stat")?).context("bad /proc/stat")?,
        })
    }

    fn since(&self, before: &Self) -> Rates {
        let seconds = (self.at - before.at).as_secs_f64();
        let server = (self.server - before.server) / seconds;
        let benchmark = (self.benchmark - before.benchmark) / seconds;
        let all = (self.all - before.all) / seconds;
        Rates {
            server,
            benchmark,
            foreign: (all - server - benchmark).max(0.0) / processors() as f64,
        }
    }
}

/// The kernel's unit in `/proc`: a hundredth of a second on every architecture that it shows to programs.
const TICKS_PER_SECOND: f64 = 100.0;

/// User and system time of a `/proc/PID/stat`; the name in it may have blanks.
fn ticks_of_process(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let tick = |field: usize| fields.get(field)?.parse::<f64>().ok();
    Some((tick(11)? + tick(12)?) / TICKS_PER_SECOND)
}

/// What all programs used, and what the hypervisor took, of a `/proc/stat`.
fn ticks_of_all(stat: &str) -> Option<f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<f64> = line
        .split_whitespace()
        .filter_map(|tick| tick.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal, and more that is part of these.
    let busy = [0, 1, 2, 5, 6, 7];
    let sum: Option<f64> = busy.iter().map(|&i| ticks.get(i).copied()).sum();
    Some(sum? / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tools_print_is_read() {
        let line = "listening on 127.0.0.1:40001, 3 IO threads, at most 1000 clients\n";
        assert_eq!(port(line), Some(40001));
        assert_eq!(port("listening on [::1]:7, 3 IO threads\n"), Some(7));
        assert_eq!(port(""), None);
        let csv = "\"test\",\"rps\",\"avg_latency_ms\"\n\"GET\",\"123456.78\",\"0.5\"\n";
        assert_eq!(rate(csv), Some(123_456.78));
        assert_eq!(rate("\"test\",\"rps\"\n"), None);
    }

    #[test]
    fn processor_times_are_read() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0";
        assert_eq!(ticks_of_process(stat), Some(2.0));
        let all = "cpu  100 20 30 900 40 5 6 7 8 9\ncpu0 1 2\n";
        assert_eq!(ticks_of_all(all), Some(1.68));
        assert_eq!(ticks_of_all("cpu 1 2\n"), None);
    }
}
