//! Suspicions get names: of objects and fields, of functions and threads.

use std::collections::BTreeMap;

use hitm_binary::debug::{DebugInfo, Origin, TypeId};
use hitm_binary::image::Image;
use hitm_binary::program::{Certainty, Program};
use hitm_model::{
    AccessKinds, Confidence, Explained, Fix, LineSize, Party, SourceLine, StaticFinding,
    StaticRule, Svma, SvmaRange, ThreadRoot, Toucher,
};
use rustc_hash::FxHashMap;

use super::alignment::{AlignmentSuspicion, AllocatedFacts};
use super::blocks::{self, BlockObject};
use super::facts::{Facts, UseSite};
use super::fields::Field;
use super::fix;
use super::gather::Gathered;
use super::judge::{NoFinding, Suspicion};
use super::types::{PointerUse, TypeFacts, TypeHazard, TypeSuspicion};
use crate::named::GUARD;

/// So many touchers of a party are listed.
const MOST_TOUCHERS: usize = 8;
/// So many findings get names; more are of no use to anybody.
const MOST_FINDINGS: usize = 2000;
/// So many parties of one finding.
const MOST_PARTIES: usize = 64;

pub(super) struct Presenter<'a, 'd, 'i> {
    pub(super) image: &'a Image<'d>,
    pub(super) debug: &'a DebugInfo<'i>,
    pub(super) program: &'a Program,
    pub(super) facts: &'a Facts,
    pub(super) in_blocks: &'a FxHashMap<usize, BlockObject>,
    pub(super) types: &'a [TypeFacts],
    pub(super) allocated: &'a [AllocatedFacts],
    pub(super) pointer_uses: &'a [PointerUse],
    pub(super) line: LineSize,
    pub(super) rust: bool,
    pub(super) roots: Vec<ThreadRoot>,
}

impl<'a, 'd, 'i> Presenter<'a, 'd, 'i> {
    pub(super) fn new(
        image: &'a Image<'d>,
        debug: &'a DebugInfo<'i>,
        program: &'a Program,
        gathered: &'a Gathered,
        line: LineSize,
    ) -> Self {
        let mut presenter = Self {
            image,
            debug,
            program,
            facts: &gathered.facts,
            in_blocks: &gathered.in_blocks,
            types: &gathered.types,
            allocated: &gathered.allocated,
            pointer_uses: &gathered.pointer_uses,
            line,
            rust: image.is_rust(),
            roots: Vec::new(),
        };
        presenter.roots = presenter.name_roots();
        presenter
    }

    pub(super) fn threads(&self) -> Vec<ThreadRoot> {
        self.roots.clone()
    }

    pub(super) fn findings(
        &self,
        suspicions: Vec<Suspicion>,
        types: Vec<TypeSuspicion>,
        loose: &[AlignmentSuspicion],
    ) -> (Vec<StaticFinding>, Vec<Explained>) {
        let mut suspicions = suspicions;
        suspicions.sort_by_key(|it| (std::cmp::Reverse(it.confidence), it.line));
        suspicions.truncate(MOST_FINDINGS);
        let mut findings: Vec<StaticFinding> = Vec::new();
        let mut numbers: FxHashMap<String, usize> = FxHashMap::default();
        let add = |finding: StaticFinding,
                   findings: &mut Vec<StaticFinding>,
                   numbers: &mut FxHashMap<String, usize>| {
            match numbers.get(&finding.fingerprint) {
                // The same objects on another line of theirs.
                Some(&known) => merge(&mut findings[known], finding),
                None => {
                    numbers.insert(finding.fingerprint.clone(), findings.len());
                    findings.push(finding);
                }
            }
        };
        let mut inside = Vec::new();
        for suspicion in &mut suspicions {
            if self.is_of_handles(suspicion) {
                suspicion.confidence = Confidence::Low;
            }
        }
        for suspicion in &suspicions {
            match self.within_one(suspicion) {
                Some(explained) if inside.contains(&explained) => {}
                Some(explained) => inside.push(explained),
                None => add(self.finding(suspicion), &mut findings, &mut numbers),
            }
        }
        for suspicion in loose.iter().take(MOST_FINDINGS) {
            add(self.loose_finding(suspicion), &mut findings, &mut numbers);
        }
        let mut types = types;
        types.sort_by_key(|it| (std::cmp::Reverse(it.confidence), it.ty));
        for suspicion in types.iter().take(MOST_FINDINGS) {
            let finding = self.type_finding(suspicion);
            // An object of the type in the file says more than the type.
            let known = findings.iter().any(|other| {
                other.confidence >= finding.confidence
                    && other.parties.iter().any(|party| {
                        party.type_name.as_deref() == Some(self.types[suspicion.ty].name.as_str())
                    })
            });
            if !known {
                add(finding, &mut findings, &mut numbers);
            }
        }
        findings.sort_by(|a, b| {
            (std::cmp::Reverse(a.confidence), a.rule, &a.fingerprint).cmp(&(
                std::cmp::Reverse(b.confidence),
                b.rule,
                &b.fingerprint,
            ))
        });
        (findings, inside)
    }

