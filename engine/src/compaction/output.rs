//! The tables that a job writes: where one ends and the next begins, and that none is left behind
//! if the job fails.
//!
//! Outputs of one slice share its keys between them: the first begins where the slice does, the
//! last ends where it does, and each takes the range tombstones of its share. A cut never falls
//! between two versions of one key.

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::picker::GRANDPARENT_TABLES_MAX;
use super::range_deletes::RangeDeletes;
use super::split::Slice;
use super::stripes::Stripes;
use super::targets::LAST_LEVEL;
use crate::db::{DbInner, Space, table_meta};
use crate::error::{Error, Result};
use crate::iter::RangeTombstone;
use crate::manifest::{TableMeta, Version};
use crate::options::{KeyspaceOptions, TableOptions};
use crate::table::TableWriter;
use crate::types::{EntryKind, FileNumber, KeyRange, SeqNo};

/// Makes table files, and removes those it made when it is dropped before they were adopted.
///
/// Threads: shared by the slices of a job.
pub(crate) struct TableFactory {
    db: Arc<DbInner>,
    /// Complete files that no manifest names yet.
    finished: Mutex<Vec<PathBuf>>,
}

impl TableFactory {
    pub(crate) fn new(db: &Arc<DbInner>) -> Self {
        Self {
            db: Arc::clone(db),
            finished: Mutex::new(Vec::new()),
        }
    }

    /// Begins a table of a keyspace. Dropped unfinished, it removes its file.
    pub(crate) fn create(&self, space: &Space, options: &TableOptions) -> Result<OpenTable> {
        let number = self.db.new_file_number();
        let path = self.db.table_path(number);
        let pool = self.db.compression_pool();
        let mut writer = TableWriter::create(self.db.vfs(), path.clone(), options, pool)?;
        writer.set_keyspace(space.id, &space.name);
        Ok(OpenTable {
            number,
            path,
            writer,
        })
    }

    /// Completes a table and syncs it. The directory is synced by [`TableFactory::sync_dir`].
    pub(crate) fn finish(&self, table: OpenTable) -> Result<TableMeta> {
        let summary = table.writer.finish()?;
        self.finished.lock().push(table.path);
        Ok(table_meta(summary, table.number))
    }

    /// A place for a table that is written by other means.
    pub(crate) fn number_outside_table(&self) -> OutsideTable<'_> {
        let number = self.db.new_file_number();
        OutsideTable {
            factory: self,
            number,
            path: self.db.table_path(number),
        }
    }

    /// Makes the names of all complete tables survive a power cut.
    pub(crate) fn sync_dir(&self) -> Result<()> {
        let dir = self.db.dir();
        let synced = self.db.vfs().sync_dir(dir);
        synced.map_err(|error| Error::io("sync directory", dir, error))
    }

    /// The complete tables are the manifest's once the edits that name them are `committed`.
    /// Where the manifest failed, nobody knows whether it names them: they stay, and the next
    /// opening will know.
    pub(crate) fn settle<T>(&self, committed: Result<T>) -> Result<T> {
        if committed.is_ok() || self.db.check_writable().is_err() {
            self.finished.lock().clear();
        }
        committed
    }

    pub(crate) fn db(&self) -> &Arc<DbInner> {
        &self.db
    }
}

impl Drop for TableFactory {
    fn drop(&mut self) {
        for path in self.finished.get_mut().drain(..) {
            if let Err(error) = self.db.vfs().remove(&path) {
                // The next opening removes it: no manifest names it.
                tracing::warn!(path = %path.display(), %error, "cannot remove an unused table");
            }
        }
    }
}

/// A table being written.
pub(crate) struct OpenTable {
    number: FileNumber,
    path: PathBuf,
    pub(crate) writer: TableWriter,
}

/// The place of a table that is written by other means than a [`TableWriter`].
pub(crate) struct OutsideTable<'a> {
    factory: &'a TableFactory,
    pub(crate) number: FileNumber,
    path: PathBuf,
}

impl OutsideTable<'_> {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The file is there, and the factory's to remove.
    pub(crate) fn exists(&self) {
        self.factory.finished.lock().push(self.path.clone());
    }
}

/// What all slices of a job write by.
pub(crate) struct OutputRules<'a> {
    pub(crate) space: &'a Space,
    pub(crate) version: &'a Version,
    pub(crate) options: &'a KeyspaceOptions,
    pub(crate) level: usize,
    pub(crate) stripes: &'a Stripes,
    pub(crate) deletes: &'a RangeDeletes,
}

