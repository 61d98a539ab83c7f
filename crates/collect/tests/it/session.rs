//! What a sampler delivers → the events of a recording, as text.

use std::fmt::Write as _;

use hitm_collect::{RawEvent, RawSample, Session, Standing, Stopped, World};
use hitm_model::{
    Avma, AvmaRange, BuildId, Event, LineSize, Mapping, MappingKind, Nanos, Pid, Registers, Tid,
};

/// Processes that are there in text only.
#[derive(Default)]
struct Told {
    now: u64,
    /// Process, mapping.
    maps: Vec<(u32, Mapping)>,
    /// Process, thread, name.
    threads: Vec<(u32, u32, String)>,
}

impl World for Told {
    fn now(&self) -> Nanos {
        Nanos::from_millis(self.now)
    }

    fn mappings(&self, pid: Pid) -> Vec<Mapping> {
        let maps = self.maps.iter().filter(|(of, _)| *of == pid.0);
        maps.map(|(_, mapping)| mapping.clone()).collect()
    }

    fn threads(&self, pid: Pid) -> Vec<Tid> {
        let threads = self.threads.iter().filter(|(of, ..)| *of == pid.0);
        threads.map(|(_, tid, _)| Tid(*tid)).collect()
    }

    fn thread_name(&self, pid: Pid, tid: Tid) -> Option<String> {
        let mut threads = self.threads.iter();
        let found = threads.find(|(of, number, _)| (*of, *number) == (pid.0, tid.0));
        found.map(|(.., name)| name.clone())
    }

    fn build_id(&mut self, _pid: Pid, mapping: &Mapping) -> Option<BuildId> {
        match &mapping.kind {
            MappingKind::File { path, .. } => Some(BuildId(vec![path.len() as u8])),
            _ => None,
        }
    }

    fn read(&self, _pid: Pid, _at: Avma, _buffer: &mut [u8]) -> usize {
        0
    }

    fn standing(&self, _pid: Pid, _tid: Tid) -> Option<Standing> {
        None
    }

    fn registers(&self, _pid: Pid, _tid: Tid) -> Option<Stopped> {
        None
    }

    fn file(&self, _pid: Pid, _mapping: &Mapping, _at: u64, _len: usize) -> Option<Vec<u8>> {
        None
    }
}

/// `1000-2000 x /a.so`: hexadecimal bounds, `x` or `w` or `-`, and a path, `heap`, or nothing.
fn mapping(words: &[&str]) -> Mapping {
    let (start, end) = words[0].split_once('-').unwrap();
    let address = |text| Avma(u64::from_str_radix(text, 16).unwrap());
    Mapping {
        range: AvmaRange::new(address(start), address(end)),
        executable: words[1] == "x",
        writable: words[1] == "w",
        kind: match words.get(2) {
            None => MappingKind::Anonymous,
            Some(&"heap") => MappingKind::Heap,
            Some(path) => MappingKind::File {
                path: (*path).into(),
                offset: 0,
                build_id: None,
            },
        },
    }
}

