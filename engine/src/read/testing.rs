//! A source over a plain list, and the check that a cursor moves like one over a sorted list.

use std::cmp::Ordering;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::error::{Error, Result};
use crate::iter::{EntryKey, InternalIterator, compare};
use crate::types::{EntryKind, SeqNo};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    pub(crate) seq: SeqNo,
    pub(crate) kind: EntryKind,
    pub(crate) value: Bytes,
}

impl Entry {
    pub(crate) fn put(key: &[u8], seq: u64) -> Self {
        Self {
            key: key.to_vec(),
            seq: SeqNo(seq),
            kind: EntryKind::Put,
            value: Bytes::from(format!("{key:?}@{seq}")),
        }
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.key, self.seq, &other.key, other.seq)
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A cursor over a list.
pub(crate) struct VecIter {
    entries: Vec<Entry>,
    at: Option<usize>,
    steps_left: Option<usize>,
}

impl VecIter {
    pub(crate) fn new(mut entries: Vec<Entry>) -> Self {
        entries.sort();
        Self {
            entries,
            at: None,
            steps_left: None,
        }
    }

    /// Fails at the step after `steps` of them.
    pub(crate) fn failing_after(mut self, steps: usize) -> Self {
        self.steps_left = Some(steps);
        self
    }

    fn place(&self, key: &[u8], seq: SeqNo) -> usize {
        self.entries
            .partition_point(|entry| compare(&entry.key, entry.seq, key, seq).is_lt())
    }

    fn moved_to(&mut self, at: Option<usize>) -> Result<()> {
        if let Some(left) = &mut self.steps_left {
            if *left == 0 {
                self.at = None;
                return Err(Error::corruption("a block is rotten"));
            }
            *left -= 1;
        }
        self.at = at.filter(|&at| at < self.entries.len());
        Ok(())
    }
}

impl InternalIterator for VecIter {
    fn valid(&self) -> bool {
        self.at.is_some()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.moved_to(Some(0))
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.moved_to(self.entries.len().checked_sub(1))
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.moved_to(Some(self.place(key, seq)))
    }

    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.moved_to(self.place(key, seq).checked_sub(1))
    }

    fn next(&mut self) -> Result<()> {
        self.moved_to(self.at.map(|at| at + 1))
    }

    fn prev(&mut self) -> Result<()> {
        self.moved_to(self.at.and_then(|at| at.checked_sub(1)))
    }

    fn key(&self) -> EntryKey<'_> {
        let entry = &self.entries[self.at.unwrap()];
        EntryKey {
            user_key: &entry.key,
            seq: entry.seq,
            kind: entry.kind,
        }
    }

    fn value(&self) -> Result<Bytes> {
        Ok(self.entries[self.at.unwrap()].value.clone())
    }

    fn value_len(&self) -> usize {
        self.entries[self.at.unwrap()].value.len()
    }
}

/// Up to thirty distinct entries over few keys.
pub(crate) fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let key = prop::collection::vec(0u8..3, 0..3);
    prop::collection::btree_set((key, 1u64..8), 0..30)
        .prop_map(|set| set.iter().map(|(key, seq)| Entry::put(key, *seq)).collect())
}

#[derive(Debug, Clone)]
pub(crate) enum Move {
    First,
    Last,
    Seek(Vec<u8>, u64),
    Before(Vec<u8>, u64),
    Next,
    Prev,
}

/// Some moves of a cursor, steps above all.
pub(crate) fn moves() -> impl Strategy<Value = Vec<Move>> {
    let key = || prop::collection::vec(0u8..3, 0..3);
    let one = prop_oneof![
        1 => Just(Move::First),
        1 => Just(Move::Last),
        2 => (key(), 0u64..9).prop_map(|(key, seq)| Move::Seek(key, seq)),
        2 => (key(), 0u64..9).prop_map(|(key, seq)| Move::Before(key, seq)),
        8 => Just(Move::Next),
        8 => Just(Move::Prev),
    ];
    prop::collection::vec(one, 0..60)
}

/// Makes the moves on `cursor` and on a sorted list of `entries`, and compares at each.
pub(crate) fn check_walk(
    cursor: &mut dyn InternalIterator,
    entries: Vec<Entry>,
    moves: Vec<Move>,
) -> Result<(), TestCaseError> {
    let mut model = VecIter::new(entries);
    for step in moves {
        for cursor in [&mut *cursor, &mut model as &mut dyn InternalIterator] {
            match &step {
                Move::First => cursor.seek_to_first(),
                Move::Last => cursor.seek_to_last(),
                Move::Seek(key, seq) => cursor.seek(key, SeqNo(*seq)),
                Move::Before(key, seq) => cursor.seek_before(key, SeqNo(*seq)),
                Move::Next => cursor.next(),
                Move::Prev => cursor.prev(),
            }
            .unwrap();
        }
        prop_assert_eq!(cursor.valid(), model.valid());
        if model.valid() {
            prop_assert_eq!(cursor.key(), model.key());
            prop_assert_eq!(cursor.value().unwrap(), model.value().unwrap());
        }
    }
    Ok(())
}