impl OutputRules<'_> {
    /// Whether outputs still need a piece of a range tombstone.
    fn needs(&self, piece: &RangeTombstone) -> bool {
        let range = KeyRange {
            start: Bound::Included(piece.start.clone()),
            end: piece.end.clone().map_or(Bound::Unbounded, Bound::Excluded),
        };
        let mut deeper = self.level + 1..=LAST_LEVEL;
        self.stripes.of(piece.seq) > 0
            || deeper.any(|level| !self.version.overlapping(level, &range).is_empty())
    }
}

/// Writes the survivors of one slice into tables.
pub(crate) struct Outputs<'a> {
    factory: &'a TableFactory,
    rules: &'a OutputRules<'a>,
    table_options: &'a TableOptions,
    slice: &'a Slice,
    /// Where the open table's share of the slice begins.
    share_start: Option<Vec<u8>>,
    open: Option<OpenTable>,
    last_key: Vec<u8>,
    grandparents: Grandparents<'a>,
    finished: Vec<TableMeta>,
}

impl<'a> Outputs<'a> {
    pub(crate) fn new(
        factory: &'a TableFactory,
        rules: &'a OutputRules<'a>,
        table_options: &'a TableOptions,
        slice: &'a Slice,
    ) -> Self {
        Self {
            factory,
            rules,
            table_options,
            slice,
            share_start: slice.start.clone(),
            open: None,
            last_key: Vec::new(),
            grandparents: Grandparents::new(rules.version.level(rules.level + 1)),
            finished: Vec::new(),
        }
    }

    /// Writes the next entry, into a new table where the open one has had enough.
    pub(crate) fn add(
        &mut self,
        key: &[u8],
        seq: SeqNo,
        kind: EntryKind,
        value: Bytes,
    ) -> Result<()> {
        let crossed = self.grandparents.advance_to(key);
        if let Some(open) = &self.open
            && key != self.last_key.as_slice()
        {
            let target = self.rules.options.table_bytes_target;
            let crossed_max = target.saturating_mul(GRANDPARENT_TABLES_MAX);
            if open.writer.raw_bytes() >= target || crossed > crossed_max {
                self.close(Some(key))?;
                self.share_start = Some(key.to_vec());
            }
        }
        let open = match &mut self.open {
            Some(open) => open,
            none => {
                self.grandparents.crossed = 0;
                let table = self.factory.create(self.rules.space, self.table_options)?;
                none.insert(table)
            }
        };
        open.writer.add(key, seq, kind, value)?;
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        Ok(())
    }

    /// Completes the last table and tells what was written.
    pub(crate) fn finish(mut self) -> Result<Vec<TableMeta>> {
        self.close(self.slice.end.as_deref())?;
        Ok(self.finished)
    }

    /// Completes the open table with the range tombstones of its share, which ends at `share_end`.
    /// Where there are only tombstones, they make a table of their own.
    fn close(&mut self, share_end: Option<&[u8]>) -> Result<()> {
        let rules = self.rules;
        let start = self.share_start.as_deref();
        let tombstones = rules
            .deletes
            .clipped(start, share_end, |piece| rules.needs(piece));
        let mut table = match self.open.take() {
            Some(table) => table,
            None if tombstones.is_empty() => return Ok(()),
            None => self.factory.create(rules.space, self.table_options)?,
        };
        for tombstone in tombstones {
            table.writer.add_range_tombstone(tombstone)?;
        }
        self.finished.push(self.factory.finish(table)?);
        Ok(())
    }
}

/// How much of the level below the output level lies under the open table.
struct Grandparents<'a> {
    rest: &'a [Arc<TableMeta>],
    /// Bytes of the tables passed since the open table began.
    crossed: u64,
}

impl<'a> Grandparents<'a> {
    fn new(tables: &'a [Arc<TableMeta>]) -> Self {
        Self {
            rest: tables,
            crossed: 0,
        }
    }

    /// Moves on to `key`; keys ascend.
    fn advance_to(&mut self, key: &[u8]) -> u64 {
        while let Some((first, rest)) = self.rest.split_first() {
            if !first.ends_before(key) {
                break;
            }
            self.crossed += first.stored_bytes;
            self.rest = rest;
        }
        self.crossed
    }
}
