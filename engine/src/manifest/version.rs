//! What tables a keyspace consists of at one moment: immutable, shared by `Arc`.
//!
//! Invariants of a [`Version`], which [`Version::check`] verifies:
//! 1. L0 is ordered newest first: by largest sequence number, then by file number, descending.
//!    Its tables may overlap.
//! 2. Every other level is ordered by smallest key, and no two tables of it hold the same user
//!    key: a key's history is never split over two tables of one level.
//! 3. A file number stands in one level only.

use std::collections::BTreeSet;
use std::ops::{Bound, Range};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::options::LEVEL_COUNT;
use crate::types::{FileId, FileNumber, KeyRange, SeqNo};

/// What the manifest knows of one table, enough to plan reads and compactions without opening it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableMeta {
    pub(crate) number: FileNumber,
    /// The random id in the table's footer.
    pub(crate) id: FileId,
    /// Length of the file.
    pub(crate) stored_bytes: u64,
    /// Keys and values, uncompressed.
    pub(crate) raw_bytes: u64,
    /// Entries, tombstones among them.
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
    pub(crate) range_tombstones: u32,
    /// Entries of a key that a newer entry of the table has too. None where its writer did not
    /// count them.
    pub(crate) repeated_keys: Option<u64>,
    /// Written for a merge that has yet to come, not for reading: no level wants it as it is.
    pub(crate) provisional: bool,
    pub(crate) smallest: Vec<u8>,
    pub(crate) largest: Vec<u8>,
    /// `largest` itself is not in the table: it is the end of a range tombstone.
    pub(crate) largest_exclusive: bool,
    /// A range tombstone reaches to the end of the keyspace; `largest` is only the largest key.
    pub(crate) unbounded_end: bool,
    /// Smallest effective sequence number.
    pub(crate) seq_min: SeqNo,
    /// Largest effective sequence number.
    pub(crate) seq_max: SeqNo,
    /// Added to every sequence number stored in the table: tables that were built outside the
    /// history (bulk loads, ingests) store 0 and take their place in it here.
    pub(crate) seq_base: SeqNo,
}

impl TableMeta {
    /// Whether every key of the table is smaller than `key`.
    pub(crate) fn ends_before(&self, key: &[u8]) -> bool {
        if self.unbounded_end {
            return false;
        }
        match self.largest.as_slice().cmp(key) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => self.largest_exclusive,
            std::cmp::Ordering::Greater => false,
        }
    }

    /// Whether `key` lies in the table's key range.
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        self.smallest.as_slice() <= key && !self.ends_before(key)
    }

    /// Whether the table's key range and `range` have a key in common.
    pub(crate) fn overlaps(&self, range: &KeyRange) -> bool {
        !self.ends_before_start(&range.start) && !self.begins_after_end(&range.end)
    }

    /// The table's key range.
    pub(crate) fn key_range(&self) -> KeyRange {
        let end = match (self.unbounded_end, self.largest_exclusive) {
            (true, _) => Bound::Unbounded,
            (false, true) => Bound::Excluded(self.largest.clone()),
            (false, false) => Bound::Included(self.largest.clone()),
        };
        KeyRange {
            start: Bound::Included(self.smallest.clone()),
            end,
        }
    }

    fn ends_before_start(&self, start: &Bound<Vec<u8>>) -> bool {
        match start {
            Bound::Unbounded => false,
            Bound::Included(start) => self.ends_before(start),
            // A range open at its start needs a key beyond it.
            Bound::Excluded(start) => !self.unbounded_end && self.largest <= *start,
        }
    }

    fn begins_after_end(&self, end: &Bound<Vec<u8>>) -> bool {
        match end {
            Bound::Unbounded => false,
            Bound::Included(end) => self.smallest > *end,
            Bound::Excluded(end) => self.smallest >= *end,
        }
    }
}

/// The tables of one keyspace, by level.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Version {
    levels: [Vec<Arc<TableMeta>>; LEVEL_COUNT],
}

impl Version {
    /// The tables of a level, in its order; none for a level that does not exist.
    pub(crate) fn level(&self, level: usize) -> &[Arc<TableMeta>] {
        self.levels.get(level).map_or(&[], Vec::as_slice)
    }

    /// Every level's tables, L0 first.
    pub(crate) fn levels(&self) -> &[Vec<Arc<TableMeta>>; LEVEL_COUNT] {
        &self.levels
    }

