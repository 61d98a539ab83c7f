//! Where the history lies, and which machine this is.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::bail;
use sha2::{Digest as _, Sha256};

/// The file below the folder of the user's data.
const FILE: &str = "hitm/history.sqlite";
/// Digits of the machine's number that tell it from others.
const DIGITS: usize = 12;

/// The file that was asked for, or the user's.
///
/// It is not in a repository: the two sides of a comparison lie in two checkouts, and neither `git clean` nor a new clone
/// is to end the history.
pub(super) fn chosen(asked: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(path) = asked {
        return Ok(path.to_owned());
    }
    match usual(std::env::var_os("XDG_DATA_HOME"), std::env::var_os("HOME")) {
        Some(path) => Ok(path),
        None => bail!(
            "neither XDG_DATA_HOME nor HOME says where the history is (give it a place: --save=FILE, --file FILE)"
        ),
    }
}

/// By the XDG Base Directory Specification: a relative folder is to be ignored.
fn usual(data: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |folder: OsString| Some(PathBuf::from(folder)).filter(|path| path.is_absolute());
    let data = data.and_then(absolute);
    let home = || Some(home.and_then(absolute)?.join(".local/share"));
    Some(data.or_else(home)?.join(FILE))
}

/// What tells this machine from others: its processor, and its machine-id(5), if it has one, as a hash, because the id
/// itself is not to be shown.
pub(crate) fn machine_key(machine: &str) -> String {
    let id = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    key(machine, id.trim())
}

fn key(machine: &str, id: &str) -> String {
    if id.is_empty() {
        return machine.to_owned();
    }
    let hash = Sha256::new()
        .chain_update("hitm history ")
        .chain_update(id)
        .finalize();
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{machine} #{}", &digits[..DIGITS])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_data_has_it() {
        let at = |data: Option<&str>, home: Option<&str>| {
            usual(data.map(OsString::from), home.map(OsString::from))
        };
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(at(Some("/d"), Some("/h")), path("/d/hitm/history.sqlite"));
        assert_eq!(
            at(Some("d"), Some("/h")),
            path("/h/.local/share/hitm/history.sqlite")
        );
        assert_eq!(at(None, None), None);
        assert_eq!(at(Some(""), Some("")), None);
    }

    #[test]
    fn two_machines_of_one_kind_are_two() {
        assert_ne!(key("AMD, 2", "1"), key("AMD, 2", "2"));
        assert_eq!(key("AMD, 2", ""), "AMD, 2");
        assert!(!key("AMD, 2", "abcdef").contains("abcdef"));
    }
}