/// Each line of `script` is an event: its time in milliseconds, a word, process, thread, and what else there is.
/// `world` lines say what a look at the processes would find from then on.
fn run(script: &str) -> String {
    let mut said = Vec::new();
    let mut before: Vec<RawEvent> = Vec::new();
    // The world is fixed before the session owns it; a script has its world lines first.
    let mut world = Told::default();
    let mut adopt = None;
    for line in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words[at].parse::<u32>().unwrap();
        if words[0] == "world" {
            match words[1] {
                "now" => world.now = number(2).into(),
                "map" => world.maps.push((number(2), mapping(&words[3..]))),
                "thread" => world.threads.push((number(2), number(3), words[4].into())),
                "adopt" => adopt = Some(Pid(number(2))),
                other => panic!("{other}"),
            }
            continue;
        }
        let at = Nanos::from_millis(number(0).into());
        let (pid, tid) = (Pid(number(2)), Tid(number(3)));
        before.push(match words[1] {
            "born" => RawEvent::Born {
                pid,
                tid,
                parent_pid: Pid(number(4)),
                parent_tid: None,
                at,
            },
            "ended" => RawEvent::Ended { pid, tid, at },
            "named" | "exec" => RawEvent::Named {
                pid,
                tid,
                name: words[4].into(),
                exec: words[1] == "exec",
                at,
            },
            "mapped" => RawEvent::Mapped {
                pid,
                mapping: mapping(&words[4..]),
                at,
            },
            "sample" => {
                let mut registers = Registers {
                    ip: Avma(u64::from_str_radix(words[4], 16).unwrap()),
                    ..Registers::default()
                };
                registers.gpr[4] = 0x7000;
                RawEvent::Sample(RawSample {
                    pid,
                    tid,
                    at,
                    cpu: 0,
                    registers,
                })
            }
            "fs" => RawEvent::ThreadPointer {
                pid,
                tid,
                fs_base: Avma(u64::from_str_radix(words[4], 16).unwrap()),
            },
            "lost" => RawEvent::Lost {
                events: number(2).into(),
                at,
            },
            other => panic!("{other}"),
        });
    }
    let mut session = Session::new(world, LineSize::new(64).unwrap());
    if let Some(pid) = adopt {
        session.adopt(pid, &mut |event| said.push(event));
    }
    for event in before {
        session.handle(event, &mut |event| said.push(event));
    }
    said.iter().map(show).collect()
}

fn show(event: &Event) -> String {
    let mut text = String::new();
    let millis = |at: &Nanos| at.0 / 1_000_000;
    match event {
        Event::SpaceBorn {
            space,
            pid,
            parent,
            at,
        } => {
            write!(text, "{} space {space}: process {pid}", millis(at)).unwrap();
            if let Some(parent) = parent {
                write!(text, " from {parent}").unwrap();
            }
        }
        Event::ThreadBorn {
            thread,
            space,
            tid,
            name,
            at,
        } => write!(
            text,
            "{} thread {thread}: {tid} {name} in {space}",
            millis(at)
        )
        .unwrap(),
        Event::ThreadNamed { thread, name, at } => {
            write!(text, "{} thread {thread} named {name}", millis(at)).unwrap();
        }
        Event::ThreadEnded { thread, at } => {
            write!(text, "{} thread {thread} ended", millis(at)).unwrap();
        }
        Event::Mapping { space, at, mapping } => {
            let what = match &mapping.kind {
                MappingKind::File { path, build_id, .. } => {
                    format!("{path} {}", build_id.as_ref().unwrap())
                }
                kind => format!("{kind:?}"),
            };
            write!(text, "{} in {space}: {} {what}", millis(at), mapping.range).unwrap();
        }
        Event::Sample(sample) => {
            let at = millis(&sample.at);
            write!(
                text,
                "{at} sample of {} at {}",
                sample.thread, sample.registers.ip
            )
            .unwrap();
        }
        Event::ThreadPointer { thread, fs_base } => {
            write!(text, "thread {thread} has fs {fs_base}").unwrap();
        }
        Event::Lost { at, events } => write!(text, "{} lost {events}", millis(at)).unwrap(),
        other => write!(text, "{other:?}").unwrap(),
    }
    text.push('\n');
    text
}

fn check(script: &str, want: &str) {
    let want: String = want
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(run(script), want, "from{script}");
}

#[test]
fn a_program_begins_with_its_exec() {
    check(
        "
        1 exec 10 10 prog
        1 mapped 10 10 1000-2000 x /prog
        2 born 10 11 10
        3 named 10 11 worker
        3 named 10 11 worker
        4 ended 10 11
        5 ended 10 10
        ",
        "
        1 space 0: process 10
        1 thread 0: 10 prog in 0
        1 in 0: 0x1000..0x2000 /prog 05
        2 thread 1: 11 prog in 0
        3 thread 1 named worker
        4 thread 1 ended
        5 thread 0 ended
        ",
    );
}

