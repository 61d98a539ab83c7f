//! `hitm.toml`: what a project asks of its layout.

use hitm_binary::debug::{DebugInfo, Origin};
use hitm_binary::image::Image;
use hitm_model::{LineSize, SourceLine, StaticFinding, StaticRule, Svma, SvmaRange, Violation};
use serde::Deserialize;
use toml::Spanned;

use super::gather::Symbols;
use super::present::fingerprint;

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

    /// Marks the findings that are to be left as they are.
    pub fn allow(&self, findings: &mut [StaticFinding]) {
        for finding in findings {
            let names = |symbol: &String| {
                finding
                    .parties
                    .iter()
                    .any(|party| is_named(&party.name, symbol))
            };
            let allow = self.file.allow.iter().map(Spanned::get_ref).find(|allow| {
                allow.symbols.iter().all(names)
                    && allow
                        .fingerprint
                        .as_ref()
                        .is_none_or(|it| *it == finding.fingerprint)
                    && allow.rule.is_none_or(|rule| rule == finding.rule)
            });
            finding.allowed = allow.map(|allow| allow.reason.clone());
        }
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
        for rule in &self.file.isolate {
            let what = layout.isolate(&rule.get_ref().symbol);
            self.add(
                &mut violations,
                "isolate",
                rule,
                &rule.get_ref().symbol,
                what,
            );
        }
        for rule in &self.file.apart {
            let names = &rule.get_ref().symbols;
            let what = layout.apart(names);
            self.add(&mut violations, "apart", rule, &names.join(","), what);
        }
        for rule in &self.file.together {
            let names = &rule.get_ref().symbols;
            let what = layout.together(names);
            self.add(&mut violations, "together", rule, &names.join(","), what);
        }
        for rule in &self.file.types {
            let what = layout.of_type(rule.get_ref());
            self.add(&mut violations, "type", rule, &rule.get_ref().name, what);
        }
        violations
    }

    fn add<T>(
        &self,
        violations: &mut Vec<Violation>,
        table: &'static str,
        rule: &Spanned<T>,
        names: &str,
        found: Vec<(String, Option<SourceLine>)>,
    ) {
        for (what, declared) in found {
            violations.push(Violation {
                fingerprint: fingerprint(
                    StaticRule::GlobalsShareLine,
                    &[format!("policy {table}"), names.to_owned()],
                ),
                table,
                policy_line: self.line_of(rule),
                what,
                declared,
                known: false,
            });
        }
    }
}

/// Whether a party is, or is a part of, the object of a name.
fn is_named(party: &str, symbol: &str) -> bool {
    let party = party.trim_start_matches("guard of ");
    party == symbol
        || party
            .strip_prefix(symbol)
            .is_some_and(|rest| rest.starts_with(['.', '[', '+']))
        || party
            .strip_suffix(symbol)
            .is_some_and(|before| before.ends_with("::"))
}

struct Layout<'a, 'd, 'i> {
    image: &'a Image<'d>,
    debug: &'a DebugInfo<'i>,
    line: u64,
    symbols: &'a Symbols<'a, 'd>,
}

/// An object by name.
struct Object {
    name: String,
    range: SvmaRange,
    declared: Option<SourceLine>,
}

type Found = Vec<(String, Option<SourceLine>)>;

