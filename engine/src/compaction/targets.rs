//! How many bytes each level may hold.
//!
//! Targets move with the data. The last level holds most of a store and has no limit; from its
//! size the levels above get theirs, each a `level_multiplier`-th of the next. Levels whose share
//! would fall below the *base* size are not used at all: L0 compacts past them, into the **base
//! level**. So a young store consists of L0 and the last level, space amplification stays near
//! `1 + 1 / level_multiplier`, and the base level rises by itself as the store grows.

use crate::manifest::Version;
use crate::options::{KeyspaceOptions, LEVEL_COUNT};

/// The last level's index.
pub(crate) const LAST_LEVEL: usize = LEVEL_COUNT - 1;

/// Which level takes L0's data, and what each level may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LevelTargets {
    /// The first sorted level in use, from 1 to [`LAST_LEVEL`].
    pub(crate) base_level: usize,
    /// Stored bytes each level may hold; `u64::MAX` where there is no limit (the last level), and
    /// for L0, whose tables are counted instead. Levels above the base may hold nothing.
    pub(crate) bytes: [u64; LEVEL_COUNT],
}

impl LevelTargets {
    /// The targets of a version with these options.
    pub(crate) fn new(version: &Version, options: &KeyspaceOptions) -> Self {
        Self::from_sizes(
            &std::array::from_fn(|level| version.stored_bytes(level)),
            options,
        )
    }

    fn from_sizes(sizes: &[u64; LEVEL_COUNT], options: &KeyspaceOptions) -> Self {
        let sorted = sizes.iter().enumerate().skip(1);
        let largest = sorted.clone().map(|(_, &bytes)| bytes).max().unwrap_or(0);
        let first_used = sorted
            .clone()
            .find(|(_, bytes)| **bytes > 0)
            .map_or(LAST_LEVEL, |(level, _)| level);
        let multiplier = u64::from(options.level_multiplier.max(2));
        let base_bytes_max = options.base_level_bytes;
        let base_bytes_min = base_bytes_max / multiplier;

        // What the first level in use would hold if the largest level were full and last.
        let mut base_level = first_used;
        let mut base_bytes = largest;
        for _ in first_used..LAST_LEVEL {
            base_bytes /= multiplier;
        }
        if base_bytes <= base_bytes_min {
            // The levels in use are deeper than the data asks for: drain the first into the next.
            base_bytes = base_bytes_min + 1;
        } else {
            while base_level > 1 && base_bytes > base_bytes_max {
                base_level -= 1;
                base_bytes /= multiplier;
            }
        }

        let mut bytes = [0; LEVEL_COUNT];
        let mut target = base_bytes.min(base_bytes_max);
        for (level, slot) in bytes.iter_mut().enumerate() {
            if level == 0 || level == LAST_LEVEL {
                *slot = u64::MAX;
            } else if level >= base_level {
                // Deeper levels hold at least the base size, so that the tree keeps its shape
                // while the last level is still small.
                *slot = if level == base_level {
                    target
                } else {
                    target.max(base_bytes_max)
                };
                target = target.saturating_mul(multiplier);
            }
        }
        Self { base_level, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(sizes: [u64; LEVEL_COUNT]) -> LevelTargets {
        let options = KeyspaceOptions {
            base_level_bytes: 100,
            level_multiplier: 10,
            ..KeyspaceOptions::default()
        };
        LevelTargets::from_sizes(&sizes, &options)
    }

    #[test]
    fn an_empty_store_compacts_into_the_last_level() {
        assert_eq!(targets([0; LEVEL_COUNT]).base_level, LAST_LEVEL);
        assert_eq!(targets([500, 0, 0, 0, 0, 0, 0]).base_level, LAST_LEVEL);
        assert_eq!(targets([0, 0, 0, 0, 0, 0, 100]).base_level, LAST_LEVEL);
    }

    #[test]
    fn the_base_rises_as_the_last_level_grows() {
        let small = targets([0, 0, 0, 0, 0, 0, 101]);
        assert_eq!((small.base_level, small.bytes[5]), (5, 10));
        let large = targets([0, 0, 0, 0, 0, 0, 50_000]);
        assert_eq!(large.base_level, 3);
        assert_eq!(large.bytes, [u64::MAX, 0, 0, 50, 500, 5_000, u64::MAX]);
    }

    #[test]
    fn the_base_never_lies_below_data() {
        let inverted = targets([0, 0, 3, 0, 0, 0, 40]);
        assert_eq!(inverted.base_level, 2);
        assert_eq!(inverted.bytes[..3], [u64::MAX, 0, 11]);
    }

    #[test]
    fn each_level_above_the_last_holds_at_most_its_share() {
        let grown = targets([0, 0, 0, 0, 0, 5_000, 1_000_000]);
        assert!(grown.bytes[5] >= 100_000 && grown.bytes[5] <= 1_000_000);
        assert!(grown.base_level >= 1);
    }
}
