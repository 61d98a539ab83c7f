//! `hitm check`: what a binary's layout and code say before it runs.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hitm_analysis::BinarySource as _;
use hitm_analysis::check::{CheckOptions, Policy};
use hitm_binary::image::Image;
use hitm_model::{CheckCaveat, CheckReport, Confidence};
use hitm_report::{CheckFailOn, CheckTableOptions};

use crate::cli::{CheckArgs, ConfidenceChoice};
use crate::exit_codes::Exit;
use crate::load::Files;
use crate::output;

/// The policy that is used where none is given.
const POLICY: &str = "hitm.toml";

/// Checks binaries.
pub(crate) fn check(args: &CheckArgs) -> Result<Exit> {
    let policy = policy(args.policy.as_deref())?;
    let known = args.baseline.as_deref().map(read_baseline).transpose()?;
    let files = Files::seen_by(None);
    let mut reports = Vec::new();
    for path in &args.binaries {
        let mut report = check_one(&files, path, args, policy.as_ref())?;
        if let Some(known) = &known {
            mark(&mut report, known);
        }
        reports.push(report);
    }
    if let Some(path) = &args.write_baseline {
        write_baseline(path, &reports)?;
    }
    show(args, &reports)?;
    let sarif_on_stdout = matches!(&args.sarif, Some(to) if is_stdout(to.as_deref()));
    let fail_on = args.fail_on.unwrap_or(CheckFailOn::Policy);
    if hitm_report::check_gate(&reports, fail_on) && !sarif_on_stdout {
        return Ok(Exit::Gate);
    }
    Ok(Exit::Done)
}

fn policy(given: Option<&Path>) -> Result<Option<Policy>> {
    let path = given.unwrap_or(Path::new(POLICY));
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if given.is_none() && error.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(error) => {
            return Err(error)
                .with_context(|| format!("cannot read the policy {}", path.display()));
        }
    };
    let policy = Policy::parse(&text).with_context(|| path.display().to_string())?;
    Ok(Some(policy))
}

fn check_one(
    files: &Files,
    path: &Path,
    args: &CheckArgs,
    policy: Option<&Policy>,
) -> Result<CheckReport> {
    let shown = path.display();
    let name = path.to_string_lossy();
    let bytes = files
        .bytes(&name)
        .map_err(anyhow::Error::msg)
        .with_context(|| format!("cannot read {shown} (give a program or a shared library)"))?;
    let image = Image::parse_any_machine(bytes).with_context(|| {
        format!("cannot check {shown} (give a 64-bit little-endian program or shared library)")
    })?;
    let mut damaged = None;
    let image = match files.debug_bytes(&name, &image) {
        None => image,
        Some(separate) => match image.with_debug(separate) {
            Ok(image) => image,
            Err(error) => {
                damaged = Some(CheckCaveat::Damaged {
                    what: format!("separate debug file: {error}"),
                });
                Image::parse_any_machine(bytes)?
            }
        },
    };
    let options = CheckOptions {
        line: args.line_size,
        threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        policy,
    };
    let mut report = hitm_analysis::check::check(&image, &name, &options);
    report.caveats.extend(damaged);
    Ok(report)
}

fn least(args: &CheckArgs) -> Confidence {
    match args.confidence {
        _ if args.all => Confidence::Low,
        ConfidenceChoice::Low => Confidence::Low,
        ConfidenceChoice::Medium => Confidence::Medium,
        ConfidenceChoice::High => Confidence::High,
    }
}

fn show(args: &CheckArgs, reports: &[CheckReport]) -> Result<()> {
    let least = least(args);
    if let Some(to) = &args.json {
        write_to(to.as_deref(), |out| {
            hitm_report::check_json(reports, least, out)
        })?;
        if is_stdout(to.as_deref()) {
            return Ok(());
        }
    }
    if let Some(to) = &args.sarif {
        write_to(to.as_deref(), |out| hitm_report::sarif(reports, least, out))?;
        if is_stdout(to.as_deref()) {
            return Ok(());
        }
    }
    let mut text = Vec::new();
    if args.github {
        hitm_report::github(reports, least, &mut text)?;
    } else {
        let options = CheckTableOptions {
            color: true,
            width: output::width(&io::stdout()),
            least,
            explain: args.explain,
        };
        for (number, report) in reports.iter().enumerate() {
            if number > 0 {
                text.push(b'\n');
            }
            hitm_report::check_table(report, &options, &mut text)?;
        }
    }
    anstream::stdout().lock().write_all(&text)?;
    Ok(())
}

fn is_stdout(path: Option<&Path>) -> bool {
    path.is_none_or(|path| path.as_os_str() == "-")
}

fn write_to(
    path: Option<&Path>,
    write: impl FnOnce(&mut BufWriter<Box<dyn Write>>) -> io::Result<()>,
) -> Result<()> {
    let to: Box<dyn Write> =
        match path.filter(|_| !is_stdout(path)) {
            None => Box::new(io::stdout().lock()),
            Some(path) => Box::new(File::create(path).with_context(|| {
                format!("cannot create {} (give another place)", path.display())
            })?),
        };
    let mut out = BufWriter::new(to);
    write(&mut out)?;
    out.flush()?;
    Ok(())
}

/// The fingerprints of a baseline: the first word of each line.
fn read_baseline(path: &Path) -> Result<HashSet<String>> {
    let text = fs::read_to_string(path).with_context(|| {
        let shown = path.display();
        format!("cannot read the baseline {shown} (make one: --write-baseline {shown})")
    })?;
    let mut known = HashSet::new();
    for (number, line) in text.lines().enumerate() {
        let Some(word) = line
            .split_whitespace()
            .next()
            .filter(|word| !word.starts_with('#'))
        else {
            continue;
        };
        if word.len() != 16 || !word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            bail!(
                "{}: line {} does not begin with a fingerprint (make the file anew: --write-baseline)",
                path.display(),
                number + 1
            );
        }
        known.insert(word.to_owned());
    }
    Ok(known)
}

fn mark(report: &mut CheckReport, known: &HashSet<String>) {
    for finding in &mut report.findings {
        finding.known = known.contains(&finding.fingerprint);
    }
    for violation in &mut report.violations {
        violation.known = known.contains(&violation.fingerprint);
    }
}

fn write_baseline(path: &PathBuf, reports: &[CheckReport]) -> Result<()> {
    let mut lines = vec![
        "# Findings of hitm check that are known. The first word of a line counts.".to_owned(),
    ];
    for report in reports {
        for violation in &report.violations {
            lines.push(format!(
                "{}  {}  {}",
                violation.fingerprint, violation.table, violation.what
            ));
        }
        for finding in &report.findings {
            let names: Vec<&str> = finding
                .parties
                .iter()
                .map(|party| party.name.as_str())
                .collect();
            let names = names.join(", ").replace('\n', " ");
            lines.push(format!(
                "{}  {}  {names}",
                finding.fingerprint, finding.rule
            ));
        }
    }
    lines.push(String::new());
    fs::write(path, lines.join("\n"))
        .with_context(|| format!("cannot write the baseline {}", path.display()))
}
