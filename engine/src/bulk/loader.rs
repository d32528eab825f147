//! The bulk loader: puts in any order, in bounded memory, straight into tables.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::adopt::{Load, Run, adopt};
use super::merge::merge_runs;
use super::spill::spill_options;
use super::window::{Leaving, Window};
use crate::cancel::CancelToken;
use crate::compaction::{LAST_LEVEL, OpenTable, TableFactory};
use crate::db::{Db, Keyspace, Space};
use crate::error::{Error, Result};
use crate::manifest::TableMeta;
use crate::options::TableOptions;
use crate::stats::Counter;
use crate::types::{EntryKind, KEY_BYTES_MAX, KeyRange, KeyspaceId, SeqNo, VALUE_BYTES_MAX};

/// Bytes that a load holds of entries whose keys have only ascended so far, and its share of the
/// memory, whichever is less.
const ASCENDING_BYTES_MAX: usize = 16 << 20;
const ASCENDING_SHARE: usize = 16;

/// Options of one bulk load.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BulkOptions {
    /// Bytes of memory for entries on their way and tables being written. The more, the fewer
    /// sorted runs unsorted input falls into; of sorted input no more than a sixteenth is held. At
    /// least 1 MiB; default 256 MiB. A single value may exceed it.
    pub memory_bytes: usize,
    /// Stops the load: puts and `finish` fail, and dropping the loader removes what it wrote.
    pub cancel: CancelToken,
}

impl Default for BulkOptions {
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            cancel: CancelToken::new(),
        }
    }
}

/// What a bulk load is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BulkPhase {
    /// Writing what is still in memory.
    Write,
    /// Taking the tables into the store.
    Adopt,
    /// Merging the runs that unsorted input fell into.
    Merge,
}

/// How far [`BulkLoader::finish`] has come within a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BulkProgress {
    /// What it is doing.
    pub phase: BulkPhase,
    /// Entries done in this phase.
    pub entries: u64,
    /// Raw bytes of keys and values done in this phase.
    pub raw_bytes: u64,
    /// Raw bytes there are to do in this phase, about.
    pub raw_bytes_total: u64,
}

/// What a bulk load did.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct BulkReport {
    /// By keyspace, in the order of their first put.
    pub keyspaces: Vec<KeyspaceReport>,
    /// Why runs were left unmerged; the data is in the store and readable all the same, and
    /// compaction goes on with it by itself.
    pub merge_failure: Option<Error>,
}

/// What a bulk load did in one keyspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyspaceReport {
    /// The keyspace's name.
    pub name: String,
    /// Entries written; of several puts of one key at least the last.
    pub entries: u64,
    /// Raw bytes of those entries.
    pub raw_bytes: u64,
    /// Sorted runs the input fell into: one if it was sorted, or nearly.
    pub runs: u64,
    /// Tables those runs made.
    pub tables: u64,
    /// Stored bytes of those tables.
    pub bytes_written: u64,
    /// The tree level that took them.
    pub level: usize,
    /// Whether several runs were merged into one.
    pub merged: bool,
    /// Stored bytes of the tables that the merge wrote: all entries once more, and what it had to
    /// take along of the store.
    pub bytes_merged: u64,
}

/// Receives the progress of [`BulkLoader::finish`], from whichever thread works on it.
pub(super) type ProgressFn<'a> = &'a mut (dyn FnMut(BulkProgress) + Send);

/// Loads many entries at once, without the write-ahead log.
///
/// Puts may come in any order, for several keyspaces. Nothing is visible until
/// [`BulkLoader::finish`] makes all of it visible and durable at once; a loader that is dropped
/// before leaves nothing behind. Where a key is put twice, the last put counts. Loaded entries are
/// newer than everything written before `finish`.
///
/// Sorted input is written once, in the final layout. Unsorted input is written twice: as sorted
/// runs, then merged. Runs have large blocks of their own, which take no more bytes than the final
/// tables do.
pub struct BulkLoader {
    options: BulkOptions,
    /// In the order of their first put.
    loads: Vec<KeyspaceLoad>,
    index: BTreeMap<KeyspaceId, usize>,
    /// Bytes held by all loads, about.
    memory_bytes: usize,
    /// Removes files when it is dropped, so it goes after the tables that are still open, and
    /// before the store.
    factory: TableFactory,
    db: Db,
}

