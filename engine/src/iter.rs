//! The one interface of everything that can be walked in internal key order: memtables, tables,
//! levels and merges of them.
//!
//! Internal order is by user key ascending, then by sequence number **descending**: the newest
//! entry of a key comes first.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::error::{Error, ErrorKind, Result};
use crate::table::StoredValue;
use crate::types::{EntryKind, SeqNo};

/// An entry's key as it stands in a memtable or table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryKey<'a> {
    pub(crate) user_key: &'a [u8],
    pub(crate) seq: SeqNo,
    pub(crate) kind: EntryKind,
}

/// Internal order. The kind takes no part: a key has at most one entry per sequence number.
pub(crate) fn compare(a_key: &[u8], a_seq: SeqNo, b_key: &[u8], b_seq: SeqNo) -> Ordering {
    a_key.cmp(b_key).then_with(|| b_seq.cmp(&a_seq))
}

/// What cursors passed over that go on behind damage, instead of ending there: shared by those of
/// one walk.
#[derive(Debug, Clone, Default)]
pub(crate) struct PassedOver(Arc<Mutex<VecDeque<Error>>>);

impl PassedOver {
    /// Takes note of damage; gives back what is none.
    pub(crate) fn note(&self, error: Error) -> Result<()> {
        if error.kind() != ErrorKind::Corruption {
            return Err(error);
        }
        self.0.lock().push_back(error);
        Ok(())
    }

    /// The oldest that nobody took yet.
    pub(crate) fn take(&self) -> Option<Error> {
        self.0.lock().pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

/// A cursor over entries in internal order.
///
/// Fresh cursors are not valid until a seek. After an error the cursor is not valid. `key` and
/// `value` require `valid`; calling them otherwise is a bug of the caller and may panic.
pub(crate) trait InternalIterator: Send {
    /// Whether the cursor stands on an entry.
    fn valid(&self) -> bool;
    /// To the first entry.
    fn seek_to_first(&mut self) -> Result<()>;
    /// To the last entry.
    fn seek_to_last(&mut self) -> Result<()>;
    /// To the first entry at or after (`key`, `seq`) in internal order.
    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()>;
    /// To the last entry strictly before (`key`, `seq`) in internal order.
    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()>;
    /// To the next entry; invalid after the last.
    fn next(&mut self) -> Result<()>;
    /// To the previous entry; invalid before the first.
    fn prev(&mut self) -> Result<()>;
    /// The entry's key.
    fn key(&self) -> EntryKey<'_>;
    /// The entry's value; empty for deletes. This is what may read and decode a frame: walking
    /// keys alone never does.
    fn value(&self) -> Result<Bytes>;
    /// The length of the value; reads no frame.
    fn value_len(&self) -> usize;
    /// Where the value lies, if in a frame of a table; reads no frame.
    fn stored_value(&self) -> Option<StoredValue> {
        None
    }
}

/// Deletes every entry of the keys in `start..end` that is older than `seq`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RangeTombstone {
    pub(crate) start: Vec<u8>,
    /// Exclusive; none reaches to the end of the keyspace.
    pub(crate) end: Option<Vec<u8>>,
    pub(crate) seq: SeqNo,
}

impl RangeTombstone {
    /// Whether the tombstone's range holds `key`.
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        key >= self.start.as_slice() && self.end.as_deref().is_none_or(|end| key < end)
    }
}
