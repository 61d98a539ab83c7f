//! The preload agent in real programs: what is sampled, and that the programs do not notice.

mod fallback;
mod processes;
mod samples;
mod shipped;
mod signals;
mod support;
