//! Latency histograms of what callers wait for.
//!
//! Recording takes one of several small mutexes, picked by thread, so that threads seldom meet.
//! Gets are so short that even reading the clock twice would show: one in
//! [`GET_SAMPLE_INTERVAL`] is measured, counted on each thread by itself.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use parking_lot::Mutex;

/// One get in this many is measured.
pub const GET_SAMPLE_INTERVAL: u32 = 16;

/// Longest latency told apart from longer ones: a minute.
const LATENCY_NANOS_MAX: u64 = 60_000_000_000;

/// Values are kept to this many decimal digits.
const DIGITS: u8 = 2;

const SHARD_COUNT: usize = 8;

/// A distribution of latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LatencySummary {
    /// Calls measured.
    pub count: u64,
    /// Their mean.
    pub mean: Duration,
    /// Half of them took at most this long.
    pub p50: Duration,
    /// Nine in ten.
    pub p90: Duration,
    /// Ninety-nine in a hundred.
    pub p99: Duration,
    /// All but one in a thousand.
    pub p999: Duration,
    /// The longest.
    pub max: Duration,
}

/// One histogram, sharded.
pub(crate) struct LatencyHistogram {
    shards: [Mutex<Option<Histogram<u64>>>; SHARD_COUNT],
}

impl LatencyHistogram {
    fn new() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::new(None)),
        }
    }

    fn record(&self, latency: Duration) {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed));
        let Some(shard) = self.shards.get(MINE.with(|mine| *mine) % SHARD_COUNT) else {
            return;
        };
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        let mut shard = shard.lock();
        if shard.is_none() {
            *shard = Histogram::new_with_bounds(1, LATENCY_NANOS_MAX, DIGITS).ok();
        }
        if let Some(histogram) = shard.as_mut() {
            histogram.saturating_record(nanos.max(1));
        }
    }

    /// The distribution so far.
    pub(crate) fn summary(&self) -> LatencySummary {
        let Ok(mut all) = Histogram::<u64>::new_with_bounds(1, LATENCY_NANOS_MAX, DIGITS) else {
            return LatencySummary::default();
        };
        for shard in &self.shards {
            if let Some(histogram) = shard.lock().as_ref() {
                // The bounds are the same, so every value fits.
                let _ = all.add(histogram);
            }
        }
        let at = |quantile: f64| Duration::from_nanos(all.value_at_quantile(quantile));
        LatencySummary {
            count: all.len(),
            mean: Duration::from_nanos(all.mean() as u64),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: Duration::from_nanos(all.max()),
        }
    }
}

/// The histograms of one open store.
pub(crate) struct Latencies {
    pub(crate) gets: LatencyHistogram,
    pub(crate) multi_gets: LatencyHistogram,
    pub(crate) writes: LatencyHistogram,
}

impl Latencies {
    pub(crate) fn new() -> Self {
        Self {
            gets: LatencyHistogram::new(),
            multi_gets: LatencyHistogram::new(),
            writes: LatencyHistogram::new(),
        }
    }

    /// Measures a call.
    pub(crate) fn start<'a>(&self, histogram: &'a LatencyHistogram) -> Timer<'a> {
        Timer {
            running: Some((histogram, Instant::now())),
        }
    }

    /// Measures one call in [`GET_SAMPLE_INTERVAL`] of this thread.
    pub(crate) fn start_sampled<'a>(&self, histogram: &'a LatencyHistogram) -> Timer<'a> {
        thread_local!(static CALLS: Cell<u32> = const { Cell::new(0) });
        let calls = CALLS.get();
        CALLS.set((calls + 1) % GET_SAMPLE_INTERVAL);
        if calls == 0 {
            return self.start(histogram);
        }
        Timer { running: None }
    }
}

/// A call being measured. One that fails is not recorded: it is dropped without a stop.
pub(crate) struct Timer<'a> {
    running: Option<(&'a LatencyHistogram, Instant)>,
}

impl Timer<'_> {
    pub(crate) fn stop(self) {
        if let Some((histogram, begun)) = self.running {
            histogram.record(begun.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_cover_all_threads() {
        let latencies = Latencies::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| latencies.writes.record(Duration::from_micros(100)));
            }
        });
        latencies.writes.record(Duration::from_secs(1000));
        let summary = latencies.writes.summary();
        assert_eq!(summary.count, 5);
        let near = Duration::from_micros(99)..Duration::from_micros(102);
        assert!(near.contains(&summary.p50), "{summary:?}");
        assert!(summary.max >= Duration::from_secs(59));
    }

    #[test]
    fn one_get_in_so_many_is_measured() {
        let latencies = Latencies::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..GET_SAMPLE_INTERVAL * 3 {
                    latencies.start_sampled(&latencies.gets).stop();
                }
            });
        });
        assert_eq!(latencies.gets.summary().count, 3);
    }
}
