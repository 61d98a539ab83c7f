//! The rules of a policy, each judged by where objects and members are.

use hitm_binary::debug::{DebugInfo, Origin};
use hitm_binary::image::Image;
use hitm_model::{SourceLine, Svma, SvmaRange};

use super::TypeRule;
use crate::check::fix::list;
use crate::check::gather::Symbols;
use crate::named::{GUARD, split_path};

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

/// An object by name, or a part of one.
struct Object {
    name: String,
    range: SvmaRange,
    declared: Option<SourceLine>,
    /// Of a part: where the object begins.
    part_of: Option<Svma>,
}

impl Object {
    fn is_guard(&self) -> bool {
        self.name.starts_with(GUARD)
    }
}

impl Layout<'_, '_, '_> {
    /// What a name means, as hitm writes it: a variable, with the guard of a function's static (`guard of …` is that
    /// alone), or a part of one, `stats.hits`, `clients[2].flags`. Nothing is an error of the policy, as a breach.
    fn objects(&self, wanted: &str) -> Result<Vec<Object>, Breach> {
        let (name, only_guards) = match wanted.strip_prefix(GUARD) {
            Some(name) => (name, true),
            None => (wanted, false),
        };
        let whole = self.objects_called(name, only_guards);
        if !whole.is_empty() {
            return Ok(whole);
        }
        let (base, path) = split_path(name);
        if path.is_empty() {
            return Err(self.missing(wanted, base));
        }
        let mut bases = self.objects_called(base, only_guards);
        bases.retain(|object| !object.is_guard());
        if bases.is_empty() {
            return Err(self.missing(wanted, base));
        }
        let parts: Vec<Object> = bases
            .iter()
            .filter_map(|object| self.part(object, path))
            .collect();
        if parts.is_empty() {
            return Err(Breach {
                what: format!(
                    "there is no {} in {}: the policy cannot be checked for it",
                    path.trim_start_matches('.'),
                    bases[0].name
                ),
                names: vec![wanted.to_owned(), "missing".to_owned()],
                declared: bases[0].declared.clone(),
            });
        }
        Ok(parts)
    }

    fn objects_called(&self, name: &str, only_guards: bool) -> Vec<Object> {
        let symbols = self.image.data_symbols_named(name);
        let objects = symbols.into_iter().map(|symbol| self.object(symbol));
        objects
            .filter(|object| object.is_guard() || !only_guards)
            .collect()
    }

    fn part(&self, object: &Object, path: &str) -> Option<Object> {
        let global = self.debug.global_at(object.range.start)?;
        let place = self.debug.place_of(global.ty?, path)?;
        let start = object.range.start.wrapping_add(place.offset);
        Some(Object {
            name: format!("{}{path}", object.name),
            range: SvmaRange::new(start, start.wrapping_add(place.size.unwrap_or(1).max(1))),
            declared: object.declared.clone(),
            part_of: Some(object.range.start),
        })
    }

    fn missing(&self, wanted: &str, base: &str) -> Breach {
        let what = match self.debug.type_named(base) {
            Some(_) => format!(
                "{base} is a type and no variable: ask for the lines of its members with [[type]], `name` and `separate`"
            ),
            None => format!(
                "there is no variable {wanted} in the binary: the policy cannot be checked for it"
            ),
        };
        Breach {
            what,
            names: vec![wanted.to_owned(), "missing".to_owned()],
            declared: None,
        }
    }

    fn object(&self, range: SvmaRange) -> Object {
        let global = self
            .debug
            .global_at(range.start)
            .filter(|global| global.origin != Origin::Section && global.svma == range.start);
        let (name, declared) = match global {
            Some(global) => (global.name, global.declared),
            None => (format!("data at {}", range.start), None),
        };
        Object {
            name,
            range,
            declared,
            part_of: None,
        }
    }

    /// The members beside one on its lines, of the same variable.
    fn members_beside(&self, part: &Object, whole: SvmaRange) -> Vec<Object> {
        let Some(global) = part.part_of.and_then(|start| self.debug.global_at(start)) else {
            return Vec::new();
        };
        let Some(ty) = global.ty else {
            return Vec::new();
        };
        let end = global.svma.wrapping_add(global.size);
        let mut found: Vec<Object> = Vec::new();
        let mut at = whole.start.max(global.svma);
        while at < whole.end.min(end) {
            let offset = at.offset_from(global.svma).unwrap_or(0);
            let path = self.debug.field_path(ty, offset, 1);
            let start = global.svma.wrapping_add(path.leaf_offset);
            let leaf = SvmaRange::new(start, start.wrapping_add(path.leaf_size));
            let is_padding = !leaf.contains(at)
                || (leaf.start <= part.range.start && part.range.end <= leaf.end);
            if part.range.contains(at) || is_padding {
                at = at.wrapping_add(1);
                continue;
            }
            let name = format!("{}{}", global.name, path.path);
            // Of an array it is the array that is there, not each of its elements.
            let array = name.rsplit_once('[').filter(|_| name.ends_with(']'));
            let name = match array {
                Some((array, _)) if !part.name.starts_with(&format!("{array}[")) => array,
                _ => &name,
            };
            if found.last().is_none_or(|last| last.name != name) {
                found.push(Object {
                    name: name.to_owned(),
                    range: leaf,
                    declared: global.declared.clone(),
                    part_of: part.part_of,
                });
            }
            at = leaf.end;
        }
        found
    }

    fn lines(&self, range: SvmaRange) -> (u64, u64) {
        let last = range.end.0.saturating_sub(1).max(range.start.0);
        (range.start.0 / self.line, last / self.line)
    }

    pub(super) fn isolate(&self, name: &str) -> Vec<Breach> {
        let objects = match self.objects(name) {
            Ok(objects) => objects,
            Err(missing) => return vec![missing],
        };
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
                .filter(|other| {
                    let own = object.part_of.unwrap_or(object.range.start);
                    other.start != own && other.end > other.start
                })
                .map(|other| self.object(other))
                .collect();
            neighbours.extend(self.members_beside(&object, whole));
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
        let mut found: Vec<Breach> = Vec::new();
        let mut objects: Vec<Vec<Object>> = Vec::new();
        for name in names {
            match self.objects(name) {
                Ok(of_name) => objects.push(of_name),
                Err(missing) => found.push(missing),
            }
        }
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
            let mut of_name = match self.objects(name) {
                Ok(of_name) => of_name,
                Err(missing) => return vec![missing],
            };
            // Who names a guard means it.
            if !name.starts_with(GUARD) {
                of_name.retain(|object| !object.is_guard());
            }
            if of_name.is_empty() {
                return vec![self.missing(name, name)];
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
