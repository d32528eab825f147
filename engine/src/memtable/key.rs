//! The skip list's key, and how to look one up without building it.
//!
//! A skip list is searched by anything that its key can be borrowed as. Borrowing as a trait
//! object lets a (key, sequence number) pair on the caller's stack stand in for an owned key.

use std::borrow::Borrow;
use std::cmp::Ordering;

use bytes::Bytes;

use crate::iter::compare;
use crate::types::SeqNo;

/// A memtable entry's key, in internal order.
#[derive(Debug, Clone)]
pub(super) struct MemKey {
    pub(super) user_key: Bytes,
    pub(super) seq: SeqNo,
}

/// Whatever has a place in internal order.
pub(super) trait EntryOrder {
    fn user_key(&self) -> &[u8];
    fn seq(&self) -> SeqNo;
}

impl EntryOrder for MemKey {
    fn user_key(&self) -> &[u8] {
        &self.user_key
    }

    fn seq(&self) -> SeqNo {
        self.seq
    }
}

impl EntryOrder for (&[u8], SeqNo) {
    fn user_key(&self) -> &[u8] {
        self.0
    }

    fn seq(&self) -> SeqNo {
        self.1
    }
}

impl Ord for dyn EntryOrder + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.user_key(), self.seq(), other.user_key(), other.seq())
    }
}

impl PartialOrd for dyn EntryOrder + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn EntryOrder + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for dyn EntryOrder + '_ {}

impl Ord for MemKey {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.user_key, self.seq, &other.user_key, other.seq)
    }
}

impl PartialOrd for MemKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for MemKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for MemKey {}

impl<'a> Borrow<dyn EntryOrder + 'a> for MemKey {
    fn borrow(&self) -> &(dyn EntryOrder + 'a) {
        self
    }
}
