//! What one get touched, for `get_traced`: the answer to "why was this read slow".
//!
//! The database opens an entry for each table before it asks the table; the table fills in what it
//! did. Thread rule: a trace belongs to one get on one thread.

use crate::types::FileNumber;

/// What a table's filter said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FilterOutcome {
    /// The table has no filter.
    #[default]
    NoFilter,
    /// The key is not in the table.
    RuledOut,
    /// The key may be in the table.
    Passed,
}

/// One frame that was needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameTrace {
    /// The frame's ordinal within its table.
    pub ordinal: u32,
    /// Its bytes in the file.
    pub stored_bytes: u64,
    /// Its bytes once decoded.
    pub decoded_bytes: u64,
    /// Whether it came from the cache, neither read nor decoded.
    pub cache_hit: bool,
    /// The frame that had to be decoded before it, where that was looked at: it is in the list as
    /// well, before this one. None for a frame that came from the cache.
    pub base: Option<u32>,
}

/// One table that was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableTrace {
    /// The tree level.
    pub level: usize,
    /// The number in the file's name.
    pub table: FileNumber,
    /// What the filter said.
    pub filter: FilterOutcome,
    /// Key blocks searched.
    pub key_blocks: u32,
    /// Whether the table held an entry for the key, a tombstone included.
    pub found: bool,
    /// Frames needed: none for a value that sits in its key block.
    pub frames: Vec<FrameTrace>,
}

/// What one get touched, in the order it was touched.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GetTrace {
    /// Memtables asked: the active one first, then the sealed ones, newest first.
    pub memtables: u32,
    /// Whether a memtable held the entry, a tombstone included.
    pub found_in_memtable: bool,
    /// Whether a range tombstone ended the search.
    pub range_deleted: bool,
    /// Tables asked, newest data first.
    pub tables: Vec<TableTrace>,
}

impl GetTrace {
    /// Bytes decoded for this get.
    #[must_use]
    pub fn decoded_bytes(&self) -> u64 {
        self.frames()
            .filter(|frame| !frame.cache_hit)
            .map(|frame| frame.decoded_bytes)
            .sum()
    }

    /// Every frame needed.
    pub fn frames(&self) -> impl Iterator<Item = &FrameTrace> {
        self.tables.iter().flat_map(|table| &table.frames)
    }

    /// Opens the entry of a table that is about to be asked.
    pub(crate) fn enter_table(&mut self, level: usize, table: FileNumber) {
        self.tables.push(TableTrace {
            level,
            table,
            filter: FilterOutcome::default(),
            key_blocks: 0,
            found: false,
            frames: Vec::new(),
        });
    }

    /// The table being asked; none for a table read outside a get.
    pub(crate) fn current_table(&mut self) -> Option<&mut TableTrace> {
        self.tables.last_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cached_frame_costs_no_decoded_bytes() {
        let mut trace = GetTrace::default();
        trace.enter_table(1, FileNumber(7));
        let frame = FrameTrace {
            ordinal: 0,
            stored_bytes: 10,
            decoded_bytes: 100,
            cache_hit: true,
            base: None,
        };
        let table = trace.current_table().unwrap();
        table.frames.push(frame);
        table.frames.push(FrameTrace {
            cache_hit: false,
            base: None,
            ..frame
        });
        assert_eq!(trace.decoded_bytes(), 100);
        assert_eq!(trace.frames().count(), 2);
    }
}
