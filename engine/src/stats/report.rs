//! What `Db::stats` returns: counts since the store was opened, and what it holds now.

use std::time::Duration;

use super::counters::Counter;
use super::latency::LatencySummary;

/// The counters' values at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterValues(pub(crate) Vec<u64>);

impl CounterValues {
    /// The value of one.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.0.get(counter as usize).copied().unwrap_or(0)
    }

    /// All of them by name, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Counter::ALL
            .iter()
            .map(|&counter| (counter.name(), self.get(counter)))
    }
}

/// The tables of one level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LevelStats {
    /// Their number.
    pub tables: u64,
    /// Bytes on disk.
    pub stored_bytes: u64,
    /// Bytes of keys and values, uncompressed.
    pub raw_bytes: u64,
    /// Entries, tombstones among them.
    pub entries: u64,
    /// Tombstones of single keys.
    pub tombstones: u64,
    /// Tombstones of ranges.
    pub range_tombstones: u64,
}

impl LevelStats {
    pub(crate) fn add(&mut self, other: &Self) {
        self.tables += other.tables;
        self.stored_bytes += other.stored_bytes;
        self.raw_bytes += other.raw_bytes;
        self.entries += other.entries;
        self.tombstones += other.tombstones;
        self.range_tombstones += other.range_tombstones;
    }
}

/// One keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyspaceStats {
    /// Its name.
    pub name: String,
    /// Entries in memtables, older versions among them.
    pub memtable_entries: u64,
    /// Bytes of keys and values in memtables.
    pub memtable_raw_bytes: u64,
    /// Its levels, L0 first.
    pub levels: Vec<LevelStats>,
}

impl KeyspaceStats {
    /// All levels together.
    #[must_use]
    pub fn total(&self) -> LevelStats {
        let mut total = LevelStats::default();
        self.levels.iter().for_each(|level| total.add(level));
        total
    }
}

/// Memory in use, by component, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Memtables that take writes.
    pub active_memtables: u64,
    /// Memtables that wait for their flush.
    pub sealed_memtables: u64,
    /// Decoded frames in the cache.
    pub cache: u64,
    /// What the cache may grow to.
    pub cache_capacity: u64,
    /// Indexes, filters and dictionaries of open tables, beyond what is mapped.
    pub open_tables: u64,
}

/// Everything the engine tells of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DbStats {
    /// Counts since the store was opened.
    pub counters: CounterValues,
    /// Latencies of gets; one in [`GET_SAMPLE_INTERVAL`](crate::GET_SAMPLE_INTERVAL) is measured.
    pub gets: LatencySummary,
    /// Latencies of multi-gets of more than one key.
    pub multi_gets: LatencySummary,
    /// Latencies of batches written.
    pub writes: LatencySummary,
    /// By name.
    pub keyspaces: Vec<KeyspaceStats>,
    /// Memory in use.
    pub memory: MemoryStats,
    /// Tables whose files are open.
    pub open_tables: u64,
    /// Sealed memtable generations that wait for their flush.
    pub sealed_generations: u64,
    /// Live snapshots.
    pub snapshots: u64,
    /// Age of the oldest of them: what it sees stays on disk.
    pub oldest_snapshot_age: Option<Duration>,
}

impl DbStats {
    /// Bytes written to log and tables for each byte that callers wrote.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        let written = self.sum(&[
            Counter::WalBytesWritten,
            Counter::FlushBytesWritten,
            Counter::BulkTableBytesWritten,
            Counter::CompactionBytesWritten,
        ]);
        let given = self.sum(&[Counter::UserBytesWritten, Counter::BulkBytesWritten]);
        ratio(written, given)
    }

    /// Stored bytes of all levels for each stored byte of the deepest level in use, keyspace by
    /// keyspace: about what the data would take if nothing were stored twice.
    #[must_use]
    pub fn space_amplification(&self) -> Option<f64> {
        let deepest = |keyspace: &KeyspaceStats| {
            let mut levels = keyspace.levels.iter().rev();
            let level = levels.find(|level| level.stored_bytes > 0);
            level.map_or(0, |level| level.stored_bytes)
        };
        let stored = self.keyspaces.iter().map(|it| it.total().stored_bytes);
        ratio(stored.sum(), self.keyspaces.iter().map(deepest).sum())
    }

    /// Stored bytes of all tables for each byte of keys and values in them.
    #[must_use]
    pub fn compression_ratio(&self) -> Option<f64> {
        let totals = self.keyspaces.iter().map(KeyspaceStats::total);
        let (stored, raw) = totals.fold((0, 0), |(stored, raw), total| {
            (stored + total.stored_bytes, raw + total.raw_bytes)
        });
        ratio(stored, raw)
    }

    /// Frames read and decoded for each point read that found a value: none for one that the cache
    /// or a memtable had, one more for each base that neither had.
    #[must_use]
    pub fn frames_per_get(&self) -> Option<f64> {
        ratio(
            self.counters.get(Counter::GetFramesRead),
            self.counters.get(Counter::GetsFound),
        )
    }

    /// Bytes decoded for each byte that point reads returned.
    #[must_use]
    pub fn decoded_bytes_per_returned_byte(&self) -> Option<f64> {
        ratio(
            self.counters.get(Counter::GetFrameBytesDecoded),
            self.counters.get(Counter::GetReturnedBytes),
        )
    }

    /// The share of frames wanted that were in the cache.
    #[must_use]
    pub fn cache_hit_ratio(&self) -> Option<f64> {
        let hits = self.counters.get(Counter::CacheHits);
        ratio(hits, hits + self.counters.get(Counter::CacheMisses))
    }

    fn sum(&self, counters: &[Counter]) -> u64 {
        let values = counters.iter().map(|&counter| self.counters.get(counter));
        values.sum()
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
