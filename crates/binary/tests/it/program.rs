//! Small programs compiled when a test needs them, once per source and command.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, process};

/// A compiled program and its bytes.
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

/// Compiles C.
pub(crate) fn c(flags: &[&str], source: &str) -> Program {
    compile("gcc", "c", flags, source)
}

/// Assembles a shared library that stands alone.
pub(crate) fn assembler(source: &str) -> Program {
    // The linker resolves calls inside of the library, as it does in a program.
    compile(
        "gcc",
        "s",
        &["-shared", "-nostdlib", "-Wl,-Bsymbolic"],
        source,
    )
}

/// Compiles C++; `None` where there is no compiler for it, visibly.
pub(crate) fn cpp(flags: &[&str], source: &str) -> Option<Program> {
    if hitm_testkit::have_tool("g++") {
        return Some(compile("g++", "cpp", flags, source));
    }
    hitm_testkit::skipped("no g++");
    None
}

/// Compiles Rust, optimised and with full debug information unless the flags say otherwise.
pub(crate) fn rust(flags: &[&str], source: &str) -> Program {
    let all = [&["--edition=2024", "-Adead_code", "-Copt-level=3"], flags].concat();
    compile("rustc", "rs", &all, source)
}

fn compile(compiler: &str, extension: &str, flags: &[&str], source: &str) -> Program {
    build(compiler, &(flags, source), |directory, output| {
        let input = directory.join(format!("program.{extension}"));
        fs::write(&input, source).unwrap();
        run(Command::new(compiler)
            .args(flags)
            .arg("-o")
            .arg(output)
            .arg(input));
    })
}

/// A changed copy of a program, made by a tool that is told input and output last.
pub(crate) fn changed(program: &Program, tool: &str, flags: &[&str]) -> Program {
    build(tool, &(flags, &program.path), |_, output| {
        run(Command::new(tool)
            .args(flags)
            .arg(&program.path)
            .arg(output));
    })
}

fn build(tool: &str, key: &impl Hash, make: impl FnOnce(&Path, &Path)) -> Program {
    let mut hasher = DefaultHasher::new();
    (tool, key).hash(&mut hasher);
    let name = format!("binary-{:016x}", hasher.finish());
    let path = hitm_testkit::cache_dir().join(name);
    if !path.exists() {
        fs::create_dir_all(hitm_testkit::cache_dir()).unwrap();
        let directory = tempfile::tempdir_in(hitm_testkit::cache_dir()).unwrap();
        let output = directory.path().join(format!("output-{}", process::id()));
        make(directory.path(), &output);
        fs::rename(&output, &path).unwrap();
    }
    let bytes = fs::read(&path).unwrap();
    Program { path, bytes }
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
}

/// The standard output of a tool that looks at a program.
pub(crate) fn tool(name: &str, flags: &[&str], program: &Program) -> String {
    hitm_testkit::tool_output(name, flags, &program.path).unwrap()
}
