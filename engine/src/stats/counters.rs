//! Counters of everything the engine does, cheap enough to be always on.
//!
//! Counters are spread over shards that threads pick by their own number, so that two readers on
//! two cores do not share a cache line; a reading sums the shards and is exact once the counted
//! work has ended.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::report::CounterValues;

/// What is counted. The unit is in the name; without one it is a number of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
#[non_exhaustive]
pub enum Counter {
    /// Point reads, each key of a multi-get counted.
    Gets,
    /// Point reads that found a value.
    GetsFound,
    /// Bytes of values returned by point reads.
    GetReturnedBytes,
    /// Filter probes.
    FilterProbes,
    /// Filter probes that ruled a table out.
    FilterNegatives,
    /// Filter probes that let a key through which the table does not hold.
    FilterFalsePositives,
    /// Key blocks searched.
    KeyBlocksSearched,
    /// Frames taken from the cache.
    CacheHits,
    /// Frames that were not in the cache.
    CacheMisses,
    /// Frames read from table files for gets and scans.
    FramesRead,
    /// Stored bytes of those frames.
    FrameStoredBytesRead,
    /// Bytes those frames decoded to.
    FrameBytesDecoded,
    /// Of the frames read, those for point reads: a value's own and its bases.
    GetFramesRead,
    /// Bytes those decoded to.
    GetFrameBytesDecoded,
    /// Keys and values written by batches, in bytes.
    UserBytesWritten,
    /// Keys and values given to bulk loads, in bytes.
    BulkBytesWritten,
    /// Bytes appended to the write-ahead log.
    WalBytesWritten,
    /// Syncs of the write-ahead log.
    WalSyncs,
    /// Stored bytes of tables written by flushes.
    FlushBytesWritten,
    /// Stored bytes of tables written by bulk loads.
    BulkTableBytesWritten,
    /// Stored bytes of tables read by compactions.
    CompactionBytesRead,
    /// Stored bytes of tables written by compactions.
    CompactionBytesWritten,
    /// Frames that compactions copied as they were stored.
    CompactionFramesCopied,
    /// Stored bytes of those frames.
    CompactionFrameBytesCopied,
    /// Raw bytes of values that compactions gave to compression: those in no copied frame.
    CompactionValueBytesEncoded,
    /// Tables moved down a level without a rewrite.
    TrivialMoves,
    /// Compactions that rewrote tables.
    Compactions,
    /// Flushes of memtables.
    Flushes,
    /// Times a writer waited for flush or compaction.
    WriteStalls,
    /// Microseconds writers waited in all.
    WriteStallMicros,
}

impl Counter {
    /// Every counter, in a fixed order.
    pub const ALL: [Self; COUNTER_COUNT] = [
        Self::Gets,
        Self::GetsFound,
        Self::GetReturnedBytes,
        Self::FilterProbes,
        Self::FilterNegatives,
        Self::FilterFalsePositives,
        Self::KeyBlocksSearched,
        Self::CacheHits,
        Self::CacheMisses,
        Self::FramesRead,
        Self::FrameStoredBytesRead,
        Self::FrameBytesDecoded,
        Self::GetFramesRead,
        Self::GetFrameBytesDecoded,
        Self::UserBytesWritten,
        Self::BulkBytesWritten,
        Self::WalBytesWritten,
        Self::WalSyncs,
        Self::FlushBytesWritten,
        Self::BulkTableBytesWritten,
        Self::CompactionBytesRead,
        Self::CompactionBytesWritten,
        Self::CompactionFramesCopied,
        Self::CompactionFrameBytesCopied,
        Self::CompactionValueBytesEncoded,
        Self::TrivialMoves,
        Self::Compactions,
        Self::Flushes,
        Self::WriteStalls,
        Self::WriteStallMicros,
    ];

