//! Several sorted sources walked as one, in internal order, both ways.
//!
//! A binary heap of source indices, ordered by the sources' current keys, has the next entry on
//! top. Walking on in one direction costs one step of one source and a sift; turning round
//! repositions every source.
//!
//! INVARIANT: no two sources hold the same entry (key and sequence number). A salvage, which cannot
//! promise it, walks forward only: there the entry of the earlier source comes first.

use std::cmp::Ordering;

use bytes::Bytes;

use crate::error::Result;
use crate::iter::{EntryKey, InternalIterator, compare};
use crate::table::StoredValue;
use crate::types::SeqNo;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// See the module's head.
pub(crate) struct MergingIter {
    sources: Vec<Box<dyn InternalIterator>>,
    /// Indices of the valid sources, the current entry's first.
    heap: Vec<usize>,
    direction: Direction,
    /// Holds the current key while the sources move; kept for its capacity.
    scratch: Vec<u8>,
}

impl MergingIter {
    pub(crate) fn new(sources: Vec<Box<dyn InternalIterator>>) -> Self {
        Self {
            heap: Vec::with_capacity(sources.len()),
            sources,
            direction: Direction::Forward,
            scratch: Vec::new(),
        }
    }

    /// Moves every source by `position`, then finds the first in `direction`.
    fn reposition(
        &mut self,
        direction: Direction,
        mut position: impl FnMut(&mut dyn InternalIterator) -> Result<()>,
    ) -> Result<()> {
        self.heap.clear();
        self.direction = direction;
        for source in &mut self.sources {
            position(source.as_mut())?;
        }
        let sources = self.sources.iter().enumerate();
        let valid = sources.filter(|(_, source)| source.valid());
        self.heap.extend(valid.map(|(index, _)| index));
        for parent in (0..self.heap.len() / 2).rev() {
            self.sift_down(parent);
        }
        Ok(())
    }

    /// Turns round at the current entry, so that the top is its neighbour in `direction`.
    fn turn(&mut self, direction: Direction) -> Result<()> {
        let mut key = std::mem::take(&mut self.scratch);
        let current = self.key();
        let seq = current.seq;
        key.clear();
        key.extend_from_slice(current.user_key);
        let turned = match direction {
            Direction::Forward => self.reposition(direction, |source| {
                source.seek(&key, seq)?;
                let on_current = source.valid() && {
                    let entry = source.key();
                    compare(entry.user_key, entry.seq, &key, seq).is_eq()
                };
                if on_current { source.next() } else { Ok(()) }
            }),
            Direction::Backward => {
                self.reposition(direction, |source| source.seek_before(&key, seq))
            }
        };
        self.scratch = key;
        turned
    }

    fn step(&mut self, direction: Direction) -> Result<()> {
        let Some(&top) = self.heap.first() else {
            return Ok(());
        };
        if direction != self.direction {
            return self.turn(direction);
        }
        let Some(source) = self.sources.get_mut(top) else {
            return Ok(());
        };
        let moved = match direction {
            Direction::Forward => source.next(),
            Direction::Backward => source.prev(),
        };
        if let Err(error) = moved {
            self.heap.clear();
            return Err(error);
        }
        if !source.valid() {
            self.heap.swap_remove(0);
        }
        self.sift_down(0);
        Ok(())
    }

    fn sift_down(&mut self, mut parent: usize) {
        loop {
            let mut first = parent;
            for child in [2 * parent + 1, 2 * parent + 2] {
                if child < self.heap.len() && self.is_before(child, first) {
                    first = child;
                }
            }
            if first == parent {
                return;
            }
            self.heap.swap(first, parent);
            parent = first;
        }
    }

    /// Whether the entry at heap position `a` comes before the one at `b` in walking direction.
    fn is_before(&self, a: usize, b: usize) -> bool {
        let (Some(&a), Some(&b)) = (self.heap.get(a), self.heap.get(b)) else {
            return false;
        };
        let (Some(left), Some(right)) = (self.sources.get(a), self.sources.get(b)) else {
            return false;
        };
        let (left, right) = (left.key(), right.key());
        let order = compare(left.user_key, left.seq, right.user_key, right.seq);
        let order = order.then_with(|| a.cmp(&b));
        match self.direction {
            Direction::Forward => order == Ordering::Less,
            Direction::Backward => order == Ordering::Greater,
        }
    }

    fn top(&self) -> &dyn InternalIterator {
        let source = self.heap.first().and_then(|&top| self.sources.get(top));
        source
            .unwrap_or_else(|| unreachable!("the caller checked that the cursor is valid"))
            .as_ref()
    }
}

impl InternalIterator for MergingIter {
    fn valid(&self) -> bool {
        !self.heap.is_empty()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.reposition(Direction::Forward, |source| source.seek_to_first())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.reposition(Direction::Backward, |source| source.seek_to_last())
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.reposition(Direction::Forward, |source| source.seek(key, seq))
    }

    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.reposition(Direction::Backward, |source| source.seek_before(key, seq))
    }

    fn next(&mut self) -> Result<()> {
        self.step(Direction::Forward)
    }

    fn prev(&mut self) -> Result<()> {
        self.step(Direction::Backward)
    }

    fn key(&self) -> EntryKey<'_> {
        self.top().key()
    }

    fn value(&self) -> Result<Bytes> {
        self.top().value()
    }

    fn value_len(&self) -> usize {
        self.top().value_len()
    }

    fn stored_value(&self) -> Option<StoredValue> {
        self.top().stored_value()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::read::testing::{Entry, VecIter, check_walk, entries, moves};

    proptest! {
        #[test]
        fn a_merge_walks_like_one_sorted_list(
            sources in prop::collection::vec(entries(), 0..5),
            moves in moves(),
        ) {
            let mut all: Vec<Entry> = Vec::new();
            let mut cursors: Vec<Box<dyn InternalIterator>> = Vec::new();
            for source in sources {
                let fresh: Vec<Entry> = source
                    .into_iter()
                    .filter(|entry| !all.iter().any(|other| other.is_same(entry)))
                    .collect();
                all.extend(fresh.iter().cloned());
                cursors.push(Box::new(VecIter::new(fresh)));
            }
            check_walk(&mut MergingIter::new(cursors), all, moves)?;
        }
    }

    #[test]
    fn an_error_of_one_source_ends_the_walk() {
        let good = VecIter::new(vec![Entry::put(b"a", 1), Entry::put(b"c", 1)]);
        let bad = VecIter::new(vec![Entry::put(b"b", 1), Entry::put(b"d", 1)]).failing_after(1);
        let mut merge = MergingIter::new(vec![Box::new(good), Box::new(bad)]);
        merge.seek_to_first().unwrap();
        merge.next().unwrap();
        assert_eq!(merge.key().user_key, b"b");
        assert!(merge.next().is_err());
        assert!(!merge.valid());
    }
}
