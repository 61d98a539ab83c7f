//! Object files with another order, and with nothing but space: compilers and linkers are the oracles.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hitm_binary::relocatable::{
    ObjectKind, PAD_BSS, PAD_DATA, Padding, object_kind, padding_object, reorder_data,
};
use hitm_testkit::{have_tool, nm, run_limited, skip, symbol_address, tool_output};
use proptest::prelude::*;
use tempfile::TempDir;

/// Variables of every kind, and a program that says what is in them.
const SOURCE: &str = r#"
#include <stdio.h>
int zero_a; static long zero_b; char zero_c[40]; _Thread_local int own = 7;
int one = 1; static int two = 2; const int constant = 4;
#ifdef ONE_BLOCK
#define pointer (&one)
#else
int *pointer = &one; // in a section of its own, whatever the compiler is told
#endif
int main(void) { zero_a += 5; zero_b += 6; zero_c[3] = 1;
  printf("%d %ld %d %d %d %d %d %d\n", zero_a, zero_b, zero_c[3], own, one, two, *pointer, constant); return 0; }
"#;
const PRINTS: &str = "5 6 1 7 1 2 1 4\n";

struct Workshop {
    folder: TempDir,
}

impl Workshop {
    /// `None` without a C compiler.
    fn new() -> Option<Self> {
        have_tool("gcc").then(|| Self {
            folder: tempfile::tempdir().unwrap(),
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, command: &mut Command) -> String {
        let outcome = run_limited(
            command.current_dir(self.folder.path()),
            Duration::from_secs(60),
        );
        let outcome = outcome.unwrap();
        assert!(outcome.status.success(), "{command:?}: {}", outcome.stderr);
        outcome.stdout
    }

    fn object(&self, flags: &[&str]) -> Vec<u8> {
        fs::write(self.path("a.c"), SOURCE).unwrap();
        let command = &mut Command::new("gcc");
        self.run(command.args(flags).args(["-O1", "-c", "a.c", "-o", "a.o"]));
        fs::read(self.path("a.o")).unwrap()
    }

    /// Links these objects and runs the result.
    fn link(&self, objects: &[(&str, &[u8])], flags: &[&str]) -> PathBuf {
        let mut command = Command::new("gcc");
        for (name, bytes) in objects {
            fs::write(self.path(name), bytes).unwrap();
            command.arg(name);
        }
        self.run(command.args(flags).args(["-o", "program"]));
        let program = self.path("program");
        assert_eq!(self.run(&mut Command::new(&program)), PRINTS);
        program
    }
}

fn order(program: &Path) -> Vec<String> {
    let names = ["zero_a", "zero_b", "zero_c", "one", "two", "pointer"];
    let mut found: Vec<(u64, String)> = nm(program).unwrap();
    found.sort();
    let found = found.into_iter().map(|(_, name)| name);
    found
        .filter(|name| names.contains(&name.as_str()))
        .collect()
}

#[test]
fn variables_change_places_and_the_program_does_the_same() {
    let Some(workshop) = Workshop::new() else {
        skip!("no gcc");
    };
    let object = workshop.object(&["-fdata-sections", "-g"]);
    let before = order(&workshop.link(&[("a.o", &object)], &[]));
    let reordered = reorder_data(&object, &mut |n| n / 2).unwrap();
    let program = workshop.link(&[("a.o", &reordered)], &[]);
    let after = order(&program);
    assert_ne!(before, after);
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    assert_eq!(sorted(before.clone()), sorted(after));
    // Unwind tables and debug information still fit: readelf complains on its standard error, and fails.
    let readelf = tool_output("readelf", &["-W", "--debug-dump=info", "-u"], &program).unwrap();
    assert!(readelf.contains("zero_b"));
    // The last of what is left stays where it is.
    let same = reorder_data(&object, &mut |n| n - 1).unwrap();
    assert_eq!(same, object);
}

#[test]
fn one_block_of_variables_has_no_other_order() {
    let Some(workshop) = Workshop::new() else {
        skip!("no gcc");
    };
    let object = workshop.object(&["-fno-data-sections", "-DONE_BLOCK"]);
    assert_eq!(object_kind(&object), Some(ObjectKind::Native));
    assert_eq!(reorder_data(&object, &mut |_| 0), None);
}

#[test]
fn code_of_the_link_is_told_from_code() {
    let Some(workshop) = Workshop::new() else {
        skip!("no gcc");
    };
    let object = workshop.object(&["-flto"]);
    assert_eq!(object_kind(&object), Some(ObjectKind::Intermediate));
    let program = workshop.object(&["-fdata-sections"]);
    let program = fs::read(workshop.link(&[("a.o", &program)], &[])).unwrap();
    assert_eq!(object_kind(&program), None);
    assert_eq!(object_kind(b"!<arch>\n"), None);
}

#[test]
fn space_moves_what_comes_behind_it_and_nothing_else_changes() {
    let Some(workshop) = Workshop::new() else {
        skip!("no gcc");
    };
    let object = workshop.object(&["-fdata-sections", "-fcf-protection=full"]);
    let place = |program: &Path, name: &str| symbol_address(program, name).unwrap();
    let padding = Padding { data: 8, bss: 32 };
    let pad = padding_object(padding, Some(&object));
    let undefined = [PAD_DATA, PAD_BSS].map(|name| format!("-Wl,--undefined={name}"));
    for more in [&[][..], &["-Wl,--gc-sections"]] {
        let before = workshop.link(&[("a.o", &object)], more);
        let (data, bss) = (place(&before, "one"), place(&before, "zero_a"));
        let mut flags: Vec<&str> = undefined.iter().map(String::as_str).collect();
        flags.extend(more);
        let after = workshop.link(&[("pad.o", &pad), ("a.o", &object)], &flags);
        // With fewer sections than before, alignment is another matter.
        if more.is_empty() {
            assert_eq!(place(&after, "one") - data, 8);
            assert_eq!((place(&after, "zero_a") - bss) % 64, 32);
        }
        assert!(place(&after, PAD_DATA) < place(&after, "one"));
        assert!(place(&after, PAD_BSS) < place(&after, "zero_a"));
        // The stack must not become executable, and the note about branch protection must stay, by what it is.
        let headers = tool_output("readelf", &["-lW"], &after).unwrap();
        let stack = headers
            .lines()
            .find(|line| line.contains("GNU_STACK"))
            .unwrap();
        assert!(!stack.contains("RWE"), "{stack}");
    }
    let notes = tool_output("readelf", &["-nW"], &workshop.path("pad.o")).unwrap();
    assert!(notes.contains("IBT") && notes.contains("SHSTK"), "{notes}");
}

proptest! {
    /// Damaged objects give `None` or another object, never a panic.
    #[test]
    fn damage_is_survived(at in 0..4096_usize, value: u8, end in 0..6000_usize) {
        let mut object = padding_object(Padding { data: 24, bss: 24 }, None);
        let length = object.len();
        object[at % length] = value;
        object.truncate(end);
        let _ = object_kind(&object);
        let mut turn = 0;
        let _ = reorder_data(&object, &mut |n| { turn += 1; turn % n.max(1) });
        let _ = padding_object(Padding::default(), Some(&object));
    }
}

/// The same with an object of a compiler, which has all that can be damaged.
#[test]
fn damaged_objects_of_a_compiler_are_survived() {
    let Some(workshop) = Workshop::new() else {
        skip!("no gcc");
    };
    let object = workshop.object(&["-fdata-sections", "-g"]);
    let headers = object.len().saturating_sub(4096);
    for at in (0..64).chain(headers..object.len()) {
        for value in [0, 1, 0x7f, 0xff] {
            let mut damaged = object.clone();
            damaged[at] = value;
            let _ = object_kind(&damaged);
            let _ = reorder_data(&damaged, &mut |n| n / 2);
            let _ = padding_object(Padding::default(), Some(&damaged));
        }
    }
    for end in (0..object.len()).step_by(7) {
        let _ = reorder_data(&object[..end], &mut |n| n / 2);
    }
}
