//! Five programs against themselves: two that share lines or do not, two that compress with two threads, one with one thread.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};

use super::{Bench, Judged, Options, asked, quoted};
use crate::tools::{cargo, check, install, target_dir};

/// Lines of the text that is compressed and sorted: a run takes about a second.
const LINES: u64 = 600_000;

pub(super) fn run(bench: &Bench, options: &Options) -> Result<Vec<Judged>> {
    install(&[("xz", "xz-utils"), ("zstd", "zstd")]);
    check(&mut cargo(&["build", "--release", "--package=collector"]))?;
    let collect = target_dir()?.join("release/collect");
    let text = bench.folder.join("words.txt");
    generate(&text)?;
    let (collect, text) = (
        quoted_word(&collect.display().to_string())?,
        quoted_word(&text.display().to_string())?,
    );
    let programs = [
        (
            "collect-packed",
            format!("{collect} --layout packed --threads 2 --total 2e8 --runs 1"),
        ),
        (
            "collect-padded",
            format!("{collect} --layout padded --threads 2 --total 8e8 --runs 1"),
        ),
        (
            "xz",
            format!("sh -c 'exec xz -T2 -1 --block-size=2MiB -k -c \"$1\" > /dev/null' sh {text}"),
        ),
        (
            "zstd",
            format!("zstd -T2 -q -9 -B2MiB -k -f -o /dev/null {text}"),
        ),
        ("sort", format!("sort --parallel=1 -o /dev/null {text}")),
    ];
    let mut rows = String::new();
    for (name, command) in programs.iter().filter(|(name, _)| asked(options, name)) {
        write!(
            rows,
            "[[row]]\nname = {}\ncommand = {}\n",
            quoted(name),
            quoted(command)
        )?;
    }
    bench.against_itself("aa", &rows)
}

fn quoted_word(text: &str) -> Result<String> {
    // Single quotes end a word of a shell in single quotes; no path of a target directory has them.
    anyhow::ensure!(!text.contains('\''), "a path with a quote: {text}");
    Ok(format!("'{text}'"))
}

/// A text of words in no order, the same each time.
fn generate(path: &Path) -> Result<()> {
    if fs::metadata(path).is_ok_and(|file| file.len() > 0) {
        return Ok(());
    }
    let unfinished = path.with_extension("new");
    let mut out = BufWriter::new(File::create(&unfinished)?);
    let mut state = 1_u64;
    for _ in 0..LINES {
        for _ in 0..4 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            write!(out, "{:x} ", (state >> 33) % 50_000)?;
        }
        writeln!(out)?;
    }
    out.flush()?;
    fs::rename(&unfinished, path).context("cannot name the text")?;
    Ok(())
}
