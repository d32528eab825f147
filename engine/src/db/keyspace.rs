//! The handle of one keyspace.

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;

use super::batch::Batch;
use super::handle::Db;
use super::iter::{Iter, IterOptions};
use super::space::Space;
use crate::error::Result;
use crate::options::{Durability, KeyspaceOptions};
use crate::stats::GetTrace;
use crate::table::FrameCensus;
use crate::types::KeyRange;

/// A named ordered map of a store. A handle: clones share it, and keep the store open.
#[derive(Debug, Clone)]
pub struct Keyspace {
    db: Db,
    space: Arc<Space>,
}

impl Keyspace {
    pub(super) fn new(db: Db, space: Arc<Space>) -> Self {
        Self { db, space }
    }

    pub(crate) fn space(&self) -> &Arc<Space> {
        &self.space
    }

    /// The store.
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// The keyspace's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.space.name
    }

    /// The options that tables are written by at this moment.
    #[must_use]
    pub fn options(&self) -> KeyspaceOptions {
        KeyspaceOptions::clone(&self.space.options())
    }

    /// The key's value. It may share memory with a decoded frame in the cache: copy it to keep it
    /// for long.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        self.db.inner().get(&self.space, key.as_ref(), None, None)
    }

    /// The key's value, and what was touched to get it.
    pub fn get_traced(&self, key: impl AsRef<[u8]>) -> Result<(Option<Bytes>, GetTrace)> {
        let trace = RefCell::default();
        let inner = self.db.inner();
        let value = inner.get(&self.space, key.as_ref(), None, Some(&trace))?;
        Ok((value, trace.into_inner()))
    }

    /// Puts the key's value into `out`, whose content it replaces. False, with `out` empty, if the
    /// key has no value.
    pub fn get_into(&self, key: impl AsRef<[u8]>, out: &mut Vec<u8>) -> Result<bool> {
        let inner = self.db.inner();
        inner.get_into(&self.space, key.as_ref(), None, out)
    }

    /// Whether the key has a value. Cheaper than a get: no value is read.
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.db.inner().contains(&self.space, key.as_ref(), None)
    }

    /// The values of many keys, as they are at one moment, in the order of the keys. Reads each
    /// frame that holds some of them once, and large batches on several threads.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<Bytes>>> {
        self.db.inner().multi_get(&self.space, keys, None)
    }

    /// Gives `key` this value.
    pub fn put(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Result<()> {
        let mut batch = Batch::new();
        batch.put(self, key, value);
        self.db.write(batch, durability)
    }

    /// Removes `key`, whether it has a value or not.
    pub fn delete(&self, key: impl AsRef<[u8]>, durability: Durability) -> Result<()> {
        let mut batch = Batch::new();
        batch.delete(self, key);
        self.db.write(batch, durability)
    }

    /// Removes every key in the range, at the cost of one entry.
    pub fn delete_range(&self, range: &KeyRange, durability: Durability) -> Result<()> {
        let mut batch = Batch::new();
        batch.delete_range(self, range);
        self.db.write(batch, durability)
    }

    /// Removes every key that begins with `prefix`, at the cost of one entry.
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>, durability: Durability) -> Result<()> {
        let mut batch = Batch::new();
        batch.delete_prefix(self, prefix);
        self.db.write(batch, durability)
    }

    /// The keys in the range and their values, in order, as they are at this moment.
    pub fn iter(&self, range: KeyRange, options: IterOptions) -> Result<Iter> {
        Iter::new(self.db.inner(), &self.space, range, None, options)
    }

    /// The keys that begin with `prefix` and their values, in order, as they are at this moment.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>, options: IterOptions) -> Result<Iter> {
        self.iter(KeyRange::prefix(prefix.as_ref()), options)
    }

    /// About how many bytes the range takes on disk. Reads no value and no key block; memtables
    /// do not count.
    pub fn approximate_bytes(&self, range: &KeyRange) -> Result<u64> {
        self.db.inner().approximate_bytes(&self.space, range)
    }

    /// The frames of all tables by kind, likeness and depth, as the tables' properties tell, and the
    /// number of tables that do not: older builds wrote them. Reads no key and no value.
    pub fn frame_census(&self) -> Result<(FrameCensus, u64)> {
        self.db.inner().frame_census(&self.space)
    }

    /// The stored bytes of all values in tables, by group: `group_of` says to which group a key
    /// belongs, as an index into the result, and its error ends the count.
    ///
    /// Exact: the sums add up to what the values take. A frame that holds values of several groups
    /// is shared out as their raw bytes are. Older versions and deleted keys count until compaction
    /// drops them; keys, indexes and filters do not count, nor do memtables. Reads all keys, table
    /// by table, and no value.
    pub fn value_bytes_by_group(
        &self,
        group_of: &mut dyn FnMut(&[u8]) -> Result<usize>,
    ) -> Result<Vec<u64>> {
        self.db.inner().value_bytes_by_group(&self.space, group_of)
    }
}
