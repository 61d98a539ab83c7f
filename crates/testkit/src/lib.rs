//! Fixtures compiled at test time, and what they must be found to do.
//!
//! A fixture is one source file under `fixtures/` with `//#` directives on top; the same file gives the faulty and the
//! repaired layout ([`Layout`]). [`Fixture::build`] compiles it once per content, [`run_limited`] runs a program and never
//! leaves it behind, [`Truth`] is what a fixture says about its own addresses, and [`judge`] compares a report of hitm
//! with that. `cargo xtask corpus` uses the same judge for programs from elsewhere.
//!
//! Tests that need something this machine lacks say so with [`skip!`]; `REQUIRE_ALL=1` turns that into a failure.

mod compile;
mod fixture;
mod judge;
mod live;
mod oracle;
mod proof;
mod run;
mod skip;
mod story1;
mod truth;

pub use compile::{Built, CompileError, cache_dir, compile_program};
pub use fixture::{Expected, Fixture, Language, Layout, Party, Variant, fixture, fixtures};
pub use judge::{Claim, Judgement, judge};
pub use live::{perf_available, quiet_machine};
pub use oracle::{nm, symbol_address, tool_output};
pub use proof::{Comparison, ProofWanted, ProvenThread, Said, comparisons};
pub use run::{Outcome, run_limited};
pub use skip::{SKIP_LOG, have_tool, skipped};
pub use story1::{HotLine, Story1, story1_truth};
pub use truth::{AccessWanted, Truth, Who, parse_truth};
