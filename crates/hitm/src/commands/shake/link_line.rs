//! What a linker is told: which of its words are what, and the words of another layout.
//!
//! GNU ld, gold, lld and mold understand the same words here. Nothing in this module opens a file.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use hitm_binary::relocatable::{PAD_BSS, PAD_DATA};

/// The file that is made.
pub(super) fn output(words: &[OsString]) -> PathBuf {
    output_word(words).map_or_else(|| PathBuf::from("a.out"), |(_, path)| path)
}

/// Which word names the output: as a word of its own, or behind `-o`.
enum Output {
    Own(usize),
    Within(usize),
}

fn output_word(words: &[OsString]) -> Option<(Output, PathBuf)> {
    let mut found = None;
    for (at, word) in words.iter().enumerate() {
        let bytes = word.as_bytes();
        if bytes == b"-o" || bytes == b"--output" {
            let next = words.get(at + 1)?;
            found = Some((Output::Own(at + 1), PathBuf::from(next)));
        } else if let Some(path) = bytes.strip_prefix(b"--output=") {
            found = Some((Output::Within(at), PathBuf::from(OsStr::from_bytes(path))));
        } else if let Some(path) = bytes.strip_prefix(b"-o").filter(|path| {
            // Long options may begin with one dash; all that begin with an o.
            let long = [&b"format"[..], b"magic", b"utput"];
            !path.is_empty() && !long.iter().any(|long| path.starts_with(long))
        }) {
            found = Some((Output::Within(at), PathBuf::from(OsStr::from_bytes(path))));
        }
    }
    found
}

/// Whether a program is made, and no library and no part of either.
pub(super) fn makes_program(words: &[OsString]) -> bool {
    const OTHERS: [&str; 9] = [
        "-shared",
        "--shared",
        "-Bshareable",
        "-r",
        "-i",
        "--relocatable",
        "-relocatable",
        "--version",
        "--help",
    ];
    !words
        .iter()
        .any(|word| OTHERS.iter().any(|other| word == other))
}

/// Whether a file is one of those that a compiler puts around every program.
pub(super) fn is_start_file(word: &OsStr) -> bool {
    let name = Path::new(word).file_name().unwrap_or_default().as_bytes();
    let starts = [
        &b"crt"[..],
        b"Scrt",
        b"gcrt",
        b"rcrt",
        b"grcrt",
        b"Mcrt",
        b"clang_rt.crt",
    ];
    name.ends_with(b".o") && starts.iter().any(|start| name.starts_with(start))
}

/// Where an object is to be put so that only the compiler's own files are before it.
fn first_place(words: &[OsString]) -> usize {
    let at_start = |word: &OsString| {
        let name = Path::new(word).file_name().unwrap_or_default().as_bytes();
        is_start_file(word) && !name.starts_with(b"crtend") && !name.starts_with(b"crtn")
    };
    words.iter().rposition(at_start).map_or(0, |at| at + 1)
}

/// The words with another output.
pub(super) fn with_output(words: &[OsString], path: &Path) -> Vec<OsString> {
    let mut words = words.to_vec();
    match output_word(&words) {
        Some((Output::Own(at), _)) => words[at] = path.into(),
        Some((Output::Within(at), _)) => {
            words[at] = "-o".into();
            words.insert(at + 1, path.into());
        }
        None => words.extend(["-o".into(), path.into()]),
    }
    words
}

/// The words with an object of space first. That nobody uses it is no reason to drop it.
pub(super) fn with_padding(words: &[OsString], object: &Path) -> Vec<OsString> {
    let mut words = words.to_vec();
    let at = first_place(&words);
    let more = [
        format!("--undefined={PAD_DATA}").into(),
        format!("--undefined={PAD_BSS}").into(),
        object.into(),
    ];
    words.splice(at..at, more);
    words
}

/// The words that are in `objects`, by their places, in the order `order`, which has the same length.
pub(super) fn reordered(
    words: &[OsString],
    objects: &[usize],
    order: &[OsString],
) -> Vec<OsString> {
    let mut words = words.to_vec();
    for (at, word) in objects.iter().zip(order) {
        words[*at].clone_from(word);
    }
    words
}

/// Words of a response file, `@FILE`, as GNU tools read them.
pub(super) fn response_words(text: &[u8]) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, quote) {
            (b'\\', _) => {
                let escaped = bytes.next().unwrap_or(b'\\');
                word.get_or_insert_default().push(escaped);
            }
            (byte, Some(open)) if byte == open => quote = None,
            (byte, Some(_)) => word.get_or_insert_default().push(byte),
            (b'"' | b'\'', None) => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (byte, None) if byte.is_ascii_whitespace() => words.extend(word.take()),
            (byte, None) => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    words.into_iter().map(OsString::from_vec).collect()
}

/// A response file of these words.
pub(super) fn response_file(words: &[OsString]) -> Vec<u8> {
    let mut text = Vec::new();
    for word in words {
        if word.is_empty() {
            text.extend(b"\"\"");
        }
        for &byte in word.as_bytes() {
            if byte.is_ascii_whitespace() || b"\\\"'".contains(&byte) {
                text.push(b'\\');
            }
            text.push(byte);
        }
        text.push(b'\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    fn text(words: &[OsString]) -> String {
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn the_output_is_the_last_that_is_named() {
        for (line, wanted) in [
            ("a.o -o prog b.o", "prog"),
            ("-oprog a.o", "prog"),
            ("--output=prog a.o", "prog"),
            ("-o x a.o -o y", "y"),
            ("--oformat elf64-x86-64 -omagic a.o", "a.out"),
            ("a.o", "a.out"),
        ] {
            let line = words(line);
            assert_eq!(output(&line), Path::new(wanted), "{line:?}");
            let other = with_output(&line, Path::new("/v/p"));
            assert_eq!(output(&other), Path::new("/v/p"), "{line:?}");
        }
    }

    #[test]
    fn only_programs_are_programs() {
        assert!(makes_program(&words("-pie -o prog a.o")));
        assert!(makes_program(&words("-static -o prog a.o")));
        for other in ["-shared -o x.so a.o", "-r -o b.o a.o", "--version"] {
            assert!(!makes_program(&words(other)), "{other}");
        }
    }

    #[test]
    fn space_comes_behind_the_compilers_own_files_and_before_all_others() {
        let line = words(
            "-pie -o p /l/Scrt1.o /l/crti.o /l/crtbeginS.o -L/l a.o -lc /l/crtendS.o /l/crtn.o",
        );
        let padded = text(&with_padding(&line, Path::new("pad.o")));
        let wanted = "/l/crtbeginS.o --undefined=hitm_shake_pad_data --undefined=hitm_shake_pad_bss pad.o -L/l a.o";
        assert!(padded.contains(wanted), "{padded}");
        let bare = text(&with_padding(&words("a.o b.o"), Path::new("pad.o")));
        assert!(bare.ends_with("pad.o a.o b.o"), "{bare}");
    }

    #[test]
    fn response_files_are_read_as_they_are_written() {
        let line: Vec<OsString> = ["a b", "", "c\\d", "\"e'", "plain"]
            .map(OsString::from)
            .into();
        assert_eq!(response_words(&response_file(&line)), line);
        assert_eq!(
            response_words(b"'a b' \"c\\\"d\"\n e"),
            ["a b", "c\"d", "e"]
        );
    }
}