    pub(super) fn explained(&self, all: Vec<NoFinding>) -> Vec<Explained> {
        let mut explained: Vec<Explained> = Vec::new();
        for no in all {
            let mut objects: Vec<String> = no
                .fields
                .iter()
                .map(|field| self.name_of(field).0)
                .collect();
            objects.dedup();
            let one = Explained {
                objects,
                why: no.why.to_owned(),
            };
            if !explained.contains(&one) {
                explained.push(one);
            }
        }
        explained
    }

    fn finding(&self, suspicion: &Suspicion) -> StaticFinding {
        let mut parties: Vec<Party> = Vec::new();
        for field in suspicion.fields.iter().take(MOST_PARTIES) {
            let party = self.party(field, suspicion.stride);
            match parties.iter_mut().find(|known| known.name == party.name) {
                // What no name tells apart is one.
                Some(known) => widen(known, party),
                None => parties.push(party),
            }
        }
        let names: Vec<String> = parties.iter().map(|party| party.name.clone()).collect();
        let rust = self.rust;
        StaticFinding {
            fingerprint: fingerprint(suspicion.rule, &names),
            rule: suspicion.rule,
            confidence: suspicion.confidence,
            why: self.because(suspicion),
            fix: self.fix_of(suspicion, &names, rust),
            line: (!self.is_in_block(suspicion)).then_some(suspicion.line),
            parties,
            allowed: None,
            known: false,
        }
    }

    fn fix_of(&self, suspicion: &Suspicion, names: &[String], rust: bool) -> Fix {
        let mut fix = fix::of(self.facts, suspicion, names, rust);
        let blocks = suspicion
            .fields
            .iter()
            .filter_map(|field| self.in_blocks.get(&field.object));
        for block in blocks {
            if !block.sized {
                fix.instances = None;
            }
            if block.heap && !rust && !fix.text.ends_with(fix::ALLOCATE) {
                fix.text.push_str(fix::ALLOCATE);
            }
        }
        fix
    }

    fn because(&self, suspicion: &Suspicion) -> String {
        let guard = suspicion.fields.iter().find_map(|field| {
            let name = &self.facts.objects[field.object].name;
            name.strip_prefix(GUARD)
        });
        let guard = guard.map_or_else(String::new, |of| {
            format!("; the guard is read wherever {of} is used, wherever that itself is")
        });
        let unknown = suspicion
            .fields
            .iter()
            .any(|field| field.users.iter().all(|user| user.root.is_none()));
        let unknown = if unknown && suspicion.confidence == Confidence::Low {
            "; it is not known which threads run this code"
        } else {
            ""
        };
        let placed = self.placed(suspicion);
        format!("{}{guard}{unknown}{placed}", suspicion.why)
    }

    /// Of a block that may begin anywhere on a line, how likely it is that the fields share one.
    fn placed(&self, suspicion: &Suspicion) -> String {
        let [first, .., last] = suspicion.fields.as_slice() else {
            return String::new();
        };
        let Some(object) = self.in_blocks.get(&first.object) else {
            return String::new();
        };
        let end = Svma(first.range.end.0.saturating_sub(1));
        let line = u64::from(self.line.bytes());
        match blocks::places(object, end, last.range.start, line) {
            (same, all) if same == all => String::new(),
            (same, all) => format!(
                "; they are on one line in {same} of the {all} places of a line where such memory may begin"
            ),
        }
    }

