//! The disjoint tables of one level walked as one source, each opened when it is reached.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::Result;
use crate::iter::{EntryKey, InternalIterator, PassedOver};
use crate::manifest::{TableMeta, Version};
use crate::table::StoredValue;
use crate::types::SeqNo;

/// Makes cursors over tables; the database's table cache, with whatever a reader asked for.
pub(crate) trait OpenTable: Send + Sync {
    /// A fresh cursor over the table.
    fn open(&self, table: &Arc<TableMeta>) -> Result<Box<dyn InternalIterator>>;
}

/// Tables with ascending, disjoint key ranges.
#[derive(Debug, Clone)]
pub(crate) enum TableRun {
    /// A part of a version's level, so that a reader need not copy a list of thousands.
    Level {
        version: Arc<Version>,
        level: usize,
        tables: Range<usize>,
    },
    /// A list of its own, such as a compaction's inputs.
    List(Vec<Arc<TableMeta>>),
}

impl TableRun {
    fn tables(&self) -> &[Arc<TableMeta>] {
        match self {
            Self::Level {
                version,
                level,
                tables,
            } => version
                .level(*level)
                .get(tables.clone())
                .unwrap_or_default(),
            Self::List(tables) => tables,
        }
    }
}

/// See the module's head.
pub(crate) struct LevelIter {
    run: TableRun,
    opener: Arc<dyn OpenTable>,
    /// The table the cursor stands in; the cursor is valid whenever there is one.
    current: Option<(usize, Box<dyn InternalIterator>)>,
    /// Where tables are told that cannot be opened and that a walk forward passes over; none if they
    /// end it.
    passed_over: Option<PassedOver>,
}

impl LevelIter {
    pub(crate) fn new(run: TableRun, opener: Arc<dyn OpenTable>) -> Self {
        Self {
            run,
            opener,
            current: None,
            passed_over: None,
        }
    }

    /// Goes on behind tables that cannot be opened, forward, and leaves word of them.
    pub(crate) fn passing_over(mut self, passed_over: Option<PassedOver>) -> Self {
        self.passed_over = passed_over;
        self
    }

    /// Enters the table at `index`, or the first one after it that can be entered.
    fn enter_from(
        &mut self,
        mut index: usize,
        position: impl FnOnce(&mut dyn InternalIterator) -> Result<()>,
    ) -> Result<()> {
        let mut entered = self.enter(Some(index), position);
        while let Err(error) = entered {
            match &self.passed_over {
                Some(passed_over) => passed_over.note(error)?,
                None => return Err(error),
            }
            index += 1;
            entered = self.enter(Some(index), |cursor| cursor.seek_to_first());
        }
        Ok(())
    }

    /// Opens the table at `index` and positions its cursor; none if there is no such table.
    fn enter(
        &mut self,
        index: Option<usize>,
        position: impl FnOnce(&mut dyn InternalIterator) -> Result<()>,
    ) -> Result<()> {
        // A seek within the table at hand, as scans by prefix do, keeps its cursor.
        let previous = self.current.take();
        let Some(index) = index else { return Ok(()) };
        let Some(table) = self.run.tables().get(index) else {
            return Ok(());
        };
        let mut cursor = match previous {
            Some((at, cursor)) if at == index => cursor,
            _ => self.opener.open(table)?,
        };
        position(cursor.as_mut())?;
        self.current = Some((index, cursor));
        Ok(())
    }

    /// Goes on to later tables until the cursor stands on an entry. Tables may hold none: range
    /// tombstones alone make one.
    fn skip_forward(&mut self) -> Result<()> {
        while let Some((index, cursor)) = &self.current {
            if cursor.valid() {
                break;
            }
            let next = index + 1;
            self.enter_from(next, |cursor| cursor.seek_to_first())?;
        }
        Ok(())
    }

    fn skip_backward(&mut self) -> Result<()> {
        while let Some((index, cursor)) = &self.current {
            if cursor.valid() {
                break;
            }
            let previous = index.checked_sub(1);
            self.enter(previous, |cursor| cursor.seek_to_last())?;
        }
        Ok(())
    }

    fn cursor(&self) -> &dyn InternalIterator {
        match &self.current {
            Some((_, cursor)) => cursor.as_ref(),
            None => unreachable!("the caller checked that the cursor is valid"),
        }
    }
}

