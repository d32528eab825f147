//! Sealed memtables become L0 tables.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use super::inner::DbInner;
use super::pipeline::{Generation, Stage};
use super::space::Space;
use crate::dir::FileKind;
use crate::error::{Error, Result};
use crate::iter::InternalIterator;
use crate::manifest::{Edit, TableMeta};
use crate::memtable::Memtable;
use crate::stats::Counter;
use crate::table::{TableSummary, TableWriter};
use crate::types::{FileNumber, SeqNo};

impl DbInner {
    /// Flushes the oldest sealed generation; false if there is none. Background threads call it
    /// until it returns false; one flush runs at a time, the others wait for it.
    ///
    /// A failure wakes those who wait for room, with its error. The generation stays in memory, and
    /// the next call tries again.
    pub(crate) fn flush_next(&self) -> Result<bool> {
        let _one_at_a_time = self.flushing.lock();
        let Some(generation) = self.pipeline.oldest() else {
            return Ok(false);
        };
        let attempt = self.pipeline.begin_attempt(Stage::Flush);
        if let Err(error) = self.flush_generation(&generation) {
            tracing::warn!(%error, "flush failed");
            self.pipeline.fail(Stage::Flush, attempt, &error);
            return Err(error);
        }
        Ok(true)
    }

    fn flush_generation(&self, generation: &Generation) -> Result<()> {
        self.check_writable()?;
        let begun = Instant::now();
        let mut written = Vec::new();
        let edits = self.write_tables(generation, &mut written);
        let committed = edits.and_then(|edits| {
            self.vfs()
                .sync_dir(&self.dir)
                .map_err(|error| Error::io("sync directory", &self.dir, error))?;
            self.commit_flushed(edits, &generation.memtables)
        });
        if let Err(error) = committed {
            self.discard_tables(&written);
            return Err(error);
        }
        // The logs may go now that the tables are in force; whoever waits is told last, so that a
        // caller of `flush` finds everything done.
        self.write.forget_logs(&generation.logs);
        self.obsolete.lock().add_logs(&generation.logs);
        self.purge_obsolete();
        self.stats.add(Counter::Flushes, 1);
        self.pipeline.pop();
        tracing::info!(
            tables = written.len(),
            memtable_bytes = generation.memory_bytes(),
            micros = begun.elapsed().as_micros(),
            "flushed"
        );
        Ok(())
    }

    /// Writes a table for each memtable; their numbers go to `written`, also if a later one fails.
    fn write_tables(
        &self,
        generation: &Generation,
        written: &mut Vec<FileNumber>,
    ) -> Result<Vec<Edit>> {
        let mut edits = Vec::new();
        for (space, memtable) in &generation.memtables {
            // What was written to a keyspace since dropped is of no use to anyone.
            if space.is_dropped() {
                continue;
            }
            let number = self.new_file_number();
            written.push(number);
            let summary = self.write_table_at(space, memtable, self.table_path(number))?;
            self.stats
                .add(Counter::FlushBytesWritten, summary.stored_bytes);
            edits.push(Edit::AddTable {
                keyspace: space.id,
                level: 0,
                table: Arc::new(table_meta(summary, number)),
            });
            edits.push(Edit::FlushedUpTo {
                keyspace: space.id,
                seq: memtable.seq_max(),
            });
        }
        Ok(edits)
    }

    /// Writes a memtable to a table, as its keyspace wants those of L0.
    pub(super) fn write_table_at(
        &self,
        space: &Space,
        memtable: &Arc<Memtable>,
        path: PathBuf,
    ) -> Result<TableSummary> {
        let options = space.options();
        let [options, ..] = &options.levels;
        let mut writer = TableWriter::create(self.vfs(), path, options, &self.compression)?;
        writer.set_keyspace(space.id, &space.name);
        for tombstone in memtable.range_tombstones() {
            writer.add_range_tombstone(tombstone)?;
        }
        let mut keeper = VersionKeeper::new(self.snapshots());
        let mut cursor = memtable.iter();
        cursor.seek_to_first()?;
        while cursor.valid() {
            let entry = cursor.key();
            if keeper.keeps(entry.user_key, entry.seq) {
                writer.add(entry.user_key, entry.seq, entry.kind, cursor.value()?)?;
            }
            cursor.next()?;
        }
        writer.finish()
    }

    /// Removes tables that never came into force, unless it is unknown whether they did. At once, and
    /// whoever reads the store: no manifest names them, and on a full disk every attempt would leave
    /// some more.
    fn discard_tables(&self, numbers: &[FileNumber]) {
        for &number in numbers {
            let is_known = self.check_writable().is_ok();
            if !is_known || !self.remove_file(FileKind::Table, number) {
                self.obsolete.lock().add_orphan(number);
            }
        }
    }
}

/// The manifest's description of a table whose sequence numbers are true ones.
pub(crate) fn table_meta(summary: TableSummary, number: FileNumber) -> TableMeta {
    TableMeta {
        number,
        id: summary.id,
        stored_bytes: summary.stored_bytes,
        raw_bytes: summary.raw_bytes,
        entries: summary.entries,
        tombstones: summary.tombstones,
        range_tombstones: summary.range_tombstones,
        repeated_keys: summary.repeated_keys,
        provisional: false,
        smallest: summary.smallest,
        largest: summary.largest,
        largest_exclusive: summary.largest_exclusive,
        unbounded_end: summary.unbounded_end,
        seq_min: summary.seq_min,
        seq_max: summary.seq_max,
        seq_base: SeqNo::ZERO,
    }
}

/// Tells which versions of a key some reader may still ask for: the newest, and the newest that
/// each snapshot sees. Versions come in internal order, newest first.
struct VersionKeeper {
    /// Ascending.
    snapshots: Vec<SeqNo>,
    key: Vec<u8>,
    /// How many snapshots are too old to see the version kept last.
    stripe: Option<usize>,
}

impl VersionKeeper {
    fn new(snapshots: Vec<SeqNo>) -> Self {
        Self {
            snapshots,
            key: Vec::new(),
            stripe: None,
        }
    }

    fn keeps(&mut self, key: &[u8], seq: SeqNo) -> bool {
        let stripe = self.snapshots.partition_point(|snapshot| *snapshot < seq);
        if self.stripe == Some(stripe) && self.key == key {
            return false;
        }
        self.stripe = Some(stripe);
        self.key.clear();
        self.key.extend_from_slice(key);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_kept_for_each_reader_that_may_ask() {
        let kept = |snapshots: &[u64], seqs: &[u64]| -> Vec<u64> {
            let snapshots = snapshots.iter().map(|seq| SeqNo(*seq)).collect();
            let mut keeper = VersionKeeper::new(snapshots);
            let seqs = seqs.iter().copied();
            seqs.filter(|seq| keeper.keeps(b"k", SeqNo(*seq))).collect()
        };
        assert_eq!(kept(&[], &[9, 5, 1]), [9]);
        assert_eq!(kept(&[5], &[9, 5, 1]), [9, 5]);
        assert_eq!(kept(&[4], &[9, 5, 1]), [9, 1]);
        assert_eq!(kept(&[1, 7, 8], &[9, 5, 1]), [9, 5, 1]);
        assert_eq!(kept(&[20], &[9, 5, 1]), [9]);
    }

    #[test]
    fn keys_are_told_apart() {
        let mut keeper = VersionKeeper::new(Vec::new());
        assert!(keeper.keeps(b"a", SeqNo(1)));
        assert!(keeper.keeps(b"b", SeqNo(1)));
        assert!(!keeper.keeps(b"b", SeqNo(0)));
    }
}