impl Db {
    /// Begins a bulk load.
    pub fn bulk_loader(&self, options: BulkOptions) -> Result<BulkLoader> {
        self.inner().check_writable()?;
        if options.memory_bytes < 1 << 20 {
            return Err(Error::invalid_input(format!(
                "memory_bytes is {}; it must be at least 1 MiB",
                options.memory_bytes
            )));
        }
        Ok(BulkLoader {
            factory: TableFactory::new(self.inner()),
            db: self.clone(),
            options,
            loads: Vec::new(),
            index: BTreeMap::new(),
            memory_bytes: 0,
        })
    }
}

impl BulkLoader {
    /// Adds an entry. The loader may keep `value` for a while: one that shares a large buffer with
    /// others is copied, so that it does not keep the whole buffer alive.
    ///
    /// After an error the load cannot go on: drop it.
    pub fn put(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, value: Bytes) -> Result<()> {
        let key = key.as_ref();
        self.options.cancel.check("the bulk load")?;
        check_entry(key, &value)?;
        let index = self.load_of(keyspace)?;
        let value = if value.is_unique() {
            value
        } else {
            Bytes::copy_from_slice(&value)
        };
        let raw_bytes = (key.len() + value.len()) as u64;
        self.change(index, |load, _| {
            load.window.insert(key, value);
            Ok(())
        })?;
        self.db
            .inner()
            .stats()
            .add(Counter::BulkBytesWritten, raw_bytes);
        let ascending_bytes = ASCENDING_BYTES_MAX.min(self.options.memory_bytes / ASCENDING_SHARE);
        let is_ahead = |load: &KeyspaceLoad| load.window.is_ahead_by(ascending_bytes);
        while self.loads.get(index).is_some_and(is_ahead) && self.write_one_of(index)? {}
        while self.memory_bytes > self.options.memory_bytes && self.write_one()? {}
        Ok(())
    }

    /// Bytes of memory in use, about.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Writes what is still in memory, takes everything into the store at once, and merges the runs
    /// that unsorted input fell into.
    ///
    /// An error, or a cancellation, before the tables are in the store leaves nothing behind. After
    /// that point the load has succeeded: what stops the merge is reported in
    /// [`BulkReport::merge_failure`].
    pub fn finish(mut self, progress: ProgressFn<'_>) -> Result<BulkReport> {
        self.write_all(progress)?;
        self.options.cancel.check("the bulk load")?;
        progress(BulkProgress {
            phase: BulkPhase::Adopt,
            entries: 0,
            raw_bytes: 0,
            raw_bytes_total: 0,
        });
        let mut loads = Vec::new();
        let mut report = BulkReport::default();
        for mut load in std::mem::take(&mut self.loads) {
            let runs = std::mem::take(&mut load.runs);
            if !runs.is_empty() {
                report
                    .keyspaces
                    .push(KeyspaceReport::new(&load.space, &runs));
                loads.push(Load {
                    space: load.space,
                    runs,
                });
            }
        }
        let db = self.db.inner();
        let hold = db.scheduler().hold();
        let adopted = adopt(db, &self.factory, &hold, loads)?;
        for (adopted, keyspace) in adopted.iter().zip(&mut report.keyspaces) {
            keyspace.level = adopted.level;
        }
        let cancel = &self.options.cancel;
        merge_runs(db, &hold, &adopted, cancel, progress, &mut report);
        drop(hold);
        db.work().wake();
        Ok(report)
    }

    fn load_of(&mut self, keyspace: &Keyspace) -> Result<usize> {
        let space = keyspace.space();
        if let Some(index) = self.index.get(&space.id) {
            return Ok(*index);
        }
        if !Arc::ptr_eq(keyspace.db().inner(), self.db.inner()) {
            return Err(
                Error::invalid_input("the keyspace belongs to another store")
                    .in_keyspace(&space.name),
            );
        }
        if space.is_dropped() {
            return Err(space.dropped_error());
        }
        let index = self.loads.len();
        self.loads.push(KeyspaceLoad::new(space));
        self.index.insert(space.id, index);
        Ok(index)
    }

