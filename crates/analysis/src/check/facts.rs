//! What is known of a binary's objects and of who touches them: what the judging of pairs needs, and no more.

use hitm_binary::program::{Certainty, HeldLock};
use hitm_model::{AccessKind, Confidence, LineSize, Svma};
use rustc_hash::FxHashSet;

/// Everything that is judged.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The line size.
    pub line: LineSize,
    /// Where threads begin.
    pub roots: Vec<RootFacts>,
    /// Pairs of roots that are never there at once, as one is waited for before the other one is started; the smaller
    /// number first.
    pub apart: FxHashSet<(u16, u16)>,
    /// Objects in address order.
    pub objects: Vec<ObjectFacts>,
    /// Who touches them.
    pub uses: Vec<Use>,
}

impl Facts {
    pub(super) fn are_apart(&self, one: Option<u16>, other: Option<u16>) -> bool {
        let (Some(one), Some(other)) = (one, other) else {
            return false;
        };
        self.apart.contains(&(one.min(other), one.max(other)))
    }
}

/// Where threads begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RootFacts {
    /// Whether it is the main thread.
    pub main: bool,
    /// Whether several threads may begin there.
    pub many: bool,
}

/// One object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectFacts {
    /// Its name.
    pub name: String,
    /// Its first byte.
    pub start: Svma,
    /// Bytes.
    pub size: u64,
    /// Whether it belongs to a standard library or to the compiler: nobody's to lay out.
    pub library: bool,
}

/// How one root touches some bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Use {
    /// Which root; `None` where that is not known.
    pub root: Option<u16>,
    /// Which object.
    pub object: usize,
    /// The first byte.
    pub at: Svma,
    /// Bytes.
    pub size: u32,
    /// The distance of the elements where it is one of an array.
    pub stride: u32,
    /// Whether which one tells the thread from its siblings.
    pub by_thread: bool,
    /// Whether what is touched is an atomic or a lock in each element, by its type.
    pub element_shared: bool,
    /// The instructions, some of each kind.
    pub sites: Vec<UseSite>,
    /// Whether a lock is taken or given back, or something compared and exchanged.
    pub locks: bool,
    /// The locks that are held at each of its touches in loops.
    pub held_hot: Held,
    /// The locks that are held at each of its touches.
    pub held: Held,
}

/// The locks that are held at all of some touches.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Held {
    /// `None` as long as there is no touch.
    always: Option<Vec<HeldLock>>,
}

impl Held {
    /// Another touch, at which these are held.
    pub fn add(&mut self, locks: &[HeldLock]) {
        let Some(always) = &mut self.always else {
            self.always = Some(locks.to_vec());
            return;
        };
        always.retain_mut(|lock| {
            let other = locks.iter().find(|other| other.address == lock.address);
            lock.shared |= other.is_some_and(|other| other.shared);
            other.is_some()
        });
    }

    /// The touches of another one.
    pub(super) fn also(&mut self, other: &Self) {
        if let Some(locks) = &other.always {
            self.add(locks);
        }
    }

    /// Whether none of these and none of the others happen at once: there are such, and all hold one lock.
    #[must_use]
    pub fn excludes(&self, other: &Self) -> bool {
        let (Some(mine), Some(theirs)) = (&self.always, &other.always) else {
            return false;
        };
        mine.iter().any(|mine| {
            let same = theirs.iter().find(|lock| lock.address == mine.address);
            same.is_some_and(|lock| !(lock.shared && mine.shared))
        })
    }
}

/// An instruction that touches something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UseSite {
    /// Its function.
    pub function: Svma,
    /// The instruction.
    pub instruction: Svma,
    /// What it does.
    pub kind: AccessKind,
    /// Whether in a loop.
    pub hot: bool,
    /// Whether it touches one of several places.
    pub chosen: bool,
    /// How sure it is that the root comes there.
    pub certainty: Certainty,
}

/// The most that can be said of accesses that a root comes to in this way.
pub(super) const fn most(certainty: Certainty) -> Confidence {
    match certainty {
        Certainty::Run => Confidence::High,
        Certainty::Called => Confidence::Medium,
        Certainty::Guessed => Confidence::Low,
    }
}

/// How sure it is that a root comes to one of these in a loop; if to none, to any.
pub(super) fn best<'s>(sites: impl Iterator<Item = &'s UseSite> + Clone) -> Certainty {
    let hot = sites.clone().filter(|site| site.hot);
    hot.map(|site| site.certainty)
        .max()
        .or_else(|| sites.map(|site| site.certainty).max())
        .unwrap_or(Certainty::Guessed)
}

impl Use {
    /// How sure it is that it writes in a loop; else, that it writes.
    pub(super) fn certainty(&self) -> Certainty {
        best(self.sites.iter().filter(|site| site.kind.writes()))
    }

    /// Whether it writes.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.sites.iter().any(|site| site.kind.writes())
    }

    /// Whether it writes in a loop.
    #[must_use]
    pub fn writes_hot(&self) -> bool {
        self.sites.iter().any(|site| site.kind.writes() && site.hot)
    }

    /// Whether it touches it in a loop.
    #[must_use]
    pub fn hot(&self) -> bool {
        self.sites.iter().any(|site| site.hot)
    }

    /// Whether a locked operation is among them.
    #[must_use]
    pub fn atomic(&self) -> bool {
        self.sites
            .iter()
            .any(|site| site.kind == AccessKind::Atomic)
    }
}

/// Whether of two instructions of one function a call executes at most one.
pub trait EitherOr {
    /// Whether neither can follow the other.
    fn is_either_or(&self, first: Svma, second: Svma) -> bool;
}

impl<F: Fn(Svma, Svma) -> bool> EitherOr for F {
    fn is_either_or(&self, first: Svma, second: Svma) -> bool {
        self(first, second)
    }
}
