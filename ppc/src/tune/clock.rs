//! Processor time, which stands in for energy, and time of the clock beside it.

use std::time::{Duration, Instant};

/// What [`Spent::processor`] is on this system: `process-cpu-time`, or `clock` where the system does
/// not tell processor time.
pub const PROCESSOR_TIME_SOURCE: &str = if cfg!(unix) {
    "process-cpu-time"
} else {
    "clock"
};

/// Time that some work took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// Processor time of the process, all threads.
    pub processor: Duration,
    /// Time of the clock.
    pub clock: Duration,
}

/// Measures from its making on.
pub(super) struct Stopwatch {
    processor: Duration,
    clock: Instant,
}

impl Stopwatch {
    pub(super) fn start() -> Self {
        let clock = Instant::now();
        Self {
            processor: processor_time(clock),
            clock,
        }
    }

    pub(super) fn spent(&self) -> Spent {
        Spent {
            processor: processor_time(self.clock).saturating_sub(self.processor),
            clock: self.clock.elapsed(),
        }
    }
}

/// Processor time of this process; time since `origin`, where the system does not tell.
#[cfg(unix)]
fn processor_time(_: Instant) -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    let nanos = u32::try_from(now.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanos)
}

#[cfg(not(unix))]
fn processor_time(origin: Instant) -> Duration {
    origin.elapsed()
}
