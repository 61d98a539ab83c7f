//! A real program, stepped through: each block must say what was executed around each instruction, and each address
//! must be the one that was accessed when that instruction was executed.
//!
//! One thing that a block says is likely, not certain: that the body of a loop has been executed, when the condition at
//! its end is reached. When that was reached by the jump into the loop, nothing is said about what was before.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;

use hitm_binary::decode::{Block, Function, Operand};
use hitm_binary::image::Image;
use hitm_model::{Avma, AvmaRange, Bias, Mapping, MappingKind, Registers, Svma, SvmaRange};
use hitm_testkit::{have_tool, skip};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Some 50 µs each.
const MOST_STEPS: usize = 15_000;

#[test]
fn optimised() {
    check("-O2");
}

#[test]
fn unoptimised() {
    check("-O0");
}

fn check(level: &str) {
    if !have_tool("g++") {
        skip!("no g++");
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("stepped");
    build(level, &program);
    let Some((steps, mappings)) = step_through(&program) else {
        skip!("ptrace is refused");
    };
    let files: HashMap<&str, Vec<u8>> = mappings
        .iter()
        .filter_map(|mapping| {
            let (path, _) = mapping.file()?;
            Some((path, fs::read(path).ok()?))
        })
        .collect();
    let images: HashMap<&str, Image<'_>> = files
        .iter()
        .map(|(path, bytes)| (*path, Image::parse(bytes).unwrap()))
        .collect();
    let mut decoded = Decoded {
        mappings: &mappings,
        images: &images,
        functions: HashMap::new(),
        blocks: HashMap::new(),
    };

    let (mut n_before, mut n_behind, mut n_entries) = (0, 0, 0);
    for at in 0..steps.len() {
        let Some(around) = decoded.at(steps[at].ip()) else {
            continue;
        };
        let (block, bias) = (&around.0, around.1);
        for operand in &block.operands {
            let Some(then) = at.checked_add_signed(operand.place as isize) else {
                continue;
            };
            let Some(truth) = steps.get(then) else {
                continue;
            };
            let ip = bias.to_svma(steps[at].ip());
            if operand.place < 0 && at > 0 {
                let from = bias.to_svma(steps[at - 1].ip());
                if enters_loop(decoded.code(steps[at - 1].ip()), from, block, ip) {
                    n_entries += 1;
                    continue;
                }
            }
            let executed = bias.to_avma(operand.instruction);
            assert_eq!(truth.ip(), executed, "around {ip}: {operand:?}");
            if operand.place == 0 {
                continue;
            }
            for state in steps[at].states() {
                let Some(range) = state.resolve(operand, bias) else {
                    continue;
                };
                let here = decoded.at(truth.ip()).unwrap();
                let accessed = here
                    .0
                    .operands
                    .iter()
                    .filter(|here| here.place == 0 && here.kind == operand.kind)
                    .any(|here| {
                        truth
                            .states()
                            .any(|state| state.resolve(here, bias) == Some(range))
                    });
                assert!(accessed, "around {ip}: {operand:?} is not at {range}");
            }
            *(if operand.place < 0 {
                &mut n_before
            } else {
                &mut n_behind
            }) += 1;
        }
    }
    assert!(n_before > 1000 && n_behind > 1000, "{n_before} {n_behind}");
    // Else it is no exception.
    assert!(n_entries * 50 < n_before, "{n_entries} of {n_before}");
}

/// Whether an unconditional direct jump at `from` leads over all of the block that is before `ip`.
fn enters_loop(code: Option<&[u8]>, from: Svma, block: &Block, ip: Svma) -> bool {
    let distance = match code {
        Some(&[0xeb, a, ..]) => 2 + i64::from(a.cast_signed()),
        Some(&[0xe9, a, b, c, d, ..]) => 5 + i64::from(i32::from_le_bytes([a, b, c, d])),
        _ => return false,
    };
    from < block.range.start && from.wrapping_add(distance.cast_unsigned()) == ip
}

fn build(level: &str, program: &Path) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/decode/");
    let object = program.with_extension("o");
    let c = Command::new("gcc")
        .args([level, "-c", "-o"])
        .arg(&object)
        .arg(format!("{folder}boundaries.c"))
        .status();
    let cc = Command::new("g++")
        .args([level, "-Wl,-z,now", "-o"])
        .arg(program)
        .arg(format!("{folder}stepped.cc"))
        .arg(&object)
        .status();
    assert!(c.unwrap().success() && cc.unwrap().success());
}

