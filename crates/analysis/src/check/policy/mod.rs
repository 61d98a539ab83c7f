//! `hitm.toml`: what a project asks of its layout.

mod mistakes;
mod rules;

use hitm_binary::debug::DebugInfo;
use hitm_binary::image::Image;
use hitm_model::{LineSize, StaticFinding, StaticRule, Violation};
use serde::Deserialize;
use toml::Spanned;

use super::gather::Symbols;
use super::present::fingerprint_of;
use crate::named::GUARD;
use rules::{Breach, Layout};

/// What a project asks of its layout.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    path: String,
    file: File,
    text: String,
}

/// Why a policy cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// It is not what docs/check.md describes.
    #[error("line {line}: {what} (docs/check.md describes the policy)")]
    Invalid {
        /// The line.
        line: u32,
        /// What is wrong there.
        what: String,
    },
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    isolate: Vec<Spanned<Isolate>>,
    #[serde(default)]
    apart: Vec<Spanned<Several>>,
    #[serde(default)]
    together: Vec<Spanned<Several>>,
    #[serde(default, rename = "type")]
    types: Vec<Spanned<TypeRule>>,
    #[serde(default)]
    allow: Vec<Spanned<Allow>>,
}

/// Alone on its lines.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Isolate {
    symbol: String,
}

/// On different lines, or on one.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Several {
    symbols: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TypeRule {
    name: String,
    max_size: Option<u64>,
    #[serde(default)]
    separate: Vec<String>,
}

/// What is left as it is.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Allow {
    #[serde(default)]
    symbols: Vec<String>,
    fingerprint: Option<String>,
    rule: Option<StaticRule>,
    reason: String,
}

impl Policy {
    /// Reads the text of the policy at `path`, which is only its name here.
    ///
    /// # Errors
    /// If it is no TOML, has a key that is not known, or lacks one.
    pub fn parse(path: &str, text: &str) -> Result<Self, PolicyError> {
        let line_of = |at: usize| {
            text.get(..at)
                .map_or(1, |before| before.matches('\n').count() as u32 + 1)
        };
        let file: File = toml::from_str(text).map_err(|error| PolicyError::Invalid {
            line: error.span().map_or(1, |span| line_of(span.start)),
            what: error.message().trim().replace('\n', ", "),
        })?;
        let invalid = |at: usize, what: &str| PolicyError::Invalid {
            line: line_of(at),
            what: what.to_owned(),
        };
        for several in file.apart.iter().chain(&file.together) {
            if several.get_ref().symbols.len() < 2 {
                return Err(invalid(
                    several.span().start,
                    "`symbols` must name two or more",
                ));
            }
            no_name_twice("symbols", &several.get_ref().symbols)
                .map_err(|what| invalid(several.span().start, &what))?;
        }
        for allow in &file.allow {
            let it = allow.get_ref();
            if it.reason.trim().is_empty() {
                return Err(invalid(allow.span().start, "`reason` must say why"));
            }
            if it.symbols.is_empty() && it.fingerprint.is_none() && it.rule.is_none() {
                return Err(invalid(
                    allow.span().start,
                    "say what is allowed: `symbols`, `fingerprint` or `rule`",
                ));
            }
        }
        for ty in &file.types {
            let it = ty.get_ref();
            if it.max_size.is_none() && it.separate.len() < 2 {
                return Err(invalid(
                    ty.span().start,
                    "say what is asked of the type: `max_size`, or two or more fields in `separate`",
                ));
            }
            no_name_twice("separate", &it.separate)
                .map_err(|what| invalid(ty.span().start, &what))?;
        }
        if let Some((at, other, what)) = mistakes::contradiction(&file) {
            return Err(invalid(at, &format!("{what} by line {}", line_of(other))));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            text: text.to_owned(),
        })
    }

    /// Where it is, as it was given.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    fn line_of<T>(&self, of: &Spanned<T>) -> u32 {
        let before = self.text.get(..of.span().start).unwrap_or("");
        before.matches('\n').count() as u32 + 1
    }

    /// Marks the findings that are to be left as they are: those of which every party is named. One more object on the line
    /// is another finding.
    pub fn allow(&self, findings: &mut [StaticFinding]) {
        for finding in findings {
            let mut allows = self.file.allow.iter().map(Spanned::get_ref);
            let allow = allows.find(|allow| allow.allows(finding));
            finding.allowed = allow.map(|allow| allow.reason.clone());
        }
    }

    /// What is allowed and is in none of the findings any more: line and reason.
    #[must_use]
    pub fn stale<'f>(
        &self,
        findings: impl Iterator<Item = &'f StaticFinding> + Clone,
    ) -> Vec<(u32, &str)> {
        let allows = self.file.allow.iter();
        allows
            .filter(|allow| !findings.clone().any(|it| allow.get_ref().allows(it)))
            .map(|allow| (self.line_of(allow), allow.get_ref().reason.as_str()))
            .collect()
    }

    /// What a binary does that the policy forbids.
    #[must_use]
    pub fn violations(
        &self,
        image: &Image<'_>,
        debug: &DebugInfo<'_>,
        line: LineSize,
    ) -> Vec<Violation> {
        let symbols = Symbols::of(image);
        let layout = Layout {
            image,
            debug,
            line: u64::from(line.bytes()),
            symbols: &symbols,
        };
        let mut violations = Vec::new();
        let mut add = |table, at, breaches: Vec<Breach>| {
            violations.extend(breaches.into_iter().map(|it| violation(table, at, it)));
        };
        for rule in &self.file.isolate {
            let breaches = layout.isolate(&rule.get_ref().symbol);
            add("isolate", self.line_of(rule), breaches);
        }
        for rule in &self.file.apart {
            let breaches = layout.apart(&rule.get_ref().symbols);
            add("apart", self.line_of(rule), breaches);
        }
        for rule in &self.file.together {
            let breaches = layout.together(&rule.get_ref().symbols);
            add("together", self.line_of(rule), breaches);
        }
        for rule in &self.file.types {
            let breaches = layout.of_type(rule.get_ref());
            add("type", self.line_of(rule), breaches);
        }
        violations
    }
}

