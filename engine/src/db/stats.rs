//! Gathers what `Db::stats` tells.

use super::inner::DbInner;
use super::space::Space;
use crate::error::Result;
use crate::stats::{DbStats, KeyspaceStats, LevelStats, MemoryStats};
use crate::table::FrameCensus;
use crate::types::KeyRange;

impl DbInner {
    pub(super) fn collect_stats(&self) -> DbStats {
        let spaces = self.spaces();
        let (snapshots, oldest_snapshot_age) = self.snapshots.summary();
        let active: usize = spaces
            .iter()
            .map(|space| space.view().memtable.memory_bytes())
            .sum();
        DbStats {
            counters: self.stats.values(),
            gets: self.latencies.gets.summary(),
            multi_gets: self.latencies.multi_gets.summary(),
            writes: self.latencies.writes.summary(),
            keyspaces: spaces.iter().map(|space| keyspace_stats(space)).collect(),
            memory: MemoryStats {
                active_memtables: active as u64,
                sealed_memtables: self.pipeline.memory_bytes() as u64,
                cache: self.frames.as_ref().map_or(0, |frames| frames.bytes()),
                cache_capacity: self.frames.as_ref().map_or(0, |frames| frames.capacity()),
                open_tables: self.tables.memory_bytes() as u64,
            },
            open_tables: self.tables.len() as u64,
            sealed_generations: self.pipeline.len() as u64,
            snapshots: snapshots as u64,
            oldest_snapshot_age,
        }
    }

    /// The frames of all tables of a keyspace, and how many of these do not tell theirs.
    pub(super) fn frame_census(&self, space: &Space) -> Result<(FrameCensus, u64)> {
        self.check_readable(space)?;
        let view = space.view();
        let mut census = FrameCensus::default();
        let mut untold = 0;
        for (_, table) in view.version.tables() {
            let reader = self.table(table);
            let reader = reader.map_err(|error| error.in_keyspace(&space.name))?;
            match &reader.properties().census {
                Some(frames) => census.add(frames),
                None => untold += 1,
            }
        }
        Ok((census, untold))
    }

    /// Bytes on disk of the tables that hold the range, as far as they do.
    pub(super) fn approximate_bytes(&self, space: &Space, range: &KeyRange) -> Result<u64> {
        self.check_readable(space)?;
        let view = space.view();
        let mut bytes = 0;
        for (_, table) in view.version.tables() {
            if !table.overlaps(range) {
                continue;
            }
            // A table that lies in the range as a whole need not be opened.
            let is_inside = range.contains(&table.smallest)
                && range.contains(&table.largest)
                && !table.unbounded_end;
            bytes += if is_inside {
                table.stored_bytes
            } else {
                let reader = self.table(table);
                let reader = reader.map_err(|error| error.in_keyspace(&space.name))?;
                reader
                    .approximate_bytes(range, self.iter_context(false))
                    .map_err(|error| error.in_keyspace(&space.name))?
            };
        }
        Ok(bytes)
    }

    /// The stored bytes of all values in tables, by group.
    pub(super) fn value_bytes_by_group(
        &self,
        space: &Space,
        group_of: &mut dyn FnMut(&[u8]) -> Result<usize>,
    ) -> Result<Vec<u64>> {
        self.check_readable(space)?;
        let view = space.view();
        let mut sums = Vec::new();
        for (_, table) in view.version.tables() {
            let reader = self.table(table);
            reader
                .and_then(|reader| {
                    reader.add_value_bytes(self.iter_context(false), group_of, &mut sums)
                })
                .map_err(|error| error.in_keyspace(&space.name))?;
        }
        Ok(sums)
    }
}

fn keyspace_stats(space: &Space) -> KeyspaceStats {
    let view = space.view();
    let levels = view.version.levels().iter().map(|tables| {
        let mut level = LevelStats::default();
        for table in tables {
            level.add(&LevelStats {
                tables: 1,
                stored_bytes: table.stored_bytes,
                raw_bytes: table.raw_bytes,
                entries: table.entries,
                tombstones: table.tombstones,
                range_tombstones: u64::from(table.range_tombstones),
            });
        }
        level
    });
    KeyspaceStats {
        name: space.name.clone(),
        memtable_entries: view.memtables().map(|it| it.len() as u64).sum(),
        memtable_raw_bytes: view.memtables().map(|it| it.raw_bytes()).sum(),
        levels: levels.collect(),
    }
}
