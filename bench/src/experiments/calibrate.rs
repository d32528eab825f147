//! How much to ask in a run: enough for the clock, not much more.

use ppc_store::Result;

/// Shortest measured time on which a calibration relies, in seconds.
const RELIABLE_SECONDS: f64 = 0.03;
/// Operations of the first, shortest probe.
const FIRST_OPERATIONS: usize = 64;
/// How many times more a probe asks than the one before it, at most.
const GROWTH_MAX: f64 = 16.0;

/// How long a run should take, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bounds {
    /// A run takes about this long, or longer.
    pub(super) seconds_min: f64,
    /// A run that would take longer is cut to about this.
    pub(super) seconds_max: f64,
}

impl Bounds {
    /// What a run takes with its calibration and warm-up, about.
    pub(super) fn run_seconds(self) -> f64 {
        self.seconds_min * 1.6
    }
}

/// What a run asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Volume {
    /// Keys looked up, all threads together.
    pub(super) operations: usize,
    /// Scans from end to end.
    pub(super) rounds: u32,
}

/// Finds a volume by asking ever more, until `ask` has taken long enough to tell how long an
/// operation takes. `keys` is the number of keys in the store.
pub(super) fn volume(
    bounds: Bounds,
    keys: usize,
    batch: u32,
    ask: &mut dyn FnMut(usize) -> Result<f64>,
) -> Result<Volume> {
    let mut operations = FIRST_OPERATIONS.max(batch as usize);
    loop {
        let seconds = ask(operations)?.max(1e-9);
        if seconds >= RELIABLE_SECONDS.min(bounds.seconds_min) {
            return Ok(fitting(bounds, keys, operations as f64 / seconds));
        }
        let growth = (2.0 * RELIABLE_SECONDS / seconds).clamp(2.0, GROWTH_MAX);
        operations = (operations as f64 * growth) as usize;
    }
}

/// All keys once if the time allows, several times if it asks for it, some if it must be; whole
/// numbers, so that equal speeds give equal volumes.
fn fitting(bounds: Bounds, keys: usize, operations_per_second: f64) -> Volume {
    let keys = keys.max(1);
    let pass_seconds = keys as f64 / operations_per_second;
    let operations = if pass_seconds <= bounds.seconds_max {
        let passes = (bounds.seconds_min / pass_seconds).ceil().max(1.0);
        keys.saturating_mul(passes as usize)
    } else {
        let halvings = (pass_seconds / bounds.seconds_max).log2().ceil().max(0.0);
        (keys >> (halvings as u32).min(usize::BITS - 1)).max(1)
    };
    Volume {
        operations,
        rounds: 1,
    }
}

/// The volume of scans that take `pass_seconds` each.
pub(super) fn rounds(bounds: Bounds, keys: usize, pass_seconds: f64) -> Volume {
    let rounds = (bounds.seconds_min / pass_seconds.max(1e-9)).ceil();
    Volume {
        operations: keys,
        rounds: rounds.clamp(1.0, 1e6) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        seconds_min: 0.5,
        seconds_max: 2.0,
    };

    /// A store that takes so many seconds for an operation.
    fn found(keys: usize, seconds_each: f64) -> f64 {
        let mut ask = |operations: usize| Ok(operations as f64 * seconds_each);
        let volume = volume(BOUNDS, keys, 1, &mut ask).unwrap();
        volume.operations as f64 * seconds_each
    }

    #[test]
    fn runs_take_as_long_as_they_should() {
        for keys in [1, 1_000, 30_000, 5_000_000] {
            for seconds_each in [2e-7, 1e-5, 1e-3] {
                let seconds = found(keys, seconds_each);
                let whole_pass = keys as f64 * seconds_each;
                let least = BOUNDS.seconds_min.min(BOUNDS.seconds_max / 2.0) * 0.99;
                assert!(seconds >= least, "{keys} {seconds_each}: {seconds}");
                let most = (BOUNDS.seconds_min + whole_pass).min(BOUNDS.seconds_max) * 1.01;
                assert!(seconds <= most, "{keys} {seconds_each}: {seconds}");
            }
        }
    }

    #[test]
    fn every_key_is_asked_for_where_time_allows() {
        let volume = fitting(BOUNDS, 30_000, 25_000.0);
        assert_eq!(volume.operations, 30_000);
        let volume = fitting(BOUNDS, 30_000, 1_000_000.0);
        assert_eq!(volume.operations % 30_000, 0);
    }

    #[test]
    fn scans_are_repeated_until_they_count() {
        assert_eq!(rounds(BOUNDS, 10, 0.2).rounds, 3);
        assert_eq!(rounds(BOUNDS, 10, 7.0).rounds, 1);
    }
}
