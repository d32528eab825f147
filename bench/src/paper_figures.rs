//! The paper's own figures, as far as they are at hand, for the tables beside ours.
//!
//! Source: Ferragina and Tosoni, *The Energy–Throughput Trade-off in Lossless-Compressed Source Code
//! Storage*, arXiv 2601.13220, the large runs of Table II and Figures 4 and 5, as noted in the
//! project's design. What is not here was not at hand, and is not made up.

/// Where the figures were taken, and what bears on comparing them.
pub const CONDITIONS: &str = "800 GiB of Python, C/C++, JavaScript and Java from Software Heritage, \
RocksDB loaded by puts, 192 cores, 768 GiB of memory, data on remote storage (BeeGFS). Energy is that \
of the processor packages alone. Builds were run once, without a spread.";

/// What we noticed about the figures, for those who want to compute with them.
pub const CAVEAT: &str = "Rate times time gives 1,606 GiB in each of the four rows, not 800, so no \
figure is derived here from both. The absolute speeds of its gets were not at hand.";

/// A large configuration: RocksDB with one codec and block size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LargeConfiguration {
    /// Compression and level.
    pub codec: &'static str,
    /// Uncompressed bytes of a block.
    pub block_bytes: u32,
    /// Stored for each raw byte, in percent.
    pub ratio_percent: f64,
    /// Time of the build.
    pub build_seconds: f64,
    /// Insertion throughput.
    pub insert_mib_per_second: f64,
    /// Energy of the build, packages only.
    pub build_kilojoules: f64,
}

/// The four large configurations.
pub const LARGE: [LargeConfiguration; 4] = [
    LargeConfiguration {
        codec: "zstd-3",
        block_bytes: 64 << 10,
        ratio_percent: 19.05,
        build_seconds: 3681.0,
        insert_mib_per_second: 446.67,
        build_kilojoules: 1086.0,
    },
    LargeConfiguration {
        codec: "zstd-6",
        block_bytes: 4 << 10,
        ratio_percent: 19.85,
        build_seconds: 8642.0,
        insert_mib_per_second: 190.28,
        build_kilojoules: 2518.0,
    },
    LargeConfiguration {
        codec: "zstd-6",
        block_bytes: 128 << 10,
        ratio_percent: 15.98,
        build_seconds: 7631.0,
        insert_mib_per_second: 215.49,
        build_kilojoules: 2232.0,
    },
    LargeConfiguration {
        codec: "zstd-9",
        block_bytes: 128 << 10,
        ratio_percent: 15.49,
        build_seconds: 10424.0,
        insert_mib_per_second: 157.75,
        build_kilojoules: 3047.0,
    },
];

/// By how much more threads sped up gets in the paper, from the least to the most over its
/// configurations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speedup {
    /// Keys drawn.
    pub keys: &'static str,
    /// Least gain over one thread.
    pub least: f64,
    /// Greatest gain over one thread.
    pub most: f64,
}

/// Gains by threads.
pub const THREAD_SPEEDUPS: [Speedup; 2] = [
    Speedup {
        keys: "uniform",
        least: 8.4,
        most: 30.0,
    },
    Speedup {
        keys: "power law",
        least: 2.2,
        most: 5.4,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The caveat about the paper's figures is checked against them.
    #[test]
    fn rate_times_time_is_the_same_in_every_row_and_twice_what_the_paper_names() {
        for row in LARGE {
            let gib = row.insert_mib_per_second * row.build_seconds / 1024.0;
            assert!((gib - 1606.0).abs() < 1.0, "{row:?}: {gib}");
        }
    }
}
