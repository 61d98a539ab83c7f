//! Is it a measure of progress, and what does it say? One text case per rule.
//!
//! A case says how a value moves in the windows of each placement:
//!
//! ```text
//! apart    windows=8 steps=100 speed=10 noise=0.02     each period it moves by 10, more or less
//! together windows=8 steps=50  speed=50 away=3         after every third step others have the processor for as long
//! ```
//!
//! Also: `wrap=N` (it starts again at N), `phases=1,3` (windows differ by these factors in turn), `slow=0.3` (in such a
//! part of the steps it stands still), `random`, `clock` (it moves with the time), `alone` (it goes on while others have
//! the processor).

use hitm_analysis::{Look, Step, Unfit, WindowSteps, assess};
use hitm_model::{Nanos, Placement};

const PERIOD: u64 = 1_000_000;

/// A small generator, the same in every run: xorshift64.
struct Random(u64);

impl Random {
    /// From -1 to 1.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

fn windows(line: &str, random: &mut Random) -> Vec<WindowSteps> {
    let mut words = line.split_whitespace();
    let placement = match words.next() {
        Some("apart") => Placement::Apart,
        Some("together") => Placement::Together,
        other => panic!("no placement {other:?}"),
    };
    let options: Vec<(&str, &str)> = words
        .map(|word| word.split_once('=').unwrap_or((word, "1")))
        .collect();
    let text = |key: &str| {
        let found = options.iter().find(|(it, _)| *it == key);
        found.map(|(_, value)| *value)
    };
    let number = |key: &str, otherwise: f64| -> f64 {
        text(key).map_or(otherwise, |value| value.parse().unwrap())
    };
    let phases: Vec<f64> = text("phases")
        .unwrap_or("1")
        .split(',')
        .map(|phase| phase.parse().unwrap())
        .collect();
    let (speed, noise, away) = (
        number("speed", 10.0),
        number("noise", 0.02),
        number("away", 0.0) as usize,
    );
    let mut value = 0.0;
    (0..number("windows", 8.0) as usize)
        .map(|window| WindowSteps {
            placement,
            steps: (0..number("steps", 100.0) as usize)
                .map(|step| {
                    let off = if away > 0 && step % away == 0 {
                        PERIOD
                    } else {
                        0
                    };
                    let phase = phases[window % phases.len()];
                    let mut moved = speed * phase * (1.0 + noise * random.next());
                    if text("alone").is_some() {
                        moved *= (PERIOD + off) as f64 / PERIOD as f64;
                    }
                    if text("clock").is_some() {
                        moved = (PERIOD + off) as f64;
                    }
                    if random.next().abs() < number("slow", 0.0) {
                        moved = 0.0;
                    }
                    if text("random").is_some() {
                        moved = 1e6 * random.next();
                    }
                    let before = value;
                    value = (value + moved) % number("wrap", f64::INFINITY);
                    Step {
                        moved: value - before,
                        ran: Nanos(PERIOD),
                        wall: Nanos(PERIOD + off),
                    }
                })
                .collect(),
        })
        .collect()
}

fn assessed(case: &str, look: Look) -> String {
    let mut random = Random(88_172_645_463_325_252);
    let windows: Vec<WindowSteps> = case
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .flat_map(|line| windows(line, &mut random))
        .collect();
    match assess(&windows, look) {
        Ok(found) => {
            let width = (found.ratio.high / found.ratio.low).ln();
            let sure = match width {
                width if width < 0.1 => "sure",
                width if width < 0.5 => "about",
                _ => "wide",
            };
            format!("{:.1} {sure}", found.ratio.ratio)
        }
        Err(why) => format!("{why:?}"),
    }
}

#[track_caller]
fn check(case: &str, expected: &str) {
    assert_eq!(assessed(case, Look::Sampled), expected, "{case}");
}

#[test]
fn a_steady_measure_gives_its_ratio() {
    check(
        "apart    speed=10
         together speed=50 steps=50 away=3",
        "5.0 sure",
    );
    check("apart speed=-10\n together speed=-10", "1.0 sure");
    // A contended thread is not as steady.
    check(
        "apart    speed=10 noise=0.4 phases=1,1.1,0.9
         together speed=50 noise=0.05",
        "5.0 about",
    );
}

#[test]
fn few_looks_tell_nothing() {
    let few = "TooFewWindows";
    check("apart windows=2\n together", few);
    check("apart\n together windows=2", few);
    check("apart steps=3\n together", few);
    check("apart\n together windows=3 steps=8", "TooFewSteps");
}

#[test]
fn what_is_no_progress_is_unfit() {
    check("apart random\n together random", "NoDirection");
    check("apart speed=0\n together speed=0", "NoDirection");
    // An inner loop's counter that starts again ten times a period.
    check(
        "apart wrap=1.37 noise=0.1\n together wrap=1.37 noise=0.1",
        "NoDirection",
    );
    // A pointer that starts again every fourth step, and one that does so where it is faster.
    check(
        "apart wrap=40 noise=0.1\n together wrap=40 noise=0.1",
        "NoDirection",
    );
    check(
        "apart wrap=100 noise=0.1\n together speed=30 wrap=100 noise=0.1",
        "Unsteady",
    );
    // A fiftieth of the steps does not matter.
    check("apart wrap=500\n together speed=20 wrap=1000", "2.0 sure");
    check("apart noise=1\n together noise=1", "Unsteady");
    check("apart slow=0.4\n together", "Unsteady");
}

#[test]
fn a_program_that_changes_between_windows_is_not_compared() {
    check("apart phases=1,3\n together", "Unsteady");
    check("apart phases=1,2.2\n together", "WindowsDiffer");
    check("apart\n together phases=0.5,1,1,1.9", "WindowsDiffer");
    // A smaller change widens the interval.
    check("apart phases=1,1.5\n together phases=1,1.5", "1.0 about");
}

#[test]
fn what_moves_while_its_thread_does_not_run_is_not_its_progress() {
    // What both threads of a pair count together.
    check(
        "apart    speed=10
         together speed=10 away=2 alone",
        "NotItsOwn",
    );
    // Time itself.
    check("apart clock\n together clock away=1", "NotItsOwn");
    check("apart clock\n together clock away=3", "NotItsOwn");
}

#[test]
fn readings_are_fewer_and_longer() {
    let case = "apart steps=6 speed=10\n together steps=6 speed=30 away=1";
    assert_eq!(assessed(case, Look::Read), "3.0 sure");
    assert_eq!(
        assessed("apart steps=1\n together", Look::Read),
        "TooFewWindows"
    );
    assert_eq!(
        assessed(
            "apart clock steps=6\n together clock steps=6 away=1",
            Look::Read
        ),
        format!("{:?}", Unfit::NotItsOwn)
    );
}
