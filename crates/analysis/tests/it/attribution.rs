//! Recordings made by hand of a program compiled here → verdicts and names.
//!
//! The program is mapped at a made-up base. Two threads take turns in two small functions, `bump_a(p)` and `bump_b(p)`,
//! which change the first and the second word of a `struct pair`; `p` is in `rdi`, and each case says where it points.

use std::path::{Path, PathBuf};
use std::{env, fs};

use hitm_analysis::{BinarySource, Options, analyse};
use hitm_binary::image::Image;
use hitm_model::{
    Avma, AvmaRange, BuildId, Event, LineSize, Machine, Mapping, MappingKind, Nanos, Pid, Register,
    Registers, Report, Sample, SpaceId, StackFrame, ThreadId, Tid,
};
use hitm_testkit::{CompileError, Language, compile_program, skipped, symbol_address, tool_output};

const BASE: u64 = 0x5555_0000_0000;
const ANONYMOUS: u64 = 0x7f00_0000_0000;
const SPACE: SpaceId = SpaceId(0);
const PATH: &str = "/usr/bin/pairs";

/// The compiled program, or `None` where there is no compiler.
fn program() -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/pairs.c");
    let flags = ["-fcf-protection=none", "-Wl,--build-id"];
    match compile_program(Language::C, &source, &flags) {
        Ok(built) => Some(built.program),
        Err(CompileError::NoCompiler(compiler)) => {
            skipped(&format!("{compiler} is not installed"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// One file, whatever its path.
struct Only<'d>(&'d [u8]);

impl<'d> BinarySource<'d> for Only<'d> {
    fn bytes(&self, path: &str) -> Result<&'d [u8], String> {
        (path == PATH)
            .then_some(self.0)
            .ok_or_else(|| "not found".into())
    }

    fn debug_bytes(&self, _: &str, _: &Image<'d>) -> Option<&'d [u8]> {
        None
    }
}

/// A program and the events of a recording of it.
struct Recorded {
    program: PathBuf,
    events: Vec<Event>,
}

impl Recorded {
    /// The program is mapped, and two threads live.
    fn new(program: PathBuf) -> Self {
        let mut recorded = Self {
            program,
            events: vec![
                Event::Machine(Machine {
                    architecture: "x86_64".into(),
                    processor: "made up".into(),
                    kernel: "6.0".into(),
                    cpus: 2,
                    line_size: LineSize::new(64).ok(),
                    virtual_machine: false,
                }),
                Event::SpaceBorn {
                    space: SPACE,
                    pid: Pid(100),
                    parent: None,
                    at: Nanos(0),
                },
            ],
        };
        recorded.map_program(None);
        recorded.map_anonymous();
        for number in 0..2 {
            recorded.born(number, SPACE);
        }
        recorded
    }

    fn born(&mut self, number: u32, space: SpaceId) {
        self.events.push(Event::ThreadBorn {
            thread: ThreadId(number),
            space,
            tid: Tid(101 + number),
            name: format!("worker-{number}"),
            at: Nanos(0),
        });
    }

    /// Maps the segments that the file's program headers ask for, as a loader would.
    fn map_program(&mut self, build_id: Option<BuildId>) {
        let bytes = fs::read(&self.program).unwrap();
        let number = |at: usize, size: usize| {
            let mut word = [0; 8];
            word[..size].copy_from_slice(&bytes[at..at + size]);
            usize::try_from(u64::from_le_bytes(word)).unwrap()
        };
        let (table, size, count) = (number(0x20, 8), number(0x36, 2), number(0x38, 2));
        for header in (0..count).map(|index| table + index * size) {
            const LOAD: usize = 1;
            if number(header, 4) != LOAD {
                continue;
            }
            let flags = number(header + 4, 4);
            let (offset, start) = (number(header + 8, 8), number(header + 16, 8));
            let page = |address: usize| BASE + (address & !0xfff) as u64;
            let end = start + number(header + 40, 8);
            self.map(Mapping {
                range: AvmaRange::new(Avma(page(start)), Avma(page(end + 0xfff))),
                kind: MappingKind::File {
                    path: PATH.into(),
                    offset: (offset & !0xfff) as u64,
                    build_id: build_id.clone(),
                },
                executable: flags & 1 != 0,
                writable: flags & 2 != 0,
            });
        }
    }

    fn map_anonymous(&mut self) {
        self.map(Mapping {
            range: AvmaRange::new(Avma(ANONYMOUS), Avma(ANONYMOUS + 0x10_0000)),
            kind: MappingKind::Anonymous,
            executable: false,
            writable: true,
        });
    }

    fn map(&mut self, mapping: Mapping) {
        self.events.push(Event::Mapping {
            space: SPACE,
            at: Nanos(0),
            mapping,
        });
    }

    /// Where a function or variable is in the process.
    fn at(&self, symbol: &str) -> u64 {
        BASE + symbol_address(&self.program, symbol).unwrap()
    }

    /// A sample of each thread every millisecond: at its function plus an offset, with the register set to `pointer`.
    fn sample(
        &mut self,
        functions: [&str; 2],
        (into, register): (u64, Register),
        pointer: u64,
    ) -> &mut Self {
        let ips = functions.map(|function| self.at(function) + into);
        self.sample_at(ips, register, [pointer; 2], [0, 1])
    }

    fn sample_at(
        &mut self,
        ips: [u64; 2],
        register: Register,
        pointers: [u64; 2],
        threads: [u32; 2],
    ) -> &mut Self {
        for milli in 0..200u64 {
            for side in 0..2 {
                let mut registers = Registers {
                    ip: Avma(ips[side]),
                    ..Registers::default()
                };
                registers.set(register, pointers[side]);
                registers.set(Register::Rsp, ANONYMOUS + 0x8_0000);
                self.events.push(Event::Sample(Sample {
                    thread: ThreadId(threads[side]),
                    at: Nanos(1_000_000 * milli + 400_000 * side as u64),
                    cpu: side as u32,
                    registers,
                }));
            }
        }
        self
    }

    fn report(&self, bytes: &[u8]) -> Report {
        analyse(&self.events, &Only(bytes), &Options::default())
    }

    fn text(&self) -> String {
        text(&self.report(&fs::read(&self.program).unwrap()))
    }
}

/// A line per finding and participant, and the kinds of caveats.
fn text(report: &Report) -> String {
    let mut lines = Vec::new();
    for finding in &report.findings {
        let objects: Vec<&str> = finding.objects.iter().map(|it| it.name.as_str()).collect();
        lines.push(format!("{} of {}", finding.verdict, objects.join(" + ")));
        for part in &finding.participants {
            let (threads, kinds) = (&part.threads.name, part.kinds);
            lines.push(format!("{threads} {kinds} {}", part.field_path));
        }
    }
    lines.extend(
        report
            .caveats
            .iter()
            .map(|caveat| format!("caveat {}", caveat.code())),
    );
    lines.join("\n")
}

const RDI: (u64, Register) = (0, Register::Rdi);
/// Behind the `mov 8(%rdi), %rax` that the chain functions begin with.
const RAX: (u64, Register) = (4, Register::Rax);
const BUMP: [&str; 2] = ["bump_a", "bump_b"];

#[test]
fn a_global_by_its_address() {
    let Some(program) = program() else { return };
    let mut recorded = Recorded::new(program);
    let pointer = recorded.at("global_pair");
    recorded.sample(BUMP, RDI, pointer);
    assert_eq!(
        recorded.text(),
        "false-sharing of global_pair\nworker-0 atomic global_pair.a\nworker-1 atomic global_pair.b"
    );
}

#[test]
fn a_heap_block_by_the_type_of_the_pointer() {
    let Some(program) = program() else { return };
    let mut recorded = Recorded::new(program);
    recorded.sample(BUMP, RDI, ANONYMOUS + 0x40);
    assert_eq!(
        recorded.text(),
        "false-sharing of (heap) pair\nworker-0 atomic pair.a\nworker-1 atomic pair.b"
    );
}

#[test]
fn a_heap_block_by_the_code_that_loaded_the_pointer() {
    let Some(program) = program() else { return };
    let mut recorded = Recorded::new(program);
    recorded.sample(["chain_a", "chain_b"], RAX, ANONYMOUS + 0x40);
    assert_eq!(
        recorded.text(),
        "false-sharing of (heap) pair\nworker-0 atomic pair.a\nworker-1 atomic pair.b"
    );
}

#[test]
fn heap_neighbours_of_one_type_stay_two_objects() {
    let Some(program) = program() else { return };
    let mut recorded = Recorded::new(program);
    let ips = [recorded.at("bump_a"); 2];
    let blocks = [ANONYMOUS + 0x40, ANONYMOUS + 0x60];
    recorded.sample_at(ips, Register::Rdi, blocks, [0, 1]);
    assert_eq!(
        recorded.text(),
        "false-sharing of (heap) pair + (heap) pair\nworker-0 atomic pair.a\nworker-1 atomic pair.a"
    );
}

#[test]
fn a_thread_local_lent_to_another_thread() {
    let Some(program) = program() else { return };
    let mut recorded = Recorded::new(program);
    let fs_base = ANONYMOUS + 0x4_0040;
    recorded.events.push(Event::ThreadPointer {
        thread: ThreadId(0),
        fs_base: Avma(fs_base),
    });
    // It lies in the mapping of the stack, which does not make it a variable of the stack.
    recorded.events.push(Event::Stack {
        thread: ThreadId(0),
        range: AvmaRange::new(Avma(ANONYMOUS), Avma(ANONYMOUS + 0x5_0000)),
    });
    recorded.sample(BUMP, RDI, fs_base - 16);
    assert_eq!(
        recorded.text(),
        "false-sharing of tls_pair of thread worker-0 (101)\nworker-0 atomic tls_pair.a\nworker-1 atomic tls_pair.b"
    );
}

#[test]
fn a_local_of_a_thread_that_sleeps() {
    let Some(program) = program() else { return };
    let cfa = ANONYMOUS + 0x4_0000;
    // Where in the frame the compiler put it is its own affair: at one place the name is right.
    let named: Vec<String> = (2..12)
        .map(|words| {
            let mut recorded = Recorded::new(program.clone());
            recorded.born(2, SPACE);
            recorded.events.push(Event::Stack {
                thread: ThreadId(2),
                range: AvmaRange::new(Avma(ANONYMOUS + 0x3_0000), Avma(cfa + 0x1000)),
            });
            recorded.events.push(Event::Frames {
                thread: ThreadId(2),
                at: Nanos(0),
                frames: vec![StackFrame {
                    ip: Avma(return_address(&program)),
                    cfa: Avma(cfa),
                    fp: Avma(0),
                    is_return: true,
                }],
            });
            recorded.sample(BUMP, RDI, cfa - 8 * words).text()
        })
        .filter(|text| text.contains("lent.a") && text.contains("lent.b"))
        .collect();
    let expected = "of lent in lend()\nworker-0 atomic lent.a\nworker-1 atomic lent.b";
    assert!(
        matches!(named.as_slice(), [one] if one.contains(expected)),
        "{named:#?}"
    );
}

/// The instruction behind the call in `lend`.
fn return_address(program: &Path) -> u64 {
    let listing = tool_output(
        "objdump",
        &["-d", "--no-show-raw-insn", "--disassemble=lend"],
        program,
    );
    let listing = listing.unwrap();
    let mut lines = listing.lines().skip_while(|line| !line.contains("call "));
    let next = lines.nth(1).unwrap();
    let address = next.trim_start().split(':').next().unwrap();
    BASE + u64::from_str_radix(address, 16).unwrap()
}

#[test]
fn a_forked_process_has_its_parents_mappings() {
    let Some(program) = program() else { return };
    let mut recorded = Recorded::new(program);
    let child = SpaceId(1);
    recorded.events.push(Event::SpaceBorn {
        space: child,
        pid: Pid(200),
        parent: Some(SPACE),
        at: Nanos(0),
    });
    recorded.born(2, child);
    recorded.born(3, child);
    let pointer = recorded.at("global_pair");
    let ips = BUMP.map(|function| recorded.at(function));
    recorded.sample_at(ips, Register::Rdi, [pointer; 2], [2, 3]);
    assert_eq!(
        recorded.text(),
        "false-sharing of global_pair\nworker-2 atomic global_pair.a\nworker-3 atomic global_pair.b\n\
         caveat several-processes"
    );
}

#[test]
fn two_processes_at_one_address_share_nothing() {
    let Some(program) = program() else { return };
    let mut recorded = Recorded::new(program);
    let child = SpaceId(1);
    recorded.events.push(Event::SpaceBorn {
        space: child,
        pid: Pid(200),
        parent: Some(SPACE),
        at: Nanos(0),
    });
    recorded.born(2, child);
    let pointer = recorded.at("global_pair");
    let ips = BUMP.map(|function| recorded.at(function));
    recorded.sample_at(ips, Register::Rdi, [pointer; 2], [0, 2]);
    assert_eq!(
        recorded
            .report(&fs::read(&recorded.program).unwrap())
            .findings,
        []
    );
}

#[test]
fn a_rebuilt_binary_gives_no_names() {
    let Some(program) = program() else { return };
    let mut recorded = Recorded::new(program);
    recorded.map_program(Some(BuildId(vec![7; 20])));
    let pointer = recorded.at("global_pair");
    recorded.sample(BUMP, RDI, pointer);
    let text = recorded.text();
    assert!(text.contains("caveat build-id-differs"), "{text}");
    assert!(!text.contains("global_pair"), "{text}");
}

#[test]
fn a_stripped_binary_gives_addresses() {
    let Some(program) = program() else { return };
    let mut recorded = Recorded::new(program.clone());
    let pointer = recorded.at("global_pair");
    recorded.sample(BUMP, RDI, pointer);
    let dir = tempfile::tempdir().unwrap();
    let stripped = dir.path().join("pairs");
    tool_output("strip", &["-o", stripped.to_str().unwrap()], &program).unwrap();
    let svma = pointer - BASE;
    let next = svma + 8;
    assert_eq!(
        text(&recorded.report(&fs::read(stripped).unwrap())),
        format!(
            "false-sharing of pairs+{svma:#x} + pairs+{next:#x}\nworker-0 atomic pairs+{svma:#x}\n\
             worker-1 atomic pairs+{next:#x}\ncaveat stripped"
        )
    );
}

#[test]
fn a_truncated_binary_gives_what_is_left_of_it() {
    let Some(program) = program() else { return };
    let mut recorded = Recorded::new(program.clone());
    let pointer = recorded.at("global_pair");
    recorded.sample(BUMP, RDI, pointer);
    let bytes = fs::read(&program).unwrap();
    for length in (0..bytes.len()).step_by(bytes.len() / 40 + 1) {
        let report = recorded.report(&bytes[..length]);
        assert!(
            !report.caveats.is_empty(),
            "nothing said of a file of {length} bytes"
        );
    }
}

#[test]
fn the_same_recording_gives_the_same_report() {
    let Some(program) = program() else { return };
    let mut recorded = Recorded::new(program);
    let pointer = recorded.at("global_pair");
    recorded
        .sample(BUMP, RDI, pointer)
        .sample(BUMP, RDI, ANONYMOUS + 0x40)
        .sample(["chain_a", "chain_b"], RAX, ANONYMOUS + 0x140);
    let bytes = fs::read(&recorded.program).unwrap();
    let first = recorded.report(&bytes);
    assert!(!first.findings.is_empty());
    for _ in 0..3 {
        assert_eq!(
            format!("{:?}", recorded.report(&bytes)),
            format!("{first:?}")
        );
    }
}