/// What is named twice is a slip: nothing is beside itself, or apart from itself.
fn no_name_twice(key: &str, names: &[String]) -> Result<(), String> {
    let again = (1..names.len()).find(|&at| names[..at].contains(&names[at]));
    match again {
        Some(at) => Err(format!("`{key}` names `{}` twice", names[at])),
        None => Ok(()),
    }
}

/// The fingerprint has all that are involved, so that a known violation does not hide another one of the same rule.
fn violation(table: &'static str, policy_line: u32, breach: Breach) -> Violation {
    let rule = format!("policy {table}");
    Violation {
        fingerprint: fingerprint_of(&rule, &breach.names),
        table,
        policy_line,
        what: breach.what,
        declared: breach.declared,
        known: false,
    }
}

impl Allow {
    fn allows(&self, finding: &StaticFinding) -> bool {
        self.names_all_of(finding)
            && self
                .fingerprint
                .as_ref()
                .is_none_or(|it| it.eq_ignore_ascii_case(&finding.fingerprint))
            && self.rule.is_none_or(|rule| rule == finding.rule)
    }

    fn names_all_of(&self, finding: &StaticFinding) -> bool {
        let parties = &finding.parties;
        let named = |symbol: &String| parties.iter().any(|party| is_named(&party.name, symbol));
        let covered = |party: &hitm_model::Party| {
            let mut symbols = self.symbols.iter();
            symbols.any(|symbol| is_named(&party.name, symbol))
        };
        self.symbols.is_empty() || (self.symbols.iter().all(named) && parties.iter().all(covered))
    }
}

/// Whether a party is, or is a part of, the object of a name, with or without the path before it.
fn is_named(party: &str, symbol: &str) -> bool {
    let party = party.trim_start_matches(GUARD);
    let symbol = symbol.trim_start_matches(GUARD);
    let begins = party.match_indices("::").map(|(at, _)| at + 2);
    begins.chain([0]).any(|at| {
        let rest = party[at..].strip_prefix(symbol);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[', '+']))
    })
}
