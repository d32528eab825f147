//! Profiles: full sets of table options, each with what it costs and gives.
//!
//! The figures are shares of raw bytes, on samples of 244 MiB of source code in four languages; the
//! decision record 0001 has them all, with what was measured behind each number here.

use super::{ClusterOptions, Compression, KIB, Layout, MIB, TableOptions};

/// A named full set of table options for the last level; see [`TableOptions::profile`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Profile {
    /// The fastest gets: a dictionary, no bases. See [`TableOptions::fast`].
    Fast,
    /// Small and quick to read and to write. See [`TableOptions::balanced`].
    Balanced,
    /// As small as gets of a file allow. See [`TableOptions::dense`].
    Dense,
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Fast, Self::Balanced, Self::Dense];

    /// Its name: `fast`, `balanced` or `dense`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Balanced => "balanced",
            Self::Dense => "dense",
        }
    }

    /// The profile of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name() == name)
    }
}

impl TableOptions {
    /// The profile's options.
    #[must_use]
    pub fn profile(profile: Profile) -> Self {
        match profile {
            Profile::Fast => Self::fast(),
            Profile::Balanced => Self::balanced(),
            Profile::Dense => Self::dense(),
        }
    }

    /// For the fastest gets: values in key order, each a frame of its own or, if small, with its
    /// neighbours in one of 4 KiB, with the help of a dictionary alone. A tenth smaller than blocks
    /// of 4 KiB at level 6, an eighth slower to get from, and as fast to write. A writer holds 64 MiB,
    /// from the first of which the dictionary comes.
    #[must_use]
    pub fn fast() -> Self {
        Self {
            layout: Layout::Clustered(ClusterOptions {
                shared_frame_bytes: 4 * KIB as u32,
                depth_max: 0,
                large_value_levels_up: 0,
                ..ClusterOptions::default()
            }),
            compression: Compression::Zstd { level: 5 },
            dictionary_bytes: 110 * KIB as u32,
            ..Self::default()
        }
    }

    /// Smaller than blocks of 128 KiB at level 9, read about as fast as blocks of 4 KiB and written
    /// about as fast as blocks of 64 KiB at level 3: values that are alike lie side by side, one
    /// compressed against another. A writer holds 256 MiB, a bulk load only with 1 GiB of memory;
    /// with windows of 64 MiB tables are up to 7 % larger, for the dictionary is of the first alone.
    #[must_use]
    pub fn balanced() -> Self {
        Self {
            layout: Layout::Clustered(ClusterOptions {
                window_bytes: 256 * MIB as u32,
                depth_max: 2,
                ..ClusterOptions::default()
            }),
            compression: Compression::Zstd { level: 3 },
            dictionary_bytes: 110 * KIB as u32,
            ..Self::default()
        }
    }

    /// As small as single gets allow: chains of bases, more of them, higher levels, matches sought
    /// everywhere. A seventh smaller than [`TableOptions::balanced`], about as fast to get from, and
    /// four times as slow to write. A writer holds up to 256 MiB, a bulk load only with 1 GiB of
    /// memory.
    #[must_use]
    pub fn dense() -> Self {
        Self {
            layout: Layout::Clustered(ClusterOptions {
                window_bytes: 256 * MIB as u32,
                shared_frame_bytes: 16 * KIB as u32,
                sketch_entries_max: 64,
                saved_bytes_per_1000_decoded: 10,
                depth_max: 4,
                follower_level: 6,
                long_distance_bytes: 64 * KIB as u32,
                long_distance_match_bytes: 32,
                doubt_per_mille: 120,
                ..ClusterOptions::default()
            }),
            compression: Compression::Zstd { level: 9 },
            dictionary_bytes: 256 * KIB as u32,
            ..Self::default()
        }
    }

    /// Blocks of `block_bytes` raw bytes at zstd `level`, as the paper has them: for comparison.
    /// Large blocks are small on disk, and slow to get a file from; small ones the reverse.
    #[must_use]
    pub fn paper(level: i32, block_bytes: u32) -> Self {
        Self::blocks(level, block_bytes)
    }

    /// What upper tree levels take above a last level of these options: blocks that cost little to
    /// write, since what they hold will soon be rewritten.
    #[must_use]
    pub fn light(&self) -> Self {
        /// The level of zstd that costs least for what it saves.
        const LEVEL_MAX: i32 = 1;
        let layout = match self.layout {
            Layout::Blocks { .. } => self.layout,
            Layout::Clustered(_) => Self::default().layout,
        };
        let compression = match self.compression {
            Compression::None => Compression::None,
            Compression::Zstd { level } => Compression::Zstd {
                level: level.min(LEVEL_MAX),
            },
        };
        Self {
            layout,
            compression,
            dictionary_bytes: 0,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_within_the_ranges_and_have_light_levels_above() {
        for profile in Profile::ALL {
            assert_eq!(Profile::from_name(profile.name()), Some(profile));
            let options = TableOptions::profile(profile);
            options.validate().unwrap();
            let light = options.light();
            light.validate().unwrap();
            assert!(matches!(light.layout, Layout::Blocks { .. }));
            assert_eq!(light.compression, Compression::Zstd { level: 1 });
            assert_eq!(light.dictionary_bytes, 0);
        }
        assert_eq!(Profile::from_name("paper"), None);
        TableOptions::paper(9, 128 << 10).validate().unwrap();
    }
}
