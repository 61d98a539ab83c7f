//! What the words of a block mean: the trait behind `#[derive(Counters)]`, and the table that readers go by.

#![expect(
    unsafe_code,
    reason = "implementing `Counters` states that a type is made of words"
)]

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use crate::histogram::Histogram;
use crate::sync::AtomicU64;

/// A block of counters: a struct of the user's with `#[derive(Counters)]`, a cell such as [`Counter`](crate::Counter), or
/// an array of either.
///
/// # Safety
/// A value consists of `WORDS` cells of this crate and nothing else, no padding either, and `describe` describes all of
/// them, each once, at their places. The derive and the cells see to that; do not implement it by hand.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no counter, and no block of counters",
    label = "needs a cell of hitm-counters, such as `Counter`",
    note = "cells are `Counter`, `SignedCounter`, `Gauge`, `Latest`, `Max`, `Min`, `Histogram` and `LatencyHistogram`; \
            arrays of them and structs with `#[derive(Counters)]` are blocks"
)]
pub unsafe trait Counters: Sized + 'static {
    /// The values of a block as plain data. The derive makes a struct of that, named after its own: `IoStatsValues`.
    type Values;

    /// How many words of 64 bits a block has.
    const WORDS: usize;

    /// Whether all cells can be counted per processor ([`PerCpu`](crate::PerCpu)): all but gauges and latest values.
    const PER_CPU: bool;

    /// Says what the words are.
    fn describe(describe: &mut Describe<'_>);

    /// Reads values from as many words.
    fn values(words: &[u64]) -> Self::Values;
}

/// What a cell counts, and so how those of several threads become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A [`Counter`](crate::Counter).
    Counter,
    /// A [`SignedCounter`](crate::SignedCounter).
    SignedCounter,
    /// A [`Gauge`](crate::Gauge).
    Gauge,
    /// A [`Latest`](crate::Latest).
    Latest,
    /// A [`Max`](crate::Max).
    Max,
    /// A [`Min`](crate::Min).
    Min,
    /// A [`Histogram`].
    Histogram {
        /// Its significant bits.
        precision: u32,
    },
}

/// A cell with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Field {
    /// The names of the fields that lead to it, with `_` between them; empty if there are none, as in `PerThread<Counter>`.
    pub name: String,
    /// The first paragraph of its documentation, or nothing.
    pub help: String,
    /// The places in the arrays that lead to it.
    pub labels: Vec<(String, String)>,
    /// What it counts.
    pub kind: Kind,
    /// Its words in the block.
    pub(crate) words: Range<usize>,
}

/// All cells of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    fields: Vec<Field>,
    runs: Vec<Run>,
    words: usize,
}

/// Neighbouring words that are folded alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) fold: Fold,
    pub(crate) words: Range<usize>,
}

/// How a word of several threads becomes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    /// The sum of all slots, less a base that resets move.
    Sum,
    /// The sum of all slots; a thread that ends leaves 0.
    Level,
    /// The greatest word; a reset leaves 0.
    Greatest,
    /// Pairs of a stamp and a value: the pair with the greatest stamp.
    Latest,
}

/// How cells of a kind become one.
pub(crate) fn fold_of(kind: Kind) -> Fold {
    match kind {
        Kind::Counter | Kind::SignedCounter | Kind::Histogram { .. } => Fold::Sum,
        Kind::Gauge => Fold::Level,
        Kind::Max | Kind::Min => Fold::Greatest,
        Kind::Latest => Fold::Latest,
    }
}

impl Schema {
    /// The table of a block type.
    pub(crate) fn of<C: Counters>() -> Self {
        // What the trait promises, in so far as it can be seen here; the unsafe code that reads blocks rests on it.
        const {
            assert!(
                size_of::<C>() == C::WORDS * size_of::<AtomicU64>()
                    && (align_of::<C>() == align_of::<AtomicU64>() || C::WORDS == 0),
                "a block of counters has no padding: leave out `repr(align)` and `repr(packed)`, the block is put on lines \
                 of its own anyway"
            );
        }
        let mut fields = Vec::new();
        let mut describe = Describe {
            fields: &mut fields,
            name: String::new(),
            help: String::new(),
            labels: Vec::new(),
            label: "index",
            word: 0,
        };
        C::describe(&mut describe);
        fields.sort_by_key(|field| field.words.start);
        let mut runs: Vec<Run> = Vec::new();
        for field in &fields {
            let fold = fold_of(field.kind);
            match runs.last_mut() {
                Some(run) if run.fold == fold && run.words.end == field.words.start => {
                    run.words.end = field.words.end;
                }
                _ => runs.push(Run {
                    fold,
                    words: field.words.clone(),
                }),
            }
        }
        Self {
            fields,
            runs,
            words: C::WORDS,
        }
    }

    /// The cells in the order in which they are in memory.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    pub(crate) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// How many words of 64 bits a block has.
    pub fn words(&self) -> usize {
        self.words
    }
}

/// Where a block type says what it is made of; used by the derive.
#[derive(Debug)]
pub struct Describe<'a> {
    fields: &'a mut Vec<Field>,
    name: String,
    help: String,
    labels: Vec<(String, String)>,
    label: &'static str,
    word: usize,
}

impl Describe<'_> {
    /// A field that is `offset` bytes into the block.
    #[doc(hidden)]
    pub fn field<C: Counters>(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        offset: usize,
    ) {
        let mut full = self.name.clone();
        if !full.is_empty() && !name.is_empty() {
            full.push('_');
        }
        full.push_str(name);
        let mut inner = Describe {
            fields: self.fields,
            name: full,
            help: if help.is_empty() {
                self.help.clone()
            } else {
                help.to_owned()
            },
            labels: self.labels.clone(),
            label,
            word: self.word + offset / size_of::<AtomicU64>(),
        };
        C::describe(&mut inner);
    }

    /// The `i`th element of an array.
    pub(crate) fn element<C: Counters>(&mut self, i: usize) {
        let mut labels = self.labels.clone();
        labels.push((self.label.to_owned(), i.to_string()));
        let mut inner = Describe {
            fields: self.fields,
            name: self.name.clone(),
            help: self.help.clone(),
            labels,
            label: "inner_index",
            word: self.word + i * C::WORDS,
        };
        C::describe(&mut inner);
    }

    /// This is a cell.
    pub(crate) fn cell(&mut self, kind: Kind, words: usize) {
        self.fields.push(Field {
            name: self.name.clone(),
            help: self.help.clone(),
            labels: self.labels.clone(),
            kind,
            words: self.word..self.word + words,
        });
    }
}

// SAFETY: `N` buckets and the sum, all `Word`s, described as that many words.
unsafe impl<const PRECISION: u32, const N: usize> Counters for Histogram<PRECISION, N> {
    type Values = crate::HistogramValues;
    const WORDS: usize = N + 1;
    const PER_CPU: bool = true;

    fn describe(describe: &mut Describe<'_>) {
        let precision = PRECISION;
        describe.cell(Kind::Histogram { precision }, N + 1);
    }

    fn values(words: &[u64]) -> crate::HistogramValues {
        crate::HistogramValues::from_words(PRECISION, words)
    }
}