    /// A name that is stable for machines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gets => "gets",
            Self::GetsFound => "gets_found",
            Self::GetReturnedBytes => "get_returned_bytes",
            Self::FilterProbes => "filter_probes",
            Self::FilterNegatives => "filter_negatives",
            Self::FilterFalsePositives => "filter_false_positives",
            Self::KeyBlocksSearched => "key_blocks_searched",
            Self::CacheHits => "cache_hits",
            Self::CacheMisses => "cache_misses",
            Self::FramesRead => "frames_read",
            Self::FrameStoredBytesRead => "frame_stored_bytes_read",
            Self::FrameBytesDecoded => "frame_bytes_decoded",
            Self::GetFramesRead => "get_frames_read",
            Self::GetFrameBytesDecoded => "get_frame_bytes_decoded",
            Self::UserBytesWritten => "user_bytes_written",
            Self::BulkBytesWritten => "bulk_bytes_written",
            Self::WalBytesWritten => "wal_bytes_written",
            Self::WalSyncs => "wal_syncs",
            Self::FlushBytesWritten => "flush_bytes_written",
            Self::BulkTableBytesWritten => "bulk_table_bytes_written",
            Self::CompactionBytesRead => "compaction_bytes_read",
            Self::CompactionBytesWritten => "compaction_bytes_written",
            Self::CompactionFramesCopied => "compaction_frames_copied",
            Self::CompactionFrameBytesCopied => "compaction_frame_bytes_copied",
            Self::CompactionValueBytesEncoded => "compaction_value_bytes_encoded",
            Self::TrivialMoves => "trivial_moves",
            Self::Compactions => "compactions",
            Self::Flushes => "flushes",
            Self::WriteStalls => "write_stalls",
            Self::WriteStallMicros => "write_stall_micros",
        }
    }
}

/// Number of counters.
const COUNTER_COUNT: usize = Counter::WriteStallMicros as usize + 1;

/// Shards; more than the cores that commonly read at once.
const SHARD_COUNT: usize = 16;

#[repr(align(128))]
struct Shard([AtomicU64; COUNTER_COUNT]);

/// The counters of one open store.
pub(crate) struct Stats {
    shards: Box<[Shard]>,
}

impl Stats {
    pub(crate) fn new() -> Self {
        let shard = || Shard(std::array::from_fn(|_| AtomicU64::new(0)));
        Self {
            shards: (0..SHARD_COUNT).map(|_| shard()).collect(),
        }
    }

    /// Adds `amount` to a counter.
    pub(crate) fn add(&self, counter: Counter, amount: u64) {
        if let Some(cell) = self.shard().0.get(counter as usize) {
            cell.fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// The sum over all threads.
    pub(crate) fn get(&self, counter: Counter) -> u64 {
        let cells = self
            .shards
            .iter()
            .filter_map(|shard| shard.0.get(counter as usize));
        cells.map(|cell| cell.load(Ordering::Relaxed)).sum()
    }

    /// Every counter's sum.
    pub(crate) fn values(&self) -> CounterValues {
        CounterValues(
            Counter::ALL
                .iter()
                .map(|&counter| self.get(counter))
                .collect(),
        )
    }

    fn shard(&self) -> &Shard {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static MINE: Cell<usize> = const { Cell::new(usize::MAX) });
        let mut mine = MINE.get();
        if mine == usize::MAX {
            mine = NEXT.fetch_add(1, Ordering::Relaxed) % SHARD_COUNT;
            MINE.set(mine);
        }
        self.shards
            .get(mine)
            .unwrap_or_else(|| unreachable!("a thread's shard is below the count"))
    }
}

impl std::fmt::Debug for Stats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stats").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_listed_at_its_own_place() {
        for (index, counter) in Counter::ALL.iter().enumerate() {
            assert_eq!(*counter as usize, index);
        }
        assert_eq!(
            Counter::FilterFalsePositives.name(),
            "filter_false_positives"
        );
    }

    #[test]
    fn counts_of_all_threads_add_up() {
        let stats = Stats::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| stats.add(Counter::Gets, 2)));
            }
        });
        assert_eq!(stats.get(Counter::Gets), 8000);
        assert_eq!(stats.get(Counter::WriteStallMicros), 0);
    }
}