    fn type_finding(&self, suspicion: &TypeSuspicion) -> StaticFinding {
        let ty = &self.types[suspicion.ty];
        let parties: Vec<Party> = suspicion
            .words
            .iter()
            .zip(&suspicion.uses)
            .take(MOST_PARTIES)
            .map(|(&word, uses)| {
                let word = &ty.words[word];
                let sites = uses.iter().map(|&number| {
                    let used = &self.pointer_uses[number];
                    let site = UseSite {
                        function: used.function,
                        instruction: used.instruction,
                        kind: used.kind,
                        hot: used.hot,
                        chosen: false,
                        certainty: Certainty::Called,
                    };
                    (Some(used.root), site)
                });
                Party {
                    name: format!("{}{}", ty.name, word.path),
                    type_name: Some(ty.name.clone()),
                    address: None,
                    section: None,
                    offset: word.offset,
                    size: word.size,
                    declared: ty.declared.clone(),
                    touched_by: self.touchers(sites.collect()),
                }
            })
            .collect();
        let names: Vec<String> = parties.iter().map(|party| party.name.clone()).collect();
        let seen = suspicion.uses.iter().any(|uses| !uses.is_empty());
        let (rule, why) = match (suspicion.kind, seen) {
            (TypeHazard::Words, true) => (
                StaticRule::FieldsShareLine,
                "different threads change words at these offsets through pointers, each its own; that the pointers are to \
                 one object is likely, not seen"
                    .to_owned(),
            ),
            (TypeHazard::Words, false) => (
                StaticRule::FieldsShareLine,
                "they may be changed independently of each other; no code of different threads that does so was seen"
                    .to_owned(),
            ),
            (TypeHazard::Elements, _) => (
                StaticRule::ElementsShareLine,
                format!(
                    "{} is a list of elements of {} bytes with atomics or locks in them{}",
                    ty.in_list.as_deref().unwrap_or("it"),
                    ty.size,
                    if seen { ", and several threads change elements of such a size in loops" } else { "" }
                ),
            ),
            (TypeHazard::Padding, _) => (
                StaticRule::PaddingWithoutAlignment,
                format!(
                    "its {} bytes are whole lines, but it may begin at any multiple of {}: {} keeps only one side free",
                    ty.size,
                    ty.align.unwrap_or(1),
                    ty.padding.as_deref().unwrap_or("its padding")
                ),
            ),
        };
        StaticFinding {
            fingerprint: fingerprint(rule, &names),
            rule,
            confidence: suspicion.confidence,
            why,
            fix: fix::of_type(self.line, ty, suspicion, &names, self.rust),
            line: None,
            parties,
            allowed: None,
            known: false,
        }
    }

    fn loose_finding(&self, suspicion: &AlignmentSuspicion) -> StaticFinding {
        let one = &self.allocated[suspicion.allocated];
        let rule = StaticRule::AlignmentNotGiven;
        let party = Party {
            name: one.name.clone(),
            type_name: Some(one.name.clone()),
            address: None,
            section: Some("the heap".to_owned()),
            offset: 0,
            size: one.size,
            declared: one.declared.clone(),
            touched_by: self.touchers(one.uses.clone()),
        };
        let inside = match one.at {
            0 => String::new(),
            at => format!(" {at} bytes into its block"),
        };
        let (by, place) = self.called_at(one.site);
        StaticFinding {
            fingerprint: fingerprint(rule, std::slice::from_ref(&one.name)),
            rule,
            confidence: suspicion.confidence,
            why: format!(
                "it asks for addresses that are multiples of {}, and is allocated{inside} by {} in {by}{place}, which \
                 promises multiples of {} only: it may begin anywhere on a line, beside what is somebody else's",
                one.align, one.allocator, suspicion.promised
            ),
            fix: fix::of_alignment(one, self.rust),
            line: None,
            parties: vec![party],
            allowed: None,
            known: false,
        }
    }

    /// The function that a call is in, and ` (file:line)` where that is known.
    fn called_at(&self, site: Svma) -> (String, String) {
        let frames = self.debug.source_frames(site);
        let own = frames.iter().find(|frame| !frame.is_library());
        let place = own
            .and_then(|frame| frame.line.as_ref())
            .map_or_else(String::new, |line| format!(" ({line})"));
        (self.function_name_at(site), place)
    }

    fn party(&self, field: &Field, stride: Option<u32>) -> Party {
        let (name, known) = self.name_of(field);
        let object = &self.facts.objects[field.object];
        let block = self.in_blocks.get(&field.object);
        let sites = field
            .users
            .iter()
            .flat_map(|user| user.sites.iter().map(move |site| (user.root, *site)));
        Party {
            name,
            type_name: known.ty.map(|ty| self.debug.type_name(ty)),
            address: block.is_none().then_some(field.range.start),
            section: match block {
                Some(block) if block.heap => Some("the heap".to_owned()),
                Some(_) => Some("a stack".to_owned()),
                None => self.image.section_at(object.start).map(str::to_owned),
            },
            offset: field.range.start.0 % u64::from(self.line.bytes()),
            size: stride.map_or(field.range.len(), u64::from),
            declared: known.declared,
            touched_by: self.touchers(sites.collect()),
        }
    }

    /// What is known of an object's type.
    pub(super) fn known(&self, number: usize) -> Known {
        if let Some(object) = self.in_blocks.get(&number) {
            return Known {
                ty: object.ty,
                declared: object.declared.clone(),
            };
        }
        let start = self.facts.objects[number].start;
        let global = self
            .debug
            .global_at(start)
            .filter(|global| global.origin != Origin::Section && global.svma == start);
        match global {
            Some(global) => Known {
                ty: global.ty,
                declared: global.declared,
            },
            None => Known::default(),
        }
    }

