//! How a run is written that will be merged: its tables are read once, in order, and go.
//!
//! Nobody looks for a single value in them, so blocks are large and there is no filter. What lies
//! between two similar values in the final tables is only partly there in a run, so blocks of the
//! same size would compress worse than the final ones do; larger ones compress better. A merge holds
//! one decoded block of each run, for each thread, which bounds their size.

use crate::options::{Compression, FilterPolicy, Layout, TableOptions};

/// Raw bytes of a block, where memory allows. zstd finds matches no farther than 2 MiB back at the
/// levels that runs are compressed at.
const BLOCK_BYTES_MAX: usize = 4 << 20;
const BLOCK_BYTES_MIN: usize = 16 << 10;

/// The decoded blocks of a merge take this share of a load's memory, and half of it once more each
/// time the number of runs doubles beyond [`RUNS_AT_FIRST`].
const MEMORY_SHARE: usize = 4;
const RUNS_AT_FIRST: usize = 8;

/// Options for a run that comes after `runs` others, of a load of `memory_bytes` into tables of the
/// options `last`, merged by `threads`.
pub(super) fn spill_options(
    last: &TableOptions,
    memory_bytes: usize,
    threads: usize,
    runs: usize,
) -> TableOptions {
    let runs = (runs + 1).next_power_of_two().max(RUNS_AT_FIRST);
    let bytes = memory_bytes / MEMORY_SHARE / threads.max(1) / runs;
    let bytes = bytes.clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX);
    TableOptions {
        layout: Layout::Blocks {
            bytes: bytes as u32,
        },
        compression: match last.compression {
            Compression::None => Compression::None,
            Compression::Zstd { level } => Compression::Zstd {
                level: spill_level(level),
            },
        },
        dictionary_bytes: 0,
        filter: FilterPolicy::None,
        ..last.clone()
    }
}

/// High enough for a run to take no more than the final tables do, no higher: it is work for once.
fn spill_level(last: i32) -> i32 {
    match last {
        ..=2 => last,
        3.. => (last / 2 + last % 2).min(6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_large_and_those_of_many_runs_fit_the_memory() {
        let last = TableOptions {
            dictionary_bytes: 1 << 16,
            ..TableOptions::blocks(9, 4096)
        };
        let block_bytes = |memory_bytes, threads, runs| {
            let options = spill_options(&last, memory_bytes, threads, runs);
            options.validate().unwrap();
            assert_eq!(options.compression, Compression::Zstd { level: 5 });
            assert_eq!(options.dictionary_bytes, 0);
            match options.layout {
                Layout::Blocks { bytes } => bytes as usize,
                Layout::Clustered(_) => unreachable!(),
            }
        };
        assert_eq!(block_bytes(64 << 20, 2, 7), 1 << 20);
        assert_eq!(block_bytes(1 << 40, 1, 0), BLOCK_BYTES_MAX);
        assert_eq!(block_bytes(1 << 20, 8, 0), BLOCK_BYTES_MIN);
        for (memory_bytes, threads) in [(64 << 20, 1), (256 << 20, 2), (1 << 30, 16)] {
            let of_run = |run| block_bytes(memory_bytes, threads, run);
            let all: usize = (0..256).map(of_run).sum();
            assert!(all * threads <= memory_bytes, "{all}");
        }
    }

    #[test]
    fn runs_are_compressed_less_hard_than_what_stays() {
        let levels = [-5, 1, 2, 3, 6, 9, 19].map(spill_level);
        assert_eq!(levels, [-5, 1, 2, 2, 3, 5, 6]);
        let stored = TableOptions {
            compression: Compression::None,
            ..TableOptions::default()
        };
        let options = spill_options(&stored, 1 << 28, 1, 0);
        assert_eq!(options.compression, Compression::None);
    }
}
