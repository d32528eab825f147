//! What the engine measures of itself: counters, latency histograms, and the trace of one get.

mod counters;
mod latency;
mod report;
mod trace;

pub use counters::Counter;
pub(crate) use counters::Stats;
pub(crate) use latency::Latencies;
pub use latency::{GET_SAMPLE_INTERVAL, LatencySummary};
pub use report::{CounterValues, DbStats, KeyspaceStats, LevelStats, MemoryStats};
pub use trace::{FilterOutcome, FrameTrace, GetTrace, TableTrace};
