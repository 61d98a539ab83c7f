//! `hitm check`: what a binary's layout and code say before it runs.

use std::io;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use hitm_analysis::check::{CheckOptions, Policy};
use hitm_model::{CheckCaveat, CheckReport, Confidence};
use hitm_report::{CheckFailOn, CheckTableOptions, SourceTree};

use super::baseline::{self, Baseline};
use super::found::{self, To};
use super::input::read_text;
use super::static_binary::{StaticBinary, jobs};
use crate::cli::{CheckArgs, ConfidenceChoice};
use crate::exit_codes::Exit;
use crate::output;

/// The policy that is used where none is given.
const POLICY: &str = "hitm.toml";
/// A policy is not larger than this.
const MOST_OF_POLICY: u64 = 1 << 20;

/// Checks binaries.
pub(crate) fn check(args: &CheckArgs) -> Result<Exit> {
    let documents = Documents::of(args)?;
    let policy = policy(args.policy.as_deref())?;
    let known = args.baseline.as_deref().map(Baseline::read).transpose()?;
    let mut reports = Vec::new();
    for path in &args.binaries {
        let mut report = check_one(path, args, policy.as_ref())?;
        if let Some(known) = &known {
            known.mark(&mut report);
        }
        reports.push(report);
    }
    if let Some(path) = &args.write_baseline {
        baseline::write(path, &reports)?;
    }
    documents.show(args, &reports)?;
    if let Some(policy) = &policy {
        let findings = reports.iter().flat_map(|report| &report.findings);
        for (line, reason) in policy.stale(findings) {
            output::say(&format!(
                "hitm: {}:{line}: nothing is allowed by this [[allow]] ({reason}): no finding is like it; remove it, or correct its names",
                policy.path()
            ));
        }
    }
    // Who reads the SARIF decides, and would take a failure for a log that is not whole.
    if documents.sarif == Some(To::Stdout) {
        return Ok(Exit::Done);
    }
    let fail_on = args.fail_on.unwrap_or(CheckFailOn::Policy);
    if hitm_report::check_gate(&reports, fail_on) {
        return Ok(Exit::Gate);
    }
    if let Some(why) = hitm_report::cannot_check(&reports, fail_on) {
        output::say(&format!("hitm: --fail-on cannot be judged: {why}"));
        return Ok(Exit::Error);
    }
    Ok(Exit::Done)
}

/// The policy that is asked for, else the one in the working directory, if there is one.
fn policy(given: Option<&Path>) -> Result<Option<Policy>> {
    let path = given.unwrap_or(Path::new(POLICY));
    let shown = path.display().to_string();
    let text = match read_text(path, MOST_OF_POLICY) {
        Ok(text) => text,
        Err(error) if given.is_none() && error.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(error) => {
            return Err(error).with_context(|| match given {
                Some(_) => format!("cannot read the policy {shown} (docs/check.md describes it)"),
                None => format!(
                    "cannot read the policy {shown} of the working directory (name another: --policy FILE)"
                ),
            });
        }
    };
    let policy = Policy::parse(&shown, &text).with_context(|| shown.clone())?;
    Ok(Some(policy))
}

fn check_one(path: &Path, args: &CheckArgs, policy: Option<&Policy>) -> Result<CheckReport> {
    let binary = StaticBinary::open_with_code(path)?;
    let options = CheckOptions {
        line: args.line_size,
        threads: jobs(),
        policy,
    };
    let name = path.to_string_lossy();
    let mut report = hitm_analysis::check::check(binary.image(), &name, &options);
    report
        .caveats
        .extend(binary.damage().map(|what| CheckCaveat::Damaged {
            what: what.to_owned(),
        }));
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

/// Which documents are asked for, and where they go.
struct Documents<'a> {
    json: Option<To<'a>>,
    sarif: Option<To<'a>>,
}

impl<'a> Documents<'a> {
    fn of(args: &'a CheckArgs) -> Result<Self> {
        let documents = Self {
            json: To::of(args.json.as_ref()),
            sarif: To::of(args.sarif.as_ref()),
        };
        let on_stdout = [
            documents.json == Some(To::Stdout),
            documents.sarif == Some(To::Stdout),
            args.github,
        ];
        if on_stdout.into_iter().filter(|it| *it).count() > 1 {
            bail!(
                "only one of --json, --sarif and --github can have stdout (give files: --json=FILE, --sarif=FILE)"
            );
        }
        Ok(documents)
    }

    /// Writes the documents, and the table or the annotations unless one of them has stdout to itself.
    fn show(&self, args: &CheckArgs, reports: &[CheckReport]) -> Result<()> {
        let least = least(args);
        if let Some(to) = self.json {
            found::document(to, "--json", |out| {
                hitm_report::check_json(reports, least, out)
            })?;
        }
        if let Some(to) = self.sarif {
            let tree = source_tree()?;
            found::document(to, "--sarif", |out| {
                hitm_report::sarif(reports, least, &tree, out)
            })?;
        }
        if [self.json, self.sarif].contains(&Some(To::Stdout)) {
            return Ok(());
        }
        if args.github {
            let tree = source_tree()?;
            return found::text(|text| hitm_report::github(reports, least, &tree, text));
        }
        let options = CheckTableOptions {
            color: true,
            width: output::width(&io::stdout()),
            least,
            explain: args.explain,
        };
        found::text(|text| {
            for (number, report) in reports.iter().enumerate() {
                if number > 0 {
                    text.push(b'\n');
                }
                hitm_report::check_table(report, &options, text)?;
            }
            Ok(())
        })
    }
}

/// The repository around the working directory; without one, that itself.
fn source_tree() -> Result<SourceTree> {
    let here = std::env::current_dir()
        .context("the working directory is gone (change into another: cd)")?;
    let top = here.ancestors().find(|folder| folder.join(".git").exists());
    let text = |path: &Path| path.to_string_lossy().into_owned();
    Ok(SourceTree {
        root: text(top.unwrap_or(&here)),
        typed_in: text(&here),
    })
}