    /// Lets `act` change a load, and keeps the sum of memory right.
    fn change<T>(
        &mut self,
        index: usize,
        act: impl FnOnce(&mut KeyspaceLoad, &TableFactory) -> Result<T>,
    ) -> Result<T> {
        let Some(load) = self.loads.get_mut(index) else {
            unreachable!("loads are never taken away");
        };
        let before = load.memory_bytes();
        let done = act(load, &self.factory);
        self.memory_bytes = self.memory_bytes - before + load.memory_bytes();
        done
    }

    /// What each load has at its disposal.
    fn share(&self) -> Share {
        let memory_bytes = self.options.memory_bytes;
        Share {
            // What is left sorts the input.
            layout_bytes_max: memory_bytes / 4 / self.loads.len().max(1),
            // Only what is written for good has a dictionary; then the input is nearly sorted.
            dictionary_bytes_max: memory_bytes / 2 / self.loads.len().max(1),
            // Keyspaces are merged one after the other.
            merge_bytes: memory_bytes,
            threads: self.db.inner().compression_pool().threads(),
        }
    }

    /// Writes one entry of the fullest window; false if all are empty.
    fn write_one(&mut self) -> Result<bool> {
        let windows = self.loads.iter().enumerate();
        let fullest = windows.max_by_key(|(_, load)| load.window.memory_bytes());
        match fullest {
            Some((index, _)) => self.write_one_of(index),
            None => Ok(false),
        }
    }

    /// Writes one entry of this load's window; false if it is empty.
    fn write_one_of(&mut self, index: usize) -> Result<bool> {
        let share = self.share();
        let written = self.change(index, |load, factory| load.write_one(factory, share, false))?;
        Ok(written.is_some())
    }

    fn write_all(&mut self, progress: ProgressFn<'_>) -> Result<()> {
        let windows = self.loads.iter();
        let total: usize = windows.map(|load| load.window.memory_bytes()).sum();
        let mut state = BulkProgress {
            phase: BulkPhase::Write,
            entries: 0,
            raw_bytes: 0,
            raw_bytes_total: total as u64,
        };
        let share = self.share();
        for index in 0..self.loads.len() {
            let write_one = |load: &mut KeyspaceLoad, factory: &TableFactory| {
                load.write_one(factory, share, true)
            };
            while let Some(raw_bytes) = self.change(index, write_one)? {
                self.options.cancel.check("the bulk load")?;
                state.entries += 1;
                state.raw_bytes += raw_bytes;
                if state.entries.is_multiple_of(256) {
                    progress(state);
                }
            }
            self.change(index, KeyspaceLoad::end_table)?;
        }
        progress(state);
        self.factory.sync_dir()
    }
}

impl std::fmt::Debug for BulkLoader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BulkLoader")
            .field("memory_bytes", &self.memory_bytes)
            .finish_non_exhaustive()
    }
}

fn check_entry(key: &[u8], value: &[u8]) -> Result<()> {
    if key.len() > KEY_BYTES_MAX {
        return Err(Error::limit(format!(
            "key of {} bytes exceeds {KEY_BYTES_MAX}",
            key.len()
        )));
    }
    if value.len() > VALUE_BYTES_MAX {
        return Err(Error::limit(format!(
            "value of {} bytes exceeds {VALUE_BYTES_MAX}",
            value.len()
        )));
    }
    Ok(())
}

/// What the part of a load that goes to one keyspace may use.
#[derive(Debug, Clone, Copy)]
struct Share {
    /// What the layout of a table may hold back.
    layout_bytes_max: usize,
    /// What blocks may hold back to train a dictionary on.
    dictionary_bytes_max: usize,
    /// For merging its runs.
    merge_bytes: usize,
    threads: usize,
}

/// The part of a load that goes to one keyspace.
struct KeyspaceLoad {
    space: Arc<Space>,
    window: Window,
    /// The table being written, and the number of its run.
    open: Option<OpenTable>,
    open_memory_bytes: usize,
    /// None before the first.
    run: Option<u32>,
    /// The run being written will be merged: its tables are not for reading.
    provisional: bool,
    runs: Vec<Run>,
}