impl Layout<'_, '_, '_> {
    /// The objects of a name: the variable, and the guard of a function's static.
    fn objects(&self, wanted: &str) -> Vec<Object> {
        let symbols = self.image.data_symbols_named(wanted);
        symbols
            .into_iter()
            .map(|symbol| self.object(symbol))
            .collect()
    }

    fn object(&self, range: SvmaRange) -> Object {
        let global = self
            .debug
            .global_at(range.start)
            .filter(|global| global.origin != Origin::Section && global.svma == range.start);
        match global {
            Some(global) => Object {
                name: global.name,
                range,
                declared: global.declared,
            },
            None => Object {
                name: format!("data at {}", range.start),
                range,
                declared: None,
            },
        }
    }

    fn lines(&self, range: SvmaRange) -> (u64, u64) {
        let last = range.end.0.saturating_sub(1).max(range.start.0);
        (range.start.0 / self.line, last / self.line)
    }

    fn isolate(&self, name: &str) -> Found {
        let objects = self.objects(name);
        let Some(first) = objects.first() else {
            return vec![missing(name)];
        };
        let mut found = Vec::new();
        for object in &objects {
            let (from, to) = self.lines(object.range);
            let whole = SvmaRange::new(
                Svma(from * self.line),
                Svma((to + 1).saturating_mul(self.line)),
            );
            let mut neighbours: Vec<Object> = self
                .symbols
                .within(whole)
                .filter(|other| other.start != object.range.start && other.end > other.start)
                .map(|other| self.object(other))
                .collect();
            neighbours.sort_by_key(|other| other.range.start);
            if neighbours.is_empty() {
                continue;
            }
            let names: Vec<String> = neighbours.iter().map(|other| other.name.clone()).collect();
            found.push((
                format!(
                    "{} is not alone on its line: {} {} on it too",
                    object.name,
                    super::fix::list(&names),
                    if names.len() == 1 { "is" } else { "are" }
                ),
                first.declared.clone(),
            ));
        }
        found
    }

    fn apart(&self, names: &[String]) -> Found {
        let objects: Vec<(usize, Object)> = names
            .iter()
            .enumerate()
            .flat_map(|(number, name)| {
                self.objects(name)
                    .into_iter()
                    .map(move |object| (number, object))
            })
            .collect();
        let mut found: Found = (0..names.len())
            .filter(|number| !objects.iter().any(|(of, _)| of == number))
            .map(|number| missing(&names[number]))
            .collect();
        for (at, (number, a)) in objects.iter().enumerate() {
            for (other, b) in &objects[at + 1..] {
                if number != other && self.share(a.range, b.range) {
                    let line = Svma(a.range.start.0.max(b.range.start.0) / self.line * self.line);
                    found.push((
                        format!("{} and {} share the line at {line}", a.name, b.name),
                        a.declared.clone(),
                    ));
                }
            }
        }
        found
    }

    fn share(&self, a: SvmaRange, b: SvmaRange) -> bool {
        let (a, b) = (self.lines(a), self.lines(b));
        a.0 <= b.1 && b.0 <= a.1
    }

    fn together(&self, names: &[String]) -> Found {
        let mut objects = Vec::new();
        for name in names {
            match self.objects(name).into_iter().next() {
                Some(object) => objects.push(object),
                None => return vec![missing(name)],
            }
        }
        let first = self.lines(objects[0].range).0;
        let away: Vec<String> = objects
            .iter()
            .filter(|object| self.lines(object.range) != (first, first))
            .map(|object| object.name.clone())
            .collect();
        if away.is_empty() {
            return Vec::new();
        }
        let declared = objects[0].declared.clone();
        vec![(
            format!(
                "{} must be on one line; {} {} not on the first one's",
                super::fix::list(names),
                super::fix::list(&away),
                if away.len() == 1 { "is" } else { "are" }
            ),
            declared,
        )]
    }

    fn of_type(&self, rule: &TypeRule) -> Found {
        let Some(ty) = self.debug.type_named(&rule.name) else {
            return vec![(
                format!("there is no type {} in the debug information", rule.name),
                None,
            )];
        };
        let declared = self.debug.declaration(ty);
        let mut found = Vec::new();
        let size = self.debug.type_size(ty).unwrap_or(0);
        if let Some(most) = rule.max_size
            && size > most
        {
            found.push((
                format!("{} has {size} bytes, and may have {most}", rule.name),
                declared.clone(),
            ));
        }
        let align = self.debug.type_align(ty);
        let mut places = Vec::new();
        for field in &rule.separate {
            match self.debug.member_named(ty, field) {
                Some((offset, size)) => places.push((field, offset, size.max(1))),
                None => found.push((
                    format!("{} has no field {field}", rule.name),
                    declared.clone(),
                )),
            }
        }
        for (at, a) in places.iter().enumerate() {
            for b in &places[at + 1..] {
                let (low, high) = if a.1 <= b.1 { (a, b) } else { (b, a) };
                let meet = if align >= self.line {
                    (low.1 + low.2 - 1) / self.line == high.1 / self.line
                } else {
                    // Wherever it begins: the first byte of one and the last of the other.
                    high.1.saturating_sub(low.1 + low.2 - 1) < self.line
                };
                if meet {
                    let may = if align >= self.line {
                        "share"
                    } else {
                        "may share"
                    };
                    found.push((
                        format!(
                            "{}.{} and {}.{} {may} a line",
                            rule.name, low.0, rule.name, high.0
                        ),
                        declared.clone(),
                    ));
                }
            }
        }
        found
    }
}

fn missing(name: &str) -> (String, Option<SourceLine>) {
    (
        format!("there is no variable {name} in the binary: the policy cannot be checked for it"),
        None,
    )
}
