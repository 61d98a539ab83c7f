//! Other people's tools as oracles: what nm and its like say about a binary.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::run_limited;

/// The standard output of a tool, or why there is none.
///
/// # Errors
/// If the tool is missing, does not end within half a minute, or fails.
pub fn tool_output(tool: &str, arguments: &[&str], file: &Path) -> Result<String, String> {
    let outcome = run_limited(
        Command::new(tool).args(arguments).arg(file),
        Duration::from_secs(30),
    )
    .map_err(|error| format!("{tool}: {error}"))?;
    if outcome.timed_out || !outcome.status.success() {
        return Err(format!("{tool}: {}: {}", outcome.status, outcome.stderr));
    }
    Ok(outcome.stdout)
}

/// The defined symbols of a binary as nm lists them: address and demangled name.
///
/// # Errors
/// As [`tool_output`].
pub fn nm(file: &Path) -> Result<Vec<(u64, String)>, String> {
    Ok(tool_output("nm", &["-C", "--defined-only"], file)?
        .lines()
        .filter_map(|line| {
            let (address, rest) = line.split_once(' ')?;
            let (_kind, name) = rest.split_once(' ')?;
            Some((u64::from_str_radix(address, 16).ok()?, name.to_owned()))
        })
        .collect())
}

/// Where a symbol is in the file's addresses, according to nm.
///
/// # Errors
/// As [`tool_output`], and if there is no such symbol.
pub fn symbol_address(file: &Path, name: &str) -> Result<u64, String> {
    nm(file)?
        .into_iter()
        .find_map(|(address, symbol)| (symbol == name).then_some(address))
        .ok_or_else(|| format!("no symbol {name} in {}", file.display()))
}
