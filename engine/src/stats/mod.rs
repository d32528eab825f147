//! What the engine measures of itself: counters, latency histograms, and the trace of one get.

mod counters;
mod trace;

pub use counters::Counter;
pub(crate) use counters::Stats;
pub use trace::{FilterOutcome, FrameTrace, GetTrace, TableTrace};
