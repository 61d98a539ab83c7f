//! Evidence becomes findings.
//!
//! ```text
//! events ─ gather ─► touches of shared lines ─ meet, judge ─► lines with a verdict
//!                                                     │ attribute (symbols, DWARF, frames)
//!                                                     ▼
//!                              report ◄─ rank, advise ─ group ─ lines with names
//! ```
//!
//! Nothing here opens a file, reads a clock or the environment: the recording and the bytes of the binaries come in, a
//! [`hitm_model::Report`] comes out, the same for the same input.

#![forbid(unsafe_code)]

mod advise;
mod analyse;
mod attribute;
mod binaries;
pub mod check;
pub mod diff;
mod gather;
mod group;
mod judge;
pub mod layout;
mod library;
mod lines;
mod meet;
mod named;
mod options;
mod prove;
mod samples;
mod touch;
mod world;

pub use analyse::analyse;
pub use binaries::{BinarySource, add_debug_file};
pub use gather::Recording;
pub use judge::{ENOUGH_OCCASIONS, Judgement, SMALL_ONE_WAY_PART, SMALL_PART, judge};
pub use meet::{Meeting, Meetings, Met, Running, Slot, meetings};
pub use options::{Options, ThreadsBy, default_window};
pub use prove::{Assessment, Look, PlanError, PlanOptions, Step, Unfit, WindowSteps, assess, plan};
pub use touch::{SiteId, Touch};
