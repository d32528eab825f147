//! All keyspaces at one moment.

use std::sync::Arc;

use bytes::Bytes;

use super::handle::Db;
use super::iter::{Iter, IterOptions};
use super::keyspace::Keyspace;
use crate::error::{Error, Result};
use crate::types::{KeyRange, SeqNo};

/// The store at one moment, across all its keyspaces. Keeps the store open, and what it can see on
/// disk, until it is dropped.
#[derive(Debug)]
pub struct Snapshot {
    db: Db,
    id: u64,
    seq: SeqNo,
}

impl Snapshot {
    pub(super) fn new(db: Db) -> Self {
        let inner = db.inner();
        let (id, seq) = inner.snapshots.acquire(&inner.visible);
        Self { db, id, seq }
    }

    /// The newest write that the snapshot sees.
    #[must_use]
    pub fn seq(&self) -> SeqNo {
        self.seq
    }

    /// As [`Keyspace::get`].
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        self.check(keyspace)?;
        let inner = self.db.inner();
        inner.get(keyspace.space(), key.as_ref(), Some(self.seq), None)
    }

    /// As [`Keyspace::get_into`].
    pub fn get_into(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        self.check(keyspace)?;
        let inner = self.db.inner();
        inner.get_into(keyspace.space(), key.as_ref(), Some(self.seq), out)
    }

    /// As [`Keyspace::contains`].
    pub fn contains(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        self.check(keyspace)?;
        let inner = self.db.inner();
        inner.contains(keyspace.space(), key.as_ref(), Some(self.seq))
    }

    /// As [`Keyspace::multi_get`].
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
    ) -> Vec<Result<Option<Bytes>>> {
        if let Err(error) = self.check(keyspace) {
            return keys.iter().map(|_| Err(error.duplicate())).collect();
        }
        let inner = self.db.inner();
        inner.multi_get(keyspace.space(), keys, Some(self.seq))
    }

    /// As [`Keyspace::iter`].
    pub fn iter(&self, keyspace: &Keyspace, range: KeyRange, options: IterOptions) -> Result<Iter> {
        self.check(keyspace)?;
        let inner = self.db.inner();
        Iter::new(inner, keyspace.space(), range, Some(self.seq), options)
    }

    fn check(&self, keyspace: &Keyspace) -> Result<()> {
        if Arc::ptr_eq(self.db.inner(), keyspace.db().inner()) {
            return Ok(());
        }
        Err(
            Error::invalid_input("the snapshot is of another store than the keyspace")
                .in_keyspace(keyspace.name()),
        )
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let inner = self.db.inner();
        inner.snapshots.release(self.id);
        // Compactions that kept versions for it may have something to do now.
        inner.work.wake();
    }
}
