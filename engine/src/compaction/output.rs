//! The tables that a job writes, what they keep of its inputs' frames, and that none is left behind
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

use super::cuts::{Anchor, Cuts};
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
use crate::table::{StoredValue, TableWriter};
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
    /// Tables that outputs may continue, by key.
    pub(crate) anchors: &'a [Anchor],
}

/// What a job wrote, and how.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// In key order.
    pub(crate) tables: Vec<TableMeta>,
    pub(crate) encoding: Encoding,
}

/// How the values of a job's outputs came to be stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Encoding {
    /// Frames copied as they were stored.
    pub(crate) frames_copied: u64,
    /// Their stored bytes.
    pub(crate) frame_bytes_copied: u64,
    /// Raw bytes of values in other frames.
    pub(crate) value_bytes_encoded: u64,
}

impl Encoding {
    /// Adds another's.
    pub(crate) fn add(&mut self, other: Self) {
        self.frames_copied += other.frames_copied;
        self.frame_bytes_copied += other.frame_bytes_copied;
        self.value_bytes_encoded += other.value_bytes_encoded;
    }
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
    cuts: Cuts<'a>,
    /// Told of raw bytes of values that are carried over; an error ends the work.
    progress: &'a mut dyn FnMut(u64) -> Result<()>,
    written: Written,
}

impl<'a> Outputs<'a> {
    pub(crate) fn new(
        factory: &'a TableFactory,
        rules: &'a OutputRules<'a>,
        table_options: &'a TableOptions,
        slice: &'a Slice,
        progress: &'a mut dyn FnMut(u64) -> Result<()>,
    ) -> Self {
        let anchors = anchors_from(rules.anchors, slice.start.as_deref());
        Self {
            factory,
            rules,
            table_options,
            slice,
            share_start: slice.start.clone(),
            open: None,
            last_key: Vec::new(),
            grandparents: Grandparents::new(rules.version.level(rules.level + 1)),
            cuts: Cuts::new(rules.options.table_bytes_target, anchors),
            progress,
            written: Written::default(),
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
        self.table_for(key)?.writer.add(key, seq, kind, value)
    }

    /// As [`Outputs::add`], of a put whose value lies in a frame of an input.
    pub(crate) fn add_stored(&mut self, key: &[u8], seq: SeqNo, value: &StoredValue) -> Result<()> {
        let table = self.table_for(key)?;
        table.writer.add_stored(key, seq, value)
    }

    /// Whether the value of an input's frame may be named by its place.
    pub(crate) fn takes_stored(&self, value: &StoredValue) -> bool {
        !self.rules.anchors.is_empty()
            && value.place.len > self.table_options.inline_value_bytes_max
    }

    /// The table that `key`, the next one, goes to.
    fn table_for(&mut self, key: &[u8]) -> Result<&mut OpenTable> {
        let crossed = self.grandparents.advance_to(key);
        if self.open.is_none() || key != self.last_key.as_slice() {
            let target = self.rules.options.table_bytes_target;
            let crossed_max = target.saturating_mul(GRANDPARENT_TABLES_MAX);
            let raw_bytes = self.open.as_ref().map_or(0, |open| open.writer.raw_bytes());
            let ends = self.cuts.ends_before(key, raw_bytes) || crossed > crossed_max;
            if ends && self.open.is_some() {
                self.close(Some(key))?;
                self.share_start = Some(key.to_vec());
            }
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
        match &mut self.open {
            Some(open) => Ok(open),
            none => {
                self.grandparents.crossed = 0;
                let mut table = self.factory.create(self.rules.space, self.table_options)?;
                if !self.rules.anchors.is_empty() {
                    let context = self.factory.db().iter_context(false);
                    table.writer.carry_values(context);
                }
                Ok(none.insert(table))
            }
        }
    }

    /// Completes the last table and tells what was written.
    pub(crate) fn finish(mut self) -> Result<Written> {
        self.close(self.slice.end.as_deref())?;
        Ok(self.written)
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
        let kept = table.writer.carry_over(self.progress)?;
        self.written.encoding.add(Encoding {
            frames_copied: kept.frames,
            frame_bytes_copied: kept.stored_bytes,
            value_bytes_encoded: table.writer.framed_value_bytes() - kept.raw_bytes,
        });
        self.written.tables.push(self.factory.finish(table)?);
        Ok(())
    }
}

/// The anchors that begin at or after `start`. Slices cut none in two.
fn anchors_from<'a>(anchors: &'a [Anchor], start: Option<&[u8]>) -> &'a [Anchor] {
    let before = |anchor: &Anchor| start.is_some_and(|start| anchor.smallest.as_slice() < start);
    let first = anchors.partition_point(before);
    anchors.get(first..).unwrap_or_default()
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