    /// Every table with its level, L0 first.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (usize, &Arc<TableMeta>)> {
        let levels = self.levels.iter().enumerate();
        levels.flat_map(|(level, tables)| tables.iter().map(move |table| (level, table)))
    }

    /// The tables whose range holds `key`, with their levels, in the order in which they shadow
    /// each other: a newer entry of the key is never in a later table.
    pub(crate) fn candidates<'a>(
        &'a self,
        key: &'a [u8],
    ) -> impl Iterator<Item = (usize, &'a Arc<TableMeta>)> {
        let young = self.level(0).iter().filter(|table| table.covers(key));
        let sorted = (1..LEVEL_COUNT).filter_map(|level| {
            let tables = self.level(level);
            let index = tables.partition_point(|table| table.ends_before(key));
            let table = tables.get(index).filter(|table| table.covers(key))?;
            Some((level, table))
        });
        young.map(|table| (0, table)).chain(sorted)
    }

    /// The tables of a level whose ranges overlap `range`, in the level's order.
    pub(crate) fn overlapping(&self, level: usize, range: &KeyRange) -> Vec<Arc<TableMeta>> {
        let tables = self.level(level);
        if level == 0 {
            let overlapping = tables.iter().filter(|table| table.overlaps(range));
            return overlapping.cloned().collect();
        }
        let within = tables.get(self.overlapping_span(level, range));
        within.unwrap_or_default().to_vec()
    }

    /// Where in a sorted level the tables stand whose ranges overlap `range`.
    pub(crate) fn overlapping_span(&self, level: usize, range: &KeyRange) -> Range<usize> {
        let tables = self.level(level);
        let first = tables.partition_point(|table| table.ends_before_start(&range.start));
        let end = tables.partition_point(|table| !table.begins_after_end(&range.end));
        first..end.max(first)
    }

    /// Stored bytes of a level.
    pub(crate) fn stored_bytes(&self, level: usize) -> u64 {
        let tables = self.level(level).iter();
        tables.map(|table| table.stored_bytes).sum()
    }

    /// Puts a table at its place in a level. The invariants are not checked: an edit may list
    /// additions before the removals that make room for them.
    pub(crate) fn add(&mut self, level: usize, table: Arc<TableMeta>) -> Result<()> {
        let tables = self.level_mut(level)?;
        let index = if level == 0 {
            let age = |table: &TableMeta| (table.seq_max, table.number);
            tables.partition_point(|other| age(other) > age(&table))
        } else {
            tables.partition_point(|other| other.smallest < table.smallest)
        };
        tables.insert(index, table);
        Ok(())
    }

    /// Takes a table out of a level.
    pub(crate) fn remove(&mut self, level: usize, number: FileNumber) -> Result<Arc<TableMeta>> {
        let tables = self.level_mut(level)?;
        let index = tables.iter().position(|table| table.number == number);
        let index = index.ok_or_else(|| {
            Error::corruption(format!(
                "table {number} is not in level {level}, cannot remove it"
            ))
        })?;
        Ok(tables.remove(index))
    }

    /// Fails, naming the tables, unless the invariants hold.
    pub(crate) fn check(&self) -> Result<()> {
        let mut numbers = BTreeSet::new();
        for (level, table) in self.tables() {
            if !numbers.insert(table.number) {
                return Err(Error::corruption(format!(
                    "table {} stands twice in the tree, the second time in level {level}",
                    table.number
                )));
            }
            check_table(table)?;
        }
        for level in 1..LEVEL_COUNT {
            for pair in self.level(level).windows(2) {
                let [left, right] = pair else { continue };
                if !left.ends_before(&right.smallest) {
                    return Err(Error::corruption(format!(
                        "tables {} and {} of level {level} overlap",
                        left.number, right.number
                    )));
                }
            }
        }
        Ok(())
    }

    fn level_mut(&mut self, level: usize) -> Result<&mut Vec<Arc<TableMeta>>> {
        self.levels
            .get_mut(level)
            .ok_or_else(|| Error::corruption(format!("there is no level {level}")))
    }
}

fn check_table(table: &TableMeta) -> Result<()> {
    let ordered = table.smallest < table.largest
        || (table.smallest == table.largest && !table.largest_exclusive)
        || table.unbounded_end;
    if ordered && table.seq_min <= table.seq_max {
        return Ok(());
    }
    let number = table.number;
    Err(Error::corruption(format!(
        "table {number} ends before it begins"
    )))
}
