//! A list of writes that become visible, and survive, all or none.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::keyspace::Keyspace;
use super::space::Space;
use crate::error::{Error, Result};
use crate::types::{KEY_BYTES_MAX, KeyRange, prefix_successor};
use crate::wal::{BatchEncoder, WalOp};

/// Writes to any keyspaces of one store, applied in order and as one.
///
/// The batch keeps its own encoded copy of keys and values, which is what the log and the memtable
/// then share. A key that is too long, or anything else that a batch cannot hold, is remembered and
/// reported by [`Db::write`](crate::Db::write), which writes nothing of such a batch.
#[derive(Debug, Default)]
pub struct Batch {
    encoder: BatchEncoder,
    /// Each keyspace once.
    spaces: Vec<Arc<Space>>,
    error: Option<Error>,
}

/// A batch ready for the log.
#[derive(Debug)]
pub(super) struct Encoded {
    pub(super) payload: Bytes,
    pub(super) count: u32,
    pub(super) raw_bytes: u64,
    pub(super) spaces: Vec<Arc<Space>>,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives `key` this value.
    pub fn put(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let op = WalOp::Put {
            keyspace: keyspace.space().id,
            key: key.as_ref(),
            value: value.as_ref(),
        };
        self.push(keyspace, &op);
    }

    /// Removes `key`, whether it has a value or not.
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) {
        let op = WalOp::Delete {
            keyspace: keyspace.space().id,
            key: key.as_ref(),
        };
        self.push(keyspace, &op);
    }

    /// Removes every key in the range, at the cost of one entry.
    pub fn delete_range(&mut self, keyspace: &Keyspace, range: &KeyRange) {
        let start = match &range.start {
            Bound::Included(start) => Some(start.clone()),
            Bound::Excluded(start) => key_after(start),
            Bound::Unbounded => Some(Vec::new()),
        };
        let end = match &range.end {
            Bound::Included(end) => key_after(end),
            Bound::Excluded(end) => Some(end.clone()),
            Bound::Unbounded => None,
        };
        let Some(start) = start else { return };
        if end.as_ref().is_some_and(|end| *end <= start) {
            return;
        }
        let op = WalOp::DeleteRange {
            keyspace: keyspace.space().id,
            start: &start,
            end: end.as_deref(),
        };
        self.push(keyspace, &op);
    }

    /// Removes every key that begins with `prefix`, at the cost of one entry.
    pub fn delete_prefix(&mut self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) {
        self.delete_range(keyspace, &KeyRange::prefix(prefix.as_ref()));
    }

    /// Number of writes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.encoder.count() as usize
    }

    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of keys and values, at most [`BATCH_BYTES_MAX`](crate::BATCH_BYTES_MAX).
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.encoder.user_bytes()
    }

    fn push(&mut self, keyspace: &Keyspace, op: &WalOp<'_>) {
        if self.error.is_some() {
            return;
        }
        if let Err(error) = self.encoder.push(op) {
            self.error = Some(error.in_keyspace(keyspace.name()));
            return;
        }
        let space = keyspace.space();
        if !self.spaces.iter().any(|known| Arc::ptr_eq(known, space)) {
            self.spaces.push(Arc::clone(space));
        }
    }

    pub(super) fn encode(self) -> Result<Encoded> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let (count, raw_bytes) = (self.encoder.count(), self.encoder.user_bytes() as u64);
        let mut payload = self.encoder.into_payload();
        // The memtable keeps the payload, and is charged its length.
        if payload.capacity() - payload.len() > payload.len() / 4 {
            payload.shrink_to_fit();
        }
        Ok(Encoded {
            payload: Bytes::from(payload),
            count,
            raw_bytes,
            spaces: self.spaces,
        })
    }
}

/// The smallest key after `key`; none if there is none.
fn key_after(key: &[u8]) -> Option<Vec<u8>> {
    if key.len() < KEY_BYTES_MAX {
        return Some([key, &[0]].concat());
    }
    // Nothing can extend the longest keys.
    prefix_successor(key)
}