    fn is_in_block(&self, suspicion: &Suspicion) -> bool {
        let mut fields = suspicion.fields.iter();
        fields.any(|field| self.in_blocks.contains_key(&field.object))
    }

    pub(super) fn name_of(&self, field: &Field) -> (String, Known) {
        let object = &self.facts.objects[field.object];
        let whole = SvmaRange::new(object.start, object.start.wrapping_add(object.size));
        let known = self.known(field.object);
        if field.range == whole {
            return (object.name.clone(), known);
        }
        let offset = field.range.start.offset_from(object.start).unwrap_or(0);
        let path = known.ty.and_then(|ty| {
            let path = self.debug.field_path(ty, offset, field.range.len());
            Some(path.path).filter(|path| !path.is_empty())
        });
        let name = match path {
            Some(path) => format!("{}{path}", object.name),
            // The only part of it that is used is it.
            None if offset == 0 && object.size <= 16 => object.name.clone(),
            // A part of a vector is the vector.
            None if self.is_inside_library(field) => object.name.clone(),
            None => format!("{}+{offset:#x}", object.name),
        };
        (name, known)
    }

    fn touchers(&self, sites: Vec<(Option<u16>, UseSite)>) -> Vec<Toucher> {
        let mut by_function: BTreeMap<(bool, Option<u16>, Svma), (AccessKinds, UseSite)> =
            BTreeMap::new();
        for (root, site) in sites {
            let entry = by_function
                .entry((!site.kind.writes(), root, site.function))
                .or_insert((AccessKinds::NONE, site));
            entry.0 = entry.0.with(site.kind);
            if site.hot && !entry.1.hot {
                entry.1 = site;
            }
        }
        let mut touchers: Vec<Toucher> = Vec::new();
        for ((_, root, function), (kinds, site)) in by_function {
            let frames = self.debug.source_frames(site.instruction);
            let own = frames.iter().find(|frame| !frame.is_library());
            let one = Toucher {
                thread: root.and_then(|root| Some(self.roots.get(usize::from(root))?.name.clone())),
                function: own.map_or_else(
                    || self.function_name(function),
                    |frame| frame.function.clone(),
                ),
                kinds,
                hot: site.hot,
                instruction: site.instruction,
                source: own.and_then(|frame| frame.line.clone()),
            };
            let same = touchers
                .iter_mut()
                .find(|other| other.thread == one.thread && other.function == one.function);
            match same {
                Some(other) => {
                    other.kinds = other.kinds.union(one.kinds);
                    other.hot |= one.hot;
                }
                None => touchers.push(one),
            }
        }
        touchers.sort_by_key(|it| (!it.hot, it.thread.is_none()));
        touchers.truncate(MOST_TOUCHERS);
        touchers
    }

    pub(super) fn function_name(&self, function: Svma) -> String {
        let symbol = self.image.symbol_at(function);
        symbol.map_or_else(|| format!("code at {function}"), |symbol| symbol.name)
    }
}

/// What the debug information says of an object.
#[derive(Default)]
pub(super) struct Known {
    pub(super) ty: Option<TypeId>,
    pub(super) declared: Option<SourceLine>,
}

/// Puts another part of what has one name into a row.
fn widen(known: &mut Party, other: Party) {
    let end = |party: &Party| party.offset.saturating_add(party.size);
    let all = end(known).max(end(&other));
    known.offset = known.offset.min(other.offset);
    known.size = all - known.offset;
    known.address = known.address.zip(other.address).map(|(a, b)| a.min(b));
    for toucher in other.touched_by {
        let mut known_ones = known.touched_by.iter_mut();
        match known_ones.find(|it| it.thread == toucher.thread && it.function == toucher.function) {
            Some(same) => {
                same.kinds = same.kinds.union(toucher.kinds);
                same.hot |= toucher.hot;
            }
            None => known.touched_by.push(toucher),
        }
    }
    known.touched_by.truncate(MOST_TOUCHERS);
}

/// Puts what was found on another line into a finding.
fn merge(finding: &mut StaticFinding, other: StaticFinding) {
    finding.confidence = finding.confidence.max(other.confidence);
    for party in other.parties {
        let known = finding
            .parties
            .iter()
            .any(|it| it.name == party.name && it.address == party.address);
        if !known && finding.parties.len() < MOST_PARTIES {
            finding.parties.push(party);
        }
    }
}

/// A name of the finding that does not depend on addresses.
pub(super) fn fingerprint(rule: StaticRule, names: &[String]) -> String {
    fingerprint_of(rule.name(), names)
}

/// The same of any rule (FNV-1a).
pub(super) fn fingerprint_of(rule: &str, names: &[String]) -> String {
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let texts = std::iter::once(rule).chain(names);
    for text in texts {
        for byte in text.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    format!("{hash:016x}")
}
