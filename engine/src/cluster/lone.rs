//! Sketches of values outside of any window: what one value would help another, without a plan.

use super::sketch::Sketches;
use super::{ClusterOptions, STORED_BYTES_PER_1000};

/// Of the value's distinct bytes, a base has one in so many at least. Which pieces are common is not
/// known here, and a licence alone makes no base.
const SHARED_DIVISOR: u64 = 3;

/// One value's sketch.
#[derive(Debug)]
pub(crate) struct LoneSketch(Sketches);

impl LoneSketch {
    pub(crate) fn new(value: &[u8], options: &ClusterOptions) -> Self {
        let mut sketches = Sketches::default();
        sketches.push(value, options.entries_max(value.len()));
        Self(sketches)
    }

    /// Stored bytes that `base` is expected to save this value, less what its decoding must save; 0 if
    /// it had better do without.
    pub(crate) fn gain_from(&self, base: &Self, options: &ClusterOptions) -> u64 {
        let (value, base) = (self.0.get(0), base.0.get(0));
        let shared = u64::from(value.bytes_shared_with(&base));
        if shared * SHARED_DIVISOR < u64::from(value.distinct_bytes) {
            return 0;
        }
        let saved = shared * STORED_BYTES_PER_1000 / 1000;
        saved.saturating_sub(options.due(base.value_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sketch(lines: impl Iterator<Item = u32>) -> LoneSketch {
        let lines = lines.map(|line| format!("a line that is number {}\n", line * 77));
        let text: String = lines.collect();
        LoneSketch::new(text.as_bytes(), &ClusterOptions::default())
    }

    #[test]
    fn a_version_gains_much_a_stranger_nothing_and_a_long_base_little() {
        let options = ClusterOptions::default();
        let value = sketch(0..200);
        let version = value.gain_from(&sketch(3..203), &options);
        assert!(version > 500, "{version}");
        assert_eq!(value.gain_from(&sketch(1000..1200), &options), 0);
        assert_eq!(value.gain_from(&sketch(150..1000), &options), 0);
        let long = value.gain_from(&sketch(0..1000), &options);
        assert!(long < version, "{long} of {version}");
    }

    #[test]
    fn empty_values_gain_nothing() {
        let options = ClusterOptions::default();
        let empty = sketch(0..0);
        assert_eq!(empty.gain_from(&sketch(0..9), &options), 0);
        assert_eq!(sketch(0..9).gain_from(&empty, &options), 0);
    }
}