impl InternalIterator for LevelIter {
    fn valid(&self) -> bool {
        self.current.is_some()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.enter_from(0, |cursor| cursor.seek_to_first())?;
        self.skip_forward()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        let last = self.run.tables().len().checked_sub(1);
        self.enter(last, |cursor| cursor.seek_to_last())?;
        self.skip_backward()
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        let tables = self.run.tables();
        let index = tables.partition_point(|table| table.ends_before(key));
        self.enter_from(index, |cursor| cursor.seek(key, seq))?;
        self.skip_forward()
    }

    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        let tables = self.run.tables();
        let after = tables.partition_point(|table| table.smallest.as_slice() <= key);
        self.enter(after.checked_sub(1), |cursor| cursor.seek_before(key, seq))?;
        self.skip_backward()
    }

    fn next(&mut self) -> Result<()> {
        if let Some((_, cursor)) = &mut self.current
            && let Err(error) = cursor.next()
        {
            self.current = None;
            return Err(error);
        }
        self.skip_forward()
    }

    fn prev(&mut self) -> Result<()> {
        if let Some((_, cursor)) = &mut self.current
            && let Err(error) = cursor.prev()
        {
            self.current = None;
            return Err(error);
        }
        self.skip_backward()
    }

    fn key(&self) -> EntryKey<'_> {
        self.cursor().key()
    }

    fn value(&self) -> Result<Bytes> {
        self.cursor().value()
    }

    fn value_len(&self) -> usize {
        self.cursor().value_len()
    }

    fn stored_value(&self) -> Option<StoredValue> {
        self.cursor().stored_value()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use parking_lot::Mutex;
    use proptest::prelude::*;

    use super::*;
    use crate::error::Error;
    use crate::read::testing::{Entry, VecIter, check_walk, entries, moves};
    use crate::types::{FileId, FileNumber};

    #[derive(Default)]
    struct Opened {
        tables: BTreeMap<FileNumber, Vec<Entry>>,
        opened: Mutex<Vec<FileNumber>>,
    }

    impl OpenTable for Opened {
        fn open(&self, table: &Arc<TableMeta>) -> Result<Box<dyn InternalIterator>> {
            self.opened.lock().push(table.number);
            let entries = self.tables.get(&table.number).cloned();
            let entries = entries.ok_or_else(|| Error::corruption("no such table"))?;
            Ok(Box::new(VecIter::new(entries)))
        }
    }

    /// Cuts sorted entries into tables of up to `len` entries, never within a key.
    fn cut(mut entries: Vec<Entry>, len: usize) -> (Opened, Vec<Arc<TableMeta>>) {
        entries.sort();
        let mut opened = Opened::default();
        let mut metas = Vec::new();
        let mut rest = entries.as_slice();
        while !rest.is_empty() {
            let mut end = len.min(rest.len());
            while end < rest.len() && rest[end].key == rest[end - 1].key {
                end += 1;
            }
            let (table, after) = rest.split_at(end);
            let number = FileNumber(metas.len() as u64 + 1);
            metas.push(Arc::new(TableMeta {
                number,
                id: FileId(number.0),
                stored_bytes: 1,
                raw_bytes: 1,
                entries: table.len() as u64,
                tombstones: 0,
                range_tombstones: 0,
                repeated_keys: None,
                provisional: false,
                smallest: table[0].key.clone(),
                largest: table[end - 1].key.clone(),
                largest_exclusive: false,
                unbounded_end: false,
                seq_min: SeqNo(1),
                seq_max: SeqNo(9),
                seq_base: SeqNo(0),
            }));
            opened.tables.insert(number, table.to_vec());
            rest = after;
        }
        (opened, metas)
    }

    proptest! {
        #[test]
        fn a_level_walks_like_one_sorted_list(
            entries in entries(),
            len in 1usize..5,
            moves in moves(),
        ) {
            let (opened, metas) = cut(entries.clone(), len);
            let mut level = LevelIter::new(TableRun::List(metas), Arc::new(opened));
            check_walk(&mut level, entries, moves)?;
        }
    }

    #[test]
    fn only_the_tables_that_are_reached_are_opened() {
        let entries = (0..10u8).map(|key| Entry::put(&[key], 1)).collect();
        let (opened, metas) = cut(entries, 2);
        let opened = Arc::new(opened);
        let opener = Arc::clone(&opened) as Arc<dyn OpenTable>;
        let mut level = LevelIter::new(TableRun::List(metas), opener);
        assert!(opened.opened.lock().is_empty());
        level.seek(&[4], SeqNo::MAX).unwrap();
        level.next().unwrap();
        level.next().unwrap();
        assert_eq!(*opened.opened.lock(), [FileNumber(3), FileNumber(4)]);
    }
}
