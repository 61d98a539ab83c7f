//! The rules of a policy, each judged by where objects and members are.

use hitm_binary::debug::{DebugInfo, Origin};
use hitm_binary::image::Image;
use hitm_model::{SourceLine, Svma, SvmaRange};

use super::TypeRule;
use crate::check::fix::list;
use crate::check::gather::Symbols;

/// How a rule is broken.
pub(super) struct Breach {
    /// In words.
    pub(super) what: String,
    /// All that are involved, by name: what tells it from another breach of the rule.
    pub(super) names: Vec<String>,
    /// Where the first of them is declared.
    pub(super) declared: Option<SourceLine>,
}

/// Where everything is.
pub(super) struct Layout<'a, 'd, 'i> {
    pub(super) image: &'a Image<'d>,
    pub(super) debug: &'a DebugInfo<'i>,
    pub(super) line: u64,
    pub(super) symbols: &'a Symbols<'a, 'd>,
}

/// An object by name.
struct Object {
    name: String,
    range: SvmaRange,
    declared: Option<SourceLine>,
}

impl Object {
    fn is_guard(&self) -> bool {
        self.name.starts_with("guard of ")
    }
}

impl Layout<'_, '_, '_> {
    /// The objects of a name: the variable, and the guard of a function's static.
    fn objects(&self, wanted: &str) -> Vec<Object> {
        let symbols = self.image.data_symbols_named(wanted);
        let symbols = symbols.into_iter();
        symbols.map(|symbol| self.object(symbol)).collect()
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

    pub(super) fn isolate(&self, name: &str) -> Vec<Breach> {
        let objects = self.objects(name);
        if objects.is_empty() {
            return vec![missing(name)];
        }
        let mut found = Vec::new();
        for object in objects {
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
            let mut names: Vec<String> = neighbours.into_iter().map(|other| other.name).collect();
            let what = format!(
                "{} is not alone on its line: {} {} on it too",
                object.name,
                list(&names),
                is_or_are(&names)
            );
            names.insert(0, object.name);
            found.push(Breach {
                what,
                names,
                declared: object.declared,
            });
        }
        found
    }

    pub(super) fn apart(&self, names: &[String]) -> Vec<Breach> {
        let objects: Vec<Vec<Object>> = names.iter().map(|name| self.objects(name)).collect();
        let mut found: Vec<Breach> = names
            .iter()
            .zip(&objects)
            .filter(|(_, objects)| objects.is_empty())
            .map(|(name, _)| missing(name))
            .collect();
        for (at, of_one) in objects.iter().enumerate() {
            for of_other in &objects[at + 1..] {
                for a in of_one {
                    for b in of_other {
                        found.extend(self.on_one_line(a, b));
                    }
                }
            }
        }
        found
    }

    fn on_one_line(&self, a: &Object, b: &Object) -> Option<Breach> {
        let (of_a, of_b) = (self.lines(a.range), self.lines(b.range));
        let share = of_a.0 <= of_b.1 && of_b.0 <= of_a.1;
        share.then(|| Breach {
            what: format!(
                "{} and {} share the line at {}",
                a.name,
                b.name,
                Svma(of_a.0.max(of_b.0) * self.line)
            ),
            names: vec![a.name.clone(), b.name.clone()],
            declared: a.declared.clone(),
        })
    }

    /// A name may mean several variables, of different files: one of each name on one line will do.
    pub(super) fn together(&self, names: &[String]) -> Vec<Breach> {
        let mut objects: Vec<Vec<Object>> = Vec::new();
        for name in names {
            let mut of_name = self.objects(name);
            of_name.retain(|object| !object.is_guard());
            if of_name.is_empty() {
                return vec![missing(name)];
            }
            objects.push(of_name);
        }
        let is_on = |object: &Object, line: u64| self.lines(object.range) == (line, line);
        let away_from = |line: u64| -> Vec<String> {
            let away = objects
                .iter()
                .filter(|of_name| !of_name.iter().any(|it| is_on(it, line)));
            away.map(|of_name| of_name[0].name.clone()).collect()
        };
        let lines = objects[0].iter().map(|first| self.lines(first.range).0);
        let Some(away) = lines.map(away_from).min_by_key(Vec::len) else {
            return Vec::new();
        };
        if away.is_empty() {
            return Vec::new();
        }
        let what = format!(
            "{} must be on one line; {} {} not on the first one's",
            list(names),
            list(&away),
            is_or_are(&away)
        );
        vec![Breach {
            what,
            names: names.iter().cloned().chain(away).collect(),
            declared: objects[0][0].declared.clone(),
        }]
    }

    pub(super) fn of_type(&self, rule: &TypeRule) -> Vec<Breach> {
        let name = &rule.name;
        let breach = |what: String, names: &[&str], declared: &Option<SourceLine>| Breach {
            what,
            names: names.iter().map(|&name| name.to_owned()).collect(),
            declared: declared.clone(),
        };
        let Some(ty) = self.debug.type_named(name) else {
            let what = format!("there is no type {name} in the debug information");
            return vec![breach(what, &[name, "missing"], &None)];
        };
        let declared = self.debug.declaration(ty);
        let mut found = Vec::new();
        let size = self.debug.type_size(ty).unwrap_or(0);
        if let Some(most) = rule.max_size
            && size > most
        {
            let what = format!("{name} has {size} bytes, and may have {most}");
            found.push(breach(what, &[name, "max_size"], &declared));
        }
        let mut places: Vec<Member<'_>> = Vec::new();
        for field in &rule.separate {
            match self.debug.member_named(ty, field) {
                Some((offset, size)) => places.push(Member {
                    name: field,
                    first: offset,
                    last: offset.saturating_add(size.max(1) - 1),
                }),
                None => {
                    let what = format!("{name} has no field {field}");
                    found.push(breach(what, &[name, field, "missing"], &declared));
                }
            }
        }
        let aligned = self.debug.type_align(ty) >= self.line;
        for (at, a) in places.iter().enumerate() {
            for b in &places[at + 1..] {
                let (low, high) = if a.first <= b.first { (a, b) } else { (b, a) };
                if !low.meets(high, self.line, aligned) {
                    continue;
                }
                let may = if aligned { "share" } else { "may share" };
                let what = format!("{name}.{} and {name}.{} {may} a line", low.name, high.name);
                found.push(breach(what, &[name, low.name, high.name], &declared));
            }
        }
        found
    }
}

/// A member and the offsets of its first and last byte.
struct Member<'a> {
    name: &'a str,
    first: u64,
    last: u64,
}

impl Member<'_> {
    /// Whether this one and one that does not begin before it have a line in common, of an instance on a line's border; else
    /// of one anywhere.
    fn meets(&self, high: &Self, line: u64, aligned: bool) -> bool {
        if aligned {
            self.last / line >= high.first / line
        } else {
            high.first.saturating_sub(self.last) < line
        }
    }
}

fn is_or_are(names: &[String]) -> &'static str {
    if names.len() == 1 { "is" } else { "are" }
}

fn missing(name: &str) -> Breach {
    Breach {
        what: format!(
            "there is no variable {name} in the binary: the policy cannot be checked for it"
        ),
        names: vec![name.to_owned(), "missing".to_owned()],
        declared: None,
    }
}
