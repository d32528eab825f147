//! A cursor over a memtable that owns what it needs.
//!
//! An entry of the skip list borrows the list, and a cursor that is to outlive its maker cannot.
//! So the cursor copies out a short run of entries (two reference counts each, no bytes) and walks
//! that; at the end of a run it searches the list once more. Entries that were inserted behind its
//! back are newer than any reader that holds such a cursor may see, so missing them is right.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::Memtable;
use super::key::{EntryOrder, MemKey};
use crate::error::Result;
use crate::iter::{EntryKey, InternalIterator};
use crate::types::{EntryKind, SeqNo};

/// Entries of the first run after a seek, which is all that a point lookup wants.
const RUN_LEN_FIRST: usize = 4;
/// Entries of the longest run; each next one is twice as long as the last.
const RUN_LEN_MAX: usize = 64;

#[derive(Debug)]
struct Copied {
    key: MemKey,
    kind: EntryKind,
    value: Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct MemtableIter {
    memtable: Arc<Memtable>,
    /// A run of neighbours in the order of `direction`.
    run: Vec<Copied>,
    /// The current entry within `run`; past its end, the cursor is not valid.
    position: usize,
    direction: Direction,
    run_len: usize,
}

impl MemtableIter {
    pub(super) fn new(memtable: Arc<Memtable>) -> Self {
        Self {
            memtable,
            run: Vec::new(),
            position: 0,
            direction: Direction::Forward,
            run_len: RUN_LEN_FIRST,
        }
    }

    /// Copies out the run that begins at `bound` and goes in `direction`.
    fn fill(&mut self, bound: Bound<&dyn EntryOrder>, direction: Direction) {
        self.run.clear();
        self.position = 0;
        self.direction = direction;
        let entries = &self.memtable.entries;
        let mut entry = match direction {
            Direction::Forward => entries.lower_bound(bound),
            Direction::Backward => entries.upper_bound(bound),
        };
        while let Some(current) = entry {
            self.run.push(Copied {
                key: current.key().clone(),
                kind: current.value().kind,
                value: current.value().value.clone(),
            });
            if self.run.len() >= self.run_len {
                break;
            }
            entry = match direction {
                Direction::Forward => current.next(),
                Direction::Backward => current.prev(),
            };
        }
    }

    fn seek_bound(&mut self, bound: Bound<&dyn EntryOrder>, direction: Direction) {
        self.run_len = RUN_LEN_FIRST;
        self.fill(bound, direction);
    }

    fn step(&mut self, direction: Direction) {
        let Some(current) = self.run.get(self.position) else {
            return;
        };
        if direction != self.direction {
            let key = current.key.clone();
            self.seek_bound(Bound::Excluded(&key), direction);
            return;
        }
        if self.position + 1 < self.run.len() {
            self.position += 1;
            return;
        }
        let key = current.key.clone();
        self.run_len = (self.run_len * 2).min(RUN_LEN_MAX);
        self.fill(Bound::Excluded(&key), direction);
    }

    fn current(&self) -> &Copied {
        self.run
            .get(self.position)
            .unwrap_or_else(|| unreachable!("the caller checked that the cursor is valid"))
    }
}

impl InternalIterator for MemtableIter {
    fn valid(&self) -> bool {
        self.position < self.run.len()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.seek_bound(Bound::Unbounded, Direction::Forward);
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.seek_bound(Bound::Unbounded, Direction::Backward);
        Ok(())
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.seek_bound(Bound::Included(&(key, seq)), Direction::Forward);
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.seek_bound(Bound::Excluded(&(key, seq)), Direction::Backward);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.step(Direction::Forward);
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.step(Direction::Backward);
        Ok(())
    }

    fn key(&self) -> EntryKey<'_> {
        let current = self.current();
        EntryKey {
            user_key: &current.key.user_key,
            seq: current.key.seq,
            kind: current.kind,
        }
    }

    fn value(&self) -> Result<Bytes> {
        Ok(self.current().value.clone())
    }

    fn value_len(&self) -> usize {
        self.current().value.len()
    }
}
