//! Types with several atomics or locks on one line, and lists of small ones.
//!
//! Objects on the heap have no address in the file. What can be seen is the type, and that the code of different threads
//! changes words at the offsets of its members through pointers. That both pointers lead to one object is likely where
//! the offsets are those of two atomics of one type, and certain nowhere: so such a finding has medium confidence, and low
//! without any such code.

use hitm_model::{AccessKind, Confidence, LineSize, SourceLine, Svma};

use super::facts::RootFacts;

/// A type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TypeFacts {
    /// Its name.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// What its address is a multiple of, if known.
    pub align: Option<u64>,
    /// Its atomics and locks.
    pub words: Vec<WordFacts>,
    /// Its padding, if a member is named so.
    pub padding: Option<String>,
    /// Whether it is the element of lists, so that its own size is the distance of two.
    pub in_list: Option<String>,
    /// Where it is declared.
    pub declared: Option<SourceLine>,
}

/// An atomic or a lock of a type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WordFacts {
    /// The way to it.
    pub path: String,
    /// Where.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// Whether it is a lock.
    pub lock: bool,
    /// In an array: distance and number.
    pub repeated: Option<(u64, u64)>,
}

/// An access through a pointer, by a started thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PointerUse {
    /// Which root.
    pub root: u16,
    /// The function.
    pub function: Svma,
    /// The instruction.
    pub instruction: Svma,
    /// What it does.
    pub kind: AccessKind,
    /// Whether in a loop.
    pub hot: bool,
    /// From where the pointer points to.
    pub offset: i64,
    /// The distance of elements; 0 without an index.
    pub stride: u32,
}

/// A suspicious type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TypeSuspicion {
    /// The type, by its place in the list.
    pub ty: usize,
    /// How sure.
    pub confidence: Confidence,
    /// The words, by their place in the type's list.
    pub words: Vec<usize>,
    /// Who changes them: for each word, uses by their place in the list.
    pub uses: Vec<Vec<usize>>,
    /// What kind.
    pub kind: TypeHazard,
}

/// What may go wrong with a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TypeHazard {
    /// Several words on one line.
    Words,
    /// The words of several elements on one line.
    Elements,
    /// Padded to whole lines, but not aligned to them.
    Padding,
}

/// Before what an `Arc` of Rust's library points to there are two counts.
const COUNTS: u64 = 16;

/// Judges all types.
#[must_use]
pub fn judge_types(
    line: LineSize,
    roots: &[RootFacts],
    types: &[TypeFacts],
    uses: &[PointerUse],
) -> Vec<TypeSuspicion> {
    let line = u64::from(line.bytes());
    let mut found = Vec::new();
    for (number, ty) in types.iter().enumerate() {
        if ty.in_list.is_some() {
            found.extend(list(line, roots, number, ty, uses));
            continue;
        }
        found.extend(words(line, number, ty, uses));
        found.extend(padding(line, number, ty));
    }
    found
}

fn words(line: u64, number: usize, ty: &TypeFacts, uses: &[PointerUse]) -> Option<TypeSuspicion> {
    let aligned = ty.align.is_some_and(|align| align >= line);
    let share = |a: &WordFacts, b: &WordFacts| {
        if aligned {
            a.offset / line == b.offset / line
        } else {
            b.offset.abs_diff(a.offset) < line
        }
    };
    let mut on_line: Vec<usize> = Vec::new();
    for a in 0..ty.words.len() {
        for b in a + 1..ty.words.len() {
            if share(&ty.words[a], &ty.words[b]) {
                on_line.extend([a, b]);
            }
        }
    }
    on_line.sort_unstable();
    on_line.dedup();
    if on_line.is_empty() {
        return None;
    }
    let head = COUNTS.next_multiple_of(ty.align.unwrap_or(1).clamp(1, 4096));
    for base in [0, head] {
        let users: Vec<Vec<usize>> = on_line
            .iter()
            .map(|&word| users_of(base, &ty.words[word], uses))
            .collect();
        let roots_of =
            |at: usize| -> Vec<u16> { users[at].iter().map(|&it| uses[it].root).collect() };
        let mut owned: Vec<usize> = Vec::new();
        for a in 0..on_line.len() {
            for b in a + 1..on_line.len() {
                let (of_a, of_b) = (roots_of(a), roots_of(b));
                let own =
                    |these: &[u16], those: &[u16]| these.iter().any(|root| !those.contains(root));
                if own(&of_a, &of_b)
                    && own(&of_b, &of_a)
                    && share(&ty.words[on_line[a]], &ty.words[on_line[b]])
                {
                    owned.extend([a, b]);
                }
            }
        }
        owned.sort_unstable();
        owned.dedup();
        if !owned.is_empty() {
            return Some(TypeSuspicion {
                ty: number,
                confidence: Confidence::Medium,
                words: owned.iter().map(|&at| on_line[at]).collect(),
                uses: owned.iter().map(|&at| users[at].clone()).collect(),
                kind: TypeHazard::Words,
            });
        }
    }
    Some(TypeSuspicion {
        ty: number,
        confidence: Confidence::Low,
        uses: vec![Vec::new(); on_line.len()],
        words: on_line,
        kind: TypeHazard::Words,
    })
}

/// Who changes a word in a loop, atomically: other stores at small offsets are everywhere.
fn users_of(base: u64, word: &WordFacts, uses: &[PointerUse]) -> Vec<usize> {
    let start = base + word.offset;
    let inside = |used: &PointerUse| {
        u64::try_from(used.offset).is_ok_and(|at| start <= at && at < start + word.size.max(1))
    };
    let changes =
        |used: &PointerUse| used.kind == AccessKind::Atomic && used.hot && used.stride == 0;
    (0..uses.len())
        .filter(|&number| changes(&uses[number]) && inside(&uses[number]))
        .collect()
}

fn list(
    line: u64,
    roots: &[RootFacts],
    number: usize,
    ty: &TypeFacts,
    uses: &[PointerUse],
) -> Option<TypeSuspicion> {
    if ty.size == 0 || ty.size >= line {
        return None;
    }
    let changes = |used: &PointerUse| {
        u64::from(used.stride) == ty.size
            && used.kind.writes()
            && used.hot
            && roots
                .get(usize::from(used.root))
                .is_some_and(|root| root.many)
    };
    let users: Vec<usize> = (0..uses.len()).filter(|&it| changes(&uses[it])).collect();
    let atomic = users.iter().any(|&it| uses[it].kind == AccessKind::Atomic);
    Some(TypeSuspicion {
        ty: number,
        confidence: if atomic {
            Confidence::Medium
        } else {
            Confidence::Low
        },
        words: (0..ty.words.len()).collect(),
        uses: vec![users; ty.words.len()],
        kind: TypeHazard::Elements,
    })
}

fn padding(line: u64, number: usize, ty: &TypeFacts) -> Option<TypeSuspicion> {
    let padded = ty.size > 0 && ty.size.is_multiple_of(line) && ty.padding.is_some();
    let loose = ty.align.is_some_and(|align| align < line);
    (padded && loose && !ty.words.is_empty()).then(|| TypeSuspicion {
        ty: number,
        confidence: Confidence::Low,
        words: (0..ty.words.len()).collect(),
        uses: vec![Vec::new(); ty.words.len()],
        kind: TypeHazard::Padding,
    })
}