/// The registers before an instruction, and if it is a repeated one, before its last repetition.
struct Step {
    first: State,
    last: State,
}

#[derive(Clone, Copy)]
struct State {
    registers: Registers,
    fs_base: Avma,
}

impl Step {
    fn ip(&self) -> Avma {
        self.first.registers.ip
    }

    fn states(&self) -> impl Iterator<Item = State> {
        [self.first, self.last].into_iter()
    }
}

impl State {
    fn resolve(&self, operand: &Operand, bias: Bias) -> Option<AvmaRange> {
        operand.resolve(&self.registers, bias, Some(self.fs_base))
    }
}

/// Runs a program that stops itself, and steps on from there. `None` if that is not allowed.
fn step_through(program: &Path) -> Option<(Vec<Step>, Vec<Mapping>)> {
    let mut child = Command::new(program).stdout(Stdio::null()).spawn().unwrap();
    let pid = Pid::from_raw(child.id() as i32);
    waitpid(pid, Some(WaitPidFlag::WUNTRACED)).unwrap();
    if ptrace::attach(pid).is_err() {
        child.kill().unwrap();
        child.wait().unwrap();
        return None;
    }
    waitpid(pid, None).unwrap();
    let mappings = mappings_of(pid);
    let mut steps: Vec<Step> = Vec::new();
    while steps.len() < MOST_STEPS {
        let state = state_of(pid);
        match steps.last_mut() {
            Some(step) if step.ip() == state.registers.ip => step.last = state,
            _ => steps.push(Step {
                first: state,
                last: state,
            }),
        }
        ptrace::step(pid, None).unwrap();
        match waitpid(pid, None).unwrap() {
            WaitStatus::Stopped(_, Signal::SIGTRAP | Signal::SIGSTOP | Signal::SIGCONT) => {}
            WaitStatus::Exited(_, 0) => break,
            other => panic!("the program is {other:?}"),
        }
    }
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
    Some((steps, mappings))
}

fn state_of(pid: Pid) -> State {
    let r = ptrace::getregs(pid).unwrap();
    State {
        registers: Registers {
            ip: Avma(r.rip),
            gpr: [
                r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11,
                r.r12, r.r13, r.r14, r.r15,
            ],
        },
        fs_base: Avma(r.fs_base),
    }
}

/// The mapped files with code.
fn mappings_of(pid: Pid) -> Vec<Mapping> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    maps.lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [range, flags, offset, _, _, path] = fields[..] else {
                return None;
            };
            let (start, end) = range.split_once('-')?;
            (flags.contains('x') && path.starts_with('/')).then(|| Mapping {
                range: AvmaRange::new(Avma(hex(start)), Avma(hex(end))),
                kind: MappingKind::File {
                    path: path.to_owned(),
                    offset: hex(offset),
                    build_id: None,
                },
                executable: true,
                writable: flags.contains('w'),
            })
        })
        .collect()
}

struct Decoded<'a> {
    mappings: &'a [Mapping],
    images: &'a HashMap<&'a str, Image<'a>>,
    /// By their start.
    functions: HashMap<Avma, Function<'a>>,
    blocks: HashMap<Avma, Option<Rc<(Block, Bias)>>>,
}

impl Decoded<'_> {
    fn at(&mut self, ip: Avma) -> Option<Rc<(Block, Bias)>> {
        if !self.blocks.contains_key(&ip) {
            let block = self.decode(ip).map(Rc::new);
            self.blocks.insert(ip, block);
        }
        self.blocks[&ip].clone()
    }

    /// The bytes of the longest jump from an address on.
    fn code(&self, at: Avma) -> Option<&[u8]> {
        let mut mappings = self.mappings.iter();
        let mapping = mappings.find(|mapping| mapping.range.contains(at))?;
        let image = &self.images[mapping.file()?.0];
        let start = image.bias_of_mappings([mapping])?.to_svma(at);
        image.code(SvmaRange::new(start, start.wrapping_add(5)))
    }

    fn decode(&mut self, ip: Avma) -> Option<(Block, Bias)> {
        let mapping = self
            .mappings
            .iter()
            .find(|mapping| mapping.range.contains(ip))?;
        let image = &self.images[mapping.file()?.0];
        let bias = image.bias_of_mappings([mapping])?;
        let svma = bias.to_svma(ip);
        let start = bias.to_avma(image.function_at(svma)?.start);
        let function = match self.functions.entry(start) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Function::in_image(image, svma)?),
        };
        Some((function.block_at(svma).unwrap(), bias))
    }
}