#[test]
fn a_new_program_is_a_new_space_and_a_new_thread() {
    check(
        "
        1 exec 10 10 first
        2 born 10 11 10
        3 exec 10 10 second
        4 mapped 10 10 1000-2000 x /second
        ",
        "
        1 space 0: process 10
        1 thread 0: 10 first in 0
        2 thread 1: 11 first in 0
        3 thread 0 ended
        3 thread 1 ended
        3 space 1: process 10
        3 thread 2: 10 second in 1
        4 in 1: 0x1000..0x2000 /second 07
        ",
    );
}

#[test]
fn a_fork_has_its_parents_mappings() {
    check(
        "
        1 exec 10 10 sh
        2 mapped 10 10 1000-2000 x /sh
        3 born 20 20 10
        4 mapped 20 20 1000-2000 x /sh
        5 mapped 20 20 5000-6000 w
        ",
        "
        1 space 0: process 10
        1 thread 0: 10 sh in 0
        2 in 0: 0x1000..0x2000 /sh 03
        3 space 1: process 20 from 0
        3 thread 1: 20 sh in 1
        5 in 1: 0x5000..0x6000 Anonymous
        ",
    );
}

#[test]
fn a_thread_number_that_comes_again_is_another_thread() {
    check(
        "
        1 exec 10 10 prog
        2 born 10 11 10
        3 ended 10 11
        4 born 10 11 10
        5 born 20 11 20
        ",
        "
        1 space 0: process 10
        1 thread 0: 10 prog in 0
        2 thread 1: 11 prog in 0
        3 thread 1 ended
        4 thread 2: 11 prog in 0
        5 thread 2 ended
        5 space 1: process 20
        5 thread 3: 11  in 1
        ",
    );
}

#[test]
fn a_process_that_runs_already_is_taken_in_as_it_is() {
    check(
        "
        world now 100
        world thread 10 10 server
        world thread 10 11 io
        world map 10 1000-2000 x /server
        world map 10 8000-9000 w heap
        world adopt 10
        99 mapped 10 10 1000-1800 x /old
        99 mapped 10 10 3000-4000 w
        99 born 10 11 10
        101 mapped 10 10 1000-1800 x /new
        102 born 10 12 10
        ",
        "
        100 space 0: process 10
        100 in 0: 0x1000..0x2000 /server 07
        100 in 0: 0x8000..0x9000 Heap
        100 thread 0: 10 server in 0
        100 thread 1: 11 io in 0
        99 in 0: 0x3000..0x4000 Anonymous
        101 in 0: 0x1000..0x1800 /new 04
        102 thread 2: 12 server in 0
        ",
    );
}

#[test]
fn what_was_not_told_is_looked_up_at_the_first_sample() {
    check(
        "
        world now 50
        world thread 10 12 late
        world map 10 1000-2000 x /prog
        51 sample 10 12 1234
        52 sample 10 12 5678
        ",
        "
        51 space 0: process 10
        50 in 0: 0x1000..0x2000 /prog 05
        51 thread 0: 12 late in 0
        51 sample of 0 at 0x1234
        52 sample of 0 at 0x5678
        ",
    );
}

#[test]
fn thread_pointers_are_told_once_and_losses_always() {
    check(
        "
        1 exec 10 10 prog
        2 fs 10 10 7f00
        3 fs 10 10 7f00
        4 lost 7 0
        5 lost 1 0
        ",
        "
        1 space 0: process 10
        1 thread 0: 10 prog in 0
        thread 0 has fs 0x7f00
        4 lost 7
        5 lost 1
        ",
    );
}

#[test]
fn unknown_threads_that_end_are_no_event() {
    check("1 ended 10 10", "");
}
