//! A live process becomes a recording.
//!
//! [`record_run`] and [`record_attach`] are the whole of it: a sampler delivers [`RawEvent`]s, a [`Session`] numbers
//! threads and address spaces, and what comes out goes into a recording. With [`prove_run`] and [`prove_attach`] the
//! program's threads are put on one processor for short windows meanwhile.

mod calibrate;
mod clock;
mod error;
mod launch;
pub mod machine;
mod mapping;
mod perf;
pub mod preload;
pub mod prove;
mod raw;
mod recorder;
mod sampler;
mod session;
pub mod trial;

pub use error::CollectError;
pub use raw::{RawEvent, RawSample};
pub use recorder::{
    AttachOptions, HottestLine, Outcome, Progress, Rate, RunOptions, SamplerChoice, prove_attach,
    prove_run, record_attach, record_run,
};
pub use session::{ProcFs, Session, SessionTotals, Standing, Stopped, World};
