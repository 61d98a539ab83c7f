//! Uses of bytes → fields: the parts of objects that are used on their own, as the code shows them.

use std::collections::BTreeMap;

use hitm_binary::program::Certainty;
use hitm_model::{Svma, SvmaRange};

use super::facts::{Facts, Held, Use, UseSite, best};

/// So many roots of one field are told apart.
const MOST_ROOTS: usize = 32;
/// Accesses larger than this say nothing about where fields begin.
const LARGEST: u64 = 16;
/// So many instructions of one field and root are kept.
const MOST_SITES: usize = 16;

/// Bytes that are used together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// Which object, by its place in [`Facts::objects`].
    pub object: usize,
    /// The bytes.
    pub range: SvmaRange,
    /// Who uses them.
    pub users: Vec<User>,
}

/// How one root uses a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    /// Which root; `None` where that is not known.
    pub root: Option<u16>,
    /// The instructions.
    pub sites: Vec<UseSite>,
    /// Whether it takes a lock there.
    pub locks: bool,
    /// The locks that are held at each of its touches in loops.
    pub held_hot: Held,
    /// The locks that are held at each of its touches.
    pub held: Held,
}

impl User {
    pub(super) fn writes(&self) -> bool {
        self.sites.iter().any(|site| site.kind.writes())
    }

    pub(super) fn writes_hot(&self) -> bool {
        self.sites.iter().any(|site| site.kind.writes() && site.hot)
    }

    pub(super) fn hot(&self) -> bool {
        self.sites.iter().any(|site| site.hot)
    }

    /// How sure it is that it comes to its accesses in loops, to those that write if so asked; without a loop, to any.
    pub(super) fn certainty(&self, writes: bool) -> Certainty {
        let wanted = |site: &&UseSite| site.kind.writes() || !writes;
        best(self.sites.iter().filter(wanted))
    }

    /// Whether what it does here and what another thread does elsewhere never happens at once, because both hold a lock.
    ///
    /// What is not in a loop does not count where both have loops.
    pub(super) fn excludes(&self, other: &Self) -> bool {
        match self.hot() && other.hot() {
            true => self.held_hot.excludes(&other.held_hot),
            false => self.held.excludes(&other.held),
        }
    }

    pub(super) fn of(used: &Use) -> Self {
        let mut user = Self {
            root: used.root,
            sites: Vec::new(),
            locks: false,
            held_hot: Held::default(),
            held: Held::default(),
        };
        user.add(used);
        user
    }

    fn add(&mut self, used: &Use) {
        self.locks |= used.locks;
        self.held_hot.also(&used.held_hot);
        self.held.also(&used.held);
        for site in &used.sites {
            if !self.sites.contains(site) && self.sites.len() < MOST_SITES {
                self.sites.push(*site);
            }
        }
    }
}

impl Field {
    pub(super) fn user(&self, root: Option<u16>) -> Option<&User> {
        self.users.iter().find(|user| user.root == root)
    }

    pub(super) fn is_locked(&self) -> bool {
        self.users.iter().any(|user| user.locks)
    }

    fn add(&mut self, used: &Use) {
        let full = self.users.len() >= MOST_ROOTS;
        match self.users.iter_mut().find(|user| user.root == used.root) {
            Some(user) => user.add(used),
            None if full => {}
            None => self.users.push(User::of(used)),
        }
    }
}

/// The fields of all objects, in address order. Small accesses say where fields are; what reaches over several of them,
/// as a copy of a whole structure does, uses each.
pub(super) fn of(facts: &Facts) -> Vec<Field> {
    let mut fields: BTreeMap<u64, Field> = BTreeMap::new();
    let mut uses: Vec<&Use> = facts
        .uses
        .iter()
        .filter(|used| used.stride == 0 && used.size > 0)
        .collect();
    uses.sort_by_key(|used| (used.size, used.at, used.root, used.object));
    for used in uses {
        let end = used.at.wrapping_add(u64::from(used.size));
        let range = SvmaRange::new(used.at, end);
        let met: Vec<u64> = fields
            .range(..end.0)
            .rev()
            .take_while(|(_, field)| field.range.end > used.at || field.range.len() > LARGEST)
            .filter(|(_, field)| field.range.end > used.at)
            .map(|(&start, _)| start)
            .collect();
        match met.as_slice() {
            [] => {
                let mut field = Field {
                    object: used.object,
                    range,
                    users: Vec::new(),
                };
                field.add(used);
                fields.insert(used.at.0, field);
            }
            [start] if range.len() <= LARGEST => {
                if let Some(mut field) = fields.remove(start) {
                    field.range.start = field.range.start.min(range.start);
                    field.range.end = field.range.end.max(range.end);
                    field.add(used);
                    fields.insert(field.range.start.0, field);
                }
            }
            several => {
                for start in several {
                    if let Some(field) = fields.get_mut(start) {
                        field.add(used);
                    }
                }
            }
        }
    }
    fields.into_values().collect()
}

/// The first and the last line of a range.
pub(super) fn lines(facts: &Facts, range: SvmaRange) -> (u64, u64) {
    let size = u64::from(facts.line.bytes());
    let last = range.end.0.saturating_sub(1).max(range.start.0);
    (range.start.0 / size, last / size)
}

/// The address of a line.
pub(super) fn address_of(facts: &Facts, line: u64) -> Svma {
    Svma(line.wrapping_mul(u64::from(facts.line.bytes())))
}
