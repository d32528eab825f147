//! The newest writes of one keyspace, in memory and sorted: a concurrent skip list of entries, and
//! beside it the range tombstones.
//!
//! The write path (one leader at a time) inserts; any number of readers look up and walk. Nothing
//! is ever removed or changed in place, so a reader at sequence number `s` sees the same entries
//! up to `s` for as long as it likes.
//!
//! Invariants:
//! 1. An entry is identified by (key, sequence number); there are never two of one.
//! 2. A memtable that was sealed takes no more inserts; its entries are all newer than those of
//!    memtables sealed before it, key by key.
//!
//! Threads: inserting takes no lock that readers take. A reader's only shared writes are the epoch
//! pins of crossbeam.

mod iter;
mod key;
#[cfg(test)]
mod tests;
mod tombstones;

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use crossbeam_skiplist::SkipMap;

pub(crate) use iter::MemtableIter;
use key::{EntryOrder, MemKey};
use tombstones::TombstoneLog;

use crate::iter::RangeTombstone;
use crate::types::{EntryKind, KeyRange, SeqNo};

/// What an entry costs beyond its key and value: the skip list node with its average tower, the
/// handles of key and value, and what the allocator rounds up.
const ENTRY_OVERHEAD_BYTES: usize = 144;

/// The newest entry of a key, as far as a reader may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemEntry {
    pub(crate) seq: SeqNo,
    pub(crate) kind: EntryKind,
    /// Empty for deletes.
    pub(crate) value: Bytes,
}

#[derive(Debug)]
struct Slot {
    kind: EntryKind,
    value: Bytes,
}

/// A keyspace's newest writes. See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Memtable {
    entries: SkipMap<MemKey, Slot>,
    tombstones: TombstoneLog,
    /// Approximate heap bytes.
    bytes: AtomicUsize,
    /// Bytes of keys and values.
    raw_bytes: AtomicU64,
    /// Largest sequence number inserted; 0 when empty.
    seq_max: AtomicU64,
}

impl Memtable {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds an entry. The key is copied; the value is kept as it is given.
    pub(crate) fn insert(&self, key: &[u8], seq: SeqNo, kind: EntryKind, value: Bytes) {
        let raw = key.len() + value.len();
        let key = MemKey {
            user_key: Bytes::copy_from_slice(key),
            seq,
        };
        self.entries.insert(key, Slot { kind, value });
        self.charge(raw, ENTRY_OVERHEAD_BYTES, seq);
    }

    /// Adds a range tombstone. Only one thread may insert tombstones at a time.
    pub(crate) fn insert_range_tombstone(&self, tombstone: RangeTombstone) {
        let seq = tombstone.seq;
        let raw = tombstone.start.len() + tombstone.end.as_ref().map_or(0, Vec::len);
        self.tombstones.push(tombstone);
        self.charge(raw, ENTRY_OVERHEAD_BYTES, seq);
    }

    fn charge(&self, raw: usize, overhead: usize, seq: SeqNo) {
        self.bytes.fetch_add(raw + overhead, Ordering::Relaxed);
        self.raw_bytes.fetch_add(raw as u64, Ordering::Relaxed);
        self.seq_max.fetch_max(seq.0, Ordering::Relaxed);
    }

    /// The newest entry of `key` with a sequence number up to `seq`. Allocates nothing.
    pub(crate) fn get(&self, key: &[u8], seq: SeqNo) -> Option<MemEntry> {
        let probe = (key, seq);
        let bound: &dyn EntryOrder = &probe;
        let entry = self.entries.lower_bound(Bound::Included(bound))?;
        if entry.key().user_key != key {
            return None;
        }
        Some(MemEntry {
            seq: entry.key().seq,
            kind: entry.value().kind,
            value: entry.value().value.clone(),
        })
    }

    /// The newest range tombstone up to `seq` that covers `key`; zero if none does.
    pub(crate) fn tombstone_over(&self, key: &[u8], seq: SeqNo) -> SeqNo {
        self.tombstones.covering(key, seq)
    }

    /// Every range tombstone, in the order of insertion.
    pub(crate) fn range_tombstones(&self) -> Vec<RangeTombstone> {
        self.tombstones.all()
    }

    /// Whether some entry or range tombstone lies in the range.
    pub(crate) fn overlaps(&self, range: &KeyRange) -> bool {
        let first = match &range.start {
            Bound::Unbounded => self.entries.front(),
            Bound::Included(start) => {
                let probe = (start.as_slice(), SeqNo::MAX);
                self.entries
                    .lower_bound(Bound::Included(&probe as &dyn EntryOrder))
            }
            Bound::Excluded(start) => {
                let probe = (start.as_slice(), SeqNo::ZERO);
                self.entries
                    .lower_bound(Bound::Excluded(&probe as &dyn EntryOrder))
            }
        };
        first.is_some_and(|first| range.contains(&first.key().user_key))
            || self.tombstones.overlaps(range)
    }

    /// A cursor over the entries that may be walked while writers insert.
    pub(crate) fn iter(self: &Arc<Self>) -> MemtableIter {
        MemtableIter::new(Arc::clone(self))
    }

    /// Whether nothing was inserted.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.tombstones.is_empty()
    }

    /// Whether there is anything for a cursor to walk.
    pub(crate) fn has_entries(&self) -> bool {
        !self.entries.is_empty()
    }

    /// Number of entries, range tombstones not counted.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Approximate heap bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of keys and values.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.raw_bytes.load(Ordering::Relaxed)
    }

    /// The largest sequence number inserted; zero when empty.
    pub(crate) fn seq_max(&self) -> SeqNo {
        SeqNo(self.seq_max.load(Ordering::Relaxed))
    }
}
