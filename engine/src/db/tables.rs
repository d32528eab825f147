//! The tables that are open: bounded, opened when a read first needs them, each once at a time.

use std::sync::Arc;

use quick_cache::sync::Cache;

use super::inner::DbInner;
use crate::error::{Error, ErrorKind, Result};
use crate::iter::{InternalIterator, PassedOver};
use crate::manifest::TableMeta;
use crate::read::OpenTable;
use crate::stats::GetTrace;
use crate::table::{IterContext, ReadContext, TableReader};
use crate::tombstones::TombstoneSet;
use crate::types::FileNumber;
use std::cell::RefCell;

/// An open table, and its range tombstones made searchable.
#[derive(Debug)]
pub(crate) struct OpenedTable {
    pub(crate) reader: Arc<TableReader>,
    pub(crate) tombstones: TombstoneSet,
}

/// Open tables by file number. What falls out of the cache is closed once its last reader ends.
#[derive(Debug)]
pub(crate) struct TableCache {
    open: Cache<FileNumber, Arc<OpenedTable>>,
}

impl TableCache {
    pub(super) fn new(open_tables_max: usize) -> Self {
        Self {
            open: Cache::new(open_tables_max),
        }
    }

    /// Closes a table that is about to be removed.
    pub(super) fn forget(&self, number: FileNumber) {
        self.open.remove(&number);
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// Memory of open tables beyond their mappings.
    pub(super) fn memory_bytes(&self) -> usize {
        let tables = self.open.iter();
        tables.map(|(_, table)| table.reader.memory_bytes()).sum()
    }
}

impl DbInner {
    /// The table's reader; opens the file if it is not open. Reads no value.
    pub(crate) fn table(&self, table: &Arc<TableMeta>) -> Result<Arc<TableReader>> {
        Ok(Arc::clone(&self.opened_table(table)?.reader))
    }

    pub(crate) fn opened_table(&self, table: &Arc<TableMeta>) -> Result<Arc<OpenedTable>> {
        self.tables
            .open
            .get_or_insert_with(&table.number, || self.open_table_file(table))
    }

    fn open_table_file(&self, table: &TableMeta) -> Result<Arc<OpenedTable>> {
        let path = self.table_path(table.number);
        let reader = TableReader::open(
            &**self.vfs(),
            &path,
            self.options.read_mode,
            Some(table.id),
            table.seq_base,
        )
        .map_err(|error| {
            if error.kind() != ErrorKind::NotFound {
                return error;
            }
            Error::corruption("a table named by the manifest is missing")
                .at_path(&path)
                .with_remedy("restore the file, or run salvage")
        })?;
        let tombstones = TombstoneSet::new(reader.range_tombstones().to_vec());
        Ok(Arc::new(OpenedTable { reader, tombstones }))
    }

    /// What a point read brings along.
    pub(crate) fn read_context<'a>(
        &'a self,
        trace: Option<&'a RefCell<GetTrace>>,
    ) -> ReadContext<'a> {
        ReadContext {
            cache: self.frames.as_deref(),
            stats: &self.stats,
            trace,
            fill_cache: true,
            held: None,
            for_get: true,
        }
    }

    /// What a scan or a job brings along.
    pub(crate) fn iter_context(&self, fill_cache: bool) -> IterContext {
        IterContext {
            cache: self.frames.clone(),
            stats: Arc::clone(&self.stats),
            fill_cache,
        }
    }
}

/// Opens tables for cursors that outlive the call that made them.
pub(crate) struct TableOpener {
    db: Arc<DbInner>,
    context: IterContext,
    passed_over: Option<PassedOver>,
}

impl TableOpener {
    pub(crate) fn shared(db: &Arc<DbInner>, fill_cache: bool) -> Arc<dyn OpenTable> {
        Self::passing_over(db, fill_cache, None)
    }

    /// Whose cursors go on behind damage, if there is where to leave word of it.
    pub(crate) fn passing_over(
        db: &Arc<DbInner>,
        fill_cache: bool,
        passed_over: Option<PassedOver>,
    ) -> Arc<dyn OpenTable> {
        Arc::new(Self {
            db: Arc::clone(db),
            context: db.iter_context(fill_cache),
            passed_over,
        })
    }
}

impl OpenTable for TableOpener {
    fn open(&self, table: &Arc<TableMeta>) -> Result<Box<dyn InternalIterator>> {
        let reader = self.db.table(table)?;
        let cursor = reader.iter(self.context.clone());
        Ok(Box::new(cursor.passing_over(self.passed_over.clone())))
    }
}