impl KeyspaceLoad {
    fn new(space: &Arc<Space>) -> Self {
        Self {
            space: Arc::clone(space),
            window: Window::default(),
            open: None,
            open_memory_bytes: 0,
            run: None,
            provisional: false,
            runs: Vec::new(),
        }
    }

    fn memory_bytes(&self) -> usize {
        self.window.memory_bytes() + self.open_memory_bytes
    }

    /// Writes the window's next entry and tells its size; none if there is none. `all_is_here` says
    /// that there will be no more puts.
    fn write_one(
        &mut self,
        factory: &TableFactory,
        share: Share,
        all_is_here: bool,
    ) -> Result<Option<u64>> {
        let Some(Leaving { run, key, value }) = self.window.pop() else {
            return Ok(None);
        };
        let options = self.space.options();
        let full = |open: &OpenTable| open.writer.raw_bytes() >= options.table_bytes_target;
        if self.run != Some(run) {
            self.end_table(factory)?;
            self.provisional = self.expects_merge(&key, all_is_here);
            self.run = Some(run);
        } else if self.open.as_ref().is_some_and(full) {
            self.end_table(factory)?;
        }
        let open = match &mut self.open {
            Some(open) => open,
            none => {
                let last = options.levels.get(LAST_LEVEL);
                let mut table_options = last.cloned().unwrap_or_else(TableOptions::default);
                if self.provisional {
                    let (memory, runs) = (share.merge_bytes, self.runs.len());
                    table_options = spill_options(&table_options, memory, share.threads, runs);
                }
                let mut table = factory.create(&self.space, &table_options)?;
                table.writer.set_outside_history();
                table.writer.limit_window(share.layout_bytes_max);
                table.writer.hold_for_dictionary(share.dictionary_bytes_max);
                none.insert(table)
            }
        };
        let raw_bytes = (key.len() + value.len()) as u64;
        open.writer.add(&key, SeqNo::ZERO, EntryKind::Put, value)?;
        self.open_memory_bytes = open.writer.memory_bytes();
        Ok(Some(raw_bytes))
    }

    /// Whether the run that begins with `first` will be merged with others: its entries came in no
    /// order, or lie among those of earlier runs.
    fn expects_merge(&self, first: &[u8], all_is_here: bool) -> bool {
        if self.run.is_none() && all_is_here {
            // Everything fits the window, so there is no other run.
            return false;
        }
        let last = self.window.largest().unwrap_or(first);
        let range = KeyRange {
            start: Bound::Included(first.to_vec()),
            end: Bound::Included(last.to_vec()),
        };
        let mut earlier = self.runs.iter().flat_map(|run| &run.tables);
        !self.window.run_is_in_order() || earlier.any(|table| table.overlaps(&range))
    }

    /// Completes the table being written.
    fn end_table(&mut self, factory: &TableFactory) -> Result<()> {
        let (Some(open), Some(run_number)) = (self.open.take(), self.run) else {
            return Ok(());
        };
        self.open_memory_bytes = 0;
        let mut table = factory.finish(open)?;
        table.provisional = self.provisional;
        let stats = factory.db().stats();
        stats.add(Counter::BulkTableBytesWritten, table.stored_bytes);
        match self.runs.last_mut() {
            Some(run) if run.number == run_number => run.tables.push(table),
            _ => self.runs.push(Run {
                number: run_number,
                tables: vec![table],
            }),
        }
        Ok(())
    }
}

impl KeyspaceReport {
    fn new(space: &Space, runs: &[Run]) -> Self {
        let tables = || runs.iter().flat_map(|run| &run.tables);
        let sum = |of: fn(&TableMeta) -> u64| tables().map(of).sum();
        Self {
            name: space.name.clone(),
            entries: sum(|table| table.entries),
            raw_bytes: sum(|table| table.raw_bytes),
            runs: runs.len() as u64,
            tables: tables().count() as u64,
            bytes_written: sum(|table| table.stored_bytes),
            ..Self::default()
        }
    }
}
